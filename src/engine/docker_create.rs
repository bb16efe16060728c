//! The one way in which containers are made: everything closed, then what the specification opens.
//!
//! `docker_inspect` reads the same fields back; a line added here has its line there.

use std::collections::HashMap;

use bollard::{
    models::{
        ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
        Mount as DockerMount, MountBindOptions, MountBindOptionsPropagationEnum, MountTmpfsOptions,
        MountType, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
    },
    query_parameters::CreateContainerOptionsBuilder,
};

use super::{
    ContainerSpec, Engine, EngineError, ImageInfo, LABEL_SPEC, Mount, Result, Tmpfs, docker::DockerEngine,
};

/// Names of the variables that skep set: the engine mixes in the image's.
pub(super) const LABEL_ENV: &str = "skep.env";
/// The runtime that was asked for: the engine writes its default's name otherwise.
pub(super) const LABEL_RUNTIME: &str = "skep.runtime";
/// Name, soft and hard limit. A core limit of one byte keeps the kernel from writing and from piping core dumps
/// (core(5)); 0 would still start a handler on the host.
/// The number of files is left to the engine: more than its own it cannot give, and its own is not told.
pub(super) const ULIMITS: [(&str, i64, i64); 1] = [("core", 1, 1)];
/// The bounded log: the init says little, agents' output has its own place.
pub(super) const LOG: (&str, [(&str, &str); 2]) = ("json-file", [("max-size", "1m"), ("max-file", "1")]);
pub(super) const NO_NEW_PRIVILEGES: &str = "no-new-privileges";

impl DockerEngine {
    /// See [`Engine::create`]. An image that is no longer what the specification says is a conflict; a limit
    /// that the engine drops is a refusal.
    pub(super) async fn create_container(&self, spec: &ContainerSpec, spec_hash: &str) -> Result<String> {
        let image = self.inspect_image(&spec.image).await?;
        if image.id != spec.image_id {
            return Err(EngineError::Conflict(format!(
                "image {} is {} now, wanted {}",
                spec.image, image.id, spec.image_id
            )));
        }
        let mut body = create_body(spec, &image);
        if let Some(labels) = &mut body.labels {
            labels.insert(LABEL_SPEC.to_owned(), spec_hash.to_owned());
        }
        self.create_from(&spec.name, body).await
    }

    pub(super) async fn create_from(&self, name: &str, body: ContainerCreateBody) -> Result<String> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let what = format!("creating container {name}");
        let created =
            self.call(&what, super::docker::WORK, |c| async move {
                c.create_container(Some(options), body).await
            })
            .await?;
        let dropped =
            created.warnings.iter().find(|w| w.contains("discarded") && !w.to_lowercase().contains("swap"));
        if let Some(warning) = dropped {
            self.remove(&created.id).await?;
            return Err(EngineError::Refused(format!("{what}: the engine cannot limit it: {warning}")));
        }
        Ok(created.id)
    }
}

/// A whole request.
pub(super) fn create_body(spec: &ContainerSpec, image: &ImageInfo) -> ContainerCreateBody {
    let mut labels: HashMap<_, _> = spec.labels.clone().into_iter().collect();
    let names: Vec<_> = spec.env.keys().map(String::as_str).collect();
    labels.insert(LABEL_ENV.to_owned(), names.join(","));
    if let Some(runtime) = &spec.runtime {
        labels.insert(LABEL_RUNTIME.to_owned(), runtime.clone());
    }
    ContainerCreateBody {
        image: Some(spec.image.clone()),
        hostname: Some(spec.hostname.clone()),
        user: Some(format!("{}:{}", spec.user.0, spec.user.1)),
        working_dir: Some(spec.working_dir.clone()),
        // With an entry point of its own the image's command is left out too.
        entrypoint: Some(spec.command.clone()),
        env: Some(spec.env.iter().map(|(k, v)| format!("{k}={v}")).collect()),
        labels: Some(labels),
        tty: Some(false),
        open_stdin: Some(false),
        stop_signal: Some("SIGTERM".to_owned()),
        stop_timeout: Some(spec.stop_timeout),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..Default::default() }),
        host_config: Some(host_config(spec, image)),
        ..Default::default()
    }
}

fn host_config(spec: &ContainerSpec, image: &ImageInfo) -> HostConfig {
    let bytes = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut mounts: Vec<_> = spec.mounts.iter().map(bind).collect();
    mounts.extend(masked_volumes(spec, image).map(mask));
    let tmpfs = spec.tmpfs.iter();
    let (log, log_options) = LOG;
    HostConfig {
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec![NO_NEW_PRIVILEGES.to_owned()]),
        privileged: Some(false),
        readonly_rootfs: Some(true),
        memory: Some(bytes(spec.memory)),
        memory_swap: Some(bytes(spec.memory)),
        nano_cpus: Some(spec.nano_cpus),
        pids_limit: Some(spec.pids),
        shm_size: Some(bytes(spec.shm_size)),
        oom_kill_disable: Some(false),
        init: Some(false),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        network_mode: Some(spec.network.clone()),
        runtime: spec.runtime.clone(),
        mounts: Some(mounts),
        tmpfs: Some(tmpfs.map(|t| (t.target.clone(), tmpfs_options(t))).collect()),
        ulimits: Some(ULIMITS.map(ulimit).to_vec()),
        log_config: Some(HostConfigLogConfig {
            typ: Some(log.to_owned()),
            config: Some(log_options.map(|(k, v)| (k.to_owned(), v.to_owned())).into()),
        }),
        restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), ..Default::default() }),
        ..Default::default()
    }
}

fn ulimit((name, soft, hard): (&str, i64, i64)) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(soft), hard: Some(hard) }
}

fn bind(mount: &Mount) -> DockerMount {
    DockerMount {
        typ: Some(MountType::BIND),
        source: Some(mount.source.to_string_lossy().into_owned()),
        target: Some(mount.target.clone()),
        read_only: Some(mount.read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            // What is mounted below the source would come along writable.
            non_recursive: Some(true),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The image's VOLUMEs that nothing of ours covers. The engine would make an anonymous writable volume of each,
/// which no limit counts.
pub(super) fn masked_volumes<'a>(
    spec: &'a ContainerSpec,
    image: &'a ImageInfo,
) -> impl Iterator<Item = &'a str> {
    let ours = |path: &str| {
        spec.mounts.iter().any(|m| m.target == path) || spec.tmpfs.iter().any(|t| t.target == path)
    };
    image.volumes.iter().map(|v| if v == "/" { v } else { v.trim_end_matches('/') }).filter(move |v| !ours(v))
}

/// A page of read-only memory takes the volume's place.
fn mask(volume: &str) -> DockerMount {
    DockerMount {
        typ: Some(MountType::TMPFS),
        target: Some(volume.to_owned()),
        read_only: Some(true),
        tmpfs_options: Some(MountTmpfsOptions {
            size_bytes: Some(4096),
            mode: Some(0o555),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Options of mount(8) for tmpfs.
fn tmpfs_options(tmpfs: &Tmpfs) -> String {
    format!(
        "rw,nosuid,nodev,{},size={},mode={:o},uid={},gid={}",
        if tmpfs.exec { "exec" } else { "noexec" },
        tmpfs.size,
        tmpfs.mode,
        tmpfs.user.0,
        tmpfs.user.1
    )
}

/// The reverse of [`tmpfs_options`]; none when `nosuid` or `nodev` is missing or an option is unknown.
pub(super) fn parse_tmpfs(target: &str, options: &str) -> Option<Tmpfs> {
    let mut tmpfs = Tmpfs { target: target.to_owned(), size: 0, mode: 0, exec: false, user: (0, 0) };
    let (mut nosuid, mut nodev) = (false, false);
    for option in options.split(',') {
        match option.split_once('=').unwrap_or((option, "")) {
            ("rw", _) => {}
            ("nosuid", _) => nosuid = true,
            ("nodev", _) => nodev = true,
            ("exec", _) => tmpfs.exec = true,
            ("noexec", _) => tmpfs.exec = false,
            ("size", n) => tmpfs.size = n.parse().ok()?,
            ("mode", n) => tmpfs.mode = u32::from_str_radix(n, 8).ok()?,
            ("uid", n) => tmpfs.user.0 = n.parse().ok()?,
            ("gid", n) => tmpfs.user.1 = n.parse().ok()?,
            _ => return None,
        }
    }
    (nosuid && nodev).then_some(tmpfs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_in_memory_file_system_is_read_back_as_it_was_written() {
        for exec in [true, false] {
            let tmpfs = Tmpfs {
                target: "/tmp".to_owned(),
                size: 1 << 30,
                mode: 0o1777,
                exec,
                user: (100_000, 65_534),
            };
            assert_eq!(parse_tmpfs("/tmp", &tmpfs_options(&tmpfs)), Some(tmpfs));
        }
        assert_eq!(parse_tmpfs("/tmp", "rw,exec,size=1"), None);
        assert_eq!(parse_tmpfs("/tmp", ""), None);
    }
}

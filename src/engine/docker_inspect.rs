//! Reads a container back: the specification as the engine really has it, and every softness.
//!
//! Labels are believed for one thing only: which of two equal spellings was used at creation.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use bollard::models::{
    ContainerConfig, ContainerInspectResponse, HostConfig, HostConfigCgroupnsModeEnum, MountPoint,
    RestartPolicyNameEnum,
};

use super::{
    ContainerSpec, ContainerState, EngineError, ImageInfo, Inspected, LABEL_SPEC, Mount, Result,
    docker::{ASK, Abilities, DockerEngine},
    docker_create::{LABEL_ENV, LABEL_RUNTIME, LOG, NO_NEW_PRIVILEGES, ULIMITS, parse_tmpfs},
};

impl DockerEngine {
    /// See [`super::Engine::inspect`].
    pub(super) async fn inspect_container(&self, name: &str) -> Result<Inspected> {
        let options = None::<bollard::query_parameters::InspectContainerOptions>;
        let found =
            self.call(&format!("container {name}"), ASK, |c| async move {
                c.inspect_container(name, options).await
            })
            .await?;
        let image = match self.cached_image(found.image.as_deref().unwrap_or_default()).await {
            Ok(image) => image,
            // Removed by force: what it gave the container cannot be told from additions, and shows as such.
            Err(EngineError::NotFound(_)) => Arc::new(ImageInfo::default()),
            Err(e) => return Err(e),
        };
        let abilities = self.abilities().await?;
        Ok(Raw::new(&found, &image, &abilities).inspected())
    }
}

/// The engine's answer with its optional parts filled in.
struct Raw<'a> {
    all: &'a ContainerInspectResponse,
    config: ContainerConfig,
    host: HostConfig,
    mounts: Vec<MountPoint>,
    image: &'a ImageInfo,
    abilities: &'a Abilities,
}

impl<'a> Raw<'a> {
    fn new(all: &'a ContainerInspectResponse, image: &'a ImageInfo, abilities: &'a Abilities) -> Self {
        Self {
            all,
            config: all.config.clone().unwrap_or_default(),
            host: all.host_config.clone().unwrap_or_default(),
            mounts: all.mounts.clone().unwrap_or_default(),
            image,
            abilities,
        }
    }

    fn inspected(&self) -> Inspected {
        let mut weaknesses = Vec::new();
        self.privileges(&mut weaknesses);
        self.namespaces(&mut weaknesses);
        self.file_systems(&mut weaknesses);
        self.rest(&mut weaknesses);
        Inspected {
            id: self.all.id.clone().unwrap_or_default(),
            state: self.state(),
            spec_label: self.label(LABEL_SPEC).map(str::to_owned),
            spec: self.spec(),
            weaknesses,
        }
    }

    fn state(&self) -> ContainerState {
        let state = self.all.state.clone().unwrap_or_default();
        ContainerState {
            running: state.running.unwrap_or(false),
            paused: state.paused.unwrap_or(false),
            pid: state.pid.and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
            exit_code: state.exit_code.unwrap_or(0),
            oom_killed: state.oom_killed.unwrap_or(false),
            // Year 1 stands for never.
            started_at: state.started_at.filter(|t| !t.starts_with("0001-")),
            finished_at: state.finished_at.filter(|t| !t.starts_with("0001-")),
            error: state.error.unwrap_or_default(),
        }
    }

    fn spec(&self) -> ContainerSpec {
        let (config, host) = (&self.config, &self.host);
        let mut command = config.entrypoint.clone().unwrap_or_default();
        command.extend(config.cmd.clone().unwrap_or_default());
        ContainerSpec {
            name: self.all.name.as_deref().map_or_else(String::new, |n| n.trim_start_matches('/').to_owned()),
            image: config.image.clone().unwrap_or_default(),
            image_id: self.all.image.clone().unwrap_or_default(),
            command,
            env: self.env(),
            user: self.user().unwrap_or((0, 0)),
            working_dir: config.working_dir.clone().unwrap_or_default(),
            hostname: config.hostname.clone().unwrap_or_default(),
            mounts: self.binds(),
            tmpfs: self.tmpfs().filter_map(|(t, o)| parse_tmpfs(t, o)).collect(),
            memory: positive(host.memory),
            nano_cpus: host.nano_cpus.unwrap_or(0),
            pids: host.pids_limit.unwrap_or(0),
            shm_size: positive(host.shm_size),
            network: host.network_mode.clone().unwrap_or_default(),
            runtime: self.runtime(),
            stop_timeout: config.stop_timeout.unwrap_or(0),
            labels: self.labels(),
        }
    }

    fn label(&self, name: &str) -> Option<&str> {
        let labels = self.config.labels.as_ref()?;
        labels.get(name).map(String::as_str)
    }

    /// What skep set, and what is neither skep's nor the image's.
    fn env(&self) -> BTreeMap<String, String> {
        let ours: Vec<_> = self.label(LABEL_ENV).unwrap_or("").split(',').collect();
        let all = self.config.env.iter().flatten();
        all.filter_map(|entry| {
            let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
            let from_image = !ours.contains(&name) && self.image.env.contains(entry);
            (!from_image).then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let own = [LABEL_SPEC, LABEL_ENV, LABEL_RUNTIME];
        let all = self.config.labels.iter().flatten();
        all.filter(|(name, value)| {
            !own.contains(&name.as_str()) && self.image.labels.get(*name) != Some(*value)
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
    }

    fn user(&self) -> Option<(u32, u32)> {
        let (uid, gid) = self.config.user.as_deref()?.split_once(':')?;
        Some((uid.parse().ok()?, gid.parse().ok()?))
    }

    fn runtime(&self) -> Option<String> {
        let runtime = self.host.runtime.clone().unwrap_or_default();
        let by_default = self.label(LABEL_RUNTIME).is_none()
            && (runtime.is_empty() || runtime == self.abilities.default_runtime);
        (!by_default).then_some(runtime)
    }

    fn binds(&self) -> Vec<Mount> {
        let binds = self.mounts.iter().filter(|m| is(m, "bind"));
        let mut mounts: Vec<_> = binds
            .map(|m| Mount {
                target: m.destination.clone().unwrap_or_default(),
                source: PathBuf::from(m.source.clone().unwrap_or_default()),
                read_only: m.rw == Some(false),
            })
            .collect();
        mounts.sort();
        mounts
    }

    /// Target and options, sorted by target.
    fn tmpfs(&self) -> impl Iterator<Item = (&str, &str)> {
        let sorted: BTreeMap<_, _> = self.host.tmpfs.iter().flatten().collect();
        sorted.into_iter().map(|(t, o)| (t.as_str(), o.as_str()))
    }

    fn privileges(&self, faults: &mut Vec<String>) {
        let host = &self.host;
        let mut fault = |holds: bool, text: &str| {
            if !holds {
                faults.push(text.to_owned());
            }
        };
        fault(host.privileged != Some(true), "the container is privileged");
        fault(
            host.cap_drop.iter().flatten().any(|c| c.eq_ignore_ascii_case("ALL")),
            "capabilities are not dropped",
        );
        fault(none(host.cap_add.as_ref()), "capabilities are added");
        fault(
            self.user().is_some_and(|(uid, gid)| uid != 0 && gid != 0),
            "the user is root, or not given as uid:gid",
        );
        fault(none(host.group_add.as_ref()), "groups are added");
        fault(none(host.devices.as_ref()), "devices are passed in");
        fault(none(host.device_requests.as_ref()), "devices are requested");
        fault(none(host.device_cgroup_rules.as_ref()), "device rules are added");
        fault(host.oom_score_adj.unwrap_or(0) >= 0, "the container is spared by the out-of-memory killer");
        fault(host.oom_kill_disable != Some(true), "the out-of-memory killer is off");
        let options: Vec<_> = host.security_opt.iter().flatten().collect();
        fault(
            options.iter().any(|o| {
                *o == NO_NEW_PRIVILEGES || *o == "no-new-privileges:true" || *o == "no-new-privileges=true"
            }),
            "new privileges are not forbidden",
        );
        fault(
            !options.iter().any(|o| o.starts_with("seccomp")),
            "the seccomp profile is not the engine's own",
        );
        fault(
            !options
                .iter()
                .any(|o| o.starts_with("apparmor") || o.starts_with("label") || o.starts_with("systempaths")),
            "the security profile is not the engine's own",
        );
        fault(
            self.all.app_armor_profile.as_deref() != Some("unconfined"),
            "AppArmor is off for the container",
        );
    }

    fn namespaces(&self, faults: &mut Vec<String>) {
        let host = &self.host;
        let modes = [
            ("pid", host.pid_mode.as_deref(), ""),
            ("uts", host.uts_mode.as_deref(), ""),
            ("user", host.userns_mode.as_deref(), ""),
            ("ipc", host.ipc_mode.as_deref(), "private"),
        ];
        for (what, mode, wanted) in modes {
            if mode.unwrap_or("") != wanted {
                let mode = mode.unwrap_or("");
                faults.push(format!("the {what} namespace is {mode:?}, wanted {wanted:?}"));
            }
        }
        if host.cgroupns_mode != Some(HostConfigCgroupnsModeEnum::PRIVATE) {
            faults.push("the cgroup namespace is not private".to_owned());
        }
        let wanted = host.network_mode.as_deref().unwrap_or("");
        if wanted == "host" || wanted.starts_with("container:") {
            faults.push(format!("the network namespace is {wanted}"));
        }
        let networks = self.all.network_settings.as_ref();
        let joined = networks.and_then(|n| n.networks.as_ref()).into_iter().flatten();
        for (name, _) in joined.filter(|(name, _)| *name != wanted) {
            faults.push(format!("the container is also on network {name}"));
        }
        if !none_map(host.port_bindings.as_ref()) || host.publish_all_ports == Some(true) {
            faults.push("ports are published".to_owned());
        }
        if !none_map(host.sysctls.as_ref()) {
            faults.push("kernel parameters are set".to_owned());
        }
        if !none(host.extra_hosts.as_ref()) || !none(host.links.as_ref()) {
            faults.push("host names are added".to_owned());
        }
    }

    fn file_systems(&self, faults: &mut Vec<String>) {
        let host = &self.host;
        if host.readonly_rootfs != Some(true) {
            faults.push("the root file system is writable".to_owned());
        }
        if none(host.masked_paths.as_ref()) || none(host.readonly_paths.as_ref()) {
            faults.push("paths of the kernel are not masked".to_owned());
        }
        if !none(host.volumes_from.as_ref()) {
            faults.push("volumes of another container are mounted".to_owned());
        }
        for (target, options) in self.tmpfs() {
            if parse_tmpfs(target, options).is_none() {
                faults.push(format!("{target} is mounted with options {options:?}"));
            }
        }
        for mount in &self.mounts {
            let target = mount.destination.as_deref().unwrap_or_default();
            if is(mount, "tmpfs") {
                let masks = self.image.volumes.iter().any(|v| v.trim_end_matches('/') == target);
                if !masks || mount.rw == Some(true) {
                    faults.push(format!("an in-memory file system is mounted at {target}"));
                }
            } else if !is(mount, "bind") {
                faults.push(format!("a volume is mounted at {target}"));
            } else if !matches!(mount.propagation.as_deref(), Some("rprivate" | "private")) {
                faults.push(format!("mounts spread between the host and {target}"));
            }
        }
    }

    fn rest(&self, faults: &mut Vec<String>) {
        let (config, host) = (&self.config, &self.host);
        let mut fault = |holds: bool, text: &str| {
            if !holds {
                faults.push(text.to_owned());
            }
        };
        fault(!self.abilities.swap_limit || host.memory_swap == host.memory, "swap is not limited");
        let health = config.healthcheck.as_ref().and_then(|h| h.test.as_ref());
        fault(health.is_some_and(|t| t.iter().eq(["NONE"])), "the image's health check is on");
        fault(
            matches!(config.stop_signal.as_deref(), Some("SIGTERM" | "15")),
            "the stop signal is not SIGTERM",
        );
        fault(host.init != Some(true), "the engine's init stands before ours");
        let policy = host.restart_policy.as_ref().and_then(|p| p.name);
        fault(
            matches!(policy, None | Some(RestartPolicyNameEnum::NO | RestartPolicyNameEnum::EMPTY)),
            "the engine restarts it by itself",
        );
        fault(host.auto_remove != Some(true), "the engine removes it by itself");
        let log = host.log_config.clone().unwrap_or_default();
        let options = log.config.unwrap_or_default();
        fault(
            log.typ.as_deref() == Some(LOG.0)
                && LOG.1.iter().all(|(k, v)| options.get(*k).map(String::as_str) == Some(*v)),
            "the log is not bounded",
        );
        for (name, soft, hard) in ULIMITS {
            let holds = host
                .ulimits
                .iter()
                .flatten()
                .any(|u| u.name.as_deref() == Some(name) && u.soft == Some(soft) && u.hard == Some(hard));
            fault(holds, &format!("limit {name} is not {soft}:{hard}"));
        }
    }
}

fn is(mount: &MountPoint, kind: &str) -> bool {
    mount.typ.as_deref() == Some(kind)
}

fn positive(n: Option<i64>) -> u64 {
    n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

fn none<T>(list: Option<&Vec<T>>) -> bool {
    list.is_none_or(Vec::is_empty)
}

fn none_map<K, V>(map: Option<&std::collections::HashMap<K, V>>) -> bool {
    map.is_none_or(std::collections::HashMap::is_empty)
}

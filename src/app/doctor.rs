//! What `skep doctor` looks at: the engine, its runtime, the kernel, tools, space, images, the hive.
//!
//! Only looks; every finding that is not `ok` brings its remedy. Versions with published escapes
//! are named with their CVE.

use std::{fs, path::Path};

use jiff::{SignedDuration, Timestamp};
use semver::Version;

use super::{Hive, types::Finding};
use crate::{
    config::{self, model::Network},
    db::{self, events::Event},
    engine::{Engine, EngineError, EngineInfo, NetworkSpec, firewall},
    images::DEFAULT_IMAGE,
    notify::Targets,
};

/// What is told of a notice that is not tried again.
const GIVEN_UP: &str = "notify:failed";
/// Such news are told for so long, and at most so many of them.
const LATELY: SignedDuration = SignedDuration::from_hours(24);
const MOST_TOLD: usize = 100;

/// Free space below which agents will soon fail, in bytes.
const LITTLE_SPACE: u64 = 2 << 30;

impl Hive {
    /// What is missing, wrong or unsafe, as the supervisor sees it.
    pub async fn doctor(&self) -> Vec<Finding> {
        let mut findings = examine(self.engine.as_ref(), Some(&self.paths.root)).await;
        let world = self.world();
        if world.config.agents.values().any(|a| a.network == Network::Internet) {
            findings.push(self.firewall().await);
        }
        findings.push(users(self.privileged));
        findings.extend(self.notices().await);
        findings
    }

    /// Targets of notices that cannot be sent to, and notices that nobody got.
    async fn notices(&self) -> Vec<Finding> {
        let world = self.world();
        let targets = Targets::resolve(&world.config.notify, &world.secrets);
        let unable = |(name, why): (&str, &str)| {
            let remedy = "set it right: what waits is tried for 24 hours, then given up";
            warning("notify", format!("nothing can be sent to the target {name}: {why}"), remedy)
        };
        let mut findings: Vec<Finding> = targets.problems().map(unable).collect();
        let since = self.now().saturating_sub(LATELY).unwrap_or(Timestamp::MIN);
        let lost = self.db.read(|conn| {
            let after = db::events::before_last(conn, Some(GIVEN_UP), MOST_TOLD)?;
            db::events::named(conn, after, Some(GIVEN_UP), MOST_TOLD)
        });
        match lost.await {
            Ok(mut lost) => {
                lost.retain(|event| event.at >= since);
                findings.extend(given_up(&lost));
            }
            Err(e) => findings.push(warning("notify", e.to_string(), "look at the supervisor's log")),
        }
        if findings.is_empty() && targets.names().next().is_some() {
            findings.push(ok("notify", "every target can be sent to, and every notice of late came through"));
        }
        findings
    }

    /// Whether agents with `network = "internet"` are kept from the host and from each other.
    async fn firewall(&self) -> Finding {
        let bridge = NetworkSpec::internet(&self.name).bridge;
        match firewall::check(&self.name, &bridge).await {
            Ok(missing) if missing.is_empty() => {
                ok("firewall", "agents with network \"internet\" reach neither the host nor other containers")
            }
            Ok(missing) => warning(
                "firewall",
                missing.join("; "),
                "restart such an agent while the supervisor runs as root: it adds the rules",
            ),
            Err(e) => {
                warning("firewall", e.to_string(), "run the supervisor as root, with iptables installed")
            }
        }
    }
}

/// Of notices that were given up, the last one tells for all.
fn given_up(lost: &[Event]) -> Option<Finding> {
    let last = lost.last()?;
    let text = |key: &str| last.data[key].as_str().unwrap_or("?").to_owned();
    let count = match lost.len() {
        1 => "a notice was".to_owned(),
        MOST_TOLD => format!("{MOST_TOLD} notices or more were"),
        count => format!("{count} notices were"),
    };
    let message = format!(
        "{count} given up in the last 24 hours, the last one to {}: {}",
        text("target"),
        text("error")
    );
    Some(warning("notify", message, "`skep events` shows each as notify:failed; set [notify] right"))
}

fn users(privileged: bool) -> Finding {
    if privileged {
        return ok("users", "every agent has a uid of its own");
    }
    warning(
        "users",
        "all agents run with the supervisor's own uid and share its limits",
        "run the supervisor as root, so that each agent gets a uid of its own",
    )
}

/// Looks at everything; `hive` is a folder with `skep.toml`.
pub async fn examine(engine: &dyn Engine, hive: Option<&Path>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(hive) = hive {
        findings.push(configuration(hive));
    }
    match engine.info().await {
        Ok(info) => {
            about_engine(&info, &mut findings);
            images(engine, hive, &mut findings).await;
        }
        Err(error) => findings.push(no_engine(&error)),
    }
    findings.extend(kernel());
    findings.push(iptables());
    findings.push(landlock());
    findings.push(space(hive.unwrap_or(Path::new("/"))));
    findings.push(base_tools());
    findings
}

fn ok(check: &str, message: impl Into<String>) -> Finding {
    Finding { check: check.into(), level: "ok".into(), message: message.into(), remedy: None }
}

fn warning(check: &str, message: impl Into<String>, remedy: &str) -> Finding {
    Finding { level: "warning".into(), remedy: Some(remedy.into()), ..ok(check, message) }
}

fn error(check: &str, message: impl Into<String>, remedy: &str) -> Finding {
    Finding { level: "error".into(), ..warning(check, message, remedy) }
}

fn configuration(hive: &Path) -> Finding {
    match config::load(hive) {
        Ok(loaded) if loaded.warnings.is_empty() => ok("skep.toml", "is valid"),
        Ok(loaded) => {
            let message = format!("is valid, with {} warnings", loaded.warnings.len());
            warning("skep.toml", message, "`skep validate` shows them")
        }
        Err(config::ConfigError::Invalid { faults, .. }) => {
            let first = faults.first().map(ToString::to_string).unwrap_or_default();
            error(
                "skep.toml",
                format!("{} wrong: {first}", faults.len()),
                "`skep validate` shows every mistake",
            )
        }
        Err(e) => error("skep.toml", e.to_string(), "check its permissions"),
    }
}

fn no_engine(fault: &EngineError) -> Finding {
    let remedy = "install and start Docker (Debian, Ubuntu: `apt install docker.io`, or `make setup`), let your user \
                  into the group `docker`, or set DOCKER_HOST";
    let why = match fault {
        EngineError::Unavailable(why) => why.clone(),
        other => other.to_string(),
    };
    error("engine", format!("does not answer: {why}"), remedy)
}

fn about_engine(info: &EngineInfo, findings: &mut Vec<Finding>) {
    findings.push(engine_version(info));
    findings.push(match &info.runtime_version {
        Some(text) => runc(text),
        None => warning("runc", "the engine does not tell its version", "look with `runc --version`"),
    });
    findings.push(if info.cgroup_version == "2" {
        ok("cgroup", "version 2")
    } else {
        let remedy = "boot with systemd.unified_cgroup_hierarchy=1: on version 1 some limits hold less well";
        warning("cgroup", format!("version {}", info.cgroup_version), remedy)
    });
    let seccomp = info.security_options.iter().any(|o| o.contains("seccomp") && !o.contains("unconfined"));
    findings.push(if seccomp {
        ok("seccomp", "the engine filters system calls")
    } else {
        error(
            "seccomp",
            "the engine filters no system calls",
            "use a kernel with CONFIG_SECCOMP and an engine built with seccomp",
        )
    });
    for told in info.warnings.iter().filter(|w| !w.trim().is_empty()) {
        let remedy = "see the engine's documentation; limits that it lacks are not enforced";
        findings.push(warning("engine", told.trim().trim_start_matches("WARNING: "), remedy));
    }
}

fn engine_version(info: &EngineInfo) -> Finding {
    let message =
        format!("version {}, API {}, storage {}", info.version, info.api_version, info.storage_driver);
    let mut numbers = info.api_version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    let api = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if api < (1, 41) {
        return error("engine", message, "skep needs API 1.41: install Docker 20.10 or newer");
    }
    ok("engine", message)
}

/// Major, minor, patch.
type Release = (u64, u64, u64);

/// Escapes of runc that were published, and the first versions without them: before the first of a
/// line's fixes everything is affected; a later line has a fix of its own.
const ESCAPES: [(&str, &[Release]); 2] = [
    ("CVE-2024-21626", &[(1, 1, 12)]),
    ("CVE-2025-31133, CVE-2025-52565, CVE-2025-52881", &[(1, 2, 8), (1, 3, 3)]),
];

fn runc(text: &str) -> Finding {
    let Some(version) = runc_version(text) else {
        let remedy = "look with `runc --version`: it should be 1.2.8, 1.3.3 or newer";
        return warning("runc", format!("its version {text:?} is not understood"), remedy);
    };
    let known: Vec<&str> =
        ESCAPES.iter().filter(|(_, fixes)| !is_fixed(&version, fixes)).map(|(name, _)| *name).collect();
    if known.is_empty() {
        return ok("runc", format!("version {version}"));
    }
    let message = format!("version {version} has published escapes from containers: {}", known.join(", "));
    let remedy = "install runc 1.2.8, 1.3.3 or newer, or a package of your distribution that has the fixes (its \
                  changelog names them), then restart the engine";
    warning("runc", message, remedy)
}

fn is_fixed(version: &Version, fixes: &[Release]) -> bool {
    // A pre-release comes before the release that has the fix.
    let has = |(major, minor, patch): Release| *version >= Version::new(major, minor, patch);
    let line = (version.major, version.minor);
    match fixes.iter().find(|f| (f.0, f.1) == line) {
        Some(fix) => has(*fix),
        None => fixes.last().is_some_and(|newest| has(*newest)),
    }
}

/// `1.1.5+ds1-1+deb12u1`, `v1.3.0-rc.2`, `1.0.0~rc93+ds1`: the version proper.
fn runc_version(text: &str) -> Option<Version> {
    let text = text.trim().trim_start_matches('v').replace('~', "-");
    let text = text.split(['+', ' ']).next()?;
    let (numbers, pre) = text.split_once('-').unwrap_or((text, ""));
    let mut version = Version::parse(numbers).ok()?;
    // What distributions append (`-1`, `-0ubuntu1`) is no pre-release.
    if pre.starts_with("rc") || pre.starts_with("alpha") || pre.starts_with("beta") {
        version.pre = semver::Prerelease::new(pre).ok()?;
    }
    Some(version)
}

async fn images(engine: &dyn Engine, hive: Option<&Path>, findings: &mut Vec<Finding>) {
    let mut wanted = std::collections::BTreeSet::new();
    if let Some(loaded) = hive.and_then(|hive| config::load(hive).ok()) {
        wanted.extend(loaded.config.agents.into_values().map(|agent| agent.image));
    }
    if wanted.is_empty() {
        wanted.insert(DEFAULT_IMAGE.to_owned());
    }
    for name in wanted {
        findings.push(match engine.image(&name).await {
            Ok(image) => {
                ok("image", format!("{name} is there ({})", image.id.get(..19).unwrap_or(&image.id)))
            }
            Err(EngineError::NotFound(_)) if name == DEFAULT_IMAGE => warning(
                "image",
                format!("{name} is not there"),
                "it is built when the first agent starts, which takes minutes; `make images` does it now",
            ),
            Err(EngineError::NotFound(_)) => warning(
                "image",
                format!("{name} is not there"),
                "it is pulled when its first agent starts; where no registry is reachable, load it first",
            ),
            Err(e) => error("image", format!("{name}: {e}"), "check the name in skep.toml"),
        });
    }
}

/// openat2 (5.6) reads hostile folders; pidfd and cgroup features in use are older.
fn kernel() -> Option<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let release = release.trim();
    let mut numbers = release.split(['.', '-']).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next()?, numbers.next()?);
    Some(if version < (5, 6) {
        error("kernel", release, "skep needs Linux 5.6 or newer")
    } else {
        ok("kernel", format!("Linux {release}"))
    })
}

/// A program in one of the folders where a system keeps its programs.
fn installed(program: &str) -> bool {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).is_file())
}

fn iptables() -> Finding {
    if installed("iptables") {
        return ok("iptables", "is installed");
    }
    let remedy = "install iptables (Debian, Ubuntu: `apt install iptables`): without it agents with network = \
                  \"internet\" are not started, since the host could not be closed to them";
    warning("iptables", "is not installed", remedy)
}

/// The version that the kernel itself answers; the list of security modules is often not mounted.
fn landlock() -> Finding {
    const ASK_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no ruleset and answers a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, ASK_VERSION)
    };
    match version {
        6.. => ok("landlock", format!("version {version}: process trees of an agent are kept apart")),
        1..6 => warning(
            "landlock",
            format!(
                "version {version} keeps no signals apart: an agent's processes can see each other's secrets"
            ),
            "use a kernel from 6.12; containers are confined without it too",
        ),
        _ => warning(
            "landlock",
            "the kernel has none, or it is off: an agent's processes can see each other's secrets",
            "use a kernel from 6.12 with landlock in its lsm= list; containers are confined without it too",
        ),
    }
}

fn space(folder: &Path) -> Finding {
    match rustix::fs::statvfs(folder) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let message = format!("{:.1} GiB free at {}", free as f64 / f64::from(1 << 30), folder.display());
            if free < LITTLE_SPACE {
                return warning("disk", message, "make room: images, skills and workspaces need space");
            }
            ok("disk", message)
        }
        Err(e) => {
            warning("disk", format!("cannot be measured at {}: {e}", folder.display()), "check the folder")
        }
    }
}

fn base_tools() -> Finding {
    if installed("mmdebstrap") {
        return ok("mmdebstrap", "is installed: the base image can be made without a registry");
    }
    let remedy = "only needed where no image registry is reachable: `apt install mmdebstrap`";
    Finding { remedy: Some(remedy.into()), ..ok("mmdebstrap", "is not installed") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(version: &str) -> String {
        runc(version).level
    }

    #[test]
    fn a_runc_with_published_escapes_is_named_with_each() {
        for bad in
            ["1.1.4", "1.1.5+ds1-1+deb12u1", "1.2.7", "1.3.2", "1.3.0-rc.2", "1.0.0~rc93+ds1", "v1.1.15"]
        {
            assert_eq!(level(bad), "warning", "{bad}");
        }
        for good in ["1.2.8", "1.3.3", "v1.4.0", "2.0.0", "1.3.3-0ubuntu1", "1.2.9+ds1"] {
            assert_eq!(level(good), "ok", "{good}");
        }
        let old = runc("1.1.11").message;
        assert!(old.contains("CVE-2024-21626") && old.contains("CVE-2025-31133"), "{old}");
        let newer = runc("1.1.12").message;
        assert!(!newer.contains("CVE-2024-21626") && newer.contains("CVE-2025-52881"), "{newer}");
        assert_eq!(level("what"), "warning");
    }

    #[test]
    fn whatever_is_not_well_has_a_remedy() {
        let info = EngineInfo {
            version: "19.03".into(),
            api_version: "1.40".into(),
            runtimes: vec![],
            runtime_version: None,
            storage_driver: "overlay2".into(),
            cgroup_version: "1".into(),
            security_options: vec![],
            warnings: vec!["WARNING: No swap limit support".into()],
        };
        let mut findings = Vec::new();
        about_engine(&info, &mut findings);
        let levels: Vec<_> = findings.iter().map(|f| (f.check.as_str(), f.level.as_str())).collect();
        assert_eq!(
            levels,
            [
                ("engine", "error"),
                ("runc", "warning"),
                ("cgroup", "warning"),
                ("seccomp", "error"),
                ("engine", "warning")
            ]
        );
        assert!(findings.iter().all(|f| f.remedy.is_some()));
    }
}

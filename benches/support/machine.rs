//! The machine and its processes: what it is, how loaded, what memory and time they take.

use std::{fs, time::Duration};

use super::{Result, docker};

/// Memory of processes, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Resident, shared pages counted whole.
    pub rss: u64,
    /// Resident, shared pages divided among their users.
    pub pss: u64,
}

/// One line about where this runs.
pub fn facts() -> Result<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let cores = std::thread::available_parallelism()?;
    let engine = docker(&["version", "--format", "engine {{.Server.Version}}, API {{.Server.APIVersion}}"])?;
    let info = docker(&["info", "--format", "{{.Driver}}, cgroup v{{.CgroupVersion}}"])?;
    Ok(format!("{cores} cores, kernel {}, {engine}, {info}, load {}", kernel.trim(), load()))
}

/// Load averages over 1, 5 and 15 minutes.
pub fn load() -> String {
    let all = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    all.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Memory of one process (proc_pid_smaps_rollup).
pub fn memory(pid: u32) -> Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let bytes = |key: &str| -> u64 {
        let line = text.lines().find(|l| l.starts_with(key)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    Ok(Memory { rss: bytes("Rss:"), pss: bytes("Pss:") })
}

/// Processor time that a process has used.
pub fn cpu(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may hold blanks; what follows it does not.
    let fields = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let ticks =
        |n: usize| -> u64 { fields.split_whitespace().nth(n).and_then(|t| t.parse().ok()).unwrap_or(0) };
    // The kernel tells user space hundredths of a second on every platform.
    Ok(Duration::from_millis((ticks(11) + ticks(12)) * 10))
}

/// In MiB, for people.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A port that nobody listens at.
pub fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

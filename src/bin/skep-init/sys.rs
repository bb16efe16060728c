//! The few system calls that no library wraps, and what the init reads about its container.

use std::{
    fs, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

/// Closes the init's own memory, descriptors and environment to the processes that it will start,
/// and blocks every signal: they are read from a descriptor.
pub fn become_init() -> io::Result<()> {
    // SAFETY: prctl with plain integers.
    unsafe {
        if libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    Ok(())
}

/// Name shown by `ps`.
pub fn set_name(name: &std::ffi::CStr) {
    // SAFETY: a C string that outlives the call; a failure changes nothing but the name.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// Orphans below this process come to it, not to PID 1.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: prctl with plain integers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
const LANDLOCK_SCOPE_SIGNAL: u64 = 1 << 1;

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// Landlock's version in this kernel; 0 when there is none.
pub fn landlock_version() -> i32 {
    // SAFETY: asks for the version: no pointer is read.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttr>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// A ruleset that keeps whoever enters it from signalling, tracing or reading the environment of
/// processes outside. None where the kernel (< 6.12) has no such scope.
pub fn signal_scope() -> Option<OwnedFd> {
    if landlock_version() < 6 {
        return None;
    }
    let attr = RulesetAttr { handled_access_fs: 0, handled_access_net: 0, scoped: LANDLOCK_SCOPE_SIGNAL };
    // SAFETY: the struct lives through the call and its size is given.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const attr,
            std::mem::size_of::<RulesetAttr>(),
            0u32,
        )
    };
    // SAFETY: a descriptor that the kernel just made.
    i32::try_from(fd).ok().filter(|fd| *fd >= 0).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Enters a scope for good, children included. Needs no privilege under no-new-privileges.
pub fn enter_scope(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain integers.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// When memory runs out, the caller and its children go before the init and the runners.
pub fn prefer_as_victim() -> io::Result<()> {
    // The files of a closed process belong to root, so it is opened for this one write. Trees cannot
    // look into each other in that moment: Landlock forbids it.
    let dumpable = |on: libc::c_ulong| {
        // SAFETY: prctl with plain integers.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, on, 0, 0, 0) }
    };
    dumpable(1);
    let written = fs::write("/proc/self/oom_score_adj", "500");
    dumpable(0);
    written
}

/// Milliseconds of a clock that no one can set.
pub fn monotonic_ms() -> u64 {
    clock_ms(libc::CLOCK_MONOTONIC)
}

/// Milliseconds since 1970.
pub fn realtime_ms() -> u64 {
    clock_ms(libc::CLOCK_REALTIME)
}

fn clock_ms(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into a local.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    (now.tv_sec as u64) * 1000 + (now.tv_nsec as u64) / 1_000_000
}

/// Every process below `ancestor` (by parent links), without it.
pub fn descendants(ancestor: i32) -> Vec<i32> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        if let Some(parent) = parent_of(pid) {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![ancestor];
    let mut at = 0;
    while at < found.len() {
        let of = found[at];
        found.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        at += 1;
    }
    found.remove(0);
    found
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so count from its end.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Sends a signal; a process that is gone is no error.
pub fn kill(pid: i32, signal: i32) {
    // SAFETY: plain integers.
    unsafe { libc::kill(pid, signal) };
}

/// SIGKILL as a number.
pub const SIGKILL: i32 = Signal::SIGKILL as i32;
/// SIGTERM as a number.
pub const SIGTERM: i32 = Signal::SIGTERM as i32;

/// Sleeps until that many microseconds since 1970, at most `most`: a clock that was set holds nothing up.
pub fn wait_until(at_us: u64, most: Duration) {
    let at = UNIX_EPOCH + Duration::from_micros(at_us);
    if let Ok(ahead) = at.duration_since(SystemTime::now()) {
        std::thread::sleep(ahead.min(most));
    }
}

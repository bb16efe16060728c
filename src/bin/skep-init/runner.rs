//! A runner: one small process per process tree, forked from the init, reaper of all below it.
//!
//! It starts the program, ends the tree when told, and reports the exit only when every
//! descendant is proven dead. It holds no secret of another tree: its memory is the init's image,
//! closed to all by the dumpable flag.

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, SigmaskHow, Signal, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
        socket::{MsgFlags, recv, send},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, close, fork},
};

use skep::wire::MOST_AHEAD;

use crate::sys;

/// From the runner to the init, over a socket that keeps messages apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The program runs, with this pid.
    Started(i32),
    /// It could not be started: a step of `STAGES` and an error number.
    Failed(u8, i32),
    /// It ended and the whole tree is dead: exit code, or a signal.
    Exited(i32, i32),
}

/// Steps that may fail before the program runs.
pub const STAGES: [&str; 5] =
    ["fork", "set up streams", "change to the working directory", "confine", "execute"];

impl Report {
    const SIZE: usize = 9;

    fn encode(self) -> [u8; Self::SIZE] {
        let (kind, a, b) = match self {
            Self::Started(pid) => (1, pid, 0),
            Self::Failed(stage, errno) => (2, i32::from(stage), errno),
            Self::Exited(code, signal) => (3, code, signal),
        };
        let mut bytes = [kind; Self::SIZE];
        bytes[1..5].copy_from_slice(&a.to_le_bytes());
        bytes[5..].copy_from_slice(&b.to_le_bytes());
        bytes
    }

    /// Reads a report; none for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let a = i32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?);
        let b = i32::from_le_bytes(bytes.get(5..9)?.try_into().ok()?);
        match bytes[0] {
            1 => Some(Self::Started(a)),
            2 => Some(Self::Failed(u8::try_from(a).ok()?, b)),
            3 => Some(Self::Exited(a, b)),
            _ => None,
        }
    }
}

/// What the init tells a runner; a byte and a signal number.
pub const ORDER_SIGNAL: u8 = b's';
/// SIGTERM to every process of the tree.
pub const ORDER_TERMINATE: u8 = b't';
/// SIGKILL until all are dead.
pub const ORDER_KILL: u8 = b'k';

/// All that the program needs, prepared before the fork.
pub struct Program {
    /// Arguments; candidates for the program's path are tried in order.
    pub paths: Vec<CString>,
    /// The argument vector.
    pub argv: Vec<CString>,
    /// The environment.
    pub env: Vec<CString>,
    /// Working directory.
    pub cwd: CString,
    /// Standard input, output and error.
    pub stdio: [OwnedFd; 3],
    /// Standard input is a terminal that becomes the controlling one.
    pub terminal: bool,
    /// Keeps the tree from signalling others.
    pub scope: Option<OwnedFd>,
    /// It is not executed before this time, in microseconds since 1970.
    pub not_before_us: Option<u64>,
}

/// Forks the runner. The init keeps `socket`'s other end.
pub fn spawn(program: &Program, socket: &OwnedFd) -> Result<Pid, Errno> {
    // SAFETY: single-threaded; the child goes into its own loop and never returns.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let code = Runner::run(program, socket);
            // SAFETY: ends the process without running the init's destructors.
            unsafe { libc::_exit(code) }
        }
    }
}

struct Runner {
    socket: RawFd,
    child: Option<Pid>,
    exit: Option<(i32, i32)>,
    killing: bool,
}

impl Runner {
    fn run(program: &Program, socket: &OwnedFd) -> i32 {
        sys::set_name(c"skep-runner");
        let mut keep: Vec<RawFd> = program.stdio.iter().map(AsRawFd::as_raw_fd).collect();
        keep.push(socket.as_raw_fd());
        keep.extend(program.scope.iter().map(AsRawFd::as_raw_fd));
        close_all_but(&mut keep);
        let mut runner = Runner { socket: socket.as_raw_fd(), child: None, exit: None, killing: false };
        if let Err(e) = sys::become_subreaper() {
            runner.report(Report::Failed(0, e.raw_os_error().unwrap_or(0)));
            return 1;
        }
        let Ok(signals) =
            SignalFd::with_flags(&child_signals(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        else {
            runner.report(Report::Failed(0, Errno::last_raw()));
            return 1;
        };
        match start(program) {
            Ok(pid) => {
                runner.child = Some(pid);
                runner.report(Report::Started(pid.as_raw()));
            }
            Err((stage, errno)) => {
                runner.report(Report::Failed(stage, errno));
                return 1;
            }
        }
        for fd in &program.stdio {
            // The tree must hold the only other ends, so that readers see the end of the stream.
            close(fd.as_raw_fd()).unwrap_or_default();
        }
        runner.watch(&signals);
        0
    }

    fn report(&self, report: Report) {
        // The init never goes before its runners: a failure here has nobody left to tell.
        send(self.socket, &report.encode(), MsgFlags::MSG_NOSIGNAL).unwrap_or_default();
    }

    fn watch(&mut self, signals: &SignalFd) {
        loop {
            if self.reap() {
                let (code, signal) = self.exit.unwrap_or((0, sys::SIGKILL));
                self.report(Report::Exited(code, signal));
                return;
            }
            if self.killing || self.exit.is_some() {
                self.kill_all();
            }
            // While killing, look again soon: what forks faster than it dies gives no new signal.
            let timeout = if self.killing || self.exit.is_some() { 1u8.into() } else { PollTimeout::NONE };
            // SAFETY: both descriptors stay open for the life of this process.
            let (socket, events) = unsafe {
                use std::os::fd::BorrowedFd;
                (BorrowedFd::borrow_raw(self.socket), BorrowedFd::borrow_raw(signals.as_raw_fd()))
            };
            let mut fds = [PollFd::new(socket, PollFlags::POLLIN), PollFd::new(events, PollFlags::POLLIN)];
            if poll(&mut fds, timeout).is_ok() {
                while let Ok(Some(_)) = signals.read_signal() {}
                if fds[0].revents().is_some_and(|r| !r.is_empty()) {
                    self.obey();
                }
            }
        }
    }

    fn obey(&mut self) {
        let mut order = [0; 2];
        while let Ok(n) = recv(self.socket, &mut order, MsgFlags::MSG_DONTWAIT) {
            match (n, order[0], self.child) {
                (2, ORDER_SIGNAL, Some(child)) if self.exit.is_none() => {
                    sys::kill(-child.as_raw(), i32::from(order[1]));
                }
                (1.., ORDER_TERMINATE, _) => {
                    for pid in sys::descendants(std::process::id() as i32) {
                        sys::kill(pid, sys::SIGTERM);
                        sys::kill(pid, libc::SIGCONT);
                    }
                }
                (1.., ORDER_KILL, _) => self.killing = true,
                (0, ..) => {
                    self.killing = true;
                    return;
                }
                _ => {}
            }
        }
    }

    /// Collects the dead; true when no child is left at all.
    fn reap(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if Some(pid) == self.child => self.exit = Some((code, 0)),
                Ok(WaitStatus::Signaled(pid, signal, _)) if Some(pid) == self.child => {
                    self.exit = Some((128 + signal as i32, signal as i32));
                }
                Ok(WaitStatus::StillAlive) => return false,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn kill_all(&mut self) {
        for pid in sys::descendants(std::process::id() as i32) {
            sys::kill(pid, sys::SIGKILL);
        }
    }
}

fn child_signals() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    set
}

fn close_all_but(keep: &mut [RawFd]) {
    keep.sort_unstable();
    let mut from: u32 = 3;
    for fd in keep.iter().filter_map(|fd| u32::try_from(*fd).ok()) {
        if fd > from {
            // SAFETY: closes descriptors that this process does not use.
            unsafe { libc::syscall(libc::SYS_close_range, from, fd - 1, 0u32) };
        }
        from = from.max(fd + 1);
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, from, u32::MAX, 0u32) };
}

/// Forks the program itself and waits until it is executed or has failed.
fn start(program: &Program) -> Result<Pid, (u8, i32)> {
    let errno = |stage: u8| move |e: Errno| (stage, e as i32);
    let (read_end, write_end) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(errno(0))?;
    // SAFETY: single-threaded; the child only makes system calls until it executes.
    match unsafe { fork() }.map_err(errno(0))? {
        ForkResult::Parent { child } => {
            drop(write_end);
            let mut failure = [0; 5];
            let read = loop {
                match nix::unistd::read(&read_end, &mut failure) {
                    Err(Errno::EINTR) => {}
                    other => break other,
                }
            };
            if read == Ok(5) {
                waitpid(child, None).map_err(errno(4))?;
                let number = i32::from_le_bytes([failure[1], failure[2], failure[3], failure[4]]);
                return Err((failure[0], number));
            }
            Ok(child)
        }
        ForkResult::Child => {
            let (stage, error) = execute(program);
            let number = error.raw_os_error().unwrap_or(libc::EINVAL).to_le_bytes();
            let failure = [stage, number[0], number[1], number[2], number[3]];
            nix::unistd::write(&write_end, &failure).unwrap_or_default();
            // SAFETY: ends the child without running the init's destructors.
            unsafe { libc::_exit(127) }
        }
    }
}

/// Becomes the program; returns only when it could not.
fn execute(program: &Program) -> (u8, io::Error) {
    let step = |stage: u8, result: libc::c_long| {
        if result < 0 { Err((stage, io::Error::last_os_error())) } else { Ok(()) }
    };
    let prepare = || -> Result<(), (u8, io::Error)> {
        // SAFETY: system calls on integers and C strings that outlive them.
        unsafe {
            step(1, libc::setsid().into())?;
            for (target, fd) in (0..).zip(&program.stdio) {
                step(1, libc::dup2(fd.as_raw_fd(), target).into())?;
            }
            if program.terminal {
                step(1, libc::ioctl(0, libc::TIOCSCTTY, 0).into())?;
            }
            step(2, libc::chdir(program.cwd.as_ptr()).into())?;
        }
        sys::prefer_as_victim().map_err(|e| (3, e))?;
        if let Some(scope) = &program.scope {
            sys::enter_scope(scope).map_err(|e| (3, e))?;
        }
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).map_err(|e| (3, e.into()))
    };
    if let Err(failed) = prepare() {
        return failed;
    }
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(&program.argv), pointers(&program.env));
    if let Some(at) = program.not_before_us {
        sys::wait_until(at, MOST_AHEAD);
    }
    let mut error = io::Error::from_raw_os_error(libc::ENOENT);
    for path in &program.paths {
        // SAFETY: null-terminated arrays of C strings that live until the call replaces us.
        unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
        let now = io::Error::last_os_error();
        match now.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            // A hit that may not be executed is remembered, the search goes on, as shells do.
            Some(libc::EACCES) => error = now,
            _ => return (4, now),
        }
    }
    (4, error)
}

/// A pair of sockets for a runner, which keep messages apart.
pub fn channel() -> Result<(OwnedFd, OwnedFd), Errno> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
}

/// A copy of a descriptor that is closed on exec.
pub fn duplicate(fd: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the kernel makes a new descriptor or fails.
    let raw = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

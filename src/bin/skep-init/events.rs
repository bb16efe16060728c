//! The init's one loop: signals, link, process trees, deadlines.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::fd::{AsFd, OwnedFd},
    process::ExitCode,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::SigSet,
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use skep::wire::{
    FromInit, Hello, Io, Key, MAIN, Main, ProcId, ProcReport, Start, ToInit, VERSION,
    spool::{MAX_RECORD, Writer},
};

use crate::{
    link::Link,
    main_process::MainProcess,
    oom,
    process::{Process, Request, State},
    sys,
};

/// A bound process whose client went is given this long after SIGTERM.
const ABANDONED_GRACE_MS: u64 = 2_000;
/// Process trees at a time; the container's PID limit is reached first in practice.
const MAX_PROCESSES: usize = 4_096;
/// Where agent CLIs look for skills (their folders below HOME), linked to `/skills`.
const SKILL_FOLDERS: [&str; 3] = [".claude", ".agents", ".config/agents"];

/// PID 1.
pub struct Init {
    signals: SignalFd,
    link: Link,
    processes: BTreeMap<ProcId, Process>,
    main: Option<MainProcess>,
    scope: Option<OwnedFd>,
    stop_grace_ms: u64,
    /// Handed over at the first link; never leaves this process but to the supervisor.
    key: Option<Key>,
    /// Set once the container is told to stop: the moment after which nothing is waited for.
    stopping: Option<u64>,
    /// The kernel's count of kills for memory.
    memory: Option<File>,
    buffer: Vec<u8>,
}

impl Init {
    /// Prepares the loop and the home folder.
    pub fn new() -> Result<Self, Errno> {
        prepare_home();
        let signals = SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self {
            signals,
            link: Link::new(),
            processes: BTreeMap::new(),
            main: None,
            scope: sys::signal_scope(),
            stop_grace_ms: 10_000,
            key: None,
            stopping: None,
            memory: oom::watched(),
            buffer: vec![0; MAX_RECORD],
        })
    }

    /// Runs until the container is told to stop.
    pub fn run(&mut self) -> ExitCode {
        loop {
            if self.link.dial() {
                self.say_hello();
            }
            self.step();
            self.tell();
            if !self.link.flush() {
                self.link_lost();
            }
            if let Some(deadline) = self.stopping {
                let idle = self.all().next().is_none();
                if idle || sys::monotonic_ms() >= deadline {
                    return ExitCode::from(self.main.as_ref().map_or(0, MainProcess::exit_code));
                }
            }
            self.wait();
            self.read_signals();
            self.obey();
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Process> {
        let main = self.main.as_mut().and_then(|m| m.process.as_mut());
        self.processes.values_mut().chain(main).filter(|p| !p.is_over())
    }

    fn wait(&mut self) {
        let mut interest = vec![(self.signals.as_fd(), PollFlags::POLLIN)];
        interest.extend(self.memory.iter().map(|file| (file.as_fd(), PollFlags::POLLPRI)));
        if let Some((fd, writing)) = self.link.poll() {
            let out = if writing { PollFlags::POLLOUT } else { PollFlags::empty() };
            interest.push((fd, PollFlags::POLLIN | out));
        }
        let main = self.main.as_ref().and_then(|m| m.process.as_ref());
        for process in self.processes.values().chain(main) {
            process.poll(&mut interest);
        }
        let now = sys::monotonic_ms();
        let next = self
            .processes
            .values()
            .filter_map(Process::next_deadline)
            .chain(self.main.iter().filter_map(MainProcess::deadline))
            .chain(self.link.deadline())
            .chain(self.stopping)
            .min();
        let timeout = next.map_or(PollTimeout::NONE, |at| {
            let ms = at.saturating_sub(now).min(3_600_000);
            PollTimeout::try_from(i32::try_from(ms).unwrap_or(i32::MAX)).unwrap_or(PollTimeout::MAX)
        });
        let mut fds: Vec<PollFd> = interest.iter().map(|(fd, flags)| PollFd::new(*fd, *flags)).collect();
        if poll(&mut fds, timeout).is_err() {
            // EINTR and the like: the loop looks at everything again anyway.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let changed = self.memory.is_some() && fds.get(1).and_then(PollFd::any).unwrap_or(false);
        if let Some(file) = self.memory.as_mut().filter(|_| changed) {
            oom::take_note(file);
        }
    }

    /// Moves every process on: streams, reports, deadlines, restarts.
    fn step(&mut self) {
        let main = self.main.as_mut().and_then(|m| m.process.as_mut());
        for process in self.processes.values_mut().chain(main) {
            process.pump(&mut self.buffer);
            process.tick();
        }
        if let Some(main) = &mut self.main {
            main.step(self.scope.as_ref());
            if let Some(next) = main.successor().filter(|_| self.stopping.is_none()) {
                self.main = next.map(|(spec, writer)| MainProcess::new(spec, writer));
                if let Some(main) = &mut self.main {
                    main.step(self.scope.as_ref());
                }
            }
        }
    }

    /// Tells the supervisor what it does not know yet.
    fn tell(&mut self) {
        if !self.link.ready() {
            return;
        }
        let main = self.main.as_mut().and_then(|main| main.process.as_mut()).map(|process| (MAIN, process));
        for (id, process) in self.processes.iter_mut().map(|(id, process)| (*id, process)).chain(main) {
            if !process.told_tree
                && let Some(tree) = process.tree(id)
            {
                process.told_tree = true;
                self.link.send(&FromInit::Forked(tree), vec![]);
            }
        }
        let mut failed = Vec::new();
        for (id, process) in &mut self.processes {
            let id = *id;
            if let State::Failed { stage, errno } = process.state {
                self.link.send(&FromInit::Failed { id, stage: stage.into(), errno }, vec![]);
                failed.push(id);
                continue;
            }
            if process.pid != 0 && !process.told_start {
                process.told_start = true;
                let fds = std::mem::take(&mut process.client_fds);
                self.link.send(&FromInit::Started { id, pid: process.pid }, fds);
            }
            if process.end() > process.told_end {
                process.told_end = process.end();
                self.link.send(&FromInit::Output { id, end: process.told_end }, vec![]);
            }
            if let State::Exited(exit) = process.state
                && !process.told_exit
            {
                process.told_exit = true;
                self.link.send(&FromInit::Exited { id, exit, ended_ms: exit.ended_ms }, vec![]);
            }
        }
        for id in failed {
            self.processes.remove(&id);
        }
        if let Some(main) = &mut self.main {
            if let Some(process) = &mut main.process
                && process.end() > process.told_end
            {
                process.told_end = process.end();
                self.link.send(&FromInit::Output { id: MAIN, end: process.told_end }, vec![]);
            }
            if !main.told
                && let Some(report) = main.report()
            {
                main.told = true;
                self.link.send(&FromInit::Main(report), vec![]);
            }
        }
    }

    fn say_hello(&mut self) {
        let mut trees = Vec::new();
        let report = |(id, process): (&ProcId, &mut Process)| {
            process.told_start = true;
            process.told_end = process.end();
            let exit = match process.state {
                State::Exited(exit) => Some(exit),
                _ => None,
            };
            process.told_exit = exit.is_some();
            process.told_tree = true;
            trees.extend(process.tree(*id));
            ProcReport { id: *id, pid: process.pid, end: process.end(), exit }
        };
        let processes: Vec<ProcReport> = self.processes.iter_mut().map(report).collect();
        let ended_ms = processes.iter().filter_map(|p| Some((p.id, p.exit?.ended_ms?))).collect();
        let main = self.main.as_mut().and_then(|main| {
            main.told = true;
            if let Some(process) = &mut main.process {
                process.told_tree = true;
                trees.extend(process.tree(MAIN));
            }
            main.report()
        });
        let hello = Hello {
            version: VERSION,
            key: self.key,
            mountinfo: fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
            landlock: sys::landlock_version(),
            processes,
            main,
            ended_ms,
            trees,
        };
        self.link.send(&FromInit::Hello(hello), vec![]);
    }

    fn link_lost(&mut self) {
        self.link.drop_link();
        for process in self.processes.values_mut().filter(|p| p.bound) {
            process.end_tree(ABANDONED_GRACE_MS);
        }
        // Nobody will ask for the end of what somebody was waiting for.
        self.processes.retain(|_, p| !(p.bound && p.is_over()));
    }

    fn obey(&mut self) {
        let mut orders = Vec::new();
        if !self.link.receive(&mut orders) {
            self.link_lost();
        }
        for (order, fds) in orders {
            match order {
                ToInit::Welcome { key, stop_grace_ms } => {
                    self.link.welcome();
                    self.key = Some(key);
                    self.stop_grace_ms = stop_grace_ms;
                }
                ToInit::Start(start) => self.start(&start, fds),
                ToInit::Signal { id, signal } => {
                    if let Some(process) = self.find(id) {
                        process.signal(signal);
                    }
                }
                ToInit::End { id, grace_ms } => {
                    if let Some(process) = self.find(id) {
                        process.end_tree(grace_ms);
                    }
                }
                ToInit::Forget { id } => {
                    if self.processes.get(&id).is_some_and(Process::is_over) {
                        self.processes.remove(&id);
                    }
                }
                ToInit::SetMain(main) => self.set_main(main, fds),
                ToInit::Ping { token } => self.link.send(&FromInit::Pong { token }, vec![]),
            }
        }
        self.reap();
    }

    fn find(&mut self, id: ProcId) -> Option<&mut Process> {
        if id == MAIN {
            return self.main.as_mut().and_then(|m| m.process.as_mut());
        }
        self.processes.get_mut(&id)
    }

    fn start(&mut self, start: &Start, fds: Vec<OwnedFd>) {
        let id = start.id;
        if id == MAIN || self.processes.contains_key(&id) {
            // A second start of a known id is the same request again.
            return;
        }
        let mut fail = |stage: &str, errno: Errno| {
            let stage = stage.to_owned();
            self.link.send(&FromInit::Failed { id, stage, errno: errno as i32 }, vec![]);
        };
        if self.stopping.is_some() {
            return fail("start in a container that is stopping", Errno::ESHUTDOWN);
        }
        if self.processes.len() >= MAX_PROCESSES {
            return fail("start one more process tree", Errno::EAGAIN);
        }
        let writer = match &start.io {
            Io::Capture { spool, .. } => match writer(fds, *spool) {
                Ok(writer) => Some(writer),
                Err(e) => return fail("open the spool", e),
            },
            Io::Stream | Io::Pty { .. } => None,
        };
        let request = Request {
            argv: &start.argv,
            env: &start.env,
            cwd: &start.cwd,
            io: &start.io,
            not_before_us: start.not_before_us,
            timeout_ms: start.timeout_ms,
            grace_ms: start.grace_ms,
            bound: start.bound,
            held_to: start.held_to,
        };
        match Process::start(&request, writer, self.scope.as_ref()) {
            Ok(process) => {
                self.processes.insert(id, process);
            }
            Err((e, _)) => {
                self.link.send(&FromInit::Failed { id, stage: e.stage, errno: e.errno }, vec![]);
            }
        }
    }

    fn set_main(&mut self, main: Option<Main>, fds: Vec<OwnedFd>) {
        if self.stopping.is_some() {
            return;
        }
        let next = match main {
            None => None,
            Some(spec) => match writer(fds, spec.spool) {
                Ok(writer) => Some((spec, writer)),
                Err(_) => return,
            },
        };
        match &mut self.main {
            Some(current) => current.replace(next),
            None => self.main = next.map(|(spec, writer)| MainProcess::new(spec, writer)),
        }
    }

    fn read_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let signal = info.ssi_signo as i32;
            // Only what comes from outside the container (no pid here, sent by somebody) is an order.
            let outside = info.ssi_pid == 0 && info.ssi_code == libc::SI_USER;
            match signal {
                libc::SIGTERM | libc::SIGINT | libc::SIGQUIT if outside => self.stop(),
                libc::SIGHUP | libc::SIGUSR1 | libc::SIGUSR2 | libc::SIGWINCH if outside => {
                    if let Some(main) = self.main.as_ref().and_then(|m| m.process.as_ref()) {
                        main.signal(signal);
                    }
                }
                _ => {}
            }
        }
        self.reap();
    }

    fn stop(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        let grace = self.stop_grace_ms;
        self.stopping = Some(sys::monotonic_ms() + grace + 5_000);
        if let Some(main) = &mut self.main {
            main.hold();
        }
        for process in self.all() {
            process.end_tree(grace);
        }
    }

    /// Collects the dead: runners, and orphans of runners that were killed.
    fn reap(&mut self) {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => self.runner_died(pid),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn runner_died(&mut self, pid: Pid) {
        let main = self.main.as_mut().and_then(|m| m.process.as_mut());
        let Some(process) = self.processes.values_mut().chain(main).find(|p| p.runner() == Some(pid)) else {
            return;
        };
        process.pump(&mut self.buffer);
        if !process.is_over() {
            self.end_orphans(pid);
        }
        let main = self.main.as_mut().and_then(|m| m.process.as_mut());
        if let Some(process) = self.processes.values_mut().chain(main).find(|p| p.runner() == Some(pid)) {
            process.runner_died(&mut self.buffer);
        }
    }

    /// A dead runner's tree fell to us: everything below PID 1 that no living runner holds.
    fn end_orphans(&mut self, dead: Pid) {
        let runners: Vec<i32> =
            self.all().filter_map(|p| p.runner()).filter(|r| *r != dead).map(Pid::as_raw).collect();
        let give_up = sys::monotonic_ms() + 1_000;
        loop {
            let mut held: Vec<i32> = runners.clone();
            held.extend(runners.iter().flat_map(|r| sys::descendants(*r)));
            let mut orphans: Vec<i32> = sys::descendants(1);
            orphans.retain(|pid| !held.contains(pid));
            if orphans.is_empty() {
                return;
            }
            for pid in &orphans {
                sys::kill(*pid, sys::SIGKILL);
                // Zombies are collected here; runners are not touched.
                while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) =
                    waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG))
                {}
            }
            if sys::monotonic_ms() > give_up {
                // It breeds faster than it dies. Nothing in the container is worth more than an end.
                sys::kill(-1, sys::SIGKILL);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn writer(fds: Vec<OwnedFd>, bounds: skep::wire::spool::Bounds) -> Result<Writer, Errno> {
    let segments: [OwnedFd; 3] = fds.try_into().map_err(|_| Errno::EBADF)?;
    Writer::new(segments, bounds).map_err(|e| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

/// HOME and the folders in which agent CLIs look for skills; what is there already stays as it is.
fn prepare_home() {
    let Some(home) = std::env::var_os("HOME").map(std::path::PathBuf::from) else { return };
    if fs::symlink_metadata(&home).is_ok() && !home.is_dir() {
        // A dangling link or a file would leave every program without a home.
        fs::remove_file(&home).unwrap_or_default();
    }
    for folder in SKILL_FOLDERS {
        let folder = home.join(folder);
        // A read-only or full workspace is the agent's to see when it writes there itself.
        if fs::create_dir_all(&folder).is_ok() {
            std::os::unix::fs::symlink("/skills", folder.join("skills")).unwrap_or_default();
        }
    }
}

//! One process tree as the init sees it: its runner, its streams, its deadlines, its end.

use std::{
    collections::BTreeMap,
    ffi::CString,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::PollFlags,
    sys::socket::{MsgFlags, recv, send},
    unistd::{Pid, pipe2, read, write},
};
use skep::wire::{
    Environment, Exit, Io, ProcId, Tree,
    spool::{MAX_RECORD, Stream, Writer},
};

use crate::{
    oom,
    runner::{self, ORDER_KILL, ORDER_SIGNAL, ORDER_TERMINATE, Program, Report},
    sys,
};

/// A tree whose runner does not answer SIGKILL for so long is taken from it.
const RUNNER_PATIENCE_MS: u64 = 5_000;

/// Reads of one output before others have their turn.
const ROUNDS: u32 = 16;
/// Reads of one output once its tree is dead: four times the largest pipe (1 MiB).
const LAST_ROUNDS: u32 = 64;

/// Why a process did not start.
pub struct StartError {
    /// In words.
    pub stage: String,
    /// The system's number.
    pub errno: i32,
}

impl StartError {
    fn new(stage: &str, errno: Errno) -> Self {
        Self { stage: stage.to_owned(), errno: errno as i32 }
    }
}

/// What to start.
pub struct Request<'a> {
    pub argv: &'a [String],
    pub env: &'a Environment,
    pub cwd: &'a str,
    pub io: &'a Io,
    pub not_before_us: Option<u64>,
    pub timeout_ms: Option<u64>,
    pub grace_ms: u64,
    pub bound: bool,
    pub held_to: Option<i64>,
}

/// Where a process tree stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The runner has not reported yet.
    Starting,
    /// The program runs.
    Running,
    /// It never ran.
    Failed { stage: &'static str, errno: i32 },
    /// All of it is dead.
    Exited(Exit),
}

/// A process tree.
pub struct Process {
    pub state: State,
    pub pid: i32,
    pub bound: bool,
    /// Ends of its streams that belong to the supervisor, sent with `Started`.
    pub client_fds: Vec<OwnedFd>,
    /// Whether the supervisor of this link was told that it started, and that it ended.
    pub told_start: bool,
    pub told_exit: bool,
    pub told_end: u64,
    /// Whether the supervisor of this link knows its runner.
    pub told_tree: bool,
    held_to: Option<i64>,
    runner: Option<Pid>,
    orders: OwnedFd,
    outputs: [Option<OwnedFd>; 2],
    stdin: Option<(OwnedFd, Vec<u8>, usize)>,
    pub writer: Option<Writer>,
    deadline: Option<u64>,
    grace_ms: u64,
    kill_at: Option<u64>,
    killed_at: Option<u64>,
    timed_out: bool,
    oom_before: u64,
}

impl Process {
    /// Starts a tree. `writer` is given for captured output, and back when the start fails.
    pub fn start(
        request: &Request<'_>,
        writer: Option<Writer>,
        scope: Option<&OwnedFd>,
    ) -> Result<Self, (StartError, Option<Writer>)> {
        match Self::without_writer(request, scope) {
            Ok(process) => Ok(Self { writer, ..process }),
            Err(e) => Err((e, writer)),
        }
    }

    fn without_writer(request: &Request<'_>, scope: Option<&OwnedFd>) -> Result<Self, StartError> {
        let strings = Strings::of(request)?;
        let streams = Streams::open(request.io).map_err(|e| StartError::new("open its streams", e))?;
        let (orders, runner_end) = runner::channel().map_err(|e| StartError::new("reach its runner", e))?;
        let scope = match scope.map(runner::duplicate).transpose() {
            Ok(scope) => scope,
            Err(_) => return Err(StartError::new("confine", Errno::last())),
        };
        let program = Program {
            paths: strings.paths,
            argv: strings.argv,
            env: strings.env,
            cwd: strings.cwd,
            stdio: streams.child,
            terminal: matches!(request.io, Io::Pty { .. }),
            scope,
            not_before_us: request.not_before_us,
        };
        let oom_before = oom::before();
        let runner = runner::spawn(&program, &runner_end).map_err(|e| StartError::new("fork", e))?;
        let stdin = match (request.io, streams.stdin) {
            (Io::Capture { stdin, .. }, Some(end)) => Some((end, stdin.clone(), 0)),
            _ => None,
        };
        Ok(Self {
            state: State::Starting,
            pid: 0,
            bound: request.bound,
            client_fds: streams.client,
            told_start: false,
            told_exit: false,
            told_end: 0,
            told_tree: false,
            held_to: request.held_to,
            runner: Some(runner),
            orders,
            outputs: streams.outputs,
            stdin,
            writer: None,
            deadline: request.timeout_ms.map(|ms| sys::monotonic_ms().saturating_add(ms)),
            grace_ms: request.grace_ms,
            kill_at: None,
            killed_at: None,
            timed_out: false,
            oom_before,
        })
    }

    /// Whether nothing of it is left.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Exited(_) | State::Failed { .. })
    }

    /// The pid of its runner while it lives.
    pub fn runner(&self) -> Option<Pid> {
        self.runner
    }

    /// Below which process it is, while its runner lives.
    pub fn tree(&self, id: ProcId) -> Option<Tree> {
        let runner = self.runner?.as_raw();
        Some(Tree { id, runner, held_to: self.held_to })
    }

    /// End of its captured output.
    pub fn end(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::end)
    }

    /// Signals the program's process group.
    pub fn signal(&self, signal: i32) {
        if let Ok(signal) = u8::try_from(signal) {
            self.order(&[ORDER_SIGNAL, signal]);
        }
    }

    /// SIGTERM to all, then SIGKILL after the grace. A shorter grace than one running already wins.
    pub fn end_tree(&mut self, grace_ms: u64) {
        if self.is_over() {
            return;
        }
        let at = sys::monotonic_ms().saturating_add(grace_ms);
        if self.kill_at.is_none() && grace_ms > 0 {
            self.order(&[ORDER_TERMINATE]);
        }
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
        self.tick();
    }

    fn order(&self, order: &[u8]) {
        // A runner that is gone is noticed by its death, not here.
        send(self.orders.as_raw_fd(), order, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)
            .unwrap_or_default();
    }

    /// The next moment at which `tick` has something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.is_over() {
            return None;
        }
        let kill = match self.killed_at {
            Some(at) => Some(at + RUNNER_PATIENCE_MS),
            None => self.kill_at,
        };
        [self.deadline.filter(|_| !self.timed_out), kill].into_iter().flatten().min()
    }

    /// Acts on deadlines that have passed.
    pub fn tick(&mut self) {
        let now = sys::monotonic_ms();
        if self.is_over() {
            return;
        }
        if !self.timed_out && self.deadline.is_some_and(|d| d <= now) {
            self.timed_out = true;
            let grace = self.grace_ms;
            self.end_tree(grace);
        }
        if self.killed_at.is_none() && self.kill_at.is_some_and(|k| k <= now) {
            self.killed_at = Some(now);
            self.order(&[ORDER_KILL]);
        }
        if let (Some(at), Some(runner)) = (self.killed_at, self.runner)
            && now >= at + RUNNER_PATIENCE_MS
        {
            // A runner that was stopped or starved: its tree falls to the init, which ends it.
            sys::kill(runner.as_raw(), sys::SIGKILL);
        }
    }

    /// Descriptors to poll.
    pub fn poll<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, PollFlags)>) {
        if self.runner.is_some() {
            into.push((self.orders.as_fd(), PollFlags::POLLIN));
        }
        into.extend(self.outputs.iter().flatten().map(|fd| (fd.as_fd(), PollFlags::POLLIN)));
        if let Some((fd, ..)) = &self.stdin {
            into.push((fd.as_fd(), PollFlags::POLLOUT));
        }
    }

    /// Moves bytes and reports.
    pub fn pump(&mut self, buffer: &mut [u8]) {
        self.feed_stdin();
        self.drain(buffer, false);
        let mut bytes = [0; 16];
        while let Ok(n) = recv(self.orders.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
            match Report::decode(&bytes[..n]) {
                Some(Report::Started(pid)) => {
                    self.pid = pid;
                    self.state = State::Running;
                }
                Some(Report::Failed(stage, errno)) => {
                    let stage = runner::STAGES.get(usize::from(stage)).copied().unwrap_or("start");
                    self.state = State::Failed { stage, errno };
                }
                Some(Report::Exited(code, signal)) => {
                    self.finish(code, (signal != 0).then_some(signal), false, buffer);
                }
                None => break,
            }
        }
    }

    /// The runner is dead. Without a report from it the tree was taken down by the init.
    pub fn runner_died(&mut self, buffer: &mut [u8]) {
        self.pump(buffer);
        self.runner = None;
        if !self.is_over() {
            self.finish(128 + sys::SIGKILL, Some(sys::SIGKILL), self.killed_at.is_none(), buffer);
        }
    }

    fn finish(&mut self, code: i32, signal: Option<i32>, lost: bool, buffer: &mut [u8]) {
        self.drain(buffer, true);
        // The victim may be a child of the program, which then ends with a code of its own.
        let ordered = self.timed_out || self.kill_at.is_some();
        let oom = code != 0 && !ordered && oom::explains(self.oom_before);
        let ended_ms = Some(sys::realtime_ms());
        self.state = State::Exited(Exit { code, signal, timed_out: self.timed_out, oom, lost, ended_ms });
    }

    fn feed_stdin(&mut self) {
        let Some((fd, data, at)) = &mut self.stdin else { return };
        while *at < data.len() {
            match write(&*fd, &data[*at..]) {
                Ok(n) => *at += n,
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        self.stdin = None;
    }

    /// Reads a bounded amount from each output, or with `last` as much as a pipe can hold, and then closes
    /// them: a tree may have handed its end to another, which must neither keep it open nor, by writing on
    /// and on, hold up the init.
    fn drain(&mut self, buffer: &mut [u8], last: bool) {
        for (output, stream) in self.outputs.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
            let mut rounds = 0;
            while let Some(fd) = output {
                rounds += 1;
                if rounds > if last { LAST_ROUNDS } else { ROUNDS } {
                    break;
                }
                let size = buffer.len().min(MAX_RECORD);
                match read(&*fd, &mut buffer[..size]) {
                    Ok(0) => *output = None,
                    Ok(n) => {
                        if let Some(writer) = &mut self.writer {
                            // A full disk loses this output, shown to readers as a gap, and nothing else.
                            writer.append(stream, sys::realtime_ms(), &buffer[..n]).unwrap_or_default();
                        }
                    }
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => break,
                    Err(_) => *output = None,
                }
            }
            if last {
                *output = None;
            }
        }
    }
}

struct Strings {
    paths: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
}

impl Strings {
    fn of(request: &Request<'_>) -> Result<Self, StartError> {
        let c = |s: &str| CString::new(s).map_err(|_| StartError::new("pass a NUL byte", Errno::EINVAL));
        let Some(program) = request.argv.first().filter(|p| !p.is_empty()) else {
            return Err(StartError::new("run an empty command", Errno::EINVAL));
        };
        let mut env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect();
        env.extend(request.env.0.iter().cloned());
        let paths = if program.contains('/') {
            vec![c(program)?]
        } else {
            let path = env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
            path.split(':').map(|dir| c(&format!("{dir}/{program}"))).collect::<Result<_, _>>()?
        };
        Ok(Self {
            paths,
            argv: request.argv.iter().map(|a| c(a)).collect::<Result<_, _>>()?,
            env: env.iter().map(|(k, v)| c(&format!("{k}={v}"))).collect::<Result<_, _>>()?,
            cwd: c(request.cwd)?,
        })
    }
}

struct Streams {
    child: [OwnedFd; 3],
    client: Vec<OwnedFd>,
    outputs: [Option<OwnedFd>; 2],
    stdin: Option<OwnedFd>,
}

impl Streams {
    fn open(io: &Io) -> Result<Self, Errno> {
        match io {
            Io::Pty { rows, cols } => Self::terminal(*rows, *cols),
            Io::Stream | Io::Capture { .. } => {
                let (stdin_read, stdin_write) = pipe2(OFlag::O_CLOEXEC)?;
                let (stdout_read, stdout_write) = pipe2(OFlag::O_CLOEXEC)?;
                let (stderr_read, stderr_write) = pipe2(OFlag::O_CLOEXEC)?;
                let child = [stdin_read, stdout_write, stderr_write];
                for fd in [&stdin_write, &stdout_read, &stderr_read] {
                    nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
                }
                Ok(if matches!(io, Io::Stream) {
                    let client = vec![stdin_write, stdout_read, stderr_read];
                    Self { child, client, outputs: [None, None], stdin: None }
                } else {
                    let outputs = [Some(stdout_read), Some(stderr_read)];
                    Self { child, client: Vec::new(), outputs, stdin: Some(stdin_write) }
                })
            }
        }
    }

    fn terminal(rows: u16, cols: u16) -> Result<Self, Errno> {
        let size = nix::pty::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = nix::pty::openpty(Some(&size), None)?;
        let copy = |fd: &OwnedFd| runner::duplicate(fd).map_err(|_| Errno::last());
        let slave = pty.slave;
        let child = [copy(&slave)?, copy(&slave)?, copy(&slave)?];
        let master = copy(&pty.master)?;
        nix::fcntl::fcntl(&master, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { child, client: vec![master], outputs: [None, None], stdin: None })
    }
}

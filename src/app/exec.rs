//! Commands in an agent's container, through its init: run to the end, or attached to.

use std::{
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, unix::AsyncFd},
    net::unix::pipe,
    sync::mpsc,
};

use super::{
    agents::not_prepared,
    hive::Hive,
    types::{AppError, AttachRequest, ExecRequest, ExecResult, TtySize},
};
use crate::{
    config::units::parse_duration,
    ids::AgentId,
    init::link::{Link, LinkError, Started},
    runs::refusal::{Cut, Refusal},
    secrets::mask::{MaskStream, Masker},
    supervisor::{agent::Agent, state::Status},
    wire::{Exit, Io, ProcId, Start},
};

/// Bytes of each output that `exec` answers.
const MAX_OUTPUT: usize = 1 << 20;
/// Bytes that `exec` takes for standard input.
const MAX_STDIN: usize = 1 << 20;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// Between SIGTERM and SIGKILL, at a timeout and when a client goes away.
const GRACE: Duration = Duration::from_secs(2);
/// A masked stream that pauses shows the first letters of what it holds back.
const MASK_PAUSE: Duration = Duration::from_millis(50);
/// What an agent's own shell is, when none is named.
const SHELL: &str = "if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi";

impl From<LinkError> for AppError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Refused { .. } | LinkError::TooLarge(_) => {
                AppError::Invalid { detail: error.to_string(), errors: Vec::new() }
            }
            LinkError::Down => AppError::Conflict(error.to_string()),
            LinkError::Lost | LinkError::Silent => AppError::Unavailable(error.to_string()),
        }
    }
}

/// A process that somebody is attached to. Dropping it ends the process.
pub struct Attached {
    /// What it says; ends after `Exited` or `Failed`.
    pub events: mpsc::Receiver<AttachOutput>,
    /// What it is told.
    pub input: mpsc::Sender<AttachInput>,
}

/// From an attached process.
#[derive(Debug)]
pub enum AttachOutput {
    /// It runs, with this pid inside the container.
    Started(i32),
    /// Standard output, or the terminal's.
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
    /// It ended with this code.
    Exited(i32),
    /// The link broke.
    Failed(String),
}

/// To an attached process.
#[derive(Debug)]
pub enum AttachInput {
    /// Standard input, or keys typed.
    Stdin(Bytes),
    /// No more standard input.
    Eof,
    /// The terminal's size changed.
    Resize(TtySize),
    /// Signal its process group.
    Signal(i32),
}

/// Ends a process tree when whoever waits for it goes away.
struct EndOnDrop {
    link: Arc<Link>,
    id: ProcId,
    over: bool,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if !self.over {
            self.link.end(self.id, GRACE);
        }
    }
}

impl Hive {
    /// Runs a command to its proven end and answers its output, masked.
    ///
    /// # Errors
    /// The request is wrong, the agent does not run, the program cannot be started.
    pub async fn exec(&self, id: &AgentId, request: ExecRequest) -> Result<ExecResult, AppError> {
        let limit = check_exec(&request)?;
        let agent = self.running_agent(id)?;
        let start = Start {
            not_before_us: None,
            timeout_ms: Some(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            ..start(&agent, request.command, request.env, request.cwd, Io::Stream)?
        };
        let began = Instant::now();
        // An init that can start nothing more may have been crippled from inside: the driver looks.
        let started = agent.link.start(start, Vec::new()).await.inspect_err(|_| self.wake.notify_one())?;
        let mut guard = EndOnDrop { link: agent.link.clone(), id: started.id, over: false };
        let masker = self.world().masker.clone();
        let stdin = request.stdin.unwrap_or_default().into_bytes();
        let Attended { exit, stdout, stderr, .. } = attend(started, stdin, &masker).await?;
        guard.over = true;
        Ok(ExecResult {
            exit_code: exit.code,
            stdout: String::from_utf8_lossy(&stdout.0).into_owned(),
            stderr: String::from_utf8_lossy(&stderr.0).into_owned(),
            truncated: stdout.1 || stderr.1,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            timed_out: exit.timed_out,
            oom: exit.oom,
        })
    }

    /// Starts a command that the caller talks to. It ends when the caller goes.
    ///
    /// # Errors
    /// The agent does not run, the program cannot be started.
    pub async fn attach(&self, id: &AgentId, request: AttachRequest) -> Result<Attached, AppError> {
        let agent = self.running_agent(id)?;
        let command = if request.command.is_empty() {
            ["sh", "-c", SHELL].map(str::to_owned).to_vec()
        } else {
            request.command
        };
        let io = match request.tty {
            Some(TtySize { rows, cols }) => Io::Pty { rows, cols },
            None => Io::Stream,
        };
        let start = start(&agent, command, request.env, request.cwd, io)?;
        let started = agent.link.start(start, Vec::new()).await?;
        let (events, receiver) = mpsc::channel(16);
        let (input, inputs) = mpsc::channel(16);
        let masker = self.world().masker.clone();
        let tty = request.tty.is_some();
        let guard = EndOnDrop { link: agent.link.clone(), id: started.id, over: false };
        tokio::spawn(async move { converse(guard, started, tty, &masker, events, inputs).await });
        Ok(Attached { events: receiver, input })
    }

    pub(super) fn running_agent(&self, id: &AgentId) -> Result<Arc<Agent>, AppError> {
        let agent = self.find_agent(id)?;
        match agent.status() {
            Status::Running => Ok(agent),
            Status::Paused => Err(AppError::Conflict(format!(
                "agent {id} is paused: {}",
                agent.state().reason.clone().unwrap_or_default()
            ))),
            status => {
                let reason = agent.state().reason.clone().map(|r| format!(": {r}")).unwrap_or_default();
                let help = if status == Status::Stopped {
                    format!("; `skep start {id}` starts it")
                } else {
                    String::new()
                };
                Err(AppError::Conflict(format!("agent {id} is {}{reason}{help}", status.as_str())))
            }
        }
    }
}

fn check_exec(request: &ExecRequest) -> Result<Duration, AppError> {
    let invalid = |pointer: &str, what: String| AppError::Invalid {
        detail: what.clone(),
        errors: vec![(pointer.to_owned(), what)],
    };
    if request.command.first().is_none_or(String::is_empty) {
        return Err(invalid("/command", "command must name a program".to_owned()));
    }
    let with_nul = request.command.iter().position(|argument| argument.contains('\0'));
    if let Some(at) = with_nul {
        let what = format!("argument {at} of the command holds a NUL character, which no argument can");
        return Err(invalid(&format!("/command/{at}"), what));
    }
    if let Some((name, _)) =
        request.env.iter().find(|(name, value)| name.contains('\0') || value.contains('\0'))
    {
        return Err(invalid("/env", format!("the variable {name:?} holds a NUL character, which none can")));
    }
    if request.cwd.as_ref().is_some_and(|cwd| cwd.contains('\0')) {
        return Err(invalid("/cwd", "cwd holds a NUL character, which no path can".to_owned()));
    }
    if request.stdin.as_ref().is_some_and(|s| s.len() > MAX_STDIN) {
        return Err(invalid("/stdin", format!("stdin has at most {MAX_STDIN} bytes; use attach for more")));
    }
    let Some(text) = &request.timeout else { return Ok(DEFAULT_TIMEOUT) };
    match parse_duration(text) {
        Ok(limit) if limit > Duration::ZERO && limit <= MAX_TIMEOUT => Ok(limit),
        Ok(_) => Err(invalid("/timeout", "timeout must be more than 0 and at most 1h".to_owned())),
        Err(why) => Err(invalid("/timeout", why)),
    }
}

fn start(
    agent: &Agent,
    argv: Vec<String>,
    env: std::collections::BTreeMap<String, String>,
    cwd: Option<String>,
    io: Io,
) -> Result<Start, AppError> {
    let preparation = agent.preparation().ok_or_else(|| not_prepared(agent))?;
    let mut variables = preparation.secret_env.clone();
    variables.0.extend(env);
    Ok(Start {
        id: agent.link.next_id(),
        argv,
        env: variables,
        cwd: cwd.unwrap_or_else(|| "/workspace".to_owned()),
        not_before_us: None,
        timeout_ms: None,
        grace_ms: u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX),
        bound: true,
        held_to: None,
        io,
    })
}

/// What a process said until its proven end.
pub(super) struct Attended {
    pub(super) exit: Exit,
    /// The first megabyte of standard output, masked, and whether there was more.
    pub(super) stdout: (Vec<u8>, bool),
    /// Of standard output that was cut: what all of it says of success.
    pub(super) cut: Option<Cut>,
    /// The same of standard error.
    pub(super) stderr: (Vec<u8>, bool),
}

/// Gives a process its input, and takes its output until all of it is proven dead.
///
/// # Errors
/// The link breaks.
pub(super) async fn attend(started: Started, stdin: Vec<u8>, masker: &Masker) -> Result<Attended, AppError> {
    let Started { fds, exit, .. } = started;
    let [input, stdout, stderr] = pipes(fds)?;
    let (out, err) = (collect(stdout, masker), collect(stderr, masker));
    let ((), (stdout, refusal), (stderr, _), exit) = tokio::join!(feed(input, stdin), out, err, exit);
    let cut = stdout.1.then(|| refusal.cut(MAX_OUTPUT));
    Ok(Attended { exit: exit.map_err(|_| AppError::from(LinkError::Lost))?, stdout, cut, stderr })
}

fn pipes(fds: Vec<OwnedFd>) -> Result<[OwnedFd; 3], AppError> {
    fds.try_into().map_err(|_| AppError::Internal("the init gave no streams".to_owned()))
}

async fn feed(stdin: OwnedFd, bytes: Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    if let Ok(mut sender) = pipe::Sender::from_owned_fd(stdin) {
        // A program that does not read its input is no fault.
        sender.write_all(&bytes).await.unwrap_or_default();
    }
}

/// Reads to the end and keeps the first megabyte, masked.
async fn collect(output: OwnedFd, masker: &Masker) -> ((Vec<u8>, bool), Refusal) {
    let (mut kept, mut cut, mut refusal) = (Vec::new(), false, Refusal::default());
    let Ok(mut receiver) = pipe::Receiver::from_owned_fd(output) else { return ((kept, cut), refusal) };
    let mut buffer = vec![0; 64 * 1024];
    let mut mask = masker.stream();
    while let Ok(n @ 1..) = receiver.read(&mut buffer).await {
        let piece = mask.push(&buffer[..n]);
        refusal.feed(&piece);
        keep(&mut kept, &piece, &mut cut);
    }
    let piece = mask.finish();
    refusal.feed(&piece);
    keep(&mut kept, &piece, &mut cut);
    ((kept, cut), refusal)
}

fn keep(kept: &mut Vec<u8>, piece: &[u8], cut: &mut bool) {
    let room = MAX_OUTPUT - kept.len();
    *cut |= piece.len() > room;
    kept.extend_from_slice(&piece[..piece.len().min(room)]);
}

async fn converse(
    mut guard: EndOnDrop,
    started: Started,
    tty: bool,
    masker: &Masker,
    events: mpsc::Sender<AttachOutput>,
    inputs: mpsc::Receiver<AttachInput>,
) {
    let Started { pid, mut fds, exit, .. } = started;
    events.send(AttachOutput::Started(pid)).await.unwrap_or_default();
    let talk = async {
        if tty {
            if let Some(master) = fds.pop() {
                terminal(master, masker, &events, inputs, &guard).await;
            }
        } else if let Ok([stdin, stdout, stderr]) = pipes(fds) {
            let out = forward(stdout, masker.stream(), &events, AttachOutput::Stdout);
            let err = forward(stderr, masker.stream(), &events, AttachOutput::Stderr);
            let outputs = async { tokio::join!(out, err) };
            tokio::select! {
                _ = outputs => {}
                () = listen(stdin, inputs, &guard) => {}
            }
        }
    };
    tokio::select! {
        () = talk => {}
        () = events.closed() => return,
    }
    let last = match exit.await {
        Ok(exit) => {
            guard.over = true;
            AttachOutput::Exited(exit.code)
        }
        Err(_) => AttachOutput::Failed(LinkError::Lost.to_string()),
    };
    events.send(last).await.unwrap_or_default();
}

/// Passes on an output until its end or until nobody listens.
async fn forward(
    output: OwnedFd,
    mask: MaskStream,
    events: &mpsc::Sender<AttachOutput>,
    wrap: fn(Bytes) -> AttachOutput,
) {
    if let Ok(receiver) = pipe::Receiver::from_owned_fd(output) {
        forward_from(receiver, mask, events, wrap).await;
    }
}

async fn forward_from(
    mut from: impl AsyncRead + Unpin,
    mut mask: MaskStream,
    events: &mpsc::Sender<AttachOutput>,
    wrap: fn(Bytes) -> AttachOutput,
) {
    let mut buffer = vec![0; 32 * 1024];
    let mut paused = false;
    loop {
        // Where nothing more is to be shown it is waited as long as it takes.
        let patience = if paused || mask.held() == 0 { Duration::MAX } else { MASK_PAUSE };
        let read = tokio::time::timeout(patience, from.read(&mut buffer)).await;
        paused = read.is_err();
        let piece = match read {
            Ok(Ok(n @ 1..)) => mask.push(&buffer[..n]),
            Ok(_) => break,
            Err(_) => mask.pause(),
        };
        if !piece.is_empty() && events.send(wrap(piece.into())).await.is_err() {
            return;
        }
    }
    let rest = mask.finish();
    if !rest.is_empty() {
        events.send(wrap(rest.into())).await.unwrap_or_default();
    }
}

/// Obeys the caller; returns never, so that the outputs' end decides.
async fn listen(stdin: OwnedFd, mut inputs: mpsc::Receiver<AttachInput>, guard: &EndOnDrop) {
    let mut stdin = pipe::Sender::from_owned_fd(stdin).ok();
    while let Some(input) = inputs.recv().await {
        match input {
            AttachInput::Stdin(bytes) => {
                if let Some(sender) = &mut stdin
                    && sender.write_all(&bytes).await.is_err()
                {
                    stdin = None;
                }
            }
            AttachInput::Eof => stdin = None,
            AttachInput::Signal(signal) => guard.link.signal(guard.id, signal),
            AttachInput::Resize(_) => {}
        }
    }
    drop(stdin);
    std::future::pending::<()>().await;
}

async fn terminal(
    master: OwnedFd,
    masker: &Masker,
    events: &mpsc::Sender<AttachOutput>,
    mut inputs: mpsc::Receiver<AttachInput>,
    guard: &EndOnDrop,
) {
    // SAFETY: the file keeps its one descriptor until it is dropped with the `AsyncFd`.
    let Ok(master) = (unsafe { AsyncFd::register(std::fs::File::from(master)) }) else { return };
    let master = Arc::new(master);
    let reader = super::terminal::Reader(master.clone());
    let keys = async {
        while let Some(input) = inputs.recv().await {
            match input {
                AttachInput::Stdin(bytes) => super::terminal::write_all(&master, &bytes).await,
                AttachInput::Eof => super::terminal::write_all(&master, b"\x04").await,
                AttachInput::Signal(signal) => guard.link.signal(guard.id, signal),
                AttachInput::Resize(size) => super::terminal::resize(&master, size),
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = forward_from(reader, masker.stream(), events, AttachOutput::Stdout) => {}
        () = keys => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::SecretValue;

    #[tokio::test]
    async fn a_value_that_comes_in_two_parts_with_a_pause_between_is_masked() {
        let masker = Masker::new(&[SecretValue::new("hunter22-hunter22").unwrap()]);
        let (mut process, output) = tokio::io::duplex(64);
        let (events, mut receiver) = mpsc::channel(16);
        let stream = masker.stream();
        let passed =
            tokio::spawn(async move { forward_from(output, stream, &events, AttachOutput::Stdout).await });
        process.write_all(b"token hunter22-").await.unwrap();
        tokio::time::sleep(4 * MASK_PAUSE).await;
        process.write_all(b"hunter22\n").await.unwrap();
        drop(process);
        let mut text = Vec::new();
        while let Some(AttachOutput::Stdout(piece)) = receiver.recv().await {
            text.extend_from_slice(&piece);
        }
        passed.await.unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text == "token hu***\n" || text == "token ***\n", "{text:?}");
    }
}

//! A server as a process in the agent's container: its streams, the last of what it says beside them, its end.

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{io::AsyncReadExt, net::unix::pipe, sync::oneshot, task::JoinHandle, time::timeout};

use super::plan::Plan;
use crate::{
    init::link::Link,
    mcp::{Connection, McpFault},
    wire::{Environment, Exit, Io, ProcId, Start},
};

/// Between SIGTERM and SIGKILL.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Bytes kept of what a server writes to its standard error.
const TAIL: usize = 4 << 10;
/// Lines of it that an error repeats.
const LINES: usize = 5;
/// Pause after each piece: no server keeps the supervisor busy with chatter.
const BREATH: Duration = Duration::from_millis(2);
/// A connection that is over is followed by the end of its process within this time, or that is brought about.
const LINGER: Duration = Duration::from_millis(500);

/// The last bytes of standard error.
type Tail = Arc<Mutex<VecDeque<u8>>>;

/// The process of a server. Dropping it ends it.
pub(super) struct Process {
    link: Arc<Link>,
    id: ProcId,
    /// None: it is not known to run yet, or it is over.
    exit: Option<oneshot::Receiver<Exit>>,
    over: bool,
    tail: Tail,
    /// Reads standard error to its end.
    hears: Option<JoinHandle<()>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.over {
            self.link.end(self.id, GRACE);
        }
    }
}

/// Starts a server and shakes hands.
///
/// # Errors
/// Why not, with what it said.
pub(super) async fn start(
    link: &Arc<Link>,
    plan: &Plan,
    (argv, env, cwd): (&[String], &Environment, &str),
) -> Result<(Connection, Process), String> {
    let start = Start {
        id: link.next_id(),
        argv: argv.to_vec(),
        env: env.clone(),
        cwd: cwd.to_owned(),
        not_before_us: None,
        timeout_ms: None,
        grace_ms: u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX),
        // With the link to the supervisor, the server goes.
        bound: true,
        held_to: None,
        io: Io::Stream,
    };
    // Before it runs, so that it is ended also when nobody waits for its start any more.
    let mut process = Process {
        link: link.clone(),
        id: start.id,
        exit: None,
        over: false,
        tail: Tail::default(),
        hears: None,
    };
    let started = match link.start(start, Vec::new()).await {
        Ok(started) => started,
        Err(e) => {
            process.over = true;
            return Err(format!("it cannot be started: {e}"));
        }
    };
    process.exit = Some(started.exit);
    let streams = streams(started.fds, process.tail.clone());
    let (reader, writer, hears) = streams.map_err(|e| format!("it cannot be spoken to: {e}"))?;
    process.hears = Some(hears);
    match Connection::over_streams(reader, writer, plan.startup).await {
        Ok(connection) => Ok((connection, process)),
        Err(fault) => Err(process.fate(Some(&fault)).await),
    }
}

type Streams = (pipe::Receiver, pipe::Sender, JoinHandle<()>);

fn streams(fds: Vec<OwnedFd>, tail: Tail) -> std::io::Result<Streams> {
    let [stdin, stdout, stderr] =
        <[OwnedFd; 3]>::try_from(fds).map_err(|_| std::io::Error::other("the init gave no streams"))?;
    let (stdout, stdin) = (pipe::Receiver::from_owned_fd(stdout)?, pipe::Sender::from_owned_fd(stdin)?);
    let stderr = pipe::Receiver::from_owned_fd(stderr)?;
    Ok((stdout, stdin, tokio::spawn(keep_tail(stderr, tail))))
}

async fn keep_tail(mut stderr: pipe::Receiver, tail: Tail) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
        {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend(&buffer[..n]);
            let surplus = tail.len().saturating_sub(TAIL);
            tail.drain(..surplus);
        }
        tokio::time::sleep(BREATH).await;
    }
}

impl Process {
    /// Sees it to its proven end, and says what became of it. `fault`: what was wrong with it.
    pub(super) async fn fate(&mut self, fault: Option<&McpFault>) -> String {
        let Some(exit) = &mut self.exit else { return String::new() };
        let mut by_itself = true;
        // One that closed its streams is about to end; any other is ended at once.
        let lingers = matches!(fault, None | Some(McpFault::Closed));
        let mut ended = if lingers { timeout(LINGER, &mut *exit).await.ok() } else { None };
        if ended.is_none() {
            by_itself = false;
            self.link.end(self.id, GRACE);
            ended = timeout(GRACE * 2, exit).await.ok();
        }
        (self.exit, self.over) = (None, true);
        // Its end may be known before its last words are read.
        if let Some(hears) = self.hears.take() {
            drop(timeout(LINGER, hears).await);
        }
        let how = match (ended, fault) {
            (Some(Ok(exit)), _) if exit.oom => "it ran out of memory".to_owned(),
            (Some(Ok(exit)), _) if by_itself => how(exit),
            (Some(Err(_)), _) => "the agent's container went away".to_owned(),
            (_, Some(fault)) => fault.to_string(),
            (_, None) => "it closed its output".to_owned(),
        };
        match self.last_words() {
            words if words.is_empty() => how,
            words => format!("{how}: {words}"),
        }
    }

    fn last_words(&self) -> String {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        last.join(" | ").chars().filter(|c| !c.is_control()).collect()
    }
}

fn how(exit: Exit) -> String {
    match exit.signal {
        Some(signal) => format!("it was killed by signal {signal}"),
        None => format!("it ended with code {}", exit.code),
    }
}

//! The supervisor's end of the wire to one agent's init, across reconnects.
//!
//! Starts and ends process trees, hands out their streams, and knows what the init last said.
//! It decides nothing: who may dial in is checked before `serve`.

use std::{
    collections::{HashMap, HashSet},
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use super::trees::Trees;
use crate::wire::{
    self, Exit, FromInit, Hello, Main, MainReport, ProcId, Start, ToInit,
    socket::{FrameReader, FrameWriter},
};

/// How long an init may take to say its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the init may take to answer a start.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Why something asked of an init did not happen.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No init is connected.
    #[error("the agent is not running: no init is connected")]
    Down,
    /// The link broke while we waited; what was started is ended by the init.
    #[error("the link to the agent's container broke")]
    Lost,
    /// The init could not start the program.
    #[error("could not {stage}: {}", io::Error::from_raw_os_error(*.errno))]
    Refused {
        /// What failed, in words.
        stage: String,
        /// The system's number.
        errno: i32,
    },
    /// The init did not answer.
    #[error("the agent's init did not answer within {} s", START_TIMEOUT.as_secs())]
    Silent,
    /// What was asked does not fit a message.
    #[error("cannot be sent to the agent's init: {0}")]
    TooLarge(io::Error),
}

/// A started process tree.
#[derive(Debug)]
pub struct Started {
    /// Its id on the link.
    pub id: ProcId,
    /// Its pid inside the container.
    pub pid: i32,
    /// Streams, as `wire::FromInit::Started` lists them.
    pub fds: Vec<OwnedFd>,
    /// Resolves when all of it is proven dead; an error when the link or the container went first.
    pub exit: oneshot::Receiver<Exit>,
}

/// On what terms an init is welcomed.
#[derive(Clone, Copy)]
pub struct Terms {
    /// The key of this container.
    pub key: wire::Key,
    /// It was handed over before: whoever comes must show it.
    pub known: bool,
    /// Time between SIGTERM and SIGKILL when the container is stopped.
    pub stop_grace: Duration,
}

/// What is known of an init.
#[derive(Debug, Clone, Default)]
pub struct LinkStatus {
    /// Whether it is connected.
    pub connected: bool,
    /// Counts the links; a new number is a new hello.
    pub generation: u64,
    /// What it said when it dialled in last.
    pub hello: Option<Arc<Hello>>,
    /// Where `main` stands.
    pub main: Option<MainReport>,
}

type Outgoing = (ToInit, Vec<OwnedFd>);

/// Pid and streams of a started program.
type StartAnswer = Result<(i32, Vec<OwnedFd>), LinkError>;

struct Waiter {
    bound: bool,
    /// The link that it was asked for on.
    generation: u64,
    started: Option<oneshot::Sender<StartAnswer>>,
    exit: Option<oneshot::Sender<Exit>>,
}

#[derive(Default)]
struct Inner {
    sender: Option<mpsc::UnboundedSender<Outgoing>>,
    waiters: HashMap<ProcId, Waiter>,
    /// Hash of the `main` that was sent over this link, until the init tells of it by itself.
    main_sent: Option<Option<u64>>,
    /// Counts the links; set with the sender.
    generation: u64,
    /// Trees that the init keeps until they are forgotten, with their end once it is known.
    kept: HashMap<ProcId, Option<Exit>>,
}

/// The link to one agent's init.
pub struct Link {
    inner: Mutex<Inner>,
    status: watch::Sender<LinkStatus>,
    trees: Trees,
    next_id: AtomicU64,
}

impl Link {
    /// Not connected. `seed` begins the process ids: milliseconds since 1970, so that a new supervisor
    /// never takes an id that an older one gave to a process that still runs.
    #[must_use]
    pub fn new(seed_ms: u64) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            status: watch::Sender::default(),
            trees: Trees::default(),
            next_id: AtomicU64::new(seed_ms << 16),
        })
    }

    /// Follows what is known of the init.
    pub fn watch(&self) -> watch::Receiver<LinkStatus> {
        self.status.subscribe()
    }

    /// What is known of the init.
    pub fn status(&self) -> LinkStatus {
        self.status.borrow().clone()
    }

    /// The trees that the init has.
    pub fn trees(&self) -> &Trees {
        &self.trees
    }

    /// An id for a process tree.
    pub fn next_id(&self) -> ProcId {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, message: ToInit, fds: Vec<OwnedFd>) -> Result<(), LinkError> {
        let inner = self.lock();
        let sender = inner.sender.as_ref().ok_or(LinkError::Down)?;
        sender.send((message, fds)).map_err(|_| LinkError::Down)
    }

    /// Starts a process tree and waits until it runs.
    ///
    /// # Errors
    /// See `LinkError`.
    pub async fn start(&self, start: Start, fds: Vec<OwnedFd>) -> Result<Started, LinkError> {
        let id = start.id;
        let (started, started_rx) = oneshot::channel();
        let (exit, exit_rx) = oneshot::channel();
        {
            let mut inner = self.lock();
            let generation = inner.generation;
            let waiter = Waiter { bound: start.bound, generation, started: Some(started), exit: Some(exit) };
            inner.waiters.insert(id, waiter);
            if !start.bound {
                inner.kept.insert(id, None);
            }
        }
        self.trees.asked(id, start.held_to);
        if let Err(e) = self.send(ToInit::Start(start), fds) {
            self.drop_start(id);
            return Err(e);
        }
        match timeout(START_TIMEOUT, started_rx).await {
            Ok(Ok(Ok((pid, fds)))) => Ok(Started { id, pid, fds, exit: exit_rx }),
            Ok(Ok(Err(e))) => Err(e),
            Ok(Err(_)) => Err(LinkError::Lost),
            Err(_) => {
                self.drop_start(id);
                self.end(id, Duration::ZERO);
                Err(LinkError::Silent)
            }
        }
    }

    fn drop_start(&self, id: ProcId) -> Option<Waiter> {
        self.trees.over(id);
        let mut inner = self.lock();
        inner.kept.remove(&id);
        inner.waiters.remove(&id)
    }

    /// Waits for a tree that an earlier link or supervisor started; none: this init does not know it, so it never
    /// started. Ask only while the init is connected.
    pub fn adopt(&self, id: ProcId) -> Option<oneshot::Receiver<Exit>> {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.lock();
        match inner.kept.get(&id)? {
            Some(exit) => sender.send(*exit).unwrap_or_default(),
            None => {
                let generation = inner.generation;
                let waiter = Waiter { bound: false, generation, started: None, exit: Some(sender) };
                inner.waiters.insert(id, waiter);
            }
        }
        Some(receiver)
    }

    /// Whether a tree that this supervisor started goes on.
    pub fn has_trees(&self) -> bool {
        !self.lock().waiters.is_empty()
    }

    /// What the init keeps of trees that it was not told to forget.
    pub fn kept(&self) -> Vec<ProcId> {
        self.lock().kept.keys().copied().collect()
    }

    /// The end of a tree is recorded: the init may drop it.
    pub fn forget(&self, id: ProcId) {
        self.lock().kept.remove(&id);
        self.send(ToInit::Forget { id }, Vec::new()).unwrap_or_default();
    }

    /// Signals the program's process group. Silent when it is gone.
    pub fn signal(&self, id: ProcId, signal: i32) {
        self.send(ToInit::Signal { id, signal }, Vec::new()).unwrap_or_default();
    }

    /// Ends a tree for certain; its exit tells when it is done.
    pub fn end(&self, id: ProcId, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.send(ToInit::End { id, grace_ms }, Vec::new()).unwrap_or_default();
    }

    /// Replaces the agent's `main`.
    ///
    /// # Errors
    /// `Down` when no init is connected.
    pub fn set_main(&self, main: Option<Main>, spool: Vec<OwnedFd>) -> Result<(), LinkError> {
        let hash = main.as_ref().map(|m| m.hash);
        self.send(ToInit::SetMain(main), spool)?;
        self.lock().main_sent = Some(hash);
        Ok(())
    }

    /// Hash of the `main` that the init has or was sent last; none: it has none.
    pub fn main_hash(&self) -> Option<u64> {
        let sent = self.lock().main_sent;
        sent.unwrap_or_else(|| self.status.borrow().main.as_ref().map(|m| m.hash))
    }

    /// Takes over a connection from a caller that was proven to be the init, until it breaks.
    /// An older link of the same init is replaced.
    ///
    /// # Errors
    /// Of the socket, a peer that does not keep to the protocol, or one without the key that it was given.
    pub async fn serve(&self, stream: UnixStream, terms: &Terms) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        // SAFETY: a `UnixStream` keeps its one descriptor until it is dropped with the `AsyncFd`.
        let fd = unsafe { AsyncFd::register_with_interest(stream, Interest::READABLE | Interest::WRITABLE) }?;
        let mut reader = FrameReader::default();
        let hello = timeout(HELLO_TIMEOUT, read_hello(&fd, &mut reader))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the init said no hello"))??;
        if terms.known && hello.key != Some(terms.key) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "not the init that was welcomed before",
            ));
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        let stop_grace_ms = u64::try_from(terms.stop_grace.as_millis()).unwrap_or(u64::MAX);
        sender.send((ToInit::Welcome { key: terms.key, stop_grace_ms }, Vec::new())).unwrap_or_default();
        {
            let mut inner = self.lock();
            inner.sender = Some(sender.clone());
            inner.generation += 1;
        }
        self.take_over(&hello);
        let result = self.run(&fd, reader, receiver).await;
        self.connection_gone(&sender);
        result
    }

    /// Compares what the init still has with what callers wait for.
    fn take_over(&self, hello: &Hello) {
        let mut ended = Vec::new();
        {
            let mut inner = self.lock();
            inner.main_sent = None;
            let current = inner.generation;
            let mut asked_now = HashSet::new();
            inner.waiters.retain(|id, waiter| {
                let Some(report) = hello.processes.iter().find(|p| p.id == *id) else {
                    // What was asked for on an older link and is not there never started.
                    if waiter.generation == current {
                        asked_now.insert(*id);
                    }
                    return waiter.generation == current;
                };
                if let Some(started) = waiter.started.take() {
                    started.send(Ok((report.pid, Vec::new()))).unwrap_or_default();
                }
                if let (Some(exit), Some(sender)) = (report.exit, waiter.exit.take()) {
                    sender.send(exit).unwrap_or_default();
                    if waiter.bound {
                        ended.push(*id);
                    }
                    return false;
                }
                true
            });
            inner.kept.retain(|id, _| asked_now.contains(id));
            let reported = hello.processes.iter().filter(|p| !ended.contains(&p.id)).map(|p| (p.id, p.exit));
            inner.kept.extend(reported);
            self.trees.told(&hello.trees, &asked_now);
        }
        for id in ended {
            self.send(ToInit::Forget { id }, Vec::new()).unwrap_or_default();
        }
        self.status.send_modify(|status| {
            status.connected = true;
            status.generation += 1;
            status.main.clone_from(&hello.main);
            status.hello = Some(Arc::new(hello.clone()));
        });
    }

    fn connection_gone(&self, sender: &mpsc::UnboundedSender<Outgoing>) {
        let mut inner = self.lock();
        if !inner.sender.as_ref().is_some_and(|s| s.same_channel(sender)) {
            return;
        }
        inner.sender = None;
        // Dropping a waiter tells its caller; what is not bound is found again at the next hello.
        inner.waiters.retain(|_, waiter| !waiter.bound);
        drop(inner);
        self.status.send_modify(|status| status.connected = false);
    }

    /// The container is gone, and everything in it.
    pub fn container_gone(&self) {
        let mut inner = self.lock();
        inner.sender = None;
        inner.main_sent = None;
        inner.waiters.clear();
        inner.kept.clear();
        drop(inner);
        self.trees.none();
        self.status.send_modify(|status| {
            *status = LinkStatus { generation: status.generation, ..Default::default() }
        });
    }

    async fn run(
        &self,
        fd: &AsyncFd<UnixStream>,
        mut reader: FrameReader,
        mut receiver: mpsc::UnboundedReceiver<Outgoing>,
    ) -> io::Result<()> {
        let mut writer = FrameWriter::default();
        self.handle_frames(&mut reader)?;
        loop {
            tokio::select! {
                guard = fd.readable() => {
                    let mut guard = guard?;
                    match guard.try_io(|fd| reader.fill(fd.get_ref())) {
                        Ok(Ok(0)) => return Ok(()),
                        Ok(Ok(_)) => self.handle_frames(&mut reader)?,
                        Ok(Err(e)) => return Err(e),
                        Err(_) => {}
                    }
                }
                message = receiver.recv() => {
                    // None: a newer link took over.
                    let Some((message, fds)) = message else { return Ok(()) };
                    let id = if let ToInit::Start(start) = &message { Some(start.id) } else { None };
                    if let Err(e) = writer.push(&message, fds) {
                        self.fail_start(id, LinkError::TooLarge(e));
                    }
                    writer.flush(fd.get_ref())?;
                }
                guard = fd.writable(), if writer.queued() > 0 => {
                    let mut guard = guard?;
                    if !writer.flush(fd.get_ref())? {
                        guard.clear_ready();
                    }
                }
            }
        }
    }

    fn fail_start(&self, id: Option<ProcId>, error: LinkError) {
        let waiter = id.and_then(|id| self.drop_start(id));
        if let Some(started) = waiter.and_then(|w| w.started) {
            started.send(Err(error)).unwrap_or_default();
        }
    }

    fn handle_frames(&self, reader: &mut FrameReader) -> io::Result<()> {
        while let Some((message, fds)) = reader.take_frame::<FromInit>()? {
            match message {
                FromInit::Started { id, pid } => {
                    let started = self.lock().waiters.get_mut(&id).and_then(|w| w.started.take());
                    if let Some(started) = started {
                        started.send(Ok((pid, fds))).unwrap_or_default();
                    }
                }
                FromInit::Failed { id, stage, errno } => {
                    self.fail_start(Some(id), LinkError::Refused { stage, errno });
                }
                FromInit::Exited { id, exit, ended_ms } => self.exited(id, Exit { ended_ms, ..exit }),
                FromInit::Main(report) => self.status.send_modify(|s| s.main = Some(report)),
                FromInit::Output { id, end } => self.output(id, end),
                FromInit::Hello(_) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a second hello"));
                }
                FromInit::Forked(tree) => self.trees.forked(tree),
                FromInit::Pong { .. } => {}
            }
        }
        Ok(())
    }

    fn exited(&self, id: ProcId, exit: Exit) {
        self.trees.over(id);
        let (waiter, keep) = {
            let mut inner = self.lock();
            let waiter = inner.waiters.remove(&id);
            let kept = inner.kept.get_mut(&id).map(|end| *end = Some(exit)).is_some();
            (waiter, kept)
        };
        if let Some(sender) = waiter.and_then(|w| w.exit) {
            sender.send(exit).unwrap_or_default();
        }
        if !keep {
            self.send(ToInit::Forget { id }, Vec::new()).unwrap_or_default();
        }
    }

    fn output(&self, id: ProcId, end: u64) {
        if id == wire::MAIN {
            self.status.send_modify(|s| {
                if let Some(main) = &mut s.main {
                    main.end = end;
                }
            });
        }
    }
}

async fn read_hello(fd: &AsyncFd<UnixStream>, reader: &mut FrameReader) -> io::Result<Hello> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut magic = None;
    loop {
        if magic.is_none() {
            magic = reader.take(wire::MAGIC.len());
        }
        match &magic {
            Some(bytes) if *bytes != wire::MAGIC => return Err(invalid("not the init's protocol")),
            Some(_) => {
                if let Some((message, _)) = reader.take_frame::<FromInit>()? {
                    let FromInit::Hello(mut hello) = message else { return Err(invalid("no hello")) };
                    hello.date_exits();
                    return Ok(hello);
                }
            }
            None => {}
        }
        let mut guard = fd.readable().await?;
        match guard.try_io(|fd| reader.fill(fd.get_ref())) {
            Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(e)) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Environment, MAGIC, RestartPolicy, VERSION, spool::Bounds};

    fn hello() -> FromInit {
        let (key, mountinfo, processes) = (None, String::new(), Vec::new());
        let (main, ended_ms, trees) = (None, Vec::new(), Vec::new());
        FromInit::Hello(Hello {
            version: VERSION,
            key,
            mountinfo,
            landlock: 0,
            processes,
            main,
            ended_ms,
            trees,
        })
    }

    #[tokio::test]
    async fn a_main_counts_from_when_it_was_sent_so_that_it_is_never_sent_twice() {
        let (init, supervisor) = UnixStream::pair().unwrap();
        let mut writer = FrameWriter::default();
        writer.push_raw(&MAGIC);
        writer.push(&hello(), Vec::new()).unwrap();
        assert!(writer.flush(&init).unwrap());
        let link = Link::new(1);
        let serving = link.clone();
        let terms = Terms { key: [0; 16], known: false, stop_grace: Duration::ZERO };
        let served = tokio::spawn(async move { serving.serve(supervisor, &terms).await });
        link.watch().wait_for(|s| s.connected).await.unwrap();
        assert_eq!(link.main_hash(), None);
        let main = Main {
            hash: 5,
            argv: vec!["true".into()],
            env: Environment::default(),
            cwd: "/".into(),
            restart: RestartPolicy::Always,
            grace_ms: 0,
            spool: Bounds { head: 0, tail: 0 },
        };
        link.set_main(Some(main), Vec::new()).unwrap();
        assert_eq!(link.main_hash(), Some(5));
        drop(init);
        served.await.unwrap().unwrap_or_default();
        assert!(matches!(link.set_main(None, Vec::new()), Err(LinkError::Down)));
        link.container_gone();
        assert_eq!(link.main_hash(), None);
    }
}

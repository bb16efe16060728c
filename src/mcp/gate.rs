//! The gate between a server's output and the client: counts what comes unasked, and shuts.
//!
//! The library below handles every message in a task of its own and keeps answers until they are written, so a server
//! that floods and does not read would fill the supervisor's memory. It would also wait for ever for an answer that
//! was too large: the gate tells of those.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Instant,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::fault::{MAX_MESSAGE, McpFault};

/// Messages that nobody asked for: so many at once, and so many a second for long.
const BURST: f64 = 10_000.0;
const PER_SECOND: f64 = 1_000.0;
/// Messages while the server does not read what it is told.
const UNREAD: u32 = 1_000;
/// Bytes of one message that are read and thrown away before the server is cut off.
const LONGEST: usize = 256 << 20;

/// What both halves of a connection and its requests share.
pub(super) struct Gate {
    state: Mutex<State>,
    /// A write waits for the server to read.
    stalled: AtomicBool,
    /// Counts messages that were too large.
    pub(super) oversized: watch::Sender<u64>,
    /// Over pipes of a process: what cannot be written has nobody to read it.
    piped: bool,
    /// Cancelled to cut the connection off.
    pub(super) shut: CancellationToken,
    /// Cancelled when the connection is of no more use.
    pub(super) over: CancellationToken,
}

struct State {
    /// Messages that may still come unasked.
    room: f64,
    filled: Instant,
    /// Requests without an answer.
    asked: u32,
    unread: u32,
    why: Option<McpFault>,
}

impl Gate {
    pub(super) fn new(piped: bool) -> Arc<Self> {
        let state = State { room: BURST, filled: Instant::now(), asked: 0, unread: 0, why: None };
        Arc::new(Self {
            state: Mutex::new(state),
            stalled: AtomicBool::new(false),
            piped,
            oversized: watch::Sender::default(),
            shut: CancellationToken::new(),
            over: CancellationToken::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is sent: one message more may come.
    pub(super) fn ask(self: &Arc<Self>) -> Asked {
        let mut state = self.lock();
        state.asked += 1;
        state.room = (state.room + 1.0).min(BURST);
        Asked(self.clone())
    }

    /// Why the connection was shut, if it was from here.
    pub(super) fn why(&self) -> Option<McpFault> {
        self.lock().why.clone()
    }

    /// What a fault of the connection comes of.
    pub(super) fn fault(&self, fault: McpFault) -> McpFault {
        match fault {
            McpFault::Closed | McpFault::Cancelled | McpFault::Unreachable(_) if self.why().is_some() => {
                self.why().unwrap_or(fault)
            }
            McpFault::Unreachable(_) if self.piped => McpFault::Closed,
            fault => fault,
        }
    }

    fn flood(&self, why: &'static str) -> McpFault {
        let fault = McpFault::Flood(why);
        self.lock().why.get_or_insert(fault.clone());
        self.shut();
        fault
    }

    /// Cuts the connection off.
    pub(super) fn shut(&self) {
        self.shut.cancel();
        self.over.cancel();
    }

    /// A message came.
    fn message(&self) -> Result<(), McpFault> {
        let stalled = self.stalled.load(Ordering::Relaxed);
        let why = {
            let mut state = self.lock();
            let now = Instant::now();
            let since = now.duration_since(state.filled).as_secs_f64();
            state.filled = now;
            state.room = (state.room + since * PER_SECOND).min(BURST) - 1.0;
            state.unread = if stalled { state.unread + 1 } else { 0 };
            if state.unread > UNREAD {
                Some("it sends without reading what it is told")
            } else if state.room < 0.0 {
                Some("it floods with messages that nobody asked for")
            } else {
                None
            }
        };
        why.map_or(Ok(()), |why| Err(self.flood(why)))
    }

    /// A message was taken from the transport; over pipes it was counted as it was read.
    pub(super) fn taken(&self) -> Result<(), McpFault> {
        if self.piped { Ok(()) } else { self.message() }
    }

    /// A message is too large; `bytes` of it came so far.
    fn large(&self, bytes: usize, first: bool) -> Result<(), McpFault> {
        if bytes > LONGEST || self.lock().asked == 0 {
            return Err(self.flood("it sends a message without end"));
        }
        if first {
            self.oversized.send_modify(|count| *count += 1);
        }
        Ok(())
    }
}

/// A request that waits for its answer.
pub(super) struct Asked(Arc<Gate>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.lock().asked -= 1;
    }
}

/// A server's output behind the gate.
pub(super) struct Read<R> {
    inner: R,
    gate: Arc<Gate>,
    /// Bytes of the message that comes.
    length: usize,
}

impl<R> Read<R> {
    pub(super) fn new(inner: R, gate: Arc<Gate>) -> Self {
        Self { inner, gate, length: 0 }
    }

    fn count(&mut self, bytes: &[u8]) -> Result<(), McpFault> {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let before = self.length;
            self.length += piece.len();
            if self.length > MAX_MESSAGE {
                self.gate.large(self.length, before <= MAX_MESSAGE)?;
            }
            if piece.ends_with(b"\n") {
                self.length = 0;
                self.gate.message()?;
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Read<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        if read.is_empty() {
            self.gate.over.cancel();
        }
        if self.count(read).is_err() {
            // An end, and no error: the gate keeps the reason, and no library writes it into the log.
            buf.set_filled(before);
        }
        Poll::Ready(Ok(()))
    }
}

/// A server's input, which notes when the server does not read it.
pub(super) struct Write<W> {
    inner: W,
    gate: Arc<Gate>,
    /// Whoever still writes when the connection is cut off gives up, although the server reads no more.
    shut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<W> Write<W> {
    pub(super) fn new(inner: W, gate: Arc<Gate>) -> Self {
        let shut = Box::pin(gate.shut.clone().cancelled_owned());
        Self { inner, gate, shut }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Write<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.gate.stalled.store(polled.is_pending(), Ordering::Relaxed);
        if polled.is_pending() && self.shut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

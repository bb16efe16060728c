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
    sync::broadcast::{self, error::RecvError},
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
    /// Tells of messages that were too large: which request they answer, where they say so.
    oversized: broadcast::Sender<Option<String>>,
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
            oversized: broadcast::Sender::new(16),
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

    /// A message is too large; `bytes` of it came so far. Whoever asked for it may have gone meanwhile.
    fn large(&self, bytes: usize, first: bool) -> Result<(), McpFault> {
        if bytes > LONGEST || first && self.lock().asked == 0 {
            return Err(self.flood("it sends a message without end"));
        }
        Ok(())
    }

    /// For requests: tells them of answers that were too large.
    pub(super) fn too_large(&self) -> TooLarge {
        TooLarge(self.oversized.subscribe())
    }
}

/// Hears of messages that were too large.
pub(super) struct TooLarge(broadcast::Receiver<Option<String>>);

impl TooLarge {
    /// Resolves when one came that answers this request, or that may.
    pub(super) async fn answers(&mut self, request: impl Fn() -> Option<String>) {
        loop {
            match self.0.recv().await {
                Ok(Some(id)) if Some(&id) != request().as_ref() => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// The request that a message answers, by the number that stands before or behind its result.
fn answered(head: &[u8], tail: &[u8]) -> Option<String> {
    let dense = |bytes: &[u8]| -> String {
        String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_ascii_whitespace()).collect()
    };
    let number = |text: &str| -> Option<String> {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        Some(digits).filter(|digits| !digits.is_empty())
    };
    let (head, tail) = (dense(head), dense(tail));
    let result = ["\"result\":", "\"error\":"].into_iter().filter_map(|key| head.find(key)).min();
    let before = result.map_or(head.as_str(), |at| &head[..at]);
    if let Some(at) = before.find("\"id\":") {
        return number(&before[at + 5..]);
    }
    let end = tail.strip_suffix('}')?;
    let end = end.strip_suffix(",\"jsonrpc\":\"2.0\"").unwrap_or(end);
    let (_, id) = end.rsplit_once("\"id\":")?;
    number(id).filter(|digits| digits == id)
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
    /// Its first and its last ones.
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// Bytes at each end of a message, among which the number of its request stands.
const EDGE: usize = 256;

impl<R> Read<R> {
    pub(super) fn new(inner: R, gate: Arc<Gate>) -> Self {
        Self { inner, gate, length: 0, head: Vec::new(), tail: Vec::new() }
    }

    fn count(&mut self, bytes: &[u8]) -> Result<(), McpFault> {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let before = self.length;
            self.length += piece.len();
            let room = EDGE.saturating_sub(before).min(piece.len());
            self.head.extend(&piece[..room]);
            if self.length > MAX_MESSAGE {
                self.gate.large(self.length, before <= MAX_MESSAGE)?;
                self.tail.extend(&piece[piece.len().saturating_sub(EDGE)..]);
                self.tail.drain(..self.tail.len().saturating_sub(EDGE));
            }
            if piece.ends_with(b"\n") {
                if self.length > MAX_MESSAGE {
                    drop(self.gate.oversized.send(answered(&self.head, &self.tail)));
                }
                self.length = 0;
                self.head.clear();
                self.tail.clear();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_told_by_its_number_before_or_behind_the_result() {
        let of = |head: &str, tail: &str| answered(head.as_bytes(), tail.as_bytes());
        let seven = Some("7".to_owned());
        assert_eq!(of(r#"{"jsonrpc": "2.0", "id": 7, "result": {"id":8"#, r#""id":9}}"#), seven);
        assert_eq!(of(r#"{"result":{"id":8,"x":"#, "\"xx\"},\"jsonrpc\":\"2.0\",\"id\":7}\r\n"), seven);
        assert_eq!(of(r#"{"result":{"id":8,"x":"#, r#"xx"}, "id": 7, "jsonrpc": "2.0"}"#), seven);
        for (head, tail) in [
            (r#"{"result":{"id":8"#, r#"xx","id":9}}"#),
            (r#"{"result":""#, r#""id":7,"more":1}"#),
            ("xxx", "xxx"),
            (r#"{"id":"a","result":"#, "}"),
        ] {
            assert_eq!(of(head, tail), None, "{head} {tail}");
        }
    }
}

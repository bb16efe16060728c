//! The init's end of the wire: dials the supervisor, for ever, and moves frames.

use std::os::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    unix::net::UnixStream,
};

use skep::wire::{self, FromInit, ToInit, socket::FrameReader, socket::FrameWriter};

use crate::sys;

/// Milliseconds between attempts: the first, and the most.
const RETRY_MS: (u64, u64) = (20, 500);
/// Messages queued beyond this wait in the tables they come from.
const FULL: usize = 1 << 20;

/// A link that is up, or the time of the next attempt.
pub struct Link {
    stream: Option<UnixStream>,
    reader: FrameReader,
    writer: FrameWriter,
    next_attempt: u64,
    delay: u64,
    welcomed: bool,
}

impl Link {
    /// Not connected, due at once.
    pub fn new() -> Self {
        Self {
            stream: None,
            reader: FrameReader::default(),
            writer: FrameWriter::default(),
            next_attempt: 0,
            delay: RETRY_MS.0,
            welcomed: false,
        }
    }

    /// When to look again if nothing happens; none while connected.
    pub fn deadline(&self) -> Option<u64> {
        self.stream.is_none().then_some(self.next_attempt)
    }

    /// Descriptor to poll, and whether there is something to write.
    pub fn poll(&self) -> Option<(BorrowedFd<'_>, bool)> {
        self.stream.as_ref().map(|s| (s.as_fd(), self.writer.queued() > 0))
    }

    /// True when reports may be sent; before the supervisor's welcome only the hello may.
    pub fn ready(&self) -> bool {
        self.stream.is_some() && self.welcomed && self.writer.queued() < FULL
    }

    /// Dials if it is time; true when a link came up and the hello is to be sent.
    pub fn dial(&mut self) -> bool {
        if self.stream.is_some() || sys::monotonic_ms() < self.next_attempt {
            return false;
        }
        match UnixStream::connect(wire::SOCKET).and_then(|s| s.set_nonblocking(true).map(|()| s)) {
            Ok(stream) => {
                self.stream = Some(stream);
                self.writer.push_raw(&wire::MAGIC);
                true
            }
            Err(_) => {
                self.retry_later();
                false
            }
        }
    }

    fn retry_later(&mut self) {
        self.next_attempt = sys::monotonic_ms() + self.delay;
        self.delay = (self.delay * 2).min(RETRY_MS.1);
    }

    /// Ends the link; the next attempt is soon.
    pub fn drop_link(&mut self) {
        let welcomed = self.welcomed;
        *self = Self { delay: self.delay, ..Self::new() };
        if welcomed {
            self.delay = RETRY_MS.0;
        }
        self.retry_later();
    }

    /// The supervisor accepted us.
    pub fn welcome(&mut self) {
        self.welcomed = true;
        self.delay = RETRY_MS.0;
    }

    /// Queues a message. What does not fit a frame is a fault of ours and is dropped.
    pub fn send(&mut self, message: &FromInit, fds: Vec<OwnedFd>) {
        if self.stream.is_some() {
            self.writer.push(message, fds).unwrap_or_default();
        }
    }

    /// Writes what the socket takes; false when the link broke.
    pub fn flush(&mut self) -> bool {
        self.stream.as_ref().is_none_or(|stream| self.writer.flush(stream).is_ok())
    }

    /// Reads what is there; false when the link broke.
    pub fn receive(&mut self, into: &mut Vec<(ToInit, Vec<OwnedFd>)>) -> bool {
        let Some(stream) = &self.stream else { return true };
        match self.reader.fill(stream) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
        loop {
            match self.reader.take_frame::<ToInit>() {
                Ok(Some(message)) => into.push(message),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

//! Frames over a unix stream socket, with descriptors riding along.
//!
//! Non-blocking and synchronous: the init drives it from its poll loop, the supervisor from
//! tokio's readiness. Holds no policy.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::{Serialize, de::DeserializeOwned};

use super::MAX_FRAME;

/// Descriptors that one frame may carry.
const MAX_FDS: usize = 4;
const HEADER: usize = 5;

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Collects bytes and descriptors until a frame is whole.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    start: usize,
    fds: VecDeque<OwnedFd>,
}

impl FrameReader {
    /// Reads once. `Ok(0)` is the end of the stream; `WouldBlock` as the system says it.
    ///
    /// # Errors
    /// Any error of `recvmsg`, and a peer that sends more descriptors than frames can hold.
    pub fn fill(&mut self, fd: &impl AsRawFd) -> io::Result<usize> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let mut chunk = [0u8; 16 * 1024];
        let mut space = nix::cmsg_space!([RawFd; MAX_FDS]);
        let mut iov = [IoSliceMut::new(&mut chunk)];
        let message = recvmsg::<()>(
            fd.as_raw_fd(),
            &mut iov,
            Some(&mut space),
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC,
        )?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(received) = control {
                for raw in received {
                    // SAFETY: the kernel just made this descriptor for us.
                    self.fds.push_back(unsafe { OwnedFd::from_raw_fd(raw) });
                }
            }
        }
        let read = message.bytes;
        self.bytes.extend_from_slice(&chunk[..read]);
        if self.fds.len() > 16 * MAX_FDS {
            return Err(invalid("too many descriptors in flight"));
        }
        Ok(read)
    }

    /// Takes `n` plain bytes (the magic), if they are there.
    pub fn take(&mut self, n: usize) -> Option<Vec<u8>> {
        let taken = self.bytes.get(self.start..self.start + n)?.to_vec();
        self.start += n;
        Some(taken)
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// A frame that is too large, names descriptors that did not come, or does not decode.
    pub fn take_frame<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let buffered = &self.bytes[self.start..];
        let Some(header) = buffered.get(..HEADER) else { return Ok(None) };
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let count = usize::from(header[4]);
        if length > MAX_FRAME || count > MAX_FDS {
            return Err(invalid("frame out of bounds"));
        }
        let Some(payload) = buffered.get(HEADER..HEADER + length) else { return Ok(None) };
        let message = postcard::from_bytes(payload).map_err(|e| invalid(&format!("frame: {e}")))?;
        if self.fds.len() < count {
            return Err(invalid("a frame's descriptors are missing"));
        }
        self.start += HEADER + length;
        Ok(Some((message, self.fds.drain(..count).collect())))
    }
}

/// Keeps frames until the socket takes them.
#[derive(Debug, Default)]
pub struct FrameWriter {
    queue: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    written: usize,
    queued: usize,
}

impl FrameWriter {
    /// Queues plain bytes (the magic).
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.queued += bytes.len();
        self.queue.push_back((bytes.to_vec(), Vec::new()));
    }

    /// Queues a message with its descriptors.
    ///
    /// # Errors
    /// A message over the frame's bounds.
    pub fn push<T: Serialize>(&mut self, message: &T, fds: Vec<OwnedFd>) -> io::Result<()> {
        let mut frame = vec![0; HEADER];
        frame = postcard::to_extend(message, frame).map_err(|e| invalid(&format!("frame: {e}")))?;
        let length = frame.len() - HEADER;
        if length > MAX_FRAME || fds.len() > MAX_FDS {
            return Err(invalid("message too large for a frame"));
        }
        let header = u32::try_from(length).map_err(|_| invalid("message too large for a frame"))?;
        frame[..4].copy_from_slice(&header.to_le_bytes());
        frame[4] = fds.len() as u8;
        self.queued += frame.len();
        self.queue.push_back((frame, fds));
        Ok(())
    }

    /// Bytes that wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Writes what the socket takes; true when nothing is left.
    ///
    /// # Errors
    /// Any error of `sendmsg` but `WouldBlock`, which is `Ok(false)`.
    pub fn flush(&mut self, fd: &impl AsRawFd) -> io::Result<bool> {
        while let Some((frame, fds)) = self.queue.front_mut() {
            let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
            let control = [ControlMessage::ScmRights(&raw)];
            let iov = [IoSlice::new(&frame[self.written..])];
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            let control: &[ControlMessage] = if raw.is_empty() { &[] } else { &control };
            match sendmsg::<()>(fd.as_raw_fd(), &iov, control, flags, None) {
                Ok(n) => {
                    // The descriptors went with the first byte.
                    fds.clear();
                    self.written += n;
                    self.queued -= n;
                    if self.written == frame.len() {
                        self.queue.pop_front();
                        self.written = 0;
                    }
                }
                Err(nix::errno::Errno::EAGAIN) => return Ok(false),
                Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::wire::{Exit, FromInit, Hello, ProcReport, ToInit};

    #[test]
    fn frames_arrive_whole_and_in_order_however_the_socket_cuts_them() {
        let (a, b) = UnixStream::pair().unwrap();
        let mut writer = FrameWriter::default();
        let mut reader = FrameReader::default();
        let long = "x".repeat(700_000);
        for id in 0..3 {
            writer.push(&FromInit::Failed { id, stage: long.clone(), errno: 1 }, vec![]).unwrap();
        }
        let mut seen = 0;
        loop {
            let done = writer.flush(&a).unwrap();
            while let Ok(n) = reader.fill(&b) {
                assert!(n > 0);
            }
            while let Some((message, _)) = reader.take_frame::<FromInit>().unwrap() {
                assert!(
                    matches!(message, FromInit::Failed { id, stage, .. } if id == seen && stage.len() == 700_000)
                );
                seen += 1;
            }
            if done && seen == 3 {
                break;
            }
        }
        assert_eq!(writer.queued(), 0);
    }

    #[test]
    fn descriptors_ride_with_their_frame() {
        let (a, b) = UnixStream::pair().unwrap();
        let mut writer = FrameWriter::default();
        let (read_end, write_end) = nix::unistd::pipe().unwrap();
        writer.push(&ToInit::Ping { token: 1 }, vec![]).unwrap();
        writer.push(&ToInit::Ping { token: 2 }, vec![write_end]).unwrap();
        assert!(writer.flush(&a).unwrap());
        let mut reader = FrameReader::default();
        while reader.fill(&b).is_ok() {}
        let (_, none) = reader.take_frame::<ToInit>().unwrap().unwrap();
        assert!(none.is_empty());
        let (_, fds) = reader.take_frame::<ToInit>().unwrap().unwrap();
        nix::unistd::write(&fds[0], b"hi").unwrap();
        let mut buffer = [0; 2];
        nix::unistd::read(&read_end, &mut buffer).unwrap();
        assert_eq!(&buffer, b"hi");
    }

    #[test]
    fn rubbish_is_an_error_and_never_a_panic() {
        let (a, b) = UnixStream::pair().unwrap();
        nix::unistd::write(&a, &[255; 64]).unwrap();
        let mut reader = FrameReader::default();
        reader.fill(&b).unwrap();
        assert!(reader.take_frame::<FromInit>().is_err());
    }

    #[test]
    fn an_oversized_message_is_refused_before_it_is_queued() {
        let mut writer = FrameWriter::default();
        let stage = "x".repeat(MAX_FRAME + 1);
        assert!(writer.push(&FromInit::Failed { id: 1, stage, errno: 0 }, vec![]).is_err());
        let exit = Exit { code: 0, signal: None, timed_out: false, oom: false, lost: false, ended_ms: None };
        assert!(writer.push(&FromInit::Exited { id: 1, exit, ended_ms: None }, vec![]).is_ok());
    }

    #[test]
    fn an_init_that_does_not_tell_when_trees_ended_is_understood_and_one_that_does_too() {
        let exit = Exit { code: 7, signal: None, timed_out: false, oom: false, lost: false, ended_ms: None };
        let exited = |ended_ms| FromInit::Exited { id: 1, exit, ended_ms };
        let processes = vec![ProcReport { id: 3, pid: 9, end: 0, exit: Some(exit) }];
        let hello = |ended_ms| {
            let (key, mountinfo, processes) = (None, "m".to_owned(), processes.clone());
            FromInit::Hello(Hello {
                version: 2,
                key,
                mountinfo,
                landlock: 0,
                processes,
                main: None,
                ended_ms,
                trees: vec![],
            })
        };
        let told = |message: &FromInit, less: usize| {
            let bytes = postcard::to_allocvec(message).unwrap();
            match postcard::from_bytes(&bytes[..bytes.len() - less]).unwrap() {
                FromInit::Exited { exit: back, ended_ms, .. } => {
                    assert_eq!(back, exit);
                    ended_ms
                }
                FromInit::Hello(mut hello) => {
                    hello.date_exits();
                    hello.processes[0].exit.unwrap().ended_ms
                }
                other => panic!("{other:?}"),
            }
        };
        // What an older init leaves out are the last bytes of empty fields.
        assert_eq!(told(&exited(None), 1), None);
        assert_eq!(told(&hello(vec![]), 2), None);
        assert_eq!(told(&hello(vec![(3, 5)]), 1), Some(5));
        assert_eq!(told(&exited(Some(1_700_000_000_000)), 0), Some(1_700_000_000_000));
        assert_eq!(told(&hello(vec![(3, 5)]), 0), Some(5));
    }
}

//! The master of a terminal as an asynchronous stream.

use std::{
    fs::File,
    io::{self, Read, Write},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf, unix::AsyncFd};

use super::types::TtySize;

/// Reads what the terminal shows. The end of a terminal is an I/O error by tradition; here it is the end.
pub(super) struct Reader(pub Arc<AsyncFd<File>>);

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            match guard.try_io(|fd| fd.get_ref().read(buffer.initialize_unfilled())) {
                Ok(Ok(n)) => {
                    buffer.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(e)) if e.raw_os_error() == Some(libc::EIO) => return Poll::Ready(Ok(())),
                Ok(Err(e)) => return Poll::Ready(Err(e)),
                Err(_) => {}
            }
        }
    }
}

/// Types bytes; what a terminal no longer takes is dropped.
pub(super) async fn write_all(master: &AsyncFd<File>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let Ok(mut guard) = master.writable().await else { return };
        match guard.try_io(|fd| fd.get_ref().write(bytes)) {
            Ok(Ok(n)) => bytes = &bytes[n..],
            Ok(Err(_)) => return,
            Err(_) => {}
        }
    }
}

/// Tells the terminal its size.
pub(super) fn resize(master: &AsyncFd<File>, size: TtySize) {
    let size = rustix::termios::Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    // A terminal that is gone has no size.
    rustix::termios::tcsetwinsize(master.get_ref(), size).unwrap_or_default();
}

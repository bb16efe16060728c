//! Lingering close: an answer given before the whole request was read still reaches its client.
//!
//! A socket that is closed with bytes unread is reset, and what was sent last is lost on the other side:
//! a client that still sends a body that is too large would see a broken connection in place of `413`.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// How long a client may go on sending after the last answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A stream that, when it is shut down, reads and forgets what still comes, for a short time.
pub(super) struct Linger<S> {
    stream: S,
    /// It is no longer HTTP: what still comes is for somebody else to read.
    upgraded: Arc<AtomicBool>,
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> Linger<S> {
    pub(super) fn new(stream: S, upgraded: Arc<AtomicBool>) -> Self {
        Self { stream, upgraded, patience: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Linger<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Linger<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.upgraded.load(Ordering::Relaxed) {
            return Pin::new(&mut this.stream).poll_shutdown(cx);
        }
        if this.patience.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        let patience = this.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
        let mut bytes = [0; 16 * 1024];
        while patience.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::new(&mut bytes);
            // An end that is no clean one is an end too: everything was said.
            if ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buf)).is_err() || buf.filled().is_empty()
            {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair(upgraded: bool) -> (Linger<tokio::net::UnixStream>, tokio::net::UnixStream) {
        let (server, client) = tokio::net::UnixStream::pair().unwrap();
        (Linger::new(server, Arc::new(AtomicBool::new(upgraded))), client)
    }

    #[tokio::test]
    async fn an_answer_arrives_though_its_client_still_sends() {
        let (mut server, mut client) = pair(false);
        let serving = tokio::spawn(async move {
            server.read_exact(&mut [0; 10]).await.unwrap();
            server.write_all(b"too much").await.unwrap();
            server.shutdown().await.unwrap();
        });
        client.write_all(&vec![b'x'; 8 << 20]).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "too much");
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_ends_is_left_after_a_while() {
        let (mut server, client) = pair(false);
        let began = tokio::time::Instant::now();
        server.shutdown().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 2);
        drop(client);
    }

    #[tokio::test]
    async fn nothing_is_taken_from_who_upgraded() {
        let (mut server, mut client) = pair(true);
        client.write_all(b"theirs").await.unwrap();
        server.shutdown().await.unwrap();
        let mut bytes = [0; 6];
        server.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"theirs");
    }
}

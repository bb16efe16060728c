//! Connections: accepted, bounded in number, headers bounded in size and time, ended gracefully.
//!
//! HTTP/1.1 only. Nothing here knows what is served.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::StatusCode,
    serve::{Listener, ListenerExt},
};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use super::{access::Access, linger::Linger};
use crate::{
    app::Hive,
    ids::AgentId,
    supervisor::wall::{self, Whose},
};

/// Connections at a time on one listener; further ones wait to be accepted. HTTP/1.1 handles one
/// request at a time on each, so this bounds requests too.
const MAX_CONNECTIONS: usize = 512;
/// Connections at a time of one agent; further ones are closed at once.
const MAX_AGENT_CONNECTIONS: usize = 32;
/// For a request's head to arrive, and for an idle connection to say something.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes of a request's head from which it is refused (what comes in one read is still taken).
const MAX_HEAD: usize = 64 * 1024;
/// For requests under way when the supervisor stops.
const GRACE: Duration = Duration::from_secs(3);

/// Serves TCP until `shutdown`; returns when the last connection is done or its grace is over.
pub async fn serve_tcp(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let listener = listener.tap_io(|stream| {
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!(error = %e, "cannot send at once");
        }
    });
    serve(listener, router, shutdown).await;
}

/// Serves the operator's socket, likewise.
pub async fn serve_unix(listener: UnixListener, router: Router, shutdown: CancellationToken) {
    serve(listener, router, shutdown).await;
}

async fn serve<L>(mut listener: L, router: Router, shutdown: CancellationToken)
where
    L: Listener,
    L::Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (slots, connections) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), TaskTracker::new());
    loop {
        let accepted = async {
            let slot = slots.clone().acquire_owned().await.ok();
            // A lack of file descriptors passes when others close: the listener tries again by itself.
            (listener.accept().await.0, slot)
        };
        let Some((stream, slot)) = shutdown.run_until_cancelled(accepted).await else { break };
        let connection = serve_connection(stream, router.clone(), None, shutdown.clone(), HEADER_TIMEOUT);
        connections.spawn(async move {
            connection.await;
            drop(slot);
        });
    }
    // Nobody shall wait for an answer that will not come.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Serves HTTP on one connection to its end. Access, when given, is put into each request.
pub(super) async fn serve_connection<S>(
    stream: S,
    router: Router,
    access: Option<Access>,
    shutdown: CancellationToken,
    header_timeout: Duration,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let upgraded = Arc::new(AtomicBool::new(false));
    let stream = Linger::new(stream, upgraded.clone());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (mut request, router, upgraded) = (request.map(Body::new), router.clone(), upgraded.clone());
        if let Some(access) = &access {
            request.extensions_mut().insert(access.clone());
        }
        async move {
            let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                upgraded.store(true, Ordering::Relaxed);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(GRACE, connection).await.ok()
        }
    };
    if let Some(Err(e)) = ended {
        tracing::debug!(error = %e, "a connection broke");
    }
}

/// The agents' doors: one router for all, and each agent's share of connections.
#[derive(Clone)]
pub struct Doors {
    hive: Arc<Hive>,
    router: Router,
    slots: Arc<Mutex<HashMap<AgentId, Arc<Semaphore>>>>,
}

impl Doors {
    /// Doors to a hive.
    #[must_use]
    pub fn new(hive: Arc<Hive>) -> Self {
        Self { router: super::doors_router(hive.clone()), hive, slots: Arc::default() }
    }

    /// Serves one connection that came through an agent's door, to its end; closes it at once when the
    /// agent has too many.
    pub fn serve(
        &self,
        agent: AgentId,
        stream: UnixStream,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let slots =
                slots.entry(agent.clone()).or_insert_with(|| Arc::new(Semaphore::new(MAX_AGENT_CONNECTIONS)));
            slots.clone().try_acquire_owned()
        };
        let (hive, router) = (self.hive.clone(), self.router.clone());
        async move {
            let Ok(_slot) = slot else { return };
            let whose = match hive.find_agent(&agent) {
                Ok(known) => wall::whose(&hive, &known, &stream).await,
                // Its door is about to be closed.
                Err(_) => return,
            };
            let access = match whose {
                Whose::Agents => Access::Agent(agent),
                Whose::Runs(run) => Access::Run { agent, run },
                Whose::Unknown => Access::Unknown(agent),
            };
            serve_connection(stream, router, Some(access), shutdown, HEADER_TIMEOUT).await;
        }
    }
}

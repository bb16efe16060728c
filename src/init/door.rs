//! One socket per agent: the door through which its container reaches the supervisor.
//!
//! Which agent calls is known from the socket. A call that begins with the wire's magic claims to
//! be the init and is handed on with its peer's pid, to be proven; everything else is HTTP.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::PermissionsExt, net::UnixStream as StdUnixStream},
    },
    path::Path,
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::mpsc,
    time::timeout,
};

use crate::{ids::AgentId, wire};

/// The socket's name inside the agent's `skep` folder.
pub const SOCKET_NAME: &str = "api.sock";
/// A caller that says nothing for so long is sent away.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
/// Callers at a time whose first byte is awaited.
const MAX_UNDECIDED: usize = 64;

/// Who came through a door.
#[derive(Debug)]
pub enum Caller {
    /// Claims to be the init. Proven only when `pid` is the container's main process.
    Init {
        /// Whose door.
        agent: AgentId,
        /// The link.
        stream: StdUnixStream,
        /// Pid of the peer, as this host sees it.
        pid: i32,
    },
    /// A process of the agent that speaks HTTP.
    Http {
        /// Whose door.
        agent: AgentId,
        /// The connection.
        stream: UnixStream,
    },
}

/// Binds a socket at `folder/name` for good: under a temporary name first, so that nobody ever finds a
/// socket that nobody listens on; through a descriptor, since socket paths are short.
///
/// # Errors
/// Of the file system or the socket.
pub fn bind(folder: &Path, name: &str, mode: u32) -> io::Result<UnixListener> {
    let directory: OwnedFd = fs::File::open(folder)?.into();
    let temporary = format!(".{name}.new");
    let target = folder.join(&temporary);
    match fs::remove_file(&target) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{temporary}", directory.as_raw_fd()))?;
    fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
    fs::rename(&target, folder.join(name))?;
    Ok(listener)
}

/// Accepts callers until the receiver goes.
pub async fn keep(listener: UnixListener, agent: AgentId, callers: mpsc::Sender<Caller>) {
    let undecided = std::sync::Arc::new(tokio::sync::Semaphore::new(MAX_UNDECIDED));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                tracing::warn!(%agent, error = %e, "cannot accept at the agent's door");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // A flood of silent callers costs the flooder its own connections.
        let Ok(permit) = undecided.clone().try_acquire_owned() else { continue };
        if callers.is_closed() {
            return;
        }
        let (agent, callers) = (agent.clone(), callers.clone());
        tokio::spawn(async move {
            let caller = timeout(FIRST_BYTE_TIMEOUT, decide(stream, agent)).await;
            drop(permit);
            if let Ok(Ok(caller)) = caller {
                callers.send(caller).await.unwrap_or_default();
            }
        });
    }
}

async fn decide(stream: UnixStream, agent: AgentId) -> io::Result<Caller> {
    let mut first = [0u8; 1];
    loop {
        stream.readable().await?;
        let peeked = stream.try_io(tokio::io::Interest::READABLE, || {
            rustix::net::recv(&stream, &mut first, rustix::net::RecvFlags::PEEK).map_err(io::Error::from)
        });
        match peeked {
            Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => break,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    if first[0] != wire::MAGIC[0] {
        return Ok(Caller::Http { agent, stream });
    }
    let pid = stream.peer_cred()?.pid().unwrap_or(0);
    Ok(Caller::Init { agent, stream: stream.into_std()?, pid })
}

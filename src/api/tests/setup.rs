//! The only place that knows how a hive for these tests comes to be: agents `reader`, `writer`, `zoe`;
//! built-in skills `basic-tools`, `cron-tools`, `mail-tools`; processes that echo.

use std::{path::PathBuf, sync::Arc};

use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    api::{Auth, Doors, TcpAuth, operator_router, serve_tcp, serve_unix},
    app::Hive,
    secrets::SecretValue,
};

pub const TOKEN: &str = "correct-horse-battery-staple";

pub fn hive() -> Arc<Hive> {
    Hive::stub()
}

/// Streams and processes that nobody dropped yet.
pub fn living(hive: &Hive) -> usize {
    Arc::strong_count(&hive.attached) - 1
}

/// Every door of one hive, open; the agent's is `writer`'s.
pub struct Open {
    pub hive: Arc<Hive>,
    pub port: u16,
    pub shutdown: CancellationToken,
    pub served: tokio::task::JoinHandle<()>,
    dir: tempfile::TempDir,
    _end: DropGuard,
}

impl Open {
    pub fn operator(&self) -> PathBuf {
        self.dir.path().join("skep.sock")
    }

    pub fn agent(&self) -> PathBuf {
        self.dir.path().join("api.sock")
    }
}

pub async fn open() -> Open {
    let (hive, dir, shutdown) = (hive(), tempfile::tempdir().unwrap(), CancellationToken::new());
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let auth =
        TcpAuth { token: SecretValue::new(TOKEN).unwrap(), port, allowed_hosts: vec!["hive.example".into()] };
    let router = operator_router(hive.clone(), Auth::Tcp(auth));
    let served = tokio::spawn(serve_tcp(tcp, router, shutdown.clone()));
    let unix = UnixListener::bind(dir.path().join("skep.sock")).unwrap();
    tokio::spawn(serve_unix(unix, operator_router(hive.clone(), Auth::Socket), shutdown.clone()));
    let door = UnixListener::bind(dir.path().join("api.sock")).unwrap();
    let (doors, end) = (Doors::new(hive.clone()), shutdown.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = door.accept().await {
            tokio::spawn(doors.serve("writer".parse().unwrap(), stream, end.clone()));
        }
    });
    Open { hive, port, served, dir, _end: shutdown.clone().drop_guard(), shutdown }
}

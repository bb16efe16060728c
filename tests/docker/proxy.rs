//! Stands before an engine's socket and plays its faults: away, silent after the deed, deaf to some paths.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::watch,
};

pub struct Proxy {
    socket: PathBuf,
    rules: Arc<Mutex<Rules>>,
    /// Ends every connection whose last request names this.
    cut: watch::Sender<String>,
    _folder: tempfile::TempDir,
}

#[derive(Default)]
struct Rules {
    away: bool,
    /// Requests that are not forwarded: their connection ends.
    refused: Vec<String>,
    /// Requests that are carried out once each, their answer lost.
    lost: Vec<String>,
}

/// The engine that the tests share.
pub fn shared_engine() -> PathBuf {
    let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
    host.strip_prefix("unix://").expect("an engine on a unix socket").into()
}

impl Proxy {
    pub fn before(engine: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let rules = Arc::new(Mutex::new(Rules::default()));
        let (cut, watched) = watch::channel(String::new());
        let (engine, shared) = (engine.to_owned(), rules.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.lock().unwrap().away {
                    continue;
                }
                let (engine, rules, mut cut) = (engine.clone(), shared.clone(), watched.clone());
                cut.mark_unchanged();
                tokio::spawn(async move {
                    if let Ok(server) = UnixStream::connect(&engine).await {
                        forward(client, server, &rules, &mut cut).await;
                    }
                });
            }
        });
        Self { socket, rules, cut, _folder: folder }
    }

    pub fn host(&self) -> (String, String) {
        ("DOCKER_HOST".into(), format!("unix://{}", self.socket.display()))
    }

    /// Cuts every connection and every new one, or lets them through again.
    pub fn away(&self, away: bool) {
        self.rules.lock().unwrap().away = away;
        if away {
            self.cut.send("/".into()).unwrap_or_default();
        }
    }

    /// Cuts what is asked for such a path now and refuses it from now on.
    pub fn refuse(&self, path: &str) {
        self.rules.lock().unwrap().refused.push(path.into());
        self.cut.send(path.into()).unwrap_or_default();
    }

    pub fn allow_all(&self) {
        self.rules.lock().unwrap().refused.clear();
    }

    /// The next such request is carried out, its answer lost.
    pub fn lose_answer(&self, request: &str) {
        self.rules.lock().unwrap().lost.push(request.into());
    }

    /// Whether every answer that was to be lost was.
    pub fn lost_all(&self) -> bool {
        self.rules.lock().unwrap().lost.is_empty()
    }
}

async fn forward(
    client: UnixStream,
    server: UnixStream,
    rules: &Mutex<Rules>,
    cut: &mut watch::Receiver<String>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut request = String::new();
    loop {
        tokio::select! {
            read = from_client.read(&mut asked) => {
                let Ok(n @ 1..) = read else { return };
                // A client sends no request before the last one's answer: heads begin a read.
                if let Some(head) = head(&asked[..n]) {
                    request = head;
                    if rules.lock().unwrap().refused.iter().any(|path| request.contains(path)) {
                        return;
                    }
                }
                if to_server.write_all(&asked[..n]).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut answered) => {
                let Ok(n @ 1..) = read else { return };
                let lost = {
                    let lost = &mut rules.lock().unwrap().lost;
                    let found = lost.iter().position(|one| request.contains(one));
                    found.map(|at| lost.remove(at))
                };
                if lost.is_some() || to_client.write_all(&answered[..n]).await.is_err() {
                    return;
                }
            }
            changed = cut.changed() => {
                if changed.is_err() || request.contains(cut.borrow_and_update().as_str()) {
                    return;
                }
            }
        }
    }
}

/// Method and path, when this begins a request.
fn head(bytes: &[u8]) -> Option<String> {
    let line = bytes.split(|b| *b == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let is_head = ["GET /", "POST /", "DELETE /", "HEAD /", "PUT /"].iter().any(|m| line.starts_with(m));
    is_head.then(|| line.to_owned())
}

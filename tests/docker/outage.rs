//! An engine that goes away in the middle: a proxy before it cuts connections and loses answers.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use skep::{
    engine::{Engine, EngineError, docker::DockerEngine},
    sandbox::spec::{drift, spec_hash},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::watch,
};

use crate::support::{IMAGE, Trash, World};

/// Stands before the engine's socket.
struct Proxy {
    socket: PathBuf,
    /// Every change cuts all connections; while true, new ones are cut at once.
    away: watch::Sender<bool>,
    /// The next answer to a create is lost: the connection ends instead.
    lose_create: Arc<AtomicBool>,
    _folder: tempfile::TempDir,
}

impl Proxy {
    fn before(engine: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (away, watched) = watch::channel(false);
        let lose_create = Arc::new(AtomicBool::new(false));
        let (engine, lose) = (engine.to_owned(), lose_create.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (engine, lose) = (engine.clone(), lose.clone());
                let mut watched = watched.clone();
                tokio::spawn(async move {
                    if *watched.borrow_and_update() {
                        return;
                    }
                    tokio::select! {
                        () = forward(client, &engine, &lose) => {}
                        _ = watched.changed() => {}
                    }
                });
            }
        });
        Self { socket, away, lose_create, _folder: folder }
    }

    fn client(&self) -> DockerEngine {
        DockerEngine::new(self.socket.to_str())
    }
}

async fn forward(mut client: UnixStream, engine: &Path, lose: &AtomicBool) {
    let mut server = UnixStream::connect(engine).await.unwrap();
    let mut request = vec![0; 1 << 16];
    let n = client.read(&mut request).await.unwrap_or(0);
    server.write_all(&request[..n]).await.unwrap();
    let create = String::from_utf8_lossy(&request[..n]).contains("/containers/create");
    if create && lose.swap(false, Ordering::SeqCst) {
        // The engine has done it when it begins to answer.
        let mut answer = [0; 16];
        server.read_exact(&mut answer).await.unwrap();
        return;
    }
    tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
}

fn engine_socket(world: &World) -> PathBuf {
    let endpoint = world.engine.endpoint();
    let path = endpoint.strip_prefix("unix://").expect("an engine on a unix socket");
    PathBuf::from(path)
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_leaves_a_container_that_can_be_adopted() {
    let world = World::new().await;
    let proxy = Proxy::before(&engine_socket(&world));
    let engine = proxy.client();
    let spec = world.spec("lost", IMAGE, "sleep 60").await;
    world.later(Trash::Container(spec.name.clone()));
    engine.info().await.unwrap();
    proxy.lose_create.store(true, Ordering::SeqCst);
    let lost = engine.create(&spec, &spec_hash(&spec)).await.unwrap_err();
    assert!(matches!(lost, EngineError::Unavailable(_)), "{lost}");
    let listed = engine.list(&world.prefix).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].labels["skep.spec"], spec_hash(&spec));
    let have = engine.inspect(&listed[0].id).await.unwrap();
    assert_eq!(drift(&spec, &have), Vec::<String>::new());
    let again = engine.create(&spec, &spec_hash(&spec)).await.unwrap_err();
    assert!(matches!(again, EngineError::Conflict(_)), "{again}");
}

#[tokio::test]
async fn an_engine_that_goes_away_and_comes_back_is_met_again() {
    let world = World::new().await;
    let proxy = Proxy::before(&engine_socket(&world));
    let engine = Arc::new(proxy.client());
    let spec = world.spec("away", IMAGE, "sleep 1").await;
    let id = world.create(&spec).await.unwrap();
    let (into, mut events) = tokio::sync::mpsc::channel(8);
    let (watching, hive) = (engine.clone(), world.prefix.clone());
    let stream = tokio::spawn(async move { watching.events(&hive, into).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    engine.start(&id).await.unwrap();
    assert_eq!(events.recv().await.unwrap().action, "start");

    proxy.away.send(true).unwrap();
    let end = tokio::time::timeout(Duration::from_secs(5), stream).await;
    let end = end.expect("the stream ends").unwrap().unwrap_err();
    assert!(matches!(end, EngineError::Unavailable(_)), "{end}");
    let error = engine.list(&world.prefix).await.unwrap_err();
    assert!(matches!(error, EngineError::Unavailable(_)), "{error}");

    proxy.away.send(false).unwrap();
    let listed = engine.list(&world.prefix).await.unwrap();
    assert_eq!(listed.len(), 1);
}

//! A hive with a fake engine and nothing running: agents `reader`, `writer` (with a soul) and `zoe`; skills
//! `alpha-tools` and `zeta-tools` beside the built-in ones.

use std::{fs, path::PathBuf, sync::Arc};

use tokio::{
    net::{TcpListener, UnixListener},
    sync::mpsc,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    api::{Auth, Doors, TcpAuth, operator_router, serve_tcp, serve_unix},
    app::{
        Hive,
        hive::Parts,
        world::{UpdateScope, World},
    },
    config,
    db::Db,
    engine::fake::FakeEngine,
    images::{BuildOptions, Images},
    paths::HivePaths,
    registry::store::Store,
    secrets::SecretValue,
};

pub const TOKEN: &str = "correct-horse-battery-staple";

const CONFIG: &str = r#"
[hive]
name = "demo"
[api]
agent_requests_per_second = 1000
[agents.reader]
[agents.zoe]
[agents.writer]
soul = "souls/writer.md"
skills = ["alpha-tools@0.0.0"]
"#;

/// For jobs: `writer` follows instructions, and has tools as `reader` does.
pub const JOBS: &str = r#"
[hive]
name = "demo"
timezone = "Europe/Berlin"
default_agent = "writer"
[agents.reader]
skills = ["basic-tools@^1"]
[agents.zoe]
[agents.writer]
skills = ["alpha-tools@0.0.0", "basic-tools@^1"]
command = ["true"]
"#;

pub async fn hive(root: &std::path::Path) -> Arc<Hive> {
    hive_with(root, CONFIG).await
}

/// With another `skep.toml`.
pub async fn hive_with(root: &std::path::Path, config: &str) -> Arc<Hive> {
    fs::write(root.join("skep.toml"), config).unwrap();
    fs::create_dir_all(root.join("souls")).unwrap();
    fs::write(root.join("souls/writer.md"), "# Writer\n").unwrap();
    for skill in ["alpha-tools", "zeta-tools"] {
        let folder = root.join("skills").join(skill);
        fs::create_dir_all(&folder).unwrap();
        let text = format!("---\nname: {skill}\ndescription: For tests.\n---\n\nNothing.\n");
        fs::write(folder.join("SKILL.md"), text).unwrap();
    }
    let paths = HivePaths::new(root.to_owned());
    fs::create_dir_all(paths.agents()).unwrap();
    let engine = Arc::new(FakeEngine::new());
    let hive = Hive::new(Parts {
        name: "demo".parse().unwrap(),
        images: Images::new(engine.clone(), BuildOptions::default()),
        engine,
        db: Db::open(&paths.database()).unwrap(),
        store: Store::open(&paths.store()).unwrap(),
        init: paths.bin().join("skep-init"),
        world: World::new(config::load(root).unwrap()),
        callers: mpsc::channel(1).0,
        paths,
    });
    hive.refresh(&UpdateScope::default()).await;
    hive
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
    open_with(CONFIG).await
}

/// With another `skep.toml`.
pub async fn open_with(config: &str) -> Open {
    let (dir, shutdown) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let hive = hive_with(dir.path(), config).await;
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

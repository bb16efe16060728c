//! The supervisor as a process: builds everything, starts it, stops it.
//!
//! Its end leaves nothing half done: what it was told is in the database, and what runs goes on without it
//! unless it was told to stop the agents.

mod log;

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use jiff::Timestamp;
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{self, Auth, TcpAuth},
    app::{
        Hive, agent_skills, health,
        hive::Parts,
        mail, model_watch, runs,
        world::{UpdateScope, World},
    },
    config::{self, ConfigError, Env},
    db::{
        self, Db,
        lock::{HiveLock, Holder},
    },
    engine::{Engine, docker::DockerEngine},
    images::{BuildOptions, Images},
    init::{
        binary,
        door::{self, Caller},
    },
    notify::{self, outbox},
    paths::HivePaths,
    registry::store::Store,
    secrets::SecretValue,
    supervisor::{doors, driver},
    watcher::{Targets, Watcher},
};

/// How a supervisor is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of the hive.
    pub dir: PathBuf,
    /// Without a terminal: it logs to its own rotating file.
    pub detached: bool,
    /// What is logged when `SKEP_LOG` does not say; none: what an operator wants to know.
    pub log: Option<String>,
}

/// Everything is read anew this often when no change was noticed.
const SWEEP: Duration = Duration::from_secs(60);
/// Open requests get so long at the end.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs the supervisor of a hive. SIGINT ends it with its agents; SIGTERM ends it and lets them run on.
///
/// # Errors
/// It could not start: the configuration is wrong, another supervisor runs, a file or socket is not to be had.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let root = options.dir.canonicalize().with_context(|| format!("no folder {}", options.dir.display()))?;
    let paths = HivePaths::new(root);
    let mut env = Env::read();
    env.log = env.log.or(options.log);
    #[cfg(feature = "failpoints")]
    crate::fault::arm(env.kill_at.as_deref().unwrap_or_default());
    let loaded = load_config(&paths)?;
    make_state_folder(&paths)?;
    log::start(&paths, &env, options.detached)?;
    let holder = Holder {
        pid: std::process::id(),
        started_at: Timestamp::now(),
        socket: paths.socket().display().to_string(),
    };
    let _lock = HiveLock::acquire(&paths.state().join("supervisor.lock"), &holder)?;
    let (callers, incoming) = mpsc::channel(256);
    let (listen, written) = (loaded.config.api.listen, loaded.config.api.listen_written);
    let allowed_hosts = loaded.config.api.allowed_hosts.clone();
    let hive = build(paths, &env, loaded, callers).await?;
    refuse_taken_name(&hive).await?;
    hive.recall_tools().await?;
    hive.refresh(&UpdateScope::default()).await;

    let served = CancellationToken::new();
    let mut tasks = JoinSet::new();
    open_api(&hive, listen, written, allowed_hosts, &served, &mut tasks).await?;
    tasks.spawn(answer_doors(hive.clone(), incoming, served.clone()));
    tasks.spawn(watch_files(hive.clone()));
    tasks.spawn(runs::driver::run(hive.clone()));
    tasks.spawn(agent_skills::run(hive.clone()));
    tasks.spawn(mail::run(hive.clone()));
    tasks.spawn(deliver_notices(hive.clone()));
    tasks.spawn(health::run(hive.clone()));
    tasks.spawn(model_watch::run(hive.clone()));
    tasks.spawn(wait_for_signals(hive.clone()));
    tracing::info!(hive = %hive.name, root = %hive.paths.root.display(), "the supervisor is up");
    driver::run(hive.clone()).await;
    served.cancel();
    tokio::time::timeout(DRAIN, async { while tasks.join_next().await.is_some() {} })
        .await
        .unwrap_or_default();
    tasks.abort_all();
    fs::remove_file(hive.paths.socket())
        .or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
    tracing::info!("the supervisor is down");
    Ok(())
}

fn load_config(paths: &HivePaths) -> anyhow::Result<config::Loaded> {
    match config::load(&paths.root) {
        Ok(loaded) => Ok(loaded),
        Err(ConfigError::Invalid { faults, text }) => {
            bail!("skep.toml is refused\n{}", config::render(&faults, &text, false))
        }
        Err(e) => Err(e.into()),
    }
}

fn make_state_folder(paths: &HivePaths) -> anyhow::Result<()> {
    let state = paths.state();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&state)
        .with_context(|| format!("cannot make {}", state.display()))?;
    for folder in [paths.agents(), paths.bin(), state.join("logs")] {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    Ok(())
}

async fn build(
    paths: HivePaths,
    env: &Env,
    loaded: config::Loaded,
    callers: mpsc::Sender<Caller>,
) -> anyhow::Result<Arc<Hive>> {
    let engine: Arc<dyn Engine> = Arc::new(DockerEngine::new(env.docker_host.as_deref()));
    let options = BuildOptions {
        ca_bundle: loaded.config.ca_bundle.as_ref().map(|p| paths.resolve(p)),
        args: env.builds.clone(),
        endpoint: env.docker_host.clone(),
        ..BuildOptions::default()
    };
    let database = paths.database();
    let db = tokio::task::spawn_blocking(move || Db::open(&database)).await??;
    let store = Store::open(&paths.store())?;
    let keep = db.read(db::skills::digests).await?;
    let swept = {
        let store = store.clone();
        tokio::task::spawn_blocking(move || store.sweep(&keep)).await??
    };
    if swept.entries + swept.staged > 0 {
        tracing::info!(entries = swept.entries, staged = swept.staged, "swept the store");
    }
    db.write(|tx| db::meta::hive_id(tx).map(|_| ())).await.map_err(|e: db::DbError| e)?;
    let init = binary::install(&paths.bin()).context("cannot install the init program")?;
    Ok(Hive::new(Parts {
        name: loaded.config.name.clone(),
        images: Images::new(engine.clone(), options),
        engine,
        db,
        store,
        init,
        world: World::new(loaded),
        callers,
        paths,
    }))
}

/// Containers are named after their hive, so that two hives of one name would take each other's.
async fn refuse_taken_name(hive: &Hive) -> anyhow::Result<()> {
    // An engine that does not answer is waited for later; the driver leaves strangers alone.
    let listing = hive.engine.list(hive.name.as_str()).await.unwrap_or_default();
    if let Some(root) = listing.iter().find_map(|container| hive.stranger(container)) {
        bail!(
            "the hive {} in {} has containers on this engine already; give this one another `[hive] name` in \
             skep.toml, or end that one with `skep --dir {} down`",
            hive.name,
            root.display(),
            root.display()
        );
    }
    Ok(())
}

async fn open_api(
    hive: &Arc<Hive>,
    listen: Option<std::net::SocketAddr>,
    written: bool,
    allowed_hosts: Vec<String>,
    served: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let name = hive.paths.socket();
    let name = name.file_name().and_then(|n| n.to_str()).unwrap_or("skep.sock").to_owned();
    let listener = door::bind(&hive.paths.state(), &name, 0o600)
        .with_context(|| format!("cannot listen on {}", hive.paths.socket().display()))?;
    tasks.spawn(api::serve_unix(listener, api::operator_router(hive.clone(), Auth::Socket), served.clone()));
    let Some(address) = listen else { return Ok(()) };
    let token = token(&hive.paths.token())?;
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        // The default is the same for every hive of a machine; the socket serves each of them.
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && !written => {
            tracing::warn!(%address, "the address is taken, so there is no TCP; set another `[api] listen`");
            return Ok(());
        }
        Err(e) => {
            return Err(e).with_context(|| {
                format!("cannot listen on {address}; set another `[api] listen` in skep.toml, or \"none\"")
            });
        }
    };
    let port = listener.local_addr()?.port();
    let auth = Auth::Tcp(TcpAuth { token, port, allowed_hosts });
    tasks.spawn(api::serve_tcp(listener, api::operator_router(hive.clone(), auth), served.clone()));
    tracing::info!(%address, "listening; the token is in .skep/token");
    Ok(())
}

/// The token of the TCP API, made at the first start.
fn token(path: &Path) -> anyhow::Result<SecretValue> {
    let text = match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => text,
        Ok(_) => make_token(path)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => make_token(path)?,
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    Ok(SecretValue::new(text.trim())?)
}

fn make_token(path: &Path) -> anyhow::Result<String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).context("the system gives no randomness")?;
    let token = hex::encode(random);
    // Made closed, before it holds anything.
    fs::File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    fs::write(path, format!("{token}\n")).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(token)
}

async fn answer_doors(hive: Arc<Hive>, mut incoming: mpsc::Receiver<Caller>, served: CancellationToken) {
    let web = api::Doors::new(hive.clone());
    loop {
        let caller = tokio::select! {
            caller = incoming.recv() => caller,
            () = served.cancelled() => return,
        };
        match caller {
            Some(Caller::Init { agent, stream, pid }) => {
                tokio::spawn(doors::serve_init(hive.clone(), agent, stream, pid));
            }
            Some(Caller::Http { agent, stream }) => {
                tokio::spawn(web.serve(agent, stream, served.clone()));
            }
            None => return,
        }
    }
}

fn targets(hive: &Hive) -> Targets {
    let config = hive.world().config.clone();
    let mut targets = Targets::default();
    targets.files.extend([
        hive.paths.config(),
        hive.paths.lock(),
        hive.paths.variables(),
        hive.paths.resolve(&config.secrets_file),
    ]);
    targets.files.extend(config.agents.values().filter_map(|a| Some(hive.paths.resolve(a.soul.as_ref()?))));
    for source in &config.registry.sources {
        // As a file too: a source that comes later is noticed through the folder above it.
        targets.files.insert(hive.paths.resolve(source));
        targets.trees.insert(hive.paths.resolve(source));
    }
    targets
}

async fn watch_files(hive: Arc<Hive>) {
    let mut watcher = match Watcher::new() {
        Ok(watcher) => watcher,
        Err(e) => {
            tracing::warn!("{e}; changes are noticed every {} s", SWEEP.as_secs());
            loop {
                tokio::time::sleep(SWEEP).await;
                hive.refresh(&UpdateScope::default()).await;
            }
        }
    };
    loop {
        for problem in watcher.watch(targets(&hive)) {
            tracing::warn!("{problem}; changes there are noticed every {} s", SWEEP.as_secs());
        }
        tokio::select! {
            () = watcher.changed() => tracing::debug!("files changed"),
            () = tokio::time::sleep(SWEEP) => {}
            () = hive.stopping.cancelled() => return,
        }
        hive.refresh(&UpdateScope::default()).await;
    }
}

async fn deliver_notices(hive: Arc<Hive>) {
    let (wanted, clock) = (hive.clone(), hive.clone());
    let targets = move || {
        let world = wanted.world();
        let bundle = world.config.ca_bundle.as_ref().map(|bundle| wanted.paths.root.join(bundle));
        Arc::new(notify::Targets::resolve(&world.config.notify, &world.secrets).trusting(bundle))
    };
    let clock = Arc::new(move || clock.now());
    outbox::run(hive.db.clone(), targets, clock, outbox::Pace::default(), hive.stopping.clone()).await;
}

async fn wait_for_signals(hive: Arc<Hive>) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::error!("cannot listen for signals");
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {
            tracing::info!("stopping, with the agents");
            hive.shutdown(true);
        }
        _ = terminate.recv() => {
            tracing::info!("stopping; the agents run on");
            hive.shutdown(false);
        }
        () = hive.stopping.cancelled() => {}
    }
}

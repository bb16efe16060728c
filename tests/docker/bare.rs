//! A bare container with the real init and a test at the other end of its link: no supervisor.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use skep::{
    init::{
        binary, door,
        door::Caller,
        link::{Link, Started, Terms},
    },
    wire::{Environment, Exit, Io, ProcId, Start},
};
use tokio::{io::AsyncReadExt, net::unix::pipe, sync::mpsc, time::timeout};

const KEY: skep::wire::Key = [7; 16];
pub const IMAGE: &str = "skep-agent:latest";
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the docker command line and returns its standard output; panics with its error.
pub fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().expect("the docker command line");
    assert!(
        output.status.success(),
        "docker {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A running container, removed when dropped.
pub struct Bare {
    pub folder: tempfile::TempDir,
    pub name: String,
    pub link: Arc<Link>,
    pub callers: mpsc::Receiver<Caller>,
    door: tokio::task::JoinHandle<()>,
    welcomed: bool,
    serve: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
}

impl Drop for Bare {
    fn drop(&mut self) {
        Command::new("docker").args(["rm", "-f", &self.name]).output().ok();
    }
}

impl Bare {
    /// A container as hardened as an agent's, its init connected.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub async fn start_with(extra: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::tempdir().unwrap();
        let name = format!("skep-bare-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let skep = folder.path().join("skep");
        std::fs::create_dir(&skep).unwrap();
        let init = binary::install(folder.path()).unwrap();
        std::fs::hard_link(init, skep.join("init")).unwrap();
        let (door, callers) = Self::open_door(&skep);
        let mount = format!("{}:/skep:ro", skep.display());
        let mut args = vec![
            "run",
            "-d",
            "--name",
            &name,
            "--network=none",
            "--read-only",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            "--user=1234567:1234567",
            "--memory=256m",
            "--memory-swap=256m",
            "--pids-limit=256",
            "--tmpfs=/workspace:uid=1234567,gid=1234567,mode=700,exec",
            "--tmpfs=/tmp:mode=1777,exec",
            "-e",
            "HOME=/workspace/home",
            "-w",
            "/workspace",
            "-v",
            &mount,
        ];
        args.extend(extra);
        args.extend(["--entrypoint=/skep/init", IMAGE]);
        docker(&args);
        let link = Link::new(1);
        let mut bare = Self { folder, name, link, callers, door, welcomed: false, serve: None };
        bare.accept().await;
        bare
    }

    fn open_door(skep: &Path) -> (tokio::task::JoinHandle<()>, mpsc::Receiver<Caller>) {
        let listener = door::bind(skep, door::SOCKET_NAME, 0o666).unwrap();
        let (sender, callers) = mpsc::channel(16);
        (tokio::spawn(door::keep(listener, "bare".parse().unwrap(), sender)), callers)
    }

    /// Waits for the init and serves its link.
    pub async fn accept(&mut self) {
        let caller = timeout(PATIENCE, self.callers.recv()).await.expect("the init dials").unwrap();
        let Caller::Init { stream, pid, .. } = caller else { panic!("HTTP at the door") };
        assert_eq!(pid.to_string(), self.inspect("{{.State.Pid}}"), "the caller is the main process");
        let link = self.link.clone();
        let terms = Terms { key: KEY, known: self.welcomed, stop_grace: Duration::from_secs(1) };
        self.welcomed = true;
        self.serve = Some(tokio::spawn(async move { link.serve(stream, &terms).await }));
        let mut status = self.link.watch();
        timeout(PATIENCE, status.wait_for(|s| s.connected)).await.expect("a hello").unwrap();
    }

    /// As a supervisor that was killed and started again.
    pub async fn lose_link(&mut self) {
        self.door.abort();
        if let Some(serve) = self.serve.take() {
            serve.abort();
            serve.await.ok();
        }
        self.link = Link::new(2);
    }

    pub async fn find_link(&mut self) {
        let (door, callers) = Self::open_door(&self.folder.path().join("skep"));
        (self.door, self.callers) = (door, callers);
        self.accept().await;
    }

    pub fn inspect(&self, format: &str) -> String {
        docker(&["inspect", "-f", format, &self.name])
    }

    pub fn request(&self, argv: &[&str]) -> Start {
        Start {
            id: self.link.next_id(),
            argv: argv.iter().map(|a| (*a).to_owned()).collect(),
            env: Environment::default(),
            cwd: "/workspace".into(),
            not_before_us: None,
            timeout_ms: None,
            grace_ms: 500,
            bound: true,
            held_to: None,
            io: Io::Stream,
        }
    }

    pub async fn spawn(&self, argv: &[&str]) -> Started {
        self.link.start(self.request(argv), vec![]).await.unwrap()
    }

    /// Runs a command to its end: standard output, standard error, exit.
    pub async fn run(&self, argv: &[&str]) -> (String, String, Exit) {
        finish(self.spawn(argv).await).await
    }

    pub async fn sh(&self, script: &str) -> (String, String, Exit) {
        self.run(&["bash", "-c", script]).await
    }

    pub fn end(&self, id: ProcId, grace: Duration) {
        self.link.end(id, grace);
    }
}

/// Closes standard input, reads both outputs to their end, waits for the exit.
pub async fn finish(started: Started) -> (String, String, Exit) {
    let mut fds = started.fds.into_iter();
    drop(fds.next());
    let mut out = pipe::Receiver::from_owned_fd(fds.next().unwrap()).unwrap();
    let mut err = pipe::Receiver::from_owned_fd(fds.next().unwrap()).unwrap();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let both = async { tokio::try_join!(out.read_to_end(&mut a), err.read_to_end(&mut b)) };
    timeout(PATIENCE, both).await.expect("streams end").unwrap();
    let exit = timeout(PATIENCE, started.exit).await.expect("an exit").expect("the link holds");
    (String::from_utf8_lossy(&a).into(), String::from_utf8_lossy(&b).into(), exit)
}

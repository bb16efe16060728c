//! Supervisors that are killed, and two of them at once: what runs goes on, what was promised is kept.

use std::{
    collections::BTreeMap,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    bare::docker,
    hive::{PATIENCE, TestHive},
    support::IMAGE,
};

/// Small and quick; each run of a test goes another way, and prints which.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let seed = u64::try_from(seed & u128::from(u64::MAX)).unwrap() | 1;
        eprintln!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Files that something was in the middle of writing.
fn half_done(hive: &TestHive) -> Vec<String> {
    walkdir::WalkDir::new(hive.dir.path())
        .min_depth(1)
        .into_iter()
        .flatten()
        .map(|entry| entry.path().strip_prefix(hive.dir.path()).unwrap().display().to_string())
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap();
            name.starts_with(".tmp") || name.ends_with(".new") || path.contains("staging/")
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_killed_at_any_moment_doubles_nothing_and_keeps_every_promise() {
    let config = |memory: u64| {
        ["a", "b", "c"]
            .map(|n| format!("[agents.{n}]\nstop_grace = \"1s\"\nmemory = \"{memory}MiB\"\n"))
            .concat()
    };
    let mut hive = TestHive::new(&config(64));
    let mut dice = Dice::new();
    let mut wanted: BTreeMap<&str, bool> = ["a", "b", "c"].map(|n| (n, true)).into();
    // Containers that a restart was promised for.
    let mut doomed: Vec<String> = Vec::new();
    let (began, mut memory, mut kills) = (Instant::now(), 64, 0);
    while began.elapsed() < Duration::from_secs(14) {
        hive.spawn();
        let up = Instant::now();
        while hive.try_get("/healthz").await.is_none() {
            assert!(up.elapsed() < PATIENCE, "not up: {}", hive.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for _ in 0..=dice.below(2) {
            let agent = ["a", "b", "c"][usize::try_from(dice.below(3)).unwrap()];
            let verb = ["stop", "start", "restart", "replace"][usize::try_from(dice.below(4)).unwrap()];
            if verb == "replace" {
                memory = 64 + dice.below(8);
                hive.configure(&config(memory));
            } else {
                let had = hive.agent(agent).await["container_id"].as_str().map(str::to_owned);
                let (status, answer) = hive.send("POST", &format!("/v1/agents/{agent}/{verb}"), None).await;
                assert_eq!(status, 202, "{answer}");
                wanted.insert(agent, verb != "stop");
                doomed.extend(had.filter(|_| verb == "restart"));
            }
            tokio::time::sleep(Duration::from_millis(dice.below(700))).await;
        }
        hive.kill();
        kills += 1;
    }
    eprintln!("{kills} kills");
    hive.start().await;
    for (agent, running) in &wanted {
        hive.until(agent, "as promised", |view| {
            view["status"] == if *running { "running" } else { "stopped" }
                && view["container_id"].as_str().is_none_or(|id| !doomed.iter().any(|d| d == id))
        })
        .await;
    }
    for (agent, running) in wanted.iter().filter(|(_, running)| **running) {
        assert_eq!(hive.inspect(agent, "{{.State.Running}}"), running.to_string());
        assert_eq!(hive.inspect(agent, "{{.HostConfig.Memory}}"), (memory << 20).to_string());
        assert_eq!(hive.sh(agent, "echo here").await["stdout"], "here\n");
    }
    assert_eq!(hive.containers().len(), wanted.values().filter(|running| **running).count());
    assert_eq!(half_done(&hive), Vec::<String>::new());
}

/// Numbers of the lines `line N`, in order.
fn numbers(log: &str) -> Vec<u64> {
    log.lines()
        .map(|line| line.strip_prefix("line ").unwrap_or_else(|| panic!("{line:?}")).parse().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_goes_on_without_its_supervisor_and_none_of_its_output_is_lost() {
    let mut hive = TestHive::up(
        "[agents.a]\nmain = [\"bash\", \"-c\", \"for ((i = 0; ; i++)); do echo line $i; sleep 0.005; done\"]\n",
    )
    .await;
    let before = hive.until("a", "talking", |v| v["main"]["state"] == "running").await;
    for _ in 0..3 {
        let had = numbers(&hive.text("/v1/agents/a/logs").await).len();
        hive.kill();
        // Long enough for what it says to be more than a pipe's buffer would hold at this rate.
        tokio::time::sleep(Duration::from_millis(700)).await;
        hive.start().await;
        let after = hive.until("a", "adopted", |v| v["status"] == "running" && v["main"].is_object()).await;
        for same in ["container_id", "restarts", "main"] {
            assert_eq!(after[same], before[same], "{same}");
        }
        let log = hive.text("/v1/agents/a/logs").await;
        // The last line may be in the middle of being written.
        let whole = &log[..=log.rfind('\n').unwrap()];
        let numbers = numbers(whole);
        assert!(numbers.len() > had + 50, "{} lines after {had}", numbers.len());
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "every line, once, in order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_main_that_ends_while_nobody_looks_is_shown_with_its_true_exit_code() {
    let mut hive = TestHive::up(
        "[agents.a]\nmain = [\"bash\", \"-c\", \"until [ -e /workspace/go ]; do sleep 0.02; done; echo bye; exit 7\"]\nmain_restart = \"never\"\n",
    )
    .await;
    hive.until("a", "waiting", |v| v["main"]["state"] == "running").await;
    hive.kill();
    std::fs::write(hive.agent_dir("a").join("workspace/go"), "").unwrap();
    let began = Instant::now();
    while docker(&["top", &hive.container("a"), "-o", "pid,args"]).contains("until [") {
        assert!(began.elapsed() < PATIENCE, "main does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    hive.start().await;
    let view = hive.until("a", "told of the end", |v| v["main"]["state"] == "done").await;
    assert_eq!(view["main"]["exit_code"], 7, "{view:#}");
    assert_eq!(view["main"]["restarts"], 0);
    assert_eq!(hive.text("/v1/agents/a/logs").await, "bye\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_supervisor_is_refused_and_told_of_the_first() {
    let hive = TestHive::up("[agents.a]\n").await;
    let id = hive.running("a").await["container_id"].clone();
    let second = Command::new(env!("CARGO_BIN_EXE_skep"))
        .arg("--dir")
        .arg(hive.dir.path())
        .arg("up")
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&second.stdout), String::from_utf8_lossy(&second.stderr));
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {}", hive.pid())) && said.contains("skep down"), "{said}");
    assert_eq!(hive.get("/v1/hive").await["pid"], hive.pid());
    assert_eq!(hive.running("a").await["container_id"], id);
    assert_eq!(hive.sh("a", "echo here").await["stdout"], "here\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_that_no_agent_owns_go_and_those_of_other_hives_stay() {
    let mut hive = TestHive::new("[agents.a]\n");
    let label = format!("skep.hive={}", hive.name);
    let other = format!("skep.hive={}-other", hive.name);
    let make = |label: &str, agent: &str, name: &str| {
        let agent = format!("skep.agent={agent}");
        docker(&[
            "run",
            "-d",
            "--network=none",
            "--label",
            label,
            "--label",
            &agent,
            "--name",
            name,
            IMAGE,
            "sleep",
            "600",
        ])
    };
    let foreign = make(&other, "a", &format!("{}-foreign", hive.name));
    let ghost = make(&label, "ghost", &hive.container("ghost"));
    let twin = make(&label, "a", &format!("{}-twin", hive.container("a")));
    let nameless = make(&label, "Not A Name", &format!("{}-odd", hive.name));
    hive.start().await;
    let own = hive.running("a").await;
    let began = Instant::now();
    while hive.containers().len() > 1 && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = hive.containers();
    let running = docker(&["inspect", "-f", "{{.State.Running}}", &foreign]);
    docker(&["rm", "-f", &foreign]);
    assert_eq!(left, [own["container_id"].as_str().unwrap()], "gone: {ghost} {twin} {nameless}");
    assert_eq!(running, "true");
}

/// What a supervisor and its hive hold at a moment.
#[derive(Debug, PartialEq)]
struct Held {
    descriptors: usize,
    files: usize,
    containers: usize,
    networks: usize,
}

fn held(hive: &TestHive) -> Held {
    let networks = docker(&["network", "ls", "-q", "--filter", &format!("label=skep.hive={}", hive.name)]);
    let volatile = |path: &str| path.contains("/.skep/skep.db") || path.ends_with("supervisor.log");
    Held {
        descriptors: std::fs::read_dir(format!("/proc/{}/fd", hive.pid())).unwrap().count(),
        files: walkdir::WalkDir::new(hive.dir.path())
            .into_iter()
            .flatten()
            .filter(|e| !volatile(&e.path().display().to_string()))
            .count(),
        containers: hive.containers().len(),
        networks: networks.lines().count(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_starts_and_stops_leave_nothing_behind() {
    let agents = ["a", "b", "c"];
    let config =
        agents.map(|n| format!("[agents.{n}]\nmain = [\"sleep\", \"600\"]\nstop_grace = \"1s\"\n")).concat();
    let hive = TestHive::up(&config).await;
    let volumes = docker(&["volume", "ls", "-q"]).lines().count();
    let all = async |verb: &str, status: &str| {
        for agent in agents {
            assert_eq!(hive.send("POST", &format!("/v1/agents/{agent}/{verb}"), None).await.0, 202);
        }
        for agent in agents {
            hive.status(agent, status).await;
        }
    };
    all("start", "running").await;
    all("stop", "stopped").await;
    all("start", "running").await;
    all("stop", "stopped").await;
    let before = held(&hive);
    for _ in 0..10 {
        all("start", "running").await;
        all("stop", "stopped").await;
    }
    let began = Instant::now();
    let mut after = held(&hive);
    // Connections to the engine and the database are kept for a while; what leaks does so thirty times.
    while after.descriptors > before.descriptors + 4 && began.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        after = held(&hive);
    }
    assert!(after.descriptors <= before.descriptors + 4, "{before:?} {after:?}");
    assert_eq!(Held { descriptors: 0, ..after }, Held { descriptors: 0, ..before });
    assert!(docker(&["volume", "ls", "-q"]).lines().count() <= volumes + 2, "no volumes of ours");
    assert_eq!(half_done(&hive), Vec::<String>::new());
    assert_eq!(hive.agent("a").await["restarts"], Value::from(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hives_share_a_machine_though_both_would_listen_on_the_same_address() {
    let first = std::net::TcpListener::bind("127.0.0.1:7117").ok();
    let mut hive = TestHive::new("");
    hive.write("skep.toml", &format!("[hive]\nname = \"{}\"\n[agents.a]\n", hive.name));
    hive.start().await;
    hive.running("a").await;
    assert!(hive.log().contains("no TCP"), "{}", hive.log());
    hive.kill();
    let taken = first.as_ref().map_or(7117, |l| l.local_addr().unwrap().port());
    let text = format!("[hive]\nname = \"{}\"\n[api]\nlisten = \"127.0.0.1:{taken}\"\n", hive.name);
    hive.write("skep.toml", &text);
    hive.spawn();
    let (code, log) = hive.ended().await;
    assert_ne!(code, 0);
    assert!(log.contains("set another `[api] listen`"), "{log}");
}

//! Hazard 23: a hostile agent attacks from inside; every attack fails, and its neighbours notice nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{bare::docker, hive::TestHive};

const ATTACKS: &str = include_str!("attacks.sh");

/// Says what held; panics with everything that did not.
fn judge(output: &str) -> usize {
    let open: Vec<&str> = output.lines().filter(|l| !l.starts_with("held ")).collect();
    assert_eq!(
        open,
        ["OPEN a control that must be open: it works", "--- all attempted"],
        "attacks that did not fail"
    );
    output.lines().filter(|l| l.starts_with("held ")).count()
}

async fn long(hive: &TestHive, agent: &str, script: &str) -> Value {
    let body = json!({ "command": ["bash", "-c", script], "timeout": "90s" });
    let (status, answer) = hive.send("POST", &format!("/v1/agents/{agent}/exec"), Some(body)).await;
    assert_eq!(status, 200, "{answer:#}");
    answer
}

/// The neighbour answers, in its old container, and its supervisor is the same.
async fn undisturbed(hive: &TestHive, agent: &str, container: &Value) {
    let seen = hive.sh(agent, "echo fine").await;
    assert_eq!(seen["stdout"], "fine\n", "{seen:#}");
    assert_eq!(&hive.agent(agent).await["container_id"], container);
    assert!(hive.try_get("/readyz").await.is_some());
}

/// Polls until it holds.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_out_of_the_container_is_closed_to_commands_and_to_main() {
    let hive = TestHive::new(&format!(
        "[agents.bad]\nsoul = \"souls/bad.md\"\nskills = [\"basic-tools@1.0.0\"]\nmain_restart = \"never\"\n\
         main = [\"bash\", \"-c\", '''\n{ATTACKS}''']\n[agents.good]\nskills = [\"basic-tools@1.0.0\"]\n"
    ));
    hive.write("souls/bad.md", "I am good.\n");
    let mut hive = hive;
    hive.start().await;
    hive.running("bad").await;
    let good = hive.running("good").await["container_id"].clone();
    hive.until("bad", "done with its attacks", |v| v["main"]["state"] == "done").await;
    let by_main = hive.text("/v1/agents/bad/logs").await;
    assert!(judge(&by_main) >= 75);
    let by_command = long(&hive, "bad", ATTACKS).await;
    assert_eq!(judge(by_command["stdout"].as_str().unwrap()), judge(&by_main), "{by_command:#}");
    undisturbed(&hive, "good", &good).await;
    assert_eq!(
        hive.sh("good", "node /skills/basic-tools/scripts/read-file.ts '{\"path\":\"x\"}'").await["exit_code"],
        1
    );
    assert_eq!(std::fs::read_to_string(hive.path("souls/bad.md")).unwrap(), "I am good.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn posing_as_the_init_is_refused_told_and_bounded_and_the_real_link_holds() {
    let hive = TestHive::up("[agents.bad]\n[agents.good]\n").await;
    hive.running("bad").await;
    let good = hive.running("good").await["container_id"].clone();
    let bad = hive.agent("bad").await["container_id"].clone();
    // A whole hello would be taken for the init's, were it not for the caller's pid.
    let pose = "import socket
def pose():
    s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect('/skep/api.sock')
    try:
        s.sendall(b'\\0SK1' + b'\\x10\\0\\0\\0\\0\\0\\0\\0' + b'x' * 16)
        return s.recv(100)
    except (ConnectionError, BrokenPipeError): return b''
";
    let once = hive.sh("bad", &format!("python3 -c \"{pose}\nprint(pose())\"")).await;
    assert_eq!(once["stdout"], "b''\n", "{once:#}");
    eventually("the log tells", async || hive.log().contains("posed as the init")).await;

    let flood = format!(
        "python3 -c \"{pose}
import threading
def many():
    for _ in range(250): pose()
t = [threading.Thread(target=many) for _ in range(8)]
[x.start() for x in t]; [x.join() for x in t]; print('done')\""
    );
    let (flooded, slowest) = tokio::join!(long(&hive, "bad", &flood), async {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let began = Instant::now();
            hive.sh("good", "true").await;
            slowest = slowest.max(began.elapsed());
        }
        slowest
    });
    assert_eq!(flooded["stdout"], "done\n", "{flooded:#}");
    assert!(slowest < Duration::from_secs(2), "the neighbour waits {slowest:?}");
    let told = hive.log().matches("posed as the init").count();
    assert!(told < 50, "2000 attempts fill the log with {told} lines");
    assert_eq!(hive.agent("bad").await["container_id"], bad);
    assert_eq!(hive.sh("bad", "echo still served").await["stdout"], "still served\n");
    undisturbed(&hive, "good", &good).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_closed_to_each_other_and_an_agent_that_cripples_its_own_init_gets_a_new_one() {
    let hive = TestHive::up("[agents.bad]\nstop_grace = \"1s\"\n[agents.good]\n").await;
    hive.running("bad").await;
    let good = hive.running("good").await["container_id"].clone();
    let victim = json!({ "command": ["bash", "-c", "sleep 4; echo unharmed"], "env": { "CANARY": "canary-of-a-run" } });
    let spy = "sleep 0.5; for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done 2>/dev/null | grep canary-of-a-run;
        for p in $(ls /proc | grep '^[0-9]'); do if [ $p != $$ ] && [ -e /proc/$p ] && kill -9 $p 2>/dev/null; then echo killed $p; fi; done; echo end";
    let (run, spied) =
        tokio::join!(hive.send("POST", "/v1/agents/bad/exec", Some(victim)), hive.sh("bad", spy));
    assert_eq!(run.1["stdout"], "unharmed\n", "{run:?}");
    assert_eq!(spied["stdout"], "end\n", "{spied:#}");

    // The limits of the init are the agent's own to lower: it harms itself alone, and for a moment.
    for limits in
        ["--nofile=4:4 --nproc=1:1", "--nproc=1:1 --fsize=0:0 --core=0:0", "--as=1:1 --data=1:1 --stack=1:1"]
    {
        let before = hive.running("bad").await["container_id"].clone();
        let lower =
            json!({ "command": ["bash", "-c", format!("prlimit --pid 1 {limits}")], "timeout": "5s" });
        hive.send("POST", "/v1/agents/bad/exec", Some(lower)).await;
        let next = json!({ "command": ["true"], "timeout": "5s" });
        let (status, answer) = hive.send("POST", "/v1/agents/bad/exec", Some(next)).await;
        assert!([200, 409, 422, 503].contains(&status), "{status} {answer:#}");
        undisturbed(&hive, "good", &good).await;
        hive.until("bad", "given a new container", |v| {
            v["status"] == "running" && v["container_id"].is_string() && v["container_id"] != before
        })
        .await;
        assert_eq!(hive.sh("bad", "echo mended").await["stdout"], "mended\n", "after {limits}");
    }
    assert!(hive.log().contains("lowered the limits of its init"), "{}", hive.log());
    assert_eq!(hive.agent("bad").await["restarts"], 3);
    undisturbed(&hive, "good", &good).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_agent_uses_up_is_its_own() {
    let hive = TestHive::up(
        "[agents.bad]\nmemory = \"256MiB\"\npids = 100\ndisk = \"32MiB\"\n[agents.good]\nmemory = \"256MiB\"\n",
    )
    .await;
    hive.running("bad").await;
    let good = hive.running("good").await["container_id"].clone();
    let bad = hive.agent("bad").await["container_id"].clone();

    let watches = "python3 -c \"
import ctypes
c = ctypes.CDLL(None)
n = 0
while n < 100000 and c.inotify_init1(0) >= 0: n += 1
print(n)\"";
    // Held while the other one asks.
    let hold = format!(
        "{}; sleep 3",
        watches.replace("print(n)", "print(n, flush=True); import time; time.sleep(3)")
    );
    let (_, other) = tokio::join!(hive.sh("bad", &hold), async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        hive.sh("good", "python3 -c 'import ctypes; print(ctypes.CDLL(None).inotify_init1(0) >= 0)'").await
    });
    assert_eq!(other["stdout"], "True\n", "inotify of the neighbour: {other:#}");

    let filled = hive
        .sh(
            "bad",
            "dd if=/dev/zero of=/tmp/x bs=1M; dd if=/dev/zero of=/dev/shm/x bs=1M; \
        stat -c %s /tmp/x /dev/shm/x; rm -f /tmp/x /dev/shm/x",
        )
        .await;
    let sizes: Vec<u64> = filled["stdout"].as_str().unwrap().lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(sizes, [64 << 20, 32 << 20], "a quarter and an eighth of its memory: {filled:#}");
    assert_eq!(filled["oom"], false);

    let counted = hive.sh("bad", "n=0; while [ $n -lt 300 ]; do sleep 20 & n=$((n+1)); done 2>/dev/null; ls -d /proc/[0-9]* | wc -l").await;
    let pids = counted["stdout"].as_str().unwrap().trim().parse::<u32>().unwrap_or(0);
    assert!(pids <= 100, "{counted:#}");

    let bomb = json!({ "command": ["bash", "-c", ":(){ :|:& };:; sleep 30"], "timeout": "3s" });
    let hog = json!({ "command": ["python3", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))"], "timeout": "20s" });
    let (bombed, slowest) = tokio::join!(hive.send("POST", "/v1/agents/bad/exec", Some(bomb)), async {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let began = Instant::now();
            hive.sh("good", "true").await;
            slowest = slowest.max(began.elapsed());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        slowest
    });
    assert_eq!((bombed.0, &bombed.1["timed_out"]), (200, &json!(true)), "{bombed:?}");
    assert!(slowest < Duration::from_secs(2), "beside a fork bomb the neighbour waits {slowest:?}");
    let (status, hogged) = hive.send("POST", "/v1/agents/bad/exec", Some(hog)).await;
    assert_eq!(
        (status, &hogged["oom"], &hogged["exit_code"]),
        (200, &json!(true), &json!(137)),
        "{hogged:#}"
    );
    assert_eq!(hive.agent("bad").await["container_id"], bad, "its init outlived all of it");

    // It may be frozen before it is through.
    let paused = tokio::select! {
        paused = hive.status("bad", "paused") => paused,
        () = async {
            hive.sh("bad", "dd if=/dev/zero of=/workspace/x bs=1M count=64").await;
            std::future::pending::<()>().await;
        } => unreachable!("it waits for ever"),
    };
    assert!(paused["reason"].as_str().unwrap().contains("32MiB"), "{paused:#}");
    undisturbed(&hive, "good", &good).await;
    std::fs::remove_file(hive.agent_dir("bad").join("workspace/x")).unwrap();
    hive.running("bad").await;
    assert_eq!(hive.sh("bad", "echo back").await["stdout"], "back\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_internet_neighbours_host_and_metadata_stay_out_of_reach() {
    let hive = TestHive::up(
        "[defaults]\nnetwork = \"internet\"\n[agents.bad]\n\
         [agents.good]\nmain = [\"python3\", \"-m\", \"http.server\", \"8000\"]\n",
    )
    .await;
    hive.running("bad").await;
    let good = hive.running("good").await["container_id"].clone();
    let field = |f: &str| {
        hive.inspect("good", &format!("{{{{range .NetworkSettings.Networks}}}}{{{{.{f}}}}}{{{{end}}}}"))
    };
    let (neighbour, gateway) = (field("IPAddress"), field("Gateway"));
    let host = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let served = "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000), 1)'; do sleep 0.1; done; echo up";
    assert_eq!(hive.sh("good", served).await["stdout"], "up\n");
    let targets =
        format!("{neighbour}:8000 {gateway}:{port} 172.17.0.1:{port} 169.254.169.254:80 {gateway}:22");
    let dial = format!(
        "python3 -c '
import socket
for t in \"{targets}\".split():
    h, p = t.rsplit(\":\", 1)
    try: socket.create_connection((h, int(p)), 2); print(\"open\", t)
    except OSError as e: print(\"held\")
try: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print(\"open raw\")
except OSError: print(\"held\")
print([l.split()[5] for l in open(\"/proc/net/if_inet6\")] if __import__(\"os\").path.exists(\"/proc/net/if_inet6\") else [])'"
    );
    let seen = hive.sh("bad", &dial).await;
    let out = seen["stdout"].as_str().unwrap().replace("['lo']", "[]");
    assert_eq!(out, "held\n".repeat(6) + "[]\n", "{targets}: {seen:#}");
    undisturbed(&hive, "good", &good).await;
    let name: skep::ids::HiveName = hive.name.parse().unwrap();
    let network = skep::engine::NetworkSpec::internet(&name);
    skep::engine::firewall::remove(&name, &network.bridge).await.unwrap();
    docker(&["network", "inspect", &network.name]);
}

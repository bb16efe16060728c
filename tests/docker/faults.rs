//! What goes wrong around an agent: lost mounts, killed inits, memory, deaf processes, damaged files, disks.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    bare::docker,
    engine_faults::{as_root, eventually, root_command},
    hive::TestHive,
    support::IMAGE,
};

/// The supervisor ends at once, with a complaint.
async fn refused(hive: &mut TestHive) -> String {
    fs::remove_file(hive.path("supervisor.log")).unwrap_or_default();
    hive.spawn();
    let (code, said) = hive.ended().await;
    assert!(code == 1 || code == 2, "exit code {code}: {said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_came_to_differ_from_its_specification_is_made_anew() {
    let mut hive = TestHive::up("[agents.a]\nmemory = \"64MiB\"\nstop_grace = \"1s\"\n").await;
    let mut id = hive.running("a").await["container_id"].clone();
    let spec = hive.inspect("a", "{{index .Config.Labels \"skep.spec\"}}");
    let name = hive.container("a");
    for (fault, words) in [("mount", "/skills/custom"), ("memory", "memory"), ("by hand", "mount")] {
        hive.kill();
        match fault {
            "mount" => {
                // Unmounts it inside, which the engine does not see.
                let custom = hive.agent_dir("a").join("view/custom");
                fs::remove_dir(&custom).unwrap();
                fs::create_dir(&custom).unwrap();
            }
            "memory" => {
                docker(&["update", "--memory", "96m", "--memory-swap", "96m", &name]);
            }
            _ => {
                docker(&["rm", "-f", &name]);
                let labels = [
                    format!("skep.hive={}", hive.name),
                    "skep.agent=a".to_owned(),
                    format!("skep.spec={spec}"),
                ];
                let mut run = vec!["run", "-d", "--name", &name, "--network=none", "-v", "/etc:/host:ro"];
                run.extend(labels.iter().flat_map(|label| ["--label", label]));
                run.extend([IMAGE, "sleep", "600"]);
                id = json!(docker(&run));
            }
        }
        hive.start().await;
        let again = hive.until("a", fault, |v| v["status"] == "running" && v["container_id"] != id).await;
        let told = hive.log().lines().any(|l| l.contains("not as specified") && l.contains(words));
        assert!(told, "{fault}: {}", hive.log());
        assert_eq!(again["restarts"], 0, "drift is no failure of the agent: {again:#}");
        assert_eq!(hive.inspect("a", "{{.HostConfig.Memory}}"), (64 << 20).to_string());
        let seen = hive.sh("a", "touch /skills/custom/x && ls /skills/custom").await;
        assert_eq!(seen["stdout"], "x\n", "{fault}");
        assert_eq!(hive.containers().len(), 1);
        id = again["container_id"].clone();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_that_is_killed_is_told_counted_and_started_again_ever_more_slowly() {
    let mut hive = TestHive::up("[agents.a]\n[agents.calm]\n").await;
    let calm = hive.running("calm").await["container_id"].clone();
    hive.running("a").await;
    let mut pauses = Vec::new();
    for kill in 1..=3 {
        let id = hive.agent("a").await["container_id"].clone();
        docker_kill_init(&hive, "a");
        let failed = hive.until("a", "failed", |v| v["status"] == "failed").await;
        let (began, reason) = (Instant::now(), failed["reason"].as_str().unwrap_or_default());
        assert!(reason.contains("ended by itself with exit code 137"), "{failed:#}");
        assert!(failed["container_id"].is_null(), "{failed:#}");
        let back = hive.until("a", "back", |v| v["status"] == "running" && v["container_id"] != id).await;
        pauses.push(began.elapsed());
        assert_eq!(back["restarts"], kill);
        assert_eq!(back["reason"], Value::Null);
    }
    assert!(pauses[0] > Duration::from_millis(500), "{pauses:?}");
    assert!(pauses[1] > Duration::from_millis(1700) && pauses[2] > Duration::from_millis(3500), "{pauses:?}");
    assert_eq!(hive.running("calm").await["container_id"], calm, "another agent is left alone");
    hive.kill();
    hive.start().await;
    assert_eq!(hive.running("a").await["restarts"], 3, "counted across supervisors");
}

fn docker_kill_init(hive: &TestHive, agent: &str) {
    as_root(&["kill", "-9", &hive.inspect(agent, "{{.State.Pid}}")]);
}

const HOG: &str = "python3 -c 'x = []\nwhile True: x.append(bytearray(b\"x\" * (4 << 20)))'";

#[tokio::test(flavor = "multi_thread")]
async fn a_container_out_of_memory_is_told_apart_from_a_child_and_from_a_kill() {
    let hive = TestHive::up("[agents.a]\nmemory = \"128MiB\"\n").await;
    let id = hive.running("a").await["container_id"].clone();
    let hog = hive.sh("a", HOG).await;
    assert_eq!((&hog["oom"], &hog["exit_code"]), (&json!(true), &json!(137)), "{hog:#}");
    assert_eq!(hive.running("a").await["container_id"], id, "the container lives on");
    assert_eq!(hive.sh("a", "exit 137").await["oom"], false);

    // What the engine remembers of the child says nothing about a later end.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    docker_kill_init(&hive, "a");
    let failed = hive.status("a", "failed").await;
    assert!(failed["reason"].as_str().unwrap().contains("ended by itself with exit code 137"), "{failed:#}");
    hive.running("a").await;

    // When the init is what the kernel takes first (none of the others has half of the memory, which is
    // what their own preference weighs), the whole container goes.
    let first = format!("echo 1000 > /proc/{}/oom_score_adj", hive.inspect("a", "{{.State.Pid}}"));
    as_root(&["sh", "-c", &first]);
    let body = json!({ "command": ["bash", "-c", format!("for i in 1 2 3 4 5 6; do {HOG} & done; wait")] });
    let sent = hive.send("POST", "/v1/agents/a/exec", Some(body));
    let (_, failed) = tokio::join!(sent, hive.status("a", "failed"));
    let reason = failed["reason"].as_str().unwrap();
    assert!(reason.contains("ran out of memory (limit 128MiB)"), "{reason}");
    assert_eq!(hive.running("a").await["restarts"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ignores_the_request_to_stop_is_dead_after_the_grace() {
    let hive = TestHive::up(
        "[agents.a]\nstop_grace = \"1s\"\nmain = [\"bash\", \"-c\", \"trap '' TERM INT HUP; (setsid sleep 600 &); echo deaf; while :; do sleep 1; done\"]\n",
    )
    .await;
    eventually("deaf", async || hive.text("/v1/agents/a/logs").await == "deaf\n").await;
    let pid = hive.inspect("a", "{{.State.Pid}}");
    let began = Instant::now();
    assert_eq!(hive.send("POST", "/v1/agents/a/stop", None).await.0, 202);
    hive.status("a", "stopped").await;
    let took = began.elapsed();
    assert!((900..6000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(hive.containers(), Vec::<String>::new());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_over_its_disk_limit_is_frozen_until_there_is_room() {
    let mut hive = TestHive::up("[agents.a]\ndisk = \"16MiB\"\nstop_grace = \"1s\"\n").await;
    let id = hive.running("a").await["container_id"].clone();
    let fill = |bytes: usize| {
        let path = hive.agent_dir("a").join("workspace/big");
        fs::write(path, vec![1; bytes]).unwrap();
    };
    fill(24 << 20);
    let view = hive.status("a", "paused").await;
    let reason = view["reason"].as_str().unwrap();
    assert!(reason.contains("limit is 16MiB") && reason.contains("/.skep/agents/a"), "{reason}");
    assert_eq!(hive.inspect("a", "{{.State.Paused}}"), "true");
    assert!(view["disk_used"].as_u64().unwrap() >= 24 << 20);

    // A new supervisor finds it so, and leaves it so.
    hive.kill();
    hive.start().await;
    let view = hive.status("a", "paused").await;
    assert_eq!(view["container_id"], id);

    fs::remove_file(hive.agent_dir("a").join("workspace/big")).unwrap();
    let view = hive.running("a").await;
    assert_eq!((&view["container_id"], &view["reason"]), (&id, &Value::Null));
    assert_eq!(hive.sh("a", "echo thawed").await["stdout"], "thawed\n");

    // A frozen agent can be stopped.
    fs::write(hive.agent_dir("a").join("workspace/big"), vec![1; 24 << 20]).unwrap();
    hive.status("a", "paused").await;
    assert_eq!(hive.send("POST", "/v1/agents/a/stop", None).await.0, 202);
    hive.status("a", "stopped").await;
    assert_eq!(hive.containers(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_named_left_alone_and_can_be_put_back() {
    let mut hive = TestHive::up("[agents.a]\n").await;
    let id = hive.running("a").await["container_id"].clone();
    hive.kill();
    let database = hive.path(".skep/skep.db");
    let sound: Vec<(PathBuf, Vec<u8>)> = ["skep.db", "skep.db-wal", "skep.db-shm"]
        .map(|name| hive.path(".skep").join(name))
        .into_iter()
        .filter_map(|path| Some((path.clone(), fs::read(path).ok()?)))
        .collect();
    for (path, _) in &sound {
        fs::remove_file(path).unwrap();
    }
    let damaged = b"this is no database at all, ".repeat(400);
    fs::write(&database, &damaged).unwrap();
    let said = refused(&mut hive).await;
    assert!(said.contains("skep.db"), "{said}");
    assert!(said.contains("restore") || said.contains("move") || said.contains("remove"), "a remedy: {said}");
    assert_eq!(fs::read(&database).unwrap(), damaged, "left as it was");
    assert_eq!(hive.inspect("a", "{{.State.Running}}"), "true", "agents run on");
    for (path, bytes) in &sound {
        fs::write(path, bytes).unwrap();
    }
    hive.start().await;
    assert_eq!(hive.running("a").await["container_id"], id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_registry_file_is_kept_aside_and_written_anew() {
    let mut hive = TestHive::up("[agents.a]\nskills = [\"basic-tools@1.0.0\"]\n").await;
    let id = hive.running("a").await["container_id"].clone();
    let file = hive.path("registry/skills.json");
    let sound: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    hive.kill();
    fs::write(&file, "{\"version\": 1, \"skills\": [{\"id\": \"basi").unwrap();
    hive.start().await;
    assert_eq!(hive.running("a").await["container_id"], id);
    let again: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(again["skills"], sound["skills"]);
    assert!(hive.log().contains("skills.json"), "told: {}", hive.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_lock_changes_no_version_and_stops_no_agent() {
    let mut hive = TestHive::new("[agents.a]\nskills = [\"report@^1\"]\n[agents.b]\n");
    hive.skill("report", "1.0.0", &json!({}));
    hive.start().await;
    let before = hive.running("a").await;
    let lock = hive.path("skep.lock");
    let sound = fs::read_to_string(&lock).unwrap();
    hive.skill("report", "1.1.0", &json!({}));
    let damaged = format!("{}\n<<<<<<< HEAD\n", &sound[..sound.len() / 2]);

    // While it runs, and for a supervisor that never saw a sound one.
    for restart in [false, true] {
        if restart {
            hive.kill();
        }
        fs::write(&lock, &damaged).unwrap();
        if restart {
            hive.start().await;
        }
        eventually("the damage is told", async || {
            let faults = hive.get("/v1/hive").await["config_faults"].to_string();
            faults.contains("skep.lock")
        })
        .await;
        hive.until("a", "adopted", |v| v["status"] == "running").await;
        let seen = docker(&["exec", &hive.container("a"), "cat", "/skills/report/context/instructions.md"]);
        assert_eq!(seen, "How to use report 1.0.0.", "restart: {restart}");
        assert_eq!(hive.agent("a").await["container_id"], before["container_id"]);
        assert_eq!(fs::read_to_string(&lock).unwrap(), damaged, "not overwritten");
        fs::write(&lock, &sound).unwrap();
        eventually("the mending is seen", async || hive.get("/v1/hive").await["config_faults"] == json!([]))
            .await;
        let after = hive.until("a", "as before", |v| v["skills"] == before["skills"]).await;
        assert_eq!(after["container_id"], before["container_id"]);
        assert_eq!(fs::read_to_string(&lock).unwrap(), sound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_written_manifest_is_told_and_taken_once_it_is_whole() {
    let mut hive = TestHive::new("[agents.a]\nskills = [\"report@1.0.0\"]\n");
    hive.skill("report", "1.0.0", &json!({}));
    hive.start().await;
    let id = hive.running("a").await["container_id"].clone();
    hive.skill("other", "1.0.0", &json!({}));
    let path = hive.path("skills/other@1.0.0/manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    let registered = async |hive: &TestHive| hive.try_get("/v1/skills/other").await.is_some();
    eventually("registered", async || registered(&hive).await).await;

    let second = whole.replace("1.0.0", "1.1.0");
    let folder = "skills/other@1.1.0";
    hive.write(&format!("{folder}/context/instructions.md"), "How.\n");
    hive.write(&format!("{folder}/scripts/show.sh"), "#!/bin/bash\n# Shows.\n");
    hive.write(&format!("{folder}/manifest.json"), &second[..second.len() / 2]);
    eventually("the half is told", async || {
        let warnings = hive.get("/v1/hive").await["warnings"].to_string();
        warnings.contains("other@1.1.0/manifest.json")
    })
    .await;
    assert_eq!(hive.get("/v1/skills/other").await["latestVersion"], "1.0.0");
    hive.write(&format!("{folder}/manifest.json"), &second);
    eventually("the whole is taken", async || hive.get("/v1/skills/other").await["latestVersion"] == "1.1.0")
        .await;
    eventually("nothing more is told", async || hive.get("/v1/hive").await["warnings"] == json!([])).await;
    assert_eq!(hive.running("a").await["container_id"], id);
}

/// A small file system of its own, unmounted when dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    pub fn at(path: PathBuf, size: &str) -> Self {
        fs::create_dir_all(&path).unwrap();
        let owner = rustix::process::geteuid().as_raw();
        let options = format!("size={size},mode=700,uid={owner}");
        as_root(&["mount", "-t", "tmpfs", "-o", &options, "skep-test", path.to_str().unwrap()]);
        Self(path)
    }

    fn remount(&self, how: &str) {
        as_root(&["mount", "-o", &format!("remount,{how}"), self.0.to_str().unwrap()]);
    }

    pub fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        let block = vec![0; 4096];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
    }

    pub fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        root_command(&["umount", "-l", self.0.to_str().unwrap()]).status().ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_and_a_read_only_one_are_told_and_cost_nothing() {
    let mut hive = TestHive::new("[agents.a]\nstop_grace = \"1s\"\nskills = [\"basic-tools@1.0.0\"]\n");
    let disk = SmallDisk::at(hive.path(".skep"), "64m");
    hive.start().await;
    let id = hive.running("a").await["container_id"].clone();

    disk.fill();
    let (status, answer) = hive.send("POST", "/v1/agents/a/stop", None).await;
    assert_eq!(status, 503, "not taken, so not promised: {answer}");
    let detail = answer["detail"].as_str().unwrap();
    assert!(detail.contains("skep.db") && detail.contains("full"), "{detail}");
    // A new agent finds no room; the one that runs is none the worse for it.
    hive.configure("[agents.a]\nstop_grace = \"1s\"\nskills = [\"basic-tools@1.0.0\"]\n[agents.b]\n");
    eventually("the full disk is told", async || {
        hive.get("/v1/hive").await["config_faults"].to_string().contains("skep.db")
    })
    .await;
    assert_eq!(hive.running("a").await["container_id"], id);
    hive.kill();
    hive.spawn();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(hive.inspect("a", "{{.Id}} {{.State.Running}}"), format!("{} true", id.as_str().unwrap()));
    hive.kill();
    disk.free();
    hive.start().await;
    assert_eq!(hive.running("a").await["container_id"], id);
    hive.running("b").await;
    assert_eq!(hive.send("POST", "/v1/agents/b/stop", None).await.0, 202);
    hive.status("b", "stopped").await;

    hive.kill();
    disk.remount("ro");
    let said = refused(&mut hive).await;
    assert!(said.contains("/.skep/") && said.to_lowercase().contains("read-only"), "{said}");
    assert_eq!(hive.inspect("a", "{{.State.Running}}"), "true");
    disk.remount("rw");
    hive.start().await;
    assert_eq!(hive.running("a").await["container_id"], id);
    assert_eq!(hive.agent("b").await["status"], "stopped");
    for container in hive.containers() {
        docker(&["rm", "-f", &container]);
    }
    hive.kill();
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_image_cannot_be_had_starts_once_it_can() {
    // A registry that nobody runs.
    let image = format!("localhost:1/skep-test-{}:late", std::process::id());
    let hive = TestHive::up(&format!("[agents.a]\nimage = \"{image}\"\n[agents.b]\n")).await;
    let failed = hive.status("a", "failed").await;
    assert!(failed["reason"].as_str().unwrap().contains(&image), "{failed:#}");
    hive.running("b").await;
    docker(&["tag", IMAGE, &image]);
    let view = hive.until("a", "running at last", |v| v["status"] == "running" || v.is_null()).await;
    docker(&["rmi", &image]);
    assert_eq!((&view["restarts"], &view["reason"]), (&json!(0), &Value::Null));
}

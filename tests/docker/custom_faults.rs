//! Skills that agents write, against a hostile agent, a supervisor that is killed, and runs that go on meanwhile.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::{
    bare::docker,
    custom::{events, file, manifest, registered, script, versions, write},
    engine_faults::eventually,
    hive::{TestHive, holding},
};

fn md(name: &str, body: &str) -> String {
    file(&format!("{name}/SKILL.md"), &format!("---\nname: {name}\ndescription: Does {name}\n---\n{body}"))
}

/// Runs a script inside without asking the supervisor, which may be dead.
fn inside(hive: &TestHive, script: &str) -> String {
    docker(&[
        "exec",
        &hive.container("writer"),
        "bash",
        "-c",
        &format!("set -e; cd /skills/custom; {script}"),
    ])
}

async fn created(hive: &TestHive, id: &str) -> usize {
    events(hive, "skill:created").await.iter().filter(|e| e["skill"]["id"] == id).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_killed_around_a_registration_registers_exactly_once() {
    let mut hive = TestHive::up("[agents.writer]\n").await;
    hive.running("writer").await;
    let points =
        ["custom.staged", "publish.stored", "publish.registered", "custom.published", "custom.noted"];
    for (n, point) in points.iter().enumerate() {
        hive.kill();
        hive.env = vec![("SKEP_KILL_AT".to_owned(), format!("{point}:1"))];
        hive.start().await;
        hive.running("writer").await;
        inside(&hive, &md(&format!("at-{n}"), "x"));
        hive.ended().await;
        hive.env.clear();
        hive.start().await;
        registered(&hive, &format!("at-{n}"), &["0.0.0 pending writer"]).await;
        assert_eq!(created(&hive, &format!("at-{n}")).await, 1, "{point}");
        // What was done is noted before the next one may be killed for it.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // And at any moment.
    let seed = u64::from(std::process::id());
    for n in 0..12u64 {
        inside(&hive, &(md(&format!("any-{n}"), "x") + &md("often", &format!("round {n}"))));
        tokio::time::sleep(Duration::from_millis((seed + n * 7) % 90)).await;
        hive.kill();
        hive.start().await;
    }
    for n in 0..12 {
        registered(&hive, &format!("any-{n}"), &["0.0.0 pending writer"]).await;
        assert_eq!(created(&hive, &format!("any-{n}")).await, 1);
    }
    hive.running("writer").await;
    eventually("the last round is its newest version", async || {
        let (status, _) = hive.send("GET", "/v1/skills/often", None).await;
        let seen = hive.sh("writer", "tail -1 /skills/often/SKILL.md").await;
        status == 200 && seen["stdout"] == "round 11\n"
    })
    .await;
    let often = versions(&hive, "often").await.len();
    let told = events(&hive, "skill:updated").await.iter().filter(|e| e["skill"]["id"] == "often").count();
    assert_eq!(often, told + 1, "each version was told once");
    let staging = fs::read_dir(hive.path(".skep/store/staging")).unwrap().count();
    assert_eq!(staging, 0, "nothing half done stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_others_is_refused_and_told() {
    let hive = TestHive::new("[agents.writer]\n[agents.other]\n");
    hive.skill("theirs", "1.0.0", &json!({}));
    let mut hive = hive;
    hive.start().await;
    hive.running("writer").await;
    hive.running("other").await;
    let taken = hive.sh("other", &format!("cd /skills/custom; {}", md("first", "mine"))).await;
    assert_eq!(taken["exit_code"], 0);
    registered(&hive, "first", &["0.0.0 pending other"]).await;
    write(&hive, &(md("theirs", "x") + &md("first", "x") + &md("basic-tools", "x"))).await;
    for id in ["theirs", "first", "basic-tools"] {
        eventually(id, async || {
            let read = hive.sh("writer", &format!("cat /skills/custom/{id}/.skep-errors.md || true")).await;
            read["stdout"].as_str().unwrap().contains("choose another id")
        })
        .await;
    }
    assert_eq!(events(&hive, "skill:rejected").await.len(), 3);
    assert_eq!(versions(&hive, "theirs").await, ["1.0.0 trusted operator"]);
    assert_eq!(versions(&hive, "first").await, ["0.0.0 pending other"]);
    // A folder that is named otherwise than its manifest's id.
    write(&hive, &(manifest("right", "1.0.0", &json!({})) + &script("right", "x") + "mv right wrong")).await;
    eventually("named otherwise", async || {
        let read = hive.sh("writer", "cat /skills/custom/wrong/.skep-errors.md || true").await;
        read["stdout"].as_str().unwrap().contains("The folder is named")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_folders_are_refused_each_with_its_reason_and_the_good_one_beside_them_is_taken() {
    let hive = TestHive::up("[agents.writer]\n").await;
    hive.running("writer").await;
    let hostile = [
        ("link-out", "ln -s /etc/passwd link-out/l", "is a link"),
        ("link-loop", "ln -s l link-loop/l", "is a link"),
        ("link-dir", "ln -s /etc link-dir/d", "is a link"),
        ("fifo", "mkfifo fifo/p", "is a FIFO"),
        (
            "socket",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket/s\")'",
            "is a socket",
        ),
        ("hard", "echo x > hard/a; ln hard/a hard/b", "is a hard link"),
        ("setuid", "echo x > setuid/x; chmod 4755 setuid/x", "is setuid"),
        ("huge", "truncate -s 1G huge/x", "are allowed"),
        ("many", "mkdir many/d; (cd many/d; seq 100000 | xargs touch)", "more than 2000 files"),
        ("closed", "mkdir closed/d; echo x > closed/d/f", ""),
        ("bomb", "printf '%s\\n' --- 'name: [' --- > bomb/SKILL.md", "SKILL.md"),
    ];
    let mut all = String::new();
    for (id, evil, _) in &hostile {
        // The skill's own file last: before, it is no skill.
        all += &format!("mkdir {id}; {evil}\n");
        if *id != "bomb" {
            all += &md(id, "x");
        }
    }
    all += "ln -s /etc whole-link; echo x > plain-file; mkdir -p deep; cd deep; for i in $(seq 200); do mkdir d; cd d; done";
    write(&hive, &all).await;
    write(&hive, &md("good", "x")).await;
    registered(&hive, "good", &["0.0.0 pending writer"]).await;
    for (id, _, words) in hostile.iter().filter(|(_, _, words)| !words.is_empty()) {
        eventually(id, async || {
            let read = hive.sh("writer", &format!("cat /skills/custom/{id}/.skep-errors.md || true")).await;
            read["stdout"].as_str().unwrap().contains(words)
        })
        .await;
        assert_eq!(versions(&hive, id).await, Vec::<String>::new());
    }
    // The notice's name planted as a link.
    let outside = hive.agent_dir("writer").join("canary");
    fs::write(&outside, "untouched").unwrap();
    fs::create_dir(hive.agent_dir("writer").join("custom/planted")).unwrap();
    symlink(&outside, hive.agent_dir("writer").join("custom/planted/.skep-errors.md")).unwrap();
    fs::write(hive.agent_dir("writer").join("custom/planted/SKILL.md"), "no frontmatter").unwrap();
    eventually("told in a file of its own", async || {
        let at = hive.agent_dir("writer").join("custom/planted/.skep-errors.md");
        fs::symlink_metadata(at).is_ok_and(|m| m.is_file())
    })
    .await;
    assert_eq!(fs::read_to_string(outside).unwrap(), "untouched");
    assert!(holding(&hive.path(".skep/store"), b"root:x:0:0").is_empty());
    assert_eq!(hive.agent("writer").await["status"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_renames_of_folder_against_link_let_nothing_in() {
    let hive = TestHive::up("[agents.writer]\n").await;
    hive.running("writer").await;
    let custom = hive.agent_dir("writer").join("custom");
    let secret = hive.dir.path().join("outside");
    fs::create_dir_all(secret.join("x")).unwrap();
    fs::write(secret.join("x/SKILL.md"), "---\nname: x\ndescription: the canary of outside\n---\n").unwrap();
    fs::write(secret.join("f"), "the canary of outside").unwrap();
    for folder in ["x", "y/d"] {
        fs::create_dir_all(custom.join(folder)).unwrap();
    }
    fs::write(custom.join("x/SKILL.md"), "---\nname: x\ndescription: own\n---\n").unwrap();
    fs::write(custom.join("y/SKILL.md"), "---\nname: y\ndescription: own\n---\n").unwrap();
    fs::write(custom.join("y/d/f"), "own").unwrap();
    symlink(secret.join("x"), custom.join("link-x")).unwrap();
    symlink(&secret, custom.join("y/link-d")).unwrap();
    let (stop, renames) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let swapping: Vec<_> = [("x", "link-x"), ("y/d", "y/link-d")]
        .map(|(a, b)| {
            let (a, b, stop, renames) = (custom.join(a), custom.join(b), stop.clone(), renames.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
                    renames.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .into();
    let began = Instant::now();
    while renames.load(Ordering::Relaxed) < 1_000_000 && began.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        // The API answers others meanwhile.
        assert!(hive.try_get("/v1/hive").await.is_some());
    }
    stop.store(true, Ordering::Relaxed);
    swapping.into_iter().for_each(|s| s.join().unwrap());
    println!("{} renames in {:?}", renames.load(Ordering::Relaxed), began.elapsed());
    for leaked in [".skep/store", ".skep/agents/writer/view"] {
        assert!(holding(&hive.path(leaked), b"the canary of outside").is_empty(), "{leaked}");
    }
    let skills = hive.get("/v1/skills?limit=200&include_disabled=true").await.to_string();
    assert!(!skills.contains("canary of outside"), "{skills}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_skills_is_slowed_down_told_and_loses_nothing_and_others_do_not_feel_it() {
    let hive = TestHive::up("[agents.writer]\n[agents.other]\n").await;
    hive.running("writer").await;
    hive.running("other").await;
    let storm = "for i in $(seq 75); do mkdir s$i; printf '%s\\n' --- \"name: s$i\" 'description: d' --- > s$i/SKILL.md; done";
    write(&hive, storm).await;
    let owned = async || {
        let all = hive.get("/v1/skills?owner=writer&limit=200").await;
        all["items"].as_array().unwrap().len()
    };
    eventually("the burst is through", async || owned().await >= 60).await;
    eventually("it is told", async || {
        let told = hive.sh("writer", "cat /skills/custom/.skep-errors.md || true").await;
        told["stdout"].as_str().unwrap().contains("goes on by itself")
    })
    .await;
    assert!(hive.agent("writer").await["warnings"].to_string().contains("goes on by itself"));
    let written = hive.sh("other", &format!("cd /skills/custom; {}", md("quick", "x"))).await;
    assert_eq!(written["exit_code"], 0);
    registered(&hive, "quick", &["0.0.0 pending other"]).await;
    assert!(owned().await < 75, "the other one did not wait for the storm");
    eventually("nothing is lost", async || owned().await == 75).await;
    eventually("the warning goes", async || hive.agent("writer").await["warnings"] == json!([])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_registers_through_its_socket_as_through_its_folder() {
    let hive = TestHive::new("[agents.writer]\n");
    hive.skill("theirs", "1.0.0", &json!({}));
    let mut hive = hive;
    hive.start().await;
    hive.running("writer").await;
    let send = |id: &str| {
        format!(
            "tar cz -C /tmp/out/{id} . | curl -s -o /tmp/answer -w '%{{http_code}}' --unix-socket /skep/api.sock \
             -H 'content-type: application/gzip' --data-binary @- http://skep/v1/skills; echo; cat /tmp/answer"
        )
    };
    let made = |id: &str| format!("mkdir -p /tmp/out; cd /tmp/out; {}", md(id, "By socket."));
    let posted = async |id: &str| {
        let answer = hive.sh("writer", &format!("{}\n{}", made(id), send(id))).await;
        answer["stdout"].as_str().unwrap().to_owned()
    };
    let answer = posted("sent").await;
    assert!(answer.starts_with("201"), "{answer}");
    registered(&hive, "sent", &["0.0.0 pending writer"]).await;
    let again = posted("sent").await;
    assert!(again.starts_with("200"), "{again}");
    let foreign = posted("theirs").await;
    assert!(foreign.starts_with("403"), "{foreign}");
    eventually("its author has it", async || {
        hive.sh("writer", "tail -1 /skills/sent/SKILL.md").await["stdout"] == "By socket.\n"
    })
    .await;
    let approve = "curl -s -o /dev/null -w '%{http_code}' --unix-socket /skep/api.sock -X POST \
                   http://skep/v1/skills/sent/versions/0.0.0/approve";
    assert_eq!(hive.sh("writer", approve).await["stdout"], "403");
    // The limits are those of the folder.
    let storm = format!(
        "for i in $(seq 70); do mkdir -p /tmp/out/s; printf '%s\\n' --- 'name: s' 'description: d' --- $i > /tmp/out/s/SKILL.md; {} | head -1; done",
        send("s")
    );
    let answers = hive.sh("writer", &storm).await["stdout"].as_str().unwrap().to_owned();
    assert!(answers.contains("201") && answers.contains("429"), "{answers}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_with_the_version_it_began_with_while_new_ones_get_the_next() {
    let hive = TestHive::up("[agents.one]\n").await;
    hive.running("one").await;
    let text = |version: &str| {
        manifest("slow", version, &json!({ "scripts": ["scripts/slow.sh"] }))
            + &file("slow/context/how.md", &format!("How {version}"))
            + &file(
                "slow/scripts/slow.sh",
                "#!/bin/bash\ntouch /workspace/began\nwhile [ ! -e /workspace/go ]; do sleep 0.05; done\n\
                 cat $(dirname $0)/../context/how.md",
            )
            + "chmod +x slow/scripts/slow.sh\n"
    };
    let put = async |version: &str| {
        let answer = hive.sh("one", &format!("set -e; cd /skills/custom; {}", text(version))).await;
        assert_eq!(answer["exit_code"], 0, "{answer:#}");
    };
    let has = async |version: &str| {
        eventually(version, async || {
            let skills = hive.agent("one").await["skills"].clone();
            skills.as_array().unwrap().iter().any(|s| s["id"] == "slow" && s["version"] == version)
        })
        .await;
    };
    put("1.0.0").await;
    has("1.0.0").await;
    let container = hive.agent("one").await["container_id"].clone();
    let job = hive.job("slow", json!({ "tool": "slow" })).await;
    let first = hive.run(job).await;
    hive.sh_until("one", "test -e /workspace/began").await;
    put("1.1.0").await;
    has("1.1.0").await;
    put("1.2.0").await;
    has("1.2.0").await;
    assert_eq!(hive.sh("one", "ls -d /skills/.v/slow@1.0.0 /skills/.v/slow@1.2.0").await["exit_code"], 0);
    hive.sh("one", "touch /workspace/go").await;
    let first = hive.over(first).await;
    assert_eq!(
        (&first["status"], hive.said(&first).await.trim()),
        (&json!("succeeded"), "How 1.0.0"),
        "{first:#}"
    );
    let second = hive.run(job).await;
    let second = hive.over(second).await;
    assert_eq!(hive.said(&second).await.trim(), "How 1.2.0");
    // Once no run goes on, what was replaced goes with the next swap.
    put("1.3.0").await;
    has("1.3.0").await;
    eventually("old versions go", async || {
        hive.sh("one", "ls /skills/.v").await["stdout"].as_str().unwrap().matches("slow@").count() == 1
    })
    .await;
    let after: Value = hive.agent("one").await;
    assert_eq!(after["container_id"], container, "all of it without a restart");
    assert_eq!(after["restarts"], 0);
}

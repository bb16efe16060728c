//! Skills through the front door: broken ones beside good ones, needs of the container, changes while it runs.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::hive::TestHive;

const MD: &str = "---\nname: NAME\ndescription: does things\n---\n# Body\n";

fn manifest(id: &str, more: &Value) -> String {
    let mut all =
        json!({ "id": id, "name": id, "version": "1.0.0", "description": "d", "owner": "operator" });
    all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    all.to_string()
}

/// Sends an update and answers its changes as `agent id from to`.
async fn update(hive: &TestHive) -> Vec<String> {
    let (status, answer) = hive.send("POST", "/v1/update", Some(json!({}))).await;
    assert_eq!(status, 200, "{answer:#}");
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let changes = answer["changes"].as_array().unwrap().iter();
    changes.map(|c| ["agent", "id", "from", "to"].map(|k| text(&c[k])).join(" ")).collect()
}

/// Makes a broken skill of each kind in `skills/`; for each its id and words of the fault that must be told.
fn break_everything(hive: &TestHive) -> Vec<(&'static str, &'static str)> {
    let mut told = Vec::new();
    let mut bytes = |id: &'static str, file: &str, content: &[u8], words: &'static str| {
        let path = hive.path(&format!("skills/{id}/{file}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        told.push((id, words));
    };
    let good = |id: &str| manifest(id, &json!({}));
    bytes("truncated", "manifest.json", &good("truncated").as_bytes()[..40], "Invalid JSON");
    bytes("deep", "manifest.json", "[".repeat(200_000).as_bytes(), "Invalid JSON");
    bytes("doubled", "manifest.json", b"{\"id\": \"doubled\", \"id\": \"other\"}", "duplicate key");
    bytes("not-utf8", "manifest.json", b"{\"id\": \"\xff\"}", "is not UTF-8");
    bytes("nul", "manifest.json", format!("{}\0", good("nul")).as_bytes(), "Invalid JSON");
    bytes(
        "wrong-types",
        "manifest.json",
        b"{\"id\": 3, \"name\": [], \"version\": {}, \"description\": 1}",
        "id",
    );
    bytes(
        "no-version",
        "manifest.json",
        b"{\"id\":\"no-version\",\"name\":\"x\",\"description\":\"d\"}",
        "Missing version",
    );
    bytes("climbing-id", "manifest.json", good("../x").as_bytes(), "Invalid id format");
    bytes("look-alike", "manifest.json", good("раypal").as_bytes(), "Invalid id format");
    bytes("long-id", "manifest.json", good(&"a".repeat(300)).as_bytes(), "300 characters, at most 64");
    bytes("other-name", "manifest.json", good("something").as_bytes(), "The folder is named");
    let climbs = manifest("climbing", &json!({ "scripts": ["../../../etc/passwd"] }));
    bytes("climbing", "manifest.json", climbs.as_bytes(), "leaves the folder");
    let absent = manifest("absent", &json!({ "context": ["no/such.md"] }));
    bytes("absent", "manifest.json", absent.as_bytes(), "Context file not found: no/such.md");
    bytes("no-description", "SKILL.md", b"---\nname: no-description\n---\n", "Missing description");
    bytes("broken-yaml", "SKILL.md", b"---\nname: [\ndescription: d\n---\n", "SKILL.md");
    let mut bomb = "---\nname: bomb\ndescription: d\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        bomb += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", "));
    }
    bytes("bomb", "SKILL.md", format!("{bomb}---\n").as_bytes(), "expand to too much");
    for (id, words) in [
        ("link-out", "is a link that leads out"),
        ("link-loop", "is a link that leads to itself"),
        ("fifo", "is a FIFO"),
        ("socket", "is a socket"),
        ("device", "is a device"),
        ("setuid", "is setuid"),
        ("huge-file", "bytes; 16777216 are allowed"),
        ("huge-manifest", "1048576"),
        ("many-files", "skills/many-files: the skill holds more than 2000 files"),
        ("ansi-name", "\\u{1b}[2Jx"),
    ] {
        bytes(id, "SKILL.md", MD.replace("NAME", id).as_bytes(), words);
    }
    let at = |inner: &str| hive.path(&format!("skills/{inner}"));
    let run = |args: &[&str], path: &Path| {
        let (program, args) = args.split_first().unwrap();
        assert!(Command::new(program).args(args).arg(path).status().unwrap().success());
    };
    symlink("/etc/passwd", at("link-out/l")).unwrap();
    symlink("l", at("link-loop/l")).unwrap();
    run(&["mkfifo"], &at("fifo/p"));
    drop(UnixListener::bind(at("socket/s")).unwrap());
    // Only root makes devices; to others a link to one must do.
    if !Command::new("mknod").arg(at("device/n")).args(["c", "1", "3"]).status().unwrap().success() {
        symlink("/dev/null", at("device/n")).unwrap();
        told.iter_mut().filter(|(id, _)| *id == "device").for_each(|t| t.1 = "is a link that leads out");
    }
    fs::write(at("setuid/x"), "x").unwrap();
    run(&["chmod", "4755"], &at("setuid/x"));
    fs::File::create(at("huge-file/x")).unwrap().set_len(1 << 30).unwrap();
    fs::File::options().write(true).open(at("huge-manifest/SKILL.md")).unwrap().set_len(1 << 30).unwrap();
    (0..2_100).for_each(|i| fs::write(at(&format!("many-files/{i}")), "").unwrap());
    fs::write(at("ansi-name").join(std::ffi::OsStr::from_bytes(b"\x1b[2Jx\ny")), "x").unwrap();
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_skills_are_each_told_with_their_file_and_the_good_one_beside_them_works() {
    let mut hive = TestHive::new(
        "[agents.fine]\nskills = [\"good@1.0.0\"]\n[agents.unlucky]\nskills = [\"good@1.0.0\", \"fifo\"]\n\
         [agents.plain]\n",
    );
    hive.skill("good", "1.0.0", &json!({}));
    let broken = break_everything(&hive);
    let validated = Command::new(env!("CARGO_BIN_EXE_skep"))
        .arg("--dir")
        .arg(hive.dir.path())
        .arg("validate")
        .output()
        .unwrap();
    let report = [validated.stdout, validated.stderr].concat();
    let report = String::from_utf8_lossy(&report);
    for (id, _) in &broken {
        let told = ["/", ":"].iter().any(|end| report.contains(&format!("error: skills/{id}{end}")));
        assert!(told, "validate does not tell of {id}: {report}");
    }
    assert!(!report.contains('\x1b'), "no escape of a hostile name reaches the terminal: {report}");
    assert_ne!(validated.status.code(), Some(0), "{report}");
    let began = Instant::now();
    hive.start().await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let warnings: Vec<String> =
        serde_json::from_value(hive.get("/v1/hive").await["warnings"].clone()).unwrap();
    let untold: Vec<_> = broken
        .iter()
        .filter(|(id, words)| {
            let places = ["/", ":"].map(|end| format!("skills/{id}{end}"));
            !warnings.iter().any(|w| places.iter().any(|p| w.starts_with(p)) && w.contains(words))
        })
        .map(|(id, words)| {
            let place = format!("skills/{id}");
            (id, words, warnings.iter().filter(|w| w.contains(&place)).collect::<Vec<_>>())
        })
        .collect();
    assert!(untold.is_empty(), "{untold:#?}");
    assert!(warnings.iter().all(|w| !w.contains(|c: char| c.is_control() && c != '\n')), "{warnings:#?}");
    let listed: Value = hive.get("/v1/skills").await;
    let others = |s: &&Value| s["owner"] != "built-in";
    let ids: Vec<_> =
        listed["items"].as_array().unwrap().iter().filter(others).map(|s| s["id"].clone()).collect();
    assert_eq!(ids, ["good"]);

    hive.running("fine").await;
    hive.running("plain").await;
    let unlucky = hive.status("unlucky", "failed").await;
    let reason = unlucky["reason"].as_str().unwrap();
    assert!(
        reason.contains("agent unlucky asks for") && reason.contains("there is no skill fifo"),
        "{reason}"
    );
    assert_eq!(
        hive.sh("fine", "cat /skills/good/context/instructions.md").await["stdout"],
        "How to use good 1.0.0.\n"
    );

    // Its cause goes: it starts, without anything said.
    fs::remove_file(hive.path("skills/fifo/p")).unwrap();
    hive.running("unlucky").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_skill_needs_is_there_or_its_absence_is_told_naming_who_asked() {
    let mut hive = TestHive::new(
        "[agents.lonely]\nskills = [\"needy@1.0.0\"]\n[agents.old]\nskills = [\"modern@1.0.0\"]\n\
         [agents.torn]\nskills = [\"left@1.0.0\", \"right@1.0.0\"]\n\
         [agents.greeter]\nskills = [\"greeting@1.0.0\"]\n[agents.typo]\nskills = [\"packless@1.0.0\"]\n",
    );
    hive.skill("needy", "1.0.0", &json!({ "dependencies": ["basic-toolz@^1"] }));
    hive.skill("modern", "1.0.0", &json!({ "nodeVersion": ">=99.0.0" }));
    hive.skill("base", "1.0.0", &json!({}));
    hive.skill("base", "2.0.0", &json!({}));
    hive.skill("left", "1.0.0", &json!({ "dependencies": ["base@^1"] }));
    hive.skill("right", "1.0.0", &json!({ "dependencies": ["base@^2"] }));
    hive.skill("greeting", "1.0.0", &json!({ "systemPackages": ["hello"], "nodeVersion": ">=20.0.0" }));
    hive.skill("packless", "1.0.0", &json!({ "systemPackages": ["no-such-package-at-all"] }));
    hive.start().await;
    for (agent, words) in [
        (
            "lonely",
            ["needy@1.0.0 needs basic-toolz@^1", "there is no skill basic-toolz", "did you mean basic-tools"],
        ),
        ("old", ["modern", ">=99.0.0", "24."]),
        (
            "torn",
            ["left@1.0.0 needs base@^1", "right@1.0.0 needs base@^2", "no version of base satisfies both"],
        ),
        ("typo", ["no-such-package-at-all", "packless", "package"]),
    ] {
        let view = hive
            .until(agent, "failed with a reason", |v| v["status"] == "failed" && v["reason"].is_string())
            .await;
        let reason = view["reason"].as_str().unwrap();
        assert!(words.iter().all(|w| reason.contains(w)), "{agent}: {words:?} in {reason}");
    }
    hive.running("greeter").await;
    let seen = hive.sh("greeter", "hello; id -un; touch /usr/bin/x").await;
    assert!(seen["stdout"].as_str().unwrap().starts_with("Hello, world!\nagent\n"), "{seen:#}");
    assert_ne!(seen["exit_code"], 0, "the layer is as read-only as the image: {seen:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_skill_is_a_new_version_held_back_by_the_lock_and_swapped_by_an_update() {
    let mut hive = TestHive::new("[agents.one]\nskills = [\"note\", \"made\"]\n");
    let note =
        |text: &str| hive.write("skills/note/SKILL.md", &format!("{}{text}\n", MD.replace("NAME", "note")));
    note("first");
    hive.write("skills/made/manifest.json", &manifest("made", &json!({ "context": ["how.md"] })));
    hive.write("skills/made/how.md", "How.\n");
    hive.write(
        "skills/note/show.sh",
        "#!/bin/bash\nfor i in $(seq 60); do tail -n 1 \"${0%/*}/SKILL.md\"; sleep 0.1; done\n",
    );
    hive.start().await;
    let one = hive.running("one").await;
    let version = |v: &Value| v["skills"].as_array().unwrap()[1]["version"].clone();
    assert_eq!(version(&one), "0.0.0", "{one:#}");
    let generated = hive
        .sh("one", "head -n 4 /skills/made/SKILL.md; cat ~/.claude/skills/made/how.md; ls ~/.agents/skills")
        .await;
    let out = generated["stdout"].as_str().unwrap();
    assert!(
        out.starts_with("---\nname: \"made\"\ndescription: ") && out.ends_with("How.\ncustom\nmade\nnote\n"),
        "{out}"
    );

    hive.write("skills/note/SKILL.md", &format!("{}second\n", MD.replace("NAME", "note")));
    let began = Instant::now();
    while hive.get("/v1/skills/note").await["latestVersion"] != "0.0.1" {
        assert!(began.elapsed() < Duration::from_secs(30), "{:#}", hive.get("/v1/skills/note").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(version(&hive.agent("one").await), "0.0.0", "the lock holds");
    assert_eq!(hive.sh("one", "tail -n 1 /skills/note/SKILL.md").await["stdout"], "first\n");
    let (_, dry) = hive.send("POST", "/v1/update", Some(json!({ "dry_run": true }))).await;
    assert_eq!(dry["changes"], json!([{ "agent": "one", "id": "note", "from": "0.0.0", "to": "0.0.1" }]));
    assert_eq!(version(&hive.agent("one").await), "0.0.0", "a dry run changes nothing");

    // What was started through its version keeps it; by name the new one shows at once.
    let started = hive.sh("one", "echo begun; (setsid true); ls /skills/.v/").await;
    assert_eq!(started["stdout"], "begun\nmade@1.0.0\nnote@0.0.0\n", "{started:#}");
    let (kept, changes) =
        tokio::join!(hive.sh("one", "bash /skills/.v/note@0.0.0/show.sh | uniq -c"), async {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            let changes = update(&hive).await;
            hive.until("one", "swapped", |v| version(v) == "0.0.1").await;
            assert_eq!(hive.sh("one", "tail -n 1 /skills/note/SKILL.md").await["stdout"], "second\n");
            changes
        });
    assert_eq!(changes, ["one note 0.0.0 0.0.1"]);
    assert_eq!(kept["stdout"].as_str().unwrap().trim(), "60 first", "{kept:#}");
    assert_eq!(hive.agent("one").await["container_id"], one["container_id"], "no restart");
    assert_eq!(update(&hive).await, Vec::<String>::new());

    // A stated version never changes.
    hive.write("skills/made/how.md", "Otherwise.\n");
    let began = Instant::now();
    let warning = loop {
        let warnings = hive.get("/v1/hive").await["warnings"].clone();
        if let Some(told) = warnings.as_array().unwrap().iter().find(|w| w.as_str().unwrap().contains("made"))
        {
            break told.as_str().unwrap().to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{warnings:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(warning.matches("sha256:").count(), 2, "{warning}");
    assert_eq!(hive.sh("one", "cat /skills/made/how.md").await["stdout"], "How.\n");
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).into_iter().flatten() {
        let at = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir_all(at).unwrap();
        } else {
            fs::copy(entry.path(), at).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_real_skills_come_in_and_agents_use_them_where_their_programs_look() {
    let mut hive = TestHive::new(
        "[agents.a]\nskills = [\"algorithmic-art\", \"brainstorming\"]\n\
         [agents.b]\nskills = [\"biopython\", \"writing-plans\", \"mcp-builder\"]\n[agents.c]\nskills = [\"claude-api\"]\n",
    );
    copy_tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/skills"), &hive.path("skills"));
    hive.start().await;
    for agent in ["a", "b", "c"] {
        hive.running(agent).await;
    }
    let skills = hive.get("/v1/skills?limit=200").await;
    assert_eq!(skills["items"].as_array().unwrap().len(), 66 + 4, "these and the built-in ones");
    let faults = hive.get("/v1/hive").await["warnings"].clone();
    assert_eq!(faults, json!([]));
    let seen = hive
        .sh("b", "for d in ~/.claude/skills ~/.agents/skills ~/.config/agents/skills; do echo $(ls $d); done")
        .await;
    assert_eq!(seen["stdout"], "biopython custom mcp-builder writing-plans\n".repeat(3));
    let source = hive.path("skills/K-Dense-AI/biopython/SKILL.md");
    assert_eq!(
        hive.sh("b", "cat ~/.claude/skills/biopython/SKILL.md").await["stdout"],
        fs::read_to_string(source).unwrap()
    );
    let prompt = hive.text("/v1/agents/b/prompt").await;
    assert!(prompt.contains("biopython") && prompt.contains("writing-plans"), "{prompt}");
}

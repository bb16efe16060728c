//! A supervisor that is killed at every step of making, editing, deleting and publishing: what it told is there, every
//! version is whole, and the integer versions count exactly the edits (hazard 1).

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use crate::{
    api::tests::setup,
    app::{Hive, skills::PublishOptions},
    config::model::SkillLimits,
    db::{self, Db, DbError},
    ids::{AgentId, SkillId},
    registry::{index::Owner, store::Store},
    skill::{
        document::{Create, Edit, Operation, Text},
        source::SKILL_MD,
    },
};

/// Where it is killed, and at which of how many passes.
const POINTS: [&str; 7] = [
    "publish.stored",
    "publish.registered",
    "document.prepared",
    "document.published",
    "document.filed",
    "document.unfiled",
    "",
];
const PASSES: u32 = 5;
/// A document with so many edits is deleted and made anew.
const EDITS: u64 = 4;

fn say(what: &str) {
    println!("{what}");
    std::io::stdout().flush().unwrap();
}

/// One step with a document: made, edited or deleted, whatever comes next for it.
async fn step(hive: &Arc<Hive>, caller: Option<&AgentId>, name: &str) {
    let slug: SkillId = name.parse().unwrap();
    let Ok(now) = hive.document(caller, &slug).await else {
        let text = Text::new("Notes", "What was noted", &[], "line 1\n").unwrap();
        let made = hive.create_document(caller, Create { slug, text }, None).await.unwrap();
        return say(&format!("has {name} {}", made.version));
    };
    if now.version > EDITS {
        assert!(hive.delete_document(caller, &slug, None).await.unwrap().deleted);
        return say(&format!("deleted {name} 0"));
    }
    let line = format!("line {}\n", now.version + 1);
    let edit = Edit { operation: Some(Operation::Append(line)), ..Edit::default() };
    let edited = hive.update_document(caller, &slug, &edit, Some(now.version), None).await.unwrap();
    say(&format!("has {name} {}", edited.version));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process that a_killed_supervisor_leaves_whole_documents_and_versions starts and kills"]
async fn the_editor_that_is_killed() {
    let hive = setup::hive(Path::new(".")).await;
    crate::fault::arm(&std::env::var("SKEP_KILL_AT").unwrap());
    let writer: AgentId = "writer".parse().unwrap();
    loop {
        step(&hive, None, "of-operator").await;
        step(&hive, Some(&writer), "of-agent").await;
        let version = hive.world().index.skills.get("plain").map_or(0, |s| s.versions.len());
        let text = format!("---\nname: plain\nversion: 1.0.{version}\ndescription: d\n---\n{version}\n");
        let files = [("SKILL.md", false, text.as_bytes()), ("a.bin", false, &[7; 5_000])];
        let staged = hive.store.stage_files("plain", files, &SkillLimits::default()).unwrap();
        let how = PublishOptions { source: "a test".into(), ..PublishOptions::default() };
        hive.publish(&Owner::Operator, staged, how).await.unwrap();
        say(&format!("has plain {}", version + 1));
    }
}

/// Runs it until it is killed: at the point, or without one after so many words. What it told last of each skill.
fn run(dir: &Path, point: &str, pass: u32, told: &mut BTreeMap<String, u64>) {
    let armed = if point.is_empty() { String::new() } else { format!("{point}:{pass}") };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "app::documents::tests::the_editor_that_is_killed", "--ignored", "--nocapture"])
        .env("SKEP_KILL_AT", armed)
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut words = 0;
    for line in lines {
        let words_of: Vec<&str> = line.split(' ').collect();
        if let [.., "has" | "deleted", name, version] = words_of[..] {
            told.insert(name.to_owned(), version.parse().unwrap());
            words += 1;
        }
        if point.is_empty() && words == 3 + pass {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "{point}:{pass} ended by itself: {status}");
}

/// Tells what there is of each from now on.
async fn judge(dir: &Path, told: &mut BTreeMap<String, u64>, at: &str) {
    let paths = crate::paths::HivePaths::new(dir.to_owned());
    let (db, store) = (Db::open(&paths.database()).unwrap(), Store::open(&paths.store()).unwrap());
    let whole: String = db
        .read(|conn| Ok::<_, DbError>(conn.query_row("PRAGMA integrity_check", [], |r| r.get(0))?))
        .await
        .unwrap();
    assert_eq!(whole, "ok", "{at}");
    let index = db.read(db::skills::load_index).await.unwrap();
    for (id, entry) in &index.skills {
        for version in entry.versions.values() {
            store.verify(&version.digest).unwrap_or_else(|e| panic!("{at}: {id}@{}: {e}", version.version));
        }
    }
    let counts = db.read(db::documents::all).await.unwrap();
    for (name, version) in told {
        let id: SkillId = name.parse().unwrap();
        let (entry, counted) = (index.skills.get(&id), counts.get(&id).map_or(0, |c| c.version));
        assert_eq!(entry.map_or(0, |e| e.versions.len() as u64), counted, "{at}: {name} counts its versions");
        // The one step that nobody was told of may have happened.
        let next = if name != "plain" && *version > EDITS { 0 } else { *version + 1 };
        assert!(counted == *version || counted == next, "{at}: {name} has {counted}, told was {version}");
        *version = counted;
        let Some(latest) = entry.and_then(|e| e.latest()).filter(|_| name != "plain") else { continue };
        let file = store.read(&latest.digest, SKILL_MD).unwrap().unwrap();
        let lines: String = (1..=counted).map(|n| format!("line {n}\n")).collect();
        assert_eq!(Text::from_skill_md(&id, &file).unwrap().content, lines, "{at}: {name}");
        // The operator's file is a version of it, old or new, and never half of one.
        if let Ok(laid) = std::fs::read(dir.join("skills").join(name).join(SKILL_MD)) {
            let holds = |digest| store.read(digest, SKILL_MD).unwrap().as_ref() == Some(&laid);
            assert!(entry.unwrap().versions.values().any(|v| holds(&v.digest)), "{at}: {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_leaves_whole_documents_and_versions() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = BTreeMap::new();
    for pass in 1..=PASSES {
        for point in POINTS {
            // Deleting comes once in a row of edits.
            let pass = if point == "document.unfiled" { 1 } else { pass };
            run(dir.path(), point, pass, &mut told);
            judge(dir.path(), &mut told, &format!("{point}:{pass}")).await;
        }
    }
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told["plain"] > u64::from(PASSES), "{told:?}");
}

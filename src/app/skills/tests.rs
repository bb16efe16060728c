//! A supervisor that is killed while it publishes, again and again: what it told is there and whole (hazard 1).

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use super::*;
use crate::{
    api::tests::setup,
    app::{Hive, types::AppError},
    config::model::SkillLimits,
    db::{self, Db},
    registry::{index::Owner, staging::Staged, store::Store},
};

const ROUNDS: u64 = 25;

fn staged(hive: &Hive, id: &str, version: u64) -> Staged {
    let text = format!("---\nname: {id}\nversion: 1.0.{version}\ndescription: {id}\n---\n\n{version}\n");
    let files = [("SKILL.md", false, text.as_bytes()), ("context/a.md", false, b"more".as_slice())];
    hive.store.stage_files(id, files, &SkillLimits::default()).unwrap()
}

async fn publish(hive: &Arc<Hive>, owner: &Owner, id: &str, version: u64) -> crate::app::Result<Published> {
    let how = PublishOptions { source: "a test".into(), ..Default::default() };
    match owner {
        Owner::Agent(agent) => hive.publish_own(agent, staged(hive, id, version), how).await,
        _ => hive.publish(owner, staged(hive, id, version), how).await,
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process that what_was_published_survives_kills starts and kills"]
async fn the_publisher_that_is_killed() {
    let hive = setup::hive(Path::new(".")).await;
    let done = hive.world().index.skills.get("k0").map_or(0, |s| s.versions.len() as u64);
    for version in done.. {
        let tasks = ["k0", "k1", "k2", "k3"].map(|id| {
            let hive = hive.clone();
            tokio::spawn(async move { publish(&hive, &Owner::Operator, id, version).await.unwrap() })
        });
        for task in tasks {
            let published = task.await.unwrap();
            println!("published {} {} {}", published.id, published.version, published.digest);
            std::io::stdout().flush().unwrap();
        }
    }
}

fn start(dir: &Path) -> Child {
    let name = "app::skills::tests::the_publisher_that_is_killed";
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_survives_kills() {
    let dir = tempfile::tempdir().unwrap();
    let mut told: BTreeMap<(String, String), String> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut child = start(dir.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut hear = |line: String| {
            let words: Vec<&str> = line.split(' ').collect();
            let [.., "published", id, version, digest] = words[..] else { return false };
            told.insert((id.to_owned(), version.to_owned()), digest.to_owned());
            true
        };
        let wanted = 1 + usize::try_from(round % 9).unwrap();
        let said = lines.by_ref().filter_map(|line| hear(line).then_some(())).take(wanted).count();
        assert_eq!(said, wanted, "it ended by itself in round {round}");
        std::thread::sleep(Duration::from_micros(round * 331 % 7_000));
        child.kill().unwrap();
        for line in lines {
            hear(line);
        }
        child.wait().unwrap();
        judge(dir.path(), &told).await;
    }
    assert!(told.len() > 100, "{} is too little to say anything", told.len());
}

async fn judge(dir: &Path, told: &BTreeMap<(String, String), String>) {
    let paths = crate::paths::HivePaths::new(dir.to_owned());
    let (db, store) = (Db::open(&paths.database()).unwrap(), Store::open(&paths.store()).unwrap());
    let index = db.read(db::skills::load_index).await.unwrap();
    for ((id, version), digest) in told {
        let entry = &index.skills[id.as_str()].versions[&version.parse().unwrap()];
        assert_eq!(entry.digest.to_string(), *digest, "{id}@{version}");
    }
    let all = || index.skills.values().flat_map(|s| s.versions.values());
    for version in all() {
        store.verify(&version.digest).unwrap();
    }
    let keep: BTreeSet<_> = all().map(|v| v.digest).collect();
    let events = db.read(|conn| db::events::after(conn, 0, u32::MAX)).await.unwrap();
    let told = events.iter().filter(|e| matches!(e.name.as_str(), "skill:created" | "skill:updated")).count();
    assert_eq!(told, all().count(), "a version and its event are one");
    // What a kill left half done goes, and nothing else.
    store.sweep(&keep).unwrap();
    for digest in &keep {
        store.verify(digest).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_floods_the_registry_is_held_back() {
    let dir = tempfile::tempdir().unwrap();
    let hive = setup::hive(dir.path()).await;
    let writer = Owner::Agent("writer".parse().unwrap());
    let mut refused = None;
    for n in 0..500 {
        if let Err(e) = publish(&hive, &writer, "flood", n).await {
            refused = Some(e);
            break;
        }
    }
    assert!(matches!(refused, Some(AppError::TooMany { .. })), "{refused:?}");
    publish(&hive, &Owner::Operator, "calm", 1).await.unwrap();
    publish(&hive, &Owner::Agent("reader".parse().unwrap()), "calm-too", 1).await.unwrap();
}

/// Prints figures; by hand.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn figures() {
    let dir = tempfile::tempdir_in("/work").unwrap();
    let hive = setup::hive(dir.path()).await;
    let begin = Instant::now();
    let tasks: Vec<_> = (0..32)
        .map(|t| {
            let hive = hive.clone();
            tokio::spawn(async move {
                for n in 0..100 {
                    publish(&hive, &Owner::Operator, &format!("f{t}-{n}"), 1).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took = begin.elapsed();
    println!("FIGURE 3200 skills published in {took:?}: {:.0} a second", 3200.0 / took.as_secs_f64());
    let id = "f1-1".parse().unwrap();
    let begin = Instant::now();
    for _ in 0..100_000 {
        hive.skill_json(None, &id).unwrap();
    }
    println!("FIGURE a cached view: {:?}", begin.elapsed() / 100_000);
    let begin = Instant::now();
    let index = hive.db.read(db::skills::load_index).await.unwrap();
    println!("FIGURE {} skills loaded in {:?}", index.skills.len(), begin.elapsed());
    for q in ["f1", "more", "f1-1", "nothing"] {
        let begin = Instant::now();
        let filter = SkillFilter { q: Some(q.into()), ..SkillFilter::default() };
        let found = hive.skills(filter).await.unwrap();
        println!("FIGURE {q:?} found {} in {:?}", found.len(), begin.elapsed());
    }
}

mod faults;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use semver::Version;
use serde_json::json;
use tempfile::TempDir;

use super::{agents::Desired, skills::*, *};
use crate::{
    ids::{AgentId, Digest, SkillId},
    registry::index::{Owner, Trust},
    skill::model::{Shape, Skill},
};

fn now() -> Timestamp {
    "2026-03-01T12:00:00.5Z".parse().unwrap()
}

fn fresh() -> (TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&dir.path().join("skep.db")).unwrap();
    (dir, db)
}

fn skill(id: &str, version: &str) -> Skill {
    Skill {
        id: id.parse().unwrap(),
        name: id.into(),
        version: version.parse().unwrap(),
        description: "does things".into(),
        shape: Shape::Manifest,
        context: vec!["context/a.md".into()],
        scripts: vec![],
        secrets: vec!["API_KEY".parse().unwrap()],
        mcp_servers: vec![],
        dependencies: vec!["base@^1.2".parse().unwrap()],
        node_version: None,
        system_packages: vec![],
        binaries: vec![],
        required_env: vec![],
        vars: vec![],
        tags: vec![],
        body: None,
        extra: BTreeMap::from([("x-odd".into(), json!({"kept": [1, null]}))]),
    }
}

fn version(id: &str, version: &str, content: u8) -> NewVersion {
    NewVersion {
        skill: skill(id, version),
        digest: Digest([content; 32]),
        owner: Owner::Operator,
        trust: Trust::Trusted,
        source: "skills/x".into(),
    }
}

async fn put(db: &Db, new: NewVersion) -> Result<Registered, RegisterError> {
    db.write(move |tx| register(tx, &new, now())).await
}

fn id(text: &str) -> SkillId {
    text.parse().unwrap()
}

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

#[tokio::test]
async fn what_was_registered_is_in_the_index_and_comes_back_as_declared() {
    let (_dir, db) = fresh();
    assert_eq!(put(&db, version("a", "1.0.0", 1)).await.unwrap(), Registered::NewSkill);
    assert_eq!(put(&db, version("a", "1.10.0", 2)).await.unwrap(), Registered::NewVersion);
    assert_eq!(put(&db, version("a", "1.9.0", 3)).await.unwrap(), Registered::NewVersion);
    assert_eq!(put(&db, version("a", "1.9.0", 3)).await.unwrap(), Registered::Same);
    let index = db.read(load_index).await.unwrap();
    let entry = &index.skills["a"];
    assert_eq!(
        entry.versions.keys().map(ToString::to_string).collect::<Vec<_>>(),
        ["1.0.0", "1.9.0", "1.10.0"]
    );
    assert_eq!((entry.owner.clone(), entry.enabled, entry.registered_at), (Owner::Operator, true, now()));
    let latest = entry.latest().unwrap();
    assert_eq!((latest.digest, latest.dependencies[0].to_string().as_str()), (Digest([2; 32]), "base@^1.2"));
    let stored = db.read(|c| manifest(c, &id("a"), &v("1.9.0"))).await.unwrap();
    assert_eq!(stored, Some(skill("a", "1.9.0")));
    assert_eq!(db.read(|c| manifest(c, &id("a"), &v("7.0.0"))).await.unwrap(), None);
    assert_eq!(db.read(digests).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_published_version_with_other_content_is_refused_telling_both_digests() {
    let (_dir, db) = fresh();
    put(&db, version("a", "1.0.0", 1)).await.unwrap();
    let refused = put(&db, version("a", "1.0.0", 2)).await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, RegisterError::OtherContent { .. }));
    assert!(text.contains(&"01".repeat(32)) && text.contains(&"02".repeat(32)), "{text}");
    assert!(db.write(|tx| remove(tx, &id("a"))).await.unwrap());
    let refused = put(&db, version("a", "1.0.0", 2)).await.unwrap_err();
    assert!(matches!(refused, RegisterError::OtherContent { .. }), "also after its skill was deleted");
    assert_eq!(put(&db, version("a", "1.0.0", 1)).await.unwrap(), Registered::NewSkill);
}

#[tokio::test]
async fn an_id_of_another_owner_is_refused_even_to_an_agent_called_operator() {
    let (_dir, db) = fresh();
    put(&db, version("a", "1.0.0", 1)).await.unwrap();
    for agent in ["writer", "operator", "built-in"] {
        let owner = Owner::Agent(agent.parse().unwrap());
        let refused =
            put(&db, NewVersion { owner: owner.clone(), ..version("a", "2.0.0", 2) }).await.unwrap_err();
        assert!(matches!(refused, RegisterError::OtherOwner { owner: Owner::Operator, .. }), "{refused}");
        let own = NewVersion { owner: owner.clone(), ..version(&format!("of-{agent}"), "1.0.0", 3) };
        put(&db, own).await.unwrap();
        let index = db.read(load_index).await.unwrap();
        assert_eq!(index.skills[format!("of-{agent}").as_str()].owner, owner);
    }
}

#[tokio::test]
async fn what_is_said_about_a_version_changes_and_what_it_is_does_not() {
    let (_dir, db) = fresh();
    put(&db, version("a", "1.0.0", 1)).await.unwrap();
    let later = now() + Duration::from_secs(60);
    let changed = db
        .write(move |tx| {
            let (a, one) = (id("a"), v("1.0.0"));
            Ok::<_, DbError>([
                set_trust(tx, &a, &one, Trust::Rejected, later)?,
                set_yanked(tx, &a, &one, true, later)?,
                deprecate(tx, &a, &one, Some("use b"), later)?,
                set_enabled(tx, &a, false, later)?,
                set_yanked(tx, &a, &v("9.0.0"), true, later)?,
            ])
        })
        .await
        .unwrap();
    assert_eq!(changed, [true, true, true, true, false]);
    let index = db.read(load_index).await.unwrap();
    let (skill, version) = (&index.skills["a"], &index.skills["a"].versions[&v("1.0.0")]);
    assert_eq!((skill.enabled, skill.updated_at), (false, later));
    assert_eq!(
        (version.trust, version.yanked, version.deprecated.as_deref()),
        (Trust::Rejected, true, Some("use b"))
    );
    assert_eq!(version.digest, Digest([1; 32]));
}

#[tokio::test]
async fn each_agent_has_the_smallest_free_uid_and_keeps_it() {
    let (_dir, db) = fresh();
    let ensure = async |name: &'static str| {
        let made =
            db.write(move |tx| agents::ensure(tx, &name.parse().unwrap(), 20_000, Desired::Running, now()));
        made.await.unwrap().uid
    };
    assert_eq!((ensure("a").await, ensure("b").await, ensure("c").await), (20_000, 20_001, 20_002));
    let b: AgentId = "b".parse().unwrap();
    assert!(
        db.write({
            let b = b.clone();
            move |tx| agents::remove(tx, &b)
        })
        .await
        .unwrap()
    );
    assert_eq!((ensure("d").await, ensure("a").await, ensure("e").await), (20_001, 20_000, 20_003));
    let names: Vec<_> = db.read(agents::list).await.unwrap().iter().map(|a| a.id.to_string()).collect();
    assert_eq!(names, ["a", "c", "d", "e"]);
}

#[tokio::test]
async fn a_new_desired_state_is_a_new_generation_and_the_same_one_is_not() {
    let (_dir, db) = fresh();
    let a: AgentId = "a".parse().unwrap();
    let row = db
        .write(move |tx| {
            agents::ensure(tx, &a, 1000, Desired::Running, now())?;
            assert!(!agents::set_desired(tx, &a, Desired::Running, now())?);
            assert!(agents::set_desired(tx, &a, Desired::Stopped, now())?);
            assert_eq!(agents::record_restart(tx, &a, Some("out of memory"), now())?, 1);
            agents::get(tx, &a)
        })
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.generation, row.desired, row.restarts), (2, Desired::Stopped, 1));
    assert_eq!(row.last_error.as_deref(), Some("out of memory"));
}

#[tokio::test]
async fn events_follow_their_change_and_ids_are_never_reused() {
    let (_dir, db) = fresh();
    let mut commits = db.commits();
    let append = |tx: &Transaction<'_>, n: i32| events::append(tx, now(), "agent:started", &json!({"n": n}));
    let failed: Result<(), DbError> = db
        .write(move |tx| {
            append(tx, 0)?;
            Err(DbFault::Other("the change failed".into()).into())
        })
        .await;
    assert!(failed.is_err());
    assert_eq!(db.read(|c| events::after(c, 0, 10)).await.unwrap(), [], "no event of a change that failed");
    for n in 1..=5 {
        db.write(move |tx| append(tx, n)).await.unwrap();
    }
    assert!(commits.has_changed().unwrap());
    assert_eq!(*commits.borrow_and_update(), 5);
    let all = db.read(|c| events::after(c, 0, 10)).await.unwrap();
    assert_eq!(all.iter().map(|e| e.data["n"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let last = all[4].id;
    assert_eq!(db.write(|tx| events::prune(tx, 2)).await.unwrap(), 3);
    assert_eq!(db.read(events::bounds).await.unwrap(), Some((last - 1, last)));
    db.write(|tx| events::prune(tx, 0)).await.unwrap();
    assert_eq!(db.write(move |tx| append(tx, 6)).await.unwrap(), last + 1);
}

#[tokio::test]
async fn the_hive_keeps_its_id_over_restarts() {
    let (dir, db) = fresh();
    let first = db.write(meta::hive_id).await.unwrap();
    drop(db);
    let db = Db::open(&dir.path().join("skep.db")).unwrap();
    assert_eq!(db.write(meta::hive_id).await.unwrap(), first);
    assert_eq!(first.len(), 32);
}

#[tokio::test]
async fn a_change_that_panics_is_rolled_back_and_the_writer_goes_on() {
    let (_dir, db) = fresh();
    let failed: Result<(), DbError> = db
        .write(|tx| {
            meta::set(tx, "k", "half")?;
            panic!("a mistake")
        })
        .await;
    assert_eq!(failed.unwrap_err().fault, DbFault::Panicked);
    assert_eq!(db.read(|c| meta::get(c, "k")).await.unwrap(), None);
    db.write(|tx| meta::set(tx, "k", "whole")).await.unwrap();
    assert_eq!(db.read(|c| meta::get(c, "k")).await.unwrap().as_deref(), Some("whole"));
}

#[tokio::test]
async fn a_reader_cannot_write_and_does_not_wait_for_the_writer() {
    let (_dir, db) = fresh();
    let refused: Result<usize, DbError> =
        db.read(|c| Ok(c.execute("INSERT INTO meta (key, value) VALUES ('a', 'b')", [])?)).await;
    assert_eq!(refused.unwrap_err().fault, DbFault::ReadOnly);
    let (go, wait) = std::sync::mpsc::channel();
    let writing = tokio::spawn({
        let db = db.clone();
        async move {
            db.write(move |tx| {
                meta::set(tx, "k", "v")?;
                wait.recv().unwrap();
                Ok::<_, DbError>(())
            })
            .await
        }
    });
    assert_eq!(db.read(|c| meta::get(c, "k")).await.unwrap(), None);
    go.send(()).unwrap();
    writing.await.unwrap().unwrap();
    assert_eq!(db.read(|c| meta::get(c, "k")).await.unwrap().as_deref(), Some("v"));
}

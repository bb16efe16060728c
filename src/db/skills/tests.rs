//! What the registry's rows become: a file of before, and what is about a skill.

use rusqlite::Connection;

use super::*;
use crate::db::{Db, schema};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// As it was written before manifests stood apart.
const OLD: &str = r#"
INSERT INTO skill (id, owner, registered_at, updated_at)
    VALUES ('a', 'operator', '2026-01-01T00:00:00.000Z', '2026-01-02T00:00:00.000Z');
INSERT INTO skill_version (skill_id, version, digest, manifest, dependencies, trust, source, registered_at)
    SELECT 'a', value, 'sha256:' || hex(zeroblob(32)),
        json_object('id', 'a', 'name', 'A ' || value, 'version', value, 'description', 'does ' || value, 'shape', 'skill-md',
            'context', json('[]'), 'scripts', json('[]'), 'secrets', json('[]'), 'mcp_servers', json('[]'),
            'dependencies', json('[]'), 'node_version', NULL, 'system_packages', json('[]'), 'binaries', json('[]'),
            'required_env', json('[]'), 'vars', json('[]'), 'tags', json('["x"]'), 'body', 'text', 'extra', json('{}')),
        '[]', 'trusted', 'skills/a', '2026-01-01T00:00:00.000Z'
    FROM json_each('["1.9.0", "1.10.0", "2.0.0-rc.1"]');
"#;

#[tokio::test]
async fn a_file_of_before_keeps_its_versions_and_lists_what_the_latest_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("skep.db");
    let mut conn = Connection::open(&path).unwrap();
    schema::migrate(&mut conn, &path, &schema::STEPS[..3]).unwrap();
    conn.execute_batch(OLD).unwrap();
    drop(conn);
    let db = Db::open(&path).unwrap();
    let index = db.read(load_index).await.unwrap();
    let entry = &index.skills["a"];
    assert_eq!(entry.versions.len(), 3);
    assert_eq!(entry.about.name, "A 1.10.0");
    assert_eq!(
        (entry.about.description.as_str(), &entry.about.tags[..]),
        ("does 1.10.0", &["x".to_owned()][..])
    );
    let id = entry.id.clone();
    let again = db.read(move |conn| super::entry(conn, &id)).await.unwrap();
    assert_eq!(again.as_ref(), Some(&**entry), "one is read as all are");
    let id = entry.id.clone();
    let one = db.read(move |conn| manifest(conn, &id, &"1.9.0".parse().unwrap())).await.unwrap().unwrap();
    assert_eq!((one.name.as_str(), one.body.as_deref()), ("A 1.9.0", Some("text")));
    let id = entry.id.clone();
    db.write(move |tx| set_yanked(tx, &id, &"1.10.0".parse().unwrap(), true, at("2026-02-01T00:00:00Z")))
        .await
        .unwrap();
    let index = db.read(load_index).await.unwrap();
    assert_eq!(index.skills["a"].about.name, "A 1.9.0", "a yanked version is not the latest");
}

#[tokio::test]
async fn a_deleted_skill_leaves_neither_manifest_nor_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("skep.db");
    let mut conn = Connection::open(&path).unwrap();
    schema::migrate(&mut conn, &path, &schema::STEPS[..3]).unwrap();
    conn.execute_batch(OLD).unwrap();
    drop(conn);
    let db = Db::open(&path).unwrap();
    let id: SkillId = "a".parse().unwrap();
    let (of, version): (_, Version) = (id.clone(), "1.9.0".parse().unwrap());
    db.write(move |tx| {
        let skill = manifest(tx, &of, &version)?.unwrap();
        search::put(tx, &skill, &version, "a zebra runs")
    })
    .await
    .unwrap();
    assert_eq!(db.read(|conn| search::find(conn, "zebras", 10)).await.unwrap().len(), 1);
    let gone = id.clone();
    assert!(db.write(move |tx| remove(tx, &gone)).await.unwrap());
    let counts = |table: &'static str| {
        db.read(move |conn| {
            Ok::<i64, DbError>(conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0))?)
        })
    };
    for table in ["skill_version", "skill_manifest", "skill_text"] {
        assert_eq!(counts(table).await.unwrap(), 0, "{table}");
    }
    assert!(db.read(|conn| search::find(conn, "zebra", 10)).await.unwrap().is_empty());
    assert_eq!(db.read(move |conn| retired(conn, &id)).await.unwrap().len(), 3);
    db.write(|tx| {
        Ok::<_, DbError>(
            tx.execute_batch("INSERT INTO skill_search (skill_search) VALUES ('integrity-check')")?,
        )
    })
    .await
    .unwrap();
}

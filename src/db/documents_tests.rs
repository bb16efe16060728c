//! The count of versions: by every way of registering, from the beginning of a file's life.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;

use super::*;
use crate::{
    db::{
        Db, schema,
        skills::{NewVersion, RegisterError, register, remove, set_enabled},
    },
    ids::Digest,
    registry::index::{Owner, Trust},
    skill::model::{Shape, Skill},
};

fn at(minutes: i64) -> Timestamp {
    "2026-03-01T12:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

fn new(version: &str, content: u8) -> NewVersion {
    NewVersion {
        skill: Skill {
            id: "notes".parse().unwrap(),
            name: "notes".into(),
            version: version.parse().unwrap(),
            description: "d".into(),
            shape: Shape::SkillMd,
            context: vec![],
            scripts: vec![],
            secrets: vec![],
            mcp_servers: vec![],
            dependencies: vec![],
            node_version: None,
            system_packages: vec![],
            binaries: vec![],
            required_env: vec![],
            vars: vec![],
            tags: vec![],
            body: None,
            extra: BTreeMap::new(),
        },
        digest: Digest([content; 32]),
        owner: Owner::Operator,
        trust: Trust::Trusted,
        source: format!("skills/notes-{content}"),
    }
}

#[tokio::test]
async fn versions_are_counted_in_the_transaction_that_registers_them() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&dir.path().join("skep.db")).unwrap();
    let id: SkillId = "notes".parse().unwrap();
    db.write(move |tx| {
        assert_eq!(get(tx, &id)?, None);
        for (minute, version, content) in [(0, "0.0.0", 1), (1, "0.0.1", 2), (2, "0.0.1", 2), (3, "0.0.2", 1)]
        {
            register(tx, &new(version, content), at(minute))?;
        }
        set_enabled(tx, &id, false, at(4))?;
        let counted = Counted { version: 3, created_on: at(0), modified_on: at(3) };
        assert_eq!(get(tx, &id)?.as_ref(), Some(&counted));
        assert_eq!(all(tx)?, BTreeMap::from([(id.clone(), counted)]));
        assert_eq!(origin(tx, &id, &"0.0.1".parse().unwrap())?.as_deref(), Some("skills/notes-2"));
        remove(tx, &id)?;
        assert_eq!(get(tx, &id)?, None);
        register(tx, &new("0.0.3", 3), at(5))?;
        assert_eq!(get(tx, &id)?, Some(Counted { version: 1, created_on: at(5), modified_on: at(5) }));
        Ok::<_, RegisterError>(())
    })
    .await
    .unwrap();
}

#[test]
fn a_file_from_before_is_counted_when_it_is_migrated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("skep.db");
    let mut conn = Connection::open(&path).unwrap();
    schema::migrate(&mut conn, &path, &schema::STEPS[..3]).unwrap();
    conn.execute_batch(
        "INSERT INTO skill (id, owner, registered_at, updated_at)
             VALUES ('notes', 'operator', '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z');
         INSERT INTO skill_version (skill_id, version, digest, manifest, dependencies, trust, source, registered_at)
             VALUES ('notes', '0.0.0', 'a', '{\"name\":\"n\",\"tags\":[],\"description\":\"d\"}', '[]', 'trusted', 's',
                     '2026-03-01T12:00:00.000Z'),
                    ('notes', '0.0.1', 'b', '{\"name\":\"n\",\"tags\":[],\"description\":\"d\"}', '[]', 'trusted', 's',
                     '2026-03-01T12:07:00.000Z');",
    )
    .unwrap();
    schema::migrate(&mut conn, &path, schema::STEPS).unwrap();
    let counted = Counted { version: 2, created_on: at(0), modified_on: at(7) };
    assert_eq!(get(&conn, &"notes".parse().unwrap()).unwrap(), Some(counted));
}

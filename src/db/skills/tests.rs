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

fn document(id: &str, description: &str) -> Skill {
    let text = format!("---\nname: {id}\ndescription: {description}\n---\n");
    let source = crate::skill::source::Source::from_memory(&[("SKILL.md", text.as_bytes(), false)]);
    crate::skill::load::read(&source, crate::skill::source::Limits::default()).skill.unwrap()
}

#[tokio::test]
async fn words_inside_sentences_without_spaces_are_found_and_shown_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&dir.path().join("skep.db")).unwrap();
    let texts = [
        ("weekly", "Excel表格", "毎週の報告書を作成して、上司に送ります。"),
        ("chinese", "翻译", "把会议记录翻译成英文，然后发送报告。"),
        ("korean", "번역", "주간보고서를 작성합니다"),
        ("latin", "Reports", "writes the weekly report"),
    ];
    db.write(move |tx| {
        for (id, description, content) in texts {
            let (skill, at) = (document(id, description), "2026-01-01T00:00:00Z".parse().unwrap());
            let version: Version = "0.0.0".parse().unwrap();
            let new = NewVersion {
                skill: Skill { version: version.clone(), ..skill.clone() },
                digest: format!("sha256:{}", "0".repeat(64)).parse().unwrap(),
                owner: Owner::Operator,
                trust: Trust::Trusted,
                source: "a test".into(),
            };
            register(tx, &new, at).unwrap();
            search::put(tx, &skill, &version, content)?;
        }
        Ok::<_, DbError>(())
    })
    .await
    .unwrap();
    for (words, found, snippet) in [
        ("報告", "weekly", "毎週の[報告]書を作成して"),
        ("表格", "weekly", "Excel[表格]"),
        ("excel", "weekly", "[Excel]表格"),
        ("翻译成 报告", "chinese", "[翻译成]英文"),
        ("보고서", "korean", "주간[보고서]를"),
        ("repor", "latin", "[Reports]"),
        ("上司 excel", "weekly", "[上司]に送"),
        ("書報", "", ""),
        ("書 報", "weekly", ""),
    ] {
        let got = db
            .read(move |conn| {
                let hits = search::find(conn, words, 10)?;
                let snippets = search::snippets(conn, words, &hits)?;
                Ok::<_, DbError>(
                    hits.into_iter().map(|hit| hit.id.to_string()).zip(snippets).collect::<Vec<_>>(),
                )
            })
            .await
            .unwrap();
        assert_eq!(got.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(" "), found, "{words}");
        assert!(got.iter().all(|(_, text)| text.contains(snippet)), "{words}: {got:?}");
    }
}

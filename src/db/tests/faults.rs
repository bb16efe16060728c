//! Damage, full disks and kills: what the database survives (hazards 14 and 18).

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use super::*;

#[test]
fn a_corrupt_file_is_refused_with_a_remedy_and_left_as_it_is() {
    for damage in [
        &b"this is no database, whatever its name says, and long enough to be read as a header"[..],
        &[0xff; 4096],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skep.db");
        fs::write(&path, damage).unwrap();
        let told = Db::open(&path).unwrap_err().to_string();
        assert!(
            told.contains("skep.db is damaged")
                && told.contains("skep doctor")
                && told.contains("move the file away"),
            "{told}"
        );
        assert_eq!(fs::read(&path).unwrap(), damage);
    }
}

#[tokio::test]
async fn a_page_that_was_overwritten_is_found_at_the_start() {
    let (dir, db) = fresh();
    for n in 0..200 {
        put(&db, version(&format!("s{n}"), "1.0.0", 1)).await.unwrap();
    }
    drop(db);
    let path = dir.path().join("skep.db");
    let mut bytes = fs::read(&path).unwrap();
    let page = bytes.len() / 4096 / 2 * 4096;
    bytes[page..page + 4096].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    assert!(matches!(Db::open(&path).unwrap_err().fault, DbFault::Damaged(_)));
}

#[tokio::test]
async fn a_newer_schema_is_refused_naming_both_and_a_foreign_file_is_not_touched() {
    let (dir, db) = fresh();
    drop(db);
    let path = dir.path().join("skep.db");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let told = Db::open(&path).unwrap_err().to_string();
    let known = schema::STEPS.len();
    assert!(told.contains("schema 99") && told.contains(&format!("up to {known}")), "{told}");
    let foreign = dir.path().join("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    assert_eq!(Db::open(&foreign).unwrap_err().fault, DbFault::NotOurs);
}

#[tokio::test]
async fn an_older_schema_is_copied_and_migrated_whole_or_not_at_all() {
    let (dir, db) = fresh();
    db.write(|tx| meta::set(tx, "k", "v")).await.unwrap();
    drop(db);
    let path = dir.path().join("skep.db");
    let mut conn = rusqlite::Connection::open(&path).unwrap();
    let old = schema::STEPS.len();
    let mut steps = schema::STEPS.to_vec();
    steps.extend(["CREATE TABLE later (x) STRICT", "ALTER TABLE meta ADD COLUMN note TEXT"]);
    assert!(schema::migrate(&mut conn, &path, &steps).is_err(), "a column without a type is no STRICT table");
    let left: i64 = conn.pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
    assert_eq!(left, old as i64);
    steps[old] = "CREATE TABLE later (x TEXT) STRICT";
    schema::migrate(&mut conn, &path, &steps).unwrap();
    conn.execute("INSERT INTO later (x) VALUES ('y')", []).unwrap();
    let kept: String =
        conn.query_row("SELECT value FROM meta WHERE note IS NULL AND key = 'k'", [], |r| r.get(0)).unwrap();
    assert_eq!(kept, "v");
    let copy = Db::open(&dir.path().join(format!("skep.db.v{old}.bak"))).unwrap();
    assert_eq!(copy.read(|c| meta::get(c, "k")).await.unwrap().as_deref(), Some("v"));
}

#[tokio::test]
async fn a_full_log_is_moved_into_the_file_while_the_database_is_open() {
    let (dir, db) = fresh();
    let text = "x".repeat(1200 * 4096);
    let long = text.clone();
    db.write(move |tx| meta::set(tx, "long", &long)).await.unwrap();
    let size = || fs::metadata(dir.path().join("skep.db")).unwrap().len();
    for _ in 0..3000 {
        if size() > 1200 * 4096 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(size() > 1200 * 4096, "only {} bytes are in the file", size());
    // What was moved makes room: the log does not grow with every further commit.
    for n in 0..40 {
        let long = text.clone();
        db.write(move |tx| meta::set(tx, &format!("long {}", n % 2), &long)).await.unwrap();
    }
    let log = fs::metadata(dir.path().join("skep.db-wal")).unwrap().len() / 4096;
    assert!(log < 20_000, "{log} pages wait in the log");
    drop(db);
    let kept: Result<_, DbError> =
        Db::open(&dir.path().join("skep.db")).unwrap().read(|conn| meta::get(conn, "long")).await;
    assert_eq!(kept.unwrap().unwrap(), text);
}

/// A small file system of its own where the tests may mount one (as root).
struct Tmpfs(TempDir);

impl Tmpfs {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", at, "tmpfs", flags, c"size=1m,mode=700").ok().map(|()| Self(dir))
    }

    fn set_read_only(&self, on: bool) {
        let flags = if on { rustix::mount::MountFlags::RDONLY } else { rustix::mount::MountFlags::empty() };
        rustix::mount::mount_remount(self.0.path(), flags, c"size=1m,mode=700").unwrap();
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

/// Writes until nothing more fits; answers the acknowledged keys and the error.
async fn fill(db: &Db) -> (Vec<String>, DbError) {
    let mut written = Vec::new();
    for n in 0..10_000 {
        let key = format!("k{n}");
        let set = {
            let key = key.clone();
            move |tx: &Transaction<'_>| meta::set(tx, &key, &"x".repeat(20_000))
        };
        match db.write(set).await {
            Ok(()) => written.push(key),
            Err(e) => return (written, e),
        }
    }
    panic!("it never filled");
}

#[tokio::test]
async fn a_full_disk_is_told_loses_nothing_and_is_got_over() {
    let (tmpfs, dir) = (Tmpfs::mount(), tempfile::tempdir().unwrap());
    let root = tmpfs.as_ref().map_or(dir.path(), |t| t.0.path());
    let ballast = root.join("ballast");
    if tmpfs.is_some() {
        fs::write(&ballast, vec![0; 300_000]).unwrap();
    }
    let db = Db::open(&root.join("skep.db")).unwrap();
    let limit = |pages: u32| {
        let db = db.clone();
        async move {
            db.write(move |tx| Ok::<_, DbError>(tx.pragma_update(None, "max_page_count", pages)?))
                .await
                .unwrap();
        }
    };
    if tmpfs.is_none() {
        limit(100).await;
    }
    let (written, error) = fill(&db).await;
    assert_eq!(error.fault, DbFault::Full, "{error}");
    assert!(written.len() > 3);
    if tmpfs.is_some() {
        fs::remove_file(&ballast).unwrap();
    } else {
        limit(1 << 20).await;
    }
    db.write(|tx| meta::set(tx, "after", "there is space again")).await.unwrap();
    let intact = db
        .read(move |c| {
            for key in &written {
                assert_eq!(meta::get(c, key)?.map(|v| v.len()), Some(20_000));
            }
            Ok::<_, DbError>(c.query_row("PRAGMA integrity_check", [], |r| r.get::<_, String>(0))?)
        })
        .await
        .unwrap();
    assert_eq!(intact, "ok");
}

#[tokio::test]
async fn a_read_only_database_is_told_and_works_again_when_it_is_writable() {
    let Some(tmpfs) = Tmpfs::mount() else {
        // Without the right to mount, the mode of the file does it (root would not be stopped by it).
        let (dir, db) = fresh();
        drop(db);
        let path = dir.path().join("skep.db");
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        let told = Db::open(&path).unwrap_err();
        assert_eq!(told.fault, DbFault::ReadOnly, "{told}");
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Db::open(&path).unwrap();
        return;
    };
    let path = tmpfs.0.path().join("skep.db");
    tmpfs.set_read_only(true);
    assert_eq!(Db::open(&path).unwrap_err().fault, DbFault::ReadOnly);
    tmpfs.set_read_only(false);
    drop(Db::open(&path).unwrap());
    tmpfs.set_read_only(true);
    let told = Db::open(&path).unwrap_err();
    assert_eq!(told.fault, DbFault::ReadOnly);
    assert!(told.to_string().contains("make it writable"), "{told}");
    tmpfs.set_read_only(false);
    Db::open(&path).unwrap().write(|tx| meta::set(tx, "k", "v")).await.unwrap();
}

/// Hazard 18: whatever was acknowledged before `kill -9` is there, and the file is whole.
#[test]
fn a_writer_that_is_killed_loses_nothing_that_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = 0_u64;
    for round in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "db::tests::faults::the_writer_that_is_killed", "--ignored", "--nocapture"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = acknowledged;
        let acknowledgement = |line: String| line.strip_prefix("acknowledged ").and_then(|n| n.parse().ok());
        for line in lines.by_ref().map_while(Result::ok) {
            last = acknowledgement(line).unwrap_or(last);
            if last >= acknowledged + 3 + round {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(round * 137));
        child.kill().unwrap();
        for line in lines.map_while(Result::ok) {
            last = acknowledgement(line).unwrap_or(last);
        }
        child.wait().unwrap();
        assert!(last > acknowledged, "the writer wrote nothing");
        acknowledged = last;
        let conn = connect(&dir.path().join("skep.db")).unwrap();
        let whole: String = conn.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        let (versions, events): (u64, u64) = (
            conn.query_row("SELECT count(*) FROM skill_version", [], |r| r.get::<_, u32>(0)).unwrap().into(),
            conn.query_row("SELECT count(*) FROM event", [], |r| r.get::<_, u32>(0)).unwrap().into(),
        );
        assert_eq!(whole, "ok");
        assert_eq!(versions, events, "a registration and its event are one");
        assert!(versions >= acknowledged, "{acknowledged} were acknowledged, {versions} are there");
        acknowledged = versions;
    }
}

#[tokio::test]
#[ignore = "the process that a_writer_that_is_killed_loses_nothing_that_it_acknowledged starts and kills"]
async fn the_writer_that_is_killed() {
    let db = Db::open(std::path::Path::new("skep.db")).unwrap();
    let there = db.read(load_index).await.unwrap();
    let first = there.skills.get("a").map_or(0, |s| s.versions.len() as u64);
    for n in first + 1.. {
        let new = version("a", &format!("1.0.{n}"), 1);
        db.write(move |tx| {
            register(tx, &new, now())?;
            events::append(tx, now(), "skill:created", &json!({}))?;
            Ok::<_, RegisterError>(())
        })
        .await
        .unwrap();
        println!("acknowledged {n}");
        std::io::stdout().flush().unwrap();
    }
}

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;

/// Another user where we may become one, else ourselves.
fn agent() -> Owner {
    if rustix::process::geteuid().is_root() {
        Owner { uid: 41_234, gid: 41_234 }
    } else {
        Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

fn workspace() -> (tempfile::TempDir, std::path::PathBuf) {
    let hive = tempfile::tempdir().unwrap();
    make_workspace(hive.path(), Path::new("agents/a/workspace"), Some(agent())).unwrap();
    let path = hive.path().join("agents/a/workspace");
    (hive, path)
}

fn owner_of(path: &Path) -> (u32, u32) {
    let meta = fs::symlink_metadata(path).unwrap();
    (meta.uid(), meta.gid())
}

#[test]
fn agent_programs_find_the_skills_and_everything_is_the_agents() {
    let (hive, ws) = workspace();
    assert_eq!(prepare(&ws, Some(agent())).unwrap(), vec![Outcome::Made; 3]);
    for link in ["home/.claude/skills", "home/.agents/skills", "home/.config/agents/skills"] {
        assert_eq!(fs::read_link(ws.join(link)).unwrap(), Path::new("/skills"));
        for part in Path::new(link).ancestors() {
            assert_eq!(owner_of(&ws.join(part)), (agent().uid, agent().gid), "{part:?}");
        }
    }
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(owner_of(&hive.path().join("agents/a")).0, own);
    assert_eq!(prepare(&ws, Some(agent())).unwrap(), vec![Outcome::Kept; 3]);
    // This thread is still who it was.
    fs::write(hive.path().join("mine"), "x").unwrap();
    assert_eq!(owner_of(&hive.path().join("mine")).0, own);
}

#[test]
fn what_the_agent_put_there_stays() {
    let (_hive, ws) = workspace();
    fs::create_dir_all(ws.join("home/.claude/skills/own")).unwrap();
    fs::create_dir_all(ws.join("home/.agents")).unwrap();
    symlink("/elsewhere", ws.join("home/.agents/skills")).unwrap();
    fs::write(ws.join("home/.config"), "a file").unwrap();
    assert_eq!(prepare(&ws, None).unwrap(), vec![Outcome::Occupied; 3]);
    assert!(ws.join("home/.claude/skills/own").exists());
    assert_eq!(fs::read_link(ws.join("home/.agents/skills")).unwrap(), Path::new("/elsewhere"));
    assert_eq!(fs::read_to_string(ws.join("home/.config")).unwrap(), "a file");
}

#[test]
fn a_link_in_the_way_is_never_followed() {
    let (hive, ws) = workspace();
    let outside = hive.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(ws.join("home")).unwrap();
    symlink(&outside, ws.join("home/.claude")).unwrap();
    symlink("missing", ws.join("home/.agents")).unwrap();
    symlink(&outside, ws.join("home/.config")).unwrap();
    assert_eq!(prepare(&ws, None).unwrap(), vec![Outcome::Occupied; 3]);
    fs::remove_dir_all(ws.join("home")).unwrap();
    symlink(&outside, ws.join("home")).unwrap();
    assert_eq!(prepare(&ws, Some(agent())).unwrap(), vec![Outcome::Occupied; 3]);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);

    symlink(&ws, hive.path().join("ws-link")).unwrap();
    assert!(prepare(&hive.path().join("ws-link"), None).is_err());
    assert!(make_workspace(hive.path(), Path::new("ws-link/deeper"), None).is_err());
}

#[test]
fn a_workspace_never_leaves_the_hive_and_an_existing_one_keeps_its_owner() {
    let hive = tempfile::tempdir().unwrap();
    for bad in ["../x", "/tmp", "a/../../x"] {
        assert!(make_workspace(hive.path(), Path::new(bad), None).is_err(), "{bad}");
    }
    fs::create_dir(hive.path().join("mine")).unwrap();
    make_workspace(hive.path(), Path::new("./mine"), Some(agent())).unwrap();
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(owner_of(&hive.path().join("mine")).0, own);
}

#[test]
fn a_folder_that_the_agents_user_may_not_write_is_told_not_forced() {
    let hive = tempfile::tempdir().unwrap();
    let ws = hive.path().join("ws");
    fs::create_dir(&ws).unwrap();
    let outcomes = prepare(&ws, Some(agent())).unwrap();
    if agent().uid == rustix::process::geteuid().as_raw() {
        assert_eq!(outcomes, vec![Outcome::Made; 3]);
    } else {
        assert!(outcomes.iter().all(|o| matches!(o, Outcome::Failed(why) if why.contains("denied"))));
        assert_eq!(fs::read_dir(&ws).unwrap().count(), 0);
    }
}

#[test]
fn an_agent_that_swaps_folders_and_links_all_the_time_gains_nothing() {
    let (hive, ws) = workspace();
    let outside = hive.path().join("outside");
    fs::create_dir_all(outside.join("agents")).unwrap();
    prepare(&ws, Some(agent())).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let home = ws.join("home");
            for part in [".claude", ".agents", ".config"].iter().cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let real = home.join(part);
                // Any of these may lose the race against `prepare`, which is the point.
                drop(fs::remove_file(real.join("skills")));
                drop(fs::rename(&real, home.join("aside")));
                drop(symlink(&outside, &real));
                drop(fs::remove_file(&real));
                drop(fs::rename(home.join("aside"), &real));
                drop(fs::remove_dir_all(home.join("aside")));
            }
        });
        for _ in 0..3_000 {
            prepare(&ws, Some(agent())).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_dir(outside.join("agents")).unwrap().count(), 0);
    assert_eq!(owner_of(&outside).0, rustix::process::geteuid().as_raw());
}

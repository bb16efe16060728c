use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
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

fn owner_of(path: &Path) -> (u32, u32) {
    let meta = fs::symlink_metadata(path).unwrap();
    (meta.uid(), meta.gid())
}

#[test]
fn a_new_workspace_is_the_agents_and_the_folders_above_are_ours() {
    let hive = tempfile::tempdir().unwrap();
    make_workspace(hive.path(), Path::new("agents/a/workspace"), Some(agent())).unwrap();
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(owner_of(&hive.path().join("agents/a/workspace")), (agent().uid, agent().gid));
    assert_eq!(owner_of(&hive.path().join("agents/a")).0, own);
}

#[test]
fn a_link_on_the_way_is_never_followed() {
    let hive = tempfile::tempdir().unwrap();
    fs::create_dir(hive.path().join("outside")).unwrap();
    symlink("outside", hive.path().join("link")).unwrap();
    assert!(make_workspace(hive.path(), Path::new("link/deeper"), None).is_err());
    assert!(make_workspace(hive.path(), Path::new("link"), None).is_err());
    assert_eq!(fs::read_dir(hive.path().join("outside")).unwrap().count(), 0);
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

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use super::*;

struct Room {
    dir: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn view(&self) -> PathBuf {
        self.dir.path().join("view")
    }

    /// A version in the store, its files read-only as the store keeps them.
    fn store(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = self.dir.path().join("store").join(name);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            let script = path.extension().is_some_and(|e| e == "sh");
            set_mode(&path, if script { 0o555 } else { 0o444 }).unwrap();
        }
        root
    }
}

fn id(s: &str) -> SkillId {
    s.parse().unwrap()
}

fn v(s: &str) -> Version {
    s.parse().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = entries(folder).unwrap().into_iter().map(|(n, _)| n).collect();
    names.sort();
    names
}

/// Lays and flips `(id, version, source)`.
fn put(view: &Path, skills: &[(&str, &str, &Path)]) {
    let owned: Vec<_> = skills.iter().map(|(i, ver, s)| (id(i), v(ver), *s)).collect();
    let skills: Vec<_> = owned
        .iter()
        .map(|(id, version, source)| ViewSkill { id, version, source, generated_skill_md: None })
        .collect();
    lay(view, &skills).unwrap();
    flip(view, &skills).unwrap();
}

#[test]
fn a_view_links_to_the_store_and_keeps_its_modes() {
    let room = Room::new();
    let a = room.store("a1", &[("manifest.json", "{}"), ("scripts/x.sh", "echo")]);
    put(&room.view(), &[("a", "1.0.0", &a)]);

    assert_eq!(names(&room.view()), [".v", "a", "custom"]);
    assert_eq!(fs::read_link(room.view().join("a")).unwrap(), Path::new(".v/a@1.0.0"));
    let laid = fs::metadata(room.view().join("a/scripts/x.sh")).unwrap();
    assert_eq!(laid.ino(), fs::metadata(a.join("scripts/x.sh")).unwrap().ino());
    assert_eq!((laid.nlink(), laid.mode() & 0o7777), (2, 0o555));
    for folder in ["", ".v", "custom", ".v/a@1.0.0", ".v/a@1.0.0/scripts"] {
        let mode = fs::metadata(room.view().join(folder)).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o755, "{folder}");
    }
}

#[test]
fn laying_again_changes_nothing_and_never_touches_what_is_mounted() {
    let room = Room::new();
    let a = room.store("a1", &[("manifest.json", "{}")]);
    put(&room.view(), &[("a", "1.0.0", &a)]);
    let inode = |p: &str| fs::symlink_metadata(room.view().join(p)).unwrap().ino();
    let watched = ["", "custom", ".v", "a", ".v/a@1.0.0"];
    let before = watched.map(inode);
    fs::write(room.view().join("custom/of-the-agent"), "x").unwrap();
    put(&room.view(), &[("a", "1.0.0", &a)]);
    assert_eq!(watched.map(inode), before);

    put(&room.view(), &[]);
    collect(&room.view(), &[]).unwrap();
    assert_eq!(names(&room.view()), [".v", "custom"]);
    assert!(names(&room.view().join(".v")).is_empty());
    assert_eq!([inode(""), inode("custom")], before[..2]);
    assert!(room.view().join("custom/of-the-agent").exists());
    assert!(a.join("manifest.json").exists());
}

#[test]
fn old_versions_stay_until_their_last_run_ended() {
    let room = Room::new();
    let one = room.store("a1", &[("f", "1")]);
    let two = room.store("a2", &[("f", "2")]);
    let b = room.store("b", &[("f", "b")]);
    put(&room.view(), &[("a", "1.0.0", &one), ("b", "1.0.0+build.5", &b)]);
    put(&room.view(), &[("a", "2.0.0-rc.1", &two)]);
    assert_eq!(fs::read_to_string(room.view().join("a/f")).unwrap(), "2");
    assert_eq!(names(&room.view()), [".v", "a", "custom"]);

    collect(&room.view(), &[(id("a"), v("1.0.0"))]).unwrap();
    assert_eq!(names(&room.view().join(".v")), ["a@1.0.0", "a@2.0.0-rc.1"]);
    collect(&room.view(), &[]).unwrap();
    assert_eq!(names(&room.view().join(".v")), ["a@2.0.0-rc.1"]);
    collect(&room.dir.path().join("never-made"), &[]).unwrap();
}

#[test]
fn a_generated_skill_md_is_the_views_own_and_leaves_the_store_alone() {
    let room = Room::new();
    let a = room.store("a", &[("manifest.json", "{}")]);
    let b = room.store("b", &[("SKILL.md", "own")]);
    let (ia, ib, ver) = (id("a"), id("b"), v("1.0.0"));
    let with = |text| {
        [(&ia, &a), (&ib, &b)].map(|(id, source)| ViewSkill {
            id,
            version: &ver,
            source,
            generated_skill_md: Some(text),
        })
    };
    for text in ["first", "second"] {
        lay(&room.view(), &with(text)).unwrap();
        flip(&room.view(), &with(text)).unwrap();
        assert_eq!(fs::read_to_string(room.view().join("a/SKILL.md")).unwrap(), text);
        assert_eq!(fs::read_to_string(room.view().join("b/SKILL.md")).unwrap(), "own");
        assert_eq!(names(&a), ["manifest.json"]);
        assert_eq!(names(&room.view().join(".v")), ["a@1.0.0", "b@1.0.0"]);
    }
    let mode = fs::metadata(room.view().join("a/SKILL.md")).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o444);
}

#[test]
fn leftovers_of_a_crash_are_swept_and_a_damaged_version_is_laid_anew() {
    let room = Room::new();
    let a = room.store("a", &[("f", "1"), ("g", "2")]);
    put(&room.view(), &[("a", "1.0.0", &a)]);
    let versions = room.view().join(".v");
    fs::create_dir_all(versions.join(".tmp-a@1.0.0/half")).unwrap();
    fs::create_dir(versions.join(".tmp-b@9.0.0")).unwrap();
    symlink("nowhere", versions.join(".tmp-a")).unwrap();
    fs::remove_file(versions.join("a@1.0.0/g")).unwrap();
    fs::write(versions.join("a@1.0.0/extra"), "x").unwrap();
    put(&room.view(), &[("a", "1.0.0", &a)]);
    assert_eq!(names(&versions), ["a@1.0.0"]);
    assert_eq!(names(&room.view().join("a")), ["f", "g"]);
}

#[test]
fn a_file_that_cannot_be_linked_any_more_is_copied_with_its_mode() {
    let room = Room::new();
    let a = room.store("a", &[("x.sh", "echo")]);
    let shm = tempfile::tempdir_in("/dev/shm").unwrap();
    let view = shm.path().join("view");
    put(&view, &[("a", "1.0.0", &a)]);
    let (source, laid) = (fs::metadata(a.join("x.sh")).unwrap(), fs::metadata(view.join("a/x.sh")).unwrap());
    assert_ne!(source.dev(), laid.dev(), "the test needs two file systems");
    assert_eq!((laid.mode() & 0o7777, laid.nlink()), (0o555, 1));
    put(&view, &[("a", "1.0.0", &a)]);
    assert_eq!(fs::metadata(view.join("a/x.sh")).unwrap().ino(), laid.ino());
}

#[test]
fn a_link_or_special_file_in_the_store_is_refused() {
    let room = Room::new();
    let a = room.store("a", &[("f", "1")]);
    symlink("/etc/passwd", a.join("out")).unwrap();
    let (ia, ver) = (id("a"), v("1.0.0"));
    let skill = ViewSkill { id: &ia, version: &ver, source: &a, generated_skill_md: None };
    let told = lay(&room.view(), &[skill]).unwrap_err().to_string();
    assert!(told.contains("out: only regular files"), "{told}");
    assert!(names(&room.view().join(".v")).is_empty());
}

#[test]
fn a_version_that_is_not_laid_is_not_linked_to() {
    let room = Room::new();
    let a = room.store("a", &[("f", "1")]);
    put(&room.view(), &[("a", "1.0.0", &a)]);
    let (ia, ver) = (id("a"), v("2.0.0"));
    let skill = ViewSkill { id: &ia, version: &ver, source: &a, generated_skill_md: None };
    assert!(flip(&room.view(), &[skill]).is_err());
    assert!(room.view().join("a/f").exists());
}

#[test]
fn a_folder_in_the_place_of_a_link_is_an_error_and_stays() {
    let room = Room::new();
    let a = room.store("a", &[("f", "1")]);
    fs::create_dir_all(room.view().join("a/kept")).unwrap();
    let (ia, ver) = (id("a"), v("1.0.0"));
    let skill = ViewSkill { id: &ia, version: &ver, source: &a, generated_skill_md: None };
    lay(&room.view(), &[skill]).unwrap();
    assert!(flip(&room.view(), &[skill]).is_err());
    assert!(room.view().join("a/kept").exists());
}

#[test]
fn readers_see_no_error_during_thousands_of_swaps() {
    let room = Room::new();
    let one = room.store("a1", &[("sub/f", "one")]);
    let two = room.store("a2", &[("sub/f", "two")]);
    put(&room.view(), &[("a", "1.0.0", &one)]);
    put(&room.view(), &[("a", "2.0.0", &two)]);
    let (ia, v1, v2) = (id("a"), v("1.0.0"), v("2.0.0"));
    let skill = |version, source| [ViewSkill { id: &ia, version, source, generated_skill_md: None }];
    let (old, new) = (skill(&v1, &one), skill(&v2, &two));
    let (reads, swaps, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let file = room.view().join("a/sub/f");
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let text = fs::read_to_string(&file).unwrap();
                    assert!(text == "one" || text == "two");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while reads.load(Ordering::Relaxed) < 100_000 || swaps.load(Ordering::Relaxed) < 4_000 {
            flip(&room.view(), &old).unwrap();
            flip(&room.view(), &new).unwrap();
            swaps.fetch_add(2, Ordering::Relaxed);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(reads.into_inner() >= 100_000);
    assert_eq!(names(&room.view().join(".v")), ["a@1.0.0", "a@2.0.0"]);
}

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, fs::symlink, net::UnixListener},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{FileType, RenameFlags, mknodat, renameat_with};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::*;

/// A place of ours with a skill's folder `s` and a staging folder beside it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["s", "staging"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let place = Self { dir };
        place.write("SKILL.md", "# hello");
        place
    }

    fn at(&self, path: impl AsRef<Path>) -> std::path::PathBuf {
        self.dir.path().join("s").join(path)
    }

    fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.at(&path).parent().unwrap()).unwrap();
        fs::write(self.at(path), content).unwrap();
    }

    fn copy_as(&self, origin: Origin, limits: SkillLimits) -> Result<Staged, CopyError> {
        copy(self.dir.path(), Path::new("s"), &Policy { origin, limits }, &self.dir.path().join("staging"))
    }

    fn copy(&self, origin: Origin) -> Result<Staged, CopyError> {
        self.copy_as(origin, SkillLimits::default())
    }

    /// The printed faults of an agent's folder, which must leave nothing in staging.
    fn faults(&self, origin: Origin) -> Vec<String> {
        let error = self.copy(origin).expect_err("it was taken");
        assert_eq!(fs::read_dir(self.dir.path().join("staging")).unwrap().count(), 0);
        match error {
            CopyError::Rejected { faults, .. } => faults.iter().map(ToString::to_string).collect(),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_plain_folder_is_copied_with_its_executable_bits_and_nothing_else() {
    let place = Place::new();
    place.write("scripts/deep/run.sh", "#!/bin/sh\n");
    fs::set_permissions(place.at("scripts/deep/run.sh"), fs::Permissions::from_mode(0o700)).unwrap();
    place.write(".git/HEAD", "x");
    place.write("lib/.DS_Store", "x");
    place.write("vars.json", "{}");
    place.write("lib/vars.json", "{}");
    place.write(".skep-errors.md", "x");
    fs::create_dir(place.at("empty")).unwrap();
    let staged = place.copy(Origin::Agent).unwrap();
    let paths: Vec<_> = staged.source().files.iter().map(|(p, f)| (p.as_str(), f.executable)).collect();
    assert_eq!(paths, [("SKILL.md", false), ("lib/vars.json", false), ("scripts/deep/run.sh", true)]);
    let mode = |p: &str| fs::metadata(staged.path().join(p)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("SKILL.md"), mode("scripts/deep/run.sh"), mode("scripts")), (0o444, 0o555, 0o555));
    assert_eq!(staged.read("SKILL.md").unwrap().unwrap(), b"# hello");
    assert_eq!(staged.read("../SKILL.md").unwrap(), None);
    assert_eq!(staged.source().skill_md.as_deref(), Some(&b"# hello"[..]));
    assert_eq!(staged.source().files["scripts/deep/run.sh"].head, b"#!/bin/sh\n");
    assert_eq!(staged.source().folder.as_deref(), Some("s"));
    let (path, policy) =
        (staged.path().to_owned(), Policy { origin: Origin::Operator, limits: SkillLimits::default() });
    assert_eq!(&fingerprint(place.dir.path(), Path::new("s"), &policy).unwrap(), staged.source());
    drop(staged);
    assert!(!path.exists());
}

#[test]
fn every_kind_that_is_no_file_is_refused_by_name_and_all_together() {
    let place = Place::new();
    mknodat(CWD, place.at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(place.at("socket")).unwrap();
    symlink("/etc/passwd", place.at("out")).unwrap();
    symlink("loop", place.at("loop")).unwrap();
    symlink("..", place.at("up")).unwrap();
    fs::hard_link(place.at("SKILL.md"), place.at("hard")).unwrap();
    place.write("setuid", "x");
    fs::set_permissions(place.at("setuid"), fs::Permissions::from_mode(0o4755)).unwrap();
    let faults = place.faults(Origin::Agent);
    let starts = [
        "SKILL.md: is a hard link",
        "fifo: is a FIFO",
        "hard: is a hard link",
        "loop: is a link",
        "out: is a link",
        "setuid: is setuid",
        "socket: is a socket",
        "up: is a link",
    ];
    assert_eq!(faults.len(), starts.len(), "{faults:#?}");
    for (fault, start) in faults.iter().zip(starts) {
        assert!(fault.starts_with(start), "{fault}");
    }
}

#[test]
fn a_device_is_refused_unopened() {
    let place = Place::new();
    let made =
        mknodat(CWD, place.at("null"), FileType::CharacterDevice, Mode::RWXU, rustix::fs::makedev(1, 3));
    if made.is_ok() {
        assert!(place.faults(Origin::Operator)[0].starts_with("null: is a device"));
        return;
    }
    // Only root makes devices; everybody has these.
    let policy =
        Policy { origin: Origin::Operator, limits: SkillLimits { files: 100_000, ..SkillLimits::default() } };
    let text = fingerprint(Path::new("/dev"), Path::new("."), &policy).unwrap_err().to_string();
    assert!(text.contains("is a device"), "{text}");
}

#[test]
fn the_operator_may_link_within_the_folder_and_never_out_of_it() {
    let place = Place::new();
    place.write("docs/a.md", "a");
    symlink("docs/a.md", place.at("b.md")).unwrap();
    fs::hard_link(place.at("docs/a.md"), place.at("c.md")).unwrap();
    let staged = place.copy(Origin::Operator).unwrap();
    for path in ["b.md", "c.md"] {
        assert_eq!(staged.read(path).unwrap().unwrap(), b"a");
        assert!(!staged.path().join(path).is_symlink());
    }
    drop(staged);
    symlink("/etc/passwd", place.at("absolute")).unwrap();
    symlink("../staging", place.at("beside")).unwrap();
    symlink("docs", place.at("folder")).unwrap();
    symlink("loop", place.at("loop")).unwrap();
    symlink("absent", place.at("nothing")).unwrap();
    let faults = place.faults(Origin::Operator).join("\n");
    for told in [
        "absolute: is a link that leads out",
        "beside: is a link that leads out",
        "folder: is a link to a folder",
        "loop: is a link that leads to itself",
        "nothing: is a link to nothing",
    ] {
        assert!(faults.contains(told), "{told} in\n{faults}");
    }
}

#[test]
fn a_folder_that_is_itself_a_link_is_refused_and_a_missing_one_named() {
    let place = Place::new();
    symlink("/etc", place.dir.path().join("linked")).unwrap();
    let policy = Policy { origin: Origin::Agent, limits: SkillLimits::default() };
    for inner in ["linked", "s/SKILL.md", "../../etc", "s/../../etc", "/etc"] {
        let error = fingerprint(place.dir.path(), Path::new(inner), &policy).unwrap_err();
        assert!(matches!(error, CopyError::Rejected { .. }), "{inner}: {error}");
    }
    let error = fingerprint(place.dir.path(), Path::new("gone"), &policy).unwrap_err();
    assert!(matches!(&error, CopyError::Missing(p) if p.ends_with("/gone")), "{error}");
}

#[test]
fn names_that_deceive_are_refused_and_long_ones_taken() {
    let place = Place::new();
    for name in [&b"new\nline"[..], b"\x1b[2Jclear", b"back\\slash", b"\xff\xfe"] {
        fs::write(place.at(OsStr::from_bytes(name)), "x").unwrap();
    }
    fs::create_dir(place.at(OsStr::from_bytes(b"\x1b]0;title\x07"))).unwrap();
    let faults = place.faults(Origin::Agent);
    assert_eq!(faults.len(), 5, "{faults:#?}");
    assert!(faults.iter().all(|f| !f.contains(char::is_control)), "{faults:#?}");
    let place = Place::new();
    place.write("x".repeat(255), "x");
    assert_eq!(place.copy(Origin::Agent).unwrap().source().files.len(), 2);
}

#[test]
fn a_folder_too_deep_or_a_path_too_long_is_refused() {
    let place = Place::new();
    place.write("d/".repeat(31) + "ok", "x");
    assert!(place.copy(Origin::Agent).is_ok());
    place.write("e/".repeat(32) + "deep", "x");
    place.write([&*"n".repeat(250); 5].join("/"), "x");
    let faults = place.faults(Origin::Agent).join("\n");
    assert!(faults.contains("32 folders deep") && faults.contains("longer than 1024 bytes"), "{faults}");
}

#[test]
fn a_hundred_thousand_files_are_refused_at_once() {
    let place = Place::new();
    for i in 0..100_000 {
        fs::File::create(place.at(i.to_string())).unwrap();
    }
    let began = Instant::now();
    let faults = place.faults(Origin::Agent);
    assert!(faults[0].contains("more than 2000 files"), "{faults:?}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn sizes_are_capped_for_each_file_the_manifest_and_all_together() {
    let limits = SkillLimits { files: 5, total: 300, file: 200, manifest: 100 };
    for (files, told) in [
        (vec![("a", 201)], Some("a: has 201 bytes; 200 are allowed")),
        (vec![("SKILL.md", 101)], Some("SKILL.md: has 101 bytes; 100 are allowed")),
        (vec![("docs/SKILL.md", 150)], None),
        (vec![("a", 150), ("b", 150)], Some("more than 300 bytes")),
        (vec![("a", 1), ("b", 1), ("c", 1), ("d", 1)], None),
        (vec![("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)], Some("more than 5 files")),
    ] {
        let place = Place::new();
        for (path, size) in &files {
            place.write(path, vec![b'x'; *size]);
        }
        let outcome = place.copy_as(Origin::Agent, limits).map(drop).map_err(|e| e.to_string());
        match (outcome, told) {
            (Ok(()), None) => {}
            (Err(text), Some(told)) if text.contains(told) => {}
            (outcome, told) => panic!("{files:?}: {outcome:?}, not {told:?}"),
        }
    }
    let place = Place::new();
    fs::File::create(place.at("sparse")).unwrap().set_len(1 << 40).unwrap();
    assert!(place.faults(Origin::Agent)[0].contains("1099511627776 bytes"));
}

#[test]
fn faults_beyond_fifty_are_counted() {
    let place = Place::new();
    for i in 0..60 {
        symlink("x", place.at(format!("l{i}"))).unwrap();
    }
    let error = place.copy(Origin::Agent).unwrap_err();
    assert!(matches!(&error, CopyError::Rejected { faults, more: 10, .. } if faults.len() == 50));
    assert!(error.to_string().ends_with("and 10 more"));
}

#[test]
fn a_file_that_grows_while_it_is_read_is_noticed_and_bounded() {
    let place = Place::new();
    place.write("log", vec![b'x'; 1 << 20]);
    let (stop, appends) = (AtomicBool::new(false), AtomicU64::new(0));
    let outcomes: Vec<_> = std::thread::scope(|s| {
        s.spawn(|| {
            let mut log = fs::OpenOptions::new().append(true).open(place.at("log")).unwrap();
            while !stop.load(Ordering::Relaxed) {
                log.write_all(&[b'x'; 4096]).unwrap();
                appends.fetch_add(1, Ordering::Relaxed);
                if log.metadata().unwrap().len() > 15 << 20 {
                    log.set_len(1 << 20).unwrap();
                }
            }
        });
        while appends.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let began = Instant::now();
        let mut outcomes = Vec::new();
        while began.elapsed() < Duration::from_secs(10) {
            outcomes.push(place.copy(Origin::Agent));
            if matches!(outcomes.last(), Some(Err(CopyError::Rejected { changing: true, .. }))) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        outcomes
    });
    assert!(outcomes.last().unwrap().is_err(), "{} copies of a growing file, none refused", outcomes.len());
    for staged in outcomes.into_iter().flatten() {
        let log = &staged.source().files["log"];
        assert_eq!(staged.read("log").unwrap().unwrap().len() as u64, log.size);
    }
}

/// Hazard 20: while the folder is copied, one thread swaps a folder for a link that leads out, another
/// a file for such a link. Whatever is copied must be the folder's own.
#[test]
fn no_rename_during_a_copy_lets_anything_outside_in() {
    let place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), "the secret").unwrap();
    place.write("d/f", "own");
    place.write("g", "own");
    symlink(outside.path(), place.dir.path().join("link-d")).unwrap();
    symlink(outside.path().join("f"), place.dir.path().join("link-g")).unwrap();
    let (stop, renames) = (AtomicBool::new(false), AtomicU64::new(0));
    let swap = |inside: &str, link: &str| {
        let (a, b) = (place.at(inside), place.dir.path().join(link));
        while !stop.load(Ordering::Relaxed) {
            renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            renames.fetch_add(1, Ordering::Relaxed);
        }
    };
    let secret: [u8; 32] = Sha256::digest("the secret").into();
    let (mut taken, mut refused) = (0, 0);
    std::thread::scope(|s| {
        s.spawn(|| swap("d", "link-d"));
        s.spawn(|| swap("g", "link-g"));
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            let origin = if (taken + refused) % 2 == 0 { Origin::Agent } else { Origin::Operator };
            match place.copy(origin) {
                Ok(staged) => {
                    taken += 1;
                    assert!(staged.source().files.values().all(|f| f.digest != secret));
                }
                Err(CopyError::Rejected { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let renames = renames.load(Ordering::Relaxed);
    println!("{renames} renames, {taken} copies taken, {refused} refused, none with anything from outside");
    assert!(renames > 1000 && refused > 0);
}

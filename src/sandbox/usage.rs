//! How much disk an agent's folders take, counted on folders that the agent changes meanwhile.
//!
//! Follows no link, opens nothing but folders, and gives up (saying so) rather than follow an
//! agent that makes entries or levels without end. Other devices count too: on btrfs an agent may
//! make subvolumes, which have numbers of their own.

use std::{
    collections::HashSet,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat},
    io::Errno,
};

/// Levels that are looked into; each keeps a descriptor open for as long as the count is below it.
const MAX_DEPTH: usize = 128;

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of disk blocks, each file once however many names it has.
    pub bytes: u64,
    /// Files and folders visited.
    pub entries: u64,
    /// False when a limit (entries, depth) or a folder that cannot be read cut it short: the truth is more.
    pub complete: bool,
}

/// Counts what the folder at `path` takes, visiting at most `max_entries`.
///
/// What disappears meanwhile is not counted, and no error.
///
/// # Errors
/// When `path` itself cannot be opened as a folder (a link counts as none).
pub fn disk_usage(path: &Path, max_entries: u64) -> io::Result<Usage> {
    let root = open(CWD, path)?;
    let stat = fstat(&root)?;
    let mut count = Count {
        usage: Usage { bytes: blocks(&stat), entries: 1, complete: true },
        max_entries,
        seen: HashSet::new(),
    };
    let mut open_levels = vec![Dir::new(root)?];
    while let Some(level) = open_levels.last_mut() {
        match count.next(level) {
            Step::Up => {
                open_levels.pop();
            }
            Step::Stay => {}
            Step::Down(folder) if open_levels.len() < MAX_DEPTH => {
                open_levels.push(Dir::new(folder)?);
            }
            Step::Down(_) => count.usage.complete = false,
            Step::Stop => break,
        }
    }
    Ok(count.usage)
}

struct Count {
    usage: Usage,
    max_entries: u64,
    /// Files with several names that were counted.
    seen: HashSet<(u64, u64)>,
}

enum Step {
    Stay,
    Down(OwnedFd),
    Up,
    Stop,
}

impl Count {
    fn next(&mut self, level: &mut Dir) -> Step {
        let entry = match level.read() {
            None => return Step::Up,
            Some(Ok(entry)) => entry,
            Some(Err(_)) => {
                self.usage.complete = false;
                return Step::Up;
            }
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            return Step::Stay;
        }
        if self.usage.entries >= self.max_entries {
            self.usage.complete = false;
            return Step::Stop;
        }
        let Ok(at) = level.fd() else {
            self.usage.complete = false;
            return Step::Up;
        };
        let stat = match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Step::Stay,
            Err(_) => {
                self.usage.complete = false;
                return Step::Stay;
            }
        };
        self.usage.entries += 1;
        let is_folder = FileType::from_raw_mode(stat.st_mode).is_dir();
        if is_folder || stat.st_nlink <= 1 || self.seen.insert((stat.st_dev, stat.st_ino)) {
            self.usage.bytes = self.usage.bytes.saturating_add(blocks(&stat));
        }
        if !is_folder {
            return Step::Stay;
        }
        match open(at, name) {
            Ok(folder) => Step::Down(folder),
            // Gone, or replaced by something else in between.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Step::Stay,
            Err(_) => {
                self.usage.complete = false;
                Step::Stay
            }
        }
    }
}

fn open(at: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    openat(at, path, flags, Mode::empty())
}

fn blocks(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    const MANY: u64 = 1_000_000;

    #[test]
    fn each_file_counts_once_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let big = tempfile::tempdir().unwrap();
        fs::write(big.path().join("big"), vec![1; 1 << 20]).unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/f"), vec![1; 100_000]).unwrap();
        let before = disk_usage(dir.path(), MANY).unwrap();
        assert!(before.complete && before.bytes >= 100_000 && before.bytes < 200_000);
        assert_eq!(before.entries, 3);

        fs::hard_link(dir.path().join("sub/f"), dir.path().join("g")).unwrap();
        symlink(big.path(), dir.path().join("out")).unwrap();
        symlink(big.path().join("big"), dir.path().join("file-out")).unwrap();
        symlink(".", dir.path().join("loop")).unwrap();
        let after = disk_usage(dir.path(), MANY).unwrap();
        assert!(after.bytes < before.bytes + 50_000, "{after:?}");
        assert_eq!(after.entries, 7);
    }

    #[test]
    fn a_sparse_file_counts_what_it_takes() {
        let dir = tempfile::tempdir().unwrap();
        let sparse = fs::File::create(dir.path().join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert!(disk_usage(dir.path(), MANY).unwrap().bytes < 1 << 20);
    }

    #[test]
    fn too_many_entries_or_levels_are_told() {
        let dir = tempfile::tempdir().unwrap();
        for i in 0..50 {
            fs::write(dir.path().join(format!("f{i}")), "x").unwrap();
        }
        let cut = disk_usage(dir.path(), 20).unwrap();
        assert_eq!((cut.entries, cut.complete), (20, false));
        assert!(disk_usage(dir.path(), 51).unwrap().complete);
        let deep: std::path::PathBuf = std::iter::repeat_n("d", 300).collect();
        fs::create_dir_all(dir.path().join(deep)).unwrap();
        assert!(!disk_usage(dir.path(), MANY).unwrap().complete);
    }

    #[test]
    fn a_link_or_file_in_place_of_the_folder_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        for name in ["link", "file", "missing"] {
            assert!(disk_usage(&dir.path().join(name), MANY).is_err(), "{name}");
        }
    }
}

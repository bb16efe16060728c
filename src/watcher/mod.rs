//! Notices changes of the operator's files. Says only "something changed": who is woken reads anew.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

pub mod tree;

pub mod custom;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{sync::mpsc, time::timeout};

/// A change is passed on when nothing more came for so long: editors save in several steps.
const QUIET: Duration = Duration::from_millis(150);
/// A file that never rests is passed on after this.
const AT_MOST: Duration = Duration::from_secs(2);

/// What is watched: single files (through their folders) and whole trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Files that may come, change or go.
    pub files: BTreeSet<PathBuf>,
    /// Folders with everything in them.
    pub trees: BTreeSet<PathBuf>,
}

impl Targets {
    fn concern(&self, path: &Path) -> bool {
        self.files.contains(path) || self.trees.iter().any(|tree| path.starts_with(tree) && !passing(path))
    }
}

/// Files that editors leave for a moment.
fn passing(path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    name.ends_with('~') || name.ends_with(".swp") || name.ends_with(".swx") || name == "4913"
}

/// Watches one set of targets at a time.
pub struct Watcher {
    inner: RecommendedWatcher,
    targets: Targets,
    watched: BTreeSet<PathBuf>,
    raw: mpsc::UnboundedReceiver<PathBuf>,
}

impl Watcher {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// When the system gives no more watchers.
    pub fn new() -> Result<Self, String> {
        let (sender, raw) = mpsc::unbounded_channel();
        let inner = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(_)) {
                return;
            }
            for path in event.paths {
                // Nobody listens any more: the watcher is being dropped.
                sender.send(path).unwrap_or_default();
            }
        })
        .map_err(|e| format!("cannot watch files: {e}"))?;
        Ok(Self { inner, targets: Targets::default(), watched: BTreeSet::new(), raw })
    }

    /// Watches these from now on. What cannot be watched is answered; it is looked at by the sweep.
    pub fn watch(&mut self, targets: Targets) -> Vec<String> {
        let mut problems = Vec::new();
        let folders = targets.files.iter().filter_map(|f| f.parent().map(|p| (p.to_owned(), false)));
        let wanted: BTreeSet<(PathBuf, bool)> =
            folders.chain(targets.trees.iter().map(|t| (t.clone(), true))).collect();
        for gone in self.watched.iter().filter(|p| !wanted.iter().any(|(w, _)| w == *p)) {
            // It may be gone from the disk as well.
            self.inner.unwatch(gone).unwrap_or_default();
        }
        let mut watched = BTreeSet::new();
        for (path, tree) in wanted.into_iter().filter(|(path, _)| path.is_dir()) {
            let mode = if tree { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            match self.inner.watch(&path, mode) {
                Ok(()) => {
                    watched.insert(path);
                }
                Err(e) => problems.push(format!("cannot watch {}: {e}", path.display())),
            }
        }
        (self.watched, self.targets) = (watched, targets);
        problems
    }

    /// Waits for a change and then for quiet.
    pub async fn changed(&mut self) {
        loop {
            let Some(path) = self.raw.recv().await else { return std::future::pending().await };
            if self.targets.concern(&path) {
                break;
            }
        }
        let rest = async { while timeout(QUIET, self.raw.recv()).await.is_ok() {} };
        timeout(AT_MOST, rest).await.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn targets(file: PathBuf, tree: PathBuf) -> Targets {
        Targets { files: [file].into(), trees: [tree].into() }
    }

    async fn notices(watcher: &mut Watcher) -> bool {
        timeout(Duration::from_secs(3), watcher.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_saved_file_and_a_new_folder_in_a_tree_are_noticed_and_neighbours_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let (file, tree) = (dir.path().join("skep.toml"), dir.path().join("skills"));
        fs::create_dir(&tree).unwrap();
        let mut watcher = Watcher::new().unwrap();
        assert_eq!(watcher.watch(targets(file.clone(), tree.clone())), Vec::<String>::new());
        fs::write(dir.path().join("other"), "x").unwrap();
        assert!(timeout(Duration::from_millis(500), watcher.changed()).await.is_err());
        fs::write(dir.path().join("new"), "x").unwrap();
        fs::rename(dir.path().join("new"), &file).unwrap();
        assert!(notices(&mut watcher).await, "a rename over the file");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        assert!(notices(&mut watcher).await, "a folder in the tree");
    }
}

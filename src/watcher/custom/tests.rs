use std::{
    fs,
    os::unix::fs::symlink,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::time::timeout;

use super::*;

const LONG: Duration = Duration::from_secs(10);

struct Place {
    dir: tempfile::TempDir,
    agent: AgentId,
    watcher: CustomWatcher,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            agent: "a".parse().unwrap(),
            watcher: CustomWatcher::new().unwrap(),
        };
        place.watcher.watch_root(&place.agent, place.dir.path()).unwrap();
        place
    }

    fn folder(&self, name: &str) -> bool {
        self.watcher.watch_folder(&self.agent, self.dir.path(), name).unwrap()
    }

    /// What is touched, until `enough` of it is.
    async fn until(&self, enough: impl Fn(&Touched) -> bool) -> Touched {
        let mut all = Touched::default();
        let wait = async {
            while !enough(&all) {
                let found = self.watcher.touched().await.remove(&self.agent).unwrap_or_default();
                all.all |= found.all;
                all.muted_until = all.muted_until.or(found.muted_until);
                all.folders.extend(found.folders);
            }
        };
        timeout(LONG, wait).await.expect("touched");
        all
    }

    async fn nothing(&self) {
        assert!(timeout(Duration::from_millis(300), self.watcher.touched()).await.is_err());
    }
}

#[tokio::test]
async fn a_new_folder_its_files_and_its_inner_folders_are_noticed() {
    let place = Place::new();
    fs::create_dir(place.dir.path().join("x")).unwrap();
    let touched = place.until(|t| t.folders.contains_key("x")).await;
    assert!(touched.folders["x"].folders);
    assert!(place.folder("x"));
    fs::create_dir(place.dir.path().join("x/scripts")).unwrap();
    assert!(place.until(|t| t.folders.contains_key("x")).await.folders["x"].folders);
    place.folder("x");
    fs::write(place.dir.path().join("x/scripts/a.sh"), "x").unwrap();
    assert!(!place.until(|t| t.folders.contains_key("x")).await.folders["x"].folders);
    fs::rename(place.dir.path().join("x"), place.dir.path().join("y")).unwrap();
    place.until(|t| t.folders.contains_key("x") && t.folders.contains_key("y")).await;
}

#[tokio::test]
async fn a_file_that_is_still_being_written_is_known_to_be() {
    use std::io::Write;
    let place = Place::new();
    fs::create_dir(place.dir.path().join("x")).unwrap();
    place.folder("x");
    let mut file = fs::File::create(place.dir.path().join("x/SKILL.md")).unwrap();
    file.write_all(b"half").unwrap();
    assert!(place.until(|t| t.folders.contains_key("x")).await.folders["x"].open);
    drop(file);
    let touched = place.until(|t| t.folders.get("x").is_some_and(|x| !x.open)).await;
    assert!(!touched.folders["x"].open);
}

#[tokio::test]
async fn notices_of_ours_hidden_names_and_reading_are_no_change() {
    let place = Place::new();
    fs::create_dir(place.dir.path().join("x")).unwrap();
    fs::write(place.dir.path().join("x/a"), "x").unwrap();
    place.folder("x");
    place.until(|t| t.folders.contains_key("x")).await;
    crate::registry::notice::lay(place.dir.path(), "x", "told", None).unwrap();
    fs::read(place.dir.path().join("x/a")).unwrap();
    tree::signature(place.dir.path(), "x").unwrap();
    place.nothing().await;
}

#[tokio::test]
async fn links_are_never_followed() {
    let place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("in")).unwrap();
    symlink(outside.path(), place.dir.path().join("link")).unwrap();
    fs::create_dir(place.dir.path().join("x")).unwrap();
    symlink(outside.path(), place.dir.path().join("x/link")).unwrap();
    place.until(|t| t.folders.contains_key("x")).await;
    place.folder("x");
    assert!(place.watcher.watch_folder(&place.agent, place.dir.path(), "link").is_err());
    assert!(place.watcher.watch_folder(&place.agent, place.dir.path(), "..").is_err());
    while timeout(Duration::from_millis(200), place.watcher.touched()).await.is_ok() {}
    fs::write(outside.path().join("in/f"), "x").unwrap();
    fs::write(outside.path().join("f"), "x").unwrap();
    place.nothing().await;
}

#[tokio::test]
async fn a_flood_is_not_listened_to_and_everything_is_looked_at_afterwards() {
    let place = Place::new();
    fs::create_dir(place.dir.path().join("x")).unwrap();
    place.folder("x");
    let at = place.dir.path().join("x/f");
    let (stop, flood) = (Arc::new(AtomicBool::new(false)), at.clone());
    let stopped = stop.clone();
    let flooding = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            fs::write(&flood, "x").unwrap();
            fs::remove_file(&flood).unwrap();
        }
    });
    let muted = place.until(|t| t.muted_until.is_some()).await;
    stop.store(true, Ordering::Relaxed);
    flooding.join().unwrap();
    assert!(muted.all);
    while timeout(Duration::from_millis(200), place.watcher.touched()).await.is_ok() {}
    fs::write(&at, "x").unwrap();
    place.nothing().await;
    place.watcher.watch_root(&place.agent, place.dir.path()).unwrap();
    place.folder("x");
    fs::write(&at, "y").unwrap();
    place.until(|t| t.folders.contains_key("x")).await;
}

#[test]
fn a_signature_changes_with_every_change_and_with_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let now = || tree::signature(dir.path(), "x");
    assert_eq!(now(), None);
    fs::create_dir_all(dir.path().join("x/inner")).unwrap();
    let mut before = now();
    assert_eq!(now(), before);
    let changes: [&dyn Fn(); 4] = [
        &|| fs::write(dir.path().join("x/inner/f"), "x").unwrap(),
        &|| fs::write(dir.path().join("x/inner/f"), "yy").unwrap(),
        &|| fs::rename(dir.path().join("x/inner/f"), dir.path().join("x/f")).unwrap(),
        &|| fs::remove_file(dir.path().join("x/f")).unwrap(),
    ];
    for change in changes {
        change();
        assert_ne!(now(), before);
        before = now();
    }
    fs::write(dir.path().join("x/.skep-errors.md"), "told").unwrap();
    assert_eq!(now(), before);
}

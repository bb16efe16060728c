use std::{os::unix::fs::symlink, thread};

use super::*;

fn hive() -> (tempfile::TempDir, SecretStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = SecretStore::new(dir.path(), Path::new("secrets/env.json"));
    (dir, store)
}

fn name(s: &str) -> SecretName {
    s.parse().unwrap()
}

fn value(s: &str) -> SecretValue {
    SecretValue::new(s).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn a_missing_file_holds_nothing_and_the_first_secret_makes_it_private() {
    let (dir, store) = hive();
    let loaded = store.load().unwrap();
    assert!(loaded.secrets.names().is_empty());
    assert!(!store.remove(&name("A")).unwrap());
    assert!(!dir.path().join("secrets").exists());

    assert!(!store.set(&name("A"), value("one")).unwrap());
    assert_eq!(mode(store.path()), 0o600);
    assert_eq!(mode(&dir.path().join("secrets")), 0o700);
    assert_ne!(store.fingerprint().unwrap(), loaded.fingerprint);
    let loaded = store.load().unwrap();
    assert_eq!(loaded.secrets.get(&name("A")).unwrap().expose(), "one");
    assert!(loaded.warnings.is_empty());
    assert_eq!(loaded.fingerprint, store.fingerprint().unwrap());
}

#[test]
fn a_change_keeps_the_other_entries_their_order_and_the_placeholders() {
    let (_dir, store) = hive();
    fs::create_dir(store.path().parent().unwrap()).unwrap();
    fs::write(store.path(), r#"{"Z": "1", "EMPTY": "", "A": "2", "M": "3"}"#).unwrap();
    assert!(store.set(&name("A"), value("two\n\"")).unwrap());
    assert!(store.remove(&name("M")).unwrap());
    assert!(!store.remove(&name("M")).unwrap());
    assert!(!store.set(&name("B"), value("b")).unwrap());
    assert_eq!(
        fs::read_to_string(store.path()).unwrap(),
        "{\n  \"Z\": \"1\",\n  \"EMPTY\": \"\",\n  \"A\": \"two\\n\\\"\",\n  \"B\": \"b\"\n}\n"
    );
    let secrets = store.load().unwrap().secrets;
    assert_eq!(secrets.get(&name("EMPTY")), None);
    assert!(!secrets.names().contains("EMPTY"));
}

#[test]
fn a_file_that_others_may_read_is_warned_about_with_the_remedy_and_cured_by_a_change() {
    let (_dir, store) = hive();
    store.set(&name("A"), value("one")).unwrap();
    for bits in [0o640, 0o604, 0o620] {
        fs::set_permissions(store.path(), fs::Permissions::from_mode(bits)).unwrap();
        let warnings = store.load().unwrap().warnings;
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].message.contains(&format!("{bits:04o}")));
        assert!(warnings[0].help.as_ref().unwrap().starts_with("chmod 600 "));
    }
    store.set(&name("A"), value("two")).unwrap();
    assert!(store.load().unwrap().warnings.is_empty());
}

#[test]
fn a_file_with_mistakes_is_refused_and_not_overwritten() {
    let (_dir, store) = hive();
    fs::create_dir(store.path().parent().unwrap()).unwrap();
    fs::write(store.path(), r#"{"A": 1, "B": "x"}"#).unwrap();
    let refused = store.set(&name("C"), value("c")).unwrap_err();
    assert!(refused.to_string().contains("secrets/env.json:1:7: the value of A"));
    assert_eq!(fs::read_to_string(store.path()).unwrap(), r#"{"A": 1, "B": "x"}"#);
}

#[test]
fn what_is_no_readable_small_file_is_refused_at_once() {
    let (_dir, store) = hive();
    fs::create_dir(store.path().parent().unwrap()).unwrap();
    fs::write(store.path(), vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(store.load().unwrap_err().to_string().contains("larger than 1 MiB"));
    fs::remove_file(store.path()).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, store.path(), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(store.load().unwrap_err().to_string().contains("not a regular file"));
    fs::remove_file(store.path()).unwrap();
    fs::create_dir(store.path()).unwrap();
    assert!(store.load().unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn a_link_stays_a_link_and_leftovers_of_a_crash_are_swept() {
    let (dir, store) = hive();
    let vault = dir.path().join("vault");
    fs::create_dir(&vault).unwrap();
    fs::write(vault.join("real.json"), "{}").unwrap();
    fs::write(vault.join(".real.json.new-abc"), "{\"A\":\"left\"}").unwrap();
    fs::create_dir(store.path().parent().unwrap()).unwrap();
    symlink(vault.join("real.json"), store.path()).unwrap();
    store.set(&name("A"), value("one")).unwrap();
    assert!(store.path().symlink_metadata().unwrap().is_symlink());
    assert!(fs::read_to_string(vault.join("real.json")).unwrap().contains("one"));
    assert_eq!(fs::read_dir(&vault).unwrap().count(), 1);
}

#[test]
fn what_root_makes_in_an_operators_hive_belongs_to_the_operator() {
    let (dir, store) = hive();
    let root = rustix::process::geteuid().is_root();
    let uid = if root { 41_235 } else { rustix::process::geteuid().as_raw() };
    if root {
        std::os::unix::fs::chown(dir.path(), Some(uid), Some(uid)).unwrap();
    }
    store.set(&name("A"), value("one")).unwrap();
    store.set(&name("B"), value("two")).unwrap();
    for path in [store.path(), store.path().parent().unwrap()] {
        assert_eq!(fs::metadata(path).unwrap().uid(), uid, "{path:?}");
    }
    assert_eq!(mode(store.path()), 0o600);
}

#[test]
fn changes_at_the_same_time_all_last() {
    let (_dir, store) = hive();
    thread::scope(|s| {
        for t in 0..4 {
            let store = &store;
            s.spawn(move || {
                for i in 0..10 {
                    store.set(&name(&format!("N_{t}_{i}")), value("v")).unwrap();
                }
            });
        }
    });
    assert_eq!(store.load().unwrap().secrets.names().len(), 40);
}

#[test]
fn no_error_or_debug_text_shows_a_value() {
    let (_dir, store) = hive();
    store.set(&name("A"), value("canary-value")).unwrap();
    assert!(!format!("{:?}", store.load().unwrap()).contains("canary"));
    fs::write(store.path(), r#"{"canary-value": "A", "B": "canary-value" x}"#).unwrap();
    let e = store.load().unwrap_err();
    assert!(!format!("{e} {e:?}").contains("canary"));
    fs::write(store.path(), r#"{"canary-value": "A", "B": ["canary-value"]}"#).unwrap();
    let e = store.load().unwrap_err();
    assert!(!format!("{e} {e:?}").contains("canary"));
}

use std::os::unix::fs::symlink;

use super::*;

fn hive(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("My Hive.").tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

fn refused(dir: &tempfile::TempDir) -> Vec<String> {
    match load(dir.path()).unwrap_err() {
        ConfigError::Invalid { faults, .. } => faults.iter().map(ToString::to_string).collect(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_hive_without_a_name_is_called_after_its_folder() {
    let dir = hive(&[("skep.toml", "[agents.a]")]);
    let loaded = load(dir.path()).unwrap();
    assert!(loaded.config.name.as_str().starts_with("my-hive-"), "{}", loaded.config.name);
    assert_eq!(loaded.hash.len(), 64);
    assert_eq!(loaded.text, "[agents.a]");
    assert_eq!(folder_name(Path::new("/")).as_str(), "hive");
    assert_eq!(folder_name(Path::new("/nowhere/Ü--b.")).as_str(), "b");
}

#[test]
fn a_hive_without_a_time_zone_is_in_one_that_is_known() {
    let job = "[[agents.a.jobs]]\nname = 'x'\nschedule = '@daily'\ntool = 't'";
    let config = load(hive(&[("skep.toml", job)]).path()).unwrap().config;
    assert_eq!((config.timezone, rules::zone(&config.zone)), (None, Ok(config.zone.clone())));
    assert_eq!(config.agents["a"].jobs[0].spec.trigger.zone(), Some(config.zone.as_str()));
    let text = format!("hive.timezone = 'Asia/Tokyo'\n{job}");
    let config = load(hive(&[("skep.toml", &text)]).path()).unwrap().config;
    assert_eq!(config.zone, "Asia/Tokyo");
}

#[test]
fn no_configuration_says_how_to_begin() {
    let dir = hive(&[]);
    let told = load(dir.path()).unwrap_err().to_string();
    assert!(told.contains("run `skep init`") && told.contains("--dir"), "{told}");
}

#[test]
fn what_is_not_a_small_regular_file_is_not_read() {
    let dir = hive(&[("skep.toml/x", "")]);
    assert!(matches!(load(dir.path()), Err(ConfigError::Unreadable { .. })));
    let dir = hive(&[]);
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join(FILE), rustix::fs::Mode::RUSR).unwrap();
    assert!(matches!(load(dir.path()), Err(ConfigError::Unreadable { .. })));
    let dir = hive(&[("skep.toml", &"#".repeat((1 << 20) + 1))]);
    assert!(matches!(load(dir.path()), Err(ConfigError::Unreadable { .. })));
    let dir = hive(&[("skep.toml", &"#".repeat(1 << 20))]);
    assert!(load(dir.path()).is_ok());
}

#[test]
fn bytes_that_are_not_utf8_are_told_with_their_line() {
    let dir = hive(&[]);
    fs::write(dir.path().join(FILE), b"[hive]\nname = \"\xff\"\n").unwrap();
    assert_eq!(refused(&dir), ["skep.toml:2:9: byte 15 is not UTF-8 (save the file as UTF-8)"]);
}

#[test]
fn files_that_are_named_must_exist_and_each_missing_one_is_told_once() {
    let text = "[hive]\nca_bundle = 'ca.pem'\n[registry]\nsources = ['skills', 'more']\n[defaults]\nsoul = 'none.md'\n[agents.a]\n[agents.b]\n[agents.c]\nsoul = 'souls'";
    let dir = hive(&[("skep.toml", text), ("souls/x", "")]);
    assert_eq!(
        refused(&dir),
        [
            "skep.toml:2:13: \"ca.pem\" does not exist (create it, or correct the path)",
            "skep.toml:4:12: \"skills\" does not exist (create the folder, or correct the path)",
            "skep.toml:4:22: \"more\" does not exist (create the folder, or correct the path)",
            "skep.toml:6:8: \"none.md\" does not exist (create it, or correct the path)",
            "skep.toml:10:8: \"souls\" is not a regular file (name a file)",
        ]
    );
}

#[test]
fn the_default_source_and_the_secrets_may_be_missing() {
    let dir = hive(&[("skep.toml", "[secrets]\nfile = 's/env.json'\n[agents.a]\nworkspace = './new/work'")]);
    assert!(load(dir.path()).is_ok());
}

#[test]
fn a_ca_bundle_must_hold_certificates() {
    let good = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
    for (content, told) in [
        ("", "holds no certificate"),
        ("-----BEGIN CERTIFICATE-----\nMAMCAQE=\n", "holds a broken certificate, number 1"),
        (
            &format!("{good}-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----"),
            "holds a broken certificate, number 2",
        ),
    ] {
        let dir = hive(&[("skep.toml", "hive.ca_bundle = 'ca.pem'"), ("ca.pem", content)]);
        let all = refused(&dir);
        assert!(all.len() == 1 && all[0].contains(told), "{all:?}");
    }
    let dir =
        hive(&[("skep.toml", "hive.ca_bundle = 'ca.pem'"), ("ca.pem", &format!("# ours\n{good}{good}"))]);
    assert_eq!(load(dir.path()).unwrap().config.ca_bundle, Some(PathBuf::from("ca.pem")));
}

#[test]
fn a_link_leads_neither_out_of_the_hive_nor_into_its_state() {
    let outside = hive(&[("soul.md", "x")]);
    let text = "[agents.a]\nworkspace = './out/deep/er'\nsoul = 'out/soul.md'\n[agents.b]\nworkspace = './state'\n[agents.c]\nworkspace = './all'\n[agents.d]\nworkspace = './broken'";
    let dir = hive(&[("skep.toml", text), (".skep/x", "")]);
    symlink(outside.path(), dir.path().join("out")).unwrap();
    symlink(".skep", dir.path().join("state")).unwrap();
    symlink(".", dir.path().join("all")).unwrap();
    symlink("nowhere", dir.path().join("broken")).unwrap();
    let all = refused(&dir);
    assert_eq!(all.len(), 5, "{all:#?}");
    assert!(all[..4].iter().all(|f| f.contains("leads out of the hive through a link")), "{all:#?}");
    assert!(all[4].contains("cannot be followed"), "{all:#?}");
}

#[test]
fn a_link_gives_no_workspace_to_what_the_hive_trusts() {
    let text = "registry.sources = ['skills']\n[agents.a]\nworkspace = './work'";
    let dir = hive(&[("skep.toml", text), ("work/skills/x", "")]);
    symlink("work/skills", dir.path().join("skills")).unwrap();
    assert_eq!(
        refused(&dir),
        ["skep.toml:3:13: \"work\" would let the agent write \"skills\" (choose a folder apart from it)"]
    );
    let dir = hive(&[("skep.toml", "[agents.a]\nworkspace = './link'"), ("real/x", "")]);
    symlink("real", dir.path().join("link")).unwrap();
    assert_eq!(refused(&dir), ["skep.toml:2:13: \"link\" is a link (name the folder that it leads to)"]);
    let dir = hive(&[("skep.toml", "[agents.a]\nsoul = 'link.md'"), ("soul.md", "")]);
    symlink("soul.md", dir.path().join("link.md")).unwrap();
    assert!(load(dir.path()).is_ok(), "other links inside the hive are the operator's own");
}

#[test]
fn the_environment_says_how_often_to_notify_where_the_file_does_not() {
    let env = |value: &str| Env { notify_interval: Some(value.into()), ..Env::default() };
    let minutes = |text: &str, env: &Env| {
        load_under(hive(&[("skep.toml", text)]).path(), env).map(|l| l.config.notify.interval_minutes)
    };
    assert_eq!(minutes("", &Env::default()).unwrap(), 0);
    assert_eq!(minutes("", &env("15")).unwrap(), 15);
    assert_eq!(minutes("[notify]", &env(" 15 ")).unwrap(), 15);
    assert_eq!(minutes("[notify]\ninterval_minutes = 0", &env("15")).unwrap(), 0);
    assert_eq!(minutes("[notify]\ninterval_minutes = 5", &env("soon")).unwrap(), 5);
    let told = minutes("", &env("soon")).unwrap_err().to_string();
    assert!(told.contains("SKILL_NOTIFY_INTERVAL_MINUTES: \"soon\" is not a number of minutes"), "{told}");
}

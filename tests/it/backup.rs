//! `skep backup` and `skep restore`, of a hive whose supervisor runs and where no engine answers.

use std::{
    fs,
    io::Read,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{Hive, Ran};

const CANARY: &str = "canary-7f3a91c2-of-the-store";
const VAR_CANARY: &str = "canary-55d0aa17-of-a-variable";

/// A hive with something of everything, and its supervisor.
struct Up(Hive);

impl Drop for Up {
    fn drop(&mut self) {
        self.0.run(&["down", "--keep-agents"]);
    }
}

fn ok(hive: &Hive, args: &[&str]) -> Ran {
    let ran = hive.run(args);
    assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
    ran
}

fn json(hive: &Hive, args: &[&str]) -> Value {
    serde_json::from_str(&ok(hive, &[args, &["--json"]].concat()).out).unwrap()
}

fn start(hive: &Hive) {
    hive.run(&["up", "-d", "--timeout", "0"]);
    let patience = Instant::now() + Duration::from_secs(60);
    while hive.run(&["job", "list"]).code != 0 {
        assert!(Instant::now() < patience, "the supervisor is not up");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn hive() -> Up {
    let hive = Hive::new();
    let toml = hive.read("skep.toml");
    let toml = toml.replacen("[agents.helper]", "[agents.helper]\ncommand = [\"cat\"]", 1);
    hive.write("skep.toml", &format!("{toml}\n[api]\nlisten = \"none\"\n"));
    hive.write(
        "skills/greeting/SKILL.md",
        "---\nname: greeting\ndescription: Greets\nvars:\n  KEY: { secret: true }\n  TONE: kind\n---\nHello\n",
    );
    hive.write("skills/greeting/vars.json", &format!("{{\"KEY\": \"{VAR_CANARY}\", \"TONE\": \"warm\"}}"));
    hive.write(
        "variables.json",
        &format!("{{\"_global\": {{\"KEY\": \"{VAR_CANARY}\", \"CITY\": \"Bern\"}}}}"),
    );
    let up = Up(hive);
    start(&up.0);
    assert_eq!(up.0.feed(&["secret", "set", "API_KEY"], CANARY.as_bytes()).code, 0);
    let every = [
        "job",
        "add",
        "--agent",
        "helper",
        "--name",
        "poll",
        "--every",
        "6h",
        "--instructions",
        "Look",
        "--overlap",
        "allow",
    ];
    ok(&up.0, &every);
    ok(&up.0, &["job", "run", "helper/poll"]);
    up
}

/// Everything in the archive as bytes.
fn unpacked(file: &Path) -> Vec<u8> {
    let mut archive = skep::app::backup::archive::reader(fs::File::open(file).unwrap()).unwrap();
    let mut all = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        all.extend_from_slice(&entry.path_bytes());
        std::io::copy(&mut entry, &mut all).unwrap();
    }
    all
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_hive_that_runs_comes_back_elsewhere_with_its_jobs_runs_skills_and_workspaces() {
    let up = hive();
    let hive = &up.0;
    let workspace = ".skep/agents/helper/workspace";
    hive.write(&format!("{workspace}/notes/day.txt"), "what was done");
    fs::hard_link(
        hive.root.join(format!("{workspace}/notes/day.txt")),
        hive.root.join(format!("{workspace}/again.txt")),
    )
    .unwrap();
    symlink("notes/day.txt", hive.root.join(format!("{workspace}/link"))).unwrap();
    hive.write(".skep/agents/helper/custom/own/SKILL.md", "---\ndescription: Mine\n---\n");
    hive.write(".skep/agents/helper/runs/1/output", "kept");
    let began = std::time::Instant::now();
    while hive.run(&["skill", "show", "own"]).code != 0 {
        assert!(began.elapsed().as_secs() < 60, "what the agent wrote is registered");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let report = json(hive, &["backup", "hive.tar.zst"]);
    assert_eq!(report["left_out"], serde_json::json!([]), "{report}");
    assert_eq!(fs::metadata(hive.root.join("hive.tar.zst")).unwrap().mode() & 0o777, 0o600);
    let jobs = json(hive, &["job", "list"]);
    let runs = json(hive, &["run", "list"]);
    let skills = json(hive, &["skill", "list"]);

    let other = Hive::empty();
    let file = hive.root.join("hive.tar.zst");
    let ran = other.run(&["restore", file.to_str().unwrap(), "."]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("set these secrets again: API_KEY"), "{}", ran.err);
    for path in ["again.txt", "link"].map(|name| format!("{workspace}/{name}")) {
        assert_eq!(other.read(&path), "what was done");
    }
    assert_eq!(fs::metadata(other.root.join(format!("{workspace}/again.txt"))).unwrap().nlink(), 2);
    assert!(other.root.join(format!("{workspace}/link")).is_symlink());
    assert_eq!(other.read(".skep/agents/helper/runs/1/output"), "kept");
    for gone in [".skep/token", ".skep/skep.sock", ".skep/supervisor.lock", "secrets/env.json"] {
        assert!(!other.root.join(gone).exists(), "{gone}");
    }
    drop(up);
    let other = Up(other);
    start(&other.0);
    assert_eq!(json(&other.0, &["job", "list"])[0]["id"], jobs[0]["id"]);
    assert_eq!(json(&other.0, &["run", "list"])[0]["id"], runs[0]["id"]);
    let versions =
        |list: &Value| list.as_array().unwrap().iter().map(|s| s["versions"].clone()).collect::<Vec<_>>();
    assert_eq!(versions(&json(&other.0, &["skill", "list"])), versions(&skills));
    ok(&other.0, &["job", "run", "helper/poll"]);
    let last = json(&other.0, &["run", "list"])[0]["id"].as_i64().unwrap();
    assert!(last > runs[0]["id"].as_i64().unwrap(), "numbers go on");
}

#[test]
fn a_secret_is_nowhere_in_a_backup_unless_it_is_asked_for() {
    let up = hive();
    let hive = &up.0;
    hive.write(".skep/agents/helper/workspace/.env", &format!("API_KEY={CANARY}\n"));
    hive.write(".skep/agents/helper/workspace/plain", "kept");
    let report = json(hive, &["backup", "a.tar.zst"]);
    assert_eq!(report["left_out"][0]["path"], ".skep/agents/helper/workspace/.env");
    let bytes = unpacked(&hive.root.join("a.tar.zst"));
    for canary in [CANARY, VAR_CANARY] {
        assert!(!holds(&bytes, canary), "{canary}");
    }
    for kept in ["warm", "Bern", "workspace/plain"] {
        assert!(holds(&bytes, kept), "{kept}");
    }
    let ran = ok(hive, &["backup", "--with-secrets", "b.tar.zst"]);
    assert!(ran.err.contains("warning: the secrets are in it"), "{}", ran.err);
    let other = hive.root.join("../other");
    ok(hive, &["restore", "b.tar.zst", other.to_str().unwrap()]);
    for (path, canary) in [
        ("secrets/env.json", CANARY),
        ("variables.json", VAR_CANARY),
        ("skills/greeting/vars.json", VAR_CANARY),
        (".skep/agents/helper/workspace/.env", CANARY),
    ] {
        assert!(fs::read_to_string(other.join(path)).unwrap().contains(canary), "{path}");
    }
    assert_eq!(fs::metadata(other.join("secrets/env.json")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn what_an_agent_lays_as_a_trap_is_not_followed_and_told() {
    let hive = Hive::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("host"), "of the host").unwrap();
    let workspace = hive.root.join(".skep/agents/helper/workspace");
    fs::create_dir_all(&workspace).unwrap();
    symlink(outside.path(), workspace.join("out")).unwrap();
    symlink(outside.path(), hive.root.join(".skep/agents/helper/custom")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, workspace.join("pipe"), rustix::fs::Mode::from_raw_mode(0o666))
        .unwrap();
    let huge = fs::File::create(workspace.join("huge")).unwrap();
    huge.set_len(1 << 43).unwrap();
    let mut setuid = fs::metadata(workspace.join("huge")).unwrap().permissions();
    setuid.set_mode(0o4777);
    fs::write(workspace.join("setuid"), "x").unwrap();
    fs::set_permissions(workspace.join("setuid"), setuid).unwrap();
    let report = json(&hive, &["backup", "a.tar.zst"]);
    let told: Vec<&str> =
        report["left_out"].as_array().unwrap().iter().map(|n| n["path"].as_str().unwrap()).collect();
    for path in ["workspace/pipe", "workspace/huge", "custom"] {
        assert!(told.contains(&format!(".skep/agents/helper/{path}").as_str()), "{path}: {told:?}");
    }
    assert!(!holds(&unpacked(&hive.root.join("a.tar.zst")), "of the host"));
    let other = hive.root.join("../other");
    ok(&hive, &["restore", "a.tar.zst", other.to_str().unwrap()]);
    let workspace = other.join(".skep/agents/helper/workspace");
    assert!(workspace.join("out").is_symlink());
    assert_eq!(fs::metadata(workspace.join("setuid")).unwrap().mode() & 0o7777, 0o777);
}

#[test]
fn a_skills_folder_that_cannot_be_kept_whole_is_no_skill_after_a_restore() {
    let hive = Hive::new();
    let skill = hive.root.join(".skep/agents/helper/custom/mine");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "---\nname: mine\ndescription: d\n---\n").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, skill.join("pipe"), rustix::fs::Mode::from_raw_mode(0o666))
        .unwrap();
    let report = json(&hive, &["backup", "a.tar.zst"]);
    assert_eq!(report["left_out"][0]["path"], ".skep/agents/helper/custom/mine/pipe", "{report:#}");
    let other = hive.root.join("../other");
    ok(&hive, &["restore", "a.tar.zst", other.to_str().unwrap()]);
    let skill = other.join(".skep/agents/helper/custom/mine");
    assert!(skill.join("SKILL.md").is_file());
    assert_eq!(fs::read_link(skill.join("pipe")).unwrap().to_str(), Some("left-out-of-the-backup"));
    let checked = hive.run(&["skill", "validate", skill.to_str().unwrap()]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    assert!(checked.err.contains("pipe: is a link"), "{}", checked.err);
}

#[test]
fn a_backup_that_is_cut_or_altered_is_refused_and_nothing_is_changed() {
    let hive = Hive::new();
    // Nothing that can be pressed: the archive has many blocks.
    let noise =
        |n: u64| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left((n % 64) as u32));
    let noise: String = (0..100_000).map(noise).collect();
    hive.write(".skep/agents/helper/workspace/big", &format!("0123456789abcdef{noise}"));
    ok(&hive, &["backup", "a.tar.zst"]);
    let whole = fs::read(hive.root.join("a.tar.zst")).unwrap();
    ok(&hive, &["restore", "--check", "a.tar.zst"]);
    let plain = zstd_decoded(&whole);
    let at = plain.windows(16).position(|w| w == b"0123456789abcdef").unwrap();
    let mut altered = plain.clone();
    altered[at + 40] ^= 1;
    let end = plain.windows(13).rposition(|w| w == b"manifest.json").unwrap();
    for (bytes, told) in [
        (zstd_encoded(&altered), ".skep/agents/helper/workspace/big is not as it was backed up"),
        (whole[..whole.len() / 2].to_vec(), "damaged or cut short: .skep/agents/helper/workspace/big"),
        (zstd_encoded(&plain[..end]), "without its manifest"),
        (zstd_encoded(b"no tar at all, though it is long enough"), "is no backup of skep"),
        (b"no archive".to_vec(), "is no backup of skep"),
    ] {
        hive.write("bad", "");
        fs::write(hive.root.join("bad"), bytes).unwrap();
        let ran = hive.run(&["restore", "bad", "new"]);
        assert!(ran.code == 1 && ran.err.contains(told), "{told}: {}", ran.err);
        assert!(!hive.root.join("new").exists(), "{told}");
        assert_eq!(hive.run(&["restore", "--check", "bad"]).code, 1);
    }
    let left = fs::read_dir(&hive.root).unwrap().filter_map(|e| e.ok()?.file_name().into_string().ok());
    assert_eq!(left.filter(|name| name.starts_with(".skep-")).count(), 0);
}

fn zstd_decoded(bytes: &[u8]) -> Vec<u8> {
    zstd::decode_all(bytes).unwrap()
}

fn zstd_encoded(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

#[test]
fn a_folder_that_is_not_free_is_left_alone_or_moved_aside() {
    let up = hive();
    let hive = &up.0;
    let file = hive.root.join("../a.tar.zst");
    let file = file.to_str().unwrap();
    ok(hive, &["backup", file]);
    let again = hive.run(&["backup", file]);
    assert!(again.code == 1 && again.err.contains("is there already"), "{}", again.err);
    ok(hive, &["backup", "--force", file]);
    let runs = hive.run(&["restore", "--force", file, "."]);
    assert!(runs.code == 1 && runs.err.contains("runs (process"), "{}", runs.err);
    ok(hive, &["down", "--keep-agents"]);
    let full = hive.run(&["restore", file, "."]);
    assert!(full.code == 1 && full.err.contains("is not empty"), "{}", full.err);
    hive.write("by-hand.txt", "mine");
    let ran = ok(hive, &["restore", "--force", file, "."]);
    assert!(ran.err.contains("hive.before-restore"), "{}", ran.err);
    assert!(!hive.root.join("by-hand.txt").exists());
    let aside = hive.root.join("../hive.before-restore");
    assert_eq!(fs::read_to_string(aside.join("by-hand.txt")).unwrap(), "mine");
    assert!(hive.root.join("skep.toml").exists());
}

#[test]
fn an_older_schema_is_brought_up_to_date_and_a_newer_one_is_refused() {
    let hive = Hive::new();
    let toml = hive.read("skep.toml");
    hive.write("skep.toml", &format!("{toml}\n[api]\nlisten = \"none\"\n"));
    fs::create_dir(hive.root.join(".skep")).unwrap();
    let database = hive.root.join(".skep/skep.db");
    let conn = rusqlite::Connection::open(&database).unwrap();
    conn.execute_batch(include_str!("../../src/db/migrations/001.sql")).unwrap();
    conn.execute_batch("PRAGMA application_id = 0x736b6570; PRAGMA user_version = 1").unwrap();
    drop(conn);
    assert_eq!(json(&hive, &["backup", "old.tar.zst"])["schema"], 1);
    let other = Hive::empty();
    let file = hive.root.join("old.tar.zst");
    ok(&other, &["restore", file.to_str().unwrap()]);
    let other = Up(other);
    start(&other.0);
    assert!(other.0.root.join(".skep/skep.db.v1.bak").exists(), "it was migrated");

    rusqlite::Connection::open(&database).unwrap().execute_batch("PRAGMA user_version = 999").unwrap();
    let newer = hive.run(&["backup", "new.tar.zst"]);
    assert!(newer.code == 1 && newer.err.contains("schema 999"), "{}", newer.err);
    let whole = zstd_decoded(&fs::read(&file).unwrap());
    let mut altered = tar::Builder::new(Vec::new());
    for entry in tar::Archive::new(whole.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if entry.path_bytes().ends_with(b"backup.json") {
            let text = String::from_utf8(bytes).unwrap().replace("\"schema\":1,", "\"schema\":999,");
            bytes = text.into_bytes();
        }
        let mut header = entry.header().clone();
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        altered.append(&header, bytes.as_slice()).unwrap();
    }
    fs::write(hive.root.join("new.tar.zst"), zstd_encoded(&altered.into_inner().unwrap())).unwrap();
    let refused = hive.run(&["restore", "new.tar.zst", "new"]);
    assert!(refused.code == 1 && refused.err.contains("schema 999, and this skep knows"), "{}", refused.err);
}

#[test]
fn a_file_that_never_holds_still_is_told() {
    // Long enough to copy that a busy machine lets the writer go on meanwhile.
    const SIZE: usize = 16 << 20;
    let hive = Hive::new();
    let at = hive.root.join(".skep/agents/helper/workspace/log");
    hive.write(".skep/agents/helper/workspace/log", &"x".repeat(SIZE));
    let mut writer =
        Command::new("sh").args(["-c", "while :; do printf y >> \"$0\"; done"]).arg(&at).spawn().unwrap();
    while fs::metadata(&at).unwrap().len() == SIZE as u64 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let report = json(&hive, &["backup", "a.tar.zst"]);
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(report["warnings"][0]["path"], ".skep/agents/helper/workspace/log", "{report}");
    ok(&hive, &["restore", "--check", "a.tar.zst"]);
}

//! A hive with a running container is backed up and restored into another folder, where the same agent goes on.

use std::{fs, process::Command};

use serde_json::json;

use crate::hive::TestHive;

fn skep(args: &[&str]) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_skep")).args(args).output().unwrap();
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_goes_on_in_a_restored_hive_with_its_files_owned_as_they_were() {
    let config = "[agents.a]\nskills = [\"greet@1.0.0\"]\n\
                  main = [\"sh\", \"-c\", \"while :; do date >> busy; sleep 0.01; done\"]\n";
    let mut hive = TestHive::new(config);
    hive.skill("greet", "1.0.0", &json!({ "envVars": ["KEY"] }));
    hive.write("secrets/env.json", r#"{"KEY": "canary-2b7f-in-the-container"}"#);
    hive.start().await;
    hive.running("a").await;
    let script = "echo \"$KEY\" > leaked; echo kept > kept; ln -s kept link; mkfifo pipe; \
                  mkdir -p home/deep && head -c 3000000 /dev/urandom > home/deep/noise; \
                  sha256sum home/deep/noise";
    let before = hive.sh("a", script).await;
    let file = hive.path("a.tar.zst");
    let root = hive.dir.path().to_str().unwrap().to_owned();
    let report = skep(&["--dir", &root, "backup", "--json", file.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let told = report["left_out"].to_string();
    for path in ["workspace/leaked", "workspace/pipe"] {
        assert!(told.contains(path), "{path}: {told}");
    }
    hive.running("a").await;
    assert_eq!(skep(&["--dir", &root, "down"]), "");
    hive.kill();

    let mut other = TestHive::new("");
    other.name.clone_from(&hive.name);
    skep(&["restore", "--force", file.to_str().unwrap(), other.dir.path().to_str().unwrap()]);
    let aside = format!("{}.before-restore", other.dir.path().display());
    fs::remove_dir_all(aside).unwrap();
    other.start().await;
    let view = other.running("a").await;
    assert_eq!(view["skills"][0]["version"], "1.0.0");
    assert_eq!(view["missing_secrets"], json!(["KEY"]));
    let after = other.sh("a", "cat link; sha256sum home/deep/noise; echo more >> kept && ls").await;
    let stdout = after["stdout"].as_str().unwrap();
    assert!(stdout.contains(before["stdout"].as_str().unwrap()) && stdout.contains("kept"), "{after:#}");
    assert_eq!(after["exit_code"], 0, "its files are its own: {after:#}");
    assert!(!stdout.contains("leaked") && !stdout.contains("pipe"), "{stdout}");
}

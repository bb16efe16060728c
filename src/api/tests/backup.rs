//! A backup of a hive that runs, over HTTP.

use super::setup::open;
use crate::app::backup::{RestoreRequest, restore};

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_gets_the_hive_as_one_file_that_restores_without_its_secrets() {
    let open = open().await;
    let value = "canary-of-the-backup-5512";
    let body = format!("{{\"value\": \"{value}\"}}");
    assert!(open.call("PUT", "/v1/secrets/SOME_KEY", &body).await.status < 300);
    let answer = open.call("POST", "/v1/backup", "").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/zstd"), "{}", answer.body);
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"demo.tar.zst\"");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hive.tar.zst");
    std::fs::write(&file, &answer.bytes).unwrap();
    let restored = dir.path().join("restored");
    let request = RestoreRequest { file, dir: restored.clone(), force: false, check: false };
    tokio::task::spawn_blocking(move || restore(&request, Box::new(|_, _| Ok(())))).await.unwrap().unwrap();
    assert!(
        restored.join("skills/alpha-tools/SKILL.md").is_file() && restored.join(".skep/skep.db").is_file()
    );
    for entry in walkdir::WalkDir::new(&restored).into_iter().flatten().filter(|e| e.file_type().is_file()) {
        let bytes = std::fs::read(entry.path()).unwrap();
        let found = bytes.windows(value.len()).any(|window| window == value.as_bytes());
        assert!(!found, "{}", entry.path().display());
    }
    let left = std::fs::read_dir(open.hive.paths.state()).unwrap().flatten();
    let left: Vec<_> =
        left.map(|e| e.file_name()).filter(|n| n.to_string_lossy().starts_with("backup-")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(open.call_as_agent("POST", "/v1/backup", "").await.status, 403);
}

//! What an outside judge says of the API: schemathesis, on every route of a real hive.

use std::{fs, net::TcpListener, path::PathBuf, process::Command};

use serde_json::json;

use crate::hive::TestHive;

/// Where `make judges` puts it: in the target folder, two above this program's own.
fn schemathesis() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().find(|folder| folder.join("judges").is_dir());
    let judge = target.map(|target| target.join("judges/bin/schemathesis"));
    judge.filter(|judge| judge.exists()).expect("schemathesis is not installed: run `make judges`")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_input_gets_an_answer_that_the_description_does_not_tell() {
    let judge = schemathesis();
    let port = free_port();
    let mut hive = TestHive::new("[agents.a]\nskills = [\"work@1.0.0\"]\nallow_soul_edit = true\n");
    let config = fs::read_to_string(hive.path("skep.toml")).unwrap();
    let config = config.replace("listen = \"none\"", &format!("listen = \"127.0.0.1:{port}\""));
    hive.write("skep.toml", &config);
    hive.skill("work", "1.0.0", &json!({}));
    hive.start().await;
    hive.running("a").await;
    let job = hive.make_job(json!({ "name": "show", "tool": "show" })).await;
    hive.outcome(job).await;
    let description = hive.get("/openapi.json").await;
    assert!(description["paths"].as_object().unwrap().len() > 40);
    hive.write("openapi.json", &description.to_string());
    let token = fs::read_to_string(hive.path(".skep/token")).unwrap();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/judges/schemathesis.toml");
    let judged = tokio::task::spawn_blocking({
        let folder = hive.dir.path().to_path_buf();
        move || {
            Command::new(judge)
                .args(["--config-file", config, "run", "openapi.json"])
                .args(["--url", &format!("http://127.0.0.1:{port}"), "--seed", "1"])
                .args(["--header", &format!("Authorization: Bearer {}", token.trim())])
                .env("NO_COLOR", "1")
                .current_dir(folder)
                .output()
                .unwrap()
        }
    });
    let judged = judged.await.unwrap();
    let said = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(judged.status.success(), "{said}\n{}", String::from_utf8_lossy(&judged.stderr));
    assert!(said.contains("Tested:"), "{said}");
    assert_eq!(
        hive.get("/v1/runs?limit=1").await["items"].as_array().unwrap().len(),
        1,
        "the supervisor still answers"
    );
}

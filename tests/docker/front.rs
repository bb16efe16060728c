//! The command line on real hives: what a user types, and what comes back.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::{bare::docker, engine_faults::eventually, hive::TestHive};

fn skep(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skep")).arg("--dir").arg(dir).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ends a detached supervisor whatever happens.
struct Down<'a>(&'a Path);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        skep(self.0, &["down"]);
    }
}

#[test]
fn a_hive_comes_up_in_a_folder_whose_name_is_longer_than_socket_paths_may_be() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("a folder with spaces and ümläuts").join("x".repeat(120));
    fs::create_dir_all(&dir).unwrap();
    let name = format!("long-{}", std::process::id());
    let config =
        format!("[hive]\nname = \"{name}\"\n[api]\nlisten = \"none\"\n[agents.a]\nnetwork = \"internet\"\n");
    fs::write(dir.join("skep.toml"), config).unwrap();
    let down = Down(&dir);
    let up = skep(&dir, &["up", "-d", "--timeout", "100"]);
    assert!(up.status.success(), "{}{}", text(&up.stdout), text(&up.stderr));
    let ps = skep(&dir, &["ps", "--json"]);
    assert!(text(&ps.stdout).contains("\"running\""), "{}", text(&ps.stdout));
    let exec = skep(&dir, &["exec", "a", "--", "sh", "-c", "echo out; echo err >&2; exit 5"]);
    assert_eq!(
        (text(&exec.stdout), text(&exec.stderr), exec.status.code()),
        ("out\n".into(), "err\n".into(), Some(5))
    );
    for (program, code) in [("no-such-program", 127), ("/etc/hostname", 126)] {
        assert_eq!(skep(&dir, &["exec", "a", "--", program]).status.code(), Some(code), "{program}");
    }
    let network = format!("skep-{name}-internet");
    assert!(docker(&["network", "ls", "--format", "{{.Name}}"]).contains(&network));
    drop(down);
    assert!(!docker(&["network", "ls", "--format", "{{.Name}}"]).contains(&network), "the network goes too");
    assert_eq!(docker(&["ps", "-aq", "--filter", &format!("label=skep.hive={name}")]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hive_of_the_same_name_in_another_folder_is_refused_and_the_first_is_left_alone() {
    let first = TestHive::up("[agents.a]\n").await;
    let before = first.running("a").await;
    let other = tempfile::tempdir().unwrap();
    fs::copy(first.path("skep.toml"), other.path().join("skep.toml")).unwrap();
    let up = skep(other.path(), &["up"]);
    let said = text(&up.stderr);
    assert!(!up.status.success());
    assert!(said.contains(&first.dir.path().display().to_string()) && said.contains("[hive] name"), "{said}");
    let after = first.running("a").await;
    assert_eq!(after["container_id"], before["container_id"]);
    assert_eq!(after["restarts"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_main_that_ran_out_of_memory_is_told_so() {
    let hive = TestHive::up(
        "[agents.a]\nmemory = \"64MiB\"\nmain = [\"python3\", \"-c\", \"x = bytearray(1 << 28)\"]\n",
    )
    .await;
    hive.until("a", "out of memory", |v| v["main"]["oom"] == true && v["main"]["exit_code"] == 137).await;
    eventually("ps says it", async || text(&skep(hive.dir.path(), &["ps"]).stdout).contains("out of memory"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_breaks_its_home_has_one_again_after_a_restart() {
    let hive = TestHive::up("[agents.a]\n").await;
    hive.running("a").await;
    let broken = "cd /workspace && rm -rf home && ln -s /nowhere home && ls -l /workspace";
    assert_eq!(hive.sh("a", broken).await["exit_code"], 0);
    let before = hive.agent("a").await["container_id"].clone();
    hive.send("POST", "/v1/agents/a/restart", None).await;
    hive.until("a", "new", |v| {
        v["status"] == "running" && v["container_id"] != before && v["container_id"].is_string()
    })
    .await;
    let seen = hive.sh("a", "cd && pwd && readlink .claude/skills").await;
    assert_eq!(seen["stdout"], "/workspace/home\n/skills\n");
}

//! The images of agent programs: they are built, run as an agent, and find the skills where they look.

use std::{
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::hive::TestHive;

/// One build at a time; the agent's image below them is shared.
static BUILD: Mutex<()> = Mutex::new(());

fn one_at_a_time() -> MutexGuard<'static, ()> {
    BUILD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds `skep-<name>:latest` with images/build.sh, which leaves an image alone whose inputs are the same.
/// Where npm's registry cannot be reached this fails, saying so: the image was not tried.
pub fn build(name: &str) -> String {
    let _one = one_at_a_time();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/images/build.sh");
    let built = Command::new("bash").args([script, name]).output().unwrap();
    let told = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "images/build.sh {name} failed; is npm's registry reachable?\n{told}");
    String::from_utf8_lossy(&built.stdout).trim().to_owned()
}

async fn check(name: &str, program: &str, folder: &str) {
    let builder = name.to_owned();
    let image = tokio::task::spawn_blocking(move || build(&builder)).await.unwrap();
    assert_eq!(image, format!("skep-{name}:latest"));
    let hive = TestHive::up(&format!(
        "[agents.one]\nimage = \"{image}\"\nmemory = \"1GiB\"\nskills = [\"basic-tools@1.0.0\"]\n"
    ))
    .await;
    hive.running("one").await;
    let version = hive.sh("one", &format!("{program} --version")).await;
    let out = version["stdout"].as_str().unwrap();
    assert!(version["exit_code"] == 0 && out.chars().any(|c| c.is_ascii_digit()), "{version:#}");
    let seen = hive.sh("one", &format!("cd {folder} && ls && head -n 3 basic-tools/SKILL.md")).await;
    assert_eq!(seen["exit_code"], 0, "{seen:#}");
    let out = seen["stdout"].as_str().unwrap();
    assert!(out.starts_with("basic-tools\ncustom\n---\nname: \"basic-tools\"\n"), "{out}");
    let own = hive.sh("one", "id -un; pwd; echo $HOME; touch ~/x && echo writable").await;
    assert_eq!(own["stdout"], "agent\n/workspace\n/workspace/home\nwritable\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_runs_as_an_agent_and_finds_the_skills() {
    check("claude-code", "claude", "~/.claude/skills").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_runs_as_an_agent_and_finds_the_skills() {
    check("codex", "codex", "~/.agents/skills").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_runs_as_an_agent_and_finds_the_skills() {
    check("opencode", "opencode", "~/.agents/skills").await;
}

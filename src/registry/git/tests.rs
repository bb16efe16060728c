//! Fetching from repositories of this machine, good and hostile ones.

use std::{fs, os::unix::fs::PermissionsExt, process::Command as Now};

use super::*;

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(60), bytes: 64 << 20 };

struct Repository {
    dir: tempfile::TempDir,
}

impl Repository {
    fn new() -> Self {
        let made = Self { dir: tempfile::tempdir().unwrap() };
        made.git(&["init", "-q", "-b", "main"]);
        made
    }

    fn git(&self, args: &[&str]) -> String {
        let ran = Now::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"])
            .args(["-c", "protocol.file.allow=always"])
            .args(args)
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, path: &str, text: &str) -> String {
        fs::write(self.dir.path().join(path), text).unwrap();
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn url(&self) -> Url {
        Url::local(self.dir.path().to_str().unwrap()).unwrap()
    }
}

async fn get(url: &Url, reference: Option<&str>) -> Result<(tempfile::TempDir, String), GitError> {
    let into = tempfile::tempdir().unwrap();
    let commit = fetch(url, reference, into.path(), BOUNDS, &mut |_| ()).await?;
    Ok((into, commit))
}

#[tokio::test]
async fn a_branch_a_tag_and_a_commit_are_fetched_and_the_commit_is_told() {
    let repository = Repository::new();
    let first = repository.commit("SKILL.md", "one");
    repository.git(&["tag", "v1"]);
    let second = repository.commit("SKILL.md", "two");
    repository.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    for (reference, commit, text) in [
        (None, &second, "two"),
        (Some("main"), &second, "two"),
        (Some("v1"), &first, "one"),
        (Some(first.as_str()), &first, "one"),
    ] {
        let (into, got) = get(&repository.url(), reference).await.unwrap();
        assert_eq!(&got, commit, "{reference:?}");
        assert_eq!(fs::read_to_string(into.path().join("SKILL.md")).unwrap(), text);
        assert!(!into.path().join(".git").exists());
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_in_gits_words() {
    let repository = Repository::new();
    repository.commit("SKILL.md", "one");
    let told = get(&repository.url(), Some("nowhere")).await.unwrap_err().to_string();
    assert!(told.contains("nowhere"), "{told}");
    let missing = Url::local("/nonexistent/repository").unwrap();
    let told = get(&missing, None).await.unwrap_err().to_string();
    assert!(told.starts_with("cannot fetch /nonexistent/repository: fatal:"), "{told}");
    assert!(matches!(get(&missing, Some("--upload-pack=x")).await, Err(GitError::Reference(_))));
}

#[tokio::test]
async fn nothing_of_a_repository_runs() {
    let marks = tempfile::tempdir().unwrap();
    let mark = |name: &str| format!("touch {}", marks.path().join(name).display());
    let inner = Repository::new();
    inner.commit("a", "a");
    let repository = Repository::new();
    repository.commit("SKILL.md", "one");
    repository.git(&["submodule", "--quiet", "add", inner.dir.path().to_str().unwrap(), "sub"]);
    repository.commit(".gitattributes", "* filter=lfs\n");
    repository.commit("big.bin", "version https://git-lfs.github.com/spec/v1\n");
    // Hooks in the repository and in a checked-out folder that would be one.
    for hooks in [".git/hooks", "hooks"] {
        let hooks = repository.dir.path().join(hooks);
        fs::create_dir_all(&hooks).unwrap();
        for hook in ["post-checkout", "pre-auto-gc", "reference-transaction"] {
            let at = hooks.join(hook);
            fs::write(&at, format!("#!/bin/sh\n{}\n", mark(hook))).unwrap();
            fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let before = fs::read_dir(marks.path()).unwrap().count();
    let (into, _) = get(&repository.url(), None).await.unwrap();
    assert_eq!(fs::read_to_string(into.path().join("SKILL.md")).unwrap(), "one");
    assert!(fs::read_to_string(into.path().join("big.bin")).unwrap().starts_with("version"));
    let sub: Vec<_> = fs::read_dir(into.path().join("sub")).map(Iterator::collect).unwrap_or_default();
    assert!(sub.is_empty(), "no submodule is fetched");
    assert_eq!(fs::read_dir(marks.path()).unwrap().count(), before);
}

#[tokio::test]
async fn what_takes_too_long_or_is_too_large_is_ended() {
    let repository = Repository::new();
    let noise: String =
        (0..4_000_000u64).map(|i| char::from(b'a' + (i.wrapping_mul(i) % 23) as u8)).collect();
    repository.commit("SKILL.md", &noise);
    let into = tempfile::tempdir().unwrap();
    let small = Bounds { bytes: 1000, ..BOUNDS };
    let told = fetch(&repository.url(), None, into.path(), small, &mut |_| ()).await.unwrap_err();
    assert!(matches!(told, GitError::Large { .. }), "{told}");
    // Five levels of sixteen names: a million files from six objects.
    let mut inner = repository.git(&["rev-parse", "HEAD:SKILL.md"]);
    for level in 0..5 {
        let kind = if level == 0 { "100644 blob" } else { "040000 tree" };
        let list: String = (0..16).map(|n| format!("{kind} {inner}\tx{n:02}\n")).collect();
        fs::write(repository.dir.path().join("list"), list).unwrap();
        inner = repository.git(&["-c", "alias.made=!git mktree < list", "made"]);
    }
    let commit = repository.git(&["commit-tree", &inner, "-m", "x"]);
    repository.git(&["branch", "bomb", &commit]);
    let into = tempfile::tempdir().unwrap();
    let told = fetch(&repository.url(), Some("bomb"), into.path(), BOUNDS, &mut |_| ()).await.unwrap_err();
    assert!(matches!(told, GitError::Large { .. }), "{told}");
    let into = tempfile::tempdir().unwrap();
    let short = Bounds { time: Duration::ZERO, ..BOUNDS };
    let told = fetch(&repository.url(), None, into.path(), short, &mut |_| ()).await.unwrap_err();
    assert!(matches!(told, GitError::Slow { .. }), "{told}");
}

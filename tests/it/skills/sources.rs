//! Archives and repositories as sources.

use std::{fs, os::unix::fs::symlink};

use super::{add, json, skill_md, system};
use crate::support::Hive;

fn made() -> Hive {
    let hive = Hive::new();
    hive.write("repo/skills/one/SKILL.md", &skill_md("one", "x"));
    hive.write("repo/skills/two/SKILL.md", &skill_md("two", "x"));
    hive.write("repo/README.md", "hello");
    hive
}

#[test]
fn an_archive_of_many_skills_comes_in_whatever_it_is_called() {
    let hive = made();
    system(&hive, "tar", &["czf", "all.bin", "repo"]);
    let report = json(&hive, &["add", "all.bin"], 0);
    assert_eq!(report["new"], 2);
    assert_eq!(report["skills"][0]["source"], "all.bin/skills/one");
    assert_eq!(report["skills"][0]["folder"], "skills/one");
    // From standard input, and only one of them.
    fs::remove_dir_all(hive.root.join("skills/one")).unwrap();
    fs::remove_dir_all(hive.root.join("skills/two")).unwrap();
    let bytes = fs::read(hive.root.join("all.bin")).unwrap();
    let ran = hive.feed(&["skill", "add", "-", "--path", "skills/two", "--json"], &bytes);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(hive.root.join("skills/two").exists() && !hive.root.join("skills/one").exists());
}

#[test]
fn an_archive_of_one_skill_takes_its_id_from_the_skill() {
    let hive = made();
    system(&hive, "tar", &["cf", "x.tar", "-C", "repo/skills/one", "."]);
    assert_eq!(json(&hive, &["add", "x.tar"], 0)["skills"][0]["id"], "one");
    system(&hive, "tar", &["cf", "y.tar", "--transform", "s,^two,two-1a2b3c,", "-C", "repo/skills", "two"]);
    assert_eq!(json(&hive, &["add", "y.tar"], 0)["skills"][0]["id"], "two");
}

#[test]
fn a_link_keeps_only_the_skill_out_that_holds_it() {
    let hive = made();
    symlink("/etc/passwd", hive.root.join("repo/skills/two/secrets")).unwrap();
    symlink("/etc/passwd", hive.root.join("repo/elsewhere")).unwrap();
    system(&hive, "tar", &["cf", "x.tar", "repo"]);
    let report = json(&hive, &["add", "x.tar"], 1);
    assert_eq!((&report["new"], &report["failed"]), (&1.into(), &1.into()));
    assert_eq!(
        report["skills"][1]["errors"][0],
        "x.tar/skills/two/secrets: is a link; put the file itself there"
    );
    // Also in a folder, where a link that stays inside would be taken as its file.
    let report = json(&hive, &["add", "repo", "--dry-run"], 1);
    let told = report["skills"][1]["errors"][0].as_str().unwrap();
    assert!(told.contains("repo/skills/two/secrets: is a link that leads out"), "{told}");
}

#[test]
fn zips_of_the_usual_tools_come_in_and_other_packings_are_told() {
    let hive = made();
    let zipped = |script: &str| system(&hive, "python3", &["-c", &format!("import zipfile,sys\n{script}")]);
    // To a pipe, so that sizes stand behind each entry.
    zipped(
        "class W:\n def __init__(s): s.b=b''\n def write(s,d): s.b+=bytes(d); return len(d)\n def flush(s): pass\n\
         w=W()\nz=zipfile.ZipFile(w,'w',zipfile.ZIP_DEFLATED)\nz.write('repo/skills/one/SKILL.md')\nz.close()\n\
         open('stream.zip','wb').write(w.b)",
    );
    zipped(
        "z=zipfile.ZipFile('lzma.zip','w',zipfile.ZIP_LZMA)\nz.write('repo/skills/one/SKILL.md')\nz.close()",
    );
    assert_eq!(json(&hive, &["add", "stream.zip", "--dry-run"], 0)["new"], 1);
    let ran = add(&hive, &["lzma.zip"]);
    assert!(
        ran.code == 1 && ran.err.contains("SKILL.md: is packed otherwise than with deflate"),
        "{}",
        ran.err
    );
}

#[test]
fn an_archive_that_leads_out_is_refused_whole() {
    let hive = made();
    hive.write("escape.txt", "x");
    system(
        &hive,
        "tar",
        &["cPf", "x.tar", "--transform", "s,^escape.txt,../../escape.txt,", "repo", "escape.txt"],
    );
    let ran = add(&hive, &["x.tar"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("x.tar cannot be taken: ../../escape.txt: the name leads out"), "{}", ran.err);
    assert!(!hive.root.join("skills/one").exists());
}

#[test]
fn a_repository_is_added_at_a_branch_or_tag_and_its_commit_is_told() {
    let hive = made();
    let git = |args: &[&str]| {
        let base = ["-C", "repo", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"];
        system(&hive, "git", &[&base[..], args].concat());
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "one"]);
    git(&["tag", "v1"]);
    hive.write("repo/skills/one/SKILL.md", &skill_md("one", "newer"));
    git(&["commit", "-qam", "two"]);
    // The tag, though the folder stands at the branch.
    let report = json(&hive, &["add", "repo", "--ref", "v1"], 0);
    assert_eq!(report["new"], 2);
    let source = report["skills"][0]["source"].as_str().unwrap();
    let (_, commit) = source.split_once("repo#").unwrap();
    assert!(commit.len() > 40 && commit[..40].bytes().all(|b| b.is_ascii_hexdigit()), "{source}");
    assert!(hive.read("skills/one/SKILL.md").contains('x'));
    let url = format!("file://{}/repo", hive.root.display());
    let report = json(&hive, &["add", &url, "--path", "skills/one", "--force"], 0);
    assert_eq!(report["updated"], 1);
    assert!(hive.read("skills/one/SKILL.md").contains("newer"));
    let ran = add(&hive, &["repo#nowhere"]);
    assert!(ran.code == 1 && ran.err.contains("nowhere"), "{}", ran.err);
    let ran = add(&hive, &["repo", "--ref", "--upload-pack=x"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn a_missing_git_is_told_with_its_remedy() {
    let hive = made();
    let ran =
        hive.skep(&["skill", "add", "repo", "--ref", "main"]).env("PATH", "/nonexistent").output().unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    assert!(err.contains("git is not installed: install it"), "{err}");
}

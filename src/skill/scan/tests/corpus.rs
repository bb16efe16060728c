//! Real skills (tests/corpus/README.md) and our own: how many findings each rule gives there is kept, so
//! that a change of a rule shows what it does to honest skills.

use std::{collections::BTreeMap, fs, path::Path};

use super::*;

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = walkdir::WalkDir::new(folder).sort_by_file_name().into_iter().map(Result::unwrap);
    let files = entries.filter(|e| e.file_type().is_file());
    files
        .map(|e| {
            (
                e.path().strip_prefix(folder).unwrap().to_string_lossy().into_owned(),
                fs::read(e.path()).unwrap(),
            )
        })
        .collect()
}

fn scan_folder(folder: &Path) -> Vec<Finding> {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let files = files(folder);
    let listed: Vec<(&str, &[u8], bool)> =
        files.iter().map(|(p, b)| (p.as_str(), b.as_slice(), false)).collect();
    let source = Source::from_memory(&listed).named(&name);
    let report = read(&source, Limits::default());
    let skill = report.skill.unwrap_or_else(|| panic!("{name}: {:?}", report.errors));
    scan(&listed, Context { skill: &skill, previous: None, known: &[] })
}

fn skills_below(root: &Path, depth: usize) -> Vec<std::path::PathBuf> {
    let entries = walkdir::WalkDir::new(root).min_depth(depth).max_depth(depth).sort_by_file_name();
    entries.into_iter().map(|e| e.unwrap().into_path()).filter(|p| p.is_dir()).collect()
}

#[test]
fn real_skills_give_few_findings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut told = String::new();
    let folders = skills_below(&root.join("tests/corpus/skills"), 2);
    assert_eq!(folders.len(), 66);
    for folder in folders {
        for f in scan_folder(&folder) {
            *counts.entry(format!("{:?} {:?}", f.severity, f.rule)).or_default() += 1;
            told += &format!(
                "{:?} {:?} {} {}:{} {}\n",
                f.severity,
                f.rule,
                folder.file_name().unwrap().display(),
                f.file,
                f.line,
                f.evidence
            );
        }
    }
    println!("{told}");
    insta::assert_debug_snapshot!(counts, @r#"
    {
        "Info UnpinnedRunner": 67,
    }
    "#);
}

#[test]
fn the_words_of_real_frontmatter_give_no_alarm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/frontmatter");
    let mut seen = 0;
    for (path, bytes) in files(&folder) {
        for line in String::from_utf8(bytes).unwrap().lines() {
            let block: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = block["frontmatter"].as_str().unwrap();
            let bad: Vec<_> =
                found("b.md", text).into_iter().filter(|f| f.severity == Severity::Danger).collect();
            assert_eq!(bad, [], "{path}: {}", block["path"]);
            seen += 1;
        }
    }
    assert!(seen > 700, "{seen}");
}

/// Skills of a folder by hand: `SKEP_SCAN=/folder`, every folder below with a SKILL.md.
#[test]
#[ignore = "by hand"]
fn by_hand() {
    let root = std::env::var("SKEP_SCAN").unwrap();
    let (mut skills, mut size, mut took) = (0, 0, std::time::Duration::ZERO);
    for entry in walkdir::WalkDir::new(&root).sort_by_file_name().into_iter().flatten() {
        if entry.file_name() != "SKILL.md" {
            continue;
        }
        let folder = entry.path().parent().unwrap();
        let files = files(folder);
        let listed: Vec<(&str, &[u8], bool)> =
            files.iter().map(|(p, b)| (p.as_str(), b.as_slice(), false)).collect();
        let source = Source::from_memory(&listed).named(&folder.file_name().unwrap().to_string_lossy());
        let Some(skill) = read(&source, Limits::default()).skill else { continue };
        let start = std::time::Instant::now();
        let findings = scan(&listed, Context { skill: &skill, previous: None, known: &[] });
        took += start.elapsed();
        skills += 1;
        size += files.iter().map(|f| f.1.len()).sum::<usize>();
        for f in findings {
            println!(
                "@{:?} {:?} {}/{}:{} {}",
                f.severity,
                f.rule,
                folder.display(),
                f.file,
                f.line,
                f.evidence
            );
        }
    }
    println!("{skills} skills, {size} bytes, {took:?}");
}

#[test]
fn our_own_skills_give_no_warning_but_that_they_speak_to_the_supervisor() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills/built-in");
    for folder in skills_below(&root, 1) {
        let meant = |f: &Finding| f.message.starts_with("Speaks to the supervisor by itself");
        let bad: Vec<_> =
            scan_folder(&folder).into_iter().filter(|f| f.severity > Severity::Info && !meant(f)).collect();
        assert_eq!(bad, []);
    }
}

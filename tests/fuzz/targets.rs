//! The targets: what must hold for any bytes.

use skep::{
    config::model::SkillLimits,
    ids::SkillRef,
    registry::{archive, safe_copy::CopyError, store::Store},
    skill::{
        diff::{Side, Version, diff, visible},
        load::{Report, read},
        model::Skill,
        scan::{Context, scan},
        source::{Limits, Source},
        strict,
    },
};

use crate::{
    mutate::fuzz,
    seeds::{self, ARCHIVE_WORDS, MANIFEST_WORDS, REFERENCE_WORDS, SCAN_WORDS, SKILL_MD_WORDS},
};

/// What holds of every report.
fn sound(report: &Report) {
    assert_eq!(report.skill.is_some(), report.errors.is_empty(), "{:?}", report.errors);
    for fault in report.errors.iter().chain(&report.warnings) {
        assert!(!fault.message.contains(|c: char| c.is_control() || visible_order(c)), "{fault:?}");
        assert!(
            fault.line.is_none_or(|line| line > 0) && fault.column.is_none_or(|column| column > 0),
            "{fault:?}"
        );
    }
    if let Some(skill) = &report.skill {
        let text = serde_json::to_string(skill).unwrap();
        let again: Skill = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text, "a skill survives being stored");
    }
}

/// Characters that turn the order in which text is shown.
fn visible_order(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn manifest() {
    fuzz("manifest", &seeds::manifest(), MANIFEST_WORDS, |bytes| {
        let files = [("manifest.json", bytes, false), ("c.md", b"# c", false), ("s.sh", b"", true)];
        sound(&read(&Source::from_memory(&files), Limits::default()));
    });
}

#[test]
fn skill_md() {
    fuzz("skill_md", &seeds::skill_md(), SKILL_MD_WORDS, |bytes| {
        let source = Source::from_memory(&[("SKILL.md", bytes, false)]);
        sound(&read(&source, Limits::default()));
        sound(&read(&source.named("a-b@1.2.3"), Limits::default()));
        let text = String::from_utf8_lossy(bytes);
        for error in strict::file_spec_errors(&text, Some("a-b")) {
            assert!(!error.is_empty());
        }
    });
}

#[test]
fn reference() {
    fuzz("reference", &seeds::reference(), REFERENCE_WORDS, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        match text.parse::<SkillRef>() {
            Ok(reference) => {
                let printed = reference.to_string();
                assert_eq!(printed.parse::<SkillRef>().ok(), Some(reference), "{printed:?} of {text:?}");
            }
            Err(e) => assert!(!e.to_string().contains(|c: char| c.is_control()), "{text:?}"),
        }
    });
}

#[test]
fn scanner_and_difference() {
    const MD: &[u8] = b"---\nname: a\ndescription: d\n---\n";
    fuzz("scan", &seeds::skill_md(), SCAN_WORDS, |bytes| {
        let old = Source::from_memory(&[("SKILL.md", MD, false)]);
        let files = [("SKILL.md", MD, false), ("f.sh", bytes, true), ("g.md", bytes, false)];
        let new = Source::from_memory(&files);
        let (a, b) =
            (read(&old, Limits::default()).skill.unwrap(), read(&new, Limits::default()).skill.unwrap());
        let lines = bytes.iter().filter(|b| **b == b'\n').count() + 1;
        for finding in scan(&files, Context { skill: &b, previous: Some(&a), known: &[] }) {
            assert!((1..=lines).contains(&finding.line) || bytes.starts_with(&[0xff, 0xfe]), "{finding:?}");
            assert!(
                !finding.evidence.contains(|c: char| c.is_control() || visible::invisible(c)),
                "{finding:?}"
            );
            assert!(finding.evidence.chars().count() <= 200, "{finding:?}");
        }
        let from = Some(Version { source: &old, skill: &a });
        let changes = diff(from, Version { source: &new, skill: &b }, |side, path| {
            assert_eq!(side, Side::To);
            Ok::<_, ()>(files.iter().find(|f| f.0 == path).unwrap().1.to_vec())
        });
        assert_eq!(changes.unwrap().files.len(), 2);
    });
}

#[test]
fn archive() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let limits = SkillLimits { files: 50, total: 1 << 20, file: 1 << 18, manifest: 1 << 16 };
    let most = limits.total;
    fuzz("archive", &seeds::archive(), ARCHIVE_WORDS, |bytes| {
        match archive::unpack_many(bytes, &store, &limits) {
            Ok(many) => {
                let files = &many.staged.source().files;
                assert!(files.len() <= 50 && files.values().map(|f| f.size).sum::<u64>() <= most);
                for path in files.keys() {
                    assert!(
                        !path.starts_with('/') && path.split('/').all(|p| !matches!(p, "" | "." | "..")),
                        "{path:?}"
                    );
                }
            }
            Err(CopyError::Rejected { faults, .. }) => assert!(!faults.is_empty()),
            Err(e) => panic!("{e}"),
        }
        let left: Vec<_> = std::fs::read_dir(folder.path().join("staging")).unwrap().collect();
        assert!(left.is_empty(), "{left:?} is left behind");
    });
}

//! Real skills (tests/corpus/README.md): each is accepted, and strict checking says what the reference
//! validator says.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;
use skep::skill::{
    load::read,
    source::{Limits, Source},
    strict::{file_spec_errors, spec_errors},
};

fn corpus() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|s| s.as_str().unwrap().to_owned()).collect()
}

/// The recorded messages are cut at 160 characters, and at the first line break.
fn same(ours: &[String], recorded: &[String]) -> bool {
    ours.len() == recorded.len() && ours.iter().zip(recorded).all(|(a, b)| a.starts_with(b))
}

fn folders() -> Vec<(String, Vec<String>, Vec<u8>)> {
    let expected = fs::read(corpus().join("expected.json")).unwrap();
    let expected: BTreeMap<String, Value> = serde_json::from_slice(&expected).unwrap();
    assert_eq!(expected.len(), 66);
    expected
        .into_iter()
        .map(|(path, v)| {
            let bytes = fs::read(corpus().join(&path).join("SKILL.md")).unwrap();
            (path, strings(&v["spec_errors"]), bytes)
        })
        .collect()
}

fn blocks() -> Vec<Value> {
    let mut out = Vec::new();
    for entry in fs::read_dir(corpus().join("frontmatter")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        out.extend(text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()));
    }
    assert!(out.len() > 700, "{}", out.len());
    out
}

fn folder_of(path: &str) -> Option<&str> {
    path.rsplit('/').nth(1)
}

#[test]
fn every_real_folder_is_accepted_and_its_spec_errors_are_warnings() {
    for (path, recorded, bytes) in folders() {
        let folder = path.rsplit('/').next().unwrap();
        let source = Source::from_memory(&[("SKILL.md", &bytes, false)]).named(folder);
        let report = read(&source, Limits::default());
        assert_eq!(report.errors, vec![], "{path}");
        let skill = report.skill.unwrap();
        assert_eq!(skill.id.as_str(), folder);
        assert!(!skill.description.is_empty());
        assert!(!skill.body.unwrap().is_empty(), "{path}");
        assert!(same(&report.spec_errors, &recorded), "{path}: {:?} is not {recorded:?}", report.spec_errors);
        for error in &report.spec_errors {
            assert!(report.warnings.iter().any(|w| w.message == *error), "{path}");
        }
    }
}

#[test]
fn strict_checking_says_what_the_reference_says_of_every_block() {
    for block in blocks() {
        let path = block["path"].as_str().unwrap();
        let text = block["frontmatter"].as_str().unwrap();
        let recorded = strings(&block["spec_errors"]);
        let ours = spec_errors(text, folder_of(path));
        assert!(same(&ours, &recorded), "{path}: {ours:?} is not {recorded:?}");
        let file = format!("---\n{text}\n---\nbody\n");
        let whole = file_spec_errors(&file, folder_of(path));
        assert!(same(&whole, &recorded), "{path}: {whole:?} is not {recorded:?}");
    }
}

#[test]
fn every_block_loads_unless_its_yaml_is_broken_and_keeps_unknown_keys() {
    for block in blocks() {
        let path = block["path"].as_str().unwrap();
        let text = block["frontmatter"].as_str().unwrap();
        let file = format!("---\n{text}\n---\nbody\n");
        let source =
            Source::from_memory(&[("SKILL.md", file.as_bytes(), false)]).named(folder_of(path).unwrap());
        let report = read(&source, Limits::default());
        if block["yaml"] != "ok" {
            assert!(report.skill.is_some() || report.errors.iter().all(|e| e.line.is_some()));
            continue;
        }
        assert_eq!(report.errors, vec![], "{path}");
        let skill = report.skill.unwrap();
        for line in text.lines() {
            let Some((key, _)) = line.split_once(':') else {
                continue;
            };
            if ["license", "source", "author", "category", "risk", "allowed-tools"].contains(&key) {
                assert!(skill.extra.contains_key(key), "{path}: {key}");
            }
        }
    }
}

//! `skep skill`: taking skills in, and what may be done with them.

mod add;
mod sources;
mod supervised;

use std::process::Command;

use serde_json::Value;

use crate::support::{Hive, Ran};

/// Runs `skep skill … --json` and answers what it printed.
fn json(hive: &Hive, args: &[&str], code: i32) -> Value {
    let args: Vec<&str> = ["skill"].iter().chain(args).chain(&["--json"]).copied().collect();
    let ran = hive.run(&args);
    assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

fn add(hive: &Hive, args: &[&str]) -> Ran {
    let args: Vec<&str> = ["skill", "add"].iter().chain(args).copied().collect();
    hive.run(&args)
}

fn skill_md(name: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n---\n{body}\n")
}

fn manifest(id: &str, version: &str, description: &str) -> String {
    format!(r#"{{"id":"{id}","name":"N","version":"{version}","description":"{description}"}}"#)
}

/// A command of the system in the hive's folder.
fn system(hive: &Hive, program: &str, args: &[&str]) {
    let ran = Command::new(program).args(args).current_dir(&hive.root).output().unwrap();
    assert!(ran.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

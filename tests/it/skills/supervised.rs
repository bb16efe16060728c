//! What a running supervisor does with skills, told through the program.

use super::{json, skill_md};
use crate::support::Hive;

/// A supervisor without an engine, ended also when the test fails.
pub(super) struct Up<'a>(&'a Hive);

impl<'a> Up<'a> {
    pub(super) fn start(hive: &'a Hive) -> Self {
        let toml = hive.read("skep.toml");
        hive.write("skep.toml", &format!("{toml}\n[api]\nlisten = \"none\"\n"));
        let up = Self(hive);
        // No agent starts where no engine answers; the registry works all the same.
        hive.run(&["up", "-d", "--timeout", "1"]);
        up
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        self.0.run(&["down", "--keep-agents"]);
    }
}

#[test]
fn what_is_added_is_registered_at_once_and_a_change_is_a_new_version() {
    let hive = Hive::new();
    hive.write("in/notes/SKILL.md", &skill_md("notes", "one"));
    let _up = Up::start(&hive);
    let line = &json(&hive, &["add", "in"], 0)["skills"][0];
    assert_eq!((&line["registered"], &line["version"]), (&true.into(), &"0.0.0".into()));
    hive.write("in/notes/SKILL.md", &skill_md("notes", "two"));
    let line = &json(&hive, &["add", "in", "--force"], 0)["skills"][0];
    assert_eq!((&line["outcome"], &line["version"]), (&"updated".into(), &"0.0.1".into()));
    let shown = json(&hive, &["show", "notes"], 0);
    assert_eq!(shown["versions"].as_array().unwrap().len(), 2);
}

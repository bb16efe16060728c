//! `skep up -d` and `skep down` with a real supervisor, where no engine answers.

use std::net::TcpListener;

use crate::support::Hive;

/// Ends the supervisor also when the test fails.
struct Ended<'a>(&'a Hive);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.run(&["down", "--keep-agents"]);
    }
}

fn hive(listen: &str) -> Hive {
    let hive = Hive::new();
    let toml = hive.read("skep.toml");
    hive.write("skep.toml", &format!("{toml}\n[api]\nlisten = \"{listen}\"\n"));
    hive
}

#[test]
fn a_detached_supervisor_outlives_the_command_and_is_stopped_by_down() {
    let hive = hive("none");
    let _ended = Ended(&hive);
    let up = hive.run(&["up", "-d", "--timeout", "3"]);
    // Without an engine no agent gets anywhere, and the supervisor goes on trying.
    assert_eq!(up.code, 1, "{}", up.err);
    assert!(up.err.contains("not every agent has started after 3 s"), "{}", up.err);
    let ps = hive.run(&["ps"]);
    assert_eq!(ps.code, 0, "{}", ps.err);
    assert!(ps.out.contains("helper  pending"), "{}", ps.out);
    let refused = hive.run(&["up", "-d"]);
    assert!(refused.code == 1 && refused.err.contains("already: process"), "{}", refused.err);
    assert!(hive.read(".skep/logs/skep.log").contains("the supervisor is up"));
    let down = hive.run(&["down", "--keep-agents"]);
    assert_eq!((down.code, down.err.as_str()), (0, "the supervisor has stopped; the agents run on\n"));
    assert_eq!(hive.run(&["ps"]).code, 1);
}

#[test]
fn a_supervisor_that_dies_early_is_told_with_its_last_words() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let hive = hive(&taken.local_addr().unwrap().to_string());
    let up = hive.run(&["up", "-d"]);
    assert_eq!(up.code, 1);
    assert!(up.err.contains("the supervisor ended before it was ready"), "{}", up.err);
    assert!(up.err.contains("in use"), "{}", up.err);
}

#[test]
fn a_wrong_configuration_starts_nothing() {
    let hive = hive("nonsense");
    let up = hive.run(&["up", "-d"]);
    assert_eq!(up.code, 2);
    assert!(up.err.contains("skep.toml:"), "{}", up.err);
    assert!(!hive.root.join(".skep").exists());
}

#[test]
fn a_supervisor_elsewhere_is_not_started_or_stopped_from_here() {
    let hive = hive("none");
    for verb in ["up", "down"] {
        assert_eq!(hive.run(&[verb, "--host", "http://127.0.0.1:1"]).code, 2);
    }
}

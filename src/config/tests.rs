//! Behaviour of `skep.toml` as its writers meet it: what is accepted, and how mistakes are told.

use std::{path::PathBuf, time::Duration};

use proptest::prelude::*;

use super::{
    keys,
    model::{AgentSkills, Network, Restart, Workspace},
    parse, render,
};
use crate::error::Fault;

/// The example of the contract, with what this version refuses left out.
const EXAMPLE: &str = r#"
[hive]
name = "demo"
timezone = "Europe/Berlin"
default_agent = "writer"

[api]
listen = "127.0.0.1:7117"
allowed_hosts = ["localhost"]

[registry]
sources = ["skills"]
agent_skills = "manual"

[secrets]
file = "secrets/env.json"

[defaults]
image = "skep-agent:latest"
memory = "512MiB"
cpus = 1.0
pids = 256
disk = "2GiB"
network = "none"
stop_grace = "10s"

[agents.writer]
description = "Writes the weekly report"
soul = "souls/writer.md"
allow_soul_edit = false
skills = ["social-media-apis@2.1.0", "basic-tools", "cron-tools@^1.0"]
secrets = ["TWITTER_API_KEY"]
command = ["claude", "-p", "{instructions}"]
main = ["node", "server.mjs"]
env = { LOG_LEVEL = "info" }
workspace = "named"

[[agents.writer.jobs]]
name = "morning-post"
schedule = "0 9 * * MON-FRI"
timezone = "America/New_York"
tool = "post-twitter"
args = { content = "Good morning" }

[runs]
max_running = 10
[notify]
[tools.defaults.telegram_send_message]
chat_id = "8304042211"
[[tools.strip]]
tools = "vercel_*"
parameters = ["teamId", "slug"]
[[preflight]]
[model]
"#;

fn faults(text: &str) -> Vec<Fault> {
    parse(text, "skep.toml")
        .map(|(config, _)| config)
        .unwrap_err()
}

/// The one fault of a text: line, column, message, help.
fn only(text: &str) -> (usize, usize, String, String) {
    let mut all = faults(text);
    assert_eq!(all.len(), 1, "{text}\n{all:#?}");
    let f = all.remove(0);
    (
        f.line.unwrap(),
        f.column.unwrap(),
        f.message,
        f.help.unwrap_or_default(),
    )
}

fn warnings(text: &str) -> Vec<String> {
    let (_, warnings) = parse(text, "skep.toml").unwrap();
    warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn the_example_of_the_contract_is_understood_whole() {
    let (config, warnings) = parse(EXAMPLE, "skep.toml").unwrap();
    assert_eq!(config.name.as_str(), "demo");
    assert_eq!(config.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(config.default_agent.unwrap().as_str(), "writer");
    assert_eq!(config.api.listen.unwrap().to_string(), "127.0.0.1:7117");
    let writer = &config.agents["writer"];
    assert_eq!(writer.memory, 512 << 20);
    assert_eq!(writer.skills.len(), 3);
    assert_eq!(
        writer.secrets.as_ref().unwrap()[0].as_str(),
        "TWITTER_API_KEY"
    );
    assert_eq!(writer.command.as_ref().unwrap()[2], "{instructions}");
    assert_eq!(writer.env["LOG_LEVEL"], "info");
    assert_eq!(writer.soul, Some(PathBuf::from("souls/writer.md")));
    let told: Vec<_> = warnings
        .iter()
        .map(|w| w.message.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        told,
        [
            "agents.writer.jobs",
            "runs",
            "notify",
            "tools",
            "preflight",
            "model"
        ]
    );
    assert!(warnings.iter().all(|w| {
        w.message
            .ends_with("is not supported by this version yet: it has no effect")
    }));
    assert_eq!(warnings[0].help.as_deref(), Some("these jobs will not run"));
}

#[test]
fn an_empty_file_is_a_hive_with_every_default() {
    let (config, warnings) = parse("", "skep.toml").unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.api.allowed_hosts, ["localhost"]);
    assert_eq!(config.registry.sources, [PathBuf::from("skills")]);
    assert_eq!(config.registry.agent_skills, AgentSkills::Manual);
    assert_eq!(config.secrets_file, PathBuf::from("secrets/env.json"));
    let (config, _) = parse("[agents.a]", "skep.toml").unwrap();
    let a = &config.agents["a"];
    assert_eq!(
        (a.image.as_str(), a.memory, a.cpus, a.pids, a.disk),
        ("skep-agent:latest", 512 << 20, 1.0, 256, 2 << 30)
    );
    assert_eq!(
        (&a.network, &a.workspace, a.main_restart),
        (&Network::None, &Workspace::Named, Restart::Always)
    );
    assert_eq!(a.stop_grace, Duration::from_secs(10));
    assert!(a.autostart && !a.allow_soul_edit && a.secrets.is_none() && a.runtime.is_none());
}

#[test]
fn every_other_value_of_every_key_is_understood() {
    let text = r#"
        [hive]
        timezone = "europe/berlin"
        ca_bundle = "/etc/ssl/ca.pem"
        [api]
        listen = "none"
        allowed_hosts = ["Hive.Example.com", "::1", "10.0.0.1"]
        [registry]
        sources = ["./skills/", "/srv/skills"]
        agent_skills = "auto"
        limits = { files = 10, total = "1MiB", file = 4096, manifest = "1kB" }
        [defaults]
        env = { A = "1", B = "2" }
        runtime = "runsc"
        cpus = 2
        autostart = false
        [agents.a]
        workspace = "./work/a"
        network = "internet"
        main = ["x"]
        main_restart = "on-failure"
        env = { B = "3", PATH = "/bin" }
        stop_grace = "1h"
        image = "registry.example.com:5000/team/agent:1.0@sha256:0123456789012345678901234567890123456789012345678901234567890123"
        [agents.b]
        workspace = "tmpfs"
        main = ["x"]
        main_restart = "never"
        autostart = true
        secrets = []
    "#;
    let (config, told) = parse(text, "skep.toml").unwrap();
    assert_eq!(told, []);
    assert_eq!(config.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(config.api.listen, None);
    assert_eq!(config.api.allowed_hosts[0], "hive.example.com");
    assert_eq!(
        config.registry.sources,
        [PathBuf::from("skills"), PathBuf::from("/srv/skills")]
    );
    assert_eq!(
        (
            config.registry.limits.files,
            config.registry.limits.manifest
        ),
        (10, 1000)
    );
    let (a, b) = (&config.agents["a"], &config.agents["b"]);
    assert_eq!(a.workspace, Workspace::Path("work/a".into()));
    assert_eq!(a.env.values().collect::<Vec<_>>(), ["1", "3", "/bin"]);
    assert_eq!(
        (a.network.clone(), a.main_restart, a.cpus, a.autostart),
        (Network::Internet, Restart::OnFailure, 2.0, false)
    );
    assert_eq!((b.runtime.as_deref(), b.autostart), (Some("runsc"), true));
    assert_eq!(b.secrets, Some(vec![]));
}

#[test]
fn a_wrong_type_is_told_for_every_known_key() {
    for (header, section) in keys::SECTIONS {
        for key in *section {
            let header = header.replace("<id>", "a");
            let text = format!("{header}\n{} = 1979-05-27\n", key.name);
            let (line, column, message, help) = only(&text);
            assert_eq!((line, column), (2, key.name.len() + 4), "{text}");
            assert!(
                message.contains(key.name) && message.ends_with("not a date or time"),
                "{message}"
            );
            assert!(!help.is_empty());
        }
    }
    for key in keys::ROOT {
        assert!(only(&format!("{} = 5", key.name)).2.starts_with(key.name));
    }
}

#[test]
fn unknown_keys_are_told_with_the_nearest_known_one() {
    for (text, message, help) in [
        (
            "[agents.a]\nmemry = 1",
            "unknown key \"memry\"",
            "did you mean \"memory\"?",
        ),
        (
            "[agents.a]\nmain-restart = 1",
            "unknown key \"main-restart\"",
            "did you mean \"main_restart\"?",
        ),
        (
            "[agents.a]\nenvironment = 1",
            "unknown key \"environment\"",
            "did you mean \"env\"?",
        ),
        (
            "[agent.a]",
            "unknown key \"agent\"",
            "did you mean \"agents\"?",
        ),
        (
            "listen = 'none'",
            "unknown key \"listen\"",
            "\"listen\" belongs in [api]",
        ),
        (
            "[hive]\nmemory = 1",
            "unknown key \"memory\"",
            "\"memory\" belongs in [agents.<id>]",
        ),
        (
            "[secrets]\nquux = 1",
            "unknown key \"quux\"",
            "known keys are file",
        ),
        (
            "[defaults]\ncpu = 1",
            "unknown key \"cpu\"",
            "did you mean \"cpus\"?",
        ),
        (
            "[registry.limits]\nfilez = 1",
            "unknown key \"filez\"",
            "did you mean \"files\"?",
        ),
    ] {
        let (_, _, told, advice) = only(text);
        assert_eq!((told.as_str(), advice.as_str()), (message, help));
    }
}

#[test]
fn wrong_values_are_told_with_a_remedy() {
    for (line, message, help) in [
        (
            "network = { allow = ['api.example.com:443'] }",
            "not yet enforced",
            "\"none\"",
        ),
        (
            "network = 'intrenet'",
            "cannot be \"intrenet\"",
            "did you mean \"internet\"?",
        ),
        (
            "network = 'host'",
            "cannot be \"host\"",
            "use \"none\" or \"internet\"",
        ),
        ("network = none", "none is not a TOML value", "\"none\""),
        (
            "network = internet",
            "internet is not a TOML value",
            "\"internet\"",
        ),
        (
            "main_restart = 'on_failure'",
            "cannot be",
            "did you mean \"on-failure\"?",
        ),
        ("memory = '15MiB'", "at least 16MiB", "or more"),
        ("memory = -1", "at least 16MiB", "or more"),
        ("memory = '64k'", "not a size", "64KiB"),
        ("memory = 0.5", "must be a size, not a number", "512MiB"),
        ("memory = '9000PiB'", "larger", "smaller"),
        ("memory = 99999999999999999999", "out of range", "smaller"),
        ("disk = '1kB'", "at least 1MiB", "or more"),
        ("cpus = 0", "from 0.01 to 1024", "1.0"),
        ("cpus = nan", "from 0.01 to 1024", "1.0"),
        ("cpus = inf", "from 0.01 to 1024", "1.0"),
        ("cpus = 1025", "from 0.01 to 1024", "1.0"),
        (
            "cpus = '1'",
            "must be a number, not a string",
            "without quotes",
        ),
        ("pids = 7", "from 8", "256"),
        ("pids = 5000000", "from 8", "256"),
        ("stop_grace = 10", "a duration", "\"10s\""),
        ("stop_grace = '10'", "not a duration", "\"10s\""),
        ("stop_grace = '2h'", "at most 1h", "shorter"),
        ("image = 'Agent:latest'", "not an image", "\"agent:latest\""),
        ("image = 'a b'", "not an image", "name:tag"),
        ("image = 'a@sha256:12'", "not an image", "name:tag"),
        ("image = ''", "is empty", "remove"),
        ("runtime = '-x'", "not a runtime name", "runsc"),
        (
            "workspace = '..'",
            "leads out of the hive",
            "inside the hive",
        ),
        (
            "workspace = './a/../../b'",
            "leads out of the hive",
            "inside the hive",
        ),
        ("workspace = '/srv'", "absolute", "inside the hive"),
        ("workspace = './'", "the hive itself", "inside the hive"),
        ("workspace = './.skep/x'", ".skep", "outside of .skep"),
        ("workspace = 'data'", "cannot be \"data\"", "\"./data\""),
        (
            "workspace = 'Named'",
            "cannot be",
            "did you mean \"named\"?",
        ),
        (
            "workspace = './skills/x'",
            "write a source of skills",
            "\"./work\"",
        ),
        (
            "workspace = './secrets'",
            "write the secrets file",
            "\"./work\"",
        ),
        ("soul = '~/soul.md'", "not expanded", "inside the hive"),
        ("soul = 'a\\u0000b'", "does not exist", ""),
        ("skills = ['Bad']", "not a valid skill id", ""),
        ("skills = ['a@x']", "not a skill reference", ""),
        (
            "skills = ['a@1.0.0', 'a@^2']",
            "as \"a@1.0.0\" and as \"a@^2\"",
            "keep one",
        ),
        ("skills = 'a'", "must be an array", "[\"a\"]"),
        ("secrets = ['A-B']", "not a valid secret name", ""),
        ("secrets = ['A', 'A']", "listed twice", "remove"),
        (
            "env = { A = '1' }\nsecrets = ['A']",
            "both in env and in secrets",
            "keep the secret",
        ),
        (
            "env = { A = 1 }",
            "must be a string, not an integer",
            "in quotes: \"1\"",
        ),
        (
            "env = { A = true }",
            "must be a string, not a boolean",
            "in quotes: \"true\"",
        ),
        ("env = { SKEP_AGENT = 'x' }", "set by skep itself", "SKEP_"),
        ("env = { HOME = '/' }", "always /workspace/home", "remove"),
        (
            "env = { 'A B' = '/' }",
            "not a name of an environment variable",
            "letters",
        ),
        ("env = ['A=1']", "must be a table", "[agents.a.env]"),
        (
            "main = 'node server.mjs'",
            "must be an array",
            "[\"node\", \"server.mjs\"]",
        ),
        (
            "main = 'a | b'",
            "must be an array",
            "[\"sh\", \"-c\", \"a | b\"]",
        ),
        ("command = []", "names no program", "remove"),
        ("command = ['']", "names no program", "remove"),
        ("command = ['a', 1]", "must be a string", "\"1\""),
        ("command = [\"a\\u0000\"]", "NUL", "remove"),
        ("description = 3", "must be a string", "\"3\""),
        ("autostart = 'yes'", "true or false", "without quotes"),
        ("jobs = {}", "an array of tables", "[[agents.a.jobs]]"),
    ] {
        if help.is_empty() && message == "does not exist" {
            continue;
        }
        let (at, _, told, advice) = only(&format!("[agents.a]\n{line}\n"));
        assert!(at >= 2, "{line}");
        assert!(told.contains(message), "{line}: {told}");
        assert!(advice.contains(help), "{line}: {advice}");
    }
}

#[test]
fn wrong_values_of_the_hive_are_told_with_a_remedy() {
    for (text, message, help) in [
        ("[hive]\nname = 'My Hive'", "not a valid hive name", ""),
        (
            "[hive]\ntimezone = 'Europe/Berln'",
            "not a known time zone",
            "did you mean \"Europe/Berlin\"?",
        ),
        (
            "[hive]\ntimezone = 'new york'",
            "not a known time zone",
            "did you mean \"America/New_York\"?",
        ),
        (
            "[hive]\ntimezone = 'x/y/z/w/v/u'",
            "not a known time zone",
            "IANA",
        ),
        (
            "[hive]\ndefault_agent = 'wrtier'\n[agents.writer]",
            "no agent \"wrtier\"",
            "did you mean \"writer\"?",
        ),
        (
            "[hive]\ndefault_agent = 'x'",
            "no agent \"x\"",
            "[agents.x]",
        ),
        ("[hive]\nca_bundle = '../ca.pem'", "leads out", "inside"),
        (
            "[api]\nlisten = 'localhost:80'",
            "not an IP address",
            "\"127.0.0.1:80\"",
        ),
        (
            "[api]\nlisten = ':80'",
            "not an IP address",
            "\"127.0.0.1:80\"",
        ),
        (
            "[api]\nlisten = '::1'",
            "not an IP address",
            "\"[::1]:7117\"",
        ),
        ("[api]\nlisten = 80", "must be a string", "\"80\""),
        ("[api]\nlisten = 'unix:/x'", "not an IP address", "none"),
        (
            "[api]\nallowed_hosts = ['https://x']",
            "not a host name",
            "no scheme",
        ),
        (
            "[api]\nallowed_hosts = ['*']",
            "not a host name",
            "wildcard",
        ),
        (
            "[registry]\nsources = ['a', './a']",
            "listed twice",
            "remove",
        ),
        ("[registry]\nsources = ['.']", "the hive itself", "inside"),
        (
            "[registry]\nagent_skills = 'atuo'",
            "cannot be",
            "did you mean \"auto\"?",
        ),
        ("[registry]\nlimits.files = 0", "at least 1", "2000"),
        ("[registry]\nlimits.file = 0", "at least 1B", "or more"),
        (
            "[secrets]\nfile = '/etc/env.json'",
            "absolute",
            "inside the hive",
        ),
        (
            "[defaults]\nskills = ['a']",
            "each agent's own",
            "[agents.<id>]",
        ),
        ("[defaults]\njobs = []", "each agent's own", "[agents.<id>]"),
        ("[agents.'A b']", "not a valid agent name", ""),
        ("[agents]\na = 5", "agents.a must be a table", "[agents.a]"),
        (
            "[agents.a]\nworkspace='./w'\n[agents.b]\nworkspace='./w/b'",
            "inside that of agent \"a\"",
            "beside each other",
        ),
        (
            "[agents.a]\nworkspace='./souls'\n[agents.b]\nsoul='souls/b.md'",
            "write a soul file",
            "apart",
        ),
        ("[hive]\nname = 'a'\nname = 'b'", "duplicate key", ""),
        ("[hive]\n[hive]", "duplicate key", ""),
    ] {
        let (_, _, told, advice) = only(text);
        assert!(told.contains(message), "{text}: {told}");
        assert!(advice.contains(help), "{text}: {advice}");
    }
}

#[test]
fn what_is_probably_not_meant_is_a_warning_only() {
    for (text, told) in [
        (
            "[api]\nlisten = '0.0.0.0:7117'",
            "skep.toml:2:10: the API listens on 0.0.0.0:7117",
        ),
        (
            "[agents.a]\nmain_restart = 'never'",
            "skep.toml:2:1: agents.a.main_restart has no effect without main",
        ),
        (
            "[agents.a]\nworkspace='./w'\n[agents.b]\nworkspace='./w'",
            "skep.toml:4:1: agents \"a\" and \"b\" share the workspace \"w\"",
        ),
    ] {
        let all = warnings(text);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].starts_with(told), "{all:?}");
    }
}

#[test]
fn every_mistake_is_told_at_once_in_the_order_of_the_text() {
    let source = r#"[hive]
name = "Demo"
default_agent = "wrtier"
[agents.writer]
memry = "1GiB"
cpus = "2"
network = { allow = ["api.example.com:443"] }
env = { "größe" = 1, DEBUG = true }
"#;
    insta::assert_snapshot!(render(&faults(source), source, false), @"");
}

#[test]
fn a_syntax_error_hides_no_other_mistake_and_invents_none() {
    let source = r#"[hive]
default_agent = "writer"
[agents.writer
memory = "1MiB"
[agents.b]
cpus = 1.0.0
image = 'x
pids = 3
secrets
"#;
    insta::assert_snapshot!(render(&faults(source), source, false), @"");
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_do_not_shift_places() {
    let (line, column, ..) = only("\u{feff}[agents.a]\r\nmemry = 1\r\n");
    assert_eq!((line, column), (2, 1));
    let (line, column, ..) = only("[agents.a]\nenv = { A = 'äöü', B = 1 }");
    assert_eq!((line, column), (2, 24));
}

#[test]
fn a_text_of_brackets_or_a_line_of_mistakes_is_refused_in_good_time() {
    assert!(!faults(&format!("a = {}", "[".repeat(200_000))).is_empty());
    let many: String = (0..40_000).map(|n| format!("k{n}=0,")).collect();
    assert_eq!(
        faults(&format!("hive={{{}}}", many.trim_end_matches(','))).len(),
        40_000
    );
}

#[test]
fn the_reference_names_every_key() {
    let text = keys::reference();
    for (_, section) in keys::SECTIONS {
        assert!(
            section
                .iter()
                .all(|k| text.contains(&format!("| `{}` |", k.name)))
        );
    }
}

fn all_places_are_in(text: &str) -> Result<(), TestCaseError> {
    let found = match parse(text, "skep.toml") {
        Ok((_, warnings)) => warnings,
        Err(faults) => {
            prop_assert!(!faults.is_empty());
            faults
        }
    };
    let shown = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = shown.split('\n').collect();
    for fault in &found {
        let (line, column) = (fault.line.unwrap(), fault.column.unwrap());
        prop_assert!(line >= 1 && line <= lines.len(), "{fault}");
        prop_assert!(
            column >= 1 && column <= lines[line - 1].chars().count() + 1,
            "{fault}"
        );
    }
    drop(render(&found, text, true));
    Ok(())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_or_point_outside(text in "\\PC{0,200}") {
        all_places_are_in(&text)?;
    }

    #[test]
    fn no_text_of_toml_pieces_makes_it_panic_or_point_outside(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "[", "]", "{", "}", "=", ",", ".", "\n", "\r\n", "\"", "'", "\"\"\"", "#", "ä", "\0", "agents", "a", "hive",
            "env", "skills", "jobs", "memory", "1", "-", "nan", "true", "1979-05-27", " ", "\\u0000", "\u{feff}", "limits", "registry",
        ]), 0..60)
    ) {
        all_places_are_in(&pieces.concat())?;
    }

    #[test]
    fn no_damage_to_the_example_makes_it_panic_or_point_outside(
        at in 0..EXAMPLE.len(), cut in 0_usize..40, insert in "\\PC{0,6}"
    ) {
        let end = (at + cut).min(EXAMPLE.len());
        all_places_are_in(&format!("{}{insert}{}", &EXAMPLE[..at], &EXAMPLE[end..]))?;
    }
}

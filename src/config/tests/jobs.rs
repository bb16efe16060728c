//! `[[agents.<id>.jobs]]`: what is accepted, and how mistakes are told.

use std::time::Duration;

use serde_json::json;

use super::{
    super::{model::Job, parse, render},
    faults, only,
};
use crate::scheduler::job::{JobNotify, JobSpec, Missed, Overlap, TriggerSpec};

/// The jobs of agent `a` in a hive of Berlin.
fn jobs(text: &str) -> Vec<Job> {
    let text = format!("[hive]\ntimezone = 'Europe/Berlin'\n[agents.a]\ncommand = ['x']\n{text}");
    match parse(&text, "skep.toml") {
        Ok((mut config, _)) => config.agents.remove("a").unwrap().jobs,
        Err(faults) => panic!("{}", render(&faults, &text, false)),
    }
}

fn trigger(line: &str) -> TriggerSpec {
    jobs(&format!("[[agents.a.jobs]]\nname = 'x'\ntool = 't'\n{line}")).remove(0).spec.trigger
}

#[test]
fn a_job_with_every_key_is_understood() {
    let read = jobs(
        r#"
        [[agents.a.jobs]]
        name = " morning post "
        description = "Greets"
        enabled = false
        schedule = "0 9 * * MON-FRI"
        timezone = "america/new_york"
        tool = "post-twitter"
        args = { text = "Hi", n = 0x10, f = 1_0.5, yes = true, on = 2026-12-24, at = 2026-12-24 18:00:00Z, list = [1, { a = "b" }] }
        instructions = "Says good morning."
        required_tools = ["post-twitter", "social/read"]
        max_steps = 1000
        timeout = "7d"
        missed = "all"
        missed_within = "2h"
        overlap = "replace"
        retries = 10
        jitter = "24h"
        [agents.a.jobs.notify]
        on_completion = false
        interval_minutes = 30
        targets = ["ops"]
        [[notify.webhook]]
        name = "ops"
        url = "https://ops.example/hook"
        "#,
    );
    let args = json!({
        "text": "Hi", "n": 16, "f": 10.5, "yes": true, "on": "2026-12-24", "at": "2026-12-24T18:00:00Z",
        "list": [1, {"a": "b"}]
    });
    let day = Duration::from_secs(86_400);
    let spec = JobSpec {
        description: "Greets".into(),
        trigger: TriggerSpec::Cron {
            schedule: "0 9 * * MON-FRI".into(),
            timezone: "America/New_York".into(),
        },
        instructions: Some("Says good morning.".into()),
        tool: Some("post-twitter".into()),
        args: args.as_object().unwrap().clone(),
        required_tools: vec!["post-twitter".into(), "social/read".into()],
        max_steps: 1000,
        timeout: Some(day * 7),
        missed: Missed::All,
        missed_within: Some(day / 12),
        overlap: Overlap::Replace,
        retries: 10,
        jitter: day,
        notify: JobNotify { on_completion: false, interval_minutes: 30, targets: Some(vec!["ops".into()]) },
        ..JobSpec::new(TriggerSpec::Manual)
    };
    assert_eq!(read, [Job { name: "morning post".into(), enabled: false, spec }]);
}

#[test]
fn a_job_with_few_keys_has_the_defaults_and_the_hives_zone() {
    let read = jobs("[[agents.a.jobs]]\nname = 'x'\nschedule = '@daily'\ninstructions = 'Do it.'");
    let trigger = TriggerSpec::Cron { schedule: "@daily".into(), timezone: "Europe/Berlin".into() };
    let spec = JobSpec { instructions: Some("Do it.".into()), ..JobSpec::new(trigger) };
    assert_eq!(read, [Job { name: "x".into(), enabled: true, spec }]);
    assert_eq!(jobs("jobs = []"), []);
}

#[test]
fn every_trigger_is_understood() {
    let once =
        |at: &str, zone: &str| TriggerSpec::OneShot { at: at.parse().unwrap(), timezone: Some(zone.into()) };
    let event =
        |names: &[&str]| TriggerSpec::Event { event: names.iter().map(ToString::to_string).collect() };
    for (line, spec) in [
        ("every = '1h30m'", TriggerSpec::Interval { every: "1h30m".into() }),
        ("at = '2026-12-24T18:00:00'", once("2026-12-24T17:00:00Z", "Europe/Berlin")),
        ("at = 2026-12-24T18:00:00", once("2026-12-24T17:00:00Z", "Europe/Berlin")),
        ("at = 2026-12-24 18:00:00", once("2026-12-24T17:00:00Z", "Europe/Berlin")),
        ("at = 2026-12-24T18:00:00Z", once("2026-12-24T18:00:00Z", "Europe/Berlin")),
        ("at = 2026-12-24T18:00:00\ntimezone = 'Asia/Tokyo'", once("2026-12-24T09:00:00Z", "Asia/Tokyo")),
        // The file stays as it is after the job fired.
        ("at = '1999-12-31T23:59:59'", once("1999-12-31T22:59:59Z", "Europe/Berlin")),
        ("event = 'report'", event(&["report"])),
        ("event = ['report', 'agent:*']", event(&["report", "agent:*"])),
        ("manual = true", TriggerSpec::Manual),
        ("manual = false\nevery = '1s'", TriggerSpec::Interval { every: "1s".into() }),
    ] {
        assert_eq!(trigger(line), spec, "{line}");
    }
}

#[test]
fn an_agent_may_follow_instructions_with_the_command_of_the_defaults() {
    let text =
        "[defaults]\ncommand = ['x']\n[[agents.a.jobs]]\nname = 'x'\nmanual = true\ninstructions = 'y'";
    assert!(parse(text, "skep.toml").is_ok());
}

#[test]
fn two_agents_may_have_jobs_of_one_name() {
    let job = |agent| format!("[[agents.{agent}.jobs]]\nname = 'x'\nmanual = true\ntool = 't'\n");
    assert!(parse(&format!("{}{}", job("a"), job("b")), "skep.toml").is_ok());
}

#[test]
fn wrong_values_are_told_with_a_remedy() {
    let long = "x".repeat(101);
    let much = "x".repeat(96 * 1024);
    #[rustfmt::skip]
    let cases = [
        ("name = ''\nmanual = true\ntool = 't'", "the name of a job is empty", "morning-post"),
        (&format!("name = '{long}'\nmanual = true\ntool = 't'"), "at most 100 characters", "shorter"),
        ("name = \"a\\nb\"\nmanual = true\ntool = 't'", "U+000A", "one line"),
        ("name = \"a\\u202eb\"\nmanual = true\ntool = 't'", "U+202E, which nobody sees: \"a\\u{202e}b\"", "without it"),
        ("name = '12'\nmanual = true\ntool = 't'", "asked for by number too", "\"job-12\""),
        ("manual = true\ntool = 't'", "agents.a.jobs[0] has no name", "add name"),
        ("name = 'x'\ntool = 't'", "agents.a.jobs[0] has no trigger", "or manual = true"),
        ("name = 'x'\ntool = 't'\nmanual = false", "agents.a.jobs[0] has no trigger", "schedule"),
        ("name = 'x'\ntool = 't'\nscheduel = '@daily'", "unknown key \"scheduel\"", "did you mean \"schedule\"?"),
        ("name = 'x'\ntool = 't'\ncron = '@daily'", "unknown key \"cron\"", "did you mean \"schedule\"?"),
        ("name = 'x'\ntool = 't'\nin_minutes = 5", "unknown key \"in_minutes\"", "did you mean \"at\"?"),
        ("name = 'x'\nmanual = true\nprompt = 'y'", "unknown key \"prompt\"", "did you mean \"instructions\"?"),
        ("name = 'x'\ntool = 't'\nschedule = '@daily'\nevery = '1h'", "has two triggers: schedule and every", "keep one"),
        ("name = 'x'\ntool = 't'\nmanual = true\nat = 2026-01-01T00:00:00", "has two triggers: at and manual", "keep one"),
        ("name = 'x'\ntool = 't'\nschedule = '61 * * * *'", "61", ""),
        ("name = 'x'\ntool = 't'\nschedule = '0 9 *'", "0 9 *", ""),
        ("name = 'x'\ntool = 't'\nschedule = '0 0 30 2 *'", "never", ""),
        ("name = 'x'\ntool = 't'\nschedule = ''", "is empty", "write a value"),
        ("name = 'x'\ntool = 't'\nschedule = 5", "must be a string", "\"5\""),
        ("name = 'x'\ntool = 't'\nschedule = '@daily'\ntimezone = 'Berln'", "not known", "did you mean `Europe/Berlin`?"),
        ("name = 'x'\ntool = 't'\nevery = 30", "must be a duration", "\"30s\""),
        ("name = 'x'\ntool = 't'\nevery = '10ms'", "too short", "1s"),
        ("name = 'x'\ntool = 't'\nevery = 'often'", "cannot be read", "30m"),
        ("name = 'x'\ntool = 't'\nat = 'tomorrow'", "cannot be read as a time", "2026-12-24T18:00:00"),
        ("name = 'x'\ntool = 't'\nat = 18:00:00", "cannot be read as a time", "2026-12-24T18:00:00"),
        ("name = 'x'\ntool = 't'\nat = 2026-12-24", "no time of day", "2026-12-24T18:00:00"),
        ("name = 'x'\ntool = 't'\nevent = []", "names no event", "report"),
        ("name = 'x'\ntool = 't'\nevent = 'a b'", "holds blanks", "report"),
        ("name = 'x'\ntool = 't'\nevent = ['a*b']", "before its end", "report:*"),
        ("name = 'x'\ntool = 't'\nmanual = 'yes'", "must be true or false", "without quotes"),
        ("name = 'x'\nmanual = true", "has neither tool nor instructions", "or instructions"),
        ("name = 'x'\nmanual = true\ninstructions = 'y'", "agent \"a\" has no command", "add command = [\"…\"] to [agents.a], or a tool"),
        ("name = 'x'\nmanual = true\ntool = ''", "the name of a tool is empty", "read-file"),
        ("name = 'x'\nmanual = true\ntool = 't'\nargs = 'x'", "must be a table, not a string", "{ key = \"value\" }"),
        ("name = 'x'\nmanual = true\ntool = 't'\nargs = { x = nan }", "JSON has no nan", "a number"),
        ("name = 'x'\nmanual = true\ntool = 't'\nargs = { x = [inf] }", "JSON has no inf", "a number"),
        (&format!("name = 'x'\nmanual = true\ntool = 't'\nargs = {{ x = '{much}' }}"), "at most 98304", "a file"),
        ("name = 'x'\nmanual = true\ntool = 't'\nrequired_tools = 'a'", "must be an array", "[\"a\"]"),
        ("name = 'x'\nmanual = true\ntool = 't'\nrequired_tools = ['a', 'a']", "\"a\" is listed twice", "remove"),
        ("name = 'x'\nmanual = true\ntool = 't'\ninstructions = ''", "is empty", "remove the key"),
        ("name = 'x'\nmanual = true\ntool = 't'\nmax_steps = 0", "from 1 to 1000, not 0", "within"),
        ("name = 'x'\nmanual = true\ntool = 't'\nmax_steps = '10'", "must be a whole number", "without quotes"),
        ("name = 'x'\nmanual = true\ntool = 't'\nretries = 11", "from 0 to 10, not 11", "within"),
        ("name = 'x'\nmanual = true\ntool = 't'\ntimeout = 900", "must be a duration", "\"900s\""),
        ("name = 'x'\nmanual = true\ntool = 't'\ntimeout = '8d'", "from 1s to 7d", "within"),
        ("name = 'x'\nmanual = true\ntool = 't'\ntimeout = '900'", "not a duration: \"900\"", "\"900s\""),
        ("name = 'x'\nmanual = true\ntool = 't'\njitter = '25h'", "from 0s to 1d", "within"),
        ("name = 'x'\nmanual = true\ntool = 't'\nmissed = 'none'", "cannot be \"none\"", "\"skip\""),
        ("name = 'x'\nmanual = true\ntool = 't'\nmissed_within = '0s'", "from 1s to 366d", "within"),
        ("name = 'x'\nmanual = true\ntool = 't'\noverlap = 'allwo'", "cannot be", "did you mean \"allow\"?"),
        ("name = 'x'\nmanual = true\ntool = 't'\nenabled = 0", "must be true or false", "without quotes"),
        ("name = 'x'\nmanual = true\ntool = 't'\nnotify = true", "must be a table", "{ on_completion = false }"),
        ("name = 'x'\nmanual = true\ntool = 't'\nnotify = { on_complete = true }", "unknown key", "did you mean \"on_completion\"?"),
        ("name = 'x'\nmanual = true\ntool = 't'\nnotify = { interval_minutes = -1 }", "from 0 to 527040, not -1", "within"),
        ("name = 'x'\nmanual = true\ntool = 't'\nnotify = { targets = [''] }", "the name of a target is empty", "[notify]"),
    ];
    for (job, message, help) in cases {
        let (line, _, told, advice) = only(&format!("[[agents.a.jobs]]\n{job}\n"));
        assert!(line >= 1 && told.contains(message), "{job}: {told}");
        assert!(advice.contains(help) || told.contains(help), "{job}: {told} ({advice})");
    }
    let args = faults("[[agents.a.jobs]]\nname = 'x'\nmanual = true\nargs = {}");
    assert!(args.iter().any(|f| f.message.contains("go to a tool, and none is named")), "{args:?}");
    assert!(only("[agents.a]\njobs = [5]").3.contains("[[agents.a.jobs]]"));
}

#[test]
fn a_target_that_notify_has_not_is_refused_with_the_nearest() {
    let source = r#"[agents.writer]
[[agents.writer.jobs]]
name = "post"
every = "1h"
tool = "post-twitter"
notify = { targets = ["ops", "opss"] }
[[notify.webhook]]
name = "ops"
url = "https://ops.example/hook"
"#;
    insta::assert_snapshot!(render(&faults(source), source, false), @r#"
    skep.toml:6:30: job "post" of agent writer tells the target "opss", which [notify] has not
      |
    6 | notify = { targets = ["ops", "opss"] }
      |                              ^^^^^^
      = help: did you mean "ops"?
    "#);
}

#[test]
fn mistakes_of_jobs_are_told_at_their_place() {
    let source = r#"[agents.writer]
[[agents.writer.jobs]]
name = "post"
schedule = "0 9 * * MON-FRY"
timezone = "America/NewYork"
tool = "post-twitter"

[[agents.writer.jobs]]
name = "post"
every = "1h"
at = 2026-12-24T18:00:00
instructions = "Post."
max_steps = 2000

[[agents.writer.jobs]]
schedule = "0 0 31 6 *"
"#;
    insta::assert_snapshot!(render(&faults(source), source, false), @r#"
    skep.toml:4:12: the day of week `MON-FRY` cannot be read
      |
    4 | schedule = "0 9 * * MON-FRY"
      |            ^^^^^^^^^^^^^^^^^
      = help: write 0 to 7 or SUN to SAT, `FRI#2`, `FRIL`, `*`, `a-b`, `*/n`, or a list of these

    skep.toml:5:12: the time zone `America/NewYork` is not known
      |
    5 | timezone = "America/NewYork"
      |            ^^^^^^^^^^^^^^^^^
      = help: did you mean `America/New_York`?

    skep.toml:9:8: agent "writer" has two jobs named "post"
      |
    9 | name = "post"
      |        ^^^^^^
      = help: give each a name of its own: its runs are listed under it

    skep.toml:11:1: agents.writer.jobs[1] has two triggers: every and at
       |
    11 | at = 2026-12-24T18:00:00
       | ^^
       = help: keep one of them, and write another job for the other

    skep.toml:12:1: agent "writer" has no command that could follow instructions
       |
    12 | instructions = "Post."
       | ^^^^^^^^^^^^
       = help: add command = ["…"] to [agents.writer], or a tool to this job

    skep.toml:13:13: agents.writer.jobs[1].max_steps must be from 1 to 1000, not 2000
       |
    13 | max_steps = 2000
       |             ^^^^
       = help: write a number within these bounds

    skep.toml:15:1: agents.writer.jobs[2] has no name
       |
    15 | [[agents.writer.jobs]]
       | ^
       = help: add name = "…", unique among the agent's jobs

    skep.toml:15:1: agents.writer.jobs[2] has neither tool nor instructions
       |
    15 | [[agents.writer.jobs]]
       | ^
       = help: add tool = "…" for one call without a model, or instructions = "…" for the agent

    skep.toml:16:12: `0 0 31 6 *` never fires: no date matches its days and months
       |
    16 | schedule = "0 0 31 6 *"
       |            ^^^^^^^^^^^^
       = help: write a date that comes
    "#);
}

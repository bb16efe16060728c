use clap::Parser;

use super::*;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn body(line: &[&str]) -> Value {
    of(&Line::try_parse_from(line).unwrap().args, None)
}

fn refused(line: &[&str]) -> String {
    Line::try_parse_from(line).err().unwrap().to_string()
}

#[test]
fn only_what_was_written_is_in_the_body() {
    let line = ["--name", "x", "--manual", "--tool", "t"];
    assert_eq!(body(&line), json!({"name": "x", "manual": true, "tool": "t"}));
}

#[test]
fn every_flag_has_its_key() {
    let line = "--agent writer --name x --description d --schedule @daily --timezone UTC --tool t --arg a=1 \
        --arg b:=1 --arg c==z --instructions i --required-tool r --required-tool s --max-steps 3 --timeout 5m \
        --missed all --missed-within 2h --overlap queue --retries 1 --jitter 30s --no-notify --notify-interval 5 \
        --notify-target phone --disabled";
    let args = Line::try_parse_from(line.split_whitespace()).unwrap().args;
    assert_eq!(
        of(&args, Some("i".to_owned())),
        json!({
            "agent": "writer", "name": "x", "description": "d", "tool": "t",
            "schedule": "@daily", "timezone": "UTC", "args": {"a": "1", "b": 1, "c": "=z"}, "instructions": "i",
            "required_tools": ["r", "s"], "max_steps": 3, "timeout": "5m", "missed": "all", "missed_within": "2h",
            "overlap": "queue", "retries": 1, "jitter": "30s", "enabled": false,
            "notify": {"on_completion": false, "interval_minutes": 5, "targets": ["phone"]}
        })
    );
}

#[test]
fn each_trigger_has_a_key_of_its_own() {
    for (flags, key, value) in [
        (&["--every", "30m"][..], "every", json!("30m")),
        (&["--at", "2026-12-24T18:00:00"], "at", json!("2026-12-24T18:00:00")),
        (&["--in", "90s"], "in_minutes", json!(1.5)),
        (&["--event", "a", "--event", "b:*"], "event", json!(["a", "b:*"])),
    ] {
        let line = [&["--name", "x", "--tool", "t"], flags].concat();
        assert_eq!(body(&line)[key], value, "{flags:?}");
    }
}

#[test]
fn a_job_has_one_trigger_and_something_to_do() {
    assert!(refused(&["--name", "x", "--tool", "t"]).contains("--schedule <CRON>|--every <TIME>"));
    let two = refused(&["--name", "x", "--tool", "t", "--manual", "--every", "1m"]);
    assert!(two.contains("'--manual' cannot be used with"), "{two}");
    assert!(refused(&["--name", "x", "--manual"]).contains("--tool <TOOL>|--instructions <TEXT>"));
    assert!(refused(&["--manual", "--tool", "t"]).contains("--name"));
}

#[test]
fn a_file_says_everything_itself() {
    assert!(Line::try_parse_from(["--file", "jobs.json", "--agent", "a"]).is_ok());
    for flag in [&["--name", "x"][..], &["--tool", "t"], &["--disabled"], &["--every", "1m"]] {
        let line = [&["--file", "jobs.json"], flag].concat();
        assert!(refused(&line).contains("cannot be used with"), "{flag:?}");
    }
}

#[test]
fn an_argument_is_text_unless_it_is_said_to_be_json() {
    assert_eq!(argument("id=007"), Ok(("id".into(), json!("007"))));
    assert_eq!(argument("deep:={\"a\": [1]}"), Ok(("deep".into(), json!({"a": [1]}))));
    for wrong in ["x", "=x", ":=1", "n:=one"] {
        assert!(argument(wrong).is_err(), "{wrong}");
    }
    assert!(object("[1]").unwrap_err().contains("a JSON object"));
    assert!(object("{").unwrap_err().contains("no JSON"));
}

//! What a run's end means: status, result, error and summary from how its process ended and what it said.
//!
//! Pure. The rule is that of script calls (systems.md D13): JSON on standard output is the result; an exit code
//! other than 0, or `success: false`, is a failure, also where the output is too long to be kept. JSON that ends too early
//! is text like any other, with a warning.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::{refusal::Cut, state::RunStatus};
use crate::wire::Exit;

/// Characters of a summary.
const MAX_SUMMARY: usize = 500;
/// Characters of an error.
const MAX_ERROR: usize = 2_000;
/// Bytes of a result that are kept with the run; what is longer is only in its output.
pub const MAX_RESULT: usize = 256 * 1024;

/// How a run came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its last status.
    pub status: RunStatus,
    /// Exit code; none when it is not known.
    pub exit_code: Option<i32>,
    /// What it answered: JSON, or its text.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// What is odd about its answer.
    pub warning: Option<String>,
    /// A line for lists and notices.
    pub summary: Option<String>,
    /// Another attempt would fail for the same reason.
    pub lasting: bool,
}

impl Outcome {
    /// An end without output: it never ran, or nobody knows.
    #[must_use]
    pub fn without_output(status: RunStatus, error: impl Into<String>) -> Self {
        let error = error.into();
        Self {
            status,
            exit_code: None,
            result: None,
            warning: None,
            summary: Some(cut(&error, MAX_SUMMARY)),
            error: Some(error),
            lasting: false,
        }
    }
}

/// What a process left behind.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    /// Standard output, masked, as much of it as may become a result.
    pub stdout: &'a str,
    /// When standard output was longer than that: what is known of the rest.
    pub cut: Option<Cut>,
    /// The end of standard error, masked.
    pub stderr: &'a str,
    /// A summary that it wrote itself.
    pub summary: Option<&'a str>,
}

/// The end of a direct-tier run (systems.md D13).
#[must_use]
pub fn direct(exit: Exit, said: &Said<'_>) -> Outcome {
    let text = said.stdout.trim();
    let json = if said.cut.is_some() { None } else { serde_json::from_str::<Value>(text).ok() };
    let refused = json.as_ref().is_some_and(|v| v.get("success") == Some(&Value::Bool(false)));
    let half_refused = json.is_none() && said.cut.is_none() && is_half(text) && says_no(text);
    let cut_refused = said.cut.filter(|cut| cut.refused == Some(true));
    let own_error = json.as_ref().and_then(told_error);
    let (status, error) = match ended_badly(exit) {
        Some((status, how)) => {
            let why = own_error.map_or_else(|| because(&how, said.stderr), |e| format!("{how}: {e}"));
            (status, Some(why))
        }
        None if refused => {
            let why = own_error.unwrap_or_else(|| "it answered success: false".to_owned());
            (RunStatus::Failed, Some(why))
        }
        None if half_refused => {
            let why = format!("it answered success: false, and {HALF}: {text}");
            (RunStatus::Failed, Some(why))
        }
        None => match cut_refused {
            Some(Cut { kept, .. }) => {
                let cut = format!("its output was cut after {}", size(kept));
                (RunStatus::Failed, Some(format!("it answered success: false, and {cut}: {text}")))
            }
            None => (RunStatus::Succeeded, None),
        },
    };
    let warning = match (&json, said.cut) {
        (_, Some(cut)) => Some(cut_warning(text, cut)),
        (Some(json), None) => text_for_boolean(json),
        (None, None) if is_half(text) => Some(format!("{HALF}, so it is taken as text")),
        (None, None) => hidden_refusal(text),
    };
    let summary = match (&error, &json) {
        (Some(error), _) => Some(error.clone()),
        (None, Some(json)) => told_summary(json).or_else(|| Some(text.to_owned())),
        (None, None) => Some(text.to_owned()),
    };
    let result = match json {
        Some(json) => Some(json),
        None if text.is_empty() => None,
        None => Some(Value::String(text.to_owned())),
    };
    Outcome { warning, ..finish(status, exit, result, error, summary) }
}

fn cut_warning(text: &str, cut: Cut) -> String {
    let unknown = cut.refused.is_none() && text.starts_with('{');
    let unknown = if unknown { "; whether it says success: false is not known" } else { "" };
    format!("the output was cut after {}, so it is taken as text{unknown}", size(cut.kept))
}

fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mib => format!("{mib} MiB"),
    }
}

/// `"success": "false"` fails nothing.
fn text_for_boolean(json: &Value) -> Option<String> {
    let text = json.get("success")?.as_str().filter(|text| text.trim().eq_ignore_ascii_case("false"))?;
    Some(format!(
        "it answered \"success\": {text:?}, a text, which fails nothing: only the boolean false does"
    ))
}

/// JSON that says `success: false` after other lines is text, and fails nothing.
fn hidden_refusal(text: &str) -> Option<String> {
    if !text.contains("\"success\"") {
        return None;
    }
    let beginnings = text.match_indices('\n').map(|(at, _)| &text[at + 1..]);
    let objects: Vec<&str> = beginnings.filter(|rest| rest.trim_start().starts_with('{')).collect();
    let last = objects.iter().rev().take(MAX_TRIES).find_map(|rest| serde_json::from_str::<Value>(rest).ok());
    last.filter(|json| json.get("success") == Some(&Value::Bool(false)))?;
    let what = "its last lines are JSON that says success: false, and others stand before it, so all of it is taken as text";
    Some(format!("{what}, which fails nothing: print the JSON alone, and logs on standard error"))
}

/// Lines that are tried as the beginning of JSON.
const MAX_TRIES: usize = 100;

const HALF: &str = "the output begins like JSON and does not end like it";

/// Whether a text is the beginning of an object or an array, without its end.
fn is_half(text: &str) -> bool {
    text.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_err_and(|e| e.is_eof())
}

/// Whether it begins with `{"success": false`.
fn says_no(text: &str) -> bool {
    let mut parts = ["{", "\"success\"", ":", "false"].into_iter();
    parts.try_fold(text, |rest, part| rest.trim_start().strip_prefix(part)).is_some()
}

/// The end of an agent-tier run: the summary is what it wrote as one, else the end of what it said.
#[must_use]
pub fn agent(exit: Exit, said: &Said<'_>) -> Outcome {
    let (status, error) = match ended_badly(exit) {
        Some((status, how)) => (status, Some(because(&how, said.stderr))),
        None => (RunStatus::Succeeded, None),
    };
    let own = said.summary.map(str::trim).filter(|s| !s.is_empty());
    let summary = own.map(str::to_owned).or_else(|| {
        let last = last_paragraph(said.stdout);
        if last.is_empty() { error.clone() } else { Some(last) }
    });
    finish(status, exit, None, error, summary)
}

fn finish(
    status: RunStatus,
    exit: Exit,
    result: Option<Value>,
    error: Option<String>,
    summary: Option<String>,
) -> Outcome {
    Outcome {
        status,
        exit_code: (status != RunStatus::Lost).then_some(exit.code),
        result,
        error: error.map(|e| cut(&e, MAX_ERROR)),
        warning: None,
        summary: summary.map(|s| cut(&one_line(&s), MAX_SUMMARY)).filter(|s| !s.is_empty()),
        lasting: false,
    }
}

fn ended_badly(exit: Exit) -> Option<(RunStatus, String)> {
    if exit.timed_out {
        return Some((RunStatus::TimedOut, "its time was up".to_owned()));
    }
    if exit.lost {
        return Some((RunStatus::Lost, "its runner was killed, so its end is not known".to_owned()));
    }
    if exit.code == 0 {
        return None;
    }
    let how = match exit.signal {
        Some(9) if exit.oom => "it ran out of memory".to_owned(),
        Some(signal) => format!("it was killed by signal {signal}"),
        None => format!("it ended with exit code {}", exit.code),
    };
    // A child of it, as a rule; else another run of its agent.
    let child = exit.oom && exit.signal != Some(9);
    let memory = if child { ", and a process in its container was killed for memory meanwhile" } else { "" };
    Some((RunStatus::Failed, how + memory))
}

fn because(how: &str, stderr: &str) -> String {
    let last = last_paragraph(stderr);
    if last.is_empty() { how.to_owned() } else { format!("{how}: {last}") }
}

/// `error` of a result: a text, or an object with a message.
fn told_error(json: &Value) -> Option<String> {
    let error = json.get("error")?;
    let text = error.as_str().or_else(|| error.get("message")?.as_str());
    Some(text.map_or_else(|| error.to_string(), str::to_owned)).filter(|e| !e.is_empty() && e != "null")
}

fn told_summary(json: &Value) -> Option<String> {
    ["summary", "message", "text"].iter().find_map(|key| json.get(key)?.as_str()).map(str::to_owned)
}

/// The lines behind the last empty line.
fn last_paragraph(text: &str) -> String {
    let mut lines: Vec<&str> =
        text.trim_end().lines().rev().take_while(|line| !line.trim().is_empty()).take(20).collect();
    lines.reverse();
    lines.join("\n").trim().to_owned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OK: Exit =
        Exit { code: 0, signal: None, timed_out: false, oom: false, lost: false, ended_ms: None };

    fn said<'a>(stdout: &'a str, stderr: &'a str) -> Said<'a> {
        Said { stdout, cut: None, stderr, summary: None }
    }

    #[test]
    fn json_on_standard_output_is_the_result() {
        let outcome = direct(OK, &said("{\"success\": true, \"message\": \"posted\", \"id\": 7}\n", "noise"));
        assert_eq!(outcome.status, RunStatus::Succeeded);
        assert_eq!(outcome.result, Some(json!({"success": true, "message": "posted", "id": 7})));
        assert_eq!((outcome.summary.as_deref(), outcome.error), (Some("posted"), None));
    }

    #[test]
    fn text_is_a_result_too_and_silence_is_none() {
        let outcome = direct(OK, &said("hello\nworld\n", ""));
        assert_eq!(outcome.result, Some(json!("hello\nworld")));
        assert_eq!(outcome.summary.as_deref(), Some("hello world"));
        let silent = direct(OK, &said("", ""));
        assert_eq!((silent.status, silent.result, silent.summary), (RunStatus::Succeeded, None, None));
    }

    #[test]
    fn success_false_fails_with_its_error_although_the_exit_code_is_0() {
        for (stdout, error) in [
            (r#"{"success": false, "error": "no route"}"#, "no route"),
            (r#"{"success": false, "error": {"message": "no route", "code": 3}}"#, "no route"),
            (r#"{"success": false, "error": {"code": 3}}"#, r#"{"code":3}"#),
            (r#"{"success": false}"#, "it answered success: false"),
        ] {
            let outcome = direct(OK, &said(stdout, ""));
            assert_eq!((outcome.status, outcome.error.as_deref()), (RunStatus::Failed, Some(error)));
            assert_eq!(outcome.exit_code, Some(0));
        }
        assert_eq!(direct(OK, &said(r#"{"success": "false"}"#, "")).status, RunStatus::Succeeded);
    }

    #[test]
    fn an_exit_code_fails_whatever_was_said() {
        let exit = Exit { code: 3, ..OK };
        let outcome = direct(exit, &said(r#"{"success": true}"#, "a\n\ncannot open x\n"));
        assert_eq!((outcome.status, outcome.exit_code), (RunStatus::Failed, Some(3)));
        assert_eq!(outcome.error.as_deref(), Some("it ended with exit code 3: cannot open x"));
        let told = direct(exit, &said(r#"{"success": false, "error": "quota"}"#, "trace"));
        assert_eq!(told.error.as_deref(), Some("it ended with exit code 3: quota"));
    }

    #[test]
    fn time_memory_signals_and_losses_are_told_apart() {
        let timed_out = Exit { code: 137, signal: Some(9), timed_out: true, ..OK };
        assert_eq!(direct(timed_out, &said("", "")).status, RunStatus::TimedOut);
        let oom = direct(Exit { code: 137, signal: Some(9), oom: true, ..OK }, &said("", ""));
        assert_eq!(oom.error.as_deref(), Some("it ran out of memory"));
        let child = direct(Exit { code: 137, oom: true, ..OK }, &said("", "Killed"));
        assert_eq!(
            child.error.as_deref(),
            Some(
                "it ended with exit code 137, and a process in its container was killed for memory meanwhile: Killed"
            )
        );
        let killed = direct(Exit { code: 143, signal: Some(15), ..OK }, &said("", ""));
        assert_eq!(killed.error.as_deref(), Some("it was killed by signal 15"));
        let lost = direct(Exit { lost: true, ..OK }, &said("", ""));
        assert_eq!((lost.status, lost.exit_code), (RunStatus::Lost, None));
    }

    #[test]
    fn half_a_json_or_one_that_is_too_long_is_text() {
        assert_eq!(direct(OK, &said("{\"a\": ", "")).result, Some(json!("{\"a\":")));
        let cut = Said { cut: Some(Cut { kept: MAX_RESULT, refused: Some(false) }), ..said("[1]", "") };
        assert_eq!(direct(OK, &cut).result, Some(json!("[1]")));
    }

    #[test]
    fn what_was_cut_is_judged_by_all_of_it_and_told() {
        let of = |stdout: &'static str, kept, refused| {
            let outcome = direct(OK, &Said { cut: Some(Cut { kept, refused }), ..said(stdout, "") });
            (outcome.status, outcome.warning.unwrap(), outcome.error)
        };
        let rows = "{\"rows\": \"xx";
        let (status, warning, error) = of(rows, MAX_RESULT, Some(true));
        assert_eq!(
            (status, warning.as_str()),
            (RunStatus::Failed, "the output was cut after 256 KiB, so it is taken as text")
        );
        assert_eq!(
            error.as_deref(),
            Some("it answered success: false, and its output was cut after 256 KiB: {\"rows\": \"xx")
        );
        let (status, warning, error) = of(rows, 1 << 20, Some(false));
        assert_eq!((status, error), (RunStatus::Succeeded, None));
        assert_eq!(warning, "the output was cut after 1 MiB, so it is taken as text");
        let (status, warning, _) = of(rows, 1 << 20, None);
        assert_eq!(status, RunStatus::Succeeded);
        assert!(warning.ends_with("; whether it says success: false is not known"), "{warning}");
        assert!(!of("a log", 1 << 20, None).1.contains("success"));
    }

    #[test]
    fn a_refusal_that_fails_nothing_is_told() {
        let warned = |stdout: &str| {
            let outcome = direct(OK, &said(stdout, ""));
            assert_eq!((outcome.status, outcome.error), (RunStatus::Succeeded, None), "{stdout}");
            outcome.warning
        };
        let text = warned(r#"{"success": "False"}"#).unwrap();
        assert_eq!(
            text,
            "it answered \"success\": \"False\", a text, which fails nothing: only the boolean false does"
        );
        for hidden in [
            "reading\n{\"success\": false}",
            "a\n{\n \"error\": {\n},\n\"success\":\nfalse}\n",
            "{}\n {\"success\": false}",
        ] {
            let told = warned(hidden).unwrap_or_default();
            assert!(
                told.contains("JSON that says success: false") && told.contains("standard error"),
                "{hidden}: {told}"
            );
        }
        for fine in [
            "reading\n{\"success\": true}",
            "{\"success\": false}\ndone",
            "{\"success\": \"yes\"}",
            "{\"a\": {\"success\": \"false\"}}",
            "\"success\"\nfalse",
        ] {
            assert_eq!(warned(fine), None, "{fine}");
        }
    }

    #[test]
    fn half_a_json_succeeds_with_a_warning_and_fails_where_it_says_so() {
        let told = |stdout: &str| {
            let outcome = direct(OK, &said(stdout, ""));
            (outcome.status, outcome.warning, outcome.error)
        };
        let warned = "the output begins like JSON and does not end like it, so it is taken as text";
        for half in
            ["{", "[", "[1, 2", "{\"success\": true, \"result\": \"on", "{\"success\": fals", " {\"a\": {}\n"]
        {
            assert_eq!(told(half), (RunStatus::Succeeded, Some(warned.to_owned()), None), "{half}");
        }
        for text in
            ["[INFO] done", "{{name}} is here", "{a}", "12", "\"x", "{} {}", "{\"a\": 1}", "[1] bees", ""]
        {
            assert_eq!(told(text), (RunStatus::Succeeded, None, None), "{text}");
        }
        let (status, warning, error) = told("{ \"success\" : false, \"error\": \"no rou");
        assert_eq!((status, warning.as_deref()), (RunStatus::Failed, Some(warned)));
        assert_eq!(
            error.as_deref(),
            Some(
                "it answered success: false, and the output begins like JSON and does not end like it: \
                 { \"success\" : false, \"error\": \"no rou"
            )
        );
    }

    #[test]
    fn an_agents_summary_is_its_own_or_the_end_of_what_it_said() {
        let text = "I looked.\n\nThen I wrote\nthe report.\n";
        assert_eq!(agent(OK, &said(text, "")).summary.as_deref(), Some("Then I wrote the report."));
        let own = Said { summary: Some(" Report written.\n"), ..said(text, "") };
        assert_eq!(agent(OK, &own).summary.as_deref(), Some("Report written."));
        let failed = agent(Exit { code: 1, ..OK }, &said("", "no credit"));
        assert_eq!(failed.error.as_deref(), Some("it ended with exit code 1: no credit"));
        assert_eq!(failed.summary.as_deref(), failed.error.as_deref());
    }

    #[test]
    fn what_is_shown_in_lists_stays_short() {
        let outcome = direct(OK, &said(&"x ".repeat(9_000), ""));
        assert_eq!(outcome.summary.unwrap().chars().count(), MAX_SUMMARY);
    }
}

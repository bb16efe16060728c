//! An event in a line for people.

use serde_json::Value;

use super::super::{ui::short, when::Clock};
use crate::app::job_types::EventView;

/// Characters of one value.
const VALUE: usize = 100;

/// Number, time, name, and what it says.
pub(super) fn line(event: &EventView, clock: &Clock) -> String {
    let time = clock.read(&event.at).map_or_else(
        || short(&event.at, 20),
        |at| at.with_time_zone(clock.zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    );
    let name = short(&event.name, VALUE);
    format!("{:>6}  {time}  {name:<16}  {}", event.id, says(&event.data)).trim_end().to_owned()
}

/// `run=12 agent=writer`; what is null is left out.
fn says(data: &Value) -> String {
    match data {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields
                .map(|(key, field)| format!("{}={}", short(key, VALUE), value(field)))
                .collect::<Vec<_>>()
                .join(" ")
        }
        Value::Null => String::new(),
        other => value(other),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && !text.contains(char::is_whitespace) => short(text, VALUE),
        other => short(&other.to_string(), VALUE),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_a_line_of_what_it_says() {
        let clock = Clock {
            now: "2026-01-02T06:00:00Z".parse().unwrap(),
            zone: jiff::tz::TimeZone::get("Europe/Berlin").unwrap(),
        };
        let event = |id: i64, name: &str, data: Value| EventView {
            id,
            at: "2026-01-02T05:00:00.123Z".into(),
            name: name.into(),
            data,
        };
        let lines = [
            event(
                7,
                "run:succeeded",
                json!({"run": 12, "agent": "writer", "reason": null, "summary": "two words"}),
            ),
            event(1_234_567, "report", json!(["a\u{1b}[2J", {"b": 1}])),
            event(8, "hive:halted", json!(null)),
        ];
        let text: Vec<String> = lines.iter().map(|event| line(event, &clock)).collect();
        insta::assert_snapshot!(text.join("\n"), @r#"
             7  2026-01-02 06:00:00  run:succeeded     run=12 agent=writer summary="two words"
        1234567  2026-01-02 06:00:00  report            ["a\u001b[2J",{"b":1}]
             8  2026-01-02 06:00:00  hive:halted
        "#);
    }
}

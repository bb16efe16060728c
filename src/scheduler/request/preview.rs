//! `POST /v1/schedules/preview`: when a schedule would fire.
//!
//! Reads the trigger as a job's is read, and asks it.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Context, Fault, count,
    keys::{PREVIEW, TRIGGER},
    reader::{Field, Place, Reader, Scope},
    trigger::{self, Outcome, Terms},
    view::shown,
};
use crate::scheduler::{job::TriggerSpec, rules, trigger::Trigger};

/// Fire times that are told when no count is written.
const COUNT: u32 = 5;
/// How many may be asked for.
const COUNTS: std::ops::RangeInclusive<i64> = 1..=1_000;

/// When a schedule fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// RFC 3339, with the offset that holds in the schedule's zone then.
    pub fires: Vec<String>,
    /// Its minutes or hours begin with `*`, which decides about clock changes (scheduling.md).
    pub wildcard: bool,
}

/// Reads `{schedule | every | at, timezone?, after?, count?}`. `after` is now when it is not written, and then a time
/// that is past is refused as for a job. An interval is counted from `after`.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn preview(body: &Value, ctx: &Context<'_>) -> Result<Preview, Vec<Fault>> {
    let mut r = Reader::default();
    let field = Field { place: Place::default(), key: "the body".to_owned(), value: body.clone() };
    let Some(mut root) = r.scope(&field, &[PREVIEW, TRIGGER], false) else {
        return Err(r.faults);
    };
    let limit = root.take_value("count").map_or(Some(COUNT), |field| count(&mut r, &field, &COUNTS));
    let after = after(&mut r, &mut root, ctx);
    let terms = Terms { now: after, zone: ctx.zone, old: None };
    match trigger::read(&mut r, &mut root, &terms, &mut Vec::new()) {
        Outcome::Is(TriggerSpec::Event { .. } | TriggerSpec::Manual) | Outcome::Nothing => {
            r.fault(&Place::default(), "there is no schedule to preview", "write schedule, every or at");
        }
        Outcome::Is(spec) if r.faults.is_empty() => match spec.compile() {
            Ok(trigger) => {
                return Ok(fires(&trigger, spec.zone().unwrap_or(ctx.zone), after, limit.unwrap_or(COUNT)));
            }
            Err(e) => r.fault(&Place::default(), e.0, ""),
        },
        Outcome::Is(_) | Outcome::Refused => {}
    }
    Err(r.faults)
}

/// Where the preview begins.
fn after(r: &mut Reader, root: &mut Scope, ctx: &Context<'_>) -> Timestamp {
    let Some(field) = root.take_value("after") else {
        return ctx.now;
    };
    // A zone that is wrong is told when the trigger is read.
    let zone = root.get("timezone").and_then(|field| rules::zone(field.value.as_str()?).ok());
    let written =
        r.text(&field).map(|text| rules::one_shot(&whole(text), zone.as_deref().unwrap_or(ctx.zone)));
    match written.and_then(|at| r.accept(&field.place, at)) {
        Some(TriggerSpec::OneShot { at, .. }) => at,
        _ => ctx.now,
    }
}

/// A day begins at midnight.
fn whole(text: &str) -> String {
    let text = text.trim();
    let day = text.len() == "2026-12-24".len() && text.parse::<jiff::civil::Date>().is_ok();
    if day { format!("{text}T00:00:00") } else { text.to_owned() }
}

fn fires(trigger: &Trigger, zone: &str, after: Timestamp, limit: u32) -> Preview {
    let wildcard = matches!(trigger, Trigger::Cron(schedule) if schedule.is_wildcard());
    if let Trigger::OneShot(at) = trigger {
        return Preview { fires: vec![shown(*at, Some(zone))], wildcard };
    }
    let all = trigger.after(after, after).take(limit as usize);
    Preview { fires: all.map(|fire| shown(fire.at, Some(zone))).collect(), wildcard }
}

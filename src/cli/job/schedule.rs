//! The fire times of a schedule that is no job yet. Computed here, as the supervisor would; only one that was named
//! is asked.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value};

use super::super::{
    failure::{Failure, USAGE},
    hive::Context,
};
use crate::{app::job_types::Preview, config, scheduler::request};

/// The fire times.
///
/// # Errors
/// The schedule is refused.
pub(super) async fn preview(context: &Context, body: &Map<String, Value>) -> Result<Preview, Failure> {
    if context.host.is_some() {
        return context.client()?.exchange("/v1/schedules/preview", body).await;
    }
    compute(body, &zone(context), Timestamp::now())
}

fn compute(body: &Map<String, Value>, zone: &str, now: Timestamp) -> Result<Preview, Failure> {
    let terms = request::Context { now, zone, caller: None, default_agent: None };
    let preview = request::preview(&Value::Object(body.clone()), &terms).map_err(refused)?;
    Ok(Preview { fires: preview.fires, wildcard: preview.wildcard, reason: None })
}

/// The hive's zone; outside of a hive, or in one that is wrong, this machine's.
fn zone(context: &Context) -> String {
    let loaded = context.hive().ok().and_then(|hive| config::load(&hive.root).ok());
    let here = || TimeZone::system().iana_name().unwrap_or("UTC").to_owned();
    loaded.map_or_else(here, |loaded| loaded.config.zone)
}

fn refused(faults: Vec<request::Fault>) -> Failure {
    let mut reasons = faults.into_iter().map(|fault| fault.detail);
    let first = reasons.next().unwrap_or_default();
    Failure { code: USAGE, details: reasons.collect(), ..Failure::new(first) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fires(body: &Value) -> Result<Vec<String>, Failure> {
        let now = "2026-03-28T12:00:00Z".parse().unwrap();
        compute(body.as_object().unwrap(), "Europe/Berlin", now).map(|preview| preview.fires)
    }

    #[test]
    fn a_schedule_fires_in_the_hives_zone_or_in_its_own() {
        assert_eq!(
            fires(&json!({"schedule": "30 2 * * *", "count": 2})).unwrap(),
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
        );
        assert_eq!(
            fires(&json!({"at": "2026-12-24T18:00:00", "timezone": "Asia/Tokyo", "count": 5})).unwrap(),
            ["2026-12-24T18:00:00+09:00"]
        );
    }

    #[test]
    fn every_mistake_is_told() {
        let failure = fires(&json!({"schedule": "61 * * * *", "timezone": "Europe/Berlim"})).unwrap_err();
        assert_eq!(failure.code, 2);
        let told = [vec![failure.message], failure.details].concat().join("\n");
        assert!(told.contains("61") && told.contains("Europe/Berlin"), "{told}");
    }
}

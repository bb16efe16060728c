//! Previews of fire times.

use super::*;

fn previewed(body: &Value) -> Result<Preview, Vec<Fault>> {
    with_context(|ctx| preview(body, ctx))
}

#[test]
fn fire_times_are_told_in_the_zone_of_the_schedule() {
    #[rustfmt::skip]
    let cases = [
        (json!({"schedule": "0 9 * * *", "count": 2}), vec!["2026-02-15T09:00:00-05:00", "2026-02-16T09:00:00-05:00"], false),
        (json!({"schedule": "0 9 * * *", "timezone": "Asia/Tokyo", "count": "1"}), vec!["2026-02-15T09:00:00+09:00"], false),
        (json!({"cron": "0 * * * *", "count": 1}), vec!["2026-02-14T13:00:00-05:00"], true),
        (json!({"schedule": "30 2 * * *", "after": "2026-03-08T00:00:00", "count": 2}), vec!["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"], false),
        (json!({"schedule": "30 2 * * *", "after": "2026-03-08", "count": 1}), vec!["2026-03-08T03:00:00-04:00"], false),
        (json!({"schedule": "30 2 * * *", "after": "2026-03-08 12:00", "count": 1}), vec!["2026-03-09T02:30:00-04:00"], false),
        (json!({"schedule": "30 2 * * *", "after": "2026-03-09T02:29-05:00", "count": 1}), vec!["2026-03-10T02:30:00-04:00"], false),
        (json!({"schedule": "30 2 * * *", "after": "2026-03-09T06:29:59Z", "count": 1}), vec!["2026-03-09T02:30:00-04:00"], false),
        (json!({"every": "90m", "count": 2}), vec!["2026-02-14T13:30:00-05:00", "2026-02-14T15:00:00-05:00"], false),
        (json!({"interval_minutes": 30, "after": "2026-01-01T00:00:00Z", "count": 1}), vec!["2025-12-31T19:30:00-05:00"], false),
        (json!({"at": "2026-12-24T18:00:00"}), vec!["2026-12-24T18:00:00-05:00"], false),
        (json!({"at": "2026-01-02T18:00:00", "after": "2026-01-01T00:00:00Z"}), vec!["2026-01-02T18:00:00-05:00"], false),
        (json!({"in_minutes": 5}), vec!["2026-02-14T12:05:00-05:00"], false),
    ];
    for (body, fires, wildcard) in cases {
        let told = previewed(&body).unwrap_or_else(|faults| panic!("{body}\n{faults:#?}"));
        assert_eq!(
            (told.fires, told.wildcard),
            (fires.iter().map(ToString::to_string).collect(), wildcard),
            "{body}"
        );
    }
    assert_eq!(previewed(&json!({"every": "1s"})).unwrap().fires.len(), 5);
    assert_eq!(previewed(&json!({"every": "1s", "count": 1000})).unwrap().fires.len(), 1000);
}

#[test]
fn what_has_no_fire_times_is_refused_with_the_reason() {
    for (body, place, told) in [
        (json!({}), "", "no schedule"),
        (json!({"manual": true}), "", "no schedule"),
        (json!({"event": "x"}), "", "no schedule"),
        (json!([]), "", "must be an object"),
        (json!({"schedule": "0 0 31 4 *"}), "/schedule", "never"),
        (json!({"schedule": "0 9 *"}), "/schedule", "0 9 *"),
        (json!({"at": "2026-02-14T11:00:00"}), "/at", "in the past"),
        (json!({"every": "1h", "count": 0}), "/count", "from 1 to 1000"),
        (json!({"every": "1h", "count": 1001}), "/count", "from 1 to 1000"),
        (json!({"every": "1h", "after": "soon"}), "/after", "cannot be read"),
        (json!({"every": "1h", "at": "2027-01-01T00:00:00"}), "/at", "both written"),
        (json!({"schedule": "0 9 * * *", "timezone": "Mars"}), "/timezone", "not known"),
        (json!({"schedule": "0 9 * * *", "name": "x"}), "/name", "belongs in the job itself"),
    ] {
        let faults = previewed(&body).unwrap_err();
        assert_eq!(faults.len(), 1, "{body}\n{faults:#?}");
        assert_eq!(faults[0].pointer, place, "{body}");
        assert!(faults[0].detail.contains(told), "{body}: {faults:?}");
    }
}

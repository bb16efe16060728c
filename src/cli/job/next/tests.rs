use super::*;
use crate::cli::job::tests::clock;

fn preview(fires: &[&str], wildcard: bool) -> Preview {
    Preview { fires: fires.iter().map(|at| (*at).to_owned()).collect(), wildcard, reason: None }
}

#[test]
fn fire_times_are_told_with_day_offset_and_distance() {
    let preview = preview(
        &["2026-01-02T09:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-01-01T09:00:00+01:00"],
        false,
    );
    let text = [lines(&preview, &clock()), notes(&preview)].concat().join("\n");
    insta::assert_snapshot!(text, @r"
    Fri 2026-01-02 09:00:00 +01:00  in 2 h
    Sun 2026-03-29 03:00:00 +02:00  in 85 d
    Thu 2026-01-01 09:00:00 +01:00  22 h ago
    the clocks change in between: a fire time in the hour left out fires at its end, one in the hour that comes twice fires the first time only
    ");
}

#[test]
fn without_a_fire_time_the_reason_is_told() {
    let none = Preview { reason: Some("the job is paused".into()), ..preview(&[], false) };
    assert_eq!(notes(&none), ["the job is paused"]);
    assert_eq!(notes(&preview(&[], false)), ["there is no fire time to come"]);
    assert!(notes(&preview(&["2026-01-02T09:00:00Z"], true)).is_empty());
}

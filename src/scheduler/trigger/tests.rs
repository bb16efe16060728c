#![allow(clippy::unwrap_used)]

mod dates;
mod oracle;
mod refused;
mod zones;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn ts(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(expression: &str, zone: &str) -> CronSchedule {
    CronSchedule::parse(expression, zone).unwrap_or_else(|e| panic!("{expression} in {zone}: {e}"))
}

/// The first fire times after an instant, as the clock there shows them.
fn fires(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = cron(expression, zone);
    let zone = super::zone(zone).unwrap();
    let mut fires = Vec::new();
    let mut at = ts(after);
    for _ in 0..count {
        at = schedule.next(at).unwrap().at;
        fires.push(at.to_zoned(zone.clone()).strftime("%a %F %T %:z").to_string());
    }
    let in_a_row: Vec<_> = schedule.after(ts(after)).take(count).map(|f| f.at).collect();
    assert_eq!(in_a_row.last(), Some(&at), "one after the other and in a row");
    fires
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/cron.json")).unwrap()
}

#[test]
fn every_vector_fires_when_it_says() {
    let vectors = vectors();
    let cases = vectors["cases"].as_array().unwrap();
    assert!(cases.len() >= 32);
    for case in cases {
        let text = |key: &str| case[key].as_str().unwrap();
        let expected: Vec<_> =
            case["fires"].as_array().unwrap().iter().map(|f| ts(f.as_str().unwrap())).collect();
        let schedule = cron(text("expression"), text("zone"));
        let mut at = ts(text("after"));
        for fire in &expected {
            at = schedule.next(at).unwrap().at;
            assert_eq!(at, *fire, "{case}");
        }
        let row: Vec<_> = schedule.after(ts(text("after"))).take(expected.len()).map(|f| f.at).collect();
        assert_eq!(row, expected, "{case}");
    }
}

#[test]
fn every_refused_vector_is_refused() {
    let vectors = vectors();
    let cases = vectors["refuse"].as_array().unwrap();
    assert!(cases.len() >= 10);
    for case in cases {
        let expression = case["expression"].as_str().unwrap();
        assert!(CronSchedule::parse(expression, "UTC").is_err(), "{case}");
    }
}

#[test]
fn a_fire_time_at_the_end_of_a_gap_remembers_the_time_that_was_left_out() {
    let schedule = cron("15,45 2,3 * * *", "America/New_York");
    let fires: Vec<_> = schedule.after(ts("2025-03-09T05:00:00Z")).take(3).collect();
    assert_eq!(fires[0].at, ts("2025-03-09T03:00:00-04:00"));
    assert_eq!(fires[0].shifted_from, Some(civil::date(2025, 3, 9).at(2, 15, 0, 0)));
    assert_eq!(fires[1], Fire::on_time(ts("2025-03-09T03:15:00-04:00")));
    assert_eq!(fires[2], Fire::on_time(ts("2025-03-09T03:45:00-04:00")));
}

#[test]
fn a_time_left_out_coalesces_with_one_that_falls_on_the_end_of_the_gap() {
    let schedule = cron("0,30 2,3 * * *", "America/New_York");
    let fires: Vec<_> = schedule.after(ts("2025-03-09T05:00:00Z")).take(2).collect();
    assert_eq!(fires[0].at, ts("2025-03-09T03:00:00-04:00"));
    assert_eq!(fires[0].shifted_from, Some(civil::date(2025, 3, 9).at(2, 0, 0, 0)));
    assert_eq!(fires[1].at, ts("2025-03-09T03:30:00-04:00"));
    assert_eq!(schedule.next(ts("2025-03-09T06:59:59.5Z")).unwrap(), fires[0]);
    assert_eq!(schedule.next(ts("2025-03-09T07:00:00Z")).unwrap(), fires[1], "not again at the same instant");
}

#[test]
fn a_day_that_a_zone_skips_fires_at_the_start_of_the_next_once() {
    // Samoa went from 29 to 31 December 2011.
    let apia = |expression| fires(expression, "Pacific/Apia", "2011-12-30T09:30:00Z", 2);
    assert_eq!(apia("0 12 30 * *"), ["Sat 2011-12-31 00:00:00 +14:00", "Mon 2012-01-30 12:00:00 +14:00"]);
    assert_eq!(apia("0 8-20 * * FRI"), ["Sat 2011-12-31 00:00:00 +14:00", "Fri 2012-01-06 08:00:00 +14:00"]);
    assert_eq!(apia("0 0 * * *"), ["Sat 2011-12-31 00:00:00 +14:00", "Sun 2012-01-01 00:00:00 +14:00"]);
    assert_eq!(apia("0 */6 30 * *"), ["Mon 2012-01-30 00:00:00 +14:00", "Mon 2012-01-30 06:00:00 +14:00"]);
    // Kwajalein left out 21 August 1993 at its midnight.
    assert_eq!(
        fires("0 9 21 8 *", "Pacific/Kwajalein", "1993-08-20T00:00:00Z", 2),
        ["Sun 1993-08-22 00:00:00 +12:00", "Sun 1994-08-21 09:00:00 +12:00"]
    );
}

#[test]
fn a_gap_over_midnight_fires_on_the_next_day_whatever_the_date_says() {
    // Greenland: on 28 March 2026 the clock goes from 22:59:59 to 00:00:00.
    let nuuk = |expression| fires(expression, "America/Nuuk", "2026-03-28T12:00:00Z", 1);
    for fixed in ["30 23 28 3 *", "30 23 * * SAT", "30 23 28 * *", "0,10 23 * 3 SAT"] {
        assert_eq!(nuuk(fixed), ["Sun 2026-03-29 00:00:00 -01:00"], "{fixed}");
    }
    assert_eq!(nuuk("*/30 23 28 3 *"), ["Sun 2027-03-28 23:00:00 -01:00"]);
}

#[test]
fn seconds_do_not_make_a_schedule_wildcard() {
    for (expression, wildcard) in [
        ("* 30 2 * * *", false),
        ("*/5 30 2 * * *", false),
        ("0 * 2 * * *", true),
        ("0 30 * * * *", true),
        ("30 2 * * *", false),
        ("0,*/30 2 * * *", false),
        ("*/30,5 2 * * *", true),
        ("30 */2 * * *", true),
        ("0-59 0-23 * * *", false),
        ("@hourly", true),
        ("@daily", false),
    ] {
        assert_eq!(cron(expression, "UTC").is_wildcard(), wildcard, "{expression}");
    }
    let gap = fires("* 30 2 * * *", "America/New_York", "2025-03-09T05:00:00Z", 2);
    assert_eq!(gap, ["Sun 2025-03-09 03:00:00 -04:00", "Mon 2025-03-10 02:30:00 -04:00"]);
    let fold = fires("59 59 1 * * *", "America/New_York", "2025-11-02T00:00:00Z", 2);
    assert_eq!(fold, ["Sun 2025-11-02 01:59:59 -04:00", "Mon 2025-11-03 01:59:59 -05:00"]);
}

#[test]
fn a_fixed_schedule_asked_in_the_second_pass_goes_on_after_it() {
    // Lord Howe goes back by half an hour at 02:00 on 7 April 2019.
    let at = |after| fires("0-59/10 1-2 * * *", "Australia/Lord_Howe", after, 2);
    assert_eq!(
        at("2019-04-07T01:40:00+11:00"),
        ["Sun 2019-04-07 01:50:00 +11:00", "Sun 2019-04-07 02:00:00 +10:30"]
    );
    assert_eq!(
        at("2019-04-07T01:40:00+10:30"),
        ["Sun 2019-04-07 02:00:00 +10:30", "Sun 2019-04-07 02:10:00 +10:30"]
    );
    let star = fires("*/10 1 * * *", "Australia/Lord_Howe", "2019-04-07T01:40:00+11:00", 4);
    let times = ["01:50:00 +11:00", "01:30:00 +10:30", "01:40:00 +10:30", "01:50:00 +10:30"];
    assert_eq!(star, times.map(|t| format!("Sun 2019-04-07 {t}")));
}

#[test]
fn rare_dates_are_found() {
    let utc = |expression| fires(expression, "UTC", "2096-03-01T00:00:00Z", 2);
    assert_eq!(utc("0 0 29 2 *"), ["Fri 2104-02-29 00:00:00 +00:00", "Wed 2108-02-29 00:00:00 +00:00"]);
    // Both days count when one starts with `*`.
    assert_eq!(utc("0 0 29 2 */7"), ["Sun 2128-02-29 00:00:00 +00:00", "Sun 2156-02-29 00:00:00 +00:00"]);
    assert_eq!(utc("0 0 * 2 MON#5"), ["Mon 2112-02-29 00:00:00 +00:00", "Mon 2140-02-29 00:00:00 +00:00"]);
}

#[test]
fn the_end_of_time_is_an_end() {
    for zone in ["UTC", "Pacific/Apia", "America/New_York", "Europe/Berlin", "Africa/Casablanca"] {
        for expression in ["* * * * * *", "0 0 1 1 *", "30 2 * * *", "*/5 * 29 2 MON", "0 0 31 12 *"] {
            let schedule = cron(expression, zone);
            assert_eq!(schedule.next(Timestamp::MAX), None, "{expression} in {zone}");
            let late = ts("9999-12-29T00:00:00Z");
            let mut last = late;
            for fire in schedule.after(late).take(200_000) {
                assert!(fire.at > last);
                last = fire.at;
            }
            let first = schedule.next(Timestamp::MIN).unwrap();
            assert!(first.at > Timestamp::MIN, "{expression} in {zone}");
        }
    }
}

#[test]
fn an_expression_is_kept_as_written_and_a_zone_by_its_name() {
    let schedule = cron("  0 9 * jan-mar,Dec mon-FRI ", "europe/berlin");
    assert_eq!((schedule.expression(), schedule.zone()), ("0 9 * jan-mar,Dec mon-FRI", "Europe/Berlin"));
    assert_eq!(cron("@Daily", "utc").expression(), "@Daily");
}

#[test]
fn an_interval_counts_from_its_anchor_and_skips_what_has_passed() {
    let every = Trigger::Interval(Duration::from_secs(90));
    let anchor = ts("2026-01-01T00:00:00Z");
    let next = |after| every.next(anchor, ts(after)).unwrap().at;
    assert_eq!(next("2026-01-01T00:00:00Z"), ts("2026-01-01T00:01:30Z"));
    assert_eq!(next("2026-01-01T00:01:30Z"), ts("2026-01-01T00:03:00Z"));
    assert_eq!(next("2026-01-01T00:01:29.999999999Z"), ts("2026-01-01T00:01:30Z"));
    assert_eq!(next("2026-02-01T00:00:01Z"), ts("2026-02-01T00:01:30Z"));
    assert_eq!(next("2025-06-01T00:00:00Z"), ts("2026-01-01T00:01:30Z"), "the clock went back");
    assert_eq!(every.next(anchor, Timestamp::MAX), None);
    assert_eq!(Trigger::Interval(Duration::ZERO).next(anchor, anchor), None);
    assert_eq!(Trigger::Interval(Duration::MAX).next(Timestamp::MIN, anchor), None);
}

#[test]
fn one_time_fires_once_and_events_fire_never_by_themselves() {
    let at = ts("2026-01-01T00:00:00Z");
    let once = Trigger::OneShot(at);
    assert_eq!(once.next(at, ts("2025-01-01T00:00:00Z")), Some(Fire::on_time(at)));
    assert_eq!(once.next(at, at), None);
    let (fires, more) = once.between(at, Timestamp::MIN, Timestamp::MAX, 10);
    assert_eq!((fires, more), (vec![Fire::on_time(at)], false));
    for never in [Trigger::Event(vec!["report".into()]), Trigger::Manual] {
        assert_eq!(never.next(at, at), None);
        assert_eq!(never.between(at, Timestamp::MIN, Timestamp::MAX, 10), (vec![], false));
    }
}

#[test]
fn a_span_of_time_has_the_fire_times_after_its_start_up_to_its_end() {
    let (start, end) = (ts("2026-05-01T00:00:00Z"), ts("2026-05-01T08:00:00Z"));
    let trigger = Trigger::Cron(cron("* * * * * *", "Europe/Berlin"));
    let (fires, more) = trigger.between(start, start, end, 100_000);
    assert_eq!((fires.len(), more), (28_800, false));
    assert_eq!((fires[0].at, fires[28_799].at), (ts("2026-05-01T00:00:01Z"), end));
    let (fires, more) = trigger.between(start, start, end, 28_799);
    assert_eq!((fires.len(), more), (28_799, true));
    assert_eq!(trigger.between(start, start, end, 0), (vec![], true));
    assert_eq!(trigger.between(start, end, start, 10), (vec![], false));
    let (fires, more) = Trigger::Interval(Duration::from_secs(3600)).between(start, start, end, 8);
    assert_eq!((fires.len(), more), (8, false));
}

proptest! {
    #[test]
    fn no_text_makes_the_readers_panic(text in "\\PC{0,40}", short in "[-0-9*/,LW#?@A-Z ]{0,24}", zone in "\\PC{0,20}") {
        drop((CronSchedule::parse(&text, "UTC"), CronSchedule::parse(&short, &zone)));
        drop((super::zone(&zone), parse_every(&text), parse_at(&text, "UTC"), parse_at(&short, &zone)));
    }

    #[test]
    fn what_the_grammar_lets_through_the_library_reads(
        fields in prop::collection::vec("[-0-9*/,LW#MONSUJA]{1,6}", 5..=6)
    ) {
        let expression = fields.join(" ");
        if let Err(ScheduleError(reason)) = CronSchedule::parse(&expression, "UTC") {
            prop_assert!(!reason.contains("read as a schedule"), "{expression}: {reason}");
        }
    }

    #[test]
    fn an_interval_is_always_later_and_on_the_beat(
        every in 1_u64..400_000_000, anchor in -3_000_000_000_000_i64..3_000_000_000_000, passed in -9_000_000_000_i64..9_000_000_000_000
    ) {
        let anchor = Timestamp::from_millisecond(anchor).unwrap();
        let after = anchor + SignedDuration::from_millis(passed);
        let at = Trigger::Interval(Duration::from_millis(every)).next(anchor, after).unwrap().at;
        let beats = at.as_millisecond() - anchor.as_millisecond();
        prop_assert!(at > after && beats > 0 && beats % every.cast_signed() == 0);
        prop_assert!(beats == every.cast_signed() || at - SignedDuration::from_millis(every.cast_signed()) <= after);
    }
}

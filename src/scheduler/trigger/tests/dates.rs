//! Which days match, against their definition.

use jiff::{ToSpan as _, civil, civil::Date};
use proptest::prelude::*;

use super::{
    cron, fires,
    oracle::{Item, Numbers, Plan, Special},
    ts,
};

/// The days on which a schedule at noon UTC fires in some years.
fn days(expression: &str, years: std::ops::Range<i16>) -> Vec<Date> {
    let start = civil::date(years.start, 1, 1).in_tz("UTC").unwrap().timestamp();
    let end = civil::date(years.end, 1, 1);
    let noon = |fire: super::Fire| fire.at.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    let schedule = cron(expression, "UTC");
    let times = schedule.after(start).map(noon).take_while(|time| time.date() < end);
    times
        .inspect(|time| assert_eq!(time.time(), civil::time(12, 0, 0, 0)))
        .map(civil::DateTime::date)
        .collect()
}

fn calendar(years: std::ops::Range<i16>) -> impl Iterator<Item = Date> {
    let end = civil::date(years.end, 1, 1);
    civil::date(years.start, 1, 1).series(1.day()).take_while(move |date| *date < end)
}

#[test]
fn the_last_the_nearest_and_the_nth_days_are_those_of_the_calendar() {
    let month = [Special::Last, Special::LastWorkday].into_iter().chain((1..=31).map(Special::Nearest));
    let nth = (0..=7).flat_map(|day| (1..=5).map(move |n| Special::Nth(day, n)));
    let week = nth.chain((0..=7).map(Special::LastOf));
    let both = month.map(|s| (s, format!("0 12 {} * *", s.text())));
    for (special, expression) in both.chain(week.map(|s| (s, format!("0 12 * * {}", s.text())))) {
        let expected: Vec<_> = calendar(2023..2028).filter(|date| special.matches(*date)).collect();
        assert_eq!(days(&expression, 2023..2028), expected, "{expression}");
    }
}

#[test]
fn names_ranges_steps_and_lists_may_be_mixed() {
    for (expression, same) in [
        ("0 12 * JAN,MAR-MAY,12 *", "0 12 * 1,3,4,5,12 *"),
        ("0 12 * * mon-fri", "0 12 * * 1,2,3,4,5"),
        ("0 12 * * FRI-SUN", "0 12 * * 5,6,0"),
        ("0 12 * * SUN-TUE", "0 12 * * 0,1,2"),
        ("0 12 * * SUN", "0 12 * * 7"),
        ("0 12 * * 5-7", "0 12 * * 0,5,6"),
        ("0 12 * * MON-SAT/2", "0 12 * * 1,3,5"),
        ("0 12 10-20/5,1 * *", "0 12 1,10,15,20 * *"),
        ("0 12 ? * 2", "0 12 * * 2"),
        ("0 12 3 * ?", "0 12 3 * *"),
        ("0 12 * * FRIL", "0 12 * * 5L"),
        ("0 12 * * fri#2,MON#1", "0 12 * * 1#1,5#2"),
        ("0 12 * * 5#L", "0 12 * * 5L"),
        ("0 12 l * *", "0 12 L * *"),
        ("0 12 1w,lw * *", "0 12 1W,LW * *"),
        ("00 12 007 01 *", "0 12 7 1 *"),
    ] {
        assert_eq!(days(expression, 2025..2028), days(same, 2025..2028), "{expression}");
    }
}

#[test]
fn nicknames_stand_for_expressions() {
    let first = |nickname| fires(nickname, "Europe/Berlin", "2026-03-27T12:00:00Z", 2);
    assert_eq!(first("@yearly"), first("0 0 1 1 *"));
    assert_eq!(first("@annually"), first("0 0 1 1 *"));
    assert_eq!(first("@monthly"), first("0 0 1 * *"));
    assert_eq!(first("@weekly"), first("0 0 * * SUN"));
    assert_eq!(first("@daily"), first("0 0 * * *"));
    assert_eq!(first("@MIDNIGHT"), first("0 0 * * *"));
    assert_eq!(first("@hourly"), first("0 * * * *"));
}

#[test]
fn days_of_the_month_and_of_the_week_are_alternatives_unless_one_starts_with_a_star() {
    let both = |expression, from, count| -> Vec<String> { fires(expression, "UTC", from, count) };
    let july = "2026-07-01T12:00:00Z";
    assert_eq!(
        both("0 12 10 * MON", july, 3),
        [
            "Mon 2026-07-06 12:00:00 +00:00",
            "Fri 2026-07-10 12:00:00 +00:00",
            "Mon 2026-07-13 12:00:00 +00:00"
        ]
    );
    assert_eq!(
        both("0 12 */2 * MON", july, 3),
        [
            "Mon 2026-07-13 12:00:00 +00:00",
            "Mon 2026-07-27 12:00:00 +00:00",
            "Mon 2026-08-03 12:00:00 +00:00"
        ]
    );
    assert_eq!(
        both("0 12 13 * */5", july, 2),
        ["Sun 2026-09-13 12:00:00 +00:00", "Fri 2026-11-13 12:00:00 +00:00"]
    );
    assert_eq!(cron("0 12 1-31 * MON", "UTC").next(ts(july)).unwrap().at, ts("2026-07-02T12:00:00Z"));
}

/// A field's numbers, written in some way.
pub fn numbers(first: i8, last: i8) -> impl Strategy<Value = Numbers> {
    let item = (first..=last, first..=last, 1..=last, 0..3).prop_map(|(a, b, step, form)| match form {
        0 => Item::One(a),
        1 => Item::Range(a.min(b), a.max(b)),
        _ => Item::Stepped(a.min(b), a.max(b), step.min(7)),
    });
    let list = prop::collection::vec(item, 1..4).prop_map(|items| Numbers::list(&items));
    let star = (1..=last).prop_map(move |step| Numbers::star(first, last, step.min(7)));
    prop_oneof![2 => list, 1 => Just(Numbers::star(first, last, 1)), 1 => star]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn days_match_as_cron_says(day in numbers(1, 31), month in numbers(1, 12), weekday in numbers(0, 7)) {
        let plan = Plan { day, month, weekday, ..Plan::daily(Numbers::one(0), Numbers::one(12)) };
        let expected: Vec<_> = calendar(2023..2029).filter(|date| plan.date_matches(*date)).collect();
        match super::CronSchedule::parse(&plan.text(), "UTC") {
            Ok(_) => prop_assert_eq!(days(&plan.text(), 2023..2029), expected, "{}", plan.text()),
            Err(e) => prop_assert!(expected.is_empty() && e.0.contains("never fires"), "{}: {e}", plan.text()),
        }
    }
}

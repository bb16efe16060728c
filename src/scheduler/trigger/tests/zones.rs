//! Policy P in every zone that there is, around every change of its clock, against the definition.

use std::{
    collections::{BTreeSet, HashMap},
    thread,
};

use jiff::{
    civil::DateTime,
    tz::{self, Offset, TimeZone},
};
use proptest::prelude::*;

use super::{
    super::{CronSchedule, Fires},
    dates::numbers,
    oracle::{Clock, HOUR, Item, MINUTE, Numbers, Plan, changes, number, offset, second},
};

#[derive(Debug)]
struct Place {
    name: String,
    zone: TimeZone,
    changes: Vec<i64>,
}

impl Place {
    fn new(name: String, from: &str, to: &str) -> Self {
        let zone = tz::db().get(&name).unwrap();
        let changes = changes(&zone, super::ts(from).as_second(), super::ts(to).as_second());
        Self { name, zone, changes }
    }
}

fn names() -> Vec<String> {
    tz::db().available().map(|name| name.as_str().to_owned()).collect()
}

fn local(wall: i64) -> DateTime {
    Offset::UTC.to_datetime(second(wall))
}

/// Plans that a change matters to, of both kinds.
fn plans(zone: &TimeZone, change: i64) -> Vec<Plan> {
    let (before, after) = (change + offset(zone, change - MINUTE), change + offset(zone, change));
    let (low, high) = (before.min(after), before.max(after));
    // The end of the stretch itself is outside it.
    let [low, mid, last, high] = [low, low + (high - low) / 2, high - MINUTE, high].map(local);
    let one = |time: DateTime| Plan::daily(Numbers::one(time.minute()), Numbers::one(time.hour()));
    let list = |values: &[i8]| Numbers::list(&values.iter().map(|v| Item::One(*v)).collect::<Vec<_>>());
    let minutes = list(&[low.minute(), mid.minute(), last.minute()]);
    let hours = list(&[low.hour(), mid.hour(), high.hour()]);
    let each_hour = Numbers::list(&[Item::Range(0, 23)]);
    let weekday = Numbers::one(number(mid.date()));
    vec![
        one(low),
        one(mid),
        one(last),
        one(high),
        Plan::daily(minutes.clone(), hours.clone()),
        Plan { day: Numbers::one(mid.day()), month: Numbers::one(mid.month()), ..one(mid) },
        Plan {
            weekday: weekday.clone(),
            ..Plan::daily(Numbers::list(&[Item::Stepped(0, 59, 13)]), each_hour.clone())
        },
        Plan { second: Some(list(&[15, 45])), ..Plan::daily(minutes.clone(), hours.clone()) },
        Plan { second: Some(Numbers::star(0, 59, 20)), day: Numbers::one(mid.day()), weekday, ..one(mid) },
        Plan::daily(Numbers::list(&[Item::Range(0, 59)]), each_hour),
        Plan::daily(Numbers::star(0, 59, 1), Numbers::star(0, 23, 1)),
        Plan::daily(Numbers::star(0, 59, 7), hours),
        Plan::daily(minutes, Numbers::star(0, 23, 2)),
        Plan {
            second: Some(list(&[0, 59])),
            ..Plan::daily(Numbers::star(0, 59, 30), Numbers::star(0, 23, 1))
        },
    ]
}

/// A schedule, and its fire times around a change by the definition.
type Expected = (CronSchedule, Vec<i64>);

/// What the definition says around changes. The same change of another zone's clock has the same fire times.
#[derive(Default)]
struct Definition {
    schedules: HashMap<String, CronSchedule>,
    around: HashMap<(i64, i64, i64), Vec<Expected>>,
    compared: usize,
}

impl Definition {
    fn around(&mut self, zone: &TimeZone, change: i64, turn: usize) -> &[Expected] {
        let Self { schedules, around, .. } = self;
        let key = (change, offset(zone, change - MINUTE), offset(zone, change));
        around.entry(key).or_insert_with(|| {
            let clock = Clock::new(zone, change - SPAN, change + SPAN);
            let expected = |plan: Plan| {
                let schedule = schedules
                    .entry(plan.text())
                    .or_insert_with_key(|text| CronSchedule::parse(text, "UTC").unwrap());
                assert_eq!(schedule.is_wildcard(), plan.wildcard(), "{}", plan.text());
                (schedule.clone(), clock.fires(&plan).into_iter().collect())
            };
            plans(zone, change).into_iter().skip(turn).step_by(2).map(expected).collect()
        })
    }
}

const SPAN: i64 = 4 * HOUR;

/// The plans around every change of a clock fire as the definition says, one after the other and asked for anew.
/// Half of them each year, and a third of these again where another zone has the same change.
fn check(place: &Place, definition: &mut Definition) {
    for (n, change) in place.changes.iter().enumerate() {
        let (start, end) = (change - SPAN, change + SPAN);
        // Most clocks change twice a year.
        let turn = n / 2 % 2;
        let known = definition.around.len();
        let plans = definition.around(&place.zone, *change, turn).len();
        let step = if definition.around.len() > known { 1 } else { 3 };
        definition.compared += plans.div_ceil(step);
        for (schedule, expected) in definition.around(&place.zone, *change, turn).iter().step_by(step) {
            let (text, name) = (schedule.expression(), &place.name);
            let after = |at| Fires::new(&schedule.calendar, &place.zone, schedule.is_wildcard(), second(at));
            let fires: Vec<_> = after(start).map(|f| f.at.as_second()).take_while(|at| *at <= end).collect();
            assert_eq!(fires, *expected, "`{text}` in {name} around {}", second(*change));
            for asked in [change - MINUTE, change - 1, *change, change + 1, change + 29 * MINUTE] {
                let next = expected.iter().find(|at| **at > asked);
                let found = after(asked).next().map(|f| f.at.as_second()).filter(|at| *at <= end);
                assert_eq!(found, next.copied(), "`{text}` in {name} after {}", second(asked));
            }
        }
    }
}

#[test]
fn around_every_change_of_every_clock_schedules_fire_by_the_policy() {
    let names = names();
    assert!(names.len() > 400, "{} zones", names.len());
    let work = |names: &[String]| {
        let mut definition = Definition::default();
        for name in names {
            let place = Place::new(name.clone(), "2000-01-01T00:00:00Z", "2038-01-01T00:00:00Z");
            check(&place, &mut definition);
        }
        definition.compared
    };
    let (first, second) = names.split_at(names.len() / 2);
    let compared = thread::scope(|scope| {
        let other = scope.spawn(|| work(second));
        work(first) + other.join().unwrap()
    });
    assert!(compared > 40_000, "{compared} comparisons");
}

fn a_place() -> impl Strategy<Value = Place> {
    prop::sample::select(names())
        .prop_map(|name| Place::new(name, "1990-01-01T00:00:00Z", "2038-01-01T00:00:00Z"))
}

fn a_plan() -> impl Strategy<Value = Plan> {
    let date = (numbers(1, 31), numbers(1, 12), numbers(0, 7));
    let any_day = Just((Numbers::star(1, 31, 1), Numbers::star(1, 12, 1), Numbers::star(0, 7, 1)));
    let time = (prop::option::of(numbers(0, 59)), numbers(0, 59), numbers(0, 23));
    (time, prop_oneof![1 => date, 2 => any_day]).prop_map(
        |((second, minute, hour), (day, month, weekday))| Plan { second, minute, hour, day, month, weekday },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn any_schedule_in_any_zone_fires_next_by_the_policy(
        Place { name, zone, changes } in a_place(),
        plan in a_plan(),
        pick in any::<prop::sample::Index>(),
        near in prop::option::weighted(0.8, -600_i64..600),
        anywhere in 10_600_000_i64..35_000_000,
        asked in prop::collection::vec(0_i64..72 * HOUR, 8),
    ) {
        let start = match (near, changes.len()) {
            (Some(minutes), 1..) => changes[pick.index(changes.len())] + minutes * MINUTE,
            _ => anywhere * MINUTE,
        } - 36 * HOUR;
        let end = start + 72 * HOUR;
        let text = plan.text();
        let Ok(schedule) = CronSchedule::parse(&text, &name) else { return Ok(()) };
        let expected = Clock::new(&zone, start, end).fires(&plan);
        let fires: BTreeSet<_> =
            schedule.after(second(start)).map(|f| f.at.as_second()).take_while(|at| *at <= end).collect();
        prop_assert!(fires == expected, "`{}` in {}: {:?}", text, name, fires.symmetric_difference(&expected).next());
        for after in asked.into_iter().map(|n| start + n) {
            let next = schedule.next(second(after)).map(|f| f.at.as_second()).filter(|at| *at <= end);
            prop_assert_eq!(next, expected.range(after + 1..).next().copied(), "`{}` in {} after {}", text, name, after);
        }
    }
}

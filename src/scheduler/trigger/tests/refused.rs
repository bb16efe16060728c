//! What is refused, and in which words.

use jiff::ToSpan as _;

use super::{super::*, ts};

fn reason(expression: &str) -> String {
    match CronSchedule::parse(expression, "UTC") {
        Err(ScheduleError(reason)) => reason,
        Ok(_) => format!("`{expression}` is accepted"),
    }
}

#[test]
fn a_refused_expression_says_which_field_and_what_to_write() {
    let refused = [
        "",
        "  ",
        "* * * *",
        "now",
        "0 0 9 * * MON 2027",
        "1 2 3 4 5 6 7 8",
        "CRON_TZ=UTC 0 9 * * *",
        "@fortnightly",
        "@every 5m",
        "60 * * * *",
        "60 0 0 * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "99999999 * * * *",
        "5-1 * * * *",
        "0 22-2 * * *",
        "0 0 * * FRI-MON",
        "0 0 * * 7-2",
        "0 0 * * SAT-SUN/8",
        "0 0 * NOV-JAN *",
        "*/0 * * * *",
        "*/90 * * * *",
        "*/x * * * *",
        "0/15 * * * *",
        "/15 * * * *",
        "0 0 * * MON/2",
        "1,,2 * * * *",
        "1, * * * *",
        "*,5 * * * *",
        "0 MON * * *",
        "0 0 * * MONDAY",
        "0 0 * * 1MON",
        "-5 * * * *",
        "+5 * * * *",
        "1.5 * * * *",
        "* L * * *",
        "0 0 * * L",
        "0 0 * * 5#6",
        "0 0 * * 5W",
        "0 0 15W3 * *",
        "0 0 W * *",
        "0 0 L-3 * *",
        "0 0 L,LW * *",
        "0 0 1-5W * *",
        "? * * * *",
        "0 0 * * +MON",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 31W 2 *",
        "0 0 */31 2 SUN#2",
    ];
    let told: Vec<_> =
        refused.iter().map(|expression| format!("{expression:?}: {}", reason(expression))).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    "": the schedule is empty: write five fields such as `0 9 * * MON-FRI`, or `@daily`
    "  ": the schedule is empty: write five fields such as `0 9 * * MON-FRI`, or `@daily`
    "* * * *": `* * * *` has 4 fields: write five (minute, hour, day of month, month, day of week), or six with the second first
    "now": `now` has 1 field: write five (minute, hour, day of month, month, day of week), or six with the second first
    "0 0 9 * * MON 2027": `0 0 9 * * MON 2027` has 7 fields, and a year cannot be set: leave it out, or use `at` for one date
    "1 2 3 4 5 6 7 8": `1 2 3 4 5 6 7 8` has 8 fields: write five (minute, hour, day of month, month, day of week), or six with the second first
    "CRON_TZ=UTC 0 9 * * *": a zone does not belong in the schedule: leave `TZ=` out and set `timezone`
    "@fortnightly": the nickname `@fortnightly` is not known: write one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, five fields, or `every`
    "@every 5m": the nickname `@every 5m` is not known: write one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, five fields, or `every`
    "60 * * * *": the minute `60` is out of range: write 0 to 59
    "60 0 0 * * *": the second `60` is out of range: write 0 to 59
    "0 24 * * *": the hour `24` is out of range: write 0 to 23
    "0 0 0 * *": the day of month `0` is out of range: write 1 to 31
    "0 0 32 * *": the day of month `32` is out of range: write 1 to 31
    "0 0 * 13 *": the month `13` is out of range: write 1 to 12 or JAN to DEC
    "0 0 * * 8": the day of week `8` is out of range: write 0 to 7 or SUN to SAT
    "99999999 * * * *": the minute `99999999` is out of range: write 0 to 59
    "5-1 * * * *": the minute `5-1` ends before it starts: write `1-5`, or `5-59,0-1` to go over the end
    "0 22-2 * * *": the hour `22-2` ends before it starts: write `2-22`, or `22-23,0-2` to go over the end
    "0 0 * * FRI-MON": the day of week `FRI-MON` ends before it starts: write `MON-FRI`, or `FRI-SAT,SUN-MON` to go over the end
    "0 0 * * 7-2": the day of week `7-2` ends before it starts: write `TUE-SUN`, or `SUN-TUE` to go over the end
    "0 0 * * SAT-SUN/8": the day of week `SAT-SUN/8` has a step longer than the field: write at most 7, or use `every`
    "0 0 * NOV-JAN *": the month `NOV-JAN` ends before it starts: write `JAN-NOV`, or `NOV-DEC,JAN` to go over the end
    "*/0 * * * *": the minute `*/0` has a step of zero: write 1 or more
    "*/90 * * * *": the minute `*/90` has a step longer than the field: write at most 60, or use `every`
    "*/x * * * *": the minute `*/X` has no number after the `/`: write one such as `*/5`
    "0/15 * * * *": the minute `0/15` has a step but no range: write `0-59/15`, or `*/15`
    "/15 * * * *": the minute `/15` has a step but no range: write `*/15`
    "0 0 * * MON/2": the day of week `MON/2` has a step but no range: write `MON-SAT/2`, or `*/2`
    "1,,2 * * * *": the minute has a comma with nothing before or after it: remove it
    "1, * * * *": the minute has a comma with nothing before or after it: remove it
    "*,5 * * * *": the minute `*,5` lists `*`, which means every one: write `*` alone
    "0 MON * * *": the hour `MON` cannot be read: write 0 to 23, `*`, `a-b`, `*/n`, or a list of these
    "0 0 * * MONDAY": the day of week `MONDAY` cannot be read: write 0 to 7 or SUN to SAT, `FRI#2`, `FRIL`, `*`, `a-b`, `*/n`, or a list of these
    "0 0 * * 1MON": the day of week `1MON` cannot be read: write 0 to 7 or SUN to SAT, `FRI#2`, `FRIL`, `*`, `a-b`, `*/n`, or a list of these
    "-5 * * * *": the minute `-5` cannot be read: write 0 to 59, `*`, `a-b`, `*/n`, or a list of these
    "+5 * * * *": the minute `+5` cannot be read: write 0 to 59, `*`, `a-b`, `*/n`, or a list of these
    "1.5 * * * *": the minute `1.5` cannot be read: write 0 to 59, `*`, `a-b`, `*/n`, or a list of these
    "* L * * *": the hour `L` cannot be read: write 0 to 23, `*`, `a-b`, `*/n`, or a list of these
    "0 0 * * L": the day of week `L` needs a day: write `SATL` for the month's last Saturday
    "0 0 * * 5#6": the day of week `5#6` asks for number `6`: write `5#1` to `5#5`, or `5L` for the last in a month
    "0 0 * * 5W": the day of week `5W` cannot be read: write 0 to 7 or SUN to SAT, `FRI#2`, `FRIL`, `*`, `a-b`, `*/n`, or a list of these
    "0 0 15W3 * *": the day of month `15W3` cannot be read: write 1 to 31, `L`, `LW`, `15W`, `*`, `a-b`, `*/n`, or a list of these
    "0 0 W * *": the day of month `W` cannot be read: write 1 to 31, `L`, `LW`, `15W`, `*`, `a-b`, `*/n`, or a list of these
    "0 0 L-3 * *": the day of month `L-3` cannot be read: write 1 to 31, `L`, `LW`, `15W`, `*`, `a-b`, `*/n`, or a list of these
    "0 0 L,LW * *": the day of month `L,LW` lists `L` and `LW`: write one of them, or two jobs
    "0 0 1-5W * *": the day of month `1-5W` cannot be read: write 1 to 31, `L`, `LW`, `15W`, `*`, `a-b`, `*/n`, or a list of these
    "? * * * *": the minute `?` cannot be read: write 0 to 59, `*`, `a-b`, `*/n`, or a list of these
    "0 0 * * +MON": the day of week `+MON` cannot be read: write 0 to 7 or SUN to SAT, `FRI#2`, `FRIL`, `*`, `a-b`, `*/n`, or a list of these
    "0 0 30 2 *": `0 0 30 2 *` never fires: no date matches its days and months. Write a date that comes
    "0 0 31 4,6,9,11 *": `0 0 31 4,6,9,11 *` never fires: no date matches its days and months. Write a date that comes
    "0 0 31W 2 *": `0 0 31W 2 *` never fires: no date matches its days and months. Write a date that comes
    "0 0 */31 2 SUN#2": `0 0 */31 2 SUN#2` never fires: no date matches its days and months. Write a date that comes
    "#);
}

#[test]
fn a_long_expression_is_refused() {
    let long = format!("{}59 * * * *", "1,".repeat(200));
    assert_eq!(
        reason(&long),
        "the schedule is longer than 256 characters: write ranges or steps, or several jobs"
    );
}

#[test]
fn an_unknown_zone_is_refused_with_the_nearest_name() {
    for (written, near) in [
        ("Europe/Berln", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("America/NewYork", "America/New_York"),
        ("US/Pacifc", "US/Pacific"),
        ("Asia/Calcuta", "Asia/Calcutta"),
        ("utc+", "UTC"),
    ] {
        let told = zone(written).unwrap_err().to_string();
        assert_eq!(told, format!("the time zone `{written}` is not known: did you mean `{near}`?"));
        assert_eq!(CronSchedule::parse("@daily", written).unwrap_err().to_string(), told);
    }
    for written in ["", " ", &"x".repeat(500)] {
        let told = zone(written).unwrap_err().to_string();
        assert_eq!(told, "name a time zone such as `Europe/Berlin` or `UTC`");
    }
    for written in ["+02:00", "../UTC", "Etc/Unknown", "/etc/localtime", "EST5EDT,M3.2.0,M11.1.0"] {
        assert!(zone(written).is_err(), "{written}");
    }
    assert_eq!(zone("EUROPE/berlin").unwrap().iana_name(), Some("Europe/Berlin"));
}

#[test]
fn an_interval_lasts_between_a_second_and_ten_years() {
    for (text, seconds) in [("1s", 1), ("30m", 1800), ("1d12h", 129_600), ("3650d", 315_360_000)] {
        assert_eq!(parse_every(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    assert_eq!(parse_every("1s500ms"), Ok(Duration::from_millis(1500)));
    let told =
        ["999ms", "0s", "3651d", "30", "daily", ""].map(|text| parse_every(text).unwrap_err().to_string());
    insta::assert_snapshot!(told.join("\n"), @r#"
    the interval `999ms` is too short: write at least `1s`
    the interval `0s` is too short: write at least `1s`
    the interval `3651d` is too long: write at most ten years, `3650d`
    the interval `30` cannot be read: the unit is missing: write "30s" for seconds
    the interval `daily` cannot be read: write numbers and units, such as "10s", "15m", "1h30m" or "500ms"
    the interval `` cannot be read: write numbers and units, such as "10s", "15m", "1h30m" or "500ms"
    "#);
}

#[test]
fn a_single_time_is_read_with_its_offset_its_zone_or_the_jobs() {
    for (text, at) in [
        ("2026-12-24T18:00:00Z", "2026-12-24T18:00:00Z"),
        ("2026-12-24t18:00:00z", "2026-12-24T18:00:00Z"),
        ("2026-12-24T18:00:00-05:00", "2026-12-24T23:00:00Z"),
        ("2026-12-24T18:00:00", "2026-12-24T17:00:00Z"),
        ("2026-12-24T18:00", "2026-12-24T17:00:00Z"),
        (" 2026-12-24 18:00 ", "2026-12-24T17:00:00Z"),
        ("2026-12-24T18:00:00.123456", "2026-12-24T17:00:00.123Z"),
        ("2026-12-24T18:00:00[America/New_York]", "2026-12-24T23:00:00Z"),
        ("2026-12-24T18:00:00-05:00[America/New_York]", "2026-12-24T23:00:00Z"),
        ("2026-12-24T18:00:00Z[America/New_York]", "2026-12-24T18:00:00Z"),
        // The gap in Berlin, and on the day that Samoa left out.
        ("2026-03-29T02:30:00", "2026-03-29T01:00:00Z"),
        ("2011-12-30T12:00:00[Pacific/Apia]", "2011-12-30T10:00:00Z"),
        ("2026-03-28T23:30:00[America/Nuuk]", "2026-03-29T01:00:00Z"),
        // Twice in Berlin.
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z"),
        ("2026-10-25T02:30:00+01:00[Europe/Berlin]", "2026-10-25T01:30:00Z"),
    ] {
        assert_eq!(parse_at(text, "Europe/Berlin"), Ok(ts(at)), "{text}");
    }
}

#[test]
fn a_single_time_that_cannot_be_meant_is_refused() {
    let told = [
        "tomorrow",
        "",
        "18:00",
        "2026-12-24",
        "2026-02-30T18:00:00",
        "2026-12-24T25:00:00",
        "2026-12-24T18:00:00[Europe/Berln]",
        "2026-12-24T18:00:00[+01:00]",
        "2026-12-24T18:00:00+02:00[Europe/Berlin]",
        "9999-12-31T23:59:59-12:00",
        "1766599200",
    ]
    .map(|text| format!("{text:?}: {}", parse_at(text, "Europe/Berlin").unwrap_err()));
    insta::assert_snapshot!(told.join("\n"), @r#"
    "tomorrow": `tomorrow` cannot be read as a time: write one such as `2026-12-24T18:00:00` (in the job's time zone) or `2026-12-24T18:00:00Z`
    "": `` cannot be read as a time: write one such as `2026-12-24T18:00:00` (in the job's time zone) or `2026-12-24T18:00:00Z`
    "18:00": `18:00` cannot be read as a time: write one such as `2026-12-24T18:00:00` (in the job's time zone) or `2026-12-24T18:00:00Z`
    "2026-12-24": `2026-12-24` has no time of day: write one such as `2026-12-24T18:00:00` (in the job's time zone) or `2026-12-24T18:00:00Z`
    "2026-02-30T18:00:00": `2026-02-30T18:00:00` cannot be read as a time: write one such as `2026-12-24T18:00:00` (in the job's time zone) or `2026-12-24T18:00:00Z`
    "2026-12-24T25:00:00": `2026-12-24T25:00:00` cannot be read as a time: write one such as `2026-12-24T18:00:00` (in the job's time zone) or `2026-12-24T18:00:00Z`
    "2026-12-24T18:00:00[Europe/Berln]": the time zone `Europe/Berln` is not known: did you mean `Europe/Berlin`?
    "2026-12-24T18:00:00[+01:00]": `2026-12-24T18:00:00[+01:00]` cannot be read as a time: write one such as `2026-12-24T18:00:00` (in the job's time zone) or `2026-12-24T18:00:00Z`
    "2026-12-24T18:00:00+02:00[Europe/Berlin]": the offset of `2026-12-24T18:00:00+02:00[Europe/Berlin]` is not that of its zone, +01 then: leave one of the two out
    "9999-12-31T23:59:59-12:00": `9999-12-31T23:59:59-12:00` lies outside the years that can be counted
    "1766599200": `1766599200` cannot be read as a time: write one such as `2026-12-24T18:00:00` (in the job's time zone) or `2026-12-24T18:00:00Z`
    "#);
    assert!(parse_at("2026-12-24T18:00:00", "Nowhere").is_err());
    assert!(parse_at("2026-12-24T18:00:00Z", "Nowhere").is_ok(), "no zone is needed");
}

#[test]
fn a_single_time_may_be_a_minute_late() {
    let now = ts("2026-05-01T12:00:00Z");
    for fine in [60.seconds(), 0.seconds(), -(1.hour())] {
        assert_eq!(check_at(now - fine, now), Ok(()));
    }
    let told = [61.seconds(), 90.minutes(), 47.hours(), (24 * 400).hours(), (24 * 1000).hours()]
        .map(|late| check_at(now - late, now).unwrap_err().to_string());
    insta::assert_snapshot!(told.join("\n"), @r#"
    `2026-05-01T11:58:59Z` is in the past, 61 seconds ago: write a time that is still to come
    `2026-05-01T10:30:00Z` is in the past, 90 minutes ago: write a time that is still to come
    `2026-04-29T13:00:00Z` is in the past, 47 hours ago: write a time that is still to come
    `2025-03-27T12:00:00Z` is in the past, 400 days ago: write a time that is still to come
    `2023-08-05T12:00:00Z` is in the past, 2 years ago: write a time that is still to come
    "#);
    assert!(check_at(Timestamp::MIN, Timestamp::MAX).is_err());
}

//! When a requested job fires: one trigger out of every way to write one, relative times made absolute
//! (systems.md A5, A6, A26).

use std::time::Duration;

use jiff::Timestamp;

use super::{
    keys::TRIGGER,
    reader::{Field, Place, Reader, Scope, structured},
    view::shown,
};
use crate::{
    config::units::format_duration,
    scheduler::{job::TriggerSpec, rules},
};

/// What holds where a trigger does not say it.
pub(super) struct Terms<'a> {
    pub(super) now: Timestamp,
    /// The hive's zone.
    pub(super) zone: &'a str,
    /// What the job had.
    pub(super) old: Option<&'a TriggerSpec>,
}

/// What a request says of a trigger.
pub(super) enum Outcome {
    Nothing,
    Refused,
    Is(TriggerSpec),
}

/// `type` as it is written; `cron` also stands for an interval and a one-shot, as in the Annabelle documents.
#[derive(Clone, Copy, PartialEq)]
enum Type {
    Cron,
    Interval,
    OneShot,
    Event,
    Manual,
}

const TYPES: [(&str, Type); 5] = [
    ("cron", Type::Cron),
    ("interval", Type::Interval),
    ("one-shot", Type::OneShot),
    ("event", Type::Event),
    ("manual", Type::Manual),
];

/// Keys of which one says when a job fires.
const KINDS: [(&str, Type); 8] = [
    ("schedule", Type::Cron),
    ("every", Type::Interval),
    ("interval_minutes", Type::Interval),
    ("at", Type::OneShot),
    ("in_minutes", Type::OneShot),
    ("in_hours", Type::OneShot),
    ("event", Type::Event),
    ("manual", Type::Manual),
];

impl Type {
    fn covers(self, kind: Self) -> bool {
        self == kind || self == Self::Cron && matches!(kind, Self::Interval | Self::OneShot)
    }

    fn of(trigger: &TriggerSpec) -> Self {
        match trigger {
            TriggerSpec::Cron { .. } => Self::Cron,
            TriggerSpec::Interval { .. } => Self::Interval,
            TriggerSpec::OneShot { .. } => Self::OneShot,
            TriggerSpec::Event { .. } => Self::Event,
            TriggerSpec::Manual => Self::Manual,
        }
    }

    fn name(self) -> &'static str {
        TYPES.iter().find(|(_, is)| *is == self).map_or("", |(name, _)| name)
    }

    /// What it lacks when it stands alone, and what to write.
    fn lack(self) -> (&'static str, &'static str) {
        match self {
            Self::Cron => (
                "type cron does not say when",
                "write schedule, interval_minutes, at, in_minutes or in_hours",
            ),
            Self::Interval => ("type interval does not say how often", "write every, such as \"30m\""),
            Self::OneShot => ("type one-shot does not say when", "write at, in_minutes or in_hours"),
            Self::Event => (
                "type event names no event",
                "write event, such as [\"report\"]; to match the words of a message is not supported yet",
            ),
            Self::Manual => ("", ""),
        }
    }
}

/// Reads the trigger of a body, nested or flat.
pub(super) fn read(r: &mut Reader, root: &mut Scope, terms: &Terms<'_>, notes: &mut Vec<String>) -> Outcome {
    let before = r.faults.len();
    let mut scope = gather(r, root);
    let zone = scope.take_value("timezone");
    let unzoned = zone.is_none();
    let zone =
        zone.and_then(|field| r.text(&field).and_then(|name| r.accept(&field.place, rules::zone(name))));
    let zone = zone.as_deref();
    let kind = scope.take_value("type").map(|field| (r.choice(&field, &TYPES), field));
    if let Some(field) = scope.get("manual").cloned()
        && r.boolean(&field) != Some(true)
    {
        scope.take("manual");
    }
    let written: Vec<(&str, Type, Field)> =
        KINDS.iter().filter_map(|(key, kind)| Some((*key, *kind, scope.take_value(key)?))).collect();
    let spec = match (written.as_slice(), &kind) {
        _ if r.faults.len() > before && written.is_empty() => None,
        ([], None) if unzoned => return Outcome::Nothing,
        ([], kind) => {
            kept(r, kind.as_ref().and_then(|(kind, f)| Some(((*kind)?, &f.place))), zone, terms, notes)
        }
        ([(key, is, field)], Some((Some(kind), _))) if !kind.covers(*is) => {
            refuse_pair(r, *kind, key, field);
            None
        }
        ([(key, _, field)], _) => one(r, key, field, zone, terms, notes),
        ([(_, _, first), (_, _, second), ..], _) => {
            let what =
                format!("{} and {} are both written, and a job has one trigger", first.key, second.key);
            r.fault(&second.place, what, "keep one of them");
            None
        }
    };
    match spec {
        Some(spec) if r.faults.len() == before => Outcome::Is(spec),
        _ => Outcome::Refused,
    }
}

/// Nested and flat keys together.
fn gather(r: &mut Reader, root: &mut Scope) -> Scope {
    let nested = root.take_value("trigger").map(structured);
    let nested = nested.filter(|field| field.value.as_str().is_none_or(|text| !text.trim().is_empty()));
    let mut scope = nested.and_then(|field| r.scope(&field, &[TRIGGER], false)).unwrap_or_default();
    for (name, _) in TRIGGER {
        if let Some(field) = root.take_value(name) {
            scope.add(r, name, field);
        }
    }
    scope
}

/// No time is written, only a type or a zone: that of the job as it was is kept, if it fits.
fn kept(
    r: &mut Reader,
    kind: Option<(Type, &Place)>,
    zone: Option<&str>,
    terms: &Terms<'_>,
    notes: &mut Vec<String>,
) -> Option<TriggerSpec> {
    let old = terms.old.filter(|old| kind.is_none_or(|(kind, _)| kind.covers(Type::of(old))));
    match (old, kind) {
        (Some(old), _) => {
            let mut trigger = old.clone();
            match (&mut trigger, zone) {
                (TriggerSpec::Cron { timezone, .. }, Some(zone)) => zone.clone_into(timezone),
                (TriggerSpec::OneShot { timezone, .. }, Some(zone)) => *timezone = Some(zone.to_owned()),
                _ => no_zone(zone, notes),
            }
            Some(trigger)
        }
        (None, Some((Type::Manual, _))) => Some(TriggerSpec::Manual),
        (None, Some((kind, place))) => {
            let (what, remedy) = kind.lack();
            r.fault(place, what, remedy);
            None
        }
        (None, None) => {
            r.fault(&Place::default(), "a time zone alone is no trigger", Type::Cron.lack().1);
            None
        }
    }
}

fn no_zone(zone: Option<&str>, notes: &mut Vec<String>) {
    notes.extend(zone.map(|zone| format!("the time zone {zone} was left out: this trigger needs none")));
}

fn refuse_pair(r: &mut Reader, kind: Type, key: &str, field: &Field) {
    let what = match kind {
        Type::Manual => format!("a manual job has no {key}"),
        _ => format!("a trigger of type {} has no {key}", kind.name()),
    };
    r.fault(&field.place, what, format!("leave out {key}, or the type: it follows from the rest"));
}

fn one(
    r: &mut Reader,
    key: &str,
    field: &Field,
    named: Option<&str>,
    terms: &Terms<'_>,
    notes: &mut Vec<String>,
) -> Option<TriggerSpec> {
    let place = &field.place;
    let zone = named.unwrap_or(terms.zone);
    match key {
        "schedule" => {
            if named.is_none() {
                notes.push(format!("no time zone was named: the schedule is in that of the hive, {zone}"));
            }
            r.text(field).and_then(|text| r.accept(place, rules::cron(text, zone)))
        }
        "at" => {
            let trigger = r.text(field).and_then(|text| r.accept(place, rules::one_shot(text, zone)))?;
            let TriggerSpec::OneShot { at, .. } = trigger else { return None };
            // One that fired may be sent back as it is.
            let same = matches!(terms.old, Some(TriggerSpec::OneShot { at: old, .. }) if *old == at);
            if !same {
                r.accept(place, rules::still_to_come(at, terms.now))?;
            }
            Some(trigger)
        }
        "in_minutes" | "in_hours" => {
            let millis = r.millis(field, if key == "in_hours" { 3_600_000.0 } else { 60_000.0 })?;
            let at = Timestamp::from_millisecond(terms.now.as_millisecond() + millis).ok()?;
            notes.push(format!("{} became the time {}", field.key, shown(at, Some(zone))));
            Some(TriggerSpec::OneShot { at, timezone: Some(zone.to_owned()) })
        }
        _ => {
            no_zone(named, notes);
            timeless(r, key, field)
        }
    }
}

/// What needs no time zone.
fn timeless(r: &mut Reader, key: &str, field: &Field) -> Option<TriggerSpec> {
    let place = &field.place;
    match key {
        "every" => r.timed(field).and_then(|text| r.accept(place, rules::interval(text))),
        "interval_minutes" => {
            let millis = r.millis(field, 60_000.0)?;
            let every = format_duration(Duration::from_millis(millis.unsigned_abs()));
            r.accept(place, rules::interval(&every))
        }
        "event" => {
            let names = r.names(field.clone(), rules::event)?;
            r.accept(place, rules::events(names))
        }
        _ => Some(TriggerSpec::Manual),
    }
}

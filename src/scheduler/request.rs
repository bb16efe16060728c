//! What a request says of a job: the bodies of `POST /v1/jobs`, `PATCH /v1/jobs/{id}` and
//! `POST /v1/schedules/preview`, in the words of the contract, of `skep.toml`, or of the Annabelle documents
//! (systems.md A2, A5, A6, A26) → a checked draft.
//!
//! Pure, and complete but for what others know: whether the agent and the tools exist, and whether the name is free.
//! Durations are text with a unit; a bare number is refused, since it could be seconds or minutes.

mod action;
mod keys;
mod preview;
mod reader;
mod trigger;
mod view;

use jiff::Timestamp;
use serde_json::Value;

use self::{
    keys::{JOB, NOTIFY, TRIGGER},
    reader::{Field, Place, Reader, Scope, structured},
    trigger::{Outcome, Terms},
};
use super::{
    job::{DEFAULT_MAX_STEPS, JobNotify, JobSpec, Missed, Overlap, TriggerSpec},
    rules,
};
use crate::ids::AgentId;

pub use preview::{Preview, preview};
pub use view::{shown, trigger as view_trigger, view};

/// What a request is read against.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The time.
    pub now: Timestamp,
    /// The hive's time zone.
    pub zone: &'a str,
    /// The agent that asks; none: the operator.
    pub caller: Option<&'a AgentId>,
    /// The hive's `default_agent`.
    pub default_agent: Option<&'a AgentId>,
}

/// A job as it would be.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Whose.
    pub agent: AgentId,
    /// Its name.
    pub name: String,
    /// Whether it fires by itself.
    pub enabled: bool,
    /// What it is.
    pub spec: JobSpec,
    /// What was filled in or changed on the way, a sentence each.
    pub notes: Vec<String>,
}

/// One thing that is wrong with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// JSON pointer (RFC 6901); what is missing has the place where it belongs.
    pub pointer: String,
    /// What is wrong, and what to do.
    pub detail: String,
}

/// A job as it is.
#[derive(Debug, Clone, Copy)]
pub struct Existing<'a> {
    /// Whose.
    pub agent: &'a AgentId,
    /// Its name.
    pub name: &'a str,
    /// Whether it fires by itself.
    pub enabled: bool,
    /// What it is.
    pub spec: &'a JobSpec,
}

/// A changed job.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// As it would be.
    pub draft: Draft,
    /// It fires at other times than before.
    pub trigger_changed: bool,
    /// `enabled` was written, changed or not.
    pub enabled_written: bool,
}

/// Reads a new job. What is null counts as not written.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn create(body: &Value, ctx: &Context<'_>) -> Result<Draft, Vec<Fault>> {
    let mut desk = Desk::open(body, ctx, None)?;
    let agent = desk.owner();
    if desk.root.get("name").is_none() {
        let remedy = "write one that no other job of its agent has";
        desk.r.fault(&Place::default().child("name"), "a job needs a name", remedy);
    }
    let name = desk.name();
    let mut enabled = true;
    desk.set("enabled", &mut enabled, true, Reader::boolean);
    let trigger = match desk.trigger() {
        Outcome::Is(trigger) => Some(trigger),
        Outcome::Refused => None,
        Outcome::Nothing => {
            let remedy = "write schedule, every, at, in_minutes or event, or manual: true";
            desk.r.fault(&Place::default().child("trigger"), "a job needs a trigger", remedy);
            None
        }
    };
    let mut spec = JobSpec::new(trigger.unwrap_or(TriggerSpec::Manual));
    desk.fill(&mut spec);
    match (agent, name) {
        (Some(agent), Some(name)) if desk.r.faults.is_empty() => {
            Ok(Draft { agent, name, enabled, spec, notes: desk.notes })
        }
        _ => Err(desk.r.faults),
    }
}

/// Reads changes of a job. Only what is written changes; null puts a policy back to its default, removes a tool, its
/// arguments or the instructions, and says nothing of agent, name, `enabled`, trigger and plan. A trigger is replaced
/// whole, but a `timezone` alone moves it to that zone.
///
/// # Errors
/// Everything that is wrong with the body, or with the job as it would be.
pub fn update(old: &Existing<'_>, body: &Value, ctx: &Context<'_>) -> Result<Update, Vec<Fault>> {
    let mut desk = Desk::open(body, ctx, Some(*old))?;
    desk.same_owner(old.agent);
    let name = desk.name().unwrap_or_else(|| old.name.to_owned());
    let enabled = desk.root.take_value("enabled").map(|field| desk.r.boolean(&field));
    let mut spec = old.spec.clone();
    if let Outcome::Is(trigger) = desk.trigger() {
        spec.trigger = trigger;
    }
    desk.fill(&mut spec);
    if !desk.r.faults.is_empty() {
        return Err(desk.r.faults);
    }
    keep_defaults(old.spec, &mut spec);
    let trigger_changed = spec.trigger != old.spec.trigger;
    let enabled_written = enabled.is_some();
    let enabled = enabled.flatten().unwrap_or(old.enabled);
    let draft = Draft { agent: old.agent.clone(), name, enabled, spec, notes: desk.notes };
    Ok(Update { draft, trigger_changed, enabled_written })
}

/// A limit that was shown as it holds by default, and is sent back so, stays a default.
fn keep_defaults(old: &JobSpec, spec: &mut JobSpec) {
    let by_default = JobSpec { timeout: None, missed_within: None, ..spec.clone() };
    if old.timeout.is_none() && by_default.time_limit() == spec.time_limit() {
        spec.timeout = None;
    }
    if old.missed_within.is_none() && by_default.missed_limit() == spec.missed_limit() {
        spec.missed_within = None;
    }
}

/// A body that is being read.
struct Desk<'a> {
    r: Reader,
    root: Scope,
    ctx: &'a Context<'a>,
    old: Option<Existing<'a>>,
    notes: Vec<String>,
}

impl<'a> Desk<'a> {
    fn open(body: &Value, ctx: &'a Context<'a>, old: Option<Existing<'a>>) -> Result<Self, Vec<Fault>> {
        let mut r = Reader::default();
        let field = Field { place: Place::default(), key: "the body".to_owned(), value: body.clone() };
        match r.scope(&field, &[JOB, TRIGGER], true) {
            Some(root) => Ok(Self { r, root, ctx, old, notes: Vec::new() }),
            None => Err(r.faults),
        }
    }

    /// Whose the job is: as written, else the caller's, else the hive's default agent's.
    fn owner(&mut self) -> Option<AgentId> {
        if let Some(field) = self.root.take_value("agent") {
            return self.agent(&field);
        }
        if let Some(agent) = self.ctx.caller {
            return Some(agent.clone());
        }
        if let Some(agent) = self.ctx.default_agent {
            self.notes
                .push(format!("no agent was named: the job is given to the hive's default agent, {agent}"));
            return Some(agent.clone());
        }
        let remedy = "write agent, or set default_agent in [hive]";
        self.r.fault(
            &Place::default().child("agent"),
            "no agent is named, and the hive has no default",
            remedy,
        );
        None
    }

    fn same_owner(&mut self, old: &AgentId) {
        let Some(field) = self.root.take_value("agent") else { return };
        if self.agent(&field).is_some_and(|agent| agent != *old) {
            let what = format!("a job stays with its agent, {old}");
            self.r.fault(&field.place, what, "make a new job for the other agent, and delete this one");
        }
    }

    fn agent(&mut self, field: &Field) -> Option<AgentId> {
        let agent = self.r.text(field)?.trim().parse::<AgentId>();
        self.r.accept(&field.place, agent.map_err(|e| (e.to_string(), String::new())))
    }

    fn name(&mut self) -> Option<String> {
        let field = self.root.take_value("name")?;
        let name = self.r.text(&field).map(rules::name)?;
        self.r.accept(&field.place, name)
    }

    fn trigger(&mut self) -> Outcome {
        let old = self.old.map(|old| &old.spec.trigger);
        let terms = Terms { now: self.ctx.now, zone: self.ctx.zone, old };
        trigger::read(&mut self.r, &mut self.root, &terms, &mut self.notes)
    }

    /// Takes over one key: as written, its default when it is null, untouched when it is not there.
    fn set<T>(
        &mut self,
        key: &str,
        slot: &mut T,
        default: T,
        how: impl FnOnce(&mut Reader, &Field) -> Option<T>,
    ) {
        match self.root.take(key) {
            None => {}
            Some(field) if field.value.is_null() => *slot = default,
            Some(field) => {
                if let Some(value) = how(&mut self.r, &field) {
                    *slot = value;
                }
            }
        }
    }

    /// Everything but owner, name and trigger.
    fn fill(&mut self, spec: &mut JobSpec) {
        action::read(self, spec);
        self.policies(spec);
        self.notify(&mut spec.notify);
    }

    fn policies(&mut self, spec: &mut JobSpec) {
        let (description, steps) = (String::new(), DEFAULT_MAX_STEPS);
        self.set("description", &mut spec.description, description, |r, f| {
            r.text(f).map(rules::description).and_then(|text| r.accept(&f.place, text))
        });
        self.set("max_steps", &mut spec.max_steps, steps, |r, f| count(r, f, &rules::STEPS));
        self.set("timeout", &mut spec.timeout, None, |r, f| duration(r, f, &rules::TIMEOUT).map(Some));
        self.set("missed", &mut spec.missed, Missed::default(), |r, f| r.choice(f, &rules::MISSED));
        self.set("missed_within", &mut spec.missed_within, None, |r, f| {
            duration(r, f, &rules::MISSED_WITHIN).map(Some)
        });
        self.set("overlap", &mut spec.overlap, Overlap::default(), |r, f| r.choice(f, &rules::OVERLAP));
        self.set("retries", &mut spec.retries, 0, |r, f| count(r, f, &rules::RETRIES));
        self.set("jitter", &mut spec.jitter, Default::default(), |r, f| duration(r, f, &rules::JITTER));
    }

    /// `notify`, with what the Annabelle forms write beside it.
    fn notify(&mut self, notify: &mut JobNotify) {
        let ours = JobNotify::default();
        if let Some(field) = self.root.take("notify") {
            if field.value.is_null() {
                *notify = ours.clone();
            } else if let Some(mut nested) = self.r.scope(&structured(field), &[NOTIFY], false) {
                let flat = [
                    ("notify_on_completion", "on_completion"),
                    ("notify_interval_minutes", "interval_minutes"),
                    ("notify_targets", "targets"),
                ];
                for (flat, name) in flat {
                    if let Some(field) = nested.take(name) {
                        self.root.add(&mut self.r, flat, field);
                    }
                }
            }
        }
        let quiet = &mut notify.interval_minutes;
        self.set("notify_on_completion", &mut notify.on_completion, ours.on_completion, Reader::boolean);
        self.set("notify_interval_minutes", quiet, ours.interval_minutes, |r, f| {
            count(r, f, &rules::NOTIFY_INTERVAL)
        });
        self.set("notify_targets", &mut notify.targets, ours.targets, |r, f| {
            r.names(f.clone(), rules::target).map(Some)
        });
    }
}

fn count(r: &mut Reader, field: &Field, range: &std::ops::RangeInclusive<i64>) -> Option<u32> {
    let number = r.integer(field)?;
    r.accept(&field.place, rules::count(&field.key, number, range))
}

fn duration(
    r: &mut Reader,
    field: &Field,
    range: &std::ops::RangeInclusive<std::time::Duration>,
) -> Option<std::time::Duration> {
    let written = r.timed(field)?;
    r.accept(&field.place, rules::duration(&field.key, written, range))
}

#[cfg(test)]
mod tests;

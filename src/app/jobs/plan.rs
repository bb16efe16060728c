//! Enabling, pausing and new triggers: the next fire time is always ahead, never one that passed (scheduling.md).

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    db::jobs::{FIRED, JobRow, PASSED},
    ids::AgentId,
    scheduler::{
        due::put_off,
        job::{JobSpec, TriggerSpec},
        trigger::{Fire, Trigger},
    },
};

/// A new one-shot may be past by so much (scheduling.md).
const GRACE: Duration = Duration::from_secs(60);
/// Why a job of `skep.toml` is disabled that says so.
pub(super) const SWITCHED_OFF: &str = "skep.toml says `enabled = false`";

/// When a trigger was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// Now: a one-shot of this very minute still fires.
    Now,
    /// Before: a time that passed has passed.
    Before,
}

/// Why a job cannot be enabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unable {
    /// Its one time passed.
    Passed(Timestamp),
    /// Its schedule is no longer possible.
    Schedule(String),
}

/// The first fire time of a new job.
pub(super) fn first(spec: &JobSpec, now: Timestamp) -> Result<Option<Fire>, Unable> {
    ahead(spec, &mut now.clone(), Written::Now, now)
}

/// The next fire time from now. An interval counts from the anchor; when that would be past, the anchor is now.
fn ahead(
    spec: &JobSpec,
    anchor: &mut Timestamp,
    written: Written,
    now: Timestamp,
) -> Result<Option<Fire>, Unable> {
    let trigger = spec.trigger.compile().map_err(|e| Unable::Schedule(e.0))?;
    match trigger {
        Trigger::OneShot(at) => {
            let grace = if written == Written::Now { GRACE } else { Duration::ZERO };
            let passed = put_off(at, grace) <= now;
            if passed { Err(Unable::Passed(at)) } else { Ok(Some(Fire { at, shifted_from: None })) }
        }
        Trigger::Interval(every) if put_off(*anchor, every) <= now => {
            *anchor = now;
            Ok(trigger.next(now, now))
        }
        other => Ok(other.next(*anchor, now)),
    }
}

/// Sets the next fire time from now on. An interval counts from the last start.
pub(super) fn schedule(job: &mut JobRow, written: Written, now: Timestamp) -> Result<(), Unable> {
    if let Some(last) = &job.last_run {
        job.anchor = job.anchor.max(last.at);
    }
    job.next = ahead(&job.spec, &mut job.anchor, written, now)?;
    Ok(())
}

/// Enables a job: failures are forgotten, and it fires from now on.
pub(super) fn enable(job: &mut JobRow, written: Written, now: Timestamp) -> Result<(), Unable> {
    schedule(job, written, now)?;
    job.enabled = true;
    job.disabled_reason = None;
    job.auto_enable = false;
    job.consecutive_failures = 0;
    job.backoff_until = None;
    Ok(())
}

/// Enables a job again, or lets one that fires forget its failures. A one-shot that is to be tried again keeps its
/// time.
pub(super) fn resume(job: &mut JobRow, now: Timestamp) -> Result<(), Unable> {
    let next =
        job.next.clone().filter(|_| job.enabled && matches!(job.spec.trigger, TriggerSpec::OneShot { .. }));
    if next.is_none() {
        return enable(job, Written::Before, now);
    }
    job.consecutive_failures = 0;
    job.backoff_until = None;
    Ok(())
}

/// Disables a job because somebody says so.
pub(super) fn disable(job: &mut JobRow, reason: impl Into<String>) {
    job.enabled = false;
    job.disabled_reason = Some(reason.into());
    job.auto_enable = false;
    job.next = None;
}

/// Disables a job until its tools exist (systems.md A12).
pub(super) fn wait_for_tools(job: &mut JobRow, missing: &[String]) {
    disable(job, waiting_for(missing));
    job.auto_enable = true;
}

/// What a job that enables itself waits for.
pub(super) fn waiting_for(missing: &[String]) -> String {
    match missing {
        [] => "it waits for its tools".to_owned(),
        [one] => format!("it waits for the tool {one}, and then enables itself"),
        many => format!("it waits for the tools {}, and then enables itself", many.join(", ")),
    }
}

/// Whether a job that is made disabled enables itself once its tools exist: never a one-shot (systems.md A12).
pub(super) fn enables_itself(spec: &JobSpec, missing: &[String]) -> bool {
    let needs = !spec.required_tools.is_empty() || !missing.is_empty();
    needs && !matches!(spec.trigger, TriggerSpec::OneShot { .. })
}

/// Whether a one-shot is disabled because its time came or passed: a new time enables it again.
pub(super) fn is_spent(job: &JobRow) -> bool {
    !job.enabled && matches!(job.disabled_reason.as_deref(), Some(FIRED | PASSED))
}

/// Why a job is disabled that somebody paused.
pub(super) fn paused_by(caller: Option<&AgentId>) -> String {
    format!("paused by {}", super::who(caller))
}

/// Whether somebody paused it.
pub(super) fn is_paused(job: &JobRow) -> bool {
    job.disabled_reason.as_deref().is_some_and(|reason| reason.starts_with("paused by "))
}

/// Whether clock changes skip and repeat fire times of a schedule.
pub(super) fn is_wildcard(trigger: &TriggerSpec) -> bool {
    matches!(trigger.compile(), Ok(Trigger::Cron(schedule)) if schedule.is_wildcard())
}

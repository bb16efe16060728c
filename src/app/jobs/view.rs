//! Jobs as the API shows them: times in the job's zone, texts masked, and why a job does not fire.

use jiff::Timestamp;

use super::{
    plan::waiting_for,
    scene::{Missing, Scene, names},
};
use crate::{
    app::job_types::{JobView, JobWritten, LastRunView, NotifyView, TriggerView},
    config::units::format_duration,
    db::{self, DbError, jobs::JobRow},
    scheduler::{
        due::{jitter_offset, put_off},
        job::TriggerSpec,
        request::shown,
        trigger::Fire,
    },
};

impl Scene {
    /// A job.
    pub(super) fn view(&mut self, conn: &db::Conn, job: &JobRow) -> Result<JobView, DbError> {
        let missing = self.missing(conn, &job.agent, &job.spec)?;
        let waiting_reason = if job.enabled { self.why_not_now(conn, job, &missing)? } else { None };
        let missing = names(missing);
        let spec = &job.spec;
        let time = |at: Timestamp| self.shown(job, at);
        let text = |text: &String| self.masked(text);
        Ok(JobView {
            id: job.id,
            agent: job.agent.to_string(),
            name: job.name.clone(),
            description: text(&spec.description),
            origin: job.origin.as_str().to_owned(),
            enabled: job.enabled,
            disabled_reason: self.why_disabled(job, &missing),
            waiting_reason,
            tier: spec.tier(),
            trigger: self.trigger(job),
            instructions: spec.instructions.as_ref().map(text),
            tool: spec.tool.clone(),
            args: spec.tool.as_ref().map(|_| self.world.masker.mask_object(&spec.args)),
            preflight: spec
                .preflight
                .as_ref()
                .map(|check| self.world.masker.mask_json(&serde_json::to_value(check).unwrap_or_default())),
            required_tools: spec.required_tools.clone(),
            missing_tools: missing,
            max_steps: spec.max_steps,
            timeout: format_duration(spec.time_limit()),
            missed: spec.missed,
            missed_within: spec.missed_limit().map(format_duration),
            overlap: spec.overlap,
            retries: spec.retries,
            jitter: format_duration(spec.jitter),
            notify: NotifyView {
                on_completion: spec.notify.on_completion,
                interval_minutes: spec.notify.interval_minutes,
                targets: spec.notify.targets.clone(),
            },
            next_fire_at: job.next.as_ref().filter(|_| job.enabled).map(|fire| time(due(job, fire))),
            last_run: job.last_run.as_ref().map(|run| LastRunView {
                id: run.id,
                at: time(run.at),
                status: run.status,
                summary: run.summary.as_ref().map(text),
            }),
            consecutive_failures: job.consecutive_failures,
            backoff_until: job.backoff_until.map(time),
            last_notified_at: job.last_notified_at.map(time),
            created_at: time(job.created_at),
            updated_at: time(job.updated_at),
        })
    }

    /// A job that was made or changed.
    pub(super) fn written(
        &mut self,
        conn: &db::Conn,
        job: &JobRow,
        warnings: Vec<String>,
    ) -> Result<JobWritten, DbError> {
        Ok(JobWritten { next_fires: self.fires(job, super::NEXT), job: self.view(conn, job)?, warnings })
    }

    /// The next fire times of a job that fires, at most `count`.
    pub(super) fn fires(&self, job: &JobRow, count: usize) -> Vec<String> {
        let Ok(trigger) = job.spec.trigger.compile() else { return Vec::new() };
        // What is overdue waits for its agent; it is not ahead.
        let ahead = |fire: &Fire| {
            due(job, fire) > self.now || matches!(job.spec.trigger, TriggerSpec::OneShot { .. })
        };
        let first = job.next.clone().filter(|_| job.enabled);
        let first =
            first.and_then(|fire| if ahead(&fire) { Some(fire) } else { trigger.next(job.anchor, self.now) });
        std::iter::successors(first, |fire| trigger.next(job.anchor, fire.at))
            .take(count)
            .map(|fire| self.shown(job, due(job, &fire)))
            .collect()
    }

    /// Why a job has no fire time ahead.
    pub(super) fn why_none(&mut self, conn: &db::Conn, job: &JobRow) -> Result<String, DbError> {
        let missing = self.missing(conn, &job.agent, &job.spec)?;
        let not_now = self.why_not_now(conn, job, &missing)?;
        let why = self.why_disabled(job, &names(missing)).or(not_now);
        Ok(why.unwrap_or_else(|| "it has no fire time ahead".to_owned()))
    }

    fn why_disabled(&self, job: &JobRow, missing: &[String]) -> Option<String> {
        let reason = job.disabled_reason.as_ref().filter(|_| !job.enabled)?;
        Some(if job.auto_enable { waiting_for(missing) } else { self.masked(reason) })
    }

    /// Why an enabled job does not fire now, or never by itself.
    fn why_not_now(
        &mut self,
        conn: &db::Conn,
        job: &JobRow,
        missing: &[Missing],
    ) -> Result<Option<String>, DbError> {
        let agent = &job.agent;
        if self.agent(agent).is_none() {
            return Ok(Some(format!("agent {agent} is no longer in skep.toml")));
        }
        let halts = self.halts(conn)?;
        let hive = halts.iter().find(|(whose, _)| whose.is_none()).map(|(_, since)| *since);
        let own = halts.iter().find(|(whose, _)| whose.as_ref() == Some(agent)).map(|(_, since)| *since);
        if let Some(since) = hive {
            let since = self.shown(job, since);
            return Ok(Some(format!("the hive is halted since {since}: lift it with `skep resume`")));
        }
        if let Some(since) = own {
            let since = self.shown(job, since);
            return Ok(Some(format!(
                "agent {agent} is halted since {since}: lift it with `skep resume {agent}`"
            )));
        }
        if let Some(why) = self.standing.get(agent) {
            return Ok(Some(why.clone()));
        }
        if let Some(until) = job.backoff_until.filter(|until| *until > self.now) {
            let (until, n) = (self.shown(job, until), job.consecutive_failures);
            let failed =
                if n == 1 { "its last run failed".to_owned() } else { format!("its last {n} runs failed") };
            return Ok(Some(format!("{failed}: nothing starts before {until}")));
        }
        if !missing.is_empty() {
            let why: Vec<&str> = missing.iter().map(|missing| missing.detail.as_str()).collect();
            return Ok(Some(format!("its runs fail: {}", why.join("; "))));
        }
        Ok(match &job.spec.trigger {
            TriggerSpec::Manual => Some("it is manual: it runs when somebody asks".to_owned()),
            TriggerSpec::Event { event } => {
                Some(format!("it waits for an event named {}", event.join(" or ")))
            }
            _ if job.next.is_none() => Some("it has no fire time ahead".to_owned()),
            _ => None,
        })
    }

    fn trigger(&self, job: &JobRow) -> TriggerView {
        let trigger = &job.spec.trigger;
        let mut view = TriggerView {
            kind: trigger.kind().to_owned(),
            schedule: None,
            every: None,
            at: None,
            event: None,
            timezone: trigger.zone().map(ToOwned::to_owned),
        };
        match trigger {
            TriggerSpec::Cron { schedule, .. } => view.schedule = Some(schedule.clone()),
            TriggerSpec::Interval { every } => view.every = Some(every.clone()),
            TriggerSpec::OneShot { at, .. } => view.at = Some(self.shown(job, *at)),
            TriggerSpec::Event { event } => view.event = Some(event.clone()),
            TriggerSpec::Manual => {}
        }
        view
    }

    /// A time in the job's zone; the hive's when it has none.
    fn shown(&self, job: &JobRow, at: Timestamp) -> String {
        shown(at, Some(job.spec.trigger.zone().unwrap_or(&self.world.config.zone)))
    }

    fn masked(&self, text: &str) -> String {
        self.world.masker.mask_str(text).into_owned()
    }
}

/// When a fire time is due, with the job's jitter.
fn due(job: &JobRow, fire: &Fire) -> Timestamp {
    put_off(fire.at, jitter_offset(job.agent.as_str(), &job.name, job.spec.jitter))
}

//! What is told of a run's end (systems.md A10, A14), put into the outbox with it.

use jiff::Timestamp;

use crate::{
    app::hive::Hive,
    config::model::Notify,
    db::{self, DbError, jobs::JobRow, runs::RunRow},
    notify::{
        message::{About, Notice},
        throttle,
    },
    runs::state::RunStatus,
};

impl Hive {
    /// Puts what is to be told of a run's end into the outbox; answers whether anything was. The texts of `run` are
    /// masked already.
    pub(super) fn tell(
        &self,
        tx: &db::Tx<'_>,
        run: &RunRow,
        job: &JobRow,
        disabled: bool,
        now: Timestamp,
    ) -> Result<bool, DbError> {
        let config = self.world().config.clone();
        let targets = targets(&config.notify, job);
        let mut told = false;
        for notice in notices(self.name.as_str(), run, job, disabled, now) {
            let interval = job.spec.notify.interval_minutes;
            let hives = config.notify.interval_minutes;
            if throttle::is_sent(notice.kind, job.last_notified_at, interval, hives, now)
                && !targets.is_empty()
            {
                db::outbox::enqueue_all(tx, &targets, &notice, now)?;
                told = true;
            }
        }
        Ok(told)
    }
}

/// The names of the targets of a job: those that it lists, else all.
fn targets<'a>(notify: &'a Notify, job: &JobRow) -> Vec<&'a str> {
    let listed = job.spec.notify.targets.as_ref();
    let wanted = |name: &&str| listed.is_none_or(|names| names.iter().any(|n| n == name));
    notify.targets.iter().map(|target| target.name.as_str()).filter(wanted).collect()
}

/// What there is to tell: each failure, success where it is wanted, and that a job was disabled.
fn notices(hive: &str, run: &RunRow, job: &JobRow, disabled: bool, now: Timestamp) -> Vec<Notice> {
    let about = || About {
        hive: hive.to_owned(),
        agent: run.agent.to_string(),
        job: Some((job.id, job.name.clone())),
    };
    let (error, summary) = (run.error.clone(), run.summary.clone());
    let of_run = Notice::of_run(about(), run.id, run.status, error.clone(), summary, now);
    let wanted = match run.status {
        RunStatus::Failed | RunStatus::TimedOut | RunStatus::Lost => true,
        RunStatus::Succeeded => job.spec.notify.on_completion,
        RunStatus::Cancelled | RunStatus::Skipped | RunStatus::Queued | RunStatus::Running => false,
    };
    let mut notices: Vec<Notice> = wanted.then_some(of_run).into_iter().collect();
    if disabled {
        notices.push(Notice::of_disabled_job(about(), Some(run.id), job.consecutive_failures, error, now));
    }
    notices
}

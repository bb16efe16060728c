//! Whether the database says what the reference says, and what must hold whatever both say.

use std::collections::BTreeMap;

use super::{
    reference::{Job, Model},
    *,
};
use crate::{
    db::runs::{Ending, RunRow},
    runs::state::SkipReason,
};

/// Compares all of it; answers the ids of the reference's runs.
pub fn same(conn: &Connection, model: &Model) -> Vec<i64> {
    let rows = runs::rows(conn, "ORDER BY id", []).unwrap();
    let (mut ids, mut skips) = (Vec::new(), Vec::new());
    for row in &rows {
        match model.runs.get(ids.len()).filter(|run| is(row, run)) {
            Some(run) => {
                same_run(row, run);
                ids.push(row.id);
            }
            None => skips.push(row),
        }
    }
    assert_eq!(ids.len(), model.runs.len(), "all of {:#?} are in {rows:#?}", model.runs.get(ids.len()));
    for (id, job) in &model.jobs {
        same_job(&jobs::get(conn, *id).unwrap().unwrap(), job);
        same_skips(&skips, *id, job);
    }
    ids
}

/// Whether a row is that run: no two are of one job, cause, time and attempt.
fn is(row: &RunRow, run: &Run) -> bool {
    row.job_name == run.name
        && (row.cause, row.scheduled_at, row.attempt) == (run.cause, run.at, run.attempt)
        && row.event.is_some() == run.event.is_some()
        && !(row.status == RunStatus::Skipped && run.event.is_some())
}

fn same_run(row: &RunRow, run: &Run) {
    assert_eq!(row.job, run.job);
    assert_eq!(row.status, run.status, "{row:#?}");
    assert_eq!(row.reason.as_deref(), run.reason.map(SkipReason::as_str), "{row:#?}");
    assert_eq!(row.finished_at, run.ended, "{row:#?}");
    assert_eq!(row.spec.is_some(), !run.status.is_over());
    if run.waits() {
        assert_eq!((row.due_at, row.created_at), (run.due, run.created), "{row:#?}");
        assert_eq!((row.started_at, row.process.clone()), (None, None));
    }
    if run.runs() {
        assert_eq!(row.ending.is_some(), run.ending, "{row:#?}");
        assert!(row.started_at.is_some() && row.process.is_some());
    }
    if row.ending == Some(Ending::Replaced) && run.status.is_over() {
        assert!(matches!(run.status, RunStatus::Cancelled | RunStatus::Succeeded));
    }
}

fn same_job(row: &jobs::JobRow, job: &Job) {
    assert_eq!(row.next.as_ref().map(|fire| fire.at), job.next, "next of {row:#?}");
    assert_eq!(row.anchor, job.anchor, "anchor of {row:#?}");
    assert_eq!((row.consecutive_failures, row.backoff_until), (job.failures, job.backoff), "{row:#?}");
    assert_eq!((row.enabled, row.disabled_reason.is_some()), (job.enabled, job.reason.is_some()));
    let fired = |reason: Option<&str>| reason == Some(jobs::FIRED);
    assert_eq!(fired(row.disabled_reason.as_deref()), fired(job.reason));
}

/// Each skipped fire time is in one record.
fn same_skips(rows: &[&RunRow], id: i64, job: &Job) {
    let mut left: BTreeMap<Timestamp, &str> =
        job.skipped.iter().map(|(at, (reason, _))| (*at, reason.as_str())).collect();
    let those = rows.iter().filter(|row| row.job == Some(id) && row.cause != Cause::Event);
    let (one, many): (Vec<&RunRow>, Vec<_>) = those.partition(|row| row.skipped.is_none());
    for row in one {
        assert_eq!(left.remove(&row.scheduled_at), row.reason.as_deref(), "{row:#?}");
    }
    for row in many {
        let (count, until) = row.skipped.unwrap();
        let within: Vec<_> =
            left.range(row.scheduled_at..=until).map(|(at, reason)| (*at, *reason)).collect();
        assert!(
            within.iter().all(|(_, reason)| Some(*reason) == row.reason.as_deref()),
            "{row:#?} {within:?}"
        );
        assert_eq!(within.len(), count as usize, "{row:#?} {within:?}");
        left.retain(|at, _| *at < row.scheduled_at || *at > until);
    }
    assert_eq!(left, BTreeMap::new(), "skips of job {id} that have no record");
}

/// What must hold by itself.
pub fn invariants(conn: &Connection, model: &Model) {
    let none = |what: &str, sql: &str| {
        let found: Vec<String> =
            conn.prepare(sql).unwrap().query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, Vec::<String>::new(), "{what}");
    };
    none(
        "fire times that were claimed twice",
        "SELECT job_name || scheduled_at FROM run WHERE cause IN ('schedule', 'catch_up') AND job_id IS NOT NULL \
         GROUP BY job_id, scheduled_at, attempt HAVING count(*) > 1",
    );
    none(
        "jobs with two runs at once that exclude each other",
        "SELECT job_name FROM run WHERE status = 'running' AND overlap <> 'allow' AND job_id IS NOT NULL \
         GROUP BY job_id HAVING count(*) > 1",
    );
    none(
        "runs of disabled jobs that wait although nobody asked for them",
        "SELECT job_name FROM run JOIN job ON job.id = job_id WHERE status = 'queued' AND cause <> 'manual' \
         AND NOT enabled AND disabled_reason NOT IN ('it fired', 'its time passed without it')",
    );
    none("disabled jobs that fire", "SELECT name FROM job WHERE NOT enabled AND next_due_at IS NOT NULL");
    if model.started > 0 {
        let running: u32 =
            conn.query_row("SELECT count(*) FROM run WHERE status = 'running'", [], |r| r.get(0)).unwrap();
        assert!(running <= model.limits.0, "{running} run");
    }
    for (id, job) in &model.jobs {
        accounted(conn, model, *id, job);
    }
}

/// Every fire time of a cron job that came while it was enabled has one record.
fn accounted(conn: &Connection, model: &Model, id: i64, job: &Job) {
    let until = model.now - job.offset;
    let cron = matches!(job.spec.trigger, TriggerSpec::Cron { .. });
    if !cron || job.next.is_none_or(|next| next <= until) {
        return;
    }
    let rows = runs::rows(conn, "WHERE job_id = ?1 AND attempt = 1 AND cause <> 'manual'", [id]).unwrap();
    let since = job.accounted_since;
    for fire in job.trigger.after(since, since).take_while(|fire| fire.at <= until) {
        let own = rows.iter().filter(|row| row.skipped.is_none() && row.scheduled_at == fire.at).count();
        let bulk = |row: &&RunRow| {
            row.skipped.is_some_and(|(_, last)| row.scheduled_at <= fire.at && fire.at <= last)
        };
        let records = if own == 0 { rows.iter().filter(bulk).count() } else { own };
        assert_eq!(records, 1, "records of {} of {job:#?}", fire.at);
    }
}

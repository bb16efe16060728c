//! Whether each run began as soon as it could and ended as it had to, and why some never began.

use std::collections::BTreeSet;

use super::{
    Planned, fate,
    oracle::{Known, same_chain},
    script::{Course, DAY},
    sim::DEATH,
    *,
};
use crate::runs::state::retry_at;

/// When the clock first shows a time, from `real` on, if it is not set before.
fn shows(course: &Course, at: Timestamp, real: i64) -> i64 {
    course.at(real).real(at).max(real)
}

pub fn judge(job: &Planned, runs: &[Known], disabled: &BTreeSet<i64>, course: &Course, length: i64) {
    let ready = course.ready(job.agent, length);
    for (i, run) in runs.iter().enumerate().filter(|(_, run)| !run.born_skipped && run.voided.is_none()) {
        let until = run.started.or(run.over).unwrap_or(length);
        if !course.was_set(run.created, until) {
            let from = shows(course, run.row.due_at, run.created);
            let could = first_chance(job, runs, i, from, &ready);
            let in_time = match (run.started, run.row.cause) {
                (Some(at), Cause::CatchUp) => could.is_some_and(|could| could <= at),
                (Some(at), _) => could == Some(at),
                (None, Cause::CatchUp) => true,
                (None, _) => could.is_none_or(|could| could >= until),
            };
            assert!(in_time, "{} could start at {could:?}: {run:#?}", job.name);
        }
        match run.started {
            Some(_) => judge_end(job, runs, run, course),
            None => judge_unstarted(job, runs, run, disabled, course),
        }
    }
}

/// The first instant at which nothing was in its way.
fn first_chance(job: &Planned, runs: &[Known], i: usize, from: i64, ready: &[(i64, i64)]) -> Option<i64> {
    let run = &runs[i];
    // Nothing goes on for longer than some days.
    let begins = runs.partition_point(|other| other.created < run.created - 8 * DAY);
    let near = || runs[begins..].iter().filter(|other| other.row.id != run.row.id && !other.born_skipped);
    let until = run.started.or(run.over).unwrap_or(i64::MAX);
    let mut chances: Vec<i64> = ready.iter().map(|(open, _)| *open).chain([from]).collect();
    chances.extend(near().take_while(|other| other.created <= until).filter_map(|other| other.over));
    chances.sort_unstable();
    let free = |at: i64| {
        let in_way = |other: &Known| {
            let begun =
                other.started.is_some_and(|start| start < at || start == at && other.row.id < run.row.id);
            let between = other.row.attempt > 1 && run.row.attempt == 1 && other.created <= at;
            (begun || between) && !other.is_over(at)
        };
        job.overlap == Overlap::Allow || !near().take_while(|other| other.created <= at).any(in_way)
    };
    let open = |at: i64| ready.iter().any(|(open, close)| (*open..*close).contains(&at));
    chances.into_iter().filter(|at| *at >= from).find(|at| open(*at) && free(*at))
}

/// Runs that were made in that instant.
fn made_at(runs: &[Known], at: i64) -> impl Iterator<Item = &Known> {
    let first = runs.partition_point(|run| run.created < at);
    runs[first..].iter().take_while(move |run| run.created == at)
}

/// It ended as its fate was, and was tried again if its policy says so.
fn judge_end(job: &Planned, runs: &[Known], run: &Known, course: &Course) {
    let Some(over) = run.over else { return };
    let (length, fate) = fate(job, run.row.scheduled_at, run.row.attempt);
    let own = over >= run.started.unwrap() + length;
    let lost = !course.at(over).container[job.agent] || !course.at(over - DEATH).container[job.agent];
    match run.row.status {
        RunStatus::Cancelled => {
            let newer =
                runs.iter().any(|other| other.created + DEATH >= over - 120 && other.row.id > run.row.id);
            assert!(job.overlap == Overlap::Replace && newer, "{run:#?}");
        }
        RunStatus::Lost => assert!(lost || own && fate == RunStatus::Lost, "{run:#?}"),
        status => assert!(own && status == fate, "{fate:?}: {run:#?}"),
    }
    let again: Vec<&Known> = made_at(runs, over)
        .filter(|other| same_chain(other, run) && other.row.attempt == run.row.attempt + 1)
        .collect();
    if run.row.status.may_retry() && run.row.attempt <= job.retries {
        // Unless somebody or the fifth failure disabled it meanwhile, which no job with retries meets here.
        assert_eq!(again.len(), 1, "{run:#?}");
        let due = retry_at(run.row.attempt, run.row.finished_at.unwrap());
        let until = again[0].started.or(again[0].over).unwrap_or(over);
        assert!(again[0].row.due_at >= due || course.was_set(over, until), "{again:#?}");
    } else {
        assert_eq!(again.len(), 0, "{run:#?}");
    }
}

/// It was too late, or not the last that was missed, or its job was disabled, or a newer one took its place.
fn judge_unstarted(job: &Planned, runs: &[Known], run: &Known, disabled: &BTreeSet<i64>, course: &Course) {
    let Some(over) = run.over else { return };
    let newer = |cause: fn(Cause) -> bool| {
        made_at(runs, over).any(|other| other.row.id > run.row.id && cause(other.row.cause))
    };
    match (run.row.status, run.row.reason.as_deref()) {
        (RunStatus::Skipped, Some("expired")) => {
            let limit = job.spec().missed_limit().unwrap();
            assert!(run.row.scheduled_at + limit < course.at(over).clock(over), "{run:#?}");
        }
        (RunStatus::Skipped, Some("missed")) => {
            assert!(job.missed == Missed::Last && newer(|cause| cause == Cause::CatchUp), "{run:#?}");
        }
        (RunStatus::Cancelled, None) => {
            let replaced = job.overlap == Overlap::Replace && newer(|_| true);
            assert!(replaced || disabled.contains(&over), "{run:#?}");
        }
        _ => panic!("{run:#?}"),
    }
}

/// At most four make up for missed times at once, and they wait only for each other.
pub fn judge_catch_ups(all: &[Known]) {
    let those: Vec<&Known> =
        all.iter().filter(|run| run.row.cause == Cause::CatchUp && run.started.is_some()).collect();
    assert!(those.len() > 50, "too few to say anything: {}", those.len());
    for run in &those {
        let at = run.started.unwrap();
        let beside = those.iter().filter(|other| other.started.unwrap() <= at && !other.is_over(at)).count();
        assert!(beside <= 4, "{beside} at {at}");
    }
}

//! Events that start runs: who hears them, what the runs know, where it ends, and what deciding costs.

use std::ffi::{c_int, c_void};

use super::*;

pub(super) fn hearing(names: &[&str]) -> JobSpec {
    let event = names.iter().map(|name| (*name).to_owned()).collect();
    JobSpec { overlap: Overlap::Allow, ..JobSpec::new(TriggerSpec::Event { event }) }
}

#[test]
fn an_event_starts_the_jobs_that_wait_for_it_once_and_never_its_own() {
    let mut desk = Desk::new();
    desk.job("report", hearing(&["report"]), "10:00:00");
    let echo = desk.job("echo", hearing(&["run:*"]), "10:00:00");
    desk.raise("report", "10:01:00");
    let mut total = 0;
    for n in 0..60 {
        let tick = desk.tick(at("10:01:01") + i64::from(n).seconds());
        total += tick.leased.len();
        for run in tick.leased {
            desk.finish(run.id, RunStatus::Succeeded, at("10:01:02"));
        }
    }
    // report runs once; echo hears of its start and its end, but not of itself.
    assert_eq!(total, 3);
    assert_eq!(desk.get(echo).consecutive_failures, 0);
}

#[test]
fn a_run_knows_its_event_as_long_as_it_is_not_over() {
    let mut desk = Desk::new();
    let spec = JobSpec { retries: 1, ..JobSpec::new(TriggerSpec::Event { event: vec!["report".into()] }) };
    desk.job("j", spec, "10:00:00");
    let tx = desk.conn.transaction().unwrap();
    events::append(&tx, at("10:01:00"), "report", &json!({"n": 1})).unwrap();
    tx.commit().unwrap();
    let event = |run: &crate::db::runs::RunRow| (run.event_name.clone(), run.event_data.clone());
    let told = (Some("report".to_owned()), Some("{\"n\":1}".to_owned()));
    let first = desk.tick(at("10:01:01")).leased.remove(0);
    assert_eq!(event(&first), told);
    let done = desk.finish(first.id, RunStatus::Failed, at("10:01:02"));
    assert_eq!(event(&done.run), (told.0.clone(), None), "the name is history, the data are not kept");
    let again = desk.tick(at("10:01:12")).leased.remove(0);
    assert_eq!((again.attempt, event(&again)), (2, told), "another attempt is told the same");
}

#[test]
fn events_that_lead_to_each_other_end_with_a_skip_that_says_so() {
    let mut desk = Desk::new();
    let succeeded = "run:succeeded";
    for (name, hears) in
        [("ping", vec![succeeded, "begin"]), ("pong", vec![succeeded]), ("watch", vec!["run:skipped"])]
    {
        desk.job(name, hearing(&hears), "10:00:00");
    }
    desk.raise("begin", "10:01:00");
    for n in 0..40 {
        let now = at("10:01:01") + i64::from(n).seconds();
        for run in desk.tick(now).leased {
            desk.finish(run.id, RunStatus::Succeeded, now);
        }
    }
    let runs = crate::db::runs::rows(&desk.conn, "ORDER BY id", []).unwrap();
    let ran = runs.iter().filter(|run| run.status == RunStatus::Succeeded).count();
    let skips: Vec<_> = runs.iter().filter(|run| run.status == RunStatus::Skipped).collect();
    assert_eq!((ran, skips.len()), (MAX_DEPTH as usize, 1), "{skips:#?}");
    assert_eq!(skips[0].reason.as_deref(), Some("depth"));
}

#[test]
fn what_an_agent_made_hears_what_the_operator_raises_and_nothing_of_the_hive() {
    let mut desk = Desk::new();
    let heard = ["report", "run:*", "*"];
    let own = desk.job_of(Origin::Agent, "own", hearing(&heard), "10:00:00");
    let made = desk.job("made", hearing(&heard), "10:00:00");
    desk.raise("run:failed", "10:01:00");
    desk.raise("secret:missing", "10:01:00");
    desk.raise("report", "10:01:00");
    desk.tick(at("10:01:01"));
    let of = |job| {
        let runs = crate::db::runs::rows(&desk.conn, "WHERE job_id = ?1 ORDER BY id", [job]).unwrap();
        runs.into_iter().filter_map(|run| run.event_name).collect::<Vec<_>>()
    };
    assert_eq!(of(own), ["report"]);
    // The making of `own` is news of before.
    assert_eq!(of(made), ["run:failed", "secret:missing", "report"]);
}

unsafe extern "C" fn count(steps: *mut c_void) -> c_int {
    // SAFETY: the address of a number that outlives the handler.
    unsafe { *steps.cast::<u64>() += 1 };
    0
}

impl Desk {
    fn raise(&mut self, name: &str, now: &str) {
        let tx = self.conn.transaction().unwrap();
        events::append(&tx, at(now), name, &json!({})).unwrap();
        tx.commit().unwrap();
    }

    /// How many steps SQLite takes to decide about an event, after as many that wait.
    fn steps(&mut self, waiting: usize, now: Timestamp) -> u64 {
        let tx = self.conn.transaction().unwrap();
        let before = events::bounds(&tx).unwrap().map_or(0, |(_, newest)| newest);
        let mut last = 0;
        for _ in 0..=waiting {
            last = events::append(&tx, now, "report", &json!({})).unwrap();
        }
        let next_proc = |_: &AgentId| 1;
        let world =
            World { now, agents: &self.agents, limits: self.limits, lease: "test", next_proc: &next_proc };
        let mut all = events::raised(&tx, before, 100_000).unwrap();
        let one = all.split_off(all.iter().position(|event| event.id == last).unwrap());
        tick(&tx, &world, &all).unwrap();
        let mut steps = 0_u64;
        // SAFETY: the handler goes before the number does.
        unsafe {
            let address = (&raw mut steps).cast();
            rusqlite::ffi::sqlite3_progress_handler(tx.handle(), 1, Some(count), address);
            tick(&tx, &world, &one).unwrap();
            rusqlite::ffi::sqlite3_progress_handler(tx.handle(), 0, None, std::ptr::null_mut());
        }
        tx.commit().unwrap();
        steps
    }
}

#[test]
fn deciding_about_an_event_costs_the_same_however_many_runs_wait() {
    for overlap in [Overlap::Allow, Overlap::Queue, Overlap::Skip] {
        let steps = [10, 4_000].map(|waiting| {
            let mut desk = Desk::new();
            desk.agents.values_mut().next().unwrap().container = None;
            let crowd = desk.job("crowd", hearing(&["report"]), "10:00:00");
            desk.steps(waiting, at("10:01:00"));
            let mut row = desk.get(crowd);
            row.spec.overlap = overlap;
            let tx = desk.conn.transaction().unwrap();
            jobs::update(&tx, &row, "job:updated", at("10:01:00")).unwrap();
            tx.commit().unwrap();
            desk.steps(0, at("10:01:01"))
        });
        assert!(steps[0] > 100 && steps[1] < steps[0] * 2, "{overlap:?}: {steps:?}");
    }
}

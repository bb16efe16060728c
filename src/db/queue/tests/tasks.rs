//! Background tasks (systems.md A21): runs that belong to no job.

use serde_json::json;

use super::*;
use jiff::SignedDuration;

use crate::db::{
    facts,
    tasks::{self, NewTask, TaskStatus},
};

impl Desk {
    fn task(&mut self, name: &str, now: &str) -> i64 {
        self.deep_task(name, 0, now)
    }

    fn deep_task(&mut self, name: &str, depth: u32, now: &str) -> i64 {
        let spec = JobSpec { tool: Some("send".into()), retries: 3, ..JobSpec::new(TriggerSpec::Manual) };
        let action = json!({"type": "tool_call", "toolName": "send"});
        let new = NewTask { agent: "a".parse().unwrap(), name: name.into(), action, spec, depth };
        let tx = self.conn.transaction().unwrap();
        let id = tasks::queue(&tx, &new, at(now)).unwrap().unwrap().id;
        tx.commit().unwrap();
        id
    }

    fn stands(&self, task: i64) -> (TaskStatus, u32) {
        let task = tasks::get(&self.conn, task).unwrap().unwrap();
        (task.status, task.attempt)
    }

    fn told(&self) -> Vec<String> {
        let events = events::after(&self.conn, 0, 1_000).unwrap();
        events.into_iter().map(|e| e.name).filter(|name| name.starts_with("task:")).collect()
    }
}

#[test]
fn a_task_is_tried_four_times_and_its_error_is_kept_in_mind() {
    let mut desk = Desk::new();
    let task = desk.task("Send greeting", "10:00:00");
    assert_eq!(desk.stands(task), (TaskStatus::Queued, 1));
    let mut now = at("10:00:00");
    for attempt in 1..=4 {
        let tick = desk.tick(now);
        assert_eq!(tick.leased.len(), 1, "attempt {attempt} at {now}");
        assert_eq!((tick.leased[0].attempt, tick.leased[0].job), (attempt, None));
        assert_eq!(desk.stands(task), (TaskStatus::Running, attempt));
        let done = desk.finish(tick.leased[0].id, RunStatus::Failed, now);
        assert_eq!(done.retry.is_some(), attempt < 4);
        assert!(desk.tick(now).leased.is_empty(), "not before its time");
        now += SignedDuration::from_secs(10 << (attempt - 1));
    }
    let row = tasks::get(&desk.conn, task).unwrap().unwrap();
    assert_eq!((row.status, row.error.as_deref()), (TaskStatus::Failed, Some("no reason")));
    assert_eq!((row.started_at, row.finished_at), (Some(at("10:00:00")), Some(at("10:01:10"))));
    let facts = facts::list(&desk.conn, Some("error"), None, i64::MAX, 10).unwrap();
    assert_eq!(facts.len(), 1);
    assert_eq!((facts[0].agent.as_str(), facts[0].category.as_str()), ("orchestrator", "error"));
    assert_eq!(facts[0].fact, "Background task 1 (\"Send greeting\") failed: no reason");
    assert_eq!(desk.told(), ["task:failed"]);
}

#[test]
fn a_task_that_ends_well_is_completed_and_waits_between_attempts_as_running() {
    let mut desk = Desk::new();
    let task = desk.task("t", "10:00:00");
    let first = desk.tick(at("10:00:00")).leased[0].id;
    desk.finish(first, RunStatus::Lost, at("10:00:01"));
    assert_eq!(desk.stands(task), (TaskStatus::Running, 2), "its next attempt waits");
    let second = desk.tick(at("10:00:11")).leased[0].id;
    desk.finish(second, RunStatus::Succeeded, at("10:00:12"));
    assert_eq!(desk.stands(task), (TaskStatus::Completed, 2));
    assert_eq!(desk.told(), ["task:completed"]);
    assert!(facts::list(&desk.conn, None, None, i64::MAX, 10).unwrap().is_empty());
}

#[test]
fn nothing_of_a_task_starts_while_its_agent_is_halted_and_ten_run_at_a_time() {
    let mut desk = Desk::new();
    desk.limits = Runs { max_running_per_agent: 100, ..Runs::default() };
    assert_eq!(desk.limits.max_running, 10);
    for n in 0..12 {
        desk.task(&format!("t{n}"), "10:00:00");
    }
    let agent: AgentId = "a".parse().unwrap();
    let ready = desk.agents[&agent].clone();
    desk.agents.insert(agent.clone(), Readiness { alive_since: None, ..ready.clone() });
    assert!(desk.tick(at("10:00:01")).leased.is_empty(), "halted");
    desk.agents.insert(agent, ready);
    let tick = desk.tick(at("10:00:02"));
    assert_eq!(tick.leased.len(), 10);
    desk.finish(tick.leased[3].id, RunStatus::Succeeded, at("10:00:03"));
    assert_eq!(desk.tick(at("10:00:03")).leased.len(), 1);
}

#[test]
fn a_task_that_is_cancelled_has_failed_and_one_that_never_started_is_put_back() {
    let mut desk = Desk::new();
    let (waiting, going) = (desk.task("waiting", "10:00:00"), desk.task("going", "10:00:00"));
    let cancelled = |desk: &mut Desk, run| {
        let tx = desk.conn.transaction().unwrap();
        cancel(&tx, run, at("10:00:01")).unwrap();
        tx.commit().unwrap();
    };
    let run = tasks::get(&desk.conn, waiting).unwrap().unwrap().run;
    cancelled(&mut desk, run);
    assert_eq!(desk.stands(waiting), (TaskStatus::Failed, 1));
    let run = desk.tick(at("10:00:02")).leased[0].id;
    let tx = desk.conn.transaction().unwrap();
    assert!(requeue(&tx, run, at("10:00:03")).unwrap());
    tx.commit().unwrap();
    assert_eq!(desk.stands(going).0, TaskStatus::Queued);
    let again = desk.tick(at("10:00:04")).leased[0].id;
    assert_eq!(again, run);
    cancelled(&mut desk, run);
    let done = desk.finish(run, RunStatus::Failed, at("10:00:05"));
    assert_eq!((done.run.status, done.retry), (RunStatus::Cancelled, None));
    let row = tasks::get(&desk.conn, going).unwrap().unwrap();
    assert_eq!((row.status, row.error.as_deref()), (TaskStatus::Failed, Some("it was cancelled")));
}

#[test]
fn a_job_that_queues_a_task_whenever_one_ends_is_stopped_by_the_depth() {
    let mut desk = Desk::new();
    desk.job("loop", events_heard::hearing(&["task:*"]), "10:00:00");
    desk.deep_task("first", 0, "10:00:00");
    let mut tasks = 1;
    for n in 0..60 {
        let now = at("10:01:00") + SignedDuration::from_secs(n);
        for run in desk.tick(now).leased {
            if run.job.is_some() {
                // As the hive's tool does in a run: it is led to by what goes on in its agent.
                let depth = crate::db::runs::depth_of(&desk.conn, &run.agent).unwrap().unwrap();
                assert!(depth >= run.depth);
                desk.deep_task("again", depth, "10:01:00");
                tasks += 1;
            }
            desk.finish(run.id, RunStatus::Succeeded, now);
        }
    }
    assert_eq!(tasks, MAX_DEPTH, "the first, and one for each event that was not too deep");
    let runs = crate::db::runs::rows(&desk.conn, "WHERE status = 'skipped'", []).unwrap();
    assert_eq!(runs.iter().filter_map(|run| run.reason.as_deref()).collect::<Vec<_>>(), ["depth"]);
    assert_eq!(
        crate::db::runs::depth_of(&desk.conn, &"a".parse().unwrap()).unwrap(),
        None,
        "nothing goes on"
    );
}

#[test]
fn a_call_is_begun_once_and_what_would_fail_again_is_not_tried_again() {
    use crate::db::runs::{self, Act};
    let mut desk = Desk::new();
    let task = desk.task("t", "10:00:00");
    let run = desk.tick(at("10:00:00")).leased[0].id;
    let act = |desk: &Desk| runs::get(&desk.conn, run).unwrap().unwrap().act;
    assert_eq!(act(&desk), None);
    assert!(desk.tx(|tx| runs::begin_act(tx, run).unwrap()));
    assert_eq!(act(&desk), Some(Act::Begun));
    assert!(!desk.tx(|tx| runs::begin_act(tx, run).unwrap()), "also for a supervisor that comes later");
    for known in [Act::Failed, Act::Wrong] {
        desk.tx(|tx| runs::note_act(tx, run, known).unwrap());
        assert_eq!(act(&desk), Some(known));
    }
    let outcome = Outcome { lasting: true, ..Outcome::without_output(RunStatus::Failed, "path is missing") };
    let now = at("10:00:01");
    let done = desk.tx(|tx| finish(tx, run, &outcome, None, None, now, &|_, _, _, _| Ok(false)).unwrap());
    assert_eq!(done.unwrap().retry, None);
    assert_eq!(desk.stands(task), (TaskStatus::Failed, 1));
    assert_eq!(desk.told(), ["task:failed"]);
    assert!(!desk.tx(|tx| runs::begin_act(tx, run).unwrap()), "it is over");
}

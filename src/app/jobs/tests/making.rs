//! Making, changing and removing jobs, and who may.

use super::*;
use crate::db::queue::Obstacle;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_job_is_answered_whole_with_its_next_fire_times() {
    let bench = bench().await;
    let body = json!({"name": "post", "agent": "reader", "schedule": "0 9 * * *", "tool": "read-file"});
    let JobWritten { job, warnings, next_fires } = bench.try_create(body).await.unwrap();
    assert_eq!((job.agent.as_str(), job.origin.as_str(), job.enabled), ("reader", "api", true));
    assert_eq!(job.trigger.timezone.as_deref(), Some("Europe/Berlin"), "the hive's zone is written in");
    assert_eq!((job.timeout.as_str(), job.missed_within.as_deref()), ("1m", Some("1d")));
    assert_eq!((job.disabled_reason, job.waiting_reason), (None, None));
    assert!(warnings[0].contains("Europe/Berlin"), "{warnings:?}");
    assert_eq!(next_fires.len(), 3);
    assert_eq!(job.next_fire_at.as_ref(), next_fires.first());
    assert!(next_fires.iter().all(|at| at.contains("T09:00:00+0")), "{next_fires:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_on_the_way_in_is_told() {
    let bench = bench().await;
    let plan = json!([{"tool": "read-file", "args": {}}, {"tool": "write-file", "args": {}}]);
    let body = json!({"name": "a", "manual": true, "instructions": "Copy it.", "execution_plan": plan});
    let JobWritten { job, warnings, .. } = bench.try_create(body).await.unwrap();
    assert_eq!((job.agent.as_str(), job.tier.as_str()), ("writer", "agent"));
    assert_eq!(job.required_tools, ["read-file", "write-file"]);
    let told = warnings.join("\n");
    assert!(told.contains("default agent") && told.contains("step"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_nobody_knows_is_refused() {
    let bench = bench_with("[[notify.webhook]]\nname = 'ops'\nurl = 'https://ops.example/hook'\n").await;
    let made = bench.create(json!({"notify": {"targets": ["ops"]}})).await.job;
    let body =
        json!({"name": "b", "every": "1h", "tool": "read-file", "notify": {"targets": ["ops", "opps"]}});
    let told =
        |place: &str| (place.to_owned(), "[notify] has no target \"opps\"; did you mean \"ops\"?".to_owned());
    assert_eq!(places(bench.try_create(body).await), [told("/notify/targets/1")]);
    let body = json!({"notify": {"targets": ["opps"]}});
    assert_eq!(places(bench.update(made.id, body).await), [told("/notify/targets/0")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_with_its_place_and_nothing_is_made() {
    let bench = bench().await;
    let base = json!({"name": "a", "every": "1h"});
    for (more, pointer, says) in [
        (json!({"agent": "writr", "tool": "read-file"}), "/agent", "did you mean writer?"),
        (json!({"agent": "reader", "instructions": "Go."}), "/instructions", "no `command`"),
        (json!({"tool": "read-fil"}), "/tool", "did you mean \"read-file\"?"),
        (json!({"agent": "zoe", "tool": "read-file"}), "/tool", "none but the hive's own"),
        (json!({"instructions": "Go.", "required_tools": ["read-file", "x"]}), "/required_tools/1", "\"x\""),
        (json!({"tool": "read-file", "timezone": "Europe/Berlim"}), "/timezone", "Europe/Berlin"),
        (json!({"tool": "read-file", "every": "0s"}), "/every", ""),
    ] {
        let mut body = base.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let found = places(bench.try_create(body).await);
        assert_eq!(found[0].0, pointer, "{found:?}");
        assert!(found[0].1.contains(says), "{found:?}");
    }
    assert!(bench.jobs().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_an_agents_once() {
    let bench = bench().await;
    let first = bench.create(json!({})).await.job;
    let again = bench.try_create(json!({"name": "a", "manual": true, "tool": "read-file"})).await;
    assert!(conflict(again).contains(&format!("job {}", first.id)));
    bench.create(json!({"agent": "reader"})).await;
    let second = bench.create(json!({"name": "b"})).await.job;
    assert!(conflict(bench.update(second.id, json!({"name": "a"})).await).contains(&format!("{}", first.id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_a_trigger_never_fires_the_past() {
    let bench = bench().await;
    let job = bench.create(json!({"every": "3h"})).await.job;
    let before = bench.row(job.id).await;
    // Two hours later it is made to fire every hour: from now on, not at once.
    let now = bench.hive.now();
    let old = now - seconds(2 * 3600);
    bench
        .hive
        .db
        .write(move |tx| db::jobs::update(tx, &JobRow { anchor: old, ..before }, "job:updated", now))
        .await
        .unwrap();
    bench.update(job.id, json!({"every": "1h"})).await.unwrap();
    let next = bench.row(job.id).await.next.unwrap().at;
    assert!(next > now + seconds(3500) && next < now + seconds(3700), "{next}");
    // Longer than since its last start: counted from there.
    bench.update(job.id, json!({"every": "5h"})).await.unwrap();
    let row = bench.row(job.id).await;
    assert_eq!(row.next.unwrap().at, row.anchor + seconds(5 * 3600));
    assert_eq!(bench.tick(now).await.leased, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_changes_nothing_writes_nothing() {
    let bench = bench().await;
    let job = bench.create(json!({})).await.job;
    let last = bench.last_event().await;
    let shown = serde_json::to_value(&job).unwrap();
    let same = bench.update(job.id, shown).await.unwrap().job;
    assert_eq!(same, job);
    assert_eq!(bench.update(job.id, json!({"enabled": true})).await.unwrap().job, job);
    assert_eq!(bench.events(last).await, [""; 0]);
    bench.update(job.id, json!({"description": "New."})).await.unwrap();
    assert_eq!(bench.events(last).await, ["job:updated"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_a_job_cancels_what_waits_and_lets_run_what_runs() {
    let bench = bench().await;
    let job = bench.create(json!({"overlap": "allow"})).await.job;
    let first = bench.hive.run_job(None, job.id, None).await.unwrap();
    assert_eq!(bench.tick(bench.hive.now()).await.leased.len(), 1);
    let second = bench.hive.run_job(None, job.id, None).await.unwrap();
    let last = bench.last_event().await;
    bench.hive.delete_job(None, job.id).await.unwrap();
    assert_eq!(bench.events(last).await, ["run:cancelled", "job:deleted"]);
    let run = async |id| bench.hive.run(None, id).await.unwrap();
    assert_eq!((run(first.id).await.status.as_str(), run(first.id).await.job), ("running", None));
    assert_eq!(run(second.id).await.status.as_str(), "cancelled");
    assert!(matches!(bench.hive.delete_job(None, job.id).await, Err(AppError::NotFound(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_demand_obeys_the_overlap_policy_and_needs_its_tools() {
    let bench = bench().await;
    let job = bench.create(json!({})).await.job;
    let run = bench.hive.run_job(None, job.id, None).await.unwrap();
    assert_eq!((run.trigger.as_str(), run.status.as_str()), ("manual", "queued"));
    assert!(conflict(bench.hive.run_job(None, job.id, None).await).contains(&format!("run {}", run.id)));
    let body = json!({"name": "b", "manual": true, "tool": "later", "enabled": false});
    let waiting = bench.try_create(body).await.unwrap().job;
    assert!(conflict(bench.hive.run_job(None, waiting.id, None).await).contains("no tool \"later\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacing_run_ends_the_one_that_runs() {
    let bench = bench().await;
    let job = bench.create(json!({"overlap": "replace"})).await.job;
    let old = bench.hive.run_job(None, job.id, None).await.unwrap();
    bench.tick(bench.hive.now()).await;
    bench.hive.run_job(None, job.id, None).await.unwrap();
    let row = bench.hive.db.read(move |conn| db::runs::get(conn, old.id)).await.unwrap().unwrap();
    assert_eq!(row.ending, Some(db::runs::Ending::Replaced));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sees_and_manages_its_own_jobs_alone() {
    let bench = bench().await;
    let (reader, hive) = (agent("reader"), &bench.hive);
    let own = hive
        .create_job(Some(&reader), json!({"name": "mine", "manual": true, "tool": "read-file"}), None)
        .await
        .unwrap()
        .job;
    assert_eq!((own.agent.as_str(), own.origin.as_str()), ("reader", "agent"));
    let other = bench.create(json!({})).await.job;
    let body = json!({"agent": "writer", "name": "x", "manual": true, "tool": "read-file"});
    let foreign = hive.create_job(Some(&reader), body, None).await;
    assert!(matches!(foreign, Err(AppError::Forbidden(_))), "{foreign:?}");
    let listed = hive.jobs(Some(&reader), JobFilter::default(), 0, 10).await.unwrap();
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [own.id]);
    let filter = JobFilter { agent: Some(agent("writer")), ..JobFilter::default() };
    assert!(hive.jobs(Some(&reader), filter, 0, 10).await.unwrap().is_empty());
    // What is another's looks like what is not there.
    let caller = Some(&reader);
    for id in [other.id, 999] {
        let said = [
            hive.job(caller, id).await.unwrap_err().to_string(),
            hive.update_job(caller, id, json!({})).await.unwrap_err().to_string(),
            hive.delete_job(caller, id).await.unwrap_err().to_string(),
            hive.run_job(caller, id, None).await.unwrap_err().to_string(),
            hive.pause_job(caller, id).await.unwrap_err().to_string(),
            hive.resume_job(caller, id).await.unwrap_err().to_string(),
            hive.job_fires(caller, id, 1).await.unwrap_err().to_string(),
        ];
        assert_eq!(said, [const { "" }; 7].map(|_: &str| format!("there is no job {id}")));
    }
    let paused = hive.pause_job(caller, own.id).await.unwrap();
    assert_eq!(paused.disabled_reason.as_deref(), Some("paused by agent reader"));
    hive.delete_job(caller, own.id).await.unwrap();
    assert_eq!(bench.names().await, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_undo_the_operators_pause_of_its_job() {
    let bench = bench().await;
    let (reader, hive) = (agent("reader"), &bench.hive);
    let body = json!({"name": "mine", "every": "1h", "tool": "read-file"});
    let id = hive.create_job(Some(&reader), body, None).await.unwrap().job.id;
    let caller = Some(&reader);
    hive.pause_job(caller, id).await.unwrap();
    assert!(hive.resume_job(caller, id).await.unwrap().enabled, "its own pause it lifts");
    hive.pause_job(None, id).await.unwrap();
    hive.pause_job(caller, id).await.unwrap();
    assert!(conflict(hive.resume_job(caller, id).await).contains("the operator, who alone resumes it"));
    for body in [json!({"enabled": true}), json!({"enabled": true, "every": "2h"})] {
        assert!(conflict(hive.update_job(caller, id, body).await).contains("who alone resumes it"));
    }
    let body = json!({"enabled": false, "every": "2h"});
    assert!(!hive.update_job(caller, id, body).await.unwrap().job.enabled);
    assert!(conflict(hive.resume_job(caller, id).await).contains("who alone resumes it"));
    assert!(hive.resume_job(None, id).await.unwrap().enabled);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_in_the_way_of_a_run_that_is_about_to_start_and_others_say_what_is() {
    let bench = bench().await;
    let allow = bench.create(json!({"name": "b", "overlap": "allow"})).await.job.id;
    let queue = bench.create(json!({"overlap": "queue"})).await.job.id;
    let why = async |id: i64| {
        let limits = bench.hive.world().config.runs;
        let read = move |conn: &db::Conn| {
            let run = db::runs::get(conn, id)?.unwrap();
            crate::app::runs::obstructed(conn, run, &limits)
        };
        bench.hive.db.read(read).await.unwrap().1
    };
    let run = async |job| bench.hive.run_job(None, job, None).await.unwrap().id;
    let first = run(queue).await;
    assert_eq!(why(first).await, None);
    bench.tick(bench.hive.now()).await;
    let second = run(queue).await;
    assert_eq!(why(second).await, Some(Obstacle::Run(first)));
    let refused = conflict(bench.hive.run_job(None, queue, None).await);
    assert!(refused.starts_with(&format!("run {second} of job {queue} waits already")), "{refused}");
    for _ in 0..3 {
        run(allow).await;
    }
    bench.tick(bench.hive.now()).await;
    assert_eq!(why(run(allow).await).await, Some(Obstacle::Slots(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_make_jobs_without_end() {
    let bench = bench().await;
    let (reader, now) = (agent("reader"), bench.hive.now());
    let fill = move |tx: &db::Tx<'_>| {
        for n in 0..1_000 {
            let spec = crate::scheduler::job::JobSpec::new(crate::scheduler::job::TriggerSpec::Manual);
            let new = db::jobs::NewJob {
                agent: agent("reader"),
                name: format!("job-{n}"),
                origin: db::jobs::Origin::Agent,
                spec,
                disabled_reason: None,
                auto_enable: false,
                next: None,
            };
            db::jobs::insert(tx, &new, now)?;
        }
        Ok::<_, db::jobs::JobError>(())
    };
    bench.hive.db.write(fill).await.unwrap();
    let body = json!({"agent": "reader", "name": "more", "manual": true, "tool": "read-file"});
    let refused = bench.hive.create_job(Some(&reader), body.clone(), None).await;
    assert!(conflict(refused).contains("has 1000 jobs"));
    bench.try_create(body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_are_masked_wherever_a_job_carries_them() {
    let bench = bench().await;
    let value = crate::secrets::SecretValue::new("hunter22hunter").unwrap();
    bench.hive.set_secret(&"API_KEY".parse().unwrap(), value).await.unwrap();
    let args = json!({"path": "x/hunter22hunter", "hunter22hunter": 1});
    let job = bench.create(json!({"args": args, "description": "With hunter22hunter."})).await.job;
    let shown = serde_json::to_string(&job).unwrap();
    assert!(!shown.contains("hunter22") && shown.contains("x/***"), "{shown}");
    assert_eq!(
        bench.row(job.id).await.spec.args["path"],
        "x/hunter22hunter",
        "the run gets what was written"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_makes_one_job_and_is_answered_the_same() {
    let bench = bench().await;
    let body = json!({"name": "a", "tool": "read-file", "in_minutes": 5});
    let key = |hash: &str| super::super::once_key(None, "POST /v1/jobs".into(), "k1", hash.as_bytes()).ok();
    let first = bench.hive.create_job(None, body.clone(), key("one")).await.unwrap();
    bench.hive.pause_job(None, first.job.id).await.unwrap();
    let again = bench.hive.create_job(None, body.clone(), key("one")).await.unwrap();
    assert_eq!(again, first);
    let other = places(bench.hive.create_job(None, body.clone(), key("two")).await);
    assert_eq!(other[0].0, "Idempotency-Key");
    // Another caller's key is another key; what was refused is not kept.
    let own = super::super::once_key(Some(&agent("reader")), "POST /v1/jobs".into(), "k1", b"one").ok();
    let made = bench.hive.create_job(Some(&agent("reader")), body.clone(), own).await.unwrap();
    assert_ne!(made.job.id, first.job.id);
    let refused = super::super::once_key(None, "POST /v1/jobs".into(), "k2", b"x").ok();
    conflict(bench.hive.create_job(None, body.clone(), refused.clone()).await);
    bench.hive.delete_job(None, first.job.id).await.unwrap();
    assert_ne!(bench.hive.create_job(None, body, refused).await.unwrap().job.id, first.job.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_told_that_its_job_would_never_hear_of_the_hive() {
    let bench = bench().await;
    let writer: AgentId = "writer".parse().unwrap();
    let make = async |caller: Option<&AgentId>, name: &str, event: Value| {
        let args = json!({"path": "a"});
        let body =
            json!({"name": name, "agent": "writer", "event": event, "tool": "read-file", "args": args});
        bench.hive.create_job(caller, body, None).await
    };
    let deaf = make(Some(&writer), "deaf", json!(["task:*", "run:failed"])).await.unwrap_err();
    let AppError::Invalid { detail, errors } = &deaf else { panic!("{deaf:?}") };
    assert_eq!(errors[0].0, "/event");
    assert!(detail.starts_with("\"task:*\", \"run:failed\" is of the hive's own events"), "{detail}");
    assert!(detail.contains("have the operator make this job"), "{detail}");
    let half = make(Some(&writer), "half", json!(["task:*", "report"])).await.unwrap();
    assert!(half.warnings.iter().any(|told| told.starts_with("\"task:*\" is of")), "{:?}", half.warnings);
    for (name, event) in [("all", json!(["*"])), ("own", json!(["report", "crm:*"]))] {
        assert_eq!(make(Some(&writer), name, event).await.unwrap().warnings, [""; 0], "{name}");
    }
    assert_eq!(make(None, "operators", json!(["task:*"])).await.unwrap().warnings, [""; 0]);
    let change = json!({"event": ["run:*"]});
    let refused = bench.hive.update_job(Some(&writer), half.job.id, change).await.unwrap_err();
    assert!(refused.to_string().contains("do not hear"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_the_tool_does_not_take_are_warned_of() {
    let bench = bench().await;
    let body = |args: Value| json!({"name": "r", "agent": "reader", "manual": true, "tool": "read-file", "args": args});
    let made = bench.try_create(body(json!({"pth": "a"}))).await.unwrap();
    let told = made.warnings.join("\n");
    assert!(told.contains("its runs will fail: the arguments are not what read-file takes"), "{told}");
    assert!(told.contains("path"), "{told}");
    let mended = json!({"args": {"path": "a"}});
    let written = bench.hive.update_job(None, made.job.id, mended).await.unwrap();
    assert_eq!(written.warnings, [""; 0]);
}

use serde_json::json;

use super::*;
use crate::cli::{job::tests::clock, run::tests::view, ui::render_table};

#[test]
fn the_table_tells_what_came_of_each_run() {
    let over = json!({"started_at": null, "finished_at": null, "summary": null, "status": "skipped"});
    let with = |fields: serde_json::Value| {
        let mut all = over.clone();
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        view(&all)
    };
    let runs = [
        view(&json!({"id": 20, "status": "running", "finished_at": null, "summary": null})),
        with(json!({"id": 19, "status": "queued", "reason": "a free slot"})),
        view(
            &json!({"id": 18, "status": "failed", "attempt": 2, "error": "exit code 3:\nno such file", "exit_code": 3}),
        ),
        with(
            json!({"id": 17, "reason": "missed", "skipped": 240, "skipped_until": "2026-01-02T05:50:00+01:00"}),
        ),
        with(json!({"id": 16, "reason": "overlap"})),
        view(&json!({"id": 15, "status": "cancelled", "error": "somebody cancelled it"})),
        view(&json!({})),
    ];
    let rows = runs.iter().map(|run| row(run, &clock())).collect();
    insta::assert_snapshot!(render_table(&HEAD, rows, false), @r"
    ID  JOB           AGENT   STATUS              SCHEDULED  STARTED     TOOK         SUMMARY
    20  morning-post  writer  running             Fri 06:00  60 min ago  59 min 59 s
    19  morning-post  writer  queued              Fri 06:00  -           -            waits: a free slot
    18  morning-post  writer  failed (attempt 2)  Fri 06:00  60 min ago  12.5 s       exit code 3: no such file
    17  morning-post  writer  skipped             Fri 06:00  -           -            missed: skep was down or halted (240 times, the last Fri 05:50)
    16  morning-post  writer  skipped             Fri 06:00  -           -            overlap: an earlier run was not over
    15  morning-post  writer  cancelled           Fri 06:00  60 min ago  12.5 s       somebody cancelled it
    12  morning-post  writer  succeeded           Fri 06:00  60 min ago  12.5 s       posted
    ");
}

//! Keeps history and output within `[runs]`: old runs go, old output goes, and the oldest output when all is too much.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::output;
use crate::{
    app::hive::Hive,
    db::{self, DbError},
};

/// How often bounds are looked at.
const PAUSE: Duration = Duration::from_secs(60);
/// Rows that are removed in one transaction, so that others wait for milliseconds only.
const BATCH: u32 = 25;
/// Events that are kept.
const EVENTS: u32 = 200_000;

/// Looks at the bounds until the hive stops.
pub(super) async fn keep_bounds(hive: Arc<Hive>) {
    loop {
        if let Err(e) = once(&hive).await {
            tracing::warn!(error = %e, "cannot tidy up the history of runs");
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = hive.stopping.cancelled() => return,
        }
    }
}

async fn once(hive: &Arc<Hive>) -> Result<(), DbError> {
    let limits = hive.world().config.runs;
    let now = hive.now();
    let before = |age: Duration| now.checked_sub(age).unwrap_or(Timestamp::MIN);
    let outputs = hive.db.read(db::runs::with_output).await?;
    let mut total: u64 = outputs.iter().map(|(.., bytes)| bytes).sum();
    let oldest = before(limits.keep_output).max(before(limits.keep_history));
    for (id, agent, finished, bytes) in outputs {
        if finished >= oldest && total <= limits.keep_output_size {
            continue;
        }
        let folder = hive.paths.agent(&agent).run(id);
        let removed = tokio::task::spawn_blocking(move || output::remove(&folder)).await;
        if let Ok(Err(e)) = &removed {
            tracing::warn!(run = id, error = %e, "its old output cannot be removed");
            continue;
        }
        total -= bytes;
        hive.db.write(move |tx| db::runs::output_gone(tx, id)).await?;
    }
    let gone = before(limits.keep_history);
    while hive.db.write(move |tx| db::runs::prune(tx, gone, BATCH)).await? == BATCH as usize {}
    while hive.db.write(move |tx| db::tasks::prune(tx, gone, BATCH)).await? == BATCH as usize {}
    while hive.db.write(move |tx| db::outbox::prune(tx, gone, BATCH)).await? == BATCH as usize {}
    hive.db.write(move |tx| db::jobs::forget_removed(tx, gone)).await?;
    hive.db.write(|tx| db::events::prune(tx, EVENTS)).await?;
    Ok(())
}

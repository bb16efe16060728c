//! What becomes of mail when the run that was to answer it is over, and of mail whose recipient has gone.

use jiff::Timestamp;

use super::send::{Outgoing, post, undelivered};
use crate::{
    app::world::World,
    db::{self, DbError, mail::Waiting, runs::RunRow},
    mail::{Party, Status, draft::reply_subject},
    runs::state::RunStatus,
};

/// Why a message waits no more.
pub(super) enum Over {
    /// There is nobody to wake.
    Arrived,
    /// It was answered, or as it ended, with this summary.
    Ran(Option<String>),
    /// It is a dead letter.
    Dead(String, Option<i64>),
}

/// What waits and need not.
pub(super) fn over(conn: &db::Conn, world: &World) -> Result<Vec<(Waiting, Over)>, DbError> {
    let mut found = Vec::new();
    for waiting in db::mail::all_waiting(conn)? {
        let Party::Agent(agent) = &waiting.to else {
            found.push((waiting, Over::Arrived));
            continue;
        };
        let run = match waiting.event {
            Some(event) => db::mail::run_of(conn, agent, event)?,
            None => None,
        };
        let known = world.config.agents.contains_key(agent);
        let over = match run {
            Some(run) if run.status.is_over() => ended(run),
            Some(run) if !known && run.status == RunStatus::Queued => {
                Over::Dead(format!("agent {agent} is no longer there"), Some(run.id))
            }
            Some(_) => continue,
            None if !known => Over::Dead(format!("agent {agent} is no longer there"), None),
            None if waiting.event.is_some() => {
                Over::Dead("the run that was to answer it is gone".into(), None)
            }
            None => continue,
        };
        found.push((waiting, over));
    }
    Ok(found)
}

fn ended(run: RunRow) -> Over {
    if run.status == RunStatus::Succeeded {
        return Over::Ran(run.summary);
    }
    let what = match run.status {
        RunStatus::TimedOut => "ran out of time",
        RunStatus::Cancelled => "was cancelled",
        RunStatus::Lost => "was lost",
        RunStatus::Skipped => "was skipped",
        _ => "failed",
    };
    let tries = if run.attempt > 1 { format!(" (attempt {})", run.attempt) } else { String::new() };
    let error = run.error.or(run.reason).map(|why| format!(": {why}")).unwrap_or_default();
    Over::Dead(format!("run {}{tries} that was to answer it {what}{error}", run.id), None)
}

/// Records it, in one transaction with the answers and notices that it leads to.
pub(super) fn settle(tx: &db::Tx<'_>, world: &World, now: Timestamp) -> Result<(), DbError> {
    for (waiting, over) in over(tx, world)? {
        let Some(mail) = db::mail::get(tx, waiting.mail)? else { continue };
        let set = |status, why: Option<&str>| {
            db::mail::set_status(tx, mail.id, &waiting.to, Status::Queued, status, why)
        };
        match over {
            Over::Arrived => set(Status::Delivered, None).map(drop)?,
            Over::Dead(why, run) => {
                set(Status::Dead, Some(&why))?;
                if let Some(run) = run {
                    db::queue::cancel(tx, run, now)?;
                }
                undelivered(tx, &mail, &waiting.to, &why, now)?;
            }
            Over::Ran(_) if db::mail::replied(tx, mail.id, &waiting.to)? => {
                set(Status::Answered, None).map(drop)?;
            }
            Over::Ran(Some(summary)) if mail.from != Party::Hive => {
                set(Status::Answered, None)?;
                let out = Outgoing {
                    from: waiting.to.clone(),
                    to: vec![mail.from.clone()],
                    subject: reply_subject(&mail.subject),
                    body: summary,
                    attachments: Vec::new(),
                    replied: Some(mail),
                    answering: None,
                };
                post(tx, world, &out, now)?;
            }
            Over::Ran(_) => set(Status::Delivered, Some("it was read and not answered")).map(drop)?,
        }
    }
    Ok(())
}

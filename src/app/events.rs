//! The hive's events: raised by the operator, listed, followed. What is told of changes is written with them.
//!
//! Readers follow the ids in the outbox, so that none is lost between two reads; what is no longer kept is told as a
//! gap.

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    Result,
    hive::Hive,
    job_types::EventView,
    jobs::{OnceKey, once},
    types::AppError,
};
use crate::db::{self, DbError, events::Event};

/// Characters of a name.
const MAX_NAME: usize = 100;
/// Bytes of an event's data as JSON.
const MAX_DATA: usize = 64 * 1024;
/// Told instead of events that are no longer kept.
const GAP: &str = "hive:gap";
/// Events that are read in one go.
const BATCH: usize = 256;

/// Which events.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Those after the one with this id; none: with `follow` those to come, else all that are kept.
    pub after: Option<i64>,
    /// Only of this name; `*` at its end stands for the rest.
    pub name: Option<String>,
    /// Go on with what comes.
    pub follow: bool,
}

/// Some events, and where to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct EventBatch {
    /// In order.
    pub events: Vec<EventView>,
    /// Nothing up to this id is left to tell.
    pub position: i64,
    /// There are more.
    pub more: bool,
}

impl Hive {
    /// Raises an event: jobs that wait for its name run. Secrets in its data are masked.
    ///
    /// # Errors
    /// The name is not one, or the hive's own; the data are too large; the database fails.
    pub async fn raise(&self, name: String, data: Value, key: Option<OnceKey>) -> Result<EventView> {
        let mut errors: Vec<(String, String)> = Vec::new();
        errors.extend(check_name(&name).err().map(|why| ("/name".to_owned(), why)));
        let bytes = data.to_string().len();
        if bytes > MAX_DATA {
            let why =
                format!("the data of an event have {bytes} bytes as JSON, at most {MAX_DATA} are possible");
            errors.push(("/data".to_owned(), why));
        }
        if let Some((_, first)) = errors.first() {
            return Err(AppError::Invalid { detail: first.clone(), errors });
        }
        let (now, data) = (self.now(), self.world().masker.mask_json(&data));
        let event = self
            .db
            .write(move |tx| {
                once(tx, key.as_ref(), now, || {
                    let id = db::events::append(tx, now, &name, &data)?;
                    Ok(EventView { id, at: format!("{now:.3}"), name, data })
                })
            })
            .await?;
        self.due.notify_one();
        Ok(event)
    }

    /// At most `limit` events after the one with id `after`, of `name`.
    ///
    /// # Errors
    /// The database fails.
    pub async fn events(&self, after: i64, name: Option<String>, limit: usize) -> Result<EventBatch> {
        let now = self.now();
        Ok(self.db.read(move |conn| read(conn, after, name.as_deref(), limit, now)).await?)
    }

    /// The id after which the last `count` events of `name` come; 0 when no more are kept.
    ///
    /// # Errors
    /// The database fails.
    pub async fn before_last_events(&self, name: Option<String>, count: usize) -> Result<i64> {
        Ok(self.db.read(move |conn| db::events::before_last(conn, name.as_deref(), count)).await?)
    }

    /// Events as they come. The channel ends when the hive stops, or without `follow` after the last one.
    ///
    /// # Errors
    /// The database fails.
    pub async fn follow_events(&self, query: EventQuery) -> Result<mpsc::Receiver<EventView>> {
        let EventQuery { after, name, follow } = query;
        let mut commits = self.db.commits();
        let mut position = match after {
            Some(after) => after,
            None if follow => self.db.read(db::events::bounds).await?.map_or(0, |(_, newest)| newest),
            None => 0,
        };
        let (sender, receiver) = mpsc::channel(BATCH);
        let (db, stopping, now) = (self.db.clone(), self.stopping.clone(), self.now());
        tokio::spawn(async move {
            loop {
                // Before the read, so that what is committed meanwhile wakes it again.
                commits.borrow_and_update();
                let name = name.clone();
                let batch = match db.read(move |conn| read(conn, position, name.as_deref(), BATCH, now)).await
                {
                    Ok(batch) => batch,
                    Err(e) => return tracing::error!(error = %e, "cannot read events for a follower"),
                };
                position = batch.position;
                for event in batch.events {
                    if sender.send(event).await.is_err() {
                        return;
                    }
                }
                if batch.more {
                    continue;
                }
                if !follow {
                    return;
                }
                tokio::select! {
                    changed = commits.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                    () = stopping.cancelled() => return,
                }
            }
        });
        Ok(receiver)
    }
}

/// Whether somebody may raise an event of this name.
fn check_name(name: &str) -> std::result::Result<(), String> {
    let mut bytes = name.bytes();
    let begins = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
    let goes_on = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.:-".contains(&b);
    if !begins || !bytes.all(goes_on) || name.len() > MAX_NAME {
        return Err(format!(
            "{name:?} is not a name of an event: use lowercase letters, digits and _ . : -, starting with a letter, at \
             most {MAX_NAME} characters"
        ));
    }
    match db::events::OWN.iter().find(|own| name.starts_with(**own)) {
        Some(own) => {
            Err(format!("events whose names begin with {own:?} are the hive's own: choose another name"))
        }
        None => Ok(()),
    }
}

fn read(
    conn: &db::Conn,
    after: i64,
    name: Option<&str>,
    limit: usize,
    now: Timestamp,
) -> std::result::Result<EventBatch, DbError> {
    let Some((oldest, newest)) = db::events::bounds(conn)? else {
        return Ok(EventBatch { events: Vec::new(), position: 0, more: false });
    };
    let mut events = Vec::new();
    let mut after = after;
    if after > newest || (after > 0 && after < oldest - 1) {
        // Pruned, or ids of a database that was replaced.
        let data = json!({ "after": after, "oldest": oldest });
        after = oldest - 1;
        events.push(EventView { id: after, at: format!("{now:.3}"), name: GAP.to_owned(), data });
    }
    let found = db::events::named(conn, after, name, limit)?;
    let more = found.len() == limit;
    let position = found.last().filter(|_| more).map_or(newest, |event| event.id);
    events.extend(found.into_iter().map(view));
    Ok(EventBatch { events, position, more })
}

fn view(event: Event) -> EventView {
    EventView { id: event.id, at: format!("{:.3}", event.at), name: event.name, data: event.data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_not_the_hives_own() {
        for name in ["report", "a", "crm:lead.new-1_b", "agents", "runs:x"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "a".repeat(101);
        for name in ["", "Report", "1a", "a b", "a*", "ä", "run:succeeded", "hive:gap", "notify:x", &long] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}

//! Mail: messages, and what became of each for each of its recipients.
//!
//! What is delivered when is decided by `app::mail`; the runs that answer are the queue's.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{
    error::{DbError, DbFault},
    parse_time,
    runs::{self, RunRow},
    skills::search::{apart, quoted},
    time,
};
use crate::{
    ids::AgentId,
    mail::{Attachment, Party, Status, thread::Past},
};

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct MailRow {
    /// Grows with every message of the hive.
    pub id: i64,
    /// The first message of its thread.
    pub thread: i64,
    /// The message that it replies to.
    pub reply_to: Option<i64>,
    /// Who wrote it.
    pub from: Party,
    /// To whom.
    pub to: Vec<Party>,
    /// In a line.
    pub subject: String,
    /// The text.
    pub body: String,
    /// Its files.
    pub attachments: Vec<Attachment>,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// An agent sent it in answer to mail.
    pub automatic: bool,
    /// Such messages in a row, up to this one.
    pub in_a_row: u32,
    /// Events and runs in a row that led to it; answers add none.
    pub depth: u32,
    /// What became of it, a line for each recipient.
    pub deliveries: Vec<Delivery>,
}

/// What became of a message for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// For whom.
    pub to: Party,
    /// Where it stands.
    pub status: Status,
    /// Why it is so.
    pub reason: Option<String>,
    /// When the recipient first read it.
    pub read_at: Option<Timestamp>,
    /// The event whose runs answer it.
    pub event: Option<i64>,
    /// Its files are in the recipient's workspace.
    pub laid: bool,
}

/// A message to be written.
#[derive(Debug, Clone)]
pub struct NewMail {
    /// The thread that it belongs to; none: it begins one.
    pub thread: Option<i64>,
    /// See [`MailRow`].
    pub reply_to: Option<i64>,
    /// See [`MailRow`].
    pub from: Party,
    /// To whom, and where it stands for each, with the reason.
    pub to: Vec<(Party, Status, Option<String>)>,
    /// See [`MailRow`].
    pub subject: String,
    /// See [`MailRow`].
    pub body: String,
    /// See [`MailRow`].
    pub attachments: Vec<Attachment>,
    /// See [`MailRow`].
    pub automatic: bool,
    /// See [`MailRow`].
    pub in_a_row: u32,
    /// See [`MailRow`].
    pub depth: u32,
}

const COLUMNS: &str = "id, thread, reply_to, sender, recipients, subject, body, attachments, sent_at, automatic, \
    in_a_row, depth";

fn party(column: &str, text: &str) -> Result<Party, DbError> {
    text.parse().map_err(|_| DbError::bad_value("mail", column, text))
}

fn json<T: serde::de::DeserializeOwned>(column: &str, text: &str) -> Result<T, DbError> {
    serde_json::from_str(text).map_err(|e| DbFault::BadValue(format!("mail.{column}: {e}")).into())
}

fn text_of<T: serde::Serialize>(value: &T) -> Result<String, DbError> {
    serde_json::to_string(value).map_err(|e| DbFault::BadValue(format!("mail: {e}")).into())
}

fn row(conn: &Connection, r: &Row<'_>) -> Result<MailRow, DbError> {
    let (from, to): (String, String) = (r.get(3)?, r.get(4)?);
    let id = r.get(0)?;
    Ok(MailRow {
        id,
        thread: r.get(1)?,
        reply_to: r.get(2)?,
        from: party("sender", &from)?,
        to: json("recipients", &to)?,
        subject: r.get(5)?,
        body: r.get(6)?,
        attachments: json("attachments", &r.get::<_, String>(7)?)?,
        sent_at: parse_time("mail.sent_at", &r.get::<_, String>(8)?)?,
        automatic: r.get(9)?,
        in_a_row: r.get(10)?,
        depth: r.get(11)?,
        deliveries: deliveries(conn, id)?,
    })
}

fn deliveries(conn: &Connection, id: i64) -> Result<Vec<Delivery>, DbError> {
    let mut query = conn.prepare_cached(
        "SELECT recipient, status, reason, read_at, event_id, laid FROM mail_delivery WHERE mail_id = ?1",
    )?;
    let mut found = query.query([id])?;
    let mut all = Vec::new();
    while let Some(r) = found.next()? {
        let (to, status): (String, String) = (r.get(0)?, r.get(1)?);
        let read: Option<String> = r.get(3)?;
        all.push(Delivery {
            to: party("recipient", &to)?,
            status: Status::parse(&status).ok_or_else(|| DbError::bad_value("mail", "status", &status))?,
            reason: r.get(2)?,
            read_at: read.map(|at| parse_time("mail_delivery.read_at", &at)).transpose()?,
            event: r.get(4)?,
            laid: r.get(5)?,
        });
    }
    Ok(all)
}

fn rows(conn: &Connection, tail: &str, params: impl rusqlite::Params) -> Result<Vec<MailRow>, DbError> {
    let mut query = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM mail {tail}"))?;
    let mut found = query.query(params)?;
    let mut all = Vec::new();
    while let Some(r) = found.next()? {
        all.push(row(conn, r)?);
    }
    Ok(all)
}

/// Writes a message; answers its number.
///
/// # Errors
/// The database fails.
pub fn insert(tx: &Transaction<'_>, new: &NewMail, now: Timestamp) -> Result<i64, DbError> {
    let to: Vec<&Party> = new.to.iter().map(|(party, ..)| party).collect();
    let attached: u64 = new.attachments.iter().map(|file| file.size).sum();
    tx.prepare_cached(
        "INSERT INTO mail (thread, reply_to, sender, recipients, subject, body, attachments, attached, sent_at, \
         automatic, in_a_row, depth) VALUES (coalesce(?1, 0), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        new.thread,
        new.reply_to,
        new.from.as_str(),
        text_of(&to)?,
        new.subject,
        new.body,
        text_of(&new.attachments)?,
        attached.cast_signed(),
        time(now),
        new.automatic,
        new.in_a_row,
        new.depth,
    ])?;
    let id = tx.last_insert_rowid();
    if new.thread.is_none() {
        tx.prepare_cached("UPDATE mail SET thread = id WHERE id = ?1")?.execute([id])?;
    }
    let parties: Vec<&str> = [&new.from].into_iter().chain(to).map(Party::as_str).collect();
    tx.prepare_cached("INSERT INTO mail_search (rowid, parties, subject, body) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, parties.join(" "), apart(&new.subject), apart(&new.body)])?;
    let sql = "INSERT INTO mail_delivery (mail_id, recipient, status, reason) VALUES (?1, ?2, ?3, ?4)";
    for (to, status, reason) in &new.to {
        tx.prepare_cached(sql)?.execute(params![id, to.as_str(), status.as_str(), reason])?;
    }
    Ok(id)
}

/// One message.
///
/// # Errors
/// The database fails.
pub fn get(conn: &Connection, id: i64) -> Result<Option<MailRow>, DbError> {
    Ok(rows(conn, "WHERE id = ?1", [id])?.pop())
}

/// Which messages of somebody are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Folder {
    /// What came.
    #[default]
    Inbox,
    /// What was sent.
    Sent,
    /// What waits: for an answer, or for the operator.
    Queue,
}

/// Messages of `of`, newest first, before the one with id `before`, at most `limit`; with `words` only those that have
/// each of them.
///
/// # Errors
/// The database fails.
pub fn list(
    conn: &Connection,
    of: &Party,
    which: Folder,
    words: Option<&str>,
    before: i64,
    limit: usize,
) -> Result<Vec<MailRow>, DbError> {
    let mine = "EXISTS (SELECT 1 FROM mail_delivery AS d WHERE d.mail_id = mail.id AND d.recipient = ?1 AND";
    let those = match which {
        Folder::Inbox => format!("{mine} d.status <> 'held')"),
        Folder::Sent => "sender = ?1".to_owned(),
        Folder::Queue => format!(
            "({mine} d.status = 'queued') OR (sender = ?1 OR ?1 = 'operator') AND EXISTS (SELECT 1 FROM \
             mail_delivery AS d WHERE d.mail_id = mail.id AND d.status = 'held'))"
        ),
    };
    let words = match words.map(quoted) {
        Some(None) => return Ok(Vec::new()),
        Some(query) => query,
        None => None,
    };
    let found = "(?3 IS NULL OR id IN (SELECT rowid FROM mail_search WHERE mail_search MATCH ?3))";
    let tail = format!("WHERE id < ?2 AND {those} AND {found} ORDER BY id DESC LIMIT {limit}");
    rows(conn, &tail, params![of.as_str(), before, words])
}

/// What a thread did by itself since the operator's last word in it.
///
/// # Errors
/// The database fails.
pub fn past(conn: &Connection, thread: Option<i64>, in_a_row: u32) -> Result<Past, DbError> {
    let Some(thread) = thread else { return Ok(Past { in_thread: 0, in_a_row }) };
    let in_thread = conn
        .prepare_cached(
            "SELECT count(*) FROM mail WHERE thread = ?1 AND automatic AND id > coalesce((SELECT max(id) FROM mail \
             WHERE thread = ?1 AND (released OR sender = 'operator')), 0)",
        )?
        .query_row([thread], |r| r.get(0))?;
    Ok(Past { in_thread, in_a_row })
}

/// How much a sender sent since two times: messages since the first, messages and attached bytes since the second.
///
/// # Errors
/// The database fails.
pub fn sent_since(
    conn: &Connection,
    from: &Party,
    minute: Timestamp,
    day: Timestamp,
) -> Result<(u32, u32, u64), DbError> {
    let sql = "SELECT coalesce(sum(sent_at > ?2), 0), count(*), coalesce(sum(attached), 0) FROM mail \
               WHERE sender = ?1 AND sent_at > ?3";
    let sums = conn.prepare_cached(sql)?.query_row(params![from.as_str(), time(minute), time(day)], |r| {
        Ok((r.get(0)?, r.get(1)?, r.get::<_, i64>(2)?.cast_unsigned()))
    })?;
    Ok(sums)
}

/// How many messages wait for somebody.
///
/// # Errors
/// The database fails.
pub fn waiting(conn: &Connection, of: &Party) -> Result<u32, DbError> {
    let sql = "SELECT count(*) FROM mail_delivery WHERE recipient = ?1 AND status = 'queued'";
    Ok(conn.prepare_cached(sql)?.query_row([of.as_str()], |r| r.get(0))?)
}

/// A message that waits for a recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Which.
    pub mail: i64,
    /// For whom.
    pub to: Party,
    /// The event whose runs answer it; none: none was made yet.
    pub event: Option<i64>,
}

/// Everything that waits, the oldest first.
///
/// # Errors
/// The database fails.
pub fn all_waiting(conn: &Connection) -> Result<Vec<Waiting>, DbError> {
    let mut query = conn.prepare_cached(
        "SELECT mail_id, recipient, event_id FROM mail_delivery WHERE status = 'queued' ORDER BY mail_id",
    )?;
    let mut found = query.query([])?;
    let mut all = Vec::new();
    while let Some(r) = found.next()? {
        let to: String = r.get(1)?;
        all.push(Waiting { mail: r.get(0)?, to: party("recipient", &to)?, event: r.get(2)? });
    }
    Ok(all)
}

/// The last run that answers, or answered, by its event.
///
/// # Errors
/// The database fails.
pub fn run_of(conn: &Connection, agent: &AgentId, event: i64) -> Result<Option<RunRow>, DbError> {
    let tail = "WHERE agent = ?1 AND event_id = ?2 AND job_name = ?3 ORDER BY attempt DESC LIMIT 1";
    Ok(runs::rows(conn, tail, params![agent.as_str(), event, crate::mail::JOB])?.pop())
}

/// The message that an agent is answering just now, in a run.
///
/// # Errors
/// The database fails.
pub fn being_answered(conn: &Connection, agent: &AgentId) -> Result<Option<i64>, DbError> {
    let sql = "SELECT d.mail_id FROM mail_delivery AS d JOIN run ON run.event_id = d.event_id AND run.agent = ?1 \
               WHERE d.recipient = ?1 AND d.status = 'queued' AND run.status = 'running' ORDER BY 1 LIMIT 1";
    Ok(conn.prepare_cached(sql)?.query_row([agent.as_str()], |r| r.get(0)).optional()?)
}

/// Whether somebody replied to a message.
///
/// # Errors
/// The database fails.
pub fn replied(conn: &Connection, id: i64, who: &Party) -> Result<bool, DbError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM mail WHERE reply_to = ?1 AND sender = ?2)";
    Ok(conn.prepare_cached(sql)?.query_row(params![id, who.as_str()], |r| r.get(0))?)
}

/// Writes where a message stands for a recipient; false when it stood elsewhere than in `before`.
///
/// # Errors
/// The database fails.
pub fn set_status(
    tx: &Transaction<'_>,
    id: i64,
    to: &Party,
    before: Status,
    after: Status,
    reason: Option<&str>,
) -> Result<bool, DbError> {
    let sql = "UPDATE mail_delivery SET status = ?4, reason = ?5 WHERE mail_id = ?1 AND recipient = ?2 AND status = ?3";
    let changed =
        tx.prepare_cached(sql)?.execute(params![id, to.as_str(), before.as_str(), after.as_str(), reason])?;
    Ok(changed > 0)
}

/// Notes the event whose runs answer a message; false when it waits no more, or has one.
///
/// # Errors
/// The database fails.
pub fn set_event(tx: &Transaction<'_>, id: i64, to: &Party, event: i64) -> Result<bool, DbError> {
    let sql = "UPDATE mail_delivery SET event_id = ?3 WHERE mail_id = ?1 AND recipient = ?2 AND status = 'queued' \
               AND event_id IS NULL";
    Ok(tx.prepare_cached(sql)?.execute(params![id, to.as_str(), event])? > 0)
}

/// Notes that the files of a message are in its recipient's workspace.
///
/// # Errors
/// The database fails.
pub fn set_laid(tx: &Transaction<'_>, id: i64, to: &Party) -> Result<(), DbError> {
    let sql = "UPDATE mail_delivery SET laid = 1 WHERE mail_id = ?1 AND recipient = ?2";
    tx.prepare_cached(sql)?.execute(params![id, to.as_str()])?;
    Ok(())
}

/// Notes that a recipient read a message, the first time.
///
/// # Errors
/// The database fails.
pub fn set_read(tx: &Transaction<'_>, id: i64, who: &Party, now: Timestamp) -> Result<(), DbError> {
    let sql =
        "UPDATE mail_delivery SET read_at = ?3 WHERE mail_id = ?1 AND recipient = ?2 AND read_at IS NULL";
    tx.prepare_cached(sql)?.execute(params![id, who.as_str(), time(now)])?;
    Ok(())
}

/// Lets a held message go on; false when it was not held. Its thread counts anew.
///
/// # Errors
/// The database fails.
pub fn release(tx: &Transaction<'_>, id: i64) -> Result<bool, DbError> {
    let sql =
        "UPDATE mail_delivery SET status = 'queued', reason = NULL WHERE mail_id = ?1 AND status = 'held'";
    let released = tx.prepare_cached(sql)?.execute([id])? > 0;
    if released {
        let sql = "UPDATE mail SET released = 1, in_a_row = 0 WHERE id = ?1";
        tx.prepare_cached(sql)?.execute([id])?;
    }
    Ok(released)
}

/// Forgets messages that were sent before `before` and wait for nobody, at most `most`; answers how many.
///
/// # Errors
/// The database fails.
pub fn prune(tx: &Transaction<'_>, before: Timestamp, most: u32) -> Result<usize, DbError> {
    let sql = "DELETE FROM mail WHERE id IN (SELECT id FROM mail WHERE sent_at < ?1 AND NOT EXISTS (SELECT 1 FROM \
               mail_delivery AS d WHERE d.mail_id = mail.id AND d.status IN ('queued', 'held')) ORDER BY id LIMIT ?2)";
    Ok(tx.prepare_cached(sql)?.execute(params![time(before), most])?)
}

/// Digests of all files that messages have.
///
/// # Errors
/// The database fails.
pub fn digests(conn: &Connection) -> Result<std::collections::BTreeSet<String>, DbError> {
    let sql =
        "SELECT DISTINCT value ->> '$.digest' FROM mail, json_each(mail.attachments) WHERE attached > 0";
    let mut query = conn.prepare_cached(sql)?;
    let found = query.query_map([], |r| r.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

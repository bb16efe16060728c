//! Sending: what is checked, what holds a message back, and what becomes of it at once.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{
    files,
    types::{MailRequest, MailView, view},
};
use crate::{
    app::{
        Result,
        hive::Hive,
        jobs::{OnceKey, once},
        types::AppError,
        world::World,
    },
    db::{
        self, DbError, events,
        mail::{MailRow, NewMail},
    },
    ids::AgentId,
    mail::{
        Attachment, Party, Status,
        draft::{self, Draft, Faults, MAX_SUBJECT},
        thread,
    },
};

/// A message that was checked.
pub(super) struct Outgoing {
    pub(super) from: Party,
    pub(super) to: Vec<Party>,
    pub(super) subject: String,
    pub(super) body: String,
    pub(super) attachments: Vec<Attachment>,
    /// What it replies to.
    pub(super) replied: Option<MailRow>,
    /// What its sender is answering just now.
    pub(super) answering: Option<MailRow>,
}

pub(super) fn invalid(errors: Faults) -> AppError {
    let detail = errors.first().map(|(_, why)| why.clone()).unwrap_or_default();
    AppError::Invalid { detail, errors }
}

impl Hive {
    /// Sends a message in the caller's name.
    ///
    /// # Errors
    /// What is wrong with it; it replies to what the caller did not get; the caller sent too much; too much waits for a
    /// recipient; the database fails. What has no recipient is no error: it is told by `status`.
    pub async fn send_mail(
        self: &Arc<Self>,
        caller: Option<&AgentId>,
        request: MailRequest,
        key: Option<OnceKey>,
    ) -> Result<MailView> {
        let (from, mut draft) = (Party::of(caller), Draft::from(request));
        let to = draft::check(&from, &draft).map_err(invalid)?;
        let attachments = self.take_files(&from, &draft).await?;
        let (world, now) = (self.world(), self.now());
        draft.body = world.masker.mask_str(&draft.body).into_owned();
        draft.subject = draft.subject.map(|subject| world.masker.mask_str(&subject).into_owned());
        let sender = from.clone();
        let write = self.db.write(move |tx| {
            once(tx, key.as_ref(), now, || {
                let out = outgoing(tx, &sender, to, draft, attachments)?;
                within_limits(tx, &out, now)?;
                Ok(post(tx, &world, &out, now)?)
            })
        });
        let id = write.await?;
        self.deliver_mail().await?;
        let sent = self.db.read(move |conn| db::mail::get(conn, id)).await?;
        sent.map(|mail| view(&mail, &from))
            .ok_or_else(|| AppError::NotFound(format!("there is no mail {id}")))
    }

    async fn take_files(&self, from: &Party, draft: &Draft) -> Result<Vec<Attachment>> {
        if draft.attachments.is_empty() {
            return Ok(Vec::new());
        }
        let no = |why: &str| invalid(vec![("/attachments".into(), why.into())]);
        let agent = from.agent().ok_or_else(|| no("only agents attach files, those of their workspaces"))?;
        let workspace = files::workspace(self, agent);
        let workspace = workspace.ok_or_else(|| no("a workspace in memory has no files to attach"))?;
        let (paths, kept) = (draft.attachments.clone(), self.paths.mail());
        let taken = tokio::task::spawn_blocking(move || files::take(&workspace, &paths, &kept)).await;
        taken.map_err(|e| AppError::Internal(e.to_string()))?.map_err(invalid)
    }
}

fn outgoing(
    conn: &db::Conn,
    from: &Party,
    to: Vec<Party>,
    draft: Draft,
    attachments: Vec<Attachment>,
) -> Result<Outgoing> {
    let replied = draft.reply_to.map(|id| db::mail::get(conn, id)).transpose()?.flatten();
    if let Some(id) = draft.reply_to.filter(|_| !replied.as_ref().is_some_and(|mail| knows(mail, from))) {
        let why = format!("there is no mail {id} to or from {from} to reply to");
        return Err(invalid(vec![("/reply_to".into(), why)]));
    }
    let to = if to.is_empty() { answered(from, replied.as_ref())? } else { to };
    let subject = draft.subject.unwrap_or_else(|| {
        draft::reply_subject(replied.as_ref().map(|mail| mail.subject.as_str()).unwrap_or_default())
    });
    let answering = from.agent().map(|agent| db::mail::being_answered(conn, agent)).transpose()?.flatten();
    let answering = answering.map(|id| db::mail::get(conn, id)).transpose()?.flatten();
    Ok(Outgoing { from: from.clone(), to, subject, body: draft.body, attachments, replied, answering })
}

/// Whether somebody wrote a message or got it.
pub(super) fn knows(mail: &MailRow, who: &Party) -> bool {
    let got = |d: &db::mail::Delivery| d.to == *who && d.status != Status::Held;
    mail.from == *who || mail.deliveries.iter().any(got)
}

/// To whom a reply goes that names nobody: who wrote the message, or for one's own those who got it.
fn answered(from: &Party, replied: Option<&MailRow>) -> Result<Vec<Party>> {
    let to = match replied {
        Some(mail) if mail.from == *from => mail.to.clone(),
        Some(mail) => vec![mail.from.clone()],
        None => Vec::new(),
    };
    if to.is_empty() || to.contains(&Party::Hive) {
        return Err(invalid(vec![("/to".into(), "nobody reads an answer to this: say to whom".into())]));
    }
    Ok(to)
}

fn within_limits(conn: &db::Conn, out: &Outgoing, now: Timestamp) -> Result<()> {
    if out.from.agent().is_some() {
        let ago = |hours| now.checked_sub(SignedDuration::from_mins(hours)).unwrap_or(Timestamp::MIN);
        let (minute, day, attached) = db::mail::sent_since(conn, &out.from, ago(1), ago(24 * 60))?;
        let attaching: u64 = out.attachments.iter().map(|file| file.size).sum();
        if let Some((why, seconds)) = thread::too_much(minute, day, attached + attaching) {
            let retry_after = std::time::Duration::from_secs(seconds);
            return Err(AppError::TooMany { detail: format!("{} sent {why}", out.from), retry_after });
        }
    }
    for to in out.to.iter().filter(|to| to.agent().is_some()) {
        let waiting = db::mail::waiting(conn, to)?;
        if waiting >= thread::MAX_WAITING {
            return Err(AppError::Conflict(format!("{waiting} messages wait for {to} already: try later")));
        }
    }
    Ok(())
}

/// Writes a message and what becomes of it at once; answers its number.
pub(super) fn post(
    tx: &db::Tx<'_>,
    world: &World,
    out: &Outgoing,
    now: Timestamp,
) -> std::result::Result<i64, DbError> {
    let before = [&out.replied, &out.answering];
    let automatic = out.from.agent().is_some() && before.iter().any(|mail| mail.is_some());
    let in_a_row = before.iter().filter_map(|mail| Some(mail.as_ref()?.in_a_row + 1)).max();
    let in_a_row = in_a_row.filter(|_| automatic).unwrap_or(0);
    let thread = out.replied.as_ref().map(|mail| mail.thread);
    let held = thread::hold(automatic, db::mail::past(tx, thread, in_a_row)?);
    let standing = |to: &Party| match (&held, to) {
        (Some(why), _) => (Status::Held, Some(why.clone())),
        (None, Party::Agent(agent)) if !world.config.agents.contains_key(agent) => {
            (Status::Dead, Some(format!("there is no agent {agent}")))
        }
        (None, Party::Agent(_)) => (Status::Queued, None),
        (None, Party::Operator | Party::Hive) => (Status::Delivered, None),
    };
    let to: Vec<_> = out.to.iter().map(|to| (to.clone(), standing(to))).collect();
    let new = NewMail {
        thread,
        reply_to: out.replied.as_ref().map(|mail| mail.id),
        from: out.from.clone(),
        to: to.iter().map(|(to, (status, why))| (to.clone(), *status, why.clone())).collect(),
        subject: out.subject.clone(),
        body: out.body.clone(),
        attachments: out.attachments.clone(),
        automatic,
        in_a_row,
        depth: depth(tx, out)?,
    };
    let id = db::mail::insert(tx, &new, now)?;
    let Some(mail) = db::mail::get(tx, id)? else { return Ok(id) };
    if let Some(why) = &held {
        announce(tx, "mail:held", &mail, &out.from, Some(why), now)?;
        let text = format!("{why}.\n`skep mail release {id}` lets it go on.");
        notice(tx, &mail, vec![Party::Operator], "Held", &text, now)?;
    }
    for (to, (status, why)) in &to {
        match (status, why) {
            (Status::Dead, Some(why)) => undelivered(tx, &mail, to, why, now)?,
            (Status::Delivered, _) => announce(tx, "mail:received", &mail, to, None, now).map(drop)?,
            _ => {}
        }
    }
    Ok(id)
}

/// How many events and runs in a row led to a message. Those that answer each other are counted as such, and held.
fn depth(conn: &db::Conn, out: &Outgoing) -> std::result::Result<u32, DbError> {
    let before = [&out.replied, &out.answering].into_iter().flatten().map(|mail| mail.depth).max();
    match (before, out.from.agent()) {
        (Some(depth), _) => Ok(depth),
        (None, Some(agent)) => Ok(db::runs::depth_of(conn, agent)?.map_or(0, |depth| depth + 1)),
        (None, None) => Ok(0),
    }
}

/// Tells of a message, in its transaction; answers the event's id.
pub(super) fn announce(
    tx: &db::Tx<'_>,
    event: &str,
    mail: &MailRow,
    to: &Party,
    reason: Option<&str>,
    now: Timestamp,
) -> std::result::Result<i64, DbError> {
    let mut data = json!({
        "mail": mail.id, "thread": mail.thread, "from": mail.from, "to": to, "subject": mail.subject,
    });
    if let Some(reason) = reason {
        data["reason"] = reason.into();
    }
    events::append_about(tx, now, event, &data, None, mail.depth)
}

/// Tells the sender and the operator that a message did not arrive, or was not answered.
pub(super) fn undelivered(
    tx: &db::Tx<'_>,
    mail: &MailRow,
    to: &Party,
    why: &str,
    now: Timestamp,
) -> std::result::Result<(), DbError> {
    announce(tx, "mail:dead", mail, to, Some(why), now)?;
    let told = match &mail.from {
        Party::Hive => return Ok(()),
        Party::Operator => vec![Party::Operator],
        Party::Agent(_) => vec![mail.from.clone(), Party::Operator],
    };
    let text = format!("Message {} from {} to {to} is a dead letter: {why}.", mail.id, mail.from);
    notice(tx, mail, told, "Not answered", &text, now)
}

/// Words of the hive about a message. They wake nobody, so that none leads to another.
fn notice(
    tx: &db::Tx<'_>,
    mail: &MailRow,
    to: Vec<Party>,
    what: &str,
    text: &str,
    now: Timestamp,
) -> std::result::Result<(), DbError> {
    let subject = format!("{what}: {}", mail.subject).chars().take(MAX_SUBJECT).collect();
    let new = NewMail {
        thread: Some(mail.thread),
        reply_to: Some(mail.id),
        from: Party::Hive,
        to: to.into_iter().map(|party| (party, Status::Delivered, None)).collect(),
        subject,
        body: text.to_owned(),
        attachments: Vec::new(),
        automatic: false,
        in_a_row: 0,
        depth: mail.depth,
    };
    db::mail::insert(tx, &new, now).map(drop)
}

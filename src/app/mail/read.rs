//! Reading: mailboxes, single messages and their files; and what the operator holds in hand.

use std::{path::PathBuf, sync::Arc};

use super::{
    send::knows,
    types::{MailView, view},
};
use crate::{
    app::{Result, hive::Hive, types::AppError},
    db::{
        self,
        mail::{Folder, MailRow},
    },
    ids::AgentId,
    mail::Party,
};

impl Hive {
    /// Messages of somebody, newest first, before the one with id `before`; with `words` those that have each of them.
    ///
    /// # Errors
    /// There is no such agent and never was mail of it; the database fails.
    pub async fn mailbox(
        &self,
        of: Party,
        which: Folder,
        words: Option<String>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<MailView>> {
        let (reader, before) = (of.clone(), before.unwrap_or(i64::MAX));
        let read =
            move |conn: &db::Conn| db::mail::list(conn, &reader, which, words.as_deref(), before, limit);
        let found: Vec<MailRow> = self.db.read(read).await?;
        if let (true, Some(agent)) = (found.is_empty(), of.agent()) {
            self.find_agent(agent)?;
        }
        Ok(found.iter().map(|mail| view(mail, &of)).collect())
    }

    /// One message. Of what came to the caller, that is its having read it.
    ///
    /// # Errors
    /// There is none; the caller neither wrote nor got it; the database fails.
    pub async fn mail(&self, caller: Option<&AgentId>, id: i64) -> Result<MailView> {
        let mut mail = self.mail_row(caller, id).await?;
        let (reader, now) = (Party::of(caller), self.now());
        if mail.deliveries.iter().any(|d| d.to == reader && d.read_at.is_none()) {
            let who = reader.clone();
            let write = self.db.write(move |tx| {
                db::mail::set_read(tx, id, &who, now)?;
                db::mail::get(tx, id)
            });
            mail = write.await?.unwrap_or(mail);
        }
        Ok(view(&mail, &reader))
    }

    async fn mail_row(&self, caller: Option<&AgentId>, id: i64) -> Result<MailRow> {
        let found = self.db.read(move |conn| db::mail::get(conn, id)).await?;
        let mail = found.ok_or_else(|| AppError::NotFound(format!("there is no mail {id}")))?;
        match caller {
            Some(agent) if !knows(&mail, &Party::of(caller)) => {
                Err(AppError::Forbidden(format!("mail {id} is neither from agent {agent} nor to it")))
            }
            _ => Ok(mail),
        }
    }

    /// Where a file of a message is kept on this machine.
    ///
    /// # Errors
    /// As [`Hive::mail`]; the message has no such file.
    pub async fn mail_file(&self, caller: Option<&AgentId>, id: i64, name: &str) -> Result<PathBuf> {
        let mail = self.mail_row(caller, id).await?;
        let file = mail.attachments.iter().find(|file| file.name == name);
        let file = file.ok_or_else(|| AppError::NotFound(format!("mail {id} has no file {name:?}")))?;
        Ok(self.paths.mail().join(&file.digest))
    }

    /// Lets a message go on that was held; its thread counts anew.
    ///
    /// # Errors
    /// There is none, or it is not held; the database fails.
    pub async fn release_mail(self: &Arc<Self>, id: i64) -> Result<MailView> {
        self.mail_row(None, id).await?;
        let released = self.db.write(move |tx| db::mail::release(tx, id)).await?;
        if !released {
            return Err(AppError::Conflict(format!("mail {id} is not held")));
        }
        self.deliver_mail().await?;
        Ok(view(&self.mail_row(None, id).await?, &Party::Operator))
    }
}

//! What is told, and how each kind of target is given it: JSON for programs, plain text for people.
//!
//! Pure. It masks nothing: whoever makes a notice masks the texts in it first, because they are stored and leave the
//! machine as they are.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::runs::state::RunStatus;

/// UTF-16 units of a Telegram message (Bot API, `sendMessage`: 4096 characters).
const MAX_TELEGRAM: usize = 4096;
/// Bytes of a whole ntfy publication: longer messages would become attachments (ntfy, `message-size-limit`).
const MAX_NTFY: usize = 4096;
/// Characters of a title.
const MAX_TITLE: usize = 200;
/// Characters of each other text: a row of the outbox stays small, whatever a run says.
const MAX_TEXT: usize = 4000;
/// Stands at the end of what was cut.
const CUT: &str = "\n… (cut)";

/// What a notice is about. Written like the names of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoticeKind {
    /// A run ended well.
    #[serde(rename = "run:succeeded")]
    RunSucceeded,
    /// A run ended in any other way; `status` says in which.
    #[serde(rename = "run:failed")]
    RunFailed,
    /// A job was disabled by its failures (systems.md A10).
    #[serde(rename = "job:disabled")]
    JobDisabled,
    /// The health report differs from the one before (systems.md A22).
    #[serde(rename = "hive:health")]
    HiveHealth,
    /// The model's endpoint went, or is back (systems.md A23).
    #[serde(rename = "hive:model")]
    HiveModel,
}

impl NoticeKind {
    /// ntfy's name of the sign that stands before the title.
    fn tag(self) -> &'static str {
        match self {
            Self::RunSucceeded => "white_check_mark",
            Self::RunFailed => "warning",
            Self::JobDisabled => "no_entry",
            Self::HiveHealth => "stethoscope",
            Self::HiveModel => "electric_plug",
        }
    }
}

/// Something to be told. Kept as JSON in the outbox: every text in it is masked before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What it is about.
    pub kind: NoticeKind,
    /// The hive.
    pub hive: String,
    /// The agent; empty: it is of the hive itself.
    pub agent: String,
    /// Id and name of the job, if there is one.
    pub job: Option<(i64, String)>,
    /// The run, if there is one.
    pub run: Option<i64>,
    /// How the run or the job stands: `failed`, `disabled`.
    pub status: String,
    /// One line.
    pub title: String,
    /// More than the title says, if anything.
    pub text: String,
    /// Why it failed.
    pub error: Option<String>,
    /// What the run says it did.
    pub summary: Option<String>,
    /// When it happened.
    pub at: Timestamp,
}

/// Whose a notice is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The hive.
    pub hive: String,
    /// The agent.
    pub agent: String,
    /// Id and name of the job, if there is one.
    pub job: Option<(i64, String)>,
}

impl Notice {
    /// Of a run that is over. Error and summary are masked already.
    #[must_use]
    pub fn of_run(
        about: About,
        run: i64,
        status: RunStatus,
        error: Option<String>,
        summary: Option<String>,
        at: Timestamp,
    ) -> Self {
        let what = about.job.as_ref().map_or_else(|| format!("run {run}"), |(_, name)| name.clone());
        let how = match status {
            RunStatus::TimedOut => "timed out",
            other => other.as_str(),
        };
        let kind =
            if status == RunStatus::Succeeded { NoticeKind::RunSucceeded } else { NoticeKind::RunFailed };
        Self {
            kind,
            title: format!("{what} of {}: {how}", about.agent),
            hive: about.hive,
            agent: about.agent,
            job: about.job,
            run: Some(run),
            status: status.as_str().to_owned(),
            text: String::new(),
            error,
            summary,
            at,
        }
    }

    /// Of a job that its failures disabled after so many in a row; `error` is the last one, masked already.
    #[must_use]
    pub fn of_disabled_job(
        about: About,
        run: Option<i64>,
        failures: u32,
        error: Option<String>,
        at: Timestamp,
    ) -> Self {
        let what = about.job.as_ref().map_or("a job", |(_, name)| name);
        Self {
            kind: NoticeKind::JobDisabled,
            title: format!("{what} of {}: disabled", about.agent),
            text: format!(
                "It failed {failures} times in a row and does not run any more. Put right what fails, then resume it."
            ),
            hive: about.hive,
            agent: about.agent,
            job: about.job,
            run,
            status: "disabled".to_owned(),
            error,
            summary: None,
            at,
        }
    }

    /// Of the hive itself. Title and text are masked already.
    #[must_use]
    pub fn of_hive(
        kind: NoticeKind,
        hive: &str,
        status: &str,
        title: String,
        text: String,
        at: Timestamp,
    ) -> Self {
        Self {
            kind,
            hive: hive.to_owned(),
            agent: String::new(),
            job: None,
            run: None,
            status: status.to_owned(),
            title,
            text,
            error: None,
            summary: None,
            at,
        }
    }

    /// The same with every text cut to what is kept of it.
    #[must_use]
    pub fn clipped(mut self) -> Self {
        let clip = |text: &mut String, most: usize| {
            if let Cow::Owned(cut) = cut(text, most, |_| 1) {
                *text = cut;
            }
        };
        clip(&mut self.title, MAX_TITLE);
        for text in [&mut self.text, &mut self.status, &mut self.hive, &mut self.agent]
            .into_iter()
            .chain(self.error.as_mut())
            .chain(self.summary.as_mut())
            .chain(self.job.as_mut().map(|(_, name)| name))
        {
            clip(text, MAX_TEXT);
        }
        self
    }

    /// What a webhook is sent: type, time and data, as the Standard Webhooks specification advises.
    #[must_use]
    pub fn webhook(&self) -> Value {
        json!({
            "type": self.kind,
            "timestamp": self.at,
            "data": {
                "hive": self.hive,
                "agent": self.agent,
                "job": self.job.as_ref().map(|(id, name)| json!({ "id": id, "name": name })),
                "run": self.run,
                "status": self.status,
                "title": self.title,
                "text": self.text,
                "error": self.error,
                "summary": self.summary,
            },
        })
    }

    /// The parameters of Telegram's `sendMessage`: plain text, so that nothing in it is taken for markup, and no
    /// preview, so that nobody fetches an address that stands in it.
    #[must_use]
    pub fn telegram(&self, chat_id: &str) -> Value {
        let whole = format!("{}\n{}", self.title, self.body());
        json!({
            "chat_id": chat_id,
            "text": cut(&printable(&whole), MAX_TELEGRAM, char::len_utf16),
            "link_preview_options": { "is_disabled": true },
        })
    }

    /// A publication for ntfy as JSON, which, unlike its headers, takes any text.
    #[must_use]
    pub fn ntfy(&self, topic: &str, priority: Option<u8>) -> Value {
        let mut publication = json!({
            "topic": topic,
            "title": cut(&printable(&self.title).replace('\n', " "), MAX_TITLE, |_| 1),
            "message": "",
            "tags": [self.kind.tag()],
        });
        if let Some(priority) = priority {
            publication["priority"] = priority.into();
        }
        let room = MAX_NTFY.saturating_sub(publication.to_string().len());
        publication["message"] = cut(&printable(&self.body()), room, in_json).into();
        publication
    }

    /// Everything but the title, what is short first: the end may be cut.
    fn body(&self) -> String {
        let mut place = match self.agent.as_str() {
            "" => self.hive.clone(),
            agent => format!("{} / {agent}", self.hive),
        };
        if let Some((id, name)) = &self.job {
            place.push_str(&format!(" / {name} (job {id})"));
        }
        if let Some(run) = self.run {
            place.push_str(&format!(", run {run}"));
        }
        let mut body = format!("{place}, {}, {:.0}", self.status, self.at);
        let error = self.error.as_ref().map(|error| format!("Error: {error}"));
        let summary = self.summary.as_ref().filter(|s| self.error.as_ref() != Some(s));
        for part in [Some(&self.text), error.as_ref(), summary].into_iter().flatten() {
            if !part.trim().is_empty() {
                body.push_str("\n\n");
                body.push_str(part.trim());
            }
        }
        body
    }
}

/// As much of a text as costs at most `room`, with [`CUT`] at its end if that is not all.
fn cut(text: &str, room: usize, cost: impl Fn(char) -> usize) -> Cow<'_, str> {
    let sum = |text: &str| text.chars().map(&cost).sum::<usize>();
    if sum(text) <= room {
        return Cow::Borrowed(text);
    }
    let mut left = room.saturating_sub(sum(CUT));
    let fits = |c: char| left.checked_sub(cost(c)).map(|rest| left = rest).is_none();
    let end = text.find(fits).unwrap_or(text.len());
    Cow::Owned(format!("{}{CUT}", text[..end].trim_end()))
}

/// Bytes of a character within a JSON string, as `serde_json` writes it.
fn in_json(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8(),
    }
}

/// Without control characters but line ends and tabs: chats refuse or drop them.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;

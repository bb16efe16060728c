//! What edges pass in and out about mail.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::{
    db::mail::MailRow,
    mail::{Attachment, Party, Status, draft::Draft, letter},
};

/// A message to be sent.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"to": ["reader"], "subject": "Figures", "body": "How did yesterday's posts do?"}))]
pub struct MailRequest {
    /// Names of agents, or `operator`; left out in a reply: who wrote the message.
    #[serde(default, deserialize_with = "one_or_more", skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// In a line, at most 200 characters; left out in a reply: of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The text, at most 64 KiB.
    #[serde(default)]
    pub body: String,
    /// Paths of files in the sender's workspace: at most 10, each at most 10 MiB, together 25 MiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
    /// The message that this replies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<i64>,
}

impl From<MailRequest> for Draft {
    fn from(request: MailRequest) -> Self {
        let MailRequest { to, subject, body, attachments, reply_to } = request;
        Self { to, subject, body, attachments, reply_to }
    }
}

/// A list, or one as models write it.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a name or a list of names")]
    enum Names {
        One(String),
        More(Vec<String>),
    }
    Ok(match Names::deserialize(from)? {
        Names::One(name) => vec![name],
        Names::More(names) => names,
    })
}

/// A message as somebody sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MailView {
    /// Its number.
    pub id: i64,
    /// The number of the first message of its thread.
    pub thread: i64,
    /// The message that it replies to.
    pub reply_to: Option<i64>,
    /// An agent, `operator`, or `skep` (the hive tells of mail that did not arrive).
    pub from: String,
    /// Its recipients.
    pub to: Vec<String>,
    /// In a line.
    pub subject: String,
    /// The text, secrets masked.
    pub body: String,
    /// Its files.
    pub attachments: Vec<AttachmentView>,
    /// When it was sent.
    pub sent_at: String,
    /// When the reader first read it; for others when the last recipient did.
    pub read_at: Option<String>,
    /// Where it stands: for a recipient what became of it for itself, for others for all.
    pub status: Status,
    /// Why it is so.
    pub reason: Option<String>,
    /// An agent sent it in answer to mail.
    pub automatic: bool,
    /// What became of it for each recipient.
    pub deliveries: Vec<DeliveryView>,
}

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttachmentView {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Where it is in the reader's workspace, when the reader got it there.
    pub path: Option<String>,
}

/// What became of a message for one recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    /// For whom.
    pub to: String,
    /// Where it stands.
    pub status: Status,
    /// Why it is so.
    pub reason: Option<String>,
    /// When the recipient first read it.
    pub read_at: Option<String>,
}

/// A message as `reader` sees it.
pub(super) fn view(mail: &MailRow, reader: &Party) -> MailView {
    let own = mail.deliveries.iter().find(|delivery| delivery.to == *reader);
    let statuses: Vec<Status> = mail.deliveries.iter().map(|delivery| delivery.status).collect();
    let status = own.map_or_else(|| Status::overall(&statuses), |delivery| delivery.status);
    let shown = own.or_else(|| mail.deliveries.iter().find(|delivery| delivery.status == status));
    let all_read = mail.deliveries.iter().map(|delivery| delivery.read_at).collect::<Option<Vec<_>>>();
    let read_at = match own {
        Some(delivery) => delivery.read_at,
        None => all_read.and_then(|times| times.into_iter().max()),
    };
    let laid = own.is_some_and(|delivery| delivery.laid);
    let attachment = |file: &Attachment| AttachmentView {
        name: file.name.clone(),
        size: file.size,
        path: laid.then(|| format!("/workspace/{}/{}", letter::folder(mail.id), file.name)),
    };
    MailView {
        id: mail.id,
        thread: mail.thread,
        reply_to: mail.reply_to,
        from: mail.from.to_string(),
        to: mail.to.iter().map(ToString::to_string).collect(),
        subject: mail.subject.clone(),
        body: mail.body.clone(),
        attachments: mail.attachments.iter().map(attachment).collect(),
        sent_at: format!("{:.3}", mail.sent_at),
        read_at: read_at.map(|at| format!("{at:.3}")),
        status,
        reason: shown.and_then(|delivery| delivery.reason.clone()),
        automatic: mail.automatic,
        deliveries: mail
            .deliveries
            .iter()
            .map(|delivery| DeliveryView {
                to: delivery.to.to_string(),
                status: delivery.status,
                reason: delivery.reason.clone(),
                read_at: delivery.read_at.map(|at| format!("{at:.3}")),
            })
            .collect(),
    }
}

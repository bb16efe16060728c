//! Mail under the names that models know (systems.md D14): `send_mail`, `reply_mail`, `list_mail`, `read_mail`. They
//! answer `{success, data | error}`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Behalf, Described, jobs};
use crate::{
    app::{
        Result,
        hive::Hive,
        mail::{
            Folder, Party,
            types::{MailRequest, MailView},
        },
        types::AppError,
    },
    db,
};

const NAMES: [&str; 4] = ["send_mail", "reply_mail", "list_mail", "read_mail"];
/// Messages of a list, unless it says otherwise, and at most.
const LISTED: (usize, usize) = (20, 100);

pub(super) fn tools() -> Vec<Described> {
    let files = json!({"type": "array", "items": {"type": "string"},
        "description": "Paths of files in the workspace that go along, at most 10."});
    let body = json!({"type": "string", "description": "The text."});
    let id =
        json!({"type": "integer", "description": "Number of the message; left out: the one being answered."});
    let tool = |name, description: &str, properties: Value, required: &[&str]| Described {
        name,
        description: description.to_owned(),
        input_schema: json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false}),
    };
    let to = json!({"type": ["array", "string"], "items": {"type": "string"},
        "description": "Names of agents, or operator."});
    vec![
        tool(
            NAMES[0],
            "Send a message to other agents or to the operator.",
            json!({"to": to, "subject": {"type": "string", "description": "In a line."}, "body": body,
                "attachments": files}),
            &["to", "subject", "body"],
        ),
        tool(
            NAMES[1],
            "Answer a message; the answer goes to who wrote it.",
            json!({"id": id, "body": body, "attachments": files}),
            &["body"],
        ),
        tool(
            NAMES[2],
            "List messages, newest first.",
            json!({"box": {"type": "string", "enum": ["inbox", "sent", "queue"],
                    "description": "inbox (default): what came; sent; queue: what waits."},
                "q": {"type": "string", "description": "Only those with these words."},
                "limit": {"type": "integer", "minimum": 1, "maximum": LISTED.1}}),
            &[],
        ),
        tool(NAMES[3], "Read a message; it counts as read from then on.", json!({"id": id}), &[]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    id: Option<i64>,
    body: String,
    #[serde(default)]
    attachments: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    r#box: Option<String>,
    q: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    id: Option<i64>,
}

/// None: it is no tool of this kind.
pub(super) async fn call(
    hive: &Arc<Hive>,
    behalf: &Behalf,
    name: &str,
    args: &Map<String, Value>,
) -> Option<Result<Value>> {
    let known = NAMES.iter().find(|known| **known == name)?;
    Some(match one(hive, behalf, known, Value::Object(args.clone())).await {
        Ok(data) => Ok(json!({"success": true, "data": data})),
        Err(error) => jobs::refusal(error),
    })
}

pub(super) fn is_one(name: &str) -> bool {
    NAMES.contains(&name)
}

async fn one(hive: &Arc<Hive>, behalf: &Behalf, name: &str, args: Value) -> Result<Value> {
    let caller = behalf.caller.as_ref();
    let shown = |mail: MailView| json!(mail);
    match name {
        "send_mail" => hive.send_mail(caller, taken(args)?, None).await.map(shown),
        "reply_mail" => {
            let Reply { id, body, attachments } = taken(args)?;
            let reply_to = Some(meant(hive, behalf, id).await?);
            let request = MailRequest { body, attachments, reply_to, ..MailRequest::default() };
            hive.send_mail(caller, request, None).await.map(shown)
        }
        "list_mail" => {
            let List { r#box, q, limit } = taken(args)?;
            let folder = match r#box.as_deref() {
                None | Some("inbox") => Folder::Inbox,
                Some("sent") => Folder::Sent,
                Some("queue") => Folder::Queue,
                Some(other) => {
                    let why = format!("there is no box {other:?}; there are inbox, sent and queue");
                    return Err(AppError::Invalid {
                        errors: vec![("/box".into(), why.clone())],
                        detail: why,
                    });
                }
            };
            let limit = limit.unwrap_or(LISTED.0).clamp(1, LISTED.1);
            Ok(json!(hive.mailbox(Party::of(caller), folder, q, None, limit).await?))
        }
        _ => {
            let Which { id } = taken(args)?;
            hive.mail(caller, meant(hive, behalf, id).await?).await.map(shown)
        }
    }
}

fn taken<T: serde::de::DeserializeOwned>(args: Value) -> Result<T> {
    serde_json::from_value(args).map_err(|e| AppError::Invalid { detail: e.to_string(), errors: Vec::new() })
}

/// The message with this number, else the one that the agent is answering in a run.
async fn meant(hive: &Hive, behalf: &Behalf, id: Option<i64>) -> Result<i64> {
    let answering = match (id, behalf.caller.clone()) {
        (None, Some(agent)) => hive.db.read(move |conn| db::mail::being_answered(conn, &agent)).await?,
        (id, _) => id,
    };
    let detail = || "say which message: `id` is missing, and no run answers one just now".to_owned();
    answering.ok_or_else(|| AppError::Invalid { detail: detail(), errors: vec![("/id".into(), detail())] })
}

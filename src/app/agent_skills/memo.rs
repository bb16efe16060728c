//! What was last made of a folder that an agent writes: kept, so that nothing is registered or told twice, also
//! after a restart.

use serde::{Deserialize, Serialize};

use crate::{
    app::hive::Hive,
    db::{self, DbError},
    ids::{AgentId, Digest},
};

/// What was made of one folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memo {
    /// Digest of what it held; none when it could not be taken at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Why it was refused; empty: it was registered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Memo {
    /// Whether this very content was registered.
    #[must_use]
    pub fn registered(&self, digest: Digest) -> bool {
        self.refused.is_empty() && self.digest == Some(digest)
    }
}

fn prefix(agent: &AgentId) -> String {
    format!("custom/{agent}/")
}

/// Everything that is kept of an agent's folders, by their names.
///
/// # Errors
/// The database fails.
pub async fn load(hive: &Hive, agent: &AgentId) -> Result<Vec<(String, Memo)>, DbError> {
    let prefix = prefix(agent);
    let rows =
        hive.db.read(move |conn| db::meta::beginning(conn, &prefix).map(|rows| (prefix, rows))).await?;
    let (prefix, rows) = rows;
    let parse = |(key, value): (String, String)| {
        // What an older or newer program wrote is worth one more look at the folder.
        Some((key.strip_prefix(&prefix)?.to_owned(), serde_json::from_str(&value).ok()?))
    };
    Ok(rows.into_iter().filter_map(parse).collect())
}

/// Keeps what was made of a folder (none: the folder is gone), inside a transaction.
///
/// # Errors
/// The database fails.
pub fn keep(tx: &db::Tx<'_>, agent: &AgentId, folder: &str, memo: Option<&Memo>) -> Result<(), DbError> {
    let key = format!("{}{folder}", prefix(agent));
    match memo.map(serde_json::to_string) {
        Some(Ok(text)) => db::meta::set(tx, &key, &text),
        Some(Err(_)) | None => db::meta::remove(tx, &key),
    }
}

//! Requests that are carried out once, however often their caller repeats them (`Idempotency-Key`).

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use super::{OnceKey, Result};
use crate::{
    app::types::AppError,
    db::{
        self,
        idempotency::{Known, find, keep},
    },
    ids::AgentId,
};

/// Characters of a key.
const MAX_KEY: usize = 200;

/// The key of a request of `caller`; `route` is method and path.
///
/// # Errors
/// The key is empty, too long, or not plain text.
pub fn once_key(caller: Option<&AgentId>, route: String, key: &str, body: &[u8]) -> Result<OnceKey> {
    if key.is_empty() || key.len() > MAX_KEY || !key.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
        let detail = format!("an Idempotency-Key has 1 to {MAX_KEY} ASCII characters");
        return Err(AppError::Invalid { errors: vec![("Idempotency-Key".into(), detail.clone())], detail });
    }
    let caller = caller.map(ToString::to_string).unwrap_or_default();
    Ok(OnceKey { caller, route, key: key.to_owned(), hash: hex::encode(Sha256::digest(body)) })
}

/// Does the work and keeps its answer in the same transaction; a repeat is answered the same without it.
pub(in crate::app) fn once<T: Serialize + DeserializeOwned>(
    tx: &db::Tx<'_>,
    key: Option<&OnceKey>,
    now: Timestamp,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(key) = key else { return work() };
    let internal = |e: serde_json::Error| AppError::Internal(format!("a kept answer cannot be read: {e}"));
    match find(tx, key, now)? {
        Some(Known::Answered(answer)) => serde_json::from_str(&answer).map_err(internal),
        Some(Known::OtherRequest) => {
            let detail = "this Idempotency-Key was used with another request: take a new one".to_owned();
            Err(AppError::Invalid { errors: vec![("Idempotency-Key".into(), detail.clone())], detail })
        }
        None => {
            let answer = work()?;
            keep(tx, key, &serde_json::to_string(&answer).map_err(internal)?, now)?;
            Ok(answer)
        }
    }
}

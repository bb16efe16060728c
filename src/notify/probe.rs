//! Whether something answers at an address: one GET, through the same guard as notices.

use std::{path::PathBuf, time::Duration};

use reqwest::Url;

use super::{
    allow::AllowRule,
    guard::{self, Guard},
};
use crate::outbound::root;

/// Asks once; an answer of success within `patience` is one.
///
/// # Errors
/// Why there is none. The reason names the host, never the rest of the address.
pub async fn probe(
    rules: &[AllowRule],
    bundle: Option<PathBuf>,
    url: &str,
    patience: Duration,
) -> Result<(), String> {
    let url = Url::parse(url).map_err(|e| e.to_string())?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut guard = Guard::new(rules);
    if let Some(bundle) = bundle {
        guard.trust(bundle);
    }
    let client = guard.client(&url).await.map_err(|e| e.to_string())?;
    match client.get(url).timeout(patience).send().await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(format!("{host} answered {}", answer.status())),
        Err(e) => Err(match guard::refusal(&e) {
            Some(refused) => refused.to_string(),
            None if e.is_timeout() => format!("{host} did not answer within {patience:?}"),
            None => format!("cannot connect to {host}: {}", root(&e)),
        }),
    }
}

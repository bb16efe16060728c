//! One attempt to bring one notice to one target, and what its outcome means.
//!
//! Bounded in time and memory whatever the other side does. No reason that it gives names a secret.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Response, StatusCode, header::RETRY_AFTER};
use serde_json::Value;

use super::{
    guard::{self, Guard, NoClient},
    message::Notice,
    target::{Stamp, Target},
};
use crate::outbound::root;

/// Bytes read of an answer.
const MAX_ANSWER: usize = 64 * 1024;
/// Characters of an answer that a reason repeats.
const EXCERPT: usize = 200;
/// A target that asks for more time than this is asked again all the same.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// How an attempt came out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The target has it.
    Delivered,
    /// It may work later; not before `after`, if the target said so.
    Retry { reason: String, after: Option<Duration> },
    /// It would not work later either.
    GivenUp { reason: String },
}

/// Tries once, for at most `patience`.
pub(super) async fn deliver(
    target: &Target,
    guard: &Guard,
    notice: &Notice,
    stamp: &Stamp,
    patience: Duration,
) -> Outcome {
    match attempt(target, guard, notice, stamp, patience).await {
        Outcome::Delivered => Outcome::Delivered,
        Outcome::Retry { reason, after } => Outcome::Retry { reason: hidden(target, &reason), after },
        Outcome::GivenUp { reason } => Outcome::GivenUp { reason: hidden(target, &reason) },
    }
}

fn hidden(target: &Target, reason: &str) -> String {
    target.masker.mask_str(reason).into_owned()
}

async fn attempt(
    target: &Target,
    guard: &Guard,
    notice: &Notice,
    stamp: &Stamp,
    patience: Duration,
) -> Outcome {
    // A secret that is not set may be set soon.
    let mut request = match target.request(notice, stamp) {
        Ok(request) => request,
        Err(reason) => return Outcome::Retry { reason, after: None },
    };
    let client = match guard.client(request.url()).await {
        Ok(client) => client,
        Err(NoClient::Refused(refused)) => return Outcome::GivenUp { reason: refused.to_string() },
        Err(e @ NoClient::Broken(_)) => return Outcome::Retry { reason: e.to_string(), after: None },
    };
    *request.timeout_mut() = Some(patience);
    let host = request.url().host_str().unwrap_or_default().to_owned();
    match client.execute(request).await {
        Ok(answer) => judge(target, &host, answer).await,
        Err(e) => match guard::refusal(&e) {
            Some(refused) => Outcome::GivenUp { reason: refused.to_string() },
            None => Outcome::Retry { reason: unreachable(&host, &e, patience), after: None },
        },
    }
}

/// What a failure of the network is called. Of the error only the innermost cause is told: the others name the URL.
fn unreachable(host: &str, error: &reqwest::Error, patience: Duration) -> String {
    let cause = root(error);
    if error.is_connect() {
        format!("cannot connect to {host}: {cause}")
    } else if error.is_timeout() {
        format!("{host} did not answer within {patience:?}")
    } else {
        format!("{host} broke off: {cause}")
    }
}

async fn judge(target: &Target, host: &str, answer: Response) -> Outcome {
    let status = answer.status();
    if status.is_success() {
        return Outcome::Delivered;
    }
    let header = answer.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()).map(str::to_owned);
    if status.is_redirection() {
        let reason =
            format!("{host} answered {status}; redirects are not followed: write the address it leads to");
        return Outcome::GivenUp { reason };
    }
    let body = beginning(answer).await;
    let reason = reason(target, host, status, &body);
    let later =
        matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    if !later && !status.is_server_error() {
        return Outcome::GivenUp { reason };
    }
    let asked = header.and_then(|value| wait(&value, Timestamp::now()));
    let asked = asked.or_else(|| target.is_telegram().then(|| telegrams_wait(&body)).flatten());
    Outcome::Retry { reason, after: asked.map(|wait| wait.min(LONGEST_WAIT)) }
}

/// The beginning of a body; what comes after it, or too late, is not waited for.
async fn beginning(mut answer: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_ANSWER
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        body.extend_from_slice(&chunk[..chunk.len().min(MAX_ANSWER - body.len())]);
    }
    body
}

fn reason(target: &Target, host: &str, status: StatusCode, body: &[u8]) -> String {
    // Masked before it is cut: half a secret would not be recognised.
    let text = target.masker.mask(body);
    let text = String::from_utf8_lossy(&text);
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let excerpt: String = words.join(" ").chars().take(EXCERPT).collect();
    if excerpt.is_empty() {
        format!("{host} answered {status}")
    } else {
        format!("{host} answered {status}: {excerpt}")
    }
}

/// `Retry-After` (RFC 9110, 10.2.3): seconds, or a date.
fn wait(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value.trim()).ok()?;
    Duration::try_from(date.duration_since(now)).ok()
}

/// Telegram says how long in the body.
fn telegrams_wait(body: &[u8]) -> Option<Duration> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    answer.pointer("/parameters/retry_after")?.as_u64().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_as_seconds_or_as_a_date() {
        let now = "2015-10-21T07:28:00Z".parse().unwrap();
        for (value, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Wed, 21 Oct 2015 07:29:30 GMT", Some(90)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", None),
            ("-1", None),
            ("soon", None),
        ] {
            assert_eq!(wait(value, now), seconds.map(Duration::from_secs), "{value}");
        }
        let told = br#"{"ok":false,"error_code":429,"parameters":{"retry_after":7}}"#;
        assert_eq!(telegrams_wait(told), Some(Duration::from_secs(7)));
        assert_eq!(telegrams_wait(b"<html>"), None);
    }
}

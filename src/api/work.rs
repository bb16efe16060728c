//! How long a use case may take, and what becomes of it when its caller goes.
//!
//! Reads are dropped with their caller. Writes go on to their end, so that none is left half done.

use std::{future::Future, time::Duration};

use axum::http::StatusCode;
use tracing::Instrument;

use super::problem::Problem;
use crate::app::Result;

const READ_TIMEOUT: Duration = Duration::from_secs(30);
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);

/// A read.
pub async fn read<T>(work: impl Future<Output = T>) -> std::result::Result<T, Problem> {
    tokio::time::timeout(READ_TIMEOUT, work).await.map_err(|_| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("no answer within {} seconds; try again later", READ_TIMEOUT.as_secs()),
        )
    })
}

/// A write: it goes on when the caller has gone or waited too long.
pub async fn write<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> std::result::Result<T, Problem> {
    let task = tokio::spawn(work.in_current_span());
    match tokio::time::timeout(WRITE_TIMEOUT, task).await {
        Ok(Ok(done)) => Ok(done?),
        Ok(Err(_)) => {
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the supervisor failed; its log tells why"))
        }
        Err(_) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("it is not done after {} seconds and goes on", WRITE_TIMEOUT.as_secs()),
        )),
    }
}

//! The fire times of a schedule that is no job yet.

use serde_json::{Map, Value};

use super::super::{failure::Failure, hive::Context};
use crate::app::job_types::Preview;

/// Asks the supervisor that is named.
///
/// # Errors
/// The schedule is refused.
pub(super) async fn preview(context: &Context, body: &Map<String, Value>) -> Result<Preview, Failure> {
    context.client()?.exchange("/v1/schedules/preview", body).await
}

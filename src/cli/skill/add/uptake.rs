//! Has a running supervisor register what was put into the hive's folder, at once.
//!
//! It would find them by itself, too; asked for each, it answers with the version and with what is wrong.

use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::json;

use super::{
    super::super::{
        client::Client,
        failure::Failure,
        hive::{self, Context},
    },
    report::{Line, Outcome},
};
use crate::{app::skills::Published, paths::HivePaths};

/// Asked for at the same time; the supervisor writes those together.
const AT_ONCE: usize = 32;

/// How it went.
#[derive(Debug)]
pub(super) enum Uptake {
    /// There is nothing to register.
    Nothing,
    /// No supervisor runs.
    NoSupervisor,
    /// It was asked for each.
    Asked,
    /// It runs, and does not answer.
    Silent(String),
}

impl Uptake {
    /// What is to be told about it.
    pub(super) fn note(&self) -> Option<String> {
        match self {
            Self::Nothing | Self::Asked => None,
            Self::NoSupervisor => Some("no supervisor runs: the next `skep up` registers them".into()),
            Self::Silent(why) => Some(format!("they will be registered by the supervisor, but now {why}")),
        }
    }
}

/// Asks for each, and fills in what the supervisor answers.
pub(super) async fn register(
    context: &Context,
    hive: &HivePaths,
    lines: &mut [Line],
    told: &mut dyn FnMut(&str),
) -> Result<Uptake, Failure> {
    let taken = |line: &&mut Line| line.outcome != Outcome::Failed;
    if !lines.iter_mut().any(|line| taken(&line)) {
        return Ok(Uptake::Nothing);
    }
    if hive::supervisor(hive)?.is_none() {
        return Ok(Uptake::NoSupervisor);
    }
    let client = context.client()?;
    if let Err(silent) = client.get::<serde_json::Value>("/v1/hive", &[]).await {
        return Ok(Uptake::Silent(silent.message));
    }
    let open: Vec<&mut Line> = lines.iter_mut().filter(taken).collect();
    let (all, mut done) = (open.len(), 0);
    let mut asked = stream::iter(open)
        .map(|line| async {
            let answer = ask(&client, hive, line).await;
            (line, answer)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((line, answer)) = asked.next().await {
        done += 1;
        told(&format!("{done} of {all} registered"));
        match answer {
            Ok(published) => {
                line.registered = Some(true);
                line.version = Some(published.version);
            }
            Err(refused) => line.not_registered(refused),
        }
    }
    Ok(Uptake::Asked)
}

async fn ask(client: &Client, hive: &HivePaths, line: &Line) -> Result<Published, Failure> {
    let at = line.at.as_deref().unwrap_or(&hive.root);
    // As the supervisor names it when it finds it by itself.
    let path = at.strip_prefix(&hive.root).unwrap_or(at);
    let body = json!({ "path": path.display().to_string() });
    let response = client.call(Method::POST, "/v1/skills?allow_older=true", Some(&body)).await?;
    response.json().await.map_err(|e| client.broken(&e))
}

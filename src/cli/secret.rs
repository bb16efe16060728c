//! `skep secret`: names, never values. Works with and without a supervisor.

use std::io::Read;

use reqwest::Method;
use serde_json::json;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};
use zeroize::Zeroizing;

use super::{
    client::Client,
    failure::{Failure, Outcome},
    hive::{self, Context},
    terminal,
};
use crate::{
    app::types::SecretView,
    ids::SecretName,
    paths::HivePaths,
    secrets::{MAX_VALUE, SecretValue, mask, store::SecretStore},
};

/// `skep secret`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the names and who uses them
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set a secret; its value is read from standard input, one line end at its end left out
    Set {
        /// Its name, which is that of an environment variable
        name: SecretName,
    },
    /// Remove a secret
    Rm {
        /// Its name
        name: SecretName,
    },
}

/// Who keeps the secrets now.
enum Keeper {
    Supervisor(Box<Client>),
    File(Box<HivePaths>, SecretStore),
}

fn keeper(context: &Context) -> Result<Keeper, Failure> {
    if context.host.is_some() {
        return Ok(Keeper::Supervisor(Box::new(context.client()?)));
    }
    let hive = context.hive()?;
    if hive::supervisor(&hive)?.is_some() {
        return Ok(Keeper::Supervisor(Box::new(context.client()?)));
    }
    let config = context.config(&hive)?.config;
    let store = SecretStore::new(&hive.root, &config.secrets_file);
    Ok(Keeper::File(Box::new(hive), store))
}

pub(super) async fn run(context: &Context, command: &Command) -> Outcome {
    match command {
        Command::List { json } => list(context, *json).await,
        Command::Set { name } => set(context, name).await,
        Command::Rm { name } => remove(context, name).await,
    }
}

async fn list(context: &Context, json: bool) -> Outcome {
    let secrets: Vec<SecretView> = match keeper(context)? {
        Keeper::Supervisor(client) => client.list("/v1/secrets", &[]).await?,
        Keeper::File(hive, store) => {
            let loaded = store.load()?;
            for warning in &loaded.warnings {
                context.ui.warn(warning.to_string());
            }
            super::offline::secrets(context, &hive, &loaded.secrets.names())?
        }
    };
    if json {
        context.ui.json(&secrets)?;
        return Ok(0);
    }
    let rows = secrets.iter().map(|secret| {
        let users: Vec<String> =
            secret.used_by.iter().map(|(agent, skills)| format!("{agent} ({})", skills.join(", "))).collect();
        let users = if users.is_empty() { "-".to_owned() } else { users.join(", ") };
        vec![secret.name.as_str().into(), if secret.set { "yes" } else { "no" }.into(), users.into()]
    });
    context.ui.table(&["NAME", "SET", "USED BY"], rows.collect())?;
    Ok(0)
}

async fn set(context: &Context, name: &SecretName) -> Outcome {
    let keeper = keeper(context)?;
    let value = read_value(context, name).await?;
    if !mask::is_maskable(&value) {
        context.ui.warn(format!(
            "the value of {name} is shorter than {} bytes and cannot be masked in output",
            mask::MIN_MASKED
        ));
    }
    match keeper {
        Keeper::Supervisor(client) => {
            let body = json!({ "value": value.expose() });
            client.call(Method::PUT, &format!("/v1/secrets/{name}"), Some(&body)).await?;
            context.ui.note(format!("{name} is set"));
        }
        Keeper::File(_, store) => {
            let was_there = store.set(name, value)?;
            context.ui.note(format!("{name} is {}", if was_there { "replaced" } else { "set" }));
        }
    }
    Ok(0)
}

async fn remove(context: &Context, name: &SecretName) -> Outcome {
    match keeper(context)? {
        Keeper::Supervisor(client) => {
            client.call::<()>(Method::DELETE, &format!("/v1/secrets/{name}"), None).await?;
        }
        Keeper::File(_, store) => {
            if !store.remove(name)? {
                return Err(Failure::new(format!("there is no secret {name}"))
                    .help("`skep secret list` shows the names"));
            }
        }
    }
    context.ui.note(format!("{name} is removed"));
    Ok(0)
}

/// All of standard input, or a line typed without being shown.
async fn read_value(context: &Context, name: &SecretName) -> Result<SecretValue, Failure> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_VALUE + 2));
    if terminal::is_terminal() {
        context.ui.err(&format!("Value of {name} (it is not shown), then Enter:"));
        bytes.extend_from_slice(typed().await?.as_bytes());
    } else {
        std::io::stdin().lock().take(MAX_VALUE as u64 + 3).read_to_end(&mut bytes)?;
    }
    SecretValue::from_input(&bytes).map_err(|e| Failure::usage(e.to_string()))
}

/// A line from the terminal; the echo comes back also when a signal ends the waiting.
async fn typed() -> Result<Zeroizing<String>, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let _hidden = terminal::Changed::without_echo()?;
    let (send, line) = oneshot::channel();
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut line = Zeroizing::new(String::with_capacity(MAX_VALUE + 2));
        let read = std::io::stdin().read_line(&mut line).map(|_| line);
        // Nobody waits any more after a signal.
        drop(send.send(read));
    })?;
    tokio::select! {
        read = line => Ok(read??),
        _ = interrupt.recv() => Err(Failure::silent(128 + 2)),
        _ = terminate.recv() => Err(Failure::silent(128 + 15)),
    }
}

//! `skep exec` and `skep shell`: a command in an agent's container, through its init.

use std::collections::BTreeMap;

use super::{
    attach::{self, Input},
    failure::{Failure, Outcome},
    hive::Context,
    terminal,
};
use crate::{app::types::AttachRequest, ids::AgentId};

/// `skep exec`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which agent
    agent: AgentId,
    /// Pass on what is typed; without it a terminal's input is left alone
    #[arg(short, long)]
    interactive: bool,
    /// Give the command a terminal
    #[arg(short, long)]
    tty: bool,
    /// Set an environment variable; may be given several times
    #[arg(short, long = "env", value_name = "KEY=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Working directory in the container [default: /workspace]
    #[arg(short, long, value_name = "DIR")]
    workdir: Option<String>,
    /// Program and its arguments, after --
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// `skep shell`.
#[derive(Debug, clap::Args)]
pub struct ShellArgs {
    /// Which agent
    agent: AgentId,
    /// Set an environment variable; may be given several times
    #[arg(short, long = "env", value_name = "KEY=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Working directory in the container [default: /workspace]
    #[arg(short, long, value_name = "DIR")]
    workdir: Option<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

pub(super) async fn run(context: &Context, args: Args) -> Outcome {
    if args.tty && !terminal::is_terminal() {
        return Err(Failure::usage("--tty needs a terminal, and standard input is none").help("leave -t out"));
    }
    let input = match (args.tty, terminal::is_terminal()) {
        (true, _) => Input::Terminal,
        (false, true) if !args.interactive => Input::None,
        (false, _) => Input::Stream,
    };
    start(context, &args.agent, args.command, args.env, args.workdir, input).await
}

pub(super) async fn shell(context: &Context, args: ShellArgs) -> Outcome {
    let input = if terminal::is_terminal() { Input::Terminal } else { Input::Stream };
    start(context, &args.agent, Vec::new(), args.env, args.workdir, input).await
}

async fn start(
    context: &Context,
    agent: &AgentId,
    command: Vec<String>,
    env: Vec<(String, String)>,
    cwd: Option<String>,
    input: Input,
) -> Outcome {
    let mut env: BTreeMap<String, String> = env.into_iter().collect();
    let tty = (input == Input::Terminal).then(terminal::size);
    if tty.is_some() && !env.contains_key("TERM") {
        env.extend(context.env.term.clone().map(|term| ("TERM".to_owned(), term)));
    }
    let request = AttachRequest { command, tty, env, cwd };
    let socket = context.client()?.socket(&format!("/v1/agents/{agent}/attach")).await?;
    attach::run(socket, &request, input).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_a_name_and_any_value() {
        assert_eq!(pair("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(pair("A="), Ok(("A".into(), String::new())));
        assert!(pair("A").is_err() && pair("=b").is_err());
    }
}

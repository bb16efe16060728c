//! The command line: one file per verb or family. It starts the daemon, and otherwise talks HTTP
//! like any client; what needs no supervisor (`init`, `validate`, `secret`, …) works on the files.
//!
//! Results go to standard output, everything else to standard error. Nothing here ends the process.

mod ask;
mod attach;
mod backup;
pub mod client;
mod doctor;
mod down;
mod events;
mod exec;
pub mod failure;
mod halt;
mod hive;
mod init;
mod job;
mod lifecycle;
mod logs;
mod mail;
mod mounted;
mod offline;
mod prompt;
mod ps;
mod resolve;
mod restore;
mod run;
mod secret;
mod skill;
mod task;
mod terminal;
mod tools;
pub mod ui;
mod up;
mod update;
mod validate;
mod when;

use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use self::{
    failure::{Failure, Outcome},
    hive::Context,
    ui::Ui,
};
use crate::config::Env;

const AFTER: &str = "\
Exit codes: 0 it worked, 1 it failed, 2 the command line or the configuration is wrong;
`exec` and `shell` end with the exit code of their command.";

/// Runs AI agents, each in a hardened container with its skills and secrets
#[derive(Debug, Parser)]
#[command(name = "skep", version, after_help = AFTER, disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    /// Folder of the hive [default: the nearest one upwards with a skep.toml; env: SKEP_DIR]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Supervisor to talk to over TCP, like http://127.0.0.1:7117 [env: SKEP_HOST, SKEP_TOKEN]
    #[arg(long, global = true, value_name = "URL")]
    host: Option<String>,
    /// Tell more: each request, and `up` logs more; twice: even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Tell nothing but results, warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a new hive with one working agent
    Init(init::Args),
    /// Check skep.toml, skills and references; change nothing
    Validate(validate::Args),
    /// Run the supervisor, which starts the agents
    Up(up::Args),
    /// Stop the agents and the supervisor
    Down(down::Args),
    /// Show the agents and how they are
    Ps(ps::Args),
    /// Print the output of an agent's main process
    Logs(logs::Args),
    /// Run a command in an agent's container
    Exec(exec::Args),
    /// Open a shell in an agent's container
    Shell(exec::ShellArgs),
    /// Start agents
    Start(lifecycle::Args),
    /// Stop agents; they stay stopped until they are started
    Stop(lifecycle::Args),
    /// Start agents anew, each in a new container
    Restart(lifecycle::Args),
    /// Print the prompt that an agent is given
    Prompt(prompt::Args),
    /// List what an agent can call: scripts, tools of MCP servers, and the hive's own
    Tools(tools::Args),
    /// Call a tool of an agent now
    #[command(after_help = tools::CALL_EXAMPLES)]
    Call(tools::CallArgs),
    /// Show which skill versions agents get, and why
    Resolve(resolve::Args),
    /// Take newer skill versions within what skep.toml allows, and rewrite skep.lock
    Update(update::Args),
    /// List, add, check, publish and approve skills
    #[command(subcommand)]
    Skill(skill::Command),
    /// Make, list, run and pause jobs: what agents do by themselves, and when
    #[command(subcommand)]
    Job(job::Command),
    /// List, show and cancel the runs of jobs, and print what they wrote
    #[command(subcommand)]
    Run(run::Command),
    /// List, show and cancel background tasks: what agents queued with `queue_task`
    #[command(subcommand)]
    Task(task::Command),
    /// List, send and show mail between agents and the operator
    #[command(subcommand, after_help = mail::EXAMPLES)]
    Mail(mail::Command),
    /// Keep new runs from starting, those of one agent or all
    Halt(halt::HaltArgs),
    /// Let runs start again
    Resume(halt::ResumeArgs),
    /// Show what happened in the hive, and what happens; raise events
    #[command(after_help = events::EXAMPLES)]
    Events(events::Args),
    /// List, set and remove secrets
    #[command(subcommand)]
    Secret(secret::Command),
    /// Look for what is missing, wrong or unsafe on this machine
    Doctor(doctor::Args),
    /// Put the whole hive into one file, while it runs or not
    #[command(after_help = backup::CONTENTS)]
    Backup(backup::Args),
    /// Make a hive of a backup
    Restore(restore::Args),
    /// Print a script that completes skep's commands in a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// Parses the command line, does what it says and answers the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let env = Env::read();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Prints help and version on standard output, mistakes on standard error.
            error.print().ok();
            return ExitCode::from(if error.use_stderr() { failure::USAGE } else { 0 });
        }
    };
    let ui = Ui::new(env.no_color, cli.quiet, cli.verbose);
    let context = Context {
        ui,
        dir: cli.dir.clone().or_else(|| env.dir.clone()),
        host: cli.host.clone().or_else(|| env.host.clone()),
        env,
    };
    match start(&context, cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(failure) if failure.broken_pipe => ExitCode::SUCCESS,
        Err(failure) => {
            ui.failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}

fn start(context: &Context, command: Command) -> Outcome {
    use tokio::runtime::Builder;
    let mut builder = match &command {
        Command::Up(args) if args.in_front() => Builder::new_multi_thread(),
        Command::Exec(_) | Command::Shell(_) => {
            // Input and signals go on while the output waits for its reader.
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(2);
            builder
        }
        _ => Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let outcome = runtime.block_on(run(context, command));
    // A thread that still reads standard input must not keep the process.
    runtime.shutdown_background();
    outcome
}

async fn run(context: &Context, command: Command) -> Outcome {
    match command {
        Command::Init(args) => init::run(context, &args),
        Command::Validate(args) => validate::run(context, &args),
        Command::Up(args) => up::run(context, &args).await,
        Command::Down(args) => down::run(context, &args).await,
        Command::Ps(args) => ps::run(context, &args).await,
        Command::Logs(args) => logs::run(context, &args).await,
        Command::Exec(args) => exec::run(context, args).await,
        Command::Shell(args) => exec::shell(context, args).await,
        Command::Start(args) => lifecycle::run(context, &args, lifecycle::Verb::Start).await,
        Command::Stop(args) => lifecycle::run(context, &args, lifecycle::Verb::Stop).await,
        Command::Restart(args) => lifecycle::run(context, &args, lifecycle::Verb::Restart).await,
        Command::Prompt(args) => prompt::run(context, &args).await,
        Command::Tools(args) => tools::list(context, &args).await,
        Command::Call(args) => tools::call(context, &args).await,
        Command::Resolve(args) => resolve::run(context, &args).await,
        Command::Update(args) => update::run(context, &args).await,
        Command::Skill(command) => skill::run(context, &command).await,
        Command::Job(command) => job::run(context, &command).await,
        Command::Run(command) => run::run(context, &command).await,
        Command::Task(command) => task::run(context, &command).await,
        Command::Mail(command) => mail::run(context, &command).await,
        Command::Halt(args) => halt::halt(context, &args).await,
        Command::Resume(args) => halt::resume(context, &args).await,
        Command::Events(args) => events::run(context, &args).await,
        Command::Secret(command) => secret::run(context, &command).await,
        Command::Doctor(args) => doctor::run(context, &args).await,
        Command::Backup(args) => backup::run(context, &args).await,
        Command::Restore(args) => restore::run(context, &args).await,
        Command::Completions { shell } => completions(shell),
    }
}

fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "skep", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script)?;
    out.flush().map_err(Failure::from)?;
    Ok(0)
}

#[cfg(test)]
mod tests;

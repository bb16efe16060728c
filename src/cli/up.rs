//! `skep up`: the supervisor, in front or detached.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use super::{
    client::Client,
    failure::{FAILED, Failure, Outcome},
    hive::{self, Context},
    ps,
    ui::{lines_of, plain},
};
use crate::{
    app::{
        job_types::HaltView,
        types::{AgentView, HiveView},
    },
    daemon,
    paths::HivePaths,
    supervisor::state::Status,
};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of the log's end that are shown when the supervisor dies early.
const LOG_END: u64 = 4 << 10;

/// `skep up`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run it in the background, and wait until the agents run
    #[arg(short, long)]
    detach: bool,
    /// Seconds to wait for the agents, images being built included
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, requires = "detach")]
    timeout: u64,
    /// Print JSON
    #[arg(long, requires = "detach")]
    json: bool,
    /// What `-d` starts
    #[arg(long, hide = true, conflicts_with = "detach")]
    detached: bool,
}

impl Args {
    /// Whether the supervisor runs in this process.
    pub(super) fn in_front(&self) -> bool {
        !self.detach
    }
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    context.only_here()?;
    let hive = context.hive()?;
    for warning in context.config(&hive)?.warnings {
        context.ui.warn(warning.to_string());
    }
    if let Some(holder) = hive::supervisor(&hive)? {
        return Err(Failure::new(format!(
            "a supervisor runs the hive {} already: process {} since {}",
            hive::name(&hive),
            holder.pid,
            holder.started_at
        ))
        .help("`skep ps` shows its agents, `skep down` stops it"));
    }
    if args.detach {
        return detach(context, &hive, args).await;
    }
    if args.detached {
        // The terminal's end and its Ctrl-C are not ours any more.
        rustix::process::setsid()
            .map_err(|e| Failure::new(format!("cannot leave the terminal's session: {e}")))?;
    }
    let log = match context.ui.verbose {
        0 => None,
        1 => Some("info,skep=debug".to_owned()),
        _ => Some("debug,skep=trace".to_owned()),
    };
    let options = daemon::Options { dir: hive.root, detached: args.detached, log };
    daemon::run(options).await.map_err(|e| Failure::from_anyhow(&e))?;
    Ok(0)
}

async fn detach(context: &Context, hive: &HivePaths, args: &Args) -> Outcome {
    let (mut child, log_start) = spawn(context, hive)?;
    let spinner = context.ui.spinner();
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    let client = Client::unix(hive)?;
    let waited = wait(context, &client, &mut child, deadline, &spinner).await;
    spinner.finish_and_clear();
    let agents = match waited? {
        Waited::Settled(agents) => agents,
        Waited::Died(how) => {
            let end = log_end(&hive.log(), log_start);
            return Err(Failure {
                details: end.lines().map(ToOwned::to_owned).collect(),
                ..Failure::new(format!("the supervisor ended before it was ready ({how}); it said:"))
            }
            .help(format!("its whole log is {}", hive::shown(&hive.log()))));
        }
        Waited::Late => {
            return Err(Failure::new(format!("not every agent has started after {} s", args.timeout))
                .help("the supervisor goes on: look with `skep ps`"));
        }
    };
    if args.json {
        context.ui.json(&agents)?;
    } else {
        let halts: HaltView = client.get("/v1/halt", &[]).await.unwrap_or_default();
        ps::show(context, &agents, &halts)?;
        if let Ok(about) = client.get::<HiveView>("/v1/hive", &[]).await {
            ps::about(context, &about);
        }
    }
    Ok(if agents.iter().any(|a| a.status == Status::Failed) { FAILED } else { 0 })
}

/// Starts this program once more; it takes the log for its output until it logs by itself.
fn spawn(context: &Context, hive: &HivePaths) -> Result<(Child, u64), Failure> {
    let path = hive.log();
    let told = |e: std::io::Error| Failure::new(format!("cannot write the log {}: {e}", path.display()));
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true).mode(0o700);
    for folder in [hive.state(), hive.state().join("logs")] {
        folders.create(folder).map_err(told)?;
    }
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map_err(told)?;
    let start = log.metadata()?.len();
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.arg("--dir").arg(&hive.root).args(["up", "--detached"]);
    for _ in 0..context.ui.verbose {
        command.arg("-v");
    }
    command.current_dir(&hive.root).stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log);
    let child = command.spawn().map_err(|e| Failure::new(format!("cannot start the supervisor: {e}")))?;
    Ok((child, start))
}

enum Waited {
    Settled(Vec<AgentView>),
    Died(String),
    Late,
}

/// Waits until every agent has got somewhere, or the supervisor has ended.
async fn wait(
    context: &Context,
    client: &Client,
    child: &mut Child,
    deadline: Instant,
    spinner: &indicatif::ProgressBar,
) -> Result<Waited, Failure> {
    let mut settled = BTreeSet::new();
    let mut said = Vec::new();
    spinner.set_message("the supervisor starts");
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Waited::Died(status.to_string()));
        }
        if client.is_ready().await {
            // It may end between two questions; the next look at the process tells.
            if let Ok(agents) = client.list::<AgentView>("/v1/agents", &[]).await {
                let going = |a: &&AgentView| !matches!(a.status, Status::Pending | Status::Starting);
                settled.extend(agents.iter().filter(going).map(|a| a.id.clone()));
                if agents.iter().all(|a| settled.contains(&a.id)) {
                    return Ok(Waited::Settled(agents));
                }
                let progress = progress(client).await;
                tell(context, spinner, &agents, &progress, &mut said);
            }
        }
        if Instant::now() > deadline {
            return Ok(Waited::Late);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn progress(client: &Client) -> Vec<String> {
    client.get::<HiveView>("/v1/hive", &[]).await.map(|hive| hive.progress).unwrap_or_default()
}

/// On a terminal one line that changes; elsewhere each new piece of long work once.
fn tell(
    context: &Context,
    spinner: &indicatif::ProgressBar,
    agents: &[AgentView],
    progress: &[String],
    said: &mut Vec<String>,
) {
    let count = |status| agents.iter().filter(|a| a.status == status).count();
    let running = count(Status::Running);
    let work = progress.first().map(|line| format!(": {}", plain(line))).unwrap_or_default();
    spinner.set_message(format!("{running} of {} agents run{work}", agents.len()));
    if spinner.is_hidden() {
        for line in progress {
            // Only what the work is, not each of its steps.
            let what = line.split(':').next().unwrap_or(line).to_owned();
            if !said.contains(&what) {
                context.ui.note(plain(line));
                said.push(what);
            }
        }
    }
}

/// The last lines that were written since `start`.
fn log_end(path: &Path, start: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        // A log that was rotated meanwhile is shorter.
        let from = if start > length { 0 } else { start };
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(LOG_END))))?;
        let mut bytes = Vec::new();
        file.take(LOG_END).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) if text.trim().is_empty() => "(nothing)".to_owned(),
        Ok(text) => lines_of(text.trim_end()),
        Err(e) => format!("(its log cannot be read: {e})"),
    }
}

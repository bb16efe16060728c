//! Fetches one commit of a git repository into a folder of our own, with the system's `git`.
//!
//! A repository is a stranger's: no hook, submodule, filter or prompt of it runs, only protocols that
//! were meant are spoken, and time and size are bounded. What stands in the folder afterwards is
//! judged by others.

mod url;

use std::{
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    time::{Instant, MissedTickBehavior},
};

pub use self::url::{BadUrl, Protocol, Url, check_reference};

/// Between two looks at how much has come.
const LOOK: Duration = Duration::from_millis(250);
/// How long `git` may take to end after it was told to.
const GRACE: Duration = Duration::from_secs(3);
/// What a file takes at least.
const BLOCK: u64 = 4 << 10;
/// Bytes of what `git` says last that are told on.
const LAST_WORDS: usize = 2 << 10;

/// What would lead `git` elsewhere than to the folder that it is given.
const NOT_INHERITED: [&str; 15] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_TEMPLATE_DIR",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROTOCOL_FROM_USER",
    "GIT_TRACE",
    "GIT_TRACE_CURL",
    "GIT_SSH",
];

/// Set for every call: nothing of the repository runs, nothing is asked.
const SETTINGS: [&str; 11] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "submodule.recurse=false",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
    "advice.detachedHead=false",
    "init.defaultBranch=main",
    "gc.auto=0",
    "credential.interactive=false",
];

/// How much a fetch may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Time for all of it.
    pub time: Duration,
    /// Bytes of the repository and its files together.
    pub bytes: u64,
}

/// Why a repository was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no `git`.
    #[error(
        "git is not installed: install it (Debian: `apt-get install git`), or add a folder or an archive"
    )]
    Missing,
    /// The name of a branch, tag or commit is none.
    #[error("{0:?} cannot be the name of a branch, tag or commit")]
    Reference(String),
    /// It took longer than allowed.
    #[error("{url} was not fetched within {} s; clone it by hand and add the folder", after.as_secs())]
    Slow {
        /// Without what is secret in it.
        url: String,
        /// The limit.
        after: Duration,
    },
    /// It is larger than allowed.
    #[error("{url} is larger than {most} bytes; clone it by hand and add the folder with the skills")]
    Large {
        /// Without what is secret in it.
        url: String,
        /// The limit.
        most: u64,
    },
    /// `git` says no.
    #[error("cannot fetch {url}: {said}")]
    Refused {
        /// Without what is secret in it.
        url: String,
        /// In its words.
        said: String,
    },
    /// Our own side failed.
    #[error("{what}")]
    Io {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

fn ours(what: &'static str) -> impl FnOnce(io::Error) -> GitError {
    move |source| GitError::Io { what, source }
}

/// Fetches what `reference` names (a branch, a tag or a full commit id; none: the default branch) into
/// `into`, an empty folder of ours, and answers the id of the commit. `told` hears how it goes.
/// Dropped in between, it ends `git`.
///
/// # Errors
/// `git` is missing or refuses, a bound was met, or our own side failed.
pub async fn fetch(
    url: &Url,
    reference: Option<&str>,
    into: &Path,
    bounds: Bounds,
    told: &mut dyn FnMut(&str),
) -> Result<String, GitError> {
    if let Some(reference) = reference.filter(|r| !check_reference(r)) {
        return Err(GitError::Reference(reference.to_owned()));
    }
    let run = Run { url, into, bounds, until: Instant::now() + bounds.time };
    run.git(&["init", "--quiet", "--template="], told).await?;
    let from = [url.as_given(), reference.unwrap_or("HEAD")];
    let fetch = ["fetch", "--progress", "--depth=1", "--no-tags", "--no-recurse-submodules", "--"];
    run.git(&[&fetch[..], &from[..]].concat(), told).await?;
    run.git(&["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"], told).await?;
    let commit = run.git(&["rev-parse", "--verify", "HEAD"], told).await?;
    std::fs::remove_dir_all(into.join(".git")).map_err(ours("cannot remove the repository's own folder"))?;
    Ok(commit.trim().to_owned())
}

/// One fetch and the bounds that its calls of `git` share.
struct Run<'a> {
    url: &'a Url,
    into: &'a Path,
    bounds: Bounds,
    until: Instant,
}

impl Run<'_> {
    /// Runs `git`, and answers what it wrote to standard output.
    async fn git(&self, args: &[&str], told: &mut dyn FnMut(&str)) -> Result<String, GitError> {
        let mut child = self.command(args).spawn().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => GitError::Missing,
            _ => GitError::Io { what: "cannot run git", source: e },
        })?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut last = Vec::new();
        let watched = {
            let (url, mut words) = (self.url, |bytes: &[u8]| tell(bytes, &mut last, told));
            let read = async { tokio::join!(all(out), each(err, &mut words)).0 };
            tokio::select! {
                out = read => Ok(out),
                bound = watch(self.into, self.bounds, self.until, url) => Err(bound),
            }
        };
        let out = match watched {
            Ok(out) => out,
            Err(bound) => {
                end(&mut child).await;
                return Err(bound);
            }
        };
        let status = child.wait().await.map_err(ours("cannot wait for git"))?;
        if size(self.into) > self.bounds.bytes {
            return Err(GitError::Large { url: self.url.to_string(), most: self.bounds.bytes });
        }
        if status.success() { Ok(out) } else { Err(self.refused(&last, status)) }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
            .args(args)
            .current_dir(self.into)
            .env("GIT_ALLOW_PROTOCOL", self.url.protocol().allowed())
            .env("GIT_CEILING_DIRECTORIES", self.into.parent().unwrap_or(self.into))
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "")
            .env("SSH_ASKPASS", "")
            .env("SSH_ASKPASS_REQUIRE", "never")
            .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
            .env("GCM_INTERACTIVE", "never")
            .env("GIT_LFS_SKIP_SMUDGE", "1")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn refused(&self, last: &[u8], status: ExitStatus) -> GitError {
        let text = String::from_utf8_lossy(last);
        let mut lines = text.split(['\r', '\n']).map(str::trim).filter(|l| !l.is_empty());
        let errors: Vec<&str> =
            lines.clone().filter(|l| l.starts_with("fatal:") || l.starts_with("error:")).collect();
        let said = if errors.is_empty() {
            lines.next_back().map_or_else(|| format!("git ended with {status}"), str::to_owned)
        } else {
            errors.join("; ")
        };
        GitError::Refused { url: self.url.to_string(), said: self.url.mask(&said) }
    }
}

/// Hands on each line of progress and keeps the last words.
fn tell(bytes: &[u8], last: &mut Vec<u8>, told: &mut dyn FnMut(&str)) {
    last.extend_from_slice(bytes);
    let more = last.len().saturating_sub(LAST_WORDS);
    last.drain(..more);
    let text = String::from_utf8_lossy(bytes);
    if let Some(line) = text.split(['\r', '\n']).rev().map(str::trim).find(|l| !l.is_empty()) {
        told(line);
    }
}

async fn all(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut text = Vec::new();
    if let Some(from) = from {
        // What cannot be read is missed by whoever wanted it.
        from.take(1 << 16).read_to_end(&mut text).await.ok();
    }
    String::from_utf8_lossy(&text).into_owned()
}

async fn each(from: Option<impl AsyncRead + Unpin>, told: &mut dyn FnMut(&[u8])) {
    let Some(mut from) = from else { return };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        told(&buffer[..read]);
    }
}

/// Comes back when a bound was met.
async fn watch(folder: &Path, bounds: Bounds, until: Instant, url: &Url) -> GitError {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if Instant::now() >= until {
            return GitError::Slow { url: url.to_string(), after: bounds.time };
        }
        let folder = folder.to_owned();
        let size = tokio::task::spawn_blocking(move || size(&folder)).await.unwrap_or(0);
        if size > bounds.bytes {
            return GitError::Large { url: url.to_string(), most: bounds.bytes };
        }
    }
}

/// Bytes of all files and folders below, each at least a block: a repository of few bytes can give millions of
/// files. What vanishes meanwhile counts nothing.
fn size(folder: &Path) -> u64 {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|meta| meta.len().max(BLOCK))
        .sum()
}

/// Asks `git` to end, which ends its own children, and makes sure of it.
async fn end(child: &mut Child) {
    if let Some(pid) =
        child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
    {
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap_or_default();
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        child.kill().await.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;

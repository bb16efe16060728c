//! The supervisor's own log: for people on a terminal, or in a file that is rotated by size.

use std::{
    fs::{self, File},
    io::{self, IsTerminal, Write},
    path::PathBuf,
    sync::Mutex,
};

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::{config::Env, paths::HivePaths};

/// Bytes of a log file, and how many older ones are kept.
const MAX_SIZE: u64 = 10 << 20;
const KEPT: u32 = 3;

/// Starts logging. May be called once a process.
pub(super) fn start(paths: &HivePaths, env: &Env, detached: bool) -> anyhow::Result<()> {
    let usual = format!("warn,{},skep=info", crate::mcp::QUIET);
    let filter = EnvFilter::try_new(env.log.as_deref().unwrap_or(&usual))
        .context("SKEP_LOG is not a log filter; write for example `info` or `skep=debug`")?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    let result = if detached {
        let file = Rotating::open(paths.log())
            .with_context(|| format!("cannot write the log {}", paths.log().display()))?;
        builder.with_ansi(false).with_writer(Mutex::new(file)).try_init()
    } else {
        let color = io::stderr().is_terminal() && !env.no_color;
        builder.with_ansi(color).with_writer(io::stderr).try_init()
    };
    // A test that runs several supervisors in one process has a log already.
    result.unwrap_or_default();
    Ok(())
}

/// A log file that is put aside when it is full.
struct Rotating {
    path: PathBuf,
    file: File,
    size: u64,
}

impl Rotating {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let older = |n: u32| self.path.with_extension(format!("log.{n}"));
        for n in (1..KEPT).rev() {
            fs::rename(older(n), older(n + 1)).or_else(missing_is_fine)?;
        }
        fs::rename(&self.path, older(1))?;
        *self = Self::open(self.path.clone())?;
        Ok(())
    }
}

fn missing_is_fine(e: io::Error) -> io::Result<()> {
    if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) }
}

impl Write for Rotating {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size >= MAX_SIZE {
            self.rotate()?;
        }
        let written = self.file.write(bytes)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_is_put_aside_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skep.log");
        for round in 0..6 {
            let mut log = Rotating::open(path.clone()).unwrap();
            log.size = MAX_SIZE;
            writeln!(log, "round {round}").unwrap();
        }
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(text("skep.log"), "round 5\n");
        assert_eq!(text("skep.log.3"), "round 2\n");
        assert!(!dir.path().join("skep.log.4").exists());
    }
}

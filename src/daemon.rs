//! Builds everything, starts it, stops it.

use std::path::PathBuf;

/// How a supervisor is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of the hive.
    pub dir: PathBuf,
    /// Without a terminal: it logs to its own rotating file.
    pub detached: bool,
}

/// Runs the supervisor of a hive until SIGINT or SIGTERM.
///
/// # Errors
/// It could not start, or its end was not clean.
pub async fn run(options: Options) -> anyhow::Result<()> {
    anyhow::bail!("no supervisor yet for {}", options.dir.display())
}

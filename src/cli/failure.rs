//! How a command fails: the words for people and the exit code. Prints nothing.

use std::io;

/// Something went wrong.
pub const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
pub const USAGE: u8 = 2;

/// Why a command ended without doing what it should.
#[derive(Debug, Default)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// One sentence; empty: everything was said already.
    pub message: String,
    /// What belongs to it, a line each.
    pub details: Vec<String>,
    /// What to do about it.
    pub help: Vec<String>,
    /// Whoever reads our output has gone: there is nobody to tell.
    pub broken_pipe: bool,
    /// Status of the supervisor's refusal; none: it did not refuse.
    pub status: Option<u16>,
}

/// A command's exit code, or why it failed.
pub type Outcome = Result<u8, Failure>;

impl Failure {
    /// It failed.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into(), ..Self::default() }
    }

    /// The command line or the configuration is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(message) }
    }

    /// Ends with this code; what there is to say was printed.
    #[must_use]
    pub fn silent(code: u8) -> Self {
        Self { code, ..Self::default() }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// From the daemon, which uses `anyhow`.
    #[must_use]
    pub fn from_anyhow(error: &anyhow::Error) -> Self {
        Self::new(chain(error.as_ref()))
    }
}

/// An error and its sources in one line; a source that its error repeats is left out.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = source.source();
    }
    text
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &(dyn std::error::Error + 'static) = &error;
        let broken_pipe =
            any.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        Self { broken_pipe, ..Self::new(chain(&error)) }
    }
}

//! Why a folder was not taken into the registry, every reason at once.
//!
//! Texts are fit for a terminal whatever the folder's names hold.

use std::io;

use crate::error::Fault;

/// Why a folder was not taken.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The folder breaks rules.
    #[error("{folder} cannot be taken: {}", list(faults, *more))]
    Rejected {
        /// The folder, fit for printing.
        folder: String,
        /// What is wrong, at most 50.
        faults: Vec<Fault>,
        /// How many more there are.
        more: usize,
        /// Something changed while it was read: trying again may help.
        changing: bool,
    },
    /// There is no such folder.
    #[error("{0} is not there")]
    Missing(String),
    /// The kernel is too old to read a hostile folder safely.
    #[error(
        "this kernel has no openat2, without which no skill can be read safely: run Linux 5.6 or newer (and allow openat2 in the seccomp profile when skep runs in a container)"
    )]
    NoOpenat2,
    /// Our own side failed.
    #[error("{what}")]
    Io {
        /// What failed, on which thing.
        what: String,
        /// Why.
        source: io::Error,
    },
}

impl CopyError {
    pub(super) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}

fn list(faults: &[Fault], more: usize) -> String {
    let mut text: Vec<_> = faults.iter().map(ToString::to_string).collect();
    if more > 0 {
        text.push(format!("and {more} more"));
    }
    text.join("; ")
}

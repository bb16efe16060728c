//! Asks before something is done that cannot be taken back.

use std::io::{BufRead, IsTerminal};

use super::{failure::Failure, hive::Context, terminal};

/// Whether there is a terminal to ask on.
pub(super) fn possible() -> bool {
    terminal::is_terminal() && std::io::stderr().is_terminal()
}

/// Puts a question; anything but yes is no.
///
/// # Errors
/// Standard input cannot be read; or there is no terminal: `what` asks first.
pub(super) fn sure(context: &Context, what: &str, question: &str) -> Result<bool, Failure> {
    if !possible() {
        return Err(Failure::usage(format!("{what} asks first, and there is no terminal to ask on"))
            .help("add --yes when you are sure"));
    }
    context.ui.err(&format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    let yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    if !yes {
        context.ui.note("nothing was done");
    }
    Ok(yes)
}

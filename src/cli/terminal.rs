//! The terminal of this process: raw mode while a remote one is shown, restored on every way out.

use std::io::stdin;

use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use crate::app::types::TtySize;

/// A changed terminal; dropping it, also in a panic, brings the old state back.
#[derive(Debug)]
pub(super) struct Changed {
    before: Termios,
}

impl Changed {
    /// Bytes pass as they are: no echo, no lines, no signals.
    pub(super) fn raw() -> std::io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
        Ok(Self { before })
    }

    /// What is typed is not shown.
    pub(super) fn without_echo() -> std::io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self { before })
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        // Where the terminal has gone there is nothing to restore.
        tcsetattr(stdin(), OptionalActions::Now, &self.before).ok();
    }
}

/// Whether standard input is a terminal.
pub(super) fn is_terminal() -> bool {
    isatty(stdin())
}

/// The terminal's size; 24 by 80 where it does not tell.
pub(super) fn size() -> TtySize {
    match tcgetwinsize(stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => TtySize { rows: size.ws_row, cols: size.ws_col },
        _ => TtySize { rows: 24, cols: 80 },
    }
}

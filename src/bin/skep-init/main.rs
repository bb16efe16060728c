//! skep-init: PID 1 of an agent's container.
//!
//! Reaps, forwards signals from outside, starts process trees on request, each under a runner of
//! its own, runs `main`, and keeps output whether or not a supervisor listens. It decides nothing
//! about agents or skills, and no wish of a process inside makes it end or panic. Called `skep`, the same
//! file is a client of the agent's socket and nothing else.

mod client;
mod events;
mod link;
mod main_process;
mod oom;
mod process;
mod runner;
mod sys;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = client::asked() {
        return code;
    }
    if let Err(e) = sys::become_init() {
        eprintln!("skep-init: cannot set up: {e}");
        return ExitCode::from(70);
    }
    match events::Init::new() {
        Ok(mut init) => init.run(),
        Err(e) => {
            eprintln!("skep-init: cannot start: {e}");
            ExitCode::from(70)
        }
    }
}

//! The agent's `main` process: started, restarted by policy with a growing pause, replaced on demand.

use std::os::fd::OwnedFd;

use skep::wire::{
    Io, Main, MainReport, MainState, RestartPolicy,
    spool::{Bounds, Writer},
};

use crate::{
    process::{Process, Request, State},
    sys,
};

/// Pause before a restart: the first, and the most. A run of `HEALTHY_MS` starts again at the first.
const BACKOFF_MS: (u64, u64) = (200, 60_000);
const HEALTHY_MS: u64 = 10_000;

/// `main` with its policy.
pub struct MainProcess {
    spec: Main,
    pub process: Option<Process>,
    writer: Option<Writer>,
    state: Option<MainState>,
    restarts: u32,
    starts: u32,
    started_at: u64,
    delay: u64,
    next_start: Option<u64>,
    /// Set when it is to end for good, with what comes after it.
    replaced_by: Option<Option<(Main, Writer)>>,
    /// Whether the supervisor of this link knows the state.
    pub told: bool,
}

impl MainProcess {
    /// Due at once.
    pub fn new(spec: Main, writer: Writer) -> Self {
        Self {
            spec,
            process: None,
            writer: Some(writer),
            state: None,
            restarts: 0,
            starts: 0,
            started_at: 0,
            delay: BACKOFF_MS.0,
            next_start: Some(0),
            replaced_by: None,
            told: false,
        }
    }

    /// Ends it, then runs `next`, if any.
    pub fn replace(&mut self, next: Option<(Main, Writer)>) {
        self.next_start = None;
        self.replaced_by = Some(next);
        let grace = self.spec.grace_ms;
        if let Some(process) = &mut self.process {
            process.end_tree(grace);
        }
    }

    /// Once replaced and ended: what comes after it.
    pub fn successor(&mut self) -> Option<Option<(Main, Writer)>> {
        if self.process.is_some() { None } else { self.replaced_by.take() }
    }

    /// When it is to be started next.
    pub fn deadline(&self) -> Option<u64> {
        let own = self.next_start.filter(|_| self.process.is_none());
        [own, self.process.as_ref().and_then(Process::next_deadline)].into_iter().flatten().min()
    }

    /// Where it stands; none before its first start.
    pub fn report(&self) -> Option<MainReport> {
        let end = match (&self.process, &self.writer) {
            (Some(process), _) => process.end(),
            (None, Some(writer)) => writer.end(),
            (None, None) => 0,
        };
        let state = self.state.clone()?;
        Some(MainReport { hash: self.spec.hash, state, restarts: self.restarts, end })
    }

    /// The exit code that the container ends with.
    pub fn exit_code(&self) -> u8 {
        match &self.state {
            Some(MainState::Done { exit } | MainState::Backoff { last: Some(exit), .. }) => {
                u8::try_from(exit.code).unwrap_or(255)
            }
            _ => 0,
        }
    }

    /// No further start: the container is going down.
    pub fn hold(&mut self) {
        self.next_start = None;
        self.replaced_by = Some(None);
    }

    /// Starts what is due and takes note of what ended.
    pub fn step(&mut self, scope: Option<&OwnedFd>) {
        if self.process.is_none() && self.next_start.is_some_and(|at| at <= sys::monotonic_ms()) {
            self.start(scope);
        }
        let Some(process) = &mut self.process else { return };
        match process.state {
            State::Starting => {}
            State::Running => {
                let running = MainState::Running { pid: process.pid };
                self.set_state(running);
            }
            State::Failed { stage, errno } => {
                self.writer = process.writer.take();
                self.process = None;
                self.could_not_start(stage, errno);
            }
            State::Exited(exit) => {
                self.writer = process.writer.take();
                self.process = None;
                let again = self.replaced_by.is_none()
                    && match self.spec.restart {
                        RestartPolicy::Always => true,
                        RestartPolicy::OnFailure => exit.code != 0,
                        RestartPolicy::Never => false,
                    };
                if again {
                    if sys::monotonic_ms() - self.started_at >= HEALTHY_MS {
                        self.delay = BACKOFF_MS.0;
                    }
                    let delay_ms = self.back_off();
                    self.set_state(MainState::Backoff { last: Some(exit), error: None, delay_ms });
                } else {
                    self.set_state(MainState::Done { exit });
                }
            }
        }
    }

    fn start(&mut self, scope: Option<&OwnedFd>) {
        self.next_start = None;
        let request = Request {
            argv: &self.spec.argv,
            env: &self.spec.env,
            cwd: &self.spec.cwd,
            io: &Io::Capture { stdin: Vec::new(), spool: Bounds { head: 0, tail: 0 } },
            not_before_us: None,
            timeout_ms: None,
            grace_ms: self.spec.grace_ms,
            bound: false,
            held_to: None,
        };
        let writer = self.writer.take();
        if self.starts > 0 {
            self.restarts += 1;
        }
        self.starts += 1;
        self.started_at = sys::monotonic_ms();
        match Process::start(&request, writer, scope) {
            Ok(process) => self.process = Some(process),
            Err((error, writer)) => {
                self.writer = writer;
                self.could_not_start(&error.stage, error.errno);
            }
        }
    }

    fn could_not_start(&mut self, stage: &str, errno: i32) {
        let why = format!("could not {stage}: {}", std::io::Error::from_raw_os_error(errno));
        if self.replaced_by.is_some() {
            return;
        }
        let delay_ms = self.back_off();
        self.set_state(MainState::Backoff { last: None, error: Some(why), delay_ms });
    }

    fn back_off(&mut self) -> u64 {
        let delay = self.delay;
        self.next_start = Some(sys::monotonic_ms() + delay);
        self.delay = (self.delay * 2).min(BACKOFF_MS.1);
        delay
    }

    fn set_state(&mut self, state: MainState) {
        if self.state.as_ref() != Some(&state) {
            self.state = Some(state);
            self.told = false;
        }
    }
}

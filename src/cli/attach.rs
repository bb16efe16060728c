//! One attached command: standard input and signals go in, output and the exit code come out.
//!
//! Input is read by a thread of its own, so that waiting for a key never delays output; sending has
//! a task of its own, so that a full pipe in one direction never stops the other.

use std::io::{Read, Write};

use futures_util::{SinkExt, StreamExt, stream::SplitSink};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};
use tokio_tungstenite::tungstenite::Message;

use super::{
    client::Socket,
    failure::{Failure, Outcome},
    terminal,
};
use crate::app::types::{AttachControl, AttachEvent, AttachRequest};

/// Channel byte of standard input.
const STDIN: u8 = 0;
/// Channel byte of standard output.
const STDOUT: u8 = 1;
/// Channel byte of standard error.
const STDERR: u8 = 2;
/// So many Ctrl-C end the waiting itself.
const INSIST: u32 = 4;
/// Messages on their way out.
const QUEUE: usize = 16;

/// Where the command's input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// Nowhere: it sees the end at once.
    None,
    /// From standard input, as it comes.
    Stream,
    /// From a terminal that passes every key on.
    Terminal,
}

/// Runs to the command's end and answers its exit code.
pub(super) async fn run(socket: Socket, request: &AttachRequest, input: Input) -> Outcome {
    // Before anything is seen of the command: what comes earlier would be lost, or end this process.
    let (signals, mut hangup) = (Signals::new()?, signal(SignalKind::hangup())?);
    let (sink, mut incoming) = socket.split();
    let (send, outgoing) = mpsc::channel(QUEUE);
    let sender = tokio::spawn(forward(outgoing, sink));
    send.send(text(request)?).await.ok();
    let _raw = if input == Input::Terminal { Some(terminal::Changed::raw()?) } else { None };
    read_input(input, &send)?;
    let mut signals = tokio::spawn(signals.pass(send, input));
    let outcome = loop {
        let message = tokio::select! {
            message = incoming.next() => message,
            // The terminal has gone; the server ends the command when the connection does.
            _ = hangup.recv() => break Ok(128 + 1),
            // Somebody insists, and the command does not end.
            _ = &mut signals => break Ok(128 + 2),
        };
        let event = match message {
            Some(Ok(Message::Binary(frame))) => {
                write_frame(&frame)?;
                continue;
            }
            Some(Ok(Message::Text(event))) => serde_json::from_str(&event)?,
            Some(Ok(Message::Close(_)) | Err(_)) | None => break Err(lost()),
            Some(Ok(_)) => continue,
        };
        match event {
            AttachEvent::Started(_) => {}
            AttachEvent::Exited(code) => break Ok(exit_code(code)),
            AttachEvent::Failed(reason) => break Err(failed(request, &reason)),
        }
    };
    signals.abort();
    sender.abort();
    outcome
}

fn failed(request: &AttachRequest, reason: &str) -> Failure {
    let mut failure = match request.command.first() {
        Some(program) if !reason.contains(program.as_str()) => Failure::new(format!("{program}: {reason}")),
        _ => Failure::new(reason),
    };
    // As shells have it: not found, and found but not to be executed.
    if reason.contains("could not execute") {
        failure.code = if reason.contains("os error 2)") { 127 } else { 126 };
    }
    failure
}

fn lost() -> Failure {
    Failure::new("the connection to the supervisor broke off before the command ended")
        .help("`skep ps` tells whether the supervisor and the agent run")
}

/// What a process can end with; anything else counts as failed.
fn exit_code(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(u8::MAX)
}

fn text<T: serde::Serialize>(value: &T) -> Result<Message, Failure> {
    Ok(Message::text(serde_json::to_string(value)?))
}

fn control(value: &AttachControl) -> Option<Message> {
    text(value).ok()
}

async fn forward(mut from: mpsc::Receiver<Message>, mut to: SplitSink<Socket, Message>) {
    while let Some(message) = from.recv().await {
        if to.send(message).await.is_err() {
            return;
        }
    }
}

fn write_frame(frame: &[u8]) -> Result<(), Failure> {
    match frame.split_first() {
        Some((&STDOUT, bytes)) => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes)?;
            out.flush()?;
        }
        Some((&STDERR, bytes)) => std::io::stderr().lock().write_all(bytes)?,
        _ => {}
    }
    Ok(())
}

/// Starts the thread that reads standard input; it lives until the process ends.
fn read_input(input: Input, send: &mpsc::Sender<Message>) -> Result<(), Failure> {
    let send = send.clone();
    let end = control(&AttachControl::Eof);
    if input == Input::None {
        if let Some(end) = end {
            send.try_send(end).ok();
        }
        return Ok(());
    }
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut buffer = vec![STDIN; 16 << 10];
        let mut stdin = std::io::stdin().lock();
        loop {
            match stdin.read(&mut buffer[1..]) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    if send.blocking_send(Message::binary(buffer[..=n].to_vec())).is_err() {
                        return;
                    }
                }
            }
        }
        if let Some(end) = end {
            send.blocking_send(end).ok();
        }
    })?;
    Ok(())
}

/// What the operator's terminal or system tells this process, from when it is made.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    window: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            window: signal(SignalKind::window_change())?,
        })
    }

    /// Passes them on, until somebody insists.
    async fn pass(mut self, send: mpsc::Sender<Message>, input: Input) {
        let mut interrupts = 0;
        loop {
            let told = tokio::select! {
                _ = self.interrupt.recv() => {
                    interrupts += 1;
                    if interrupts == INSIST {
                        return;
                    }
                    AttachControl::Signal(libc::SIGINT)
                }
                _ = self.terminate.recv() => AttachControl::Signal(libc::SIGTERM),
                _ = self.quit.recv() => AttachControl::Signal(libc::SIGQUIT),
                _ = self.window.recv() => {
                    if input != Input::Terminal {
                        continue;
                    }
                    AttachControl::Resize(terminal::size())
                }
            };
            if let Some(message) = control(&told) {
                // Nobody takes it when the connection has gone, which the other side of this notices.
                send.send(message).await.ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_of_a_process_is_passed_on_exactly() {
        for code in 0..=255u8 {
            assert_eq!(exit_code(i32::from(code)), code);
        }
        assert_eq!(exit_code(-1), 255);
    }
}

//! `skep shell` on a real pseudo-terminal.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Stdio},
};

use nix::{
    pty::{Winsize, openpty},
    sys::{
        signal::{Signal, kill},
        termios::{LocalFlags, tcgetattr},
    },
    unistd::Pid,
};

use crate::{server::Server, support::Hive};

struct Terminal {
    master: File,
    slave: OwnedFd,
}

impl Terminal {
    fn new(ws_row: u16, ws_col: u16) -> Self {
        let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).unwrap();
        Self { master: pair.master.into(), slave: pair.slave }
    }

    fn shell(&self, hive: &Hive) -> Child {
        let stdio = || Stdio::from(self.slave.try_clone().unwrap());
        let mut command = hive.skep(&["shell", "helper"]);
        command.env("TERM", "xterm-test").stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap()
    }

    fn read_until(&mut self, wanted: &str) -> String {
        let (mut seen, mut buffer) = (String::new(), [0; 256]);
        while !seen.contains(wanted) {
            let n = self.master.read(&mut buffer).unwrap();
            seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        seen
    }

    fn is_raw(&self) -> bool {
        let flags = tcgetattr(&self.slave).unwrap().local_flags;
        !flags.intersects(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG)
    }
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

#[test]
fn keys_pass_raw_the_size_follows_and_the_terminal_is_restored() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    let mut terminal = Terminal::new(30, 100);
    let mut child = terminal.shell(&hive);
    terminal.read_until("size 30x100");
    assert!(terminal.is_raw());
    // Ctrl-C is a byte for the other side, no signal for this one.
    terminal.master.write_all(b"\x03").unwrap();
    terminal.read_until("\x03");
    let larger = rustix::termios::Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&terminal.master, larger).unwrap();
    signal(&child, Signal::SIGWINCH);
    terminal.read_until("size 40x120");
    terminal.master.write_all(b"q").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(!terminal.is_raw());
    let asked = server.asked().join("");
    assert!(asked.contains(r#""tty":{"rows":30,"cols":100}"#) && asked.contains("xterm-test"), "{asked}");
}

#[test]
fn a_terminal_that_hangs_up_is_restored_too() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    let mut terminal = Terminal::new(24, 80);
    let mut child = terminal.shell(&hive);
    terminal.read_until("size 24x80");
    assert!(terminal.is_raw());
    signal(&child, Signal::SIGHUP);
    assert_eq!(child.wait().unwrap().code(), Some(129));
    assert!(!terminal.is_raw());
}

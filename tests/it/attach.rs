//! `skep exec`: streams, exit codes, signals.

use std::{
    io::{Read, Write},
    process::Stdio,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{server::Server, support::Hive};

#[test]
fn output_and_error_stay_apart_and_the_exit_code_is_the_commands() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    for code in [0, 1, 2, 7, 137, 255] {
        let ran = hive.run(&["exec", "helper", "--", "both", &code.to_string()]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (code, "out\n", "err\n"));
    }
}

#[test]
fn input_is_passed_on_to_its_end() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    let input = "line\n".repeat(100_000);
    let ran = hive.feed(&["exec", "helper", "--", "cat"], input.as_bytes());
    assert_eq!(ran.code, 0);
    assert_eq!(ran.out.len(), "ready\n".len() + input.len());
    assert!(ran.out.ends_with(&input));
}

#[test]
fn environment_and_folder_are_asked_for() {
    let hive = Hive::new();
    let server = Server::start(&hive);
    hive.run(&["exec", "-e", "A=b=c", "-w", "/tmp", "helper", "--", "both", "0", "-x"]);
    assert_eq!(server.asked(), [r#"attach {"command":["both","0","-x"],"env":{"A":"b=c"},"cwd":"/tmp"}"#]);
}

#[test]
fn what_cannot_be_started_and_a_lost_connection_are_failures() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    let ran = hive.run(&["exec", "helper", "--", "missing"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: no program missing in the container\n"));
    let ran = hive.run(&["exec", "helper", "--", "drop"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("broke off"), "{}", ran.err);
}

#[test]
fn a_signal_goes_to_the_command_and_its_end_is_waited_for() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut child = hive.skep(&["exec", "helper", "--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        // Once its output is here, it is ready for signals.
        let mut first = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        // Kept here: waiting for a child closes its own end, and so would end the input.
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut first[..1]).unwrap();
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal as i32));
    }
}

#[test]
fn a_terminal_is_not_promised_where_there_is_none() {
    let hive = Hive::new();
    let _server = Server::start(&hive);
    assert_eq!(hive.run(&["exec", "-t", "helper", "--", "cat"]).code, 2);
}

//! Which process tree of a container a connection comes from, by the ancestors of the process that connected.
//!
//! A runner is the reaper of all below it, so whatever a process forks or whichever of its parents dies, the child of the
//! init above it stays that runner.

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{getsockopt, sockopt},
};

/// Reads of the ancestors, when one of them dies meanwhile.
const TRIES: u32 = 16;
/// Generations between a process and the init.
const MOST: usize = 1_024;

/// Where the process that made a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Below this child of the init, as the container numbers it.
    Below(i32),
    /// Not below the main process: started from outside, as `docker exec` does. A runtime that shows no process but its
    /// own (gVisor) looks like that too.
    Outside,
    /// It ended since, or its ancestors do not stand still.
    Unknown,
}

/// Tells where the peer of a connection stands below `main`, the pid of a container's main process. Blocks for some
/// reads of `/proc`.
pub fn origin(connection: &impl AsFd, main: i32) -> Origin {
    let Ok(pid) = getsockopt(connection, sockopt::PeerCredentials).map(|peer| peer.pid()) else {
        return Origin::Unknown;
    };
    if pid == main {
        return Origin::Outside;
    }
    let peer = match getsockopt(connection, sockopt::PeerPidfd) {
        Ok(peer) => Some(peer),
        // Before Linux 6.5 there is the number alone, which is believed to be nobody else's yet.
        Err(Errno::ENOPROTOOPT) => None,
        Err(_) => return Origin::Unknown,
    };
    (0..TRIES)
        .map_while(|_| is_there(peer.as_ref()).then(|| look(pid, main)))
        .find(|origin| *origin != Origin::Unknown)
        // Only of a process that still lives the number was its own all the time.
        .filter(|_| is_there(peer.as_ref()))
        .unwrap_or(Origin::Unknown)
}

fn is_there(process: Option<&OwnedFd>) -> bool {
    // Readable once it has ended.
    process.is_none_or(|process| {
        poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(0)
    })
}

fn look(pid: i32, main: i32) -> Origin {
    let mut line = vec![pid];
    let top = loop {
        let last = line[line.len() - 1];
        match parent_of(last) {
            Some(parent) if parent == main => break last,
            Some(0) => return Origin::Outside,
            Some(parent) if line.len() < MOST => line.push(parent),
            _ => return Origin::Unknown,
        }
    };
    let Some(inside) = pid_beside(top, main) else { return Origin::Unknown };
    // From above: who still has its parent's number had that parent all the time, so the number was its parent's own
    // when it was looked at.
    let stands = line.windows(2).rev().all(|pair| parent_of(pair[0]) == Some(pair[1]));
    if stands && parent_of(top) == Some(main) { Origin::Below(inside) } else { Origin::Unknown }
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so count from its end.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A process's pid in the namespace of another.
fn pid_beside(pid: i32, other: i32) -> Option<i32> {
    let pids = |pid: i32| -> Option<Vec<i32>> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_whitespace().map(|pid| pid.parse().ok()).collect()
    };
    // One namespace for each number; a process may have made further ones.
    let depth = pids(other)?.len();
    pids(pid)?.get(depth.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        os::unix::net::UnixListener,
        process::{Child, Command, Stdio},
    };

    use super::*;

    /// A shell that connects below as many parents as `depth`, while it waits for its standard input to end.
    fn connecting(socket: &std::path::Path, script: &str) -> Child {
        let connect = format!(
            "import socket,sys,os\ns=socket.socket(socket.AF_UNIX)\ns.connect('{}')\n{script}",
            socket.display()
        );
        let shell = "sh -c 'python3 -c \"$0\"; true' \"$0\"; true";
        let mut command = Command::new("sh");
        command.args(["-c", shell, &connect]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    #[test]
    fn a_peer_is_found_below_the_child_that_it_descends_from() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut shell = connecting(&socket, "sys.stdin.read()");
        let (stream, _) = listener.accept().unwrap();
        let here = i32::try_from(std::process::id()).unwrap();
        let child = i32::try_from(shell.id()).unwrap();
        assert_eq!(origin(&stream, here), Origin::Below(child));
        assert_eq!(origin(&stream, child + 100_000), Origin::Outside, "it is below another");
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(origin(&stream, here), Origin::Unknown, "it ended");
        let own = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(origin(&own.0, here), Origin::Outside, "the main process itself");
    }

    #[test]
    fn who_hands_its_connection_on_and_ends_is_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let hand_on = "if os.fork(): os._exit(0)\nprint('child', flush=True)\nsys.stdin.read()";
        let mut shell = connecting(&socket, hand_on);
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let here = i32::try_from(std::process::id()).unwrap();
        let patience = std::time::Instant::now();
        while origin(&stream, here) != Origin::Unknown {
            assert!(patience.elapsed().as_secs() < 10, "its parent lives on");
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}

//! The init inside a real container: starting, ending for certain, keeping output, staying itself.

use std::{fs::File, os::fd::OwnedFd, time::Duration};

use skep::{
    init::{door::Caller, link::LinkError},
    wire::{
        Environment, Exit, Io, Main, MainState, RestartPolicy,
        spool::{self, Bounds},
    },
};
use tokio::time::timeout;

use crate::bare::{Bare, docker, finish};

fn exit(code: i32) -> Exit {
    Exit { code, signal: None, timed_out: false, oom: false, lost: false, ended_ms: None }
}

/// An exit without the time of it, which must be there.
fn undated(exit: Exit) -> Exit {
    assert!(exit.ended_ms.is_some(), "{exit:?}");
    Exit { ended_ms: None, ..exit }
}

/// Three files of a spool and the descriptors for the init.
fn segments(bare: &Bare, name: &str) -> ([File; 3], Vec<OwnedFd>) {
    let files = [0, 1, 2].map(|i| {
        let path = bare.folder.path().join(format!("{name}.{i}"));
        File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    });
    let fds = files.iter().map(|f| f.try_clone().unwrap().into()).collect();
    (files, fds)
}

fn spooled(files: &[File; 3]) -> String {
    let (mut at, mut text) = (0, Vec::new());
    loop {
        let read = spool::read(files, at, 1 << 20).unwrap();
        if read.records.is_empty() {
            return String::from_utf8_lossy(&text).into();
        }
        at = read.next;
        text.extend(read.records.into_iter().flat_map(|r| r.data));
    }
}

#[tokio::test]
async fn a_process_gets_its_arguments_environment_and_folder_and_gives_its_streams_and_exit_code() {
    let bare = Bare::start().await;
    let mut request = bare.request(&["bash", "-c", "echo out $X $PWD; echo err >&2; exit 7"]);
    request.env = Environment(vec![("X".into(), "a b".into())]);
    let started = bare.link.start(request, vec![]).await.unwrap();
    let (out, err, end) = finish(started).await;
    assert_eq!((out.as_str(), err.as_str(), undated(end)), ("out a b /workspace\n", "err\n", exit(7)));
    let (out, _, exit) = bare.sh("kill -9 $$").await;
    assert_eq!((out.as_str(), exit.code, exit.signal), ("", 137, Some(9)));
    assert!(!exit.lost && !exit.oom && !exit.timed_out);
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let bare = Bare::start().await;
    for (argv, cwd, errno) in [
        (vec!["no-such-program"], "/workspace", libc::ENOENT),
        (vec!["/etc/hostname"], "/workspace", libc::EACCES),
        (vec!["true"], "/nowhere", libc::ENOENT),
        (vec![""], "/workspace", libc::EINVAL),
    ] {
        let mut request = bare.request(&argv);
        request.cwd = cwd.into();
        match bare.link.start(request, vec![]).await {
            Err(LinkError::Refused { errno: e, stage }) => assert_eq!(e, errno, "{argv:?} {stage}"),
            other => panic!("{argv:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn ending_a_tree_kills_what_ignores_sigterm_forks_twice_and_hides_in_a_session() {
    let bare = Bare::start().await;
    let started = bare
        .spawn(&[
            "bash",
            "-c",
            "trap '' TERM; (setsid setsid sleep 1000 &) ; setsid -f sleep 1001; echo up; sleep 1002",
        ])
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(bare.sh("ps ax | grep -c '[s]leep 100'").await.0.trim(), "3");
    bare.end(started.id, Duration::from_millis(200));
    let (_, _, end) = finish(started).await;
    assert!(end.signal.is_some() || end.code != 0);
    assert_eq!(bare.sh("ps ax | grep -c '[s]leep 100'").await.0.trim(), "0");
    assert_eq!(bare.sh("ps ax | grep -c '[d]efunct'").await.0.trim(), "0", "no zombies");
}

#[tokio::test]
async fn children_left_behind_are_gone_before_the_exit_is_told() {
    let bare = Bare::start().await;
    let (out, _, end) = bare.sh("for i in $(seq 100); do setsid sleep 1000 & done; echo done").await;
    assert_eq!((out.as_str(), end.code), ("done\n", 0));
    assert_eq!(bare.sh("ps ax | grep -c '[s]leep 1000'").await.0.trim(), "0");
}

#[tokio::test]
async fn a_timeout_ends_the_tree_and_says_so() {
    let bare = Bare::start().await;
    let mut request = bare.request(&["sleep", "1000"]);
    request.timeout_ms = Some(200);
    let (_, _, end) = finish(bare.link.start(request, vec![]).await.unwrap()).await;
    assert!(end.timed_out, "{end:?}");
    assert_eq!(end.signal, Some(libc::SIGTERM));
}

#[tokio::test]
async fn a_process_is_made_ready_ahead_and_executed_at_its_time_however_far_that_is() {
    use std::time::{SystemTime, UNIX_EPOCH};
    let bare = Bare::start().await;
    let micros = || u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap();
    for _ in 0..10 {
        let mut request = bare.request(&["bash", "-c", "echo ${EPOCHREALTIME/./}"]);
        let at = micros() + 40_000;
        request.not_before_us = Some(at);
        let (stamp, ..) = finish(bare.link.start(request, vec![]).await.unwrap()).await;
        assert!(stamp.trim().parse::<u64>().unwrap() >= at, "{stamp} is before {at}");
    }
    // A clock that was set back since holds nothing up.
    let mut request = bare.request(&["echo", "now"]);
    request.not_before_us = Some(micros() + 3_600_000_000);
    assert_eq!(finish(bare.link.start(request, vec![]).await.unwrap()).await.0, "now\n");
}

#[tokio::test]
async fn a_fork_bomb_ends_and_the_init_serves_on() {
    let bare = Bare::start().await;
    let started = bare.spawn(&["bash", "-c", ":(){ :|:& };:; sleep 1000"]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    bare.end(started.id, Duration::ZERO);
    finish(started).await;
    assert_eq!(bare.sh("echo alive").await.0, "alive\n");
}

#[tokio::test]
async fn one_process_tree_cannot_signal_trace_or_read_another_nor_its_runner_nor_the_init() {
    let bare = Bare::start().await;
    if bare.link.status().hello.unwrap().landlock < 6 {
        panic!("this kernel has no Landlock signal scope (needs 6.12): trees cannot be kept apart");
    }
    let mut request = bare.request(&["sleep", "1000"]);
    request.env = Environment(vec![("CANARY".into(), "s3cret".into())]);
    let victim = bare.link.start(request, vec![]).await.unwrap();
    let pid = victim.pid;
    let attack = format!(
        "kill -9 {pid}; cat /proc/{pid}/environ; cat /proc/1/environ; cat /proc/1/mem; ls -l /proc/1/fd; \
         kill -9 1; kill -TERM 1; \
         for r in $(pgrep skep-runner); do kill -9 $r && echo KILLED $r; cat /proc/$r/environ && echo READ; done; \
         echo end"
    );
    let (out, err, _) = bare.sh(&attack).await;
    assert!(!out.contains("s3cret") && !out.contains("KILLED") && !out.contains("READ"), "{out}{err}");
    assert!(out.ends_with("end\n"), "{out}{err}");
    assert_eq!(bare.sh(&format!("ps -o comm= -p {pid}")).await.0, "sleep\n");
    bare.end(victim.id, Duration::ZERO);
}

#[tokio::test]
async fn lowered_limits_of_the_init_are_an_error_and_no_panic() {
    let bare = Bare::start().await;
    let (_, err, _) = bare.sh("prlimit --pid 1 --nofile=0:0; prlimit --pid 1 --nproc=1:1; true").await;
    let start = bare.link.start(bare.request(&["true"]), vec![]).await;
    if !err.contains("failed") {
        assert!(matches!(start, Err(LinkError::Refused { .. })), "{start:?}");
    }
    assert!(bare.link.status().connected);
    assert_eq!(bare.inspect("{{.State.Running}}"), "true");
}

#[tokio::test]
async fn only_a_child_that_ran_out_of_memory_is_reported_so() {
    let bare = Bare::start().await;
    let (_, _, end) = bare.run(&["python3", "-c", "x = bytearray(1 << 30)\nprint(len(x))"]).await;
    assert!(end.oom && end.signal == Some(9), "{end:?}");
    assert_eq!(bare.inspect("{{.State.Running}}"), "true", "the container lives");
    let (_, _, end) = bare.sh("kill -9 $$").await;
    assert!(!end.oom, "{end:?}");
}

#[tokio::test]
async fn a_process_that_is_not_pid_1_has_another_pid_at_the_door() {
    let mut bare = Bare::start().await;
    let started = bare
        .spawn(&["python3", "-c", "import socket,time\ns=socket.socket(socket.AF_UNIX)\ns.connect('/skep/api.sock')\ns.send(b'\\0SK1')\ntime.sleep(5)"])
        .await;
    let caller = timeout(Duration::from_secs(10), bare.callers.recv()).await.unwrap().unwrap();
    let Caller::Init { pid, .. } = caller else { panic!("{caller:?}") };
    assert_ne!(pid.to_string(), bare.inspect("{{.State.Pid}}"));
    bare.end(started.id, Duration::ZERO);
}

#[tokio::test]
async fn output_and_exit_arrive_whole_after_the_supervisor_was_away() {
    let mut bare = Bare::start().await;
    let (files, fds) = segments(&bare, "out");
    let mut request = bare.request(&[
        "bash",
        "-c",
        "cat; for i in $(seq 1 3000); do echo line $i; done; sleep 1; echo last; exit 3",
    ]);
    request.bound = false;
    request.io = Io::Capture { stdin: b"given\n".to_vec(), spool: Bounds { head: 1 << 20, tail: 1 << 16 } };
    let id = request.id;
    bare.link.start(request, fds).await.unwrap();
    bare.lose_link().await;
    tokio::time::sleep(Duration::from_millis(1800)).await;
    bare.find_link().await;
    let hello = bare.link.status().hello.unwrap();
    let report = hello.processes.iter().find(|p| p.id == id).expect("still known");
    assert_eq!(report.exit.map(undated), Some(exit(3)));
    let text = spooled(&files);
    assert!(text.starts_with("given\nline 1\n") && text.ends_with("line 3000\nlast\n"));
    assert_eq!(text.lines().count(), 3002);
}

#[tokio::test]
async fn what_somebody_waited_for_ends_when_the_link_breaks() {
    let mut bare = Bare::start().await;
    bare.spawn(&["sleep", "1000"]).await;
    bare.lose_link().await;
    bare.find_link().await;
    for _ in 0..50 {
        if bare.sh("ps ax | grep -c '[s]leep 1000'").await.0.trim() == "0" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it still runs");
}

#[tokio::test]
async fn main_is_restarted_by_policy_keeps_its_output_and_is_replaced_on_demand() {
    let bare = Bare::start().await;
    let main = |hash, script: &str, restart| Main {
        hash,
        argv: ["bash", "-c", script].map(String::from).to_vec(),
        env: Environment::default(),
        cwd: "/workspace".into(),
        restart,
        grace_ms: 300,
        spool: Bounds { head: 0, tail: 1 << 20 },
    };
    let (files, fds) = segments(&bare, "main");
    bare.link.set_main(Some(main(1, "echo run; exit 1", RestartPolicy::Always)), fds).unwrap();
    let mut status = bare.link.watch();
    let restarted = status.wait_for(|s| s.main.as_ref().is_some_and(|m| m.restarts >= 2));
    timeout(Duration::from_secs(10), restarted).await.unwrap().unwrap();
    assert!(spooled(&files).matches("run\n").count() >= 2);

    let (files, fds) = segments(&bare, "main2");
    let script = "trap 'echo bye; exit 4' TERM; echo new; while :; do sleep 0.1; done";
    bare.link.set_main(Some(main(2, script, RestartPolicy::OnFailure)), fds).unwrap();
    let running = status.wait_for(|s| {
        s.main.as_ref().is_some_and(|m| m.hash == 2 && matches!(m.state, MainState::Running { .. }))
    });
    timeout(Duration::from_secs(10), running).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    docker(&["stop", "-t", "5", &bare.name]);
    let text = spooled(&files);
    assert!(text.starts_with("new\n") && text.contains("bye\n"), "{text}");
    assert_eq!(bare.inspect("{{.State.ExitCode}}"), "4", "the container ends as its main did");
}

#[tokio::test]
async fn a_main_that_cannot_be_started_says_why_and_is_tried_again() {
    let bare = Bare::start().await;
    let (_files, fds) = segments(&bare, "main");
    let main = Main {
        hash: 9,
        argv: vec!["/no/such".into()],
        env: Environment::default(),
        cwd: "/workspace".into(),
        restart: RestartPolicy::Always,
        grace_ms: 300,
        spool: Bounds { head: 0, tail: 1 << 20 },
    };
    bare.link.set_main(Some(main), fds).unwrap();
    let mut status = bare.link.watch();
    let failed = status.wait_for(|s| {
        s.main.as_ref().is_some_and(|m| {
            m.restarts >= 1
                && matches!(&m.state, MainState::Backoff { error: Some(e), .. } if e.contains("No such file"))
        })
    });
    timeout(Duration::from_secs(10), failed).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_shell_has_a_terminal_of_the_size_that_was_asked_for() {
    use std::io::{Read, Write};
    let bare = Bare::start().await;
    let mut request = bare.request(&["bash", "-c", "stty size; tty; read x; echo got $x"]);
    request.io = Io::Pty { rows: 33, cols: 111 };
    let mut started = bare.link.start(request, vec![]).await.unwrap();
    let mut master = File::from(started.fds.remove(0));
    master.write_all(b"hello\n").unwrap();
    let exit = timeout(Duration::from_secs(10), started.exit).await.unwrap().unwrap();
    assert_eq!(exit.code, 0);
    let mut text = String::new();
    // The end of a terminal is an error by tradition.
    master.read_to_string(&mut text).ok();
    assert!(text.contains("33 111") && text.contains("/dev/pts/") && text.contains("got hello"), "{text}");
}

#[tokio::test]
async fn agent_command_lines_find_the_skills_in_their_own_folders() {
    let bare = Bare::start().await;
    let (out, _, _) =
        bare.sh("cd; for d in .claude .agents .config/agents; do readlink $d/skills; done").await;
    assert_eq!(out, "/skills\n/skills\n/skills\n");
}

#[tokio::test]
async fn signals_from_outside_reach_main_and_those_from_inside_do_not_stop_the_init() {
    let bare = Bare::start().await;
    let (files, fds) = segments(&bare, "main");
    let main = Main {
        hash: 3,
        argv: ["bash", "-c", "trap 'echo usr1' USR1; echo up; while :; do sleep 0.1; done"]
            .map(String::from)
            .to_vec(),
        env: Environment::default(),
        cwd: "/workspace".into(),
        restart: RestartPolicy::Never,
        grace_ms: 100,
        spool: Bounds { head: 0, tail: 1 << 20 },
    };
    bare.link.set_main(Some(main), fds).unwrap();
    for _ in 0..100 {
        if spooled(&files).contains("up") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    docker(&["kill", "-s", "USR1", &bare.name]);
    bare.sh("kill -TERM 1").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(spooled(&files).contains("usr1"));
    assert_eq!(bare.inspect("{{.State.Running}}"), "true");
}

#[tokio::test]
async fn an_init_that_lost_its_key_is_not_welcomed_again() {
    use std::os::unix::net::UnixStream;

    use skep::{
        init::link::{Link, Terms},
        wire::{FromInit, Hello, MAGIC, VERSION, socket::FrameWriter},
    };
    let terms = Terms { key: [1; 16], known: true, stop_grace: Duration::ZERO };
    for (key, welcome) in [(Some([1; 16]), true), (Some([2; 16]), false), (None, false)] {
        let (init, supervisor) = UnixStream::pair().unwrap();
        let hello = Hello {
            version: VERSION,
            key,
            mountinfo: String::new(),
            landlock: 0,
            processes: vec![],
            main: None,
            ended_ms: vec![],
            trees: vec![],
        };
        let mut writer = FrameWriter::default();
        writer.push_raw(&MAGIC);
        writer.push(&FromInit::Hello(hello), vec![]).unwrap();
        assert!(writer.flush(&init).unwrap());
        let link = Link::new(1);
        let served = timeout(Duration::from_millis(300), link.serve(supervisor, &terms)).await;
        assert_eq!(link.status().connected, welcome, "{key:?} {served:?}");
    }
}

#[tokio::test]
async fn the_end_of_a_tree_is_told_although_another_holds_its_output_open_and_floods_it() {
    let bare = Bare::start().await;
    let holder = bare
        .spawn(&["python3", "-c", "import os,socket\ns=socket.socket(socket.AF_UNIX)\ns.bind('/tmp/s')\ns.listen()\nc,_=s.accept()\n_,f,_,_=socket.recv_fds(c,1,1)\nos.set_blocking(f[0],True)\nfor _ in range(4): os.fork()\nwhile True:\n  try: os.write(f[0],b'x'*65536)\n  except OSError: break"])
        .await;
    let (_files, fds) = segments(&bare, "flood");
    let give = "import os,socket,time\ns=socket.socket(socket.AF_UNIX)\nwhile True:\n  try: s.connect('/tmp/s'); break\n  except OSError: time.sleep(0.05)\nsocket.send_fds(s,[b'x'],[1])\ntime.sleep(0.5)";
    let mut request = bare.request(&["python3", "-c", give]);
    request.io = Io::Capture { stdin: vec![], spool: Bounds { head: 1 << 16, tail: 1 << 16 } };
    let giver = bare.link.start(request, fds).await.unwrap();
    let ended = timeout(Duration::from_secs(10), giver.exit).await.expect("an exit").unwrap();
    assert_eq!(ended.code, 0);
    assert_eq!(bare.sh("echo alive").await.0, "alive\n");
    bare.end(holder.id, Duration::ZERO);
}

//! The container that the engine really makes: its hardening, its way back into a specification, its life.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt, time::Duration};

use bollard::{
    models::{ContainerCreateBody, ContainerUpdateBody, HostConfig},
    query_parameters::CreateContainerOptionsBuilder,
};
use serde_json::json;
use skep::{
    config::model::{Agent, Network, Restart, Workspace},
    engine::{ContainerSpec, Engine, EngineError, Mount, Tmpfs},
    sandbox::spec::{
        AgentPaths, SpecInput, container_spec, drift, group_file, mounts_missing, passwd_file, spec_hash,
    },
};

use crate::support::{IMAGE, Trash, World};

/// Mounts, tmpfs and environment as an agent has them.
async fn furnished(world: &World, folder: &std::path::Path, script: &str) -> ContainerSpec {
    let mut spec = world.spec("furnished", IMAGE, script).await;
    let mode = std::fs::Permissions::from_mode(0o777);
    for name in ["view", "view/custom", "custom", "workspace"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        std::fs::set_permissions(folder.join(name), mode.clone()).unwrap();
    }
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("soul.md"), "be kind\n").unwrap();
    let mount = |target: &str, source: &str, read_only| Mount {
        target: target.to_owned(),
        source: folder.join(source),
        read_only,
    };
    spec.mounts = vec![
        mount("/skills", "view", true),
        mount("/skills/custom", "custom", false),
        mount("/soul.md", "soul.md", true),
        mount("/workspace", "workspace", false),
    ];
    spec.tmpfs =
        vec![Tmpfs { target: "/tmp".to_owned(), size: 16 << 20, mode: 0o1777, exec: true, user: (0, 0) }];
    // Two of them are the image's own words.
    spec.env = BTreeMap::from([
        ("HOME".to_owned(), "/workspace/home".to_owned()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("LOG_LEVEL".to_owned(), "a=b c".to_owned()),
    ]);
    spec
}

#[tokio::test]
async fn a_container_is_closed_as_the_contract_says() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let spec = furnished(&world, folder.path(), "sleep 60").await;
    let id = world.start(&spec).await;
    let raw = world.inspect_raw(&id).await;
    let host = &raw["HostConfig"];
    for (field, wanted) in [
        ("CapDrop", json!(["ALL"])),
        ("SecurityOpt", json!(["no-new-privileges"])),
        ("Privileged", json!(false)),
        ("ReadonlyRootfs", json!(true)),
        ("Memory", json!(128 << 20)),
        ("MemorySwap", json!(128 << 20)),
        ("NanoCpus", json!(500_000_000)),
        ("PidsLimit", json!(64)),
        ("ShmSize", json!(8 << 20)),
        ("Init", json!(false)),
        ("IpcMode", json!("private")),
        ("CgroupnsMode", json!("private")),
        ("PidMode", json!("")),
        ("UTSMode", json!("")),
        ("UsernsMode", json!("")),
        ("NetworkMode", json!("none")),
        ("OomScoreAdj", json!(0)),
        ("AutoRemove", json!(false)),
    ] {
        assert_eq!(host[field], wanted, "{field}");
    }
    assert_eq!(host["RestartPolicy"]["Name"], "no");
    assert_eq!(host["LogConfig"]["Config"], json!({"max-file": "1", "max-size": "1m"}));
    assert_eq!(raw["Config"]["User"], "100123:100124");
    assert_eq!(raw["Config"]["Healthcheck"]["Test"], json!(["NONE"]));
    assert_eq!(raw["Config"]["StopSignal"], "SIGTERM");
    assert_eq!(raw["Config"]["StopTimeout"], 3);
    assert_eq!(raw["Config"]["Labels"]["skep.spec"], spec_hash(&spec));
    assert!(host["MaskedPaths"].as_array().is_some_and(|p| !p.is_empty()));
}

#[tokio::test]
async fn seen_from_inside_nothing_is_open_that_should_be_closed() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
        grep -E '^(Uid|Gid|Groups|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\t' ' '
        grep core /proc/self/limits | tr -s ' '
        for f in /x /skills/x /etc/x /soul.md; do (echo x >> $f) 2>/dev/null && echo "wrote $f"; done
        for f in /skills/custom/x /workspace/x /tmp/x; do (echo x > $f) && echo "wrote $f"; done
        cat /proc/self/mountinfo
    "#;
    let spec = furnished(&world, folder.path(), script).await;
    let output = world.run(&spec).await;
    let (status, mountinfo) = output.split_once("wrote /tmp/x\n").expect(&output);
    let wanted = "Uid: 100123 100123 100123 100123\nGid: 100124 100124 100124 100124\nGroups: 100124\n\
        CapEff: 0000000000000000\nCapBnd: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n";
    let rest = "Max core file size 1 1 bytes\nwrote /skills/custom/x\nwrote /workspace/x\n";
    let lines = |s: &str| -> Vec<String> { s.lines().map(|l| l.trim().to_owned()).collect() };
    let mut all = lines(wanted);
    // CapBnd stands before CapEff or after it, as the kernel likes; compare as sets of lines.
    all.extend(lines(rest));
    let (mut found, mut expected) = (lines(status), all);
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{output}");
    assert_eq!(mounts_missing(&spec, mountinfo), Vec::<String>::new());
}

#[tokio::test]
async fn what_was_created_is_read_back_as_the_same_specification() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let furnished = furnished(&world, folder.path(), "true").await;
    let mut other = world.spec("other", IMAGE, "exit 3").await;
    other.tmpfs = vec![
        Tmpfs { target: "/tmp".to_owned(), size: 1 << 20, mode: 0o1777, exec: false, user: (0, 0) },
        Tmpfs { target: "/workspace".to_owned(), size: 4 << 20, mode: 0o755, exec: true, user: other.user },
    ];
    other.runtime = Some("runc".to_owned());
    other.memory = 1 << 30;
    other.nano_cpus = 2_000_000_000;
    let tag = world
        .image(
            "loud",
            "ENV A=1 B=2\nLABEL x=y\nVOLUME /data /workspace\nHEALTHCHECK CMD true\nEXPOSE 80\nENTRYPOINT [\"false\"]\nCMD [\"x\"]\nSTOPSIGNAL SIGKILL",
        )
        .await;
    let mut loud = world.spec("loud", &tag, "true").await;
    loud.env.insert("A".to_owned(), "other".to_owned());
    for spec in [furnished, other, loud] {
        let id = world.create(&spec).await.unwrap();
        for after in ["create", "run"] {
            let have = world.engine.inspect(&id).await.unwrap();
            assert_eq!(have.spec, spec, "after {after}");
            assert_eq!(have.weaknesses, Vec::<String>::new(), "after {after}");
            assert_eq!(drift(&spec, &have), Vec::<String>::new());
            world.engine.start(&id).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_volume_and_a_health_check_of_the_image_are_without_effect() {
    let world = World::new().await;
    let lines = "USER root\nRUN mkdir /data && chmod 777 /data\nVOLUME /data /tmp\nHEALTHCHECK --interval=1s CMD true";
    let tag = world.image("volume", lines).await;
    let mut spec = world
        .spec("volume", &tag, "echo x >/data/x || echo refused; echo y >/tmp/y && echo kept; sleep 30")
        .await;
    spec.tmpfs =
        vec![Tmpfs { target: "/tmp".to_owned(), size: 1 << 20, mode: 0o1777, exec: true, user: (0, 0) }];
    let id = world.start(&spec).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let output = world.output(&id).await;
    assert!(output.contains("Read-only") && output.contains("refused\nkept"), "{output}");
    let raw = world.inspect_raw(&id).await;
    assert!(raw["State"]["Health"].is_null(), "{}", raw["State"]);
    let volumes: Vec<_> =
        raw["Mounts"].as_array().unwrap().iter().filter(|m| m["Type"] == "volume").collect();
    assert!(volumes.is_empty(), "{volumes:?}");
    let have = world.engine.inspect(&id).await.unwrap();
    assert_eq!(drift(&spec, &have), Vec::<String>::new());
}

#[tokio::test]
async fn limits_that_were_changed_behind_the_label_are_drift() {
    let world = World::new().await;
    let spec = world.spec("drift", IMAGE, "sleep 60").await;
    let id = world.start(&spec).await;
    let update = ContainerUpdateBody {
        memory: Some(256 << 20),
        memory_swap: Some(512 << 20),
        pids_limit: Some(1000),
        ..Default::default()
    };
    world.raw.update_container(&id, update).await.unwrap();
    let have = world.engine.inspect(&id).await.unwrap();
    let said = drift(&spec, &have).join("\n");
    assert!(said.contains("memory limit is 268435456, wanted 134217728"), "{said}");
    assert!(said.contains("process limit is 1000, wanted 64"), "{said}");
    assert!(said.contains("swap is not limited"), "{said}");
    assert_eq!(have.spec_label, Some(spec_hash(&spec)));
}

#[tokio::test]
async fn a_soft_container_with_the_right_label_is_seen_through() {
    let world = World::new().await;
    let spec = world.spec("soft", IMAGE, "sleep 60").await;
    world.later(Trash::Container(spec.name.clone()));
    let mut labels = spec.labels.clone();
    labels.insert("skep.spec".to_owned(), spec_hash(&spec));
    let body = ContainerCreateBody {
        image: Some(IMAGE.to_owned()),
        user: Some("0:0".to_owned()),
        labels: Some(labels.into_iter().collect()),
        host_config: Some(HostConfig {
            privileged: Some(true),
            cap_add: Some(vec!["NET_ADMIN".to_owned()]),
            pid_mode: Some("host".to_owned()),
            security_opt: Some(vec!["seccomp=unconfined".to_owned()]),
            binds: Some(vec!["/var/run/docker.sock:/var/run/docker.sock".to_owned()]),
            ..Default::default()
        }),
        ..Default::default()
    };
    let options = CreateContainerOptionsBuilder::new().name(&spec.name).build();
    world.raw.create_container(Some(options), body).await.unwrap();
    let have = world.engine.inspect(&spec.name).await.unwrap();
    let said = drift(&spec, &have).join("\n");
    for fault in [
        "the container is privileged",
        "capabilities are not dropped",
        "capabilities are added",
        "the user is root",
        "new privileges are not forbidden",
        "the seccomp profile is not the engine's own",
        "the pid namespace is \"host\"",
        "the root file system is writable",
        "mount /var/run/docker.sock is not wanted",
        "the log is not bounded",
        "limit core is not 1:1",
    ] {
        assert!(said.contains(fault), "{fault} is not in:\n{said}");
    }
}

#[tokio::test]
async fn every_step_of_a_life_may_be_repeated() {
    let world = World::new().await;
    let engine = &world.engine;
    let spec = world.spec("life", IMAGE, "trap 'exit 7' TERM; sleep 60 & wait").await;
    let missing = engine.inspect(&spec.name).await.unwrap_err();
    assert!(matches!(missing, EngineError::NotFound(what) if what.contains(&spec.name)));
    let id = world.create(&spec).await.unwrap();
    let again = world.create(&spec).await.unwrap_err();
    assert!(matches!(again, EngineError::Conflict(_)), "{again}");
    for _ in 0..2 {
        engine.start(&id).await.unwrap();
    }
    let listed = engine.list(&world.prefix).await.unwrap();
    assert_eq!((listed.len(), listed[0].running, listed[0].name.as_str()), (1, true, spec.name.as_str()));
    assert!(engine.list("nobody").await.unwrap().is_empty());
    for _ in 0..2 {
        engine.pause(&id).await.unwrap();
    }
    assert!(engine.inspect(&id).await.unwrap().state.paused);
    for _ in 0..2 {
        engine.unpause(&id).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // A frozen one is stopped too.
    engine.pause(&id).await.unwrap();
    for _ in 0..2 {
        engine.stop(&id, Duration::from_secs(5)).await.unwrap();
    }
    let state = engine.inspect(&id).await.unwrap().state;
    assert_eq!((state.running, state.exit_code, state.pid), (false, 7, 0));
    for _ in 0..2 {
        engine.kill(&id).await.unwrap();
    }
    for _ in 0..2 {
        engine.remove(&id).await.unwrap();
    }
}

#[tokio::test]
async fn what_happens_to_a_hives_containers_is_told_and_nothing_else() {
    let world = World::new().await;
    let (into, mut events) = tokio::sync::mpsc::channel(64);
    let (engine, hive) = (world.engine.clone(), world.prefix.clone());
    let stream = tokio::spawn(async move { engine.events(&hive, into).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let spec = world.spec("told", IMAGE, "exit 1").await;
    let id = world.start(&spec).await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|a| a != "die") {
        let event = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
        let event = event.expect("an event").expect("a stream");
        assert_eq!(event.container, id);
        seen.push(event.action);
    }
    assert_eq!(seen, ["create", "start", "die"]);
    drop(events);
    stream.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_container_of_a_changed_or_missing_image_or_source_is_refused() {
    let world = World::new().await;
    let mut spec = world.spec("refused", IMAGE, "true").await;
    let right = std::mem::replace(&mut spec.image_id, "sha256:other".to_owned());
    let error = world.create(&spec).await.unwrap_err();
    assert!(matches!(error, EngineError::Conflict(_)), "{error}");
    spec.image = "skep-test-no-such-image:1".to_owned();
    let error = world.create(&spec).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::NotFound(what) if what == "image skep-test-no-such-image:1"),
        "{error}"
    );
    (spec.image, spec.image_id) = (IMAGE.to_owned(), right);
    spec.mounts = vec![Mount { target: "/x".to_owned(), source: "/no/such/folder".into(), read_only: true }];
    let error = world.create(&spec).await.unwrap_err();
    assert!(matches!(&error, EngineError::Refused(why) if why.contains("/no/such/folder")), "{error}");
}

#[tokio::test]
async fn the_engine_tells_what_it_is() {
    let world = World::new().await;
    let info = world.engine.info().await.unwrap();
    assert!(info.runtimes.iter().any(|r| r == "runc"), "{info:?}");
    assert!(info.runtime_version.is_some(), "{info:?}");
    assert!(matches!(info.cgroup_version.as_str(), "1" | "2"), "{info:?}");
    assert!(info.security_options.iter().any(|o| o.contains("seccomp")), "{info:?}");
    assert!(info.api_version.starts_with("1."), "{info:?}");
}

/// Folders and files as the supervisor lays them; `init` is a script here.
fn lay(folder: &std::path::Path, init: &str, user: (u32, u32)) -> AgentPaths {
    let at = |name: &str| folder.join(name);
    let mode = |name: &str, bits| {
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(bits)).unwrap();
    };
    for name in ["skep/node_modules/skep", "view/custom", "custom", "workspace"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::fs::write(at("skep/init"), format!("#!/bin/bash\n{init}\n")).unwrap();
    std::fs::write(at("soul.md"), "be kind\n").unwrap();
    std::fs::write(at("passwd"), passwd_file(user.0, user.1)).unwrap();
    std::fs::write(at("group"), group_file(user.1)).unwrap();
    std::fs::write(at("ca.crt"), "no certificate\n").unwrap();
    for (name, bits) in [(".", 0o755), ("skep/init", 0o755), ("custom", 0o777), ("workspace", 0o777)] {
        mode(name, bits);
    }
    AgentPaths {
        skep: at("skep"),
        view: at("view"),
        custom: at("custom"),
        workspace: Some(at("workspace")),
        soul: Some(at("soul.md")),
        passwd: at("passwd"),
        group: at("group"),
    }
}

fn agent() -> Agent {
    Agent {
        id: "writer".parse().unwrap(),
        description: String::new(),
        soul: Some("soul.md".into()),
        allow_soul_edit: false,
        skills: Vec::new(),
        secrets: None,
        command: None,
        main: None,
        tools: Default::default(),
        main_restart: Restart::Always,
        env: BTreeMap::from([("LOG_LEVEL".to_owned(), "info".to_owned())]),
        workspace: Workspace::Named,
        image: IMAGE.to_owned(),
        memory: 256 << 20,
        cpus: 0.75,
        pids: 50,
        disk: 1 << 30,
        network: Network::None,
        stop_grace: Duration::from_secs(10),
        runtime: None,
        autostart: true,
        jobs: Vec::new(),
    }
}

#[tokio::test]
async fn an_agents_whole_specification_comes_true() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let user = (100_200, 100_201);
    let init = "id -un; id -gn; pwd; echo $HOME $SKEP_AGENT $SKEP_HIVE $SKEP_API $LOG_LEVEL\n\
        command -v node >/dev/null && cat $SSL_CERT_FILE; echo mounts; cat /proc/self/mountinfo";
    let paths = lay(folder.path(), init, user);
    let image = world.engine.image(IMAGE).await.unwrap();
    let hive = world.prefix.parse().unwrap();
    let ca = folder.path().join("ca.crt");
    let spec = container_spec(&SpecInput {
        hive: &hive,
        agent: &agent(),
        paths: &paths,
        user,
        image: IMAGE,
        image_id: &image.id,
        image_env: &image.env,
        ca_bundle: Some(&ca),
        internet: "unused",
    });
    let output = world.run(&spec).await;
    let (said, mountinfo) = output.split_once("mounts\n").expect(&output);
    assert_eq!(
        said,
        format!(
            "agent\nagent\n/workspace\n/workspace/home writer {hive} /skep/api.sock info\nno certificate\n"
        )
    );
    assert_eq!(mounts_missing(&spec, mountinfo), Vec::<String>::new());
    let have = world.engine.inspect(&spec.name).await.unwrap();
    assert_eq!(drift(&spec, &have), Vec::<String>::new());
}

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{config::model::Restart, engine::ContainerState};

fn agent() -> Agent {
    Agent {
        id: "writer".parse().unwrap(),
        description: String::new(),
        soul: None,
        allow_soul_edit: false,
        skills: Vec::new(),
        secrets: None,
        command: None,
        main: None,
        tools: Default::default(),
        main_restart: Restart::Always,
        env: BTreeMap::from([
            ("LOG_LEVEL".to_owned(), "info".to_owned()),
            ("SKEP_AGENT".to_owned(), "somebody-else".to_owned()),
        ]),
        workspace: Workspace::Named,
        image: "skep-agent:latest".to_owned(),
        memory: 512 << 20,
        cpus: 1.5,
        pids: 256,
        disk: 2 << 30,
        network: Network::Internet,
        stop_grace: Duration::from_millis(9_500),
        runtime: None,
        autostart: true,
        jobs: Vec::new(),
    }
}

fn paths() -> AgentPaths {
    let at = |name: &str| PathBuf::from(format!("/h/.skep/agents/writer/{name}"));
    AgentPaths {
        skep: at("skep"),
        view: at("view"),
        custom: at("custom"),
        workspace: Some(at("workspace")),
        soul: Some("/h/souls/writer.md".into()),
        passwd: at("passwd"),
        group: at("group"),
    }
}

fn spec_of(agent: &Agent, paths: &AgentPaths, ca_bundle: Option<&Path>) -> ContainerSpec {
    container_spec(&SpecInput {
        hive: &"h".parse().unwrap(),
        agent,
        paths,
        user: (100_001, 100_001),
        image: "skep-agent:latest",
        image_id: "sha256:1",
        image_env: &["PATH=/opt/bin:/bin".to_owned()],
        ca_bundle,
        internet: "skep-h-internet",
    })
}

/// A specification for tests of others.
pub(crate) fn example() -> ContainerSpec {
    spec_of(&agent(), &paths(), None)
}

fn inspected(spec: ContainerSpec) -> Inspected {
    Inspected {
        id: "1".to_owned(),
        state: ContainerState {
            running: true,
            paused: false,
            pid: 1,
            exit_code: 0,
            oom_killed: false,
            started_at: None,
            finished_at: None,
            error: String::new(),
        },
        spec_label: Some(spec_hash(&spec)),
        spec,
        weaknesses: Vec::new(),
    }
}

#[test]
fn an_agent_becomes_exactly_this_container() {
    let spec = spec_of(&agent(), &paths(), Some(Path::new("/h/.skep/ca.crt")));
    insta::assert_yaml_snapshot!(spec, @r#"
    name: skep-h-writer
    image: "skep-agent:latest"
    image_id: "sha256:1"
    command:
      - /skep/init
    env:
      CURL_CA_BUNDLE: /etc/ssl/certs/ca-certificates.crt
      GIT_SSL_CAINFO: /etc/ssl/certs/ca-certificates.crt
      HOME: /workspace/home
      LANG: C.UTF-8
      LOG_LEVEL: info
      NODE_EXTRA_CA_CERTS: /etc/ssl/certs/ca-certificates.crt
      PATH: "/opt/bin:/bin:/skep/bin"
      PIP_CERT: /etc/ssl/certs/ca-certificates.crt
      REQUESTS_CA_BUNDLE: /etc/ssl/certs/ca-certificates.crt
      SKEP_AGENT: writer
      SKEP_API: /skep/api.sock
      SKEP_HIVE: h
      SSL_CERT_FILE: /etc/ssl/certs/ca-certificates.crt
    user:
      - 100001
      - 100001
    working_dir: /workspace
    hostname: writer
    mounts:
      - target: /etc/group
        source: /h/.skep/agents/writer/group
        read_only: true
      - target: /etc/passwd
        source: /h/.skep/agents/writer/passwd
        read_only: true
      - target: /etc/ssl/certs/ca-certificates.crt
        source: /h/.skep/ca.crt
        read_only: true
      - target: /node_modules/skep
        source: /h/.skep/agents/writer/skep/node_modules/skep
        read_only: true
      - target: /skep
        source: /h/.skep/agents/writer/skep
        read_only: true
      - target: /skills
        source: /h/.skep/agents/writer/view
        read_only: true
      - target: /skills/custom
        source: /h/.skep/agents/writer/custom
        read_only: false
      - target: /soul.md
        source: /h/souls/writer.md
        read_only: true
      - target: /workspace
        source: /h/.skep/agents/writer/workspace
        read_only: false
    tmpfs:
      - target: /tmp
        size: 134217728
        mode: 1023
        exec: true
        user:
          - 0
          - 0
    memory: 536870912
    nano_cpus: 1500000000
    pids: 256
    shm_size: 67108864
    network: skep-h-internet
    runtime: ~
    stop_timeout: 10
    labels:
      skep.agent: writer
      skep.hive: h
    "#);
}

#[test]
fn a_soul_is_writable_only_when_allowed_and_a_workspace_in_memory_is_bounded() {
    let mut agent = agent();
    agent.allow_soul_edit = true;
    agent.workspace = Workspace::Tmpfs;
    agent.network = Network::None;
    let mut paths = paths();
    paths.workspace = None;
    let spec = spec_of(&agent, &paths, None);
    let soul = spec.mounts.iter().find(|m| m.target == "/soul.md").unwrap();
    assert!(!soul.read_only);
    assert!(spec.mounts.iter().all(|m| m.target != "/workspace"));
    let workspace = spec.tmpfs.iter().find(|t| t.target == "/workspace").unwrap();
    assert_eq!((workspace.size, workspace.user), (256 << 20, (100_001, 100_001)));
    assert_eq!(spec.network, "none");
    assert!(!spec.env.contains_key("SSL_CERT_FILE"));
}

#[test]
fn an_image_without_a_path_gets_one_and_the_agents_own_wins() {
    let input_agent = agent();
    let paths = paths();
    let hive = "h".parse().unwrap();
    let mut input = SpecInput {
        hive: &hive,
        agent: &input_agent,
        paths: &paths,
        user: (1, 1),
        image: "i",
        image_id: "sha256:1",
        image_env: &[],
        ca_bundle: None,
        internet: "n",
    };
    assert_eq!(container_spec(&input).env["PATH"], format!("{DEFAULT_PATH}:/skep/bin"));
    let mut own = agent();
    own.env.insert("PATH".to_owned(), "/x".to_owned());
    input.agent = &own;
    assert_eq!(container_spec(&input).env["PATH"], "/x:/skep/bin");
}

#[test]
fn the_same_container_has_no_drift_and_every_difference_is_said() {
    let wanted = example();
    assert_eq!(drift(&wanted, &inspected(wanted.clone())), Vec::<String>::new());
    let mut have = inspected(wanted.clone());
    have.spec.memory = 1 << 30;
    have.spec.env.remove("HOME");
    have.spec.env.insert("EXTRA".to_owned(), "1".to_owned());
    have.spec.mounts.retain(|m| m.target != "/workspace");
    have.spec.mounts[0].read_only = false;
    have.spec.tmpfs[0].exec = false;
    have.spec.runtime = Some("runsc".to_owned());
    have.spec.network = "host".to_owned();
    have.spec_label = None;
    have.weaknesses.push("capabilities are added".to_owned());
    let said = drift(&wanted, &have).join("\n");
    let said = said.replace(&spec_hash(&wanted), "[hash]");
    insta::assert_snapshot!(said, @r#"
    environment variable HOME is missing
    environment variable EXTRA is not wanted
    mount /etc/group is "/h/.skep/agents/writer/group, writable", wanted "/h/.skep/agents/writer/group, read-only"
    mount /workspace is missing
    in-memory file system /tmp is "134217728 bytes, mode 1777, noexec, owner 0:0", wanted "134217728 bytes, mode 1777, exec, owner 0:0"
    memory limit is 1073741824, wanted 536870912
    network is "host", wanted "skep-h-internet"
    runtime is "runsc", wanted "the default"
    label skep.spec is "nothing", wanted "[hash]"
    capabilities are added
    "#);
}

/// Every way to change one field, so that a new field is not forgotten in hash and drift.
fn changes() -> Vec<fn(&mut ContainerSpec)> {
    vec![
        |s| s.name.push('x'),
        |s| s.image.push('x'),
        |s| s.image_id.push('x'),
        |s| s.command.push("x".to_owned()),
        |s| drop(s.env.insert("X".to_owned(), "1".to_owned())),
        |s| s.user.0 += 1,
        |s| s.user.1 += 1,
        |s| s.working_dir.push('x'),
        |s| s.hostname.push('x'),
        |s| s.mounts[0].target.push('x'),
        |s| s.mounts[0].source.push("x"),
        |s| s.mounts[0].read_only ^= true,
        |s| drop(s.mounts.pop()),
        |s| s.tmpfs[0].target.push('x'),
        |s| s.tmpfs[0].size += 1,
        |s| s.tmpfs[0].mode += 1,
        |s| s.tmpfs[0].exec ^= true,
        |s| s.tmpfs[0].user.0 += 1,
        |s| s.memory += 1,
        |s| s.nano_cpus += 1,
        |s| s.pids += 1,
        |s| s.shm_size += 1,
        |s| s.network.push('x'),
        |s| s.runtime = Some("runsc".to_owned()),
        |s| s.stop_timeout += 1,
        |s| drop(s.labels.insert("x".to_owned(), "1".to_owned())),
    ]
}

proptest! {
    #[test]
    fn any_difference_changes_the_hash_and_is_drift(picks in prop::collection::btree_set(0..changes().len(), 1..6)) {
        let wanted = example();
        let mut other = wanted.clone();
        for pick in picks {
            changes()[pick](&mut other);
        }
        prop_assert_ne!(spec_hash(&wanted), spec_hash(&other));
        let mut have = inspected(other);
        have.spec_label = Some(spec_hash(&wanted));
        prop_assert!(!drift(&wanted, &have).is_empty());
    }

    #[test]
    fn rubbish_in_mountinfo_is_no_panic_and_no_mount(text in "\\PC{0,200}") {
        prop_assert!(!mounts_missing(&example(), &text).is_empty());
    }
}

#[test]
fn the_hash_does_not_depend_on_the_order_of_keys() {
    let text = |json: &str| sorted(serde_json::from_str(json).unwrap()).to_string();
    assert_eq!(text(r#"{"b":[{"y":1,"x":2}],"a":1}"#), text(r#"{"a":1,"b":[{"x":2,"y":1}]}"#));
}

fn mountinfo(spec: &ContainerSpec) -> String {
    let mut text = "700 600 0:50 / / ro,relatime - overlay overlay rw,lowerdir=x\n".to_owned();
    for m in &spec.mounts {
        let mode = if m.read_only { "ro" } else { "rw" };
        let (source, target) = (m.source.display(), &m.target);
        text += &format!("701 700 8:1 {source} {target} {mode},relatime - ext4 /dev/vda rw\n");
    }
    for t in &spec.tmpfs {
        text += &format!("702 700 0:51 / {} rw,nosuid,nodev - tmpfs tmpfs rw\n", t.target);
    }
    text
}

#[test]
fn a_mount_that_was_lost_covered_or_turned_over_is_noticed() {
    let spec = example();
    let whole = mountinfo(&spec);
    assert_eq!(mounts_missing(&spec, &whole), Vec::<String>::new());
    let without: String = whole
        .lines()
        .filter(|l| !l.contains(" /workspace ") && !l.contains(" /tmp "))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(mounts_missing(&spec, &without), ["/workspace is not mounted", "/tmp is not mounted"]);
    let covered = format!("{whole}800 700 0:60 / /skills rw - tmpfs tmpfs rw\n");
    assert_eq!(mounts_missing(&spec, &covered), ["/skills is writable, wanted read-only"]);
    let deleted = whole.replace("writer/custom /skills/custom", "writer/custom//deleted /skills/custom");
    assert_eq!(mounts_missing(&spec, &deleted), ["what /skills/custom shows was deleted on the host"]);
    let writable = whole.replace(" / / ro,", " / / rw,");
    assert_eq!(mounts_missing(&spec, &writable), ["the root file system is not read-only"]);
}

#[test]
fn the_agents_uid_has_a_name() {
    assert!(
        passwd_file(100_001, 100_002).contains("\nagent:x:100001:100002:agent:/workspace/home:/bin/sh\n")
    );
    assert!(group_file(100_002).contains("\nagent:x:100002:\n"));
    assert_eq!(passwd_file(65534, 65534).matches("65534:65534").count(), 1);
}

//! What is accepted, and what it means.

use std::{path::PathBuf, time::Duration};

use super::{
    super::{
        keys,
        model::{AgentSkills, Network, Restart, Runs, Workspace},
        parse,
    },
    EXAMPLE,
};

#[test]
fn the_example_of_the_contract_is_understood_whole() {
    let (config, warnings) = parse(EXAMPLE, "skep.toml").unwrap();
    assert_eq!(config.name.as_str(), "demo");
    assert_eq!(config.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(config.default_agent.unwrap().as_str(), "writer");
    assert_eq!(config.api.listen.unwrap().to_string(), "127.0.0.1:7117");
    let writer = &config.agents["writer"];
    assert_eq!(writer.memory, 512 << 20);
    assert_eq!(writer.skills.len(), 3);
    assert_eq!(writer.secrets.as_ref().unwrap()[0].as_str(), "TWITTER_API_KEY");
    assert_eq!(writer.command.as_ref().unwrap()[2], "{instructions}");
    assert_eq!(writer.env["LOG_LEVEL"], "info");
    assert_eq!(writer.soul, Some(PathBuf::from("souls/writer.md")));
    assert_eq!(warnings, []);
    assert_eq!(config.preflight, crate::scheduler::preflight::defaults(), "an empty table says nothing");
    assert_eq!(config.model, None);
    assert_eq!(config.tools.defaults["telegram_send_message"]["chat_id"], "8304042211");
    assert_eq!(config.tools.strip, crate::tools::normalise::Rules::default().strip);
    let jobs: Vec<_> = writer.jobs.iter().map(|job| (job.name.as_str(), job.spec.tier().as_str())).collect();
    assert_eq!(jobs, [("morning-post", "direct"), ("weekly-report", "agent")]);
    assert_eq!(writer.jobs[0].spec.trigger.zone(), Some("America/New_York"));
    assert_eq!(writer.jobs[1].spec.trigger.zone(), Some("Europe/Berlin"), "the hive's");
}

#[test]
fn an_empty_file_is_a_hive_with_every_default() {
    let (config, warnings) = parse("", "skep.toml").unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.api.allowed_hosts, ["localhost"]);
    assert_eq!((config.runs, config.zone.as_str()), (Runs::default(), "UTC"));
    assert_eq!(config.registry.sources, [PathBuf::from("skills")]);
    assert_eq!(config.registry.agent_skills, AgentSkills::Manual);
    assert_eq!(config.secrets_file, PathBuf::from("secrets/env.json"));
    let (config, _) = parse("[agents.a]", "skep.toml").unwrap();
    let a = &config.agents["a"];
    assert_eq!(
        (a.image.as_str(), a.memory, a.cpus, a.pids, a.disk),
        ("skep-agent:latest", 512 << 20, 1.0, 256, 2 << 30)
    );
    assert_eq!(
        (&a.network, &a.workspace, a.main_restart),
        (&Network::None, &Workspace::Named, Restart::Always)
    );
    assert_eq!(a.stop_grace, Duration::from_secs(10));
    assert!(a.autostart && !a.allow_soul_edit && a.secrets.is_none() && a.runtime.is_none());
}

#[test]
fn every_other_value_of_every_key_is_understood() {
    let text = r#"
        [hive]
        timezone = "europe/berlin"
        ca_bundle = "/etc/ssl/ca.pem"
        [api]
        listen = "none"
        allowed_hosts = ["Hive.Example.com", "::1", "10.0.0.1"]
        [registry]
        sources = ["./skills/", "/srv/skills"]
        agent_skills = "auto"
        poll = "1500ms"
        limits = { files = 10, total = "1MiB", file = 4096, manifest = "1kB" }
        [defaults]
        env = { A = "1", B = "2" }
        runtime = "runsc"
        cpus = 2
        autostart = false
        [agents.a]
        workspace = "./work/a"
        network = "internet"
        main = ["x"]
        main_restart = "on-failure"
        env = { B = "3", PATH = "/bin" }
        stop_grace = "1h"
        image = "registry.example.com:5000/team/agent:1.0@sha256:0123456789012345678901234567890123456789012345678901234567890123"
        [agents.b]
        workspace = "tmpfs"
        main = ["x"]
        main_restart = "never"
        autostart = true
        secrets = []
    "#;
    let (config, told) = parse(text, "skep.toml").unwrap();
    assert_eq!(told, []);
    assert_eq!(config.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(config.registry.poll, Some(std::time::Duration::from_millis(1_500)));
    assert_eq!(config.api.listen, None);
    assert_eq!(config.api.allowed_hosts[0], "hive.example.com");
    assert_eq!(config.registry.sources, [PathBuf::from("skills"), PathBuf::from("/srv/skills")]);
    assert_eq!((config.registry.limits.files, config.registry.limits.manifest), (10, 1000));
    let (a, b) = (&config.agents["a"], &config.agents["b"]);
    assert_eq!(a.workspace, Workspace::Path("work/a".into()));
    assert_eq!(a.env.values().collect::<Vec<_>>(), ["1", "3", "/bin"]);
    assert_eq!(
        (a.network.clone(), a.main_restart, a.cpus, a.autostart),
        (Network::Internet, Restart::OnFailure, 2.0, false)
    );
    assert_eq!((b.runtime.as_deref(), b.autostart), (Some("runsc"), true));
    assert_eq!(b.secrets, Some(vec![]));
}

#[test]
fn the_limits_of_runs_are_understood() {
    let text = "[runs]\nmax_running = 20\nmax_running_per_agent = 5\noutput = '64KiB'\nkeep_output = '1h'\n\
        keep_output_size = '1MiB'\nkeep_history = '365d'";
    let (config, told) = parse(text, "skep.toml").unwrap();
    assert_eq!(told, []);
    let runs = Runs {
        max_running: 20,
        max_running_per_agent: 5,
        output: 64 << 10,
        keep_output: Duration::from_secs(3600),
        keep_output_size: 1 << 20,
        keep_history: Duration::from_secs(365 * 86_400),
    };
    assert_eq!(config.runs, runs);
}

#[test]
fn the_reference_names_every_key() {
    let text = keys::reference();
    for (_, section) in keys::SECTIONS {
        assert!(section.iter().all(|k| text.contains(&format!("| `{}` |", k.name))));
    }
}

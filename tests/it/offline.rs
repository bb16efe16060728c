//! What works without a supervisor.

use std::{fs, os::unix::fs::PermissionsExt};

use insta::assert_snapshot;

use crate::support::Hive;

#[test]
fn a_new_hive_is_valid_and_ignores_what_must_not_be_committed() {
    let hive = Hive::new();
    let ran = hive.run(&["validate"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "the hive is valid\n", ""));
    let ignored = hive.read(".gitignore");
    for line in ["/.skep/", "/secrets/env.json", "variables.json", "vars.json"] {
        assert!(ignored.lines().any(|l| l == line), "{line}");
    }
    assert!(hive.root.join("secrets.example/env.json").exists());
    let strict = hive.run(&["validate", "--strict"]);
    assert_eq!(strict.code, 0, "{}", strict.err);
}

#[test]
fn a_new_hive_overwrites_nothing() {
    let hive = Hive::empty();
    hive.write("skep.toml", "# mine\n");
    let ran = hive.run(&["init"]);
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.err, @r"
    error: a new hive would overwrite what is there, and nothing was written:
      skep.toml
    help: name another folder: `skep init DIR`
    ");
    assert_eq!(hive.read("skep.toml"), "# mine\n");
    assert_eq!(fs::read_dir(&hive.root).unwrap().count(), 1, "nothing else was written");
}

#[test]
fn a_new_hive_adds_to_an_existing_gitignore() {
    let hive = Hive::empty();
    hive.write(".gitignore", "target\n/.skep/");
    assert_eq!(hive.run(&["init"]).code, 0);
    assert_eq!(
        hive.read(".gitignore"),
        "target\n/.skep/\n/registry/\n/secrets/env.json\nvariables.json\nvars.json\n"
    );
}

#[test]
fn a_new_hive_is_made_in_a_new_folder_and_its_files_are_listed() {
    let hive = Hive::empty();
    let ran = hive.run(&["init", "a/b", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["files"].as_array().unwrap().len(), 6);
    assert_eq!(hive.run(&["validate", "--dir", "a/b"]).code, 0);
}

#[test]
fn every_mistake_of_a_hive_is_told_with_its_place() {
    let hive = Hive::new();
    let toml = hive.read("skep.toml").replace("memory = ", "memry = ").replace("cpus = 1.0", "cpus = \"x\"");
    hive.write("skep.toml", &toml);
    let ran = hive.run(&["validate"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.err, @r#"
    error: skep.toml:16:1: unknown key "memry"
       |
    16 | memry = "512MiB"
       | ^^^^^
       = help: did you mean "memory"?
    error: skep.toml:17:8: defaults.cpus must be a number, not a string
       |
    17 | cpus = "x"
       |        ^^^
       = help: write a number without quotes, such as 1.0 or 0.5
    error: the hive has 2 mistakes
    "#);
    let json: serde_json::Value = serde_json::from_str(&hive.run(&["validate", "--json"]).out).unwrap();
    assert_eq!(json["valid"], false);
    assert_eq!(json["errors"].as_array().unwrap().len(), 2);
    assert_eq!(json["errors"][0]["line"], 16);
}

#[test]
fn a_reference_that_leads_nowhere_is_told_where_it_stands() {
    let hive = Hive::new();
    let toml = hive.read("skep.toml").replace("\"note-taking@latest\"", "\"note-takin\"");
    hive.write("skep.toml", &toml);
    let ran = hive.run(&["validate"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.err, @r"
    error: skep.toml:26:31: the skills of agent helper cannot be resolved:
      agent helper asks for note-takin
      there is no skill note-takin; did you mean note-taking?
    error: the hive has a mistake
    ");
}

#[test]
fn every_fault_of_every_skill_is_told_with_its_file() {
    let hive = Hive::new();
    hive.write("skills/bad/manifest.json", "{\"id\": \"bad\",\n \"version\": \"one\"}");
    hive.write("skills/g/twin@1.0.0/manifest.json", &manifest("twin", "1.0.0", "a"));
    hive.write("skills/h/twin@1.0.0/manifest.json", &manifest("twin", "1.0.0", "b"));
    hive.write("skills/basic-tools@1.0.0/manifest.json", &manifest("basic-tools", "9.0.0", "mine"));
    let ran = hive.run(&["validate"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.err, @r#"
    error: skills/bad/manifest.json: Missing name
    error: skills/bad/manifest.json: Missing description
    error: skills/bad/manifest.json: Invalid version format (must be semver) ("one": unexpected character 'o' while parsing major version number; write MAJOR.MINOR.PATCH)
    error: skills/basic-tools@1.0.0/manifest.json: The folder is named "basic-tools@1.0.0", the version is "9.0.0" (name the folder `id` or `id@version`)
    error: skills/h/twin@1.0.0: twin@1.0.0 is there twice, with other content (give one of them another version)
    error: the hive has 5 mistakes
    "#);
}

fn manifest(id: &str, version: &str, description: &str) -> String {
    format!(r#"{{"id":"{id}","name":"N","version":"{version}","description":"{description}"}}"#)
}

#[test]
fn a_skill_is_checked_without_a_hive() {
    let hive = Hive::empty();
    hive.write("good/SKILL.md", "---\nname: good\ndescription: Does good.\n---\nBody\n");
    let ran = hive.run(&["skill", "validate", "good", "--json"]);
    assert_eq!(ran.code, 0);
    assert_snapshot!(ran.out, @r#"
    {
      "valid": true,
      "errors": [],
      "warnings": []
    }
    "#);
    hive.write("bad/manifest.json", r#"{"scripts": ["scripts/x.ts"]}"#);
    let ran = hive.run(&["skill", "validate", "bad", "--json"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.out, @r#"
    {
      "valid": false,
      "errors": [
        "manifest.json: Missing id",
        "manifest.json: Missing name",
        "manifest.json: Missing version",
        "manifest.json: Missing description",
        "manifest.json: Script not found: scripts/x.ts"
      ],
      "warnings": []
    }
    "#);
    let ran = hive.run(&["skill", "validate", "bad"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.err, @r"
    error: bad has 5 mistakes:
      manifest.json: Missing id
      manifest.json: Missing name
      manifest.json: Missing version
      manifest.json: Missing description
      manifest.json: Script not found: scripts/x.ts
    ");
    assert_eq!(hive.run(&["skill", "validate", "nothing"]).code, 2);
}

#[test]
fn strict_checking_of_a_skill_turns_warnings_into_errors() {
    let hive = Hive::empty();
    hive.write("Odd/SKILL.md", "---\nname: odd\ndescription: d\nversion: 1.0.0\n---\n");
    assert_eq!(hive.run(&["skill", "validate", "Odd"]).code, 0);
    let ran = hive.run(&["skill", "validate", "Odd", "--strict"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("Unexpected fields in frontmatter: version"), "{}", ran.err);
}

#[test]
fn a_secret_is_set_listed_and_removed_without_ever_being_shown() {
    let hive = Hive::new();
    let set = hive.feed(&["secret", "set", "MY_KEY"], b"hunter2-hunter2\n");
    assert_eq!((set.code, set.err.as_str()), (0, "MY_KEY is set\n"));
    let file = hive.root.join("secrets/env.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(hive.read("secrets/env.json").contains("hunter2-hunter2\""), "one line end is left out");
    let list = hive.run(&["secret", "list"]);
    assert_snapshot!(list.out, @r"
    NAME    SET  USED BY
    MY_KEY  yes  -
    ");
    assert!(!hive.run(&["secret", "list", "--json"]).out.contains("hunter2"));
    assert_eq!(hive.run(&["secret", "rm", "MY_KEY"]).code, 0);
    let again = hive.run(&["secret", "rm", "MY_KEY"]);
    assert_eq!(again.code, 1);
    assert!(again.err.starts_with("error: there is no secret MY_KEY\nhelp: "), "{}", again.err);
}

#[test]
fn a_secret_that_is_no_good_is_refused_and_a_short_one_warned_about() {
    let hive = Hive::new();
    assert_eq!(hive.run(&["secret", "set", "1BAD"]).code, 2);
    assert_eq!(hive.feed(&["secret", "set", "EMPTY"], b"\n").code, 2);
    assert_eq!(hive.feed(&["secret", "set", "NUL"], b"a\0b").code, 2);
    let short = hive.feed(&["secret", "set", "SHORT"], b"abc");
    assert_eq!(short.code, 0);
    assert!(short.err.contains("cannot be masked"), "{}", short.err);
}

#[test]
fn without_a_supervisor_the_remedy_is_told() {
    let hive = Hive::new();
    for args in [
        &["ps"][..],
        &["logs", "helper"],
        &["exec", "helper", "--", "true"],
        &["shell", "helper"],
        &["stop", "helper"],
        &["prompt", "helper"],
        &["update"],
        &["skill", "list"],
    ] {
        let ran = hive.run(args);
        assert_eq!(ran.code, 1, "{args:?}");
        assert_eq!(
            hive.neutral(&ran.err),
            "error: no supervisor runs for the hive hive in [hive]\nhelp: start it with `skep up -d`\n",
            "{args:?}"
        );
        assert_eq!(ran.out, "");
    }
    let down = hive.run(&["down"]);
    assert_eq!((down.code, down.err.as_str()), (0, "no supervisor runs for the hive hive\n"));
}

#[test]
fn outside_of_a_hive_the_remedy_is_told() {
    let hive = Hive::empty();
    let ran = hive.run(&["ps"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(hive.neutral(&ran.err), @r"
    error: no skep.toml in [hive] or a folder above it
    help: make a hive with `skep init`, or name its folder with --dir or SKEP_DIR
    ");
    let ran = hive.run(&["ps", "--dir", "nowhere"]);
    assert_eq!(ran.code, 2);
}

#[test]
fn a_hive_is_found_from_a_folder_below_and_by_its_variable() {
    let hive = Hive::new();
    let below = hive.root.join("skills/note-taking");
    assert!(hive.skep(&["validate"]).current_dir(&below).status().unwrap().success());
    let elsewhere = Hive::empty();
    let mut command = elsewhere.skep(&["validate"]);
    assert!(command.env("SKEP_DIR", &hive.root).status().unwrap().success());
}

#[test]
fn what_agents_would_get_is_told_from_the_files() {
    let hive = Hive::new();
    let ran = hive.run(&["resolve", "--explain"]);
    assert_eq!(ran.code, 0);
    assert_snapshot!(ran.out, @r"
    agent helper
    ├── basic-tools 1.0.0 (asked for: ^1.0)
    └── note-taking 0.0.0 (asked for: latest)
    ");
    let locked = hive.run(&["resolve", "--locked"]);
    assert_eq!(locked.code, 1);
    assert_snapshot!(locked.err, @r"
    error: skep.lock would change:
      helper: basic-tools 1.0.0 added
      helper: note-taking 0.0.0 added
    help: `skep up` or `skep update` writes it; then commit it
    ");
    assert_eq!(hive.run(&["resolve", "nobody"]).code, 1);
}

#[test]
fn a_lock_that_says_the_same_passes() {
    let hive = Hive::new();
    let views: serde_json::Value = serde_json::from_str(&hive.run(&["resolve", "--json"]).out).unwrap();
    let mut lock = "version = 1\n".to_owned();
    for skill in views[0]["locked"].as_array().unwrap() {
        lock += &format!(
            "[agents.helper.skills.{}]\nversion = {}\ndigest = {}\n",
            skill["id"].as_str().unwrap(),
            skill["version"],
            skill["digest"]
        );
    }
    hive.write("skep.lock", &lock);
    let ran = hive.run(&["resolve", "--locked"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let check = hive.run(&["resolve", "--check"]);
    assert_eq!(check.code, 1, "nothing is mounted");
    assert!(check.out.contains("not mounted"), "{}", check.out);
    hive.write("skills/note-taking/SKILL.md", "---\nname: note-taking\ndescription: other\n---\n");
    let changed = hive.run(&["validate"]);
    assert_eq!(changed.code, 2, "a locked version has other content");
}

#[test]
fn purging_asks_and_so_needs_a_terminal() {
    let hive = Hive::new();
    hive.write(".skep/logs/skep.log", "x");
    let ran = hive.run(&["down", "--purge"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    assert!(hive.root.join(".skep").exists());
    // What a killed supervisor left cannot be seen without the engine, so nothing is removed blindly.
    let ran = hive.run(&["down", "--purge", "--yes"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(hive.root.join(".skep").exists() && hive.root.join("skep.toml").exists());
}

#[test]
fn the_doctor_works_without_engine_and_supervisor() {
    let hive = Hive::new();
    let ran = hive.run(&["doctor", "--json"]);
    assert_eq!(ran.code, 1, "no engine is an error");
    let findings: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let engine = findings.as_array().unwrap().iter().find(|f| f["check"] == "engine").unwrap();
    assert_eq!(engine["level"], "error");
    assert!(engine["remedy"].as_str().unwrap().contains("DOCKER_HOST"));
}

#[test]
fn fire_times_of_a_schedule_are_previewed_outside_of_a_hive() {
    let nowhere = Hive::empty();
    for (after, fires) in [
        ("2027-03-28", "Sun 2027-03-28 09:00:00 +09:00"),
        ("2027-03-28 12:00", "Mon 2027-03-29 09:00:00 +09:00"),
        ("2027-03-28T02:00+02:00", "Mon 2027-03-29 09:00:00 +09:00"),
        ("2027-03-27T23:59:59Z", "Sun 2027-03-28 09:00:00 +09:00"),
    ] {
        let zone = ["--timezone", "Asia/Tokyo", "-n", "1"];
        let ran =
            nowhere.run(&[&["job", "next", "--schedule", "0 9 * * *", "--after", after][..], &zone].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains(&fires[..15]), "{after}: {}", ran.out);
    }
}

#[test]
fn a_wrong_command_line_ends_with_2_and_help_with_0() {
    let hive = Hive::empty();
    assert_eq!(hive.run(&[]).code, 2);
    assert_eq!(hive.run(&["no-such"]).code, 2);
    assert_eq!(hive.run(&["logs", "NOT A NAME"]).code, 2);
    assert_eq!(hive.run(&["exec", "helper"]).code, 2);
    assert_eq!(hive.run(&["--help"]).code, 0);
    let version = hive.run(&["--version"]);
    assert_eq!((version.code, version.out), (0, format!("skep {}\n", env!("CARGO_PKG_VERSION"))));
    // Commands of later work are not offered.
    for later in ["job", "run", "halt", "events", "audit", "backup"] {
        assert_eq!(hive.run(&[later]).code, 2, "{later}");
    }
}

#[test]
fn every_shell_gets_its_completions() {
    let hive = Hive::empty();
    for (shell, sign) in
        [("bash", "complete -F"), ("zsh", "#compdef skep"), ("fish", "complete -c skep"), ("elvish", "skep")]
    {
        let ran = hive.run(&["completions", shell]);
        assert_eq!(ran.code, 0);
        assert!(ran.out.contains(sign), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let hive = Hive::empty();
    let script = format!("{} completions bash | true", env!("CARGO_BIN_EXE_skep"));
    let done = std::process::Command::new("bash")
        .args(["-o", "pipefail", "-c", &script])
        .current_dir(&hive.root)
        .output()
        .unwrap();
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_command_line_where_a_server_wants_a_program_is_warned_about() {
    let hive = Hive::new();
    let manifest = r#"{"id": "notes", "name": "Notes", "version": "1.0.0", "description": "Keeps notes", "owner": "operator",
        "mcpServers": [{"name": "notes", "command": "npx -y @scope/notes"}]}"#;
    hive.write("skills/notes/manifest.json", manifest);
    let toml = hive.read("skep.toml");
    hive.write("skep.toml", &format!("{toml}\n[agents.clerk]\nskills = [\"notes@1.0.0\"]\n"));
    for args in [&["validate"][..], &["skill", "validate", "skills/notes"]] {
        let ran = hive.run(args);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let told = ran.out + &ran.err;
        for words in [
            "mcpServers[0].command holds blanks",
            r#"write "command": "npx", "args": ["-y", "@scope/notes"]"#,
        ] {
            assert!(told.contains(words), "{args:?}: {words:?} not in\n{told}");
        }
    }
}

#[test]
fn a_call_without_the_name_of_a_tool_says_so() {
    let hive = Hive::new();
    let ran = hive.run(&["call", "helper", " "]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.err, @r"
    error: the name of a tool is missing
    help: `skep tools helper` lists its tools
    ");
}

//! Skill documents from inside a real container: the JavaScript module, the `skep` command, and whose documents an
//! agent may change.

use serde_json::{Value, json};

use crate::hive::TestHive;

const NEW: &str = "# Reports\n- bold\n";

async fn hive() -> TestHive {
    let hive = TestHive::new(
        "[agents.one]\nskills = [\"js@1.0.0\"]\n[agents.two]\nimage = \"skep-base:bookworm\"\n",
    );
    hive.skill("js", "1.0.0", &json!({}));
    let script = |name: &str, load: &str| {
        let code = format!(
            "{load}\nconst all = await skills.list('excel');\nconst one = await skills.read('reports');\n\
             let why; try {{ await skills.read('nothing') }} catch (e) {{ why = [e.name, e.status, e.message] }}\n\
             console.log(JSON.stringify({{ all, one, why, keys: Object.keys(skills) }}));\n"
        );
        hive.write(&format!("skills/js@1.0.0/lib/{name}"), &code);
    };
    script("esm.mjs", "import { skills } from 'skep';");
    script("default.mjs", "import skep from 'skep'; const { skills } = skep;");
    script(
        "typed.mts",
        "import { skills, type Skill } from 'skep'; const typed: Skill[] = await skills.list(); typed;",
    );
    hive.write(
        "skills/js@1.0.0/lib/cjs.cjs",
        "const { skills } = require('skep');\nskills.list('excel').then((all) => console.log(JSON.stringify(all)));\n",
    );
    let mut hive = hive;
    hive.start().await;
    let body = json!({"name": "reports", "title": "Quarterly", "description": "How", "content": NEW, "tags": ["excel"]});
    let (status, made) = hive.send("POST", "/v1/documents", Some(body)).await;
    assert_eq!(status, 201, "{made:#}");
    for agent in ["one", "two"] {
        hive.running(agent).await;
    }
    hive
}

/// Runs it in a container; exit code, standard output as JSON or text, standard error.
async fn sh(hive: &TestHive, agent: &str, script: &str) -> (i64, Value, String) {
    let done = hive.sh(agent, script).await;
    let text = done["stdout"].as_str().unwrap_or_else(|| panic!("{done:#}"));
    let out = serde_json::from_str(text).unwrap_or_else(|_| text.into());
    (done["exit_code"].as_i64().unwrap(), out, done["stderr"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_read_documents_by_import_and_by_require_wherever_they_stand() {
    let hive = hive().await;
    let listed = json!([{"name": "reports", "title": "Quarterly", "description": "How", "tags": ["excel"]}]);
    let read = json!({"name": "reports", "title": "Quarterly", "description": "How", "content": NEW, "tags": ["excel"]});
    let copies = "mkdir -p /workspace/p/node_modules/other /tmp/q && cp /skills/js/lib/esm.mjs /workspace/p/ && \
                  cp /skills/js/lib/esm.mjs /tmp/q/ && mkdir -p /skills/custom/own/scripts && \
                  cp /skills/js/lib/esm.mjs /skills/custom/own/scripts/";
    assert_eq!(sh(&hive, "one", copies).await.0, 0);
    for script in [
        "/skills/js/lib/esm.mjs",
        "/skills/js/lib/default.mjs",
        "/skills/js/lib/typed.mts",
        "/skills/.v/js@1.0.0/lib/esm.mjs",
        "/skills/custom/own/scripts/esm.mjs",
        "/workspace/p/esm.mjs",
        "/tmp/q/esm.mjs",
    ] {
        let (code, out, err) = sh(&hive, "one", &format!("cd / && node {script}")).await;
        assert_eq!((code, &out["all"], &out["one"]), (0, &listed, &read), "{script}: {err}");
        assert_eq!((&out["why"][0], &out["why"][1]), (&json!("SkepError"), &json!(404)));
        assert_eq!(out["keys"], json!(["list", "read"]), "it only reads");
    }
    let (code, out, err) = sh(&hive, "one", "node /skills/js/lib/cjs.cjs").await;
    assert_eq!((code, out), (0, listed), "{err}");
    let (code, ..) = sh(&hive, "one", "touch /node_modules/skep/x || touch /skep/node_modules/skep/x").await;
    assert_ne!(code, 0, "the module is read-only");
}

#[tokio::test(flavor = "multi_thread")]
async fn shell_scripts_use_the_skep_command_in_any_image() {
    let hive = hive().await;
    for agent in ["one", "two"] {
        let (code, out, err) = sh(&hive, agent, "skep skills --tag excel").await;
        assert_eq!((code, &out["skills"][0]["name"]), (0, &json!("reports")), "{agent}: {err}");
        assert_eq!(sh(&hive, agent, "skep skill reports").await.1["content"], NEW);
        assert_eq!(sh(&hive, agent, "skep skill reports --content").await.1, NEW);
    }
    let make = "printf '# Naïve \"x\"\\n\\tTab\\\\n' | skep document create mine --title 'My “notes”' --description d \
                --tags a,b --file -";
    let (code, out, err) = sh(&hive, "two", make).await;
    assert_eq!((code, out), (0, json!({"name": "mine", "version": 1})), "{err}");
    let own = sh(&hive, "two", "skep skill mine").await.1;
    assert_eq!(
        own,
        json!({"name": "mine", "title": "My “notes”", "description": "d", "content": "# Naïve \"x\"\n\tTab\\n",
            "tags": ["a", "b"], "source": "agent", "version": 1})
    );
    let edit = "skep document update mine --operation find_replace --find Tab --replace Blank";
    assert_eq!(sh(&hive, "two", edit).await.1, json!({"name": "mine", "version": 2}));
    assert_eq!(sh(&hive, "two", "skep skill mine --content").await.1, "# Naïve \"x\"\n\tBlank\\n\n");
    let (code, out, err) = sh(&hive, "two", edit).await;
    assert_eq!((code, out), (1, json!("")), "{err}");
    assert!(err.contains("does not hold the text to find") && err.contains("(422)"), "{err}");
    for refused in [
        "skep document update reports --title Mine",
        "skep document delete reports",
        "skep document disable reports",
    ] {
        let (code, out, err) = sh(&hive, "two", refused).await;
        assert_eq!((code, out), (1, json!("")), "{refused}: {err}");
        assert!(
            err.contains("belongs to operator: agent two changes only its own (403)"),
            "{refused}: {err}"
        );
    }
    assert_eq!(sh(&hive, "one", "skep skill mine").await.0, 1, "another's is not there until it is approved");
    assert_eq!(hive.get("/v1/documents/mine").await["trust"], "pending");
    assert_eq!(sh(&hive, "two", "skep job list").await.1["items"], json!([]));
    assert_eq!(sh(&hive, "two", "skep document delete mine").await.1, json!({"deleted": true}));
    for usage in ["skep nonsense", "skep document", "skep skills --tag", "skep document rename x", "skep job"]
    {
        let (code, _, err) = sh(&hive, "two", usage).await;
        assert_eq!(code, 2, "{usage}: {err}");
        assert!(err.contains("skep --help"), "{usage}: {err}");
    }
    let (code, help, _) = sh(&hive, "two", "skep --help").await;
    assert!(code == 0 && help.as_str().unwrap().contains("skep document create"));
    let (code, _, err) = sh(&hive, "two", "skep run list_skills").await;
    assert!(code == 1 && err.contains("SKEP_RUN_ID"), "{err}");
    let (code, _, err) = sh(&hive, "two", "SKEP_API=/nowhere skep skills").await;
    assert!(code == 1 && err.contains("does not answer at /nowhere"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_process_of_an_agent_lists_and_calls_its_tools_with_the_skep_command() {
    let hive = hive().await;
    // Some programs start others without their environment.
    for skep in ["skep", "env -i /skep/bin/skep"] {
        let (code, tools, err) = sh(&hive, "two", &format!("{skep} tools")).await;
        let names: Vec<&str> =
            tools["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert!(
            code == 0 && names.contains(&"list_skills") && names.contains(&"queue_task"),
            "{tools} {err}"
        );
        let (code, called, err) = sh(&hive, "two", &format!("{skep} call list_skills --arg tag=excel")).await;
        assert_eq!((code, &called["success"]), (0, &json!(true)), "{err}");
        assert_eq!(called["result"]["skills"][0]["name"], "reports", "{called}");
    }
    let piped = "echo '{\"name\": \"reports\"}' | skep call skep/read_skill -";
    assert_eq!(sh(&hive, "two", piped).await.1["result"]["content"], NEW);
    let (code, told, err) = sh(&hive, "two", "skep call get_job_status --arg taskId=9").await;
    assert_eq!((code, &told["success"]), (1, &json!(false)), "the answer is there too");
    assert!(err.starts_with("skep: get_job_status failed: there is no task 9"), "{err}");
    let (code, out, err) = sh(&hive, "two", "skep call read_skill").await;
    assert_eq!((code, out), (1, json!("")));
    assert!(err.contains("the arguments are not what read_skill takes: ") && err.contains("name"), "{err}");
    let (code, _, err) = sh(&hive, "two", "skep call lst_skills").await;
    assert!(code == 1 && err.contains("did you mean \"list_skills\"? (404)"), "{err}");
    for usage in
        ["skep call", "skep call ''", "skep call list_skills --all", "skep call list_skills '{}' '{}'"]
    {
        let (code, _, err) = sh(&hive, "two", usage).await;
        assert!(code == 2 && err.contains("skep --help"), "{usage}: {err}");
    }
    let (_, help, _) = sh(&hive, "two", "skep --help").await;
    assert!(help.as_str().unwrap().contains("skep call TOOL [--arg KEY=VALUE"), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_document_of_its_own_is_one_line_in_the_prompt_and_its_edits_swap_in() {
    let hive = TestHive::new("[agents.one]\nskills = [\"reports\"]\n");
    hive.write("skills/reports/SKILL.md", "---\ndescription: How\nmetadata:\n  tags: excel\n---\n\nOld.\n");
    let mut hive = hive;
    hive.start().await;
    hive.running("one").await;
    let (_, prompt, _) = sh(&hive, "one", "skep prompt").await;
    let line = "<available_skills>\n- reports: How [excel]\n</available_skills>\n\nAfter completing";
    assert!(prompt.as_str().unwrap().contains(line), "{prompt}");
    let edit = json!({"operation": "replace", "content": "New.\n", "description": "How, anew"});
    let (status, edited) = hive.send("PATCH", "/v1/documents/reports", Some(edit)).await;
    assert_eq!(status, 200, "{edited:#}");
    // The lock holds until an update takes the new version.
    assert_eq!(hive.send("POST", "/v1/update", Some(json!({}))).await.0, 200);
    hive.until("one", "the new version", |agent| agent["skills"][0]["version"] == "0.0.1").await;
    let read = "cat /skills/reports/SKILL.md; for i in $(seq 100); do grep -q 'How, anew' /skep/prompt.md && exit 0; \
                sleep 0.1; done; exit 1";
    let (code, text, _) = sh(&hive, "one", read).await;
    assert!(code == 0 && text.as_str().unwrap().ends_with("New.\n"), "{text}");
}

/// The program `bun` from npm.
fn bun() -> Vec<u8> {
    let out = tempfile::tempdir().unwrap();
    let kind = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x64-baseline" };
    let package = format!("@oven/bun-linux-{kind}");
    let script = format!(
        "set -eu; export HOME=/tmp/home; npm install --silent --no-fund --no-audit --prefix /tmp/npm {package} >&2; \
         cat /tmp/npm/node_modules/{package}/bin/bun > /out/bun"
    );
    let volume = format!("{}:/out", out.path().display());
    let run = ["run", "--rm", "--network", "host", "--user", "0:0", "-v", &volume, "skep-agent:latest"];
    let got = std::process::Command::new("docker").args(run).args(["bash", "-c", &script]).output().unwrap();
    assert!(got.status.success(), "is npm's registry reachable?\n{}", String::from_utf8_lossy(&got.stderr));
    std::fs::read(out.path().join("bun")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_bun_runs_read_documents_by_the_same_module() {
    let fetched = tokio::task::spawn_blocking(bun);
    let hive = hive().await;
    let place = hive.agent_dir("one").join("workspace/bun");
    std::fs::write(&place, fetched.await.unwrap()).unwrap();
    std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (code, version, err) = sh(&hive, "one", "/workspace/bun --version").await;
    assert_eq!(code, 0, "{version} {err}");
    let listed = json!([{"name": "reports", "title": "Quarterly", "description": "How", "tags": ["excel"]}]);
    for script in ["esm.mjs", "default.mjs", "typed.mts"] {
        let run = format!("cd /tmp && /workspace/bun run /skills/js/lib/{script}");
        let (code, out, err) = sh(&hive, "one", &run).await;
        assert_eq!((code, &out["all"], &out["one"]["content"]), (0, &listed, &json!(NEW)), "{script}: {err}");
        assert_eq!((&out["why"][0], &out["why"][1]), (&json!("SkepError"), &json!(404)), "{script}");
    }
    let (code, out, err) = sh(&hive, "one", "/workspace/bun run /skills/js/lib/cjs.cjs").await;
    assert_eq!((code, out), (0, listed), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_of_a_skill_works_on_documents_through_the_command_by_its_path() {
    let hive = hive().await;
    let lines = [
        "#!/bin/sh",
        "# Without a PATH, as a script of any image may be run.",
        "set -eu",
        "skep=/skep/bin/skep",
        "printf 'one\\n' | \"$skep\" document create log --title Log --description 'What was done' --tags x --file -",
        "printf 'two\\n' | \"$skep\" document update log --operation append --file -",
        "printf 'zero\\n' | \"$skep\" document update log --operation prepend --file -",
        "\"$skep\" document update log --operation delete --content 'one\n'",
        "\"$skep\" document update log --title 'The log' --tags x,y",
        "\"$skep\" document disable log",
        "\"$skep\" document enable log",
        "\"$skep\" skill log --content",
        "",
    ];
    std::fs::write(hive.agent_dir("two").join("workspace/log.sh"), lines.join("\n")).unwrap();
    let (code, out, err) = sh(&hive, "two", "PATH=/bin:/usr/bin sh /workspace/log.sh").await;
    let out = out.as_str().unwrap_or_default().to_owned();
    assert!(code == 0 && out.ends_with("zero\ntwo\n"), "{out}\n{err}");
    let shown = hive.get("/v1/documents/log").await;
    assert_eq!(
        (&shown["version"], &shown["title"], &shown["tags"]),
        (&json!(5), &json!("The log"), &json!(["x", "y"]))
    );
    assert_eq!((&shown["owner"], &shown["trust"]), (&json!("two"), &json!("pending")));
}

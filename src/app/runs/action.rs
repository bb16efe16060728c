//! From a run to the process that executes it (systems.md D13, and the agent tier of contract.md 1).

use std::{io::Read, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    app::{
        hive::Hive,
        tools::{builtin, call, servers},
        types::AppError,
    },
    config::model::Runs,
    db::runs::RunRow,
    ids::SkillId,
    registry::index::Trust,
    scheduler::job::{JobSpec, Tier},
    supervisor::{agent::Agent, prepare::Preparation},
    tools::{self, Kind, Script, Tool},
    wire::{Environment, Io, ProcId, Start, spool::Bounds},
};

/// Between SIGTERM and SIGKILL, for an agent whose configuration is not known any more.
const GRACE: Duration = Duration::from_secs(10);
/// The agent's client of its door, in every container.
const CLIENT: &str = "/skep/bin/skep";

/// What a run, or a call of one of its tools, is started with.
pub(in crate::app) struct Program {
    pub(in crate::app) argv: Vec<String>,
    pub(in crate::app) stdin: Vec<u8>,
    /// Whether it gets the agent's secrets: a script of a version that is not approved gets none.
    pub(in crate::app) trusted: bool,
}

/// Why a run has no process, for the operator.
pub(super) struct NoStart {
    pub(super) why: String,
    /// Another attempt would fail for the same reason.
    pub(super) lasting: bool,
}

impl<T: Into<String>> From<T> for NoStart {
    fn from(why: T) -> Self {
        Self { why: why.into(), lasting: false }
    }
}

/// The process of a run.
///
/// # Errors
/// Why there is none.
pub(super) async fn start(
    hive: &Arc<Hive>,
    agent: &Agent,
    run: &RunRow,
    id: ProcId,
) -> Result<Start, NoStart> {
    let spec = run.spec.as_ref().ok_or("its job is no longer known")?;
    let preparation = agent.preparation().ok_or("its agent is not prepared")?;
    let program = match spec.tier() {
        Tier::Direct if !spec.workflow.is_empty() => act(),
        Tier::Direct => {
            let name = spec.tool.as_deref().unwrap_or_default();
            let tools = tools(hive, &preparation);
            let tool = match tools::find(&tools, name) {
                Ok(tool) => Some(tool),
                // It may be of a server that never told of its tools, which is asked then.
                Err(_) if servers::undiscovered(hive, &preparation) => None,
                Err(why) => return Err(why.into()),
            };
            // Told before its arguments: what is missing may be what tells of them.
            if let Some(skill) = tool.and_then(Tool::skill) {
                must_be_usable(&preparation, skill, name)?;
            }
            match tool.map(|tool| (tool, &tool.kind)) {
                Some((tool, Kind::Script(found))) => {
                    let args = call::arguments(hive, &run.agent, tool, spec.args.clone()).await;
                    let wrong = |e: AppError| NoStart {
                        why: e.in_words(),
                        lasting: matches!(e, AppError::Invalid { .. }),
                    };
                    script(hive, &preparation, found, &args.map_err(wrong)?)?
                }
                Some(_) | None => act(),
            }
        }
        Tier::Agent => command(&preparation, spec)?,
    };
    let mut env = environment(&preparation, run, program.trusted);
    if spec.tier() == Tier::Agent {
        env.0.push(("SKEP_REQUIRED_TOOLS".to_owned(), json!(spec.required_tools).to_string()));
        env.0.push(("SKEP_MAX_STEPS".to_owned(), spec.max_steps.to_string()));
    }
    Ok(Start {
        id,
        argv: program.argv,
        env,
        cwd: "/workspace".to_owned(),
        not_before_us: None,
        timeout_ms: Some(millis(spec.time_limit())),
        grace_ms: millis(grace(agent)),
        bound: false,
        held_to: (spec.tier() == Tier::Agent).then_some(run.id),
        io: Io::Capture { stdin: program.stdin, spool: bounds(&hive.world().config.runs) },
    })
}

/// Milliseconds, as the init wants them.
pub(in crate::app) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Between SIGTERM and SIGKILL of an agent's runs: its `stop_grace`.
pub(super) fn grace(agent: &Agent) -> Duration {
    agent.preparation().map_or(GRACE, |preparation| preparation.config.stop_grace)
}

/// The first quarter of what is kept comes from the beginning, the rest from the end.
pub(super) fn bounds(limits: &Runs) -> Bounds {
    let head = limits.output / 4;
    Bounds { head, tail: limits.output - head }
}

/// The tools of an agent as it was prepared.
fn tools(hive: &Hive, preparation: &Preparation) -> Vec<Tool> {
    let mut tools = builtin::tools();
    for prepared in &preparation.skills {
        let skill = &prepared.skill;
        tools.extend(skill.scripts.iter().map(|path| {
            Tool::script(skill.id.clone(), prepared.version.clone(), path.clone(), prepared.own)
        }));
        tools.extend(servers::told(hive, &preparation.config.id, prepared));
    }
    tools
}

/// A program in the container that has the supervisor do what its run is for, and prints the answer: so calls of MCP
/// servers and of the hive's own tools are runs like any other.
fn act() -> Program {
    let argv = [CLIENT, "act"].map(str::to_owned).to_vec();
    Program { argv, stdin: Vec::new(), trusted: false }
}

/// A call of a script: its arguments as JSON, both as first argument and on standard input (systems.md D13).
///
/// # Errors
/// Its skill cannot be used, the script cannot be read, or nobody knows how to run it.
pub(in crate::app) fn script(
    hive: &Hive,
    preparation: &Preparation,
    script: &Script,
    args: &Map<String, Value>,
) -> Result<Program, String> {
    let skill = preparation.skills.iter().find(|s| s.skill.id == script.skill);
    let skill = skill.ok_or_else(|| format!("the agent has no skill {}", script.skill))?;
    must_be_usable(preparation, &script.skill, script.name())?;
    let args = Value::Object(args.clone()).to_string();
    let mut argv = interpreter(&hive.store.path(&skill.digest).join(&script.path), &script.path)?;
    argv.push(script.place());
    argv.push(args.clone());
    let trusted = matches!(skill.trust, Trust::Trusted | Trust::Approved);
    Ok(Program { argv, stdin: args.into_bytes(), trusted })
}

/// Refuses a tool whose skill misses something that it needs (systems.md C2, C5).
pub(in crate::app) fn must_be_usable(
    preparation: &Preparation,
    skill: &SkillId,
    tool: &str,
) -> Result<(), String> {
    match preparation.usable.unavailable.get(skill) {
        Some(missing) => Err(format!(
            "tool {tool} cannot be called: its skill {skill} cannot be used while it misses {}",
            missing.join(", ")
        )),
        None => Ok(()),
    }
}

/// What stands before the script's path: nothing for an executable file, else by its first line or its extension.
pub(in crate::app) fn interpreter(file: &Path, name: &str) -> Result<Vec<String>, String> {
    let unreadable = |e: std::io::Error| format!("cannot read the script {name}: {e}");
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    let executable = opened.metadata().map_err(unreadable)?.permissions().mode() & 0o111 != 0;
    let mut head = Vec::new();
    opened.take(256).read_to_end(&mut head).map_err(unreadable)?;
    let line = head.strip_prefix(b"#!").map(|rest| rest.split(|b| *b == b'\n').next().unwrap_or_default());
    if let Some(line) = line {
        if executable {
            return Ok(Vec::new());
        }
        let line = String::from_utf8_lossy(line);
        // As the kernel reads it: the program, and the rest as one argument.
        let (program, rest) = line.trim().split_once([' ', '\t']).unwrap_or((line.trim(), ""));
        let words = [program, rest.trim()].into_iter().filter(|w| !w.is_empty()).map(str::to_owned);
        return Ok(words.collect());
    }
    let program = match name.rsplit('.').next().unwrap_or_default() {
        "sh" | "bash" => "bash",
        "py" => "python3",
        "js" | "mjs" | "cjs" | "ts" => "node",
        _ if executable => return Ok(Vec::new()),
        _ => {
            return Err(format!(
                "nobody knows how to run {name}: make it executable, begin it with `#!`, or name it .sh, .py, .js or .ts"
            ));
        }
    };
    Ok(vec![program.to_owned()])
}

/// The agent's own command: the instructions stand for `{instructions}`, else they come on standard input.
fn command(preparation: &Preparation, spec: &JobSpec) -> Result<Program, String> {
    const PLACE: &str = "{instructions}";
    let id = &preparation.config.id;
    let command = preparation.config.command.as_ref();
    let command = command
        .ok_or_else(|| format!("agent {id} has no `command` in skep.toml to run instructions with"))?;
    let instructions = spec.instructions.as_deref().unwrap_or_default();
    let argv = command.iter().map(|word| word.replace(PLACE, instructions)).collect();
    let written = command.iter().any(|word| word.contains(PLACE));
    let stdin = if written { Vec::new() } else { instructions.as_bytes().to_vec() };
    Ok(Program { argv, stdin, trusted: true })
}

/// What the processes of a run find in their environment beside the container's.
pub(in crate::app) fn environment(preparation: &Preparation, run: &RunRow, trusted: bool) -> Environment {
    let mut env = if trusted { preparation.secret_env.clone() } else { Environment::default() };
    env.0.push(("SKEP_RUN_ID".to_owned(), run.id.to_string()));
    env.0.push(("SKEP_JOB".to_owned(), run.job_name.clone()));
    // Together below the 128 KiB that one variable may have: data are bounded where they are raised.
    for (name, value) in [("SKEP_EVENT", &run.event_name), ("SKEP_EVENT_DATA", &run.event_data)] {
        env.0.extend(value.clone().map(|value| (name.to_owned(), value)));
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str, mode: u32) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        interpreter(&path, name)
    }

    #[test]
    fn a_script_is_run_by_itself_by_its_first_line_or_by_its_extension() {
        assert_eq!(file("a", "#!/bin/sh\n", 0o555).unwrap(), Vec::<String>::new());
        assert_eq!(
            file("a.py", "#!/usr/bin/env -S python3 -u\n", 0o444).unwrap(),
            ["/usr/bin/env", "-S python3 -u"]
        );
        for (name, program) in [("a.sh", "bash"), ("a.py", "python3"), ("a.mjs", "node"), ("a.ts", "node")] {
            assert_eq!(file(name, "x", 0o444).unwrap(), [program]);
            assert_eq!(file(name, "x", 0o555).unwrap(), [program], "without `#!` a kernel cannot run it");
        }
        assert_eq!(file("a", "\x7fELF", 0o555).unwrap(), Vec::<String>::new());
        assert!(file("a.txt", "x", 0o444).unwrap_err().contains("make it executable"));
    }
}

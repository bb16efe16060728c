//! `skep resolve`: which skill versions agents get, and why; whether `skep.lock` still says so; and
//! whether what is mounted is what was locked. Works on the files when no supervisor runs.

use super::{
    failure::{FAILED, Failure, Outcome, USAGE},
    hive::{self, Context},
    mounted, offline,
    ui::lines_of,
};
use crate::{
    app::types::{AgentView, LockedView, ResolveView},
    ids::AgentId,
    paths::HivePaths,
    resolver::{self, Lock},
};

/// `skep resolve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this agent [default: all]
    agent: Option<AgentId>,
    /// Show who asked for what
    #[arg(long)]
    explain: bool,
    /// Compare what is mounted into the agents with skep.lock, file by file
    #[arg(long, conflicts_with = "locked")]
    check: bool,
    /// Fail when skep.lock would change
    #[arg(long)]
    locked: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Outcome {
    if args.check {
        let hive = context.hive()?;
        return mounted::run(context, &hive, &read_lock(&hive)?, args.agent.as_ref(), args.json);
    }
    let views = views(context, args).await?;
    if args.json {
        context.ui.json(&views)?;
    } else {
        for (number, view) in views.iter().enumerate() {
            show(context, view, number > 0)?;
        }
    }
    if views.iter().any(|view| view.error.is_some()) {
        return Ok(FAILED);
    }
    if args.locked {
        let changed = changes(&read_lock(&context.hive()?)?, &views);
        if !changed.is_empty() {
            return Err(Failure { details: changed, ..Failure::new("skep.lock would change:") }
                .help("`skep up` or `skep update` writes it; then commit it"));
        }
    }
    Ok(0)
}

async fn views(context: &Context, args: &Args) -> Result<Vec<ResolveView>, Failure> {
    let runs = match &context.host {
        Some(_) => true,
        None => hive::supervisor(&context.hive()?)?.is_some(),
    };
    if !runs {
        return from_files(context, &context.hive()?, args);
    }
    let client = context.client()?;
    let agents = match &args.agent {
        Some(agent) => vec![agent.to_string()],
        None => client.list::<AgentView>("/v1/agents", &[]).await?.into_iter().map(|a| a.id).collect(),
    };
    let mut views = Vec::new();
    for agent in agents {
        let explain = if args.explain { "true" } else { "false" };
        views.push(client.get(&format!("/v1/agents/{agent}/resolve"), &[("explain", explain)]).await?);
    }
    Ok(views)
}

fn from_files(context: &Context, hive: &HivePaths, args: &Args) -> Result<Vec<ResolveView>, Failure> {
    let config = context.config(hive)?.config;
    let lock = read_lock(hive)?;
    let skills = offline::read(hive, &config, &lock, false);
    for fault in &skills.faults {
        context.ui.warn(fault.to_string());
    }
    if let Some(agent) = args.agent.as_ref().filter(|a| !config.agents.contains_key(*a)) {
        return Err(Failure::new(format!("skep.toml has no agent {agent}")));
    }
    let wanted = config.agents.values().filter(|a| args.agent.as_ref().is_none_or(|only| *only == a.id));
    let mut views = Vec::new();
    for agent in wanted {
        let name = Some(agent.id.to_string());
        views.push(match skills.resolve(agent, lock.agents.get(&agent.id)) {
            Ok(resolution) => ResolveView {
                agent: name,
                locked: locked(&resolution.locked()),
                explanation: args.explain.then(|| resolver::explain(&resolution)),
                warnings: resolution.warnings,
                error: None,
            },
            Err(conflict) => ResolveView {
                agent: name,
                locked: Vec::new(),
                warnings: Vec::new(),
                error: Some(conflict.to_string()),
                explanation: None,
            },
        });
    }
    Ok(views)
}

fn locked(skills: &resolver::LockedAgent) -> Vec<LockedView> {
    let view = |(id, locked): (&crate::ids::SkillId, &resolver::Locked)| LockedView {
        id: id.to_string(),
        version: locked.version.to_string(),
        digest: locked.digest.to_string(),
        own: false,
    };
    skills.iter().map(view).collect()
}

fn read_lock(hive: &HivePaths) -> Result<Lock, Failure> {
    offline::lock(hive).map_err(|faults| Failure {
        details: faults.iter().map(ToString::to_string).collect(),
        code: USAGE,
        ..Failure::new("skep.lock cannot be used:")
    })
}

/// What differs between the file and what was resolved, in words.
fn changes(lock: &Lock, views: &[ResolveView]) -> Vec<String> {
    let mut changed = Vec::new();
    for view in views {
        let Some(Ok(agent)) = view.agent.as_deref().map(str::parse::<AgentId>) else { continue };
        let none = resolver::LockedAgent::new();
        let before = locked(lock.agents.get(&agent).unwrap_or(&none));
        for new in view.locked.iter().filter(|new| !new.own && !before.contains(new)) {
            match before.iter().find(|old| old.id == new.id) {
                Some(old) if old.version == new.version => {
                    changed.push(format!("{agent}: {} {} has other content", new.id, new.version));
                }
                Some(old) => changed.push(format!("{agent}: {} {} -> {}", new.id, old.version, new.version)),
                None => changed.push(format!("{agent}: {} {} added", new.id, new.version)),
            }
        }
        for old in before.iter().filter(|old| view.locked.iter().all(|new| new.id != old.id)) {
            changed.push(format!("{agent}: {} {} removed", old.id, old.version));
        }
    }
    changed
}

fn show(context: &Context, view: &ResolveView, gap: bool) -> Result<(), Failure> {
    if gap {
        context.ui.line("")?;
    }
    if let Some(explanation) = &view.explanation {
        // It begins with the agent's name itself.
        context.ui.line(lines_of(explanation.trim_end()))?;
    } else {
        context.ui.line(format!("{}:", view.agent.as_deref().unwrap_or("request")))?;
        for skill in &view.locked {
            let digest = skill.digest.get(..19).unwrap_or(&skill.digest);
            let own = if skill.own { "  its own" } else { "" };
            context.ui.line(format!("  {}@{}  {digest}{own}", skill.id, skill.version))?;
        }
    }
    for warning in &view.warnings {
        context.ui.warn(warning);
    }
    if let Some(error) = &view.error {
        context.ui.failure(&Failure::new(error.clone()));
    }
    Ok(())
}

//! `skep halt` and `skep resume`: the switch that keeps new runs from starting; what runs goes on to its end.

use serde_json::json;

use super::{
    ask,
    failure::{FAILED, Outcome},
    hive::Context,
    when::Clock,
};
use crate::{app::job_types::HaltView, ids::AgentId};

/// `skep halt`.
#[derive(Debug, clap::Args)]
pub struct HaltArgs {
    /// Only this agent [default: the whole hive]
    agent: Option<AgentId>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `skep resume`.
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    /// Only this agent [default: the whole hive]
    agent: Option<AgentId>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn halt(context: &Context, args: &HaltArgs) -> Outcome {
    // A script that halts is in no position to answer, and a halt is easily lifted.
    let asks = args.agent.is_none() && !args.yes && ask::possible();
    let question = "No run of any agent starts until `skep resume`; what runs goes on. Halt the hive?";
    if asks && !ask::sure(context, "halt", question)? {
        return Ok(FAILED);
    }
    let view: HaltView =
        context.client()?.exchange("/v1/halt", &json!({ "agent": args.agent.as_ref() })).await?;
    if args.json {
        context.ui.json(&view)?;
        return Ok(0);
    }
    context.ui.line(halted(args.agent.as_ref(), &view))?;
    Ok(0)
}

pub(super) async fn resume(context: &Context, args: &ResumeArgs) -> Outcome {
    let view: HaltView =
        context.client()?.exchange("/v1/resume", &json!({ "agent": args.agent.as_ref() })).await?;
    if args.json {
        context.ui.json(&view)?;
        return Ok(0);
    }
    context.ui.line(resumed(args.agent.as_ref(), &view))?;
    for still in still_halted(&view, &Clock::here()) {
        context.ui.note(still);
    }
    Ok(0)
}

fn halted(agent: Option<&AgentId>, view: &HaltView) -> String {
    let (whose, lift) = match agent {
        Some(agent) => {
            (format!("agent {agent} is halted: no run of it starts"), format!("skep resume {agent}"))
        }
        None => ("the hive is halted: no run starts".to_owned(), "skep resume".to_owned()),
    };
    let running = match (agent, view.running) {
        (Some(_), _) => "what runs goes on to its end".to_owned(),
        (None, 0) => "nothing runs now".to_owned(),
        (None, 1) => "a run goes on to its end (`skep run list --status running`)".to_owned(),
        (None, n) => format!("{n} runs go on to their ends (`skep run list --status running`)"),
    };
    format!("{whose} until `{lift}`; {running}")
}

fn resumed(agent: Option<&AgentId>, view: &HaltView) -> String {
    match (agent, &view.hive) {
        (Some(agent), None) => format!("agent {agent} runs what is due again"),
        (Some(agent), Some(_)) => format!("agent {agent} is not halted by itself any more"),
        (None, _) => "the hive runs what is due again".to_owned(),
    }
}

/// That nothing starts, and how to lift it.
pub(super) fn hive_is_halted(since: &str, clock: &Clock) -> String {
    format!(
        "the hive is halted since {}, so that no run starts: lift it with `skep resume`",
        clock.wall(since)
    )
}

/// What is halted still, and how to lift it.
fn still_halted(view: &HaltView, clock: &Clock) -> Vec<String> {
    let hive = view.hive.as_deref().map(|since| hive_is_halted(since, clock));
    let agents = view.agents.iter().map(|(agent, since)| {
        format!("agent {agent} is halted since {}: lift it with `skep resume {agent}`", clock.wall(since))
    });
    hive.into_iter().chain(agents).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(hive: bool, agents: &[&str], running: usize) -> HaltView {
        let since = "2026-01-02T05:00:00Z".to_owned();
        HaltView {
            hive: hive.then(|| since.clone()),
            agents: agents.iter().map(|agent| ((*agent).to_owned(), since.clone())).collect(),
            running,
        }
    }

    #[test]
    fn a_halt_tells_what_goes_on_and_how_to_lift_it() {
        let writer: AgentId = "writer".parse().unwrap();
        insta::assert_snapshot!([
            halted(None, &view(true, &[], 2)),
            halted(None, &view(true, &[], 0)),
            halted(Some(&writer), &view(false, &["writer"], 1)),
        ].join("\n"), @r"
        the hive is halted: no run starts until `skep resume`; 2 runs go on to their ends (`skep run list --status running`)
        the hive is halted: no run starts until `skep resume`; nothing runs now
        agent writer is halted: no run of it starts until `skep resume writer`; what runs goes on to its end
        ");
    }

    #[test]
    fn what_is_halted_still_is_told_when_something_is_resumed() {
        let writer: AgentId = "writer".parse().unwrap();
        let clock = Clock { now: "2026-01-02T06:00:00Z".parse().unwrap(), zone: jiff::tz::TimeZone::UTC };
        let both = view(true, &["writer"], 0);
        let told = [vec![resumed(Some(&writer), &both), resumed(None, &both)], still_halted(&both, &clock)];
        insta::assert_snapshot!(told.concat().join("\n"), @r"
        agent writer is not halted by itself any more
        the hive runs what is due again
        the hive is halted since Fri 05:00, so that no run starts: lift it with `skep resume`
        agent writer is halted since Fri 05:00: lift it with `skep resume writer`
        ");
    }
}

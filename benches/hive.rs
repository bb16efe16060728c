//! What a whole hive costs, on a real engine: starts, processes, memory, restarts of the supervisor.
//!
//! Each figure stands beside its peer, measured in turns with it. Nothing is asserted here: the table says
//! `reached` or `missed`. Scaled down by the environment, see `support/load.rs`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use support::{
    Result, docker,
    hive::Hive,
    load::Load,
    machine::{self, mib},
    peer::Peer,
    stats::Samples,
    table::Table,
};

/// After a change, before something counts as idle.
const SETTLE: Duration = Duration::from_secs(3);

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> ExitCode {
    support::run(async |table| measure(Load::read(), table).await).await
}

async fn measure(load: Load, table: &mut Table) -> Result<()> {
    one_agent(load, table).await?;
    many_agents(load, table).await
}

async fn one_agent(load: Load, table: &mut Table) -> Result<()> {
    let mut hive = Hive::new("b1-", 1)?;
    hive.up()?;
    let agent = Hive::agent(0);
    hive.until(&agent, "running").await?;
    tokio::time::sleep(SETTLE).await;
    supervisor_memory(&hive, 1, table)?;
    let peer = Peer::like(&hive.container(&agent))?;
    starts(&hive, &agent, &peer, load, table).await?;
    processes(&hive, &agent, load, table).await?;
    let middle = load.agents / 4;
    hive.configure(middle)?;
    hive.all_running(middle).await?;
    tokio::time::sleep(SETTLE).await;
    supervisor_memory(&hive, middle, table)
}

/// From the request until the init is connected, in turns with the peers.
async fn starts(hive: &Hive, agent: &str, peer: &Peer, load: Load, table: &mut Table) -> Result<()> {
    let [mut ours, mut program, mut raw] = [const { Samples::new() }; 3];
    for _ in 0..load.starts {
        hive.post(&format!("/v1/agents/{agent}/stop"), None).await?;
        hive.until(agent, "stopped").await?;
        let began = Instant::now();
        hive.post(&format!("/v1/agents/{agent}/start"), None).await?;
        hive.until(agent, "running").await?;
        ours.since(began);

        let began = Instant::now();
        let container = peer.run()?;
        program.since(began);
        docker(&["rm", "-f", &container])?;

        let began = Instant::now();
        let container = peer.run_raw().await?;
        raw.since(began);
        docker(&["rm", "-f", &container])?;
    }
    let aim = Some((1.15, "<= 1.15"));
    let name = format!("start of an agent, median of {}", ours.count());
    table.ratio(&name, ours.median(), ("docker run -d", program.median()), aim);
    table.ratio(&name, ours.median(), ("create + start, bare API", raw.median()), None);
    Ok(())
}

/// `true` in a running agent: several by ours, one by the peer, in turns.
/// For the engine to finish with an exec that it has answered.
const AFTERMATH: Duration = Duration::from_millis(100);

async fn processes(hive: &Hive, agent: &str, load: Load, table: &mut Table) -> Result<()> {
    let container = hive.container(agent);
    let [mut ours, mut program] = [const { Samples::new() }; 2];
    hive.exec_true(agent).await?;
    Peer::exec_true(&container)?;
    for _ in 0..load.execs.div_ceil(5) {
        for _ in 0..5 {
            let began = Instant::now();
            hive.exec_true(agent).await?;
            ours.since(began);
        }
        let began = Instant::now();
        Peer::exec_true(&container)?;
        program.since(began);
        // The engine tidies up after each exec of its own; that work is not ours to be charged with.
        tokio::time::sleep(AFTERMATH).await;
    }
    for (percent, most, aim) in [(50, 1.0 / 25.0, "<= 1/25"), (99, 1.0 / 10.0, "<= 1/10")] {
        let name = format!("process in an agent, p{percent} of {}", ours.count());
        let peer = ("docker exec", program.percentile(percent));
        table.ratio(&name, ours.percentile(percent), peer, Some((most, aim)));
    }
    Ok(())
}

async fn many_agents(load: Load, table: &mut Table) -> Result<()> {
    let mut hive = Hive::new("b2-", load.agents / 2)?;
    at_once(&mut hive, load, table).await?;
    hive.configure(load.agents)?;
    hive.all_running(load.agents).await?;
    tokio::time::sleep(SETTLE).await;
    supervisor_memory(&hive, load.agents, table)?;
    init_memory(&hive, load.agents, table)?;
    idle(&hive, load, table).await?;
    restarts(&mut hive, load, table).await
}

/// Half of all agents in a hive that was never up, then as many by the peer.
async fn at_once(hive: &mut Hive, load: Load, table: &mut Table) -> Result<()> {
    let count = load.agents / 2;
    let began = Instant::now();
    hive.up()?;
    hive.all_running(count).await?;
    let ours = began.elapsed();
    let peer = Peer::like(&hive.container(&Hive::agent(0)))?;
    let began = Instant::now();
    peer.run_many(count, load.at_once)?;
    let theirs = began.elapsed();
    peer.clear()?;
    let name = format!("{count} agents at once, from `up`");
    let loop_name = format!("docker run -d, {} at a time", load.at_once);
    table.ratio(&name, ours, (&loop_name, theirs), None);
    Ok(())
}

fn supervisor_memory(hive: &Hive, agents: usize, table: &mut Table) -> Result<()> {
    let memory = hive.memory()?;
    let shown = format!("{} ({} PSS)", mib(memory.rss), mib(memory.pss));
    let aim = (agents >= 200).then_some((memory.rss < 40 << 20, "< 40 MiB"));
    table.figure(&format!("supervisor's memory, idle, agents: {agents}"), shown, aim);
    Ok(())
}

/// The largest of all inits.
fn init_memory(hive: &Hive, agents: usize, table: &mut Table) -> Result<()> {
    let names: Vec<String> = (0..agents).map(|n| hive.container(&Hive::agent(n))).collect();
    let arguments: Vec<&str> =
        ["inspect", "-f", "{{.State.Pid}}"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut most = machine::Memory::default();
    for pid in docker(&arguments)?.lines() {
        let memory = machine::memory(pid.parse()?)?;
        most.rss = most.rss.max(memory.rss);
        most.pss = most.pss.max(memory.pss);
    }
    let shown = format!("{} ({} PSS)", mib(most.rss), mib(most.pss));
    let reached = most.rss < 3 << 19;
    table.figure(&format!("an init's memory, largest of {agents}"), shown, Some((reached, "< 1.5 MiB")));
    Ok(())
}

async fn idle(hive: &Hive, load: Load, table: &mut Table) -> Result<()> {
    let (began, before) = (Instant::now(), machine::cpu(hive.pid())?);
    tokio::time::sleep(Duration::from_secs(load.idle as u64)).await;
    let used = machine::cpu(hive.pid())?.saturating_sub(before);
    let percent = 100.0 * used.as_secs_f64() / began.elapsed().as_secs_f64();
    let name = format!("supervisor's processor use, idle, {} s, agents: {}", load.idle, load.agents);
    table.figure(&name, format!("{percent:.2} %"), Some((percent < 0.5, "< 0.5 %")));
    Ok(())
}

async fn restarts(hive: &mut Hive, load: Load, table: &mut Table) -> Result<()> {
    let mut ours = Samples::new();
    for _ in 0..load.restarts {
        hive.kill()?;
        let began = Instant::now();
        hive.up()?;
        hive.all_running(load.agents).await?;
        ours.since(began);
    }
    let reached = ours.median() < Duration::from_secs(2);
    let name = format!("restart of the supervisor, agents: {}, median of {}", load.agents, ours.count());
    table.figure(&name, support::stats::show(ours.median()), Some((reached, "< 2 s")));
    tokio::time::sleep(SETTLE).await;
    supervisor_memory(hive, load.agents, table)
}

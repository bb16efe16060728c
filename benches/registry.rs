//! What the registry costs: publishing, reading, searching, what agents write, swapping, starting with many skills.
//!
//! Each figure stands beside its peer where there is one. Nothing is asserted here: the table says `reached` or
//! `missed`. Scaled down by SKEP_BENCH_SKILLS, SKEP_BENCH_VERSIONS, SKEP_BENCH_AGENTS and SKEP_BENCH_SECONDS.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{
    fs,
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use support::{
    Result, docker,
    hive::Hive,
    load::scale,
    machine::{self, mib},
    nginx::Nginx,
    stats::{Samples, show},
    table::Table,
    web,
};

const WORDS: [&str; 24] = [
    "weekly",
    "report",
    "invoice",
    "calendar",
    "pricing",
    "customer",
    "deploy",
    "backup",
    "translate",
    "summary",
    "forecast",
    "inventory",
    "meeting",
    "travel",
    "receipt",
    "contract",
    "ticket",
    "release",
    "metrics",
    "survey",
    "newsletter",
    "garden",
    "recipe",
    "archive",
];
/// Connections that read at the same time.
const READERS: usize = 8;
/// Publishers at the same time.
const PUBLISHERS: usize = 8;
/// Skills that are written in containers.
const WRITTEN: usize = 100;

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> ExitCode {
    support::run(measure).await
}

async fn measure(table: &mut Table) -> Result<()> {
    many_skills(table).await?;
    many_agents(table).await
}

/// A small skill of one version, as an archive.
fn archive(n: usize, version: usize) -> Result<Vec<u8>> {
    let word = |k: usize| WORDS[(n * 7 + k * 5 + n / 24) % WORDS.len()];
    let (a, b, c) = (word(0), word(1), word(2));
    let text = format!(
        "---\nname: skill-{n:05}\ndescription: Does the {a} {b} of department {n}\nmetadata:\n  version: 1.{version}.0\n  \
         tags: {c}\n---\n\n# The {a} {b}\n\nWrite the {c} in order {version}, then check the {a} against the {b}.\n"
    );
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, format!("skill-{n:05}/SKILL.md"), text.as_bytes())?;
    Ok(tar.into_inner()?.finish()?)
}

async fn many_skills(table: &mut Table) -> Result<()> {
    let (skills, versions) = (scale("SKEP_BENCH_SKILLS", 10_000), scale("SKEP_BENCH_VERSIONS", 5));
    let port = machine::free_port()?;
    let mut hive = Hive::new("r-", 1)?;
    hive.listen(port)?;
    hive.up()?;
    hive.until("a000", "running").await?;
    publish(&hive, skills, versions, table).await?;
    search(&hive, skills, table).await?;
    reads(&hive, port, table).await?;
    start_up(&mut hive, skills, versions, table).await
}

/// Every skill in every version; each answer means that it is on the disk.
async fn publish(hive: &Hive, skills: usize, versions: usize, table: &mut Table) -> Result<()> {
    let began = Instant::now();
    let mut first = Duration::ZERO;
    for version in 0..versions {
        let sent = (0..skills).map(|n| async move { hive.publish(archive(n, version)?).await });
        stream::iter(sent).buffer_unordered(PUBLISHERS).try_for_each(|_| async { Ok(()) }).await?;
        if version == 0 {
            first = began.elapsed();
        }
    }
    let rate = |count: usize, time: Duration| count as f64 / time.as_secs_f64();
    let one = rate(skills, first);
    table.figure(
        &format!("publish {skills} small skills, {PUBLISHERS} at a time, each durable"),
        format!("{one:.0} a second"),
        Some((one >= 500.0, ">= 500 a second")),
    );
    let all = rate(skills * versions, began.elapsed());
    table.figure(&format!("publish {versions} versions of each"), format!("{all:.0} a second"), None);
    Ok(())
}

async fn search(hive: &Hive, skills: usize, table: &mut Table) -> Result<()> {
    let mut times = Samples::new();
    for n in 0..400 {
        let (a, b) = (WORDS[n % WORDS.len()], WORDS[(n * 11 + 3) % WORDS.len()]);
        let query = if n % 2 == 0 { a.to_owned() } else { format!("{a}%20{b}") };
        let began = Instant::now();
        let page = hive.get(&format!("/v1/skills?q={query}&limit=20")).await?;
        times.since(began);
        if n % 2 == 0 && page["items"].as_array().is_none_or(Vec::is_empty) {
            return Err(format!("nothing is found for {query}").into());
        }
    }
    for (percent, aim) in [(50, None), (99, Some(5))] {
        let time = times.percentile(percent);
        let aim = aim.map(|ms| (time < Duration::from_millis(ms), "< 5 ms"));
        table.figure(
            &format!("search over {skills} skills, p{percent} of {}", times.count()),
            show(time),
            aim,
        );
    }
    Ok(())
}

/// One skill over and over, from one core's worth of server; nginx serves the same bytes from the same core.
async fn reads(hive: &Hive, port: u16, table: &mut Table) -> Result<()> {
    let seconds = Duration::from_secs(scale("SKEP_BENCH_SECONDS", 10) as u64);
    let token = hive.token()?;
    let path = "/v1/skills/skill-00007";
    let bytes = serde_json::to_vec(&hive.get(path).await?)?;
    let nginx = Nginx::start(machine::free_port()?)?;
    nginx.serve("skill.json", &bytes)?;
    web::pin(std::process::id(), 1)?;
    let measured = || -> Result<_> {
        web::pin(hive.pid(), 0)?;
        let ours = web::busy(port, path, &token, READERS, seconds)?;
        for pid in nginx.pids()? {
            web::pin(pid, 0)?;
        }
        Ok((ours, web::busy(nginx.port, "/skill.json", "-", READERS, seconds)?))
    };
    let measured = tokio::task::block_in_place(measured);
    web::unpin(std::process::id())?;
    web::unpin(hive.pid())?;
    let (ours, theirs) = measured?;
    let each = |rate: f64| Duration::from_secs_f64(1.0 / rate);
    table.ratio(
        &format!("a read of a skill, {} bytes, one core", bytes.len()),
        each(ours.per_second),
        ("nginx, the same bytes", each(theirs.per_second)),
        None,
    );
    let shown = format!("{:.0} a second (nginx {:.0})", ours.per_second, theirs.per_second);
    table.figure(
        "reads of a skill on one core",
        shown,
        Some((ours.per_second >= 10_000.0, ">= 10,000 a second")),
    );
    let slow = ours.times.percentile(99);
    let aim = Some((slow < Duration::from_millis(5), "< 5 ms"));
    table.figure(&format!("the same, p99 of {}", ours.times.count()), show(slow), aim);
    Ok(())
}

async fn start_up(hive: &mut Hive, skills: usize, versions: usize, table: &mut Table) -> Result<()> {
    let mut starts = Samples::new();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        hive.kill()?;
        let began = Instant::now();
        hive.up()?;
        hive.until("a000", "running").await?;
        starts.since(began);
    }
    let name = format!("{skills} skills with {versions} versions");
    let reached = starts.median() < Duration::from_secs(1);
    table.figure(
        &format!("restart until the agent runs, {name}"),
        show(starts.median()),
        Some((reached, "< 1 s")),
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    let memory = hive.memory()?;
    let shown = format!("{} ({} PSS)", mib(memory.rss), mib(memory.pss));
    table.figure(&format!("supervisor's memory, {name}"), shown, Some((memory.rss < 150 << 20, "< 150 MiB")));
    Ok(())
}

async fn many_agents(table: &mut Table) -> Result<()> {
    let agents = scale("SKEP_BENCH_AGENTS", 200);
    let mut hive = Hive::new("w-", agents)?;
    hive.up()?;
    hive.all_running(agents).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    idle(&hive, agents, table).await?;
    written(&hive, agents, table).await?;
    drop(hive);
    swapped(agents / 2, table).await
}

async fn idle(hive: &Hive, agents: usize, table: &mut Table) -> Result<()> {
    let (began, before) = (Instant::now(), machine::cpu(hive.pid())?);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let used = machine::cpu(hive.pid())?.saturating_sub(before);
    let percent = 100.0 * used.as_secs_f64() / began.elapsed().as_secs_f64();
    let name = format!("supervisor's processor use, idle, {agents} agents watched");
    table.figure(&name, format!("{percent:.2} %"), Some((percent < 0.5, "< 0.5 %")));
    Ok(())
}

fn now_micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

/// From the closing write of a SKILL.md in a container to `skill:created` on the stream of events.
async fn written(hive: &Hive, agents: usize, table: &mut Table) -> Result<()> {
    let mut events = Box::pin(hive.events().await?);
    let mut times = Samples::new();
    let mut text = String::new();
    for n in 0..WRITTEN {
        let id = format!("written-{n}");
        let script = format!(
            "mkdir -p /skills/custom/{id} && printf -- '---\\nname: {id}\\ndescription: Written inside\\n---\\nDo it.\\n' \
             > /skills/custom/{id}/SKILL.md; echo $EPOCHREALTIME"
        );
        let body = json!({ "command": ["bash", "-c", script] });
        let path = format!("/v1/agents/{}/exec", Hive::agent(n * 7 % agents));
        let answer = hive.post(&path, Some(&body)).await?;
        let stamp = answer["stdout"].as_str().unwrap_or_default().trim().replace(['.', ','], "");
        let wrote: u128 = stamp.parse().map_err(|_| format!("no stamp: {answer}"))?;
        let told = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                if created(&mut text, &id) {
                    return Ok::<_, Box<dyn std::error::Error>>(now_micros());
                }
                let piece = events.next().await.ok_or("the stream of events ended")??;
                text.push_str(&String::from_utf8_lossy(&piece));
            }
        });
        let told = told.await.map_err(|_| format!("{id} is never announced"))??;
        times.add(Duration::from_micros(u64::try_from(told.saturating_sub(wrote))?));
    }
    for (percent, aim, shown) in [(50, 50, "< 50 ms"), (99, 200, "< 200 ms")] {
        let time = times.percentile(percent);
        table.figure(
            &format!("closing write to skill:created, {agents} agents watched, p{percent} of {WRITTEN}"),
            show(time),
            Some((time < Duration::from_millis(aim), shown)),
        );
    }
    Ok(())
}

/// Whether the creation of this skill was announced; what was read is dropped.
fn created(text: &mut String, id: &str) -> bool {
    while let Some(end) = text.find("\n\n") {
        let event: String = text.drain(..end + 2).collect();
        if event.contains("skill:created") && event.contains(&format!("\"{id}\"")) {
            return true;
        }
    }
    false
}

/// From the request for an update until every agent's container has the new version.
async fn swapped(agents: usize, table: &mut Table) -> Result<()> {
    let mut hive = Hive::new("s-", agents)?;
    hive.up()?;
    hive.until("a000", "running").await?;
    hive.publish(archive(1, 0)?).await?;
    hive.extend("", "skills = [\"skill-00001@^1.0\"]")?;
    hive.all_running(agents).await?;
    until_all(&hive, agents, "1.0.0").await?;
    let mut times = Samples::new();
    for version in 1..=5 {
        hive.publish(archive(1, version)?).await?;
        let began = Instant::now();
        hive.post("/v1/update", Some(&json!({}))).await?;
        until_all(&hive, agents, &format!("1.{version}.0")).await?;
        times.since(began);
    }
    let inside = docker(&["exec", &hive.container("a000"), "readlink", "/skills/skill-00001"])?;
    if !inside.ends_with("@1.5.0") {
        return Err(format!("the container has {inside}").into());
    }
    let reached = times.percentile(99) < Duration::from_secs(1);
    let name = format!("hot swap over {agents} running agents, slowest of {}", times.count());
    table.figure(&name, show(times.percentile(99)), Some((reached, "< 1 s")));
    Ok(())
}

async fn until_all(hive: &Hive, agents: usize, version: &str) -> Result<()> {
    let began = Instant::now();
    let wanted = format!("@{version}");
    let links: Vec<_> = (0..agents)
        .map(|n| hive.root().join(format!(".skep/agents/{}/view/skill-00001", Hive::agent(n))))
        .collect();
    loop {
        let there = |link: &std::path::PathBuf| {
            fs::read_link(link).is_ok_and(|target| target.to_string_lossy().ends_with(&wanted))
        };
        if links.iter().all(there) {
            return Ok(());
        }
        if began.elapsed() > Duration::from_secs(120) {
            return Err(format!("not every agent has {version}").into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

//! Which job is meant: its number, `AGENT/NAME`, or a name that only one agent has.

use crate::{
    app::job_types::JobView,
    cli::{
        client::Client,
        failure::{FAILED, Failure},
    },
    ids::AgentId,
};

/// Of the names that are near to one that nothing has, at most so many edits away.
const NEAR: usize = 3;

/// The job that is meant.
///
/// # Errors
/// None is, or several are; the supervisor does not answer.
pub(in crate::cli) async fn job(client: &Client, written: &str) -> Result<JobView, Failure> {
    if let Ok(id) = written.parse::<i64>() {
        return match client.get(&format!("/v1/jobs/{id}"), &[]).await {
            Err(failure) if failure.status == Some(404) => {
                Err(Failure::new(format!("there is no job {id}")).help("`skep job list` shows the jobs"))
            }
            answer => answer,
        };
    }
    if let Some((agent, name)) = written.split_once('/').filter(|(a, _)| a.parse::<AgentId>().is_ok()) {
        let found = named(client, &[("agent", agent), ("name", name)], name).await?;
        if let Some(job) = found.into_iter().find(|job| job.agent == agent) {
            return Ok(job);
        }
    }
    let mut found = named(client, &[("name", written)], written).await?;
    match (found.pop(), found.is_empty()) {
        (Some(job), true) => Ok(job),
        (Some(last), false) => {
            found.push(last);
            Err(ambiguous(written, &found))
        }
        (None, _) => Err(unknown(client, written).await),
    }
}

/// All the jobs that are meant, each once; a name that does not exist fails before anything is done.
///
/// # Errors
/// As [`job`].
pub(super) async fn jobs(client: &Client, written: &[String]) -> Result<Vec<JobView>, Failure> {
    let mut jobs: Vec<JobView> = Vec::new();
    for name in written {
        let job = job(client, name).await?;
        if jobs.iter().all(|known| known.id != job.id) {
            jobs.push(job);
        }
    }
    Ok(jobs)
}

/// `AGENT/NAME`.
pub(super) fn full_name(job: &JobView) -> String {
    crate::cli::ui::plain(&format!("{}/{}", job.agent, job.name))
}

async fn named(client: &Client, query: &[(&str, &str)], name: &str) -> Result<Vec<JobView>, Failure> {
    match client.list::<JobView>("/v1/jobs", query).await {
        Ok(mut jobs) => {
            jobs.retain(|job| job.name == name);
            Ok(jobs)
        }
        // No such agent: then no such job either.
        Err(failure) if failure.status == Some(404) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

fn ambiguous(name: &str, found: &[JobView]) -> Failure {
    let details = found.iter().map(|job| format!("{} (job {})", full_name(job), job.id)).collect();
    Failure {
        code: FAILED,
        details,
        ..Failure::new(format!("{} agents have a job named {name:?}:", found.len()))
    }
    .help("say which: write AGENT/NAME or the job's number")
}

async fn unknown(client: &Client, written: &str) -> Failure {
    let failure = Failure::new(format!("there is no job {written:?}"));
    let jobs: Vec<JobView> = client.list("/v1/jobs", &[("limit", "1000")]).await.unwrap_or_default();
    let near = jobs
        .iter()
        .flat_map(|job| [full_name(job), job.name.clone()])
        .map(|name| (strsim::damerau_levenshtein(&name, written), name))
        .filter(|(distance, _)| *distance <= NEAR)
        .min();
    match near {
        Some((_, name)) => failure.help(format!("did you mean {name:?}? `skep job list` shows the jobs")),
        None if jobs.is_empty() => {
            failure.help("there are no jobs yet: `skep job add --help` tells how to make one")
        }
        None => failure.help("`skep job list` shows the jobs"),
    }
}

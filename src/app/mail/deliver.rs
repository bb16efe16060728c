//! The postman: puts what waits into inboxes, or wakes its recipient by a run of its job `answer-mail`, one message at
//! a time for each agent.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{answer, files, send::announce};
use crate::{
    app::{Result as AppResult, hive::Hive, world::World},
    db::{
        self, DbError,
        events::Raised,
        jobs::{JobError, JobRow, NewJob, Origin},
        mail::{MailRow, Waiting},
    },
    ids::AgentId,
    mail::{
        JOB, Party, Status,
        letter::{self, INSTRUCTIONS, Letter},
    },
    scheduler::job::{JobNotify, JobSpec, Overlap, TriggerSpec},
    tools::Kind,
};

/// It looks this often, whatever wakes it.
const LOOK: Duration = Duration::from_secs(30);
/// Between two looks, so that many changes cost one.
const REST: Duration = Duration::from_millis(20);
/// What is older and over is forgotten.
const KEPT: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How often that is looked at.
const TIDY: Duration = Duration::from_secs(3600);
/// Messages that are forgotten in one transaction.
const BATCH: u32 = 100;
/// Settling and handing over, one after the other: each may bring work for the other.
const ROUNDS: usize = 64;
/// Further attempts after a run that failed.
const RETRIES: u32 = 2;
/// Tool calls of a run that answers.
const MAX_STEPS: u32 = 30;
/// Bytes of the names of tools, which stand in one environment variable.
const MAX_TOOLS: usize = 48 * 1024;
/// The tools that every answer needs.
const MAIL_TOOLS: [&str; 4] = ["reply_mail", "send_mail", "read_mail", "list_mail"];

/// How a message gets to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The agent looks for itself: it has no command.
    Inbox,
    /// A run answers it.
    Run,
}

/// Delivers mail until the hive stops.
pub async fn run(hive: Arc<Hive>) {
    let mut commits = hive.db.commits();
    let mut tidied: Option<std::time::Instant> = None;
    loop {
        // Before the look, so that what is committed meanwhile wakes it again.
        commits.borrow_and_update();
        if let Err(e) = hive.deliver_mail().await {
            tracing::error!(error = %e, "cannot deliver mail; trying again");
        }
        if tidied.is_none_or(|at| at.elapsed() > TIDY) {
            tidied = Some(std::time::Instant::now());
            if let Err(e) = tidy(&hive).await {
                tracing::warn!(error = %e, "cannot tidy up old mail");
            }
        }
        let woken = async {
            commits.changed().await.ok();
            tokio::time::sleep(REST).await;
        };
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep(LOOK) => {}
            () = hive.stopping.cancelled() => return,
        }
    }
}

async fn tidy(hive: &Arc<Hive>) -> Result<(), DbError> {
    let before = hive.now().checked_sub(KEPT).unwrap_or(Timestamp::MIN);
    while hive.db.write(move |tx| db::mail::prune(tx, before, BATCH)).await? == BATCH as usize {}
    let (used, kept) = (hive.db.read(db::mail::digests).await?, hive.paths.mail());
    if let Ok(Err(e)) = tokio::task::spawn_blocking(move || files::sweep(&kept, &used)).await {
        tracing::warn!(error = %e, "files of mail that is gone cannot be removed");
    }
    Ok(())
}

impl Hive {
    /// Settles what is over and hands over what can be, until nothing moves.
    ///
    /// # Errors
    /// The database fails.
    pub async fn deliver_mail(self: &Arc<Self>) -> AppResult<()> {
        for _ in 0..ROUNDS {
            let (world, now) = (self.world(), self.now());
            let reading = world.clone();
            let (over, next) = self
                .db
                .read(move |conn| {
                    Ok::<_, DbError>((!answer::over(conn, &reading)?.is_empty(), next(conn, &reading, now)?))
                })
                .await?;
            let mut moved = over;
            if over {
                self.db.write(move |tx| answer::settle(tx, &world, now)).await?;
            }
            for (waiting, agent, way) in next {
                moved |= self.hand_over(waiting, &agent, way).await?;
            }
            if !moved {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Hands a message to its agent; false when it has to wait.
    async fn hand_over(self: &Arc<Self>, waiting: Waiting, agent: &AgentId, way: Way) -> AppResult<bool> {
        let id = waiting.mail;
        let Some(mail) = self.db.read(move |conn| db::mail::get(conn, id)).await? else { return Ok(false) };
        let laid = match self.lay_files(&mail, agent).await {
            Ok(laid) => laid,
            // The workspace comes with the agent's first start.
            Err(()) if way == Way::Run => return Ok(false),
            Err(()) => false,
        };
        let tools = if way == Way::Run { self.answering_tools(agent).await } else { Vec::new() };
        let (agent, now) = (agent.clone(), self.now());
        let write = self.db.write(move |tx| {
            if laid {
                db::mail::set_laid(tx, id, &waiting.to)?;
            }
            match way {
                Way::Inbox => arrive(tx, &mail, &waiting.to, now),
                Way::Run => wake(tx, &mail, &agent, tools, now),
            }
        });
        let moved = write.await?;
        self.due.notify_one();
        Ok(moved)
    }

    /// Lays the files of a message into the agent's workspace, if it has a place for them. Fails while there is no
    /// workspace yet.
    async fn lay_files(&self, mail: &MailRow, agent: &AgentId) -> Result<bool, ()> {
        let (Some(workspace), false) = (files::workspace(self, agent), mail.attachments.is_empty()) else {
            return Ok(false);
        };
        let Ok(known) = self.find_agent(agent) else { return Ok(false) };
        let (id, attachments, kept, owner) =
            (mail.id, mail.attachments.clone(), self.paths.mail(), known.user);
        let work = move || files::lay(&workspace, id, &attachments, &kept, owner);
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(())) => Ok(true),
            Ok(Err(e)) if e.kind() == std::io::ErrorKind::NotFound => Err(()),
            Ok(Err(e)) => {
                tracing::warn!(mail = id, %agent, error = %e, "its files cannot be laid into the workspace");
                Ok(false)
            }
            Err(_) => Ok(false),
        }
    }

    /// The tools of a run that answers, unless its job names them: those of the agent's skills, and mail.
    async fn answering_tools(self: &Arc<Self>, agent: &AgentId) -> Vec<String> {
        let mut names: Vec<String> = MAIL_TOOLS.map(str::to_owned).to_vec();
        let all = self.tools(agent).await.unwrap_or_default();
        for tool in all.iter().filter(|tool| tool.kind != Kind::Hive) {
            names.push(tool.name_among(&all));
        }
        if json!(names).to_string().len() > MAX_TOOLS {
            names.truncate(MAIL_TOOLS.len());
        }
        names
    }
}

/// What can be handed over now: all that goes into inboxes, and of each agent that answers one message at a time.
fn next(conn: &db::Conn, world: &World, now: Timestamp) -> Result<Vec<(Waiting, AgentId, Way)>, DbError> {
    let all = db::mail::all_waiting(conn)?;
    let of = |waiting: &Waiting| waiting.to.agent().cloned();
    let mut busy: BTreeSet<AgentId> = all.iter().filter(|w| w.event.is_some()).filter_map(of).collect();
    let mut found = Vec::new();
    for waiting in all.into_iter().filter(|w| w.event.is_none()) {
        let Some(agent) = of(&waiting).filter(|agent| !busy.contains(agent)) else { continue };
        let Some(config) = world.config.agents.get(&agent) else { continue };
        let job = db::jobs::find(conn, &agent, JOB)?;
        let way = match &job {
            _ if config.command.is_none() => Way::Inbox,
            Some(job) if job.spec.tool.is_some() => Way::Inbox,
            Some(job) if !job.enabled || job.backoff_until.is_some_and(|until| until > now) => continue,
            _ => Way::Run,
        };
        if way == Way::Run {
            busy.insert(agent.clone());
        }
        found.push((waiting, agent, way));
    }
    Ok(found)
}

fn arrive(tx: &db::Tx<'_>, mail: &MailRow, to: &Party, now: Timestamp) -> Result<bool, JobError> {
    let moved = db::mail::set_status(tx, mail.id, to, Status::Queued, Status::Delivered, None)?;
    if moved {
        announce(tx, "mail:received", mail, to, None, now)?;
    }
    Ok(moved)
}

/// Queues the run that answers, and with it the event that it finds in its environment.
fn wake(
    tx: &db::Tx<'_>,
    mail: &MailRow,
    agent: &AgentId,
    tools: Vec<String>,
    now: Timestamp,
) -> Result<bool, JobError> {
    let to = Party::Agent(agent.clone());
    let job = match db::jobs::find(tx, agent, JOB)? {
        Some(job) => job,
        None => db::jobs::insert(tx, &the_job(agent), now)?,
    };
    let id = announce(tx, "mail:received", mail, &to, None, now)?;
    if !db::mail::set_event(tx, mail.id, &to, id)? {
        return Ok(false);
    }
    let letter = Letter {
        id: mail.id,
        thread: mail.thread,
        from: &mail.from,
        to: &mail.to,
        sent_at: format!("{:.3}", mail.sent_at),
        subject: &mail.subject,
        body: &mail.body,
        attachments: &mail.attachments,
    };
    let mut spec = job.spec.clone();
    spec.instructions = Some(letter::instructions(spec.instructions.as_deref(), &letter));
    if spec.required_tools.is_empty() {
        spec.required_tools = tools;
    }
    let event =
        Raised { id, at: now, name: "mail:received".to_owned(), job: Some(job.id), depth: mail.depth };
    db::queue::claim_event(tx, &JobRow { spec, ..job }, &event, now)?;
    Ok(true)
}

/// The job by which an agent answers its mail; the operator may change it like any other.
fn the_job(agent: &AgentId) -> NewJob {
    let spec = JobSpec {
        description:
            "Answers mail: a run for each message. Unlike other jobs, without required tools it may call all that the agent \
             has."
                .to_owned(),
        instructions: Some(INSTRUCTIONS.to_owned()),
        max_steps: MAX_STEPS,
        overlap: Overlap::Queue,
        retries: RETRIES,
        notify: JobNotify { on_completion: false, ..JobNotify::default() },
        ..JobSpec::new(TriggerSpec::Manual)
    };
    NewJob {
        agent: agent.clone(),
        name: JOB.to_owned(),
        origin: Origin::Api,
        spec,
        disabled_reason: None,
        auto_enable: false,
        next: None,
    }
}

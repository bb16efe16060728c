//! A hive in memory, for the tests of the HTTP edge until the real one is merged.
#![allow(missing_docs)]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::types::*;
use crate::{
    ids::{AgentId, SecretName, SkillId, SkillRef},
    secrets::SecretValue,
    supervisor::state::Status,
};

pub type Result<T> = std::result::Result<T, AppError>;

pub struct Attached {
    pub events: mpsc::Receiver<AttachOutput>,
    pub input: mpsc::Sender<AttachInput>,
}

pub enum AttachOutput {
    Started(i32),
    Stdout(Bytes),
    Stderr(Bytes),
    Exited(i32),
    Failed(String),
}

pub enum AttachInput {
    Stdin(Bytes),
    Eof,
    Resize(TtySize),
    Signal(i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStream {
    Stdout,
    Stderr,
}

#[derive(Debug, Clone)]
pub struct LogRequest {
    pub follow: bool,
    pub tail: Option<usize>,
    pub timestamps: bool,
    pub stream: Option<LogStream>,
}

#[derive(Debug, Clone, Default)]
pub struct SkillFilter {
    pub owner: Option<String>,
    pub tag: Option<String>,
    pub q: Option<String>,
    pub include_disabled: bool,
}

#[derive(Default)]
struct Inner {
    stopped: bool,
    soul: String,
    secrets: BTreeMap<SecretName, SecretValue>,
}

pub struct Hive {
    inner: Mutex<Inner>,
    /// Counts the attached processes that live.
    pub attached: Arc<()>,
    pub shut: Mutex<Option<bool>>,
}

impl Hive {
    pub fn stub() -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), attached: Arc::new(()), shut: Mutex::new(None) })
    }

    pub fn view(&self) -> HiveView {
        HiveView {
            name: "demo".into(),
            root: "/hive".into(),
            version: "0.1.0".into(),
            pid: 1,
            started_at: "2026-01-01T00:00:00Z".into(),
            engine: "ok".into(),
            config_faults: vec![],
            warnings: vec![],
            progress: vec![],
        }
    }

    fn one(&self, id: &str) -> AgentView {
        let stopped = self.inner.lock().map(|i| i.stopped).unwrap_or_default();
        AgentView {
            id: id.into(),
            description: String::new(),
            status: if stopped { Status::Stopped } else { Status::Running },
            reason: None,
            image: "skep-agent:latest".into(),
            skills: vec![],
            missing_secrets: vec![],
            warnings: vec![],
            container_id: None,
            started_at: None,
            restarts: 2,
            main: None,
            network: "none".into(),
            memory: 1,
            disk_used: None,
        }
    }

    fn known(id: &AgentId) -> Result<()> {
        if ["reader", "writer", "zoe"].contains(&id.as_str()) {
            Ok(())
        } else {
            Err(AppError::NotFound(format!("there is no agent {id}")))
        }
    }

    pub async fn agents(&self) -> Vec<AgentView> {
        vec![self.one("writer"), self.one("reader"), self.one("zoe")]
    }

    pub async fn agent(&self, id: &AgentId) -> Result<AgentView> {
        Self::known(id)?;
        Ok(self.one(id.as_str()))
    }

    fn stop(&self, id: &AgentId, stopped: bool) -> Result<()> {
        Self::known(id)?;
        if let Ok(mut i) = self.inner.lock() {
            i.stopped = stopped;
        }
        Ok(())
    }

    pub async fn start_agent(&self, id: &AgentId) -> Result<()> {
        self.stop(id, false)
    }

    pub async fn stop_agent(&self, id: &AgentId) -> Result<()> {
        self.stop(id, true)
    }

    pub async fn restart_agent(&self, id: &AgentId) -> Result<()> {
        self.stop(id, false)
    }

    pub async fn prompt(&self, id: &AgentId) -> Result<String> {
        Self::known(id)?;
        Ok("# Prompt\n".into())
    }

    pub async fn soul(&self, id: &AgentId) -> Result<String> {
        Self::known(id)?;
        Ok(self.inner.lock().map(|i| i.soul.clone()).unwrap_or_default())
    }

    pub async fn set_soul(&self, id: &AgentId, text: &str) -> Result<()> {
        Self::known(id)?;
        if let Ok(mut i) = self.inner.lock() {
            i.soul = text.into();
        }
        Ok(())
    }

    pub async fn exec(&self, id: &AgentId, request: ExecRequest) -> Result<ExecResult> {
        Self::known(id)?;
        if request.command.is_empty() {
            return Err(AppError::Invalid {
                detail: "there is no command".into(),
                errors: vec![("/command".into(), "name a program".into())],
            });
        }
        if request.command[0] == "panic" {
            panic!("asked to");
        }
        if request.command[0] == "internal" {
            return Err(AppError::Internal("the disk is full of bees".into()));
        }
        Ok(ExecResult {
            exit_code: 0,
            stdout: request.stdin.unwrap_or_default(),
            stderr: String::new(),
            truncated: false,
            duration_ms: 1,
            timed_out: false,
            oom: false,
        })
    }

    pub async fn attach(&self, id: &AgentId, request: AttachRequest) -> Result<Attached> {
        Self::known(id)?;
        if request.command.first().is_some_and(|c| c == "missing") {
            return Err(AppError::Conflict("no such program".into()));
        }
        let (out, events) = mpsc::channel(4);
        let (input, mut inputs) = mpsc::channel(4);
        let alive = self.attached.clone();
        tokio::spawn(async move {
            let _alive = alive;
            if out.send(AttachOutput::Started(7)).await.is_err() {
                return;
            }
            while let Some(input) = inputs.recv().await {
                let answer = match input {
                    AttachInput::Stdin(b) => AttachOutput::Stdout(b),
                    AttachInput::Resize(s) => AttachOutput::Stderr(format!("{}x{}", s.rows, s.cols).into()),
                    AttachInput::Signal(s) => AttachOutput::Exited(128 + s),
                    AttachInput::Eof => AttachOutput::Exited(0),
                };
                let last = matches!(answer, AttachOutput::Exited(_));
                if out.send(answer).await.is_err() || last {
                    return;
                }
            }
        });
        Ok(Attached { events, input })
    }

    pub async fn logs(&self, id: &AgentId, request: LogRequest) -> Result<mpsc::Receiver<Bytes>> {
        Self::known(id)?;
        let (out, lines) = mpsc::channel(2);
        let alive = self.attached.clone();
        tokio::spawn(async move {
            let _alive = alive;
            for n in 0..request.tail.unwrap_or(3) {
                if out.send(format!("line {n}\n").into()).await.is_err() {
                    return;
                }
            }
            while request.follow && out.send("more\n".into()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Ok(lines)
    }

    pub async fn skills(&self, filter: SkillFilter) -> Result<Vec<SkillView>> {
        Ok(["basic-tools", "cron-tools", "mail-tools"]
            .into_iter()
            .filter(|s| filter.q.as_ref().is_none_or(|q| s.contains(q.as_str())))
            .map(|id| SkillView {
                id: id.into(),
                name: id.into(),
                title: id.into(),
                description: String::new(),
                tags: vec![],
                owner: "built-in".into(),
                source: "built-in".into(),
                versions: vec![],
                latest_version: None,
                used_by: vec![],
                enabled: true,
                trust: "trusted".into(),
                registered_at: "2026-01-01T00:00:00Z".into(),
                updated_at: "2026-01-01T00:00:00Z".into(),
            })
            .collect())
    }

    pub async fn skill(&self, id: &SkillId) -> Result<SkillView> {
        let found = self.skills(SkillFilter::default()).await?.into_iter().find(|s| s.id == id.as_str());
        found.ok_or_else(|| AppError::NotFound(format!("there is no skill {id}")))
    }

    pub async fn resolve(
        &self,
        agent: Option<&AgentId>,
        skills: &[SkillRef],
        explain: bool,
    ) -> Result<ResolveView> {
        if let Some(agent) = agent {
            Self::known(agent)?;
        }
        if skills.iter().any(|s| s.id.as_str() == "nothing") {
            return Err(AppError::Conflict("nothing provides nothing".into()));
        }
        Ok(ResolveView {
            agent: agent.map(ToString::to_string),
            locked: vec![],
            warnings: vec![],
            error: None,
            explanation: explain.then(|| "tree".into()),
        })
    }

    pub async fn update(&self, request: UpdateRequest) -> Result<Vec<ChangeView>> {
        Ok(request
            .agents
            .into_iter()
            .map(|agent| ChangeView { agent, id: "a".into(), from: None, to: None })
            .collect())
    }

    pub async fn secrets(&self) -> Result<Vec<SecretView>> {
        let names: Vec<_> = self
            .inner
            .lock()
            .map(|i| i.secrets.keys().map(ToString::to_string).collect())
            .unwrap_or_default();
        Ok(names.into_iter().map(|name| SecretView { name, set: true, used_by: BTreeMap::new() }).collect())
    }

    pub async fn set_secret(&self, name: &SecretName, value: SecretValue) -> Result<Vec<String>> {
        if let Ok(mut i) = self.inner.lock() {
            i.secrets.insert(name.clone(), value);
        }
        Ok(vec![])
    }

    pub async fn remove_secret(&self, name: &SecretName) -> Result<()> {
        let gone = self.inner.lock().ok().and_then(|mut i| i.secrets.remove(name));
        gone.map(drop).ok_or_else(|| AppError::NotFound(format!("there is no secret {name}")))
    }

    pub async fn ready(&self) -> std::result::Result<(), String> {
        match self.shut.lock() {
            Ok(s) if s.is_some() => Err("it is shutting down".into()),
            _ => Ok(()),
        }
    }

    pub async fn doctor(&self) -> Vec<Finding> {
        vec![]
    }

    pub fn shutdown(&self, stop_agents: bool) {
        if let Ok(mut s) = self.shut.lock() {
            *s = Some(stop_agents);
        }
    }
}

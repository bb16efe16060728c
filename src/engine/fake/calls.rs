//! The fake engine's side of the trait: the same states and errors as the real one's.
//!
//! Every call is recorded and may fail as scripted before it does anything.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{FakeEngine, Op, stopped};
use crate::engine::{
    ContainerSpec, ContainerState, Engine, EngineError, EngineEvent, EngineInfo, ImageBuild, ImageInfo,
    Inspected, LABEL_HIVE, LABEL_SPEC, Listed, NetworkSpec, Result,
};

#[async_trait]
impl Engine for FakeEngine {
    async fn info(&self) -> Result<EngineInfo> {
        drop(self.called(Op::Info, "info".to_owned())?);
        Ok(EngineInfo {
            version: "0.0.0-fake".to_owned(),
            api_version: "1.41".to_owned(),
            runtimes: vec!["runc".to_owned()],
            runtime_version: None,
            storage_driver: "memory".to_owned(),
            cgroup_version: "2".to_owned(),
            security_options: vec!["name=seccomp,profile=default".to_owned()],
            warnings: Vec::new(),
        })
    }

    async fn list(&self, hive: &str) -> Result<Vec<Listed>> {
        let state = self.called(Op::List, format!("list {hive}"))?;
        let mine = state
            .containers
            .values()
            .filter(|c| c.spec.labels.get(LABEL_HIVE).map(String::as_str) == Some(hive));
        let listed = mine.map(|c| {
            let mut labels = c.spec.labels.clone();
            labels.insert(LABEL_SPEC.to_owned(), c.label.clone());
            Listed {
                id: c.id.clone(),
                name: c.spec.name.clone(),
                labels,
                running: c.state.running,
                paused: c.state.paused,
            }
        });
        Ok(listed.collect())
    }

    async fn inspect(&self, container: &str) -> Result<Inspected> {
        let mut state = self.called(Op::Inspect, format!("inspect {container}"))?;
        let c = state.find(container)?;
        Ok(Inspected {
            id: c.id.clone(),
            state: c.state.clone(),
            spec: c.spec.clone(),
            spec_label: Some(c.label.clone()),
            weaknesses: c.weaknesses.clone(),
        })
    }

    async fn create(&self, spec: &ContainerSpec, spec_hash: &str) -> Result<String> {
        let mut state = self.called(Op::Create, format!("create {}", spec.name))?;
        let id = state.make(spec, spec_hash)?;
        if state.lose_create > 0 {
            state.lose_create -= 1;
            return Err(EngineError::Unavailable("the answer was lost".to_owned()));
        }
        drop(state);
        self.change(&id, "create", |_| {});
        Ok(id)
    }

    async fn start(&self, container: &str) -> Result<()> {
        let mut state = self.called(Op::Start, format!("start {container}"))?;
        let pid = 1000 + i32::try_from(state.made).unwrap_or(0);
        let already = state.find(container)?.state.running;
        drop(state);
        if !already {
            self.change(container, "start", |c| {
                c.state = ContainerState {
                    running: true,
                    pid,
                    started_at: Some("2026-01-01T00:00:00Z".to_owned()),
                    ..stopped(0)
                };
            });
        }
        Ok(())
    }

    async fn stop(&self, container: &str, _grace: Duration) -> Result<()> {
        let mut state = self.called(Op::Stop, format!("stop {container}"))?;
        let runs = state.find(container)?.state.running;
        drop(state);
        if runs {
            self.exit(container, 143, false);
        }
        Ok(())
    }

    async fn kill(&self, container: &str) -> Result<()> {
        let mut state = self.called(Op::Kill, format!("kill {container}"))?;
        let runs = state.find(container)?.state.running;
        drop(state);
        if runs {
            self.exit(container, 137, false);
        }
        Ok(())
    }

    async fn remove(&self, container: &str) -> Result<()> {
        let mut state = self.called(Op::Remove, format!("remove {container}"))?;
        if let Some(gone) = state.take(container) {
            let event = EngineEvent { container: gone.id, action: "destroy".to_owned() };
            self.events.send(Some(event)).ok();
        }
        Ok(())
    }

    async fn pause(&self, container: &str) -> Result<()> {
        self.with_running(Op::Pause, container, format!("pause {container}"), |c| {
            c.state.paused = true;
        })
    }

    async fn unpause(&self, container: &str) -> Result<()> {
        self.with_running(Op::Unpause, container, format!("unpause {container}"), |c| {
            c.state.paused = false;
        })
    }

    async fn image(&self, reference: &str) -> Result<ImageInfo> {
        let state = self.called(Op::Image, format!("image {reference}"))?;
        let mut all = state.images.iter();
        all.find(|(name, image)| *name == reference || image.id == reference)
            .map(|(_, image)| image.clone())
            .ok_or_else(|| EngineError::NotFound(format!("image {reference}")))
    }

    async fn images(&self, label: &str) -> Result<Vec<ImageInfo>> {
        let state = self.called(Op::Images, format!("images {label}"))?;
        let (key, value) = match label.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (label, None),
        };
        let has = |i: &&ImageInfo| i.labels.get(key).is_some_and(|v| value.is_none_or(|w| w == v));
        Ok(state.images.values().filter(has).cloned().collect())
    }

    async fn remove_image(&self, reference: &str) -> Result<()> {
        let mut state = self.called(Op::RemoveImage, format!("remove_image {reference}"))?;
        let same = |name: &String, i: &ImageInfo| name == reference || i.id == reference;
        let used = |i: &ImageInfo| state.containers.values().any(|c| c.spec.image_id == i.id);
        if state.images.iter().any(|(n, i)| same(n, i) && used(i)) {
            return Err(EngineError::Conflict(format!("image {reference} is in use")));
        }
        state.images.retain(|n, i| !same(n, i));
        Ok(())
    }

    async fn pull(&self, reference: &str, _progress: mpsc::Sender<String>) -> Result<()> {
        let state = self.called(Op::Pull, format!("pull {reference}"))?;
        drop(state);
        Err(EngineError::Refused(format!("pulling {reference}: there is no registry")))
    }

    async fn build(&self, build: ImageBuild, progress: mpsc::Sender<String>) -> Result<()> {
        let mut state = self.called(Op::Build, format!("build {}", build.tag))?;
        state.made += 1;
        let image = ImageInfo {
            id: format!("sha256:{:064x}", state.made),
            tags: vec![build.tag.clone()],
            labels: build.labels,
            ..ImageInfo::default()
        };
        state.images.insert(build.tag, image);
        progress.try_send("Successfully built".to_owned()).ok();
        Ok(())
    }

    async fn probe(&self, image_id: &str, command: &[String], _limit: Duration) -> Result<Option<String>> {
        let text = format!("probe {image_id} {}", command.join(" "));
        let state = self.called(Op::Probe, text)?;
        Ok(state.probes.get(image_id).cloned())
    }

    async fn ensure_network(&self, network: &NetworkSpec) -> Result<()> {
        let text = format!("ensure_network {}", network.name);
        let mut state = self.called(Op::EnsureNetwork, text)?;
        state.networks.insert(network.name.clone(), network.clone());
        Ok(())
    }

    async fn remove_network(&self, name: &str) -> Result<()> {
        let mut state = self.called(Op::RemoveNetwork, format!("remove_network {name}"))?;
        state.networks.remove(name);
        Ok(())
    }

    async fn events(&self, hive: &str, into: mpsc::Sender<EngineEvent>) -> Result<()> {
        drop(self.called(Op::Events, format!("events {hive}"))?);
        let mut events = self.events.subscribe();
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = into.closed() => return Ok(()),
            };
            match event {
                Ok(Some(event)) => {
                    if into.send(event).await.is_err() {
                        return Ok(());
                    }
                }
                // Also when too many passed: a hint was lost, the next listing repairs it.
                Ok(None) | Err(_) => {
                    return Err(EngineError::Unavailable("the event stream ended".to_owned()));
                }
            }
        }
    }
}

//! An engine in memory, for tests of the supervisor's logic: it remembers every call, fails on demand,
//! loses answers, and its containers exit and drift when told.
//!
//! It behaves as the real one does in states and errors; it runs no process.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::broadcast;

use super::{ContainerSpec, ContainerState, EngineError, EngineEvent, ImageInfo, NetworkSpec, Result};

mod calls;

/// A kind of call, to script failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "named as the trait's methods")]
pub enum Op {
    Info,
    List,
    Inspect,
    Create,
    Start,
    Stop,
    Kill,
    Remove,
    Pause,
    Unpause,
    Image,
    Images,
    RemoveImage,
    Pull,
    Build,
    Probe,
    EnsureNetwork,
    RemoveNetwork,
    Events,
}

#[derive(Default)]
struct State {
    containers: BTreeMap<String, Fake>,
    images: BTreeMap<String, ImageInfo>,
    networks: BTreeMap<String, NetworkSpec>,
    probes: BTreeMap<String, String>,
    failures: BTreeMap<Op, VecDeque<EngineError>>,
    calls: Vec<String>,
    outage: bool,
    lose_create: u32,
    made: u64,
}

#[derive(Clone)]
struct Fake {
    id: String,
    spec: ContainerSpec,
    label: String,
    state: ContainerState,
    weaknesses: Vec<String>,
}

/// The engine; share it in an `Arc`.
pub struct FakeEngine {
    state: Mutex<State>,
    /// None breaks the streams.
    events: broadcast::Sender<Option<EngineEvent>>,
}

impl Default for FakeEngine {
    fn default() -> Self {
        Self { state: Mutex::default(), events: broadcast::channel(1024).0 }
    }
}

/// What tests do behind the supervisor's back. Containers go by name or id.
impl FakeEngine {
    /// An engine with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces an image and answers its id.
    pub fn add_image(&self, reference: &str, id: &str) -> String {
        let image = ImageInfo { id: id.to_owned(), tags: vec![reference.to_owned()], ..ImageInfo::default() };
        self.put_image(reference, image);
        id.to_owned()
    }

    /// Adds or replaces an image with all its traits.
    pub fn put_image(&self, reference: &str, image: ImageInfo) {
        self.lock().images.insert(reference.to_owned(), image);
    }

    /// What a probe of this image id prints; without it the command is not there.
    pub fn answer_probe(&self, image_id: &str, output: &str) {
        let mut state = self.lock();
        state.probes.insert(image_id.to_owned(), output.to_owned());
    }

    /// The next `times` calls of this kind fail so, after those already scripted.
    pub fn fail_next(&self, op: Op, times: usize, error: &EngineError) {
        let mut state = self.lock();
        let queue = state.failures.entry(op).or_default();
        queue.extend(std::iter::repeat_n(error.clone(), times));
    }

    /// While it lasts every call fails with `Unavailable`; its beginning breaks event streams.
    pub fn outage(&self, lasts: bool) {
        self.lock().outage = lasts;
        if lasts {
            self.break_events();
        }
    }

    /// The next create makes its container, and answers `Unavailable`.
    pub fn lose_next_create_answer(&self) {
        self.lock().lose_create += 1;
    }

    /// Ends every event stream.
    pub fn break_events(&self) {
        self.events.send(None).ok();
    }

    /// The main process ends.
    pub fn exit(&self, container: &str, exit_code: i64, oom_killed: bool) {
        self.change(container, "die", |c| {
            c.state = ContainerState { started_at: c.state.started_at.take(), ..stopped(exit_code) };
            c.state.oom_killed = oom_killed;
        });
    }

    /// What the engine has is changed behind the label's back.
    pub fn drift(&self, container: &str, change: impl FnOnce(&mut ContainerSpec)) {
        self.change(container, "update", |c| change(&mut c.spec));
    }

    /// The container is softer than it was made.
    pub fn weaken(&self, container: &str, weakness: &str) {
        self.change(container, "update", |c| {
            c.weaknesses.push(weakness.to_owned());
        });
    }

    /// Somebody removes it.
    pub fn vanish(&self, container: &str) {
        self.lock().take(container);
    }

    /// Every call so far, as `method argument`, and forgets them.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Names of all containers.
    pub fn containers(&self) -> Vec<String> {
        self.lock().containers.keys().cloned().collect()
    }

    /// Names of all networks.
    pub fn networks(&self) -> Vec<String> {
        self.lock().networks.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the call, and decides whether it fails.
    fn called(&self, op: Op, text: String) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        state.calls.push(text);
        if state.outage {
            return Err(EngineError::Unavailable("a scripted outage".to_owned()));
        }
        match state.failures.get_mut(&op).and_then(VecDeque::pop_front) {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }

    fn change(&self, container: &str, action: &str, change: impl FnOnce(&mut Fake)) {
        let mut state = self.lock();
        if let Ok(c) = state.find(container) {
            change(c);
            let event = EngineEvent { container: c.id.clone(), action: action.to_owned() };
            self.events.send(Some(event)).ok();
        }
    }

    /// A call that changes a running container and fails on a stopped one.
    fn with_running(&self, op: Op, name: &str, text: String, change: impl FnOnce(&mut Fake)) -> Result<()> {
        let mut state = self.called(op, text)?;
        let found = state.find(name)?;
        if !found.state.running {
            return Err(EngineError::Conflict(format!("container {name} is not running")));
        }
        change(found);
        Ok(())
    }
}

impl State {
    fn find(&mut self, name: &str) -> Result<&mut Fake> {
        self.containers
            .values_mut()
            .find(|c| c.spec.name == name || c.id == name)
            .ok_or_else(|| EngineError::NotFound(format!("container {name}")))
    }

    fn take(&mut self, name: &str) -> Option<Fake> {
        let key = self.find(name).ok()?.spec.name.clone();
        self.containers.remove(&key)
    }

    fn make(&mut self, spec: &ContainerSpec, hash: &str) -> Result<String> {
        let image = self
            .images
            .get(&spec.image)
            .ok_or_else(|| EngineError::NotFound(format!("image {}", spec.image)))?;
        if image.id != spec.image_id {
            return Err(EngineError::Conflict(format!(
                "image {} is {} now, wanted {}",
                spec.image, image.id, spec.image_id
            )));
        }
        if self.containers.contains_key(&spec.name) {
            return Err(EngineError::Conflict(format!(
                "creating container {}: the name is in use",
                spec.name
            )));
        }
        self.made += 1;
        let id = format!("{:064x}", self.made);
        let made = Fake {
            id: id.clone(),
            spec: spec.clone(),
            label: hash.to_owned(),
            state: stopped(0),
            weaknesses: Vec::new(),
        };
        self.containers.insert(spec.name.clone(), made);
        Ok(id)
    }
}

fn stopped(exit_code: i64) -> ContainerState {
    ContainerState {
        running: false,
        paused: false,
        pid: 0,
        exit_code,
        oom_killed: false,
        started_at: None,
        finished_at: None,
        error: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::engine::Engine;

    #[tokio::test]
    async fn a_lost_answer_leaves_a_container_behind() {
        let engine = FakeEngine::new();
        engine.add_image("i", "sha256:1");
        let spec = crate::sandbox::spec::example();
        engine.add_image(&spec.image, &spec.image_id);
        engine.lose_next_create_answer();
        let lost = engine.create(&spec, "x").await.unwrap_err();
        assert!(matches!(lost, EngineError::Unavailable(_)));
        assert_eq!(engine.containers(), [spec.name.as_str()]);
        let again = engine.create(&spec, "x").await.unwrap_err();
        assert!(matches!(again, EngineError::Conflict(_)));
        let expected = format!("create {}", spec.name);
        assert_eq!(engine.take_calls(), [expected.as_str(), expected.as_str()]);
    }

    #[tokio::test]
    async fn failures_come_as_often_as_scripted_and_an_outage_until_it_ends() {
        let engine = FakeEngine::new();
        engine.fail_next(Op::List, 1, &EngineError::Refused("no".to_owned()));
        assert!(engine.list("h").await.is_err());
        assert!(engine.list("h").await.is_ok());
        engine.outage(true);
        assert!(engine.info().await.is_err());
        engine.outage(false);
        assert!(engine.info().await.is_ok());
    }

    #[tokio::test]
    async fn an_exit_is_seen_in_events_and_in_the_state() {
        let engine = std::sync::Arc::new(FakeEngine::new());
        let spec = crate::sandbox::spec::example();
        engine.add_image(&spec.image, &spec.image_id);
        let id = engine.create(&spec, "x").await.unwrap();
        engine.start(&id).await.unwrap();
        let (into, mut events) = mpsc::channel(8);
        let watched = engine.clone();
        let stream = tokio::spawn(async move { watched.events("h", into).await });
        while engine.events.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
        engine.exit(&spec.name, 137, true);
        assert_eq!(events.recv().await.unwrap().action, "die");
        engine.break_events();
        assert!(stream.await.unwrap().is_err());
        let state = engine.inspect(&id).await.unwrap().state;
        assert!(!state.running && state.oom_killed && state.exit_code == 137);
    }
}

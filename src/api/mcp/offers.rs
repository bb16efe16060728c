//! What is told of by itself: lists that changed, and resources that a client follows.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer,
    model::ResourceUpdatedNotificationParam,
    service::{Peer, SubscriptionContext},
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::server::refused;
use crate::{
    app::{Hive, tools::servers::FollowedResource},
    ids::AgentId,
};

/// What comes within this time is told once.
const SETTLE: Duration = Duration::from_millis(200);
/// Resources that one client follows at a time.
const MOST: usize = 100;

/// Wakes when lists are others than before.
pub(super) struct Changes {
    tools: watch::Receiver<u64>,
    offers: watch::Receiver<u64>,
}

impl Changes {
    pub(super) fn of(hive: &Hive) -> Self {
        Self { tools: hive.tools.changes(), offers: hive.offer_changes() }
    }

    /// The next time; whether tools changed too, and not prompts and resources alone. None: there is no next time.
    async fn next(&mut self) -> Option<bool> {
        let told = tokio::select! {
            told = self.tools.changed() => told.map(|()| true),
            told = self.offers.changed() => told.map(|()| false),
        };
        let mut tools = told.ok()?;
        tokio::time::sleep(SETTLE).await;
        tools |= self.tools.has_changed().unwrap_or_default();
        self.tools.borrow_and_update();
        self.offers.borrow_and_update();
        Some(tools)
    }

    /// Tells a client of each until it is gone.
    pub(super) async fn tell(mut self, peer: Peer<RoleServer>) {
        while let Some(tools) = self.next().await {
            let told = !tools || peer.notify_tool_list_changed().await.is_ok();
            if !told
                || peer.notify_prompt_list_changed().await.is_err()
                || peer.notify_resource_list_changed().await.is_err()
            {
                return;
            }
        }
    }
}

/// Tells of what a subscription wants to know, until it ends.
pub(super) async fn listen(hive: &Arc<Hive>, agent: &AgentId, subscription: &SubscriptionContext) {
    let (wants, sink) = (subscription.accepted(), subscription.sink());
    let mut changes = Changes::of(hive);
    let (told, mut updates) = mpsc::channel(MOST);
    let mut followed = Vec::new();
    for uri in wants.resource_subscriptions.iter().flatten().take(MOST) {
        // One that nobody has never changes.
        if let Ok(resource) = hive.follow_resource(agent, uri).await {
            let (told, uri) = (told.clone(), uri.clone());
            followed.push(forward(resource, move || {
                let (told, uri) = (told.clone(), uri.clone());
                async move { told.send(uri).await.is_ok() }
            }));
        }
    }
    loop {
        let fine = tokio::select! {
            () = subscription.cancelled() => return,
            () = hive.stopping.cancelled() => return,
            Some(uri) = updates.recv() => sink.notify_resource_updated(uri).await.is_ok(),
            changed = changes.next() => {
                let Some(tools) = changed else { return };
                let mut fine = true;
                if tools && wants.tools_list_changed == Some(true) {
                    fine &= sink.notify_tool_list_changed().await.is_ok();
                }
                if wants.prompts_list_changed == Some(true) {
                    fine &= sink.notify_prompt_list_changed().await.is_ok();
                }
                if wants.resources_list_changed == Some(true) {
                    fine &= sink.notify_resource_list_changed().await.is_ok();
                }
                fine
            }
        };
        if !fine {
            return;
        }
    }
}

/// The resources that a session follows, as long as it goes on.
#[derive(Clone, Default)]
pub(super) struct Watched(Arc<Mutex<HashMap<String, DropGuard>>>);

impl Watched {
    /// Follows a resource.
    ///
    /// # Errors
    /// Too many are followed, or nobody has it, or it cannot be followed.
    pub(super) async fn add(
        &self,
        hive: &Arc<Hive>,
        agent: &AgentId,
        uri: String,
        peer: Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.lock().len() >= MOST {
            let why = format!("{MOST} resources are followed already: unsubscribe from some");
            return Err(ErrorData::invalid_params(why, None));
        }
        let resource = hive.follow_resource(agent, &uri).await.map_err(|e| refused(&e))?;
        let named = uri.clone();
        let tell = move || {
            let (peer, told) = (peer.clone(), ResourceUpdatedNotificationParam::new(named.clone()));
            async move { peer.notify_resource_updated(told).await.is_ok() }
        };
        self.lock().insert(uri, forward(resource, tell));
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        self.lock().remove(uri);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, DropGuard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of each change of a resource, until the guard is dropped, its server ends or nobody hears it.
fn forward<F>(mut resource: FollowedResource, tell: impl Fn() -> F + Send + 'static) -> DropGuard
where
    F: Future<Output = bool> + Send,
{
    let ended = CancellationToken::new();
    let guard = ended.clone().drop_guard();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = ended.cancelled() => return,
                () = resource.over.cancelled() => return,
                changed = resource.followed.changed.changed() => {
                    if changed.is_err() || !tell().await {
                        return;
                    }
                }
            }
        }
    });
    guard
}

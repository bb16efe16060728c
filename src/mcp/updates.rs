//! Resources that somebody follows: told of when their server says that they are others now.
#![expect(deprecated, reason = "servers up to 2025-11-25 take subscriptions one by one")]

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::model::{
    ClientRequest, ServerNotification, SubscribeRequest, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequest, UnsubscribeRequestParams,
};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    client::{Connection, LEAVE},
    fault::McpFault,
};

/// Resources of one server that are followed at a time.
const MOST: usize = 1_000;

/// See the module.
#[derive(Default)]
pub(super) struct Updates(Mutex<HashMap<String, watch::Sender<u64>>>);

impl Updates {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, uri: &str) {
        if let Some(followed) = self.lock().get(uri) {
            followed.send_modify(|times| *times += 1);
        }
    }

    /// Whether there is nobody (any more) who follows it; then it is forgotten.
    fn is_left(&self, uri: &str) -> bool {
        let mut all = self.lock();
        let left = all.get(uri).is_none_or(|followed| followed.receiver_count() == 0);
        if left {
            all.remove(uri);
        }
        left
    }
}

/// A resource that is followed until this is dropped.
pub struct Followed {
    /// Changes with the resource.
    pub changed: watch::Receiver<u64>,
    _ends: DropGuard,
}

impl Connection {
    /// Follows a resource.
    ///
    /// # Errors
    /// The server does not let it be followed.
    pub async fn follow(&self, uri: &str, within: Duration) -> Result<Followed, McpFault> {
        let (changed, first) = {
            let mut all = self.updates.lock();
            if all.len() >= MOST && !all.contains_key(uri) {
                return Err(McpFault::Odd(format!("{MOST} of its resources are followed already")));
            }
            let first = !all.contains_key(uri);
            (all.entry(uri.to_owned()).or_default().subscribe(), first)
        };
        let ends = CancellationToken::new();
        let followed = Followed { changed, _ends: ends.clone().drop_guard() };
        let (peer, updates, uri) = (self.service.peer().clone(), self.updates.clone(), uri.to_owned());
        if !self.is_newest() {
            let ask = SubscribeRequest::new(SubscribeRequestParams::new(uri.clone()));
            let never = CancellationToken::new();
            if first {
                let asked = self.ask(ClientRequest::SubscribeRequest(ask), within, within, &never).await;
                if let Err(fault) = asked {
                    drop(followed);
                    updates.is_left(&uri);
                    return Err(fault);
                }
            }
            tokio::spawn(async move {
                ends.cancelled().await;
                if updates.is_left(&uri) {
                    let ask = UnsubscribeRequest::new(UnsubscribeRequestParams::new(uri));
                    let asked = peer.send_request(ClientRequest::UnsubscribeRequest(ask));
                    drop(timeout(LEAVE, asked).await);
                }
            });
            return Ok(followed);
        }
        let filter = SubscriptionFilter::builder().resource_subscription(uri.clone()).build();
        let mut told = timeout(within, peer.listen(filter))
            .await
            .map_err(|_| McpFault::Silent(within))?
            .map_err(McpFault::from)?;
        tokio::spawn(async move {
            let tell = async {
                while let Ok(Some(notification)) = told.next().await {
                    if matches!(notification, ServerNotification::ResourceUpdatedNotification(_)) {
                        updates.tell(&uri);
                    }
                }
            };
            tokio::select! {
                () = tell => {}
                () = ends.cancelled() => {}
            }
            updates.is_left(&uri);
        });
        Ok(followed)
    }
}

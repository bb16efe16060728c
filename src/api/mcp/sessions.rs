//! Sessions of MCP clients, each bound to whom began it, and bounded in number for each agent and for the operator: beyond,
//! the one of theirs that was used longest ago ends, as clients must expect of any session. In memory only.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rmcp::transport::streamable_http_server::session::{
    SessionId, SessionManager,
    local::{LocalSessionManager, SessionConfig},
};

use crate::ids::AgentId;

/// Sessions of the operator, and of one agent. Each makes room among its own, so that nobody ends another's.
const MOST: usize = 1_000;
const MOST_OF_AGENT: usize = 50;
/// A session that nobody used for so long ends.
const IDLE: Duration = Duration::from_secs(3_600);
/// How long a new one may be missing from the manager's list that was read before it began.
const NEW: Duration = Duration::from_secs(60);

/// On whose behalf a request comes, and for whose tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Who {
    /// An agent, or none: the operator.
    pub caller: Option<AgentId>,
    /// Whose tools.
    pub agent: AgentId,
    /// Only those of this run.
    pub run: Option<i64>,
}

struct Bound {
    who: Who,
    used: Instant,
}

/// See the module.
pub(in crate::api) struct Sessions {
    manager: Arc<LocalSessionManager>,
    bound: Mutex<HashMap<SessionId, Bound>>,
}

impl Default for Sessions {
    fn default() -> Self {
        let mut config = SessionConfig::default();
        config.keep_alive = Some(IDLE);
        let mut manager = LocalSessionManager::default();
        manager.session_config = config;
        Self { manager: Arc::new(manager), bound: Mutex::default() }
    }
}

impl Sessions {
    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    /// False for a session that somebody else began. What is no session, the protocol refuses.
    pub(super) async fn may_use(&self, id: &SessionId, who: &Who) -> bool {
        if !self.manager.has_session(id).await.unwrap_or(true) {
            lock(&self.bound).remove(id);
            return true;
        }
        let mut bound = lock(&self.bound);
        let mine = bound.get_mut(id).filter(|bound| bound.who == *who);
        mine.map(|bound| bound.used = Instant::now()).is_some()
    }

    /// Notes whose a new session is, and ends those that are too many.
    pub(super) async fn bind(&self, id: SessionId, who: Who) {
        let there: HashSet<SessionId> = self.manager.sessions.read().await.keys().cloned().collect();
        let ended = {
            let mut bound = lock(&self.bound);
            bound.retain(|id, bound| there.contains(id) || bound.used.elapsed() < NEW);
            bound.insert(id, Bound { who: who.clone(), used: Instant::now() });
            let most = if who.caller.is_some() { MOST_OF_AGENT } else { MOST };
            take_oldest(&mut bound, most, |other| other.caller == who.caller)
        };
        for id in ended {
            if let Err(e) = self.manager.close_session(&id).await {
                tracing::debug!(error = %e, "an MCP session does not end");
            }
        }
    }
}

/// Takes out what is beyond `most` of those that are meant, the longest unused first.
fn take_oldest(
    bound: &mut HashMap<SessionId, Bound>,
    most: usize,
    meant: impl Fn(&Who) -> bool,
) -> Vec<SessionId> {
    let mut all: Vec<(Instant, SessionId)> =
        bound.iter().filter(|(_, b)| meant(&b.who)).map(|(id, b)| (b.used, id.clone())).collect();
    all.sort_unstable();
    all.truncate(all.len().saturating_sub(most));
    all.into_iter().map(|(_, id)| id).inspect(|id| drop(bound.remove(id))).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(agent: &str) -> Who {
        let agent: AgentId = agent.parse().unwrap();
        Who { caller: Some(agent.clone()), agent, run: None }
    }

    #[tokio::test]
    async fn a_session_is_its_callers_alone_and_an_agents_oldest_makes_room() {
        let sessions = Sessions::default();
        let mut ids = Vec::new();
        for n in 0..=MOST_OF_AGENT {
            let (id, transport) = sessions.manager.create_session().await.unwrap();
            sessions.bind(id.clone(), of("a")).await;
            ids.push((id, transport));
            assert!(sessions.manager.sessions.read().await.len() <= MOST_OF_AGENT, "{n}");
        }
        assert!(sessions.may_use(&ids[1].0, &of("a")).await);
        assert!(!sessions.may_use(&ids[1].0, &of("b")).await);
        let operator = Who { caller: None, ..of("a") };
        assert!(!sessions.may_use(&ids[1].0, &operator).await);
        assert!(!sessions.manager.has_session(&ids[0].0).await.unwrap(), "the oldest is ended");
        assert!(sessions.may_use(&"no-session".into(), &of("b")).await, "the protocol says that it is none");
    }

    #[tokio::test]
    async fn many_agents_together_end_no_session_of_another_or_of_the_operator() {
        let sessions = Sessions::default();
        let mut kept = Vec::new();
        let operator = Who { caller: None, ..of("a") };
        let agents = (0..=MOST / MOST_OF_AGENT).map(|n| of(&format!("agent-{n}")));
        for who in std::iter::once(operator).chain(agents) {
            let began = if who.caller.is_some() { MOST_OF_AGENT } else { 1 };
            for _ in 0..began {
                let (id, transport) = sessions.manager.create_session().await.unwrap();
                sessions.bind(id.clone(), who.clone()).await;
                kept.push((id, who.clone(), transport));
            }
        }
        assert!(kept.len() > MOST);
        for (id, who, _transport) in &kept {
            assert!(sessions.may_use(id, who).await, "{who:?}");
        }
    }
}

//! How often an agent may call: a token bucket for each, so that one that calls without end slows nobody else.
//!
//! Only agents' doors are limited, and only requests: the link of an agent's init is no request.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use axum::{
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{access::Access, problem::Problem};
use crate::{app::Hive, ids::AgentId};

/// So many seconds' worth of requests may come at once.
const BURST_SECONDS: f64 = 4.0;

/// What is left to each agent.
pub struct Rates {
    hive: Arc<Hive>,
    buckets: Mutex<HashMap<AgentId, Bucket>>,
}

/// Requests that may still come at once, as of a moment.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    /// Takes one request, at `rate` a second; false: there is none left.
    fn take(&mut self, rate: f64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = passed.mul_add(rate, self.left).min(rate * BURST_SECONDS);
        self.at = now;
        let enough = self.left >= 1.0;
        self.left -= f64::from(u8::from(enough));
        enough
    }
}

impl Rates {
    /// Everybody has all.
    #[must_use]
    pub fn new(hive: Arc<Hive>) -> Self {
        Self { hive, buckets: Mutex::default() }
    }

    fn check(&self, agent: &AgentId, now: Instant) -> Result<(), Problem> {
        let most = self.hive.world().config.api.agent_requests_per_second;
        let rate = f64::from(most);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let full = Bucket { left: rate * BURST_SECONDS, at: now };
        if buckets.entry(agent.clone()).or_insert(full).take(rate, now) {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            format!(
                "agent {agent} called more than {most} times a second: wait a second ([api] agent_requests_per_second)"
            ),
        ))
    }
}

/// Lets through what an agent may still ask.
pub async fn limit(State(rates): State<Arc<Rates>>, request: Request, next: Next) -> Response {
    if let Some(agent) = request.extensions().get().and_then(Access::agent)
        && let Err(problem) = rates.check(agent, Instant::now())
    {
        return problem.into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_holds_four_seconds_of_requests_and_fills_with_time() {
        let began = Instant::now();
        let mut bucket = Bucket { left: 40.0, at: began };
        let mut taken = |ms: u64| {
            let now = began + Duration::from_millis(ms);
            (0..1_000).take_while(|_| bucket.take(10.0, now)).count()
        };
        assert_eq!([0, 0, 100, 350, 1_100, 3_600_000].map(&mut taken), [40, 0, 1, 2, 8, 40]);
        assert_eq!(taken(0), 0, "a clock that goes back gives nothing");
    }
}

//! What the servers of an agent's skills offer beside tools: prompts and resources. Asked of servers that are up, and of
//! others once, which are started for it as for a call of a tool. What one of them does wrong hides nothing of another.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::join_all;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{
    discover::{MARGIN, PATIENCE},
    keep, plan,
    slot::Use,
    speaker, start,
};
use crate::{
    app::{Result, hive::Hive, tools::desk::ServerKey, types::AppError},
    ids::AgentId,
    mcp::{
        Followed, GetPromptResult, Line, McpFault, Offers, Prompt, ReadResourceResult, Resource,
        ResourceTemplate, Speaker,
    },
    scheduler::job::DIRECT_TIMEOUT,
    secrets::mask::Masker,
    supervisor::agent::Agent,
    tools::template,
};

/// Files of skills have URIs of this scheme, and nothing else has.
const SKILLS: &str = "skill:";

/// What one server offers.
#[derive(Clone)]
struct Offered {
    key: ServerKey,
    /// The agent has it only because it wrote the skill.
    own: bool,
    offers: Arc<Offers>,
}

/// A server that is up, for somebody who asks it.
struct Asked {
    using: Use,
    key: ServerKey,
    speaker: Option<Speaker>,
    ended: CancellationToken,
}

impl Hive {
    /// Wakes whenever some server has other prompts or resources.
    #[must_use]
    pub fn offer_changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.servers.changes()
    }

    /// The prompts of an agent's servers, under names that are unique.
    ///
    /// # Errors
    /// There is no such agent.
    pub async fn server_prompts(self: &Arc<Self>, agent: &AgentId) -> Result<Vec<Prompt>> {
        let named = named(&self.offered(agent).await?);
        let shown = named.into_iter().map(|(_, name, mut prompt)| {
            prompt.name = name;
            prompt
        });
        Ok(shown.collect())
    }

    /// Gets a prompt by the name that it is listed under.
    ///
    /// # Errors
    /// There is no such agent or prompt, or the server does not answer as it should.
    pub async fn server_prompt(
        self: &Arc<Self>,
        agent: &AgentId,
        name: &str,
        args: Option<Map<String, Value>>,
        line: Option<Line>,
    ) -> Result<GetPromptResult> {
        let named = named(&self.offered(agent).await?).into_iter();
        let found = named.filter(|(_, shown, _)| shown == name).map(|(key, _, prompt)| (key, prompt)).next();
        let (key, prompt) =
            found.ok_or_else(|| AppError::NotFound(format!("agent {agent} has no prompt {name:?}")))?;
        let (hive, asked) = (self.clone(), self.asked(key, line).await?);
        let _there = asked.ended.clone().drop_guard();
        // By itself, so that the server is told when the caller has gone.
        let made = tokio::spawn(async move {
            let Asked { using, key, speaker, ended } = asked;
            let answer = using.connection.prompt(&prompt.name, args, DIRECT_TIMEOUT, &ended, speaker).await;
            hive.told(&key, answer)
        });
        made.await.map_err(|e| AppError::Internal(e.to_string()))?
    }

    /// The resources of an agent's servers, each URI once.
    ///
    /// # Errors
    /// There is no such agent.
    pub async fn resources(self: &Arc<Self>, agent: &AgentId) -> Result<Vec<Resource>> {
        let offered = self.offered(agent).await?;
        let mut seen = HashSet::new();
        let all = offered.iter().flat_map(|one| one.offers.resources.iter());
        Ok(all.filter(|it| !is_ours(&it.uri) && seen.insert(it.uri.clone())).cloned().collect())
    }

    /// Patterns of the URIs of more resources.
    ///
    /// # Errors
    /// There is no such agent.
    pub async fn resource_templates(self: &Arc<Self>, agent: &AgentId) -> Result<Vec<ResourceTemplate>> {
        let offered = self.offered(agent).await?;
        let mut seen = HashSet::new();
        let all = offered.iter().flat_map(|one| one.offers.templates.iter());
        let fine = all.filter(|it| !is_ours(&it.uri_template) && seen.insert(it.uri_template.clone()));
        Ok(fine.cloned().collect())
    }

    /// Reads a resource of the server that lists it, else of one with a template that it fits.
    ///
    /// # Errors
    /// No server has such a resource, or it does not answer as it should.
    pub async fn read_resource(
        self: &Arc<Self>,
        agent: &AgentId,
        uri: String,
        line: Option<Line>,
    ) -> Result<ReadResourceResult> {
        let key = self.holder(agent, &uri).await?;
        let (hive, asked) = (self.clone(), self.asked(key, line).await?);
        let _there = asked.ended.clone().drop_guard();
        // As a prompt.
        let made = tokio::spawn(async move {
            let Asked { using, key, speaker, ended } = asked;
            let answer = using.connection.read(&uri, DIRECT_TIMEOUT, &ended, speaker).await;
            hive.told(&key, answer)
        });
        made.await.map_err(|e| AppError::Internal(e.to_string()))?
    }

    /// Follows a resource, until what it returns is dropped or its server ends.
    ///
    /// # Errors
    /// As [`Self::read_resource`].
    pub async fn follow_resource(self: &Arc<Self>, agent: &AgentId, uri: &str) -> Result<FollowedResource> {
        let asked = self.asked(self.holder(agent, uri).await?, None).await?;
        let followed = asked.using.connection.follow(uri, DIRECT_TIMEOUT).await;
        let followed = followed.map_err(|fault| self.fault(&asked.key, &fault))?;
        Ok(FollowedResource { over: asked.using.connection.watch().over, followed, _using: asked.using })
    }

    async fn holder(self: &Arc<Self>, agent: &AgentId, uri: &str) -> Result<ServerKey> {
        let offered = self.offered(agent).await?;
        let lists = |one: &&Offered| one.offers.resources.iter().any(|resource| resource.uri == uri);
        let fits = |one: &&Offered| {
            one.offers.templates.iter().any(|pattern| template::fits(&pattern.uri_template, uri))
        };
        let found = offered.iter().find(lists).or_else(|| offered.iter().find(fits));
        let found = found.filter(|_| !is_ours(uri)).map(|one| one.key.clone());
        found.ok_or_else(|| AppError::NotFound(format!("agent {agent} has no resource {uri:?}")))
    }

    /// What the servers of an agent that runs offer: of given skills before own ones.
    async fn offered(self: &Arc<Self>, agent: &AgentId) -> Result<Vec<Offered>> {
        self.find_agent(agent)?;
        let Ok(agent) = self.running_agent(agent) else { return Ok(Vec::new()) };
        let Some(preparation) = agent.preparation() else { return Ok(Vec::new()) };
        let own = |key: &ServerKey| {
            preparation.skills.iter().any(|prepared| prepared.skill.id == key.skill && prepared.own)
        };
        let plans = plan::all(&preparation).filter_map(std::result::Result::ok);
        let asked = plans.map(|plan| async {
            let (key, own) = (plan.key.clone(), own(&plan.key));
            let offers = self.offers_of(&agent, plan).await?;
            Some(Offered { key, own, offers })
        });
        let asked: Vec<_> = asked.collect();
        let mut offered: Vec<Offered> = join_all(asked).await.into_iter().flatten().collect();
        offered.sort_by(|a, b| (a.own, &a.key).cmp(&(b.own, &b.key)));
        Ok(offered)
    }

    /// None: it cannot be asked, which is a warning of the agent.
    async fn offers_of(self: &Arc<Self>, agent: &Arc<Agent>, plan: plan::Plan) -> Option<Arc<Offers>> {
        let (key, hash, startup) = (plan.key.clone(), plan.hash, plan.startup);
        if let Some(known) = self.servers.known_offers(&key, hash) {
            return Some(known);
        }
        let patience = (startup + MARGIN).min(PATIENCE);
        let asked = async {
            let using = start::up(self, agent, plan).await.ok()?;
            let times = self.servers.times_changed();
            match using.connection.offers(startup).await {
                Ok(offers) => {
                    let masker = self.world().masker.clone();
                    let offers = Arc::new(Offers {
                        prompts: masked(&masker, &offers.prompts).unwrap_or_default(),
                        resources: masked(&masker, &offers.resources).unwrap_or_default(),
                        templates: masked(&masker, &offers.templates).unwrap_or_default(),
                    });
                    self.servers.keep_offers(key.clone(), hash, times, &offers);
                    Some(offers)
                }
                Err(fault) => {
                    let why = format!("it does not tell of its prompts and resources: {fault}");
                    keep::warn(agent, &key, &self.world().masker.mask_str(&why));
                    None
                }
            }
        };
        tokio::time::timeout(patience, asked).await.ok().flatten()
    }

    async fn asked(self: &Arc<Self>, key: ServerKey, line: Option<Line>) -> Result<Asked> {
        let agent = self.running_agent(&key.agent)?;
        let preparation = agent.preparation().ok_or_else(|| crate::app::agents::not_prepared(&agent))?;
        let plan = plan::one(&preparation, &key).map_err(AppError::Conflict)?;
        let up = tokio::time::timeout(DIRECT_TIMEOUT, start::up(self, &agent, plan)).await;
        let late = |_| self.fault(&key, &McpFault::Silent(DIRECT_TIMEOUT));
        let using = up.map_err(late)?.map_err(AppError::Unavailable)?;
        let speaker = line.map(|line| speaker(line, &key, self.world().masker.clone()));
        Ok(Asked { using, key, speaker, ended: CancellationToken::new() })
    }

    /// An answer without secrets, as that of a tool.
    fn told<T: Serialize + DeserializeOwned>(
        &self,
        key: &ServerKey,
        answer: std::result::Result<T, McpFault>,
    ) -> Result<T> {
        let answer = answer.map_err(|fault| self.fault(key, &fault))?;
        masked(&self.world().masker, &answer).ok_or_else(|| {
            AppError::Conflict(format!("the MCP server {} answers what cannot be told on", key.server))
        })
    }

    fn fault(&self, key: &ServerKey, fault: &McpFault) -> AppError {
        let why = format!("the MCP server {}: {fault}", key.server);
        AppError::Conflict(self.world().masker.mask_str(&why).into_owned())
    }
}

/// A resource that is followed; its server stays up meanwhile.
pub struct FollowedResource {
    /// Tells of changes.
    pub followed: Followed,
    /// Cancelled when its server ended.
    pub over: CancellationToken,
    _using: Use,
}

fn masked<T: Serialize + DeserializeOwned>(masker: &Masker, told: &T) -> Option<T> {
    serde_json::from_value(masker.mask_json(&serde_json::to_value(told).ok()?)).ok()
}

fn is_ours(uri: &str) -> bool {
    uri.get(..SKILLS.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SKILLS))
}

/// The prompts under names that tell them apart, by the rule of tools (systems.md D16): a name stays where nothing else
/// has it, and what the agent wrote takes none away; else it is `<server>/<name>`, else `<skill>/<server>/<name>`.
fn named(offered: &[Offered]) -> Vec<(ServerKey, String, Prompt)> {
    let all = || offered.iter().flat_map(|one| one.offers.prompts.iter().map(move |prompt| (one, prompt)));
    let alone = |one: &Offered, name: &str| {
        all().filter(|(other, prompt)| prompt.name == name && (one.own || !other.own)).count() == 1
    };
    let bare = |one: &Offered, prompt: &Prompt| alone(one, &prompt.name);
    let mut taken: HashSet<String> =
        all().filter(|(one, prompt)| bare(one, prompt)).map(|(_, prompt)| prompt.name.clone()).collect();
    let named = all().filter_map(|(one, prompt)| {
        if bare(one, prompt) {
            return Some((one.key.clone(), prompt.name.clone(), prompt.clone()));
        }
        let (ServerKey { skill, server, .. }, name) = (&one.key, &prompt.name);
        let names = [format!("{server}/{name}"), format!("{skill}/{server}/{name}")];
        let name = names.into_iter().find(|name| taken.insert(name.clone()))?;
        Some((one.key.clone(), name, prompt.clone()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(skill: &str, server: &str, own: bool, names: &[&str]) -> Offered {
        let key = ServerKey {
            agent: "a".parse().unwrap(),
            skill: skill.parse().unwrap(),
            server: server.to_owned(),
        };
        let prompts = names.iter().map(|name| Prompt::new(*name, None::<String>, None)).collect();
        Offered { key, own, offers: Arc::new(Offers { prompts, ..Offers::default() }) }
    }

    fn shown(offered: &[Offered]) -> Vec<String> {
        named(offered).into_iter().map(|(key, name, _)| format!("{}: {name}", key.skill)).collect()
    }

    #[test]
    fn a_prompt_keeps_its_name_where_it_is_alone_and_own_ones_take_none_away() {
        let all = [
            offered("one", "s", false, &["greet", "plan"]),
            offered("two", "t", false, &["plan", "s/plan"]),
            offered("mine", "m", true, &["greet", "own"]),
        ];
        let expected =
            ["one: greet", "one: one/s/plan", "two: t/plan", "two: s/plan", "mine: m/greet", "mine: own"];
        assert_eq!(shown(&all), expected);
    }

    #[test]
    fn names_are_unique_whatever_servers_call_theirs() {
        let all = [
            offered("one", "s", false, &["p", "p"]),
            offered("two", "s", false, &["p"]),
            offered("mine", "s", true, &["p", "s/p", "one/s/p"]),
        ];
        let mut names: Vec<String> = named(&all).into_iter().map(|(_, name, _)| name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn uris_of_skills_are_nobody_elses() {
        assert!(is_ours("skill://a/SKILL.md") && is_ours("SKILL://a"));
        assert!(!is_ours("file:///skill:") && !is_ours("é"));
    }
}

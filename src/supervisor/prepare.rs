//! From the world to everything that one agent's container needs: image, specification, view, prompt,
//! grants, `main`. Changes nothing that runs; `actions` applies it.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    path::PathBuf,
    sync::Arc,
};

use semver::Version;
use tokio::sync::mpsc;

use super::{
    agent::Agent,
    layout,
    usable::{self, Usable},
};
use crate::{
    app::{hive::Hive, tools::ServerKey, world::World},
    config::model::{Agent as AgentConfig, Network, Restart, Workspace},
    db,
    engine::{ContainerSpec, LABEL_ROOT, NetworkSpec},
    ids::{AgentId, Digest, SkillId},
    registry::index::Trust,
    resolver::{node::check_node, own::settled, solve::Resolution},
    sandbox::{
        describe::script_description,
        generated,
        prompt::{self, PromptInput, PromptSkill},
        spec::{self, SpecInput},
    },
    secrets::grants::{Ask, GrantInput, Grants, Missing, WithheldReason, grants},
    skill::{
        model::{Shape, Skill},
        vars::substitute,
    },
    wire::{self, RestartPolicy},
};

/// Tools of one MCP server that the prompt names.
const PROMPT_TOOLS: usize = 50;

/// A resolved skill with all that is known of it.
#[derive(Debug, Clone)]
pub struct PreparedSkill {
    /// What it declares.
    pub skill: Skill,
    /// Its resolved version (a SKILL.md may state none).
    pub version: Version,
    /// Digest of its content.
    pub digest: Digest,
    /// Its owner, for people.
    pub owner: String,
    /// How far it is trusted.
    pub trust: Trust,
    /// The agent has it only because it wrote it: what is wrong with it keeps nothing from running.
    pub own: bool,
    /// Its folder in the store.
    pub folder: PathBuf,
    /// A SKILL.md for agent programs, where it has none of its own.
    pub skill_md: Option<String>,
}

/// All that an agent's container is made from.
#[derive(Clone)]
pub struct Preparation {
    /// The agent as configured.
    pub config: AgentConfig,
    /// The container.
    pub spec: ContainerSpec,
    /// Hash of the container.
    pub hash: String,
    /// The skills.
    pub skills: Vec<PreparedSkill>,
    /// Which secrets it gets, and why not others.
    pub grants: Grants,
    /// Those of the missing ones that nothing else stands for.
    pub lacking: Vec<Missing>,
    /// Environment of its processes that is secret: names and values.
    pub secret_env: wire::Environment,
    /// Which of them can be used, and their variables.
    pub usable: Usable,
    /// The prompt as the agent reads it.
    pub prompt: String,
    /// The prompt as everybody else reads it: without secret values.
    pub shown_prompt: String,
    /// Its soul, to be laid at `/soul.md`.
    pub soul: Option<String>,
    /// Its `main`.
    pub main: Option<wire::Main>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Prepares an agent.
///
/// # Errors
/// Why it cannot run, in words for the operator, naming who asked for what.
pub async fn prepare(hive: &Hive, agent: &Agent, world: &World) -> Result<Preparation, String> {
    let config = world.config.agents.get(&agent.id).ok_or("it left skep.toml")?.clone();
    let resolution = match world.resolutions.get(&agent.id) {
        Some(Ok(resolution)) => resolution.clone(),
        Some(Err(why)) => return Err(why.clone()),
        None => return Err("its skills are not resolved yet".into()),
    };
    let skills = load_skills(hive, world, &resolution).await?;
    let (image, info) = image(hive, &config, &skills).await?;
    let ca_bundle = ca_bundle(hive).await?;
    let soul = world.souls.get(&agent.id).cloned().transpose()?;
    let paths = {
        let (hive_paths, dir, agent_config) = (hive.paths.clone(), agent.dir.clone(), config.clone());
        let (user, privileged, init) = (agent.user, hive.privileged, hive.init.clone());
        let lay = move || layout::lay(&hive_paths, &dir, &agent_config, user, privileged, &init);
        tokio::task::spawn_blocking(lay)
            .await
            .map_err(|e| e.to_string())?
            .map_err(|e| format!("cannot prepare its folders: {e}"))?
    };
    let network = NetworkSpec::internet(&hive.name);
    let mut spec = spec::container_spec(&SpecInput {
        hive: &hive.name,
        agent: &config,
        paths: &paths,
        user: agent.user,
        image: &image,
        image_id: &info.id,
        image_env: &info.env,
        ca_bundle: ca_bundle.as_deref(),
        internet: &network.name,
    });
    spec.labels.insert(LABEL_ROOT.to_owned(), hive.paths.root.display().to_string());
    let granted = grant(&config, &skills, world);
    let secret_env = granted
        .granted
        .iter()
        .filter_map(|name| Some((name.to_string(), world.secrets.get(name)?.expose().to_owned())))
        .collect();
    let secret_env = wire::Environment(secret_env);
    let main = main(&config, &secret_env);
    let usable = usable::judge(agent, &skills, |name| spec.env.contains_key(name), &granted, world).await;
    let [prompt, shown_prompt] =
        [false, true].map(|mask| build_prompt(hive, &agent.id, &skills, soul.as_deref(), &usable, mask));
    let lacking = usable.lacking(&granted, &skills);
    let mut warnings = warnings(&resolution, &granted, &lacking);
    warnings.extend(
        usable.unavailable.iter().map(|(skill, missing)| {
            format!("skill {skill} cannot be used: it misses {}", missing.join(", "))
        }),
    );
    warnings.extend(unwritable(hive, &config, agent.user));
    let hash = spec::spec_hash(&spec);
    let grants = granted;
    Ok(Preparation {
        config,
        spec,
        hash,
        skills,
        grants,
        lacking,
        secret_env,
        usable,
        prompt,
        shown_prompt,
        soul,
        main,
        warnings,
    })
}

async fn load_skills(
    hive: &Hive,
    world: &World,
    resolution: &Arc<Resolution>,
) -> Result<Vec<PreparedSkill>, String> {
    let wanted: Vec<(SkillId, Version)> =
        resolution.skills.iter().map(|(id, r)| (id.clone(), r.version.clone())).collect();
    let manifests = hive
        .db
        .read(move |conn| {
            wanted
                .into_iter()
                .map(|(id, version)| db::skills::manifest(conn, &id, &version))
                .collect::<Result<Vec<_>, db::DbError>>()
        })
        .await
        .map_err(|e| e.to_string())?;
    let pending = |id: &SkillId| {
        let version = resolution.skills.get(id).and_then(|r| world.index.version(id, &r.version));
        version.is_some_and(|v| v.trust == Trust::Pending)
    };
    let settled = settled(resolution, &pending);
    let mut skills = Vec::new();
    for ((id, resolved), manifest) in resolution.skills.iter().zip(manifests) {
        let entry = world.index.skills.get(id);
        let (Some(skill), Some(entry), Some(version)) =
            (manifest, entry, world.index.version(id, &resolved.version))
        else {
            return Err(format!("{id}@{} is no longer in the registry", resolved.version));
        };
        let own = resolution.own.contains(id);
        if !hive.store.contains(&resolved.digest) {
            if own {
                tracing::warn!(
                    "the content of {id}@{} is missing from the store; it is left out",
                    resolved.version
                );
                continue;
            }
            return Err(format!(
                "the content of {id}@{} ({}) is missing from the store; put its source folder back and run `skep up`",
                resolved.version, resolved.digest
            ));
        }
        skills.push(PreparedSkill {
            skill_md: generated::skill_md(&skill),
            version: resolved.version.clone(),
            digest: resolved.digest,
            owner: entry.owner.clone().into(),
            trust: if settled.contains(id) { version.trust } else { Trust::Pending },
            own,
            folder: hive.store.path(&resolved.digest),
            skill,
        });
    }
    Ok(skills)
}

/// The configured image, with the packages that trusted skills ask for, and node new enough for them.
async fn image(
    hive: &Hive,
    config: &AgentConfig,
    skills: &[PreparedSkill],
) -> Result<(String, crate::engine::ImageInfo), String> {
    let (progress, mut lines) = mpsc::channel::<String>(64);
    let key = format!("image {}", config.image);
    let work = async {
        let base = hive.images.ensure_recent(&config.image, &progress).await.map_err(|e| e.to_string())?;
        let mut requests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for prepared in skills.iter().filter(|s| matches!(s.trust, Trust::Trusted | Trust::Approved)) {
            for package in &prepared.skill.system_packages {
                requests.entry(package.clone()).or_default().insert(prepared.skill.id.to_string());
            }
        }
        let layered = hive.images.with_packages(&config.image, &base, &requests, &progress);
        let (name, info) = layered.await.map_err(|e| e.to_string())?;
        check_image_node(hive, config, skills, &info.id).await?;
        Ok((name, info))
    };
    let show = async {
        while let Some(line) = lines.recv().await {
            tracing::info!(image = %config.image, "{line}");
            hive.set_progress(&key, Some(format!("{}: {line}", config.image)));
        }
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = work => result,
        () = show => Err("unreachable".into()),
    };
    hive.set_progress(&key, None);
    result
}

async fn check_image_node(
    hive: &Hive,
    config: &AgentConfig,
    skills: &[PreparedSkill],
    image_id: &str,
) -> Result<(), String> {
    let asking: Vec<_> = skills
        .iter()
        .filter(|s| !s.own)
        .filter_map(|s| Some((&s.skill.id, &s.version, s.skill.node_version.as_ref()?)))
        .collect();
    if asking.is_empty() {
        return Ok(());
    }
    match hive.images.node_version(image_id).await.map_err(|e| e.to_string())? {
        Some(node) => {
            let faults = check_node(asking, &node);
            if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
        }
        None => {
            let (id, version, wanted) = asking[0];
            Err(format!(
                "{id}@{version} needs Node.js {wanted}, but the image {} has none; use an image with it",
                config.image
            ))
        }
    }
}

/// The complete certificates that are bound into containers, in a file that outlives them.
async fn ca_bundle(hive: &Hive) -> Result<Option<PathBuf>, String> {
    let Some(bundle) = hive.images.container_bundle().await.map_err(|e| e.to_string())? else {
        return Ok(None);
    };
    let path = hive.paths.state().join("ca-certificates.crt");
    layout::write_if_changed(&path, &bundle).map_err(|e| format!("cannot write the CA bundle: {e}"))?;
    Ok(Some(path))
}

fn grant(config: &AgentConfig, skills: &[PreparedSkill], world: &World) -> Grants {
    let asks: Vec<Ask<'_>> = skills
        .iter()
        .map(|s| Ask { skill: &s.skill.id, trust: s.trust, declares: &s.skill.secrets })
        .collect();
    grants(&GrantInput { skills: &asks, allow: config.secrets.as_deref(), set: &world.secrets.names() })
}

fn main(config: &AgentConfig, secret_env: &wire::Environment) -> Option<wire::Main> {
    let argv = config.main.clone()?;
    let restart = match config.main_restart {
        Restart::Always => RestartPolicy::Always,
        Restart::OnFailure => RestartPolicy::OnFailure,
        Restart::Never => RestartPolicy::Never,
    };
    let mut main = wire::Main {
        hash: 0,
        argv,
        env: secret_env.clone(),
        cwd: "/workspace".into(),
        restart,
        grace_ms: u64::try_from(config.stop_grace.as_millis()).unwrap_or(u64::MAX),
        spool: layout::MAIN_SPOOL,
    };
    let mut hasher = DefaultHasher::new();
    (&main.argv, &main.env, main.grace_ms, restart as u8).hash(&mut hasher);
    main.hash = hasher.finish();
    Some(main)
}

/// The prompt of the skills that can be used; with `mask`, secret values become `***` (systems.md C4).
fn build_prompt(
    hive: &Hive,
    agent: &AgentId,
    skills: &[PreparedSkill],
    soul: Option<&str>,
    usable: &Usable,
    mask: bool,
) -> String {
    let read = |skill: &PreparedSkill, path: &str| -> Option<String> {
        let bytes = hive.store.read(&skill.digest, path).ok()??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut shown = Vec::new();
    let mut tools = Vec::new();
    let mut mcp = Vec::new();
    for prepared in skills.iter().filter(|prepared| usable.has(&prepared.skill.id)) {
        let skill = &prepared.skill;
        let values = usable.values.get(&skill.id);
        let filled = |text: String| match values {
            Some(values) if !values.is_empty() => substitute(&text, values, mask),
            _ => text,
        };
        shown.push(PromptSkill {
            name: if skill.shape == Shape::SkillMd { skill.id.to_string() } else { skill.name.clone() },
            version: prepared.version.to_string(),
            description: filled(skill.description.clone()),
            tags: skill.tags.clone(),
            contexts: skill.context.iter().filter_map(|path| read(prepared, path)).map(filled).collect(),
            progressive: skill.shape == Shape::SkillMd,
        });
        for script in &skill.scripts {
            let text = read(prepared, script).unwrap_or_default();
            let stem = script.rsplit_once('.').map_or(script.as_str(), |(stem, _)| stem);
            let schema = read(prepared, &format!("{stem}.schema.json"));
            let name = script.rsplit('/').next().unwrap_or(script).to_owned();
            tools.push((name, script_description(&text, schema.as_deref()).unwrap_or_default()));
        }
        for server in &skill.mcp_servers {
            let key =
                ServerKey { agent: agent.clone(), skill: skill.id.clone(), server: server.name.clone() };
            let told = hive.tools.of_server(&key, &prepared.digest);
            let names = told.iter().flat_map(|told| &told.tools).map(|tool| tool.name.clone());
            let mut names: Vec<String> = names.take(PROMPT_TOOLS + 1).collect();
            if names.len() > PROMPT_TOOLS {
                names[PROMPT_TOOLS] = "...".to_owned();
            }
            mcp.push((server.name.clone(), names));
        }
    }
    prompt::build(&PromptInput { soul, skills: &shown, tools: &tools, mcp: &mcp })
}

fn warnings(resolution: &Resolution, grants: &Grants, lacking: &[Missing]) -> Vec<String> {
    let mut warnings = resolution.warnings.clone();
    warnings.extend(lacking.iter().map(|missing| {
        let by: Vec<&str> = missing.asked_by.iter().map(SkillId::as_str).collect();
        format!("secret {} is not set (declared by {})", missing.name, by.join(", "))
    }));
    warnings.extend(grants.withheld.iter().map(|withheld| {
        let why = match withheld.reason {
            WithheldReason::NotListed => "the agent's `secrets` list does not have it",
            WithheldReason::PendingSkill => "that version of the skill is not approved yet",
            WithheldReason::RejectedSkill => "that version of the skill was rejected",
        };
        format!("secret {} of {} is withheld: {why}", withheld.name, withheld.skill)
    }));
    warnings.extend(grants.undeclared.iter().map(|name| {
        format!("secret {name} is on its list, but none of its skills declares it: it is not delivered")
    }));
    warnings
}

/// A folder of the operator's own keeps its owner, so the agent may not be able to write it.
fn unwritable(hive: &Hive, config: &AgentConfig, (uid, gid): (u32, u32)) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let Workspace::Path(path) = &config.workspace else { return None };
    let meta = std::fs::metadata(hive.paths.resolve(path)).ok()?;
    let class = match (meta.uid() == uid, meta.gid() == gid) {
        (true, _) => 0o300,
        (false, true) => 0o030,
        (false, false) => 0o003,
    };
    (meta.mode() & class != class).then(|| {
        let path = path.display();
        format!("its workspace {path} is not writable by the agent (uid {uid}); `chown {uid} {path}` gives it away")
    })
}

/// Whether the agent's container needs the hive's network.
#[must_use]
pub fn needs_network(config: &AgentConfig) -> bool {
    config.network == Network::Internet
}

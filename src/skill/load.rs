//! From a folder's listing to one [`Skill`], whichever of the two files it has, and a report of
//! everything that is wrong with it.

use std::collections::BTreeSet;

use semver::Version;

use super::{
    check,
    draft::Draft,
    fields::{placeholders, shown},
    manifest,
    model::{McpTransport, Shape, Skill},
    skill_md,
    source::{Limits, MANIFEST, SKILL_MD, Source},
};
use crate::{
    error::Fault,
    ids::{SecretName, SkillId},
};

/// Names that every container has by itself: `${HOME}` declares no secret.
const GIVEN: [&str; 10] =
    ["HOME", "HOSTNAME", "LANG", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// What came of reading a folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The skill, when there are no errors.
    pub skill: Option<Skill>,
    /// Why it is refused.
    pub errors: Vec<Fault>,
    /// What is odd, but loads; holds `strict_errors` and `spec_errors` too.
    pub warnings: Vec<Fault>,
    /// Those warnings that `--strict` and publishing make errors.
    pub strict_errors: Vec<Fault>,
    /// What the reference validator of agentskills.io says about SKILL.md, in its words.
    pub spec_errors: Vec<String>,
}

impl Report {
    /// Every error of `--strict`: the errors, our own strict ones, then the reference validator's.
    #[must_use]
    pub fn strict(&self) -> Vec<Fault> {
        let spec = self.spec_errors.iter().map(|message| Fault::new(SKILL_MD, shown(message)));
        self.errors.iter().chain(&self.strict_errors).cloned().chain(spec).collect()
    }
}

/// Reads and checks a skill. Never panics, whatever the bytes are.
#[must_use]
pub fn read(source: &Source, limits: Limits) -> Report {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    let folder = source.folder.as_deref();
    let manifest = source.manifest.as_deref().map(|bytes| manifest::parse(bytes, limits.manifest));
    let skill_md = source.skill_md.as_deref().map(|bytes| skill_md::parse(bytes, limits.manifest, folder));
    check::limits(source, limits, &mut errors);
    check::names(source, &mut warnings);
    let shape = match (&manifest, &skill_md) {
        (None, None) => {
            errors.insert(0, nothing_declares(source));
            return finish(None, errors, warnings, Vec::new(), Vec::new());
        }
        (Some(_), None) => Shape::Manifest,
        (None, Some(_)) => Shape::SkillMd,
        (Some(_), Some(_)) => Shape::Both,
    };
    let mut draft = match (manifest, skill_md) {
        (Some(m), Some(md)) => both(m, md),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => Draft::default(),
    };
    identity(&mut draft, shape, folder);
    printable(&mut draft);
    listed_files(&mut draft, source);
    errors.splice(0..0, std::mem::take(&mut draft.errors));
    warnings.splice(0..0, std::mem::take(&mut draft.warnings));
    let lenient = std::mem::take(&mut draft.lenient);
    let spec = std::mem::take(&mut draft.spec_errors);
    let skill = if errors.is_empty() { build(draft, shape, &mut errors) } else { None };
    finish(skill, errors, warnings, lenient, spec)
}

/// What the draft lists must be there and, for scripts, runnable.
fn listed_files(draft: &mut Draft, source: &Source) {
    draft.context =
        check::listed("Context file", &draft.context, source, &mut draft.errors, &mut draft.warnings);
    draft.scripts = check::listed("Script", &draft.scripts, source, &mut draft.errors, &mut draft.warnings);
    check::scripts(&draft.scripts, source, &mut draft.errors);
    if !draft.env_vars.is_empty() && !source.files.contains_key(".env.example") {
        draft.lenient.push(
            Fault::new(MANIFEST, "There is no .env.example, though envVars is set")
                .help("add one that lists the variables"),
        );
    }
}

/// So many faults that nobody would read on.
const MAX_FAULTS: usize = 500;

fn cap(mut faults: Vec<Fault>) -> Vec<Fault> {
    let more = faults.len().saturating_sub(MAX_FAULTS);
    if more > 0 {
        faults.truncate(MAX_FAULTS);
        faults.push(Fault::new(".", format!("and {more} more")));
    }
    faults
}

fn finish(
    skill: Option<Skill>,
    errors: Vec<Fault>,
    mut warnings: Vec<Fault>,
    strict_errors: Vec<Fault>,
    spec_errors: Vec<String>,
) -> Report {
    let strict_errors = cap(strict_errors);
    warnings.extend(strict_errors.iter().cloned());
    warnings.extend(spec_errors.iter().map(|message| Fault::new(SKILL_MD, shown(message))));
    Report {
        skill: skill.filter(|_| errors.is_empty()),
        errors: cap(errors),
        warnings: cap(warnings),
        strict_errors,
        spec_errors,
    }
}

fn nothing_declares(source: &Source) -> Fault {
    let fault = Fault::new(".", "There is neither manifest.json nor SKILL.md");
    let near = source
        .files
        .keys()
        .find(|path| path.eq_ignore_ascii_case(MANIFEST) || path.eq_ignore_ascii_case(SKILL_MD));
    match near {
        Some(path) => fault.help(format!("rename {path}: case matters")),
        None => fault.help("add one of them"),
    }
}

/// One draft of two that must agree on what both say.
fn both(mut m: Draft, mut md: Draft) -> Draft {
    // What the manifest says need not be said twice.
    if m.description.is_some() {
        let missing = |f: &Fault| f.message == "Missing description";
        md.lenient.extend(md.errors.iter().filter(|f| missing(f)).cloned());
        md.errors.retain(|f| !missing(f));
    }
    disagreements(&mut m, &md);
    m.node_version = m.node_version.or(md.node_version);
    m.tags.extend(md.tags);
    m.required_env = md.required_env;
    m.binaries = md.binaries;
    m.dependencies.extend(md.dependencies);
    m.mcp_servers.extend(md.mcp_servers);
    m.vars = md.vars;
    m.body = md.body;
    for (key, value) in md.extra {
        m.extra.entry(key).or_insert(value);
    }
    m.errors.extend(md.errors);
    m.warnings.extend(md.warnings);
    m.lenient.extend(md.lenient);
    m.spec_errors = md.spec_errors;
    m
}

/// An error for each thing that both files say differently.
fn disagreements(m: &mut Draft, md: &Draft) {
    let mut disagree = |what: &str, a: &str, b: &str| {
        m.errors.push(
            Fault::new(
                SKILL_MD,
                format!("{MANIFEST} and {SKILL_MD} disagree: {what} is {:?} and {:?}", shown(a), shown(b)),
            )
            .help("make both say the same"),
        );
    };
    if let (Some(id), Some(name)) = (&m.id, &md.name)
        && id != name
        && m.name.as_ref() != Some(name)
    {
        disagree("the id", id, name);
    }
    if let (Some(a), Some(b)) = (&m.version, md.version.as_ref().filter(|_| md.version_text.is_some()))
        && a != b
    {
        disagree("the version", &a.to_string(), &b.to_string());
    }
    if let (Some(a), Some(b)) = (&m.description, &md.description)
        && a.split_whitespace().ne(b.split_whitespace())
    {
        disagree("the description", a, b);
    }
    if let (Some(a), Some(b)) = (&m.node_version, &md.node_version)
        && a != b
    {
        disagree("nodeVersion", &a.to_string(), &b.to_string());
    }
}

/// The id, the folder's name and the version, where something could be read at all.
fn identity(draft: &mut Draft, shape: Shape, folder: Option<&str>) {
    if let Some(id) = draft.id.clone().filter(|id| !id.is_empty()) {
        draft.errors.extend(check::id_fault(draft.file, &id));
        if shape != Shape::SkillMd
            && let Some(folder) = folder
        {
            let version = draft.version.as_ref().map(Version::to_string);
            draft.errors.extend(check::folder_fault(folder, &id, version.as_deref()));
        }
        if draft.dependencies.iter().any(|d| d.id.as_str() == id) {
            draft.errors.push(Fault::new(draft.file, format!("{} depends on itself", shown(&id))));
        }
    }
}

/// Names and descriptions are shown on terminals and put into prompts.
fn printable(draft: &mut Draft) {
    let texts = [("name", &draft.name), ("description", &draft.description)];
    let bad = |c: &char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    for (key, text) in texts {
        let Some(text) = text else { continue };
        let broken = key == "name" && text.contains('\n');
        if broken || text.chars().any(|c| bad(&c)) {
            draft.errors.push(
                Fault::new(draft.file, format!("The {key} holds control characters"))
                    .help(format!("it is {:?}", shown(&text.chars().take(80).collect::<String>()))),
            );
        }
    }
}

fn build(mut draft: Draft, shape: Shape, errors: &mut Vec<Fault>) -> Option<Skill> {
    let id: SkillId = match draft.id.as_deref().unwrap_or_default().parse() {
        Ok(id) => id,
        Err(e) => {
            errors.push(Fault::new(draft.file, e.to_string()));
            return None;
        }
    };
    for server in &mut draft.mcp_servers {
        if server.name.is_empty() {
            server.name = id.to_string();
        }
    }
    let secrets = secrets(&draft);
    dedup(&mut draft.tags);
    dedup(&mut draft.binaries);
    dedup(&mut draft.required_env);
    dedup(&mut draft.system_packages);
    dedup(&mut draft.dependencies);
    dedup(&mut draft.mcp_servers);
    let mut names = BTreeSet::new();
    for server in &draft.mcp_servers {
        if !names.insert(&server.name) {
            errors.push(Fault::new(
                draft.file,
                format!("Two different MCP servers are named {:?}", shown(&server.name)),
            ));
        }
    }
    Some(Skill {
        name: draft.name.unwrap_or_else(|| id.to_string()),
        id,
        version: draft.version.unwrap_or(Version::new(0, 0, 0)),
        description: draft.description.unwrap_or_default(),
        shape,
        context: draft.context,
        scripts: draft.scripts,
        secrets,
        mcp_servers: draft.mcp_servers,
        dependencies: draft.dependencies,
        node_version: draft.node_version,
        system_packages: draft.system_packages,
        binaries: draft.binaries,
        required_env: draft.required_env,
        vars: draft.vars,
        tags: draft.tags,
        body: draft.body,
        extra: draft.extra,
    })
}

fn dedup<T: PartialEq>(items: &mut Vec<T>) {
    let mut out: Vec<T> = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        if !out.contains(&item) {
            out.push(item);
        }
    }
    *items = out;
}

/// Every secret that a skill declares (contract.md 2): `envVars`, `requires.env`, secret variables, and
/// `${NAME}` of its MCP servers where that is no ordinary variable of its own.
fn secrets(draft: &Draft) -> Vec<SecretName> {
    let open: BTreeSet<&str> = draft.vars.iter().filter(|v| !v.secret).map(|v| v.name.as_str()).collect();
    let in_servers = draft
        .mcp_servers
        .iter()
        .flat_map(|server| match &server.transport {
            McpTransport::Local { env, .. } => env.values(),
            McpTransport::Remote { headers, .. } => headers.values(),
        })
        .flat_map(|value| placeholders(value))
        .filter(|name| !open.contains(name) && !GIVEN.contains(name) && !name.starts_with("SKEP_"));
    let in_vars = draft.vars.iter().filter(|v| v.secret).map(|v| v.name.as_str());
    let named: BTreeSet<SecretName> = in_servers
        .chain(in_vars)
        .filter_map(|name| name.parse().ok())
        .chain(draft.env_vars.iter().cloned())
        .chain(draft.required_env.iter().cloned())
        .collect();
    named.into_iter().collect()
}

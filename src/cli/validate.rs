//! `skep validate`: the configuration, the skills and the references, without a supervisor.
//!
//! Tells every mistake at once and changes nothing.

use serde::Serialize;
use toml::de::{DeTable, DeValue};

use super::{
    failure::{Failure, Outcome, USAGE},
    hive::{Context, mistakes},
    offline,
    ui::lines_of,
};
use crate::{
    config::{self, ConfigError, load::FILE, model::Agent},
    error::Fault,
    paths::HivePaths,
    resolver::{Conflict, explain::Verdict},
};

/// `skep validate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Hold skills to what publishing asks for
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found; `errors` is empty exactly when it is valid.
#[derive(Debug, Default, Serialize)]
pub(super) struct Verdicts {
    valid: bool,
    errors: Vec<Fault>,
    warnings: Vec<Fault>,
    #[serde(skip)]
    text: String,
}

pub(super) fn run(context: &Context, args: &Args) -> Outcome {
    let hive = context.hive()?;
    let mut found = examine(&hive, args.strict)?;
    found.valid = found.errors.is_empty();
    if args.json {
        context.ui.json(&found)?;
    } else {
        show(context, &found)?;
    }
    Ok(if found.valid { 0 } else { USAGE })
}

fn examine(hive: &HivePaths, strict: bool) -> Result<Verdicts, Failure> {
    let loaded = match config::load(&hive.root) {
        Ok(loaded) => loaded,
        Err(ConfigError::Invalid { faults, text }) => {
            return Ok(Verdicts { errors: faults, text, ..Verdicts::default() });
        }
        Err(e) => return Err(Failure { code: USAGE, ..Failure::from(e) }),
    };
    let mut found = Verdicts { warnings: loaded.warnings, text: loaded.text, ..Verdicts::default() };
    let lock = offline::lock(hive).unwrap_or_else(|faults| {
        found.errors.extend(faults);
        crate::resolver::Lock::default()
    });
    let skills = offline::read(hive, &loaded.config, &lock, strict);
    for agent in loaded.config.agents.values() {
        match skills.resolve(agent, lock.agents.get(&agent.id)) {
            Ok(resolution) => {
                let place = |w| at(place_of(&found.text, agent, None), w);
                found.warnings.extend(resolution.warnings.into_iter().map(place));
            }
            Err(conflict) => {
                let place = place_of(&found.text, agent, Some(&conflict));
                found.errors.push(at(place, conflict.to_string()));
            }
        }
    }
    found.errors.extend(skills.faults);
    found.warnings.extend(skills.warnings);
    Ok(found)
}

fn at(place: Option<(usize, usize)>, message: String) -> Fault {
    let fault = Fault::new(FILE, message);
    match place {
        Some((line, column)) => fault.at(line, column),
        None => fault,
    }
}

/// Where the agent asks for what cannot be: the reference itself when it alone is at fault, else the list.
fn place_of(text: &str, agent: &Agent, conflict: Option<&Conflict>) -> Option<(usize, usize)> {
    let root = DeTable::parse(text).ok()?;
    let agents = root.get_ref().get("agents")?;
    let list = spanned(spanned(agents.get_ref(), agent.id.as_str())?.get_ref(), "skills")?;
    let mut span = list.span();
    if let (DeValue::Array(items), Some(Conflict::Unsolvable { verdicts, .. })) = (list.get_ref(), conflict) {
        let blamed = |id: &str| {
            verdicts.iter().any(|v| match v {
                Verdict::Unknown { id: unknown, .. } => unknown.as_str() == id,
                Verdict::NoneFits { wanted, .. } => wanted.id.as_str() == id,
                Verdict::Clash { id: clash, .. } => clash.as_str() == id,
                Verdict::NeedsItself { wanted, .. } => wanted.id.as_str() == id,
            })
        };
        let item = items.iter().find(|item| match item.get_ref() {
            DeValue::String(reference) => blamed(reference.split('@').next().unwrap_or_default().trim()),
            _ => false,
        });
        span = item.map_or(span, toml::Spanned::span);
    }
    let before = text.get(..span.start)?;
    let line = before.matches('\n').count() + 1;
    Some((line, before.rsplit('\n').next().unwrap_or("").chars().count() + 1))
}

/// The value of a key, where there is a table with it.
fn spanned<'v, 'd>(value: &'v DeValue<'d>, key: &str) -> Option<&'v toml::Spanned<DeValue<'d>>> {
    match value {
        DeValue::Table(table) => table.get(key),
        _ => None,
    }
}

fn show(context: &Context, found: &Verdicts) -> Result<(), Failure> {
    let color = context.ui.color_err();
    for (faults, is_warning) in [(&found.warnings, true), (&found.errors, false)] {
        for fault in faults {
            let in_config = fault.file == FILE && !fault.message.contains('\n');
            let one = std::slice::from_ref(fault);
            let text = match (in_config, is_warning) {
                (true, true) => config::render::render_warnings(one, &found.text, color),
                (true, false) => config::render(one, &found.text, color),
                (false, _) => lines_of(&fault.to_string()),
            };
            let kind = if is_warning { "warning" } else { "error" };
            context.ui.err(&format!("{kind}: {}", text.trim_end()));
        }
    }
    if found.valid {
        context.ui.line("the hive is valid")?;
        return Ok(());
    }
    Err(Failure::usage(format!("the hive has {}", mistakes(found.errors.len()))))
}

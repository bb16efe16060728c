//! `skep skill`: what skills there are, taking them in, and what may be done with their versions.

mod add;
mod check;
mod diff;
mod list;
mod publish;
mod review;
mod verbs;

use std::{path::PathBuf, str::FromStr};

use semver::Version;

use super::{failure::Outcome, hive::Context};
use crate::ids::{AgentId, Requirement, SkillId, SkillRef};

const SEARCH_EXAMPLES: &str = "\
Examples:
  skep skill search pdf
  skep skill search 'weekly report' --tag office";

const VERSION_EXAMPLES: &str = "\
Examples:
  skep skill yank note-taking@1.2.0
  skep skill yank note-taking@1.2.0 --undo";

const DEPRECATE_EXAMPLES: &str = "\
Examples:
  skep skill deprecate note-taking@1.2.0 'loses notes longer than a page; use 1.3'
  skep skill deprecate note-taking@1.2.0 --undo";

const RM_EXAMPLES: &str = "\
Examples:
  skep skill rm weather                 one that was published, or that an agent wrote
  skep skill rm weather --folder        one that was added: also skills/weather";

const APPROVE_EXAMPLES: &str = "\
Examples:
  skep skill list                       what is pending
  skep skill review weather             what the scanner finds, and what changed
  skep skill approve weather@1.0.1";

const ROLLBACK_EXAMPLES: &str = "\
Examples:
  skep skill rollback writer                        all of its skills, to what it had before
  skep skill rollback writer note-taking            one skill, to the version before
  skep skill rollback writer note-taking@1.2.0      one skill, to this version";

/// `id@1.2.3`: one version.
#[derive(Debug, Clone)]
pub struct Exact {
    id: SkillId,
    version: Version,
}

impl FromStr for Exact {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let reference: SkillRef = text.parse().map_err(|e: crate::ids::InvalidName| e.to_string())?;
        match reference.requirement {
            Requirement::Exact(version) => Ok(Self { id: reference.id, version }),
            _ => Err(format!("{text:?} names no single version: write it like {}@1.2.3", reference.id)),
        }
    }
}

/// `id` or `id@1.2.3`.
#[derive(Debug, Clone)]
pub struct MaybeExact {
    id: SkillId,
    version: Option<Version>,
}

impl FromStr for MaybeExact {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.contains('@') {
            true => text.parse().map(|Exact { id, version }| Self { id, version: Some(version) }),
            false => match text.parse() {
                Ok(id) => Ok(Self { id, version: None }),
                Err(e) => Err(e.to_string()),
            },
        }
    }
}

/// One version, and whether what was done to it is undone.
#[derive(Debug, clap::Args)]
pub struct YankArgs {
    /// Which version, like `note-taking@1.2.0`
    #[arg(value_name = "ID@VERSION")]
    version: Exact,
    /// Let it be chosen again
    #[arg(long)]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `skep skill deprecate`.
#[derive(Debug, clap::Args)]
pub struct DeprecateArgs {
    /// Which version, like `note-taking@1.2.0`
    #[arg(value_name = "ID@VERSION")]
    version: Exact,
    /// What is wrong with it, and what to use instead
    #[arg(value_name = "MESSAGE", conflicts_with = "undo")]
    message: Option<String>,
    /// Take the warning back
    #[arg(long)]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One version.
#[derive(Debug, clap::Args)]
pub struct VersionArgs {
    /// Which version, like `note-taking@1.2.0`
    #[arg(value_name = "ID@VERSION")]
    version: Exact,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `skep skill rm`.
#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// Which skill
    id: SkillId,
    /// Remove its source folders in this hive, too; otherwise it would come back from them
    #[arg(long)]
    folder: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// One skill.
#[derive(Debug, clap::Args)]
pub struct IdArgs {
    /// Which skill
    id: SkillId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `skep skill rollback`.
#[derive(Debug, clap::Args)]
pub struct RollbackArgs {
    /// Whose skills
    agent: AgentId,
    /// Only this skill, to the version before or to the one named
    #[arg(value_name = "ID[@VERSION]")]
    skill: Option<MaybeExact>,
    /// Also to a version that is yanked
    #[arg(short, long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `skep skill`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the skills of the registry
    List {
        /// Only those of `built-in`, `operator` or an agent
        #[arg(long)]
        owner: Option<String>,
        /// Only those with this tag
        #[arg(long)]
        tag: Option<String>,
        /// Disabled ones too
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Find skills by what they say, the best first
    #[command(after_help = SEARCH_EXAMPLES)]
    Search {
        /// Words that they all have
        #[arg(required = true)]
        words: Vec<String>,
        /// Only those of `built-in`, `operator` or an agent
        #[arg(long)]
        owner: Option<String>,
        /// Only those with this tag
        #[arg(long)]
        tag: Option<String>,
        /// Disabled ones too
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one skill with its versions, or one version
    Show {
        /// Which skill, or which version of it
        #[arg(value_name = "ID[@VERSION]")]
        skill: MaybeExact,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a skill's folder; needs no hive and no supervisor
    Validate {
        /// The folder
        #[arg(value_hint = clap::ValueHint::DirPath)]
        path: PathBuf,
        /// Hold it to what publishing asks for
        #[arg(long)]
        strict: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take skills into the hive: from folders, archives and git repositories
    #[command(after_help = add::EXAMPLES)]
    Add(Box<add::Args>),
    /// Hold a skill to the strict rules and make it a version of the registry, now
    #[command(after_help = publish::EXAMPLES)]
    Publish(publish::Args),
    /// Keep a version from being chosen anew; who has it locked keeps it
    #[command(after_help = VERSION_EXAMPLES)]
    Yank(YankArgs),
    /// Warn whoever uses a version
    #[command(after_help = DEPRECATE_EXAMPLES)]
    Deprecate(DeprecateArgs),
    /// Remove a skill that nothing uses, with all of its versions
    #[command(after_help = RM_EXAMPLES)]
    Rm(RmArgs),
    /// Let others than its author use a version that an agent wrote
    #[command(after_help = APPROVE_EXAMPLES)]
    Approve(VersionArgs),
    /// Refuse a version that an agent wrote
    Reject(verbs::RejectArgs),
    /// Give an agent the skill versions again that it had before
    #[command(after_help = ROLLBACK_EXAMPLES)]
    Rollback(RollbackArgs),
    /// Show what one version changes against another: files, and what it asks for
    #[command(after_help = diff::EXAMPLES)]
    Diff(diff::Args),
    /// Show what the scanner finds in a version, and what changed since the last accepted one
    #[command(after_help = review::EXAMPLES)]
    Review(review::Args),
    /// Let a disabled skill be resolved again
    Enable(IdArgs),
    /// Keep a skill from being resolved anew
    Disable(IdArgs),
}

pub(super) async fn run(context: &Context, command: &Command) -> Outcome {
    match command {
        Command::List { owner, tag, all, json } => {
            let filter = list::Filter { words: &[], owner: owner.as_deref(), tag: tag.as_deref(), all: *all };
            list::list(context, &filter, *json).await
        }
        Command::Search { words, owner, tag, all, json } => {
            let filter = list::Filter { words, owner: owner.as_deref(), tag: tag.as_deref(), all: *all };
            list::list(context, &filter, *json).await
        }
        Command::Show { skill, json } => match &skill.version {
            None => list::show(context, &skill.id, *json).await,
            Some(version) => list::show_version(context, &skill.id, version, *json).await,
        },
        Command::Validate { path, strict, json } => check::validate(context, path, *strict, *json),
        Command::Add(args) => add::run(context, args).await,
        Command::Publish(args) => publish::run(context, args).await,
        Command::Yank(args) => verbs::yank(context, args).await,
        Command::Deprecate(args) => verbs::deprecate(context, args).await,
        Command::Rm(args) => verbs::remove(context, args).await,
        Command::Approve(args) => verbs::approve(context, args).await,
        Command::Reject(args) => verbs::reject(context, args).await,
        Command::Rollback(args) => verbs::rollback(context, args).await,
        Command::Diff(args) => diff::run(context, args).await,
        Command::Review(args) => review::run(context, args).await,
        Command::Enable(args) => verbs::enable(context, args, true).await,
        Command::Disable(args) => verbs::enable(context, args, false).await,
    }
}

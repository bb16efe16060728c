//! `skep init`: a new hive with one working agent. Overwrites nothing.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{
    failure::{FAILED, Failure, Outcome},
    hive::{Context, shown},
};
use crate::config;

/// `skep init`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of the new hive; made when it is not there [default: the current folder]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const GITIGNORE: &str = ".gitignore";

/// What must never be committed, and what skep writes anew.
const IGNORED: [&str; 5] = ["/.skep/", "/registry/", "/secrets/env.json", "variables.json", "vars.json"];

/// Path and content.
const FILES: [(&str, &str); 5] = [
    ("skep.toml", include_str!("init/skep.toml")),
    ("souls/helper.md", include_str!("init/helper.md")),
    ("skills/note-taking/SKILL.md", include_str!("init/note-taking.md")),
    ("secrets.example/env.json", "{\n  \"EXAMPLE_API_KEY\": \"\"\n}\n"),
    ("secrets.example/README.md", include_str!("init/secrets.md")),
];

pub(super) fn run(context: &Context, args: &Args) -> Outcome {
    let root = args.folder.as_ref().or(context.dir.as_ref()).map_or(Path::new("."), PathBuf::as_path);
    let there: Vec<String> = FILES
        .iter()
        .map(|(path, _)| root.join(path))
        .filter(|path| path.symlink_metadata().is_ok())
        .map(|path| shown(&path))
        .collect();
    if !there.is_empty() {
        return Err(Failure {
            details: there,
            ..Failure::new("a new hive would overwrite what is there, and nothing was written:")
        }
        .help("name another folder: `skep init DIR`"));
    }
    let made_root = !root.exists();
    let mut made = Vec::new();
    if let Err(failure) = write_all(root, &mut made) {
        take_back(root, made_root, &made);
        return Err(failure);
    }
    if let Err(error) = config::load(root) {
        return Err(Failure { code: FAILED, ..Failure::from(error) });
    }
    if args.json {
        let files: Vec<String> = made.iter().map(|p| p.display().to_string()).collect();
        context.ui.json(&json!({ "folder": root, "files": files }))?;
        return Ok(0);
    }
    let folder = shown(root);
    context.ui.line(format!("made a hive with the agent `helper` in {folder}"))?;
    context.ui.note(next_steps(root));
    Ok(0)
}

fn next_steps(root: &Path) -> String {
    let cd = if root == Path::new(".") { String::new() } else { format!("  cd {}\n", root.display()) };
    format!(
        "\nNext:\n{cd}  skep doctor                     is everything here that agents need?\n  skep up -d                      \
         start the supervisor and the agent\n  skep exec helper -- ls /skills  what it was given\n  skep shell helper\n\n\
         skep.toml says what there is; change it while the hive runs."
    )
}

fn write_all(root: &Path, made: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for (path, content) in FILES {
        let path = root.join(path);
        write(&path, content)?;
        made.push(path);
    }
    // Only its owner may look in, before a secret is in it.
    let secrets = root.join("secrets");
    if !secrets.exists() {
        DirBuilder::new().mode(0o700).create(&secrets).map_err(|e| told(&secrets, &e))?;
    }
    ignore(&root.join(GITIGNORE), made)
}

fn write(path: &Path, content: &str) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| told(folder, &e))?;
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    file.and_then(|mut f| f.write_all(content.as_bytes())).map_err(|e| told(path, &e))
}

/// Makes `.gitignore`, or adds to one that is there the lines that it lacks.
fn ignore(path: &Path, made: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let before = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            write(path, &format!("{}\n", IGNORED.join("\n")))?;
            made.push(path.to_owned());
            return Ok(());
        }
        Err(e) => return Err(told(path, &e)),
    };
    let missing: Vec<&str> =
        IGNORED.into_iter().filter(|line| !before.lines().any(|l| l.trim() == *line)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let mut file = OpenOptions::new().append(true).open(path).map_err(|e| told(path, &e))?;
    writeln!(file, "{gap}{}", missing.join("\n")).map_err(|e| told(path, &e))
}

/// Removes what was made until something failed; folders only when nothing else is in them.
fn take_back(root: &Path, made_root: bool, made: &[PathBuf]) {
    for path in made {
        fs::remove_file(path).ok();
    }
    for folder in ["secrets", "secrets.example", "skills/note-taking", "skills", "souls"] {
        fs::remove_dir(root.join(folder)).ok();
    }
    if made_root {
        fs::remove_dir(root).ok();
    }
}

fn told(path: &Path, e: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {e}", path.display()))
}

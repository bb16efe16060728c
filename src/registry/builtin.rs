//! The skills that are shipped inside the program (`skills/built-in/` of the source tree).
//!
//! Embedded at compile time, so that one file is a whole installation. They enter the store like any
//! other skill; nothing reads them from here afterwards.

use include_dir::{Dir, include_dir};

use super::{safe_copy::CopyError, staging::Staged, store::Store};
use crate::config::model::SkillLimits;

static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/skills/built-in");

/// One embedded skill.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    /// Name of its folder, `<id>@<version>`.
    pub folder: &'static str,
    /// Path, executable bit, bytes.
    pub files: Vec<(&'static str, bool, &'static [u8])>,
}

/// Every skill that this program carries.
#[must_use]
pub fn skills() -> Vec<BuiltIn> {
    EMBEDDED
        .dirs()
        .filter_map(|dir| {
            let folder = dir.path().to_str()?;
            let mut files = Vec::new();
            collect(dir, folder, &mut files);
            files.sort_unstable();
            Some(BuiltIn { folder, files })
        })
        .collect()
}

/// Embedding keeps no modes: what stands under `scripts/` and names its interpreter may be run.
fn collect(dir: &Dir<'static>, folder: &str, files: &mut Vec<(&'static str, bool, &'static [u8])>) {
    for file in dir.files() {
        let path = file.path().strip_prefix(folder).ok().and_then(|p| p.to_str());
        if let Some(path) = path {
            let executable = path.starts_with("scripts/") && file.contents().starts_with(b"#!");
            files.push((path, executable, file.contents()));
        }
    }
    for inner in dir.dirs() {
        collect(inner, folder, files);
    }
}

/// Lays every built-in skill into the store's staging, with the name of its folder.
///
/// # Errors
/// The staging folder cannot be written.
pub fn stage(store: &Store) -> Result<Vec<(&'static str, Staged)>, CopyError> {
    skills()
        .into_iter()
        .map(|skill| {
            let staged = store.stage_files(skill.folder, skill.files, &SkillLimits::default())?;
            Ok((skill.folder, staged))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::registry::safe_copy::{self, Origin, Policy};

    #[test]
    fn the_registry_file_of_the_source_tree_lists_what_is_built_in() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry/skills.json");
        let file = crate::registry::file::read(&path).unwrap().unwrap();
        let listed: Vec<String> = file
            .skills
            .iter()
            .flat_map(|skill| skill.versions.iter().map(move |v| format!("{}@{v}", skill.id)))
            .collect();
        let built_in: Vec<&str> = skills().iter().map(|skill| skill.folder).collect();
        assert_eq!(listed, built_in);
    }

    #[test]
    fn every_script_says_what_its_schema_says_and_checks_its_arguments_alike() {
        let mut checks = std::collections::BTreeSet::new();
        for skill in skills() {
            let text = |path: &str| {
                let file = skill.files.iter().find(|(name, ..)| *name == path);
                let (.., bytes) = file.unwrap_or_else(|| panic!("{} has no {path}", skill.folder));
                std::str::from_utf8(bytes).unwrap()
            };
            let scripts: Vec<&str> = skill
                .files
                .iter()
                .filter(|(.., executable, _)| *executable)
                .map(|(path, ..)| *path)
                .collect();
            let manifest: serde_json::Value = serde_json::from_str(text("manifest.json")).unwrap();
            let mut listed: Vec<&str> =
                manifest["scripts"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
            listed.sort_unstable();
            assert_eq!(scripts, listed, "{}", skill.folder);
            for path in scripts {
                let schema: serde_json::Value =
                    serde_json::from_str(text(&path.replace(".ts", ".schema.json"))).unwrap();
                let first = text(path).lines().nth(1).unwrap();
                assert_eq!(first.strip_prefix("// "), schema["description"].as_str(), "{path}");
                assert_eq!(schema["additionalProperties"], false, "{path}");
                assert!(schema["examples"][0].is_object(), "{path}");
            }
            checks.insert(text("scripts/lib/arguments.ts"));
        }
        assert_eq!(checks.len(), 1, "skills carry the same check of arguments");
    }

    #[test]
    fn a_built_in_skill_gives_the_digest_of_its_folder_in_the_source_tree() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let policy = Policy { origin: Origin::Operator, limits: SkillLimits::default() };
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills/built-in");
        let staged = stage(&store).unwrap();
        assert!(staged.iter().any(|(folder, _)| folder.starts_with("basic-tools@")));
        for (folder, staged) in staged {
            let folder = safe_copy::fingerprint(&base, Path::new(folder), &policy).unwrap();
            assert_eq!(staged.source(), &folder);
        }
    }
}

//! `registry/skills.json`: the registry as a file, in the shape of systems.md D3.
//!
//! A view for people and other programs: written whole or not at all, never when nothing changed,
//! and never believed. The database holds the truth.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};

use super::index::{Index, Owner};
use crate::ids::{AgentId, SkillId};

/// Which agents use which skill.
pub type UsedBy = BTreeMap<SkillId, BTreeSet<AgentId>>;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillsFile {
    /// In order of their ids.
    pub skills: Vec<SkillLine>,
}

/// One skill of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillLine {
    /// Its id.
    pub id: SkillId,
    /// Newest first.
    pub versions: Vec<Version>,
    /// What a bare reference gives.
    pub latest_version: Option<Version>,
    /// `built-in`, `operator`, or the agent that wrote it.
    pub owner: Owner,
    /// Agents that resolved it.
    pub used_by: Vec<AgentId>,
    /// When it was first seen.
    pub registered_at: Timestamp,
    /// When a version came or changed last.
    pub updated_at: Timestamp,
}

impl SkillsFile {
    /// The file for a registry. Times are in whole seconds.
    #[must_use]
    pub fn new(index: &Index, used_by: &UsedBy) -> Self {
        let seconds = |t: Timestamp| Timestamp::from_second(t.as_second()).unwrap_or(t);
        let skills = index.skills.values().map(|skill| SkillLine {
            id: skill.id.clone(),
            versions: skill.versions.keys().rev().cloned().collect(),
            latest_version: skill.latest().map(|v| v.version.clone()),
            owner: skill.owner.clone(),
            used_by: used_by.get(&skill.id).into_iter().flatten().cloned().collect(),
            registered_at: seconds(skill.registered_at),
            updated_at: seconds(skill.updated_at),
        });
        Self { skills: skills.collect() }
    }

    /// As it stands in the file.
    #[must_use]
    pub fn render(&self) -> String {
        serde_json::to_string_pretty(self)
            .map_or_else(|_| String::from("{\"skills\": []}\n"), |text| text + "\n")
    }
}

/// What [`write`] found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The file said so already.
    Unchanged,
    /// The file was not there.
    Created,
    /// The file said something else.
    Updated,
    /// The file could not be read as a registry: a warning for the operator, with the reason.
    Repaired(String),
}

/// Brings the file at `path` up to date, by a new file that is renamed over the old.
///
/// # Errors
/// The file or its folder cannot be written; the old file is whole then.
pub fn write(path: &Path, content: &SkillsFile) -> io::Result<Written> {
    let text = content.render();
    let outcome = match fs::read(path) {
        Ok(old) if old == text.as_bytes() => return Ok(Written::Unchanged),
        Ok(old) => match serde_json::from_slice::<SkillsFile>(&old) {
            Ok(_) => Written::Updated,
            Err(e) => Written::Repaired(format!(
                "{} was no registry file ({e}) and was written anew",
                path.display()
            )),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Written::Created,
        Err(e) => {
            Written::Repaired(format!("{} could not be read ({e}) and was written anew", path.display()))
        }
    };
    let folder = path.parent().ok_or_else(|| io::Error::other("the registry file has no folder"))?;
    fs::create_dir_all(folder)?;
    let mut new = tempfile::Builder::new().prefix(".skills.json.").tempfile_in(folder)?;
    new.write_all(text.as_bytes())?;
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
    new.as_file().set_permissions(mode)?;
    new.as_file().sync_all()?;
    new.persist(path).map_err(|e| e.error)?;
    File::open(folder)?.sync_all()?;
    Ok(outcome)
}

/// Reads a registry file: none when it is not there.
///
/// # Errors
/// It cannot be read, or is no registry file.
pub fn read(path: &Path) -> io::Result<Option<SkillsFile>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::index::{About, SkillEntry, Trust, VersionEntry};

    fn index() -> Index {
        let version = |v: &str| VersionEntry {
            version: v.parse().unwrap(),
            digest: crate::ids::Digest([1; 32]),
            dependencies: vec![],
            yanked: false,
            deprecated: None,
            trust: Trust::Trusted,
        };
        let versions = ["1.0.0", "2.0.0", "2.1.0"].map(|v| (v.parse().unwrap(), version(v)));
        let id: SkillId = "social-media-apis".parse().unwrap();
        let entry = SkillEntry {
            id: id.clone(),
            owner: Owner::BuiltIn,
            enabled: true,
            versions: versions.into(),
            registered_at: "2024-01-01T00:00:00.25Z".parse().unwrap(),
            updated_at: "2024-01-15T10:00:00Z".parse().unwrap(),
            about: About::default(),
        };
        Index { skills: [(id, entry.into())].into() }
    }

    fn used_by() -> UsedBy {
        let agents = ["social-media-manager", "content-creator"].map(|a| a.parse().unwrap());
        [("social-media-apis".parse().unwrap(), agents.into())].into()
    }

    #[test]
    fn the_file_has_the_printed_shape() {
        insta::assert_snapshot!(SkillsFile::new(&index(), &used_by()).render(), @r#"
        {
          "skills": [
            {
              "id": "social-media-apis",
              "versions": [
                "2.1.0",
                "2.0.0",
                "1.0.0"
              ],
              "latestVersion": "2.1.0",
              "owner": "built-in",
              "usedBy": [
                "content-creator",
                "social-media-manager"
              ],
              "registeredAt": "2024-01-01T00:00:00Z",
              "updatedAt": "2024-01-15T10:00:00Z"
            }
          ]
        }
        "#);
    }

    #[test]
    fn the_file_is_rewritten_only_when_it_must_and_a_damaged_one_is_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registry/skills.json");
        let content = SkillsFile::new(&index(), &used_by());
        assert_eq!(write(&path, &content).unwrap(), Written::Created);
        assert_eq!(read(&path).unwrap().unwrap(), content);
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(write(&path, &content).unwrap(), Written::Unchanged);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        let unused = SkillsFile::new(&index(), &UsedBy::new());
        assert_eq!(write(&path, &unused).unwrap(), Written::Updated);
        fs::write(&path, "{\"skills\": [").unwrap();
        assert!(read(&path).is_err());
        assert!(
            matches!(write(&path, &content).unwrap(), Written::Repaired(why) if why.contains("skills.json"))
        );
        assert_eq!(read(&path).unwrap().unwrap(), content);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file stays");
    }
}

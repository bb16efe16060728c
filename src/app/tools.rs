//! The tools that an agent has by its skills' scripts, and which one a name means (systems.md D16).

use semver::Version;

use super::{Result, hive::Hive, types::AppError, world::World};
use crate::{
    db,
    ids::{AgentId, SkillId},
};

/// A script of a resolved skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Its skill.
    pub skill: SkillId,
    /// The skill's resolved version.
    pub version: Version,
    /// Its path in the skill's folder.
    pub path: String,
    /// The agent has the skill only because it wrote it.
    pub own: bool,
}

impl Script {
    /// The tool's name: the file's, without extension.
    #[must_use]
    pub fn name(&self) -> &str {
        let file = self.file();
        file.rsplit_once('.').map_or(file, |(stem, _)| stem)
    }

    fn file(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn is_called(&self, name: &str) -> bool {
        self.name() == name || self.file() == name
    }

    /// Where the schema of its arguments lies beside it, when it has one.
    #[must_use]
    pub fn schema_path(&self) -> String {
        let folder = self.path.strip_suffix(self.file()).unwrap_or_default();
        format!("{folder}{}.schema.json", self.name())
    }

    /// Where it lies in the container: by its version, so that a run keeps what it began with.
    #[must_use]
    pub fn place(&self) -> String {
        format!("/skills/.v/{}@{}/{}", self.skill, self.version, self.path)
    }
}

/// Which script a name means: `post-twitter`, `post-twitter.ts` or `<skill>/<tool>`.
///
/// # Errors
/// No script has that name, or several have.
pub fn find<'a>(scripts: &'a [Script], name: &str) -> std::result::Result<&'a Script, String> {
    let full = name.split_once('/');
    let meant: Vec<&Script> = scripts
        .iter()
        .filter(|script| match full {
            Some((skill, tool)) => script.skill.as_str() == skill && script.is_called(tool),
            None => script.is_called(name),
        })
        .collect();
    // What an agent writes takes no name away from what the operator gave it.
    let given: Vec<&Script> = meant.iter().copied().filter(|script| !script.own).collect();
    let meant = if given.is_empty() { meant } else { given };
    match meant.as_slice() {
        [one] => Ok(one),
        [] => Err(unknown(scripts, name)),
        many => {
            let names: Vec<String> =
                many.iter().map(|script| format!("{}/{}", script.skill, script.file())).collect();
            Err(format!("{name:?} is a tool of several skills: say {}", names.join(" or ")))
        }
    }
}

fn unknown(scripts: &[Script], name: &str) -> String {
    let nearest = scripts
        .iter()
        .map(|script| (strsim::damerau_levenshtein(script.name(), name), script.name()))
        .filter(|(distance, _)| *distance <= 3)
        .min();
    let help = match nearest {
        Some((_, near)) => format!("did you mean {near:?}?"),
        None if scripts.is_empty() => "it has no tools: give it a skill with scripts".to_owned(),
        None => {
            let mut names: Vec<&str> = scripts.iter().map(Script::name).collect();
            names.sort_unstable();
            names.dedup();
            names.truncate(20);
            format!("it has {}", names.join(", "))
        }
    };
    format!("the agent has no tool {name:?}; {help}")
}

impl Hive {
    /// The scripts of every skill that an agent resolved, by skill and path; none when it resolved nothing.
    ///
    /// # Errors
    /// The database fails.
    pub async fn scripts(&self, agent: &AgentId) -> Result<Vec<Script>> {
        let (world, agent) = (self.world(), agent.clone());
        let read = self.db.read(move |conn| scripts(conn, &world, &agent));
        read.await.map_err(|e: db::DbError| AppError::Internal(e.to_string()))
    }
}

/// As [`Hive::scripts`], of a world that need not be in force yet.
///
/// # Errors
/// The database fails.
pub(super) fn scripts(
    conn: &db::Conn,
    world: &World,
    agent: &AgentId,
) -> std::result::Result<Vec<Script>, db::DbError> {
    let Some(Ok(resolution)) = world.resolutions.get(agent) else { return Ok(Vec::new()) };
    let mut scripts = Vec::new();
    for (skill, resolved) in &resolution.skills {
        let Some(manifest) = db::skills::manifest(conn, skill, &resolved.version)? else { continue };
        scripts.extend(manifest.scripts.into_iter().map(|path| Script {
            skill: skill.clone(),
            version: resolved.version.clone(),
            path,
            own: resolution.own.contains(skill),
        }));
    }
    Ok(scripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(skill: &str, path: &str) -> Script {
        let (skill, path) = (skill.parse().unwrap(), path.into());
        Script { skill, version: Version::new(1, 0, 0), path, own: false }
    }

    #[test]
    fn a_tool_is_called_by_its_file_with_or_without_extension() {
        let scripts = [script("social", "scripts/post-twitter.ts"), script("basic", "scripts/read.sh")];
        assert_eq!(find(&scripts, "post-twitter").unwrap().skill.as_str(), "social");
        assert_eq!(find(&scripts, "post-twitter.ts").unwrap(), &scripts[0]);
        assert_eq!(find(&scripts, "basic/read").unwrap().place(), "/skills/.v/basic@1.0.0/scripts/read.sh");
    }

    #[test]
    fn a_name_of_several_skills_is_refused_naming_each() {
        let scripts = [script("a", "scripts/post.ts"), script("b", "scripts/post.py")];
        assert_eq!(
            find(&scripts, "post").unwrap_err(),
            "\"post\" is a tool of several skills: say a/post.ts or b/post.py"
        );
        assert_eq!(find(&scripts, "b/post").unwrap().skill.as_str(), "b");
        assert_eq!(find(&scripts, "post.ts").unwrap().skill.as_str(), "a");
    }

    #[test]
    fn what_the_agent_wrote_takes_no_name_away() {
        let own = Script { own: true, ..script("mine", "scripts/post.py") };
        let scripts = [own.clone(), script("given", "scripts/post.ts")];
        assert_eq!(find(&scripts, "post").unwrap().skill.as_str(), "given");
        assert_eq!(find(&scripts, "mine/post").unwrap(), &own);
        assert_eq!(find(&scripts[..1], "post").unwrap(), &own);
    }

    #[test]
    fn a_name_that_nothing_has_is_told_with_the_nearest() {
        let scripts = [script("a", "scripts/post-twitter.ts")];
        assert!(find(&scripts, "post-twiter").unwrap_err().ends_with("did you mean \"post-twitter\"?"));
        assert!(find(&scripts, "x").unwrap_err().ends_with("it has post-twitter"));
        assert!(find(&[], "x").unwrap_err().contains("it has no tools"));
    }
}

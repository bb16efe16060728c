//! What an agent can call, and which one a name means (systems.md D16).
//!
//! A tool is a script of a skill, a tool of an MCP server that a skill brings, or one of the hive's own. Pure: what there
//! is, others find out.

pub mod catalogue;
pub mod check;
pub mod normalise;
pub mod template;
mod weight;
pub mod workflow;

use semver::Version;

use crate::ids::SkillId;

/// The group of the hive's own tools.
pub const HIVE: &str = "skep";

/// Something that an agent can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// What it is listed under: the skill of a script, the name of a server, or [`HIVE`].
    pub group: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The agent has it only because it wrote the skill.
    pub own: bool,
}

/// What a tool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A script of a resolved skill.
    Script(Script),
    /// A tool of an MCP server.
    Server {
        /// The skill that brings the server.
        skill: SkillId,
        /// The server's name in that skill.
        server: String,
    },
    /// One of the hive's own.
    Hive,
}

/// A script of a resolved skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Its skill.
    pub skill: SkillId,
    /// The skill's resolved version.
    pub version: Version,
    /// Its path in the skill's folder.
    pub path: String,
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

impl Tool {
    /// A script as a tool.
    #[must_use]
    pub fn script(skill: SkillId, version: Version, path: String, own: bool) -> Self {
        let script = Script { skill, version, path };
        Self {
            group: script.skill.to_string(),
            name: script.name().to_owned(),
            kind: Kind::Script(script),
            own,
        }
    }

    /// A tool of an MCP server.
    #[must_use]
    pub fn of_server(skill: SkillId, server: &str, name: &str, own: bool) -> Self {
        // A server that takes the hive's name is listed apart.
        let group = if server == HIVE { format!("{skill}/{server}") } else { server.to_owned() };
        let kind = Kind::Server { skill, server: server.to_owned() };
        Self { group, name: name.to_owned(), kind, own }
    }

    /// One of the hive's own.
    #[must_use]
    pub fn of_hive(name: &str) -> Self {
        Self { group: HIVE.to_owned(), name: name.to_owned(), kind: Kind::Hive, own: false }
    }

    /// The skill that brings it; none: the hive does.
    #[must_use]
    pub fn skill(&self) -> Option<&SkillId> {
        match &self.kind {
            Kind::Script(script) => Some(&script.skill),
            Kind::Server { skill, .. } => Some(skill),
            Kind::Hive => None,
        }
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || matches!(&self.kind, Kind::Script(script) if script.file() == name)
    }

    /// A name that means it alone among `all`, as far as there is one.
    #[must_use]
    pub fn name_among(&self, all: &[Self]) -> String {
        let file = match &self.kind {
            Kind::Script(script) => script.file(),
            Kind::Server { .. } | Kind::Hive => &self.name,
        };
        let mut names = vec![self.name.clone(), format!("{}/{}", self.group, self.name)];
        names.extend(self.skill().map(|skill| format!("{skill}/{}", self.name)));
        names.push(format!("{}/{file}", self.group));
        let alone = |name: &String| meant(all, name).as_slice() == [self];
        let last = names.last().cloned().unwrap_or_default();
        names.into_iter().find(alone).unwrap_or(last)
    }
}

/// Which tool a name means: `post-twitter`, `post-twitter.ts` or `<skill or server>/<tool>`.
///
/// The hive's own tools keep their names whatever a server calls its own, and what an agent writes takes no name away
/// from what the operator gave it.
///
/// # Errors
/// No tool has that name, or several have.
pub fn find<'a>(tools: &'a [Tool], name: &str) -> Result<&'a Tool, String> {
    let meant = meant(tools, name);
    match meant.as_slice() {
        [one] => Ok(one),
        [] => Err(unknown(tools, name)),
        many => {
            let mut names: Vec<String> = many.iter().map(|tool| tool.name_among(tools)).collect();
            names.sort_unstable();
            let several = if many.iter().all(|tool| matches!(tool.kind, Kind::Script(_))) {
                "skills"
            } else {
                "skills or servers"
            };
            Err(format!("{name:?} is a tool of several {several}: say {}", names.join(" or ")))
        }
    }
}

/// The tools that a name may mean: those that bear it, and where it has a `/` those of that skill, else of that server.
/// What an agent wrote only where nothing else has the name.
fn meant<'a>(tools: &'a [Tool], name: &str) -> Vec<&'a Tool> {
    let mut meant: Vec<&Tool> = tools.iter().filter(|tool| tool.is_called(name)).collect();
    if let Some((group, rest)) = name.split_once('/') {
        let of = |is: &dyn Fn(&Tool) -> bool| -> Vec<&'a Tool> {
            tools.iter().filter(|tool| is(tool) && tool.is_called(rest)).collect()
        };
        // A server cannot take a skill's name away, nor can the name of a tool.
        let scripts = of(&|tool| matches!(tool.kind, Kind::Script(_)) && tool.group == group);
        let of_hive = of(&|tool| tool.kind == Kind::Hive && tool.group == group);
        let of_skill = of(&|tool| tool.skill().is_some_and(|skill| skill.as_str() == group));
        let of_server = of(&|tool| tool.group == group);
        let given = |all: &[&Tool]| all.iter().any(|tool| !tool.own);
        let ranked = [of_hive, scripts, meant, of_skill, of_server];
        let first =
            ranked.iter().find(|all| given(all)).or_else(|| ranked.iter().find(|all| !all.is_empty()));
        meant = first.cloned().unwrap_or_default();
    }
    if let Some(hive) = meant.iter().find(|tool| tool.kind == Kind::Hive) {
        return vec![hive];
    }
    let given: Vec<&Tool> = meant.iter().copied().filter(|tool| !tool.own).collect();
    if given.is_empty() { meant } else { given }
}

/// Names of tools in an error.
const SHOWN: usize = 20;

fn unknown(tools: &[Tool], name: &str) -> String {
    let nearest = tools
        .iter()
        .map(|tool| (strsim::damerau_levenshtein(&tool.name, name), &tool.name))
        .filter(|(distance, _)| *distance <= 3)
        .min();
    let mut names: Vec<&str> =
        tools.iter().filter(|tool| tool.kind != Kind::Hive).map(|tool| tool.name.as_str()).collect();
    let help = match nearest {
        Some((_, near)) => format!("did you mean {near:?}?"),
        None if names.is_empty() => {
            "it has none but the hive's own: give it a skill with scripts or servers".to_owned()
        }
        None => {
            names.sort_unstable();
            names.dedup();
            let more = names.len().saturating_sub(SHOWN);
            names.truncate(SHOWN);
            match more {
                0 => format!("it has {}", names.join(", ")),
                _ => format!("it has {}, … and {more} more: `skep tools AGENT` lists them", names.join(", ")),
            }
        }
    };
    format!("the agent has no tool {name:?}; {help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(skill: &str, path: &str) -> Tool {
        Tool::script(skill.parse().unwrap(), Version::new(1, 0, 0), path.into(), false)
    }

    fn served(skill: &str, server: &str, name: &str) -> Tool {
        Tool::of_server(skill.parse().unwrap(), server, name, false)
    }

    #[test]
    fn a_tool_is_called_by_its_file_with_or_without_extension() {
        let tools = [script("social", "scripts/post-twitter.ts"), script("basic", "scripts/read.sh")];
        assert_eq!(find(&tools, "post-twitter").unwrap().skill().unwrap().as_str(), "social");
        assert_eq!(find(&tools, "post-twitter.ts").unwrap(), &tools[0]);
        let Kind::Script(found) = &find(&tools, "basic/read").unwrap().kind else { panic!() };
        assert_eq!(found.place(), "/skills/.v/basic@1.0.0/scripts/read.sh");
    }

    #[test]
    fn a_name_of_several_is_refused_naming_each() {
        let tools = [script("a", "scripts/post.ts"), script("b", "scripts/post.py")];
        assert_eq!(
            find(&tools, "post").unwrap_err(),
            "\"post\" is a tool of several skills: say a/post or b/post"
        );
        assert_eq!(find(&tools, "b/post").unwrap(), &tools[1]);
        assert_eq!(find(&tools, "post.ts").unwrap(), &tools[0]);
        let tools = [script("a", "scripts/search.ts"), served("web", "brave", "search")];
        assert_eq!(
            find(&tools, "search").unwrap_err(),
            "\"search\" is a tool of several skills or servers: say a/search or brave/search"
        );
        assert_eq!(find(&tools, "brave/search").unwrap(), &tools[1]);
        assert_eq!(find(&tools, "web/search").unwrap(), &tools[1], "a server's skill names it too");
    }

    #[test]
    fn what_the_agent_wrote_takes_no_name_away() {
        let own = Tool { own: true, ..script("mine", "scripts/post.py") };
        let tools = [own.clone(), script("given", "scripts/post.ts")];
        assert_eq!(find(&tools, "post").unwrap(), &tools[1]);
        assert_eq!(find(&tools, "mine/post").unwrap(), &own);
        assert_eq!(find(&tools[..1], "post").unwrap(), &own);
    }

    #[test]
    fn neither_an_own_nor_a_given_server_takes_a_scripts_full_name() {
        let read = script("basic-tools", "scripts/read-file.ts");
        let sly = Tool { own: true, ..served("sly", "basic-tools", "basic-tools/read-file") };
        assert_eq!(find(&[sly.clone(), read.clone()], "basic-tools/read-file").unwrap(), &read);
        assert_eq!(find(&[sly.clone(), read.clone()], "read-file").unwrap(), &read);
        let shadow = served("shadow", "basic-tools", "read-file");
        let tools = [shadow.clone(), read.clone(), sly];
        assert_eq!(find(&tools, "basic-tools/read-file").unwrap(), &read);
        assert_eq!(
            find(&tools, "read-file").unwrap_err(),
            "\"read-file\" is a tool of several skills or servers: say basic-tools/read-file or shadow/read-file"
        );
        assert_eq!(find(&tools, "shadow/read-file").unwrap(), &shadow);
        for tool in &tools[..2] {
            assert_eq!(find(&tools, &tool.name_among(&tools)), Ok(tool));
        }
    }

    #[test]
    fn two_servers_that_cannot_be_told_apart_are_told_so() {
        let tools = [served("web", "search", "find"), served("web", "search", "find")];
        for name in ["find", "search/find", "web/find"] {
            assert!(find(&tools, name).unwrap_err().contains("of several"), "{name}");
        }
    }

    #[test]
    fn a_server_of_the_hives_name_is_listed_apart() {
        let tools = [served("sly", "skep", "create_skill"), Tool::of_hive("create_skill")];
        assert_eq!(tools[0].group, "sly/skep");
        assert_eq!(find(&tools, "skep/create_skill").unwrap(), &tools[1]);
        assert_eq!(find(&tools, &tools[0].name_among(&tools)), Ok(&tools[0]));
    }

    #[test]
    fn a_server_cannot_claim_the_name_of_a_tool_of_the_hive() {
        let tools = [served("sly", "sly", "memory_list_skills"), Tool::of_hive("memory_list_skills")];
        assert_eq!(find(&tools, "memory_list_skills").unwrap(), &tools[1]);
        assert_eq!(find(&tools, "sly/memory_list_skills").unwrap(), &tools[0]);
    }

    #[test]
    fn a_name_that_nothing_has_is_told_with_the_nearest() {
        let tools = [script("a", "scripts/post-twitter.ts")];
        assert!(find(&tools, "post-twiter").unwrap_err().ends_with("did you mean \"post-twitter\"?"));
        assert!(find(&tools, "x").unwrap_err().ends_with("it has post-twitter"));
        assert!(find(&[], "x").unwrap_err().contains("it has none but the hive's own"));
        let many = |count: usize| -> Vec<Tool> {
            (0..count).map(|n| script("a", &format!("scripts/long-name-{n:02}.ts"))).collect()
        };
        let told = find(&many(23), "x").unwrap_err();
        assert!(
            told.contains("long-name-18, long-name-19, … and 3 more: `skep tools AGENT` lists them"),
            "{told}"
        );
        assert!(find(&many(20), "x").unwrap_err().ends_with("long-name-18, long-name-19"));
    }
}

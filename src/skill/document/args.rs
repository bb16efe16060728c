//! The parameters of the document tools (B3, C9), from JSON to what is asked.
//!
//! Parameters that are null count as left out. Every mistake is told, with its place.

use serde_json::{Map, Value, json};

use super::{
    edit::{Edit, Operation},
    text::Text,
};
use crate::ids::SkillId;

/// Limits of `skill_management` alone (C9), in characters.
const MANAGED: [(&str, usize); 3] = [("name", 50), ("description", 200), ("content", 50_000)];
const OPERATIONS: [&str; 5] = ["replace", "find_replace", "append", "prepend", "delete"];
const MANAGEMENT: [&str; 4] = ["create_skill", "list_skills", "get_skill", "delete_skill"];

/// Something that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// JSON pointer of the parameter.
    pub pointer: String,
    /// What is wrong with it.
    pub detail: String,
}

impl Mistake {
    pub(super) fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: detail.into() }
    }
}

/// A document to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Create {
    /// Under which name.
    pub slug: SkillId,
    /// What it says.
    pub text: Text,
}

/// A change of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Of which.
    pub slug: SkillId,
    /// What changes.
    pub edit: Edit,
}

/// A call of a tool, checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Make a document.
    Create(Create),
    /// Change one.
    Update(Update),
    /// Delete one.
    Delete(SkillId),
    /// List them.
    List {
        /// Only those with this tag.
        tag: Option<String>,
        /// Disabled ones too.
        include_disabled: bool,
    },
    /// Read one.
    Read(SkillId),
    /// Enable or disable one.
    SetEnabled(SkillId, bool),
}

macro_rules! tools {
    ($($name:ident $text:literal $doc:literal,)*) => {
        /// The tools that work on documents.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Tool { $(#[doc = $doc] $name,)* }

        impl Tool {
            /// Each of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it does, for models.
            #[must_use]
            pub fn description(self) -> &'static str {
                match self { $(Self::$name => $doc,)* }
            }
        }
    };
}

tools! {
    CreateSkill "create_skill" "Saves a procedure, a standard or knowledge as a new skill document.",
    UpdateSkill "update_skill" "Changes a skill document: its content, title, description or tags.",
    DeleteSkill "delete_skill" "Deletes a skill document.",
    ListSkills "list_skills" "Lists the skill documents, without their contents.",
    ReadSkill "read_skill" "Reads a skill document with its content.",
    EnableSkill "enable_skill" "Enables a skill document: it is listed again.",
    DisableSkill "disable_skill" "Disables a skill document: it is listed no longer, and stays.",
    SkillManagement "skill_management" "Creates, lists, reads or deletes skill documents.",
}

impl Tool {
    /// The tool of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tool| tool.name() == name)
    }

    /// The JSON Schema of its parameters.
    #[must_use]
    pub fn parameters(self) -> Value {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let flag = |description: &str| json!({ "type": "boolean", "description": description });
        let tags = |description: &str| json!({ "type": "array", "items": { "type": "string" }, "description": description });
        let name = text("The skill's slug: lowercase letters, digits and hyphens.");
        let (properties, required): (Value, &[&str]) = match self {
            Self::CreateSkill => (
                json!({
                    "name": name,
                    "title": text("Title for people."),
                    "description": text("One sentence that tells when to read it."),
                    "content": text("The whole document, in markdown."),
                    "tags": tags("Words to find it by."),
                }),
                &["name", "title", "description", "content"],
            ),
            Self::UpdateSkill => (
                json!({
                    "name": name,
                    "title": text("Another title."),
                    "description": text("Another description."),
                    "tags": tags("Other tags, in place of all that it has."),
                    "operation": { "type": "string", "enum": OPERATIONS, "description":
                        "What happens to the content. Left out: it stays as it is." },
                    "content": text("replace: the new content. append, prepend: the text to add, joined without a \
                                     line break of its own. delete: the text to remove, exactly as it stands."),
                    "find": text("find_replace: the text to find, exactly as it stands; it must stand once."),
                    "replace": text("find_replace: what takes its place."),
                    "replace_all": flag("find_replace: take every occurrence. Default: false."),
                }),
                &["name"],
            ),
            Self::ListSkills => (
                json!({
                    "tag": text("Only those with this tag."),
                    "include_disabled": flag("Disabled ones too. Default: false."),
                }),
                &[],
            ),
            Self::SkillManagement => (
                json!({
                    "operation": { "type": "string", "enum": MANAGEMENT, "description": "What to do." },
                    "name": text("The skill: lowercase letters, digits and hyphens, at most 50 characters."),
                    "description": text("create_skill: what it is for, at most 200 characters."),
                    "content": text("create_skill: the instructions, at most 50,000 characters."),
                }),
                &["operation"],
            ),
            _ => (json!({ "name": name }), &["name"]),
        };
        json!({ "type": "object", "properties": properties, "required": required })
    }
}

/// Reads the parameters of a call.
///
/// # Errors
/// Everything that is wrong with them.
pub fn parse(tool: Tool, args: &Value) -> Result<Call, Vec<Mistake>> {
    let empty = Map::new();
    let given = match args {
        Value::Null => &empty,
        Value::Object(given) => given,
        _ => return Err(vec![Mistake::new("", "the parameters must be a JSON object")]),
    };
    let mut args = Args { given, mistakes: Vec::new() };
    args.refuse_unknown(&tool.parameters());
    let call = match tool {
        Tool::CreateSkill => args.create(),
        Tool::UpdateSkill => {
            args.slug().zip(args.edit()).map(|(slug, edit)| Call::Update(Update { slug, edit }))
        }
        Tool::DeleteSkill => args.slug().map(Call::Delete),
        Tool::ListSkills => {
            Some(Call::List { tag: args.text("tag"), include_disabled: args.flag("include_disabled") })
        }
        Tool::ReadSkill => args.slug().map(Call::Read),
        Tool::EnableSkill => args.slug().map(|slug| Call::SetEnabled(slug, true)),
        Tool::DisableSkill => args.slug().map(|slug| Call::SetEnabled(slug, false)),
        Tool::SkillManagement => args.management(),
    };
    match call {
        Some(call) if args.mistakes.is_empty() => Ok(call),
        _ => Err(args.mistakes),
    }
}

/// Reads `update_skill`'s parameters for a document that is named elsewhere; `name` may repeat it.
///
/// # Errors
/// Everything that is wrong with them.
pub fn patch(slug: &SkillId, body: &Value) -> Result<Edit, Vec<Mistake>> {
    let Value::Object(given) = body else {
        return Err(vec![Mistake::new("", "the parameters must be a JSON object")]);
    };
    let mut given = given.clone();
    let name = given.entry("name").or_insert_with(|| slug.as_str().into());
    if name != slug.as_str() {
        return Err(vec![Mistake::new("/name", format!("this is {slug}; a document cannot be renamed"))]);
    }
    match parse(Tool::UpdateSkill, &Value::Object(given))? {
        Call::Update(update) => Ok(update.edit),
        _ => Err(Vec::new()),
    }
}

struct Args<'a> {
    given: &'a Map<String, Value>,
    mistakes: Vec<Mistake>,
}

impl Args<'_> {
    fn wrong(&mut self, key: &str, detail: impl Into<String>) {
        self.mistakes.push(Mistake::new(format!("/{key}"), detail));
    }

    fn refuse_unknown(&mut self, schema: &Value) {
        let known: Vec<&str> =
            schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        let strange: Vec<&String> = self.given.keys().filter(|key| !known.contains(&key.as_str())).collect();
        for key in strange {
            let pointer = key.replace('~', "~0").replace('/', "~1");
            self.wrong(&pointer, format!("{key:?} is no parameter; there are {}", known.join(", ")));
        }
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.given.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                self.wrong(key, format!("{key} must be a string"));
                None
            }
        }
    }

    fn required(&mut self, key: &str) -> Option<String> {
        if matches!(self.given.get(key), None | Some(Value::Null)) {
            self.wrong(key, format!("{key} is missing"));
        }
        self.text(key)
    }

    fn flag(&mut self, key: &str) -> bool {
        match self.given.get(key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Bool(true)) => true,
            Some(Value::String(text)) if text == "true" || text == "false" => text == "true",
            Some(_) => {
                self.wrong(key, format!("{key} must be true or false"));
                false
            }
        }
    }

    fn tags(&mut self) -> Option<Vec<String>> {
        match self.given.get("tags") {
            None | Some(Value::Null) => None,
            Some(Value::Array(items)) => {
                let texts: Option<Vec<_>> = items.iter().map(|tag| tag.as_str().map(str::to_owned)).collect();
                if texts.is_none() {
                    self.wrong("tags", "tags must be a list of strings");
                }
                texts
            }
            Some(_) => {
                self.wrong("tags", "tags must be a list of strings");
                None
            }
        }
    }

    fn slug(&mut self) -> Option<SkillId> {
        match self.required("name")?.parse() {
            Ok(slug) => Some(slug),
            Err(e) => {
                self.wrong("name", e.to_string());
                None
            }
        }
    }

    fn create(&mut self) -> Option<Call> {
        let (slug, title, description) = (self.slug(), self.required("title"), self.required("description"));
        let (content, tags) = (self.required("content"), self.tags().unwrap_or_default());
        self.make(slug, title?.as_str(), description?.as_str(), &tags, content?.as_str())
    }

    fn make(
        &mut self,
        slug: Option<SkillId>,
        title: &str,
        description: &str,
        tags: &[String],
        content: &str,
    ) -> Option<Call> {
        match Text::new(title, description, tags, content) {
            Ok(text) => Some(Call::Create(Create { slug: slug?, text })),
            Err(mistakes) => {
                self.mistakes.extend(mistakes);
                None
            }
        }
    }

    fn edit(&mut self) -> Option<Edit> {
        let (title, description, tags) = (self.text("title"), self.text("description"), self.tags());
        let operation = match self.text("operation") {
            None => {
                self.idle("no operation is named", &["content", "find", "replace", "replace_all"]);
                None
            }
            Some(name) => Some(self.operation(&name)?),
        };
        let edit = Edit { title, description, tags, operation };
        if edit == Edit::default() && self.mistakes.is_empty() {
            let detail = "nothing is to be changed: give an operation, a title, a description or tags";
            self.mistakes.push(Mistake::new("", detail));
        }
        Some(edit)
    }

    fn operation(&mut self, name: &str) -> Option<Operation> {
        if !OPERATIONS.contains(&name) {
            let known = OPERATIONS.join(", ");
            self.wrong("operation", format!("{name:?} is no operation; there are {known}"));
            return None;
        }
        let belongs = format!("the operation is {name}");
        let all = self.flag("replace_all");
        if name == "find_replace" {
            self.idle(&belongs, &["content"]);
            let (find, replace) = (self.required("find"), self.required("replace"));
            return Some(Operation::FindReplace { find: find?, replace: replace?, all });
        }
        self.idle(&belongs, &["find", "replace"]);
        let content = self.required("content")?;
        Some(match name {
            "append" => Operation::Append(content),
            "prepend" => Operation::Prepend(content),
            "delete" => Operation::Delete { find: content, all },
            _ => Operation::Replace(content),
        })
    }

    /// Parameters that would have no effect are a mistake, unless they say nothing: some models fill in all.
    fn idle(&mut self, why: &str, keys: &[&str]) {
        for key in keys {
            let says = match self.given.get(*key) {
                None | Some(Value::Null | Value::Bool(false)) => false,
                Some(Value::String(text)) => !text.is_empty(),
                Some(_) => true,
            };
            if says {
                self.wrong(key, format!("{key} has no effect: {why}"));
            }
        }
    }

    fn management(&mut self) -> Option<Call> {
        let operation = self.required("operation")?;
        match operation.as_str() {
            "list_skills" => Some(Call::List { tag: None, include_disabled: false }),
            "get_skill" => self.slug().map(Call::Read),
            "delete_skill" => self.slug().map(Call::Delete),
            "create_skill" => {
                for (key, max) in MANAGED {
                    let count = self.given.get(key).and_then(Value::as_str).map_or(0, |t| t.chars().count());
                    if count > max {
                        let detail = format!("{key} has {count} characters; at most {max} are allowed");
                        self.wrong(key, detail);
                    }
                }
                let (slug, description) = (self.slug(), self.required("description"));
                let content = self.required("content");
                let title = slug.as_ref().map(ToString::to_string).unwrap_or_default();
                let title = if title.is_empty() { "-" } else { &title };
                self.make(slug, title, description?.as_str(), &[], content?.as_str())
            }
            other => {
                let known = MANAGEMENT.join(", ");
                self.wrong("operation", format!("{other:?} is no operation; there are {known}"));
                None
            }
        }
    }
}

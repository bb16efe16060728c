//! Document operations in random sequences, each compared with a simple model of what it must do.
//!
//! An input is a SKILL.md or nothing, a line `%%`, and one operation a line: a word, then its text. What the line says
//! becomes the JSON that a model would send; a line that begins with `{` is that JSON itself.

use serde_json::{Value, json};
use skep::{
    ids::SkillId,
    skill::{
        document::{Call, Create, Text, Tool, parse},
        load::read,
        source::{Limits, Source},
    },
};

use crate::{
    mutate::fuzz,
    seeds::{self, DOCUMENT_WORDS},
};

/// Bytes of content above which an input is given up: `replace_all` multiplies.
const LARGEST: usize = 256 << 10;

/// What a document must say.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    title: String,
    description: String,
    tags: Vec<String>,
    content: String,
}

impl Model {
    fn of(text: &Text) -> Self {
        let Text { title, description, tags, content, .. } = text.clone();
        Self { title, description, tags, content }
    }

    /// The content after an operation; none when it must be refused.
    fn content_after(&self, args: &Value) -> Option<String> {
        let given = |key: &str| args[key].as_str().unwrap_or_default();
        let old = &self.content;
        let all = args["replace_all"] == true || args["replace_all"] == "true";
        match given("operation") {
            "replace" => Some(given("content").to_owned()),
            "append" => Some(old.clone() + given("content")),
            "prepend" => Some(given("content").to_owned() + old),
            "find_replace" => exchange(old, given("find"), given("replace"), all),
            "delete" => exchange(old, given("content"), "", all),
            _ => Some(old.clone()),
        }
    }

    /// The document after a call that was taken; none when it must be refused.
    fn after(&self, args: &Value) -> Option<Self> {
        let line = |key: &str, old: &String| args[key].as_str().map_or(old.clone(), |t| t.trim().to_owned());
        let tags = args["tags"].as_array().map(|tags| {
            let mut each: Vec<String> = Vec::new();
            for tag in tags.iter().filter_map(Value::as_str).map(str::trim) {
                if each.iter().all(|known| known != tag) {
                    each.push(tag.to_owned());
                }
            }
            each
        });
        let new = Self {
            title: line("title", &self.title),
            description: line("description", &self.description),
            tags: tags.clone().unwrap_or_else(|| self.tags.clone()),
            content: self.content_after(args)?,
        };
        let printable = |text: &str, most: usize, lines: bool| {
            let odd = |c: char| c.is_control() && !(lines && (c == '\n' || c == '\t'));
            (1..=most).contains(&text.chars().count()) && !text.contains(odd)
        };
        let good = (args["title"].is_null() || printable(&new.title, 200, false))
            && (args["description"].is_null() || printable(&new.description, 1024, true))
            && tags.is_none_or(|tags| tags.len() <= 50 && tags.iter().all(|tag| printable(tag, 64, false)))
            && (args["operation"].is_null() || !new.content.contains('\0'));
        good.then_some(new)
    }
}

/// One piece for another, once or everywhere; none when it is not there or nobody knows which one is meant.
fn exchange(old: &str, find: &str, new: &str, all: bool) -> Option<String> {
    let places = old.char_indices().filter(|(at, _)| !find.is_empty() && old[*at..].starts_with(find));
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    if places.is_empty() || (places.len() > 1 && !all) {
        return None;
    }
    let (mut out, mut from) = (String::new(), 0);
    for at in places {
        if at >= from {
            out.push_str(&old[from..at]);
            out.push_str(new);
            from = at + find.len();
        }
    }
    Some(out + &old[from..])
}

/// A line as the parameters of `update_skill`.
fn params(line: &str) -> Option<Value> {
    if line.starts_with('{') {
        let mut args: Value = serde_json::from_str(line).ok()?;
        args.as_object_mut()?.insert("name".into(), "doc".into());
        return Some(args);
    }
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let text = rest.replace("\\n", "\n").replace("\\0", "\0");
    let (find, replace) = text.split_once("=>").unwrap_or((&text, ""));
    Some(match word {
        "replace" | "append" | "prepend" | "delete" => {
            json!({"name": "doc", "operation": word, "content": text})
        }
        "delete-all" => json!({"name": "doc", "operation": "delete", "content": text, "replace_all": true}),
        "find" => json!({"name": "doc", "operation": "find_replace", "find": find, "replace": replace}),
        "find-all" => {
            json!({"name": "doc", "operation": "find_replace", "find": find, "replace": replace, "replace_all": true})
        }
        "title" | "description" => json!({"name": "doc", word: text}),
        "tags" => json!({"name": "doc", "tags": text.split(',').collect::<Vec<_>>()}),
        "both" => {
            json!({"name": "doc", "title": find, "tags": [replace], "operation": "append", "content": text})
        }
        _ => return None,
    })
}

/// A document as its file has it is the same document, and the file is a skill that loads. What was taken in leniently
/// (no description, none of the format's limits) need not be one.
fn written(slug: &SkillId, text: &Text, own: bool) -> Text {
    let version = "0.0.7".parse().unwrap();
    let file = text.to_skill_md(slug, &version);
    let again = Text::from_skill_md(slug, file.as_bytes()).unwrap_or_else(|e| panic!("{e}: {file:?}"));
    assert_eq!(Model::of(&again), Model::of(text), "{file:?}");
    let twice = again.to_skill_md(slug, &version);
    assert_eq!(twice, file, "what is read and written changes no more");
    let folder = Source::from_memory(&[("SKILL.md", file.as_bytes(), false)]).named(slug.as_str());
    let report = read(&folder, Limits::default());
    if own {
        let skill = report.skill.unwrap_or_else(|| panic!("{:?}: {file:?}", report.errors));
        assert_eq!((skill.id.as_str(), &skill.tags), (slug.as_str(), &text.tags), "{file:?}");
        assert_eq!(Text::title_of(&skill), text.title, "{file:?}");
    }
    again
}

#[test]
fn documents() {
    let slug: SkillId = "doc".parse().unwrap();
    fuzz("documents", &seeds::documents(), DOCUMENT_WORDS, |bytes| {
        let input = String::from_utf8_lossy(bytes);
        let (head, lines) = input.split_once("%%\n").unwrap_or(("", &input));
        let mut own = head.is_empty();
        let mut text = if own {
            let new = json!({"name": "doc", "title": "Title", "description": "What", "content": "a\nb\n", "tags": ["t"]});
            match parse(Tool::CreateSkill, &new) {
                Ok(Call::Create(Create { text, .. })) => text,
                other => panic!("{other:?}"),
            }
        } else {
            let Ok(text) = Text::from_skill_md(&slug, head.as_bytes()) else { return };
            text
        };
        text = written(&slug, &text, own);
        for line in lines.lines().take(40) {
            let Some(args) = params(line) else { continue };
            let edit = match parse(Tool::UpdateSkill, &args) {
                Ok(Call::Update(update)) => update.edit,
                Ok(other) => panic!("{args} is {other:?}"),
                Err(mistakes) => {
                    assert!(!mistakes.is_empty(), "{args}");
                    assert!(line.starts_with('{'), "{args}: {mistakes:?}");
                    continue;
                }
            };
            let expected = Model::of(&text).after(&args);
            match text.edited(&edit) {
                Ok(new) => {
                    assert_eq!(Some(Model::of(&new)), expected, "{args} of {text:?}");
                    own &= new.mistakes().is_empty();
                    text = written(&slug, &new, own);
                }
                Err(mistakes) => {
                    assert_eq!(expected, None, "{args} of {text:?}: {mistakes:?}");
                    assert!(mistakes.iter().all(|m| m.pointer.starts_with('/')), "{mistakes:?}");
                }
            }
            if text.content.len() > LARGEST {
                return;
            }
        }
    });
}

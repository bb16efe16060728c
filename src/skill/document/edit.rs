//! Changes of a document (B3): of its words, and five operations on its content.
//!
//! All or nothing: what cannot be done as asked changes nothing. Texts are compared and joined exactly as given.

use super::{
    args::Mistake,
    text::{Text, distinct},
};

/// What is to be changed; what is none stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Other tags, in place of all.
    pub tags: Option<Vec<String>>,
    /// What happens to the content.
    pub operation: Option<Operation>,
}

/// What happens to the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// This takes its place.
    Replace(String),
    /// An exact piece gives way to another.
    FindReplace {
        /// The piece; it must be there, and only once unless `all`.
        find: String,
        /// What comes in its place.
        replace: String,
        /// Every occurrence.
        all: bool,
    },
    /// This comes after it.
    Append(String),
    /// This comes before it.
    Prepend(String),
    /// An exact piece goes.
    Delete {
        /// The piece; it must be there, and only once unless `all`.
        find: String,
        /// Every occurrence.
        all: bool,
    },
}

impl Text {
    /// The text with the change.
    ///
    /// # Errors
    /// What cannot be done, by parameter.
    pub fn edited(&self, edit: &Edit) -> Result<Self, Vec<Mistake>> {
        let content = match &edit.operation {
            Some(operation) => operation.apply(&self.content).map_err(|mistake| vec![mistake])?,
            None => self.content.clone(),
        };
        let new = Self {
            title: edit.title.as_deref().unwrap_or(&self.title).trim().to_owned(),
            description: edit.description.as_deref().unwrap_or(&self.description).trim().to_owned(),
            tags: edit.tags.as_deref().map_or_else(|| self.tags.clone(), distinct),
            content,
            ..self.clone()
        };
        // What was taken in leniently stays until it is changed.
        let changed = [
            ("/title", edit.title.is_some()),
            ("/description", edit.description.is_some()),
            ("/tags", edit.tags.is_some()),
            ("/content", edit.operation.is_some()),
        ];
        let mut mistakes = new.mistakes();
        mistakes.retain(|m| changed.iter().any(|(place, changed)| *changed && m.pointer.starts_with(place)));
        if mistakes.is_empty() { Ok(new) } else { Err(mistakes) }
    }
}

impl Operation {
    /// The text with this done to it.
    ///
    /// # Errors
    /// The text to find is not there, or more than once.
    pub fn apply(&self, content: &str) -> Result<String, Mistake> {
        match self {
            Self::Replace(text) => Ok(text.clone()),
            Self::Append(text) => Ok(format!("{content}{text}")),
            Self::Prepend(text) => Ok(format!("{text}{content}")),
            Self::FindReplace { find, replace, all } => {
                check(content, find, *all, "/find")?;
                Ok(content.replace(find, replace))
            }
            Self::Delete { find, all } => {
                check(content, find, *all, "/content")?;
                Ok(content.replace(find, ""))
            }
        }
    }
}

/// The piece is there, and nobody can doubt which one is meant.
fn check(content: &str, find: &str, all: bool, pointer: &str) -> Result<(), Mistake> {
    if find.is_empty() {
        return Err(Mistake::new(pointer, "the text to find is empty"));
    }
    let Some(first) = content.find(find) else {
        let hint = if content.to_lowercase().contains(&find.to_lowercase()) {
            "; with other capitals it does: give it exactly as it stands"
        } else {
            "; read the document and give it exactly as it stands"
        };
        return Err(Mistake::new(pointer, format!("the content does not hold the text to find{hint}")));
    };
    // Occurrences that overlap count: "aa" stands twice in "aaa".
    let next = first + find.chars().next().map_or(1, char::len_utf8);
    if !all && content[next..].contains(find) {
        let detail =
            "the text to find stands more than once: give more of what is around it, or set replace_all";
        return Err(Mistake::new(pointer, detail));
    }
    Ok(())
}

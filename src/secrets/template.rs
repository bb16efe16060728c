//! Text that names secrets instead of holding them: `Bearer ${API_KEY}`.
//!
//! Pure: it knows names. Values are put in by whoever sends the text, and never kept with it.

use std::fmt;

use serde::Serialize;
use zeroize::Zeroizing;

use crate::ids::SecretName;

/// Text with places for secrets. A `$` that no `{` follows is an ordinary character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Secret(SecretName),
}

impl Template {
    /// Reads `${NAME}` out of a text.
    ///
    /// # Errors
    /// What is wrong with a place, without the text around it.
    pub fn parse(written: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = written;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, behind) = after.split_once('}').ok_or("${ is not closed by }")?;
            let name = name.parse().map_err(|_| "what stands in ${…} is not the name of a secret")?;
            pieces.extend([Piece::Text(before.to_owned()), Piece::Secret(name)]);
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Self(pieces))
    }

    /// The secrets that it names.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretName> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Secret(name) => Some(name),
            Piece::Text(_) => None,
        })
    }

    /// The text with every secret in its place.
    ///
    /// # Errors
    /// The first secret that has no value.
    pub fn fill<'v>(
        &self,
        value: impl Fn(&SecretName) -> Option<&'v str>,
    ) -> Result<Zeroizing<String>, SecretName> {
        let mut filled = Zeroizing::new(String::new());
        for piece in &self.0 {
            filled.push_str(match piece {
                Piece::Text(text) => text,
                Piece::Secret(name) => value(name).ok_or_else(|| name.clone())?,
            });
        }
        Ok(filled)
    }
}

/// As it was written.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Secret(name) => write!(f, "${{{name}}}"),
        })
    }
}

impl From<Template> for String {
    fn from(template: Template) -> Self {
        template.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_named_secret_is_put_in_its_place() {
        for (written, filled) in [
            ("", ""),
            ("plain", "plain"),
            ("Bearer ${KEY}", "Bearer <KEY>"),
            ("${A}${B_2}", "<A><B_2>"),
            ("costs $5 {really}", "costs $5 {really}"),
            ("$${A}}", "$<A>}"),
        ] {
            let template = Template::parse(written).unwrap();
            assert_eq!(template.to_string(), written);
            let values: Vec<String> = template.secrets().map(|n| format!("<{n}>")).collect();
            let find = |name: &SecretName| values.iter().find(|v| **v == format!("<{name}>"));
            assert_eq!(template.fill(|name| find(name).map(String::as_str)).unwrap().as_str(), filled);
        }
        let missing = Template::parse("${A}-${B}").unwrap().fill(|n| (n.as_str() == "A").then_some("x"));
        assert_eq!(missing.unwrap_err().as_str(), "B");
    }

    #[test]
    fn a_place_without_a_name_is_refused() {
        for written in ["${", "${A", "${}", "${A-B}", "${ A }", "x ${A} ${"] {
            assert!(Template::parse(written).is_err(), "{written}");
        }
    }
}

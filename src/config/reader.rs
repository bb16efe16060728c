//! Walks a parsed TOML tree and gathers faults with their places, so that every mistake is told.
//!
//! Small combinators only: each reads one value, records what is wrong and answers `None`.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    str::FromStr,
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::keys::{self, Key};
use crate::error::Fault;

/// Bytes of the text.
pub(super) type Span = Range<usize>;

/// A table under a known header.
pub(super) struct Table<'a, 'i> {
    path: String,
    table: &'a DeTable<'i>,
}

/// One value, with its key.
pub(super) struct Field<'a, 'i> {
    pub(super) path: String,
    pub(super) key: Span,
    pub(super) value: &'a Spanned<DeValue<'i>>,
}

impl Field<'_, '_> {
    pub(super) fn span(&self) -> Span {
        self.value.span()
    }
}

/// Where the value of each key that was read stands, by its path (`agents.writer.soul`).
pub(super) type Places = BTreeMap<String, usize>;

/// Where the lines of a text begin.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    /// The line of a byte, counted from 0.
    pub(super) fn number(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at)
    }
}

/// Collects faults and warnings while the tree is walked.
#[derive(Default)]
pub(super) struct Reader {
    faults: Vec<(usize, Fault)>,
    warnings: Vec<(usize, Fault)>,
    pub(super) places: Places,
}

impl Reader {
    /// Records a mistake; the file and the line are filled in at the end.
    pub(super) fn fault(&mut self, span: &Span, message: impl Into<String>, help: impl Into<String>) {
        self.faults.push((span.start, finding(message.into(), help.into())));
    }

    /// Records something that is accepted but probably not meant.
    pub(super) fn warn(&mut self, span: &Span, message: impl Into<String>, help: impl Into<String>) {
        self.warnings.push((span.start, finding(message.into(), help.into())));
    }

    /// Whether anything was refused so far.
    pub(super) fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// How many mistakes were found so far.
    pub(super) fn mistakes(&self) -> usize {
        self.faults.len()
    }

    /// Drops what stands in a line that is not TOML: it would only repeat the syntax error.
    pub(super) fn forget_lines(&mut self, lines: &Lines, broken: &BTreeSet<usize>) {
        self.faults.retain(|(at, _)| !broken.contains(&lines.number(*at)));
    }

    /// Faults and warnings in the order of the text, with file, line and column.
    pub(super) fn finish(self, text: &str, file: &str) -> (Vec<Fault>, Vec<Fault>, Places) {
        (placed(self.faults, text, file), placed(self.warnings, text, file), self.places)
    }

    /// Opens a table and reports the keys that its section does not know.
    pub(super) fn table<'a, 'i>(&mut self, field: &Field<'a, 'i>, known: &[Key]) -> Option<Table<'a, 'i>> {
        let table = self.open(field)?;
        self.unknown(&table, known);
        Some(table)
    }

    /// Opens a table whose keys are names that the writer chose.
    pub(super) fn open<'a, 'i>(&mut self, field: &Field<'a, 'i>) -> Option<Table<'a, 'i>> {
        match field.value.get_ref() {
            DeValue::Table(table) => Some(Table { path: field.path.clone(), table }),
            _ => self.wrong_type(field, "a table", &format!("write [{}] and its keys below", field.path)),
        }
    }

    /// The whole document.
    pub(super) fn root<'a, 'i>(&mut self, table: &'a DeTable<'i>, known: &[Key]) -> Table<'a, 'i> {
        let table = Table { path: String::new(), table };
        self.unknown(&table, known);
        table
    }

    fn unknown(&mut self, table: &Table<'_, '_>, known: &[Key]) {
        for key in table.table.keys() {
            let name = key.get_ref().as_ref();
            if !known.iter().any(|k| k.name == name) {
                self.fault(&key.span(), format!("unknown key {name:?}"), keys::advice(name, known));
            }
        }
    }

    /// Reads one key of a table with `how`, if it is there.
    pub(super) fn read<'a, 'i, T>(
        &mut self,
        table: &Table<'a, 'i>,
        key: &str,
        how: impl FnOnce(&mut Self, &Field<'a, 'i>) -> Option<T>,
    ) -> Option<T> {
        let field = table.field(key)?;
        self.places.insert(field.path.clone(), field.value.span().start);
        how(self, &field)
    }

    /// Refuses a value of another type.
    pub(super) fn wrong_type<T>(&mut self, field: &Field<'_, '_>, wanted: &str, help: &str) -> Option<T> {
        let found = match field.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        self.fault(&field.span(), format!("{} must be {wanted}, not {found}", field.path), help);
        None
    }

    /// A string without NUL, which neither paths nor processes can carry.
    pub(super) fn string<'a>(&mut self, field: &Field<'a, '_>) -> Option<&'a str> {
        let text = match field.value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(n) if n.radix() == 10 => {
                return self.wrong_type(field, "a string", &format!("put it in quotes: \"{}\"", n.as_str()));
            }
            DeValue::Float(n) => {
                return self.wrong_type(field, "a string", &format!("put it in quotes: \"{}\"", n.as_str()));
            }
            DeValue::Boolean(b) => {
                return self.wrong_type(field, "a string", &format!("put it in quotes: \"{b}\""));
            }
            _ => return self.wrong_type(field, "a string", "put the value in quotes"),
        };
        if text.contains('\0') {
            self.fault(&field.span(), format!("{} holds a NUL character", field.path), "remove \\u0000");
            return None;
        }
        Some(text)
    }

    /// A string that is not only blank.
    pub(super) fn filled<'a>(&mut self, field: &Field<'a, '_>) -> Option<&'a str> {
        let text = self.string(field)?;
        if text.trim().is_empty() {
            self.fault(&field.span(), format!("{} is empty", field.path), "write a value, or remove the key");
            return None;
        }
        Some(text)
    }

    /// A string that should be a duration: a bare number is told which unit to add.
    pub(super) fn timed<'a>(&mut self, field: &Field<'a, '_>) -> Option<&'a str> {
        match field.value.get_ref() {
            DeValue::String(_) => self.string(field),
            DeValue::Integer(n) => {
                let help = format!("write the unit: \"{}s\"", n.as_str().trim_start_matches('-'));
                self.wrong_type(field, "a duration", &help)
            }
            _ => self.wrong_type(field, "a duration", "write it with its unit: \"10s\""),
        }
    }

    /// A string of a type that knows its own rule.
    pub(super) fn parsed<T: FromStr<Err = impl ToString>>(&mut self, field: &Field<'_, '_>) -> Option<T> {
        let text = self.string(field)?;
        self.accept(field, text.parse().map_err(|e: T::Err| (e.to_string(), String::new())))
    }

    /// Takes a checked value, or records why it was refused (message, help).
    pub(super) fn accept<T>(
        &mut self,
        field: &Field<'_, '_>,
        checked: Result<T, (String, String)>,
    ) -> Option<T> {
        checked.map_err(|(message, help)| self.fault(&field.span(), message, help)).ok()
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, field: &Field<'_, '_>) -> Option<bool> {
        match field.value.get_ref() {
            DeValue::Boolean(b) => Some(*b),
            _ => self.wrong_type(field, "true or false", "write true or false, without quotes"),
        }
    }

    /// A whole number.
    pub(super) fn integer(&mut self, field: &Field<'_, '_>) -> Option<i64> {
        let DeValue::Integer(n) = field.value.get_ref() else {
            return self.wrong_type(field, "a whole number", "write a number, without quotes");
        };
        let read = i64::from_str_radix(n.as_str(), n.radix());
        self.accept(
            field,
            read.map_err(|_| (format!("{} is out of range", field.path), "write a smaller number".into())),
        )
    }

    /// One of the words of `choices`.
    pub(super) fn choice<T: Clone>(&mut self, field: &Field<'_, '_>, choices: &[(&str, T)]) -> Option<T> {
        let text = self.string(field)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(value.clone());
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        let help = keys::nearest(text, names.iter().copied()).map_or_else(
            || format!("use {}", names.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(" or ")),
            |near| format!("did you mean \"{near}\"?"),
        );
        self.fault(&field.span(), format!("{} cannot be {text:?}", field.path), help);
        None
    }

    /// An array, each element read by `how`; wrong elements are left out after they were told.
    pub(super) fn array<'a, 'i, T>(
        &mut self,
        field: &Field<'a, 'i>,
        mut how: impl FnMut(&mut Self, &Field<'a, 'i>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let DeValue::Array(array) = field.value.get_ref() else {
            let help = match field.value.get_ref() {
                DeValue::String(s) => format!("write it in brackets: [{s:?}]"),
                _ => "write a list in brackets: [\"…\"]".to_owned(),
            };
            return self.wrong_type(field, "an array", &help);
        };
        let mut out = Vec::with_capacity(array.len());
        for (n, value) in array.iter().enumerate() {
            let path = format!("{}[{n}]", field.path);
            self.places.insert(path.clone(), value.span().start);
            out.extend(how(self, &Field { path, key: value.span(), value }));
        }
        Some(out)
    }
}

impl<'a, 'i> Table<'a, 'i> {
    /// One key, if it is there.
    pub(super) fn field(&self, key: &str) -> Option<Field<'a, 'i>> {
        let (key, value) = self.table.get_key_value(key)?;
        Some(self.entry(key, value))
    }

    /// All keys in the order of the text.
    pub(super) fn fields(&self) -> Vec<(&'a str, Field<'a, 'i>)> {
        let mut all: Vec<_> =
            self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), self.entry(key, value))).collect();
        all.sort_by_key(|(_, field)| field.key.start);
        all
    }

    fn entry(&self, key: &Spanned<toml::de::DeString<'_>>, value: &'a Spanned<DeValue<'i>>) -> Field<'a, 'i> {
        let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let name = key.get_ref();
        let name =
            if !name.is_empty() && name.bytes().all(bare) { name.to_string() } else { format!("{name:?}") };
        let path = if self.path.is_empty() { name } else { format!("{}.{name}", self.path) };
        Field { path, key: key.span(), value }
    }
}

fn finding(message: String, help: String) -> Fault {
    let fault = Fault::new("", message);
    if help.is_empty() { fault } else { fault.help(help) }
}

/// Fills in file, line and column in one pass over the text.
fn placed(mut found: Vec<(usize, Fault)>, text: &str, file: &str) -> Vec<Fault> {
    found.sort_by_key(|(at, _)| *at);
    let (mut seen, mut line, mut column) = (0, 1, 1);
    let written = text.trim_end_matches(['\n', '\r']).len();
    let place = |(at, mut fault): (usize, Fault)| {
        let at = boundary(text, at.min(written));
        for c in text[seen..at].chars() {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        seen = at;
        file.clone_into(&mut fault.file);
        fault.at(line, column)
    };
    found.into_iter().map(place).collect()
}

/// Line and column, both 1-based, of a byte of the text.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..boundary(text, at)];
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |n| n + 1);
    (line, before[start..].chars().count() + 1)
}

/// The start of the character that a byte belongs to.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

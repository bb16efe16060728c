//! YAML frontmatter as a tree that keeps what a typed reader would lose: the text of every scalar
//! (`version: 1.10`), and where each value stands.
//!
//! Never follows an alias further than the budget, and never resolves tags.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use serde_json::Value;
use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, Span, StructureStyle};

/// Most nodes, and most bytes of text, that a block may expand to through its aliases.
const MAX_NODES: usize = 50_000;
const MAX_TEXT: usize = 4 << 20;
/// Deepest nesting, block and flow each.
const MAX_DEPTH: usize = 64;

/// A value and its place (1-based; 0 when it did not come from a file).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub kind: Kind,
    pub line: usize,
    pub column: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// `plain`: written without quotes, so `true`, `null` and numbers are not strings.
    Scalar {
        text: String,
        plain: bool,
    },
    Seq(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Why a block could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct YamlError {
    pub message: String,
    pub line: usize,
    pub column: usize,
}

/// What the reference validator refuses though YAML allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oddity {
    Flow,
    Anchor,
    Tag,
    /// A tab outside of quotes, block scalars and comments.
    Tab,
}

/// A parsed block.
#[derive(Debug)]
pub(super) struct Document {
    pub root: Node,
    /// The first construct outside of the strict subset.
    pub oddity: Option<(Oddity, usize, usize)>,
    /// The first key that stands twice in one mapping.
    pub duplicate: Option<YamlError>,
    /// A mapping indented unlike its sibling mappings.
    pub uneven: Option<(usize, usize)>,
}

/// Reads one document; the first duplicate key is an error.
pub(super) fn parse(text: &str, first_line: usize) -> Result<Node, YamlError> {
    let doc = document(text, first_line)?;
    match doc.duplicate {
        Some(e) => Err(e),
        None => Ok(doc.root),
    }
}

/// Reads one document and notes what a stricter reader would refuse.
pub(super) fn document(text: &str, first_line: usize) -> Result<Document, YamlError> {
    // A block scalar at the end keeps its final line break only when there is one.
    let mut owned = text.to_owned();
    if !owned.ends_with('\n') {
        owned.push('\n');
    }
    let mut options = Options::default();
    options.emit_comments = false;
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    let mut builder = Builder::new(first_line, &owned);
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(&owned, options) {
        let (event, span) = event.map_err(|e| YamlError {
            message: e.info().replace(char::is_control, " "),
            line: e.marker().line().max(1) + first_line - 1,
            column: e.marker().col() + 1,
        })?;
        if matches!(event, Event::DocumentStart(..)) {
            documents += 1;
            if documents > 1 {
                return Err(builder.error(span, "there is more than one YAML document"));
            }
        }
        builder.event(event, span)?;
    }
    builder.note_tabs();
    let root = builder.root.unwrap_or(Node {
        kind: Kind::Scalar { text: String::new(), plain: true },
        line: first_line,
        column: 1,
    });
    Ok(Document { root, oddity: builder.oddity, duplicate: builder.duplicate, uneven: builder.uneven })
}

enum Open {
    Seq(Vec<Node>),
    Map { entries: Vec<(String, Node)>, seen: BTreeSet<String>, key: Option<String>, block: bool },
}

struct Frame {
    open: Open,
    anchor: usize,
    line: usize,
    column: usize,
}

struct Builder<'a> {
    first_line: usize,
    source: &'a str,
    /// Where quoted and block scalars stand, in bytes.
    opaque: Vec<Range<usize>>,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Node>,
    root: Option<Node>,
    nodes: usize,
    text: usize,
    oddity: Option<(Oddity, usize, usize)>,
    duplicate: Option<YamlError>,
    uneven: Option<(usize, usize)>,
}

impl<'a> Builder<'a> {
    fn new(first_line: usize, source: &'a str) -> Self {
        Self {
            first_line,
            source,
            opaque: Vec::new(),
            stack: Vec::new(),
            anchors: BTreeMap::new(),
            root: None,
            nodes: 0,
            text: 0,
            oddity: None,
            duplicate: None,
            uneven: None,
        }
    }

    fn place(&self, span: Span) -> (usize, usize) {
        (span.start.line().max(1) + self.first_line - 1, span.start.col() + 1)
    }

    fn error(&self, span: Span, message: impl Into<String>) -> YamlError {
        let (line, column) = self.place(span);
        YamlError { message: message.into(), line, column }
    }

    fn odd(&mut self, what: Oddity, span: Span) {
        let (line, column) = self.place(span);
        self.oddity.get_or_insert((what, line, column));
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.properties(anchor, tag.is_some(), None, span);
                let plain = style == ScalarStyle::Plain;
                // The parser writes `~` for a value that is not there.
                let text = if plain && span.is_empty() { String::new() } else { text.into_owned() };
                if !plain {
                    self.opaque.extend(span.byte_range());
                }
                let kind = Kind::Scalar { text, plain };
                let (line, column) = self.place(span);
                self.add(Node { kind, line, column }, anchor, span)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.properties(anchor, tag.is_some(), Some(style), span);
                self.push(Open::Seq(Vec::new()), anchor, span);
                Ok(())
            }
            Event::MappingStart(style, anchor, tag) => {
                self.properties(anchor, tag.is_some(), Some(style), span);
                let open = Open::Map {
                    entries: Vec::new(),
                    seen: BTreeSet::new(),
                    key: None,
                    block: style == StructureStyle::Block,
                };
                self.push(open, anchor, span);
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(id) => {
                self.odd(Oddity::Anchor, span);
                let Some(node) = self.anchors.get(&id) else {
                    return Err(self.error(span, "an alias refers to itself"));
                };
                let node = node.clone();
                self.charge(&node, span)?;
                self.add(node, 0, span)
            }
            _ => Ok(()),
        }
    }

    /// Notes a tab that stands neither in a quoted or block scalar nor in a comment.
    fn note_tabs(&mut self) {
        let mut ranges = self.opaque.iter().peekable();
        let (mut line, mut column, mut comment, mut blank) = (self.first_line, 0, false, true);
        for (at, c) in self.source.char_indices() {
            column += 1;
            while ranges.peek().is_some_and(|r| r.end <= at) {
                ranges.next();
            }
            let opaque = ranges.peek().is_some_and(|r| r.contains(&at));
            match c {
                '\n' => (line, column, comment) = (line + 1, 0, false),
                '#' if !opaque && blank => comment = true,
                '\t' if !opaque && !comment => {
                    self.oddity.get_or_insert((Oddity::Tab, line, column));
                    return;
                }
                _ => {}
            }
            blank = c.is_whitespace();
        }
    }

    fn properties(&mut self, anchor: usize, tag: bool, style: Option<StructureStyle>, span: Span) {
        if anchor > 0 {
            self.odd(Oddity::Anchor, span);
        }
        if tag {
            self.odd(Oddity::Tag, span);
        }
        if style == Some(StructureStyle::Flow) {
            self.odd(Oddity::Flow, span);
        }
    }

    fn push(&mut self, open: Open, anchor: usize, span: Span) {
        let (line, column) = self.place(span);
        self.stack.push(Frame { open, anchor, line, column });
    }

    fn close(&mut self, span: Span) -> Result<(), YamlError> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let kind = match frame.open {
            Open::Seq(items) => Kind::Seq(items),
            Open::Map { entries, block, .. } => {
                if block {
                    self.note_uneven(&entries);
                }
                Kind::Map(entries)
            }
        };
        let node = Node { kind, line: frame.line, column: frame.column };
        self.add(node, frame.anchor, span)
    }

    fn note_uneven(&mut self, entries: &[(String, Node)]) {
        let mut maps = entries.iter().map(|(_, n)| n).filter(|n| matches!(n.kind, Kind::Map(_)));
        if let Some(first) = maps.next()
            && let Some(other) = maps.find(|n| n.column != first.column)
        {
            self.uneven.get_or_insert((other.line, other.column));
        }
    }

    /// Counts a node and all below it against the budget.
    fn charge(&mut self, node: &Node, span: Span) -> Result<(), YamlError> {
        let (nodes, text) = node.weight();
        self.nodes += nodes;
        self.text += text;
        if self.nodes > MAX_NODES || self.text > MAX_TEXT {
            return Err(self.error(span, "anchors and aliases expand to too much"));
        }
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize, span: Span) -> Result<(), YamlError> {
        if anchor > 0 {
            self.charge(&node, span)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(frame) = self.stack.last_mut() else {
            self.root.get_or_insert(node);
            return Ok(());
        };
        match &mut frame.open {
            Open::Seq(items) => items.push(node),
            Open::Map { entries, seen, key, .. } => match key.take() {
                Some(k) => entries.push((k, node)),
                None => {
                    let Kind::Scalar { text, .. } = node.kind else {
                        return Err(self.error(span, "a key must be a string"));
                    };
                    if !seen.insert(text.clone()) {
                        self.duplicate.get_or_insert(YamlError {
                            message: format!("duplicate key {text:?}"),
                            line: node.line,
                            column: node.column,
                        });
                    }
                    *key = Some(text);
                }
            },
        }
        Ok(())
    }
}

impl Node {
    /// Nodes and bytes of text, this one included.
    fn weight(&self) -> (usize, usize) {
        let sum = |a: (usize, usize), b: (usize, usize)| (a.0 + b.0, a.1 + b.1);
        match &self.kind {
            Kind::Scalar { text, .. } => (1, text.len()),
            Kind::Seq(items) => items.iter().map(Self::weight).fold((1, 0), sum),
            Kind::Map(entries) => {
                entries.iter().map(|(k, v)| sum((0, k.len()), v.weight())).fold((1, 0), sum)
            }
        }
    }

    /// A tree without places, for the same walkers to read a manifest.
    pub(super) fn from_json(value: &Value) -> Self {
        let scalar = |text: String, plain| Kind::Scalar { text, plain };
        let kind = match value {
            Value::Null => scalar("null".into(), true),
            Value::Bool(b) => scalar(b.to_string(), true),
            Value::Number(n) => scalar(n.to_string(), true),
            Value::String(s) => scalar(s.clone(), false),
            Value::Array(a) => Kind::Seq(a.iter().map(Self::from_json).collect()),
            Value::Object(o) => Kind::Map(o.iter().map(|(k, v)| (k.clone(), Self::from_json(v))).collect()),
        };
        Self { kind, line: 0, column: 0 }
    }

    /// The same as JSON: plain `null`, booleans and numbers that survive unchanged become typed,
    /// everything else stays the text that it was.
    pub(super) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Scalar { text, plain: false } => Value::String(text.clone()),
            Kind::Scalar { text, plain: true } => match text.as_str() {
                "" | "~" | "null" | "Null" | "NULL" => Value::Null,
                "true" | "True" | "TRUE" => Value::Bool(true),
                "false" | "False" | "FALSE" => Value::Bool(false),
                _ => match serde_json::from_str::<Value>(text) {
                    Ok(Value::Number(n)) if n.to_string() == *text => Value::Number(n),
                    _ => Value::String(text.clone()),
                },
            },
            Kind::Seq(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Kind::Map(entries) => {
                Value::Object(entries.iter().map(|(k, v)| (k.clone(), v.to_json())).collect())
            }
        }
    }

    /// What it is, for messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self.to_json_shallow() {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "a map",
        }
    }

    fn to_json_shallow(&self) -> Value {
        match &self.kind {
            Kind::Scalar { .. } => self.to_json(),
            Kind::Seq(_) => Value::Array(Vec::new()),
            Kind::Map(_) => Value::Object(serde_json::Map::new()),
        }
    }

    /// Null, `~` or nothing at all.
    pub(super) fn is_null(&self) -> bool {
        self.to_json_shallow().is_null()
    }

    /// The text of any scalar but null.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// The entries of a mapping.
    pub(super) fn entries(&self) -> Option<&[(String, Node)]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a key of a mapping.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }
}

//! Replaces known secret values by `***` in captured output.
//!
//! It guards against accidents (a script that prints its environment), not against an agent that
//! wants a value out: whoever holds a value can write it in a form that is not looked for here.
//! Bytes that are no secret pass unchanged, whatever their encoding.

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use serde_json::{Map, Value};

pub use super::patterns::MIN_MASKED;
use super::{patterns::add_forms, value::SecretValue};
use crate::ids::SecretName;

/// Bytes of a possible beginning of a value that a pause shows: half of the shortest value.
const AT_A_PAUSE: usize = MIN_MASKED / 2;

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// Looks for a set of values; cheap to clone, made again when the secrets change.
///
/// Every value is also looked for as JSON, percent-encoded, hex and base64 (see `patterns`).
/// Values shorter than [`MIN_MASKED`] bytes are not masked.
#[derive(Clone)]
pub struct Masker(Option<Arc<Forms>>);

struct Forms {
    finder: AhoCorasick,
    /// Sorted, for asking whether some form begins with given bytes.
    sorted: Vec<Vec<u8>>,
    /// Whether some form begins with this byte.
    first: [bool; 256],
    /// One bit for every two bytes that some form begins with: most positions end here.
    first_two: Box<[u64; 1024]>,
    longest: usize,
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Masker")
    }
}

/// Whether a value is long enough to be masked.
#[must_use]
pub fn is_maskable(value: &SecretValue) -> bool {
    value.expose().len() >= MIN_MASKED
}

/// Names whose values are too short to be masked, for a warning when one is set.
pub fn unmaskable<'a>(
    secrets: impl IntoIterator<Item = (&'a SecretName, &'a SecretValue)>,
) -> Vec<&'a SecretName> {
    secrets.into_iter().filter(|(_, v)| !v.is_empty() && !is_maskable(v)).map(|(n, _)| n).collect()
}

impl Masker {
    /// A masker for these values.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a SecretValue>) -> Self {
        let mut forms = BTreeSet::new();
        for value in values {
            if is_maskable(value) {
                add_forms(value.expose(), &mut forms);
            }
        }
        let sorted: Vec<Vec<u8>> = forms.into_iter().collect();
        if sorted.is_empty() {
            return Self(None);
        }
        let built = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA)) // a DFA takes 1 KiB per byte of secret
            .build(&sorted);
        let Ok(finder) = built else {
            // Fails only beyond 2^31 states: the file's cap of 1 MiB keeps us far below.
            unreachable!("the secrets file is capped, so its automaton can be built");
        };
        let mut first = [false; 256];
        let mut first_two = Box::new([0; 1024]);
        for form in &sorted {
            first[usize::from(form[0])] = true;
            let (word, bit) = pair(form[0], form[1]);
            first_two[word] |= bit;
        }
        let longest = sorted.iter().map(Vec::len).max().unwrap_or(0);
        Self(Some(Arc::new(Forms { finder, sorted, first, first_two, longest })))
    }

    /// Masks a whole text at once.
    #[must_use]
    pub fn mask<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        match &self.0 {
            Some(forms) if forms.finder.is_match(bytes) => {
                let mut stream = self.stream();
                let mut out = stream.push(bytes);
                out.extend(stream.finish());
                Cow::Owned(out)
            }
            _ => Cow::Borrowed(bytes),
        }
    }

    /// Masks a whole text at once.
    #[must_use]
    pub fn mask_str<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.mask(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Masks every text, name and number of a JSON value.
    #[must_use]
    pub fn mask_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.mask_str(text).into_owned()),
            Value::Number(number) => match self.mask_str(&number.to_string()) {
                Cow::Borrowed(_) => value.clone(),
                Cow::Owned(masked) => Value::String(masked),
            },
            Value::Array(items) => items.iter().map(|item| self.mask_json(item)).collect(),
            Value::Object(object) => Value::Object(self.mask_object(object)),
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    /// As [`Self::mask_json`].
    #[must_use]
    pub fn mask_object(&self, object: &Map<String, Value>) -> Map<String, Value> {
        object.iter().map(|(name, value)| (self.mask_str(name).into_owned(), self.mask_json(value))).collect()
    }

    /// Begins to mask a stream.
    #[must_use]
    pub fn stream(&self) -> MaskStream {
        MaskStream { masker: self.clone(), held: Vec::new(), shown: 0 }
    }
}

/// Masks a stream that comes in pieces, also values that are split across pieces.
///
/// Holds back only bytes that may be the beginning of a value, at most one less than the longest
/// form has. The result does not depend on how the stream was cut.
#[derive(Debug)]
pub struct MaskStream {
    masker: Masker,
    held: Vec<u8>,
    /// So many bytes at the beginning of `held` were passed on at a pause.
    shown: usize,
}

impl MaskStream {
    /// Takes the next piece; returns what can be passed on already.
    #[must_use = "the returned bytes are the output"]
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let Some(forms) = self.masker.0.clone() else {
            return piece.to_vec();
        };
        self.held.extend_from_slice(piece);
        let mut out = Vec::with_capacity(self.held.len());
        let done = forms.decided(&self.held, &mut out);
        self.pass(out, done)
    }

    /// What an interactive stream shows at a pause of what is held: a letter or two that somebody typed or was asked
    /// with, never more of a value, which is recognised all the same when it goes on.
    #[must_use = "the returned bytes are the output"]
    pub fn pause(&mut self) -> Vec<u8> {
        let from = std::mem::replace(&mut self.shown, self.held.len().min(AT_A_PAUSE));
        self.held[from..self.shown].to_vec()
    }

    /// Takes `done` bytes out of what is held, for which `out` is passed on, without what was shown of it already.
    fn pass(&mut self, mut out: Vec<u8>, done: usize) -> Vec<u8> {
        let again = out.iter().zip(&self.held[..self.shown]).take_while(|(now, then)| now == then).count();
        out.drain(..again);
        self.held.drain(..done);
        self.shown = self.shown.saturating_sub(done);
        out
    }

    /// Passes on what is held, as if the stream had ended here.
    ///
    /// A value that goes on after it is then not recognised.
    #[must_use = "the returned bytes are the output"]
    pub fn flush(&mut self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.held.len());
        if let Some(forms) = &self.masker.0 {
            let end = self.held.len();
            forms.replace(&self.held, 0, end, &mut out);
        }
        self.pass(out, self.held.len())
    }

    /// The rest, after the last piece.
    #[must_use = "the returned bytes are the output"]
    pub fn finish(mut self) -> Vec<u8> {
        self.flush()
    }

    /// How many bytes are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

impl Forms {
    /// Passes on what no further byte can change; returns how many bytes of `buf` that was.
    fn decided(&self, buf: &[u8], out: &mut Vec<u8>) -> usize {
        let mut from = 0;
        loop {
            // Whatever starts before `open` is all there: a match there can be neither new nor longer.
            let open = self.open_from(buf, from);
            let next = self.replace(buf, from, open, out);
            if next <= open {
                return open;
            }
            // A match reached over `open`: begin again behind it.
            from = next;
        }
    }

    /// Writes `buf[from..end]` with every match that starts in it replaced; stops behind a match
    /// that reaches beyond `end`. Returns where it stopped: `end`, or further.
    fn replace(&self, buf: &[u8], from: usize, end: usize, out: &mut Vec<u8>) -> usize {
        let mut at = from;
        while at < end {
            let found = self.finder.find(Input::new(buf).span(at..buf.len()));
            match found.filter(|m| m.start() < end) {
                None => {
                    out.extend_from_slice(&buf[at..end]);
                    at = end;
                }
                Some(m) => {
                    out.extend_from_slice(&buf[at..m.start()]);
                    out.extend_from_slice(MASK.as_bytes());
                    at = m.end();
                }
            }
        }
        at
    }

    /// The first position from which the rest of `buf` is the beginning of a longer form.
    fn open_from(&self, buf: &[u8], from: usize) -> usize {
        let earliest = from.max((buf.len() + 1).saturating_sub(self.longest));
        (earliest..buf.len())
            .find(|at| self.may_begin(&buf[*at..]) && self.is_beginning(&buf[*at..]))
            .unwrap_or(buf.len())
    }

    fn may_begin(&self, bytes: &[u8]) -> bool {
        match bytes {
            [a, b, ..] => {
                let (word, bit) = pair(*a, *b);
                self.first_two[word] & bit != 0
            }
            [a] => self.first[usize::from(*a)],
            [] => false,
        }
    }

    fn is_beginning(&self, bytes: &[u8]) -> bool {
        // Forms that begin with `bytes` follow it directly in the sorted list; skip `bytes` itself.
        let next = self.sorted.partition_point(|form| form.as_slice() <= bytes);
        self.sorted.get(next).is_some_and(|f| f.starts_with(bytes))
    }
}

/// Word and bit of two bytes in [`Forms::first_two`].
fn pair(a: u8, b: u8) -> (usize, u64) {
    let both = usize::from(a) << 8 | usize::from(b);
    (both / 64, 1 << (both % 64))
}

#[cfg(test)]
#[path = "mask_tests.rs"]
mod tests;

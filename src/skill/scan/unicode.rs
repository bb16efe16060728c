//! Text that people do not see and models do: tag characters, direction overrides, zero-width characters,
//! variation selectors; and control characters that a terminal obeys.
//!
//! Emoji sequences, ideographic variants, and joiners in scripts that need them are not hits.

use super::{
    finding::{Findings, Rule, Severity},
    text::{Hidden, Text},
};

/// So many zero-width characters or selectors in a row are a message.
const MESSAGE: usize = 8;

/// Hidden text that was made readable.
pub(super) struct Decoded {
    pub(super) line: usize,
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Tag,
    Direction,
    Mark,
    Selector,
    Escape,
    ZeroWidth,
}

fn class(c: char) -> Class {
    match c {
        '\u{e0000}'..='\u{e007f}' => Class::Tag,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Class::Direction,
        '\u{200e}' | '\u{200f}' | '\u{61c}' => Class::Mark,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => Class::Selector,
        '\u{1b}' | '\u{8}' | '\u{9b}' => Class::Escape,
        _ => Class::ZeroWidth,
    }
}

/// Notes every run of hidden characters.
pub(super) fn check(text: &Text<'_>, hidden: &[Hidden], findings: &mut Findings) {
    let right_to_left = hidden.iter().any(|h| matches!(class(h.c), Class::Direction | Class::Mark))
        && String::from_utf8_lossy(&text.bytes).contains(is_right_to_left);
    let mut more = true;
    // Two bytes that happen to be a character are no message.
    let short = |run: &&[Hidden]| run.len() == 1 && run[0].c.len_utf8() <= 2;
    let by_chance = |run: &&[Hidden]| text.is_broken() && (short(run) || class(run[0].c) == Class::Escape);
    for run in runs(hidden).filter(|run| !by_chance(run)) {
        more &= tell(run, right_to_left, findings);
        if !more {
            break;
        }
    }
}

/// What tags and selectors spell.
pub(super) fn decoded(hidden: &[Hidden]) -> Vec<Decoded> {
    let spelt = |run: &[Hidden]| spell(run).map(|bytes| Decoded { line: run[0].line, bytes });
    runs(hidden).filter_map(spelt).take(100).collect()
}

/// Runs of neighbours of one class.
fn runs(hidden: &[Hidden]) -> impl Iterator<Item = &[Hidden]> {
    hidden.chunk_by(|a, b| a.at + a.c.len_utf8() == b.at && class(a.c) == class(b.c))
}

fn tell(run: &[Hidden], right_to_left: bool, findings: &mut Findings) -> bool {
    use Severity::{Danger, Info, Warning};
    let first = &run[0];
    let mut push = |severity, evidence: &str, message: &str| {
        findings.push(Rule::HiddenUnicode, severity, first.line, evidence, message)
    };
    let raw: String = run.iter().take(40).map(|h| h.c).collect();
    match class(first.c) {
        Class::Tag if is_flag(run) => true,
        Class::Tag => push(
            Danger,
            &spelt(run, &raw),
            "Invisible tag characters spell this text: people do not see it, models read it",
        ),
        Class::Direction if right_to_left => push(
            Info,
            &raw,
            "Characters that turn the direction of text, among text that runs from right to left: see that the order is what it seems",
        ),
        Class::Direction => push(
            Danger,
            &raw,
            "Characters that turn the direction of text: what is shown is not what is run or read",
        ),
        Class::Mark if right_to_left => true,
        Class::Mark => {
            push(Info, &raw, "An invisible direction mark, though no text here runs from right to left")
        }
        Class::Selector if usual_selector(run) => true,
        Class::Selector => {
            let severity = if run.len() >= MESSAGE { Danger } else { Warning };
            push(
                severity,
                &spelt(run, &raw),
                "Variation selectors that select nothing: they can carry a hidden text",
            )
        }
        Class::Escape => findings.push(
            Rule::TerminalEscape,
            Warning,
            first.line,
            &raw,
            "A control character that a terminal obeys: what `cat` shows is not what stands here",
        ),
        Class::ZeroWidth if run.len() >= MESSAGE => {
            push(Danger, &raw, "A long run of invisible characters: it can carry a hidden text")
        }
        Class::ZeroWidth if run.iter().all(usual_joiner) => true,
        Class::ZeroWidth => {
            push(Warning, &raw, "Invisible characters: they split words that people and rules look for")
        }
    }
}

fn spelt(run: &[Hidden], raw: &str) -> String {
    spell(run).map_or_else(|| raw.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The bytes that tags (ASCII) or selectors (one byte each) stand for, when they are text.
fn spell(run: &[Hidden]) -> Option<Vec<u8>> {
    let byte = |h: &Hidden| match h.c {
        '\u{e0020}'..='\u{e007e}' => u8::try_from(u32::from(h.c) - 0xe0000).ok(),
        '\u{fe00}'..='\u{fe0f}' => u8::try_from(u32::from(h.c) - 0xfe00).ok(),
        '\u{e0100}'..='\u{e01ef}' => u8::try_from(u32::from(h.c) - 0xe0100 + 16).ok(),
        _ => None,
    };
    let bytes: Vec<u8> = run.iter().filter_map(byte).collect();
    let text = std::str::from_utf8(&bytes).ok()?;
    (bytes.len() >= 2 && !is_flag(run) && !text.contains(|c: char| c.is_control() && !c.is_whitespace()))
        .then_some(bytes)
}

/// The flags of England, Scotland and Wales are a black flag and tags (Unicode TR 51, annex C).
fn is_flag(run: &[Hidden]) -> bool {
    let letters: String =
        run.iter().take(8).filter_map(|h| char::from_u32(u32::from(h.c).wrapping_sub(0xe0000))).collect();
    run[0].before == Some('\u{1f3f4}') && matches!(letters.as_str(), "gbeng\x7f" | "gbsct\x7f" | "gbwls\x7f")
}

/// One selector after a symbol, or a variant of an ideograph.
fn usual_selector(run: &[Hidden]) -> bool {
    let [one] = run else { return false };
    match one.c {
        '\u{fe00}'..='\u{fe0f}' => one.before.is_some_and(|b| !b.is_whitespace()),
        _ => one
            .before
            .is_some_and(|b| matches!(u32::from(b), 0x2e80..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)),
    }
}

/// Joiners within emoji and in scripts that need them; soft hyphens in words.
fn usual_joiner(h: &Hidden) -> bool {
    let (Some(before), Some(after)) = (h.before, h.after) else { return false };
    let complex = |c: char| matches!(u32::from(c), 0x600..=0x8ff | 0x900..=0xdff | 0xe00..=0xfff | 0x1000..=0x109f | 0x1780..=0x18af);
    match h.c {
        '\u{200d}' => (is_emoji(before) && is_emoji(after)) || complex(before) || complex(after),
        '\u{200c}' | '\u{200b}' => complex(before) || complex(after),
        '\u{ad}' => before.is_alphabetic() && after.is_alphabetic() && !before.is_ascii(),
        _ => false,
    }
}

fn is_emoji(c: char) -> bool {
    matches!(u32::from(c), 0x1f000..=0x1faff | 0x2190..=0x2bff | 0xfe0f | 0x3030 | 0x303d)
}

fn is_right_to_left(c: char) -> bool {
    matches!(u32::from(c), 0x590..=0x8ff | 0xfb1d..=0xfdff | 0xfe70..=0xfefc)
}

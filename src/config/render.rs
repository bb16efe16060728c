//! Faults for people: file, line and column, the line itself with a mark, and the remedy.
//!
//! Pure: knows no terminal. Control characters of the source never reach it.

use std::fmt::Write as _;

use owo_colors::{OwoColorize, Style};

use crate::{error::Fault, ids::is_hidden};

/// Longest part of a line that is shown, in characters.
const WIDTH: usize = 100;

/// Renders faults over the text they were found in, a blank line between them.
#[must_use]
pub fn render(faults: &[Fault], source: &str, color: bool) -> String {
    render_as(faults, source, color, Style::new().red().bold())
}

/// As [`render`], in the colour of warnings.
#[must_use]
pub fn render_warnings(warnings: &[Fault], source: &str, color: bool) -> String {
    render_as(warnings, source, color, Style::new().yellow().bold())
}

fn render_as(faults: &[Fault], source: &str, color: bool, mark: Style) -> String {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let lines: Vec<&str> = source.split('\n').map(|l| l.trim_end_matches('\r')).collect();
    let paint = |text: &str, style: Style| {
        if color { text.style(style).to_string() } else { text.to_owned() }
    };
    let quiet = Style::new().dimmed();
    let mut blocks = Vec::with_capacity(faults.len());
    for fault in faults {
        let mut out = printable(&fault.file);
        for number in [fault.line, fault.column].into_iter().flatten() {
            write!(out, ":{number}").unwrap_or_default();
        }
        out = format!("{out}: {}\n", paint(&printable(&fault.message), mark));
        let gutter = fault.line.map_or(1, |n| n.to_string().len());
        let bar = |label: &str| paint(&format!("{label:>gutter$} |"), quiet);
        let place =
            fault.line.zip(fault.column).and_then(|(l, c)| Some((l, c, *lines.get(l.checked_sub(1)?)?)));
        if let Some((number, column, line)) = place {
            let (shown, before, marks) = excerpt(line, column);
            let pointer = format!("{}{}", " ".repeat(before), paint(&"^".repeat(marks), mark));
            out.push_str(&format!(
                "{}\n{} {shown}\n{} {pointer}\n",
                bar(""),
                bar(&number.to_string()),
                bar("")
            ));
        }
        if let Some(help) = &fault.help {
            out.push_str(&format!(
                "{} {}\n",
                paint(&format!("{:>gutter$} = help:", ""), quiet),
                printable(help)
            ));
        }
        blocks.push(out);
    }
    blocks.join("\n")
}

/// The part of a line around a column, how far in the mark begins, and how long it is.
fn excerpt(line: &str, column: usize) -> (String, usize, usize) {
    let chars: Vec<char> = line.chars().collect();
    let at = (column - 1).min(chars.len());
    let start = if chars.len() <= WIDTH { 0 } else { at.saturating_sub(WIDTH / 2) };
    let end = (start + WIDTH).min(chars.len());
    let part = |s: &[char]| printable(&s.iter().collect::<String>());
    let lead = if start > 0 { "…" } else { "" };
    let tail = if end < chars.len() { "…" } else { "" };
    let marks = token(&chars[at..end]);
    (format!("{lead}{}{tail}", part(&chars[start..end])), at - start + lead.chars().count(), marks)
}

/// Length of the word, string or single sign that the text begins with.
fn token(text: &[char]) -> usize {
    let end = match text.first() {
        Some(quote @ ('"' | '\'')) => text[1..].iter().position(|c| c == quote).map_or(1, |n| n + 2),
        _ => text.iter().position(|c| !(c.is_alphanumeric() || "-_.+:".contains(*c))).unwrap_or(text.len()),
    };
    end.max(1)
}

/// Without what could move a terminal's cursor or hide text: one sign for each, so that columns hold.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            c if is_hidden(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_under_the_word() {
        let source = "[agents.a]\nmemry = \"1GiB\"\n";
        let fault =
            Fault::new("skep.toml", "unknown key \"memry\"").at(2, 1).help("did you mean \"memory\"?");
        insta::assert_snapshot!(render(&[fault], source, false), @r#"
        skep.toml:2:1: unknown key "memry"
          |
        2 | memry = "1GiB"
          | ^^^^^
          = help: did you mean "memory"?
        "#);
    }

    #[test]
    fn a_long_line_is_cut_around_the_place_and_escapes_are_disarmed() {
        let source = format!("a = \"{}\u{1b}[2J\" oops {}", "x".repeat(300), "y".repeat(300));
        let column = source.chars().position(|c| c == 'o').unwrap() + 1;
        let out = render(&[Fault::new("f", "odd\u{1b}[1m").at(1, column)], &source, false);
        let lines: Vec<_> = out.lines().collect();
        assert!(!out.contains('\u{1b}') && lines.iter().all(|l| l.chars().count() < 120), "{out}");
        let mark = lines[3].chars().position(|c| c == '^').unwrap();
        assert!(lines[2].chars().skip(mark).collect::<String>().starts_with("oops"), "{out}");
    }

    #[test]
    fn a_fault_without_a_place_has_no_excerpt_and_colour_is_asked_for() {
        let fault = Fault::new("skep.toml", "is empty");
        assert_eq!(render(std::slice::from_ref(&fault), "", false), "skep.toml: is empty\n");
        assert!(render(&[fault], "", true).contains("\u{1b}["));
    }
}

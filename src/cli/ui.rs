//! What a command writes: results on standard output, everything else on standard error.
//!
//! Colour only on a terminal and without NO_COLOR. Text that came from elsewhere is made harmless
//! before it reaches a terminal.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::{OwoColorize, Style};
use serde::Serialize;

use super::failure::Failure;
use crate::ids::is_hidden;

/// The two streams of this process.
#[derive(Debug, Clone, Copy)]
pub struct Ui {
    color_out: bool,
    color_err: bool,
    terminal_out: bool,
    terminal_err: bool,
    quiet: bool,
    /// How much more than usual is told.
    pub verbose: u8,
}

impl Ui {
    /// Looks at the two streams once.
    #[must_use]
    pub fn new(no_color: bool, quiet: bool, verbose: u8) -> Self {
        let (terminal_out, terminal_err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            color_out: !no_color && terminal_out,
            color_err: !no_color && terminal_err,
            terminal_out,
            terminal_err,
            quiet,
            verbose,
        }
    }

    /// Whether standard output takes colour.
    #[must_use]
    pub fn color(&self) -> bool {
        self.color_out
    }

    /// Whether standard error takes colour.
    #[must_use]
    pub fn color_err(&self) -> bool {
        self.color_err
    }

    /// Writes a line to standard output.
    ///
    /// # Errors
    /// The stream's.
    pub fn line(&self, text: impl AsRef<str>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_ref().as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()
    }

    /// Writes text of others to standard output: as it is, but where it could drive a terminal.
    ///
    /// # Errors
    /// The stream's.
    pub fn text(&self, text: &str) -> io::Result<()> {
        if self.terminal_out { self.line(lines_of(text)) } else { self.line(text) }
    }

    /// Writes bytes to standard output as they are.
    ///
    /// # Errors
    /// The stream's.
    pub fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// Writes a value as JSON to standard output.
    ///
    /// # Errors
    /// The stream's.
    pub fn json<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)?;
        self.line(if self.terminal_out { tame(&text) } else { text })?;
        Ok(())
    }

    /// Writes a table without borders: a head and rows.
    ///
    /// # Errors
    /// The stream's.
    pub fn table(&self, head: &[&str], rows: Vec<Vec<Shown>>) -> io::Result<()> {
        self.line(render_table(head, rows, self.color_out))
    }

    /// Tells how things go, unless `--quiet`.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            self.err(text.as_ref());
        }
    }

    /// Warns.
    pub fn warn(&self, text: impl AsRef<str>) {
        let head = self.paint("warning:", Style::new().yellow().bold());
        self.err(&format!("{head} {}", lines_of(text.as_ref())));
    }

    /// Says why the command failed.
    pub fn failure(&self, failure: &Failure) {
        if !failure.message.is_empty() {
            let head = self.paint("error:", Style::new().red().bold());
            self.err(&format!("{head} {}", lines_of(&failure.message)));
        }
        for detail in &failure.details {
            self.err(&format!("  {}", lines_of(detail)));
        }
        for help in &failure.help {
            let head = self.paint("help:", Style::new().cyan().bold());
            self.err(&format!("{head} {help}"));
        }
    }

    /// Writes a line to standard error; where that is closed there is nobody to tell.
    pub fn err(&self, text: &str) {
        let mut err = io::stderr().lock();
        err.write_all(text.as_bytes()).and_then(|()| err.write_all(b"\n")).ok();
    }

    /// Something that turns on a terminal while long work is done, and shows nothing elsewhere.
    #[must_use]
    pub fn spinner(&self) -> ProgressBar {
        if self.quiet || !self.terminal_err {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        bar
    }

    fn paint(&self, text: &str, style: Style) -> String {
        if self.color_err { text.style(style).to_string() } else { text.to_owned() }
    }
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub struct Shown {
    text: String,
    color: Option<comfy_table::Color>,
}

impl Shown {
    /// In this colour.
    #[must_use]
    pub fn color(mut self, color: comfy_table::Color) -> Self {
        self.color = Some(color);
        self
    }
}

impl<T: AsRef<str>> From<T> for Shown {
    fn from(text: T) -> Self {
        Self { text: plain(text.as_ref()), color: None }
    }
}

/// The table's text, without spaces at the ends of lines.
#[must_use]
pub fn render_table(head: &[&str], rows: Vec<Vec<Shown>>, color: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(head);
    for row in rows {
        table.add_row(row.into_iter().map(|shown| {
            let cell = comfy_table::Cell::new(shown.text);
            match shown.color.filter(|_| color) {
                Some(color) => cell.fg(color),
                None => cell,
            }
        }));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Text of others in one line: control characters, which could drive a terminal, are replaced.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Text of others in one line of at most `most` characters.
#[must_use]
pub fn short(text: &str, most: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= most {
        return text;
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Text of others with its lines kept.
#[must_use]
pub fn lines_of(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// JSON in which no string can drive a terminal or turn its text around.
fn tame(json: &str) -> String {
    let drives = |c: char| c != '\n' && (c.is_control() || is_hidden(c));
    let shown = |c: char| -> String {
        let mut units = [0; 2];
        match drives(c) {
            true => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
            false => c.to_string(),
        }
    };
    json.chars().map(shown).collect()
}

/// `now`-relative time in the largest unit: `12 s`, `3 min`, `5 h`, `2 d`; the text itself when it is no time.
#[must_use]
pub fn since(rfc3339: &str, now: jiff::Timestamp) -> String {
    let Ok(then) = rfc3339.parse::<jiff::Timestamp>() else { return plain(rfc3339) };
    let seconds = (now.as_second() - then.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_borders_and_no_trailing_spaces() {
        let rows = vec![vec!["a".into(), "long text".into()], vec!["bcd".into(), "".into()]];
        insta::assert_snapshot!(render_table(&["ONE", "TWO"], rows, false), @r"
        ONE  TWO
        a    long text
        bcd
        ");
    }

    #[test]
    fn text_of_others_cannot_drive_the_terminal() {
        assert_eq!(plain("a\x1b[31mb\nc"), "a [31mb c");
        assert_eq!(lines_of("a\x1b]0;x\x07\nb\tc"), "a\u{fffd}]0;x\u{fffd}\nb\tc");
        assert_eq!(
            tame("{\n  \"\u{9b}2J\u{202e}ü\u{e0001}\"\n}"),
            "{\n  \"\\u009b2J\\u202eü\\udb40\\udc01\"\n}"
        );
    }

    #[test]
    fn an_age_is_told_in_one_unit() {
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        for (then, told) in [
            ("2026-01-01T23:59:01Z", "59 s"),
            ("2026-01-01T23:50:00Z", "10 min"),
            ("2026-01-01T03:00:00+01:00", "22 h"),
            ("2025-12-01T00:00:00Z", "32 d"),
            ("2026-01-03T00:00:00Z", "0 s"),
            ("soon", "soon"),
        ] {
            assert_eq!(since(then, now), told, "{then}");
        }
    }
}

//! Making text safe to print: what a terminal would obey and what a reader would not see is spelt out.

/// Characters that nobody sees, or that change how others are shown.
///
/// The two selectors of emoji style (U+FE0E, U+FE0F) are not among them: they stand after ordinary
/// symbols everywhere.
#[must_use]
pub fn invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Text of several lines: line ends and tabs stay.
#[must_use]
pub fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || invisible(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Text that must stay on one line.
#[must_use]
pub fn one_line(text: &str) -> String {
    lines(text).replace('\n', "\\n").replace('\t', "\\t")
}

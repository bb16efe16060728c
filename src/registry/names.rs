//! Which file names a skill may hold, and how a name is shown to people.
//!
//! Pure. Names come from folders that agents write: they reach terminals, logs, HTTP and other
//! file systems, so whatever could deceive one of these is refused by name.

/// Folders within folders.
pub const MAX_DEPTH: usize = 32;
/// Bytes of a path inside a skill.
pub const MAX_PATH: usize = 1024;
/// Bytes of one name (NAME_MAX of Linux file systems).
pub const MAX_NAME: usize = 255;

/// Characters that change how text around them is shown.
fn deceives(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name or path as it can be printed anywhere: what is not plain text is spelt out.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\\' => out.push_str("\\\\"),
                c if deceives(c) => out.extend(c.escape_unicode()),
                c => out.push(c),
            }
        }
        for b in chunk.invalid() {
            out.push_str(&format!("\\x{b:02x}"));
        }
    }
    out
}

/// The name as text, or why it is refused.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_name(name: &[u8]) -> Result<&str, &'static str> {
    let name = std::str::from_utf8(name).map_err(|_| "the name is not UTF-8")?;
    match name {
        "" => Err("the name is empty"),
        "." | ".." => Err("the name leads out of its folder"),
        n if n.len() > MAX_NAME => Err("the name is longer than 255 bytes"),
        n if n.contains('/') => Err("the name holds a slash"),
        n if n.contains('\\') => Err("the name holds a backslash"),
        n if n.chars().any(deceives) => {
            Err("the name holds control characters (newline, escape, text direction)")
        }
        n => Ok(n),
    }
}

/// Checks a relative path with `/` between its names.
///
/// # Errors
/// The rule that the path breaks.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    if path.len() > MAX_PATH {
        return Err("the path is longer than 1024 bytes");
    }
    if path.split('/').count() > MAX_DEPTH {
        return Err("the path is more than 32 folders deep");
    }
    path.split('/').try_for_each(|name| check_name(name.as_bytes()).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_deceive_is_refused_and_shown_spelt_out() {
        for (name, shown) in [
            (&b"a\nb"[..], "a\\nb"),
            (b"\x1b[31mred", "\\u{1b}[31mred"),
            (b"a\xffb", "a\\xffb"),
            (b"back\\slash", "back\\\\slash"),
            ("gpj.\u{202e}exe".as_bytes(), "gpj.\\u{202e}exe"),
            ("\u{9b}31m".as_bytes(), "\\u{9b}31m"),
        ] {
            assert!(check_name(name).is_err(), "{shown}");
            assert_eq!(escape(name), shown);
        }
    }

    #[test]
    fn ordinary_names_of_every_script_pass() {
        for name in ["a", "SKILL.md", "日本語.md", "naïve file (1).txt", &"x".repeat(255)] {
            assert_eq!(check_name(name.as_bytes()), Ok(name));
        }
    }

    #[test]
    fn a_path_cannot_leave_the_folder_or_be_endless() {
        for bad in ["", "/a", "a//b", "../a", "a/..", "a/./b", "a/", &"a/".repeat(40), &"a".repeat(1025)] {
            assert!(check_path(bad).is_err(), "{bad}");
        }
        assert!(check_path("scripts/lib/a.ts").is_ok());
    }
}

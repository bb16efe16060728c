//! One secret's value: text that cannot be printed by accident.
//!
//! It has no `Display` and no `Serialize`; `Debug` prints `***`; its memory is wiped on drop.
//! Copies that a parser or the kernel made on the way in are beyond its reach.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The largest value in bytes: well below the 128 KiB that Linux allows one environment variable.
pub const MAX_VALUE: usize = 64 * 1024;

/// Why a value was refused; the text never shows the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// An environment variable cannot hold it.
    #[error("the value contains a NUL byte, which no environment variable can hold")]
    Nul,
    /// Over [`MAX_VALUE`].
    #[error(
        "the value has {0} bytes, more than the {MAX_VALUE} allowed: keep it in a file and store its path or key"
    )]
    TooLong(usize),
    /// A file holds it as JSON, which is text.
    #[error("the value is not UTF-8 text: encode it first, for instance with base64")]
    NotText,
    /// Nothing was given.
    #[error("the value is empty: to take a secret away, remove it")]
    Empty,
}

/// A secret's value.
#[derive(Clone)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    /// Wraps a value; it may be empty (a placeholder that counts as not set).
    ///
    /// # Errors
    /// A NUL byte, or more than [`MAX_VALUE`] bytes.
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidValue> {
        let value = Zeroizing::new(value.into());
        if value.len() > MAX_VALUE {
            return Err(InvalidValue::TooLong(value.len()));
        }
        if value.contains('\0') {
            return Err(InvalidValue::Nul);
        }
        Ok(Self(value))
    }

    /// Reads a value as a person gives it on standard input: one trailing line end is not part of it.
    ///
    /// # Errors
    /// As [`SecretValue::new`], and for text that is empty or not UTF-8.
    pub fn from_input(input: &[u8]) -> Result<Self, InvalidValue> {
        let line = input.strip_suffix(b"\n").unwrap_or(input);
        let line = if line.len() < input.len() { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        let text = std::str::from_utf8(line).map_err(|_| InvalidValue::NotText)?;
        if text.is_empty() {
            return Err(InvalidValue::Empty);
        }
        Self::new(text)
    }

    /// The value itself: for the one place that delivers it, and for masking.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether this is a placeholder, as in a copied example file: it counts as not set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Takes the same time wherever two values of one length differ.
impl PartialEq for SecretValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for SecretValue {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_prints_as_stars() {
        let v = SecretValue::new("hunter2").unwrap();
        assert_eq!(format!("{v:?} {:?}", Some(&v)), "*** Some(***)");
        assert_eq!(v.expose(), "hunter2");
    }

    #[test]
    fn one_trailing_line_end_of_the_input_is_dropped() {
        for (input, value) in
            [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a\r", "a\r"), (" a b ", " a b ")]
        {
            let read = SecretValue::from_input(input.as_bytes()).unwrap();
            assert_eq!(read.expose(), value, "{input:?}");
        }
    }

    #[test]
    fn what_no_environment_variable_can_hold_is_refused_without_showing_it() {
        let long = "x".repeat(MAX_VALUE + 1);
        for (input, why) in [
            (b"\n".as_slice(), InvalidValue::Empty),
            (b"sesame\0", InvalidValue::Nul),
            (b"sesame\xff", InvalidValue::NotText),
            (long.as_bytes(), InvalidValue::TooLong(MAX_VALUE + 1)),
        ] {
            let refused = SecretValue::from_input(input).unwrap_err();
            assert_eq!(refused, why);
            assert!(!refused.to_string().contains("sesame"));
        }
        assert!(SecretValue::new("x".repeat(MAX_VALUE)).is_ok());
    }
}

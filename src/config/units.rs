//! Sizes (`"512MiB"`) and durations (`"1h30m"`) as people write them.
//!
//! Pure and exact: no floating point, no rounding up, overflow is an error.

use std::time::Duration;

const SIZE_UNITS: [(&str, u64); 11] = [
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
];

const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a size in bytes: `512MiB`, `1.5GB`, `2 GiB`, `65536`. `KiB` counts by 1,024 and `kB` by
/// 1,000, in any case of letters; a fraction of a byte is dropped.
///
/// # Errors
/// What to write instead. A lone letter (`64k`) is refused: Docker reads it as 1,024, others as 1,000.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start().to_ascii_lowercase());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let form = || "write a number and a unit, such as \"512MiB\" or \"2GB\"".to_owned();
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') || fraction.len() > 9 {
        return Err(form());
    }
    let scale = if unit.is_empty() && fraction.is_empty() {
        1
    } else if let ["k" | "m" | "g" | "t" | "p"] = [unit.as_str()] {
        let letter = unit.to_ascii_uppercase();
        return Err(format!(
            "`{unit}` may mean 1,024 or 1,000: write \"{number}{letter}iB\" or \"{number}{letter}B\""
        ));
    } else {
        let known = SIZE_UNITS.iter().find(|(name, _)| *name == unit);
        known.ok_or_else(form)?.1
    };
    let too_large = || "that is more than can be counted: write a smaller size".to_owned();
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| too_large())?;
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    digits
        .checked_mul(u128::from(scale))
        .and_then(|bytes| u64::try_from(bytes / divisor).ok())
        .ok_or_else(too_large)
}

/// A size for people, in the largest unit of 1,024 that divides it: `512MiB`, `1000B`.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    for (unit, scale) in
        [("PiB", 1_u64 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
    {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{}{unit}", bytes / scale);
        }
    }
    format!("{bytes}B")
}

/// Reads a duration: whole numbers with `d`, `h`, `m`, `s`, `ms`, largest first, each at most once.
///
/// # Errors
/// What to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let form = || "write numbers and units, such as \"10s\", \"15m\", \"1h30m\" or \"500ms\"".to_owned();
    let mut rest = text.trim();
    if !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("the unit is missing: write \"{rest}s\" for seconds"));
    }
    let mut millis = 0_u64;
    let mut allowed = 0;
    while !rest.is_empty() || allowed == 0 {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(form)?;
        let after = &rest[digits..];
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit = DURATION_UNITS.iter().position(|(name, _)| *name == &after[..letters]).ok_or_else(form)?;
        if digits == 0 {
            return Err(form());
        }
        if unit < allowed {
            return Err("write each unit once and the largest first, such as \"1h30m\"".to_owned());
        }
        allowed = unit + 1;
        millis = rest[..digits]
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(DURATION_UNITS[unit].1))
            .and_then(|n| millis.checked_add(n))
            .ok_or("that is longer than can be counted: write a shorter time")?;
        rest = &after[letters..];
    }
    Ok(Duration::from_millis(millis))
}

/// A duration for people, as [`parse_duration`] reads it: `1h30m`, `0s`. What is less than a millisecond is
/// dropped.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for (unit, millis) in DURATION_UNITS {
        let count = rest / u128::from(millis);
        rest %= u128::from(millis);
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_in_both_systems_of_units() {
        for (text, bytes) in [
            ("512MiB", 512 << 20),
            ("2GiB", 2 << 30),
            ("1.5GB", 1_500_000_000),
            ("1.5 gib", 3 << 29),
            ("0.1KiB", 102),
            ("65536", 65_536),
            ("7B", 7),
            ("10kB", 10_000),
            ("16383PiB", 16_383 << 50),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_size_that_could_be_misread_is_refused() {
        for bad in [
            "",
            "MiB",
            "-1",
            "1.",
            ".5GiB",
            "1..2GB",
            "1.5",
            "5 miles",
            "1e3",
            "16384PiB",
            "99999999999999999999999999999999999999999999",
            "1.0000000001GB",
            "½GB",
            "1 MiB x",
        ] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        let told = parse_size("64k").unwrap_err();
        assert!(told.contains("64KiB") && told.contains("64KB"), "{told}");
    }

    #[test]
    fn a_formatted_size_reads_back() {
        for bytes in [0, 1, 1000, 1024, 1536, 512 << 20, 5 << 40, u64::MAX] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
        assert_eq!(format_size(512 << 20), "512MiB");
    }

    #[test]
    fn durations_add_their_parts() {
        for (text, millis) in [
            ("10s", 10_000),
            ("15m", 900_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("1d1ms", 86_400_001),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_duration_without_or_with_confused_units_is_refused() {
        for bad in [
            "",
            " ",
            "s",
            "10",
            "10 s",
            "1.5h",
            "30m1h",
            "1m1m",
            "-1s",
            "1w",
            "1hh",
            "99999999999999999d",
            "10sec",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert!(parse_duration("10").unwrap_err().contains("\"10s\""));
    }

    #[test]
    fn a_formatted_duration_reads_back() {
        for text in ["0s", "10s", "1h30m", "500ms", "1d1ms", "7d", "1m5s250ms"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(format_duration(Duration::from_secs(5400)), "1h30m");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_them_panic(text in "\\PC{0,24}") {
            drop((parse_size(&text), parse_duration(&text)));
        }
    }
}

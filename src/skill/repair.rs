//! Repair of frontmatter that YAML cannot read because a value holds an unquoted `: `.
//!
//! Quotes such values, and nothing else; whoever calls shows the reader what was done.

/// One value that was quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repair {
    /// 1-based line within the block.
    pub line: usize,
    /// The line as it reads now.
    pub now: String,
}

/// The block with such values quoted, and what was changed; None when there is nothing to quote.
///
/// With `marked`, values that begin with an indicator of YAML (`[`, `*`, `@`, …) count too.
pub(super) fn quote_colons(block: &str, marked: bool) -> Option<(String, Vec<Repair>)> {
    let lines: Vec<&str> = block.lines().collect();
    let mut out: Vec<String> = Vec::with_capacity(lines.len());
    let mut repairs = Vec::new();
    let mut i = 0;
    while i < lines.len() {
        let line = lines[i];
        let Some((head, value)) = key_and_value(line) else {
            out.push(line.to_owned());
            i += 1;
            continue;
        };
        let below = continuation(&lines, i);
        if value.starts_with(['|', '>']) {
            out.extend(lines[i..=i + below].iter().map(|l| (*l).to_owned()));
            i += below + 1;
            continue;
        }
        let mut joined = value.to_owned();
        for next in &lines[i + 1..=i + below] {
            joined.push(' ');
            joined.push_str(next.trim());
        }
        let joined = joined.trim();
        if !(unquoted(joined, marked) && (joined.contains(": ") || joined.ends_with(':'))) {
            out.push(line.to_owned());
            i += 1;
            continue;
        }
        let now = format!("{head}{}", quoted(joined));
        repairs.push(Repair { line: i + 1, now: now.clone() });
        out.push(now);
        // The lines that were joined stay as empty ones, so that places in messages still hold.
        out.extend((0..below).map(|_| String::new()));
        i += below + 1;
    }
    (!repairs.is_empty()).then(|| (out.join("\n") + "\n", repairs))
}

/// `key: ` with its indentation, and a value that is not empty.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let start = line.len() - line.trim_start_matches([' ', '-']).len();
    let rest = &line[start..];
    let colon = rest.find(':')?;
    let key = &rest[..colon];
    let valid = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let value = &rest[colon + 1..];
    let trimmed = value.trim_start_matches([' ', '\t']);
    if !valid || trimmed.len() == value.len() || trimmed.trim().is_empty() {
        return None;
    }
    Some((&line[..line.len() - trimmed.len()], trimmed.trim_end()))
}

/// How many of the following lines belong to the value that begins on this one.
fn continuation(lines: &[&str], at: usize) -> usize {
    let indent = |l: &str| l.len() - l.trim_start_matches(' ').len();
    // The keys of a list's item are as deep as its first one, which stands behind the hyphen.
    let own = lines[at].len() - lines[at].trim_start_matches([' ', '-']).len();
    let mut count = 0;
    for (n, line) in lines[at + 1..].iter().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        if indent(line) <= own {
            break;
        }
        count = n + 1;
    }
    count
}

/// Whether a value is not one quoted scalar, nor (unless `marked`) begins with an indicator.
fn unquoted(value: &str, marked: bool) -> bool {
    let Some(first) = value.chars().next() else {
        return false;
    };
    if !matches!(first, '"' | '\'') {
        return marked || !"[{&*!#%@`".contains(first);
    }
    // `"a: b"` is quoted, `"a" b: c` is not.
    let mut rest = value[1..].chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if first == '"' => {
                rest.next();
            }
            c if c == first && first == '\'' && rest.peek() == Some(&'\'') => {
                rest.next();
            }
            c if c == first => {
                let after: String = rest.collect();
                return !after.trim().is_empty() && !after.trim_start().starts_with('#');
            }
            _ => {}
        }
    }
    false
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_an_unquoted_colon_is_quoted_and_shown() {
        let (text, repairs) = quote_colons("name: a\ndescription: Use when: \"now\" \\o/\n", false).unwrap();
        assert_eq!(text, "name: a\ndescription: \"Use when: \\\"now\\\" \\\\o/\"\n");
        assert_eq!(repairs[0].line, 2);
    }

    #[test]
    fn lines_that_continue_a_value_are_joined_to_it() {
        let (text, _) = quote_colons("description: one\n  two: three\n  four\nname: a\n", false).unwrap();
        assert_eq!(text, "description: \"one two: three four\"\n\n\nname: a\n");
    }

    #[test]
    fn block_scalars_quoted_values_and_flow_are_left_alone() {
        for same in ["a: |\n  b: c: d\n", "a: 'b: c'\n", "a: [b: c]\n", "a:\n  b: c\n", "a: http://x\n"] {
            assert!(quote_colons(same, false).is_none(), "{same:?}");
        }
    }

    #[test]
    fn quotes_that_end_early_and_marked_values_count_as_unquoted() {
        for (from, to) in [
            ("a: \"b\" c: d", "a: \"\\\"b\\\" c: d\"\n"),
            ("a: 'it''s' c: d", "a: \"'it''s' c: d\"\n"),
            ("a: **b**: c", "a: \"**b**: c\"\n"),
            ("- a: b: c\n  d: e", "- a: \"b: c\"\n  d: e\n"),
        ] {
            assert_eq!(quote_colons(from, true).unwrap().0, to);
        }
        assert!(quote_colons("a: **b**: c", false).is_none());
        for same in ["a: \"b: \\\" c: d\"", "a: 'b'' c: d' # e: f", "a: \"b: c\n  d: e\""] {
            assert!(quote_colons(same, true).is_none(), "{same}");
        }
    }
}

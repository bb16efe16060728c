//! As much JSON as the command needs: objects of strings out, one string of an answer in.

/// An object being written.
#[derive(Default)]
pub struct Object {
    text: String,
}

impl Object {
    fn key(&mut self, key: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        quote(&mut self.text, key);
        self.text.push(':');
    }

    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        quote(&mut self.text, value);
    }

    pub fn yes(&mut self, key: &str) {
        self.key(key);
        self.text.push_str("true");
    }

    pub fn list<'a>(&mut self, key: &str, values: impl Iterator<Item = &'a str>) {
        self.key(key);
        self.text.push('[');
        for (i, value) in values.enumerate() {
            if i > 0 {
                self.text.push(',');
            }
            quote(&mut self.text, value);
        }
        self.text.push(']');
    }

    pub fn end(mut self) -> String {
        if self.text.is_empty() {
            self.text.push('{');
        }
        self.text.push('}');
        self.text
    }
}

/// Writes a string.
pub fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if u32::from(c) < 0x20 => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let code = c as usize;
                out.push_str("\\u00");
                out.push(char::from(HEX[code >> 4]));
                out.push(char::from(HEX[code & 15]));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// What stands under a key of an object, as it is written; none when the key is not there or it is no object.
pub fn raw_of<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = json.trim_start().strip_prefix('{')?.trim_start();
    while let Some(name) = rest.strip_prefix('"') {
        let (name, after) = string(name)?;
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        let end = value_end(value)?;
        if name == key {
            return Some(&value[..end]);
        }
        rest = value[end..].trim_start().strip_prefix(',')?.trim_start();
    }
    None
}

/// The items of a list, as they are written.
pub fn items_of(json: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let mut left = json.trim_start().strip_prefix('[').map(str::trim_start);
    while let Some(rest) = left {
        let Some(end) = value_end(rest) else { break };
        items.push(&rest[..end]);
        left = rest[end..].trim_start().strip_prefix(',').map(str::trim_start);
    }
    items
}

/// The same of a string, read.
pub fn string_of(json: &str, key: &str) -> Option<String> {
    string(raw_of(json, key)?.strip_prefix('"')?).map(|(text, _)| text)
}

/// Where the value at the beginning ends.
fn value_end(json: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut rest = json;
    loop {
        let at = json.len() - rest.len();
        let c = rest.chars().next()?;
        match c {
            '"' => {
                rest = string(&rest[1..])?.1;
                if depth == 0 {
                    return Some(json.len() - rest.len());
                }
                continue;
            }
            '{' | '[' => depth += 1,
            '}' | ']' => {
                // A bare value ends before the bracket of what holds it.
                if depth == 0 {
                    return Some(at).filter(|at| *at > 0);
                }
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            ',' | ' ' | '\t' | '\r' | '\n' if depth == 0 => return Some(at).filter(|at| *at > 0),
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
}

/// The string under a key of the outermost object, which is written without blanks.
pub fn text_of(json: &str, key: &str) -> Option<String> {
    let mut rest = json.trim_start().strip_prefix('{')?;
    let mut depth = 0;
    let mut last: Option<String> = None;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            '"' => {
                let (text, after) = string(rest)?;
                rest = after;
                if depth == 0 && last.as_deref() == Some(key) {
                    return Some(text);
                }
                last = rest.starts_with(':').then_some(text);
                continue;
            }
            ':' => continue,
            _ => {}
        }
        last = None;
    }
    None
}

/// What stands before the closing quote, and what behind it.
fn string(from: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = from.char_indices();
    let mut high = None;
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, &from[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'b' => out.push('\u{8}'),
                'f' => out.push('\u{c}'),
                'u' => {
                    let mut code = 0;
                    for _ in 0..4 {
                        code = code << 4 | chars.next()?.1.to_digit(16)?;
                    }
                    match (high.take(), code) {
                        (_, 0xd800..=0xdbff) => high = Some(code),
                        (Some(first), 0xdc00..=0xdfff) => {
                            out.extend(char::from_u32(0x10000 + ((first - 0xd800) << 10) + (code - 0xdc00)));
                        }
                        (_, code) => out.extend(char::from_u32(code)),
                    }
                }
                other => out.push(other),
            },
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_written_and_strings_found_again() {
        let mut object = Object::default();
        object.text("a\"b", "x\\\n\u{1}\u{1f600}é");
        object.yes("flag");
        object.list("tags", ["one", "t\"wo"].into_iter());
        let text = object.end();
        assert_eq!(
            text,
            "{\"a\\\"b\":\"x\\\\\\n\\u0001\u{1f600}é\",\"flag\":true,\"tags\":[\"one\",\"t\\\"wo\"]}"
        );
        assert_eq!(text_of(&text, "a\"b").as_deref(), Some("x\\\n\u{1}\u{1f600}é"));
        assert_eq!(Object::default().end(), "{}");
    }

    #[test]
    fn what_stands_under_a_key_is_found_as_it_is_written() {
        let json = "{ \"id\" : 7 , \"a\":\"}\\\"{\", \"params\": {\"requestId\": \"x,y\", \"n\": [1, {}]},\"e\":null}";
        assert_eq!(raw_of(json, "id"), Some("7"));
        assert_eq!(raw_of(json, "a"), Some("\"}\\\"{\""));
        assert_eq!(string_of(json, "a").as_deref(), Some("}\"{"));
        assert_eq!(raw_of(raw_of(json, "params").unwrap(), "requestId"), Some("\"x,y\""));
        assert_eq!(raw_of(raw_of(json, "params").unwrap(), "n"), Some("[1, {}]"));
        assert_eq!(raw_of(json, "e"), Some("null"));
        for broken in
            ["", "{", "[]", "{\"id\"", "{\"id\":", "{\"id\":}", "{\"id\":\"x", "{\"id\":[1", "{\"x\":1"]
        {
            assert_eq!(raw_of(broken, "id"), None, "{broken}");
        }
    }

    #[test]
    fn the_items_of_a_list_are_found_as_they_are_written() {
        assert_eq!(items_of("[ {\"a\": [1, 2]}, \"]\" ,3 ]"), ["{\"a\": [1, 2]}", "\"]\"", "3"]);
        for none in ["", "[", "[]", "{}", "[,1]"] {
            assert_eq!(items_of(none), [""; 0], "{none}");
        }
    }

    #[test]
    fn only_a_key_of_the_outermost_object_counts() {
        let json = r#"{"title":"detail","status":4,"list":["detail","x"],"in":{"detail":"no"},"detail":"\ud83d\ude00 yes\u00e9"}"#;
        assert_eq!(text_of(json, "detail").as_deref(), Some("\u{1f600} yesé"));
        for broken in ["", "{", "[]", r#"{"detail":3}"#, r#"{"detail":"x"#, r#"{"detail":"\u12"}"#] {
            assert_eq!(text_of(broken, "detail"), None, "{broken}");
        }
    }
}

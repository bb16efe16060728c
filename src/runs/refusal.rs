//! Whether an output says `success: false`, found while it passes: what is too long to be kept, or to be read as JSON,
//! is judged by the same rule as the rest (systems.md D13).
//!
//! Pure. Only a field of the one object that the output is counts; what is in its fields does not.

/// Bytes of a name or a value that are looked at.
const MOST: usize = 16;

/// Looks for `"success": false` in bytes that come in pieces.
#[derive(Debug, Default)]
pub struct Refusal {
    place: Place,
    depth: u32,
    escaped: bool,
    in_text: bool,
    /// The last text, or the value that is being read.
    word: Vec<u8>,
    refused: bool,
    unknown: bool,
}

/// Where in the object it reads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before its beginning.
    #[default]
    Before,
    /// Where the name of a field stands.
    Name,
    /// In the value of the field `success`.
    Success,
    /// In the value of another.
    Other,
    /// It is none, or it is over.
    Past,
}

/// What is known of an output that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Bytes that were kept.
    pub kept: usize,
    /// Whether it says `success: false`; none: not all of it was seen.
    pub refused: Option<bool>,
}

impl Refusal {
    /// Bytes are missing here: what follows has no beginning.
    pub fn gap(&mut self) {
        (self.place, self.unknown) = (Place::Past, true);
    }

    /// The next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.read(*byte);
        }
    }

    /// What is known when all but the first `kept` bytes are gone.
    #[must_use]
    pub fn cut(&self, kept: usize) -> Cut {
        Cut { kept, refused: (self.refused || !self.unknown).then_some(self.refused) }
    }

    fn read(&mut self, byte: u8) {
        if self.place == Place::Past {
            return;
        }
        if self.in_text {
            self.in_text = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            if self.depth == 1 && self.in_text {
                self.note(byte);
            }
            return;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ if self.place == Place::Before && byte != b'{' => self.place = Place::Past,
            b'"' => {
                self.in_text = true;
                if self.depth == 1 {
                    self.word.clear();
                    if self.place != Place::Name {
                        self.is_no_boolean();
                    }
                }
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth == 1 {
                    self.place = Place::Name;
                } else {
                    self.is_no_boolean();
                }
            }
            b'}' | b']' if self.depth > 1 => self.depth -= 1,
            b'}' | b']' => {
                self.over();
                self.place = Place::Past;
            }
            _ if self.depth > 1 => {}
            b':' if self.place == Place::Name => {
                self.place = if self.word == b"success" { Place::Success } else { Place::Other };
                self.word.clear();
            }
            b',' => {
                self.over();
                self.place = Place::Name;
            }
            other => self.note(other),
        }
    }

    fn note(&mut self, byte: u8) {
        if self.word.len() < MOST {
            self.word.push(byte);
        }
    }

    /// The value of a field begins like a text, an array or an object.
    fn is_no_boolean(&mut self) {
        self.refused &= self.place != Place::Success;
        self.place = Place::Other;
    }

    /// The value of a field is over.
    fn over(&mut self) {
        if self.place == Place::Success {
            // Of a name that comes twice the last counts, as with every reader of JSON here.
            self.refused = self.word == b"false";
        }
        self.word.clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const TEXTS: [&str; 20] = [
        r#"{"success": false}"#,
        r#"{"rows":"x\"y","success":false,"error":"e"}"#,
        r#" {"a":{"success":false},"b":[{"success":false}],"success" : true }"#,
        r#"{"a":[1,2,{"b":"}"}],"success": false , "c": null}"#,
        r#"{"success":"false"}"#,
        r#"{"success":true,"success":false}"#,
        r#"{"success":false,"success":true}"#,
        r#"{"success":false,"success":"true"}"#,
        r#"{"success":false,"success":{"a":1}}"#,
        r#"{"success":[false]}"#,
        r#"{"success":{"success":false}}"#,
        r#"{"successful":false,"success":0}"#,
        r#"{"text":"\"success\":false,","success":true}"#,
        r#"{"text":"\\","success":false}"#,
        r#"["success", false]"#,
        r#"[{"success":false}]"#,
        r#""success""#,
        "{}",
        "12",
        r#"{"\u0061":1,"success":false}"#,
    ];

    #[test]
    fn it_agrees_with_a_reader_of_json_wherever_the_pieces_end() {
        for text in TEXTS {
            let json: Value = serde_json::from_str(text).unwrap();
            let wanted = json.get("success") == Some(&Value::Bool(false));
            for at in 0..=text.len() {
                let mut refusal = Refusal::default();
                refusal.feed(&text.as_bytes()[..at]);
                refusal.feed(&text.as_bytes()[at..]);
                assert_eq!(refusal.cut(3), Cut { kept: 3, refused: Some(wanted) }, "{text} at {at}");
            }
        }
    }

    #[test]
    fn what_is_no_object_from_its_first_letter_on_says_nothing() {
        for text in ["log {\"success\": false}", "{\"success\": true} {\"success\": false}", "", "}", "]:,"] {
            let mut refusal = Refusal::default();
            refusal.feed(text.as_bytes());
            assert_eq!(refusal.cut(1).refused, Some(false), "{text}");
        }
        let of = |pieces: [&str; 2]| {
            let mut refusal = Refusal::default();
            refusal.feed(pieces[0].as_bytes());
            refusal.gap();
            refusal.feed(pieces[1].as_bytes());
            refusal.cut(1).refused
        };
        assert_eq!(of(["{\"a\": ", "1, \"success\": false}"]), None, "there may have been another");
        assert_eq!(of(["{\"success\": false, ", "\"a\": 1}"]), Some(true));
    }
}

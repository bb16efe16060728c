//! Reads server-sent events (WHATWG HTML, "Server-sent events") out of the pieces of a body.

/// One event as it was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// The last id that was sent, with this event or before.
    pub(super) id: Option<String>,
    /// Its name; empty when none was sent.
    pub(super) name: String,
    /// Its lines.
    pub(super) data: String,
}

/// What came so far of an event, and of a line.
#[derive(Debug, Default)]
pub(super) struct Reader {
    line: Vec<u8>,
    sent: Sent,
    has_data: bool,
    after_cr: bool,
}

impl Reader {
    /// Takes the next piece; answers the events that are complete.
    pub(super) fn take(&mut self, piece: &[u8]) -> Vec<Sent> {
        let mut events = Vec::new();
        for byte in piece {
            let after_cr = std::mem::replace(&mut self.after_cr, *byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.end_line(&String::from_utf8_lossy(&line)));
                }
                _ => self.line.push(*byte),
            }
        }
        events
    }

    fn end_line(&mut self, line: &str) -> Option<Sent> {
        if line.is_empty() {
            let has_data = std::mem::take(&mut self.has_data);
            let sent = Sent { id: self.sent.id.clone(), ..Sent::default() };
            return Some(std::mem::replace(&mut self.sent, sent)).filter(|_| has_data);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" if !value.contains('\0') => self.sent.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.sent.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.sent.data.push('\n');
                }
                self.sent.data.push_str(value);
            }
            // Comments, `retry`, and what is not known.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b": hello\nretry: 5\n\nid: 7\nevent: run:failed\ndata: {\"a\":\ndata:  1}\n\ndata: x\r\n\r\nid:8\rdata\r\revent: lost\n";

    fn sent(id: &str, name: &str, data: &str) -> Sent {
        Sent { id: Some(id.into()), name: name.into(), data: data.into() }
    }

    #[test]
    fn events_are_read_with_their_ids_names_and_lines() {
        let wanted = [sent("7", "run:failed", "{\"a\":\n 1}"), sent("7", "", "x"), sent("8", "", "")];
        assert_eq!(Reader::default().take(STREAM), wanted);
    }

    #[test]
    fn where_pieces_end_does_not_matter() {
        let whole = Reader::default().take(STREAM);
        for size in 1..20 {
            let mut reader = Reader::default();
            let events: Vec<Sent> = STREAM.chunks(size).flat_map(|piece| reader.take(piece)).collect();
            assert_eq!(events, whole, "pieces of {size}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            drop(Reader::default().take(&bytes));
        }
    }
}

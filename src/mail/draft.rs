//! A message before it is sent: what is wrong with it, all at once.

use super::Party;
use crate::ids::is_hidden;

/// Characters of a subject.
pub const MAX_SUBJECT: usize = 200;
/// Bytes of a body: with the words around it, it fits one argument of a process (128 KiB on Linux).
pub const MAX_BODY: usize = 64 * 1024;
/// Recipients of one message.
pub const MAX_TO: usize = 20;
/// Files of one message.
pub const MAX_FILES: usize = 10;
/// Bytes of one file.
pub const MAX_FILE: u64 = 10 << 20;
/// Bytes of all files of one message.
pub const MAX_FILES_SIZE: u64 = 25 << 20;
/// Characters of a file's name.
const MAX_NAME: usize = 120;

/// A message to be sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// To whom; none: who wrote the message that this replies to.
    pub to: Vec<String>,
    /// In a line; none: of the message that this replies to.
    pub subject: Option<String>,
    /// The text.
    pub body: String,
    /// Paths in the sender's workspace.
    pub attachments: Vec<String>,
    /// The message that this replies to.
    pub reply_to: Option<i64>,
}

/// What is wrong with something, and where: a JSON pointer and a sentence.
pub type Faults = Vec<(String, String)>;

/// The recipients, each once and in order.
///
/// # Errors
/// What is wrong with the draft.
pub fn check(from: &Party, draft: &Draft) -> Result<Vec<Party>, Faults> {
    let mut faults = Faults::new();
    let mut to: Vec<Party> = Vec::new();
    for (n, name) in draft.to.iter().enumerate() {
        match recipient(from, name) {
            Ok(party) if to.contains(&party) => {}
            Ok(party) => to.push(party),
            Err(why) => faults.push((format!("/to/{n}"), why)),
        }
    }
    if draft.to.is_empty() && draft.reply_to.is_none() {
        faults.push(("/to".into(), "say to whom: names of agents, or \"operator\"".into()));
    }
    if draft.to.len() > MAX_TO {
        faults.push(("/to".into(), format!("{} recipients are too many; at most {MAX_TO}", draft.to.len())));
    }
    match &draft.subject {
        Some(subject) => faults.extend(bad_subject(subject).map(|why| ("/subject".into(), why))),
        None if draft.reply_to.is_none() => faults.push(("/subject".into(), "a subject is missing".into())),
        None => {}
    }
    if draft.body.len() > MAX_BODY {
        let why = format!("the body has {} bytes; at most {MAX_BODY}: attach a file", draft.body.len());
        faults.push(("/body".into(), why));
    } else if draft.body.trim().is_empty() && draft.attachments.is_empty() {
        faults.push(("/body".into(), "there is nothing in it: write a body".into()));
    } else if draft.body.contains('\0') {
        faults.push(("/body".into(), "a body has no NUL characters".into()));
    }
    if draft.attachments.len() > MAX_FILES {
        let why = format!("{} files are too many; at most {MAX_FILES}", draft.attachments.len());
        faults.push(("/attachments".into(), why));
    }
    for (n, path) in draft.attachments.iter().enumerate() {
        faults.extend(file_name(path).err().map(|why| (format!("/attachments/{n}"), why)));
    }
    if faults.is_empty() { Ok(to) } else { Err(faults) }
}

fn recipient(from: &Party, name: &str) -> Result<Party, String> {
    match name.parse::<Party>() {
        Err(e) => Err(e.0),
        Ok(Party::Hive) => Err("the hive itself reads no mail; write to \"operator\"".into()),
        Ok(party) if party == *from => Err(format!("{party} would write to itself")),
        Ok(party) => Ok(party),
    }
}

fn bad_subject(subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if subject.trim().is_empty() {
        return Some("a subject is missing".into());
    }
    if length > MAX_SUBJECT {
        return Some(format!("the subject has {length} characters; at most {MAX_SUBJECT}"));
    }
    subject.chars().any(is_hidden).then(|| "a subject is one line without hidden characters".into())
}

/// The name of an attached file: the last part of its path.
///
/// # Errors
/// It is no path of a file that could be taken.
pub fn file_name(path: &str) -> Result<&str, String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.is_empty() || name == "." || name == ".." {
        return Err(format!("{path:?} names no file"));
    }
    if name.chars().count() > MAX_NAME || name.len() > 250 {
        return Err(format!("the name of {path:?} is longer than {MAX_NAME} characters"));
    }
    if path.chars().any(is_hidden) {
        return Err(format!("{path:?} has hidden characters in it"));
    }
    Ok(name)
}

/// A path as models give it, relative to the workspace.
///
/// # Errors
/// It leads elsewhere.
pub fn in_workspace(path: &str) -> Result<&str, String> {
    let inner = match path.strip_prefix("/workspace/") {
        Some(inner) => inner,
        None if path.starts_with('/') => {
            return Err(format!("{path:?} is outside the workspace: attach files of /workspace"));
        }
        None => path,
    };
    if inner.split('/').any(|part| part == "..") {
        return Err(format!("{path:?} leads out of its folder: attach files of /workspace"));
    }
    Ok(inner.trim_start_matches('/'))
}

/// The subject of a reply.
#[must_use]
pub fn reply_subject(subject: &str) -> String {
    let again = subject.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("re:"));
    let whole = if again { subject.to_owned() } else { format!("Re: {subject}") };
    whole.chars().take(MAX_SUBJECT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(to: &[&str]) -> Draft {
        let to = to.iter().map(ToString::to_string).collect();
        Draft { to, subject: Some("Hello".into()), body: "Words".into(), ..Draft::default() }
    }

    fn writer() -> Party {
        "writer".parse().unwrap()
    }

    #[test]
    fn agents_write_to_each_other_and_to_the_operator_once_each() {
        let to = check(&writer(), &draft(&["reader", "operator", "reader"])).unwrap();
        assert_eq!(to, ["reader".parse().unwrap(), Party::Operator]);
    }

    #[test]
    fn every_fault_is_told_with_its_place() {
        let bad = Draft {
            to: ["writer", "skep", "No One"].map(str::to_owned).to_vec(),
            subject: Some("two\nlines".into()),
            body: "x".repeat(MAX_BODY + 1),
            attachments: vec!["..".into(), "a\u{202e}b".into()],
            reply_to: None,
        };
        let faults = check(&writer(), &bad).unwrap_err();
        let places: Vec<&str> = faults.iter().map(|(place, _)| place.as_str()).collect();
        let expected = ["/to/0", "/to/1", "/to/2", "/subject", "/body", "/attachments/0", "/attachments/1"];
        assert_eq!(places, expected);
    }

    #[test]
    fn a_reply_needs_neither_recipient_nor_subject_and_others_do() {
        let reply = Draft { body: "Yes.".into(), reply_to: Some(1), ..Draft::default() };
        assert_eq!(check(&writer(), &reply).unwrap(), []);
        let places: Vec<String> =
            check(&writer(), &Draft::default()).unwrap_err().into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, ["/to", "/subject", "/body"]);
        assert_eq!(reply_subject("Report"), "Re: Report");
        assert_eq!(reply_subject("RE: Report"), "RE: Report");
        assert_eq!(reply_subject(&"ä".repeat(MAX_SUBJECT)).chars().count(), MAX_SUBJECT);
    }

    #[test]
    fn attachments_are_files_of_the_workspace_and_nothing_above_it() {
        assert_eq!(in_workspace("/workspace/out/report.pdf"), Ok("out/report.pdf"));
        assert_eq!(in_workspace("report.pdf"), Ok("report.pdf"));
        for bad in ["/etc/passwd", "../x", "a/../../x", "/workspace/../etc/passwd"] {
            assert!(in_workspace(bad).is_err(), "{bad}");
        }
        assert_eq!(file_name("out/report.pdf"), Ok("report.pdf"));
        for bad in ["", "out/", "..", "a/."] {
            assert!(file_name(bad).is_err(), "{bad}");
        }
    }
}

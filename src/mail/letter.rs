//! What an agent is told of a message that it is to answer.

use super::{Attachment, Party};

/// How a job that answers mail begins, unless somebody wrote it otherwise.
pub const INSTRUCTIONS: &str = "You have mail. Do what it asks as far as it is yours to do, and answer it.\n\
    Your answer is what you give the tool reply_mail; if you do not call it, it is the summary of this run: what you \
    write to /workspace/.skep/summary, else the end of your output.";

/// A message as the one who gets it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter<'a> {
    /// Its number.
    pub id: i64,
    /// The first message of its thread.
    pub thread: i64,
    /// Who wrote it.
    pub from: &'a Party,
    /// To whom.
    pub to: &'a [Party],
    /// When, RFC 3339.
    pub sent_at: String,
    /// In a line.
    pub subject: &'a str,
    /// The text.
    pub body: &'a str,
    /// Its files.
    pub attachments: &'a [Attachment],
}

/// Where in an agent's workspace the files of a message are.
#[must_use]
pub fn folder(id: i64) -> String {
    format!(".skep/mail/{id}")
}

/// The instructions of the run that answers a message: what the job says, then the message.
#[must_use]
pub fn instructions(job: Option<&str>, letter: &Letter<'_>) -> String {
    let to: Vec<&str> = letter.to.iter().map(Party::as_str).collect();
    let mut text = format!(
        "{}\n\nMessage: {} (thread {})\nFrom: {}\nTo: {}\nSent: {}\nSubject: {}\n",
        job.map_or(INSTRUCTIONS, str::trim_end),
        letter.id,
        letter.thread,
        letter.from,
        to.join(", "),
        letter.sent_at,
        letter.subject,
    );
    if !letter.attachments.is_empty() {
        let files: Vec<String> =
            letter.attachments.iter().map(|file| format!("{} ({} bytes)", file.name, file.size)).collect();
        text += &format!("Attachments, in /workspace/{}: {}\n", folder(letter.id), files.join(", "));
    }
    text + &format!("\nWhat follows are the words of {}:\n\n{}\n", letter.from, letter.body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_told_who_wrote_what_and_where_the_files_are() {
        let (from, to) = (Party::Operator, ["writer".parse().unwrap()]);
        let files = [Attachment { name: "a.txt".into(), size: 3, digest: String::new() }];
        let letter = Letter {
            id: 7,
            thread: 4,
            from: &from,
            to: &to,
            sent_at: "2026-01-01T00:00:00.000Z".into(),
            subject: "Posts",
            body: "How did they do?",
            attachments: &files,
        };
        assert_eq!(
            instructions(Some("Answer shortly.\n"), &letter),
            "Answer shortly.\n\nMessage: 7 (thread 4)\nFrom: operator\nTo: writer\n\
             Sent: 2026-01-01T00:00:00.000Z\nSubject: Posts\n\
             Attachments, in /workspace/.skep/mail/7: a.txt (3 bytes)\n\n\
             What follows are the words of operator:\n\nHow did they do?\n"
        );
        assert!(instructions(None, &letter).starts_with("You have mail."));
    }
}

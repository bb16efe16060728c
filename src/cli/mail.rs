//! `skep mail`: the operator's mail, and what agents write to each other.

use std::io::Read;

use super::{
    failure::{FAILED, Failure, Outcome},
    hive::Context,
    ui::{Shown, lines_of, plain, short},
    when::Clock,
};
use crate::{
    app::mail::types::{AttachmentView, MailRequest, MailView},
    mail::{Party, Status},
};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep mail send writer -s 'Weekly report' -m 'Please send it by noon.'
  skep mail list                      # what came to the operator
  skep mail list writer --box queue   # what waits for an agent's answer";

/// Characters of a subject in a list.
const SUBJECT: usize = 60;

/// `skep mail`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List messages, newest first
    List(ListArgs),
    /// Send a message to agents, as the operator
    Send(SendArgs),
    /// Show a message with all about it
    Show(OneArgs),
    /// Let a message go on that was held because agents answered each other for too long
    Release(OneArgs),
}

/// `skep mail list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Whose
    #[arg(default_value = "operator")]
    of: Party,
    /// What came, what was sent, or what waits for an answer or the operator
    #[arg(long = "box", value_name = "BOX", default_value = "inbox", value_parser = ["inbox", "sent", "queue"])]
    folder: String,
    /// Only those with all of these words
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
    /// So many at most
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `skep mail send`.
#[derive(Debug, clap::Args)]
pub struct SendArgs {
    /// To whom; in a reply left out: who wrote the message
    #[arg(required_unless_present = "reply")]
    to: Vec<String>,
    /// In a line
    #[arg(short, long, required_unless_present = "reply")]
    subject: Option<String>,
    /// The text [default: standard input]
    #[arg(short = 'm', long, value_name = "TEXT")]
    message: Option<String>,
    /// The message that this replies to
    #[arg(long, value_name = "ID")]
    reply: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `skep mail show` and `skep mail release`.
#[derive(Debug, clap::Args)]
pub struct OneArgs {
    /// Its number
    mail: i64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, command: &Command) -> Outcome {
    match command {
        Command::List(args) => list(context, args).await,
        Command::Send(args) => send(context, args).await,
        Command::Show(args) => {
            let mail = context.client()?.get(&format!("/v1/mail/{}", args.mail), &[]).await?;
            show(context, &mail, args.json)
        }
        Command::Release(args) => {
            let path = format!("/v1/mail/{}/release", args.mail);
            let mail = context.client()?.exchange(&path, &serde_json::json!({})).await?;
            show(context, &mail, args.json)
        }
    }
}

async fn list(context: &Context, args: &ListArgs) -> Outcome {
    let mut query = vec![("box", args.folder.as_str())];
    query.extend(args.search.as_deref().map(|words| ("q", words)));
    let path = format!("/v1/agents/{}/mail", args.of);
    let (found, more): (Vec<MailView>, bool) =
        context.client()?.first(&path, &query, args.limit as usize).await?;
    if args.json {
        context.ui.json(&found)?;
        return Ok(0);
    }
    let clock = Clock::here();
    let row = |mail: &MailView| -> Vec<Shown> {
        vec![
            mail.id.to_string().into(),
            mail.from.as_str().into(),
            short(&mail.to.join(", "), 40).into(),
            mail.status.as_str().into(),
            clock.ago(&mail.sent_at).into(),
            short(&mail.subject, SUBJECT).into(),
        ]
    };
    let head = ["ID", "FROM", "TO", "STATUS", "SENT", "SUBJECT"];
    context.ui.table(&head, found.iter().map(row).collect())?;
    if more {
        context.ui.note("there are older ones: -n shows more");
    }
    Ok(0)
}

async fn send(context: &Context, args: &SendArgs) -> Outcome {
    let mut body = args.message.clone().unwrap_or_default();
    if args.message.is_none() {
        std::io::stdin()
            .read_to_string(&mut body)
            .map_err(|e| Failure::new(format!("cannot read standard input: {e}")))?;
    }
    let request = MailRequest {
        to: args.to.clone(),
        subject: args.subject.clone(),
        body,
        reply_to: args.reply,
        ..MailRequest::default()
    };
    let mail: MailView = context.client()?.exchange("/v1/mail", &request).await?;
    if args.json {
        context.ui.json(&mail)?;
    } else {
        context.ui.line(format!("{}  {}", mail.id, mail.status.as_str()))?;
    }
    if mail.status == Status::Dead {
        if let Some(why) = &mail.reason {
            context.ui.warn(plain(why));
        }
        return Ok(FAILED);
    }
    Ok(0)
}

fn show(context: &Context, mail: &MailView, json: bool) -> Outcome {
    if json {
        context.ui.json(mail)?;
        return Ok(0);
    }
    context.ui.line(text(mail, &Clock::here()))?;
    Ok(0)
}

/// The whole text.
fn text(mail: &MailView, clock: &Clock) -> String {
    let mut facts = vec![
        ("message", format!("{} of thread {}", mail.id, mail.thread)),
        ("from", mail.from.clone()),
        ("sent", clock.past(&mail.sent_at)),
        ("subject", mail.subject.clone()),
    ];
    for delivery in &mail.deliveries {
        let read = delivery.read_at.as_ref().map(|at| format!(", read {}", clock.ago(at)));
        let why = delivery.reason.as_ref().map(|why| format!(": {why}"));
        let status = delivery.status.as_str();
        let rest = [read, why].into_iter().flatten().collect::<String>();
        facts.push(("to", format!("{}  {status}{rest}", delivery.to)));
    }
    let file = |file: &AttachmentView| ("file", format!("{} ({} bytes)", file.name, file.size));
    facts.extend(mail.attachments.iter().map(file));
    let mut lines: Vec<String> =
        facts.into_iter().map(|(name, value)| format!("{name:<8} {}", plain(&value))).collect();
    lines.extend([String::new(), lines_of(mail.body.trim_end())]);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::mail::types::DeliveryView;

    #[test]
    fn a_message_is_shown_with_what_became_of_it() {
        let mail = MailView {
            id: 7,
            thread: 4,
            reply_to: Some(4),
            from: "writer".into(),
            to: vec!["reader".into()],
            subject: "Re: Report".into(),
            body: "Here it is.\n\u{1b}[2J".into(),
            attachments: vec![AttachmentView { name: "a.txt".into(), size: 3, path: None }],
            sent_at: "2026-01-01T00:00:00.000Z".into(),
            read_at: None,
            status: Status::Dead,
            reason: None,
            automatic: true,
            deliveries: vec![DeliveryView {
                to: "reader".into(),
                status: Status::Dead,
                reason: Some("there is no agent reader".into()),
                read_at: None,
            }],
        };
        let clock = Clock { now: "2026-01-01T01:00:00Z".parse().unwrap(), zone: jiff::tz::TimeZone::UTC };
        insta::assert_snapshot!(text(&mail, &clock), @r"
        message  7 of thread 4
        from     writer
        sent     60 min ago · Thu 00:00
        subject  Re: Report
        to       reader  dead: there is no agent reader
        file     a.txt (3 bytes)

        Here it is.
        �[2J
        ");
    }
}

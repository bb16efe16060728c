//! `skep` inside a container: the agent's door for shell scripts. The same file as the init, called by another name, so
//! that it works in any image.
//!
//! What the supervisor answers goes to standard output as it came (JSON); why it refused goes to standard error. Exit
//! codes: 0, 1 (it failed), 2 (usage). Nothing here runs in PID 1.

mod archive;
mod call;
mod http;
mod json;
mod mcp;

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use self::{http::Body, json::Object};

const PROMPT: &str = "/skep/prompt.md";

const HELP: &str = "\
skep: what an agent and its scripts may ask of the supervisor. Answers are JSON.

  skep skills [--tag TAG] [--include-disabled]    list the skill documents
  skep skill NAME [--content]                     read one; with --content its text alone
  skep document create NAME --title T --description D [--tags A,B] (--content TEXT | --file FILE)
  skep document update NAME [--title T] [--description D] [--tags A,B]
                            [--operation replace|append|prepend|delete (--content TEXT | --file FILE)]
                            [--operation find_replace --find TEXT --replace TEXT [--replace-all]]
  skep document delete|enable|disable NAME
  skep register DIR                               register a skill folder, or a new version of it
  skep prompt                                     print the prompt
  skep tools                                      list the tools that can be called
  skep call TOOL [--arg KEY=VALUE … | JSON | -]   call one; `-` reads its arguments, a JSON object
  skep run TOOL [JSON]                            call a tool of this run; `-` reads its arguments
  skep mcp                                        serve the tools to an MCP client on standard input and output
  skep job list                                   list the agent's jobs

Tools are the agent's own. Values of --arg are texts; where a tool wants a number or a boolean they become one.
A process of an agent-tier run may use `tools`, `call`, `run`, `mcp` and `prompt` alone: it is held to the tools that its
job requires, and each call is a step.
FILE may be `-` for standard input. SKEP_API names the supervisor's socket (/skep/api.sock).
Exit codes: 0, 1 (it failed; the reason is on standard error), 2 (wrong usage).
";

/// Why a command ends.
enum Failure {
    Usage(String),
    Failed(String),
    /// With an answer all the same, for standard output.
    Answered(Vec<u8>, String),
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Self::Failed(e.to_string())
    }
}

type Answer = Result<Vec<u8>, Failure>;

/// Runs the command when this program was called `skep`.
pub fn asked() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let name = args.next()?;
    if Path::new(&name).file_name()? != "skep" {
        return None;
    }
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    Some(match command(&words) {
        Ok(answer) => ExitCode::from(u8::from(!print(answer))),
        Err(Failure::Answered(answer, why)) => {
            print(answer);
            eprintln!("skep: {why}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(why)) => {
            eprintln!("skep: {why}\n`skep --help` tells more");
            ExitCode::from(2)
        }
        Err(Failure::Failed(why)) => {
            eprintln!("skep: {why}");
            ExitCode::from(1)
        }
    })
}

/// On standard output; false: nobody reads it.
fn print(mut answer: Vec<u8>) -> bool {
    if !answer.is_empty() && !answer.ends_with(b"\n") {
        answer.push(b'\n');
    }
    io::stdout().write_all(&answer).is_ok()
}

fn command(words: &[&str]) -> Answer {
    match words {
        [] | ["help" | "--help" | "-h"] => Ok(HELP.into()),
        ["skills", rest @ ..] => document("list_skills", None, rest),
        ["skill", name, "--content"] | ["skill", "--content", name] => {
            let answer = document("read_skill", Some(name), &[])?;
            let text = json::text_of(&String::from_utf8_lossy(&answer), "content");
            text.map(String::into_bytes).ok_or_else(|| Failure::Failed("the answer has no content".into()))
        }
        ["skill", name, rest @ ..] => document("read_skill", Some(name), rest),
        ["document", verb, name, rest @ ..] if !name.starts_with("--") => {
            let tool = match *verb {
                "create" => "create_skill",
                "update" => "update_skill",
                "delete" => "delete_skill",
                "enable" => "enable_skill",
                "disable" => "disable_skill",
                other => return Err(Failure::Usage(format!("there is no `skep document {other}`"))),
            };
            document(tool, Some(name), rest)
        }
        ["register", folder] => {
            http::ask("POST", "/v1/skills", Body::Gzip(archive::pack(Path::new(folder))?))
        }
        ["prompt"] => fs::read(PROMPT).map_err(|e| Failure::Failed(format!("{PROMPT}: {e}"))),
        ["tools"] => call::tools(),
        ["call", tool, given @ ..] if !tool.is_empty() && !tool.starts_with('-') => call::call(tool, given),
        ["run", tool, rest @ ..] if rest.len() < 2 => {
            let args = match rest {
                [] => "{}".to_owned(),
                ["-"] => content("-")?,
                given => given.concat(),
            };
            let path = format!("/v1/runs/{}/tools/{}", run()?, http::escape(tool));
            http::ask("POST", &path, Body::Json(args))
        }
        // What a job's run of a tool that is no script does; not for people.
        ["act"] => {
            let path = format!("/v1/runs/{}/act", run()?);
            http::wait_for_door();
            http::ask("POST", &path, Body::None)
        }
        ["mcp"] => mcp::serve(),
        ["job", "list"] => http::ask("GET", "/v1/jobs?limit=1000", Body::None),
        [word, ..] => Err(Failure::Usage(format!("`skep {}` is not how {word} is used", words.join(" ")))),
    }
}

/// Calls a document tool: `--key value` becomes its parameter.
fn document(tool: &str, name: Option<&&str>, options: &[&str]) -> Answer {
    let mut args = Object::default();
    if let Some(name) = name {
        args.text("name", name);
    }
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let Some(key) = option.strip_prefix("--") else {
            return Err(Failure::Usage(format!("{option:?} is not expected here")));
        };
        let key = key.replace('-', "_");
        if matches!(key.as_str(), "replace_all" | "include_disabled") {
            args.yes(&key);
            continue;
        }
        let value = rest.next().ok_or_else(|| Failure::Usage(format!("{option} needs a value")))?;
        match key.as_str() {
            "tags" => args.list("tags", value.split(',').filter(|tag| !tag.is_empty())),
            "file" => args.text("content", &content(value)?),
            _ => args.text(&key, value),
        }
    }
    http::ask("POST", &format!("/v1/document-tools/{tool}"), Body::Json(args.end()))
}

/// The text of a file, or of standard input.
fn content(file: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = match file {
        "-" => io::stdin().read_to_end(&mut bytes),
        file => fs::File::open(file).and_then(|mut f| f.read_to_end(&mut bytes)),
    };
    read.map_err(|e| Failure::Failed(format!("{file}: {e}")))?;
    String::from_utf8(bytes).map_err(|_| Failure::Failed(format!("{file} is not UTF-8")))
}

fn run() -> Result<String, Failure> {
    std::env::var("SKEP_RUN_ID")
        .map_err(|_| Failure::Failed("SKEP_RUN_ID is not set: only a run of a job has tools to call".into()))
}

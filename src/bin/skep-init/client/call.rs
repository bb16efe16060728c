//! `skep tools` and `skep call`: what the agent can call, and one call of it. In an agent-tier run these are the tools
//! that its job requires, and calls are its steps; everywhere else they are the agent's, through its own door.

use std::env;

use super::{
    Answer, Failure,
    http::{self, Body},
    json::{self, Object},
    mcp,
};

/// Where tools are listed and called.
enum Place {
    Run(String),
    Agent,
}

impl Place {
    fn here() -> Result<Self, Failure> {
        let Some(run) = mcp::run() else { return Ok(Self::Agent) };
        let run = http::escape(&run);
        let answer = http::ask("GET", &format!("/v1/runs/{run}"), Body::None)?;
        let tier = json::string_of(&String::from_utf8_lossy(&answer), "tier");
        Ok(if tier.as_deref() == Some("agent") { Self::Run(run) } else { Self::Agent })
    }
}

/// Lists the tools.
pub fn tools() -> Answer {
    let path = match Place::here()? {
        Place::Run(run) => format!("/v1/runs/{run}/tools?limit=1000"),
        Place::Agent => "/v1/tools?limit=1000".to_owned(),
    };
    http::ask("GET", &path, Body::None)
}

/// Calls a tool. Whether it succeeded is in the answer; a failure is told beside it.
pub fn call(tool: &str, given: &[&str]) -> Answer {
    let args = arguments(given)?;
    let tool_part = http::escape(tool);
    let path = match Place::here()? {
        Place::Run(run) => format!("/v1/runs/{run}/tools/{tool_part}"),
        Place::Agent => format!("/v1/agents/{}/tools/{tool_part}", http::escape(&agent()?)),
    };
    let answer = http::ask("POST", &path, Body::Json(args))?;
    let text = String::from_utf8_lossy(&answer);
    if json::raw_of(&text, "success") != Some("false") {
        return Ok(answer);
    }
    let why = json::string_of(&text, "error").unwrap_or_else(|| "it does not say why".to_owned());
    let why = format!("{tool} failed: {why}");
    Err(Failure::Answered(answer, why))
}

/// `--arg KEY=VALUE` as often as wanted, or one JSON object, or `-`: standard input has it.
fn arguments(given: &[&str]) -> Result<String, Failure> {
    match given {
        ["-"] => return super::content("-"),
        [json] if !json.starts_with('-') => return Ok((*json).to_owned()),
        _ => {}
    }
    let mut args = Object::default();
    let mut rest = given.iter();
    while let Some(word) = rest.next() {
        let pair = match word.strip_prefix("--arg") {
            Some("") => rest.next().copied(),
            Some(pair) => pair.strip_prefix('='),
            None => None,
        };
        let Some((key, value)) =
            pair.and_then(|pair| pair.split_once('=')).filter(|(key, _)| !key.is_empty())
        else {
            let wanted = "arguments are one JSON object, `-`, or `--arg KEY=VALUE` for each";
            return Err(Failure::Usage(format!("{word:?} is not expected here: {wanted}")));
        };
        args.text(key, value);
    }
    Ok(args.end())
}

/// Whose container this is; some programs start others without its environment.
fn agent() -> Result<String, Failure> {
    if let Ok(agent) = env::var("SKEP_AGENT") {
        return Ok(agent);
    }
    let answer = http::ask("GET", "/api/v1/whoami", Body::None)?;
    let text = String::from_utf8_lossy(&answer);
    json::raw_of(&text, "user").and_then(|user| json::string_of(user, "handle")).ok_or_else(|| {
        Failure::Failed("SKEP_AGENT is not set, and the supervisor does not say whose this is".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[&str]) -> Result<String, String> {
        arguments(given).map_err(|failure| match failure {
            Failure::Usage(why) | Failure::Failed(why) | Failure::Answered(_, why) => why,
        })
    }

    #[test]
    fn arguments_are_pairs_or_json() {
        assert_eq!(read(&[]).as_deref(), Ok("{}"));
        assert_eq!(read(&["{\"a\": 1}"]).as_deref(), Ok("{\"a\": 1}"));
        assert_eq!(read(&["--arg", "a=b=c", "--arg=d="]).as_deref(), Ok("{\"a\":\"b=c\",\"d\":\"\"}"));
        for bad in
            [&["--arg"][..], &["--arg", "a"], &["--arg", "=b"], &["{}", "x"], &["--all"], &["--argh=a=b"]]
        {
            assert!(read(bad).unwrap_err().contains("`--arg KEY=VALUE`"), "{bad:?}");
        }
    }
}

//! One request over the agent's socket. HTTP/1.0, so that the answer ends with the connection.

use std::{
    fmt::Write as _,
    io::{Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use super::{Failure, json};

const SOCKET: &str = "/skep/api.sock";
/// A tool may take as long as its run; the supervisor ends it.
const SILENCE: Duration = Duration::from_secs(3600);

/// How long a supervisor may be away, and how often it is looked for.
const AWAY: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// What is sent.
pub enum Body {
    None,
    Json(String),
    Gzip(Vec<u8>),
}

fn socket() -> String {
    std::env::var("SKEP_API").unwrap_or_else(|_| SOCKET.to_owned())
}

/// A connection to the agent's door.
pub fn connect() -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect(socket())?;
    stream.set_read_timeout(Some(SILENCE))?;
    Ok(stream)
}

/// A supervisor that is being replaced opens its door again within moments; nothing was asked of it yet.
pub fn wait_for_door() {
    let began = Instant::now();
    while connect().is_err() && began.elapsed() < AWAY {
        thread::sleep(PAUSE);
    }
}

/// What is told when the door does not answer.
pub fn silent(e: &std::io::Error) -> String {
    format!("the supervisor does not answer at {}: {e}", socket())
}

/// Asks; answers the body of a success.
pub fn ask(method: &str, path: &str, body: Body) -> Result<Vec<u8>, Failure> {
    let failed = |e: std::io::Error| Failure::Failed(silent(&e));
    let mut stream = connect().map_err(failed)?;
    let (kind, bytes) = match body {
        Body::None => ("", Vec::new()),
        Body::Json(text) => ("Content-Type: application/json\r\n", text.into_bytes()),
        Body::Gzip(bytes) => ("Content-Type: application/gzip\r\n", bytes),
    };
    let head =
        format!("{method} {path} HTTP/1.0\r\nHost: skep\r\n{kind}Content-Length: {}\r\n\r\n", bytes.len());
    // A refusal may come before everything was sent; then it is read all the same.
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bytes));
    let mut answer = Vec::new();
    let received = stream.read_to_end(&mut answer);
    let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n") else {
        let e = sent.and(received.map(|_| ())).err();
        return Err(failed(e.unwrap_or_else(|| std::io::ErrorKind::UnexpectedEof.into())));
    };
    let body = answer.split_off(end + 4);
    let head = String::from_utf8_lossy(&answer);
    let status = head.split(' ').nth(1).unwrap_or("").to_owned();
    if status.starts_with('2') {
        return received.map(|_| body).map_err(failed);
    }
    let text = String::from_utf8_lossy(&body);
    Err(Failure::Failed(format!("{} ({status})", refusal(&text))))
}

/// Why a request was refused, with each fault and its place.
fn refusal(problem: &str) -> String {
    let mut told = json::text_of(problem, "detail").unwrap_or_else(|| problem.trim().to_owned());
    let mut before = ": ";
    for fault in json::items_of(json::raw_of(problem, "errors").unwrap_or_default()) {
        let [place, why] = ["pointer", "detail"].map(|key| json::string_of(fault, key).unwrap_or_default());
        let said = if place.is_empty() { why } else { format!("{place}: {why}") };
        write!(told, "{before}{said}").unwrap_or_default();
        before = "; ";
    }
    told
}

/// One part of a path.
pub fn escape(part: &str) -> String {
    part.bytes().fold(String::new(), |mut out, b| {
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(b));
        } else {
            write!(out, "%{b:02X}").unwrap_or_default();
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_with_its_faults() {
        let problem = r#"{"title":"no","detail":"the arguments are wrong","errors":[{"pointer":"/a","detail":"is missing"},{"pointer":"","detail":"too many"}]}"#;
        assert_eq!(refusal(problem), "the arguments are wrong: /a: is missing; too many");
        assert_eq!(refusal(r#"{"detail":"there is none"}"#), "there is none");
        assert_eq!(refusal(" Not a problem\n"), "Not a problem");
    }
}

//! A client that says exactly what it is told, so that tests can be as rude as a real one.

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

use super::setup::{Open, TOKEN};

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

pub async fn send(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> Answer {
    // The server may answer and close before it took everything.
    drop(stream.write_all(request).await);
    let mut bytes = Vec::new();
    drop(stream.read_to_end(&mut bytes).await);
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(&bytes)));
    let (head, body) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 4..]);
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|l| l.split_once(": ").unwrap())
        .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()))
        .collect();
    let mut answer = Answer { status, headers, body: String::new(), bytes: body.to_owned() };
    if answer.header("transfer-encoding") == "chunked" {
        answer.bytes = unchunk(body);
    }
    answer.body = String::from_utf8_lossy(&answer.bytes).into_owned();
    answer
}

fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(line) = body.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..line]).unwrap(), 16).unwrap();
        out.extend_from_slice(&body[line + 2..line + 2 + size]);
        body = &body[line + 2 + size + 2..];
        if size == 0 {
            break;
        }
    }
    out
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut out = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || matches!(method, "POST" | "PUT") {
        out.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    out.push_str("\r\n");
    out.push_str(body);
    out.into_bytes()
}

impl Open {
    /// On the operator's socket; JSON when there is a body.
    pub async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        let kind = if body.is_empty() { None } else { Some(("Content-Type", "application/json")) };
        self.call_with(method, path, kind.as_slice(), body).await
    }

    pub async fn call_with(&self, method: &str, path: &str, more: &[(&str, &str)], body: &str) -> Answer {
        let headers = [&[("Host", "skep")], more].concat();
        let stream = UnixStream::connect(self.operator()).await.unwrap();
        send(stream, &request(method, path, &headers, body)).await
    }

    pub async fn call_as_agent(&self, method: &str, path: &str, body: &str) -> Answer {
        let headers = [("Host", "skep"), ("Content-Type", "application/json")];
        let stream = UnixStream::connect(self.agent()).await.unwrap();
        send(stream, &request(method, path, &headers, body)).await
    }

    /// An archive, from the operator or (`as_agent`) from `writer`.
    pub async fn upload(&self, path: &str, more: &[(&str, &str)], body: &[u8], as_agent: bool) -> Answer {
        let length = body.len().to_string();
        let own =
            [("Host", "skep"), ("Content-Type", "application/gzip"), ("Content-Length", length.as_str())];
        let mut bytes = request("PATCH", path, &[&own, more].concat(), "");
        bytes.splice(..5, *b"POST");
        bytes.extend_from_slice(body);
        let door = if as_agent { self.agent() } else { self.operator() };
        send(UnixStream::connect(door).await.unwrap(), &bytes).await
    }

    /// On TCP with exactly these headers.
    pub async fn call_tcp(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        send(stream, &request(method, path, headers, "")).await
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

pub fn bearer() -> String {
    format!("Bearer {TOKEN}")
}

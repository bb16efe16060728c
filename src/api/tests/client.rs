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
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|l| l.split_once(": ").unwrap())
        .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()))
        .collect();
    let mut answer = Answer { status, headers, body: body.to_owned() };
    if answer.header("transfer-encoding") == "chunked" {
        answer.body = unchunk(body);
    }
    answer
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        out.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
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

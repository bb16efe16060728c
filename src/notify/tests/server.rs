//! A small HTTP server that answers as it is told and keeps what it was asked.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What is answered.
#[derive(Clone)]
pub enum Answer {
    Status(u16),
    With(u16, &'static [(&'static str, &'static str)], String),
    /// Nothing, ever.
    Hang,
    /// That it is taken, after a while.
    Slow(Duration),
    /// This status, and a body without an end.
    Endless(u16),
    /// The connection is closed.
    Close,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub line: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Asked {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

pub struct Server {
    pub address: SocketAddr,
    asked: watch::Receiver<Vec<Asked>>,
    sent: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Gives these answers in turn, the last one again and again.
    pub async fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, asked) = watch::channel(Vec::new());
        let tell = Arc::new(tell);
        let sent = Arc::new(Mutex::new(0));
        let (answers, counted) = (answers.to_vec(), sent.clone());
        let task = tokio::spawn(async move {
            let mut count = 0;
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = answers[count.min(answers.len() - 1)].clone();
                count += 1;
                tokio::spawn(serve(stream, answer, tell.clone(), counted.clone()));
            }
        });
        Self { address, asked, sent, task }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    /// Waits for so many requests.
    pub async fn wait_for(&self, count: usize) -> Vec<Asked> {
        let mut asked = self.asked.clone();
        let waited =
            tokio::time::timeout(super::setup::PATIENCE, asked.wait_for(|all| all.len() >= count)).await;
        waited.unwrap_or_else(|_| panic!("{count} requests, not {}", self.asked().len())).unwrap().clone()
    }

    /// Bytes of endless bodies that were taken from it.
    pub fn sent(&self) -> usize {
        *self.sent.lock().unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: Answer,
    tell: Arc<watch::Sender<Vec<Asked>>>,
    sent: Arc<Mutex<usize>>,
) {
    let Some(asked) = read(&mut stream).await else { return };
    tell.send_modify(|all| all.push(asked));
    match answer {
        Answer::Status(status) => reply(&mut stream, status, &[], "").await,
        Answer::With(status, headers, body) => reply(&mut stream, status, headers, &body).await,
        Answer::Slow(pause) => {
            tokio::time::sleep(pause).await;
            reply(&mut stream, 200, &[], "").await;
        }
        Answer::Hang => std::future::pending().await,
        Answer::Close => {}
        Answer::Endless(status) => {
            let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: 1000000000000\r\n\r\n");
            let mut chunk = head.into_bytes();
            while stream.write_all(&chunk).await.is_ok() {
                *sent.lock().unwrap() += chunk.len();
                chunk = vec![b'x'; 16 * 1024];
            }
        }
    }
}

async fn reply(stream: &mut TcpStream, status: u16, headers: &[(&str, &str)], body: &str) {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let text = format!(
        "HTTP/1.1 {status} Status\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    drop(stream.write_all(text.as_bytes()).await);
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let headers: BTreeMap<String, String> =
            lines.filter_map(|l| l.split_once(": ").map(|(n, v)| (n.to_lowercase(), v.to_owned()))).collect();
        let length: usize = headers.get("content-length").map_or(0, |l| l.parse().unwrap());
        let body = &bytes[end + 4..];
        if body.len() >= length {
            let body = String::from_utf8(body.to_vec()).unwrap();
            return Some(Asked { line, headers, body });
        }
    }
}

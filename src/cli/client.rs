//! Talks HTTP to the supervisor, over the hive's socket or over TCP, like any other client.

use std::{
    os::fd::IntoRawFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use reqwest::{Method, Response, StatusCode, Url, header};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{client::IntoClientRequest, http},
};

use super::{failure::Failure, hive, ui::Ui};
use crate::paths::HivePaths;

/// For an answer that is no stream.
const PATIENCE: Duration = Duration::from_secs(60);
/// For a connection.
const DIAL: Duration = Duration::from_secs(5);
/// Items of a page that the API gives at most.
const LARGEST_PAGE: usize = 1000;
const JSON: &str = "application/json";

/// Where the supervisor answers.
#[derive(Debug, Clone)]
enum Place {
    Socket { path: PathBuf, hive: HivePaths },
    Tcp { host: String, token: Option<String> },
}

/// A client; dials with every request.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    place: Place,
    ui: Option<Ui>,
}

/// `application/problem+json`.
#[derive(Debug, Deserialize)]
struct Problem {
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    errors: Vec<ProblemError>,
}

#[derive(Debug, Deserialize)]
struct ProblemError {
    #[serde(default)]
    pointer: String,
    #[serde(default)]
    detail: String,
}

#[derive(Debug, Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
}

/// A stream that a WebSocket runs over.
pub trait Wire: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Wire for T {}

/// Socket paths have 107 bytes at most: a longer one is reached through its folder's descriptor, which stays
/// open as long as the process.
fn short(path: &Path) -> PathBuf {
    const LONGEST: usize = 100;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    if path.as_os_str().len() <= LONGEST {
        return path.to_owned();
    }
    match std::fs::File::open(folder) {
        Ok(folder) => Path::new("/proc/self/fd").join(folder.into_raw_fd().to_string()).join(name),
        Err(_) => path.to_owned(),
    }
}

/// A WebSocket to the supervisor.
pub type Socket = WebSocketStream<Box<dyn Wire>>;

impl Client {
    /// Over the hive's own socket.
    ///
    /// # Errors
    /// The client cannot be made.
    pub fn unix(hive: &HivePaths) -> Result<Self, Failure> {
        let path = short(&hive.socket());
        crate::tls::install();
        let http = reqwest::Client::builder()
            .unix_socket(path.clone())
            .tls_certs_only([])
            .connect_timeout(DIAL)
            .build()?;
        let base = Url::parse("http://localhost/").map_err(|e| Failure::new(e.to_string()))?;
        Ok(Self { http, base, place: Place::Socket { path, hive: hive.clone() }, ui: None })
    }

    /// Over TCP, with a token when there is one.
    ///
    /// # Errors
    /// The address is not one.
    pub fn tcp(host: &str, token: Option<String>) -> Result<Self, Failure> {
        let text = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
        let base =
            Url::parse(&text).ok().filter(|u| u.scheme() == "http" && u.has_host()).ok_or_else(|| {
                Failure::usage(format!("{host:?} is no address of a supervisor"))
                    .help("write it like http://127.0.0.1:7117")
            })?;
        crate::tls::install();
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).connect_timeout(DIAL).build()?;
        let host = base.as_str().trim_end_matches('/').to_owned();
        Ok(Self { http, base, place: Place::Tcp { host, token }, ui: None })
    }

    /// Tells of each request when more than usual is to be told.
    #[must_use]
    pub fn telling(self, ui: Ui) -> Self {
        Self { ui: Some(ui).filter(|ui| ui.verbose > 0), ..self }
    }

    /// `GET`, as JSON.
    ///
    /// # Errors
    /// Nobody answers, or the answer is a refusal.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T, Failure> {
        let request = self.request(Method::GET, path)?.query(query).timeout(PATIENCE);
        // What can also be a stream is wanted as JSON.
        let response = self.send(request.header(header::ACCEPT, JSON)).await?;
        response.json().await.map_err(|e| self.broken(&e))
    }

    /// Every item of a list, page by page.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, Failure> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut query = query.to_vec();
            query.extend(cursor.as_deref().map(|c| ("cursor", c)));
            let page: Page<T> = self.get(path, &query).await?;
            items.extend(page.items);
            if page.next.is_none() || page.next == cursor {
                return Ok(items);
            }
            cursor = page.next;
        }
    }

    /// The first items of a list, at most `most`, and whether there are more.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn first<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        most: usize,
    ) -> Result<(Vec<T>, bool), Failure> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < most {
            let limit = (most - items.len()).min(LARGEST_PAGE).to_string();
            let mut query = query.to_vec();
            query.push(("limit", &limit));
            query.extend(cursor.as_deref().map(|c| ("cursor", c)));
            let page: Page<T> = self.get(path, &query).await?;
            items.extend(page.items);
            if page.next.is_none() || page.next == cursor {
                return Ok((items, false));
            }
            cursor = page.next;
        }
        Ok((items, true))
    }

    /// A request with a JSON body (or none); answers the response.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn call<B: Serialize + ?Sized>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<Response, Failure> {
        self.call_within(method, path, body, PATIENCE).await
    }

    async fn call_within<B: Serialize + ?Sized>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
        within: Duration,
    ) -> Result<Response, Failure> {
        let mut request = self.request(method, path)?.timeout(within);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.send(request).await
    }

    /// `POST` without a body, when the answer's body does not matter.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn post(&self, path: &str) -> Result<(), Failure> {
        self.call::<()>(Method::POST, path, None).await.map(drop)
    }

    /// `POST` of JSON for JSON.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn exchange<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, Failure> {
        let response = self.call(Method::POST, path, Some(body)).await?;
        response.json().await.map_err(|e| self.broken(&e))
    }

    /// As [`Client::exchange`], for what takes as long as something else does.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn exchange_within<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        within: Duration,
    ) -> Result<T, Failure> {
        let response = self.call_within(Method::POST, path, Some(body), within).await?;
        response.json().await.map_err(|e| self.broken(&e))
    }

    /// `POST` of bytes for JSON.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        kind: &str,
        body: Vec<u8>,
    ) -> Result<T, Failure> {
        let request = self.request(Method::POST, path)?.query(query).timeout(PATIENCE);
        let response = self.send(request.header(header::CONTENT_TYPE, kind).body(body)).await?;
        response.json().await.map_err(|e| self.broken(&e))
    }

    /// `GET`, without a limit on its time: the body is read as it comes.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn stream(&self, path: &str, query: &[(&str, &str)]) -> Result<Response, Failure> {
        self.send(self.request(Method::GET, path)?.query(query)).await
    }

    /// `GET` of server-sent events, those after the one with this id.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn events(&self, path: &str, query: &[(&str, &str)], last: i64) -> Result<Response, Failure> {
        let mut request = self.request(Method::GET, path)?.query(query);
        request =
            request.header(header::ACCEPT, "text/event-stream").header("Last-Event-ID", last.to_string());
        self.send(request).await
    }

    /// Whether the supervisor says that it is ready.
    pub async fn is_ready(&self) -> bool {
        let Ok(request) = self.request(Method::GET, "/readyz") else { return false };
        request.timeout(DIAL).send().await.is_ok_and(|r| r.status().is_success())
    }

    /// A WebSocket at `path`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn socket(&self, path: &str) -> Result<Socket, Failure> {
        let (wire, url): (Box<dyn Wire>, String) = match &self.place {
            Place::Socket { path: socket, .. } => {
                let stream = UnixStream::connect(socket).await.map_err(|e| self.nobody(&e))?;
                (Box::new(stream), format!("ws://localhost{path}"))
            }
            Place::Tcp { .. } => {
                let host = self.base.host_str().unwrap_or_default().trim_matches(['[', ']']);
                let port = self.base.port_or_known_default().unwrap_or(80);
                let stream = tokio::time::timeout(DIAL, TcpStream::connect((host, port)))
                    .await
                    .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
                    .map_err(|e| self.nobody(&e))?;
                stream.set_nodelay(true)?;
                let mut url = self.base.join(path).map_err(|e| Failure::new(e.to_string()))?;
                url.set_scheme("ws").map_err(|()| Failure::new("no WebSocket address"))?;
                (Box::new(stream), url.to_string())
            }
        };
        let mut request = url.into_client_request().map_err(|e| Failure::new(e.to_string()))?;
        if let Place::Tcp { token: Some(token), .. } = &self.place {
            let value = http::HeaderValue::from_str(&format!("Bearer {token}"))?;
            request.headers_mut().insert(http::header::AUTHORIZATION, value);
        }
        match tokio::time::timeout(PATIENCE, client_async(request, wire)).await {
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(tokio_tungstenite::tungstenite::Error::Http(response))) => {
                let status = response.status().as_u16();
                let body = response.body().clone().unwrap_or_default();
                Err(self.refused(StatusCode::from_u16(status).unwrap_or_default(), &body))
            }
            Ok(Err(e)) => Err(self.broken(&e)),
            Err(_) => Err(Failure::new("the supervisor does not answer")),
        }
    }

    fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, Failure> {
        let url = self.base.join(path).map_err(|e| Failure::new(e.to_string()))?;
        let request = self.http.request(method, url);
        Ok(match &self.place {
            Place::Tcp { token: Some(token), .. } => request.bearer_auth(token),
            _ => request,
        })
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Response, Failure> {
        let started = Instant::now();
        let request = request.build()?;
        let what = format!("{} {}", request.method(), request.url().path());
        let within = request.timeout().copied().unwrap_or(PATIENCE);
        let sent = self.http.execute(request).await;
        if let (Some(ui), Ok(response)) = (&self.ui, &sent) {
            ui.err(&format!("{what}: {} after {:?}", response.status(), started.elapsed()));
        }
        let response = sent.map_err(|e| {
            if e.is_connect() {
                self.nobody(&e)
            } else if e.is_timeout() {
                Failure::new(format!("the supervisor did not answer within {} s", within.as_secs()))
                    .help("look at .skep/logs/skep.log")
            } else {
                self.broken(&e)
            }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.unwrap_or_default();
        Err(self.refused(status, &body))
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        let failure = Failure { status: Some(status.as_u16()), ..refusal(status, body) };
        match (&self.place, status) {
            (Place::Tcp { .. }, StatusCode::UNAUTHORIZED) => failure
                .help("set SKEP_TOKEN to the content of .skep/token of the hive, or run inside its folder"),
            _ => failure,
        }
    }

    /// Nobody answers at all.
    fn nobody(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        match &self.place {
            Place::Tcp { host, .. } => {
                Failure::new(format!("no supervisor answers at {host}: {}", innermost(error)))
                    .help("check --host or SKEP_HOST, and `listen` in [api] of its skep.toml")
            }
            Place::Socket { hive, path } => {
                let name = hive::name(hive);
                let dir = hive.root.display();
                if is_denied(error) {
                    return Failure::new(format!("may not use {}", path.display()))
                        .help("run skep as the user that started the supervisor");
                }
                match hive::supervisor(hive) {
                    Ok(Some(holder)) => Failure::new(format!(
                        "the supervisor of the hive {name} (process {}) does not answer on {}",
                        holder.pid,
                        path.display()
                    ))
                    .help("it may be starting still: try again, or look at .skep/logs/skep.log"),
                    _ => Failure::new(format!("no supervisor runs for the hive {name} in {dir}"))
                        .help("start it with `skep up -d`"),
                }
            }
        }
    }

    /// The answer broke off or makes no sense.
    pub(super) fn broken(&self, error: &dyn std::error::Error) -> Failure {
        Failure::new(format!("the supervisor's answer broke off: {}", innermost(error)))
            .help("is it still running? `skep ps` tells; its log is .skep/logs/skep.log")
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return io.kind() == std::io::ErrorKind::PermissionDenied;
        }
        next = error.source();
    }
    false
}

/// Words for a refusal of the API.
fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
        return Failure::new(format!("the supervisor answered {status}"));
    };
    let mut failure = Failure::new(problem.detail.filter(|d| !d.is_empty()).unwrap_or(problem.title));
    for e in problem.errors {
        // What was just said is not said again.
        if failure.message.contains(&e.detail) {
            continue;
        }
        let line = if e.pointer.is_empty() { e.detail } else { format!("{}: {}", e.pointer, e.detail) };
        failure.details.push(line);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_with_every_reason() {
        let body = br#"{"type":"about:blank","title":"Not found","status":404,"detail":"no agent x",
            "errors":[{"pointer":"/a","detail":"bad"},{"pointer":"","detail":"worse"}]}"#;
        let failure = refusal(StatusCode::NOT_FOUND, body);
        assert_eq!(failure.message, "no agent x");
        assert_eq!(failure.details, ["/a: bad", "worse"]);
        assert_eq!(
            refusal(StatusCode::BAD_GATEWAY, b"<html>").message,
            "the supervisor answered 502 Bad Gateway"
        );
    }

    #[test]
    fn an_address_is_checked_before_it_is_dialled() {
        assert!(Client::tcp("https://x", None).is_err());
        assert!(Client::tcp("127.0.0.1:7117", None).is_ok());
    }
}

//! `skep mcp`: an MCP server on standard input and output that hands each message on to the supervisor, over HTTP. In a
//! run it is the run's own endpoint (its required tools, its steps), else the agent's.
//!
//! Understands no more of a message than its id and method. A thread waits for each request, so that a slow call holds
//! up nothing; what the client cancels is ended by closing its connection. A session that the supervisor does not know
//! any more (it was restarted) is begun anew, as the client began its own, and the client need not know.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use super::{Answer, Failure, http, json};

/// Bytes of one message; the supervisor takes no more.
const MAX_LINE: u64 = 1 << 20;
/// Requests at a time; the agent's door has room for more, but not for this client alone.
const AT_ONCE: usize = 12;
/// For requests under way when the client closes its end.
const LINGER: Duration = Duration::from_secs(5);
const STACK: usize = 128 << 10;
/// Before the next attempt to listen: after it broke off, and while the supervisor is away.
const BROKEN_OFF: Duration = Duration::from_millis(200);
const AWAY: Duration = Duration::from_secs(1);

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// Names the supervisor that answers: another one has other sessions.
const SUPERVISOR: &str = "skep-supervisor";

/// JSON-RPC error codes.
const NOT_JSON: i32 = -32700;
const FAILED: i32 = -32603;

struct Bridge {
    path: String,
    session: Mutex<Option<String>>,
    /// What the client began its session with.
    hello: Mutex<Option<String>>,
    renewing: Mutex<()>,
    version: Mutex<Option<String>>,
    out: Mutex<io::Stdout>,
    /// Connections of requests that wait for an answer, by id as written; none: it was cancelled before.
    under_way: Mutex<HashMap<String, Option<UnixStream>>>,
    requests: Mutex<Requests>,
    fewer: Condvar,
}

/// Requests that end by themselves.
#[derive(Default)]
struct Requests {
    asked: usize,
    unanswered: usize,
}

/// What is known of a message.
struct Message {
    line: String,
    /// As it is written; none: nobody waits for an answer.
    id: Option<String>,
    method: String,
}

/// Serves until the client closes its end.
pub fn serve() -> Answer {
    let path = match run() {
        Some(run) => format!("/v1/runs/{}/mcp", http::escape(&run)),
        None => "/mcp".to_owned(),
    };
    let bridge = Arc::new(Bridge {
        path,
        session: Mutex::default(),
        hello: Mutex::default(),
        renewing: Mutex::default(),
        version: Mutex::default(),
        out: Mutex::new(io::stdout()),
        under_way: Mutex::default(),
        requests: Mutex::default(),
        fewer: Condvar::new(),
    });
    let mut input = io::stdin().lock();
    while let Some(line) = line(&mut input)? {
        bridge.take(line);
    }
    bridge.finish();
    Ok(Vec::new())
}

/// The run that this is part of. Some agent programs start their MCP servers with a bare environment: then it stands in
/// that of a process above.
pub fn run() -> Option<String> {
    const NAME: &str = "SKEP_RUN_ID";
    let mut process = "self".to_owned();
    std::env::var(NAME).ok().or_else(|| {
        loop {
            let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            process = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().to_owned();
            let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
            let mut names =
                environment.split(|b| *b == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
            let found = names.find_map(|entry| entry.strip_prefix(NAME)?.strip_prefix('='));
            if let Some(run) = found {
                return Some(run.to_owned());
            }
        }
    })
}

/// The next line; none at the end. Of one that is too long only the beginning, which is no JSON.
fn line(input: &mut impl BufRead) -> Result<Option<String>, Failure> {
    let mut bytes = Vec::new();
    if input.take(MAX_LINE).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.len() as u64 == MAX_LINE && !bytes.ends_with(b"\n") {
        bytes.truncate(64);
        input.skip_until(b'\n')?;
    }
    Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned()))
}

impl Bridge {
    fn take(self: &Arc<Self>, line: String) {
        if line.is_empty() {
            return;
        }
        if !line.ends_with('}') || json::raw_of(&line, "jsonrpc").is_none() {
            return self.fail("null", NOT_JSON, "this line is no JSON-RPC message of at most 1 MiB");
        }
        let method = json::string_of(&line, "method").unwrap_or_default();
        let id = json::raw_of(&line, "id").filter(|_| !method.is_empty()).map(str::to_owned);
        if method == "notifications/cancelled" {
            let cancelled = json::raw_of(&line, "params").and_then(|p| json::raw_of(p, "requestId"));
            self.cancel(cancelled.unwrap_or_default());
        }
        let message = Message { line, id, method };
        let Some(id) = message.id.clone() else {
            // In its turn: what follows `initialized` must not overtake it.
            return self.ask(&message);
        };
        lock(&self.under_way).insert(id.clone(), None);
        // Streams go on until the client ends them; they take no room from calls.
        let counted = message.method != "subscriptions/listen";
        let bridge = self.clone();
        lock(&self.requests).unanswered += usize::from(counted);
        let waits = thread::Builder::new().stack_size(STACK).spawn(move || {
            if counted {
                let requests = lock(&bridge.requests);
                let requests = bridge.fewer.wait_while(requests, |r| r.asked >= AT_ONCE);
                requests.unwrap_or_else(PoisonError::into_inner).asked += 1;
            }
            bridge.ask(&message);
            if let Some(id) = &message.id {
                lock(&bridge.under_way).remove(id);
            }
            if counted {
                let mut requests = lock(&bridge.requests);
                (requests.asked, requests.unanswered) = (requests.asked - 1, requests.unanswered - 1);
                bridge.fewer.notify_all();
            }
        });
        if let Err(e) = waits {
            lock(&self.under_way).remove(&id);
            lock(&self.requests).unanswered -= usize::from(counted);
            self.fail(&id, FAILED, &format!("no thread for this request: {e}"));
        }
    }

    /// Nobody waits for this answer any more.
    fn cancel(&self, id: &str) {
        if let Some(Some(stream)) = lock(&self.under_way).remove(id) {
            stream.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }

    /// Asks the supervisor, and tells the client what it answers.
    fn ask(self: &Arc<Self>, message: &Message) {
        let told = self.exchange(message);
        let (Some(id), Err(why)) = (&message.id, told) else { return };
        if lock(&self.under_way).contains_key(id) {
            self.fail(id, FAILED, &why);
        }
    }

    fn exchange(self: &Arc<Self>, message: &Message) -> Result<(), String> {
        let silent = |e: io::Error| http::silent(&e);
        let begins = message.method == "initialize";
        let used = lock(&self.session).clone().filter(|_| !begins);
        let Some(mut answer) = self.post(message, used.as_deref())? else { return Ok(()) };
        if let (Some(used), "404") = (&used, answer.status.as_str()) {
            let session = self.renew(used)?;
            answer = match self.post(message, Some(&session))? {
                Some(answer) => answer,
                None => return Ok(()),
            };
        }
        if let Some(session) = answer.header("mcp-session-id").filter(|_| begins) {
            *lock(&self.session) = Some(session.clone());
            *lock(&self.hello) = Some(message.line.clone());
            self.listen_later(session, answer.header(SUPERVISOR));
        }
        if answer.is_stream() {
            return answer.events(|data| self.tell(message, data)).map_err(silent);
        }
        let body = answer.body().map_err(silent)?;
        if answer.status.starts_with('2') || json::raw_of(&body, "jsonrpc").is_some() {
            if !body.trim().is_empty() {
                self.tell(message, &body);
            }
            return Ok(());
        }
        let detail = json::text_of(&body, "detail").unwrap_or_else(|| body.trim().to_owned());
        Err(format!("{detail} ({})", answer.status))
    }

    /// Sends a message; none when it was cancelled before.
    fn post(&self, message: &Message, session: Option<&str>) -> Result<Option<Received>, String> {
        let silent = |e: io::Error| http::silent(&e);
        let mut stream = http::connect().map_err(silent)?;
        if let Some(id) = &message.id {
            let clone = stream.try_clone().map_err(silent)?;
            match lock(&self.under_way).get_mut(id) {
                Some(place) => *place = Some(clone),
                None => return Ok(None),
            }
        }
        let mut head = self.head("POST", session);
        modern(&mut head, message);
        let length = message.line.len();
        write!(head, "Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n")
            .unwrap_or_default();
        // A refusal may come before everything was sent; then it is read all the same.
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(message.line.as_bytes()));
        Received::of(stream).map(Some).map_err(|e| silent(sent.err().unwrap_or(e)))
    }

    /// Begins another session in place of one that is gone, unless somebody did; which it is.
    fn renew(self: &Arc<Self>, gone: &str) -> Result<String, String> {
        let _one = lock(&self.renewing);
        if let Some(session) = lock(&self.session).clone().filter(|session| session != gone) {
            return Ok(session);
        }
        let say = |line: &str, method: &str, session: Option<&str>| {
            let message = Message { line: line.to_owned(), id: None, method: method.to_owned() };
            let answer = self.post(&message, session)?.ok_or("it was cancelled")?;
            if answer.status.starts_with('2') { Ok(answer) } else { Err(answer.status) }
        };
        let again = || {
            let hello = lock(&self.hello).clone().ok_or("nobody began it")?;
            let begun = say(&hello, "initialize", None)?;
            let session = begun.header("mcp-session-id").ok_or("it got no name")?;
            say(INITIALIZED, "notifications/initialized", Some(&session))?;
            Ok::<_, String>((session, begun.header(SUPERVISOR)))
        };
        let (session, by) = again().map_err(|why| {
            format!("the session is gone, and another cannot be begun ({why}): start this server again")
        })?;
        *lock(&self.session) = Some(session.clone());
        self.listen_later(session.clone(), by);
        // What was told meanwhile is lost.
        self.write(CHANGED);
        Ok(session)
    }

    /// Hands a message of the supervisor on, unless it answers what was cancelled.
    fn tell(&self, asked: &Message, data: &str) {
        let answers = json::raw_of(data, "method").is_none();
        if let (true, Some(id)) = (answers, &asked.id) {
            if !lock(&self.under_way).contains_key(id) {
                return;
            }
            let agreed = json::raw_of(data, "result").and_then(|r| json::string_of(r, "protocolVersion"));
            if let ("initialize", Some(version)) = (asked.method.as_str(), agreed) {
                *lock(&self.version) = Some(version);
            }
        }
        self.write(data);
    }

    /// One message, on one line: what breaks a line in JSON is blank.
    fn write(&self, data: &str) {
        let mut text = data.replace(['\n', '\r'], " ");
        text.push('\n');
        let mut out = lock(&self.out);
        // A client that is gone has closed its other end too, which ends everything.
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).unwrap_or_default();
    }

    fn fail(&self, id: &str, code: i32, why: &str) {
        let mut text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":");
        json::quote(&mut text, why);
        text.push_str("}}");
        self.write(&text);
    }

    fn head(&self, method: &str, session: Option<&str>) -> String {
        let mut head = format!(
            "{method} {} HTTP/1.0\r\nHost: skep\r\nAccept: application/json, text/event-stream\r\n",
            self.path
        );
        let version = lock(&self.version).clone();
        for (name, value) in [("Mcp-Session-Id", session), ("MCP-Protocol-Version", version.as_deref())] {
            if let Some(value) = value {
                write!(head, "{name}: {value}\r\n").unwrap_or_default();
            }
        }
        head
    }

    /// What the supervisor tells by itself in a session, changes of tools above all. Where that breaks off because the
    /// supervisor is restarted, it is waited for, and a new session begun; one that it ended itself is left to the next
    /// request, so that many idle bridges do not end each other's in turn.
    fn listen_later(self: &Arc<Self>, session: String, by: Option<String>) {
        let bridge = self.clone();
        let listens = move || {
            let mut was_away = false;
            while lock(&bridge.session).as_ref() == Some(&session) {
                match bridge.listen(&session) {
                    Ok((status, who)) if status == "404" && (was_away || who != by) => {
                        // When that fails, the next request tells why.
                        bridge.renew(&session).map(drop).unwrap_or_default();
                        return;
                    }
                    // There is nothing to listen to.
                    Ok((status, _)) if !status.starts_with('2') => return,
                    Ok(_) => thread::sleep(BROKEN_OFF),
                    Err(_) => {
                        was_away = true;
                        thread::sleep(AWAY);
                    }
                }
            }
        };
        // Without it the client misses news, no answers.
        drop(thread::Builder::new().stack_size(STACK).spawn(listens));
    }

    /// Hands on what is told in a session until that breaks off; the status of the answer, and which supervisor gave it.
    fn listen(&self, session: &str) -> io::Result<(String, Option<String>)> {
        let mut stream = http::connect()?;
        let head = format!("{}\r\n", self.head("GET", Some(session)));
        stream.write_all(head.as_bytes())?;
        let mut answer = Received::of(stream)?;
        let by = answer.header(SUPERVISOR);
        if answer.is_stream() {
            answer.events(|data| self.write(data)).unwrap_or_default();
        }
        Ok((answer.status, by))
    }

    /// Lets requests under way end, and then the session.
    fn finish(&self) {
        let requests = lock(&self.requests);
        drop(self.fewer.wait_timeout_while(requests, LINGER, |requests| requests.unanswered > 0));
        if let Some(session) = lock(&self.session).take()
            && let Ok(mut stream) = http::connect()
        {
            let head = format!("{}\r\n", self.head("DELETE", Some(&session)));
            if stream.write_all(head.as_bytes()).is_ok() {
                stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
            }
        }
    }
}

/// What requests of 2026-07-28 say in headers too.
fn modern(head: &mut String, message: &Message) {
    let params = json::raw_of(&message.line, "params").unwrap_or_default();
    let version = json::raw_of(params, "_meta")
        .and_then(|meta| json::string_of(meta, "io.modelcontextprotocol/protocolVersion"));
    let Some(version) = version else { return };
    let name = json::string_of(params, "name").or_else(|| json::string_of(params, "uri"));
    let method = Some(message.method.clone());
    for (header, value) in
        [("MCP-Protocol-Version", Some(version)), ("Mcp-Method", method), ("Mcp-Name", name)]
    {
        // Anything else cannot stand in a header, and is refused by the supervisor.
        if let Some(value) = value.filter(|v| v.bytes().all(|b| (b' '..=b'~').contains(&b))) {
            write!(head, "{header}: {value}\r\n").unwrap_or_default();
        }
    }
}

/// An answer whose head was read.
struct Received {
    status: String,
    head: String,
    rest: BufReader<UnixStream>,
}

impl Received {
    fn of(stream: UnixStream) -> io::Result<Self> {
        let (mut rest, mut head) = (BufReader::new(stream), String::new());
        loop {
            let before = head.len();
            if rest.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if head[before..].trim().is_empty() {
                break;
            }
        }
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        Ok(Self { status, head, rest })
    }

    fn header(&self, name: &str) -> Option<String> {
        let named = |line: &str| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        self.head.lines().skip(1).find_map(named)
    }

    fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    fn body(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.rest.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The data of each event (WHATWG HTML 9.2), as it comes.
    fn events(&mut self, mut told: impl FnMut(&str)) -> io::Result<()> {
        let (mut line, mut data) = (Vec::new(), String::new());
        loop {
            line.clear();
            if self.rest.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            if text.is_empty() && !data.trim().is_empty() {
                told(&data);
            }
            if text.is_empty() {
                data.clear();
            } else if let Some(piece) = text.strip_prefix("data:") {
                data.push_str(piece.strip_prefix(' ').unwrap_or(piece));
                data.push('\n');
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Reads over HTTP as fast as one core sends them: blocking connections that are kept, one thread each.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::{Result, stats::Samples};

/// How fast a server answered.
pub struct Rate {
    /// Answers a second.
    pub per_second: f64,
    /// From request to whole answer.
    pub times: Samples,
}

/// Keeps a server busy with one request on so many connections for so long.
pub fn busy(port: u16, path: &str, token: &str, connections: usize, time: Duration) -> Result<Rate> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n\r\n");
    let began = Instant::now();
    let all: Vec<std::result::Result<Vec<Duration>, String>> = std::thread::scope(|scope| {
        let one = || connection(port, &request, began + time).map_err(|e| e.to_string());
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a client panicked".into()))).collect()
    });
    let passed = began.elapsed();
    let mut times = Vec::new();
    for one in all {
        times.extend(one?);
    }
    Ok(Rate { per_second: times.len() as f64 / passed.as_secs_f64(), times: Samples::of(times) })
}

fn connection(port: u16, request: &str, until: Instant) -> Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let (mut times, mut line, mut body) = (Vec::new(), String::new(), Vec::new());
    while Instant::now() < until {
        let began = Instant::now();
        stream.write_all(request.as_bytes())?;
        let (mut length, mut first) = (0, true);
        loop {
            line.clear();
            answers.read_line(&mut line)?;
            if std::mem::take(&mut first) && !line.contains(" 200 ") {
                return Err(format!("the server answered {}", line.trim()).into());
            }
            let header = line.trim_end().to_ascii_lowercase();
            if let Some(n) = header.strip_prefix("content-length:") {
                length = n.trim().parse()?;
            }
            if header.is_empty() {
                break;
            }
        }
        body.resize(length, 0);
        answers.read_exact(&mut body)?;
        times.push(began.elapsed());
    }
    Ok(times)
}

/// Binds a process with all its threads, or this one, to one core.
pub fn pin(pid: u32, core: usize) -> Result<()> {
    let output = std::process::Command::new("taskset")
        .args(["-a", "-c", "-p", &core.to_string(), &pid.to_string()])
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("taskset: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Lets a process run on every core again.
pub fn unpin(pid: u32) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    let all = format!("0-{}", cores.max(2) - 1);
    std::process::Command::new("taskset").args(["-a", "-c", "-p", &all, &pid.to_string()]).output()?;
    Ok(())
}

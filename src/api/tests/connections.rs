//! Connections: slow ones, too many, and the end.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};
use tokio_util::sync::CancellationToken;

use super::{
    client::{bearer, request},
    setup::{hive, open},
};
use crate::api::{Access, doors_router, serve::serve_connection};

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_come_and_an_idle_connection_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let hive = hive(dir.path()).await;
    for said in ["GET /healthz HTTP/1.1\r\nHost: sk", "", "GET /healthz HTTP/1.1\r\nHost: skep\r\n\r\n"] {
        let (mut client, server) = UnixStream::pair().unwrap();
        let access = Some(Access::Agent("writer".parse().unwrap()));
        let router = doors_router(hive.clone());
        let patience = Duration::from_millis(200);
        tokio::spawn(serve_connection(server, router, access, CancellationToken::new(), patience));
        client.write_all(said.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(5), client.read_to_end(&mut answer));
        read.await.unwrap_or_else(|_| panic!("{said:?} holds the connection")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_nobody_is_refused() {
    let (client, server) = UnixStream::pair().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (router, patience) = (doors_router(hive(dir.path()).await), Duration::from_secs(5));
    tokio::spawn(serve_connection(server, router, None, CancellationToken::new(), patience));
    let answer = super::client::send(client, &request("GET", "/v1/skills", &[("Host", "a")], "")).await;
    assert_eq!(answer.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_too_many_connections_is_cut_and_others_are_served() {
    let open = open().await;
    let mut held = Vec::new();
    for _ in 0..32 {
        let mut stream = UnixStream::connect(open.agent()).await.unwrap();
        stream.write_all(b"GET").await.unwrap();
        held.push(stream);
    }
    let mut one_more = UnixStream::connect(open.agent()).await.unwrap();
    assert_eq!(one_more.read(&mut [0]).await.unwrap_or(0), 0);
    assert_eq!(open.call("GET", "/healthz", "").await.status, 200);
    held.clear();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(open.call_as_agent("GET", "/v1/skills", "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_a_head_is_refused() {
    let open = open().await;
    // The server need not take the rest to refuse, so the refusal may get lost.
    let large = "x".repeat(500 * 1024);
    let mut stream = UnixStream::connect(open.operator()).await.unwrap();
    drop(stream.write_all(&request("GET", "/healthz", &[("Host", "a"), ("X", &large)], "")).await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "), "{}", answer.escape_ascii());
    let many: Vec<_> = (0..200).map(|_| ("X", "y")).collect();
    assert_eq!(open.call_with("GET", "/healthz", &many, "").await.status, 431);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_end_streams_are_cut_after_the_grace_and_the_listener_is_gone() {
    let mut open = open().await;
    let mut stream = TcpStream::connect(("127.0.0.1", open.port)).await.unwrap();
    let (host, token) = (open.host(), bearer());
    let headers = [("Host", host.as_str()), ("Authorization", token.as_str())];
    stream.write_all(&request("GET", "/v1/agents/writer/logs?follow=1", &headers, "")).await.unwrap();
    stream.read_exact(&mut [0; 64]).await.unwrap();
    let begin = Instant::now();
    open.shutdown.cancel();
    (&mut open.served).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(6));
    assert!(TcpStream::connect(("127.0.0.1", open.port)).await.is_err());
}

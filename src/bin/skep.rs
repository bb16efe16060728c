//! The `skep` program.
fn main() -> anyhow::Result<()> {
    let dir = std::env::args().nth(2).unwrap_or(".".into()).into();
    tokio::runtime::Runtime::new()?
        .block_on(skep::daemon::run(skep::daemon::Options { dir, detached: false }))
}

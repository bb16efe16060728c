//! What the benchmark of a whole hive is made of.

pub mod hive;
pub mod load;
pub mod machine;
pub mod nginx;
pub mod peer;
pub mod stats;
pub mod table;
pub mod web;

use std::{
    process::{Command, ExitCode},
    time::Instant,
};

use table::Table;

/// Any failure ends the benchmark with its reason.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A whole benchmark: measures, and prints the table between the facts of the machine. Whatever ends it, hives and peers
/// clean up when they are dropped.
pub async fn run(measure: impl AsyncFnOnce(&mut Table) -> Result<()>) -> ExitCode {
    let began = Instant::now();
    let whole = async {
        let facts = machine::facts()?;
        println!("{facts}");
        let mut table = Table::default();
        measure(&mut table).await?;
        println!("\n{facts}; load at the end {}", machine::load());
        table.print();
        Ok(())
    };
    let done: Result<()> = tokio::select! {
        done = whole => done,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    match done {
        Ok(()) => {
            println!("measured in {} s", began.elapsed().as_secs());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the engine's own program; its output.
pub fn docker<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Result<String> {
    let output = Command::new("docker").args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("docker: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Removes every container with this label, several at once.
pub fn remove_labelled(label: &str) -> Result<()> {
    let script =
        format!("docker ps -aq --filter 'label={label}' | xargs -r -n 10 -P 4 docker rm -f >/dev/null");
    let status = Command::new("bash").args(["-c", &script]).status()?;
    if status.success() { Ok(()) } else { Err(format!("containers with label {label} are left").into()) }
}

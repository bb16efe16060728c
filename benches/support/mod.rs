//! What the benchmark of a whole hive is made of.

pub mod hive;
pub mod load;
pub mod machine;
pub mod nginx;
pub mod peer;
pub mod stats;
pub mod table;
pub mod web;

use std::process::Command;

/// Any failure ends the benchmark with its reason.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

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

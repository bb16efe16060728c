//! The peer for reads: nginx with one worker, in a container on the host's network.

use std::{fs, process::Command, time::Duration};

use super::{Result, docker, remove_labelled};

const LABEL: &str = "skep.bench.nginx";
const IMAGE: &str = "skep-bench-nginx:latest";

/// A running nginx that serves one folder.
pub struct Nginx {
    folder: tempfile::TempDir,
    /// Where it listens on loopback.
    pub port: u16,
    container: String,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if let Err(e) = remove_labelled(LABEL) {
            eprintln!("cleaning up: {e}");
        }
    }
}

impl Nginx {
    /// Builds its image where that is missing, and starts it.
    pub fn start(port: u16) -> Result<Self> {
        if docker(&["image", "ls", "--quiet", IMAGE])?.is_empty() {
            build()?;
        }
        let folder = tempfile::tempdir()?;
        let config = format!(
            "worker_processes 1;\npid /tmp/nginx.pid;\nerror_log stderr;\nevents {{ worker_connections 256; }}\n\
             http {{ access_log off; keepalive_requests 100000000; open_file_cache max=100;\n\
             server {{ listen 127.0.0.1:{port}; root /served; }} }}\n"
        );
        fs::write(folder.path().join("nginx.conf"), config)?;
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let mount = format!("type=bind,source={},target=/served,readonly", folder.path().display());
        let label = format!("{LABEL}=1");
        let container = docker(&[
            "run",
            "-d",
            "--label",
            &label,
            "--network",
            "host",
            "--mount",
            &mount,
            IMAGE,
            "nginx",
            "-c",
            "/served/nginx.conf",
            "-g",
            "daemon off;",
        ])?;
        Ok(Self { folder, port, container })
    }

    /// Serves this.
    pub fn serve(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    }

    /// Its master and its worker.
    pub fn pids(&self) -> Result<Vec<u32>> {
        let all = docker(&["top", &self.container, "-o", "pid"])?;
        Ok(all.lines().skip(1).filter_map(|line| line.trim().parse().ok()).collect())
    }
}

fn build() -> Result<()> {
    let recipe = "FROM skep-base:bookworm\nRUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
                  nginx-light >/dev/null && rm -rf /var/lib/apt/lists/*\n";
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("Dockerfile"), recipe)?;
    let status = Command::new("docker")
        .args(["build", "-q", "-t", IMAGE])
        .arg(folder.path())
        .stdout(std::process::Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err("the image of nginx cannot be built".into()) }
}

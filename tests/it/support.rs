//! A hive in a temporary folder, and skep run in it.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

pub struct Hive {
    _temp: tempfile::TempDir,
    pub root: PathBuf,
}

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Hive {
    /// An empty folder called `hive`.
    pub fn empty() -> Self {
        let temp = tempfile::Builder::new().prefix("skep-it-").tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap().join("hive");
        fs::create_dir(&root).unwrap();
        Self { _temp: temp, root }
    }

    /// What `skep init` makes.
    pub fn new() -> Self {
        let hive = Self::empty();
        let ran = hive.run(&["init"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        hive
    }

    /// skep in this folder, without anything from the tests' own environment.
    pub fn skep(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
        command.args(args).current_dir(&self.root);
        for name in ["SKEP_DIR", "SKEP_HOST", "SKEP_TOKEN", "SKEP_LOG", "NO_COLOR", "CLICOLOR_FORCE", "TERM"]
        {
            command.env_remove(name);
        }
        // No test of this program may touch a real engine.
        command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.skep(args).output().unwrap().into()
    }

    /// With something on standard input.
    pub fn feed(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self.skep(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Beside the reading: what comes back may be as much.
        std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input).unwrap());
            child.wait_with_output().unwrap().into()
        })
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Output without what differs from run to run.
    pub fn neutral(&self, text: &str) -> String {
        text.replace(self.root.to_str().unwrap(), "[hive]")
    }
}

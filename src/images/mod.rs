//! Makes sure that an image is there before an agent needs it: the default one built from files that this
//! program carries, others pulled, system packages as one more layer, the version of node looked up.
//!
//! Never builds the same thing twice at once, and nothing that is there already.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::Future,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use semver::Version;
use tokio::{
    io::AsyncWriteExt,
    process::Command,
    sync::{OnceCell, mpsc},
};

use crate::engine::{Engine, EngineError, ImageInfo};

mod agent;
mod layer;

pub use layer::{LABEL_LAYER, PackageRequests};

/// The image of agents that name no other.
pub const DEFAULT_IMAGE: &str = "skep-agent:latest";
const CA_SCRIPT: &str = include_str!("../../images/ca.sh");
/// Where distributions keep what they trust.
const HOST_STORES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
const PROBE: Duration = Duration::from_secs(20);
const RECENT: Duration = Duration::from_secs(3);

/// Why an image cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ImageError {
    /// The engine said so. `Unavailable` is worth another try.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// It is not there and cannot be pulled.
    #[error("image {image} is not there and cannot be pulled ({why}); {remedy}")]
    Missing {
        /// As configured.
        image: String,
        /// The engine's words.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// The default image cannot be built.
    #[error("image {DEFAULT_IMAGE} cannot be built: {0}")]
    Agent(String),
    /// System packages cannot be installed; the text names package, skill and image.
    #[error("{0}")]
    Packages(String),
    /// A script that this program carries failed.
    #[error("{0}")]
    Script(String),
}

type Result<T> = std::result::Result<T, ImageError>;

/// What builds are given from outside.
#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// `[hive] ca_bundle`: certificates that builds and images shall trust; none: those that `SSL_CERT_FILE`
    /// names and the distribution does not bring.
    pub ca_bundle: Option<PathBuf>,
    /// Values of the variables that builds get as arguments (`config::env::FOR_BUILDS`).
    pub args: BTreeMap<String, String>,
    /// The engine's endpoint, for the script that makes the base image.
    pub endpoint: Option<String>,
    /// Name under which the default image is looked for and built; none: [`DEFAULT_IMAGE`].
    pub default_image: Option<String>,
}

/// Shared work in progress: whoever asks for the same waits for the same answer.
type Flights = Mutex<HashMap<String, Arc<OnceCell<Result<ImageInfo>>>>>;

/// Images of one engine.
pub struct Images {
    engine: Arc<dyn Engine>,
    options: BuildOptions,
    flights: Flights,
    node: Mutex<HashMap<String, Arc<OnceCell<Option<Version>>>>>,
    recent: Mutex<HashMap<String, (Instant, ImageInfo)>>,
}

impl Images {
    /// Asks nothing yet.
    pub fn new(engine: Arc<dyn Engine>, options: BuildOptions) -> Self {
        Self { engine, options, flights: Mutex::default(), node: Mutex::default(), recent: Mutex::default() }
    }

    /// As [`Images::ensure`], but an answer of the last seconds is good enough: many agents of one image are
    /// prepared in a row. An image that was replaced since is noticed when a container is created.
    ///
    /// # Errors
    /// As [`Images::ensure`].
    pub async fn ensure_recent(&self, image: &str, progress: &mpsc::Sender<String>) -> Result<ImageInfo> {
        let known = lock(&self.recent).get(image).cloned();
        if let Some((at, info)) = known
            && at.elapsed() < RECENT
        {
            return Ok(info);
        }
        let found = self.ensure(image, progress).await?;
        lock(&self.recent).insert(image.to_owned(), (Instant::now(), found.clone()));
        Ok(found)
    }

    /// The next [`Images::ensure_recent`] asks anew.
    pub fn forget_recent(&self) {
        lock(&self.recent).clear();
    }

    /// The image, built or pulled when it must be. `progress` gets lines for people.
    ///
    /// # Errors
    /// When it is not there and cannot be had; the text says what to do.
    pub async fn ensure(&self, image: &str, progress: &mpsc::Sender<String>) -> Result<ImageInfo> {
        if image == DEFAULT_IMAGE || image == "skep-agent" {
            let tag = self.options.default_image.as_deref();
            let work = self.ensure_agent(tag.unwrap_or(DEFAULT_IMAGE), progress);
            return self.once(DEFAULT_IMAGE, work).await;
        }
        match self.engine.image(image).await {
            Err(EngineError::NotFound(_)) => {}
            found => return Ok(found?),
        }
        self.once(image, self.pull(image, progress)).await
    }

    async fn pull(&self, image: &str, progress: &mpsc::Sender<String>) -> Result<ImageInfo> {
        progress.try_send(format!("pulling {image}")).ok();
        match self.engine.pull(image, progress.clone()).await {
            Ok(()) => Ok(self.engine.image(image).await?),
            Err(e @ EngineError::Unavailable(_)) => Err(e.into()),
            Err(e) => Err(ImageError::Missing {
                image: image.to_owned(),
                why: e.to_string(),
                remedy: remedy(image),
            }),
        }
    }

    /// The version of node in an image; none when it has none. Looked up once for each image id.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn node_version(&self, image_id: &str) -> Result<Option<Version>> {
        let cell = lock(&self.node).entry(image_id.to_owned()).or_default().clone();
        let version = cell.get_or_try_init(|| async {
            let command = ["node", "--version"].map(str::to_owned);
            let output = self.engine.probe(image_id, &command, PROBE).await?;
            Ok::<_, ImageError>(output.as_deref().and_then(parse_node))
        });
        Ok(version.await?.clone())
    }

    /// Removes the layers of system packages that nobody needs: those whose tag is not among `keep` and that no
    /// container uses. Answers the tags removed. (Another hive on the engine may have to build one anew.)
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn prune(&self, keep: &BTreeSet<String>) -> Result<Vec<String>> {
        let mut removed = Vec::new();
        for image in self.engine.images(LABEL_LAYER).await? {
            let layers = image.tags.iter().filter(|t| t.starts_with(layer::NAME));
            for tag in layers.filter(|t| !keep.contains(*t)) {
                match self.engine.remove_image(tag).await {
                    Ok(()) => removed.push(tag.clone()),
                    // In use.
                    Err(EngineError::Conflict(_)) => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(removed)
    }

    /// What is bound over a container's certificates when `[hive] ca_bundle` is set: those of the host's
    /// distribution and the configured ones. To be written to a file that outlives the containers.
    ///
    /// # Errors
    /// When the configured file cannot be read.
    pub async fn container_bundle(&self) -> Result<Option<Vec<u8>>> {
        if self.options.ca_bundle.is_none() {
            return Ok(None);
        }
        let mut bundle = Vec::new();
        for store in HOST_STORES {
            if let Ok(found) = tokio::fs::read(store).await {
                bundle = found;
                bundle.push(b'\n');
                break;
            }
        }
        bundle.extend(self.certificates().await?);
        Ok(Some(bundle))
    }

    /// The certificates that builds shall trust besides the distribution's own, as `images/ca.sh` prints them.
    async fn certificates(&self) -> Result<Vec<u8>> {
        let mut command = Command::new("bash");
        if let Some(bundle) = &self.options.ca_bundle {
            command.env("SKEP_CA_BUNDLE", bundle);
        }
        run_script("images/ca.sh", CA_SCRIPT, command).await
    }

    /// Runs the work, or waits for the one who does.
    async fn once(&self, key: &str, work: impl Future<Output = Result<ImageInfo>>) -> Result<ImageInfo> {
        let cell = lock(&self.flights).entry(key.to_owned()).or_default().clone();
        let result = cell.get_or_init(|| work).await.clone();
        let mut flights = lock(&self.flights);
        if flights.get(key).is_some_and(|c| Arc::ptr_eq(c, &cell)) {
            flights.remove(key);
        }
        result
    }
}

/// A poisoned lock guards plain values here, which a panic cannot leave half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remedy(image: &str) -> String {
    let own = ["claude-code", "codex", "opencode"];
    match own.iter().find(|n| image.trim_end_matches(":latest") == format!("skep-{n}")) {
        Some(name) => format!("build it with images/build.sh {name}"),
        None => {
            format!("check the name, `docker pull {image}` by hand, or build it under this name")
        }
    }
}

/// What to do when a build's output shows that a proxy's certificate was not trusted.
fn with_hint(text: String) -> String {
    let lower = text.to_lowercase();
    let signs = [
        "certificate verif",
        "self-signed certificate",
        "self signed certificate",
        "unable to get issuer",
        "unable to get local issuer",
    ];
    if signs.iter().any(|s| lower.contains(s)) {
        format!(
            "{text}\na certificate was not trusted: set `ca_bundle` in [hive] to a PEM file with your proxy's certificates"
        )
    } else {
        text
    }
}

/// `v24.19.0` and a line end.
fn parse_node(output: &str) -> Option<Version> {
    Version::parse(output.trim().strip_prefix('v')?).ok()
}

/// Feeds a script to bash and answers its standard output; its standard error is the error's text.
async fn run_script(name: &str, script: &'static str, mut command: Command) -> Result<Vec<u8>> {
    let failed = |why: String| ImageError::Script(format!("{name}: {why}"));
    let mut child = command
        .arg("-s")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| failed(format!("cannot run bash: {e}")))?;
    // Written by a task of its own: a script that ends early must not be waited for.
    if let Some(mut input) = child.stdin.take() {
        tokio::spawn(async move { input.write_all(script.as_bytes()).await.ok() });
    }
    let output = child.wait_with_output().await.map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(failed(format!("{} ({errors})", output.status)))
    }
}

/// A build context: path, whether executable, content. Time stamps are fixed, so that equal files are equal.
fn context(files: &[(&str, bool, &[u8])]) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, executable, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(if *executable { 0o755 } else { 0o644 });
        header.set_mtime(agent::SOURCE_DATE_EPOCH);
        tar.append_data(&mut header, Path::new(path), *content)?;
    }
    tar.into_inner()
}

#[cfg(test)]
mod tests;

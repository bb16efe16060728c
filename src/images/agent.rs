//! The default image: built from the folder `images/agent`, which this program carries, and only when that
//! folder, the base image or the certificates changed. The rule and the label are those of `images/build.sh`.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use tokio::{process::Command, sync::mpsc};

use super::{ImageError, Images, Result, context, run_script, with_hint};
use crate::engine::{EngineError, ImageBuild, ImageInfo};

/// The folder's files, sorted by path: path, whether executable, content.
pub(super) const FOLDER: [(&str, bool, &[u8]); 3] = [
    ("Dockerfile", false, include_bytes!("../../images/agent/Dockerfile")),
    ("node.txt", false, include_bytes!("../../images/agent/node.txt")),
    ("trust-ca", true, include_bytes!("../../images/agent/trust-ca")),
];
pub(super) const SOURCE_DATE_EPOCH: u64 = 1_735_689_600;
const BASE_SCRIPT: &str = include_str!("../../images/base.sh");
const BASE: &str = "skep-base:bookworm";
const UPSTREAM: &str = "debian:bookworm-slim";
const LABEL_INPUTS: &str = "skep.inputs";
const LABEL_IMAGE: &str = "skep.image";

impl Images {
    pub(super) async fn ensure_agent(&self, tag: &str, progress: &mpsc::Sender<String>) -> Result<ImageInfo> {
        let there = match self.engine.image(tag).await {
            Ok(image) => Some(image),
            Err(EngineError::NotFound(_)) => None,
            Err(e) => return Err(e.into()),
        };
        let base = match (self.base(progress).await, &there) {
            (Ok(base), _) => base,
            (Err(e @ ImageError::Engine(_)), _) => return Err(e),
            // Better an image that may be old than none: only the base is gone, not what was built on it.
            (Err(e), Some(image)) => {
                let line = format!("{tag} is used as it is: {e}");
                progress.try_send(line).ok();
                return Ok(image.clone());
            }
            (Err(e), None) => return Err(e),
        };
        let bundle = self.certificates().await?;
        let inputs = inputs(&FOLDER, &base.1, &bundle);
        if let Some(image) = &there
            && image.labels.get(LABEL_INPUTS) == Some(&inputs)
        {
            return Ok(image.clone());
        }
        let line = format!("building {tag} on {}", base.0);
        progress.try_send(line).ok();
        let build = self.agent_build(tag, &base, inputs, &bundle)?;
        match self.engine.build(build, progress.clone()).await {
            Ok(()) => {}
            Err(EngineError::Refused(why)) => return Err(ImageError::Agent(with_hint(why))),
            Err(e) => return Err(e.into()),
        }
        let built = self.engine.image(tag).await?;
        if let Some(old) = there.filter(|old| old.id != built.id) {
            // Stays when a container or an image stands on it.
            self.engine.remove_image(&old.id).await.ok();
        }
        Ok(built)
    }

    fn agent_build(
        &self,
        tag: &str,
        (base, base_id): &(String, String),
        inputs: String,
        bundle: &[u8],
    ) -> Result<ImageBuild> {
        let mut files = FOLDER.to_vec();
        if !bundle.is_empty() {
            files.push(("ca-bundle.crt", false, bundle));
        }
        let mut args = self.options.args.clone();
        args.insert("BASE".to_owned(), base.clone());
        Ok(ImageBuild {
            tag: tag.to_owned(),
            context: context(&files).map_err(|e| ImageError::Agent(e.to_string()))?,
            args,
            labels: BTreeMap::from([
                (LABEL_IMAGE.to_owned(), "agent".to_owned()),
                (LABEL_INPUTS.to_owned(), inputs),
                ("skep.base".to_owned(), base_id.clone()),
            ]),
        })
    }

    /// Name and id of the base image: one that is there, else the registry's, else made from the packages of this
    /// machine's distribution.
    async fn base(&self, progress: &mpsc::Sender<String>) -> Result<(String, String)> {
        if let Some(found) = self.existing_base().await? {
            return Ok(found);
        }
        progress.try_send(format!("pulling {UPSTREAM}")).ok();
        let refusal = match self.engine.pull(UPSTREAM, progress.clone()).await {
            Ok(()) => {
                self.label_base(progress).await?;
                return Ok((BASE.to_owned(), self.engine.image(BASE).await?.id));
            }
            Err(e @ EngineError::Unavailable(_)) => return Err(e.into()),
            Err(e) => e,
        };
        let line = format!("no registry ({refusal}): making the base image from packages");
        progress.try_send(line).ok();
        let mut command = Command::new("bash");
        command.env("SKEP_BASE_FROM", "packages");
        if let Some(endpoint) = &self.options.endpoint {
            command.env("DOCKER_HOST", endpoint);
        }
        run_script("images/base.sh", BASE_SCRIPT, command).await?;
        self.existing_base()
            .await?
            .ok_or_else(|| ImageError::Agent("images/base.sh made no base image; run it by hand".to_owned()))
    }

    async fn existing_base(&self) -> Result<Option<(String, String)>> {
        match self.engine.image(BASE).await {
            Ok(image) => return Ok(Some((BASE.to_owned(), image.id))),
            Err(EngineError::NotFound(_)) => {}
            Err(e) => return Err(e.into()),
        }
        let images = self.engine.images("skep.image=base").await?;
        Ok(images.into_iter().find_map(|image| {
            let tag = image.tags.iter().find(|t| t.starts_with("skep-base:"))?;
            Some((tag.clone(), image.id.clone()))
        }))
    }

    async fn label_base(&self, progress: &mpsc::Sender<String>) -> Result<()> {
        let dockerfile = format!("FROM {UPSTREAM}\nLABEL skep.image=base skep.base.source=registry\n");
        let build = ImageBuild {
            tag: BASE.to_owned(),
            context: context(&[("Dockerfile", false, dockerfile.as_bytes())])
                .map_err(|e| ImageError::Agent(e.to_string()))?,
            args: BTreeMap::new(),
            labels: BTreeMap::new(),
        };
        Ok(self.engine.build(build, progress.clone()).await?)
    }
}

/// The digest that the head of `images/build.sh` describes. `files` are sorted by path.
pub(super) fn inputs(files: &[(&str, bool, &[u8])], base_id: &str, bundle: &[u8]) -> String {
    let sha = |bytes: &[u8]| hex::encode(Sha256::digest(bytes));
    let mut text = String::new();
    for (path, executable, content) in files {
        text += &format!("{path}\0{}\0{}\n", u8::from(*executable), sha(content));
    }
    text += base_id;
    text += "\n";
    text += &if bundle.is_empty() { "-".to_owned() } else { sha(bundle) };
    text += "\n";
    sha(text.as_bytes())
}

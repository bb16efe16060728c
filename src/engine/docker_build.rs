//! Images on the Docker engine: look up, pull, build with the classic builder, remove.
//!
//! Never reads a registry's credentials: the engine pulls what it may.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bollard::{
    errors::Error,
    models::ImageInspect,
    query_parameters::{
        BuildImageOptionsBuilder, CreateImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptions,
    },
};
use futures_util::{Stream, StreamExt};
use tokio::{sync::mpsc, time::timeout};

use super::{
    EngineError, ImageBuild, ImageInfo, Result,
    docker::{ASK, DockerEngine, WORK, lock},
    docker_fate::fate,
};

/// A whole build or pull.
const LONG: Duration = Duration::from_secs(30 * 60);
/// A registry that says nothing for so long is not there.
const PULL_SILENCE: Duration = Duration::from_secs(60);
/// Lines of output that a failed build's error carries.
const LAST_LINES: usize = 20;
/// Bytes of a line at most.
const LINE: usize = 64 << 10;

impl DockerEngine {
    pub(super) async fn inspect_image(&self, reference: &str) -> Result<ImageInfo> {
        let found = self
            .call(&format!("image {reference}"), ASK, |c| async move { c.inspect_image(reference).await })
            .await?;
        Ok(image_info(found))
    }

    /// An image by its id, which never changes.
    pub(super) async fn cached_image(&self, id: &str) -> Result<Arc<ImageInfo>> {
        let known = lock(&self.image_cache).get(id).cloned();
        if let Some(image) = known {
            return Ok(image);
        }
        let image = Arc::new(self.inspect_image(id).await?);
        lock(&self.image_cache).insert(id.to_owned(), image.clone());
        Ok(image)
    }

    pub(super) async fn list_images(&self, label: &str) -> Result<Vec<ImageInfo>> {
        let filters = HashMap::from([("label", vec![label.to_owned()])]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        let found = self
            .call("the list of images", ASK, |c| async move { c.list_images(Some(options)).await })
            .await?;
        let mut images = Vec::new();
        for summary in found {
            match self.inspect_image(&summary.id).await {
                Ok(image) => images.push(image),
                // Removed meanwhile.
                Err(EngineError::NotFound(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(images)
    }

    pub(super) async fn drop_image(&self, reference: &str) -> Result<()> {
        let removed = self
            .call(&format!("image {reference}"), WORK, |c| async move {
                c.remove_image(reference, None::<RemoveImageOptions>, None).await
            })
            .await;
        match removed {
            Ok(_) | Err(EngineError::NotFound(_)) => Ok(()),
            Err(e) => Err(e),
        }
    }

    pub(super) async fn pull_image(&self, reference: &str, progress: &mpsc::Sender<String>) -> Result<()> {
        let what = format!("pulling {reference}");
        let client = self.client().await?;
        let (name, tag) = split_reference(reference);
        let options = CreateImageOptionsBuilder::new().from_image(name).tag(tag).build();
        let lines = client
            .create_image(Some(options), None, None)
            .map(|line| line.map(|l| pull_line(l.id, l.status)));
        follow(&what, PULL_SILENCE, lines, progress).await
    }

    pub(super) async fn build_image(&self, build: ImageBuild, progress: &mpsc::Sender<String>) -> Result<()> {
        let what = format!("building image {}", build.tag);
        let client = self.client().await?;
        let options = BuildImageOptionsBuilder::new()
            .dockerfile("Dockerfile")
            .t(&build.tag)
            .rm(true)
            .forcerm(true)
            .buildargs(&build.args.into_iter().collect::<HashMap<_, _>>())
            .labels(&build.labels.into_iter().collect::<HashMap<_, _>>())
            .build();
        let body = bollard::body_full(build.context.into());
        let lines = client.build_image(options, None, Some(body)).map(|line| {
            line.map(|l| {
                let status = l.status.map(|s| s + "\n");
                l.stream.or(status).unwrap_or_default()
            })
        });
        // Dropped at the time limit, the request's end makes the engine give the build up.
        follow(&what, LONG, lines, progress).await
    }
}

fn pull_line(layer: Option<String>, status: Option<String>) -> String {
    let status = status.unwrap_or_default();
    match layer {
        Some(layer) => format!("{layer}: {status}\n"),
        None => format!("{status}\n"),
    }
}

/// Hands lines on until the work ends; an error in the stream carries the last lines.
async fn follow(
    what: &str,
    silence: Duration,
    pieces: impl Stream<Item = std::result::Result<String, Error>>,
    progress: &mpsc::Sender<String>,
) -> Result<()> {
    let mut pieces = std::pin::pin!(pieces);
    let mut lines = Lines::default();
    let work = async {
        loop {
            let next = timeout(silence, pieces.next())
                .await
                .map_err(|_| EngineError::Refused(format!("{what}: nothing was heard for {silence:?}")))?;
            let Some(next) = next else { return Ok(()) };
            lines.take(&next.map_err(|e| fate(what, e))?, progress);
        }
    };
    let result = timeout(LONG, work)
        .await
        .unwrap_or_else(|_| Err(EngineError::Refused(format!("{what}: not done within {LONG:?}"))));
    lines.take("\n", progress);
    match result {
        Err(EngineError::Refused(why)) if !lines.last.is_empty() => {
            let last: Vec<_> = lines.last.into();
            Err(EngineError::Refused(format!("{why}\n{}", last.join("\n"))))
        }
        other => other,
    }
}

/// Puts the builder's pieces together to lines: what a command writes comes as it was written, with
/// standard error in colour.
#[derive(Default)]
struct Lines {
    open: String,
    last: VecDeque<String>,
}

impl Lines {
    fn take(&mut self, piece: &str, progress: &mpsc::Sender<String>) {
        self.open += &piece.replace("\u{1b}[91m", "").replace("\u{1b}[0m", "");
        while let Some(end) = self.open.find('\n') {
            let rest = self.open.split_off(end + 1);
            let line = std::mem::replace(&mut self.open, rest);
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                continue;
            }
            if self.last.len() == LAST_LINES {
                self.last.pop_front();
            }
            self.last.push_back(line.clone());
            progress.try_send(line).ok();
        }
        // A command that never ends a line shall not fill the memory.
        if self.open.len() > LINE {
            self.open.clear();
        }
    }
}

/// `name` and `tag` (or digest); a name without either means `latest`, where the API would take all tags.
fn split_reference(reference: &str) -> (&str, &str) {
    if let Some((name, digest)) = reference.split_once('@') {
        return (name, digest);
    }
    match reference.rsplit_once(':') {
        // A colon before a slash is a registry's port.
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (reference, "latest"),
    }
}

fn image_info(image: ImageInspect) -> ImageInfo {
    let config = image.config.unwrap_or_default();
    let mut volumes = config.volumes.unwrap_or_default();
    volumes.sort();
    ImageInfo {
        id: image.id.unwrap_or_default(),
        tags: image.repo_tags.unwrap_or_default(),
        user: config.user.unwrap_or_default(),
        labels: config.labels.unwrap_or_default().into_iter().collect(),
        env: config.env.unwrap_or_default(),
        volumes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_without_a_tag_means_latest() {
        for (reference, parts) in [
            ("debian", ("debian", "latest")),
            ("debian:12", ("debian", "12")),
            ("host:5000/a/b", ("host:5000/a/b", "latest")),
            ("host:5000/a/b:1", ("host:5000/a/b", "1")),
            ("a@sha256:00", ("a", "sha256:00")),
        ] {
            assert_eq!(split_reference(reference), parts);
        }
    }

    #[tokio::test]
    async fn an_error_in_the_stream_carries_the_last_lines() {
        let (progress, mut lines) = mpsc::channel(8);
        let stream = futures_util::stream::iter([
            Ok("Step 1\n".to_owned()),
            Ok("\u{1b}[91mSte\u{1b}[0m".to_owned()),
            Ok("\u{1b}[91mp 2\u{1b}[0m".to_owned()),
            Err(Error::DockerStreamError { error: "it broke".to_owned() }),
        ]);
        let error = follow("building x", ASK, stream, &progress).await.unwrap_err();
        assert_eq!(error.to_string(), "building x: it broke\nStep 1\nStep 2");
        assert_eq!(lines.recv().await.unwrap(), "Step 1");
    }
}

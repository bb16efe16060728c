//! System packages that skills ask for: one layer on the agent's image for each distinct set, built once and
//! kept under a name made from base and set.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::{ImageError, Images, Result, context, with_hint};
use crate::engine::{EngineError, ImageBuild, ImageInfo};

/// Label of every layer: the whole key.
pub const LABEL_LAYER: &str = "skep.layer";
pub(super) const NAME: &str = "skep-layer:";

/// Names of packages (as `apt-get install` takes them), each with the skills that ask for it.
pub type PackageRequests = BTreeMap<String, BTreeSet<String>>;

impl Images {
    /// The image with these packages: the base itself when there are none. Answers its name and what it is.
    /// `image` is the base's configured name, for people.
    ///
    /// # Errors
    /// When a package cannot be had; the text names it and the skill that asks for it.
    pub async fn with_packages(
        &self,
        image: &str,
        base: &ImageInfo,
        requests: &PackageRequests,
        progress: &mpsc::Sender<String>,
    ) -> Result<(String, ImageInfo)> {
        if requests.is_empty() {
            return Ok((image.to_owned(), base.clone()));
        }
        if let Some((package, skills)) = requests.iter().find(|(p, _)| !is_package(p)) {
            return Err(ImageError::Packages(format!(
                "{package:?}, which {} asks for, is not the name of a system package",
                said(skills)
            )));
        }
        let key = key(&base.id, requests);
        let tag = format!("{NAME}{}", &key[..12]);
        let work = self.ensure_layer(image, base, requests, &key, progress);
        let layer = self.once(&tag, work).await?;
        Ok((tag, layer))
    }

    async fn ensure_layer(
        &self,
        image: &str,
        base: &ImageInfo,
        requests: &PackageRequests,
        key: &str,
        progress: &mpsc::Sender<String>,
    ) -> Result<ImageInfo> {
        let tag = format!("{NAME}{}", &key[..12]);
        match self.engine.image(&tag).await {
            Ok(found) if found.labels.get(LABEL_LAYER).is_some_and(|l| l == key) => {
                return Ok(found);
            }
            Ok(_) | Err(EngineError::NotFound(_)) => {}
            Err(e) => return Err(e.into()),
        }
        let names: Vec<_> = requests.keys().map(String::as_str).collect();
        let line = format!("installing {} on {image} ({tag})", names.join(" "));
        progress.try_send(line).ok();
        let bundle = self.certificates().await?;
        let dockerfile = dockerfile(base, &names, !bundle.is_empty());
        let mut files = vec![("Dockerfile", false, dockerfile.as_bytes())];
        if !bundle.is_empty() {
            files.push(("ca-bundle.crt", false, &bundle));
        }
        let args = self.options.args.iter();
        let build = ImageBuild {
            tag: tag.clone(),
            context: context(&files).map_err(|e| ImageError::Packages(e.to_string()))?,
            args: args
                .filter(|(k, _)| k.to_lowercase().ends_with("_proxy"))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            labels: BTreeMap::from([(LABEL_LAYER.to_owned(), key.to_owned())]),
        };
        match self.engine.build(build, progress.clone()).await {
            Ok(()) => Ok(self.engine.image(&tag).await?),
            Err(EngineError::Refused(why)) => {
                let text = with_hint(explain(image, requests, &why));
                Err(ImageError::Packages(text))
            }
            Err(e) => Err(e.into()),
        }
    }
}

/// What makes a layer: base and set. The order in which skills ask is none.
fn key(base_id: &str, requests: &PackageRequests) -> String {
    let mut sha = Sha256::new();
    sha.update(base_id);
    for package in requests.keys() {
        sha.update(format!("\n{package}"));
    }
    hex::encode(sha.finalize())
}

/// Debian policy 5.6.1, with an architecture or a version; nothing that a shell or apt would take for more.
fn is_package(name: &str) -> bool {
    let (name, version) = name.split_once('=').unwrap_or((name, "0"));
    let (name, architecture) = name.split_once(':').unwrap_or((name, "any"));
    let plain =
        |s: &str, more: &str| s.bytes().all(|b| b.is_ascii_alphanumeric() || more.as_bytes().contains(&b));
    let first = name.as_bytes().first();
    name.len() >= 2
        && first.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && plain(name, "+-.")
        // `apt-get install name-` removes it.
        && !name.ends_with('-')
        && !architecture.is_empty()
        && plain(architecture, "-")
        && !version.is_empty()
        && plain(version, "+-.:~")
}

fn dockerfile(base: &ImageInfo, packages: &[&str], certificates: bool) -> String {
    let (copy, option) = if certificates {
        (
            "COPY ca-bundle.crt /tmp/skep-ca.crt\n",
            "cat /etc/ssl/certs/ca-certificates.crt /tmp/skep-ca.crt >/tmp/skep-apt.crt 2>/dev/null || true; \
             set -- -o Acquire::https::CAInfo=/tmp/skep-apt.crt; ",
        )
    } else {
        ("", "set --; ")
    };
    let user = if base.user.is_empty() { "root" } else { &base.user };
    format!(
        "FROM {}\nUSER root\n{copy}RUN set -eu; export DEBIAN_FRONTEND=noninteractive LC_ALL=C; {option}\\\n\
         apt-get \"$@\" -qq -o Acquire::Retries=3 -o Acquire::Check-Valid-Until=false update; \\\n\
         apt-get \"$@\" -qq -o Acquire::Retries=3 install -y --no-install-recommends {} >/tmp/skep-apt.log; \\\n\
         rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log /tmp/skep-*\nUSER {user}\n",
        base.id,
        packages.join(" "),
    )
}

/// Who asked for what cannot be had, from apt's own words.
fn explain(image: &str, requests: &PackageRequests, output: &str) -> String {
    if output.contains("apt-get: not found") || output.contains("apt-get: command not found") {
        return format!(
            "image {image} has no apt-get, and skills ask for system packages ({}); use an image based on Debian or Ubuntu",
            everything(requests)
        );
    }
    let errors: Vec<_> = output.lines().filter_map(|l| l.strip_prefix("E: ")).collect();
    let blamed: Vec<_> = errors
        .iter()
        .filter_map(|line| blamed(line, requests).map(|b| (b, line)))
        .map(|((package, skills), line)| {
            format!(
                "system package {package}, which {} asks for, cannot be installed in image {image}: {line}",
                said(skills)
            )
        })
        .collect();
    if blamed.is_empty() {
        let why = if errors.is_empty() { output.to_owned() } else { errors.join("; ") };
        return format!(
            "system packages cannot be installed in image {image} ({}): {why}",
            everything(requests)
        );
    }
    blamed.join("; ")
}

/// The request that a line of apt's names: `Unable to locate package x`, `Package 'x' has no installation
/// candidate`, `Version '1' for 'x' was not found`.
fn blamed<'a>(line: &str, requests: &'a PackageRequests) -> Option<(&'a str, &'a BTreeSet<String>)> {
    let words: Vec<_> = line.split([' ', '\'', '"', ',']).filter(|w| !w.is_empty()).collect();
    let named = |request: &str| {
        let name = request.split(['=', ':']).next().unwrap_or(request);
        words.iter().any(|w| *w == name || *w == request)
    };
    let found = requests.iter().find(|(package, _)| named(package));
    found.map(|(package, skills)| (package.as_str(), skills))
}

/// `skill a`, or `skills a, b`.
fn said(skills: &BTreeSet<String>) -> String {
    let names: Vec<_> = skills.iter().map(String::as_str).collect();
    let word = if names.len() == 1 { "skill" } else { "skills" };
    format!("{word} {}", names.join(", "))
}

fn everything(requests: &PackageRequests) -> String {
    let all: Vec<_> =
        requests.iter().map(|(package, skills)| format!("{package} for {}", said(skills))).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(of: &[(&str, &str)]) -> PackageRequests {
        let mut all = PackageRequests::new();
        for (package, skill) in of {
            let skills = all.entry((*package).to_owned()).or_default();
            skills.insert((*skill).to_owned());
        }
        all
    }

    #[test]
    fn a_package_name_cannot_be_anything_else() {
        for good in ["jq", "g++", "libc6:amd64", "ffmpeg=7:5.1.6-0+deb12u1", "0ad"] {
            assert!(is_package(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "-y",
            "a b",
            "a;b",
            "$(id)",
            "../x",
            "jq-",
            "jq=",
            "jq:",
            "Jq",
            "a\nb",
            "jq=1 -y",
            "/tmp/x.deb",
            "jq/sid",
        ] {
            assert!(!is_package(bad), "{bad}");
        }
    }

    #[test]
    fn one_set_on_one_base_has_one_key() {
        let a = requests(&[("jq", "x"), ("ffmpeg", "y")]);
        let b = requests(&[("ffmpeg", "z"), ("jq", "x")]);
        assert_eq!(key("sha256:1", &a), key("sha256:1", &b));
        assert_ne!(key("sha256:1", &a), key("sha256:2", &a));
        assert_ne!(key("sha256:1", &a), key("sha256:1", &requests(&[("jq", "x")])));
    }

    #[test]
    fn a_package_that_does_not_exist_is_named_with_its_skill() {
        let all = requests(&[("jq", "json"), ("nosuch", "video"), ("nosuch", "audio")]);
        insta::assert_snapshot!(
            explain("i:1", &all, "building image x: returned a non-zero code: 100\nReading lists\nE: Unable to locate package nosuch"),
            @"system package nosuch, which skills audio, video asks for, cannot be installed in image i:1: Unable to locate package nosuch"
        );
        insta::assert_snapshot!(
            explain("i:1", &all, "x\nE: Failed to fetch http://m/p Connection refused"),
            @"system packages cannot be installed in image i:1 (jq for skill json, nosuch for skills audio, video): Failed to fetch http://m/p Connection refused"
        );
        insta::assert_snapshot!(
            explain("i:1", &requests(&[("jq", "json")]), "/bin/sh: apt-get: not found"),
            @"image i:1 has no apt-get, and skills ask for system packages (jq for skill json); use an image based on Debian or Ubuntu"
        );
    }
}

//! What a source that was named on the command line is: a folder, an archive, a git repository.

use std::path::{Path, PathBuf};

use super::super::super::failure::Failure;
use crate::registry::git::{BadUrl, Url};

/// Where skills come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A folder.
    Folder(PathBuf),
    /// A file.
    Archive(PathBuf),
    /// An archive on standard input.
    Stdin,
    /// A repository; what of it, and which folder.
    Git { url: Url, reference: Option<String>, path: Option<PathBuf> },
}

/// Names that archives have, which is not what tells them.
const PACKED: [&str; 6] = [".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd"];

/// Reads what was named. What is there as a file or folder is that, whatever it looks like.
pub(super) fn read(text: &str, reference: Option<&str>) -> Result<Place, Failure> {
    if text == "-" {
        return no_reference(reference, text).map(|()| Place::Stdin);
    }
    let path = Path::new(text.strip_prefix("file://").unwrap_or(text));
    if path.is_dir() && (reference.is_some() || is_bare(path) || text.starts_with("file://")) {
        return local(path, reference);
    }
    if path.is_dir() {
        return Ok(Place::Folder(path.to_owned()));
    }
    if path.exists() {
        return no_reference(reference, text).map(|()| Place::Archive(path.to_owned()));
    }
    let (address, fragment) = text.split_once('#').map_or((text, None), |(a, f)| (a, Some(f)));
    if fragment.is_some() && reference.is_some() {
        return Err(Failure::usage(format!("{text} names a reference, and --ref names another"))
            .help("leave one of them out"));
    }
    let reference = fragment.or(reference);
    let path = Path::new(address.strip_prefix("file://").unwrap_or(address));
    if path.is_dir() {
        return local(path, reference);
    }
    remote(address, reference)
}

fn remote(address: &str, reference: Option<&str>) -> Result<Place, Failure> {
    let (repository, of, path) = tree(address).unwrap_or((address.to_owned(), None, None));
    let url = Url::parse(&repository).map_err(|e| match e {
        BadUrl::Unknown => Failure::usage(format!("there is no file or folder {address}, and {e}")),
        e => Failure::usage(format!("{address} is refused: {e}")),
    })?;
    if PACKED.iter().any(|end| repository.ends_with(end)) && repository.starts_with("https://") {
        return Err(Failure::usage(format!("{url} is an archive, no repository"))
            .help(format!("`curl -fsSL {url} | skep skill add -`")));
    }
    Ok(Place::Git { url, reference: reference.map(str::to_owned).or(of), path })
}

/// `https://host/owner/name/tree/REF/FOLDER`, as a browser shows a folder of a repository.
fn tree(address: &str) -> Option<(String, Option<String>, Option<PathBuf>)> {
    let (repository, rest) = address.strip_prefix("https://")?.split_once("/tree/")?;
    let repository = repository.trim_end_matches("/-");
    let (reference, path) = rest.split_once('/').map_or((rest, ""), |(r, p)| (r, p.trim_end_matches('/')));
    let path = Some(PathBuf::from(path)).filter(|p| !p.as_os_str().is_empty());
    Some((format!("https://{repository}"), Some(reference.to_owned()), path))
}

fn local(path: &Path, reference: Option<&str>) -> Result<Place, Failure> {
    let failed = |why: String| Failure::usage(format!("cannot use the repository {}: {why}", path.display()));
    let at = path.canonicalize().map_err(|e| failed(e.to_string()))?;
    let text = at.to_str().ok_or_else(|| failed("its path is not UTF-8".into()))?;
    let url = Url::local(text).map_err(|e| failed(e.to_string()))?;
    Ok(Place::Git { url, reference: reference.map(str::to_owned), path: None })
}

fn no_reference(reference: Option<&str>, text: &str) -> Result<(), Failure> {
    match reference {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!("--ref is for git repositories; {text} is an archive"))),
    }
}

/// Whether a folder is a repository without files of its own.
fn is_bare(path: &Path) -> bool {
    path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(text: &str, reference: Option<&str>) -> (String, Option<String>, Option<PathBuf>) {
        match read(text, reference).unwrap() {
            Place::Git { url, reference, path } => (url.to_string(), reference, path),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_is_there_is_that_and_everything_else_an_address() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let file = dir.path().join("x#y.zip");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(read(folder, None).unwrap(), Place::Folder(folder.into()));
        assert_eq!(read(file.to_str().unwrap(), None).unwrap(), Place::Archive(file.clone()));
        assert_eq!(read("-", None).unwrap(), Place::Stdin);
        assert!(read(file.to_str().unwrap(), Some("v1")).is_err());
        let real = dir.path().canonicalize().unwrap().to_str().unwrap().to_owned();
        assert_eq!(git(folder, Some("v1")), (real.clone(), Some("v1".into()), None));
        assert_eq!(git(&format!("{folder}#v1"), None), (real.clone(), Some("v1".into()), None));
        assert_eq!(git(&format!("file://{folder}"), None), (real, None, None));
        let url = "https://example.com/a/b";
        assert_eq!(git(&format!("{url}#v1"), None), (url.into(), Some("v1".into()), None));
        assert_eq!(git("git@example.com:a/b.git", Some("x")).1, Some("x".into()));
        assert_eq!(
            git("https://github.com/a/b/tree/main/skills/pdf", None),
            ("https://github.com/a/b".into(), Some("main".into()), Some("skills/pdf".into()))
        );
        assert_eq!(git("https://gitlab.com/a/b/-/tree/v1", None).0, "https://gitlab.com/a/b");
    }

    #[test]
    fn what_is_neither_is_told_with_a_remedy() {
        for (text, told) in [
            ("./nothing", "there is no file or folder ./nothing"),
            ("http://example.com/a", "not over http"),
            ("ext::sh", "not over ext"),
            ("-x", "cannot begin with a dash"),
            ("https://example.com/a.tar.gz", "is an archive, no repository"),
            ("file:///nonexistent", "not over file"),
        ] {
            let failure = read(text, None).unwrap_err();
            assert!(failure.message.contains(told), "{text}: {}", failure.message);
        }
        assert!(read("https://example.com/a#v1", Some("v2")).is_err());
    }
}

//! `[model]`: the model endpoint, watched (systems.md A23).
//!
//! Pure.

use reqwest::Url;

use super::{
    keys,
    model::ModelEndpoint,
    reader::{Reader, Table},
};

/// What is asked for unless another path is written: Ollama's list of models.
const PATH: &str = "/api/tags";

/// Reads the section; none: nothing is watched.
pub(super) fn read(r: &mut Reader, root: &Table<'_, '_>) -> Option<ModelEndpoint> {
    let t = r.read(root, "model", Reader::open)?;
    for (key, field) in t.fields() {
        if keys::MODEL.iter().all(|known| known.name != key) {
            let message = format!("{} is not supported by this version yet: it has no effect", field.path);
            r.warn(&field.key, message, "remove it, or leave it for a later version");
        }
    }
    let path = r.read(&t, "path", |r, f| {
        let written = r.filled(f)?;
        let refused =
            || (format!("{} must begin with a slash", f.path), "write it like \"/api/tags\"".to_owned());
        r.accept(f, if written.starts_with('/') { Ok(written.to_owned()) } else { Err(refused()) })
    });
    let path = path.unwrap_or_else(|| PATH.to_owned());
    r.read(&t, "endpoint", |r, f| {
        let written = r.filled(f)?;
        let url = Url::parse(&format!("{}{path}", written.trim_end_matches('/')));
        let url = url.ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.host_str().is_some() && url.username().is_empty()
        });
        let help = "write it like \"http://127.0.0.1:11434\", without a name or a password";
        let refused = || (format!("{} is no http or https address", f.path), help.to_owned());
        let url = r.accept(f, url.ok_or_else(refused))?;
        Some(ModelEndpoint { url: url.to_string() })
    })
}

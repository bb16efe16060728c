//! The fate of every error of the Docker client, decided here and nowhere else.
//!
//! Whether it is worth another try is all that the rest of the program wants to know.

use std::time::Duration;

use bollard::errors::Error;

use super::{EngineError, Result};

/// The fate of every error of the client, decided here and nowhere else. `what` names the thing asked for.
pub(super) fn fate(what: &str, error: Error) -> EngineError {
    match error {
        Error::DockerResponseServerError { status_code: 404, message } => {
            EngineError::NotFound(missing_thing(what, &message))
        }
        Error::DockerResponseServerError { status_code: 409, message } => {
            EngineError::Conflict(format!("{what}: {message}"))
        }
        // A proxy before an engine that is away, and an engine that is going down.
        Error::DockerResponseServerError { status_code: status @ (502..=504), message } => {
            EngineError::Unavailable(format!("{what}: {status} {message}"))
        }
        Error::DockerResponseServerError { message, .. }
        | Error::DockerContainerWaitError { error: message, .. }
        | Error::DockerStreamError { error: message } => EngineError::Refused(format!("{what}: {message}")),
        Error::SocketNotFoundError(path) => EngineError::Unavailable(format!("there is no socket {path}")),
        error @ Error::UnsupportedURISchemeError { .. } => {
            EngineError::Refused(format!("{error}; DOCKER_HOST may be unix://, tcp:// or http://"))
        }
        // An answer that cannot be read is a disagreement about the API, not an outage.
        error @ (Error::JsonDataError { .. } | Error::JsonSerdeError { .. }) => {
            EngineError::Refused(format!("{what}: the engine's answer makes no sense: {error}"))
        }
        other => {
            let mut why = chain(&other);
            if why.contains("Permission denied") {
                why += " (the user needs to be in group docker, or root)";
            }
            EngineError::Unavailable(format!("{what}: {why}"))
        }
    }
}

/// The engine says in its message which of several things is missing.
fn missing_thing(what: &str, message: &str) -> String {
    if let Some(image) = message.strip_prefix("No such image: ") {
        format!("image {image}")
    } else if let Some(container) = message.strip_prefix("No such container: ") {
        format!("container {container}")
    } else if message.starts_with("network ") && message.ends_with(" not found") {
        message.trim_end_matches(" not found").to_owned()
    } else {
        what.to_owned()
    }
}

/// The client's transport errors keep the reason in their source.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(e) = source {
        let more = e.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = e.source();
    }
    text
}

/// A call that finds its work already done has succeeded.
pub(super) fn done_when(result: Result<()>, already: impl Fn(&EngineError) -> bool) -> Result<()> {
    match result {
        Err(e) if already(&e) => Ok(()),
        other => other,
    }
}

pub(super) fn late(what: &str, limit: Duration) -> EngineError {
    EngineError::Unavailable(format!("no answer about {what} within {limit:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(status_code: u16, message: &str) -> EngineError {
        let message = message.to_owned();
        fate("container a", Error::DockerResponseServerError { status_code, message })
    }

    #[test]
    fn every_error_has_one_fate() {
        assert!(matches!(
            server(404, "No such image: x:latest"),
            EngineError::NotFound(what) if what == "image x:latest"
        ));
        assert!(matches!(
            server(404, "network skep-x not found"),
            EngineError::NotFound(what) if what == "network skep-x"
        ));
        assert!(matches!(
            server(404, "?"),
            EngineError::NotFound(what) if what == "container a"
        ));
        assert!(matches!(server(409, "name in use"), EngineError::Conflict(_)));
        assert!(matches!(server(400, "bad"), EngineError::Refused(m) if m == "container a: bad"));
        assert!(matches!(server(500, "no"), EngineError::Refused(_)));
        assert!(matches!(server(503, "away"), EngineError::Unavailable(_)));
        let eof = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        assert!(matches!(fate("x", Error::from(eof)), EngineError::Unavailable(_)));
        assert!(matches!(fate("x", Error::RequestTimeoutError), EngineError::Unavailable(_)));
    }
}

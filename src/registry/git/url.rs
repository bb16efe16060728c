//! Which addresses of repositories are fetched from, and how one is shown.
//!
//! Pure. A URL reaches a command line and a program with many doors: what is not plainly https, ssh
//! or a folder that the operator named is refused here.

use std::fmt;

/// How a repository is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `https://…`
    Https,
    /// `ssh://…` or `user@host:path`
    Ssh,
    /// A folder of this machine that the operator named as one.
    File,
}

impl Protocol {
    /// What git may speak: the operator's own configuration may turn https into ssh, and back.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Https | Self::Ssh => "https:ssh",
            Self::File => "file",
        }
    }
}

/// Why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// It could be taken for an option.
    #[error("an address cannot begin with a dash")]
    Option,
    /// It holds what no address holds.
    #[error("an address cannot hold spaces, backslashes or control characters")]
    Characters,
    /// Not one of those that are spoken.
    #[error("repositories are fetched over https and ssh, not over {0}")]
    Protocol(String),
    /// Nothing that is known.
    #[error("it is no address of a repository: write it like https://host/path or git@host:path")]
    Unknown,
}

/// An address that may be fetched from. Shown without a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    protocol: Protocol,
}

impl Url {
    /// Reads an address as people write it.
    ///
    /// # Errors
    /// Which rule it breaks.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        if text.starts_with('-') {
            return Err(BadUrl::Option);
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(BadUrl::Characters);
        }
        // `transport::address` starts a program.
        if let Some((helper, _)) = text.split_once("::") {
            let helper = helper.to_owned();
            return Err(if is_scheme(&helper) { BadUrl::Protocol(helper) } else { BadUrl::Unknown });
        }
        let protocol = match text.split_once("://") {
            Some((scheme, rest)) => {
                let protocol = match scheme.to_ascii_lowercase().as_str() {
                    "https" => Protocol::Https,
                    "ssh" => Protocol::Ssh,
                    _ => return Err(BadUrl::Protocol(scheme.to_owned())),
                };
                check_host(rest.split('/').next().unwrap_or_default())?;
                protocol
            }
            None => {
                let (host, path) = text.split_once(':').ok_or(BadUrl::Unknown)?;
                if host.contains('/') || !host.contains('@') || path.is_empty() || path.starts_with('-') {
                    return Err(BadUrl::Unknown);
                }
                check_host(host)?;
                Protocol::Ssh
            }
        };
        Ok(Self { text: text.to_owned(), protocol })
    }

    /// A repository in a folder of this machine, given by its absolute path.
    ///
    /// # Errors
    /// It is none.
    pub fn local(path: &str) -> Result<Self, BadUrl> {
        if !path.starts_with('/') || path.chars().any(char::is_control) {
            return Err(BadUrl::Unknown);
        }
        Ok(Self { text: path.to_owned(), protocol: Protocol::File })
    }

    /// How it is reached.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The address with all that is in it.
    pub(super) fn as_given(&self) -> &str {
        &self.text
    }

    /// `user:password` or a token, as it stands before the host.
    fn user(&self) -> Option<&str> {
        let rest = self.text.split_once("://")?.1;
        Some(rest.split('/').next()?.rsplit_once('@')?.0)
    }

    /// Somebody's words, without what is secret in this address.
    pub(super) fn mask(&self, text: &str) -> String {
        match self.user() {
            Some(user) if self.protocol == Protocol::Https => text.replace(&format!("{user}@"), "***@"),
            Some(user) if user.contains(':') => text.replace(user, "***"),
            _ => text.to_owned(),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mask(&self.text))
    }
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// `user@host:port`; a host that begins with a dash would be an option of ssh.
fn check_host(host: &str) -> Result<(), BadUrl> {
    let (user, host) = host.rsplit_once('@').map_or(("", host), |(user, host)| (user, host));
    if user.starts_with('-') || host.starts_with('-') {
        return Err(BadUrl::Option);
    }
    if host.is_empty() { Err(BadUrl::Unknown) } else { Ok(()) }
}

/// Whether a text can name a branch, a tag or a commit, and nothing else on a command line of git.
#[must_use]
pub fn check_reference(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && !text.starts_with(['-', '+', '/'])
        && !text.contains("..")
        && !text.contains("@{")
        && !text.chars().any(|c| c.is_control() || c.is_whitespace() || ":^~?*[\\".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_and_ssh_are_addresses_and_nothing_that_starts_a_program_is() {
        for (text, protocol) in [
            ("https://example.com/a/b.git", Protocol::Https),
            ("HTTPS://example.com/a", Protocol::Https),
            ("https://me:token@example.com/a", Protocol::Https),
            ("ssh://git@example.com:2222/a", Protocol::Ssh),
            ("git@example.com:a/b.git", Protocol::Ssh),
        ] {
            assert_eq!(Url::parse(text).map(|u| u.protocol()), Ok(protocol), "{text}");
        }
        for (text, why) in [
            ("--upload-pack=touch /tmp/x", BadUrl::Option),
            ("ssh://-oProxyCommand=x/a", BadUrl::Option),
            ("ssh://git@-oProxyCommand=x/a", BadUrl::Option),
            ("-oProxyCommand=x@host:a", BadUrl::Option),
            ("git@-oProxyCommand=x:a", BadUrl::Option),
            ("git@host:-x", BadUrl::Unknown),
            ("ext::sh -c x", BadUrl::Characters),
            ("ext::sh", BadUrl::Protocol("ext".into())),
            ("https://a/b\n--x", BadUrl::Characters),
            ("http://example.com/a", BadUrl::Protocol("http".into())),
            ("git://example.com/a", BadUrl::Protocol("git".into())),
            ("file:///etc", BadUrl::Protocol("file".into())),
            ("https:///a", BadUrl::Unknown),
            ("example", BadUrl::Unknown),
            ("./a:b", BadUrl::Unknown),
        ] {
            assert_eq!(Url::parse(text), Err(why), "{text}");
        }
        assert_eq!(Url::local("/srv/a").map(|u| u.protocol()), Ok(Protocol::File));
        assert!(Url::local("srv/a").is_err());
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = Url::parse("https://me:s3cret@example.com/a").unwrap();
        assert_eq!(url.to_string(), "https://***@example.com/a");
        assert_eq!(
            url.mask("fatal: https://me:s3cret@example.com/a gone"),
            "fatal: https://***@example.com/a gone"
        );
        let token = Url::parse("https://ghp_x@example.com/a").unwrap();
        assert_eq!(token.to_string(), "https://***@example.com/a");
        assert_eq!(Url::parse("git@example.com:a").unwrap().to_string(), "git@example.com:a");
    }

    #[test]
    fn a_reference_is_a_name_and_no_option_refspec_or_expression() {
        for good in ["main", "v1.2.0", "feature/x-1", "0123456789abcdef0123456789abcdef01234567", "größe"] {
            assert!(check_reference(good), "{good}");
        }
        for bad in ["", "-x", "+main", "a:b", "main~1", "HEAD^", "a..b", "a b", "a@{1}", "x*", "/a"] {
            assert!(!check_reference(bad), "{bad}");
        }
    }
}

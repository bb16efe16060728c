//! Targets with their secrets put in, ready to be sent to.
//!
//! Made anew whenever the configuration or the secrets change. Nothing here can be printed: addresses hold tokens.

use std::{collections::BTreeSet, path::PathBuf};

use reqwest::{
    Method, Request, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use zeroize::Zeroizing;

use super::{guard::Guard, message::Notice, sign::Key};
use crate::{
    config::model::{Notify, NotifyTarget, NotifyTo},
    ids::SecretName,
    secrets::{SecretValue, mask::Masker, store::Secrets, template::Template},
};

/// Everything that notices may be sent to at one time.
pub struct Targets {
    all: Vec<Target>,
    pub(super) guard: Guard,
}

/// One target.
pub(super) struct Target {
    pub(super) name: String,
    /// Hides its secrets in whatever a server or an error says.
    pub(super) masker: Masker,
    endpoint: Result<Endpoint, String>,
}

/// Where a target is and how a request to it is made.
struct Endpoint {
    url: Url,
    headers: HeaderMap,
    form: Form,
}

enum Form {
    Webhook { key: Option<Key> },
    Telegram { chat_id: String },
    Ntfy { topic: String, priority: Option<u8> },
}

/// Which notice a request is for, and when it is made.
pub(super) struct Stamp {
    /// The same for every attempt, and for no other notice of any hive.
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) timestamp: i64,
}

impl Targets {
    /// Puts the secrets into the targets of `[notify]`.
    #[must_use]
    pub fn resolve(notify: &Notify, secrets: &Secrets) -> Self {
        let all = notify.targets.iter().map(|target| Target::resolve(target, secrets)).collect();
        Self { all, guard: Guard::new(&notify.allow) }
    }

    /// Trusts the certificate authorities in a PEM file, beside the system's (`[hive] ca_bundle`).
    #[must_use]
    pub fn trusting(mut self, bundle: Option<PathBuf>) -> Self {
        if let Some(bundle) = bundle {
            self.guard.trust(bundle);
        }
        self
    }

    /// The names of all targets.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|target| target.name.as_str())
    }

    /// Names of targets that nothing can be sent to as they are, each with the reason and the remedy.
    pub fn problems(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all.iter().filter_map(|t| Some((t.name.as_str(), t.endpoint.as_ref().err()?.as_str())))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Target> {
        self.all.iter().find(|target| target.name == name)
    }
}

/// Every secret that `[notify]` names.
#[must_use]
pub fn named_secrets(notify: &Notify) -> BTreeSet<SecretName> {
    notify.targets.iter().flat_map(|target| named_by(&target.to)).cloned().collect()
}

fn named_by(to: &NotifyTo) -> Vec<&SecretName> {
    match to {
        NotifyTo::Webhook { url, secret, headers } => {
            let templates = headers.values().chain([url]).flat_map(Template::secrets);
            secret.iter().chain(templates).collect()
        }
        NotifyTo::Telegram { token, .. } => vec![token],
        NotifyTo::Ntfy { token, .. } => token.iter().collect(),
    }
}

impl Target {
    fn resolve(target: &NotifyTarget, secrets: &Secrets) -> Self {
        let values: Vec<&SecretValue> =
            named_by(&target.to).into_iter().filter_map(|n| secrets.get(n)).collect();
        Self {
            name: target.name.clone(),
            masker: Masker::new(values),
            endpoint: Endpoint::resolve(&target.to, secrets),
        }
    }

    /// The request that brings a notice, or why none can be made as things are.
    pub(super) fn request(&self, notice: &Notice, stamp: &Stamp) -> Result<Request, String> {
        let endpoint = self.endpoint.as_ref().map_err(Clone::clone)?;
        let body = endpoint.body(notice).to_string();
        let mut request = Request::new(Method::POST, endpoint.url.clone());
        *request.headers_mut() = endpoint.headers.clone();
        let mut add = |name: &'static str, value: &str| {
            let value =
                HeaderValue::from_str(value).map_err(|_| format!("the header {name} cannot be written"));
            value.map(|value| drop(request.headers_mut().insert(name, value)))
        };
        if let Form::Webhook { key } = &endpoint.form {
            add("webhook-id", &stamp.id)?;
            add("webhook-timestamp", &stamp.timestamp.to_string())?;
            if let Some(key) = key {
                add("webhook-signature", &key.sign(&stamp.id, stamp.timestamp, &body))?;
            }
        }
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    /// Whether its answers are those of Telegram's Bot API.
    pub(super) fn is_telegram(&self) -> bool {
        matches!(&self.endpoint, Ok(Endpoint { form: Form::Telegram { .. }, .. }))
    }
}

impl Endpoint {
    fn resolve(to: &NotifyTo, secrets: &Secrets) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        let (url, form) = match to {
            NotifyTo::Webhook { url, secret, headers: written } => {
                for (name, value) in written {
                    let name = HeaderName::try_from(name).map_err(|_| format!("{name:?} is not a header"))?;
                    let value = header(&name, &filled(value, secrets)?)?;
                    headers.insert(name, value);
                }
                let key = secret.as_ref().map(|name| signing_key(name, secrets)).transpose()?;
                (address(&filled(url, secrets)?)?, Form::Webhook { key })
            }
            NotifyTo::Telegram { base_url, chat_id, token } => {
                let token = value(token, secrets)?;
                let mut url = address(base_url)?;
                let bot = Zeroizing::new(format!("bot{token}"));
                // As segments, so that nothing in a token can make it another path.
                url.path_segments_mut()
                    .map_err(|()| "its address takes no path".to_owned())?
                    .pop_if_empty()
                    .extend([bot.as_str(), "sendMessage"]);
                (url, Form::Telegram { chat_id: chat_id.clone() })
            }
            NotifyTo::Ntfy { url, topic, token, priority } => {
                if let Some(name) = token {
                    let bearer = Zeroizing::new(format!("Bearer {}", value(name, secrets)?));
                    headers.insert(AUTHORIZATION, header(&AUTHORIZATION, &bearer)?);
                }
                (address(url)?, Form::Ntfy { topic: topic.clone(), priority: *priority })
            }
        };
        Ok(Self { url, headers, form })
    }

    fn body(&self, notice: &Notice) -> Value {
        match &self.form {
            Form::Webhook { .. } => notice.webhook(),
            Form::Telegram { chat_id } => notice.telegram(chat_id),
            Form::Ntfy { topic, priority } => notice.ntfy(topic, *priority),
        }
    }
}

fn value<'s>(name: &SecretName, secrets: &'s Secrets) -> Result<&'s str, String> {
    secrets.get(name).map(SecretValue::expose).ok_or_else(|| not_set(name))
}

fn filled(template: &Template, secrets: &Secrets) -> Result<Zeroizing<String>, String> {
    template.fill(|name| secrets.get(name).map(SecretValue::expose)).map_err(|name| not_set(&name))
}

fn not_set(name: &SecretName) -> String {
    format!("the secret {name} is not set: set it with `skep secret set {name}`")
}

fn signing_key(name: &SecretName, secrets: &Secrets) -> Result<Key, String> {
    let wrong = || format!("the secret {name} begins with whsec_, but no base64 follows: set it anew");
    Key::of(value(name, secrets)?).ok_or_else(wrong)
}

fn address(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|_| "with its secrets, its address is none: set them anew".to_owned())
}

fn header(name: &HeaderName, value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| format!("with its secrets, the header {name} is more than a line: set them anew"))?;
    value.set_sensitive(true);
    Ok(value)
}

//! Signatures of webhooks as the Standard Webhooks specification 1.0 has them: HMAC-SHA256 over id, time and body.
//!
//! Pure. The key is wiped when it is dropped, and never printed.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// What a signing secret in the specification's own form begins with; base64 follows.
const PREFIX: &str = "whsec_";

/// A key that signs.
pub(super) struct Key(Zeroizing<Vec<u8>>);

impl Key {
    /// The key that a secret stands for: `whsec_` and base64, or its own bytes. None: what follows `whsec_` is not
    /// base64.
    pub(super) fn of(secret: &str) -> Option<Self> {
        match secret.strip_prefix(PREFIX) {
            Some(encoded) => {
                let key = STANDARD_NO_PAD.decode(encoded.trim_end_matches('=')).ok()?;
                Some(Self(Zeroizing::new(key)))
            }
            None => Some(Self(Zeroizing::new(secret.as_bytes().to_vec()))),
        }
    }

    /// The value of `webhook-signature` for a message with this id, sent at this time (seconds since 1970).
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_of_the_specifications_example() {
        let key = Key::of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_without_the_prefix_is_taken_as_it_is() {
        // What openssl says: printf 'a.1.b' | openssl dgst -sha256 -hmac secret -binary | base64
        let told = "v1,SAyJuxIdtc2czD66EmQGTpUrSt0u5XRA9b6jhHWfiFs=";
        assert_eq!(Key::of("secret").unwrap().sign("a", 1, "b"), told);
        assert!(Key::of("whsec_not base64!").is_none());
    }
}

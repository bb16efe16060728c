//! Which cryptography HTTP clients of this process use. Chosen once: the library that they share has no default.

/// Chooses; calling it again changes nothing. Call it before a client is built.
pub fn install() {
    // An error says that it was chosen already.
    drop(rustls::crypto::ring::default_provider().install_default());
}

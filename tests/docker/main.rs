//! Tests that need a real container engine.

mod bare;
mod init;

//! `skep.toml`: read whole, checked whole, refused whole.
//!
//! The only module that reads environment variables.

pub mod model;

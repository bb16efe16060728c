//! `skep.toml`: read whole, checked whole, refused whole.
//!
//! [`parse`] is pure and answers with every mistake at once; [`load`] adds what needs the file
//! system. [`env`] is the only place that reads environment variables.

mod agent;
mod check;
pub mod diff;
pub mod env;
mod jobs;
pub mod keys;
pub mod load;
pub mod model;
mod notify;
mod parse;
mod preflight;
mod reader;
pub mod render;
mod runs;
mod tools;
pub mod units;
mod values;
mod watched;

#[cfg(test)]
mod tests;

pub use diff::{Changes, changed};
pub use env::Env;
pub use load::{ConfigError, Loaded, load};
pub use model::Config;
pub use parse::parse;
pub use render::render;

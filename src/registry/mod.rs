//! The registry: which skills and versions exist, and their immutable bytes.
//!
//! `index` is pure; `store` alone touches the file system.

pub mod index;

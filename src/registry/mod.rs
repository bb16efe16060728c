//! The registry: which skills and versions exist, and their immutable bytes.
//!
//! `index` and `names` are pure. Bytes come in through `safe_copy`, which looks at a folder once and
//! trusts nothing twice, and stay in `store`; `file` is a view for people and other programs.

pub mod archive;
pub(crate) mod beneath;
pub mod builtin;
pub mod file;
pub mod git;
pub mod index;
mod intake;
pub mod names;
pub mod notice;
mod rejection;
pub mod safe_copy;
pub mod sources;
pub mod staging;
pub mod store;

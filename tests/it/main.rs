//! The program as people run it.
#![allow(clippy::unwrap_used)]

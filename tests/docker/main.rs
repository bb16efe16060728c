//! Tests that need a real container engine.

mod engine;
mod network;
mod packages;
mod support;

//! Tests that need a real container engine.
#![allow(clippy::unwrap_used, reason = "helpers of tests are not seen as tests")]

mod agents;
mod bare;
mod crash;
mod door;
mod engine;
mod engine_faults;
mod faults;
mod gvisor;
mod hive;
mod hostile;
mod init;
mod network;
mod outage;
mod packages;
mod proxy;
mod support;

//! Tests that need a real container engine.
#![allow(clippy::unwrap_used, reason = "helpers of tests are not seen as tests")]

mod agent_tier;
mod agents;
mod backup;
mod bare;
mod clients;
mod clis;
mod crash;
mod custom;
mod custom_faults;
mod documents;
mod door;
mod engine;
mod engine_faults;
mod faults;
mod front;
mod gvisor;
mod hive;
mod hostile;
mod init;
mod jobs;
mod jobs_faults;
mod judged;
mod mail;
mod memory;
mod network;
mod notices;
mod outage;
mod packages;
mod proxy;
mod run_tools;
mod skills;
mod support;
mod tools;
mod vars;
mod work;

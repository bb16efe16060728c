//! `[runs]`: how much runs at the same time, and how long output and history are kept.
//!
//! Pure.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    agent::size,
    jobs::{count, duration},
    keys,
    model::Runs,
    reader::{Reader, Table},
    units::format_size,
};

/// Runs at the same time.
const RUNNING: RangeInclusive<i64> = 1..=10_000;
/// How long something is kept; a hundred years at most.
const KEPT: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(36_500 * 86_400);

/// Reads the section.
pub(super) fn read(r: &mut Reader, root: &Table<'_, '_>) -> Runs {
    let ours = Runs::default();
    let Some(t) = r.read(root, "runs", |r, f| r.table(f, keys::RUNS)) else {
        return ours;
    };
    let runs = Runs {
        max_running: r.read(&t, "max_running", |r, f| count(r, f, &RUNNING)).unwrap_or(ours.max_running),
        max_running_per_agent: r
            .read(&t, "max_running_per_agent", |r, f| count(r, f, &RUNNING))
            .unwrap_or(ours.max_running_per_agent),
        output: r
            .read(&t, "output", |r, f| size(r, f, 4096, "an error message would not fit"))
            .unwrap_or(ours.output),
        keep_output: r.read(&t, "keep_output", |r, f| duration(r, f, &KEPT)).unwrap_or(ours.keep_output),
        keep_output_size: r
            .read(&t, "keep_output_size", |r, f| size(r, f, 4096, "no output would be kept"))
            .unwrap_or(ours.keep_output_size),
        keep_history: r.read(&t, "keep_history", |r, f| duration(r, f, &KEPT)).unwrap_or(ours.keep_history),
    };
    together(r, &t, &runs);
    runs
}

/// What the limits mean for each other.
fn together(r: &mut Reader, t: &Table<'_, '_>, runs: &Runs) {
    if let Some(f) =
        t.field("max_running_per_agent").filter(|_| runs.max_running_per_agent > runs.max_running)
    {
        let message = format!("{} is more than the {} of the whole hive", f.path, runs.max_running);
        r.warn(&f.span(), message, "raise runs.max_running, or lower it");
    }
    let size_field = t.field("keep_output_size").or_else(|| t.field("output"));
    if let Some(f) = size_field.filter(|_| runs.keep_output_size < runs.output) {
        let (all, one) = (format_size(runs.keep_output_size), format_size(runs.output));
        let message = format!("runs.keep_output_size, {all}, does not hold the output of one run, {one}");
        r.fault(&f.span(), message, "raise runs.keep_output_size, or lower runs.output");
    }
    if let Some(f) = t.field("keep_output").filter(|_| runs.keep_output > runs.keep_history) {
        let message = format!("{} is longer than keep_history: output goes with its run", f.path);
        r.warn(&f.span(), message, "raise runs.keep_history, or lower it");
    }
}

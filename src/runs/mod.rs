//! One execution of a job: its states, its queue, its output.
//!
//! `state` and `result` are pure. Rows are in `db::runs`; what starts and watches processes is `app::runs`.

pub mod result;
pub mod state;

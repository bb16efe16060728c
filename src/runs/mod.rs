//! One execution of a job: its states, its queue, its output.
//!
//! `state`, `result` and `refusal` are pure. Rows are in `db::runs`; what starts and watches processes is `app::runs`.

pub mod refusal;
pub mod result;
pub mod state;

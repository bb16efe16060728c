//! Which version of each skill an agent gets: exact, ranges and dependencies solved together.
//!
//! Pure: index, references and lock in; locked versions or an explanation out.

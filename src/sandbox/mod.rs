//! What goes into a container: its specification, the prompt, the `/skills` view.

pub mod container;
pub mod describe;
pub mod generated;
pub mod prompt;
pub mod spec;
pub mod usage;
pub mod view;
pub mod workspace;

//! What goes into a container: its specification, the prompt, the `/skills` view.

pub mod container;
pub mod spec;

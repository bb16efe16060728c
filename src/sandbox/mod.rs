//! What goes into a container: its specification, the prompt, the `/skills` view.

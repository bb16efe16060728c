//! Secrets: where they are kept, who is granted which, and how they stay out of every output.

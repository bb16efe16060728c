//! Secrets: where they are kept, who is granted which, and how they stay out of every output.
//!
//! A value leaves this module only through [`SecretValue::expose`], which the code that hands it
//! to an agent's init calls. It is never printed, serialised, logged or stored in the database.

mod env_json;
pub mod grants;
pub mod mask;
mod patterns;
pub mod store;
pub mod template;
mod value;

pub use value::{InvalidValue, MAX_VALUE, SecretValue};

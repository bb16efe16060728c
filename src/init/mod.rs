//! The supervisor's end of the wire to the inits, and the init program itself.

pub mod binary;
pub mod door;
pub mod link;
pub mod module;
pub mod peer;
pub mod trees;

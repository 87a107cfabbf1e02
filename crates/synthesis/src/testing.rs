//! What the tests of this crate need of its inner parts. It is no interface: no other crate uses
//! it.

pub use crate::timed::Timed;

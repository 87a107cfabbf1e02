//! Emission: rounds as operations of the roles of a region, in one of three forms.

mod collective;
mod concrete;
mod emitter;
mod pull;
mod request;
mod rounds;

pub use collective::collective;
pub use request::{Arg, Request};

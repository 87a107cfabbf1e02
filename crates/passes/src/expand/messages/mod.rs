//! Structure of messages: who sends what to whom, as expressions of both ends, the numbers of
//! messages and slots, and the properties that every rank must satisfy.

mod ends;
mod enumerate;
mod forms;
mod inverse;
pub(in crate::expand) mod legal;
mod message;
mod numbering;

pub(in crate::expand) use ends::{End, at_owner};
pub(in crate::expand) use forms::{Form, tidy};
pub(in crate::expand) use inverse::Candidates;
pub(in crate::expand) use legal::Legal;
pub(in crate::expand) use message::{Landing, Message};
pub(in crate::expand) use numbering::Numbers;

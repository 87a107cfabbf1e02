//! What the unit tests in `tests/units` need of the inner parts of this crate. It is no interface:
//! no other crate uses it.

pub use crate::chains::{Chains, Link};
pub use crate::clock::{Clock, Recent};
pub use crate::filled::{Memory, Runs, Writer};
pub use crate::group::{Digit, Group};
pub use crate::ranks::{Ranks, Rotation};
pub use crate::sparse::Sparse;
pub use crate::typing::{Env, Ty, Val};
pub use crate::waits::{Wait, Waits};

//! Emission for a target: from a proven schedule to the folder of a package.

pub mod places;
pub mod sizes;

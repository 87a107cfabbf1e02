//! Tests of this crate with a device that is no target: one module per subject.

mod device;
mod kernels;
mod units;

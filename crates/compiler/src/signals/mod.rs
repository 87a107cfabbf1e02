//! Signals: how many notifies, waits, fences and credits algorithms and schedules have.

pub mod algorithms;
pub mod schedule;

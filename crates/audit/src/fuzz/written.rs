//! Hand-written schedules that the checker's fuzzer mutates, of kinds that its generator does not
//! make.
//!
//! They have scratch that is cut unevenly or forwarded, blocks that are packed by another rule than
//! the even one, a region without a contract on ten ranks, and a stream that leaves its region
//! late.

use kbc_diag::FileId;
use kbc_ir::schedule::Schedule;
use kbc_ir::text::parse;

/// Their texts.
pub const TEXTS: [&str; 5] = [
    include_str!("written/exchange.kir"),
    include_str!("written/forward_scratch.kir"),
    include_str!("written/late_stream.kir"),
    include_str!("written/packed_ceil.kir"),
    include_str!("written/parts_in_scratch.kir"),
];

/// Number of copies of each schedule in the pool, which also has some hundred generated programs.
pub const OFTEN: usize = 12;

/// Returns all of them.
pub fn schedules() -> Vec<Schedule> {
    let read = TEXTS.iter().filter_map(|text| parse(FileId(0), text).ok()?.schedule().cloned());
    read.flat_map(|s| vec![s; OFTEN]).collect()
}

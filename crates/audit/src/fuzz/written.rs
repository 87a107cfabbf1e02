//! Hand-written schedules that the checker's fuzzer mutates, of kinds that its generator does not
//! make.
//!
//! They have scratch that is cut unevenly or forwarded, blocks that are packed by another rule than
//! the even one, a region without a contract on ten ranks, and a stream that leaves its region
//! late.

use kbc_diag::FileId;
use kbc_ir::schedule::Schedule;
use kbc_ir::text::parse;

const TEXTS: [&str; 5] = [
    include_str!("written/exchange.kir"),
    include_str!("written/forward_scratch.kir"),
    include_str!("written/late_stream.kir"),
    include_str!("written/packed_ceil.kir"),
    include_str!("written/parts_in_scratch.kir"),
];

/// Number of copies of each schedule in the pool, which also has some hundred generated programs.
const OFTEN: usize = 12;

/// Returns all of them.
pub fn schedules() -> Vec<Schedule> {
    let read = TEXTS.iter().filter_map(|text| parse(FileId(0), text).ok()?.schedule().cloned());
    read.flat_map(|s| vec![s; OFTEN]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kbc_checker::{CheckOptions, check};
    use kbc_ir::verify::verify;

    /// A schedule that is changed at random must be correct before the change.
    #[test]
    fn what_is_written_by_hand_is_right() {
        assert_eq!(schedules().len(), TEXTS.len() * OFTEN, "each of them can be read");
        for text in TEXTS {
            let module = parse(FileId(0), text).expect("a schedule");
            let found = verify(&module);
            assert!(found.list.is_empty(), "{text}\n{:?}", found.list);
            let verdict = check(module.schedule().expect("a schedule"), &CheckOptions::default());
            assert!(verdict.ok(), "{text}\n{:?}", verdict.errors.list);
        }
    }
}

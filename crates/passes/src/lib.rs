//! Passes: the path from the graph of a program to a schedule, with one module per pass.
//!
//! This crate owns the passes and the pass manager (records, pipelines, observers, the table of
//! passes). The data that passes rewrite belongs to `kbc-ir`, algorithms and their meaning to
//! `kbc-rounds`, and files and the clock to the driver. No pass knows which backend follows.

pub mod allocate;
pub mod cost;
pub mod enqueue;
pub mod expand;
pub mod findings;
mod fresh;
pub mod fuse;
mod groups;
pub mod infer;
pub mod instrument;
mod late;
pub mod lower_queues;
pub mod order;
pub mod overlap;
pub mod packed;
pub mod part_of;
pub mod pass;
pub mod pipeline;
pub mod place;
pub mod registry;
pub mod reshard;
pub mod select;
pub mod standalone;
pub mod synchronize;
#[doc(hidden)]
pub mod testing;
mod turns;

pub use findings::Findings;
pub use pass::{Changed, Options, OrderModel, Pass, PassCx, PassInfo, PassOption, RankingStore, TimeModel};
pub use pipeline::Pipeline;
pub use registry::Entry;

/// All passes, in the order in which they usually run. `kbc list passes` prints them. A pass is a
/// module and an entry here.
pub static ALL: &[Entry] = &[
    Entry { info: &infer::INFO, make: |_| Box::new(infer::Infer), source: include_str!("infer/mod.rs") },
    Entry { info: &place::INFO, make: |_| Box::new(place::PlacePass), source: include_str!("place.rs") },
    Entry { info: &fuse::INFO, make: |o| Box::new(fuse::Fuse::new(o)), source: include_str!("fuse.rs") },
    Entry {
        info: &select::INFO,
        make: |o| Box::new(select::Select::new(o)),
        source: include_str!("select.rs"),
    },
    Entry {
        info: &overlap::INFO,
        make: |o| Box::new(overlap::Overlap::new(o)),
        source: include_str!("overlap/mod.rs"),
    },
    Entry {
        info: &expand::INFO,
        make: |o| Box::new(expand::Expand::new(o)),
        source: include_str!("expand/mod.rs"),
    },
    Entry {
        info: &allocate::INFO,
        make: |_| Box::new(allocate::Allocate),
        source: include_str!("allocate.rs"),
    },
    Entry {
        info: &synchronize::INFO,
        make: |_| Box::new(synchronize::Synchronize),
        source: include_str!("synchronize.rs"),
    },
    Entry {
        info: &enqueue::INFO,
        make: |o| Box::new(enqueue::Enqueue::new(o)),
        source: include_str!("enqueue/mod.rs"),
    },
    Entry {
        info: &lower_queues::INFO,
        make: |_| Box::new(lower_queues::LowerQueues),
        source: include_str!("lower_queues/mod.rs"),
    },
];

/// Returns the pass of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.info.name == name)
}

//! Tests of kbc as a whole; one binary, a module per subject.

#[path = "common/cases.rs"]
mod cases;
mod common;
#[path = "real/driver.rs"]
mod driver;
#[path = "common/emitted.rs"]
mod emitting;
#[path = "common/fields.rs"]
mod fields;
#[path = "torch/injected.rs"]
mod injected;
#[path = "common/needs.rs"]
mod needs;
#[path = "common/perfetto.rs"]
mod perfetto;
#[path = "common/standin.rs"]
mod standin;
#[path = "common/temporaries.rs"]
mod temporaries;
#[path = "../crates/ir/tests/validate.rs"]
mod validate;

mod additions;
mod ascend;
mod bad;
mod bench_ccl;
mod bench_host;
mod bench_scale;
mod circles;
mod cli;
mod compare;
mod completions;
mod counts;
mod crash;
mod diagnostics;
mod docs;
mod elsewhere;
mod emitted;
mod emitted_layers;
mod emitted_matmuls;
mod emitted_pieces;
mod emitted_pulled;
mod emitted_random;
mod emitted_roots;
mod emitted_rows;
mod examples;
mod exec;
mod features;
mod fmt;
mod host;
mod host_programs;
mod hostile;
mod jit_alone;
mod kernbench;
mod launch;
mod layers;
mod library_everywhere;
mod links;
mod local;
mod lowered;
mod machine;
mod moves;
mod mpi;
mod mutate;
mod opt;
mod order;
mod overlap;
mod packages;
mod page;
mod pages;
mod plot;
mod propagation;
mod real_array;
mod real_input;
mod record;
mod reference;
mod relays;
mod report;
mod repro;
mod searched_trees;
mod skips;
mod spanning_trees;
mod specs;
mod sweep;
mod sweep_jobs;
mod sweep_measured;
mod synth;
mod tidy;
mod tiles;
mod time;
mod topologies;
mod torch;
mod traffic;
mod units;
mod verbs;

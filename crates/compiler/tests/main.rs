//! Tests of the compiler as a library: the steps of a client, its errors and its limits, with
//! sources in memory.

mod client;
mod explained;
mod failures;
mod rankings;
mod texts;
mod units;

use kbc_compiler::{Built, Options, Source, Workspace, compile};

/// A program in which contributions become a sum on every rank.
const SUM: &str = "
topology sys = ring(4) { link: 50 GB/s, 500 ns }
mesh m = sys[tp]
program total(x: f32[1000] partial(sum@tp)) -> f32[1000] { x }
";

/// Returns a workspace that holds the text as `p.kb`.
fn workspace(text: &str) -> Workspace {
    let mut workspace = Workspace::default();
    workspace.give("p.kb", text);
    workspace
}

/// Compiles a text with these passes.
fn built(workspace: &mut Workspace, passes: &str) -> Built {
    compile(workspace, &Source::of("p.kb"), &Options { passes: passes.into() }).expect("it compiles")
}

//! Collectives as transfers: every collective becomes a region whose roles move chunks, every run of local operations
//! a region of its own.
//!
//! The algorithm's rounds become operations in program order: sends, local moves, receives. Every message gets a slot
//! of its own in a window, and its four points (`reserve`, `publish`, `expect`, `free`) stay marks. Loops stay loops
//! and ranks stay symbolic wherever the text allows; where not, steps are unrolled (up to 4096 transfers), and last a
//! role a rank is written out (up to 40,000 pieces), each with an error above its limit.
//!
//! Not done here: how many slots a window needs across calls (`allocate`), signals and fences (`synchronize`).

mod body;
mod collective;
mod concrete;
mod emit;
mod lower;
mod message;
mod promise;
mod region;
mod sym;
mod view;

pub use collective::{Arg, Request, collective};

use crate::pass::{Changed, Pass, PassCx, PassInfo, graph_of};
use kbc_diag::Diagnostics;
use kbc_ir::module::Body;
use kbc_ir::{Module, Props};

/// The record of `expand`.
pub static INFO: PassInfo = PassInfo {
    name: "expand",
    summary: "Collectives become regions of transfers, local operations regions of their own",
    requires: Props::TYPED.with(Props::PLACED).with(Props::SELECTED),
    gives: Props::EXPANDED,
    breaks: Props::TYPED.with(Props::PLACED).with(Props::SELECTED),
    options: &[],
};

/// The pass.
pub struct Expand;

impl Pass for Expand {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let (name, mesh) = (module.name.clone(), module.mesh.clone());
        let graph = graph_of(module, &INFO)?;
        let schedule = lower::lower(&name, graph, &mesh, cx.library)?;
        module.body = Body::Schedule(schedule);
        Ok(Changed::Yes)
    }
}

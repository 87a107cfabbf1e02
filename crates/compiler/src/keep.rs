//! Keep: the graph as it was after the passes of the graph level.

use kbc_diag::Diagnostics;
use kbc_ir::graph::Graph;
use kbc_ir::local::Local;
use kbc_ir::{Body, Module};
use kbc_passes::Changed;
use kbc_passes::instrument::{Instrument, PipelineStep};

/// Keeps the graph after the passes of the graph level.
#[derive(Default)]
pub(crate) struct GraphRecorder {
    /// After `infer`.
    pub(crate) typed: Option<Graph>,
    /// After `select`.
    pub(crate) placed: Option<Graph>,
    /// After `overlap`.
    pub(crate) arranged: Option<Graph>,
    /// The local program after the last of these passes.
    pub(crate) local: Option<Local>,
}

impl Instrument for GraphRecorder {
    fn after(&mut self, step: PipelineStep<'_>, module: &Module, _: Changed) -> Result<(), Diagnostics> {
        if let Body::Graph(g) = &module.body {
            match step.info.name {
                "infer" => self.typed = Some(g.clone()),
                "select" => self.placed = Some(g.clone()),
                "overlap" => self.arranged = Some(g.clone()),
                _ => {}
            }
        }
        if let (Body::Local(l), "infer" | "select") = (&module.body, step.info.name) {
            self.local = Some(l.clone());
        }
        Ok(())
    }
}

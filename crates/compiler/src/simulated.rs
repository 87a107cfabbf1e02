//! Simulated times for passes: the time model of the event engine.

use kbc_diag::Diagnostics;
use kbc_ir::Module;
use kbc_machine::topology::Topology;
use kbc_passes::TimeModel;
use kbc_time::{TimeOptions, simulate};

/// Times of schedules on a machine.
pub struct Simulated<'a> {
    /// The machine.
    pub topology: &'a Topology,
}

impl TimeModel for Simulated<'_> {
    fn nanoseconds(&self, module: &Module) -> Result<f64, Diagnostics> {
        match module.schedule() {
            Some(schedule) => {
                let options = TimeOptions { path: false, ..TimeOptions::default() };
                Ok(simulate(schedule, self.topology, &options)?.ns)
            }
            None => Ok(0.0),
        }
    }
}

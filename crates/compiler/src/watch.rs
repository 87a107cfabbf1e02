//! Watch: the events of a compilation that a caller can observe, between passes and between steps.

use kbc_diag::Diagnostics;
use kbc_passes::instrument::Instrument;
use kbc_tiles::tile::Kernel;

/// Hears of the passes and steps of a compilation. Each method has a default that ignores it.
pub trait Watch {
    /// Checks, before the first pass of graph and schedule, whether the compilation may begin.
    ///
    /// # Errors
    /// Returns the error of a wrong request of the caller, such as an unknown pass.
    fn ready(&self) -> Result<(), Diagnostics> {
        Ok(())
    }

    /// Returns the instruments that look at the module between passes of graph and schedule.
    fn instruments(&mut self) -> Vec<&mut dyn Instrument> {
        vec![]
    }

    /// Notes that these passes are over, also where one of them failed.
    ///
    /// # Errors
    /// What was seen cannot be stored.
    fn passed(&mut self) -> Result<(), Diagnostics> {
        Ok(())
    }

    /// Notes that a step of emission or execution begins.
    fn begins(&mut self) {}

    /// Notes that the step that began last is over.
    fn ends(&mut self, step: &str) {
        let _ = step;
    }

    /// Whether [`Watch::kernel`] compares kernels.
    fn compares(&self) -> bool {
        false
    }

    /// Shows the kernel after a pass of the tile level, with the one before if
    /// [`Watch::compares`] asks for it.
    fn kernel(&mut self, pass: &str, before: Option<&Kernel>, kernel: &Kernel) {
        let _ = (pass, before, kernel);
    }
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}

//! Ascend backend: emits proven schedules as AIV and AIC kernels, with orchestration code and a
//! test harness.
//!
//! The crate owns what is particular to these targets: their facts, the choice of instructions, the
//! passes that place flags and fences, the C++ text, and the files of a package.
//! [`kbc_tiles`] owns what all backends share, and the interface that [`ASCEND`] implements. The
//! crate knows neither the passes of the compiler nor the front end, and it accesses no files; the
//! driver reads and writes them.

mod backend;
pub mod cpp;
pub mod elementwise;
pub mod package;
pub mod passes;
pub mod profile;

pub use backend::ASCEND;
pub use kbc_tiles::{args, family};

/// The tile level, with the text of this backend.
pub mod tile {
    pub use kbc_tiles::tile::*;

    /// Parser of the text of kernels.
    pub mod parse {
        use crate::profile::DIALECT;
        use kbc_diag::{Diagnostics, FileId};
        use kbc_tiles::tile::{Kernel, parse};

        /// Parses the text of a kernel.
        ///
        /// # Errors
        /// Returns the errors of the parser.
        pub fn parse(text: &str, file: FileId) -> Result<Kernel, Diagnostics> {
            parse::parse(text, file, &DIALECT)
        }
    }
}

/// Lowering for this backend; all profiles lower alike.
pub mod lower {
    use crate::profile::PROFILES;
    use kbc_diag::Diagnostics;
    use kbc_ir::schedule::Schedule;
    use kbc_tiles::tile::Kernel;

    pub use crate::elementwise;
    pub use kbc_tiles::lower::{Counts, Places, Staging, fit_tiles};

    /// Returns the kernel of a schedule.
    ///
    /// # Errors
    /// Returns the errors of lowering.
    pub fn lower(schedule: &Schedule, staging: Staging, places: Places<'_>) -> Result<Kernel, Diagnostics> {
        kbc_tiles::lower::lower(schedule, staging, places, &PROFILES[0])
    }

    /// Returns the kernel of a schedule for counting.
    ///
    /// # Errors
    /// Returns the errors of lowering.
    pub fn counts(schedule: &Schedule) -> Result<Counts, Diagnostics> {
        kbc_tiles::lower::counts(schedule, &PROFILES[0])
    }
}

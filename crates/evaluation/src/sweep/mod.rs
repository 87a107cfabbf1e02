//! Sweeps: grids of runs that a file describes (docs/reference/sweep.md).
//!
//! * [`spec`] owns the format of the file, [`grid`] its rows, and [`request`] what a row asks for.
//! * [`row`] owns the facts of a row, [`cache`] their storage, and [`run`] the parallel execution
//!   of rows. [`measured`] makes facts of what the processes of a row printed.
//! * [`columns`] owns the columns of every sweep, [`table`] the text forms of rows, [`figures`] the
//!   charts, and [`merge`] the merging of shards.
//! * [`jobs`] writes a sweep as jobs of a cluster.
//! * [`load`] reads a sweep file with all that it names.

pub mod cache;
pub mod columns;
pub mod figures;
pub mod grid;
pub mod jobs;
pub mod listening;
pub mod load;
pub mod measured;
pub mod merge;
pub mod request;
pub mod row;
pub mod run;
pub mod spec;
pub mod table;

pub use grid::Grid;
pub use request::{RowEngine, RowRequest};
pub use row::{Facts, Status};
pub use spec::Spec;

//! What the unit tests in `tests/units` need of the inner parts of this crate. It is no interface:
//! no other crate uses it.

use crate::bounds::{self, Problem};
use crate::topology::Topology;

pub use crate::bounds::strength::{Graph, partition};

/// Returns the bandwidth row of an all-reduce over the partition that the search finds, in ns.
pub fn strongest_partition(topo: &Topology, problem: &Problem) -> f64 {
    bounds::strongest_partition(topo, problem)
}

/// Returns the time in ns of the best of the cuts that are evaluated without a search.
pub fn evaluated_cut(topo: &Topology, problem: &Problem) -> Option<f64> {
    bounds::evaluated_cut(topo, problem)
}

/// Returns the time in ns of the best cut that the search finds, and whether it is the best of all.
pub fn searched_cut(topo: &Topology, problem: &Problem) -> (Option<f64>, bool) {
    bounds::searched_cut(topo, problem)
}

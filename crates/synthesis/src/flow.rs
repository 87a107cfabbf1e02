//! Flow results: paths of an all-to-all, the load of every edge, and the proof of the rate.
//!
//! All of it is plain data with exact numbers, so that it can be checked without this crate.

use crate::exact::ExactRatio;

/// A path of a pair, and its share of the pair's demand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowPath {
    /// The messages of the path, from the source on. Each lists the nodes from the member that
    /// sends to the member that receives. All between these only forward; a member in the middle of
    /// the path stores the data and sends it on.
    pub hops: Vec<Vec<usize>>,
    /// Shares of the pair's demand; larger than 0.
    pub shares: u64,
}

/// What one member sends to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairFlow {
    /// Member that sends.
    pub source: usize,
    /// Member that receives.
    pub destination: usize,
    /// Amount of data, in the unit of the demands; larger than 0. An all-to-all has 1 for each
    /// pair.
    pub demand: u64,
    /// The paths. Their shares add up to [`AllToAllFlow::shares`].
    pub paths: Vec<FlowPath>,
}

/// An edge of the network: what it carries, and its length in the proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowEdge {
    /// Node that sends.
    pub from: usize,
    /// Node that receives.
    pub to: usize,
    /// Capacity, as in the network.
    pub capacity: u64,
    /// Sum of demand times shares over the paths that take the edge.
    pub load: u128,
    /// Length of the edge in the proof.
    pub length: u64,
}

/// Paths for an all-to-all or all-to-all(v), and the proof of how good they are.
///
/// The rate r says how fast the demands are met: in each unit of time, each pair of demand d sends
/// the amount r d. The whole takes the time 1 / r.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllToAllFlow {
    /// Shares into which the demand of each pair is divided.
    pub shares: u64,
    /// The rate that the paths reach: the least `capacity * shares / load` of all edges.
    pub rate: ExactRatio,
    /// No flow has a higher rate: `capacity_length / demand_length`. At rate r the flows of all
    /// pairs together use at least `r * demand * distance` of the sum of `capacity * length`,
    /// whatever the lengths are.
    pub bound: ExactRatio,
    /// Sum of capacity times length over all edges.
    pub capacity_length: u128,
    /// Sum over all pairs of the demand times the distance from source to destination, in the
    /// lengths of the edges.
    pub demand_length: u128,
    /// The members in ascending order.
    pub members: Vec<usize>,
    /// The pairs with demand, ordered by (source, destination).
    pub pairs: Vec<PairFlow>,
    /// The edges of the network, ordered by (from, to).
    pub edges: Vec<FlowEdge>,
}

impl AllToAllFlow {
    /// Returns the rate that is reached divided by the bound. It is at most 1.
    pub fn gap(&self) -> f64 {
        self.rate.to_f64() / self.bound.to_f64()
    }
}

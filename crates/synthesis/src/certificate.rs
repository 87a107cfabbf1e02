//! What synthesis returns: trees, their routes, the load of every edge, and the proof that no rate
//! is higher.
//!
//! All of it is plain data, so that it can be checked without this crate's algorithms. Amounts are
//! counted in *trees*: one tree carries one equal share of a root's data.

use crate::exact::ExactRatio;

/// Which way data moves along the trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeDirection {
    /// From the root to all members: all-gather and broadcast.
    FromRoot,
    /// From all members to the root: reduce-scatter and reduce.
    ToRoot,
}

/// A set of nodes over whose boundary the data must move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TightCut {
    /// The nodes in ascending order. At least one member is missing.
    ///
    /// Data leaves the set if trees lead from the root, and enters it if they lead to the root.
    pub nodes: Vec<usize>,
    /// Sum of the weights of the roots in the set: for an all-gather the number of members, for a
    /// broadcast 1.
    pub weight: u128,
    /// Capacity of the network's edges over which the data crosses the boundary.
    pub capacity: u128,
}

/// Why no rate is higher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RateProof {
    /// No rate is higher: all data of the roots inside crosses the boundary at least once, and the
    /// rate is `capacity / weight` exactly.
    Cut(TightCut),
    /// No rate is higher with this number of trees per root and whole trees on every edge.
    WholeTrees {
        /// The boundary. Its `capacity` is counted in whole trees at the scale `below`.
        cut: TightCut,
        /// The largest number below the scale at which the whole trees of some edge change. With it
        /// the boundary carries fewer trees than the roots inside send.
        below: ExactRatio,
    },
}

/// The best rate of a collective, without trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BestRate {
    /// Data that each root of weight 1 can send (or receive) per unit of time, in the unit of the
    /// capacities. For an all-gather of p members the algorithm bandwidth is p times the rate.
    pub rate: ExactRatio,
    /// Why no rate is higher.
    pub cut: TightCut,
}

/// Trees of one root that are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeClass {
    /// The root.
    pub root: usize,
    /// How many trees are alike; larger than 0.
    pub trees: u128,
    /// The edges of the tree: one for each member except the root. An edge comes after the edge of
    /// its end that is nearer to the root.
    pub edges: Vec<TreeEdge>,
}

impl TreeClass {
    /// Returns the length of the longest path to or from the root, in edges of the tree.
    pub fn depth(&self) -> usize {
        let mut depths = std::collections::BTreeMap::from([(self.root, 0usize)]);
        for e in &self.edges {
            // One of the ends has been seen: the one that is nearer to the root.
            let (near, far) = if depths.contains_key(&e.from) { (e.from, e.to) } else { (e.to, e.from) };
            let depth = depths.get(&near).map_or(0, |d| d + 1);
            depths.insert(far, depth);
        }
        depths.into_values().max().unwrap_or(0)
    }
}

/// An edge of a tree: one member sends to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeEdge {
    /// Member that sends.
    pub from: usize,
    /// Member that receives.
    pub to: usize,
    /// The routes of the class's trees. Their numbers of trees add up to that of the class.
    pub routes: Vec<RouteShare>,
}

/// A route through the network, and how many trees of a class take it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteShare {
    /// The nodes from sender to receiver, both included. All between them only forward.
    pub nodes: Vec<usize>,
    /// Number of trees.
    pub trees: u128,
}

/// The load of an edge of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdgeLoad {
    /// Node that sends.
    pub from: usize,
    /// Node that receives.
    pub to: usize,
    /// Number of trees whose routes take the edge.
    pub trees: u128,
    /// Number of trees that the edge can carry: `floor(scale * capacity)`.
    pub limit: u128,
}

/// Trees that reach the best rate, and the proof.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreePacking {
    /// Which way data moves.
    pub direction: TreeDirection,
    /// Each root and its number of trees.
    pub roots: Vec<(usize, u128)>,
    /// Trees per unit of capacity (U of ForestColl).
    pub scale: ExactRatio,
    /// Data that each root of weight 1 sends (or receives) per unit of time, in the unit of the
    /// capacities: trees per root divided by the scale.
    pub rate: ExactRatio,
    /// Why no rate is higher.
    pub proof: RateProof,
    /// The trees, in classes.
    pub classes: Vec<TreeClass>,
    /// The load of every edge of the network, ordered by (from, to).
    pub loads: Vec<EdgeLoad>,
}

/// An edge of a spanning tree: two members, and what lies between them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SpanningEdge {
    /// End that is nearer to the centre.
    pub near: usize,
    /// Other end.
    pub far: usize,
    /// The nodes between them, from the nearer end. They only forward.
    pub through: Vec<usize>,
}

impl SpanningEdge {
    /// Returns an edge with nothing between its ends.
    #[must_use]
    pub fn direct(near: usize, far: usize) -> SpanningEdge {
        SpanningEdge { near, far, through: vec![] }
    }

    /// Returns the nodes from the nearer end to the other one.
    pub fn nodes(&self) -> Vec<usize> {
        [&[self.near][..], &self.through, &[self.far]].concat()
    }

    /// Exchanges the ends.
    pub(crate) fn turn(&mut self) {
        std::mem::swap(&mut self.near, &mut self.far);
        self.through.reverse();
    }
}

/// Spanning trees of one shape, for an all-reduce: up the tree, then down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpanningClass {
    /// The node of the tree from which the farthest node is nearest.
    pub centre: usize,
    /// How many trees are alike; larger than 0.
    pub trees: u128,
    /// The edges, those that are nearer to the centre first. Data moves both ways.
    pub edges: Vec<SpanningEdge>,
}

impl SpanningClass {
    /// Returns the longest path from the centre, as the sum of the lengths of its edges.
    pub fn height(&self, length: impl Fn(&SpanningEdge) -> f64) -> f64 {
        let mut heights = std::collections::BTreeMap::from([(self.centre, 0.0f64)]);
        for edge in &self.edges {
            let height = heights.get(&edge.near).copied().unwrap_or(0.0) + length(edge);
            heights.insert(edge.far, height);
        }
        heights.into_values().fold(0.0, f64::max)
    }
}

/// A partition that limits the rate of spanning trees: each has an edge between different parts at
/// least (number of parts - 1) times, so the rate is at most `crossing / (parts - 1)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TightPartition {
    /// The parts.
    pub parts: Vec<Vec<usize>>,
    /// Capacity of the links between different parts, of one direction.
    pub crossing: u128,
}

/// Spanning trees that carry an all-reduce.
///
/// The time of an all-reduce of n bytes is `n / rate` for capacities in bytes per second and
/// direction: the trees divide the data, and each uses every one of its links once in each
/// direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpanningPacking {
    /// Number of trees, counted with multiplicity.
    pub trees: u128,
    /// Trees per unit of capacity.
    pub scale: ExactRatio,
    /// Data that is reduced per unit of time, in the unit of the capacities of one direction of a
    /// link. With a proof it is the strength of the network.
    pub rate: ExactRatio,
    /// The proof that no trees have a higher rate. A number of trees that was given has none.
    pub proof: Option<TightPartition>,
    /// The trees, in classes.
    pub classes: Vec<SpanningClass>,
    /// The load of every link, with `from < to`. Both directions are loaded alike.
    pub loads: Vec<EdgeLoad>,
}

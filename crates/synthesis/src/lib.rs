//! Synthesis: trees that carry a collective at the best rate of a machine, and paths that carry an
//! all-to-all near it, with the proof that no rate is better.
//!
//! * [`Network`]: nodes, directed edges with capacities, and the members of a collective.
//! * [`best_rate`]: the best rate as an exact fraction, and the cut that limits it.
//! * [`pack_trees`], [`pack_some_trees`]: trees for an all-gather, reduce-scatter, broadcast or
//!   reduce, with a route of the network for each of their edges.
//! * [`pack_spanning_trees`]: trees for an all-reduce where links are alike both ways and every
//!   node is a member. [`pack_some_spanning_trees`]: a number of such trees, whose edges may pass
//!   switches.
//! * [`CarriedData`]: what trees put on every edge, counted anew, and so the rate that they attain.
//! * [`all_to_all_flow`], [`all_to_all_v_flow`]: paths for an all-to-all, with equal demands or
//!   with a matrix of them, and a bound of the rate.
//! * [`all_to_all_rounds`], [`fastest_all_to_all_rounds`]: its messages in rounds.
//! * [`tree_rounds`]: the order in which pieces of data move along trees, its time, and the number
//!   of pieces.
//! * [`match_trees`], [`match_all_reduce`]: trees of low latency, by greedy matching of pieces and
//!   free edges in time.
//!
//! ```
//! use kbc_synthesis::{ExactRatio, Network, TreeCollective, pack_trees};
//!
//! // A ring of four members with links of capacity 1 in both directions.
//! let links = (0..4).flat_map(|v| [(v, (v + 1) % 4, 1), ((v + 1) % 4, v, 1)]);
//! let network = Network::new(4, links, 0..4)?;
//! let packing = pack_trees(&network, TreeCollective::AllGather)?;
//! // A member receives the data of three others over two links.
//! assert_eq!(Some(packing.rate), ExactRatio::new(2, 3));
//! # Ok::<(), kbc_synthesis::SynthesisError>(())
//! ```
//!
//! ```
//! use kbc_synthesis::{ExactRatio, Network, all_to_all_flow, all_to_all_rounds};
//!
//! // Three members in a row.
//! let links = [(0, 1, 1), (1, 0, 1), (1, 2, 1), (2, 1, 1)];
//! let network = Network::new(3, links, 0..3)?;
//! let flow = all_to_all_flow(&network)?;
//! // Two blocks cross each link in each direction.
//! assert_eq!(Some(flow.rate), ExactRatio::new(1, 2));
//! assert_eq!(flow.rate, flow.bound);
//! // The middle passes the blocks between the ends on: eight messages in two rounds.
//! let plan = all_to_all_rounds(&flow, 1, 100)?;
//! assert_eq!((plan.messages(), plan.rounds.len()), (8, 2));
//! # Ok::<(), kbc_synthesis::SynthesisError>(())
//! ```
//!
//! Results are plain data with exact numbers ([`TreePacking`], [`SpanningPacking`],
//! [`AllToAllFlow`]), which can be checked without this crate. The crate knows nothing of machines
//! or their languages: the caller scales bandwidths to integers, gives the times of edges, and
//! writes messages as a program.

mod all_to_all;
mod attained;
mod block_rounds;
mod blocks;
mod centre;
mod certificate;
mod collective;
mod connectivity;
mod dispatch;
mod equilibrium;
mod error;
mod exact;
mod exchange;
mod fabric;
mod flow;
mod grow;
mod lengths;
mod lockstep;
mod logical;
mod match_network;
mod matched;
mod matching;
mod moves;
mod network;
mod orders;
mod pack;
mod paths;
mod plan;
mod planner;
mod rate;
mod relayed;
mod replay;
mod rooting;
mod rounds;
mod routes;
mod scale;
mod spanning;
mod split;
#[doc(hidden)]
pub mod testing;
mod timed;
mod whole;

pub use all_to_all::{all_to_all_flow, all_to_all_v_flow};
pub use attained::CarriedData;
pub use blocks::{
    AllToAllPlan, BlockMove, BlockPath, BlockPieces, RoundCost, all_to_all_rounds, fastest_all_to_all_rounds,
};
pub use certificate::{
    BestRate, EdgeLoad, RateProof, RouteShare, SpanningClass, SpanningEdge, SpanningPacking, TightCut,
    TightPartition, TreeClass, TreeDirection, TreeEdge, TreePacking,
};
pub use collective::{TreeCollective, best_rate, pack_some_trees, pack_trees};
pub use error::SynthesisError;
pub use exact::ExactRatio;
pub use flow::{AllToAllFlow, FlowEdge, FlowPath, PairFlow};
pub use matched::{
    MatchedEdge, MatchedMoves, MatchedPassage, MatchedRoots, MatchedTree, Matching, match_all_reduce,
    match_moves, match_trees,
};
pub use moves::{EdgeTiming, PieceMove, RoundPlan, Waiting};
pub use network::{Network, NetworkEdge};
pub use relayed::{most_of_spanning_trees, pack_some_spanning_trees};
pub use rounds::{CarryingTrees, PieceNumber, tree_rounds};
pub use spanning::pack_spanning_trees;

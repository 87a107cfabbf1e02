//! Synthesis: trees that carry a collective at the best rate of a machine, and the proof that no
//! rate is better.
//!
//! * [`Network`]: nodes, directed edges with capacities, and the members of a collective.
//! * [`best_rate`]: the best rate as an exact fraction, and the cut that limits it.
//! * [`pack_trees`], [`pack_some_trees`]: trees for an all-gather, reduce-scatter, broadcast or
//!   reduce, with a route of the network for each of their edges.
//! * [`pack_spanning_trees`]: trees for an all-reduce where links are alike both ways and every
//!   node is a member.
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
//! Results are plain data with exact numbers ([`TreePacking`], [`SpanningPacking`]), which can be
//! checked without this crate. The crate knows nothing of machines, schedules or time: the caller
//! scales bandwidths to integers, and turns trees into messages.

mod certificate;
mod collective;
mod connectivity;
mod error;
mod exact;
mod exchange;
mod grow;
mod logical;
mod network;
mod pack;
mod plan;
mod rate;
mod rounds;
mod routes;
mod scale;
mod spanning;
mod split;

pub use certificate::{
    BestRate, EdgeLoad, RateProof, RouteShare, SpanningClass, SpanningPacking, TightCut, TreeClass,
    TreeDirection, TreeEdge, TreePacking,
};
pub use collective::{TreeCollective, best_rate, pack_some_trees, pack_trees};
pub use error::SynthesisError;
pub use exact::ExactRatio;
pub use network::{Network, NetworkEdge};
pub use rounds::{PieceMove, RoundPlan, spanning_rounds, tree_rounds};
pub use spanning::pack_spanning_trees;

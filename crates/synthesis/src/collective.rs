//! Collectives by trees: all-gather, reduce-scatter, broadcast and reduce.
//!
//! The steps are those of ForestColl (arXiv 2402.06787): best rate, scale, removal of switches,
//! packing, routes; and before the routes an exchange of edges that makes trees shallower.
//! Reduce-scatter and reduce are an all-gather and a broadcast on the network with all edges turned
//! around.

use crate::certificate::{BestRate, EdgeLoad, TreeClass, TreeDirection, TreeEdge, TreePacking};
use crate::error::SynthesisError;
use crate::exchange::shallower;
use crate::grow::Remainder;
use crate::logical::Logical;
use crate::network::Network;
use crate::pack::pack;
use crate::rate::Weighted;
use crate::routes::RouteTable;
use crate::scale::{self, TreeCounts};
use crate::split::without_switches;
use std::collections::BTreeMap;

/// A collective in which data moves along trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeCollective {
    /// Every member sends its data to all members.
    AllGather,
    /// Every member receives the reduction of its block from all members.
    ReduceScatter,
    /// The root sends its data to all members.
    Broadcast {
        /// The root.
        root: usize,
    },
    /// The root receives the reduction of the data of all members.
    Reduce {
        /// The root.
        root: usize,
    },
}

impl TreeCollective {
    pub(crate) fn direction(self) -> TreeDirection {
        match self {
            TreeCollective::AllGather | TreeCollective::Broadcast { .. } => TreeDirection::FromRoot,
            TreeCollective::ReduceScatter | TreeCollective::Reduce { .. } => TreeDirection::ToRoot,
        }
    }

    pub(crate) fn weights(self, network: &Network) -> Result<Vec<u128>, SynthesisError> {
        let members = network.members();
        match self {
            TreeCollective::AllGather | TreeCollective::ReduceScatter => Ok(vec![1; members.len()]),
            TreeCollective::Broadcast { root } | TreeCollective::Reduce { root } => {
                if root >= network.nodes() {
                    return Err(SynthesisError::NodeOutOfRange { node: root, nodes: network.nodes() });
                }
                let at =
                    members.binary_search(&root).map_err(|_| SynthesisError::NotAMember { node: root })?;
                Ok((0..members.len()).map(|i| u128::from(i == at)).collect())
            }
        }
    }
}

/// Returns the best rate of a collective on a network, with the cut that limits it.
///
/// # Errors
///
/// [`SynthesisError::Unreachable`] if the members that must be reached are not. For a root that is
/// not a member, [`SynthesisError::NotAMember`] or [`SynthesisError::NodeOutOfRange`].
pub fn best_rate(network: &Network, collective: TreeCollective) -> Result<BestRate, SynthesisError> {
    let weights = collective.weights(network)?;
    match collective.direction() {
        TreeDirection::FromRoot => Weighted::new(network, weights)?.best(),
        TreeDirection::ToRoot => {
            Weighted::new(&network.reversed(), weights).map_err(turned)?.best().map_err(turned)
        }
    }
}

/// Returns trees that carry a collective at the best rate, with their routes and the proof.
///
/// # Errors
///
/// Those of [`best_rate`]. [`SynthesisError::UnbalancedSwitch`] if a node that only forwards has
/// unequal capacity in and out which the rate needs. [`SynthesisError::Overflow`] if numbers of
/// trees leave 128 bits.
pub fn pack_trees(network: &Network, collective: TreeCollective) -> Result<TreePacking, SynthesisError> {
    packing(network, collective, None)
}

/// Returns trees that carry a collective at the best rate that is possible with `trees` trees per
/// root. Schedules with fewer trees have fewer messages.
///
/// # Errors
///
/// Those of [`pack_trees`], and [`SynthesisError::ZeroTrees`].
pub fn pack_some_trees(
    network: &Network,
    collective: TreeCollective,
    trees: u64,
) -> Result<TreePacking, SynthesisError> {
    packing(network, collective, Some(trees))
}

fn packing(
    network: &Network,
    collective: TreeCollective,
    trees: Option<u64>,
) -> Result<TreePacking, SynthesisError> {
    let weights = collective.weights(network)?;
    match collective.direction() {
        TreeDirection::FromRoot => from_root(network, weights, trees),
        TreeDirection::ToRoot => {
            let packing = from_root(&network.reversed(), weights, trees).map_err(turned)?;
            Ok(to_root(packing))
        }
    }
}

/// Returns an error of the network with edges turned around as one of the network itself.
fn turned(error: SynthesisError) -> SynthesisError {
    match error {
        SynthesisError::Unreachable { from, to } => SynthesisError::Unreachable { from: to, to: from },
        SynthesisError::UnbalancedSwitch { node, entering, leaving } => {
            SynthesisError::UnbalancedSwitch { node, entering: leaving, leaving: entering }
        }
        other => other,
    }
}

/// Returns trees for data that moves from the roots.
fn from_root(
    network: &Network,
    weights: Vec<u128>,
    trees: Option<u64>,
) -> Result<TreePacking, SynthesisError> {
    let mut weighted = Weighted::new(network, weights)?;
    let best = weighted.best()?;
    let counts = match trees {
        None => scale::optimal(&weighted, best)?,
        Some(trees) => scale::fixed(&mut weighted, &best, trees)?,
    };
    let what = "the number of trees";
    let product = |w: &u128| w.checked_mul(counts.per_weight).ok_or(SynthesisError::Overflow { what });
    let supplies = weighted.weights.iter().map(product).collect::<Result<Vec<u128>, _>>()?;
    let classes = routed(network, &counts, &supplies)?;
    let rate = counts.scale.inverse().and_then(|i| {
        let num = i.numerator().checked_mul(counts.per_weight)?;
        crate::exact::ExactRatio::new(num, i.denominator())
    });
    let roots = network.members().iter().copied().zip(supplies).filter(|r| r.1 > 0).collect();
    Ok(TreePacking {
        direction: TreeDirection::FromRoot,
        roots,
        scale: counts.scale,
        rate: rate.ok_or(SynthesisError::Overflow { what })?,
        loads: loads(network, &counts.limits, &classes),
        proof: counts.proof,
        classes,
    })
}

/// Removes switches, packs trees, and returns them with their routes.
fn routed(
    network: &Network,
    counts: &TreeCounts,
    supplies: &[u128],
) -> Result<Vec<TreeClass>, SynthesisError> {
    let members = network.members();
    let capacities = network.edges().iter().zip(&counts.limits).filter(|e| *e.1 > 0);
    let mut logical = Logical {
        nodes: network.nodes(),
        members: members.to_vec(),
        edges: capacities.map(|(e, &limit)| ((e.from, e.to), limit)).collect(),
        supplies: supplies.to_vec(),
        tight: vec![],
    };
    logical.balanced()?;
    let mut routes = RouteTable::new(&logical.edges);
    for splitting in without_switches(&mut logical)? {
        routes.split(&splitting);
    }
    let number: BTreeMap<usize, usize> = members.iter().enumerate().map(|(i, &m)| (m, i)).collect();
    let ends: Vec<(usize, usize)> = logical.edges.keys().map(|e| (number[&e.0], number[&e.1])).collect();
    let start = Remainder { capacities: logical.edges.into_values().collect(), supplies: supplies.to_vec() };
    let packed = pack(members.len(), &ends, start.clone())?;
    let mut packed = shallower(members.len(), &ends, &start.capacities, packed);
    packed.sort_by_key(|t| t.root);
    let edge = |routes: &mut RouteTable, e: usize, trees: u128| {
        let (from, to) = (members[ends[e].0], members[ends[e].1]);
        let mut taken = routes.take(from, to, trees);
        taken.sort_by(|a, b| a.nodes.cmp(&b.nodes));
        TreeEdge { from, to, routes: taken }
    };
    let class = |t: crate::grow::PackedTree| TreeClass {
        root: members[t.root],
        trees: t.trees,
        edges: t.edges.iter().map(|&e| edge(&mut routes, e, t.trees)).collect(),
    };
    Ok(packed.into_iter().map(class).collect())
}

fn loads(network: &Network, limits: &[u128], classes: &[TreeClass]) -> Vec<EdgeLoad> {
    let mut sums: BTreeMap<(usize, usize), u128> = BTreeMap::new();
    for route in classes.iter().flat_map(|c| &c.edges).flat_map(|e| &e.routes) {
        for pair in route.nodes.windows(2) {
            *sums.entry((pair[0], pair[1])).or_insert(0) += route.trees;
        }
    }
    let load = |(e, &limit): (&crate::network::NetworkEdge, &u128)| EdgeLoad {
        from: e.from,
        to: e.to,
        trees: sums.get(&(e.from, e.to)).copied().unwrap_or(0),
        limit,
    };
    network.edges().iter().zip(limits).map(load).collect()
}

/// Turns the data around: what moved from the roots moves to them.
fn to_root(mut packing: TreePacking) -> TreePacking {
    packing.direction = TreeDirection::ToRoot;
    for edge in packing.classes.iter_mut().flat_map(|c| &mut c.edges) {
        std::mem::swap(&mut edge.from, &mut edge.to);
        edge.routes.iter_mut().for_each(|r| r.nodes.reverse());
    }
    packing.loads.iter_mut().for_each(|l| std::mem::swap(&mut l.from, &mut l.to));
    packing.loads.sort_unstable_by_key(|l| (l.from, l.to));
    packing
}

//! Choice of the phases of a packed algorithm: which trees are taken, and which kind of them is
//! faster.

use super::matched::matched;
use super::memo::SynthesisResult;
use super::network::MachineNetwork;
use super::order::{MOST_MESSAGES, WORTH, ordered, rate, trees_of};
use super::phase::{
    OrderedPhase, PackedCollective, PackedRequest, PhaseTrees, TreeMethod, planned_ns, rooted_messages,
    spanning_messages,
};
use super::spanning::{some_spanning, spanning_trees};
use kbc_ir::expr::gcd;
use kbc_machine::topology::Topology;
use kbc_synthesis::{
    AllToAllFlow, AllToAllPlan, RoundCost, SynthesisError, TreePacking, all_to_all_flow, all_to_all_rounds,
    fastest_all_to_all_rounds, pack_some_trees, pack_trees,
};
use std::rc::Rc;

/// Trees per root up to which the best rate is taken as it is.
const MANY_TREES: u128 = 16;
/// Numbers of trees per root that are tried if the optimal number is larger.
const FEW_TREES: [u64; 8] = [1, 2, 3, 4, 5, 8, 12, 16];
/// Share of the best rate with which few trees are enough.
const NEAR: f64 = 0.99;

/// Paths of an all-to-all, and the order of their messages.
pub struct OrderedFlow {
    /// The paths.
    pub flow: AllToAllFlow,
    /// The messages in rounds.
    pub plan: AllToAllPlan,
    /// Estimated nanoseconds for the bytes of the request.
    pub ns: f64,
}

/// Returns the paths of an all-to-all with the number of pieces that is fastest for the request by
/// its estimate. Bytes are those that a rank sends to all, itself included.
///
/// # Errors
/// Those of the flow; [`SynthesisError::Overflow`] if there are more than 480,000 messages.
pub fn ordered_flow(
    machine: &MachineNetwork,
    request: &PackedRequest,
) -> Result<OrderedFlow, SynthesisError> {
    let flow = all_to_all_flow(&machine.network)?;
    let block = request.bytes as f64 / machine.network.members().len() as f64;
    let cost = RoundCost { latency: machine.latency_ns, amount: block / machine.unit * 1e9 };
    let most = MOST_MESSAGES as u64;
    let plan = match request.pieces {
        Some(pieces) => all_to_all_rounds(&flow, pieces, most)?,
        None => match fastest_all_to_all_rounds(&flow, cost, request.messages.usual) {
            // Whole blocks may be more messages than trees are cut into.
            Err(SynthesisError::Overflow { .. }) => all_to_all_rounds(&flow, 1, most)?,
            other => other?,
        },
    };
    let elements = request.elements / machine.network.members().len() as u64;
    let even = if elements == 0 { plan.pieces } else { gcd(plan.pieces, elements) };
    let plan = if even == plan.pieces || request.pieces.is_some() {
        plan
    } else {
        all_to_all_rounds(&flow, even, most)?
    };
    let ns = plan.rounds.len() as f64 * (cost.latency + plan.round.to_f64() * cost.amount);
    Ok(OrderedFlow { flow, plan, ns })
}

/// Returns phases of a kind of trees. Plans that take longer than some nanoseconds need not be
/// found.
type OtherPhases = fn(&MachineNetwork, &PackedRequest, f64) -> SynthesisResult<Vec<Rc<OrderedPhase>>>;

/// Returns the phases of the algorithm that is fastest for the request by its estimate.
///
/// # Errors
/// Those of packing; [`SynthesisError::Overflow`] if there are more than 480,000 messages.
pub fn phases(
    machine: &MachineNetwork,
    request: &PackedRequest,
) -> Result<Vec<Rc<OrderedPhase>>, SynthesisError> {
    machine.memo.for_bytes(request.bytes);
    match request.method {
        TreeMethod::Trees => packed(machine, request),
        TreeMethod::Greedy => matched(machine, request, f64::INFINITY),
        TreeMethod::Spanning => some_spanning(machine, request, f64::INFINITY),
        TreeMethod::Fastest => {
            let mut best = packed(machine, request);
            // A machine without trees of a rate that is known may still have others.
            if let Err(error) = &best
                && !matches!(
                    error,
                    SynthesisError::UnbalancedSwitch { .. }
                        | SynthesisError::Overflow { .. }
                        | SynthesisError::TooManyMessages { .. }
                )
            {
                return best;
            }
            let reduces = request.collective == PackedCollective::AllReduce;
            let spanning = reduces.then_some(some_spanning as OtherPhases);
            for other in [matched as OtherPhases].into_iter().chain(spanning) {
                let limit = best.as_ref().map_or(f64::INFINITY, |b| WORTH * planned_ns(b));
                match other(machine, request, limit) {
                    Ok(found) if planned_ns(&found) < limit => best = Ok(found),
                    Err(error) if best.is_err() => best = Err(error),
                    _ => {}
                }
            }
            best
        }
    }
}

/// Trees whose messages name relays are taken if they need at most this share of the time of trees
/// whose messages take the routes of the machine: such schedules fit no other machine.
const ROUTED_WORTH: f64 = 0.98;

/// Returns the phases that are faster by their estimate: those of a network whose messages take the
/// routes of the machine, or those of one whose messages name relays. Also returns the network. The
/// estimate of the former holds only if the routes of its trees are those of the machine.
///
/// # Errors
/// Those of [`phases`] on the first network, if the second has none either.
pub fn best_phases(
    topology: &Topology,
    machine: Rc<MachineNetwork>,
    routed: Option<Rc<MachineNetwork>>,
    request: &PackedRequest,
) -> Result<(Rc<MachineNetwork>, Vec<Rc<OrderedPhase>>), SynthesisError> {
    let plain = phases(&machine, request);
    let Some(routed) = routed else { return plain.map(|found| (machine, found)) };
    let follows = |r: &Vec<usize>| machine.relays(topology, r).is_empty();
    let holds = |found: &[Rc<OrderedPhase>]| found.iter().flat_map(|p| &p.plan.routes).all(follows);
    match plain {
        Ok(plain) if routed.timings == machine.timings => {
            Ok((if holds(&plain) { machine } else { routed }, plain))
        }
        plain => match (plain, phases(&routed, request)) {
            (Ok(plain), Ok(named)) => {
                let slower = planned_ns(&named) > ROUTED_WORTH * planned_ns(&plain);
                Ok(if slower && holds(&plain) { (machine, plain) } else { (routed, named) })
            }
            (Err(_), Ok(named)) => Ok((routed, named)),
            (plain, Err(_)) => plain.map(|found| (machine, found)),
        },
    }
}

/// Returns the phases of packed trees.
fn packed(machine: &MachineNetwork, request: &PackedRequest) -> SynthesisResult<Vec<Rc<OrderedPhase>>> {
    let request = PackedRequest { method: TreeMethod::Trees, ..*request };
    machine.memo.packed.get_if(machine.keeps_plans(), request, || pack(machine, &request))
}

fn pack(machine: &MachineNetwork, request: &PackedRequest) -> SynthesisResult<Vec<Rc<OrderedPhase>>> {
    if request.collective != PackedCollective::AllReduce {
        return Ok(vec![trees(machine, request, request.collective)?]);
    }
    if request.trees.is_some() {
        return composed(machine, request);
    }
    match spanning_trees(machine) {
        Ok(packing) if spanning_messages(&packing) <= MOST_MESSAGES => {
            let spanning = PhaseTrees::Spanning(packing);
            let spanning = vec![ordered(PackedCollective::AllReduce, spanning, machine, request)?];
            // With pieces that are given the trees are given, too: `trees` is how a caller asks for
            // the other ones.
            if request.pieces.is_some() {
                return Ok(spanning);
            }
            let composed = composed(machine, request)?;
            Ok(if planned_ns(&composed) < planned_ns(&spanning) { composed } else { spanning })
        }
        Ok(_)
        | Err(
            SynthesisError::UnequalDirections { .. }
            | SynthesisError::ForwardingNode { .. }
            | SynthesisError::Overflow { .. }
            | SynthesisError::TooManyMessages { .. },
        ) => composed(machine, request),
        Err(other) => Err(other),
    }
}

/// Returns a reduce-scatter and an all-gather with equally many pieces.
fn composed(machine: &MachineNetwork, request: &PackedRequest) -> SynthesisResult<Vec<Rc<OrderedPhase>>> {
    let first = trees(machine, request, PackedCollective::ReduceScatter)?;
    let same = PackedRequest { pieces: Some(first.plan.cuts), ..*request };
    let second = trees(machine, &same, PackedCollective::AllGather)?;
    Ok(vec![first, second])
}

/// The parameters with which [`phases`] returns the same trees for any number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PackedParameters {
    /// Pieces of each tree.
    pub pieces: u64,
    /// Packed trees per root, or 0 for what the machine has by itself.
    pub trees: u64,
    /// Matched trees per root, or 0 for trees of other kinds.
    pub greedy: u64,
    /// Matched trees per root of the all-gather, if an all-reduce is a reduce-scatter and an
    /// all-gather of matched trees, or 0.
    pub gather: u64,
    /// Spanning trees of an all-reduce, or 0 for trees of other kinds and for those of the best
    /// rate.
    pub spanning: u64,
}

/// Returns the parameters of the phases of a request.
pub fn parameters(
    machine: &MachineNetwork,
    request: &PackedRequest,
    phases: &[Rc<OrderedPhase>],
) -> PackedParameters {
    let pieces = phases.first().map_or(1, |p| p.plan.cuts);
    let known = PackedParameters { pieces, ..PackedParameters::default() };
    let trees_of = |i: usize| phases.get(i).map(|p: &Rc<OrderedPhase>| &p.trees);
    match (trees_of(0), trees_of(1)) {
        (Some(PhaseTrees::Matched(matching)), second) => {
            let gather = match second {
                Some(PhaseTrees::Matched(second)) => second.trees,
                _ => 0,
            };
            PackedParameters { greedy: matching.trees, gather, ..known }
        }
        (Some(PhaseTrees::Rooted(packing)), second) => {
            // By itself an all-reduce has spanning trees wherever there are any.
            let other = second.is_some()
                && spanning_trees(machine).is_ok_and(|p| spanning_messages(&p) <= MOST_MESSAGES);
            let per_root = packing.roots.first().map_or(0, |r| r.1);
            let named = other || request.trees.is_some();
            let trees = if named { u64::try_from(per_root).unwrap_or(0) } else { 0 };
            PackedParameters { trees, ..known }
        }
        (Some(PhaseTrees::Spanning(packing)), _) if packing.proof.is_none() => {
            PackedParameters { spanning: u64::try_from(packing.trees).unwrap_or(0), ..known }
        }
        _ => known,
    }
}

/// Returns a number of trees per root, or None for as many as reach the best rate.
fn known_trees(
    machine: &MachineNetwork,
    (collective, root): (PackedCollective, u64),
    number: Option<u64>,
) -> SynthesisResult<Rc<TreePacking>> {
    let wanted = trees_of(collective, root)?;
    machine.memo.packings.get(((collective, root), number), || {
        let found = match number {
            Some(k) => pack_some_trees(&machine.network, wanted, k),
            None => pack_trees(&machine.network, wanted),
        };
        found.map(Rc::new)
    })
}

/// Returns the trees of a collective that reach the best rate; or, if their number leaves 128 bits,
/// those of the largest number per root that is tried.
pub(super) fn best_trees(
    machine: &MachineNetwork,
    collective: PackedCollective,
    root: u64,
) -> Option<Rc<TreePacking>> {
    let known = |number| known_trees(machine, (collective, root), number).ok();
    known(None).or_else(|| FEW_TREES.into_iter().rev().find_map(|k| known(Some(k))))
}

fn trees(
    machine: &MachineNetwork,
    request: &PackedRequest,
    collective: PackedCollective,
) -> SynthesisResult<Rc<OrderedPhase>> {
    let members = machine.network.members().len();
    let fits = |packing: &TreePacking| rooted_messages(packing, members) <= MOST_MESSAGES;
    let packing = |k: Option<u64>| known_trees(machine, (collective, request.root), k);
    let packing = match request.trees {
        Some(k) => packing(Some(k))?,
        None => {
            let best = match packing(None) {
                Ok(packing) => Some(packing),
                Err(SynthesisError::Overflow { .. }) => None,
                Err(other) => return Err(other),
            };
            let small = |p: &TreePacking| p.roots.iter().all(|r| r.1 <= MANY_TREES) && fits(p);
            match best {
                Some(packing) if small(&packing) => packing,
                best => {
                    let most = rate(machine, collective, request.root)?;
                    few_trees(most, best.filter(|p| fits(p)), |k| packing(Some(k)), fits)?
                }
            }
        }
    };
    if !fits(&packing) {
        return Err(SynthesisError::Overflow { what: "the number of messages" });
    }
    ordered(collective, PhaseTrees::Rooted(packing), machine, request)
}

/// Returns the least number of trees per root whose rate is near the best one, or else the best of
/// what fits.
fn few_trees(
    most: f64,
    mut best: Option<Rc<TreePacking>>,
    packing: impl Fn(u64) -> SynthesisResult<Rc<TreePacking>>,
    fits: impl Fn(&TreePacking) -> bool,
) -> SynthesisResult<Rc<TreePacking>> {
    for k in FEW_TREES {
        let packing = packing(k)?;
        if !fits(&packing) {
            break;
        }
        if packing.rate.to_f64() >= NEAR * most {
            return Ok(packing);
        }
        if best.as_ref().is_none_or(|b| packing.rate > b.rate) {
            best = Some(packing);
        }
    }
    best.ok_or(SynthesisError::Overflow { what: "the number of messages" })
}

//! Phases of a packed algorithm: which trees are taken, in how many pieces, in which order.

use super::network::MachineNetwork;
use kbc_ir::expr::gcd;
use kbc_ir::graph::CollKind;
use kbc_machine::topology::Topology;
use kbc_synthesis::{
    AllToAllFlow, AllToAllPlan, CarryingTrees, MatchedRoots, Matching, PieceNumber, RoundCost, RoundPlan,
    SpanningPacking, SynthesisError, TreeCollective, TreePacking, all_to_all_flow, all_to_all_rounds,
    best_rate, fastest_all_to_all_rounds, match_all_reduce, match_trees, pack_some_trees,
    pack_spanning_trees, pack_trees, tree_rounds,
};

/// A collective for which trees can be packed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PackedCollective {
    /// Every rank has the blocks of all.
    AllGather,
    /// Every rank has the reduction of its block.
    ReduceScatter,
    /// Every rank has the reduction of all vectors.
    AllReduce,
    /// Every rank has the vector of the root.
    Broadcast,
    /// The root has the reduction of all vectors.
    Reduce,
    /// Every rank has its block of all vectors. Paths take the place of trees.
    AllToAll,
}

impl PackedCollective {
    /// All of them.
    pub const ALL: [PackedCollective; 6] = {
        use PackedCollective::*;
        [AllGather, ReduceScatter, AllReduce, Broadcast, Reduce, AllToAll]
    };

    /// Returns the collective of a kind, if trees can be packed for it.
    pub fn of(kind: CollKind) -> Option<PackedCollective> {
        Self::ALL.into_iter().find(|c| c.kind() == kind)
    }

    /// Returns its kind in programs.
    #[must_use]
    pub fn kind(self) -> CollKind {
        match self {
            PackedCollective::AllGather => CollKind::AllGather,
            PackedCollective::ReduceScatter => CollKind::ReduceScatter,
            PackedCollective::AllReduce => CollKind::AllReduce,
            PackedCollective::Broadcast => CollKind::Broadcast,
            PackedCollective::Reduce => CollKind::Reduce,
            PackedCollective::AllToAll => CollKind::AllToAll,
        }
    }

    /// Returns its name in programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// Whether one rank is the root.
    #[must_use]
    pub fn has_root(self) -> bool {
        self.kind().rooted()
    }

    /// Whether the vector is divided into a block for each rank.
    #[must_use]
    pub fn has_blocks(self) -> bool {
        matches!(self, PackedCollective::AllGather | PackedCollective::ReduceScatter)
    }
}

/// Where trees come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TreeMethod {
    /// Whichever is faster.
    Fastest,
    /// Packed trees, at the best rate of the machine.
    Trees,
    /// Trees by greedy matching, of low latency.
    Greedy,
}

impl TreeMethod {
    /// All of them.
    pub const ALL: [TreeMethod; 3] = [TreeMethod::Fastest, TreeMethod::Trees, TreeMethod::Greedy];

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TreeMethod::Fastest => "fastest",
            TreeMethod::Trees => "trees",
            TreeMethod::Greedy => "greedy",
        }
    }
}

/// What to pack.
#[derive(Clone, Copy, Debug)]
pub struct PackedRequest {
    /// The collective, over all members of the network.
    pub collective: PackedCollective,
    /// The root, where there is one.
    pub root: u64,
    /// Where its trees come from.
    pub method: TreeMethod,
    /// Trees per root. None takes, of packed trees, the number that reaches the best rate, or few
    /// trees near it if that is large; of matched trees, the fastest number. With a number, an
    /// all-reduce of packed trees is a reduce-scatter and an all-gather.
    pub trees: Option<u64>,
    /// Matched trees per root of the all-gather. With a number, an all-reduce of matched trees is a
    /// reduce-scatter of `trees` per root and this all-gather; with None it has the faster form.
    pub gather: Option<u64>,
    /// Pieces into which the data of a tree is cut; None takes what is fastest for `bytes`.
    pub pieces: Option<u64>,
    /// Bytes of the whole vector, for which the messages are ordered.
    pub bytes: u64,
    /// Elements of the whole vector, or 0 if it can have any number. Pieces of an all-to-all must
    /// have equal length.
    pub elements: u64,
    /// Messages up to which trees are cut into more pieces.
    pub messages: u64,
}

impl PackedRequest {
    /// Returns the bytes of each root: of a rank's block, or of the whole vector.
    #[must_use]
    pub fn root_bytes(&self, machine: &MachineNetwork) -> f64 {
        let blocks = if self.collective.has_blocks() { machine.network.members().len() } else { 1 };
        self.bytes as f64 / blocks as f64
    }
}

/// The trees of a phase.
pub enum PhaseTrees {
    /// Trees from or to every root.
    Rooted(TreePacking),
    /// Spanning trees, each up and then down.
    Spanning(SpanningPacking),
    /// Matched trees of all kinds.
    Matched(Matching),
}

/// A phase with its rounds.
pub struct OrderedPhase {
    /// What the phase does. An all-reduce may be a reduce-scatter and an all-gather.
    pub collective: PackedCollective,
    /// The trees.
    pub trees: PhaseTrees,
    /// The messages in rounds.
    pub plan: RoundPlan,
}

impl OrderedPhase {
    /// Returns the number of messages.
    pub fn messages(&self) -> usize {
        self.plan.rounds.iter().map(Vec::len).sum()
    }
}

/// Largest number of messages of a synthesised phase. A schedule without symmetry is written out
/// for every rank, which has a limit of 500,000 transfers.
const MOST_MESSAGES: u128 = 480_000;
/// Messages up to which trees are cut into more pieces, where the caller asks for no other number,
/// and for each unit of the option `effort` of `select`.
pub const CUT_MESSAGES: u64 = 16_384;
/// Trees per root up to which the best rate is taken as it is.
const MANY_TREES: u128 = 16;
/// Numbers of trees per root that are tried if the optimal number is larger.
const FEW_TREES: [u64; 8] = [1, 2, 3, 4, 5, 8, 12, 16];
/// Share of the best rate with which few trees are enough.
const NEAR: f64 = 0.99;
/// Matched trees are taken if they need at most this share of the time of packed trees, whose rate
/// has a proof.
const WORTH: f64 = 0.98;

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
        None => match fastest_all_to_all_rounds(&flow, cost, request.messages) {
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

/// Returns the phases of the algorithm that is fastest for the request by its estimate.
///
/// # Errors
/// Those of packing; [`SynthesisError::Overflow`] if there are more than 480,000 messages.
pub fn phases(
    machine: &MachineNetwork,
    request: &PackedRequest,
) -> Result<Vec<OrderedPhase>, SynthesisError> {
    let matched = |limit: f64| matched(machine, request, limit);
    match request.method {
        TreeMethod::Trees => packed(machine, request),
        TreeMethod::Greedy => matched(f64::INFINITY),
        TreeMethod::Fastest => match packed(machine, request) {
            // A machine without trees of a rate that is known may still have a matching.
            Err(SynthesisError::UnbalancedSwitch { .. } | SynthesisError::Overflow { .. }) => {
                matched(f64::INFINITY)
            }
            Err(other) => Err(other),
            Ok(packed) => {
                let ns = WORTH * planned_ns(&packed);
                match matched(ns) {
                    Ok(matched) if planned_ns(&matched) < ns => Ok(matched),
                    _ => Ok(packed),
                }
            }
        },
    }
}

/// Returns the phases of matched trees. Plans that take longer than `limit` nanoseconds need not be
/// found.
fn matched(
    machine: &MachineNetwork,
    request: &PackedRequest,
    limit: f64,
) -> Result<Vec<OrderedPhase>, SynthesisError> {
    let reduces = request.collective == PackedCollective::AllReduce;
    if reduces && request.gather.is_some() {
        return matched_pair(machine, request, limit);
    }
    let one = matched_phase(machine, request, limit).map(|phase| vec![phase]);
    if !reduces || request.trees.is_some() {
        return one;
    }
    // The blocks of a reduce-scatter and an all-gather wait for nothing but themselves.
    let known = one.as_ref().map_or(limit, |one| (WORTH * planned_ns(one)).min(limit));
    match matched_pair(machine, request, known) {
        Ok(pair) if planned_ns(&pair) < known => Ok(pair),
        _ => one,
    }
}

/// Returns a reduce-scatter and an all-gather of matched trees.
fn matched_pair(
    machine: &MachineNetwork,
    request: &PackedRequest,
    limit: f64,
) -> Result<Vec<OrderedPhase>, SynthesisError> {
    let part = |collective, trees| PackedRequest { collective, trees, gather: None, ..*request };
    let first = part(PackedCollective::ReduceScatter, request.trees);
    let second = part(PackedCollective::AllGather, request.gather);
    // What the links need at least, where that is known.
    let least = |part: &PackedRequest, of| {
        best_rate(&machine.network, of)
            .map_or(0.0, |best| part.root_bytes(machine) / (best.rate.to_f64() * machine.unit) * 1e9)
    };
    let later = least(&second, TreeCollective::AllGather);
    if least(&first, TreeCollective::ReduceScatter) + later > limit {
        return Err(SynthesisError::Overflow { what: "the time of a reduce-scatter and an all-gather" });
    }
    let first = matched_phase(machine, &first, limit - later)?;
    let second = matched_phase(machine, &second, limit - first.plan.ns)?;
    Ok(vec![first, second])
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
    machine: MachineNetwork,
    routed: Option<MachineNetwork>,
    request: &PackedRequest,
) -> Result<(MachineNetwork, Vec<OrderedPhase>), SynthesisError> {
    let plain = phases(&machine, request);
    let Some(routed) = routed else { return plain.map(|found| (machine, found)) };
    let follows = |r: &Vec<usize>| machine.relays(topology, r).is_empty();
    let holds = |found: &[OrderedPhase]| found.iter().flat_map(|p| &p.plan.routes).all(follows);
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

/// Returns the estimated nanoseconds of phases.
pub fn planned_ns(phases: &[OrderedPhase]) -> f64 {
    phases.iter().map(|p| p.plan.ns).sum()
}

/// Returns the phases of packed trees.
fn packed(machine: &MachineNetwork, request: &PackedRequest) -> Result<Vec<OrderedPhase>, SynthesisError> {
    if request.collective != PackedCollective::AllReduce {
        return Ok(vec![trees(machine, request, request.collective)?]);
    }
    if request.trees.is_some() {
        return composed(machine, request);
    }
    match pack_spanning_trees(&machine.network) {
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
            | SynthesisError::Overflow { .. },
        ) => composed(machine, request),
        Err(other) => Err(other),
    }
}

/// Returns a reduce-scatter and an all-gather with equally many pieces.
fn composed(machine: &MachineNetwork, request: &PackedRequest) -> Result<Vec<OrderedPhase>, SynthesisError> {
    let first = trees(machine, request, PackedCollective::ReduceScatter)?;
    let same = PackedRequest { pieces: Some(first.plan.cuts), ..*request };
    let second = trees(machine, &same, PackedCollective::AllGather)?;
    Ok(vec![first, second])
}

/// The parameters with which [`phases`] returns the same trees for any number of bytes.
pub struct PackedParameters {
    /// Pieces of each tree.
    pub pieces: u64,
    /// Packed trees per root, or 0 for what the machine has by itself.
    pub trees: u64,
    /// Matched trees per root, or 0 for packed trees.
    pub greedy: u64,
    /// Matched trees per root of the all-gather, if an all-reduce is a reduce-scatter and an
    /// all-gather of matched trees, or 0.
    pub gather: u64,
}

/// Returns the parameters of phases.
pub fn parameters(machine: &MachineNetwork, phases: &[OrderedPhase]) -> PackedParameters {
    let pieces = phases.first().map_or(1, |p| p.plan.cuts);
    if let [OrderedPhase { trees: PhaseTrees::Matched(matching), .. }, rest @ ..] = phases {
        let gather = match rest {
            [OrderedPhase { trees: PhaseTrees::Matched(second), .. }] => second.trees,
            _ => 0,
        };
        return PackedParameters { pieces, trees: 0, greedy: matching.trees, gather };
    }
    let [OrderedPhase { trees: PhaseTrees::Rooted(packing), .. }, _] = phases else {
        return PackedParameters { pieces, trees: 0, greedy: 0, gather: 0 };
    };
    // By itself an all-reduce has spanning trees wherever there are any.
    let other =
        matches!(pack_spanning_trees(&machine.network), Ok(p) if spanning_messages(&p) <= MOST_MESSAGES);
    let per_root = packing.roots.first().map_or(0, |r| r.1);
    let trees = if other { u64::try_from(per_root).unwrap_or(0) } else { 0 };
    PackedParameters { pieces, trees, greedy: 0, gather: 0 }
}

fn trees(
    machine: &MachineNetwork,
    request: &PackedRequest,
    collective: PackedCollective,
) -> Result<OrderedPhase, SynthesisError> {
    let root = request.root as usize;
    let wanted = match collective {
        PackedCollective::AllGather => TreeCollective::AllGather,
        PackedCollective::ReduceScatter | PackedCollective::AllReduce => TreeCollective::ReduceScatter,
        PackedCollective::Broadcast => TreeCollective::Broadcast { root },
        PackedCollective::Reduce => TreeCollective::Reduce { root },
        PackedCollective::AllToAll => {
            return Err(SynthesisError::Inconsistent { step: "the choice of trees" });
        }
    };
    let per_tree = machine.network.members().len() as u128 - 1;
    let fits = |packing: &TreePacking| total_trees(packing) * per_tree <= MOST_MESSAGES;
    let packing = match request.trees {
        Some(k) => pack_some_trees(&machine.network, wanted, k)?,
        None => {
            let best = match pack_trees(&machine.network, wanted) {
                Ok(packing) => Some(packing),
                Err(SynthesisError::Overflow { .. }) => None,
                Err(other) => return Err(other),
            };
            let small = |p: &TreePacking| p.roots.iter().all(|r| r.1 <= MANY_TREES) && fits(p);
            match best {
                Some(packing) if small(&packing) => packing,
                best => few_trees(machine, wanted, best.filter(|p| fits(p)), fits)?,
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
    machine: &MachineNetwork,
    wanted: TreeCollective,
    mut best: Option<TreePacking>,
    fits: impl Fn(&TreePacking) -> bool,
) -> Result<TreePacking, SynthesisError> {
    let most = best_rate(&machine.network, wanted)?.rate.to_f64();
    for k in FEW_TREES {
        let packing = pack_some_trees(&machine.network, wanted, k)?;
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

fn total_trees(packing: &TreePacking) -> u128 {
    packing.classes.iter().map(|c| c.trees).sum()
}

fn spanning_messages(packing: &SpanningPacking) -> u128 {
    packing.trees * packing.classes.first().map_or(0, |c| 2 * c.edges.len() as u128)
}

/// Orders the messages of a phase, in the number of pieces that the request gives or else in the
/// one that is fastest.
pub(super) fn ordered(
    collective: PackedCollective,
    trees: PhaseTrees,
    machine: &MachineNetwork,
    request: &PackedRequest,
) -> Result<OrderedPhase, SynthesisError> {
    let bytes = PackedRequest { collective, ..*request }.root_bytes(machine);
    let (times, waiting, most) = (&machine.timings, machine.waiting, request.messages as usize);
    let carrying = match &trees {
        PhaseTrees::Rooted(packing) => CarryingTrees::Rooted(packing),
        PhaseTrees::Spanning(packing) => CarryingTrees::Spanning(packing),
        PhaseTrees::Matched(matching) => CarryingTrees::Matched(matching),
    };
    let rounds = |pieces: PieceNumber| tree_rounds(carrying, pieces, bytes, times, waiting);
    let pieces = request.pieces.map_or(PieceNumber::FastestUpTo(most), PieceNumber::Fixed);
    let plan = match rounds(pieces) {
        // Whole trees may be more messages than trees are cut into.
        Err(SynthesisError::Overflow { .. }) if request.pieces.is_none() => rounds(PieceNumber::Fixed(1))?,
        other => other?,
    };
    let phase = OrderedPhase { collective, trees, plan };
    match phase.messages() as u128 > MOST_MESSAGES {
        true => Err(SynthesisError::Overflow { what: "the number of messages" }),
        false => Ok(phase),
    }
}

/// Numbers of trees per root that are tried if every rank is a root. Each piece has a tree.
const MATCHED_TREES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Numbers of trees that are tried if trees are cut into pieces, too.
const FEW_MATCHED_TREES: [u64; 5] = [1, 2, 8, 32, 128];
/// A larger number of trees is taken if it is faster by this part.
const MATCHED_GAIN: f64 = 0.02;
/// A matching whose pieces are not cut is not planned if it takes this many times the time of the
/// best plan: another order of its messages gains less.
const HOPELESS: f64 = 1.5;

/// Returns the phase of matched trees that is fastest for the request: several numbers of trees are
/// tried, if the request has none. Plans that take longer than `limit` nanoseconds need not be
/// found.
///
/// # Errors
/// Those of matching; [`SynthesisError::Overflow`] if there are more than 480,000 messages.
fn matched_phase(
    machine: &MachineNetwork,
    request: &PackedRequest,
    limit: f64,
) -> Result<OrderedPhase, SynthesisError> {
    let roots: &[MatchedRoots] = match request.collective {
        PackedCollective::AllReduce => &[MatchedRoots::Central, MatchedRoots::All],
        _ => &[MatchedRoots::All],
    };
    // How many numbers in a row may bring no gain before larger ones are no longer tried.
    let (tried, patience): (&[u64], usize) = match request.collective.has_blocks() {
        true => (&MATCHED_TREES, 2),
        false => (&FEW_MATCHED_TREES, 1),
    };
    let numbers: Vec<u64> = request.trees.map_or_else(|| tried.to_vec(), |k| vec![k]);
    let mut best: Option<OrderedPhase> = None;
    let mut worse = 0;
    for trees in numbers {
        let (mut gained, mut fits) = (false, false);
        let mut last = None;
        for &at in roots {
            let matching = made(machine, request, at, trees)?;
            if last.as_ref() == Some(&matching) {
                // All members are central.
                continue;
            }
            last = Some(matching.clone());
            let messages = matching.up.iter().chain(&matching.down).map(|t| t.edges.len()).sum::<usize>();
            // More trees are more messages. One tree for each root is always tried.
            if messages as u64 > request.messages && trees > 1 && request.trees.is_none() {
                continue;
            }
            fits = true;
            let known = best.as_ref().map_or(limit, |b| b.plan.ns.min(limit));
            if request.trees.is_none() && hopeless(machine, request, &matching, known) {
                continue;
            }
            let phase = planned(machine, request, matching)?;
            if best.as_ref().is_none_or(|b| phase.plan.ns < (1.0 - MATCHED_GAIN) * b.plan.ns) {
                best = Some(phase);
                gained = true;
            }
        }
        // Numbers that were too slow say nothing about larger ones: more trees are smaller pieces.
        worse = if gained || best.is_none() { 0 } else { worse + 1 };
        if !fits || worse == patience {
            break;
        }
    }
    best.ok_or(SynthesisError::Overflow { what: "the number of messages" })
}

fn made(
    machine: &MachineNetwork,
    request: &PackedRequest,
    at: MatchedRoots,
    trees: u64,
) -> Result<Matching, SynthesisError> {
    let (network, times, root) = (&machine.network, &machine.timings, request.root as usize);
    let wanted = match request.collective {
        PackedCollective::AllReduce => {
            return match_all_reduce(network, times, at, trees, request.bytes as f64);
        }
        PackedCollective::AllGather => TreeCollective::AllGather,
        PackedCollective::ReduceScatter => TreeCollective::ReduceScatter,
        PackedCollective::Broadcast => TreeCollective::Broadcast { root },
        PackedCollective::Reduce => TreeCollective::Reduce { root },
        PackedCollective::AllToAll => {
            return Err(SynthesisError::Inconsistent { step: "the choice of trees" });
        }
    };
    match_trees(network, times, wanted, trees, request.root_bytes(machine))
}

/// Whether no order of a matching's messages is likely to be faster than a plan.
fn hopeless(machine: &MachineNetwork, request: &PackedRequest, matching: &Matching, known: f64) -> bool {
    let busiest = matching.busiest_ns(request.root_bytes(machine), &machine.timings);
    busiest > known || (request.collective.has_blocks() && matching.ns > HOPELESS * known)
}

/// Orders the messages of a matching. If every rank is a root, pieces have been matched one by one.
/// Other trees are few, so each may carry several pieces.
fn planned(
    machine: &MachineNetwork,
    request: &PackedRequest,
    matching: Matching,
) -> Result<OrderedPhase, SynthesisError> {
    let pieces = match request.collective.has_blocks() {
        true => request.pieces.or(Some(1)),
        false => request.pieces,
    };
    let request = PackedRequest { pieces, ..*request };
    ordered(request.collective, PhaseTrees::Matched(matching), machine, &request)
}

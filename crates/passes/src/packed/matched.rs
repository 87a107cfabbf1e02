//! Phases of matched trees: how many trees are taken, and in which order their messages are sent.

use super::memo::SynthesisResult;
use super::network::MachineNetwork;
use super::order::{WORTH, ordered, rate, trees_of};
use super::phase::{OrderedPhase, PackedCollective, PackedRequest, PhaseTrees, planned_ns};
use kbc_synthesis::{MatchedRoots, Matching, SynthesisError, match_all_reduce, match_moves};
use std::rc::Rc;

/// Returns the phases of matched trees. Plans that take longer than `limit` nanoseconds need not be
/// found.
pub(super) fn matched(
    machine: &MachineNetwork,
    request: &PackedRequest,
    limit: f64,
) -> SynthesisResult<Vec<Rc<OrderedPhase>>> {
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
) -> SynthesisResult<Vec<Rc<OrderedPhase>>> {
    let part = |collective, trees| PackedRequest { collective, trees, gather: None, ..*request };
    let first = part(PackedCollective::ReduceScatter, request.trees);
    let second = part(PackedCollective::AllGather, request.gather);
    // What the links need at least, where that is known.
    let least = |part: &PackedRequest| {
        rate(machine, part.collective, part.root)
            .map_or(0.0, |rate| machine.root_bytes(part) / (rate * machine.unit) * 1e9)
    };
    let later = least(&second);
    if least(&first) + later > limit {
        return Err(SynthesisError::Overflow { what: "the time of a reduce-scatter and an all-gather" });
    }
    let first = matched_phase(machine, &first, limit - later)?;
    let second = matched_phase(machine, &second, limit - first.plan.ns)?;
    Ok(vec![first, second])
}

/// Numbers of trees per root that are tried if every rank is a root. Each piece has a tree.
const MATCHED_TREES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Numbers of trees that are tried if trees are cut into pieces, too.
pub(super) const FEW_MATCHED_TREES: [u64; 5] = [1, 2, 8, 32, 128];
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
) -> SynthesisResult<Rc<OrderedPhase>> {
    let roots: &[MatchedRoots] = match request.collective {
        PackedCollective::AllReduce => &[MatchedRoots::Central, MatchedRoots::All],
        _ => &[MatchedRoots::All],
    };
    // How many numbers in a row may bring no gain before larger ones are no longer tried.
    let tried: &[u64] = if request.collective.has_blocks() { &MATCHED_TREES } else { &FEW_MATCHED_TREES };
    // Two trees often share the links of one, and eight do not.
    let patience = 2;
    let numbers: Vec<u64> = request.trees.map_or_else(|| tried.to_vec(), |k| vec![k]);
    let mut best: Option<Rc<OrderedPhase>> = None;
    let mut worse = 0;
    for trees in numbers {
        // More trees are more messages. One tree for each root is always tried.
        if trees > 1 && request.trees.is_none() && messages(machine, request, trees) > request.messages.usual
        {
            break;
        }
        let mut gained = false;
        let mut last: Option<Rc<Matching>> = None;
        for &at in roots {
            let matching = made(machine, request, at, trees)?;
            if last.as_ref() == Some(&matching) {
                // All members are central.
                continue;
            }
            last = Some(matching.clone());
            let known = best.as_ref().map_or(limit, |b| b.plan.ns.min(limit));
            if request.trees.is_none() && hopeless(machine, request, &matching, known) {
                continue;
            }
            let own = PackedRequest { trees: Some(trees), ..*request };
            let plan = || planned(machine, request, matching);
            let phase = machine.memo.matched.get_if(machine.keeps_plans(), (own, at), plan)?;
            if best.as_ref().is_none_or(|b| phase.plan.ns < (1.0 - MATCHED_GAIN) * b.plan.ns) {
                best = Some(phase);
                gained = true;
            }
        }
        // Numbers that were too slow say nothing about larger ones: more trees are smaller pieces.
        worse = if gained || best.is_none() { 0 } else { worse + 1 };
        if worse == patience {
            break;
        }
    }
    best.ok_or(SynthesisError::Overflow { what: "the number of messages" })
}

/// Returns the number of messages of a number of trees: every tree has an edge for each member but
/// its root, and every message of an all-reduce goes up and down.
fn messages(machine: &MachineNetwork, request: &PackedRequest, trees: u64) -> u64 {
    let members = machine.network.members().len() as u64;
    let roots = if request.collective.has_blocks() { members } else { 1 };
    let ways = 1 + u64::from(request.collective == PackedCollective::AllReduce);
    roots.saturating_mul(ways * (members - 1)).saturating_mul(trees)
}

/// Returns a number of matched trees. On links that are alike both ways, the trees of a
/// reduce-scatter are those of an all-gather, and the other way round.
fn made(
    machine: &MachineNetwork,
    request: &PackedRequest,
    at: MatchedRoots,
    trees: u64,
) -> SynthesisResult<Rc<Matching>> {
    let (network, times, memo) = (&machine.network, &machine.timings, &machine.memo);
    let rooted = (request.collective, request.root);
    memo.matchings.get_if(machine.keeps_plans(), (rooted, trees, at), || {
        if request.collective == PackedCollective::AllReduce {
            let bytes = request.bytes as f64;
            return match_all_reduce(network, times, at, trees, bytes).map(Rc::new);
        }
        let back = match request.collective {
            PackedCollective::AllGather => Some(PackedCollective::ReduceScatter),
            PackedCollective::ReduceScatter => Some(PackedCollective::AllGather),
            _ => None,
        };
        let known = back.and_then(|back| memo.moves.find(&((back, request.root), trees)));
        if let Some(Ok(known)) = known
            && let Some(matching) = known.reversed()
        {
            return Ok(Rc::new(matching));
        }
        let wanted = trees_of(request.collective, request.root)?;
        let bytes = machine.root_bytes(request);
        let moves = || match_moves(network, times, wanted, trees, bytes).map(Rc::new);
        Ok(Rc::new(memo.moves.get_if(machine.keeps_plans(), (rooted, trees), moves)?.matching()))
    })
}

/// Whether no order of a matching's messages is likely to be faster than a plan.
fn hopeless(machine: &MachineNetwork, request: &PackedRequest, matching: &Matching, known: f64) -> bool {
    let busiest = matching.busiest_ns(machine.root_bytes(request), &machine.timings);
    busiest > known || (request.collective.has_blocks() && matching.ns > HOPELESS * known)
}

/// Orders the messages of a matching. If every rank is a root, pieces have been matched one by one.
/// Other trees are few, so each may carry several pieces.
fn planned(
    machine: &MachineNetwork,
    request: &PackedRequest,
    matching: Rc<Matching>,
) -> SynthesisResult<Rc<OrderedPhase>> {
    let pieces = match request.collective.has_blocks() {
        true => request.pieces.or(Some(1)),
        false => request.pieces,
    };
    let request = PackedRequest { pieces, ..*request };
    ordered(request.collective, PhaseTrees::Matched(matching), machine, &request)
}

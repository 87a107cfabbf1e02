//! Phases of matched trees: trees of low latency by greedy matching, where they are faster than
//! packed trees or where no trees can be packed.

use super::network::MachineNetwork;
use super::phases::{OrderedPhase, PackedCollective, PackedRequest, PhaseTrees, ordered};
use kbc_synthesis::{MatchedRoots, Matching, SynthesisError, TreeCollective, match_all_reduce, match_trees};

/// Numbers of trees per root that are tried if every rank is a root. Each piece has a tree.
const TREES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Numbers of trees that are tried if trees are cut into pieces, too.
const FEW_TREES: [u64; 5] = [1, 2, 8, 32, 128];
/// A larger number of trees is taken if it is faster by this part.
const GAIN: f64 = 0.02;
/// A matching whose pieces are not cut is not planned if it takes this many times the time of the
/// best plan: another order of its messages gains less.
const HOPELESS: f64 = 1.5;

/// Returns the phase of matched trees that is fastest for the request: several numbers of trees are
/// tried, if the request has none. Plans that take longer than `limit` nanoseconds need not be
/// found.
///
/// # Errors
/// Those of matching; [`SynthesisError::Overflow`] if there are more than 480,000 messages.
pub(super) fn matched(
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
        true => (&TREES, 2),
        false => (&FEW_TREES, 1),
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
            if best.as_ref().is_none_or(|b| phase.plan.ns < (1.0 - GAIN) * b.plan.ns) {
                best = Some(phase);
                gained = true;
            }
        }
        worse = if gained { 0 } else { worse + 1 };
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

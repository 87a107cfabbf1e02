//! Spanning trees of an all-reduce: those of the best rate, and a number of them where these are
//! not known, on machines with switches.

use super::memo::SynthesisResult;
use super::network::MachineNetwork;
use super::order::{MOST_MESSAGES, WORTH, ordered};
use super::phase::{OrderedPhase, PackedCollective, PackedRequest, PhaseTrees, spanning_messages};
use kbc_synthesis::{
    SpanningEdge, SpanningPacking, SynthesisError, most_of_spanning_trees, pack_some_spanning_trees,
    pack_spanning_trees,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Numbers of trees that are tried. Fewer trees are cut into more pieces each, and more trees use
/// links more evenly.
const SPANNING_NUMBERS: [u64; 11] = [2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64];
/// A larger number of trees is planned if its rate is higher by this part. Rates that differ by
/// less are taken for equal.
const HIGHER: f64 = 0.01;
/// It is also planned if the best plan takes more than this multiple of the time of its busiest
/// link.
const FAR_FROM_LINK: f64 = 1.05;
/// No larger number is tried, unless it is asked for, once the trees so far, times the square of
/// the members, exceed this: each edge of a tree needs a search over the network.
const MOST_SEARCHED: u64 = 1 << 19;

/// Returns spanning trees at the best rate.
pub(super) fn spanning_trees(machine: &MachineNetwork) -> SynthesisResult<Rc<SpanningPacking>> {
    machine.memo.spanning.get((), || pack_spanning_trees(&machine.network).map(Rc::new))
}

/// Returns the phase of spanning trees that is fastest for the request: several numbers are tried,
/// if the request has none. Plans that take longer than `limit` nanoseconds need not be found.
///
/// # Errors
/// Those of [`pack_some_spanning_trees`]; [`SynthesisError::OnlyForAllReduce`] for another
/// collective; [`SynthesisError::Overflow`] if no number has few enough messages, or is fast
/// enough.
pub(super) fn some_spanning(
    machine: &MachineNetwork,
    request: &PackedRequest,
    limit: f64,
) -> SynthesisResult<Vec<Rc<OrderedPhase>>> {
    if request.collective != PackedCollective::AllReduce {
        return Err(SynthesisError::OnlyForAllReduce);
    }
    let plan = |packing| {
        let spanning = PhaseTrees::Spanning(packing);
        ordered(PackedCollective::AllReduce, spanning, machine, request)
    };
    if let Some(number) = request.trees {
        let pieces = request.pieces.unwrap_or(1);
        let edges = 2 * (machine.network.members().len() as u128 - 1);
        let messages = edges.saturating_mul(u128::from(number)).saturating_mul(u128::from(pieces));
        if messages > MOST_MESSAGES {
            return Err(SynthesisError::TooManyMessages { pieces, messages, most: MOST_MESSAGES });
        }
        return Ok(vec![plan(spanning_number(machine, number)?)?]);
    }
    let late = SynthesisError::Overflow { what: "the time of spanning trees" };
    let least = |rate: f64| request.bytes as f64 / (rate * machine.unit) * 1e9;
    if least(most_of_spanning_trees(&machine.network)?) > limit {
        return Err(late);
    }
    let mut best: Option<Rc<OrderedPhase>> = None;
    let mut highest = 0.0;
    for packing in tried(machine, |messages| messages <= u128::from(request.messages.usual))? {
        let rate = packing.rate.to_f64();
        let known = best.as_ref().map_or(limit, |b| (WORTH * b.plan.ns).min(limit));
        let near = best.as_ref().is_some_and(|b| b.plan.ns <= FAR_FROM_LINK * b.plan.least_ns);
        let needs = least(rate).max(2.0 * climb_ns(machine, &packing));
        if needs > known || near && rate < (1.0 + HIGHER) * highest {
            continue;
        }
        highest = rate.max(highest);
        let found = match plan(packing) {
            // Larger numbers have more messages.
            Err(_) if best.is_some() => break,
            other => other?,
        };
        if found.plan.ns < known {
            best = Some(found);
        }
    }
    best.map(|phase| vec![phase]).ok_or(late)
}

/// Returns the latency from the centre of the deepest tree to its farthest member. A piece takes
/// that time twice.
fn climb_ns(machine: &MachineNetwork, packing: &SpanningPacking) -> f64 {
    let known: BTreeMap<(usize, usize), f64> =
        machine.timings.iter().map(|t| ((t.from, t.to), t.latency_ns)).collect();
    let latency = |edge: &SpanningEdge| {
        let nodes = edge.nodes();
        nodes.windows(2).map(|step| known.get(&(step[0], step[1])).copied().unwrap_or(0.0)).sum()
    };
    packing.classes.iter().map(|class| class.height(latency)).fold(0.0, f64::max)
}

/// Returns the numbers of trees that are tried, while their messages are few enough. The first is
/// always tried.
pub(super) fn tried(
    machine: &MachineNetwork,
    few: impl Fn(u128) -> bool,
) -> SynthesisResult<Vec<Rc<SpanningPacking>>> {
    let members = machine.network.members().len() as u64;
    let (mut out, mut searched) = (vec![], 0u64);
    for number in SPANNING_NUMBERS {
        searched = searched.saturating_add(number.saturating_mul(members * members));
        if !out.is_empty() && searched > MOST_SEARCHED {
            break;
        }
        let packing = spanning_number(machine, number)?;
        if !out.is_empty() && !few(spanning_messages(&packing)) {
            break;
        }
        out.push(packing);
    }
    Ok(out)
}

/// Returns the least number of trees whose rate is near the highest that is found. None if the
/// trees of the best rate are known, and are not too many.
pub(super) fn best_number(machine: &MachineNetwork) -> Option<u64> {
    if spanning_trees(machine).is_ok_and(|p| spanning_messages(&p) <= MOST_MESSAGES) {
        return None;
    }
    let all = tried(machine, |_| true).ok()?;
    let highest = all.iter().map(|p| p.rate.to_f64()).fold(0.0, f64::max);
    let best = all.iter().find(|p| p.rate.to_f64() >= (1.0 - HIGHER) * highest)?;
    u64::try_from(best.trees).ok()
}

fn spanning_number(machine: &MachineNetwork, number: u64) -> SynthesisResult<Rc<SpanningPacking>> {
    let made = || pack_some_spanning_trees(&machine.network, number).map(Rc::new);
    machine.memo.some_spanning.get(number, made)
}

//! Order of the messages of a phase, and the rate of its trees: what packed and matched trees
//! share.

use super::memo::SynthesisResult;
use super::network::MachineNetwork;
use super::phase::{OrderedPhase, PackedCollective, PackedRequest, PhaseTrees};
use kbc_synthesis::{CarryingTrees, PieceNumber, SynthesisError, TreeCollective, best_rate, tree_rounds};
use std::rc::Rc;

/// Largest number of messages of a synthesised phase. A schedule without symmetry is written out
/// for every rank, and may have 2,000,000 transfers; several collectives of a program share them.
pub(super) const MOST_MESSAGES: u128 = 480_000;
/// Matched trees are taken if they need at most this share of the time of packed trees, whose rate
/// has a proof.
pub(super) const WORTH: f64 = 0.98;

/// Returns the best rate of trees of a collective, in units of the network.
pub(super) fn rate(
    machine: &MachineNetwork,
    collective: PackedCollective,
    root: u64,
) -> SynthesisResult<f64> {
    let found = || Ok(best_rate(&machine.network, trees_of(collective, root)?)?.rate.to_f64());
    machine.memo.rates.get((collective, root), found)
}

/// Returns which trees a collective has. An all-reduce begins with those of a reduce-scatter.
///
/// # Errors
/// [`SynthesisError::Inconsistent`] for an all-to-all, which has none.
pub(super) fn trees_of(collective: PackedCollective, root: u64) -> SynthesisResult<TreeCollective> {
    let root = root as usize;
    Ok(match collective {
        PackedCollective::AllGather => TreeCollective::AllGather,
        PackedCollective::ReduceScatter | PackedCollective::AllReduce => TreeCollective::ReduceScatter,
        PackedCollective::Broadcast => TreeCollective::Broadcast { root },
        PackedCollective::Reduce => TreeCollective::Reduce { root },
        PackedCollective::AllToAll => {
            return Err(SynthesisError::Inconsistent { step: "the choice of trees" });
        }
    })
}

/// Orders the messages of a phase, in the number of pieces that the request gives or else in the
/// one that is fastest.
pub(super) fn ordered(
    collective: PackedCollective,
    trees: PhaseTrees,
    machine: &MachineNetwork,
    request: &PackedRequest,
) -> SynthesisResult<Rc<OrderedPhase>> {
    let bytes = machine.root_bytes(&PackedRequest { collective, ..*request });
    let (times, waiting) = (&machine.timings, machine.waiting);
    let limit = request.messages.at_most(MOST_MESSAGES as u64);
    let about = PieceNumber::FastestAbout { usual: limit.usual as usize, most: limit.most as usize };
    let carrying = match &trees {
        PhaseTrees::Rooted(packing) => CarryingTrees::Rooted(packing),
        PhaseTrees::Spanning(packing) => CarryingTrees::Spanning(packing),
        PhaseTrees::Matched(matching) => CarryingTrees::Matched(matching),
    };
    if let Some(pieces) = request.pieces {
        // Ordering them all only to find that there are too many takes long.
        let messages = trees.messages(machine.network.members().len()).saturating_mul(u128::from(pieces));
        if messages > MOST_MESSAGES {
            return Err(SynthesisError::TooManyMessages { pieces, messages, most: MOST_MESSAGES });
        }
    }
    let rounds = |pieces: PieceNumber| tree_rounds(carrying, pieces, bytes, times, waiting);
    let pieces = request.pieces.map_or(about, PieceNumber::Fixed);
    let plan = match rounds(pieces) {
        // Whole trees may be more messages than trees are cut into.
        Err(SynthesisError::Overflow { .. }) if request.pieces.is_none() => rounds(PieceNumber::Fixed(1))?,
        other => other?,
    };
    let phase = OrderedPhase { collective, trees, plan };
    match phase.messages() as u128 > MOST_MESSAGES {
        true => Err(SynthesisError::Overflow { what: "the number of messages" }),
        false => Ok(Rc::new(phase)),
    }
}

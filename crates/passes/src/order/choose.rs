//! Choice of slots: decides whether every call of an algorithm may reuse its slots without credits.
//!
//! The answer should depend on the algorithm and not on the number of ranks, because a schedule for
//! four ranks and one for four thousand have the same operations. So it is found at a few small
//! shapes, and at the actual shape if that is small, in the order that data alone imposes
//! ([`Within::Data`]). Credits are left out only if none of these shapes needs any. Where the
//! arguments leave fewer than three legal shapes, only the actual shape decides. The checker, which
//! knows nothing of this module, proves the resulting schedule.

use super::{Policy, Within, count};
use kbc_rounds::eval::Value;
use kbc_rounds::{AlgId, Call, Library, Limits, Rounds};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// For each algorithm of a library, shape and parameters: whether one slot per message needs no
/// credit. Each result is computed once and used by all uses.
#[derive(Default)]
pub struct OneSlotCache(RefCell<BTreeMap<Call, bool>>);

impl OneSlotCache {
    /// Returns the result for a call without a root, which `find` finds where it is not known.
    pub(crate) fn one_slot(&self, call: &Call, find: impl FnOnce() -> bool) -> bool {
        if let Some(known) = self.0.borrow().get(call) {
            return *known;
        }
        let found = find();
        self.0.borrow_mut().insert(call.clone(), found);
        found
    }
}

/// Shapes of one, two and three axes at which an algorithm is examined.
const SHAPES: [&[&[i64]]; 3] = [
    &[&[2], &[3], &[4], &[5], &[8], &[6], &[9], &[12], &[16]],
    &[&[2, 2], &[3, 2], &[2, 3], &[4, 2], &[2, 4], &[3, 3], &[4, 4]],
    &[&[2, 2, 2], &[3, 2, 2], &[2, 2, 3], &[2, 3, 2]],
];

/// Most transfers of an algorithm that is examined.
const MOST_TRANSFERS: usize = 1 << 14;

/// Number of shapes that have to agree.
const ENOUGH: usize = 3;

/// Largest number of ranks of the shapes that are examined where few of [`SHAPES`] are legal, as
/// with groups of 16 ranks, of which those shapes have only a single group.
const FURTHER: i64 = 64;

/// Largest number of ranks at which the actual shape is examined as well.
const SMALL: i64 = 8;

/// Largest number of ranks at which the actual shape is examined if few other shapes are legal.
const ALONE: i64 = 64;

/// Returns the shapes of a number of axes at which an algorithm is examined, in order: the small
/// ones, then all others of at most [`FURTHER`] ranks by the number of their ranks.
fn shapes(axes: usize) -> impl Iterator<Item = Vec<i64>> {
    let small = axes.checked_sub(1).and_then(|i| SHAPES.get(i)).copied().unwrap_or(&[]);
    let others =
        (2..=FURTHER).flat_map(move |ranks| factorings(ranks, if small.is_empty() { 0 } else { axes }));
    let others = others.filter(move |shape| !small.contains(&shape.as_slice()));
    small.iter().map(|shape| shape.to_vec()).chain(others)
}

/// Returns the lists of `axes` factors of at least 2 whose product is `ranks`.
fn factorings(ranks: i64, axes: usize) -> Vec<Vec<i64>> {
    match axes {
        0 => vec![],
        1 if ranks >= 2 => vec![vec![ranks]],
        1 => vec![],
        _ => {
            let with = |first: i64| {
                let rest = factorings(ranks / first, axes - 1);
                rest.into_iter().map(move |rest| [vec![first], rest].concat())
            };
            (2..ranks).filter(|first| ranks % first == 0).flat_map(with).collect()
        }
    }
}

/// Checks whether one slot per message is enough, call after call, without any credit.
///
/// `args` are the parameters of the use, and `known` are its rounds, if they are known. An
/// algorithm that cannot be expanded here counts as needing credits; its errors are reported where
/// it is lowered.
pub fn one_slot(
    lib: &Library,
    alg: AlgId,
    sizes: &[i64],
    args: &[(String, Value)],
    known: Option<&Rounds>,
) -> bool {
    let decl = lib.algorithm(alg);
    if decl.root.is_some() {
        // A root may run ahead of all other ranks without limit.
        return false;
    }
    let counted = |rounds: &Rounds| {
        let counts = count(rounds, Policy::PerMessage, Within::Data).ok()?;
        (counts.messages > 0).then_some(counts.needed == 0)
    };
    let free = |shape: &[i64]| match known.filter(|_| shape == sizes) {
        Some(rounds) if rounds.transfers().count() > MOST_TRANSFERS => None,
        Some(rounds) => counted(rounds),
        None => {
            let call = Call { alg, sizes: shape.to_vec(), root: None, args: args.to_vec() };
            let limits = Limits { transfers: MOST_TRANSFERS, ..Limits::default() };
            counted(&kbc_rounds::expand(lib, &call, &limits).ok()?)
        }
    };
    let ranks: i64 = sizes.iter().product();
    let mut seen = 0;
    if ranks <= SMALL {
        match free(sizes) {
            Some(false) | None => return false,
            Some(true) => seen += 1,
        }
    }
    let axes = decl.axes.len();
    for mut shape in shapes(axes) {
        // An axis of one rank keeps its size: its rounds are empty.
        if sizes.len() == axes {
            shape.iter_mut().zip(sizes).filter(|s| *s.1 == 1).for_each(|s| *s.0 = 1);
        }
        match free(&shape) {
            Some(false) => return false,
            Some(true) => seen += 1,
            None => {}
        }
        if seen >= ENOUGH {
            return true;
        }
    }
    // Few legal shapes say little about others: all of them may have a single group.
    ranks <= ALONE && free(sizes) == Some(true)
}

/// Returns where the messages of an algorithm land in its schedules, unless the use states it. One
/// slot per message if that needs no credit; otherwise two, if every rank's result depends on every
/// rank's input (`total`); otherwise one, with a credit for each reuse.
pub fn policy(lib: &Library, call: &Call, total: bool) -> Policy {
    if total && !one_slot(lib, call.alg, &call.sizes, &call.args, None) {
        Policy::Alternate
    } else {
        Policy::PerMessage
    }
}

/// Largest number of ranks at which rotating slots are examined.
const ROTATION: i64 = 32;

/// Checks whether `slots` rotating slots for the messages to each neighbour need no credit, on the
/// actual number of ranks. Shapes too large to be examined count as needing credits.
pub fn rotation(lib: &Library, call: &Call, slots: i64, within: Within) -> bool {
    let ranks: i64 = call.sizes.iter().product();
    // On two ranks both neighbours are the same rank, but the schedule has two neighbours.
    let small = (3..=ROTATION).contains(&ranks) && slots <= 1 << 10;
    small
        && kbc_rounds::expand(lib, call, &Limits::default())
            .ok()
            .and_then(|r| count(&r, Policy::Slots(slots as u32), within).ok())
            .is_some_and(|c| c.needed == 0)
}

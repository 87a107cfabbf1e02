//! Whether an algorithm's slots may be used again by every call without a credit.
//!
//! The answer is meant to be one of the algorithm and not of the number of ranks: a schedule for four ranks and one for
//! four thousand have the same operations. So it is found at a few small shapes, and at the shape itself where that is
//! small, in the order that data alone imposes ([`Within::Data`]); only if every one of them needs no credit are there
//! none. The checker, which knows nothing of this, proves the schedule that comes of it.

use super::{Policy, Within, count};
use kbc_rounds::eval::Value;
use kbc_rounds::{AlgId, Call, Library, Limits};

/// Shapes of one, two and three axes at which an algorithm is looked at.
const SHAPES: [&[&[i64]]; 3] = [
    &[&[2], &[3], &[4], &[5], &[8], &[6], &[9], &[12], &[16]],
    &[&[2, 2], &[3, 2], &[2, 3], &[4, 2], &[2, 4], &[3, 3], &[4, 4]],
    &[&[2, 2, 2], &[3, 2, 2], &[2, 2, 3], &[2, 3, 2]],
];

/// Shapes that have to agree.
const ENOUGH: usize = 3;

/// Ranks up to which the shape itself is looked at too.
const SMALL: i64 = 8;

/// Ranks up to which it is looked at where no small shape is legal.
const ALONE: i64 = 64;

/// Whether one slot a message is enough, call after call, with no credit at all.
///
/// `args` are the parameters of the use; an algorithm that cannot be expanded here has its errors reported where it is
/// lowered, and needs credits.
pub fn one_slot(lib: &Library, alg: AlgId, sizes: &[i64], args: &[(String, Value)]) -> bool {
    let decl = lib.algorithm(alg);
    if decl.root.is_some() {
        // A root can run ahead of everybody for ever.
        return false;
    }
    let free = |sizes: &[i64]| {
        let call = Call { alg, sizes: sizes.to_vec(), root: None, args: args.to_vec() };
        let limits = Limits { transfers: 1 << 14, ..Limits::default() };
        let rounds = kbc_rounds::expand(lib, &call, &limits).ok()?;
        let counts = count(&rounds, Policy::PerMessage, Within::Data).ok()?;
        (counts.messages > 0).then_some(counts.needed == 0)
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
    let shapes = axes.checked_sub(1).and_then(|i| SHAPES.get(i)).copied().unwrap_or(&[]);
    for shape in shapes {
        // An axis of one rank stays one: its rounds are empty.
        let shape: Vec<i64> = if sizes.len() == axes {
            shape.iter().zip(sizes).map(|(s, n)| if *n == 1 { 1 } else { *s }).collect()
        } else {
            shape.to_vec()
        };
        match free(&shape) {
            Some(false) => return false,
            Some(true) => seen += 1,
            None => {}
        }
        if seen >= ENOUGH {
            return true;
        }
    }
    seen > 0 || ranks <= ALONE && free(sizes) == Some(true)
}

/// Where the messages of an algorithm land in the schedules made of it, unless its use says otherwise: in one slot a
/// message if that needs no credit; else in two, if every rank's result depends on every rank's input (`total`); else in
/// one, with a credit for each reuse.
pub fn policy(lib: &Library, call: &Call, total: bool) -> Policy {
    if total && !one_slot(lib, call.alg, &call.sizes, &call.args) {
        Policy::Alternate
    } else {
        Policy::PerMessage
    }
}

/// Ranks up to which slots in rotation are looked at.
const ROTATION: i64 = 32;

/// Whether `slots` slots in rotation for the messages to each neighbour need no credit, on as many ranks as there are.
/// What is too large to be looked at needs them.
pub fn rotation(lib: &Library, call: &Call, slots: i64, within: Within) -> bool {
    let ranks: i64 = call.sizes.iter().product();
    // Of two ranks, both neighbours are one rank, but two for the schedule.
    let small = (3..=ROTATION).contains(&ranks) && slots <= 1 << 10;
    small
        && kbc_rounds::expand(lib, call, &Limits::default())
            .ok()
            .and_then(|r| count(&r, Policy::Slots(slots as u32), within).ok())
            .is_some_and(|c| c.needed == 0)
}

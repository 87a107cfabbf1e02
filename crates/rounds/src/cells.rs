//! Cells: what a place holds during the execution of rounds, and which transfer caused it.

use std::rc::Rc;

use crate::bag::Bag;
use crate::rounds::{Rounds, Transfer};

/// The contents of a place.
#[derive(Clone, Debug)]
pub(crate) enum Holds {
    Nothing,
    /// Unknown, because an error was reported about it.
    Anything,
    Sum(Rc<Bag>),
}

/// The cause of a place's current contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LastWrite {
    /// No write yet.
    Start,
    /// The transfer with this number, counted over all rounds.
    Transfer(u32),
    /// The end of this use, whose contract does not cover the place.
    End(u32),
}

/// A place during the execution of rounds.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub holds: Holds,
    pub by: LastWrite,
    /// Round of the last write, from 1; `reduced` states whether that write added.
    pub stamp: u32,
    pub reduced: bool,
}

/// A place that nothing has been written to.
pub(crate) const EMPTY: Cell = Cell { holds: Holds::Nothing, by: LastWrite::Start, stamp: 0, reduced: false };

/// A contribution: (key, rank).
pub(crate) type Contribution = (u32, u32);

/// Returns the first key of each of the collective's buffers. The keys of contributions number the
/// places of these buffers, one buffer after another.
pub(crate) fn key_bases(rounds: &Rounds) -> Vec<u32> {
    let mut next = 0;
    let own = rounds.buffers.iter().take_while(|b| b.scratch.is_none());
    own.map(|b| {
        let at = next;
        next += b.atoms;
        at
    })
    .collect()
}

/// Returns a transfer by its number over all rounds, with its round.
pub(crate) fn transfer_at(rounds: &Rounds, number: u32) -> Option<(u32, &Transfer)> {
    let mut left = number as usize;
    for (t, r) in rounds.rounds.iter().enumerate() {
        match r.get(left) {
            Some(x) => return Some((t as u32, x)),
            None => left -= r.len(),
        }
    }
    None
}

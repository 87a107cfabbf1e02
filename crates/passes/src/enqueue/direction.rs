//! Direction of a message: the side on which it arrives at its receiver.
//!
//! The direction in which a rank sends corresponds to the direction of its peer that points back: a
//! message sent up an axis arrives at the peer's window for messages from below. This module
//! derives the direction from the expression of the peer. Names of directions alone never
//! correspond.

use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::Peer;

/// A window of a receiver, named by direction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// For messages that go up a coordinate, from the neighbour below.
    Minus(Name),
    /// For messages that go down a coordinate, from the neighbour above.
    Plus(Name),
    /// For messages from any other rank.
    Peer,
}

impl Direction {
    /// Returns the window at which a message to this peer arrives.
    pub fn of(peer: &Peer, coords: &[(Name, u64)]) -> Direction {
        let mut direction = None;
        for (e, (name, size)) in peer.iter().zip(coords) {
            if *e == Expr::Var(name.clone()) {
                continue;
            }
            let up = match step(e, name, *size) {
                Some(up) if direction.is_none() => up,
                _ => return Direction::Peer,
            };
            direction = Some(if up { Direction::Minus(name.clone()) } else { Direction::Plus(name.clone()) });
        }
        direction.unwrap_or(Direction::Peer)
    }

    /// Returns `r_minus`, `r_plus` or `peer`, for a coordinate `r`.
    pub fn name(&self) -> String {
        match self {
            Direction::Minus(r) => format!("{r}_minus"),
            Direction::Plus(r) => format!("{r}_plus"),
            Direction::Peer => "peer".to_owned(),
        }
    }
}

/// Checks whether an expression is the next coordinate (true) or the previous one (false), with or
/// without wrapping.
fn step(e: &Expr, name: &Name, size: u64) -> Option<bool> {
    let inner = match e {
        Expr::Bin(BinOp::Mod, inner, k) if k.as_int() == Some(size as i64) => inner,
        e => e,
    };
    let Expr::Bin(op, a, b) = inner else { return None };
    let (own, by) = match (op, a.as_int(), b.as_int()) {
        (BinOp::Add, _, Some(d)) => (a, d),
        (BinOp::Add, Some(d), _) => (b, d),
        (BinOp::Sub, _, Some(d)) => (a, -d),
        _ => return None,
    };
    if **own != Expr::Var(name.clone()) {
        return None;
    }
    // In a ring of two, only the text distinguishes the two directions.
    match by {
        1 => Some(true),
        -1 => Some(false),
        d if size > 2 && d == size as i64 - 1 => Some(false),
        _ => None,
    }
}

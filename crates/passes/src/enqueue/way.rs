//! From which direction a message comes in at its receiver.
//!
//! A direction of mine is joined to the one of my peer that points back at me: what I send up an axis comes in at my
//! peer's window for what comes from below. Owns this reading of a peer's text; names of directions never pair by
//! themselves.

use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::Peer;

/// The window of a receiver.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Way {
    /// For what comes up a coordinate, from the neighbour below.
    Minus(Name),
    /// For what comes down it.
    Plus(Name),
    /// For any other rank.
    Peer,
}

impl Way {
    /// The window that a message to this peer comes in at.
    pub(super) fn of(peer: &Peer, coords: &[(Name, u64)]) -> Way {
        let mut way = None;
        for (e, (name, size)) in peer.iter().zip(coords) {
            if *e == Expr::Var(name.clone()) {
                continue;
            }
            let up = match step(e, name, *size) {
                Some(up) if way.is_none() => up,
                _ => return Way::Peer,
            };
            way = Some(if up { Way::Minus(name.clone()) } else { Way::Plus(name.clone()) });
        }
        way.unwrap_or(Way::Peer)
    }

    /// `r_minus`, `r_plus`, `peer`
    pub(super) fn name(&self) -> String {
        match self {
            Way::Minus(r) => format!("{r}_minus"),
            Way::Plus(r) => format!("{r}_plus"),
            Way::Peer => "peer".to_owned(),
        }
    }
}

/// Whether an expression is the next coordinate (true) or the one before it, with or without a wrap.
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
    // In a ring of two only the text tells the two ways apart.
    match by {
        1 => Some(true),
        -1 => Some(false),
        d if size > 2 && d == size as i64 - 1 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_by_the_text_of_the_peer() {
        let (x, y): (Name, Name) = ("x".into(), "y".into());
        let coords = [(x.clone(), 2), (y.clone(), 3)];
        let var = |n: &Name| Expr::Var(n.clone());
        let at = |a, b| Way::of(&vec![a, b], &coords);
        assert_eq!(at((var(&x) + Expr::Int(1)).modulo(2), var(&y)), Way::Minus(x.clone()));
        assert_eq!(at((var(&x) - Expr::Int(1)).modulo(2), var(&y)), Way::Plus(x.clone()));
        assert_eq!(at(var(&x), (var(&y) + Expr::Int(2)).modulo(3)), Way::Plus(y.clone()));
        assert_eq!(at(var(&x), var(&y) + Expr::Int(1)), Way::Minus(y.clone()));
        assert_eq!(at(var(&x), var(&y) - Expr::Int(1)), Way::Plus(y.clone()));
        let both = at((var(&x) + Expr::Int(1)).modulo(2), var(&y) - Expr::Int(1));
        assert_eq!(both, Way::Peer);
        assert_eq!(at(var(&x), Expr::Int(0)), Way::Peer);
        assert_eq!(at(var(&y), var(&x)), Way::Peer);
    }
}

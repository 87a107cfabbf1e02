//! How the parts of one buffer move when a digit of the rank does, from all the ways in which it is used.
//!
//! Owns the uses that addresses stand for and the rules by which they agree; which addresses there are is
//! [`super::proof`]'s to find.

use super::group::{Digit, FRACTION, Move};
use kbc_ir::expr::gcd;

/// Part number `at` of `of` of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Piece {
    pub at: u64,
    pub of: u64,
}

impl Piece {
    pub(super) const WHOLE: Piece = Piece { at: 0, of: 1 };

    /// Whether two pieces share nothing.
    pub(super) fn beside(self, other: Piece) -> bool {
        let end = |p: Piece, q: Piece| (p.at + 1) as u128 * q.of as u128 <= q.at as u128 * p.of as u128;
        end(self, other) || end(other, self)
    }
}

/// What an address says about how its buffer moves.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Use {
    /// Of `of` parts, in runs of `n`, part i goes to i + c t; said of a piece.
    Shift { of: u64, n: u64, c: u64, piece: Piece },
    /// The binary fraction is xored; the run is `cnt / den` of the line long.
    Xor { sh: i32, mask: u64, cnt: u64, den: u64 },
    /// A run that stays: `num / den`, `cnt / den` long (`num` 1 where any in the piece).
    Stay { num: u64, cnt: u64, den: u64, piece: Piece },
}

impl Use {
    /// A shift in the fewest parts that say it.
    pub(super) fn shift(of: u64, n: u64, c: u64) -> Use {
        let g = gcd(n, c).max(1);
        Use::Shift { of: of / g, n: n / g, c: c / g, piece: Piece::WHOLE }
    }

    /// Said of a piece only.
    pub(super) fn within(self, piece: Piece) -> Use {
        match self {
            // A piece that does not hold whole runs is none.
            Use::Shift { of, n, c, .. } if of.is_multiple_of(piece.of * n) => Use::Shift { of, n, c, piece },
            u @ Use::Shift { .. } | u @ Use::Xor { .. } | u @ Use::Stay { .. } => u,
        }
    }

    /// The part of what stays that lies in a piece; none if there is none, or all of the piece stays as it is.
    fn clipped(&self, to: Piece) -> Option<Use> {
        let Use::Stay { num, cnt, den, piece } = *self else { return None };
        if piece != Piece::WHOLE {
            return (!piece.beside(to)).then(|| self.clone());
        }
        let (lo, hi) = (num.checked_mul(to.of)?, (num + cnt).checked_mul(to.of)?);
        let (from, upto) = (to.at.checked_mul(den)?, (to.at + 1).checked_mul(den)?);
        let (lo, hi) = (lo.max(from), hi.min(upto));
        let all = lo == from && hi == upto;
        (lo < hi && !all).then(|| Use::Stay { num: lo, cnt: hi - lo, den: den * to.of, piece: to })
    }
}

/// The moves that all uses of a buffer agree on, for digit number `k`: none within if it stays, none at all if they do
/// not agree. A line whose uses agree only piece by piece moves so.
pub(super) fn moves(uses: &[&Use], k: usize, digit: &Digit) -> Option<Vec<Move>> {
    if digit.xor {
        return Some(one_xor(uses, k)?.into_iter().collect());
    }
    if let Some(found) = one_shift(uses, k, digit.size, Piece::WHOLE) {
        return Some(found.into_iter().collect());
    }
    let mut of = None;
    for u in uses {
        match u {
            Use::Shift { piece, .. } if *piece == Piece::WHOLE || of.is_some_and(|n| n != piece.of) => {
                return None;
            }
            Use::Shift { piece, .. } => of = Some(piece.of),
            Use::Xor { .. } => return None,
            Use::Stay { .. } => {}
        }
    }
    let of = of?;
    let mut out = vec![];
    for at in 0..of {
        let here = Piece { at, of };
        let clipped: Vec<Use> = uses.iter().filter_map(|u| u.clipped(here)).collect();
        let shifts = uses.iter().copied().filter(|u| matches!(u, Use::Shift { piece, .. } if *piece == here));
        let list: Vec<&Use> = shifts.chain(&clipped).collect();
        out.extend(one_shift(&list, k, digit.size, here)?);
    }
    Some(out)
}

/// The one shift that uses of a piece agree on.
fn one_shift(uses: &[&Use], digit: usize, size: u64, piece: Piece) -> Option<Option<Move>> {
    let mut found: Option<(u64, u64, u64)> = None;
    for u in uses {
        if let Use::Shift { of, n, c, .. } = **u {
            match found {
                None => found = Some((of, n, c)),
                Some(f) if f == (of, n, c) => {}
                Some(_) => return None,
            }
        }
    }
    let Some((of, n, c)) = found else { return Some(None) };
    if !(c as u128 * size as u128).is_multiple_of(n as u128) {
        return None;
    }
    let whole = |x: u64, den: u64| (x as u128 * of as u128).is_multiple_of(den as u128 * n as u128);
    let stays = uses.iter().all(|u| match **u {
        Use::Stay { num, cnt, den, .. } => cnt == 0 || (whole(num, den) && whole(cnt, den)),
        Use::Shift { .. } | Use::Xor { .. } => true,
    });
    stays.then_some(Some(Move::Shift { digit, of, n, c, piece }))
}

/// The one xor that all uses of a buffer agree on, each seeing the bits above its own length.
fn one_xor(uses: &[&Use], digit: usize) -> Option<Option<Move>> {
    let (mut full, mut at) = (0u64, None);
    for u in uses {
        if let Use::Xor { sh, mask, .. } = **u {
            full |= mask;
            if *at.get_or_insert(sh) != sh {
                return None;
            }
        }
    }
    let Some(sh) = at else { return Some(None) };
    let length = |cnt: u64, den: u64| {
        let scaled = (cnt as u128) << FRACTION;
        scaled.is_multiple_of(den as u128).then(|| (scaled / den as u128) as u64)
    };
    let fine = uses.iter().all(|u| match **u {
        Use::Shift { .. } => false,
        Use::Xor { mask, cnt, den, .. } => {
            // Nothing below the bits it sees may move, unless the run covers it.
            let below = full & !mask;
            below == 0 || length(cnt, den).is_some_and(|l| l.is_power_of_two() && mask == full & !(l - 1))
        }
        Use::Stay { num, cnt, den, .. } => {
            cnt == 0
                || (length(cnt, den).is_some_and(|l| {
                    let span =
                        full.checked_next_power_of_two().map_or(0, |p| if p == full { p * 2 } else { p });
                    let lo = length(num, den);
                    span > 0 && l.is_multiple_of(span) && lo.is_some_and(|lo| lo.is_multiple_of(span))
                }))
        }
    });
    fine.then_some(Some(Move::Xor { digit, sh, mask: full }))
}

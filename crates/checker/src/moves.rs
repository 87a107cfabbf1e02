//! Moves of buffers: derives how the parts of one buffer move with a digit of the rank, from all
//! uses of the buffer.
//!
//! The module owns the uses that addresses represent and the rules by which they agree.
//! [`super::proof`] finds the addresses.

use super::group::{Digit, FRACTION, LinePart, Move};
use kbc_ir::expr::gcd;

/// What an address requires of the move of its buffer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Constraint {
    /// The line has `of` parts, and in runs of `n`, part i goes to `i + c t`. It applies to a piece
    /// of the line.
    Shift { of: u64, n: u64, c: u64, piece: LinePart },
    /// The binary fraction is xored. The run has `cnt / den` of the length of the line.
    Xor { sh: i32, mask: u64, cnt: u64, den: u64 },
    /// A run that stays. It begins at `num / den` and has `cnt / den` of the length of the line.
    /// `num` is 1 if it may be any such run in the piece.
    Stay { num: u64, cnt: u64, den: u64, piece: LinePart },
}

impl Constraint {
    /// Creates a shift, expressed in the fewest parts.
    pub(super) fn shift(of: u64, n: u64, c: u64) -> Constraint {
        let g = gcd(n, c).max(1);
        Constraint::Shift { of: of / g, n: n / g, c: c / g, piece: LinePart::WHOLE }
    }

    /// Restricts the use to a piece.
    pub(super) fn within(self, piece: LinePart) -> Constraint {
        match self {
            // A piece that does not contain whole runs does not restrict the use.
            Constraint::Shift { of, n, c, .. } if of.is_multiple_of(piece.of * n) => {
                Constraint::Shift { of, n, c, piece }
            }
            u @ Constraint::Shift { .. } | u @ Constraint::Xor { .. } | u @ Constraint::Stay { .. } => u,
        }
    }

    /// Returns the part of a run that stays which lies in a piece. Returns None if there is no such
    /// part, or if the piece stays as a whole.
    fn clipped(&self, to: LinePart) -> Option<Constraint> {
        let Constraint::Stay { num, cnt, den, piece } = *self else { return None };
        if piece != LinePart::WHOLE {
            return (!piece.beside(to)).then(|| self.clone());
        }
        let (lo, hi) = (num.checked_mul(to.of)?, (num + cnt).checked_mul(to.of)?);
        let (from, upto) = (to.at.checked_mul(den)?, (to.at + 1).checked_mul(den)?);
        let (lo, hi) = (lo.max(from), hi.min(upto));
        let all = lo == from && hi == upto;
        (lo < hi && !all).then(|| Constraint::Stay { num: lo, cnt: hi - lo, den: den * to.of, piece: to })
    }
}

/// Returns the moves on which all uses of a buffer agree, for digit number `k`. The list is empty
/// if the buffer stays; the result is None if the uses do not agree. If uses agree only piece by
/// piece, the line moves piece by piece.
pub(super) fn moves(uses: &[&Constraint], k: usize, digit: &Digit) -> Option<Vec<Move>> {
    if digit.xor {
        return Some(one_xor(uses, k)?.into_iter().collect());
    }
    if let Some(found) = one_shift(uses, k, digit.size, LinePart::WHOLE) {
        return Some(found.into_iter().collect());
    }
    let mut of = None;
    for u in uses {
        match u {
            Constraint::Shift { piece, .. }
                if *piece == LinePart::WHOLE || of.is_some_and(|n| n != piece.of) =>
            {
                return None;
            }
            Constraint::Shift { piece, .. } => of = Some(piece.of),
            Constraint::Xor { .. } => return None,
            Constraint::Stay { .. } => {}
        }
    }
    let of = of?;
    let mut out = vec![];
    for at in 0..of {
        let here = LinePart { at, of };
        let clipped: Vec<Constraint> = uses.iter().filter_map(|u| u.clipped(here)).collect();
        let shifts =
            uses.iter().copied().filter(|u| matches!(u, Constraint::Shift { piece, .. } if *piece == here));
        let list: Vec<&Constraint> = shifts.chain(&clipped).collect();
        out.extend(one_shift(&list, k, digit.size, here)?);
    }
    Some(out)
}

/// Returns the one shift on which the uses of a piece agree.
fn one_shift(uses: &[&Constraint], digit: usize, size: u64, piece: LinePart) -> Option<Option<Move>> {
    let mut found: Option<(u64, u64, u64)> = None;
    for u in uses {
        if let Constraint::Shift { of, n, c, .. } = **u {
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
        Constraint::Stay { num, cnt, den, .. } => cnt == 0 || (whole(num, den) && whole(cnt, den)),
        Constraint::Shift { .. } | Constraint::Xor { .. } => true,
    });
    stays.then_some(Some(Move::Shift { digit, of, n, c, piece }))
}

/// Returns the one xor on which all uses of a buffer agree. Each use determines the bits above its
/// own length.
fn one_xor(uses: &[&Constraint], digit: usize) -> Option<Option<Move>> {
    let (mut full, mut at) = (0u64, None);
    for u in uses {
        if let Constraint::Xor { sh, mask, .. } = **u {
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
        Constraint::Shift { .. } => false,
        Constraint::Xor { mask, cnt, den, .. } => {
            // No bit below those that the use determines may move, unless the run covers it.
            let below = full & !mask;
            below == 0 || length(cnt, den).is_some_and(|l| l.is_power_of_two() && mask == full & !(l - 1))
        }
        Constraint::Stay { num, cnt, den, .. } => {
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

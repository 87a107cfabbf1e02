//! Which ranks are walked, and how everything else is the translate of it.
//!
//! Owns the translation group (shifts and xors of digits of a rank's linear index), its action on ranks, on indices
//! in a group and on the atoms of a buffer. That a schedule is symmetric under it is [`super::symmetry`]'s to show.

use super::moves::Piece;

/// A digit of the linear rank that the group moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Digit {
    /// Its place in the rank's linear index.
    pub stride: u64,
    /// Its count.
    pub size: u64,
    /// `x ^ t` instead of `(x + t) mod size`; the size is then a power of two.
    pub xor: bool,
}

impl Digit {
    fn of(&self, x: u64) -> u64 {
        x / self.stride % self.size
    }

    /// The digit `x` moved by `t`.
    pub(super) fn moved(&self, x: u64, t: u64) -> u64 {
        if self.xor { x ^ t } else { (x + t) % self.size }
    }
}

/// Products of shifts and xors on digits of the rank. An element is written as the rank it takes rank 0 to.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Number of ranks.
    pub ranks: u64,
    /// What moves, by falling stride; none for the identity, where every rank is walked.
    pub digits: Vec<Digit>,
    /// One rank of every orbit: those whose moving digits are 0.
    pub reps: Vec<u64>,
    rep_index: Vec<u32>,
}

impl Group {
    /// The group of these digits on that many ranks.
    pub(super) fn new(ranks: u64, mut digits: Vec<Digit>) -> Group {
        digits.sort_by_key(|d| std::cmp::Reverse(d.stride));
        let mut reps = vec![];
        let mut rep_index = vec![u32::MAX; ranks as usize];
        for q in 0..ranks {
            if digits.iter().all(|d| d.of(q) == 0) {
                rep_index[q as usize] = reps.len() as u32;
                reps.push(q);
            }
        }
        Group { ranks, digits, reps, rep_index }
    }

    /// Whether every rank is walked.
    pub(super) fn trivial(&self) -> bool {
        self.digits.is_empty()
    }

    /// A rank as (index of its representative, element that takes the representative to it).
    pub(super) fn split(&self, q: u64) -> (usize, u64) {
        if self.trivial() {
            return (q as usize, 0);
        }
        let h: u64 = self.digits.iter().map(|d| d.of(q) * d.stride).sum();
        (self.rep_index[(q - h) as usize] as usize, h)
    }

    /// The rank that element `h` takes `q` to.
    pub(super) fn act(&self, h: u64, q: u64) -> u64 {
        if h == 0 {
            return q;
        }
        let mut out = q;
        for d in &self.digits {
            let x = d.of(q);
            out = out - x * d.stride + d.moved(x, d.of(h)) * d.stride;
        }
        out
    }

    /// The inverse of an element.
    pub(super) fn inverse(&self, h: u64) -> u64 {
        let back = |d: &Digit| if d.xor { d.of(h) } else { (d.size - d.of(h)) % d.size };
        self.digits.iter().map(|d| back(d) * d.stride).sum()
    }

    /// How far element `h` moves digit number `k`.
    pub(super) fn amount(&self, k: usize, h: u64) -> u64 {
        self.digits[k].of(h)
    }

    /// Joins `src`, entries per rank of `width` each, moved by `h`, into `dst`: entrywise maximum.
    pub(super) fn join(&self, h: u64, width: usize, dst: &mut [u32], src: &[u32]) {
        if h == 0 {
            return join_slices(dst, src);
        }
        join_moved(&self.digits, h, width, dst, src);
    }
}

/// [`Group::join`] for digits in order of falling stride.
fn join_moved(digits: &[Digit], h: u64, width: usize, dst: &mut [u32], src: &[u32]) {
    let Some((d, rest)) = digits.split_first() else { return join_slices(dst, src) };
    let unit = d.stride as usize * width;
    let block = unit * d.size as usize;
    let t = d.of(h);
    for (to, from) in dst.chunks_mut(block).zip(src.chunks(block)) {
        if rest.is_empty() && !d.xor {
            let turn = t as usize * unit;
            join_slices(&mut to[turn..], &from[..block - turn]);
            join_slices(&mut to[..turn], &from[block - turn..]);
            continue;
        }
        for (x, from) in from.chunks(unit).enumerate() {
            let at = d.moved(x as u64, t) as usize * unit;
            join_moved(rest, h, width, &mut to[at..at + unit], from);
        }
    }
}

fn join_slices(dst: &mut [u32], src: &[u32]) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d = (*d).max(*s);
    }
}

/// Bits of a binary fraction of a line; finer power-of-two cuts than this are not recognised as moving.
pub(super) const FRACTION: u32 = 40;

/// How one digit of the group moves the parts of a line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Move {
    /// Of the line's `of` parts, in every run of `n` that lies in the piece, part i goes to (i + c t) mod n.
    Shift { digit: usize, of: u64, n: u64, c: u64, piece: Piece },
    /// The binary fraction is xored with `shift(t, sh) & mask`, negative `sh` being a shift to the left.
    Xor { digit: usize, sh: i32, mask: u64 },
}

/// How the group moves the parts of one line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Action {
    pub moves: Vec<Move>,
}

/// `shift(t, sh) & mask`.
pub(super) fn xor_amount(t: u64, sh: i32, mask: u64) -> u64 {
    (if sh >= 0 { t >> sh.min(63) } else { t << (-sh).min(63) }) & mask
}

impl Action {
    /// Atom `a` of `atoms`, moved by element `h`.
    pub(super) fn apply(&self, group: &Group, h: u64, a: u64, atoms: u64) -> u64 {
        if h == 0 {
            return a;
        }
        let mut a = a;
        for m in &self.moves {
            match *m {
                Move::Shift { digit, of, n, c, piece } => {
                    if piece.of > 1 && a / (atoms / piece.of) != piece.at {
                        continue;
                    }
                    let t = group.amount(digit, h);
                    let stride = atoms / of;
                    let x = a / stride % n;
                    let to = ((x as u128 + c as u128 * t as u128) % n as u128) as u64;
                    a = a - x * stride + to * stride;
                }
                Move::Xor { digit, sh, mask } => {
                    let low = mask.trailing_zeros();
                    let unit = atoms >> (FRACTION - low);
                    let by = xor_amount(group.amount(digit, h), sh, mask) >> low;
                    a = ((a / unit) ^ by) * unit + a % unit;
                }
            }
        }
        a
    }

    /// Parts a line must have so that it can be moved: a multiple of this.
    pub(super) fn parts(&self) -> u64 {
        let each = |m: &Move| match *m {
            Move::Shift { of, .. } => of,
            Move::Xor { mask, .. } => 1 << (FRACTION - mask.trailing_zeros()),
        };
        self.moves.iter().map(each).fold(1, super::grid::lcm)
    }

    /// How the group turns `n` atoms from `lo` on in themselves, as (digit, parts, parts of a turn, step) of all that does:
    /// two runs of which that is the same keep their atoms side by side under every element. None where a part is
    /// cut.
    pub(super) fn inner(&self, lo: u64, n: u64, atoms: u64) -> Option<Vec<(usize, u64, u64, u64)>> {
        let mut out = vec![];
        for m in &self.moves {
            match *m {
                Move::Shift { digit, of, n: parts, c, piece } => {
                    let stride = atoms / of;
                    if stride >= n {
                        continue;
                    }
                    let turn = stride * parts;
                    if piece != Piece::WHOLE || !lo.is_multiple_of(turn) || !n.is_multiple_of(turn) {
                        return None;
                    }
                    out.push((digit, stride, parts, c));
                }
                Move::Xor { mask, .. } if atoms >> (FRACTION - mask.trailing_zeros()) < n => return None,
                Move::Xor { .. } => {}
            }
        }
        Some(out)
    }
}

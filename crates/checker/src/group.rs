//! Symmetry group of the ranks: which ranks are walked, and which group element takes them to every
//! other rank.
//!
//! The group consists of translations: shifts and xors of digits of a rank's linear index. The
//! module owns the group and its action on ranks, on indices in a group of ranks, and on the atoms
//! of a buffer. [`super::symmetry`] proves that a schedule is symmetric under it. A rank that is
//! not walked is an *image* of a walked one.

/// A digit of the linear rank that the group moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digit {
    /// Stride of the digit in the rank's linear index.
    pub stride: u64,
    /// Number of values of the digit.
    pub size: u64,
    /// Whether the digit moves by `x ^ t` instead of `(x + t) mod size`. The size is then a power
    /// of two.
    pub xor: bool,
}

impl Digit {
    fn of(&self, x: u64) -> u64 {
        x / self.stride % self.size
    }

    /// Returns the digit `x` moved by `t`.
    pub(super) fn moved(&self, x: u64, t: u64) -> u64 {
        if self.xor { x ^ t } else { (x + t) % self.size }
    }
}

/// A group of products of shifts and xors on digits of the rank. An element is represented by the
/// rank to which it takes rank 0.
#[derive(Clone, Debug)]
pub struct Group {
    /// Number of ranks.
    pub ranks: u64,
    /// The digits that move, by descending stride. The list is empty for the trivial group, where
    /// every rank is walked.
    pub digits: Vec<Digit>,
    /// One rank of every orbit: the ranks whose moving digits are 0.
    pub reps: Vec<u64>,
    rep_index: Vec<u32>,
}

impl Group {
    /// Creates the group of these digits on `ranks` ranks.
    pub fn new(ranks: u64, mut digits: Vec<Digit>) -> Group {
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

    /// Splits a rank into (index of its representative, element that takes the representative to
    /// it).
    pub fn split(&self, q: u64) -> (usize, u64) {
        if self.trivial() {
            return (q as usize, 0);
        }
        let h: u64 = self.digits.iter().map(|d| d.of(q) * d.stride).sum();
        (self.rep_index[(q - h) as usize] as usize, h)
    }

    /// Returns the rank to which element `h` takes `q`.
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

    /// Returns the inverse of an element.
    pub(super) fn inverse(&self, h: u64) -> u64 {
        let back = |d: &Digit| if d.xor { d.of(h) } else { (d.size - d.of(h)) % d.size };
        self.digits.iter().map(|d| back(d) * d.stride).sum()
    }

    /// Returns element `h` applied `n` times.
    pub(super) fn power(&self, h: u64, n: u64) -> u64 {
        let times = |d: &Digit| {
            let far = u128::from(d.of(h)) * u128::from(if d.xor { n % 2 } else { n });
            (far % u128::from(d.size)) as u64
        };
        self.digits.iter().map(|d| times(d) * d.stride).sum()
    }

    /// Returns the numbers of steps after which a walk from rank `q` has brought a digit home. A
    /// step applies the inverse of element `h`. A digit that shifts is home when it is 0; a digit
    /// that xor moves takes one step if that makes it smaller. Each digit that is not 0 gives at
    /// most one number.
    pub(super) fn homeward(&self, h: u64, q: u64) -> Vec<u64> {
        let steps = |d: &Digit| {
            let (far, step) = (d.of(q), d.of(h));
            match far {
                0 => None,
                _ if d.xor => (far ^ step < far).then_some(1),
                _ => quotient(far, step, d.size),
            }
        };
        let mut out: Vec<u64> = self.digits.iter().filter_map(steps).collect();
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Returns how far element `h` moves digit number `k`.
    pub(super) fn amount(&self, k: usize, h: u64) -> u64 {
        self.digits[k].of(h)
    }

    /// Joins `src`, moved by `h`, into `dst` by entrywise maximum. Both have `width` entries per
    /// rank.
    pub(super) fn join(&self, h: u64, width: usize, dst: &mut [u32], src: &[u32]) {
        if h == 0 {
            return join_slices(dst, src);
        }
        join_moved(&self.digits, h, width, dst, src);
    }
}

/// Returns the smallest `n` with `n * b = a (mod m)`.
fn quotient(a: u64, b: u64, m: u64) -> Option<u64> {
    // Euclid's algorithm keeps `x * b = r (mod m)` for both pairs.
    let (mut r, mut s) = ((i128::from(m), 0i128), (i128::from(b), 1i128));
    while s.0 != 0 {
        let k = r.0 / s.0;
        (r, s) = (s, (r.0 - k * s.0, r.1 - k * s.1));
    }
    let (g, a) = (r.0, i128::from(a));
    if a % g != 0 {
        return None;
    }
    let turn = i128::from(m) / g;
    Some((a / g % turn * r.1).rem_euclid(turn) as u64)
}

/// Implements [`Group::join`] for digits in order of descending stride.
fn join_moved(digits: &[Digit], h: u64, width: usize, dst: &mut [u32], src: &[u32]) {
    // Digits that stay split nothing.
    let moving = digits.iter().position(|d| d.of(h) != 0).unwrap_or(digits.len());
    let Some((d, rest)) = digits[moving..].split_first() else { return join_slices(dst, src) };
    let unit = d.stride as usize * width;
    let block = unit * d.size as usize;
    let t = d.of(h);
    for (to, from) in dst.chunks_mut(block).zip(src.chunks(block)) {
        if !d.xor && rest.iter().all(|d| d.of(h) == 0) {
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

/// Number of bits of a binary fraction of a line. Finer power-of-two cuts are not recognised as
/// moving.
pub(super) const FRACTION: u32 = 40;

/// Part number `at` of `of` parts of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LinePart {
    pub at: u64,
    pub of: u64,
}

impl LinePart {
    pub(super) const WHOLE: LinePart = LinePart { at: 0, of: 1 };

    /// Whether two pieces are disjoint.
    pub(super) fn beside(self, other: LinePart) -> bool {
        let end = |p: LinePart, q: LinePart| (p.at + 1) as u128 * q.of as u128 <= q.at as u128 * p.of as u128;
        end(self, other) || end(other, self)
    }
}

/// The effect of one digit of the group on the parts of a line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Move {
    /// The line has `of` parts. In every run of `n` parts that lies in the piece, part i goes to
    /// `(i + c t) mod n`.
    Shift { digit: usize, of: u64, n: u64, c: u64, piece: LinePart },
    /// The binary fraction is xored with `shift(t, sh) & mask`. A negative `sh` is a shift to the
    /// left.
    Xor { digit: usize, sh: i32, mask: u64 },
}

/// The effect of the group on the parts of one line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Action {
    pub moves: Vec<Move>,
}

/// Returns `shift(t, sh) & mask`.
pub(super) fn xor_amount(t: u64, sh: i32, mask: u64) -> u64 {
    (if sh >= 0 { t >> sh.min(63) } else { t << (-sh).min(63) }) & mask
}

impl Action {
    /// Returns atom `a` of `atoms`, moved by element `h`.
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

    /// Returns the number of which the parts of a line must be a multiple, so that the line can be
    /// moved.
    pub(super) fn parts(&self) -> u64 {
        let each = |m: &Move| match *m {
            Move::Shift { of, .. } => of,
            Move::Xor { mask, .. } => 1 << (FRACTION - mask.trailing_zeros()),
        };
        self.moves.iter().map(each).fold(1, super::grid::lcm)
    }

    /// Returns how the group permutes `n` atoms from `lo` on among themselves: (digit, parts, parts
    /// of a turn, step) of every move that does. Two runs with equal results keep their atoms side
    /// by side under every element. Returns None if a move cuts a part.
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
                    if piece != LinePart::WHOLE || !lo.is_multiple_of(turn) || !n.is_multiple_of(turn) {
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

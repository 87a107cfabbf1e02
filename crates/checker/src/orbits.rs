//! Ranks that do the same, moved, for those who need no contents: the event engine.
//!
//! Owns the view of a group from outside the checker. What is shown is the shape of a schedule: control, peers,
//! counters and sizes; that a machine moves with it is the caller's condition.

use super::group::Group;
use super::symmetry;
use kbc_ir::walk::Program;

/// Ranks in orbits under shifts and xors of digits of their linear index. An element of the group is written as the rank
/// it takes rank 0 to.
#[derive(Clone, Debug)]
pub struct Orbits {
    group: Group,
}

impl Orbits {
    /// For `calls` calls. `carries(stride, size, xor)` says whether the machine is the same when the digit
    /// `rank / stride mod size` moves, by addition modulo its size or by xor.
    ///
    /// # Errors
    /// Why there is no symmetry, in words.
    pub fn find(
        program: &Program<'_>,
        calls: u64,
        carries: impl Fn(u64, u64, bool) -> bool,
    ) -> Result<Orbits, String> {
        let group = symmetry::of_shape(program, calls, &|d| carries(d.stride, d.size, d.xor))?;
        Ok(Orbits { group })
    }

    /// The first rank of every orbit, in order.
    pub fn first(&self) -> &[u64] {
        &self.group.reps
    }

    /// Ranks of an orbit: all have as many.
    pub fn size(&self) -> u64 {
        self.group.ranks / self.group.reps.len() as u64
    }

    /// A rank as the number of its orbit, and the element that takes the orbit's first rank to it.
    pub fn split(&self, rank: u64) -> (usize, u64) {
        self.group.split(rank)
    }

    /// The rank that an element takes a rank to; of two elements, one after the other.
    pub fn act(&self, element: u64, rank: u64) -> u64 {
        self.group.act(element, rank)
    }

    /// The element that undoes one.
    pub fn inverse(&self, element: u64) -> u64 {
        self.group.inverse(element)
    }

    /// Whether every element leaves two ranks in the same order: what they differ in does not move.
    pub fn ordered(&self, a: u64, b: u64) -> bool {
        let top = self.group.digits.iter().map(|d| d.stride * d.size).max().unwrap_or(1);
        a == b || a / top != b / top
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kbc_diag::FileId;
    use kbc_ir::text;

    fn orbits(peer: &str, chunk: &str, n: u64, xor: bool) -> Result<Orbits, String> {
        let source = format!(
            "kir 1\nmodule @m\nmesh tp 8\nprops expanded allocated synchronized\n\nschedule calls first\n\
             buffer %y : f32[{n}] hbm temp\nwindow @w : f32[8 x {n}] hbm at 0\nsignal @s[1] arrival at 0\n\n\
             region @c over tp as (r of 8)\n  on v = %y line {n}\n  role all\n    stream main\n\
             \x20     put v[{chunk} of 8] -> ({peer}) : @w[0]\n      fence.release\n      notify ({peer}) : @s[0]\n\
             \x20     wait @s[0] >= 1\n"
        );
        let module = text::parse(FileId(0), &source).expect("a schedule");
        let program = Program::compile(module.schedule().expect("a schedule")).expect("names have values");
        Orbits::find(&program, 1, |stride, size, x| (stride, size, x) == (1, 8, xor))
    }

    #[test]
    fn shifts_and_xors_are_found() {
        let ring = orbits("(r + 1) mod 8", "r", 800, false).expect("a ring");
        assert_eq!((ring.first(), ring.size()), (&[0][..], 8));
        let (orbit, h) = ring.split(5);
        assert_eq!((orbit, ring.act(h, 0), ring.act(ring.inverse(h), 5)), (0, 5, 0));
        assert!(!ring.ordered(1, 2) && ring.ordered(3, 3));
        let cube = orbits("r xor 2", "r", 800, true).expect("a cube");
        assert_eq!((cube.size(), cube.act(3, 5)), (8, 6));
    }

    #[test]
    fn what_does_not_move_is_not() {
        assert!(orbits("(r + 1) mod 8", "r", 800, true).is_err(), "the machine allows xor only");
        assert!(orbits("7 - r", "r", 800, false).is_err(), "a reflection");
        assert!(orbits("(r + 1) mod 8", "r", 801, false).is_err(), "chunks of 100 and of 101 elements");
        // What is in the chunks does not matter.
        assert!(orbits("(r + 1) mod 8", "0", 800, false).is_ok());
    }
}

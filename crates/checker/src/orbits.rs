//! Orbits of ranks: which ranks behave alike up to a translation, for callers that need no
//! contents, such as the event engine.
//!
//! The module owns the view of a group from outside the checker. It proves the symmetry of the
//! shape of a schedule: control, peers, counters and sizes. That the machine is symmetric too is a
//! condition that the caller supplies.

use super::group::Group;
use super::symmetry;
use kbc_ir::walk::Program;

/// Orbits of ranks under shifts and xors of digits of their linear index. An element of the group
/// is represented by the rank to which it takes rank 0.
#[derive(Clone, Debug)]
pub struct Orbits {
    group: Group,
}

impl Orbits {
    /// Finds the orbits for `calls` calls. `carries(stride, size, xor)` states whether the machine
    /// is the same when the digit `rank / stride mod size` moves, by addition modulo its size or by
    /// xor.
    ///
    /// # Errors
    /// Returns the reason, in words, if there is no symmetry.
    pub fn find(
        program: &Program<'_>,
        calls: u64,
        carries: impl Fn(u64, u64, bool) -> bool,
    ) -> Result<Orbits, String> {
        let group = symmetry::of_shape(program, calls, &|d| carries(d.stride, d.size, d.xor))?;
        Ok(Orbits { group })
    }

    /// Returns the first rank of every orbit, in order.
    pub fn first(&self) -> &[u64] {
        &self.group.reps
    }

    /// Returns the number of ranks of an orbit, which is the same for all orbits.
    pub fn size(&self) -> u64 {
        self.group.ranks / self.group.reps.len() as u64
    }

    /// Returns the number of the orbit of a rank, and the element that takes the orbit's first rank
    /// to it.
    pub fn split(&self, rank: u64) -> (usize, u64) {
        self.group.split(rank)
    }

    /// Returns the rank to which an element takes a rank; applied to two elements, it returns their
    /// composition.
    pub fn act(&self, element: u64, rank: u64) -> u64 {
        self.group.act(element, rank)
    }

    /// Returns the inverse of an element.
    pub fn inverse(&self, element: u64) -> u64 {
        self.group.inverse(element)
    }

    /// Whether every element preserves the order of two ranks, because the digits in which they
    /// differ do not move.
    pub fn ordered(&self, a: u64, b: u64) -> bool {
        let top = self.group.digits.iter().map(|d| d.stride * d.size).max().unwrap_or(1);
        a == b || a / top != b / top
    }
}

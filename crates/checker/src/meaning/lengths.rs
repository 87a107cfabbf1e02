//! Lengths of parts: the number of elements of each atom of a piece, and the positions of the atoms
//! of scratch.
//!
//! The module owns the rules for which piece may go where: the number of elements must match; ranks
//! that are not walked may have longer or shorter parts only if source and destination are the same
//! part of the same line; and scratch is read in the whole parts that were put there.
//! [`super::Meaning`] owns the contents.

use super::{AccessSite, Asymmetric, Meaning, NoMeaning};
use crate::contents::Contents;
use kbc_ir::schedule::{OperandId, RegionId};
use kbc_ir::walk::Access;

/// Positions of the atoms of a scratch operand, as (first element, number of elements). None while
/// all atoms lie as the line of the operand is cut.
pub(super) type AtomPositions = Option<Vec<(u64, u64)>>;

impl<C: Contents> Meaning<'_, C> {
    /// Returns the number of elements of each of `n` atoms of an operand, from atom `lo` of `atoms`
    /// on, as its line cuts them on a rank.
    fn lengths(
        &self,
        (region, operand): (u32, u32),
        rank: u64,
        (lo, n): (u64, usize),
        atoms: u64,
    ) -> Vec<u64> {
        let start = |atom: u64| {
            let (region, operand) = (RegionId(region), OperandId(operand));
            self.setup.program.chunk_start(region, operand, rank, atom as i64, atoms as i64).unwrap_or(0)
        };
        (lo..lo + n as u64).map(|i| start(i + 1) - start(i)).collect()
    }

    /// Returns the number of elements of each atom of the piece.
    pub(super) fn piece_lengths(&self) -> Vec<u64> {
        let p = &self.piece;
        match &p.lengths {
            Some(lengths) => lengths.clone(),
            None => self.lengths((p.region, p.operand), p.rank, (p.lo, p.n), p.atoms),
        }
    }

    /// Returns the number of elements of each atom of a chunk of scratch, whose atoms must lie
    /// where the chunk says. Returns None for other operands.
    pub(super) fn scratch_lengths(
        &mut self,
        at: AccessSite,
        a: &Access,
        lo: u64,
        n: usize,
    ) -> Result<Option<Vec<u64>>, NoMeaning> {
        let setup = self.setup;
        if !setup.scratch(at.region, a.operand) || n == 0 {
            return Ok(None);
        }
        let rank = setup.group.reps[at.rep];
        let all = self.held(at).operands[a.operand as usize].1;
        let laid = &self.held(at).laid[a.operand as usize];
        let out: Vec<u64> = match laid {
            // The atoms lie as the line cuts them, which is how the chunk is cut.
            None => return Ok(Some(self.lengths((at.region, a.operand), rank, (lo, n), all))),
            Some(laid) => {
                let mut next = a.start;
                let here = &laid[lo as usize..lo as usize + n];
                let follows =
                    |(start, len): &&(u64, u64)| *start == std::mem::replace(&mut next, start + len);
                here.iter().take_while(follows).map(|(_, len)| *len).collect()
            }
        };
        if out.len() < n || out.iter().sum::<u64>() != a.len {
            return Err(self.unfit(at, a));
        }
        Ok(Some(out))
    }

    pub(super) fn unfit(&self, at: AccessSite, a: &Access) -> NoMeaning {
        NoMeaning {
            code: "E343",
            text: format!(
                "{} does not consist of whole parts of the data in {}",
                self.chunk(at, a),
                self.name(at, a.operand)
            ),
            help: "divide a scratch operand into the same parts throughout the region",
        }
    }

    /// Records where the atoms of the piece lie in scratch. For a reduction they must already lie
    /// there.
    pub(super) fn record_layout(
        &mut self,
        at: AccessSite,
        a: &Access,
        (lo, n): (u64, usize),
        add: bool,
    ) -> Result<(), NoMeaning> {
        if !self.setup.scratch(at.region, a.operand) {
            return Ok(());
        }
        let come = self.piece_lengths();
        if come.iter().take(n).sum::<u64>() != a.len {
            // The chunks differ in length on other ranks. Such chunks go to the same place of the
            // same line.
            return Ok(());
        }
        if add {
            return match self.scratch_lengths(at, a, lo, n)? {
                Some(there) if there[..] != come[..n] => Err(self.unfit(at, a)),
                Some(_) | None => Ok(()),
            };
        }
        let all = self.held(at).operands[a.operand as usize].1;
        let rank = self.setup.group.reps[at.rep];
        // All atoms are looked at only where one of them does not lie as the line is cut.
        let mut plain = vec![];
        if self.held(at).laid[a.operand as usize].is_none() {
            if come[..n] == self.lengths((at.region, a.operand), rank, (lo, n), all) {
                return Ok(());
            }
            plain = self.lengths((at.region, a.operand), rank, (0, all as usize), all);
        }
        let nothing = C::new(self.setup.regions[at.region as usize].size, 1);
        let held = self.held(at);
        let cells = &mut held.operands[a.operand as usize].0;
        let laid = held.laid[a.operand as usize].get_or_insert_with(|| {
            let mut end = 0;
            let lies = |len: &u64| {
                end += len;
                (end - len, *len)
            };
            plain.iter().map(lies).collect()
        });
        let own = lo as usize..lo as usize + n;
        // Parts that lay here before are gone.
        for (atom, (start, len)) in laid.iter().enumerate().filter(|(atom, _)| !own.contains(atom)) {
            if *start < a.start + a.len && a.start < start + len {
                cells.store(atom, &nothing, 1);
            }
        }
        let mut next = a.start;
        for (at, len) in laid[own].iter_mut().zip(come) {
            *at = (next, len);
            next += len;
        }
        Ok(())
    }

    /// Whether the atoms of the piece and of its destination are aligned: the same number of
    /// elements each, and, if some ranks are not walked, moved alike.
    pub(super) fn aligned(
        &self,
        at: AccessSite,
        operand: u32,
        lo: u64,
        n: usize,
    ) -> Result<Result<(), NoMeaning>, Asymmetric> {
        let (setup, p) = (self.setup, &self.piece);
        let same = (p.operand, p.lo) == (operand, lo) && p.lengths.is_none();
        if same || n <= 1 {
            return Ok(Ok(()));
        }
        if !setup.group.trivial() {
            let inner = |o: u32, lo: u64| {
                let (buffer, atoms) = setup.operand(at.region, o);
                setup.actions[buffer].inner(lo, n as u64, atoms).filter(|_| setup.even(at.region, o))
            };
            let from = inner(p.operand, p.lo);
            if from.is_none() || from != inner(operand, lo) {
                return Err(format!(
                    "in region {} several chunks that depend on the rank or differ in length change their places at once",
                    setup.schedule.regions[at.region as usize].name
                ));
            }
        }
        // Scratch accepts parts of any size.
        if setup.scratch(at.region, operand) {
            return Ok(Ok(()));
        }
        let there = self.lengths(
            (at.region, operand),
            setup.group.reps[at.rep],
            (lo, n),
            self.setup.operand(at.region, operand).1,
        );
        if self.piece_lengths()[..n] != there[..] {
            return Ok(Err(NoMeaning {
                code: "E343",
                text: format!(
                    "parts {}..{} and {lo}..{} do not have the same numbers of elements",
                    p.lo,
                    p.lo + n as u64,
                    lo + n as u64
                ),
                help: "move parts of different sizes one by one",
            }));
        }
        Ok(Ok(()))
    }

    /// Checks chunks that are not equally long on all ranks: they may only go to where they come
    /// from, which is the same chunk of the same line.
    pub(super) fn alike(&self, at: AccessSite, a: &Access, lo: u64, n: usize) -> Result<(), Asymmetric> {
        let setup = self.setup;
        if setup.group.trivial() || self.piece.elements.is_some() && setup.even(at.region, a.operand) {
            return Ok(());
        }
        let p = &self.piece;
        let operands = &setup.schedule.regions[at.region as usize].operands;
        let line = |o: u32| &operands[o as usize].line;
        let (_, atoms) = setup.operand(at.region, a.operand);
        let same = (p.region, p.lo, p.n, p.atoms) == (at.region, lo, n, atoms);
        if same && line(p.operand) == line(a.operand) {
            return Ok(());
        }
        Err(format!(
            "in region {} chunks that differ in length change their places",
            setup.schedule.regions[at.region as usize].name
        ))
    }
}

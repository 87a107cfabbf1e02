//! Meaning of regions with a contract: what every operation does to contents.
//!
//! For each call of a region there is a state of its operands on every walked rank. The `start`
//! clauses make it, and it is compared with the `end` clauses when the rank leaves. Slots keep
//! their contents from call to call and remember which call of which region put them there. The
//! module owns these states. [`super::engine`] decides what runs when.

mod lengths;

use super::Setup;
use super::contents::{Contents, Difference, Memo, RankRotation, RequiredContents, label, unlabel};
use super::sparse::Sparse;
use kbc_ir::schedule::RegionId;
use kbc_ir::walk::{Access, Mem};
use lengths::AtomPositions;
use std::collections::{BTreeMap, BTreeSet};

/// The reason why a piece of data has no meaning.
pub(super) struct NoMeaning {
    pub code: &'static str,
    pub text: String,
    pub help: &'static str,
}

/// The reason why a run cannot continue: the ranks that are not walked would behave differently.
pub(super) type Asymmetric = String;

/// Location of an access.
#[derive(Clone, Copy)]
pub(super) struct AccessSite {
    /// Number of the walked rank.
    pub rep: usize,
    pub region: u32,
    pub call: u64,
}

/// A piece of data in transit or in a slot.
pub(super) struct Piece<C> {
    cells: C,
    n: usize,
    operand: u32,
    /// First atom of the operand from which it was read.
    lo: u64,
    /// Number of atoms of that operand.
    atoms: u64,
    /// Rank on which it was read.
    rank: u64,
    region: u32,
    call: u64,
    /// Number of elements; None if it was moved from another rank whose chunks may be one element
    /// longer or shorter.
    elements: Option<u64>,
    /// Number of elements of each atom, if it was read from scratch.
    lengths: Option<Vec<u64>>,
}

/// A piece that is in a queue.
pub(super) type QueuedPiece<C> = Piece<C>;

impl<C: Contents> Piece<C> {
    fn empty() -> Self {
        let (cells, elements, lengths) = (C::new(1, 0), None, None);
        Piece { cells, n: 0, operand: 0, lo: 0, atoms: 0, rank: 0, region: 0, call: 0, elements, lengths }
    }
}

struct RankContents<C> {
    /// Contents and number of atoms (0: not decided yet) of each operand.
    operands: Vec<(C, u64)>,
    /// Number of streams of the rank that have yet to leave.
    inside: usize,
    /// Whether the rank is done, so that its contents have been compared.
    left: bool,
    /// For each operand, the atoms that an operation of the region has read or written.
    touched: Vec<Vec<bool>>,
    /// Parts that held their required contents when another region wrote them: (operand, atom).
    done: BTreeSet<(u32, u64)>,
    /// Positions of the atoms of scratch, by operand.
    laid: Vec<AtomPositions>,
}

impl<C> RankContents<C> {
    /// Records that an operation of the region reads or writes atoms.
    fn touch(&mut self, operand: u32, lo: u64, n: u64) {
        let list = &mut self.touched[operand as usize];
        let end = (lo + n) as usize;
        if list.len() < end {
            list.resize(end, false);
        }
        list[lo as usize..end].fill(true);
    }
}

struct Instance<C> {
    ranks: Vec<Option<RankContents<C>>>,
    /// Number of walked ranks with a role that have yet to leave.
    left: usize,
}

/// A place that differs from the contract.
pub(super) struct Broken {
    pub rep: usize,
    pub operand: u32,
    pub atom: u64,
    pub atoms: u64,
    /// The required contribution.
    pub from: (u32, u64),
    pub ranks: usize,
    pub difference: Difference,
}

/// Contents of operands and slots in a run.
pub(super) struct Meaning<'p, C> {
    setup: &'p Setup<'p>,
    instances: BTreeMap<(u64, u32), Instance<C>>,
    /// Slots that have been filled, by number over all walked ranks.
    slots: Sparse<Piece<C>>,
    piece: Piece<C>,
    memo: Memo,
    /// Effects of group elements on indices, by region and element.
    turns: BTreeMap<(u32, u64), RankRotation>,
}

impl<'p, C: Contents> Meaning<'p, C> {
    pub(super) fn new(setup: &'p Setup<'p>) -> Self {
        let piece = Piece::empty();
        Meaning {
            setup,
            instances: BTreeMap::new(),
            slots: Sparse::new(setup.group.reps.len() * setup.grids.slot_count()),
            piece,
            memo: Memo::new(),
            turns: BTreeMap::new(),
        }
    }

    fn held(&mut self, at: AccessSite) -> &mut RankContents<C> {
        let setup = self.setup;
        let region = &setup.regions[at.region as usize];
        let instance = self.instances.entry((at.call, at.region)).or_insert_with(|| Instance {
            ranks: (0..setup.group.reps.len()).map(|_| None).collect(),
            left: region.streams.iter().filter(|n| **n > 0).count(),
        });
        instance.ranks[at.rep].get_or_insert_with(|| {
            let atoms = &setup.grids.atoms[at.region as usize];
            let operands = atoms.iter().map(|n| (C::new(region.size, *n as usize), *n)).collect();
            let inside = region.streams[at.rep];
            let mut held = RankContents {
                operands,
                inside,
                left: false,
                touched: atoms.iter().map(|_| vec![]).collect(),
                done: BTreeSet::new(),
                laid: vec![None; atoms.len()],
            };
            for o in 0..atoms.len() {
                begin(setup, &mut held, at, o as u32);
            }
            held
        })
    }

    /// Handles a rank that leaves a region on one stream. Returns the walked ranks that are then
    /// done with the region, and the places on them that differ from the contract.
    pub(super) fn leave(&mut self, at: AccessSite) -> (Vec<usize>, Vec<Broken>) {
        let held = self.held(at);
        held.inside = held.inside.saturating_sub(1);
        if held.inside > 0 {
            return (vec![], vec![]);
        }
        let (mut done, mut out) = (vec![at.rep], self.compare(at));
        self.held(at).left = true;
        let setup = self.setup;
        let over = self.instances.get_mut(&(at.call, at.region)).is_some_and(|i| {
            i.left -= 1;
            i.left == 0
        });
        if over {
            // Ranks without a role hold what other ranks sent them.
            for rep in 0..setup.group.reps.len() {
                let at = AccessSite { rep, ..at };
                if setup.regions[at.region as usize].streams[rep] == 0 {
                    out.extend(self.compare(at));
                    done.push(rep);
                }
            }
            self.instances.remove(&(at.call, at.region));
        }
        (done, out)
    }

    /// Whether elements of an operand hold their required final contents: either the rank has left
    /// the region, or they already hold them.
    pub(super) fn settled(&mut self, at: AccessSite, operand: u32, (lo, hi): (u64, u64)) -> bool {
        let live = self.instances.get(&(at.call, at.region)).and_then(|i| i.ranks[at.rep].as_ref());
        if live.is_none_or(|held| held.left) {
            return true;
        }
        let setup = self.setup;
        let (_, atoms) = setup.operand(at.region, operand);
        let broken = self.compare(at);
        let meets = |b: &Broken| {
            let (first, end) = setup.elements((at.region, operand), at.rep, (b.atom, 1), atoms);
            b.operand == operand && first < hi && lo < end
        };
        !broken.iter().any(meets)
    }

    /// Handles a write by another region, or by the host, to elements of an operand. Returns
    /// whether that breaks a contract that is in progress there.
    ///
    /// Parts that already hold their required final contents may be written again: signals or
    /// events have informed the writer that the region is done with them. Their old contents are
    /// then gone for any later read in the region.
    pub(super) fn disturbed(&mut self, rep: usize, region: u32, operand: u32, (lo, hi): (u64, u64)) -> bool {
        let setup = self.setup;
        let calls: Vec<u64> =
            self.instances.keys().filter(|(_, r)| *r == region).map(|(call, _)| *call).collect();
        let mut broken = false;
        for call in calls {
            let at = AccessSite { rep, region, call };
            let Some(held) = self.instances.get(&(call, region)).and_then(|i| i.ranks[rep].as_ref()) else {
                continue;
            };
            let atoms = held.operands[operand as usize].1;
            let meets = |first: u64, n: u64| {
                let (from, to) = setup.elements((region, operand), rep, (first, n), atoms);
                from < hi && lo < to
            };
            // For atoms that the region has not used yet, the write comes before the region: the
            // rank's own contribution is then what is written.
            let touched = &held.touched[operand as usize];
            let used: Vec<u64> =
                (0..touched.len() as u64).filter(|a| touched[*a as usize] && meets(*a, 1)).collect();
            if held.left || used.is_empty() {
                continue;
            }
            let wrong = self.compare(at);
            broken |= wrong.iter().any(|b| b.operand == operand && used.contains(&b.atom));
            let nothing = C::new(setup.regions[region as usize].size, 1);
            let held = self.held(at);
            for atom in used {
                held.operands[operand as usize].0.store(atom as usize, &nothing, 1);
                held.done.insert((operand, atom));
            }
        }
        broken
    }

    /// Returns the parts that another region wrote after this region had finished them, and that
    /// have not been written since: operand, atom and number of atoms of the operand.
    pub(super) fn overwritten(&mut self, at: AccessSite) -> Vec<(u32, u64, u64)> {
        let held = self.held(at);
        let gone = |(o, atom): &&(u32, u64)| !held.operands[*o as usize].0.holds(*atom as usize);
        held.done.iter().filter(gone).map(|&(o, atom)| (o, atom, held.operands[o as usize].1)).collect()
    }

    /// Compares the contents of a region in which no walked rank has a role.
    pub(super) fn nobody(&mut self, region: u32, call: u64) -> Vec<Broken> {
        let reps = 0..self.setup.group.reps.len();
        let out = reps.flat_map(|rep| self.compare(AccessSite { rep, region, call })).collect();
        self.instances.remove(&(call, region));
        out
    }

    fn compare(&mut self, at: AccessSite) -> Vec<Broken> {
        let setup = self.setup;
        self.held(at);
        let Some(held) = self.instances.get(&(at.call, at.region)).and_then(|i| i.ranks[at.rep].as_ref())
        else {
            return vec![];
        };
        let mut out = vec![];
        for place in &setup.regions[at.region as usize].expected[at.rep].end {
            let (cells, atoms) = &held.operands[place.operand as usize];
            let ranks = &setup.sets.list[place.set as usize];
            for i in 0..place.n {
                let from = (place.from_operand, place.from_lo + i);
                let atom = place.lo + i;
                if !cells.holds(atom as usize) && held.done.contains(&(place.operand, atom)) {
                    continue;
                }
                let want = RequiredContents {
                    label: label(from.0, from.1),
                    ranks,
                    set: place.set,
                    region: at.region,
                };
                if let Some(difference) = cells.differs((place.lo + i) as usize, &want, &mut self.memo) {
                    out.push(Broken {
                        rep: at.rep,
                        operand: place.operand,
                        atom: place.lo + i,
                        atoms: *atoms,
                        from,
                        ranks: ranks.len(),
                        difference,
                    });
                }
            }
        }
        out
    }

    /// Returns the atoms of a chunk: first and number.
    fn atoms(&mut self, at: AccessSite, a: &Access) -> Result<(u64, usize), NoMeaning> {
        let all = self.held(at).operands[a.operand as usize].1;
        let atoms = a.chunks().among(all).ok_or_else(|| self.unfit(at, a))?;
        Ok((atoms.num, atoms.cnt as usize))
    }

    fn name(&self, at: AccessSite, operand: u32) -> String {
        self.setup.schedule.regions[at.region as usize].operands[operand as usize].name.to_string()
    }

    fn chunk(&self, at: AccessSite, a: &Access) -> String {
        let name = self.name(at, a.operand);
        match (a.cnt, a.den) {
            (_, 1) => name,
            (1, den) => format!("chunk {} of {den} of {name}", a.num),
            (cnt, den) => format!("chunks {}..{} of {den} of {name}", a.num, a.num + cnt),
        }
    }

    /// Reads a chunk or slot. The contents become the piece in transit.
    pub(super) fn load(&mut self, at: AccessSite, a: &Access) -> Result<(), NoMeaning> {
        let (setup, rank) = (self.setup, self.setup.group.reps[at.rep]);
        match a.mem {
            Mem::Buffer(_) => {
                let (lo, n) = self.atoms(at, a)?;
                let lengths = self.scratch_lengths(at, a, lo, n)?;
                let mut cells = std::mem::replace(&mut self.piece.cells, C::new(1, 0));
                self.held(at).touch(a.operand, lo, n as u64);
                cells.load(&self.held(at).operands[a.operand as usize].0, lo as usize, n);
                self.piece = Piece {
                    cells,
                    n,
                    operand: a.operand,
                    lo,
                    atoms: self.held(at).operands[a.operand as usize].1,
                    lengths,
                    rank,
                    region: at.region,
                    call: at.call,
                    elements: Some(a.len),
                };
                if let Some(i) =
                    (0..n).find(|i| !self.piece.cells.holds(*i)).or((n == 0 && a.len > 0).then_some(0))
                {
                    let part = if n > 1 { format!(" at part {i} of {n}") } else { String::new() };
                    return Err(NoMeaning {
                        code: "E344",
                        text: format!("{} is empty{part}", self.chunk(at, a)),
                        help: "data must have arrived there, or been there at the start, before it is read",
                    });
                }
            }
            Mem::Slot(w, s) => {
                let slot = at.rep * setup.grids.slot_count() + setup.grids.slot(w, s);
                let name = || format!("@{}[{s}]", setup.schedule.windows[w as usize].name);
                let Some(p) = self.slots.get(slot) else {
                    return Err(NoMeaning {
                        code: "E344",
                        text: format!("{} is empty", name()),
                        help: "no transfer of this region has written it before",
                    });
                };
                if (p.region, p.call) != (at.region, at.call) {
                    let from = &setup.schedule.regions[p.region as usize].name;
                    return Err(NoMeaning {
                        code: "E343",
                        text: format!("{} still holds data of call {} of region {from}", name(), p.call),
                        help: "the slot must be written again before it is read",
                    });
                }
                self.piece.cells.load(&p.cells, 0, p.n);
                (self.piece.n, self.piece.operand, self.piece.lo) = (p.n, p.operand, p.lo);
                (self.piece.rank, self.piece.region, self.piece.call) = (p.rank, p.region, p.call);
                (self.piece.elements, self.piece.atoms) = (p.elements, p.atoms);
                self.piece.lengths.clone_from(&p.lengths);
            }
        }
        Ok(())
    }

    /// Takes the piece that was loaded last, for a queue.
    pub(super) fn parcel(&mut self) -> QueuedPiece<C> {
        std::mem::replace(&mut self.piece, Piece::empty())
    }

    /// Makes a parcel the piece in transit.
    pub(super) fn unpack(&mut self, parcel: QueuedPiece<C>) {
        self.piece = parcel;
    }

    /// Empties a chunk to which data without meaning was written.
    pub(super) fn wipe(&mut self, at: AccessSite, a: &Access) {
        if !self.setup.regions[at.region as usize].has_contract || !matches!(a.mem, Mem::Buffer(_)) {
            return;
        }
        let Ok((lo, n)) = self.atoms(at, a) else { return };
        let nothing = C::new(self.setup.regions[at.region as usize].size, n);
        self.held(at).operands[a.operand as usize].0.store(lo as usize, &nothing, n);
    }

    /// Moves the piece by an element of the group.
    pub(super) fn translate(&mut self, back: u64) {
        if back == 0 {
            return;
        }
        let setup = self.setup;
        if !setup.even(self.piece.region, self.piece.operand) {
            self.piece.elements = None;
        }
        let p = &mut self.piece;
        let region = &setup.regions[p.region as usize];
        let moved = |operand: u32, atom: u64| {
            let (buffer, atoms) = setup.operand(p.region, operand);
            setup.actions[buffer].apply(&setup.group, back, atom, atoms)
        };
        let t = self
            .turns
            .entry((p.region, back))
            .or_insert_with(|| RankRotation::new(&setup.group, &region.digits, back));
        let relabel = |l: u64| {
            let (operand, atom) = unlabel(l);
            label(operand, moved(operand, atom))
        };
        let first = (0..p.n as u64).map(|i| moved(p.operand, p.lo + i)).min().unwrap_or(p.lo);
        let place = |i: usize| (moved(p.operand, p.lo + i as u64) - first) as usize;
        p.cells.translate(t, &relabel, &place);
        p.lo = first;
        p.rank = setup.group.act(back, p.rank);
    }

    /// Writes the piece in transit to a chunk or slot of a walked rank. `add` is the operation if
    /// it is a reduction.
    pub(super) fn store(
        &mut self,
        at: AccessSite,
        a: &Access,
        back: u64,
        add: Option<u32>,
    ) -> Result<Result<(), NoMeaning>, Asymmetric> {
        let setup = self.setup;
        match a.mem {
            Mem::Slot(w, s) => {
                let slot = at.rep * setup.grids.slot_count() + setup.grids.slot(w, s);
                let p = &self.piece;
                let into = self.slots.entry(slot, Piece::empty);
                if let Some(op) = add {
                    let longer = matches!((p.elements, into.elements), (Some(p), Some(into)) if p > into);
                    if into.n < p.n || longer || (into.region, into.call) != (at.region, at.call) {
                        return Ok(Err(nothing_to_add()));
                    }
                    into.cells.add(0, &p.cells, p.n, op);
                } else {
                    into.cells.load(&p.cells, 0, p.n);
                    (into.n, into.operand, into.lo, into.rank) = (p.n, p.operand, p.lo, p.rank);
                    (into.region, into.call, into.elements) = (at.region, at.call, p.elements);
                    into.atoms = p.atoms;
                    into.lengths.clone_from(&p.lengths);
                }
            }
            Mem::Buffer(_) => {
                let have = self.piece.n;
                self.decide(at, a)?;
                let (lo, n) = match self.atoms(at, a) {
                    Ok(x) => x,
                    Err(t) => return Ok(Err(t)),
                };
                let (buffer, atoms) = setup.operand(at.region, a.operand);
                let lo = if back == 0 {
                    lo
                } else {
                    let moved = |i| setup.actions[buffer].apply(&setup.group, back, lo + i, atoms);
                    (0..n as u64).map(moved).min().unwrap_or(lo)
                };
                if have < n {
                    return Ok(Err(NoMeaning {
                        code: "E343",
                        text: format!("{} receives {have} parts instead of {n}", self.chunk(at, a)),
                        help: "read the same amount from a slot as was written to it",
                    }));
                }
                if let Some(come) = self.piece.elements.filter(|e| back == 0 && *e != a.len) {
                    return Ok(Err(NoMeaning {
                        code: "E343",
                        text: format!("{} has {} elements and receives {come}", self.chunk(at, a), a.len),
                        help: "read the same number of elements from a slot as were written to it",
                    }));
                }
                self.alike(at, a, lo, n)?;
                if let Err(t) = self.aligned(at, a.operand, lo, n)? {
                    return Ok(Err(t));
                }
                if let Err(t) = self.record_layout(at, a, (lo, n), add.is_some()) {
                    return Ok(Err(t));
                }
                if let Err(t) = self.arrives(at, a, lo, n as u64) {
                    return Ok(Err(t));
                }
                let cells = std::mem::replace(&mut self.piece.cells, C::new(1, 0));
                let to = &mut self.held(at).operands[a.operand as usize].0;
                let fine = match add {
                    Some(op) => {
                        let there = (0..n).all(|i| to.holds(lo as usize + i));
                        to.add(lo as usize, &cells, n, op);
                        there
                    }
                    None => {
                        to.store(lo as usize, &cells, n);
                        true
                    }
                };
                self.piece.cells = cells;
                if !fine {
                    return Ok(Err(nothing_to_add()));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Records a write to a rank that has yet to enter the region. Rejects a write to a place that
    /// was due on a rank that has already left.
    fn arrives(&mut self, at: AccessSite, a: &Access, lo: u64, n: u64) -> Result<(), NoMeaning> {
        let due = &self.setup.regions[at.region as usize].expected[at.rep].end;
        let held = self.held(at);
        if held.left && due.iter().any(|p| p.operand == a.operand && p.lo < lo + n && lo < p.lo + p.n) {
            return Err(NoMeaning {
                code: "E343",
                text: format!("{} is written after its rank has left the region", self.chunk(at, a)),
                help: "let the rank wait for every write to it before it leaves the region",
            });
        }
        held.touch(a.operand, lo, n);
        Ok(())
    }

    /// Decides how finely a scratch operand is cut, at the first write to it. A scratch operand
    /// that moves with the rank is cut beforehand, so the piece must have that granularity.
    fn decide(&mut self, at: AccessSite, a: &Access) -> Result<(), Asymmetric> {
        let (setup, have) = (self.setup, self.piece.n as u64);
        let size = setup.regions[at.region as usize].size;
        let held = self.held(at);
        let o = &mut held.operands[a.operand as usize];
        if a.cnt == 0 || (o.1 > 0 && !setup.scratch(at.region, a.operand)) {
            return Ok(());
        }
        let atoms = (have * a.den.max(1) as u64 / a.cnt as u64).max(1);
        let (buffer, before) = setup.operand(at.region, a.operand);
        if o.1 == 0 {
            *o = (C::new(size, atoms as usize), atoms);
        } else if before > 0 && atoms != before && !setup.actions[buffer].moves.is_empty() {
            return Err(format!("scratch {} receives parts of another size", self.name(at, a.operand)));
        }
        Ok(())
    }

    /// Empties a slot because data without a contract was put there.
    pub(super) fn forget(&mut self, rep: usize, mem: Mem) {
        if let Mem::Slot(w, s) = mem {
            self.slots.remove(rep * self.setup.grids.slot_count() + self.setup.grids.slot(w, s));
        }
    }
}

/// Returns the error for initial zeros that are used anywhere but in a sum.
pub(super) fn zeros() -> NoMeaning {
    NoMeaning {
        code: "E343",
        text: "zeros are moved or combined as if they were a contribution".into(),
        help: "`zero` memory can only be the destination of a `combine sum`; otherwise copy the first contribution",
    }
}

fn nothing_to_add() -> NoMeaning {
    NoMeaning {
        code: "E344",
        text: "the destination of the reduction is empty".into(),
        help: "copy the first contribution and reduce the others",
    }
}

/// Puts an operand into its state at the start of a region: the rank's own contribution where the
/// contract states so.
fn begin<C: Contents>(setup: &Setup, held: &mut RankContents<C>, at: AccessSite, operand: u32) {
    let region = &setup.regions[at.region as usize];
    let rank = setup.program.group_index(RegionId(at.region), setup.group.reps[at.rep]) as u32;
    let (cells, atoms) = &mut held.operands[operand as usize];
    *cells = C::new(region.size, *atoms as usize);
    for &(o, lo, n) in region.expected[at.rep].start.iter().filter(|s| s.0 == operand) {
        for a in lo..lo + n {
            cells.own(a as usize, rank, label(o, a));
        }
    }
}

//! Atoms of operands and places of memory.
//!
//! An operand's line is cut into atoms such that every chunk used in the region is a run of whole
//! atoms; contents are recorded per atom. A place is the unit for which order is recorded: an atom
//! of a buffer (over all regions that use it), a slot of a window, or, where windows overlap in
//! memory, a run of bytes. The module owns both numberings.

use kbc_diag::Diagnostic;
use kbc_ir::cut::Chunks;
use kbc_ir::expr::gcd;
use kbc_ir::op::OpPart;
use kbc_ir::schedule::{BufferId, Operand, OperandId, Part, Ref, Region, RegionId, Schedule, each_op};
use kbc_ir::visit::op_refs;
use kbc_ir::walk::{Access, Cursor, Fault, Mem, Program, Step};
use std::ops::Range;

/// Maximum number of atoms of one operand; the checker refuses more.
const MAX_ATOMS: u64 = 1 << 22;

/// Maximum number of operations of one stream in one call; the checker refuses more.
const MAX_STEPS: u64 = 1 << 25;

/// Numberings of atoms and places.
pub(super) struct Grids {
    /// Number of atoms of each operand of each region. It is 0 for scratch, where the first write
    /// decides.
    pub atoms: Vec<Vec<u64>>,
    buffers: Vec<BufferGrid>,
    windows: Vec<Vec<Range<usize>>>,
    /// For each window, the windows that overlap it in memory.
    families: Vec<Vec<u32>>,
    /// Number of the first slot of each window, counted over all windows.
    slots: Vec<usize>,
    /// Number of places of a rank.
    pub places: usize,
}

struct BufferGrid {
    base: usize,
    len: usize,
    cut: Cut,
}

enum Cut {
    /// The line in this many equal parts, whatever their sizes in elements.
    Parts(u64),
    /// For lines that differ between uses: the elements at which the buffer is cut, by walked rank.
    Elements(Vec<Vec<u64>>),
}

pub(super) fn lcm(a: u64, b: u64) -> u64 {
    (a / gcd(a, b)).saturating_mul(b)
}

/// Returns the number of chunks into which an address divides its line, if it is constant.
fn constant(path: &[Part]) -> Option<u64> {
    path.iter().try_fold(1u64, |n, p| n.checked_mul(p.of.as_int().filter(|v| *v > 0)? as u64))
}

/// Computes the least common multiple of the chunk counts used on each operand of each region.
fn denominators(program: &Program, reps: &[u64], calls: u64) -> Result<Vec<Vec<u64>>, Fault> {
    let s = program.schedule;
    let mut out: Vec<Vec<u64>> = s.regions.iter().map(|r| vec![1; r.operands.len()]).collect();
    let mut computed = false;
    for (r, region) in s.regions.iter().enumerate() {
        for st in region.roles.iter().flat_map(|r| &r.streams) {
            each_op(&st.body, &mut |op, _| {
                for (_, x) in op_refs(op) {
                    let Ref::Chunk { operand, path } = x else { continue };
                    match constant(path) {
                        Some(n) => {
                            let to = &mut out[r][operand.0 as usize];
                            *to = lcm(*to, n);
                        }
                        None => computed = true,
                    }
                }
            });
        }
    }
    if computed {
        for &rank in reps {
            for stream in 0..program.streams.len() {
                for call in 0..calls {
                    walk(program, rank, stream as u32, call, &mut out)?;
                }
            }
        }
    }
    Ok(out)
}

fn walk(program: &Program, rank: u64, stream: u32, call: u64, out: &mut [Vec<u64>]) -> Result<(), Fault> {
    let mut cursor = Cursor::new(program, rank, stream, call as i64);
    let mut steps = 0u64;
    while let Some(step) = cursor.next_step()? {
        steps += 1;
        if steps > MAX_STEPS {
            let region = cursor.region().map_or(0, |r| r.0 as usize);
            let r = &program.schedule.regions[region];
            let text = format!("a stream has more than {MAX_STEPS} operations per call");
            return Err(Fault { code: "E354", text, span: r.span, rank, region: r.name.clone() });
        }
        let (Step::Act(act, ..), Some(region)) = (step, cursor.region()) else { continue };
        act.parts(&mut |part| {
            let (OpPart::Near(_, a) | OpPart::Far(_, a)) = part else { return };
            if a.operand == u32::MAX {
                return;
            }
            let to = &mut out[region.0 as usize][a.operand as usize];
            *to = lcm(*to, a.den as u64);
        });
    }
    Ok(())
}

/// Returns an operand of the region that has the same line as a scratch operand. The scratch
/// operand is then cut into the same parts.
pub(super) fn twin(r: &Region, scratch: &Operand) -> Option<usize> {
    r.operands.iter().position(|o| !o.scratch && o.line == scratch.line)
}

/// Computes the number of atoms of the operands of a region from the chunk counts used on them.
/// Scratch operands are cut only if they move.
fn region_atoms(s: &Schedule, r: usize, dens: &[u64], moves: impl Fn(&Operand) -> bool) -> Vec<u64> {
    let region = &s.regions[r];
    let size = s.group_size(region).max(1);
    let blocks = |i: usize| {
        let like = if region.operands[i].scratch { twin(region, &region.operands[i]) } else { None };
        let name = &region.operands[like.unwrap_or(i)].name;
        region.contract.as_ref().is_some_and(|p| p.buffers.iter().any(|b| b.blocks && b.name == *name))
    };
    let used = |i: &usize| !region.operands[*i].scratch || moves(&region.operands[*i]);
    let all: Vec<u64> = region.operands.iter().zip(dens).map(|(o, d)| lcm(*d, o.line.parts.max(1))).collect();
    // A block of a `v[p][n]` is as long as the whole of a `v[n]` beside it.
    let unit = (0..all.len())
        .filter(used)
        .map(|i| if blocks(i) { lcm(all[i], size) / size } else { all[i] })
        .fold(1, lcm);
    let atoms = |i: usize| {
        if !used(&i) {
            0
        } else if blocks(i) {
            unit.saturating_mul(size)
        } else {
            unit
        }
    };
    (0..all.len()).map(atoms).collect()
}

/// A failure of set-up: an error of its own, or an operation that the walk rejects.
pub(super) enum Unable {
    Said(Diagnostic),
    Fault(Fault),
}

impl From<Fault> for Unable {
    fn from(f: Fault) -> Self {
        Unable::Fault(f)
    }
}

impl Grids {
    /// Computes the numberings for a schedule of which the ranks `reps` are walked. `at_least` is
    /// the number of parts that each buffer must have in addition to those that chunks require.
    pub(super) fn new(
        program: &Program,
        reps: &[u64],
        calls: u64,
        at_least: &[u64],
    ) -> Result<Grids, Unable> {
        let s = program.schedule;
        let mut dens = denominators(program, reps, calls)?;
        for (region, list) in s.regions.iter().zip(&mut dens) {
            for (o, d) in region.operands.iter().zip(list) {
                *d = lcm(*d, at_least[o.buffer.0 as usize]);
            }
        }
        let atoms: Vec<Vec<u64>> = (0..s.regions.len())
            .map(|r| region_atoms(s, r, &dens[r], |o| at_least[o.buffer.0 as usize] > 1))
            .collect();
        for (region, (list, dens)) in s.regions.iter().zip(atoms.iter().zip(&dens)) {
            if let Some(n) = list.iter().chain(dens).find(|n| **n > MAX_ATOMS) {
                return Err(Unable::Said(
                    Diagnostic::error(
                        "E354",
                        format!("the chunks of region {} have no common part larger than 1/{n}", region.name),
                    )
                    .primary(region.span, "in this region")
                    .note(format!("the checker tracks at most {MAX_ATOMS} parts of an operand"))
                    .help("use numbers of chunks that divide one another"),
                ));
            }
        }
        let mut places = 0;
        let mut buffers = vec![];
        for b in 0..s.buffers.len() {
            let cut = buffer_cut(program, reps, b, &atoms, &dens)?;
            let n = match &cut {
                Cut::Parts(n) => *n as usize,
                Cut::Elements(by_rank) => {
                    by_rank.iter().map(|c| c.len().saturating_sub(1)).max().unwrap_or(0)
                }
            };
            buffers.push(BufferGrid { base: places, len: n, cut });
            places += n;
        }
        let windows = window_places(s, &mut places);
        let mut slots = vec![0];
        for w in &windows {
            slots.push(slots.last().copied().unwrap_or(0) + w.len());
        }
        let families = families(s);
        Ok(Grids { atoms, buffers, windows, families, slots, places })
    }

    /// Returns the number of slots of a rank, over all windows.
    pub(super) fn slot_count(&self) -> usize {
        self.slots.last().copied().unwrap_or(0)
    }

    /// Returns the number of the first slot of each window, counted over all windows.
    pub(super) fn first_slots(&self) -> &[usize] {
        &self.slots
    }

    /// Returns the number of a slot, counted over all windows.
    pub(super) fn slot(&self, window: u32, slot: u64) -> usize {
        self.slots[window as usize] + slot as usize
    }

    /// Returns the slots of other windows that share addresses with a slot.
    pub(super) fn sharing(&self, s: &Schedule, window: u32, slot: u64) -> Vec<(u32, u64)> {
        let mut out = vec![];
        let Some((lo, hi)) = slot_bytes(s, window as usize, slot) else { return out };
        for &other in &self.families[window as usize] {
            let w = &s.windows[other as usize];
            let size = w.capacity.saturating_mul(w.dtype.bytes());
            let Some(offset) = w.offset.filter(|_| size > 0) else { continue };
            let first = lo.saturating_sub(offset) / size;
            let last = hi.saturating_sub(offset).div_ceil(size).min(w.slots);
            out.extend((first..last).map(|slot| (other, slot)));
        }
        out
    }

    /// Returns the places of an access on a walked rank.
    pub(super) fn of(&self, a: &Access, rep: usize) -> Range<usize> {
        match a.mem {
            Mem::Slot(w, s) => self.windows[w as usize][s as usize].clone(),
            Mem::Buffer(b) => {
                let g = &self.buffers[b as usize];
                match &g.cut {
                    Cut::Parts(n) => {
                        // Every chunk consists of whole parts.
                        let parts = a.chunks().among(*n).unwrap_or(Chunks { num: 0, cnt: *n, den: *n });
                        let (lo, hi) = (parts.num as usize, (parts.num + parts.cnt) as usize);
                        g.base + lo..g.base + hi
                    }
                    Cut::Elements(cuts) => {
                        // An access that begins or ends inside a place touches the whole place.
                        let first = cuts[rep].partition_point(|c| *c <= a.start).saturating_sub(1);
                        let end = cuts[rep].partition_point(|c| *c < a.start + a.len);
                        g.base + first..g.base + if a.len == 0 { first } else { end }
                    }
                }
            }
        }
    }

    /// Returns all places of a buffer on a walked rank.
    pub(super) fn whole(&self, buffer: BufferId, rep: usize) -> Range<usize> {
        let g = &self.buffers[buffer.0 as usize];
        match &g.cut {
            Cut::Parts(n) => g.base..g.base + *n as usize,
            Cut::Elements(cuts) => g.base..g.base + cuts[rep].len().saturating_sub(1),
        }
    }

    /// Returns the number of parts of a buffer and the number of its first place, if it is cut into
    /// equal parts.
    pub(super) fn parts(&self, buffer: u32) -> Option<(usize, u64)> {
        let g = &self.buffers[buffer as usize];
        match g.cut {
            Cut::Parts(n) => Some((g.base, n)),
            Cut::Elements(_) => None,
        }
    }

    /// Returns the name of a place: buffer or window, and the number within it.
    pub(super) fn show(&self, s: &Schedule, place: usize) -> String {
        if let Some((b, g)) =
            self.buffers.iter().enumerate().find(|(_, g)| (g.base..g.base + g.len).contains(&place))
        {
            let name = &s.buffers[b].name;
            return match &g.cut {
                Cut::Parts(1) => format!("%{name}"),
                Cut::Parts(n) => format!("part {} of {n} of %{name}", place - g.base),
                Cut::Elements(_) => format!("a part of %{name}"),
            };
        }
        let found = self.windows.iter().enumerate().find_map(|(w, list)| {
            list.iter().position(|r| r.contains(&place)).map(|i| format!("@{}[{i}]", s.windows[w].name))
        });
        found.unwrap_or_else(|| "memory".into())
    }
}

fn buffer_cut(
    program: &Program,
    reps: &[u64],
    buffer: usize,
    atoms: &[Vec<u64>],
    dens: &[Vec<u64>],
) -> Result<Cut, Fault> {
    let s = program.schedule;
    let users: Vec<(usize, usize)> = (0..s.regions.len())
        .flat_map(|r| (0..s.regions[r].operands.len()).map(move |o| (r, o)))
        .filter(|&(r, o)| s.regions[r].operands[o].buffer.0 as usize == buffer)
        .collect();
    let parts = |&(r, o): &(usize, usize)| if atoms[r][o] == 0 { dens[r][o] } else { atoms[r][o] };
    let Some(&(r0, o0)) = users.first() else { return Ok(Cut::Parts(1)) };
    let line = &s.regions[r0].operands[o0].line;
    let common = users.iter().map(parts).fold(1, lcm);
    if users.iter().all(|&(r, o)| s.regions[r].operands[o].line == *line) && common <= MAX_ATOMS {
        return Ok(Cut::Parts(common));
    }
    let mut by_rank = vec![];
    for &rank in reps {
        let mut cuts = vec![0, program.elements(BufferId(buffer as u32), rank)?];
        for &(r, o) in &users {
            let n = parts(&(r, o)) as i64;
            for i in 0..=n {
                cuts.push(program.chunk_start(RegionId(r as u32), OperandId(o as u32), rank, i, n)?);
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        by_rank.push(cuts);
    }
    Ok(Cut::Elements(by_rank))
}

/// Checks that the lines of every buffer agree wherever it is used, so that its parts are the same
/// everywhere. Returns the reason if they do not.
pub(super) fn one_line_each(s: &Schedule) -> Option<String> {
    let mut seen: Vec<Option<&kbc_ir::schedule::Line>> = vec![None; s.buffers.len()];
    for o in s.regions.iter().flat_map(|r| &r.operands) {
        let slot = &mut seen[o.buffer.0 as usize];
        match slot {
            None => *slot = Some(&o.line),
            Some(line) if **line == o.line => {}
            Some(_) => return Some(format!("%{} is cut in different ways", s.buffer(o.buffer).name)),
        }
    }
    None
}

/// Returns the bytes of a slot in the window domain, once the domain is laid out.
fn slot_bytes(s: &Schedule, window: usize, slot: u64) -> Option<(u64, u64)> {
    let w = &s.windows[window];
    let size = w.capacity.saturating_mul(w.dtype.bytes());
    let lo = w.offset?.saturating_add(size.saturating_mul(slot));
    Some((lo, lo.saturating_add(size)))
}

/// Whether two windows share an address.
fn windows_overlap(s: &Schedule, a: usize, b: usize) -> bool {
    let last = |w: usize| s.windows[w].slots.saturating_sub(1);
    let extent = |w: usize| Some((slot_bytes(s, w, 0)?.0, slot_bytes(s, w, last(w))?.1));
    s.windows[a].memory == s.windows[b].memory
        && matches!((extent(a), extent(b)), (Some(x), Some(y)) if x.0 < y.1 && y.0 < x.1)
}

/// Returns, for each window, the other windows that share an address with it.
fn families(s: &Schedule) -> Vec<Vec<u32>> {
    let n = s.windows.len();
    let others = |a: usize| (0..n).filter(move |b| *b != a && windows_overlap(s, a, *b)).map(|b| b as u32);
    (0..n).map(|a| others(a).collect()).collect()
}

/// Computes the places of windows: one place per slot, or runs of bytes where windows overlap in
/// memory.
fn window_places(s: &Schedule, places: &mut usize) -> Vec<Vec<Range<usize>>> {
    let bytes = |w: usize, slot: u64| slot_bytes(s, w, slot);
    let overlap = |a: usize, b: usize| windows_overlap(s, a, b);
    let n = s.windows.len();
    let mut out: Vec<Vec<Range<usize>>> = vec![vec![]; n];
    let mut done = vec![false; n];
    for w in 0..n {
        if done[w] {
            continue;
        }
        // Collect all windows that overlap this one, directly or through other windows.
        let mut family = vec![w];
        let mut next = 0;
        while next < family.len() {
            let a = family[next];
            next += 1;
            family.extend((0..n).filter(|b| !family.contains(b) && overlap(a, *b)).collect::<Vec<_>>());
        }
        family.iter().for_each(|f| done[*f] = true);
        if family.len() == 1 {
            out[w] = (0..s.windows[w].slots as usize).map(|i| *places + i..*places + i + 1).collect();
            *places += s.windows[w].slots as usize;
            continue;
        }
        let mut cuts = vec![];
        for &f in &family {
            for i in 0..s.windows[f].slots {
                cuts.extend(bytes(f, i).map(|(a, b)| [a, b]).into_iter().flatten());
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        let at = |e: u64| *places + cuts.partition_point(|c| *c < e);
        for &f in &family {
            out[f] = (0..s.windows[f].slots).filter_map(|i| bytes(f, i)).map(|(a, b)| at(a)..at(b)).collect();
        }
        *places += cuts.len().saturating_sub(1);
    }
    out
}

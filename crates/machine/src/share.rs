//! Sharing of local work inside a device: which PE computes which part of a local operation, and
//! which data it fetches for that.
//!
//! This module owns the rule that work follows placement: a PE computes the elements of the result
//! that the result's policy assigns to it. For these it needs blocks of the operands. Elements that
//! it does not hold are sent by the nearest PE that holds them. `needs` has one rule for each
//! operation. Which slice a PE holds is decided by [`crate::placement`]. The event engine (crate
//! `kbc_time`) computes the time.

use std::collections::BTreeMap;
use std::ops::Range;

use kbc_diag::Diagnostic;

use crate::placement::Interior;
use crate::policy::DevicePlacement;
use crate::topology::Topology;
use kbc_ir::schedule::{BufferId, LocalOp};
use kbc_ir::types::CutRule;
use kbc_ir::walk::{Fault, Program};

pub use crate::placement::Block;

/// Limit on the number of blocks into which the rule of one operation may cut its operands.
pub const MAX_BLOCKS: usize = 1 << 20;

/// A buffer and its placement on a device.
#[derive(Clone, PartialEq, Debug)]
pub struct PlacedBuffer {
    /// The buffer.
    pub buffer: BufferId,
    /// Sizes of the buffer on the device.
    pub sizes: Vec<u64>,
    /// Placement of its elements on PEs.
    pub placement: DevicePlacement,
}

/// The part of an operation that one PE performs.
#[derive(Clone, PartialEq, Debug)]
pub struct PePart {
    /// Number of the PE in its device.
    pub pe: u32,
    /// Blocks of the result that it computes.
    pub result: Vec<Block>,
    /// Blocks that it reads, by buffer. Blocks of one buffer share no element.
    pub reads: BTreeMap<BufferId, Vec<Block>>,
}

/// A transfer of elements from one PE to another.
#[derive(Clone, PartialEq, Debug)]
pub struct PeTransfer {
    /// The PE that sends.
    pub from: u32,
    /// The PE that receives.
    pub to: u32,
    /// The buffer of the elements.
    pub buffer: BufferId,
    /// The elements.
    pub block: Block,
}

/// The division of a local operation among the PEs of a device.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Share {
    /// Parts of the PEs that compute something, by number of the PE.
    pub parts: Vec<PePart>,
    /// Transfers of elements of operands before the work.
    pub fetches: Vec<PeTransfer>,
    /// Transfers of elements of the result after the work. Empty unless one PE computes for others.
    pub sends: Vec<PeTransfer>,
}

/// Returns the number of elements of a block.
pub fn volume(block: &[Range<u64>]) -> u64 {
    block.iter().fold(1, |n: u64, r| n.saturating_mul(r.end.saturating_sub(r.start)))
}

/// Returns the total number of elements of several blocks.
pub fn volumes(blocks: &[Block]) -> u64 {
    blocks.iter().fold(0, |n: u64, b| n.saturating_add(volume(b)))
}

/// Returns the intersection of two blocks, or None if it is empty.
fn common(a: &[Range<u64>], b: &[Range<u64>]) -> Option<Block> {
    let both: Block = a.iter().zip(b).map(|(a, b)| a.start.max(b.start)..a.end.min(b.end)).collect();
    both.iter().all(|r| r.start < r.end).then_some(both)
}

/// Appends to `out` disjoint blocks that cover `block` without `other`.
fn without(block: Block, other: &[Range<u64>], out: &mut Vec<Block>) {
    let Some(shared) = common(&block, other) else {
        out.push(block);
        return;
    };
    let mut rest = block;
    for axis in 0..rest.len() {
        let own = rest[axis].clone();
        for side in [own.start..shared[axis].start, shared[axis].end..own.end] {
            if side.start < side.end {
                let mut piece = rest.clone();
                piece[axis] = side;
                out.push(piece);
            }
        }
        rest[axis] = shared[axis].clone();
    }
}

fn whole_block(sizes: &[u64]) -> Block {
    sizes.iter().map(|n| 0..*n).collect()
}

fn product(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |n: u64, d| n.saturating_mul(*d))
}

/// The failure of a rule that cuts its operands into more than [`MAX_BLOCKS`] blocks.
#[derive(Debug)]
struct TooMany;

fn few(n: usize) -> Result<(), TooMany> {
    if n > MAX_BLOCKS { Err(TooMany) } else { Ok(()) }
}

/// Returns a block of a tensor as runs of contiguous elements of the row-major tensor.
fn runs(block: &[Range<u64>], sizes: &[u64]) -> Result<Vec<Range<u64>>, TooMany> {
    if volume(block) == 0 {
        return Ok(vec![]);
    }
    // Number of trailing axes that the block covers completely.
    let full = block.iter().zip(sizes).rev().take_while(|(r, n)| **r == (0..**n)).count();
    let Some(axis) = block.len().checked_sub(full + 1) else {
        let all = 0..product(sizes);
        return Ok(vec![all]);
    };
    let inner = product(&sizes[axis + 1..]);
    few(usize::try_from(volume(&block[..axis])).unwrap_or(usize::MAX))?;
    let mut starts = vec![0u64];
    for (r, n) in block[..axis].iter().zip(sizes) {
        starts = starts.iter().flat_map(|s| r.clone().map(move |i| s * n + i)).collect();
    }
    let at = &block[axis];
    let row = |s: u64| (s * sizes[axis] + at.start) * inner..(s * sizes[axis] + at.end) * inner;
    Ok(starts.into_iter().map(row).collect())
}

/// Returns a run of contiguous elements of a row-major tensor as blocks.
fn spread(run: Range<u64>, sizes: &[u64]) -> Vec<Block> {
    if run.start >= run.end {
        return vec![];
    }
    let Some((_, rest)) = sizes.split_first() else { return vec![vec![]] };
    if rest.is_empty() {
        return vec![vec![run]];
    }
    let inner = product(rest).max(1);
    let row = |n: u64, part: Range<u64>| {
        let behind = move |mut b: Block| {
            b.insert(0, n..n + 1);
            b
        };
        spread(part, rest).into_iter().map(behind)
    };
    let (first, last) = (run.start / inner, (run.end - 1) / inner);
    if first == last {
        return row(first, run.start - first * inner..run.end - first * inner).collect();
    }
    let (mut out, mut full) = (vec![], first..run.end / inner);
    if run.start > first * inner {
        out.extend(row(first, run.start - first * inner..inner));
        full.start += 1;
    }
    let end = full.end;
    if full.start < full.end {
        let mut block = whole_block(sizes);
        block[0] = full;
        out.push(block);
    }
    if run.end > end * inner {
        out.extend(row(end, 0..run.end - end * inner));
    }
    out
}

/// Returns the blocks of a tensor of sizes `to` that hold the elements of a block of a tensor of
/// sizes `from`, where both have the same elements in row-major order. Groups of neighbouring axes
/// whose sizes have the same product in both shapes are mapped independently.
fn reshaped(block: &[Range<u64>], from: &[u64], to: &[u64]) -> Result<Vec<Block>, TooMany> {
    if from == to {
        return Ok(vec![block.to_vec()]);
    }
    if product(from) != product(to) || product(from) == 0 {
        return Ok(vec![whole_block(to)]);
    }
    let mut out: Vec<Block> = vec![vec![]];
    let (mut i, mut j) = (0, 0);
    while i < from.len() || j < to.len() {
        let (first_i, first_j) = (i, j);
        let (mut a, mut b) = (1, 1);
        if i < from.len() {
            (a, i) = (from[i], i + 1);
        }
        if j < to.len() {
            (b, j) = (to[j], j + 1);
        }
        // The products over all axes are equal, so neither side runs out of axes first.
        while a != b {
            if a < b {
                (a, i) = (a * from[i], i + 1);
            } else {
                (b, j) = (b * to[j], j + 1);
            }
        }
        let mut pieces: Vec<Block> = vec![];
        for run in runs(&block[first_i..i], &from[first_i..i])? {
            pieces.extend(spread(run, &to[first_j..j]));
        }
        few(out.len().saturating_mul(pieces.len()))?;
        out = out.iter().flat_map(|o| pieces.iter().map(move |p| [&o[..], p].concat())).collect();
    }
    Ok(out)
}

/// Returns the part of an operand that a block of the result reads. Axes are aligned from the
/// right, and an axis of size 1 is broadcast.
fn broadcast(block: &[Range<u64>], sizes: &[u64]) -> Block {
    let lead = block.len().saturating_sub(sizes.len());
    let aligned = block[lead..].iter().zip(sizes);
    let mut out: Block = aligned.map(|(r, n)| if *n == 1 { 0..1 } else { r.clone() }).collect();
    out.extend(sizes.iter().skip(out.len()).map(|n| 0..*n));
    out
}

/// The layout of a packed tensor: the parts of one axis one after another, each row-major.
struct Line<'a> {
    sizes: &'a [u64],
    dim: usize,
    parts: u64,
    rule: &'a CutRule,
}

impl Line<'_> {
    fn axis(&self) -> u64 {
        self.sizes.get(self.dim).copied().unwrap_or(1)
    }

    /// Lists the parts that have elements, each with its begin along the axis, its sizes, and the
    /// index of its first element in the line.
    fn each(&self) -> Result<Vec<(u64, Vec<u64>, u64)>, TooMany> {
        few(usize::try_from(self.parts).unwrap_or(usize::MAX))?;
        let (mut out, mut at) = (vec![], 0u64);
        for p in 0..self.parts {
            let part = self.rule.part(self.axis(), p, self.parts);
            let mut sizes = self.sizes.to_vec();
            if let Some(n) = sizes.get_mut(self.dim) {
                *n = part.end - part.start;
            }
            let elements = product(&sizes);
            if elements > 0 {
                out.push((part.start, sizes, at));
                at += elements;
            }
        }
        Ok(out)
    }

    /// Returns the elements of a line of `line` elements that are part `at`, where [`Line::sizes`]
    /// are the sizes of that part alone.
    fn part(&self, line: u64, at: i64) -> Range<u64> {
        let unit = product(self.sizes).checked_div(self.axis()).unwrap_or(0);
        let at = u64::try_from(at).unwrap_or(0).min(self.parts.saturating_sub(1));
        self.rule.block(line, unit, at, self.parts)
    }
}

/// Returns the elements of a row-major line that a block of these sizes covers, restricted to
/// `inside` and relative to its begin.
fn lined(block: &[Range<u64>], sizes: &[u64], inside: &Range<u64>) -> Result<Vec<Range<u64>>, TooMany> {
    let cut = |r: Range<u64>| {
        r.start.max(inside.start).saturating_sub(inside.start)
            ..r.end.min(inside.end).saturating_sub(inside.start)
    };
    Ok(runs(block, sizes)?.into_iter().map(cut).filter(|r| r.start < r.end).collect())
}

fn moved(r: Range<u64>, by: u64) -> Range<u64> {
    r.start + by..r.end + by
}

/// Returns the blocks that an operation writes and reads to compute a block of its result: the
/// written blocks, and the read blocks of each operand in the order of [`LocalOp::srcs`]. None if
/// one PE must perform the whole operation.
#[expect(clippy::type_complexity, reason = "a name for it would say no more")]
fn needs(
    op: &LocalOp,
    dst: &[u64],
    srcs: &[&[u64]],
    part: Option<i64>,
    block: &Block,
) -> Result<Option<(Vec<Block>, Vec<Vec<Block>>)>, TooMany> {
    let src = |i: usize| srcs.get(i).copied().unwrap_or(&[]);
    let all = || vec![block.clone()];
    let reads = match op {
        LocalOp::Compute { .. } => srcs.iter().map(|s| vec![broadcast(block, s)]).collect(),
        LocalOp::Matmul { .. } => {
            let (lead, last) = block.split_at(block.len().saturating_sub(2));
            let [m, n] = last else { return Ok(None) };
            let of = |sizes: &[u64], rows: Option<&Range<u64>>, columns: Option<&Range<u64>>| {
                let (outer, inner) = sizes.split_at(sizes.len().saturating_sub(2));
                let mut out = broadcast(lead, outer);
                out.extend(inner.iter().zip([rows, columns]).map(|(n, r)| r.cloned().unwrap_or(0..*n)));
                vec![out]
            };
            vec![of(src(0), Some(m), None), of(src(1), None, Some(n))]
        }
        LocalOp::ReduceDim { dim, .. } => {
            let (dim, sizes) = (*dim as usize, src(0));
            let mut without = sizes.to_vec();
            if dim >= sizes.len() {
                return Ok(None);
            }
            without.remove(dim);
            let mut read = reshaped(block, dst, &without)?;
            read.iter_mut().for_each(|b| b.insert(dim, 0..sizes[dim]));
            vec![read]
        }
        LocalOp::Cast { .. } | LocalOp::Copy { .. } => vec![reshaped(block, dst, src(0))?],
        LocalOp::Pack { dim, parts, rule, at, .. } => {
            let line = Line { sizes: src(0), dim: *dim as usize, parts: *parts, rule };
            if at.is_some() {
                let own = line.part(product(dst), part.unwrap_or(0));
                let met = lined(block, dst, &own)?;
                let written = met.iter().flat_map(|r| spread(moved(r.clone(), own.start), dst)).collect();
                let read = met.into_iter().flat_map(|r| spread(r, src(0))).collect();
                return Ok(Some((written, vec![read])));
            }
            let mut read = vec![];
            for (begin, sizes, at) in line.each()? {
                for run in lined(block, dst, &(at..at + product(&sizes)))? {
                    read.extend(spread(run, &sizes).into_iter().map(|mut b| {
                        b[line.dim] = moved(b[line.dim].clone(), begin);
                        b
                    }));
                }
                few(read.len())?;
            }
            vec![read]
        }
        LocalOp::Unpack { dim, parts, rule, at, .. } => {
            let line = Line { sizes: dst, dim: *dim as usize, parts: *parts, rule };
            let mut read = vec![];
            if at.is_some() {
                let own = line.part(product(src(0)), part.unwrap_or(0));
                for run in runs(block, dst)? {
                    read.extend(spread(moved(run, own.start), src(0)));
                }
            } else {
                for (begin, sizes, at) in line.each()? {
                    let (mut along, mut own) = (whole_block(&sizes), block.clone());
                    let Some(r) = along.get_mut(line.dim) else { return Ok(None) };
                    *r = moved(r.clone(), begin);
                    let Some(both) = common(&own, &along) else { continue };
                    own.clone_from(&both);
                    own[line.dim] = both[line.dim].start - begin..both[line.dim].end - begin;
                    for run in runs(&own, &sizes)? {
                        read.extend(spread(moved(run, at), src(0)));
                    }
                    few(read.len())?;
                }
            }
            vec![read]
        }
        LocalOp::Transpose { perm, .. } => {
            let mut read = whole_block(src(0));
            for (r, from) in block.iter().zip(perm) {
                if let Some(to) = read.get_mut(*from as usize) {
                    *to = r.clone();
                }
            }
            vec![vec![read]]
        }
        LocalOp::Embedding { .. } => {
            // Row numbers are data, and control never depends on data: a PE gets the columns that
            // it needs of every row.
            let (table, ids) = (src(0), src(1));
            let (numbers, row) = block.split_at(ids.len().min(block.len()));
            let mut read: Block = table.first().map(|n| 0..*n).into_iter().collect();
            read.extend(row.iter().cloned());
            vec![vec![read], vec![numbers.to_vec()]]
        }
        LocalOp::Grouped { runs, places, .. } => {
            let ([_, depth], [_, k, _], [rows, columns]) = (src(0), src(1), &block[..]) else {
                return Ok(None);
            };
            let place = part.and_then(|at| usize::try_from(at).ok()).and_then(|at| places.get(at));
            let Some((row, matrix)) = place else { return Ok(None) };
            let mut met = runs.matrices(row + rows.start, rows.end - rows.start);
            met.sort_unstable();
            met.dedup();
            let one = |m: u64| {
                let m = m.checked_sub(*matrix)?;
                Some(vec![m..m + 1, 0..*k, columns.clone()])
            };
            let read = met.into_iter().filter_map(one).collect();
            vec![vec![vec![rows.clone(), 0..*depth]], read]
        }
        LocalOp::Tiles { .. } => return Ok(None),
        LocalOp::Fill { .. } => vec![],
        LocalOp::Slice { dim, of, rule, .. } => {
            let dim = *dim as usize;
            let n = src(0).get(dim).copied().unwrap_or(0);
            let begin = rule.boundary(n, u64::try_from(part.unwrap_or(0)).unwrap_or(0).min(*of), *of);
            let mut read = block.clone();
            if dim <= read.len() && read.len() < src(0).len() {
                // The result lacks the dimension, because the part has one element.
                read.insert(dim, begin..begin + 1);
            } else if let Some(r) = read.get_mut(dim) {
                *r = moved(r.clone(), begin);
            }
            vec![vec![read]]
        }
    };
    Ok(Some((all(), reads)))
}

/// The blocks of a tensor with the PEs that hold each of them. The blocks share no element.
struct Holders(Vec<(Block, Vec<u32>)>);

impl Holders {
    fn of(tensor: &PlacedBuffer, machine: &Topology) -> Result<Holders, Diagnostic> {
        let mut found: BTreeMap<Vec<(u64, u64)>, Vec<u32>> = BTreeMap::new();
        for (pe, slice) in tensor.placement.slices(&tensor.sizes, machine)? {
            if volume(&slice) > 0 {
                found.entry(slice.iter().map(|r| (r.start, r.end)).collect()).or_default().push(pe);
            }
        }
        let block = |key: Vec<(u64, u64)>| key.into_iter().map(|(a, b)| a..b).collect();
        Ok(Holders(found.into_iter().map(|(key, pes)| (block(key), pes)).collect()))
    }

    /// Appends the transfers of those elements of a block that `pe` does not hold, each from the
    /// nearest PE that holds them.
    fn fetch(&self, inside: Interior, pe: u32, buffer: BufferId, block: &Block, out: &mut Vec<PeTransfer>) {
        for (held, by) in self.0.iter().filter(|h| !h.1.contains(&pe)) {
            let Some(block) = common(block, held) else { continue };
            let near = by.iter().copied().min_by_key(|from| (inside.distance(pe, *from), *from));
            out.extend(near.map(|from| PeTransfer { from, to: pe, buffer, block }));
        }
    }
}

/// Divides an operation among the PEs of a device. `part` is the value of [`LocalOp::part`] on the
/// rank, and `srcs` are in the order of [`LocalOp::srcs`].
///
/// # Errors
/// Returns E469 of [`DevicePlacement::slices`], and E469 if the operation makes more than
/// [`MAX_BLOCKS`] blocks.
pub fn share(
    op: &LocalOp,
    dst: &PlacedBuffer,
    srcs: &[PlacedBuffer],
    part: Option<i64>,
    machine: &Topology,
) -> Result<Share, Diagnostic> {
    let many = |TooMany| {
        let title = format!(
            "`{}` between these placements moves more than {MAX_BLOCKS} separate pieces inside a device",
            kbc_ir::schedule::SOp::Local(op.clone()).word()
        );
        Diagnostic::error("E469", title).help("split both tensors along the same axis, or use `row_wise`")
    };
    let inside = Interior::of(machine);
    let results = Holders::of(dst, machine)?;
    let mut holders: BTreeMap<BufferId, Holders> = BTreeMap::new();
    for s in srcs {
        holders.insert(s.buffer, Holders::of(s, machine)?);
    }
    let sizes: Vec<&[u64]> = srcs.iter().map(|s| &s.sizes[..]).collect();
    let mut out = Share::default();
    let mut blocks = 0;
    for (block, by) in &results.0 {
        let Some((result, reads)) = needs(op, &dst.sizes, &sizes, part, block).map_err(many)? else {
            return Ok(assign_to_one_pe(dst, srcs, &results, &holders, inside));
        };
        if result.is_empty() {
            continue;
        }
        let reads = merged(srcs, reads);
        for &pe in by {
            blocks += reads.values().map(Vec::len).sum::<usize>();
            for (buffer, blocks) in &reads {
                for b in blocks {
                    holders[buffer].fetch(inside, pe, *buffer, b, &mut out.fetches);
                }
            }
            few(blocks.max(out.fetches.len())).map_err(many)?;
            out.parts.push(PePart { pe, result: result.clone(), reads: reads.clone() });
        }
    }
    out.parts.sort_by_key(|p| p.pe);
    Ok(out)
}

/// Merges the reads of operands that are the same buffer, so that every element is read once.
fn merged(srcs: &[PlacedBuffer], reads: Vec<Vec<Block>>) -> BTreeMap<BufferId, Vec<Block>> {
    let mut out: BTreeMap<BufferId, Vec<Block>> = BTreeMap::new();
    for (s, blocks) in srcs.iter().zip(reads) {
        let blocks = blocks.into_iter().filter(|b| volume(b) > 0);
        let Some(known) = out.get_mut(&s.buffer) else {
            out.insert(s.buffer, blocks.collect());
            continue;
        };
        for b in blocks {
            let mut rest = vec![b];
            for other in known.iter() {
                let mut left = vec![];
                rest.into_iter().for_each(|r| without(r, other, &mut left));
                rest = left;
            }
            known.extend(rest);
        }
    }
    out
}

/// Assigns the whole operation to one PE: the first that holds a part of the result. Other PEs send
/// it the operands that it lacks and receive the parts of the result that they hold.
fn assign_to_one_pe(
    dst: &PlacedBuffer,
    srcs: &[PlacedBuffer],
    results: &Holders,
    holders: &BTreeMap<BufferId, Holders>,
    inside: Interior,
) -> Share {
    let mut out = Share::default();
    let Some(pe) = results.0.iter().flat_map(|h| &h.1).copied().min() else { return out };
    let reads = merged(srcs, srcs.iter().map(|s| vec![whole_block(&s.sizes)]).collect());
    for (buffer, blocks) in &reads {
        for b in blocks {
            holders[buffer].fetch(inside, pe, *buffer, b, &mut out.fetches);
        }
    }
    for (block, by) in &results.0 {
        for &to in by.iter().filter(|to| **to != pe) {
            out.sends.push(PeTransfer { from: pe, to, buffer: dst.buffer, block: block.clone() });
        }
    }
    out.parts.push(PePart { pe, result: vec![whole_block(&dst.sizes)], reads });
    out
}

/// Returns a buffer with its sizes on a rank and its placement.
///
/// # Errors
/// Returns E302 if the sizes cannot be evaluated.
pub fn placed(
    program: &Program<'_>,
    buffer: BufferId,
    rank: u64,
    machine: &Topology,
) -> Result<PlacedBuffer, Fault> {
    let name = &program.schedule.buffer(buffer).name;
    let placement = machine.placements().of(name.as_str()).unwrap_or_default();
    Ok(PlacedBuffer { buffer, sizes: program.dims(buffer, rank)?, placement })
}

/// Divides an operation of a schedule among the PEs of a rank's device. None if the PEs do not
/// share work: the machine gives no placement, or its devices are single PEs.
///
/// # Errors
/// Returns E302 if sizes cannot be evaluated, and E469 of [`share`].
pub fn of_rank(
    program: &Program<'_>,
    op: &LocalOp,
    rank: u64,
    machine: &Topology,
) -> Result<Option<Share>, Fault> {
    if !machine.shares_work() {
        return Ok(None);
    }
    let placed = |buffer| placed(program, buffer, rank, machine);
    let dst = placed(op.dst())?;
    let srcs = op.srcs().into_iter().map(placed).collect::<Result<Vec<_>, Fault>>()?;
    let b = program.schedule.buffer(op.dst());
    let fault = |code, text| Fault { code, text, span: b.span, rank, region: b.name.clone() };
    let value = |e| program.local_value(e, rank).map_err(|e| fault("E302", e.to_string()));
    let part = op.part().map(value).transpose()?;
    share(op, &dst, &srcs, part, machine).map(Some).map_err(|d| fault("E469", d.title))
}

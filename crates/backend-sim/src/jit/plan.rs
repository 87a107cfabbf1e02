//! Plans of local operations: the pointers, sizes and strides on one rank, as the words that a
//! kernel reads.
//!
//! [`super::recipe`] has the operation, the same on every rank; the module owns plans (its operands
//! on one rank). As for the interpreter, [`kbc_numerics::local::footprint`] determines which
//! elements an operation touches. An operation that does not fit its operands has no plan, and the
//! interpreter explains why.

use super::memories::Memories;
use super::recipe::{Chain, Recipe};
use super::words::{self, OUTER, moving, product};
use crate::effect::Run;
use kbc_ir::schedule::{BufferId, Filling, LocalOp};
use kbc_ir::types::DType;
use kbc_ir::walk::Mem;
use kbc_numerics::local::{self, Footprint};
use kbc_numerics::numbers;
use kbc_numerics::tensor::count;

/// Operands of an operation on one rank.
pub(super) struct Plan {
    /// Elements that are read; all of them must hold something.
    pub(super) reads: Vec<Run>,
    /// Elements that are written.
    pub(super) writes: Vec<Run>,
    /// The words that the kernel reads.
    pub(super) words: Vec<i64>,
    /// Whether the operation only copies, so many elements that this may be put off. There is
    /// nothing left to do for the kernel then.
    pub(super) copies: bool,
    /// Scratch memory of the kernel, to which some of the words point.
    _room: Vec<Vec<f32>>,
}

fn run(b: BufferId, (start, len): (u64, u64)) -> Run {
    Run { mem: Mem::Buffer(b.0), start, len }
}

impl Plan {
    /// Returns the plan of a recipe on a rank, or None if it does not fit its operands.
    pub(super) fn of(memories: &mut Memories<'_>, recipe: &Recipe, rank: u64) -> Option<Plan> {
        match recipe {
            Recipe::Chain(chain) => Plan::chain(memories, chain, rank),
            Recipe::Single(op) => Plan::single(memories, op, rank),
        }
    }

    fn chain(memories: &mut Memories<'_>, chain: &Chain, rank: u64) -> Option<Plan> {
        let program = memories.program;
        let dims = |b: BufferId| program.dims(b, rank).ok();
        let shape = dims(chain.stages.first()?.dst)?;
        let n = count(&shape)?;
        let bytes = chain.dtype.bytes();
        let mut operands = vec![];
        let (mut reads, mut writes) = (vec![], vec![]);
        for (b, repeated) in &chain.args {
            let sizes = dims(*b)?;
            reads.push(run(*b, (0, count(&sizes)?)));
            operands.push((memories.pointer(rank, *b)?, strides(&sizes, &shape, bytes)?, *repeated));
        }
        for stage in &chain.stages {
            writes.push(run(stage.dst, (0, n)));
            if stage.stored {
                operands.push((memories.pointer(rank, stage.dst)?, strides(&shape, &shape, bytes)?, false));
            }
        }
        let mut words = vec![];
        let (sizes, merged) = merge(&shape, &operands, chain.dims);
        words.extend(sizes);
        for ((pointer, ..), strides) in operands.iter().zip(merged) {
            words.push(*pointer);
            words.extend(strides);
        }
        Some(Plan { reads, writes, words, copies: false, _room: vec![] })
    }

    fn single(memories: &mut Memories<'_>, op: &LocalOp, rank: u64) -> Option<Plan> {
        let p = memories.program;
        let shape = p.dims(op.dst(), rank).ok()?;
        let shapes = op.srcs().iter().map(|b| p.dims(*b, rank)).collect::<Result<Vec<_>, _>>().ok()?;
        let part = op.part().map(|e| p.local_value(e, rank)).transpose().ok()?;
        let views: Vec<&[u64]> = shapes.iter().map(|s| &s[..]).collect();
        let Footprint { reads, write } = local::footprint(op, &shape, &views, part).ok()?;
        if let LocalOp::Fill { dst, with } = op {
            return Plan::fill(memories, rank, (*dst, &shape), with, part.unwrap_or(0));
        }
        if let LocalOp::Tiles { kernel, dst, args } = op {
            let extents = kernel.extents(&views, Some(&shape)).ok()?;
            let all: Vec<&[u64]> = views.iter().copied().chain([&shape[..]]).collect();
            let pointers = args.iter().chain([dst]).map(|b| memories.pointer(rank, *b));
            let pointers = pointers.collect::<Option<Vec<i64>>>()?;
            let words = words::of_tiles(kernel, &pointers, &extents, &all);
            let reads = args.iter().zip(reads).map(|(b, r)| run(*b, r)).collect();
            return Some(Plan { reads, writes: vec![run(*dst, write)], words, copies: false, _room: vec![] });
        }
        let (dtype, from) = (memories.dtype(op.dst()), memories.dtype(*op.srcs().first()?));
        let contiguous = matches!(
            op,
            LocalOp::Copy { .. } | LocalOp::Pack { at: Some(_), .. } | LocalOp::Unpack { at: Some(_), .. }
        );
        if contiguous && reads[0].1 == write.1 && (write.1 * dtype.bytes()) as usize >= memories.put_off {
            let reads = vec![run(*op.srcs().first()?, reads[0])];
            return Some(Plan {
                reads,
                writes: vec![run(op.dst(), write)],
                words: vec![0; OUTER + 1],
                copies: true,
                _room: vec![],
            });
        }
        let mut at =
            |b: BufferId, start: u64, t: DType| Some(memories.pointer(rank, b)? + (start * t.bytes()) as i64);
        let mut rooms: Vec<Vec<f32>> = vec![];
        let mut words = vec![at(*op.srcs().first()?, reads[0].0, from)?, at(op.dst(), write.0, dtype)?];
        let n = write.1;
        match op {
            LocalOp::Compute { .. } => return None,
            LocalOp::Matmul { a, b, .. } | LocalOp::Grouped { x: a, w: b, .. } => {
                let product = local::matmuls_of(op, (&shapes[0], &shapes[1]), &shape, part).ok()?;
                let sizes = [reads[0].1, reads[1].1, n];
                let raw = [at(*a, 0, from)?, at(*b, 0, from)?, at(op.dst(), 0, dtype)?];
                let widened = [
                    from.is_float() && from != DType::F32,
                    from.is_float() && from != DType::F32,
                    dtype.is_float() && dtype != DType::F32,
                ];
                words = vec![0; product::PAIRS];
                for i in 0..3 {
                    words[i] = raw[i];
                    if widened[i] {
                        rooms.push(vec![0.0; sizes[i] as usize]);
                        words[i] = rooms.last().map_or(0, |r| r.as_ptr() as i64);
                    }
                    let (halves, len) = product::HALVES[i];
                    (words[halves], words[len]) = (raw[i], sizes[i] as i64);
                }
                let (m, k, width) = product.sizes;
                (words[product::M], words[product::K], words[product::N]) =
                    (m as i64, k as i64, width as i64);
                words[product::BATCHES] = product.pairs.len() as i64;
                words[product::INTEGER] = i64::from(from == DType::I32);
                words.extend(product.pairs.iter().flat_map(|(x, y)| [*x as i64, *y as i64]));
            }
            LocalOp::ReduceDim { dim, .. } => {
                let (outer, size, inner) = local::outer_inner(&shapes[0], *dim).ok()?;
                if outer.checked_mul(inner)? != n {
                    return None;
                }
                words.extend([outer as i64, size as i64, inner as i64]);
                if [from, dtype].iter().any(|t| t.is_float() && *t != DType::F32) {
                    rooms = vec![vec![0.0; reads[0].1 as usize], vec![0.0; n as usize]];
                    words.extend(rooms.iter().map(|r| r.as_ptr() as i64));
                }
            }
            LocalOp::Cast { .. } if reads[0].1 == n => words.push(n as i64),
            LocalOp::Copy { .. }
            | LocalOp::Pack { at: Some(_), .. }
            | LocalOp::Unpack { at: Some(_), .. }
                if reads[0].1 == n =>
            {
                words.push((n * dtype.bytes()) as i64);
            }
            LocalOp::Pack { at: None, dim, .. } | LocalOp::Unpack { at: None, dim, .. }
                if reads[0].1 == n =>
            {
                let tensor = if matches!(op, LocalOp::Pack { .. }) { &shapes[0] } else { &shape };
                let (outer, size, inner) = local::outer_inner(tensor, *dim).ok()?;
                words.extend([outer as i64, size as i64, (inner * dtype.bytes()) as i64]);
            }
            LocalOp::Transpose { perm, .. } if reads[0].1 == n => {
                let all = local::permuted(&shapes[0], perm).ok()?;
                let (outer, run) = all.split_at(moving(perm));
                let run: u64 = run.iter().map(|d| d.0).product();
                words.push((run * dtype.bytes()) as i64);
                words.extend(
                    outer.iter().flat_map(|(n, stride)| [*n as i64, (stride * dtype.bytes()) as i64]),
                );
            }
            LocalOp::Slice { dim, of, rule, .. } => {
                let (outer, size, inner) = local::outer_inner(&shapes[0], *dim).ok()?;
                let (lo, len) = local::block(size, 1, *of, rule, part.unwrap_or(0)).ok()?;
                if outer * len * inner != n {
                    return None;
                }
                words.extend([
                    outer as i64,
                    size as i64,
                    (inner * dtype.bytes()) as i64,
                    lo as i64,
                    len as i64,
                ]);
            }
            LocalOp::Embedding { ids, .. } => {
                let (_, rows, row) = local::outer_inner(&shapes[0], 0).ok()?;
                if reads[1].1.checked_mul(row)? != n {
                    return None;
                }
                let bytes = row * dtype.bytes();
                rooms.push(vec![0.0; bytes.div_ceil(4) as usize]);
                words.extend([
                    reads[1].1 as i64,
                    rows as i64,
                    bytes as i64,
                    part.unwrap_or(0),
                    memories.pointer(rank, *ids)?,
                    rooms.last().map_or(0, |r| r.as_ptr() as i64),
                ]);
            }
            LocalOp::Cast { .. }
            | LocalOp::Fill { .. }
            | LocalOp::Tiles { .. }
            | LocalOp::Copy { .. }
            | LocalOp::Pack { .. }
            | LocalOp::Unpack { .. }
            | LocalOp::Transpose { .. } => return None,
        }
        let reads = op.srcs().iter().zip(reads).map(|(b, r)| run(*b, r)).collect();
        Some(Plan { reads, writes: vec![run(op.dst(), write)], words, copies: false, _room: rooms })
    }
}

impl Plan {
    /// Returns the destination of a fill and the bits or the first index that it writes.
    fn fill(
        memories: &mut Memories<'_>,
        rank: u64,
        (dst, shape): (BufferId, &[u64]),
        with: &Filling,
        first: i64,
    ) -> Option<Plan> {
        let n = count(shape)?;
        let to = memories.pointer(rank, dst)?;
        let words = match with {
            Filling::Number(v) => {
                vec![numbers::from_f64(memories.dtype(dst), &[*v]).bits(0)?, to, n as i64]
            }
            Filling::Place { dim, .. } => {
                let (outer, size, inner) = local::outer_inner(shape, *dim).ok()?;
                vec![0, to, outer as i64, size as i64, inner as i64, first]
            }
        };
        Some(Plan { reads: vec![], writes: vec![run(dst, (0, n))], words, copies: false, _room: vec![] })
    }
}

/// Returns the byte strides of an operand in each dimension of a result, 0 where it is repeated, or
/// None if it does not broadcast.
fn strides(sizes: &[u64], shape: &[u64], bytes: u64) -> Option<Vec<i64>> {
    let lead = shape.len().checked_sub(sizes.len())?;
    let mut out = vec![0; shape.len()];
    let mut stride = bytes as i64;
    for (d, size) in sizes.iter().enumerate().rev() {
        match *size == shape[lead + d] {
            true => out[lead + d] = if *size == 1 { 0 } else { stride },
            false if *size == 1 => {}
            false => return None,
        }
        stride *= *size as i64;
    }
    Some(out)
}

/// Joins neighbouring dimensions that every operand traverses contiguously, innermost first, and
/// adds dimensions of size 1 in front up to `dims` dimensions. An operand that its kernel treats as
/// repeated along the last dimension stays repeated.
fn merge(shape: &[u64], operands: &[(i64, Vec<i64>, bool)], dims: usize) -> (Vec<i64>, Vec<Vec<i64>>) {
    // Innermost first: size, and stride of each operand.
    let mut out: Vec<(u64, Vec<i64>)> = vec![];
    for d in (0..shape.len()).rev() {
        let next: Vec<i64> = operands.iter().map(|o| o.1[d]).collect();
        let first = out.len() == 1;
        let joined = out.last().is_some_and(|(size, inner)| {
            operands.iter().enumerate().all(|(k, o)| {
                let fits = *size == 1 || next[k] == inner[k] * *size as i64;
                fits && (!first || !o.2 || next[k] == 0)
            })
        });
        match out.last_mut() {
            Some((size, inner)) if shape[d] == 1 || joined => {
                if *size == 1 && shape[d] != 1 {
                    *inner = next;
                }
                *size *= shape[d];
            }
            _ => out.push((shape[d], next)),
        }
    }
    if out.is_empty() {
        out.push((1, vec![0; operands.len()]));
    }
    while out.len() < dims {
        out.push((1, vec![0; operands.len()]));
    }
    out.reverse();
    let sizes = out.iter().map(|o| o.0 as i64).collect();
    let strides = (0..operands.len()).map(|k| out.iter().map(|o| o.1[k]).collect()).collect();
    (sizes, strides)
}

//! Local operations on devices whose PEs share them: each PE computes only from what it holds and
//! what was sent to it.
//!
//! The module owns the memories of PEs during one operation. The placement determines what a PE
//! holds, [`kbc_machine::share`] what is sent; everything else that a PE could read is poisoned. It
//! rejects a PE that sends data it does not have, elements of the result that no PE computes, and
//! copies of an element that differ.

use kbc_ir::schedule::{BufferId, LocalOp};
use kbc_ir::types::DType;
use kbc_machine::share::{Block, PlacedBuffer, share};
use kbc_machine::topology::Topology;
use kbc_numerics::local::{self, Footprint};
use kbc_numerics::numbers::{Refusal, from_i64};
use kbc_numerics::tensor::{Data, Tensor};
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns the runs of elements, row-major, of a block of a tensor.
fn rows(block: &[Range<u64>], sizes: &[u64]) -> Vec<Range<usize>> {
    let only = 0..1;
    let Some((last, outer)) = block.split_last() else { return vec![only] };
    let mut starts = vec![0u64];
    for (r, n) in outer.iter().zip(sizes) {
        starts = starts.iter().flat_map(|s| r.clone().map(move |i| s * n + i)).collect();
    }
    let n = sizes.get(outer.len()).copied().unwrap_or(1);
    starts.iter().map(|s| (s * n + last.start) as usize..(s * n + last.end) as usize).collect()
}

/// Returns poison: numbers that occur in no computation, varying with the position.
fn poison(dtype: DType, n: usize) -> Data {
    let values: Vec<i64> = (0..n as i64).map(|i| 101 + (i * 37) % 26).collect();
    from_i64(dtype, &values)
}

fn refuse(pe: u32, what: &str) -> Refusal {
    Refusal::new(
        format!("PE {pe} of a device {what}"),
        "this is an error of kbc, not of the program: please report it with the program",
    )
}

/// Returns the block of a tensor that each PE holds.
fn slices(tensor: &PlacedBuffer, machine: &Topology) -> Result<BTreeMap<u32, Block>, Refusal> {
    let found = tensor.placement.slices(&tensor.sizes, machine);
    Ok(found.map_err(|d| Refusal::new(d.title, "change the placement"))?.into_iter().collect())
}

fn within(part: &[Range<u64>], block: &[Range<u64>]) -> bool {
    part.iter().zip(block).all(|(p, b)| b.start <= p.start && p.end <= b.end)
}

/// An operation on a device whose PEs share it.
pub struct Shared<'a> {
    /// The operation.
    pub op: &'a LocalOp,
    /// The written tensor.
    pub dst: (PlacedBuffer, DType),
    /// The tensors read, in the order of [`LocalOp::srcs`]. They are whole, whatever part the
    /// operation reads.
    pub srcs: Vec<(PlacedBuffer, Tensor)>,
    /// The value of [`LocalOp::part`].
    pub part: Option<i64>,
}

impl Shared<'_> {
    /// Executes the operation as [`local::apply`] does, PE by PE.
    ///
    /// # Errors
    /// Returns the errors of [`local::apply`] and of [`share`], and an error for a PE that needs
    /// data it does not have.
    pub fn apply(&self, machine: &Topology) -> Result<Data, Refusal> {
        let Shared { op, dst: (dst, dtype), srcs, part } = self;
        let placed: Vec<PlacedBuffer> = srcs.iter().map(|s| s.0.clone()).collect();
        let plan = share(op, dst, &placed, *part, machine)
            .map_err(|d| Refusal::new(d.title, "change the placement"))?;
        let sizes: Vec<&[u64]> = placed.iter().map(|p| &p.sizes[..]).collect();
        let Footprint { reads, write } = local::footprint(op, &dst.sizes, &sizes, *part)?;
        let mut held: BTreeMap<BufferId, BTreeMap<u32, Block>> = BTreeMap::new();
        for p in &placed {
            held.insert(p.buffer, slices(p, machine)?);
        }
        let all = dst.sizes.iter().product::<u64>() as usize;
        let (mut out, mut made) = (Data::zeros(*dtype, all), vec![false; all]);
        // The elements of the result that each PE has.
        let mut has: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
        for job in &plan.parts {
            let mut operands = vec![];
            for ((p, whole), read) in srcs.iter().zip(&reads) {
                let mut own = poison(whole.dtype(), whole.elements());
                let mut take = |block: &[Range<u64>]| {
                    rows(block, &p.sizes)
                        .into_iter()
                        .all(|r| own.copy_from(r.start, whole.data(), r.start, r.len()))
                };
                let mut fits = held[&p.buffer].get(&job.pe).is_none_or(|b| take(b));
                for m in plan.fetches.iter().filter(|m| m.to == job.pe && m.buffer == p.buffer) {
                    let sender = held[&p.buffer].get(&m.from);
                    if !sender.is_some_and(|b| within(&m.block, b)) {
                        return Err(refuse(m.from, "sends elements that it does not hold"));
                    }
                    fits &= take(&m.block);
                }
                if !fits {
                    return Err(refuse(job.pe, "has elements outside of a tensor"));
                }
                let own = own.slice(read.0 as usize, read.1 as usize);
                // Some operations read only a part.
                operands.push(match Tensor::new(p.sizes.clone(), own.clone()) {
                    Some(t) => t,
                    None => Tensor::line(own),
                });
            }
            let operands: Vec<&Tensor> = operands.iter().collect();
            let data = local::apply(op, (&dst.sizes, *dtype), &operands, *part)?;
            let own = has.entry(job.pe).or_insert_with(|| vec![false; all]);
            for r in job.result.iter().flat_map(|b| rows(b, &dst.sizes)) {
                let Some(from) = r.start.checked_sub(write.0 as usize) else {
                    return Err(refuse(job.pe, "writes elements that the operation does not write"));
                };
                for i in 0..r.len() {
                    let (to, one) = (r.start + i, data.slice(from + i, 1));
                    if one.is_empty() || made[to] && out.slice(to, 1) != one {
                        return Err(refuse(job.pe, "computes another value than a PE beside it"));
                    }
                    (made[to], own[to]) = (out.copy_from(to, &one, 0, 1), true);
                }
            }
        }
        for m in &plan.sends {
            for r in rows(&m.block, &dst.sizes) {
                if !has.get(&m.from).is_some_and(|h| h[r.clone()].iter().all(|x| *x)) {
                    return Err(refuse(m.from, "sends elements that it does not have"));
                }
                has.entry(m.to).or_insert_with(|| vec![false; all])[r].fill(true);
            }
        }
        let written = write.0 as usize..(write.0 + write.1) as usize;
        for (pe, slice) in slices(dst, machine)? {
            for i in rows(&slice, &dst.sizes).into_iter().flatten().filter(|i| written.contains(i)) {
                if !has.get(&pe).is_some_and(|h| h[i]) {
                    return Err(refuse(pe, "does not receive its part of a result"));
                }
            }
        }
        Ok(out.slice(written.start, written.len()))
    }
}

//! In-place results: a collective writes a block directly to its destination, if a rank works only
//! on its own block of a vector, from which that block is then copied out.
//!
//! The module decides for which buffers this holds. The result is again a schedule: the operand of
//! the collective is the tensor of the block, a path into the vector keeps only what follows the
//! block, and the copy is gone.

use super::accesses::touched;
use super::elision::{Coordinates, Elision, statement};
use kbc_ir::expr::Expr;
use kbc_ir::op::OpPartMut;
use kbc_ir::schedule::{
    BufferId, BufferRole, Line, LocalOp, Operand, OperandId, Part, Ref, RegionId, SOp, SStmt, Schedule,
    each_op, each_op_mut,
};

/// A copy of a block out of a vector.
struct BlockCopy {
    /// Position of the copy.
    region: usize,
    statement: usize,
    from: BufferId,
    to: BufferId,
    parts: u64,
    /// Number of the block, in mesh coordinates.
    at: Expr,
}

/// Removes such copies, whose blocks are computed at their destination instead. Returns whether
/// there are any.
pub(super) fn write_in_place(work: &mut Elision<'_>) -> bool {
    let mut left = block_copies(&work.now);
    let mut any = false;
    // A copy may depend on another one's being gone.
    loop {
        let before = left.len();
        left.retain(|t| {
            let Some((number, operand)) = instead(work, t) else { return true };
            work.change_region(number, |region| {
                region.operands[operand.0.0 as usize] = operand.1;
                for stream in region.roles.iter_mut().flat_map(|r| &mut r.streams) {
                    shorten(&mut stream.body, operand.0);
                }
            });
            work.remove((t.region, 0, t.statement));
            any = true;
            false
        });
        if left.len() == before {
            return any;
        }
    }
}

fn block_copies(s: &Schedule) -> Vec<BlockCopy> {
    let mut out = vec![];
    for (region, r) in s.regions.iter().enumerate().filter(|(_, r)| super::lanes::local(r)) {
        for (statement, stmt) in r.roles[0].streams[0].body.iter().enumerate() {
            // Blocks of the first dimension are already one after another.
            if let SStmt::Op(SOp::Local(LocalOp::Unpack { dst, src, dim: 0, parts, at: Some(at), .. }), _) =
                stmt
            {
                let (to, from, parts, at) = (*dst, *src, *parts, at.clone());
                let temporary = |b: BufferId| s.buffer(b).role == BufferRole::Temp && !s.buffer(b).zero;
                if temporary(from) && !s.buffer(to).zero && s.buffer(to).dtype == s.buffer(from).dtype {
                    out.push(BlockCopy { region, statement, from, to, parts, at });
                }
            }
        }
    }
    out
}

/// Returns the region of the collective that can compute the block at its destination, and its
/// operand with what takes its place.
fn instead(work: &Elision<'_>, t: &BlockCopy) -> Option<(usize, (OperandId, Operand))> {
    let s = &work.now;
    // Exactly one collective before the copy works on the vector, nothing else names the vector,
    // and nothing before the copy touches the result.
    let mut works = None;
    for at in work.of_either(t.from, t.to) {
        let (i, _, n) = at;
        let r = &s.regions[i];
        let here = i == t.region && n == t.statement && super::lanes::local(r);
        let mut fits = true;
        each_op(std::slice::from_ref(statement(s, at)?), &mut |op, _| {
            let u = touched(r, op);
            let names = |b: BufferId| [&u.reads, &u.writes].iter().any(|l| l.contains(&b));
            fits &= !u.remote.contains(&t.from) && !u.remote.contains(&t.to);
            let before = i < t.region || i == t.region && n < t.statement;
            fits &= here || !before || !names(t.to);
            if names(t.from) && !here {
                fits &= !matches!(op, SOp::Local(_)) && i < t.region && works.is_none_or(|w| w == i);
                works = Some(i);
            }
        });
        fits.then_some(())?;
    }
    let number = works?;
    let region = &s.regions[number];
    let mut operands = (0..).zip(&region.operands).filter(|(_, o)| o.buffer == t.from);
    let (Some((operand, o)), None) = (operands.next(), operands.next()) else { return None };
    let operand = OperandId(operand);
    (o.line.parts == t.parts && t.parts > 1).then_some(())?;
    let program = work.program()?;
    let own = |path: &[Part]| {
        let Some(Part { index, len, of }) = path.first() else { return false };
        *len == Expr::Int(1)
            && *of == Expr::Int(t.parts as i64)
            && (0..s.mesh.ranks()).all(|rank| {
                let names = super::accesses::names(s, program, RegionId(number as u32), rank);
                let block = program.local_value(&t.at, rank).ok();
                block.is_some() && index.eval(&Coordinates(&names)).ok() == block
            })
    };
    let mut all = true;
    for stream in region.roles.iter().flat_map(|r| &r.streams) {
        each_op(&stream.body, &mut |op, _| {
            for r in op.refs() {
                if let Ref::Chunk { operand: o, path } = r
                    && *o == operand
                {
                    all &= own(path);
                }
            }
        });
    }
    all.then_some(())?;
    let extent = s.buffer(t.to).dims.iter().fold(Expr::Int(1), |n, d| super::address::mul(&n, d));
    let line = Line::vector(extent);
    Some((number, (operand, Operand { buffer: t.to, line, ..o.clone() })))
}

/// Removes the block from the paths into the vector.
fn shorten(list: &mut [SStmt], operand: OperandId) {
    each_op_mut(list, &mut |op, _| {
        op.parts_mut(&mut |part| match part {
            OpPartMut::Near(_, Ref::Chunk { operand: o, path })
            | OpPartMut::Far(_, Ref::Chunk { operand: o, path })
                if *o == operand =>
            {
                path.remove(0);
            }
            OpPartMut::Near(..)
            | OpPartMut::Far(..)
            | OpPartMut::Combiner(_)
            | OpPartMut::Peer(_)
            | OpPartMut::Counter(_)
            | OpPartMut::Value(_)
            | OpPartMut::Queue(_)
            | OpPartMut::Event(_)
            | OpPartMut::Local(_)
            | OpPartMut::Mark(_)
            | OpPartMut::Buffer(..)
            | OpPartMut::Host(_) => {}
        });
    });
}

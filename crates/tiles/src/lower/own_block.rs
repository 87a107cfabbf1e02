//! Own blocks: a rank's block of a vector, which the rank sends, is copied into the vector by the
//! loop that sends it.
//!
//! A gather begins with `pack v = x`, which copies this rank's tensor to its block of the vector,
//! and then puts that block to peers. The module decides where the copy may be the first operation
//! of the collective. Lowering then loads every tile of the tensor once, for the vector and for the
//! peers. The result is again a schedule.

use super::accesses::{names, touched};
use super::elision::{Coordinates, Elision, statement};
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{
    BufferId, BufferRole, Line, LocalOp, Operand, OperandId, Part, RankSet, Ref, RegionId, SOp, SStmt,
    Schedule, each_op,
};

/// A copy of a tensor to a block of a vector.
struct BlockPack {
    region: usize,
    statement: usize,
    to: BufferId,
    from: BufferId,
    parts: u64,
    /// Number of the block, in mesh coordinates.
    at: Expr,
}

/// Makes such copies the first operation of the collective that sends the block. Returns whether
/// there are any.
pub(super) fn own_block(work: &mut Elision<'_>) -> bool {
    let mut any = false;
    for pack in packs(&work.now) {
        let Some((number, path)) = sender(work, &pack) else { continue };
        let extent = work.now.buffer(pack.from).dims.iter();
        let extent = extent.fold(Expr::Int(1), |n, d| super::address::mul(&n, d));
        let span = match statement(&work.now, (pack.region, 0, pack.statement)) {
            Some(SStmt::Op(_, span)) => *span,
            _ => continue,
        };
        work.change_region(number, |region| {
            let (x, v) = (region.operands.len() as u32, pack.to);
            let Some(operand) = region.operands.iter().position(|o| o.buffer == v) else { return };
            let mut name = format!("{}_own", region.operands[operand].name);
            while region.operands.iter().any(|o| o.name == *name)
                || region.coords.iter().any(|c| c.0 == *name)
            {
                name.push('_');
            }
            region.operands.push(Operand {
                name: name.into(),
                buffer: pack.from,
                line: Line::vector(extent),
                scratch: true,
            });
            let dst = Ref::Chunk { operand: OperandId(operand as u32), path };
            let src = Ref::Chunk { operand: OperandId(x), path: vec![] };
            let body = &mut region.roles[0].streams[0].body;
            body.insert(0, SStmt::Op(SOp::Copy { dst, src }, span));
        });
        work.remove((pack.region, 0, pack.statement));
        any = true;
    }
    any
}

fn packs(s: &Schedule) -> Vec<BlockPack> {
    let mut out = vec![];
    for (region, r) in s.regions.iter().enumerate().filter(|(_, r)| super::lanes::local(r)) {
        for (statement, stmt) in r.roles[0].streams[0].body.iter().enumerate() {
            if let SStmt::Op(SOp::Local(LocalOp::Pack { dst, src, dim: 0, parts, at: Some(at), .. }), _) =
                stmt
            {
                let (to, from, parts, at) = (*dst, *src, *parts, at.clone());
                let line = s.buffer(to);
                let like = line.dtype == s.buffer(from).dtype && !line.zero;
                if line.role == BufferRole::Temp && like && parts > 1 {
                    out.push(BlockPack { region, statement, to, from, parts, at });
                }
            }
        }
    }
    out
}

/// Returns the region of the collective that can begin with the copy, and the path of the block.
fn sender(work: &Elision<'_>, pack: &BlockPack) -> Option<(usize, Vec<Part>)> {
    let s = &work.now;
    // The first statement after the copy that touches the vector is in the collective, and nothing
    // writes the tensor until then.
    let mut number = None;
    for at in work.of_either(pack.to, pack.from) {
        let (i, _, n) = at;
        if i < pack.region || i == pack.region && n <= pack.statement {
            continue;
        }
        let mut fits = true;
        each_op(std::slice::from_ref(statement(s, at)?), &mut |op, _| {
            let t = touched(&s.regions[i], op);
            let vector = [&t.reads, &t.writes, &t.remote].iter().any(|l| l.contains(&pack.to));
            if vector && number.is_none() {
                number = Some(i);
            }
            let soon = number.is_none_or(|number| i <= number);
            fits &= !(soon && (t.writes.contains(&pack.from) || t.remote.contains(&pack.from)));
            fits &= !(number == Some(i) && t.remote.contains(&pack.to));
        });
        fits.then_some(())?;
    }
    let number = number?;
    let region = &s.regions[number];
    let one =
        matches!(region.roles.as_slice(), [r] if matches!(r.ranks, RankSet::All) && r.streams.len() == 1);
    let mut operands = (0..).zip(&region.operands).filter(|(_, o)| o.buffer == pack.to);
    let (Some((operand, o)), None) = (operands.next(), operands.next()) else { return None };
    if !one || super::lanes::local(region) || o.line.parts != pack.parts {
        return None;
    }
    let program = work.program()?;
    let block = |path: &[Part]| {
        let [Part { index, len, of }] = path else { return false };
        *len == Expr::Int(1)
            && *of == Expr::Int(pack.parts as i64)
            && (0..s.mesh.ranks()).all(|rank| {
                let names = names(s, program, RegionId(number as u32), rank);
                let at = program.local_value(&pack.at, rank).ok();
                at.is_some() && index.eval(&Coordinates(&names)).ok() == at
            })
    };
    let mut found = None;
    each_op(&region.roles[0].streams[0].body, &mut |op, _| {
        if let SOp::Put { src: Ref::Chunk { operand: of, path }, .. }
        | SOp::Copy { src: Ref::Chunk { operand: of, path }, dst: Ref::Slot { .. } } = op
            && *of == OperandId(operand)
            && found.is_none()
            && block(path)
        {
            found = Some(path.clone());
        }
    });
    Some((number, found?))
}

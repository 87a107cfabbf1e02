//! Standalone collectives: one application of one algorithm as a schedule of its own.
//!
//! This module owns the operands of such a schedule, the regions that load and store them, and the
//! passes below `expand`. `kbc check` uses it to prove the schedules of algorithms, including those
//! of collectives that a program cannot use yet. Nothing here depends on a particular collective:
//! the shape of an operand follows from its declaration.

use crate::allocate::Allocate;
use crate::expand::{Arg, Request, boundary, collective, part_length};
use crate::order::choose::OneSlotCache;
use crate::pass::{Pass, PassCx};
use crate::synchronize::Synchronize;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::contract::{Clause, Contract};
use kbc_ir::contract_sides::on;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::schedule::*;
use kbc_ir::types::{Axis, Cut, CutRule, DType, Dim, MemKind, Mesh, ReduceOp, TensorType};
use kbc_ir::{Body, Module, Props, verify};
use kbc_rounds::library::{AlgId, Library};

/// The mesh axis of such schedules.
pub const AXIS: &str = "tp";

/// The description of a standalone collective.
#[derive(Clone, Debug)]
pub struct Standalone<'a> {
    /// The declarations.
    pub lib: &'a Library,
    /// The algorithm.
    pub alg: AlgId,
    /// Arguments that differ from the defaults.
    pub args: &'a [(String, Arg)],
    /// Options of the use.
    pub options: &'a [(String, Arg)],
    /// One size for each axis of the algorithm.
    pub sizes: &'a [u64],
    /// The root in linear order, if the collective has a root.
    pub root: Option<u64>,
    /// Number of elements along the dimension that blocks cut.
    pub n: u64,
    /// Elements for each of those, if there are blocks.
    pub unit: u64,
    /// The rule by which blocks are cut.
    pub rule: CutRule,
    /// Type of the elements.
    pub dtype: DType,
    /// The combiner.
    pub red: ReduceOp,
}

/// An operand of a collective.
#[derive(Clone, Debug)]
pub struct StandaloneOperand {
    /// Global type.
    pub ty: TensorType,
    /// Sizes on a rank.
    pub dims: Vec<Expr>,
    /// The line of its elements.
    pub line: Line,
    /// Two numbers on the rank that has most: elements along the dimension that is cut, and
    /// elements for each of those.
    pub largest: (u64, u64),
}

/// Returns a mesh of one axis.
pub fn mesh(ranks: u64) -> Mesh {
    Mesh { axes: vec![Axis { name: AXIS.into(), size: ranks, parts: vec![] }] }
}

impl Standalone<'_> {
    fn ranks(&self) -> u64 {
        self.sizes.iter().product()
    }

    fn unknown(&self) -> Diagnostics {
        let coll = &self.lib.algorithm(self.alg).coll;
        Diagnostic::error("E005", format!("unknown collective `{}`", coll.node))
            .primary(coll.span, "not known here")
            .into()
    }

    /// Returns the operands. If there are two operands in blocks, block b of the first on rank r is
    /// as large as block r of the second on rank b. The rows of such an operand are cut over the
    /// ranks and its columns into blocks; the two operands swap their numbers of rows and columns.
    ///
    /// # Errors
    /// Returns E005 if the algorithm is for a collective that does not exist.
    pub fn operands(&self) -> Result<Vec<StandaloneOperand>, Diagnostics> {
        let coll = self.lib.collective(self.lib.collective_of(self.alg).ok_or_else(|| self.unknown())?);
        let p = self.ranks();
        let int = |v: u64| Expr::Int(v as i64);
        let both = coll.buffers.len() == 2 && coll.buffers.iter().all(|b| b.sizes.len() == 2);
        let cut = |size| Dim { size, cut: Some(Cut { axes: vec![AXIS.into()], rule: self.rule.clone() }) };
        let mine = |n: u64| {
            let at = Expr::var(AXIS);
            if let CutRule::Lengths(_) = self.rule {
                return part_length(&int(n), &at, p, &self.rule);
            }
            let bound = |i: Expr| boundary(&int(n), &i, p, &self.rule);
            if p == 1 { int(n) } else { bound(at.clone() + Expr::Int(1)) - bound(at) }
        };
        let ty = |dims| TensorType { dtype: self.dtype, dims, partial: None, only: None };
        let operand = |(i, b): (usize, &kbc_rounds::ast::BufferDecl)| {
            let blocks = b.sizes.len() == 2;
            if both {
                // The operands are `n` by `n + unit` and `n + unit` by `n`, so block sizes differ
                // from pair to pair.
                let (rows, cols) =
                    if i == 0 { (self.n, self.n + self.unit) } else { (self.n + self.unit, self.n) };
                return StandaloneOperand {
                    ty: ty(vec![cut(rows), Dim { size: cols, cut: None }]),
                    dims: vec![mine(rows), int(cols)],
                    line: Line {
                        parts: p,
                        extent: int(cols),
                        unit: mine(rows),
                        rule: self.rule.clone(),
                        row: int(0),
                    },
                    largest: (cols, rows.div_ceil(p)),
                };
            }
            let unit = if blocks { self.unit } else { 1 };
            StandaloneOperand {
                ty: ty(vec![cut(p), Dim { size: self.n * unit, cut: None }]),
                dims: vec![if p == 1 { int(1) } else { mine(p) }, int(self.n * unit)],
                line: Line {
                    parts: if blocks { p } else { 1 },
                    extent: int(self.n),
                    unit: int(unit),
                    rule: self.rule.clone(),
                    row: int(0),
                },
                largest: (self.n, unit),
            }
        };
        Ok(coll.buffers.iter().enumerate().map(operand).collect())
    }

    /// Returns the collective between a region that loads its operands from inputs and a region
    /// that stores them to outputs, in the state after `expand`.
    ///
    /// # Errors
    /// Same as [`collective`].
    pub fn expanded(&self) -> Result<Module, Diagnostics> {
        let coll = self.lib.collective_of(self.alg).ok_or_else(|| self.unknown())?;
        let mesh = mesh(self.ranks());
        let mut s = Schedule::new("t", mesh.clone());
        let operands = self.operands()?;
        let buffer = |name: String, t: &StandaloneOperand, role| Buffer {
            name: name.into(),
            dtype: self.dtype,
            dims: t.dims.clone(),
            memory: MemKind::Hbm,
            zero: false,
            role,
            global: (role != BufferRole::Temp).then(|| t.ty.clone()),
            span: Span::NONE,
        };
        let (mut load, mut ops) = (vec![], vec![]);
        let copy = |dst, src| SStmt::Op(SOp::Local(LocalOp::Copy { dst, src }), Span::NONE);
        for (i, (b, t)) in self.lib.collective(coll).buffers.iter().zip(&operands).enumerate() {
            let id = s.buffers.len() as u32;
            s.buffers.push(buffer(format!("x{i}"), t, BufferRole::Input(i as u32)));
            s.buffers.push(buffer(b.name.node.clone(), t, BufferRole::Temp));
            s.buffers.push(buffer(format!("y{i}"), t, BufferRole::Output(i as u32)));
            load.push(copy(BufferId(id + 1), BufferId(id)));
            ops.push((BufferId(id + 1), t.line.clone()));
        }
        let local = |name: &str, body, after| Region::local(&mesh, name.into(), body, after, Span::NONE);
        s.regions.push(local("load", load, vec![]));
        let request = Request {
            lib: self.lib,
            trees: None,
            coll,
            alg: self.alg,
            written: &self.lib.algorithm_name(self.alg).node,
            args: self.args,
            options: self.options,
            red: self.red,
            root: self.root,
            over: vec![AXIS.into()],
            sizes: self.sizes.to_vec(),
            operands: ops.clone(),
            largest: operands.iter().map(|t| t.largest).collect(),
            name: "c".into(),
            span: Span::NONE,
            queues: false,
            known: &OneSlotCache::default(),
        };
        collective(&request, &mut s)?;
        let contract = s.regions.last().and_then(|r| r.contract.clone());
        let mut stored = local("store", vec![], vec![RegionId(1)]);
        let mut body = vec![];
        for (value, line) in ops {
            let result = BufferId(value.0 + 1);
            let name = s.buffer(value).name.clone();
            let ends: Vec<End> = contract.iter().flat_map(|p| ends(p, &name, self.ranks())).collect();
            if ends.iter().any(|e| e.everything()) {
                body.push(copy(result, value));
                continue;
            }
            // Only places that the contract covers are results. The rest of the output is zeros.
            s.buffers[result.0 as usize].zero = true;
            let first = stored.operands.len() as u32;
            for (name, buffer) in [(name, value), (s.buffer(result).name.clone(), result)] {
                stored.operands.push(kbc_ir::schedule::Operand {
                    name,
                    buffer,
                    line: line.clone(),
                    scratch: false,
                });
            }
            body.extend(ends.into_iter().map(|e| e.copied(OperandId(first + 1), OperandId(first))));
        }
        stored.roles[0].streams[0].body = body;
        s.regions.push(stored);
        Ok(Module {
            name: "t".into(),
            machine: None,
            mesh,
            body: Body::Schedule(s),
            props: Props::EXPANDED,
            attributes: Default::default(),
        })
    }

    /// Returns the same schedule with windows and signals, ready to be checked and executed.
    ///
    /// # Errors
    /// Same as [`collective`], and the errors of the passes and of the verifier.
    pub fn synchronized(&self) -> Result<Module, Diagnostics> {
        let mut module = self.expanded()?;
        for pass in [&Allocate as &dyn Pass, &Synchronize] {
            pass.run(&mut module, &PassCx::new(self.lib, None))?;
            module.props = module.props.without(pass.info().breaks).with(pass.info().gives);
        }
        let found = verify::verify(&module);
        if found.has_errors() { Err(found) } else { Ok(module) }
    }
}

/// A place covered by an `end` clause of a contract, in terms of a rank of the mesh.
struct End {
    /// The block of the line and the number of blocks, if the line has blocks.
    block: Option<(Expr, u64)>,
    /// The variable that ranges over all blocks, if the clause covers all blocks.
    free: Option<Name>,
    /// The condition on the rank, if there is one.
    cond: Option<Expr>,
}

/// Returns the places of a buffer that the `end` clauses of a contract cover.
fn ends(p: &Contract, buffer: &Name, ranks: u64) -> Vec<End> {
    let here = |e: &Expr| on(p, e, &Expr::var(AXIS), ranks).simplify();
    let one = |c: &Clause| match c {
        Clause::Start { .. } => None,
        Clause::End { cell, cond, .. } if cell.buffer == *buffer => {
            let (block, free) = match &cell.index[..] {
                [e, _] => {
                    let free = match e {
                        Expr::Var(n) if *n != p.rank && *n != p.size => Some(n.clone()),
                        _ => None,
                    };
                    (Some((here(e), ranks)), free)
                }
                _ => (None, None),
            };
            Some(End { block, free, cond: cond.as_ref().map(here) })
        }
        Clause::End { .. } => None,
    };
    p.clauses.iter().filter_map(one).collect()
}

impl End {
    /// Checks whether it is the whole line on every rank.
    fn everything(&self) -> bool {
        self.cond.is_none() && (self.block.is_none() || self.free.is_some())
    }

    /// Returns the statement that copies the place from one operand to another.
    fn copied(self, dst: OperandId, src: OperandId) -> SStmt {
        let path: Vec<Part> = self
            .block
            .iter()
            .map(|(e, of)| Part { index: e.clone(), len: Expr::Int(1), of: Expr::Int(*of as i64) })
            .collect();
        let side = |operand| Ref::Chunk { operand, path: path.clone() };
        let mut out = SStmt::Op(SOp::Copy { dst: side(dst), src: side(src) }, Span::NONE);
        if let Some(cond) = self.cond {
            out = SStmt::If { cond, then: vec![out], other: vec![] };
        }
        match (self.free, self.block) {
            (Some(var), Some((_, of))) => {
                SStmt::For { var, lo: Expr::Int(0), hi: Expr::Int(of as i64), body: vec![out] }
            }
            _ => out,
        }
    }
}

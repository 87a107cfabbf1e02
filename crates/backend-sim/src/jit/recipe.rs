//! Recipes: what compiled operations compute, the same on every rank, and which of them are fused.
//!
//! The module owns chains: consecutive elementwise operations on one shape become one loop, and
//! results that nothing else reads are not written. [`super::kernel`] and [`super::local`] compile
//! recipes; [`super::plan`] determines where their operands are on a rank.

use kbc_ir::expr::Expr;
use kbc_ir::scalar::Scalar;
use kbc_ir::schedule::{BufferId, BufferRole, LocalOp};
use kbc_ir::types::DType;
use kbc_ir::walk::Program;
use kbc_ir::walk::code::{COp, CStmt};
use std::collections::{BTreeMap, BTreeSet};

/// The kind of an operation.
#[derive(Clone, Debug)]
pub(super) enum Recipe {
    /// A chain of elementwise functions, fused.
    Chain(Chain),
    /// Any other operation.
    Single(LocalOp),
}

/// The source of an operand of a stage in a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    /// An operand of the chain.
    Arg(usize),
    /// The result of an earlier stage.
    Stage(usize),
}

/// One function of a chain.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) body: Scalar,
    pub(super) inputs: Vec<Input>,
    /// The buffer that it writes.
    pub(super) dst: BufferId,
    /// Whether anything outside the chain reads that buffer.
    pub(super) stored: bool,
}

/// Consecutive elementwise functions on one shape.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// Element type of everything.
    pub(super) dtype: DType,
    /// Number of dimensions of the shape, at least one.
    pub(super) dims: usize,
    /// Operands from outside, and whether each is repeated along the last dimension.
    pub(super) args: Vec<(BufferId, bool)>,
    /// The functions.
    pub(super) stages: Vec<Stage>,
}

impl Chain {
    /// Returns the longest chain at the beginning of a list of statements, and the numbers of its
    /// operations, or None if the first statement is not elementwise or never has a value.
    pub(super) fn first(program: &Program<'_>, uses: &Uses, list: &[CStmt<'_>]) -> Option<(Chain, Vec<u32>)> {
        let s = program.schedule;
        let mut chain: Option<Chain> = None;
        let mut numbers = vec![];
        let mut latest: BTreeMap<u32, usize> = BTreeMap::new();
        for statement in list {
            let CStmt::Op(COp::Local(local), _, number) = statement else { break };
            let LocalOp::Compute { func, dst, args } = program.local(*local) else { break };
            let result = s.buffer(*dst);
            let valid = computes(result.dtype)
                && args.len() >= func.params.len()
                && args.iter().all(|a| s.buffer(*a).dtype == result.dtype)
                && defined(&func.body, args.len());
            let goes_on = chain
                .as_ref()
                .is_none_or(|c| c.dtype == result.dtype && s.buffer(c.stages[0].dst).dims == result.dims);
            if !valid
                || !goes_on
                || args.iter().any(|a| latest.contains_key(&a.0) && s.buffer(*a).dims != result.dims)
            {
                break;
            }
            let chain = chain.get_or_insert_with(|| Chain {
                dtype: result.dtype,
                dims: result.dims.len().max(1),
                args: vec![],
                stages: vec![],
            });
            let inputs = args
                .iter()
                .map(|a| match latest.get(&a.0) {
                    Some(stage) => Input::Stage(*stage),
                    None => {
                        let arg = (*a, repeated(&s.buffer(*a).dims, &result.dims));
                        Input::Arg(chain.args.iter().position(|x| *x == arg).unwrap_or_else(|| {
                            chain.args.push(arg);
                            chain.args.len() - 1
                        }))
                    }
                })
                .collect();
            latest.insert(dst.0, chain.stages.len());
            numbers.push(*number);
            chain.stages.push(Stage { body: func.body.clone(), inputs, dst: *dst, stored: true });
        }
        let mut chain = chain?;
        let all: BTreeSet<u32> = numbers.iter().copied().collect();
        for (i, stage) in chain.stages.iter_mut().enumerate() {
            // What the chain reads before writing it comes from an earlier iteration of a loop, or
            // an earlier call.
            let carried = chain.args.iter().any(|a| a.0 == stage.dst);
            stage.stored = (carried || !uses.private(stage.dst, &all)) && latest[&stage.dst.0] == i;
        }
        Some((chain, numbers))
    }
}

/// Which operations read which buffers outside their chain.
pub(super) struct Uses {
    exposed: BTreeSet<u32>,
    readers: BTreeMap<u32, BTreeSet<u32>>,
}

impl Uses {
    /// Collects the uses over the whole schedule.
    pub(super) fn of(program: &Program<'_>) -> Uses {
        let mut uses = Uses { exposed: BTreeSet::new(), readers: BTreeMap::new() };
        for (i, b) in program.schedule.buffers.iter().enumerate() {
            if b.role != BufferRole::Temp {
                uses.exposed.insert(i as u32);
            }
        }
        for r in &program.regions {
            uses.exposed.extend(r.operands.iter().map(|o| o.0));
            for (_, list) in r.roles.iter().flat_map(|role| &role.streams) {
                uses.list(program, list);
            }
        }
        uses
    }

    fn list(&mut self, program: &Program<'_>, list: &[CStmt<'_>]) {
        for s in list {
            match s {
                CStmt::For { body, .. } => self.list(program, body),
                CStmt::If { then, other, .. } => {
                    self.list(program, then);
                    self.list(program, other);
                }
                CStmt::Op(COp::Local(l), _, number) => {
                    let l = program.local(*l);
                    for b in l.srcs().into_iter().chain([l.dst()]) {
                        self.readers.entry(b.0).or_default().insert(*number);
                    }
                }
                CStmt::Op(COp::HostRead(b), ..) => drop(self.exposed.insert(b.0)),
                CStmt::Op(..) | CStmt::Written(_) => {}
            }
        }
    }

    fn private(&self, b: BufferId, chain: &BTreeSet<u32>) -> bool {
        !self.exposed.contains(&b.0) && self.readers.get(&b.0).is_none_or(|all| all.is_subset(chain))
    }
}

/// Whether arithmetic exists for a type.
pub(super) fn computes(dtype: DType) -> bool {
    dtype.reduces()
}

/// Whether an expression names only operands that exist.
pub(super) fn defined(e: &Scalar, params: usize) -> bool {
    let go = |e: &Scalar| defined(e, params);
    match e {
        Scalar::Num(_) => true,
        Scalar::Arg(i) => *i < params,
        Scalar::Un(_, a) | Scalar::Pow(a, _) => go(a),
        Scalar::Bin(_, a, b) => go(a) && go(b),
        Scalar::If(c, a, b) => go(&c.a) && go(&c.b) && go(a) && go(b),
    }
}

/// Whether an operand of these sizes is constant along the last dimension of a result.
fn repeated(arg: &[Expr], dst: &[Expr]) -> bool {
    let one = |e: &Expr| *e == Expr::Int(1);
    arg.iter().all(one) || (arg.last().is_some_and(one) && !dst.last().is_some_and(one))
}

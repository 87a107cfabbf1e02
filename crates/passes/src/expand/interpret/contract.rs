//! Contracts of regions: the clauses of a collective's declaration, with the root substituted.

use super::sym::{Bindings, Evaluator, IntoStop, Res, Stop, Sym};
use kbc_diag::Diagnostic;
use kbc_ir::Name;
use kbc_ir::contract::{Cell, Clause, Contract, ContractBuffer, SumOver};
use kbc_ir::expr::Expr;
use kbc_ir::types::ReduceOp;
use kbc_rounds::ast::{self, ClauseValue, CollectiveDecl};
use kbc_rounds::library::Library;

/// Returns the contract of a collective's declaration. `root` is a linear index.
///
/// # Errors
/// Returns the faults of the expressions in the declaration: E003, E010, and E331 for an expression
/// that has no closed form.
pub fn contract_of(
    lib: &Library,
    decl: &CollectiveDecl,
    root: Option<u64>,
    red: ReduceOp,
) -> Result<Contract, Box<Diagnostic>> {
    contract(lib, decl, root.filter(|_| decl.root.is_some()), red).map_err(|stop| match stop {
        Stop::Error(d) => d,
        Stop::NotSymbolic(why, span) => Box::new(
            Diagnostic::error("E331", format!("the contract of {} has no closed form", decl.name.node))
                .primary(span, why)
                .help("write its places, ranks and conditions as arithmetic on the rank"),
        ),
    })
}

/// Returns the contract of a collective on a group. `root` is a linear index.
pub(in crate::expand) fn contract(
    lib: &Library,
    decl: &CollectiveDecl,
    root: Option<u64>,
    red: ReduceOp,
) -> Res<Contract> {
    let eval = Evaluator::new(lib);
    let mut env: Bindings = vec![];
    if let (Some((_, name)), Some(root)) = (&decl.root, root) {
        env.push((name.node.clone(), Sym::Int(Expr::Int(root as i64))));
    }
    let bound = env.len();
    let expr = |e: &ast::Expr| -> Res<Expr> {
        let mut names = vec![];
        names_in(e, &mut names);
        let mut env = env.clone();
        for n in names {
            if !env[..bound].iter().any(|(m, _)| *m == n) {
                env.push((n.clone(), Sym::Int(Expr::Var(n.into()))));
            }
        }
        eval.int(e, &env)
    };
    let cell = |c: &ast::Cell| -> Res<Cell> {
        Ok(Cell { buffer: Name::from(&c.buffer.node), index: c.index.iter().map(&expr).collect::<Res<_>>()? })
    };
    let cond = |c: &Option<ast::Expr>| c.as_ref().map(&expr).transpose();
    let mut clauses = vec![];
    let mut sums = false;
    for c in &decl.clauses {
        clauses.push(match c {
            ast::Clause::Start { cell: at, cond: when } => {
                Clause::Start { cell: cell(at)?, cond: cond(when)? }
            }
            ast::Clause::End { cell: at, cond: when, value } => {
                let (from, rank, sum) = match value {
                    ClauseValue::At(from, rank) => (from, rank, None),
                    ClauseValue::Sum(from, rank, gens) => {
                        sums = true;
                        let [(var, range)] = &gens.vars[..] else {
                            return Err(Diagnostic::error(
                                "E003",
                                "a sum in a contract can have only one variable",
                            )
                            .primary(at.buffer.span, "in this clause")
                            .into_stop());
                        };
                        let over = SumOver {
                            var: Name::from(&var.node),
                            lo: expr(&range.lo)?,
                            hi: expr(&range.hi)?,
                            cond: cond(&gens.cond)?,
                        };
                        (from, rank, Some(over))
                    }
                };
                Clause::End { cell: cell(at)?, cond: cond(when)?, from: cell(from)?, at: expr(rank)?, sum }
            }
        });
    }
    Ok(Contract {
        collective: Name::from(&decl.name.node),
        red: sums.then_some(red),
        root,
        rank: Name::from(&decl.axis.0.node),
        size: Name::from(&decl.axis.1.node),
        buffers: decl
            .buffers
            .iter()
            .map(|b| ContractBuffer { name: Name::from(&b.name.node), blocks: b.sizes.len() == 2 })
            .collect(),
        clauses,
    })
}

/// Collects the names that an expression uses.
fn names_in(e: &ast::Expr, out: &mut Vec<String>) {
    e.free_names(&mut |n, _| out.push(n.to_owned()));
}

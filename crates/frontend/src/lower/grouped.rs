//! Grouped matmuls: `grouped_matmul(x, w, counts: [3, 0, 2])`, in which each run of rows is
//! multiplied by one of several matrices.
//!
//! This module owns the arguments, which define the runs of rows. `infer` checks whether they fit
//! the operands.

use super::arguments::{Arguments, cannot, count_args, missing};
use super::state::{KnownValue, Lowering, Value};
use crate::ast::{Call, Named, OptionValue};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::graph::OpKind;
use kbc_ir::grouped::Runs;
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use kbc_rounds::eval::Functions;

/// The largest number of runs of rows.
const MAX_RUNS: u64 = 1 << 16;

impl Lowering<'_> {
    /// Lowers a grouped matmul. Returns None if errors were reported.
    pub(super) fn grouped(&mut self, call: &Call, span: Span) -> Option<Value> {
        let mut named = Arguments::new(call);
        let operands: Vec<Option<_>> = call.args.iter().map(|a| self.operand(a)).collect();
        let (counts, groups, runs) = (named.take("counts"), named.take("groups"), named.take("runs"));
        let matrices = match operands.get(1).copied().flatten().and_then(|w| self.known.get(&w)) {
            Some(KnownValue::Type(_, sizes)) => sizes.first().copied(),
            _ => None,
        };
        let listed = [counts, groups].into_iter().flatten().find_map(|n| match &n.value {
            OptionValue::List(list) => Some(list.len() as u64),
            _ => None,
        });
        let many = match (runs, listed) {
            (Some(n), _) => self.cx.count_of(n, &mut self.found),
            (None, Some(n)) => Some(n),
            (None, None) => matrices,
        };
        let many = match many {
            Some(n) if n > MAX_RUNS => {
                let d = Diagnostic::error("E571", format!("a grouped matmul with {n} groups of rows"));
                self.found.push(d.primary(span, format!("the limit is {MAX_RUNS}")));
                None
            }
            other => other,
        };
        if counts.is_none() {
            self.found.push(missing(call, "counts", "grouped_matmul(x, w, counts: [3, 0, 2])"));
        }
        let sound = named.finish(&mut self.found);
        let right = count_args(call, 2, Span::NONE, &mut self.found);
        let operands = operands.into_iter().collect::<Option<Vec<_>>>()?;
        let many = many?;
        let rows = self.of_runs(counts?, many)?;
        let matrices = match groups {
            Some(n) => self.of_runs(n, many)?,
            None => (0..many).collect(),
        };
        let Some(runs) = Runs::new(matrices.into_iter().zip(rows).collect()) else {
            let d = Diagnostic::error("E571", "the counts add up to more than any memory has");
            self.found.push(d.primary(span, "these"));
            return None;
        };
        (sound && right).then(|| self.push(OpKind::Grouped(runs), self.named_after(call), &operands, span))
    }

    /// Returns one number per run. They are listed, or are given by a function of the run and the
    /// number of runs.
    fn of_runs(&mut self, named: &Named, many: u64) -> Option<Vec<u64>> {
        let what = format!("`{}:`", named.name.node);
        let list: Vec<Expr> = match &named.value {
            OptionValue::List(list) if list.len() as u64 == many => list.clone(),
            OptionValue::List(list) => {
                let d = Diagnostic::error(
                    "E571",
                    format!("a list of {} counts for {many} groups of rows", list.len()),
                );
                self.found.push(d.primary(named.span, "write one count per group"));
                return None;
            }
            OptionValue::Expr(Expr { kind: ExprKind::Name(f), span }) => {
                let f = Ident::new(f.clone(), *span);
                if self.cx.library.function(&f).is_none() {
                    let d = self.cx.library.unknown_function(&f, &[]);
                    let note =
                        "a name here must be a function of a group and the number of groups: fn f(i, n) = ..";
                    self.found.push(d.note(note));
                    return None;
                }
                let int = |v: u64| Expr { kind: ExprKind::Int(v as i64), span: f.span };
                let call = |i| ExprKind::Call(f.clone(), vec![int(i), int(many)]);
                (0..many).map(|i| Expr { kind: call(i), span: f.span }).collect()
            }
            _ => {
                self.found.push(cannot(
                    named,
                    "a list, [3, 0, 2], or the name of a function of a group and the number of groups",
                ));
                return None;
            }
        };
        let all: Vec<Option<u64>> = list.iter().map(|e| self.cx.count(e, &what, &mut self.found)).collect();
        all.into_iter().collect()
    }
}

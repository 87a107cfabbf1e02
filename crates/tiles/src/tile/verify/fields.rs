//! Rule T11: numbers of operations fit into the fields of their instructions.
//!
//! A number whose bounds follow from loops, ranks and cores is checked here. A number that depends
//! on the arguments of a launch is checked for each size that a package claims ([`fit`]).

use super::sink::Sink;
use crate::device::{Device, NarrowField};
use crate::range::{known, range};
use crate::tile::path::Path;
use crate::tile::text::print_op;
use crate::tile::{COUNT, Kernel, NRANKS, Op, RANK, Stmt};
use kbc_diag::Diagnostic;
use kbc_ir::expr::{Env, Expr};
use kbc_ir::interval::Interval;
use kbc_ir::name::Name;

/// Checks T11.
pub(super) fn check(sink: &mut Sink<'_>) {
    for found in narrow(sink.kernel, sink.device) {
        // Where it depends on a launch, the claim of a package decides, unless no launch fits.
        if found.range.hi().is_some_and(|v| v <= found.field.most)
            || found.launch.is_some() && found.range.lo().is_none_or(|v| v <= found.field.most)
        {
            continue;
        }
        let NarrowField { what, value, most, source } = found.field;
        let text = format!("the {what} {value} does not fit into its field, which holds up to {most}");
        sink.op(&found.at, found.op, Diagnostic::error("E450", text).note(source));
    }
}

/// Checks that all numbers of a kernel fit into the fields of their instructions in launches on
/// `ranks` ranks with `count` elements.
///
/// # Errors
/// Returns E450 with the first number that does not fit.
pub fn fit(kernel: &Kernel, device: &dyn Device, ranks: u64, count: u64) -> Result<(), Diagnostic> {
    for found in narrow(kernel, device) {
        let NarrowField { what, value, most, source } = found.field;
        let Some(value_of) = found.launch.filter(|_| found.range.hi().is_none_or(|v| v > most)) else {
            continue;
        };
        for rank in 0..ranks {
            let number = value_of.eval(&RankOfLaunch { kernel, ranks, count, rank });
            if number.as_ref().is_ok_and(|v| *v <= most) {
                continue;
            }
            let number = number.map_or_else(|e| e.to_string(), |v| v.to_string());
            let text = format!(
                "on rank {rank} of {ranks} the {what} {value} is {number}, and its field holds up to {most}"
            );
            let note = format!("the operation: `{}`", print_op(kernel, found.op));
            return Err(Diagnostic::error("E450", text).note(note).note(source));
        }
    }
    Ok(())
}

/// A narrow field of an operation, with what is known about its number.
struct NumberInField<'k> {
    at: Path,
    op: &'k Op,
    field: NarrowField<'k>,
    /// Bounds of the number in all launches.
    range: Interval,
    /// The number in terms of the arguments of a launch and the rank, if it depends on nothing
    /// else.
    launch: Option<Expr>,
}

/// A rank of a launch, as the values of names and tables.
struct RankOfLaunch<'k> {
    kernel: &'k Kernel,
    ranks: u64,
    count: u64,
    rank: u64,
}

impl Env for RankOfLaunch<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        let value = match name.as_str() {
            NRANKS => self.ranks,
            COUNT => self.count,
            RANK => self.rank,
            _ => return None,
        };
        i64::try_from(value).ok()
    }

    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let table = self.kernel.tables.iter().find(|t| t.name == *name)?;
        table.values.get(&self.ranks)?.get(usize::try_from(index).ok()?).copied()
    }
}

/// Returns the narrow fields of all operations, in the order of the text.
fn narrow<'k>(kernel: &'k Kernel, device: &dyn Device) -> Vec<NumberInField<'k>> {
    let mut walk = Walk { device, names: vec![], path: vec![], found: vec![] };
    walk.block(&kernel.body, 0);
    walk.found
}

/// A name in scope that every kernel does not have.
struct Local<'k> {
    name: &'k Name,
    range: Interval,
    /// Its value in terms of the arguments of a launch and the rank.
    launch: Option<Expr>,
}

struct Walk<'k, 'd> {
    device: &'d dyn Device,
    names: Vec<Local<'k>>,
    path: Path,
    found: Vec<NumberInField<'k>>,
}

impl<'k> Walk<'k, '_> {
    fn block(&mut self, list: &'k [Stmt], first: usize) {
        let before = self.names.len();
        for (i, s) in list.iter().enumerate() {
            self.path.push((first + i) as u32);
            match s {
                Stmt::Let { name, value } => {
                    let (range, launch) = (self.range(value), self.launch(value));
                    self.names.push(Local { name, range, launch });
                }
                Stmt::For { var, lo, hi, body } => {
                    let range = Interval::counted(self.range(lo), self.range(hi));
                    self.inside([(var, range)], body);
                }
                Stmt::Tiles { pos, len, total, step, rows, body, .. } => {
                    let place = Interval::counted(Interval::of(0, 0), self.range(total));
                    let length = Interval::of(1, i64::from(*step));
                    match rows {
                        None => self.inside([(pos, place), (len, length)], body),
                        Some(r) => {
                            let rows = i64::from(step / r.elements.max(1));
                            let of_rows = [(&r.first, place), (&r.count, Interval::of(1, rows))];
                            self.inside([(pos, place), (len, length), of_rows[0], of_rows[1]], body);
                        }
                    }
                }
                Stmt::If { then, other, .. } => {
                    self.block(then, 0);
                    self.block(other, then.len());
                }
                Stmt::Turn { body, .. } | Stmt::Task { body, .. } => self.block(body, 0),
                Stmt::Op(op) => {
                    for field in self.device.narrow_fields(op) {
                        let (range, launch) = (self.range(field.value), self.launch(field.value));
                        self.found.push(NumberInField { at: self.path.clone(), op, field, range, launch });
                    }
                }
                Stmt::Note { .. } => {}
            }
            self.path.pop();
        }
        self.names.truncate(before);
    }

    /// Walks a block in which names have values that change.
    fn inside<const N: usize>(&mut self, names: [(&'k Name, Interval); N], body: &'k [Stmt]) {
        let before = self.names.len();
        self.names.extend(names.map(|(name, range)| Local { name, range, launch: None }));
        self.block(body, 0);
        self.names.truncate(before);
    }

    fn local(&self, name: &Name) -> Option<&Local<'k>> {
        self.names.iter().rev().find(|l| l.name == name)
    }

    fn range(&self, e: &Expr) -> Interval {
        let limits = self.device.limits();
        range(e, &|n: &Name| self.local(n).map_or_else(|| known(n, limits.ranks, limits.cores), |l| l.range))
    }

    /// Returns an expression in terms of the arguments of a launch and the rank, if it depends on
    /// nothing else.
    fn launch(&self, e: &Expr) -> Option<Expr> {
        let whole = e.subst(&|n| self.local(n).and_then(|l| l.launch.clone()));
        let mut launch = true;
        whole.vars(&mut |n| launch &= self.local(n).is_none() && [NRANKS, COUNT, RANK].contains(&n.as_str()));
        launch.then_some(whole)
    }
}

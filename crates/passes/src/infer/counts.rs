//! Type rule of `all_to_all` with a matrix of counts.
//!
//! Rank s's part of dimension 0 consists of its blocks in the order of destinations, and row s of
//! the matrix states how many rows each block has. The result is cut by the sums of the columns,
//! which is the even cut if the sums are those of the even cut.

use super::Typing;
use super::check;
use super::rules::{Operand, Outcome};
use kbc_diag::Diagnostic;
use kbc_ir::Parts;
use kbc_ir::graph::{Collective, GraphOp};
use kbc_ir::types::{Cut, CutRule};

/// Returns the first elements of a list, and `..` if there are more.
fn listed(all: &[u64]) -> String {
    let some: Vec<String> = all.iter().take(8).map(u64::to_string).collect();
    format!("{}{}", some.join(", "), if all.len() > 8 { ", .." } else { "" })
}

impl Typing<'_> {
    /// Types the collective: the placements before and after.
    pub(super) fn counted(
        &mut self,
        op: &GraphOp,
        c: &Collective,
        counts: &Parts,
        x: &Operand,
    ) -> Option<Outcome> {
        let (axis, ty) = (&c.axis, &x.1);
        let ranks = self.mesh.axis(axis).map_or(1, |a| a.size);
        let value = self.graph.op(x.0).span;
        let wrong = |reason: String, fix: String| {
            Diagnostic::error("E208", format!("all_to_all over `{axis}` of `{ty}` is not possible: {reason}"))
                .primary(op.span, "the counts do not match the operand")
                .secondary(value, format!("this is `{ty}`"))
                .help(fix)
        };
        let example = || {
            let mut one = ty.clone();
            (one.partial, one.only) = (None, None);
            one.dims.iter_mut().for_each(|d| d.cut = d.cut.take().filter(|c| !c.axes.contains(axis)));
            if let Some(first) = one.dims.first_mut() {
                let rule = Parts::row(&counts.totals()).map_or(CutRule::Even, CutRule::Lengths);
                first.size = counts.totals().iter().fold(0, |n: u64, sum| n.saturating_add(*sum));
                first.cut = Some(Cut { axes: vec![axis.clone()], rule });
            }
            check::canonical(self.mesh, &one)
        };
        let columns = match counts.transposed() {
            Some(t) if counts.rows() == ranks && counts.of() == ranks => t.totals(),
            _ => {
                self.found.push(
                    Diagnostic::error(
                        "E217",
                        format!(
                            "the matrix of counts is {} x {}, and `{axis}` has {ranks} ranks",
                            counts.rows(),
                            counts.of()
                        ),
                    )
                    .primary(op.span, "write one row per rank, with one number per rank"),
                );
                return None;
            }
        };
        let fault = match ty.dims.first().and_then(|d| d.cut.as_ref()) {
            _ if ty.only.as_ref().is_some_and(|o| o.1 == *axis) => {
                Some(("one coordinate holds the whole value".to_owned(), "scatter it first".to_owned()))
            }
            Some(cut) if cut.axes.len() > 1 && cut.axes.contains(axis) => Some((
                "dimension 0 is split over several axes".into(),
                format!("gather over the other axes first, so that only `{axis}` splits it"),
            )),
            Some(cut) if cut.axes.contains(axis) => None,
            _ if ty.dims.is_empty() => {
                Some(("a number has no rows".into(), format!("give it an operand such as `{}`", example())))
            }
            _ => Some((
                format!("the counts are of rows, and dimension 0 is not split over `{axis}`"),
                format!("give it an operand such as `{}`", example()),
            )),
        };
        if let Some((reason, fix)) = fault {
            self.found.push(wrong(reason, fix));
            return None;
        }
        let have = ty.lengths_over(self.mesh, 0, axis)?;
        let sums = counts.totals();
        if let Some(s) = (0..have.len()).find(|s| have[*s] != sums[*s]) {
            let reason = format!(
                "rank {s} has {} rows, and its counts {} add up to {}",
                have[s],
                listed(&counts.lengths(s as u64)),
                sums[s]
            );
            let fix = format!(
                "the rows of the matrix add up to {}: give it an operand such as `{}`",
                listed(&sums),
                example()
            );
            self.found.push(wrong(reason, fix));
            return None;
        }
        let mut result = ty.clone();
        result.dims[0].cut =
            Parts::row(&columns).map(|l| Cut { axes: vec![axis.clone()], rule: CutRule::Lengths(l) });
        Some(Outcome { targets: vec![ty.clone()], result: check::canonical(self.mesh, &result) })
    }
}

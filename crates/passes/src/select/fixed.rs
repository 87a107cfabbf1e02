//! Fixed order of additions: keeps the candidates that add every element in one order, whatever its
//! position and whatever the size of the collective.
//!
//! Two algorithms may both have a fixed order, but different ones. If the size decided between
//! them, the bits of a result would depend on the size. So one order is chosen without looking at
//! the size: that of the algorithm that is estimated to be the fastest for 1 MiB. Among the
//! algorithms that have this order, the fastest for the size is taken.

use super::bind::legal;
use super::{Chooser, SelectSite, first, search};
use crate::cost::{self, Job};
use crate::findings::select::{Candidate, Verdict};
use crate::packed::is_packed;
use crate::pass::OrderModel;
use crate::pipeline::Pipeline;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::graph::{Collective, GraphOp, Using};
use kbc_ir::types::{CutRule, TensorType};
use kbc_ir::{Module, Name};

/// Bytes for which the algorithm is the fastest whose order is taken.
const REFERENCE_BYTES: u64 = 1 << 20;

/// Sizes at which orders are compared: the first dimension of the collective, times the first
/// number, plus the second.
const SIZES: [(u64, u64); 5] = [(1, 0), (0, 1), (1, 1), (2, 0), (3, 2)];

impl Chooser<'_> {
    /// Returns whether a collective must have a fixed order. Collectives of the program's own
    /// contracts do not exist at every size; the finished schedule is checked for them.
    pub(super) fn fixes(&self, c: &Collective) -> bool {
        c.kind.reduces() && (c.fixed_order || self.cx.fixed_order)
    }

    /// Returns the model of orders, if the collective must have a fixed one.
    ///
    /// # Errors
    /// Returns E904 if there is no model.
    fn order_model(&self, site: &SelectSite<'_>) -> Result<Option<&dyn OrderModel>, Diagnostic> {
        match self.cx.order {
            _ if !self.fixes(site.coll) => Ok(None),
            Some(model) => Ok(Some(model)),
            None => Err(Diagnostic::error(
                "E904",
                "a fixed order needs a model of orders, which is not available here",
            )
            .primary(site.op.span, "for this collective")),
        }
    }

    /// Checks the algorithm that the program names.
    ///
    /// # Errors
    /// Returns E597 if it has no fixed order, and the error of [`Chooser::order_model`].
    pub(super) fn require_fixed(&self, site: &SelectSite<'_>, using: &Using) -> Result<(), Diagnostic> {
        let Some(model) = self.order_model(site)? else { return Ok(()) };
        let at = if using.span.is_none() { site.op.span } else { using.span };
        // A collective by itself has nothing to overlap with.
        let mut alone = using.clone();
        alone.options.retain(|o| o.0 != *"overlap");
        let modules = self.at_sizes(site, alone).map_err(first)?;
        match model.orders(&[modules]).pop() {
            Some(Err(why)) => Err(Diagnostic::error("E597", "the order of additions is not fixed")
                .primary(at, format!("`{}` has no fixed order", using.alg))
                .note(why)
                .help("leave out the algorithm; kbc then takes one with a fixed order")),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Rejects candidates that have no fixed order, or another one than the algorithm that is the
    /// fastest at [`REFERENCE_BYTES`].
    ///
    /// # Errors
    /// That of [`Chooser::order_model`].
    pub(super) fn keep_fixed(
        &self,
        site: &SelectSite<'_>,
        job: &Job<'_>,
        list: &mut [Candidate],
    ) -> Result<(), Diagnostic> {
        let Some(model) = self.order_model(site)? else { return Ok(()) };
        let reference = Job { elements: REFERENCE_BYTES / job.element_bytes.max(1), ..job.clone() };
        // Candidates that exist at all sizes, with their estimated nanoseconds for the reference.
        let mut sized: Vec<(usize, f64)> = vec![];
        let mut modules = vec![];
        for (i, c) in list.iter_mut().enumerate().filter(|(_, c)| matches!(c.verdict, Verdict::Priced(_))) {
            match self.sized(site, &reference, c) {
                Ok((ns, of)) => {
                    sized.push((i, ns));
                    modules.push(of);
                }
                Err(why) => c.verdict = Verdict::Rejected(why),
            }
        }
        let orders = model.orders(&modules);
        let earlier = |a: &(usize, f64), b: &(usize, f64)| {
            a.1.total_cmp(&b.1).then_with(|| list[a.0].algorithm.cmp(&list[b.0].algorithm))
        };
        let fixed = sized.iter().zip(&orders).filter_map(|(c, order)| Some((*c, *order.as_ref().ok()?)));
        let chosen = fixed.min_by(|a, b| earlier(&a.0, &b.0));
        let name = chosen.map(|((i, _), _)| list[i].algorithm.clone());
        for ((i, _), order) in sized.into_iter().zip(orders) {
            match (order, &name) {
                (Err(why), _) => {
                    list[i].verdict =
                        Verdict::Rejected(format!("its order of additions is not fixed: {why}"));
                }
                (Ok(order), Some(name)) if chosen.is_none_or(|c| c.1 != order) => {
                    list[i].verdict = Verdict::Rejected(format!("it adds in another order than {name}"));
                }
                (Ok(_), _) => {}
            }
        }
        Ok(())
    }

    /// Returns the estimated nanoseconds of a candidate for the reference, and its schedules at
    /// [`SIZES`], or why it does not have them.
    fn sized(
        &self,
        site: &SelectSite<'_>,
        reference: &Job<'_>,
        candidate: &Candidate,
    ) -> Result<(f64, Vec<Module>), String> {
        let library = reference.library;
        let using = candidate.using();
        let alg =
            library.find_algorithm(site.file, site.id, &using.alg, site.op.span).map_err(|d| coded(&d))?;
        if is_packed(library, alg) {
            return Err("its trees depend on the size".into());
        }
        let args = search::values(site.file, &candidate.arguments);
        let call = legal(library, alg, site.axis, site.coll.root, args)?;
        let ns = cost::price(reference, &call)?.ns;
        let modules = self.at_sizes(site, using).map_err(|d| d.list.first().map_or(String::new(), coded))?;
        Ok((ns, modules))
    }

    /// Returns the collective alone with an algorithm, lowered at several sizes.
    fn at_sizes(&self, site: &SelectSite<'_>, using: Using) -> Result<Vec<Module>, Diagnostics> {
        let lower = Pipeline::named("lower")?;
        let mut out = vec![];
        for (times, plus) in SIZES {
            let resized = |ty: &TensorType| resized(ty, times, plus);
            let Some(operand) = resized(&site.operand) else { continue };
            let ty = site.op.ty.as_ref().map(resized);
            if ty == Some(None) {
                continue;
            }
            let op = GraphOp { ty: ty.flatten(), ..site.op.clone() };
            let sized = SelectSite { op: &op, operand, ..*site };
            let mut module = self.module(&sized, using.clone());
            module.name = Name::from("ordered");
            lower.run(&mut module, &self.cx.inner(Some(self.topology)), &mut [])?;
            out.push(module);
        }
        Ok(out)
    }
}

/// Returns the code and the title of a message.
fn coded(d: &Diagnostic) -> String {
    format!("{}: {}", d.code, d.title)
}

/// Returns a type with another size of its first dimension, or `None` if it has none that can have
/// another size.
fn resized(ty: &TensorType, times: u64, plus: u64) -> Option<TensorType> {
    let mut out = ty.clone();
    if (times, plus) == (1, 0) {
        return Some(out);
    }
    let dim = out.dims.first_mut()?;
    if matches!(&dim.cut, Some(cut) if matches!(cut.rule, CutRule::Lengths(_))) {
        return None;
    }
    dim.size = dim.size.checked_mul(times)?.checked_add(plus)?;
    Some(out)
}

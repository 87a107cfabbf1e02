//! Orders of additions for passes: those that the crate `kbc-order` finds by execution.

use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::Module;
use kbc_ir::graph::{Graph, OpKind};
use kbc_ir::local::Local;
use kbc_ir::schedule::Schedule;
use kbc_order::{AdditionOrders, OrderAcrossSizes, OrderOptions, OrderReport, across_sizes, is_fixed};
use kbc_passes::OrderModel;

/// Orders of schedules, executed with trees in place of numbers.
pub struct Ordered;

impl OrderModel for Ordered {
    fn orders(&self, algorithms: &[Vec<Module>]) -> Vec<Result<usize, String>> {
        // The reports of one algorithm for each order.
        let mut orders: Vec<Vec<OrderReport>> = vec![];
        let number = |modules: &Vec<Module>| -> Result<usize, String> {
            let reports: Result<Vec<_>, Diagnostics> =
                modules.iter().filter_map(Module::schedule).map(report).collect();
            let reports = reports.map_err(|found| first_words(&found))?;
            match across_sizes(&reports.iter().collect::<Vec<_>>()) {
                OrderAcrossSizes::Exact | OrderAcrossSizes::Fixed => {}
                OrderAcrossSizes::SameSequence(why) | OrderAcrossSizes::Varies(why) => {
                    let [a, b] = why.texts;
                    return Err(format!("some elements are added as {a}, others as {b}"));
                }
            }
            let same = |other: &Vec<OrderReport>| is_fixed(&other.iter().chain(&reports).collect::<Vec<_>>());
            let known = orders.iter().position(same);
            Ok(known.unwrap_or_else(|| {
                orders.push(reports);
                orders.len() - 1
            }))
        };
        algorithms.iter().map(number).collect()
    }
}

/// Returns the orders of additions of a schedule.
///
/// # Errors
/// Of the execution, and E354 for more trees than the limit.
pub fn report(schedule: &Schedule) -> Result<OrderReport, Diagnostics> {
    AdditionOrders::of(schedule, &OrderOptions::default())?.report()
}

/// Checks whether the program combines, and asks for a fixed order wherever it does.
pub fn all_fixed(graph: &Graph, local: Option<&Local>) -> bool {
    let parts = local.into_iter().flat_map(|l| &l.parts).map(|p| &p.graph);
    let mut combining = std::iter::once(graph).chain(parts).flat_map(|g| {
        g.order().iter().filter_map(|id| match &g.op(*id).kind {
            OpKind::Collective(c) if c.red.is_some() => Some(c.fixed_order),
            _ => None,
        })
    });
    combining.next().is_some_and(|first| first && combining.all(|fixed| fixed))
}

/// Returns the code and the title of the first message.
pub fn first_words(found: &Diagnostics) -> String {
    found.list.first().map_or(String::new(), |d| format!("{}: {}", d.code, d.title))
}

/// Checks that all elements of each value of a finished schedule are added in one order, and
/// returns the orders. Passes after the choice of algorithms may have cut collectives into pieces.
///
/// # Errors
/// E597 if there are two orders; errors of the execution.
pub fn require_fixed(schedule: &Schedule) -> Result<OrderReport, Diagnostics> {
    let found = report(schedule)?;
    match across_sizes(&[&found]) {
        OrderAcrossSizes::Exact | OrderAcrossSizes::Fixed => Ok(found),
        OrderAcrossSizes::SameSequence(why) | OrderAcrossSizes::Varies(why) => {
            Err(Diagnostic::error("E597", "the order of additions is not fixed").note(why.to_string()).into())
        }
    }
}

//! Orders of additions for passes: those that the crate `kbc-order` finds by execution.

use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::Module;
use kbc_ir::schedule::Schedule;
use kbc_order::{AdditionOrders, OrderAcrossSizes, OrderOptions, OrderReport, across_sizes};
use kbc_passes::OrderModel;

/// Orders of schedules, executed with trees in place of numbers.
pub struct Ordered;

impl OrderModel for Ordered {
    fn difference(&self, modules: &[Module]) -> Result<Option<String>, Diagnostics> {
        let schedules = modules.iter().filter_map(Module::schedule);
        let reports = schedules.map(report).collect::<Result<Vec<_>, _>>()?;
        match across_sizes(&reports.iter().collect::<Vec<_>>()) {
            OrderAcrossSizes::Exact | OrderAcrossSizes::Fixed => Ok(None),
            OrderAcrossSizes::SameSequence(why) | OrderAcrossSizes::Varies(why) => {
                let [a, b] = why.texts;
                Ok(Some(format!("some elements are added as {a}, others as {b}")))
            }
        }
    }
}

fn report(schedule: &Schedule) -> Result<OrderReport, Diagnostics> {
    AdditionOrders::of(schedule, &OrderOptions::default())?.report()
}

/// Checks that all elements of each value of a finished schedule are added in one order. Passes
/// after the choice of algorithms may have cut collectives into pieces.
///
/// # Errors
/// E597 if there are two orders; errors of the execution.
pub fn require_fixed(schedule: &Schedule) -> Result<(), Diagnostics> {
    match across_sizes(&[&report(schedule)?]) {
        OrderAcrossSizes::Exact | OrderAcrossSizes::Fixed => Ok(()),
        OrderAcrossSizes::SameSequence(why) | OrderAcrossSizes::Varies(why) => {
            Err(Diagnostic::error("E597", "the order of additions is not fixed").note(why.to_string()).into())
        }
    }
}

//! The part of a report about the order of additions: whether the bits of a result depend on it.

use super::amounts::count;
use crate::explain::order::read_by;
use crate::ordered::{self, first_words};
use kbc_ir::schedule::Schedule;
use kbc_order::{OrderAcrossSizes, OrderReport, across_sizes};
use serde::Serialize;

/// In which order the contributions to the elements of each value are added.
#[derive(Serialize, Clone, Debug)]
pub struct OrderOfAdditions {
    /// `exact`: no order changes a bit; `fixed`: one order for all elements of each value;
    /// `by_position`: the order depends on the position of the element; `unknown`: it was not
    /// found out.
    pub verdict: &'static str,
    /// Why it is not fixed, or why it is unknown.
    pub why: Option<String>,
    /// Whether all ranks that have an element have it with equal bits; absent if unknown.
    pub equal_on_ranks: Option<bool>,
    /// The values that are added.
    pub values: Vec<OrdersOfValue>,
}

/// The orders of one value.
#[derive(Serialize, Clone, Debug)]
pub struct OrdersOfValue {
    /// Its name.
    pub name: String,
    /// What reads it.
    pub read_by: String,
    /// How many different orders its elements have.
    pub orders: usize,
    /// Most additions that a contribution goes through.
    pub additions: u64,
    /// Whether all ranks that have an element have it with equal bits.
    pub equal_on_ranks: bool,
}

impl OrderOfAdditions {
    /// Finds the orders of a schedule by executing it with trees in place of numbers.
    pub fn of(schedule: &Schedule) -> Self {
        match ordered::report(schedule) {
            Ok(found) => OrderOfAdditions::from(&found),
            Err(why) => {
                let why = Some(first_words(&why));
                OrderOfAdditions { verdict: "unknown", why, equal_on_ranks: None, values: vec![] }
            }
        }
    }

    /// Returns the verdict as a sentence without its end.
    pub fn words(&self) -> String {
        let mut out = match (self.verdict, &self.why) {
            ("exact", _) => "it changes no bits".to_owned(),
            ("fixed", _) => "one for all elements of a value".to_owned(),
            ("by_position", Some(why)) => format!("by position of the element; {why}"),
            (verdict, why) => format!("{verdict}; {}", why.as_deref().unwrap_or_default()),
        };
        match self.equal_on_ranks {
            Some(true) => out += "; all ranks have equal bits",
            Some(false) => out += "; ranks may differ in bits",
            None => {}
        }
        for v in &self.values {
            let orders = count(v.orders as u64, "order");
            let deep = count(v.additions, "addition");
            out += &format!("; {} ({}): {orders}, at most {deep} for a contribution", v.name, v.read_by);
        }
        out
    }
}

impl From<&OrderReport> for OrderOfAdditions {
    fn from(found: &OrderReport) -> Self {
        let (verdict, why) = match across_sizes(&[found]) {
            OrderAcrossSizes::Exact => ("exact", None),
            OrderAcrossSizes::Fixed => ("fixed", None),
            OrderAcrossSizes::SameSequence(why) | OrderAcrossSizes::Varies(why) => {
                ("by_position", Some(why.to_string()))
            }
        };
        let values = found.values.iter().filter_map(|value| {
            let added = value.added(found);
            let additions = added.iter().map(|t| found.trees[*t].depth).max()?;
            Some(OrdersOfValue {
                name: value.name.clone(),
                read_by: read_by(value),
                orders: added.len(),
                additions,
                equal_on_ranks: value.unequal.is_none(),
            })
        });
        let equal_on_ranks = Some(found.is_equal_on_ranks());
        OrderOfAdditions { verdict, why, equal_on_ranks, values: values.collect() }
    }
}

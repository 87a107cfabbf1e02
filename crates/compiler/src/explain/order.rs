//! `kbc explain order`: in which order the contributions to every element are added.
//!
//! The trees come from the crate `kbc-order`. This module compares them across sizes and puts them
//! into words.

use crate::build::build;
use crate::failure::Outcome;
use crate::options::Source;
use crate::ordered::report;
use crate::report::amounts::count;
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use kbc_diag::Diagnostic;
use kbc_order::{
    ClassPlace, NotFixed, OrderAcrossSizes, OrderClass, OrderReport, OrderedValue, ValueUse, across_sizes,
};
use serde_json::{Value, json};

/// Orders of additions of a program, at one or more sizes.
pub struct ProgramOrders {
    /// What differs from the program's own parameters at each size, and the orders.
    sizes: Vec<(Vec<String>, OrderReport)>,
}

/// Classes of a value that are listed.
const CLASSES: usize = 8;
/// Places of a class that are listed.
const PLACES: usize = 4;

/// Computes the orders of additions of a program, and of the same program with each of `also` as a
/// further definition (`n=1000`). The choice of algorithms is made anew at every size.
///
/// # Errors
/// Of building; E354 for more trees than the limit.
pub fn orders(workspace: &mut Workspace, source: &Source, also: &[String]) -> Outcome<ProgramOrders> {
    let mut sizes = vec![];
    for more in std::iter::once(None).chain(also.iter().map(Some)) {
        let mut of = source.of.clone();
        of.define.extend(more.cloned());
        let at = Source { of, ..source.clone() };
        let built = build(workspace, &at, "default", &mut Unwatched)?;
        let report = report(built.schedule()?)?;
        sizes.push((more.cloned().into_iter().collect(), report));
    }
    Ok(ProgramOrders { sizes })
}

impl ProgramOrders {
    fn across(&self) -> OrderAcrossSizes {
        across_sizes(&self.sizes.iter().map(|s| &s.1).collect::<Vec<_>>())
    }

    /// Returns the sentence about two elements, with the sizes at which they are.
    fn words(&self, why: &NotFixed) -> String {
        let NotFixed { value, one, other, texts: [a, b] } = why;
        let of = if value.is_empty() { String::new() } else { format!("{value}: ") };
        let at = |size: usize| match &self.sizes[size].0[..] {
            [] => "as the program stands".to_owned(),
            more => format!("with {}", more.join(", ")),
        };
        if one.0 == other.0 {
            return format!("{of}some elements are added as {a}, others as {b}");
        }
        format!("{of}elements are added as {a} {}, and as {b} {}", at(one.0), at(other.0))
    }

    /// Returns an error unless every element has one order of additions at all sizes.
    ///
    /// # Errors
    /// E597 names two elements with different orders.
    pub fn require_fixed(&self) -> Outcome {
        let why = match self.across() {
            OrderAcrossSizes::Exact | OrderAcrossSizes::Fixed => return Ok(()),
            OrderAcrossSizes::SameSequence(why) | OrderAcrossSizes::Varies(why) => self.words(&why),
        };
        Err(Diagnostic::error("E597", "the order of additions is not fixed")
            .note(why)
            .help("name an algorithm with a fixed order, such as `using: recursive_doubling`")
            .into())
    }

    /// Returns the orders in words.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (defines, report) in &self.sizes {
            if !defines.is_empty() {
                out += &format!("with {}\n", defines.join(", "));
            }
            if report.values.is_empty() {
                out += "no value\n";
            }
            report.values.iter().for_each(|v| out += &value_text(report, v));
        }
        out + &format!("{}\n", self.verdict())
    }

    /// Returns what the orders of all sizes have in common.
    fn verdict(&self) -> String {
        let sizes = match self.sizes.len() {
            1 => "at this size".to_owned(),
            n => format!("at all {n} sizes"),
        };
        match self.across() {
            OrderAcrossSizes::Exact => "exact: no order of additions changes the bits of a result".to_owned(),
            OrderAcrossSizes::Fixed => {
                format!("fixed: every element of a value is added in one order, {sizes}")
            }
            OrderAcrossSizes::SameSequence(why) => format!(
                "not fixed: the order depends on the position of the element, in the same way {sizes}; {}",
                self.words(&why)
            ),
            OrderAcrossSizes::Varies(why) => format!("not fixed: {}", self.words(&why)),
        }
    }

    /// Returns the orders as JSON.
    pub fn json(&self) -> Value {
        let (verdict, why) = match self.across() {
            OrderAcrossSizes::Exact => ("exact", None),
            OrderAcrossSizes::Fixed => ("fixed", None),
            OrderAcrossSizes::SameSequence(why) => ("by_position", Some(self.words(&why))),
            OrderAcrossSizes::Varies(why) => ("varies", Some(self.words(&why))),
        };
        let size = |(defines, report): &(Vec<String>, OrderReport)| {
            let values = report.values.iter().map(|v| value_json(report, v));
            json!({
                "with": defines,
                "equal_on_ranks": report.is_equal_on_ranks(),
                "position_independent": report.is_position_independent(),
                "values": values.collect::<Value>(),
            })
        };
        json!({
            "order": verdict,
            "fixed": matches!(verdict, "exact" | "fixed"),
            "why": why,
            "sizes": self.sizes.iter().map(size).collect::<Value>(),
        })
    }
}

/// Returns what reads a value, in words.
pub fn read_by(value: &OrderedValue) -> String {
    match &value.read_by {
        ValueUse::Operand { region } => format!("operand in {region}"),
        ValueUse::HostRead => "read by the host".to_owned(),
        ValueUse::Result(n) => format!("result {n}"),
    }
}

fn place_text(place: &ClassPlace) -> String {
    let ranks: Vec<String> = place
        .ranks
        .iter()
        .map(|&(a, b)| if b == a + 1 { a.to_string() } else { format!("{a}..{b}") })
        .collect();
    format!("elements {}..{} on ranks {}", place.start, place.end, ranks.join(", "))
}

fn class_text(report: &OrderReport, class: &OrderClass) -> String {
    let places: Vec<String> = class.places.iter().take(PLACES).map(place_text).collect();
    let more = match class.places.len().saturating_sub(PLACES) {
        0 => String::new(),
        n => format!("; and {}", count(n as u64, "place")),
    };
    format!("    {}: {}{more}\n", report.trees[class.tree], places.join("; "))
}

fn value_text(report: &OrderReport, value: &OrderedValue) -> String {
    let added = value.added(report);
    let mut out = format!("{} ({}): ", value.name, read_by(value));
    out += &match added.len() {
        0 => "nothing is added\n".to_owned(),
        1 => "one order\n".to_owned(),
        n => format!("{n} orders, by position\n"),
    };
    let classes = || value.classes.iter().filter(|c| added.contains(&c.tree));
    classes().take(CLASSES).for_each(|c| out += &class_text(report, c));
    if let Some(n) = classes().count().checked_sub(CLASSES).filter(|n| *n > 0) {
        out += &format!("    .. and {}\n", count(n as u64, "more order"));
    }
    if let Some(most) = added.iter().map(|t| report.trees[*t].depth).max() {
        out += &format!("  at most {} for a contribution\n", count(most, "addition"));
    }
    if let Some(unequal) = &value.unequal {
        out += &format!(
            "  ranks may differ in bits: element {} on rank {} is {}, and element {} on rank {} is {}\n",
            unequal.one.element,
            unequal.one.rank,
            report.trees[unequal.one.tree],
            unequal.other.element,
            unequal.other.rank,
            report.trees[unequal.other.tree]
        );
    } else if !added.is_empty() {
        out += "  all ranks have equal bits\n";
    }
    out
}

fn value_json(report: &OrderReport, value: &OrderedValue) -> Value {
    let place = |p: &ClassPlace| json!({ "start": p.start, "end": p.end, "ranks": p.ranks });
    let class = |c: &OrderClass| {
        let tree = &report.trees[c.tree];
        json!({
            "order": tree.to_string(),
            "depth": tree.depth,
            "contributions": tree.contributions,
            "elements": c.elements,
            "places": c.places.iter().map(place).collect::<Value>(),
        })
    };
    json!({
        "name": value.name,
        "read_by": read_by(value),
        "equal_on_ranks": value.unequal.is_none(),
        "position_independent": value.is_position_independent(report),
        "orders": value.classes.iter().map(class).collect::<Value>(),
    })
}

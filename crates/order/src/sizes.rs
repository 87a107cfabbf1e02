//! Comparison of orders across sizes: element counts, batches, numbers of pieces.
//!
//! A serving system needs results that do not change with the other requests of a batch, so an
//! element must be added in one order whatever the count and its position. Values of two reports
//! belong together if they have one name and one reader. A report may have values that another one
//! lacks, because a pass cuts a value into pieces; then the trees of both must be the same set.

use crate::report::{OrderReport, OrderedValue, ValueUse};
use crate::shape::TreeNumbers;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How the order of additions depends on the size of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderAcrossSizes {
    /// No other order would give other bits: nothing is added, or at most two values at a time, or
    /// integers, minima or maxima.
    Exact,
    /// Each value has one order, for all positions and at all sizes.
    Fixed,
    /// The order depends on the position, but at all sizes each rank has the same orders in the
    /// same sequence along its elements. The element at a given position may have another order at
    /// another size.
    SameSequence(NotFixed),
    /// The order depends on the size.
    Varies(NotFixed),
}

/// Two orders of additions that one value has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFixed {
    /// Name of the value, or nothing if the two orders are those of values with different names.
    pub value: String,
    /// Number of the report and number of the tree in it.
    pub one: (usize, usize),
    /// The same of the other order.
    pub other: (usize, usize),
    /// Text of both trees.
    pub texts: [String; 2],
}

impl fmt::Display for NotFixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotFixed { value, one, other, texts: [a, b] } = self;
        if !value.is_empty() {
            write!(f, "{value}: ")?;
        }
        if one.0 == other.0 {
            write!(f, "some elements are added as {a}, others as {b}")
        } else {
            write!(f, "elements are added as {a} in report {}, and as {b} in report {}", one.0, other.0)
        }
    }
}

/// Name and reader of a value.
type ValueName<'r> = (&'r str, &'r ValueUse);

/// The trees of the reports, with numbers that hold for all of them.
struct Compared<'r> {
    reports: &'r [&'r OrderReport],
    /// Number of each tree of each report.
    numbers: Vec<Vec<usize>>,
}

impl<'r> Compared<'r> {
    fn new(reports: &'r [&'r OrderReport]) -> Self {
        let mut all = TreeNumbers::default();
        let numbers = reports.iter().map(|r| r.trees.iter().map(|t| all.number(t)).collect()).collect();
        Compared { reports, numbers }
    }

    fn not_fixed(&self, value: &str, one: (usize, usize), other: (usize, usize)) -> NotFixed {
        let text = |(r, t): (usize, usize)| self.reports[r].trees[t].to_string();
        NotFixed { value: value.into(), one, other, texts: [text(one), text(other)] }
    }

    /// Returns two orders of one value, or of the values of two reports, if there are such.
    fn two_orders(&self) -> Option<NotFixed> {
        let mut known: BTreeMap<ValueName<'r>, (usize, usize)> = BTreeMap::new();
        let mut sets: Vec<BTreeMap<usize, usize>> = vec![];
        for (i, report) in self.reports.iter().enumerate() {
            let mut set = BTreeMap::new();
            for value in &report.values {
                // Other orders of the rest give the same bits.
                let matters = |tree: &usize| report.trees[*tree].order_matters;
                for tree in value.added(report).into_iter().filter(matters) {
                    let first = *known.entry((&value.name, &value.read_by)).or_insert((i, tree));
                    if self.numbers[first.0][first.1] != self.numbers[i][tree] {
                        return Some(self.not_fixed(&value.name, first, (i, tree)));
                    }
                    set.insert(self.numbers[i][tree], tree);
                }
            }
            sets.push(set);
        }
        // A size at which nothing is added does not contradict the others.
        let mut sized = sets.iter().enumerate().filter(|(_, s)| !s.is_empty());
        let (first, of_first) = sized.next()?;
        for (i, set) in sized {
            let other = |a: &BTreeMap<usize, usize>, b: &BTreeMap<usize, usize>| {
                a.iter().find(|(n, _)| !b.contains_key(n)).map(|(_, t)| *t)
            };
            let any = |s: &BTreeMap<usize, usize>| s.values().next().copied();
            let pair = match (other(of_first, set), other(set, of_first)) {
                (None, None) => continue,
                (a, b) => (a.or_else(|| any(of_first))?, b.or_else(|| any(set))?),
            };
            return Some(self.not_fixed("", (first, pair.0), (i, pair.1)));
        }
        None
    }

    /// Returns the trees of a value along the elements of each rank.
    fn sequence(&self, report: usize, value: &OrderedValue) -> Vec<Vec<usize>> {
        let ranks = self.reports[report].ranks as usize;
        let mut runs: Vec<Vec<(u64, usize)>> = vec![vec![]; ranks];
        for class in &value.classes {
            for place in &class.places {
                for rank in place.ranks.iter().flat_map(|r| r.0..r.1) {
                    if let Some(of) = runs.get_mut(rank as usize) {
                        of.push((place.start, self.numbers[report][class.tree]));
                    }
                }
            }
        }
        let along = |mut of: Vec<(u64, usize)>| {
            of.sort_unstable();
            let mut trees: Vec<usize> = of.into_iter().map(|r| r.1).collect();
            trees.dedup();
            trees
        };
        runs.into_iter().map(along).collect()
    }

    /// Checks whether all reports have the same values, with the same trees in the same sequence.
    fn same_sequence(&self) -> bool {
        let Some(first) = self.reports.first() else { return true };
        let named = |r: &'r OrderReport| -> BTreeSet<ValueName<'r>> {
            r.values.iter().map(|v| (&*v.name, &v.read_by)).collect()
        };
        self.reports.iter().enumerate().all(|(i, r)| {
            named(r) == named(first)
                && r.ranks == first.ranks
                && first.values.iter().zip(&r.values).all(|(a, b)| self.sequence(0, a) == self.sequence(i, b))
        })
    }
}

/// Compares the orders of one program or collective at several sizes: counts, batches, numbers of
/// pieces. The number of ranks is the same in all reports.
pub fn across_sizes(reports: &[&OrderReport]) -> OrderAcrossSizes {
    if !reports.iter().any(|r| r.order_matters()) {
        return OrderAcrossSizes::Exact;
    }
    let compared = Compared::new(reports);
    match compared.two_orders() {
        None => OrderAcrossSizes::Fixed,
        Some(why) if compared.same_sequence() => OrderAcrossSizes::SameSequence(why),
        Some(why) => OrderAcrossSizes::Varies(why),
    }
}

/// Checks whether each element has one order of additions, whatever its position and whatever the
/// size, or an order that cannot change its bits. One report answers for its size alone.
pub fn is_fixed(reports: &[&OrderReport]) -> bool {
    match across_sizes(reports) {
        OrderAcrossSizes::Exact | OrderAcrossSizes::Fixed => true,
        OrderAcrossSizes::SameSequence(_) | OrderAcrossSizes::Varies(_) => false,
    }
}

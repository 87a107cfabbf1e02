//! Report: in which order the elements of every value are added, as plain data.

use crate::run::{Outcome, ReadOfRank, ValueKey};
use crate::shape::{AdditionTree, TreeNumbers};
use crate::trees::{BitsId, Forest, TreeId};
use crate::{MAX_CONTRIBUTIONS, MAX_REPORT_NODES};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::{BufferId, Schedule};
use std::collections::{BTreeMap, HashMap};

/// What reads a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ValueUse {
    /// Computations of a region (a matmul, an elementwise function, a change of layout), which make
    /// new elements of it.
    Operand {
        /// Name of the region.
        region: String,
    },
    /// A `host.read`.
    HostRead,
    /// It is the result of the program with this number.
    Result(u32),
}

/// Elements with one order of additions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassPlace {
    /// First element, in the rank's own numbering of the value.
    pub start: u64,
    /// One past the last element.
    pub end: u64,
    /// Ranks, as half-open ranges in ascending order.
    pub ranks: Vec<(u64, u64)>,
}

/// All elements of a value that have one order of additions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderClass {
    /// Number of the tree in [`OrderReport::trees`].
    pub tree: usize,
    /// Number of elements, over all ranks.
    pub elements: u64,
    /// Where they are: sorted by first element, then by last.
    pub places: Vec<ClassPlace>,
}

/// An element with its order of additions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElementOrder {
    /// The rank that has it.
    pub rank: u64,
    /// Its number on the rank.
    pub element: u64,
    /// Number of the tree in [`OrderReport::trees`].
    pub tree: usize,
}

/// Elements that add the same contributions, but in different orders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnequalElements {
    /// Number of such elements, each counted once for all ranks that have it.
    pub elements: u64,
    /// An example.
    pub one: ElementOrder,
    /// The same contributions on another rank or at another place.
    pub other: ElementOrder,
}

/// A value, with the orders in which its elements are added. Elements that are numbers, such as the
/// zeros of a result that a rank does not have, are in no class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderedValue {
    /// Name of the buffer.
    pub name: String,
    /// What reads the value.
    pub read_by: ValueUse,
    /// Classes, in the order in which they are met by rank and element.
    pub classes: Vec<OrderClass>,
    /// Elements that differ between ranks, if there are some. Such ranks may have results with
    /// different bits.
    pub unequal: Option<UnequalElements>,
}

/// Orders of additions of a schedule, for one call.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderReport {
    /// Number of ranks.
    pub ranks: u64,
    /// All results, everything that a host reads, and the operands of computations that contain
    /// additions; operands in the order of regions, then what hosts read, then results.
    pub values: Vec<OrderedValue>,
    /// The different trees, in order of first use.
    pub trees: Vec<AdditionTree>,
}

impl OrderedValue {
    /// Returns the classes whose elements are added.
    pub fn added(&self, report: &OrderReport) -> Vec<usize> {
        self.classes.iter().map(|c| c.tree).filter(|t| !report.trees[*t].is_plain()).collect()
    }

    /// Checks whether all elements that are added are added in one order, whatever their position
    /// and rank. Elements without an addition have no order.
    pub fn is_position_independent(&self, report: &OrderReport) -> bool {
        self.added(report).len() <= 1
    }
}

impl OrderReport {
    /// Checks whether all ranks that have an element have it with the same bits, in every value.
    pub fn is_equal_on_ranks(&self) -> bool {
        self.values.iter().all(|v| v.unequal.is_none())
    }

    /// Checks whether the order of no value depends on the position of the element.
    pub fn is_position_independent(&self) -> bool {
        self.values.iter().all(|v| v.is_position_independent(self))
    }

    /// Checks whether another order of additions could change bits of some value.
    pub fn order_matters(&self) -> bool {
        self.trees.iter().any(|t| t.order_matters)
    }

    /// Returns the number of different trees with additions.
    pub fn distinct_trees(&self) -> usize {
        self.trees.iter().filter(|t| !t.is_plain()).count()
    }

    /// Returns the largest number of additions that a contribution goes through.
    pub fn depth(&self) -> u64 {
        self.trees.iter().map(|t| t.depth).max().unwrap_or(0)
    }
}

/// Adds a rank to ascending ranges of ranks.
fn add_rank(ranks: &mut Vec<(u64, u64)>, rank: u64) {
    match ranks.last_mut() {
        Some((_, end)) if *end == rank => *end += 1,
        Some((start, end)) if (*start..*end).contains(&rank) => {}
        _ => ranks.push((rank, rank + 1)),
    }
}

/// Trees of a schedule that are in its report, with the number of each tree of the run.
#[derive(Default)]
struct Trees {
    trees: Vec<AdditionTree>,
    numbers: TreeNumbers,
    known: HashMap<TreeId, usize>,
    nodes: usize,
}

impl Trees {
    fn number(&mut self, forest: &Forest, id: TreeId, s: &Schedule) -> usize {
        if let Some(n) = self.known.get(&id) {
            return *n;
        }
        let tree = AdditionTree::of(forest, id, &s.mesh);
        let n = self.numbers.number(&tree);
        if n == self.trees.len() {
            self.nodes += tree.nodes.len();
            self.trees.push(tree);
        }
        self.known.insert(id, n);
        n
    }
}

/// Returns the report of a run.
///
/// # Errors
/// Returns E354 if the trees have too many nodes, or if an element has too many contributions.
pub(crate) fn report(s: &Schedule, run: &Outcome) -> Result<OrderReport, Diagnostics> {
    let mut trees = Trees::default();
    let mut values = vec![];
    for (key, reads) in &run.values {
        let (name, read_by) = describe(s, key);
        let classes = classes(s, &run.forest, reads, &mut trees)?;
        let unequal = unequal(&run.forest, reads, &trees)?;
        values.push(OrderedValue { name, read_by, classes, unequal });
    }
    Ok(OrderReport { ranks: s.mesh.ranks(), values, trees: trees.trees })
}

/// Returns the name of a value and what reads it.
fn describe(s: &Schedule, key: &ValueKey) -> (String, ValueUse) {
    let name = |b: &u32| s.buffer(BufferId(*b)).name.to_string();
    match key {
        ValueKey::Operand(region, name) => {
            let region = s.regions.get(*region as usize).map(|r| r.name.to_string()).unwrap_or_default();
            (name.clone(), ValueUse::Operand { region })
        }
        ValueKey::HostRead(b) => (name(b), ValueUse::HostRead),
        ValueKey::Result(n, b) => (name(b), ValueUse::Result(*n)),
    }
}

/// A class, with the ranks of each run of elements.
#[derive(Default)]
struct FoundClass {
    tree: usize,
    elements: u64,
    places: BTreeMap<(u64, u64), Vec<(u64, u64)>>,
}

fn classes(
    s: &Schedule,
    forest: &Forest,
    reads: &[ReadOfRank],
    trees: &mut Trees,
) -> Result<Vec<OrderClass>, Diagnostics> {
    let mut found: Vec<FoundClass> = vec![];
    let mut places: HashMap<usize, usize> = HashMap::new();
    for ReadOfRank { rank, pieces } in reads {
        let mut runs: Vec<(u64, u64, usize)> = vec![];
        for p in pieces.iter().filter(|p| p.placed) {
            let tree = trees.number(forest, p.tree, s);
            if trees.nodes > MAX_REPORT_NODES {
                let text = format!("the orders of additions have more than {MAX_REPORT_NODES} parts");
                return Err(Diagnostic::error("E354", text).help("ask about fewer ranks").into());
            }
            match runs.last_mut() {
                Some((_, end, t)) if *t == tree && *end == p.start => *end += p.len,
                _ => runs.push((p.start, p.start + p.len, tree)),
            }
        }
        for (start, end, tree) in runs {
            let at = *places.entry(tree).or_insert(found.len());
            if at == found.len() {
                found.push(FoundClass { tree, ..FoundClass::default() });
            }
            found[at].elements += end - start;
            add_rank(found[at].places.entry((start, end)).or_default(), *rank);
        }
    }
    let class = |FoundClass { tree, elements, places }| {
        let places = places.into_iter().map(|((start, end), ranks)| ClassPlace { start, end, ranks });
        OrderClass { tree, elements, places: places.collect() }
    };
    Ok(found.into_iter().map(class).collect())
}

/// A run of elements that add the same contributions as others.
struct AlikeRun {
    /// Position of the first contribution.
    at: i64,
    end: i64,
    bits: BitsId,
    rank: u64,
    /// The element that is at `at`.
    element: u64,
    tree: TreeId,
}

/// Finds elements that add the same contributions in different orders. Elements whose order cannot
/// change bits are left out.
fn unequal(
    forest: &Forest,
    reads: &[ReadOfRank],
    trees: &Trees,
) -> Result<Option<UnequalElements>, Diagnostics> {
    let mut sets: HashMap<BitsId, (usize, i64)> = HashMap::new();
    let mut numbers = HashMap::new();
    let mut alike: Vec<Vec<AlikeRun>> = vec![];
    for ReadOfRank { rank, pieces } in reads {
        for p in pieces.iter().filter(|p| p.placed && forest.matters(p.tree)) {
            let (bits, base) = forest.bits(p.tree, p.base);
            let (set, first) = match sets.get(&bits) {
                Some(known) => *known,
                None => {
                    let Some((set, first)) = forest.contributions(bits, MAX_CONTRIBUTIONS) else {
                        let text = "an element has too many contributions to compare them";
                        return Err(Diagnostic::error("E354", text).into());
                    };
                    let next = numbers.len();
                    let number = *numbers.entry(set).or_insert(next);
                    sets.insert(bits, (number, first));
                    (number, first)
                }
            };
            if set == alike.len() {
                alike.push(vec![]);
            }
            let at = base + first;
            let run =
                AlikeRun { at, end: at + p.len as i64, bits, rank: *rank, element: p.start, tree: p.tree };
            alike[set].push(run);
        }
    }
    let number = |r: &AlikeRun, at: i64| ElementOrder {
        rank: r.rank,
        element: r.element + (at - r.at) as u64,
        tree: trees.known.get(&r.tree).copied().unwrap_or(0),
    };
    let mut out: Option<UnequalElements> = None;
    for runs in &mut alike {
        if runs.iter().all(|r| r.bits == runs[0].bits) {
            continue;
        }
        runs.sort_by_key(|r| (r.at, r.rank, r.element));
        let mut cuts: Vec<i64> = runs.iter().flat_map(|r| [r.at, r.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        // Runs that cover the current stretch, in the order of `runs`.
        let (mut next, mut open): (usize, Vec<usize>) = (0, vec![]);
        for stretch in cuts.windows(2) {
            open.retain(|i| runs[*i].end > stretch[0]);
            while next < runs.len() && runs[next].at == stretch[0] {
                open.push(next);
                next += 1;
            }
            let Some((first, rest)) = open.split_first() else { continue };
            let Some(other) = rest.iter().find(|i| runs[**i].bits != runs[*first].bits) else { continue };
            let example = UnequalElements {
                elements: 0,
                one: number(&runs[*first], stretch[0]),
                other: number(&runs[*other], stretch[0]),
            };
            out.get_or_insert(example).elements += (stretch[1] - stretch[0]) as u64;
        }
    }
    Ok(out)
}

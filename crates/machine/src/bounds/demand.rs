//! Demand of a collective: the bytes that have to leave a set of ranks.
//!
//! This module owns the problem (kind, bytes, group, root, sizes), its validity, and the bytes that
//! any algorithm must send over a cut. Of the machine it uses only the number and names of devices.

use kbc_diag::Diagnostic;
use kbc_ir::collective::Holding::{self, Partial, Root, Split, SplitFrom, Whole};
use kbc_ir::collective::{CollKind, Movement};
use kbc_ir::types::CutRule;

use crate::topology::{DeviceId, Topology};

/// Returns the kinds of collectives that bounds cover: those that move data, with a contract of
/// their own.
pub fn bounded() -> impl Iterator<Item = CollKind> {
    CollKind::ALL.into_iter().filter(|k| k.movement().is_some())
}

/// Returns what the ranks hold before and after a collective. A collective that bounds do not cover
/// moves nothing.
fn holdings(kind: CollKind) -> (Holding, Holding) {
    kind.movement().map_or((Whole, Whole), Movement::holdings)
}

/// Returns busbw / algbw of a collective on p ranks, as nccl-tests defines it.
pub fn bus_factor(kind: CollKind, p: usize) -> f64 {
    let share = if p == 0 { 0.0 } else { (p - 1) as f64 / p as f64 };
    match kind.movement() {
        Some(Movement::PartialToWhole) => 2.0 * share,
        Some(Movement::PartialToRoot | Movement::RootToWhole) => 1.0,
        Some(
            Movement::PartialToSplit
            | Movement::SplitToWhole
            | Movement::SplitToRoot
            | Movement::SplitFromToSplit
            | Movement::RootToSplit,
        )
        | None => share,
    }
}

/// The division of the bytes into blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Sizes {
    /// p equal blocks. If the blocks actually differ by an element, this may count more bytes than
    /// some cut must carry: use [`Sizes::cut`] for such blocks.
    #[default]
    Even,
    /// Bytes of each rank's block. For an all-to-all: bytes of the block *for* each rank, the same
    /// on all senders.
    Blocks(Vec<u64>),
    /// Bytes from each rank to each rank, row-major by sender. Only for all-to-all, which also
    /// stands for shift, permute and send/recv.
    Pairs(Vec<u64>),
}

impl Sizes {
    /// Returns the blocks of `elements` elements of `element` bytes over p ranks, cut at
    /// `ceil(elements * i / p)`.
    pub fn cut(elements: u64, element: u64, p: usize) -> Sizes {
        let parts = (0..p as u64).map(|i| CutRule::Even.part(elements, i, p as u64));
        Sizes::Blocks(parts.map(|part| (part.end - part.start).saturating_mul(element)).collect())
    }
}

/// A collective on a group of devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The kind of the collective.
    pub kind: CollKind,
    /// Bytes of the full vector: of one rank's vector for all_reduce, reduce_scatter, reduce and
    /// all_to_all; of the output for all_gather and gather; of the root's vector for broadcast and
    /// scatter.
    pub bytes: u64,
    /// The devices of the ranks, in group order. Other devices only forward messages.
    pub group: Vec<DeviceId>,
    /// Position of the root in the group.
    pub root: Option<usize>,
    /// Division into blocks.
    pub sizes: Sizes,
    /// Bytes of an element, the shortest possible message. It matters on machines that round times
    /// of links down (`round`).
    pub element: u64,
}

impl Problem {
    /// Returns a problem without root and with equal blocks.
    pub fn new(kind: CollKind, bytes: u64, group: impl IntoIterator<Item = DeviceId>) -> Problem {
        Problem {
            kind,
            bytes,
            group: group.into_iter().collect(),
            root: None,
            sizes: Sizes::Even,
            element: 1,
        }
    }

    /// Sets the root, by position in the group.
    pub fn root(mut self, root: usize) -> Problem {
        self.root = Some(root);
        self
    }

    /// Sets the division into blocks.
    pub fn sizes(mut self, sizes: Sizes) -> Problem {
        self.sizes = sizes;
        self
    }

    /// Sets the bytes of an element.
    pub fn element(mut self, bytes: u64) -> Problem {
        self.element = bytes;
        self
    }

    /// Checks the problem against a machine. Returns E448 if it is not valid there.
    pub(super) fn check(&self, topo: &Topology) -> Result<(), Diagnostic> {
        let p = self.group.len();
        let fault = |title: String| {
            Err(Diagnostic::error("E448", format!("this lower bound is not defined: {title}")))
        };
        let mut sorted = self.group.clone();
        sorted.sort_unstable();
        if let Some(d) = sorted.iter().find(|d| d.0 as usize >= topo.device_count()) {
            return fault(format!("{} has no device {}", topo.shape(), d.0));
        }
        if let Some(w) = sorted.windows(2).find(|w| w[0] == w[1]) {
            return fault(format!("device {} occurs twice in the group", topo.name(w[0])));
        }
        if self.kind.movement().is_none() {
            return fault(format!("{} moves no data by itself", self.kind.name()));
        }
        match (self.kind.rooted(), self.root) {
            (true, Some(r)) if r < p => {}
            (false, None) => {}
            (true, None) => return fault(format!("{} needs a root", self.kind.name())),
            (true, Some(r)) => return fault(format!("the root {r} is outside a group of {p} ranks")),
            (false, Some(_)) => return fault(format!("{} takes no root", self.kind.name())),
        }
        match &self.sizes {
            Sizes::Even => Ok(()),
            Sizes::Blocks(_) if !self.kind.blocked() => {
                fault(format!("{} works on one vector, not on blocks", self.kind.name()))
            }
            Sizes::Blocks(b) if b.len() != p => fault(format!("{} blocks are given for {p} ranks", b.len())),
            Sizes::Blocks(b) => {
                let sum = b.iter().map(|&x| u128::from(x)).sum::<u128>();
                if sum == u128::from(self.bytes) {
                    return Ok(());
                }
                fault(format!("the blocks add up to {sum} bytes, and the vector has {}", self.bytes))
            }
            Sizes::Pairs(_) if !self.kind.takes(SplitFrom) => {
                fault(format!("{} takes no byte counts for pairs of ranks", self.kind.name()))
            }
            Sizes::Pairs(m) if m.len() != p * p => {
                fault(format!("{} counts are given for {p} ranks", m.len()))
            }
            Sizes::Pairs(_) => Ok(()),
        }
    }

    /// Checks whether nothing has to move.
    pub(super) fn is_nothing(&self) -> bool {
        let p = self.group.len();
        p <= 1
            || match &self.sizes {
                Sizes::Pairs(m) => m.iter().enumerate().all(|(i, &b)| b == 0 || i / p == i % p),
                _ => self.bytes == 0,
            }
    }
}

/// Totals of the ranks on one side of a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SideTotals {
    /// Number of ranks.
    pub ranks: usize,
    /// Weight of their blocks.
    pub weight: u64,
    /// Whether the root is among them.
    pub root: bool,
}

/// A checked problem, with blocks as integer weights.
pub(super) struct Demand<'p> {
    pub problem: &'p Problem,
    /// Weight of each rank's block.
    weights: Vec<u64>,
    /// Sum of the weights.
    pub total: u64,
    /// Bytes of one unit of weight.
    pub unit: f64,
}

impl<'p> Demand<'p> {
    pub fn new(problem: &'p Problem) -> Demand<'p> {
        let p = problem.group.len();
        match &problem.sizes {
            Sizes::Blocks(b) => Demand { problem, weights: b.clone(), total: problem.bytes, unit: 1.0 },
            _ => {
                let unit = problem.bytes as f64 / p as f64;
                Demand { problem, weights: vec![1; p], total: p as u64, unit }
            }
        }
    }

    pub fn ranks(&self) -> usize {
        self.problem.group.len()
    }

    pub fn weight(&self, rank: usize) -> u64 {
        self.weights[rank]
    }

    /// Returns the bytes per pair of ranks, if the sizes are given that way.
    pub fn pairs(&self) -> Option<&'p [u64]> {
        match &self.problem.sizes {
            Sizes::Pairs(m) => Some(m),
            _ => None,
        }
    }

    /// Returns the side that consists of one rank.
    pub fn one(&self, rank: usize) -> SideTotals {
        SideTotals { ranks: 1, weight: self.weights[rank], root: self.problem.root == Some(rank) }
    }

    /// Returns the opposite side.
    pub fn rest(&self, side: SideTotals) -> SideTotals {
        let root = self.problem.root.is_some() && !side.root;
        SideTotals { ranks: self.ranks() - side.ranks, weight: self.total - side.weight, root }
    }

    /// Returns the bytes that must leave a side; not for [`Sizes::Pairs`]. 0 if the side is empty
    /// or has all ranks.
    pub fn out(&self, side: SideTotals) -> f64 {
        let rest = self.rest(side);
        if side.ranks == 0 || rest.ranks == 0 {
            return 0.0;
        }
        let n = self.problem.bytes as f64;
        let (before, after) = holdings(self.problem.kind);
        // How many ranks of the side have what the rest lacks, of each element that it wants.
        let copies = match before {
            Whole => 0,
            Partial | Split => 1,
            SplitFrom => side.ranks,
            Root => usize::from(side.root),
        };
        let wanted = match after {
            Root => usize::from(rest.root),
            Whole | Split | SplitFrom | Partial => 1,
        };
        let times = (copies * wanted) as f64;
        match before {
            Split => times * side.weight as f64 * self.unit,
            Whole | Partial | SplitFrom | Root => match after {
                Split => times * rest.weight as f64 * self.unit,
                Whole | Partial | SplitFrom | Root => times * n,
            },
        }
    }

    /// Returns the ranks that data must come from and the ranks that it must go to. Data must
    /// travel between every such pair, except with [`Sizes::Pairs`].
    pub fn ends(&self) -> (Vec<usize>, Vec<usize>) {
        let all = || (0..self.ranks()).collect::<Vec<_>>();
        let filled = || all().into_iter().filter(|&r| self.weights[r] > 0).collect::<Vec<_>>();
        let root = || self.problem.root.into_iter().collect::<Vec<_>>();
        let (before, after) = holdings(self.problem.kind);
        let from = match before {
            Whole => vec![],
            Partial | SplitFrom => all(),
            Split => filled(),
            Root => root(),
        };
        let to = match after {
            Whole | Partial | SplitFrom => all(),
            Split => filled(),
            Root => root(),
        };
        (from, to)
    }
}

//! Rounds: the result of expanding an algorithm on concrete ranks.
//!
//! This module owns the data: rounds of transfers, buffers, uses of algorithms, and the names
//! of ranks and places in messages. `expand` builds rounds, `meaning` executes them, and
//! `cost` counts them.

use std::sync::Arc;

use kbc_diag::{Diagnostic, Span};

use crate::eval::{Fault, Value};
use crate::library::{AlgId, CollId};
use crate::options::OptionValue;
use crate::region::{Region, describe};

/// The input of an expansion: an algorithm with its parameters on a shape.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Call {
    /// The algorithm, which determines the collective.
    pub alg: AlgId,
    /// Sizes of the axes, one per axis of the algorithm. An algorithm with one axis accepts several
    /// sizes and sees their linear order.
    pub sizes: Vec<i64>,
    /// Coordinates of the root, one per size.
    pub root: Option<Vec<i64>>,
    /// Parameters that differ from their default, by name.
    pub args: Vec<(String, Value)>,
}

/// Limits of an expansion. Exceeding one of them is E040.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Number of transfers in all rounds together.
    pub transfers: usize,
    /// Number of atoms of the largest buffer.
    pub atoms: u64,
    /// Number of executed statements, counted once per rank.
    pub steps: u64,
    /// Nesting of uses of algorithms.
    pub depth: u32,
}

impl Default for Limits {
    /// Four million transfers, 2^20 atoms, 50 million steps, a nesting of 64.
    fn default() -> Self {
        Limits { transfers: 4_000_000, atoms: 1 << 20, steps: 50_000_000, depth: 64 }
    }
}

/// A transfer: places of one rank are copied or added to those of another rank or of the same one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Sending rank, by linear number in the call.
    pub src: u32,
    /// Receiving rank.
    pub dst: u32,
    /// Places at `src`.
    pub from: Region,
    /// Places at `dst`, equally many.
    pub to: Region,
    /// Whether the data is added to the previous contents instead of replacing them.
    pub reduce: bool,
    /// Whether the receiver performs the transfer, as a `get`.
    pub get: bool,
    /// Sign of the step to the peer as written (1 for `r + 1`), or 0 if it is not a step; selects
    /// one of two links.
    pub direction: i8,
    /// Numbers of the relays that the message passes, in the order in which its data passes them.
    /// None for the route of the machine.
    pub via: Option<Arc<[u32]>>,
    /// (source - receiver) mod p, in the order of the innermost group; determines the
    /// order of additions.
    pub distance: u32,
    /// Location of the statement.
    pub span: Span,
    /// Use of an algorithm to which the transfer belongs: an index into [`Rounds::uses`].
    pub site: u32,
    /// Branch of `together` or `each` to which the transfer belongs: an index into
    /// [`Rounds::lanes`].
    pub lane: u32,
}

impl Transfer {
    /// Checks whether the transfer goes from one rank to another.
    pub fn is_remote(&self) -> bool {
        self.src != self.dst
    }
}

/// A buffer of the call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Name in the text, of the collective's buffer or of the `scratch`.
    pub name: String,
    /// Length in atoms.
    pub atoms: u32,
    /// Location of the `scratch` statement; none for the collective's own buffers.
    pub scratch: Option<Span>,
}

/// One use of an algorithm on one group: the call itself (index 0) or an `apply`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Use {
    /// The enclosing use; for index 0 itself.
    pub parent: u32,
    /// Location of the `apply`, or of the head of the algorithm for index 0.
    pub span: Span,
    /// The collective.
    pub coll: CollId,
    /// The algorithm that implements it.
    pub alg: AlgId,
    /// All parameters with their values, in order of declaration.
    pub args: Vec<(String, Value)>,
    /// Options of the use, recorded for the passes.
    pub options: Vec<(String, OptionValue)>,
    /// Sizes of the algorithm's axes.
    pub shape: Vec<i64>,
    /// Members of the group, by number in the call, in the group's linear order.
    pub members: Arc<[u32]>,
    /// The root, by number in the group.
    pub root: Option<u32>,
    /// The places on which it works: one region per buffer of the collective.
    pub regions: Vec<Region>,
    /// First of its rounds `first..end`.
    pub first: u32,
    /// One past its last round.
    pub end: u32,
}

/// The beginning or the end of a use, between rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The mark is before this round, or after the last round.
    pub round: u32,
    /// The use.
    pub site: u32,
    /// Whether the use ends here.
    pub ends: bool,
}

/// A branch of a `together` or an `each`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lane {
    /// The enclosing branch; for index 0 itself.
    pub parent: u32,
    /// Location of the statement that branches.
    pub span: Span,
    /// Index of the branch in the statement.
    pub index: u32,
}

/// An axis: the name of its coordinate, and its size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Name, as in the algorithm's head.
    pub name: String,
    /// Number of coordinates.
    pub size: i64,
}

/// All rounds of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// The axes of the outermost algorithm.
    pub axes: Vec<Axis>,
    /// Number of atoms of the first buffer: the least number for which every cut falls
    /// between atoms.
    pub atoms: u32,
    /// The collective's buffers first, then scratch. The same scratch of groups side by side
    /// is one buffer.
    pub buffers: Vec<Buffer>,
    /// The rounds, including empty ones.
    pub rounds: Vec<Vec<Transfer>>,
    /// All uses, outer ones before inner ones.
    pub uses: Vec<Use>,
    /// Beginnings and ends of uses, in order.
    pub marks: Vec<Mark>,
    /// Branches.
    pub lanes: Vec<Lane>,
}

impl Rounds {
    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.uses.first().map_or(0, |u| u.members.len() as u32)
    }

    /// Prints a rank by its coordinates: `rank r=3`, `rank (x=1, y=0)`.
    pub fn rank_name(&self, rank: u32) -> String {
        let sizes: Vec<i64> = self.axes.iter().map(|a| a.size).collect();
        let names: Vec<&str> = self.axes.iter().map(|a| a.name.as_str()).collect();
        format!("rank {}", rank_text(&names, &coordinates(&sizes, i64::from(rank))))
    }

    /// Prints a run of places in the notation of the language: `[3 of 8]`, `src[..]`, `t[0 of 2]`.
    pub fn place_name(&self, buffer: u32, start: u32, len: u32) -> String {
        let Some(b) = self.buffers.get(buffer as usize) else { return String::new() };
        let own = self.buffers.iter().filter(|b| b.scratch.is_none()).count();
        let name = if own == 1 && b.scratch.is_none() { "" } else { &b.name };
        format!("{name}[{}]", describe(start, len, b.atoms))
    }

    /// Returns a use and those that enclose it, innermost first, without the call itself.
    pub fn stack(&self, site: u32) -> Vec<&Use> {
        let mut out = vec![];
        let mut at = site;
        while at != 0 {
            let Some(u) = self.uses.get(at as usize) else { break };
            out.push(u);
            at = u.parent;
        }
        out
    }

    /// Adds the `apply` statements that enclose a location to a message.
    pub fn with_stack(&self, mut d: Diagnostic, site: u32) -> Diagnostic {
        for u in self.stack(site) {
            d = d.secondary(u.span, "in this apply");
        }
        d
    }

    /// Returns all transfers with the index of their round.
    pub fn transfers(&self) -> impl Iterator<Item = (u32, &Transfer)> {
        self.rounds.iter().enumerate().flat_map(|(t, r)| r.iter().map(move |x| (t as u32, x)))
    }

    /// Returns the same rounds with every atom cut into `lanes` parts. Part j begins `j * delay`
    /// rounds later. This is the meaning of the options `pipeline` (delay 1) and `instances` (delay
    /// 0) of the call. The result omits inner uses, because their contracts hold for each lane and
    /// not for the whole.
    ///
    /// # Errors
    /// Returns E040 if the atoms, transfers or rounds exceed `limits`.
    pub fn in_lanes(&self, lanes: u32, delay: u32, limits: &Limits) -> Result<Rounds, Fault> {
        let lanes = lanes.max(1);
        let longest = self.buffers.iter().map(|b| u64::from(b.atoms)).max().unwrap_or_default();
        let transfers: usize = self.rounds.iter().map(Vec::len).sum();
        let late = u64::from(lanes - 1) * u64::from(delay);
        if longest.saturating_mul(u64::from(lanes)) > limits.atoms
            || transfers.saturating_mul(lanes as usize) > limits.transfers
            || late > limits.transfers as u64
        {
            let span = self.uses.first().map_or(Span::NONE, |u| u.span);
            return Err(Box::new(
                Diagnostic::error("E040", format!("the algorithm is too large to expand: {lanes} lanes"))
                    .primary(span, format!("one lane already has {longest} atoms and {transfers} transfers"))
                    .help("use fewer lanes or fewer ranks"),
            ));
        }
        let mut out = self.clone();
        out.atoms *= lanes;
        out.buffers.iter_mut().for_each(|b| b.atoms *= lanes);
        let length = self.rounds.len() + late as usize;
        out.rounds = vec![vec![]; length];
        for (t, transfer) in self.transfers() {
            for lane in 0..lanes {
                let mut x = transfer.clone();
                x.from = x.from.lane(lanes, lane);
                x.to = x.to.lane(lanes, lane);
                x.site = 0;
                out.rounds[(t + lane * delay) as usize].push(x);
            }
        }
        out.uses.truncate(1);
        for u in &mut out.uses {
            u.regions = out
                .buffers
                .iter()
                .take(u.regions.len())
                .enumerate()
                .map(|(i, b)| Region::whole(i as u32, b.atoms))
                .collect();
            u.end = length as u32;
        }
        let ends = length as u32;
        out.marks = vec![Mark { round: 0, site: 0, ends: false }, Mark { round: ends, site: 0, ends: true }];
        Ok(out)
    }
}

/// Returns the coordinates of a linear number, first axis slowest.
pub fn coordinates(sizes: &[i64], linear: i64) -> Vec<i64> {
    let mut rest = linear;
    let mut out: Vec<i64> = sizes
        .iter()
        .rev()
        .map(|&s| {
            let c = rest % s.max(1);
            rest /= s.max(1);
            c
        })
        .collect();
    out.reverse();
    out
}

/// Returns the linear number of coordinates, first axis slowest.
pub fn linear(sizes: &[i64], coordinates: &[i64]) -> i64 {
    sizes.iter().zip(coordinates).fold(0, |n, (s, c)| n * s + c)
}

/// Prints coordinates: `r=3`, `(x=1, y=0)`.
pub(crate) fn rank_text(names: &[&str], coordinates: &[i64]) -> String {
    let parts: Vec<String> = names.iter().zip(coordinates).map(|(n, c)| format!("{n}={c}")).collect();
    if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(", ")) }
}

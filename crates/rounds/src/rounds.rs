//! Rounds: what an algorithm on concrete ranks comes down to (LANGUAGE 2.4).
//!
//! Owns the data: rounds of transfers, buffers, uses of algorithms, and how ranks and places are named in
//! messages. Making them is `expand`'s, what they do is `meaning`'s, what they cost is `cost`'s.

use std::sync::Arc;

use kbc_diag::{Diagnostic, Span};

use crate::eval::{Fault, Value};
use crate::library::{AlgId, CollId};
use crate::options::OptionValue;
use crate::region::{Region, describe};

/// What is to be expanded: an algorithm with its parameters on a shape.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Call {
    /// The algorithm; its collective comes with it.
    pub alg: AlgId,
    /// Sizes of the axes, one for each axis of the algorithm; an algorithm of one axis takes several and sees
    /// their linear order.
    pub sizes: Vec<i64>,
    /// Coordinates of the root, one for each size.
    pub root: Option<Vec<i64>>,
    /// Parameters that do not have their default, by name.
    pub args: Vec<(String, Value)>,
}

/// Bounds of an expansion. Each is an error (E040) that says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Transfers in all rounds together.
    pub transfers: usize,
    /// Atoms of the largest buffer.
    pub atoms: u64,
    /// Statements executed, counted once a rank.
    pub steps: u64,
    /// Uses of algorithms inside one another.
    pub depth: u32,
}

impl Default for Limits {
    /// Four million transfers, 2^20 atoms, 50 million steps, 64 deep.
    fn default() -> Self {
        Limits { transfers: 4_000_000, atoms: 1 << 20, steps: 50_000_000, depth: 64 }
    }
}

/// One rank's places copied or added to another's (or its own).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Who has it, by linear number in the call.
    pub src: u32,
    /// Who gets it.
    pub dst: u32,
    /// Places at `src`.
    pub from: Region,
    /// Places at `dst`, as many.
    pub to: Region,
    /// Added to what is there instead of replacing it.
    pub reduce: bool,
    /// Written as `get`, by the receiver.
    pub get: bool,
    /// Sign of the step to the peer as written (`r + 1`: 1), 0 where it is no step; picks one of two links.
    pub way: i8,
    /// (source - receiver) mod p in the order of the innermost group: the order of additions.
    pub distance: u32,
    /// The statement.
    pub span: Span,
    /// The use of an algorithm it belongs to, an index into [`Rounds::uses`].
    pub site: u32,
    /// The branch of `together` and `each` it belongs to, an index into [`Rounds::lanes`].
    pub lane: u32,
}

impl Transfer {
    /// Whether it crosses from one rank to another.
    pub fn is_remote(&self) -> bool {
        self.src != self.dst
    }
}

/// A buffer of the call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Its name in the text (of the collective, or of the `scratch`).
    pub name: String,
    /// Its length.
    pub atoms: u32,
    /// The `scratch` statement; none for the collective's own buffers.
    pub scratch: Option<Span>,
}

/// One use of an algorithm on one group: the call itself (number 0) or an `apply`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Use {
    /// The use around it; itself for number 0.
    pub parent: u32,
    /// The `apply`, or the head of the algorithm for number 0.
    pub span: Span,
    /// What is promised.
    pub coll: CollId,
    /// What keeps it.
    pub alg: AlgId,
    /// All parameters with their values, in the order declared.
    pub args: Vec<(String, Value)>,
    /// Options of the use, recorded for the passes.
    pub options: Vec<(String, OptionValue)>,
    /// Sizes of the algorithm's axes.
    pub shape: Vec<i64>,
    /// The group, by number in the call, in its linear order.
    pub members: Arc<[u32]>,
    /// The root, by number in the group.
    pub root: Option<u32>,
    /// The places it works on: one region for each buffer of the collective.
    pub regions: Vec<Region>,
    /// Its rounds are `first..end`.
    pub first: u32,
    /// One past its last round.
    pub end: u32,
}

/// When a use begins and ends, between rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Before this round (or after the last).
    pub round: u32,
    /// The use.
    pub site: u32,
    /// It ends here.
    pub ends: bool,
}

/// A branch of a `together` or an `each`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lane {
    /// The branch around it; itself for number 0.
    pub parent: u32,
    /// The statement that branches.
    pub span: Span,
    /// Which branch of it.
    pub index: u32,
}

/// The name of a coordinate and the size of its axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// As in the algorithm's head.
    pub name: String,
    /// Number of coordinates.
    pub size: i64,
}

/// All rounds of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// The axes of the outermost algorithm.
    pub axes: Vec<Axis>,
    /// Number of atoms of the first buffer: the least number for which every cut falls between atoms.
    pub atoms: u32,
    /// The collective's buffers first, then scratch. The same scratch of groups side by side is one buffer.
    pub buffers: Vec<Buffer>,
    /// The rounds, empty ones included.
    pub rounds: Vec<Vec<Transfer>>,
    /// All uses, outer ones before inner ones.
    pub uses: Vec<Use>,
    /// Beginnings and ends of uses, in order.
    pub marks: Vec<Mark>,
    /// Branches.
    pub lanes: Vec<Lane>,
}

impl Rounds {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.uses.first().map_or(0, |u| u.members.len() as u32)
    }

    /// The rank by its coordinates: `rank r=3`, `rank (x=1, y=0)`.
    pub fn rank_name(&self, rank: u32) -> String {
        let sizes: Vec<i64> = self.axes.iter().map(|a| a.size).collect();
        let names: Vec<&str> = self.axes.iter().map(|a| a.name.as_str()).collect();
        format!("rank {}", rank_text(&names, &coordinates(&sizes, i64::from(rank))))
    }

    /// A run of places as the language writes it: `[3 of 8]`, `src[..]`, `t[0 of 2]`.
    pub fn place_name(&self, buffer: u32, start: u32, len: u32) -> String {
        let Some(b) = self.buffers.get(buffer as usize) else { return String::new() };
        let own = self.buffers.iter().filter(|b| b.scratch.is_none()).count();
        let name = if own == 1 && b.scratch.is_none() { "" } else { &b.name };
        format!("{name}[{}]", describe(start, len, b.atoms))
    }

    /// The uses around one, innermost first, without the call itself.
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

    /// Adds the `apply` statements around a place to a message.
    pub fn with_stack(&self, mut d: Diagnostic, site: u32) -> Diagnostic {
        for u in self.stack(site) {
            d = d.secondary(u.span, "in this apply");
        }
        d
    }

    /// All transfers with the number of their round.
    pub fn transfers(&self) -> impl Iterator<Item = (u32, &Transfer)> {
        self.rounds.iter().enumerate().flat_map(|(t, r)| r.iter().map(move |x| (t as u32, x)))
    }

    /// The same rounds with every atom in `lanes` parts, part j beginning `delay` * j rounds later: what the
    /// options `pipeline` (delay 1) and `instances` (delay 0) of the call mean (LANGUAGE 2.7). Uses inside are
    /// left out: their contracts hold lane by lane, not on the whole.
    ///
    /// # Errors
    /// E040 if that is more atoms, transfers or rounds than `limits` allow.
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
                Diagnostic::error("E040", format!("too large to expand: {lanes} lanes"))
                    .primary(span, format!("{longest} atoms and {transfers} transfers without them"))
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

/// Coordinates of a linear number, first axis slowest.
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

/// Linear number of coordinates, first axis slowest.
pub fn linear(sizes: &[i64], coordinates: &[i64]) -> i64 {
    sizes.iter().zip(coordinates).fold(0, |n, (s, c)| n * s + c)
}

/// `r=3`, `(x=1, y=0)`.
pub(crate) fn rank_text(names: &[&str], coordinates: &[i64]) -> String {
    let parts: Vec<String> = names.iter().zip(coordinates).map(|(n, c)| format!("{n}={c}")).collect();
    if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(", ")) }
}

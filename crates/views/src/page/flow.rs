//! Contents of a collective's memory during the run: whose contributions each piece holds, and to
//! which elements.
//!
//! This module follows the acts of ranks as [`kbc_ir::walk`] yields them, in the order of the timed
//! run. Contents are symbolic: a set of ranks, and the place where their contributions began. It
//! knows no algorithm and looks at no numbers. [`super::page_events`] decides when acts take
//! effect, and [`super::chunks`] cuts contents into chunks.

use kbc_checker::rank_contract;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::{OperandId, RegionId};
use kbc_ir::walk::{Access, Mem, Program};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of changes of places, and of messages, that a page shows.
pub const MAX_CHANGES: usize = 300_000;

/// Largest total size of all sets of ranks that a page stores.
const MAX_RANKS: usize = 4_000_000;

/// A run of elements that hold the same contributions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First element.
    pub start: u64,
    /// Number of elements.
    pub len: u64,
    /// Operand in which the contributions began, and the index in it of the first element.
    pub origin: (u32, u64),
    /// Number of the set of ranks.
    pub set: u32,
    /// Number of successive messages that brought it here.
    pub depth: u32,
}

impl Piece {
    /// Returns the part of the piece inside a range, if there is one.
    fn clip(self, from: u64, to: u64) -> Option<Piece> {
        let (lo, hi) = (self.start.max(from), (self.start + self.len).min(to));
        // The piece may lie outside the range.
        (lo < hi).then(|| Piece {
            start: lo,
            len: hi - lo,
            origin: (self.origin.0, self.origin.1 + (lo - self.start)),
            ..self
        })
    }
}

/// A change of an operand's contents.
#[derive(Clone, Copy, Debug)]
pub struct ContentChange {
    /// Time in ns.
    pub at_ns: f64,
    /// The rank.
    pub rank: u64,
    /// The operand.
    pub operand: u32,
    /// The new contents.
    pub piece: Piece,
}

/// The contents of one collective during the run.
#[derive(Default)]
pub struct FollowedCollective {
    /// Contents at the start: rank, operand, piece.
    pub start: Vec<(u64, u32, Piece)>,
    /// Changes in order of time.
    pub changes: Vec<ContentChange>,
    /// Boundaries of the chunks that operations name, as fractions of each operand.
    pub cuts: Vec<BTreeSet<(u64, u64)>>,
}

/// The contents of all collectives of a schedule during the run.
pub struct Flow<'p> {
    program: &'p Program<'p>,
    memory: BTreeMap<(RegionId, u64, Mem), BTreeMap<u64, Piece>>,
    /// Messages in queues, by sender, receiver and queue.
    queues: BTreeMap<(u64, u64, u32), Vec<Vec<Piece>>>,
    sets: Vec<Vec<u32>>,
    numbers: BTreeMap<Vec<u32>, u32>,
    unions: BTreeMap<(u32, u32), u32>,
    stored: usize,
    changes: usize,
    /// Contents by region; `None` for local regions.
    pub regions: Vec<Option<FollowedCollective>>,
    /// Why following stopped, if it did.
    pub given_up: Option<String>,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns a fraction in lowest terms.
pub fn reduced(num: u64, den: u64) -> (u64, u64) {
    let g = gcd(num, den).max(1);
    (num / g, den / g)
}

impl<'p> Flow<'p> {
    /// Creates the state at the start of a call. Every rank holds what the contract of a region
    /// states for the start; in a region without a contract, all operands that are not scratch.
    ///
    /// # Errors
    /// Returns E355 for a contract that cannot be read, and E302 to E305 for lines that cannot be
    /// cut.
    pub fn new(program: &'p Program<'p>) -> Result<Flow<'p>, Diagnostic> {
        let schedule = program.schedule;
        let mut flow = Flow {
            program,
            memory: BTreeMap::new(),
            queues: BTreeMap::new(),
            sets: vec![],
            numbers: BTreeMap::new(),
            unions: BTreeMap::new(),
            stored: 0,
            changes: 0,
            regions: vec![],
            given_up: None,
        };
        let show = |f: kbc_ir::walk::Fault| f.diagnostic(|r| schedule.mesh.show(r));
        for (i, region) in schedule.regions.iter().enumerate() {
            if region.over.is_empty() || region.operands.is_empty() {
                flow.regions.push(None);
                continue;
            }
            let id = RegionId(i as u32);
            let size = schedule.group_size(region);
            let mut found = FollowedCollective {
                cuts: vec![BTreeSet::new(); region.operands.len()],
                ..FollowedCollective::default()
            };
            found.cuts.iter_mut().for_each(|c| c.extend([(0, 1), (1, 1)]));
            for rank in 0..schedule.mesh.ranks() {
                let own = flow.set(vec![rank as u32]);
                let mut hold = |operand: u32, start: u64, len: u64| {
                    if len > 0 {
                        let piece = Piece { start, len, origin: (operand, start), set: own, depth: 0 };
                        found.start.push((rank, operand, piece));
                    }
                };
                if region.contract.is_some() {
                    for held in rank_contract(region, size, program.group_index(id, rank))?.start {
                        let o = OperandId(held.operand);
                        let at =
                            |n: u64| program.chunk_start(id, o, rank, n as i64, size as i64).map_err(show);
                        let (lo, hi) = (at(held.first)?, at(held.first + held.count)?);
                        for edge in [held.first, held.first + held.count] {
                            found.cuts[held.operand as usize].insert(reduced(edge, size));
                        }
                        hold(held.operand, lo, hi - lo);
                    }
                } else {
                    for (o, operand) in region.operands.iter().enumerate().filter(|(_, o)| !o.scratch) {
                        hold(o as u32, 0, program.elements(operand.buffer, rank).map_err(show)?);
                    }
                }
            }
            for (rank, operand, piece) in &found.start {
                let mem = Mem::Buffer(region.operands[*operand as usize].buffer.0);
                flow.memory.entry((id, *rank, mem)).or_default().insert(piece.start, *piece);
            }
            flow.regions.push(Some(found));
        }
        Ok(flow)
    }

    /// Returns the sets of ranks, by number.
    pub fn sets(&self) -> &[Vec<u32>] {
        &self.sets
    }

    fn set(&mut self, ranks: Vec<u32>) -> u32 {
        if let Some(n) = self.numbers.get(&ranks) {
            return *n;
        }
        let n = self.sets.len() as u32;
        self.stored += ranks.len();
        self.sets.push(ranks.clone());
        self.numbers.insert(ranks, n);
        n
    }

    /// Returns the number of the union of two sets. A rank in both occurs twice.
    fn union(&mut self, a: u32, b: u32) -> u32 {
        let key = (a.min(b), a.max(b));
        if let Some(n) = self.unions.get(&key) {
            return *n;
        }
        let mut all = [&self.sets[a as usize][..], &self.sets[b as usize][..]].concat();
        all.sort_unstable();
        let n = self.set(all);
        self.unions.insert(key, n);
        n
    }

    /// Stops following if there is more than a page can show.
    fn limit(&mut self) {
        if self.given_up.is_none() && self.changes > MAX_CHANGES {
            self.given_up = Some(format!("chunks move or change more than {MAX_CHANGES} times"));
        }
        if self.given_up.is_none() && self.stored > MAX_RANKS {
            self.given_up = Some("chunks hold too many different sets of contributions".to_owned());
        }
    }

    /// Records where an operation cuts an operand.
    pub fn cut(&mut self, region: RegionId, access: &Access) {
        let Some(Some(found)) = self.regions.get_mut(region.0 as usize) else { return };
        if let Some(cuts) = found.cuts.get_mut(access.operand as usize) {
            for edge in [access.num, access.num + access.cnt] {
                cuts.insert(reduced(edge as u64, access.den as u64));
            }
        }
    }

    /// Returns the contents of an access on a rank, with positions counted from the start of the
    /// access.
    pub fn read(&self, region: RegionId, rank: u64, a: &Access) -> Vec<Piece> {
        let Some(line) = self.memory.get(&(region, rank, a.mem)) else { return vec![] };
        let first = line.range(..=a.start).next_back().map_or(a.start, |(k, _)| *k);
        let inside = line.range(first..a.start + a.len).filter_map(|(_, p)| p.clip(a.start, a.start + a.len));
        inside.map(|p| Piece { start: p.start - a.start, ..p }).collect()
    }

    /// Writes pieces, with positions counted from the start of the access, into a rank's memory.
    pub fn write(&mut self, region: RegionId, at_ns: f64, rank: u64, a: &Access, pieces: &[Piece]) {
        if self.given_up.is_some() {
            return;
        }
        let line = self.memory.entry((region, rank, a.mem)).or_default();
        let end = a.start + a.len;
        let first = line.range(..=a.start).next_back().map_or(a.start, |(k, _)| *k);
        let over: Vec<Piece> = line.range(first..end).map(|(_, p)| *p).collect();
        for p in over {
            line.remove(&p.start);
            for rest in [p.clip(0, a.start), p.clip(end, u64::MAX)].into_iter().flatten() {
                line.insert(rest.start, rest);
            }
        }
        let moved: Vec<Piece> = pieces
            .iter()
            .filter_map(|p| Piece { start: p.start + a.start, ..*p }.clip(a.start, end))
            .collect();
        for p in &moved {
            line.insert(p.start, *p);
        }
        if let (Mem::Buffer(_), Some(Some(found))) = (a.mem, self.regions.get_mut(region.0 as usize)) {
            self.changes += moved.len();
            let change = |piece| ContentChange { at_ns, rank, operand: a.operand, piece };
            found.changes.extend(moved.into_iter().map(change));
        }
        self.limit();
    }

    /// Performs `dst = dst op src`: the ranks that contributed to either contribute to the result.
    pub fn reduce(&mut self, region: RegionId, at_ns: f64, rank: u64, dst: &Access, src: &Access) {
        let theirs = self.read(region, rank, src);
        self.add(region, at_ns, rank, dst, &theirs);
    }

    /// Combines pieces, with positions counted from the start of the access, with the contents of a
    /// rank's memory.
    pub fn add(&mut self, region: RegionId, at_ns: f64, rank: u64, dst: &Access, theirs: &[Piece]) {
        if self.given_up.is_some() {
            return;
        }
        let mine = self.read(region, rank, dst);
        let mut edges: BTreeSet<u64> = BTreeSet::new();
        for p in mine.iter().chain(theirs) {
            edges.extend([p.start, p.start + p.len]);
        }
        let edges: Vec<u64> = edges.into_iter().collect();
        let (mut m, mut t) = (0, 0);
        let mut out: Vec<Piece> = vec![];
        for w in edges.windows(2) {
            // Both lists are sorted, so one pass finds the piece of each that covers an interval.
            while mine.get(m).is_some_and(|p| p.start + p.len <= w[0]) {
                m += 1;
            }
            while theirs.get(t).is_some_and(|p| p.start + p.len <= w[0]) {
                t += 1;
            }
            let a = mine.get(m).and_then(|p| p.clip(w[0], w[1]));
            let b = theirs.get(t).and_then(|p| p.clip(w[0], w[1]));
            out.extend(match (a, b) {
                (Some(a), Some(b)) => {
                    Some(Piece { set: self.union(a.set, b.set), depth: a.depth.max(b.depth), ..a })
                }
                (a, b) => a.or(b),
            });
        }
        self.write(region, at_ns, rank, dst, &out);
    }

    /// Puts a message into a queue.
    pub fn send(&mut self, from: u64, to: u64, queue: u32, pieces: Vec<Piece>) {
        if self.given_up.is_none() {
            self.queues.entry((from, to, queue)).or_default().push(pieces);
        }
    }

    /// Takes the oldest message out of a queue.
    pub fn receive(&mut self, from: u64, to: u64, queue: u32) -> Vec<Piece> {
        match self.queues.get_mut(&(from, to, queue)) {
            Some(list) if !list.is_empty() => list.remove(0),
            _ => vec![],
        }
    }

    /// Returns the compiled schedule that is followed.
    pub fn program(&self) -> &'p Program<'p> {
        self.program
    }
}

/// Returns the pieces with one more message counted.
pub fn count_message(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.iter_mut().for_each(|p| p.depth += 1);
    pieces
}

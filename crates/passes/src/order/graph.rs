//! Graph of events with its credits: topological order, reachability and transitive reduction.

use super::NoSyncCounts;

/// The kind of an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    /// The order within a rank, or the arrival of a message.
    Fixed,
    /// A credit.
    Credit,
}

/// Events with their predecessors.
#[derive(Default)]
pub(super) struct Graph {
    /// The rank of each event.
    rank: Vec<u32>,
    /// Whether credits that end at the event are counted.
    counted: Vec<bool>,
    before: Vec<Vec<(u32, Edge)>>,
}

impl Graph {
    pub(super) fn event(&mut self, rank: u32, counted: bool) -> u32 {
        self.rank.push(rank);
        self.counted.push(counted);
        self.before.push(vec![]);
        self.rank.len() as u32 - 1
    }

    pub(super) fn edge(&mut self, from: u32, to: u32, kind: Edge) {
        let list = &mut self.before[to as usize];
        if from != to && !list.contains(&(from, kind)) {
            list.push((from, kind));
        }
    }

    /// Adds fixed edges from different events to one that has no edges yet.
    pub(super) fn new_edges(&mut self, from: &[u32], to: u32) {
        self.before[to as usize].extend(from.iter().map(|from| (*from, Edge::Fixed)));
    }

    /// Returns the events in topological order, and how many edges begin at each event.
    fn sorted(&self) -> Result<(Vec<u32>, Vec<u32>), NoSyncCounts> {
        let n = self.rank.len();
        // The ends of the edges, ordered by where they begin.
        let mut degrees = vec![0u32; n];
        self.before.iter().flatten().for_each(|(u, _)| degrees[*u as usize] += 1);
        let mut first = Vec::with_capacity(n + 1);
        let mut edges = 0;
        for d in &degrees {
            first.push(edges);
            edges += *d as usize;
        }
        first.push(edges);
        let (mut after, mut filled) = (vec![0u32; edges], first.clone());
        for (v, list) in self.before.iter().enumerate() {
            for (u, _) in list {
                after[filled[*u as usize]] = v as u32;
                filled[*u as usize] += 1;
            }
        }
        let mut open: Vec<usize> = self.before.iter().map(Vec::len).collect();
        let mut out: Vec<u32> = (0..n as u32).filter(|v| open[*v as usize] == 0).collect();
        let mut at = 0;
        while at < out.len() {
            let u = out[at] as usize;
            for &v in &after[first[u]..first[u + 1]] {
                open[v as usize] -= 1;
                if open[v as usize] == 0 {
                    out.push(v);
                }
            }
            at += 1;
        }
        if out.len() == n { Ok((out, degrees)) } else { Err(NoSyncCounts::Cycle) }
    }

    /// Counts the credits that end at counted events: all of them, and those that no other path
    /// implies.
    ///
    /// The events are divided into chains of one rank each (a single chain per rank if everything
    /// that the rank does is ordered). A vector clock for each event holds, for every chain, how
    /// many of its events come before. A clock is kept until the last event after its event has
    /// one; that event takes it over.
    pub(super) fn credits(&self) -> Result<(u64, u64), NoSyncCounts> {
        let (sorted, mut uses) = self.sorted()?;
        let n = self.rank.len();
        let (mut chain, mut place) = (vec![0usize; n], vec![0u32; n]);
        let mut tails: Vec<u32> = vec![];
        for &v in &sorted {
            let own = |u: &&(u32, Edge)| {
                u.1 == Edge::Fixed
                    && self.rank[u.0 as usize] == self.rank[v as usize]
                    && tails[chain[u.0 as usize]] == u.0
            };
            match self.before[v as usize].iter().find(own) {
                Some((u, _)) => {
                    (chain[v as usize], place[v as usize]) = (chain[*u as usize], place[*u as usize] + 1);
                    tails[chain[*u as usize]] = v;
                }
                None => {
                    (chain[v as usize], place[v as usize]) = (tails.len(), 1);
                    tails.push(v);
                }
            }
        }
        let width = tails.len();
        if (n as u64).saturating_mul(width as u64) > 1 << 25 {
            return Err(NoSyncCounts::TooLarge(n as u64));
        }
        let mut clocks: Vec<Vec<u32>> = vec![vec![]; n];
        let mut unused: Vec<Vec<u32>> = vec![];
        let (mut wanted, mut needed) = (0, 0);
        for &v in &sorted {
            let list = &self.before[v as usize];
            if self.counted[v as usize] {
                for (u, kind) in list {
                    if *kind != Edge::Credit {
                        continue;
                    }
                    wanted += 1;
                    let (c, at) = (chain[*u as usize], place[*u as usize]);
                    let implied = list
                        .iter()
                        .any(|(w, k)| (w != u || *k == Edge::Fixed) && clocks[*w as usize][c] >= at);
                    needed += u64::from(!implied);
                }
            }
            list.iter().for_each(|(u, _)| uses[*u as usize] -= 1);
            let heir = list.iter().map(|(u, _)| *u as usize).find(|u| uses[*u] == 0);
            let mut now = match heir {
                Some(u) => std::mem::take(&mut clocks[u]),
                None => {
                    let mut clock = unused.pop().unwrap_or_default();
                    clock.clear();
                    clock.resize(width, 0);
                    clock
                }
            };
            for (u, _) in list {
                // An event may be named twice: by the order of its rank, and as a credit.
                let from = &mut clocks[*u as usize];
                now.iter_mut().zip(&*from).for_each(|(a, b)| *a = (*a).max(*b));
                if uses[*u as usize] == 0 && !from.is_empty() {
                    unused.push(std::mem::take(from));
                }
            }
            now[chain[v as usize]] = place[v as usize];
            match uses[v as usize] {
                0 => unused.push(now),
                _ => clocks[v as usize] = now,
            }
        }
        Ok((wanted, needed))
    }
}

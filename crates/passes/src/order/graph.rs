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

    /// Returns the events in topological order.
    fn sorted(&self) -> Result<Vec<u32>, NoSyncCounts> {
        let n = self.rank.len();
        let mut after: Vec<Vec<u32>> = vec![vec![]; n];
        let mut open: Vec<usize> = self.before.iter().map(Vec::len).collect();
        for (v, list) in self.before.iter().enumerate() {
            list.iter().for_each(|(u, _)| after[*u as usize].push(v as u32));
        }
        let mut out: Vec<u32> = (0..n as u32).filter(|v| open[*v as usize] == 0).collect();
        let mut at = 0;
        while at < out.len() {
            for &v in &after[out[at] as usize] {
                open[v as usize] -= 1;
                if open[v as usize] == 0 {
                    out.push(v);
                }
            }
            at += 1;
        }
        if out.len() == n { Ok(out) } else { Err(NoSyncCounts::Cycle) }
    }

    /// Counts the credits that end at counted events: all of them, and those that no other path
    /// implies.
    ///
    /// The events are divided into chains of one rank each (a single chain per rank if everything
    /// that the rank does is ordered). A vector clock for each event holds, for every chain, how
    /// many of its events come before.
    pub(super) fn credits(&self) -> Result<(u64, u64), NoSyncCounts> {
        let sorted = self.sorted()?;
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
        let mut clocks = vec![0u32; n * width];
        let (mut wanted, mut needed) = (0, 0);
        let mut now = vec![0u32; width];
        for &v in &sorted {
            let list = &self.before[v as usize];
            now.fill(0);
            for (u, _) in list {
                let from = &clocks[*u as usize * width..][..width];
                now.iter_mut().zip(from).for_each(|(a, b)| *a = (*a).max(*b));
            }
            if self.counted[v as usize] {
                for (u, kind) in list {
                    if *kind != Edge::Credit {
                        continue;
                    }
                    wanted += 1;
                    let (c, at) = (chain[*u as usize], place[*u as usize]);
                    let implied = list
                        .iter()
                        .any(|(w, k)| (w != u || *k == Edge::Fixed) && clocks[*w as usize * width + c] >= at);
                    needed += u64::from(!implied);
                }
            }
            now[chain[v as usize]] = place[v as usize];
            clocks[v as usize * width..][..width].copy_from_slice(&now);
        }
        Ok((wanted, needed))
    }
}

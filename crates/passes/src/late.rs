//! Late receipts: the round at whose end a rank takes a message.
//!
//! A rank is one stream, which does its work in order. If it takes a message in the round in which
//! the message is sent, everything that it sends later waits for that message, needed or not. In a
//! schedule that is written out for each rank, a rank therefore takes a message at the end of the
//! last round before it touches one of its places again. [`Deadlines`] finds that round: it walks
//! the program of a rank from its end, and remembers when each place is touched next
//! (`docs/adr/078-late-receives.md`).
//!
//! What a rank does with one place stays in order. A message that is taken late passes no send,
//! move or message of the same place, so results and additions are those of the rounds, and every
//! credit that follows from the order of places (`crate::order`, `Within::Data`) still follows.

use kbc_rounds::Rounds;
use kbc_rounds::region::Region;
use std::collections::{BTreeMap, HashMap};

/// Places of a rank that lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// The buffer.
    pub buffer: u32,
    /// The first atom.
    pub start: u32,
    /// The number of atoms.
    pub len: u32,
}

impl Run {
    /// Returns the runs of a region.
    pub fn of(region: &Region) -> impl Iterator<Item = Run> + Clone {
        region.runs().iter().map(|r| Run { buffer: region.buffer, start: r.start, len: r.len })
    }
}

/// The deadlines of what a rank receives. The program of the rank is walked from its end.
pub(crate) struct Deadlines {
    /// The last round of all.
    last: u32,
    /// For places that the rank touches again, by buffer and first atom: one past the last atom,
    /// and the last round at whose end they may be written. Runs do not overlap.
    runs: BTreeMap<(u32, u32), (u32, u32)>,
    /// The round in which the next message of each sender is taken.
    senders: HashMap<u32, u32>,
}

impl Deadlines {
    /// Returns the deadlines at the end of that many rounds: nothing is touched again.
    pub fn new(rounds: usize) -> Deadlines {
        Deadlines { last: (rounds as u32).saturating_sub(1), runs: BTreeMap::new(), senders: HashMap::new() }
    }

    /// Goes back over a send or a move of a round, which touches places. Receipts of the same round
    /// come after it.
    pub fn touched(&mut self, run: Run, round: u32) {
        self.take(run);
        self.set(run, round.saturating_sub(1));
    }

    /// Goes back over a message that the rank receives in places. Returns the round at whose end it
    /// takes the message.
    pub fn taken(&mut self, sender: u32, places: impl Iterator<Item = Run> + Clone) -> u32 {
        let touched = places.clone().filter_map(|run| self.take(run)).min();
        // The messages of one sender arrive in the order in which they are sent.
        let next = self.senders.get(&sender).copied();
        let taken = [touched, next].into_iter().flatten().fold(self.last, u32::min);
        for run in places {
            // The places of a message may overlap.
            self.take(run);
            self.set(run, taken);
        }
        self.senders.insert(sender, taken);
        taken
    }

    fn set(&mut self, run: Run, round: u32) {
        self.runs.insert((run.buffer, run.start), (run.start + run.len, round));
    }

    /// Removes a run, and returns the earliest of its rounds.
    fn take(&mut self, Run { buffer, start, len }: Run) -> Option<u32> {
        let stop = start + len;
        let before = self.runs.range(..(buffer, start)).next_back();
        let before = before.filter(|(key, (end, _))| key.0 == buffer && *end > start);
        let inside = self.runs.range((buffer, start)..(buffer, stop));
        let found: Vec<_> = before.into_iter().chain(inside).map(|(key, value)| (*key, *value)).collect();
        for ((_, first), (end, round)) in &found {
            self.runs.remove(&(buffer, *first));
            if *first < start {
                self.runs.insert((buffer, *first), (start, *round));
            }
            if *end > stop {
                self.runs.insert((buffer, stop), (*end, *round));
            }
        }
        found.into_iter().map(|(_, (_, round))| round).min()
    }
}

/// Returns for each transfer of each round the round at whose end its receiver takes it.
pub(crate) fn taken_in(rounds: &Rounds) -> Vec<Vec<u32>> {
    let mut ranks: Vec<Deadlines> =
        (0..rounds.ranks()).map(|_| Deadlines::new(rounds.rounds.len())).collect();
    let mut out: Vec<Vec<u32>> = vec![];
    for (t, round) in (0..rounds.rounds.len() as u32).zip(&rounds.rounds).rev() {
        let mut order: Vec<usize> = (0..round.len()).filter(|&i| round[i].is_remote()).collect();
        order.sort_by_key(|&i| (round[i].distance, i));
        let mut taken = vec![t; round.len()];
        for i in order.into_iter().rev() {
            let x = &round[i];
            taken[i] = ranks[x.dst as usize].taken(x.src, Run::of(&x.to));
        }
        for x in round {
            let touched = Run::of(&x.from).chain(Run::of(&x.to).filter(|_| !x.is_remote()));
            touched.for_each(|run| ranks[x.src as usize].touched(run, t));
        }
        out.push(taken);
    }
    out.reverse();
    out
}

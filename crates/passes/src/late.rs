//! Late receipts: the round at whose end a rank takes a message.
//!
//! A rank is one stream, which does its work in order. If it takes a message in the round in which
//! the message is sent, everything that it sends later waits for that message, needed or not. In a
//! schedule that is written out for each rank, a rank therefore takes a message at the end of the
//! last round before it touches one of its places again. [`Deadlines`] finds that round: it walks
//! the program of a rank from its end, and remembers when each place is touched next
//! (`docs/adr/078-late-receives.md`).
//!
//! A message is taken before the next one of its sender if nothing has to be waited for: at that
//! time it is there, and so are those that are added before it ([`bring_forward`]).
//!
//! What a rank does with one place stays in order. A message that is taken late passes no send,
//! move or message of the same place, so results and additions are those of the rounds, and every
//! credit that follows from the order of places (`crate::order`, `Within::Data`) still follows.

use kbc_rounds::Rounds;
use kbc_rounds::region::Region;
use rustc_hash::FxBuildHasher;
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

/// Places of a buffer up to which rounds are kept place by place.
const MOST_PLACES: u32 = 1 << 12;

/// A place that has no round.
const NONE: u32 = u32::MAX;

/// Rounds of places: place by place, or, where a buffer has many, by runs that do not overlap.
#[derive(Default)]
struct RoundsOfRuns {
    /// By buffer: the round of each of its first places.
    places: Vec<Vec<u32>>,
    /// By buffer and first atom: one past the last atom, and the round. Used from the first run
    /// that lies beyond [`MOST_PLACES`].
    runs: BTreeMap<(u32, u32), (u32, u32)>,
    by_runs: bool,
}

impl RoundsOfRuns {
    /// Returns the rounds of the places of a run, or None where they are kept by runs.
    fn of(&mut self, Run { buffer, start, len }: Run) -> Option<&mut [u32]> {
        let stop = start + len;
        if !self.by_runs && stop > MOST_PLACES {
            self.by_runs = true;
            for (buffer, rounds) in (0..).zip(std::mem::take(&mut self.places)) {
                let known = (0..).zip(rounds).filter(|(_, round)| *round != NONE);
                self.runs.extend(known.map(|(at, round)| ((buffer, at), (at + 1, round))));
            }
        }
        if self.by_runs {
            return None;
        }
        let buffer = buffer as usize;
        if self.places.len() <= buffer {
            self.places.resize(buffer + 1, vec![]);
        }
        let places = &mut self.places[buffer];
        if places.len() < stop as usize {
            places.resize(stop as usize, NONE);
        }
        Some(&mut places[start as usize..stop as usize])
    }

    /// Gives a run this round in place of what its places had.
    fn set(&mut self, run: Run, round: u32) {
        if let Some(places) = self.of(run) {
            return places.fill(round);
        }
        // Most runs are set as they were set before.
        if let Some(same) = self.runs.get_mut(&(run.buffer, run.start))
            && same.0 == run.start + run.len
        {
            same.1 = round;
            return;
        }
        self.remove(run, u32::max);
        self.runs.insert((run.buffer, run.start), (run.start + run.len, round));
    }

    /// Returns the round that `of` chooses among those of the places of a run. The run must be set
    /// to another one then.
    fn take(&mut self, run: Run, of: fn(u32, u32) -> u32) -> Option<u32> {
        if let Some(places) = self.of(run) {
            return places.iter().copied().filter(|round| *round != NONE).reduce(of);
        }
        match self.runs.get(&(run.buffer, run.start)) {
            Some(same) if same.0 == run.start + run.len => Some(same.1),
            _ => self.remove(run, of),
        }
    }

    /// Removes a run, and returns the round that `of` chooses among those of its places.
    fn remove(&mut self, Run { buffer, start, len }: Run, of: fn(u32, u32) -> u32) -> Option<u32> {
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
        found.into_iter().map(|(_, (_, round))| round).reduce(of)
    }
}

/// The deadlines of what a rank receives. The program of the rank is walked from its end.
pub(crate) struct Deadlines {
    /// The last round of all.
    last: u32,
    /// The last round at whose end places may be written that the rank touches again.
    places: RoundsOfRuns,
}

impl Deadlines {
    /// Returns the deadlines at the end of that many rounds: nothing is touched again.
    pub fn new(rounds: usize) -> Deadlines {
        Deadlines { last: (rounds as u32).saturating_sub(1), places: RoundsOfRuns::default() }
    }

    /// Goes back over a send or a move of a round, which touches places. Receipts of the same round
    /// come after it.
    pub fn touched(&mut self, run: Run, round: u32) {
        self.places.set(run, round.saturating_sub(1));
    }

    /// Goes back over a message that the rank receives in places. Returns the last round at whose
    /// end it may take the message.
    pub fn taken(&mut self, places: impl Iterator<Item = Run> + Clone) -> u32 {
        let touched = places.clone().filter_map(|run| self.places.take(run, u32::min));
        let taken = touched.fold(self.last, u32::min);
        places.for_each(|run| self.places.set(run, taken));
        taken
    }
}

/// A message that a rank receives.
pub(crate) struct Receipt {
    /// The rank that sends it.
    pub sender: u32,
    /// The round at whose end the receiver takes it.
    pub taken: u32,
}

/// Lets a rank take messages earlier than at their deadlines where it waits for nothing in return:
/// a message before the next ones of its sender, but after all messages that go to its places
/// before it. So the work on a message is not left to the end. Messages of one sender arrive in the
/// order in which they are sent if they take one route; where they take several, a rank may wait.
/// `receipts` are those of one rank in the order of rounds and additions, and `places` returns the
/// places of each.
pub(crate) fn bring_forward<P: Iterator<Item = Run> + Clone>(
    receipts: &mut [Receipt],
    places: impl Fn(usize) -> P,
) {
    let mut next: HashMap<u32, u32, FxBuildHasher> = HashMap::default();
    let mut wanted = vec![0; receipts.len()];
    for (i, receipt) in receipts.iter().enumerate().rev() {
        let next = next.entry(receipt.sender).or_insert(receipt.taken);
        *next = receipt.taken.min(*next);
        wanted[i] = *next;
    }
    let mut written = RoundsOfRuns::default();
    for (i, receipt) in receipts.iter_mut().enumerate() {
        let before = places(i).filter_map(|run| written.take(run, u32::max));
        receipt.taken = before.fold(wanted[i], u32::max).min(receipt.taken);
        places(i).for_each(|run| written.set(run, receipt.taken));
    }
}

/// Returns for each transfer of each round the round at whose end its receiver takes it.
pub(crate) fn taken_in(rounds: &Rounds) -> Vec<Vec<u32>> {
    let mut ranks: Vec<Deadlines> =
        (0..rounds.ranks()).map(|_| Deadlines::new(rounds.rounds.len())).collect();
    let mut out: Vec<Vec<u32>> = vec![];
    // The messages of each rank, from the last to the first: round, and number in the round.
    let mut messages: Vec<Vec<(usize, usize)>> = vec![vec![]; ranks.len()];
    for (t, round) in rounds.rounds.iter().enumerate().rev() {
        let mut order: Vec<usize> = (0..round.len()).filter(|&i| round[i].is_remote()).collect();
        order.sort_by_key(|&i| (round[i].distance, i));
        let mut taken = vec![t as u32; round.len()];
        for i in order.into_iter().rev() {
            let x = &round[i];
            taken[i] = ranks[x.dst as usize].taken(Run::of(&x.to));
            messages[x.dst as usize].push((t, i));
        }
        for x in round {
            let touched = Run::of(&x.from).chain(Run::of(&x.to).filter(|_| !x.is_remote()));
            touched.for_each(|run| ranks[x.src as usize].touched(run, t as u32));
        }
        out.push(taken);
    }
    out.reverse();
    for mut own in messages {
        own.reverse();
        let receipt =
            |&(t, i): &(usize, usize)| Receipt { sender: rounds.rounds[t][i].src, taken: out[t][i] };
        let mut receipts: Vec<Receipt> = own.iter().map(receipt).collect();
        bring_forward(&mut receipts, |at| Run::of(&rounds.rounds[own[at].0][own[at].1].to));
        own.iter().zip(receipts).for_each(|(&(t, i), receipt)| out[t][i] = receipt.taken);
    }
    out
}

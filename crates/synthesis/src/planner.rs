//! Planner: tries ways to order the messages of trees, and numbers of pieces; keeps the fastest.

use crate::dispatch::{Passage, TreeStarts, dispatch};
use crate::error::SynthesisError;
use crate::lockstep::lockstep;
use crate::moves::Waiting;
use crate::orders::{JobPlace, Orders, TreeJob};
use crate::replay::{Moment, replay};

/// Weights of the number of a piece against the chain of messages that follows. The first is the
/// best one on most machines.
const WEIGHTS: [f64; 3] = [0.5, 0.3, 1.0];
/// Number of trees from which it is tried first that they start one after another.
const MANY_TREES: usize = 64;
/// Messages of all plans that are tried for one number of pieces. The fewer messages there are, the
/// more ways are tried; those that were best with fewer pieces are tried first.
const TRIED: usize = 1 << 16;
/// Numbers of pieces in a row that bring no gain before larger ones are no longer tried.
const PATIENCE: usize = 2;
/// A larger number of pieces is taken if it is faster by this part.
const GAIN: f64 = 0.02;
/// Beyond the usual number of messages, trees are cut further while each doubling is faster by this
/// part. Deep trees need many pieces, because links are idle until the first piece arrives.
const FURTHER_GAIN: f64 = 0.03;
/// The same while the plan takes longer than the busiest edge by more than [`NEAR`].
const FAR_GAIN: f64 = 0.01;
/// Part of the time of the busiest edge that a plan may add to it.
const NEAR: f64 = 0.05;
/// Part by which a known order may take longer than its times before others are tried.
const KEPT: f64 = 0.01;

/// A way to order messages: which of the orders, the weight of pieces, and whether time runs
/// backwards. (A list schedule fills the start better than the end.)
#[derive(Clone, Copy)]
struct PlanningWay {
    orders: usize,
    weight: f64,
    starts: TreeStarts,
    backwards: bool,
}

impl PlanningWay {
    /// Returns the jobs in rounds.
    fn rounds(self, orders: &Orders, places: &[JobPlace], waiting: Waiting) -> Vec<Vec<usize>> {
        let mirrored = self.backwards.then(|| orders.mirrored());
        let given = mirrored.as_ref().unwrap_or(orders);
        let sites = given.places();
        let named = |job: usize| if self.backwards { orders.mirror_of(sites[job]) } else { job };
        let mut rounds = match waiting {
            Waiting::WhenNeeded => {
                let mut passages = dispatch(given, &sites, (self.weight, self.starts));
                if self.backwards {
                    let end = passages.iter().map(|p| p.arrived.0).fold(0.0, f64::max);
                    passages.iter_mut().for_each(|p| *p = p.mirrored(end));
                    // What arrives last leaves first.
                    passages.reverse();
                    passages.sort_by_key(|p| p.sent);
                }
                passages.iter_mut().for_each(|p| p.job = named(p.job));
                divided(orders, places, &passages)
            }
            Waiting::EachRound => {
                let mut rounds = lockstep(given, &sites, (self.weight, self.starts));
                if self.backwards {
                    rounds.reverse();
                }
                rounds.into_iter().map(|r| r.into_iter().map(named).collect()).collect()
            }
        };
        rounds.iter_mut().for_each(|r| r.sort_unstable_by_key(|&j| orders.message(places[j])));
        rounds
    }
}

/// An order of messages that was tried.
pub(crate) struct Tried {
    way: PlanningWay,
    /// Pieces of each tree.
    pub cuts: usize,
    /// The jobs in rounds.
    pub rounds: Vec<Vec<usize>>,
    /// Time of the order.
    pub ns: f64,
}

/// Orders that carry the same data, and the ways that are still tried, the best first.
pub(crate) struct Planner {
    orders: Vec<Orders>,
    ways: Vec<PlanningWay>,
    waiting: Waiting,
    /// Bytes of a piece, if trees are not cut.
    whole: f64,
    /// Passages of the first orders that are known, if trees are not cut.
    known: Vec<Passage>,
    /// When the last of them has arrived.
    known_end: f64,
    /// Messages of all plans that are tried for one number of pieces.
    tried: usize,
}

impl Planner {
    /// Returns a planner for one or more orders. `whole` is the number of bytes of each tree.
    pub fn new(orders: Vec<Orders>, whole: f64, waiting: Waiting) -> Planner {
        let trees = orders.iter().map(|o| o.trees.len()).max().unwrap_or(0);
        let mut ways = vec![];
        for weight in WEIGHTS {
            for backwards in [false, true] {
                let way = |starts, orders| PlanningWay { orders, weight, starts, backwards };
                for starts in [TreeStarts::Spread, TreeStarts::Together] {
                    ways.extend((0..orders.len()).map(|orders| way(starts, orders)));
                }
            }
        }
        if trees < MANY_TREES {
            // What starts together is tried first.
            ways.sort_by_key(|way| way.starts == TreeStarts::Spread);
        }
        Planner { ways, orders, waiting, whole, known: vec![], known_end: 0.0, tried: TRIED }
    }

    /// Lets the planner try fewer ways, because it is one of many.
    pub fn sparing(mut self) -> Planner {
        self.tried = TRIED / 4;
        self
    }

    /// Tells the planner of an order in time in which all jobs of the first orders can pass: number
    /// of the job, and when it is sent and arrives, in nanoseconds.
    ///
    /// # Errors
    /// [`SynthesisError::Inconsistent`] if these are not all jobs.
    pub fn know(&mut self, passages: impl Iterator<Item = (usize, f64, f64)>) -> Result<(), SynthesisError> {
        let passage = |(job, sent, arrived)| Passage { job, sent: Moment(sent), arrived: Moment(arrived) };
        self.known = passages.map(passage).collect();
        self.known_end = self.known.iter().map(|p| p.arrived.0).fold(0.0, f64::max);
        let mut jobs: Vec<usize> = self.known.iter().map(|p| p.job).collect();
        jobs.sort_unstable();
        match jobs.into_iter().eq(0..self.messages()) {
            true => Ok(()),
            false => Err(SynthesisError::Inconsistent { step: "the rounds" }),
        }
    }

    /// Returns the known order, if it applies.
    fn tried_known(&mut self, cuts: usize) -> Option<Tried> {
        if cuts != 1 || self.waiting != Waiting::WhenNeeded || self.known.is_empty() {
            return None;
        }
        let starts = TreeStarts::Together;
        let way = PlanningWay { orders: 0, weight: WEIGHTS[0], starts, backwards: false };
        let known = std::mem::take(&mut self.known);
        let (orders, places) = self.cut(way, cuts);
        let mut rounds = divided(orders, &places, &known);
        rounds.iter_mut().for_each(|r| r.sort_unstable_by_key(|&j| orders.message(places[j])));
        let ns = replay(orders, &places, &rounds, Waiting::WhenNeeded);
        self.known = known;
        Some(Tried { way, cuts, rounds, ns })
    }

    /// Returns the number of messages if trees are not cut.
    fn messages(&self) -> usize {
        self.orders[0].trees.iter().map(Vec::len).sum()
    }

    /// Tries ways with a number of pieces, and orders the ways by their time.
    fn tried(&mut self, cuts: usize) -> Option<Tried> {
        let most = (self.tried / (self.messages() * cuts).max(1)).max(1);
        self.ways.truncate(most);
        let known = self.tried_known(cuts);
        // Others are tried where members do not keep to the times of the known one.
        if let Some(found) = known.as_ref()
            && (found.ns <= self.known_end * (1.0 + KEPT) || self.messages() > TRIED)
        {
            return known;
        }
        let mut tried: Vec<Tried> = vec![];
        for way in std::mem::take(&mut self.ways) {
            let waiting = self.waiting;
            let (orders, places) = self.cut(way, cuts);
            let rounds = way.rounds(orders, &places, waiting);
            let ns = replay(orders, &places, &rounds, waiting);
            tried.push(Tried { way, cuts, rounds, ns });
        }
        tried.sort_by(|a, b| a.ns.total_cmp(&b.ns));
        self.ways = tried.iter().map(|t| t.way).collect();
        let found = tried.into_iter().next()?;
        Some(known.filter(|k| k.ns <= found.ns).unwrap_or(found))
    }

    fn cut(&mut self, way: PlanningWay, cuts: usize) -> (&Orders, Vec<JobPlace>) {
        let orders = &mut self.orders[way.orders];
        orders.cut(cuts, self.whole / cuts as f64);
        (orders, orders.places())
    }

    /// Returns the fastest order that is found for a number of pieces.
    pub fn fixed(mut self, cuts: usize) -> Option<(Orders, Tried)> {
        // The ways are compared with fewer pieces, where that is cheaper.
        for divisor in [8, 4, 2].into_iter().filter(|d| cuts >= *d) {
            self.tried(cuts / divisor);
        }
        let tried = self.tried(cuts)?;
        self.finished(tried)
    }

    /// Returns the fastest order that is found with at most `usual` messages: powers of 2 are
    /// tried, and the largest possible number. Where more pieces still gain much there, the number
    /// is doubled, up to `most` messages.
    pub fn fastest(mut self, usual: usize, most: usize) -> Option<(Orders, Tried)> {
        let limit = |messages: usize| messages / self.messages().max(1);
        // Whole trees may have more messages than usual.
        let (usual, most) = (limit(usual).max(limit(most).min(1)), limit(most));
        let powers = std::iter::successors(Some(1usize), |c| c.checked_mul(2)).take_while(|c| *c < usual);
        let (mut best, mut worse) = (None, 0);
        for cuts in powers.chain([usual]).filter(|c| *c > 0).collect::<Vec<_>>() {
            let tried = self.tried(cuts)?;
            if best.as_ref().is_none_or(|b: &Tried| tried.ns < b.ns * (1.0 - GAIN)) {
                (best, worse) = (Some(tried), 0);
            } else {
                worse += 1;
            }
            if worse == PATIENCE {
                break;
            }
        }
        let mut best = best?;
        // The number at the limit may have been too little more than the power of two before it.
        while most > usual && 2 * best.cuts > usual && best.cuts < most {
            let far = best.ns * (1.0 - NEAR) > self.orders[best.way.orders].busiest();
            let gain = if far { FAR_GAIN } else { FURTHER_GAIN };
            let tried = self.tried((2 * best.cuts).min(most))?;
            if tried.ns >= best.ns * (1.0 - gain) {
                break;
            }
            best = tried;
        }
        self.finished(best)
    }

    fn finished(mut self, tried: Tried) -> Option<(Orders, Tried)> {
        self.cut(tried.way, tried.cuts);
        let orders = self.orders.into_iter().nth(tried.way.orders)?;
        Some((orders, tried))
    }
}

/// The last round of a member.
#[derive(Clone, Copy)]
struct LastRound {
    round: usize,
    /// When the first message of the round is sent.
    began: Moment,
    /// The receiver of the last message.
    to: usize,
}

/// Divides an order of messages into rounds. A message comes after the rounds of those that it
/// needs. A member begins a new round for a message
/// * to a receiver that is not after the last one: code that sends the messages of a round by
///   receiver, and those to one receiver together, then keeps the order of the plan;
/// * that needs what arrives after its round has begun: code that waits at the beginning of a round
///   for what its messages need then loses nothing.
fn divided(orders: &Orders, places: &[JobPlace], passages: &[Passage]) -> Vec<Vec<usize>> {
    let mut round_of = vec![0; places.len()];
    let mut arrived = vec![Moment(0.0); places.len()];
    let mut last: Vec<Option<LastRound>> = vec![None; orders.members()];
    let mut rounds: Vec<Vec<usize>> = vec![];
    for &Passage { job, sent, arrived: arrives } in passages {
        let (place, TreeJob { moved, needs, .. }) = (places[job], orders.job(places[job]));
        let needed = || needs.iter().map(|&n| orders.at(place, n));
        let after = needed().map(|n| round_of[n] + 1).max().unwrap_or(0);
        let ready = needed().map(|n| arrived[n]).max();
        let (own, began) = match last[moved.from] {
            None => (0, sent),
            Some(l) if moved.to > l.to && ready.is_none_or(|r| r <= l.began) => (l.round, l.began),
            Some(l) => (l.round + 1, sent),
        };
        let (round, began) = if after > own { (after, sent) } else { (own, began) };
        last[moved.from] = Some(LastRound { round, began, to: moved.to });
        (round_of[job], arrived[job]) = (round, arrives);
        if rounds.len() <= round {
            rounds.resize(round + 1, vec![]);
        }
        rounds[round].push(job);
    }
    rounds
}

//! Dispatch: a list schedule in time, which decides what an edge carries next when it is free.
//!
//! A member sends a message when the first edge of its route is free, so that nothing queues there
//! in front of what becomes ready later and is more urgent. On the later edges of a route messages
//! may queue: switches on the way are then never idle for want of a message. (List schedules:
//! Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17, 1969.)
//!
//! The most urgent message is the one that starts first in a plan with unlimited edges: piece c of
//! a tree starts c periods after the first one, and all else as late as the longest chain of
//! messages allows. With a short period the longest chains go first, and short ones are left for
//! the end, when every edge needs something to carry. With a long one the pieces follow one
//! another, and the way down of the first pieces of an all-reduce overlaps with the way up of the
//! next. Many trees follow one another within a period ([`TreeStarts::Spread`]), as pieces do;
//! otherwise all would go up before any goes down.

use crate::orders::{JobPlace, Orders};
use crate::replay::Moment;
use crate::timed::Timed;
use std::collections::BinaryHeap;

/// Jobs that are ready for one edge, by their numbers, the most urgent first.
pub(crate) type Ready = BinaryHeap<Timed>;

/// When the trees of a period start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TreeStarts {
    /// All at its beginning.
    Together,
    /// One after another, spread over the period. Neighbours in the list of trees, which are often
    /// alike, start far from each other.
    Spread,
}

impl TreeStarts {
    /// Returns when a tree starts, as a part of the period. Multiples of the golden ratio divide an
    /// interval more evenly than those of any other number (Knuth, The Art of Computer Programming
    /// 3, 6.4).
    fn of(self, tree: usize) -> f64 {
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        match self {
            TreeStarts::Together => 0.0,
            TreeStarts::Spread => (tree as f64 * GOLDEN).fract(),
        }
    }
}

/// How urgent each message is.
pub(crate) struct Urgency {
    ideal: Vec<Vec<f64>>,
    period: f64,
    starts: TreeStarts,
}

impl Urgency {
    /// `weight` scales the period of pieces: with 1 it is the time for which the busiest edge
    /// carries one piece of each tree.
    pub fn new(orders: &Orders, (weight, starts): (f64, TreeStarts)) -> Urgency {
        let period = weight * orders.busiest() / orders.cuts as f64;
        Urgency { ideal: ideal_starts(orders), period, starts }
    }

    /// Returns the entry of a job among those that are ready.
    pub fn of(&self, place: JobPlace, job: usize) -> Timed {
        let start = self.period * (place.cut as f64 + self.starts.of(place.tree));
        Timed::new(start + self.ideal[place.tree][place.job], job as u64)
    }
}

/// Numbers of edges that look for a message begin here, after those of all messages that arrive.
const WAKE: u64 = 1 << 63;

/// A message that is sent and arrives.
#[derive(Clone, Copy)]
pub(crate) struct Passage {
    pub job: usize,
    pub sent: Moment,
    pub arrived: Moment,
}

impl Passage {
    /// Returns the passage if time runs backwards from an end.
    pub fn mirrored(self, end: f64) -> Passage {
        Passage { job: self.job, sent: Moment(end - self.arrived.0), arrived: Moment(end - self.sent.0) }
    }
}

/// Returns the passages of all jobs in the order in which they are sent.
pub(crate) fn dispatch(orders: &Orders, places: &[JobPlace], pace: (f64, TreeStarts)) -> Vec<Passage> {
    let urgency = Urgency::new(orders, pace);
    let first_edge = |route: usize| orders.routes[route][0];
    let edges = orders.edges.len();
    let mut ready: Vec<Ready> = vec![Ready::new(); edges];
    let mut free = vec![0.0f64; edges];
    // Whether an edge will be looked at.
    let mut awake = vec![false; edges];
    let mut open: Vec<u32> = places.iter().map(|&p| orders.job(p).needs.len() as u32).collect();
    let mut heap: BinaryHeap<Timed> = BinaryHeap::new();
    let wake = |time: f64, edge: usize| Timed::new(time, WAKE | edge as u64);
    let mut order = Vec::with_capacity(places.len());
    for job in (0..places.len()).filter(|&j| open[j] == 0) {
        ready[first_edge(orders.job(places[job]).route)].push(urgency.of(places[job], job));
    }
    for edge in (0..edges).filter(|&e| !ready[e].is_empty()) {
        awake[edge] = true;
        heap.push(wake(0.0, edge));
    }
    while let Some(due) = heap.pop() {
        let now = due.time();
        if due.number < WAKE {
            let place = places[due.number as usize];
            for &n in &orders.job(place).next {
                let next = orders.at(place, n);
                open[next] -= 1;
                if open[next] == 0 {
                    let edge = first_edge(orders.trees[place.tree][n].route);
                    ready[edge].push(urgency.of(places[next], next));
                    if !std::mem::replace(&mut awake[edge], true) {
                        heap.push(wake(now.max(free[edge]), edge));
                    }
                }
            }
            continue;
        }
        let edge = (due.number ^ WAKE) as usize;
        if free[edge] <= now
            && let Some(first) = ready[edge].pop()
        {
            let job = first.number as usize;
            let route = &orders.routes[orders.job(places[job]).route];
            let arrival = pass(orders, route, &mut free, now);
            order.push(Passage { job, sent: Moment(now), arrived: Moment(arrival) });
            heap.push(Timed::new(arrival, first.number));
        }
        awake[edge] = !ready[edge].is_empty();
        if awake[edge] {
            heap.push(wake(free[edge], edge));
        }
    }
    order
}

/// Lets a message pass its route, and returns when it arrives.
fn pass(orders: &Orders, route: &[usize], free: &mut [f64], now: f64) -> f64 {
    let (mut head, mut lag) = (now, 0.0f64);
    for &e in route {
        let (start, occupied) = (head.max(free[e]), orders.occupied(e));
        free[e] = start + occupied;
        lag = occupied.max(lag - (start - head));
        head = start + orders.edges[e].latency_ns;
    }
    head + lag
}

/// Returns, for each job of each tree, when it starts if the longest chain of the trees starts at 0
/// and everything else as late as that chain allows.
fn ideal_starts(orders: &Orders) -> Vec<Vec<f64>> {
    let alone = |route: &[usize]| {
        let slowest = route.iter().map(|&e| orders.occupied(e)).fold(0.0, f64::max);
        slowest + route.iter().map(|&e| orders.edges[e].latency_ns).sum::<f64>()
    };
    let times: Vec<f64> = orders.routes.iter().map(|r| alone(r)).collect();
    let mut tails: Vec<Vec<f64>> = vec![];
    for tree in &orders.trees {
        let mut tail = vec![0.0f64; tree.len()];
        for (at, job) in tree.iter().enumerate().rev() {
            let after = job.next.iter().map(|&n| tail[n]).fold(0.0, f64::max);
            tail[at] = times[job.route] + after;
        }
        tails.push(tail);
    }
    let longest = tails.iter().flatten().copied().fold(0.0, f64::max);
    tails.iter_mut().flatten().for_each(|t| *t = longest - *t);
    tails
}

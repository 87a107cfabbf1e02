//! Replay: the time of messages in rounds.
//!
//! A member is one stream. It sends its messages in order and goes on at once, but before some
//! messages it waits for arrivals ([`Waiting`]). Messages queue on the edges of their routes
//! in the order in which their heads arrive, and are forwarded with their heads (cut-through). Of
//! messages between the same two members that take several routes, none is seen before those that
//! were sent before it.

use crate::moves::Waiting;
use crate::orders::{JobPlace, Orders};
use crate::timed::Timed;
use std::collections::{BTreeMap, BinaryHeap};

/// A number that orders as a time does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Moment(pub f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Moment) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Moment) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Numbers of messages whose head asks for an edge begin here: their senders, and below
/// [`SENDER`] their positions in the order of all messages. Before them come the numbers of jobs
/// whose messages are there.
const HEAD: u64 = 1 << 63;

/// The number of the first sender.
const SENDER: u32 = 32;

/// What a member has sent and received.
#[derive(Clone, Default)]
struct MemberStream {
    /// Its messages in order: position among all messages.
    sends: Vec<usize>,
    sent: usize,
    /// Messages of each round that have not arrived.
    missing: Vec<u32>,
    /// The first round of which messages are missing.
    complete: usize,
}

/// Messages of pairs of members whose messages take several routes. Their receiver sees them in the
/// order in which they are sent, and so not before those that were sent before them.
struct SeenInOrder {
    /// The job that the same member sends to the same one next, or [`NO_JOB`].
    next: Vec<u32>,
    /// Whether jobs sent before it are not seen yet.
    behind: Vec<bool>,
    /// Whether it has arrived.
    arrived: Vec<bool>,
}

const NO_JOB: u32 = u32::MAX;

impl SeenInOrder {
    /// Returns the messages of all jobs in the order in which members send them. None if the
    /// messages of every pair take one route.
    fn new(orders: &Orders, places: &[JobPlace], order: &[(usize, usize)]) -> Option<SeenInOrder> {
        let mut routes: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut last: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for job in orders.trees.iter().flatten() {
            let pair = (job.moved.from, job.moved.to);
            if *routes.entry(pair).or_insert(job.route) != job.route {
                last.insert(pair, NO_JOB);
            }
        }
        if last.is_empty() {
            return None;
        }
        let jobs = places.len();
        let mut out =
            SeenInOrder { next: vec![NO_JOB; jobs], behind: vec![false; jobs], arrived: vec![false; jobs] };
        for &(job, _) in order {
            let moved = orders.job(places[job]).moved;
            let Some(last) = last.get_mut(&(moved.from, moved.to)) else { continue };
            if *last != NO_JOB {
                out.next[*last as usize] = job as u32;
                out.behind[job] = true;
            }
            *last = job as u32;
        }
        Some(out)
    }

    /// Notes that a job has arrived. Returns it if it is seen.
    fn arrives(&mut self, job: usize) -> Option<usize> {
        self.arrived[job] = true;
        (!self.behind[job]).then_some(job)
    }

    /// Returns the job that is seen after one that is seen, if it has arrived.
    fn after(&mut self, job: usize) -> Option<usize> {
        let next = Some(self.next[job]).filter(|n| *n != NO_JOB)? as usize;
        self.behind[next] = false;
        self.arrived[next].then_some(next)
    }
}

/// Returns the time at which the last message has arrived. `rounds` has all jobs; a member sends
/// its own in this order.
pub(crate) fn replay(orders: &Orders, places: &[JobPlace], rounds: &[Vec<usize>], waiting: Waiting) -> f64 {
    let mut streams = vec![MemberStream::default(); orders.members()];
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(places.len());
    for (round, jobs) in rounds.iter().enumerate() {
        for &job in jobs {
            let moved = orders.job(places[job]).moved;
            streams[moved.from].sends.push(order.len());
            if waiting == Waiting::EachRound {
                let missing = &mut streams[moved.to].missing;
                missing.resize(missing.len().max(round + 1), 0);
                missing[round] += 1;
            }
            order.push((job, round));
        }
    }
    let round_of: Vec<usize> = {
        let mut round_of = vec![0; order.len()];
        order.iter().for_each(|&(job, round)| round_of[job] = round);
        round_of
    };
    let mut in_order = SeenInOrder::new(orders, places, &order);
    let mut open: Vec<u32> = places.iter().map(|&p| orders.job(p).needs.len() as u32).collect();
    let mut free = vec![0.0f64; orders.edges.len()];
    // How far the tail of each message is behind its head.
    let mut lag = vec![0.0f64; order.len()];
    // Edges of its route that the head of each message has passed.
    let mut hops = vec![0u32; order.len()];
    let mut heap: BinaryHeap<Timed> = BinaryHeap::new();
    let send = |s: &mut MemberStream, sender: usize, now: f64, open: &[u32], heap: &mut BinaryHeap<_>| {
        while s.missing.get(s.complete) == Some(&0) {
            s.complete += 1;
        }
        while let Some(&position) = s.sends.get(s.sent) {
            let (job, round) = order[position];
            if open[job] > 0 || s.complete < round.min(s.missing.len()) {
                break;
            }
            s.sent += 1;
            heap.push(Timed::new(now, HEAD | (sender as u64) << SENDER | position as u64));
        }
    };
    for (member, stream) in streams.iter_mut().enumerate() {
        send(stream, member, 0.0, &open, &mut heap);
    }
    let mut end = 0.0f64;
    while let Some(next) = heap.pop() {
        let now = next.time();
        if next.number < HEAD {
            end = end.max(now);
            let arrived = next.number as usize;
            let mut seen = in_order.as_mut().map_or(Some(arrived), |o| o.arrives(arrived));
            while let Some(job) = seen {
                let place = places[job];
                for &n in &orders.job(place).next {
                    open[orders.at(place, n)] -= 1;
                }
                // What needs an arrival is sent by its receiver.
                let to = orders.job(place).moved.to;
                if let Some(missing) = streams[to].missing.get_mut(round_of[job]) {
                    *missing -= 1;
                }
                send(&mut streams[to], to, now, &open, &mut heap);
                seen = in_order.as_mut().and_then(|o| o.after(job));
            }
            continue;
        }
        let position = (next.number & u64::from(u32::MAX)) as usize;
        let (job, _) = order[position];
        let route = &orders.routes[orders.job(places[job]).route];
        let edge = route[hops[position] as usize];
        let start = now.max(free[edge]);
        let occupied = orders.occupied(edge);
        free[edge] = start + occupied;
        lag[position] = occupied.max(lag[position] - (start - now));
        let head = start + orders.edges[edge].latency_ns;
        hops[position] += 1;
        heap.push(match (hops[position] as usize) < route.len() {
            true => Timed::new(head, next.number),
            false => Timed::new(head + lag[position], job as u64),
        });
    }
    end
}

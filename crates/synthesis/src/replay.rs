//! Replay: the time of messages in rounds.
//!
//! A member is one stream. It sends its messages in order and goes on at once, but before some
//! messages it waits for arrivals ([`Waiting`]). Messages queue on the edges of their routes
//! in the order in which their heads arrive, and are forwarded with their heads (cut-through).

use crate::moves::Waiting;
use crate::orders::{JobPlace, Orders};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// What happens at a moment, in the order in which it happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Happening {
    /// All of a message is there.
    Arrival { job: usize },
    /// The head of a message asks for an edge: position in the order of all messages, hop.
    Head { sender: usize, position: usize, hop: usize },
}

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
    let mut open: Vec<u32> = places.iter().map(|&p| orders.job(p).needs.len() as u32).collect();
    let mut free = vec![0.0f64; orders.edges.len()];
    // How far the tail of each message is behind its head.
    let mut lag = vec![0.0f64; order.len()];
    let mut heap: BinaryHeap<Reverse<(Moment, Happening)>> = BinaryHeap::new();
    let send = |s: &mut MemberStream, sender: usize, now: Moment, open: &[u32], heap: &mut BinaryHeap<_>| {
        while s.missing.get(s.complete) == Some(&0) {
            s.complete += 1;
        }
        while let Some(&position) = s.sends.get(s.sent) {
            let (job, round) = order[position];
            if open[job] > 0 || s.complete < round.min(s.missing.len()) {
                break;
            }
            s.sent += 1;
            heap.push(Reverse((now, Happening::Head { sender, position, hop: 0 })));
        }
    };
    for (member, stream) in streams.iter_mut().enumerate() {
        send(stream, member, Moment(0.0), &open, &mut heap);
    }
    let mut end = 0.0f64;
    while let Some(Reverse((now, what))) = heap.pop() {
        match what {
            Happening::Arrival { job } => {
                end = end.max(now.0);
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
            }
            Happening::Head { sender, position, hop } => {
                let (job, _) = order[position];
                let route = &orders.routes[orders.job(places[job]).route];
                let edge = route[hop];
                let start = now.0.max(free[edge]);
                let occupied = orders.occupied(edge);
                free[edge] = start + occupied;
                lag[position] = occupied.max(lag[position] - (start - now.0));
                let head = start + orders.edges[edge].latency_ns;
                heap.push(Reverse(match hop + 1 < route.len() {
                    true => (Moment(head), Happening::Head { sender, position, hop: hop + 1 }),
                    false => (Moment(head + lag[position]), Happening::Arrival { job }),
                }));
            }
        }
    }
    end
}

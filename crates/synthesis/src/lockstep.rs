//! Lockstep: a list schedule in rounds, for members that wait for all arrivals of a round.
//!
//! Such members move on together, so a round takes as long as its slowest message. In each round
//! every edge carries what it can in the time in which the slowest edge carries one piece. A
//! message takes its share of all edges of its route.

use crate::dispatch::{Ready, TreeStarts, Urgency};
use crate::orders::{JobPlace, Orders};

/// Part of a piece that is neglected when the room of an edge is compared with it, since both are
/// rounded.
const ROUNDING: f64 = 1e-6;

/// Returns the jobs in rounds.
pub(crate) fn lockstep(orders: &Orders, places: &[JobPlace], pace: (f64, TreeStarts)) -> Vec<Vec<usize>> {
    let urgency = Urgency::new(orders, pace);
    let occupied: Vec<f64> = (0..orders.edges.len()).map(|e| orders.occupied(e)).collect();
    let used = orders.routes.iter().flatten();
    let slowest = used.map(|&e| occupied[e]).fold(0.0, f64::max);
    let route = |job: usize| &orders.routes[orders.job(places[job]).route][..];
    let mut ready: Vec<Ready> = vec![Ready::new(); occupied.len()];
    let mut open: Vec<u32> = places.iter().map(|&p| orders.job(p).needs.len() as u32).collect();
    for job in (0..places.len()).filter(|&j| open[j] == 0) {
        ready[route(job)[0]].push(urgency.of(places[job], job));
    }
    // Time for which each edge may still be occupied in the round.
    let mut room = vec![0.0f64; occupied.len()];
    let (mut left, mut rounds) = (places.len(), vec![]);
    while left > 0 {
        for (room, occupied) in room.iter_mut().zip(&occupied) {
            // A part of a piece is kept for the next round; more was not needed and is gone.
            *room = room.min(occupied * (1.0 - 2.0 * ROUNDING)) + slowest;
        }
        let has = |room: &[f64], e: usize| room[e] >= occupied[e] * (1.0 - ROUNDING);
        let mut round = vec![];
        for (first, ready) in ready.iter_mut().enumerate() {
            let mut blocked = vec![];
            while has(&room, first)
                && let Some(entry) = ready.pop()
            {
                let job = entry.number as usize;
                if !route(job).iter().all(|&e| has(&room, e)) {
                    blocked.push(entry);
                    continue;
                }
                route(job).iter().for_each(|&e| room[e] -= occupied[e]);
                round.push(job);
            }
            ready.extend(blocked);
        }
        left -= round.len();
        for &job in &round {
            for &n in &orders.job(places[job]).next {
                let next = orders.at(places[job], n);
                open[next] -= 1;
                if open[next] == 0 {
                    ready[route(next)[0]].push(urgency.of(places[next], next));
                }
            }
        }
        rounds.push(round);
    }
    rounds
}

//! An independent simulator of plans: members are streams that send in order over links that queue.
//!
//! It shares no code with the crate. Time is that of `docs/explanation/time.md`: cut-through, links
//! that are FIFOs in the order of the heads, a tail that catches up while its head waits.

use kbc_synthesis::{EdgeTiming, Network, PieceMove, RoundPlan};
use std::collections::{BTreeMap, BTreeSet};

/// What a member waits for before it sends a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// For what the message needs.
    Message,
    /// For what all messages of its round need.
    Round,
    /// For everything that was sent to it in earlier rounds.
    EarlierRounds,
}

/// Returns a time in whole picoseconds, so that equal times are equal.
fn ps(ns: f64) -> u64 {
    (ns * 1000.0).round() as u64
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Delivered { message: usize },
    Request { member: usize, message: usize, hop: usize },
}

/// Returns the time in nanoseconds at which all messages of a plan have arrived. `routes` names the
/// nodes of a message's route; `bytes` is the length of a piece.
pub fn simulate(
    plan: &RoundPlan,
    timing: &[EdgeTiming],
    bytes: f64,
    waits: Waits,
    routes: impl Fn(&PieceMove) -> Vec<usize>,
) -> f64 {
    let link: BTreeMap<(usize, usize), usize> =
        timing.iter().enumerate().map(|(i, e)| ((e.from, e.to), i)).collect();
    let messages: Vec<(usize, PieceMove)> =
        plan.rounds.iter().enumerate().flat_map(|(t, r)| r.iter().map(move |m| (t, *m))).collect();
    let hops: Vec<Vec<usize>> =
        messages.iter().map(|(_, m)| routes(m).windows(2).map(|w| link[&(w[0], w[1])]).collect()).collect();
    // What has come to a member of a piece before a message of it is sent.
    let mut came: BTreeMap<(usize, usize, u64), Vec<usize>> = BTreeMap::new();
    let mut needs: Vec<Vec<usize>> = vec![vec![]; messages.len()];
    let mut at = 0;
    for round in &plan.rounds {
        for (i, m) in (at..).zip(round) {
            needs[i] = came.get(&(m.from, m.root, m.piece)).cloned().unwrap_or_default();
        }
        for (i, m) in (at..).zip(round) {
            came.entry((m.to, m.root, m.piece)).or_default().push(i);
        }
        at += round.len();
    }
    let mut of_round: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for ((t, m), needs) in messages.iter().zip(&needs) {
        of_round.entry((*t, m.from)).or_default().extend(needs);
    }
    // The program of each member: what to send, and what to wait for before.
    let members = messages.iter().map(|m| m.1.from.max(m.1.to)).max().unwrap_or(0) + 1;
    let mut programs: Vec<Vec<(usize, Vec<usize>)>> = vec![vec![]; members];
    let mut pending: Vec<Vec<(usize, usize)>> = vec![vec![]; members];
    for (i, (t, m)) in messages.iter().enumerate() {
        pending[m.to].push((*t, i));
    }
    for list in &mut pending {
        list.reverse();
    }
    for (i, (t, m)) in messages.iter().enumerate() {
        let mut before = match waits {
            Waits::Round => of_round[&(*t, m.from)].clone(),
            _ => needs[i].clone(),
        };
        if waits == Waits::EarlierRounds {
            while pending[m.from].last().is_some_and(|p| p.0 < *t) {
                before.extend(pending[m.from].pop().map(|p| p.1));
            }
        }
        programs[m.from].push((i, before));
    }
    let mut next = vec![0; members];
    let mut delivered = vec![false; messages.len()];
    let mut free = vec![0u64; timing.len()];
    let mut lag = vec![0u64; messages.len()];
    let mut events: BTreeSet<(u64, Event)> = BTreeSet::new();
    let mut end = 0;
    let mut go = |member: usize, now: u64, delivered: &[bool], events: &mut BTreeSet<(u64, Event)>| {
        while let Some((message, before)) = programs[member].get(next[member]) {
            if before.iter().any(|&b| !delivered[b]) {
                return;
            }
            next[member] += 1;
            events.insert((now, Event::Request { member, message: *message, hop: 0 }));
        }
    };
    for member in 0..members {
        go(member, 0, &delivered, &mut events);
    }
    let mut arrived = 0;
    while let Some((now, event)) = events.pop_first() {
        match event {
            Event::Delivered { message } => {
                delivered[message] = true;
                arrived += 1;
                end = end.max(now);
                go(messages[message].1.to, now, &delivered, &mut events);
            }
            Event::Request { member, message, hop } => {
                let e = hops[message][hop];
                let start = now.max(free[e]);
                let busy = ps(bytes * timing[e].ns_per_byte);
                free[e] = start + busy;
                lag[message] = busy.max(lag[message].saturating_sub(start - now));
                let head = start + ps(timing[e].latency_ns);
                if hop + 1 < hops[message].len() {
                    events.insert((head, Event::Request { member, message, hop: hop + 1 }));
                } else {
                    events.insert((head + lag[message], Event::Delivered { message }));
                }
            }
        }
    }
    assert_eq!(arrived, messages.len(), "no member waits for ever");
    end as f64 / 1000.0
}

/// Gigabytes per second of a unit of capacity.
pub const GIGABYTES: f64 = 50.0;

/// Returns the times of the edges of a network, with a latency of 500 ns.
pub fn timing(network: &Network) -> Vec<EdgeTiming> {
    let edge = |e: &kbc_synthesis::NetworkEdge| EdgeTiming {
        from: e.from,
        to: e.to,
        latency_ns: 500.0,
        ns_per_byte: 1.0 / (GIGABYTES * e.capacity as f64),
    };
    network.edges().iter().map(edge).collect()
}

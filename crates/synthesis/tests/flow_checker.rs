//! An independent check of flows and plans of an all-to-all. It shares no code with the crate:
//! loads, distances, rates and who holds what are derived from the network and the plain data.

use kbc_synthesis::{AllToAllFlow, AllToAllPlan, ExactRatio, Network};
use std::collections::{BTreeMap, BTreeSet};

macro_rules! require {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}

/// Amounts by (source, destination).
pub type Demands = BTreeMap<(usize, usize), u64>;

/// The demands of an all-to-all.
pub fn uniform(network: &Network) -> Demands {
    let pairs = network.members().iter().flat_map(|&s| network.members().iter().map(move |&t| (s, t)));
    pairs.filter(|(s, t)| s != t).map(|pair| (pair, 1)).collect()
}

/// The demands of a matrix.
pub fn of_matrix(network: &Network, rows: &[Vec<u64>]) -> Demands {
    let mut demands = Demands::new();
    for (i, &s) in network.members().iter().enumerate() {
        for (j, &t) in network.members().iter().enumerate() {
            if s != t && rows[i][j] > 0 {
                demands.insert((s, t), rows[i][j]);
            }
        }
    }
    demands
}

/// `a / b == r`.
fn equals(a: u128, b: u128, r: ExactRatio) -> bool {
    b > 0 && a * r.denominator() == b * r.numerator()
}

/// Checks the messages of a path, and returns its edges.
fn path(
    network: &Network,
    (source, destination): (usize, usize),
    hops: &[Vec<usize>],
) -> Result<Vec<(usize, usize)>, String> {
    let member = |v: usize| network.members().contains(&v);
    let (mut at, mut edges, mut seen) = (source, vec![], BTreeSet::from([source]));
    for hop in hops {
        require!(hop.len() >= 2 && hop[0] == at, "a message from {at} is {hop:?}");
        at = hop[hop.len() - 1];
        require!(member(at), "a message ends at {at}, which is no member");
        require!(hop[1..hop.len() - 1].iter().all(|&v| !member(v)), "{hop:?} passes a member");
        for pair in hop.windows(2) {
            require!(seen.insert(pair[1]), "node {} twice on a path", pair[1]);
            edges.push((pair[0], pair[1]));
        }
    }
    require!(at == destination, "a path to {destination} ends at {at}");
    Ok(edges)
}

fn capacities(network: &Network) -> BTreeMap<(usize, usize), u128> {
    network.edges().iter().map(|e| ((e.from, e.to), u128::from(e.capacity))).collect()
}

/// Distances between all nodes (Floyd and Warshall).
fn distances(nodes: usize, lengths: &BTreeMap<(usize, usize), u128>) -> Vec<Vec<Option<u128>>> {
    let mut d = vec![vec![None; nodes]; nodes];
    (0..nodes).for_each(|v| d[v][v] = Some(0));
    lengths.iter().filter(|(e, _)| e.0 != e.1).for_each(|(e, &l)| d[e.0][e.1] = Some(l));
    for k in 0..nodes {
        let through = d[k].clone();
        for row in &mut d {
            let Some(first) = row[k] else { continue };
            for (there, rest) in row.iter_mut().zip(&through) {
                if let Some(rest) = rest
                    && there.is_none_or(|now| first + rest < now)
                {
                    *there = Some(first + rest);
                }
            }
        }
    }
    d
}

/// Checks the paths, loads and rate of a flow, and its bound.
pub fn check_flow(network: &Network, demands: &Demands, flow: &AllToAllFlow) -> Result<(), String> {
    require!(flow.members == network.members(), "members");
    let listed: Vec<((usize, usize), u64)> =
        flow.pairs.iter().map(|p| ((p.source, p.destination), p.demand)).collect();
    require!(listed == demands.iter().map(|(&k, &d)| (k, d)).collect::<Vec<_>>(), "pairs");
    let known = capacities(network);
    let mut loads: BTreeMap<(usize, usize), u128> = known.keys().map(|&e| (e, 0)).collect();
    for pair in &flow.pairs {
        let mut shares = 0;
        let mut different = BTreeSet::new();
        for p in &pair.paths {
            require!(p.shares > 0, "a path without shares");
            require!(different.insert(&p.hops), "a path twice");
            shares += p.shares;
            for edge in path(network, (pair.source, pair.destination), &p.hops)? {
                let load = loads.get_mut(&edge).ok_or(format!("no edge {edge:?}"))?;
                *load += u128::from(pair.demand) * u128::from(p.shares);
            }
        }
        require!(shares == flow.shares, "{shares} shares of {}", flow.shares);
    }
    require!(flow.edges.len() == known.len(), "edges");
    for (e, (&ends, &load)) in flow.edges.iter().zip(&loads) {
        require!((e.from, e.to) == ends && u128::from(e.capacity) == known[&ends], "edge {ends:?}");
        require!(e.load == load, "load of {ends:?}: {} is {load}", e.load);
    }
    // The rate: the load of each edge at this rate is at most its capacity, and on one it is equal.
    let fits = |load: u128, c: u128| {
        load * flow.rate.numerator() <= c * u128::from(flow.shares) * flow.rate.denominator()
    };
    require!(loads.iter().all(|(e, &l)| fits(l, known[e])), "an edge carries more than its capacity");
    let full = loads.iter().any(|(e, &l)| equals(known[e] * u128::from(flow.shares), l, flow.rate));
    require!(full, "no edge is full");
    bound(network, demands, flow)
}

/// Checks the proof from the lengths of edges alone.
fn bound(network: &Network, demands: &Demands, flow: &AllToAllFlow) -> Result<(), String> {
    let known = capacities(network);
    let lengths = flow.edges.iter().map(|e| ((e.from, e.to), u128::from(e.length))).collect();
    let distance = distances(network.nodes(), &lengths);
    let capacity: u128 = lengths.iter().map(|(e, l)| known[e] * l).sum();
    let mut demand = 0;
    for (&(s, t), &d) in demands {
        demand += u128::from(d) * distance[s][t].ok_or("not reached")?;
    }
    require!((flow.capacity_length, flow.demand_length) == (capacity, demand), "sums of the bound");
    require!(equals(capacity, demand, flow.bound), "bound {}", flow.bound);
    require!(flow.rate <= flow.bound, "rate {} above the bound {}", flow.rate, flow.bound);
    Ok(())
}

/// Checks a plan: its paths, its rate, and that its rounds deliver every piece.
pub fn check_plan(
    network: &Network,
    demands: &Demands,
    pieces: u64,
    plan: &AllToAllPlan,
) -> Result<(), String> {
    require!(plan.pieces == pieces, "{} pieces", plan.pieces);
    let listed: Vec<((usize, usize), u64)> =
        plan.blocks.iter().map(|b| ((b.source, b.destination), b.demand)).collect();
    require!(listed == demands.iter().map(|(&k, &d)| (k, d)).collect::<Vec<_>>(), "blocks");
    let most = demands.values().max().copied().unwrap_or(0);
    let known = capacities(network);
    let mut loads: BTreeMap<(usize, usize), u128> = known.keys().map(|&e| (e, 0)).collect();
    // Messages that a piece still needs, last first, and the size of a piece in parts of 1/pieces.
    let mut todo = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for b in &plan.blocks {
        require!(b.pieces > 0 && pieces.is_multiple_of(b.pieces), "{} of {pieces} pieces", b.pieces);
        let size = u128::from(b.demand) * u128::from(pieces / b.pieces);
        require!(size <= u128::from(most), "a piece is larger than those of the largest block");
        sizes.insert((b.source, b.destination), size);
        let mut piece = 0;
        for p in &b.paths {
            let edges = path(network, (b.source, b.destination), &p.hops)?;
            for _ in 0..p.pieces {
                let hops: Vec<&Vec<usize>> = p.hops.iter().rev().collect();
                todo.insert((b.source, b.destination, piece), hops);
                piece += 1;
                for edge in &edges {
                    *loads.get_mut(edge).ok_or(format!("no edge {edge:?}"))? += size;
                }
            }
        }
        require!(piece == b.pieces, "paths carry {piece} of {} pieces", b.pieces);
    }
    let rates = loads.iter().filter(|l| *l.1 > 0);
    let rate = rates.map(|(e, &l)| ExactRatio::new(known[e] * u128::from(pieces), l).expect("not 0")).min();
    require!(rate == Some(plan.rate), "rate {} is {rate:?}", plan.rate);
    let slowest = loads.iter().filter(|l| *l.1 > 0).map(|l| known[l.0]).min().expect("an edge is used");
    let largest = sizes.values().max().copied().expect("there are blocks");
    require!(equals(largest, slowest * u128::from(pieces), plan.round), "round {}", plan.round);
    let needs = |(e, &l): (&(usize, usize), &u128)| (l * slowest).div_ceil(largest * known[e]);
    require!(loads.iter().map(needs).max() == Some(plan.least), "least {}", plan.least);
    require!(plan.rounds.len() as u128 >= plan.least, "too few rounds");

    let mut carried: BTreeMap<(usize, usize), u128> = BTreeMap::new();
    for (t, round) in plan.rounds.iter().enumerate() {
        require!(!round.is_empty(), "nothing moves in round {t}");
        require!(round.is_sorted(), "round {t} is not ordered");
        // A piece moves once in a round, so the messages of a round are independent. Its next
        // message leaves where the one before it ended.
        let mut moved = BTreeSet::new();
        for m in round {
            let piece = (m.source, m.destination, m.piece);
            require!(moved.insert(piece), "{m:?} is sent on in the round in which it arrives");
            let hop = todo.get_mut(&piece).and_then(Vec::pop).ok_or(format!("{m:?} is not needed"))?;
            require!((hop[0], hop[hop.len() - 1]) == (m.from, m.to), "{m:?} does not take {hop:?}");
            for pair in hop.windows(2) {
                let amount = carried.entry((pair[0], pair[1])).or_insert(0);
                *amount += sizes[&(m.source, m.destination)];
            }
        }
        // Up to here an edge carried at most what it can in the time of the rounds.
        for (e, amount) in &carried {
            let can = (t as u128 + 1) * known[e] * largest;
            require!(amount * slowest <= can, "edge {e:?} carries too much until round {t}");
        }
    }
    require!(todo.values().all(Vec::is_empty), "a piece does not arrive");
    Ok(())
}

//! Blocks: an all-to-all as messages. Each block of a source and a destination is cut into pieces,
//! and each piece moves along one path.

use crate::block_rounds::{BlockJob, block_rounds};
use crate::equilibrium::{CarriedPath, Equilibrium, PairPaths};
use crate::error::SynthesisError;
use crate::exact::{ExactRatio, common_divisor};
use crate::flow::{AllToAllFlow, FlowEdge, PairFlow};
use crate::paths::EdgeTable;

/// A path of a block, and how many pieces take it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockPath {
    /// The messages of each piece, as in [`crate::FlowPath::hops`].
    pub hops: Vec<Vec<usize>>,
    /// Number of pieces; larger than 0.
    pub pieces: u64,
}

/// What one member sends to another, in equal pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockPieces {
    /// Member that sends.
    pub source: usize,
    /// Member that receives.
    pub destination: usize,
    /// Amount of data, as in [`crate::PairFlow::demand`].
    pub demand: u64,
    /// Number of pieces. It divides the number of pieces of the plan.
    pub pieces: u64,
    /// The paths. Pieces are numbered along this list: the first path carries the first ones.
    pub paths: Vec<BlockPath>,
}

/// A message: one piece of one block moves from a member to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockMove {
    /// Member that sends.
    pub from: usize,
    /// Member that receives.
    pub to: usize,
    /// Member whose data it is.
    pub source: usize,
    /// Member for which it is.
    pub destination: usize,
    /// The piece, counted from 0 among those of the block.
    pub piece: u64,
}

/// Messages of an all-to-all in rounds. A message needs what earlier rounds bring; those of a round
/// are independent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllToAllPlan {
    /// Pieces into which the blocks with the largest demand are cut. Other blocks have as few as
    /// keep each of their pieces as small.
    pub pieces: u64,
    /// The rate that the whole pieces reach, see [`AllToAllFlow::rate`].
    pub rate: ExactRatio,
    /// The blocks with their paths, ordered by (source, destination).
    pub blocks: Vec<BlockPieces>,
    /// Time in which the slowest edge that is used carries the largest piece, in units of demand
    /// per unit of capacity. In each round, an edge carries as much as it can in this time.
    pub round: ExactRatio,
    /// The rounds. The messages of a round are ordered by sender.
    pub rounds: Vec<Vec<BlockMove>>,
    /// Rounds that the busiest edge needs for its pieces. No order of these messages has fewer.
    pub least: u128,
}

impl AllToAllPlan {
    /// Returns the number of messages.
    pub fn messages(&self) -> usize {
        self.rounds.iter().map(Vec::len).sum()
    }
}

/// What a round costs, for the choice of the number of pieces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RoundCost {
    /// Latency of a message, in any unit of time.
    pub latency: f64,
    /// Time in which an edge of capacity 1 carries an amount of 1, in the same unit.
    pub amount: f64,
}

/// Number of messages above which a plan is refused whatever the caller allows.
const MOST_BLOCK_MOVES: u64 = 1 << 24;
/// Share of the time that more pieces must leave to be worth the attempt at still more of them, and
/// how many attempts may fail. Times of few pieces go up and down.
const WORTH: f64 = 0.99;
const MISSES: usize = 2;
const MESSAGES: SynthesisError = SynthesisError::Overflow { what: "the number of messages" };
const BROKEN: SynthesisError = SynthesisError::Inconsistent { step: "the rounds" };

const LOAD: SynthesisError = SynthesisError::Overflow { what: "the load of an edge" };

/// Returns the messages of an all-to-all, with the blocks of the largest demand cut into `pieces`.
///
/// Paths are chosen anew for whole pieces, which costs some of the rate: about one piece on the
/// most loaded edge. The plan has the exact rate.
///
/// # Errors
/// [`SynthesisError::ZeroPieces`]. [`SynthesisError::Overflow`] if there are more than `most`
/// messages or 2^24, or if amounts of data leave 128 bits. [`SynthesisError::Inconsistent`] for a
/// flow whose parts do not fit together, which is none that this crate returns.
pub fn all_to_all_rounds(
    flow: &AllToAllFlow,
    pieces: u64,
    most: u64,
) -> Result<AllToAllPlan, SynthesisError> {
    let most = most.min(MOST_BLOCK_MOVES);
    if pieces == 0 {
        return Err(SynthesisError::ZeroPieces);
    }
    if pieces > most {
        return Err(MESSAGES);
    }
    let counts = counts(flow, pieces);
    if counts.iter().map(|&c| u128::from(c)).sum::<u128>() > u128::from(most) {
        return Err(MESSAGES);
    }
    if flow.shares == 0 || flow.edges.iter().any(|e| e.capacity == 0) {
        return Err(BROKEN);
    }
    let ends = || flow.edges.iter().map(|e| (e.from, e.to));
    let table = EdgeTable::new(ends().map(|e| e.0.max(e.1) + 1).max().unwrap_or(0), ends());
    let chosen = chosen(flow, &table, &counts)?;
    let messages = |p: &ChosenPath| u128::from(p.pieces) * p.hops.len() as u128;
    if chosen.iter().flatten().map(messages).sum::<u128>() > u128::from(most) {
        return Err(MESSAGES);
    }
    let amounts = Amounts::new(flow, pieces, &counts, &chosen).ok_or(LOAD)?;
    let (mut jobs, mut moves) = (vec![], vec![]);
    for (block, (pair, paths)) in flow.pairs.iter().zip(&chosen).enumerate() {
        let place = |node: usize| flow.members.partition_point(|&m| m < node);
        let (from, to, members) = (place(pair.source), place(pair.destination), flow.members.len());
        let turn = (to + members - from) % members.max(1);
        let path_of_piece = paths.iter().flat_map(|p| (0..p.pieces).map(move |_| p));
        for (piece, path) in (0..).zip(path_of_piece) {
            let mut edges = &path.edges[..];
            for (hop, nodes) in path.hops.iter().enumerate() {
                let (crossed, rest) = edges.split_at(nodes.len() - 1);
                edges = rest;
                let chain = path.hops.len() - hop;
                jobs.push(BlockJob { edges: crossed.to_vec(), block, first: hop == 0, piece, chain, turn });
                let (from, to) = (nodes[0], nodes[nodes.len() - 1]);
                let (source, destination) = (pair.source, pair.destination);
                moves.push(BlockMove { from, to, source, destination, piece });
            }
        }
    }
    let order = block_rounds(&jobs, &amounts.limits, &amounts.sizes);
    let sorted = |round: Vec<usize>| {
        let mut round: Vec<BlockMove> = round.into_iter().map(|at| moves[at]).collect();
        round.sort_unstable();
        round
    };
    let rounds = order.into_iter().map(sorted).collect();
    let path = |p: ChosenPath| BlockPath { hops: p.hops, pieces: p.pieces };
    let block = |((pair, &pieces), paths): ((&PairFlow, &u64), Vec<ChosenPath>)| BlockPieces {
        source: pair.source,
        destination: pair.destination,
        demand: pair.demand,
        pieces,
        paths: paths.into_iter().map(path).collect(),
    };
    let blocks = flow.pairs.iter().zip(&counts).zip(chosen).map(block).collect();
    let Amounts { rate, round, least, .. } = amounts;
    Ok(AllToAllPlan { pieces, rate, blocks, round, rounds, least })
}

/// Returns the messages of an all-to-all with the number of pieces of the least estimated time:
/// rounds, times the latency and the time of the largest piece on the slowest edge in use. The
/// powers of 2 are tried that give at most `most` messages, until two bring next to nothing.
///
/// # Errors
/// Those of [`all_to_all_rounds`] for one piece.
pub fn fastest_all_to_all_rounds(
    flow: &AllToAllFlow,
    cost: RoundCost,
    most: u64,
) -> Result<AllToAllPlan, SynthesisError> {
    let time =
        |plan: &AllToAllPlan| plan.rounds.len() as f64 * (cost.latency + plan.round.to_f64() * cost.amount);
    let mut best = all_to_all_rounds(flow, 1, most)?;
    let (mut pieces, mut misses) = (2u64, 0);
    while misses < MISSES
        && let Ok(plan) = all_to_all_rounds(flow, pieces, most)
    {
        let (before, now) = (time(&best), time(&plan));
        if now > before * WORTH {
            misses += 1;
        }
        if now < before {
            best = plan;
        }
        pieces *= 2;
    }
    Ok(best)
}

/// Returns the number of pieces of each block: the least divisor of `pieces` with which no piece is
/// larger than those of the largest block.
fn counts(flow: &AllToAllFlow, pieces: u64) -> Vec<u64> {
    let small: Vec<u64> =
        (1..).take_while(|d| d * d <= pieces).filter(|&d| pieces.is_multiple_of(d)).collect();
    let large = small.iter().rev().map(|d| pieces / d).filter(|d| d * d > pieces);
    let divisors: Vec<u64> = small.iter().copied().chain(large).collect();
    let most = u128::from(flow.pairs.iter().map(|p| p.demand).max().unwrap_or(0));
    let fits = |d: u64, demand: u64| u128::from(d) * most >= u128::from(pieces) * u128::from(demand);
    let count = |demand: u64| divisors.iter().copied().find(|&d| fits(d, demand)).unwrap_or(pieces);
    flow.pairs.iter().map(|p| count(p.demand)).collect()
}

/// A path that carries whole pieces, as nodes and as edges.
struct ChosenPath {
    hops: Vec<Vec<usize>>,
    edges: Vec<u32>,
    pieces: u64,
}

/// Returns the paths of the whole pieces of each block.
fn chosen(
    flow: &AllToAllFlow,
    table: &EdgeTable,
    counts: &[u64],
) -> Result<Vec<Vec<ChosenPath>>, SynthesisError> {
    let mut pairs = vec![];
    for pair in &flow.pairs {
        let (source, destination, demand) = (pair.source, pair.destination, pair.demand as f64);
        let joined = |m: &usize| *m < table.nodes() && flow.members.binary_search(m).is_ok();
        if pair.demand == 0 || ![source, destination].iter().all(joined) {
            return Err(BROKEN);
        }
        let mut paths = vec![];
        for path in &pair.paths {
            let (mut at, mut edges) = (Some(&source), vec![]);
            for hop in &path.hops {
                if hop.first() != at {
                    return Err(BROKEN);
                }
                at = hop.last();
                edges.extend(table.edges(hop).ok_or(BROKEN)?);
            }
            if at != Some(&destination) {
                return Err(BROKEN);
            }
            let amount = demand * path.shares as f64 / flow.shares as f64;
            paths.push(CarriedPath { edges, amount });
        }
        pairs.push(PairPaths { source, destination, demand, paths });
    }
    let capacities = flow.edges.iter().map(|e| e.capacity as f64).collect();
    let mut flows = Equilibrium::new(table, capacities, pairs);
    flows.make_whole(counts);
    let mut chosen = vec![];
    for (flowing, &count) in flows.pairs.iter().zip(counts) {
        let path = |p: &CarriedPath| ChosenPath {
            hops: table.hops(&flow.members, &p.edges),
            pieces: p.parts(flowing.demand, count),
            edges: p.edges.clone(),
        };
        let mut paths: Vec<ChosenPath> = flowing.paths.iter().map(path).collect();
        // A pair that no path joins has one without messages.
        let whole = paths.iter().all(|p| p.pieces > 0 && !p.hops.is_empty());
        if !whole || paths.iter().map(|p| p.pieces).sum::<u64>() != count {
            return Err(BROKEN);
        }
        paths.sort_by(|a, b| a.hops.cmp(&b.hops));
        chosen.push(paths);
    }
    Ok(chosen)
}

/// What pieces need and edges carry, in a common unit.
struct Amounts {
    /// Size of a piece of each block.
    sizes: Vec<u128>,
    /// What each edge carries in a round.
    limits: Vec<u128>,
    rate: ExactRatio,
    round: ExactRatio,
    least: u128,
}

impl Amounts {
    /// Returns the amounts, or `None` if they do not fit.
    fn new(flow: &AllToAllFlow, pieces: u64, counts: &[u64], chosen: &[Vec<ChosenPath>]) -> Option<Amounts> {
        // Loads in units of `unit / pieces` of the demands' unit.
        let unit = flow.pairs.iter().fold(0, |g, p| common_divisor(g, u128::from(p.demand))).max(1);
        let size = |(pair, count): (&PairFlow, &u64)| {
            (u128::from(pair.demand) / unit).checked_mul(u128::from(pieces / count))
        };
        let sizes: Vec<u128> = flow.pairs.iter().zip(counts).map(size).collect::<Option<_>>()?;
        let mut loads = vec![0u128; flow.edges.len()];
        for (size, path) in sizes.iter().zip(chosen).flat_map(|(s, paths)| paths.iter().map(move |p| (s, p)))
        {
            let load = size.checked_mul(u128::from(path.pieces))?;
            for &e in &path.edges {
                loads[e as usize] = loads[e as usize].checked_add(load)?;
            }
        }
        let used = || flow.edges.iter().zip(&loads).filter(|e| *e.1 > 0);
        let mut rate: Option<ExactRatio> = None;
        for (e, load) in used() {
            let capacity = u128::from(e.capacity) * u128::from(pieces);
            let next = ExactRatio::new(capacity, load.checked_mul(unit)?)?;
            rate = Some(rate.map_or(next, |r| r.min(next)));
        }
        // Sizes and limits times the slowest capacity, so that the slowest edge carries one of the
        // largest pieces in a round. Capacities are divided by what they have in common.
        let common = used().fold(0, |g, (e, _)| common_divisor(g, u128::from(e.capacity))).max(1);
        let slowest = used().map(|(e, _)| u128::from(e.capacity) / common).min()?;
        let largest = sizes.iter().copied().max()?;
        let mut least = 0;
        for (e, load) in used() {
            let limit = largest.checked_mul(u128::from(e.capacity) / common)?;
            least = least.max(load.checked_mul(slowest)?.div_ceil(limit.max(1)));
        }
        // Twice the limit is the most that an edge has room for.
        let limit = |e: &FlowEdge| {
            largest.checked_mul(u128::from(e.capacity) / common).filter(|&limit| limit < 1 << 127)
        };
        let per_round = slowest.checked_mul(common)?.checked_mul(u128::from(pieces))?;
        Some(Amounts {
            limits: flow.edges.iter().map(limit).collect::<Option<_>>()?,
            sizes: sizes.iter().map(|s| s.checked_mul(slowest)).collect::<Option<_>>()?,
            rate: rate?,
            round: ExactRatio::new(largest.checked_mul(unit)?, per_round)?,
            least,
        })
    }
}

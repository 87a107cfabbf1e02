//! Cost model: the time that the rounds of an algorithm take on a machine, estimated before there
//! is a schedule.
//!
//! This module owns the price of one collective with one algorithm. `select` makes the choice. The
//! real time comes from the event engine, which simulates the finished schedule.
//!
//! **Up to 128 ranks** ([`exact_ranks`]; 256 in a package) the algorithm's rounds are expanded and
//! simulated on the machine's links, all groups of the axis at once:
//!
//! * A message is everything that one rank sends another in a round. It starts when everything that
//!   its sender takes in earlier rounds is there. A rank takes a message in the round in which it
//!   is sent. Packed trees are written out for each rank, so there a rank takes it when it touches
//!   the place of the message again (`docs/adr/078-late-receives.md`).
//! * It takes the dimension-order route, cut-through: it pays the latency of each hop, and its
//!   bytes once at the slowest link. Each link is busy for bytes over bandwidth, and serves
//!   messages first come, first served; of those that come at the same moment, by sender and
//!   number, as the event engine does.
//! * Where the messages between two ranks take several routes, none is seen before those that were
//!   sent before it.
//! * A message pays a fence on both sides.
//! * The receiver works on its messages one after another. Bytes that are added pay the vector
//!   rate. Memory traffic is three times the bytes that are added and twice the bytes that are put
//!   in place. The slower of both counts.
//!
//! On a machine with queues there are no fences. A rank takes in one message after another, and
//! each piece pays a write to a slot; the receiver pays the reads. With `forward: drain`, taking in
//! a message costs its bytes over the slowest link, and these are not paid on the route.
//!
//! On a machine that describes its cores, every stream of a rank is a core. Its messages leave one
//! after another, and each piece occupies the core, which does nothing else meanwhile (a queue that
//! copies leaves the core free). The tail of a message follows its head by that time. A notify
//! through memory follows every message. Work on received data uses at most the core's share of the
//! memory bandwidth.
//!
//! Two things are left out: credits and signals that travel alone, which depend on the lowering;
//! and the copies into and out of a collective, which are the same for all algorithms.
//!
//! **Above that number of ranks**, the same is done on three smaller machines of the same shape,
//! once with the bytes and once with none. Each side is halved, and powers of two stay powers of
//! two. Both parts are extrapolated to the real size: over successive halvings, the differences of
//! a latency or byte term of the form `a + b p^e` or `a + b log p` form a geometric sequence, and
//! the terms of the library have these forms. A machine that is a list of links, except a whole
//! package, has no smaller machines of its shape. Evenly spaced ranks of the machine itself take
//! their place: the distances stay, and the loads of links grow as they do between machines of a
//! shape. An algorithm that does not exist on fewer ranks is priced by its own rounds if they are
//! few.

mod model;
mod smaller;
mod streams;

pub use model::Job;
pub(crate) use smaller::{growth, halved};

use crate::packed::{PackedUse, is_packed};
use kbc_diag::Diagnostics;
use kbc_machine::topology::{Shape, Topology};
use kbc_rounds::rounds::{coordinates, linear};
use kbc_rounds::{Call, Library, Limits, Rounds, expand, group};
use model::{Receipts, SimulatedRounds, simulate};
use smaller::Smaller;
use std::rc::Rc;

/// Largest group that is priced by its own rounds.
const EXACT_RANKS: u64 = 128;

/// Largest relative from which prices of larger groups are extrapolated.
const RELATIVE_RANKS: u64 = 64;

/// The same limit as [`EXACT_RANKS`] on packages.
const PACKAGE_RANKS: u64 = 256;

/// Largest number of transfers of an algorithm that is priced by its own rounds on more ranks,
/// because it does not exist on fewer.
const MAX_TRANSFERS: usize = 100_000;

/// Largest number of simulated messages. If there are more, only the first groups of the axis are
/// simulated.
const MAX_MESSAGES: usize = 400_000;

/// The same for relatives, of which an estimate simulates six.
const MAX_RELATED_MESSAGES: usize = 50_000;

/// The method that found a price.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Method {
    /// The rounds of all groups were simulated on the machine's links.
    Rounds,
    /// Only the rounds of the first groups were simulated: (simulated groups, all groups).
    SomeGroups(usize, usize),
    /// Extrapolated from machines with these numbers of ranks.
    Extrapolated([u64; 3]),
}

/// The cost of an algorithm.
#[derive(Clone, PartialEq, Debug)]
pub struct Price {
    /// Nanoseconds by the cost model.
    pub ns: f64,
    /// Nanoseconds of the finished schedule, by the time model that the driver supplies. None if it
    /// was not measured.
    pub simulated: Option<f64>,
    /// Rounds with at least one message.
    pub rounds: u64,
    /// Bytes sent by the rank that sends most.
    pub sent: u64,
    /// Nanoseconds for which the busiest link carries data, which no order of the messages
    /// changes. 0 if it is not known, or if the order matters: where messages choose their route,
    /// or switches copy them.
    pub busiest_ns: f64,
    /// The method that found the price.
    pub method: Method,
    /// Whether the estimate is a low one: it lets streams run beside each other. In the finished
    /// schedule, one may wait for a slot or for its turn on a link, and a schedule that is written
    /// out for each rank has a single stream, which is known only when it is lowered.
    pub low: bool,
}

/// Returns the machine that is assumed if none is known: every rank is linked with every other.
///
/// # Errors
/// Same as [`Topology::build`].
pub fn complete_machine(ranks: u64) -> Result<Topology, kbc_diag::Diagnostic> {
    let n = u32::try_from(ranks).unwrap_or(u32::MAX);
    Topology::build(Shape::Full(n), Default::default(), kbc_diag::Span::NONE)
}

/// Returns the largest number of ranks at which a collective is simulated on the machine itself,
/// and its schedule is simulated to choose among close ones. The limit is higher for packages,
/// because their smaller relatives are less representative.
pub fn exact_ranks(topology: &Topology) -> u64 {
    if topology.is_package() { PACKAGE_RANKS } else { EXACT_RANKS }
}

/// Returns the price of a collective with that algorithm.
///
/// # Errors
/// Returns a text that states why the algorithm cannot be expanded or priced.
pub fn price(job: &Job<'_>, call: &Call) -> Result<Price, String> {
    CallPrices::new(job, call.clone())?.of(job)
}

/// Returns the price of a collective with that algorithm, or none if it is more than `limit`
/// nanoseconds, and the number of messages of its rounds. The simulation of the rounds ends at the
/// limit. A price by extrapolation is always returned, and its messages are not counted.
///
/// # Errors
/// Those of [`price`].
pub(crate) fn price_below(job: &Job<'_>, call: &Call, limit: f64) -> Result<(Option<Price>, u64), String> {
    let prices = CallPrices::new(job, call.clone())?;
    match &prices.rounds {
        Some(rounds) => {
            let messages = rounds.transfers().filter(|(_, x)| x.is_remote()).count() as u64;
            Ok((by_its_rounds(job, call, rounds, limit), messages))
        }
        None => prices.of(job).map(|price| (Some(price), 0)),
    }
}

/// Prices of one call on one machine for any number of elements.
pub(crate) struct CallPrices {
    call: Call,
    /// The rounds by which the call is priced, or None if there are too many ranks for that. They
    /// do not depend on the number of elements.
    rounds: Option<Rc<Rounds>>,
}

impl CallPrices {
    /// Creates the prices of a call. Every job that is priced has the machine, the groups and the
    /// library of this one.
    ///
    /// # Errors
    /// Those of [`price`].
    pub fn new(job: &Job<'_>, call: Call) -> Result<CallPrices, String> {
        let made = || rounds_of(job.library, &call, Limits::default().transfers).map(Rc::new);
        let rounds = if has_few_ranks(job, &call) { Some(made()?) } else { None };
        CallPrices { call, rounds }.routed(job)
    }

    /// Creates the prices of a call of packed trees.
    ///
    /// # Errors
    /// Those of [`price`].
    pub fn of_trees(job: &Job<'_>, call: Call, trees: &PackedUse) -> Result<CallPrices, String> {
        let made = || trees.rounds(job.library, &call, &Limits::default()).map_err(unexpanded);
        let rounds = if has_few_ranks(job, &call) { Some(made()?) } else { None };
        CallPrices { call, rounds }.routed(job)
    }

    /// Returns the prices if every message can pass the relays that it names.
    fn routed(self, job: &Job<'_>) -> Result<CallPrices, String> {
        if let Some(rounds) = &self.rounds {
            routed(job.topology, rounds)?;
        }
        Ok(self)
    }

    /// Returns what [`price`] returns.
    ///
    /// # Errors
    /// Those of [`price`].
    pub fn of(&self, job: &Job<'_>) -> Result<Price, String> {
        if let Some(rounds) = &self.rounds {
            let whole = by_its_rounds(job, &self.call, rounds, f64::INFINITY);
            return whole.ok_or_else(|| "it takes infinitely long".into());
        }
        let p: i64 = self.call.sizes.iter().product();
        continued(job, &self.call, p as u64).or_else(|why| {
            let rounds = rounds_of(job.library, &self.call, MAX_TRANSFERS).map_err(|_| why)?;
            routed(job.topology, &rounds)?;
            let whole = by_its_rounds(job, &self.call, &rounds, f64::INFINITY);
            whole.ok_or_else(|| "it takes infinitely long".into())
        })
    }
}

/// Checks whether a call is priced by its own rounds on the machine itself.
fn has_few_ranks(job: &Job<'_>, call: &Call) -> bool {
    call.sizes.iter().product::<i64>() as u64 <= exact_ranks(job.topology)
}

/// Checks that every message can pass the relays that it names.
fn routed(topology: &Topology, rounds: &Rounds) -> Result<(), String> {
    let lists = rounds.transfers().filter_map(|(_, x)| x.via.as_deref());
    match lists.map(|via| topology.check_relays(via)).find_map(Result::err) {
        Some(fault) => Err(format!("its messages name relays: {}", topology.way_fault(fault))),
        None => Ok(()),
    }
}

/// Returns when ranks take messages in the schedule of a call, and whether the estimate is then a
/// low one ([`Price::low`]).
///
/// A stream takes what it touches, so a stream that only sends waits for nothing that other streams
/// forward. Where cores send, a stream is busy with its messages, and rounds are nearer.
fn receipts(job: &Job<'_>, call: &Call, rounds: &Rounds) -> (Receipts, bool) {
    let settings = job.topology.settings();
    if settings.queues().is_some() {
        // From a queue a rank takes a message in its round.
        return (Receipts::InTheirRound, false);
    }
    if is_packed(job.library, call.alg) {
        return (Receipts::Late, false);
    }
    let several = streams::streams(rounds).iter().any(|s| *s > 0);
    let cores = settings.cores.get_limit().or(settings.cores.put_limit()).is_some();
    (if several && !cores { Receipts::Late } else { Receipts::InTheirRound }, several)
}

/// Returns the price by simulating the rounds, or none if it is more than `limit` nanoseconds.
fn by_its_rounds(job: &Job<'_>, call: &Call, rounds: &Rounds, limit: f64) -> Option<Price> {
    let (receipts, low) = receipts(job, call, rounds);
    let messages = rounds.transfers().filter(|(_, x)| x.is_remote()).count().max(1);
    let all = job.groups.len();
    let simulated_groups = (MAX_MESSAGES / messages).clamp(1, all.max(1));
    let method =
        if simulated_groups < all { Method::SomeGroups(simulated_groups, all) } else { Method::Rounds };
    let SimulatedRounds { ns, sent, busiest_ns } = simulate(job, rounds, receipts, simulated_groups, limit)?;
    let depends = job.topology.is_adaptive() || job.topology.settings().switching().multicast;
    let busiest_ns = if depends { 0.0 } else { busiest_ns };
    let rounds = kbc_rounds::cost(rounds).rounds.into();
    Some(Price { ns, simulated: None, rounds, sent, busiest_ns, method, low })
}

fn rounds_of(library: &Library, call: &Call, transfers: usize) -> Result<Rounds, String> {
    expand(library, call, &Limits { transfers, ..Limits::default() }).map_err(unexpanded)
}

/// Returns why a call has no rounds.
fn unexpanded(found: Diagnostics) -> String {
    let first = found.list.first();
    first.map_or("it has no rounds for this shape".into(), |d| format!("{}: {}", d.code, d.title))
}

/// Returns the price above [`EXACT_RANKS`], extrapolated from smaller relatives.
fn continued(job: &Job<'_>, call: &Call, p: u64) -> Result<Price, String> {
    let dims: Vec<u64> = call.sizes.iter().map(|&s| s as u64).collect();
    let ladder = smaller::relatives(job, &dims, RELATIVE_RANKS)?;
    let [a, b, c] = &ladder[..] else {
        return Err("no estimate: there are too few smaller machines to extrapolate from".into());
    };
    let mut points = vec![];
    for small in [a, b, c] {
        points.push(point(job, call, small, p).map_err(|why| format!("no estimate for {p} ranks: {why}"))?);
    }
    let ranks = [a.ranks, b.ranks, c.ranks];
    let along =
        |get: fn(&Point) -> f64| growth([get(&points[0]), get(&points[1]), get(&points[2])], ranks, p);
    Ok(Price {
        simulated: None,
        ns: along(|x| x.latency) + along(|x| x.transfer),
        rounds: along(|x| x.rounds).round() as u64,
        sent: along(|x| x.sent).round() as u64,
        busiest_ns: 0.0,
        method: Method::Extrapolated(ranks),
        low: false,
    })
}

struct Point {
    latency: f64,
    transfer: f64,
    rounds: f64,
    sent: f64,
}

fn point(job: &Job<'_>, call: &Call, small: &Smaller<'_>, p: u64) -> Result<Point, String> {
    let (ranks, sizes) = (small.ranks, small.sizes.clone());
    let root = call.root.as_ref().map(|r| {
        let at = linear(&call.sizes, r) as u64 * ranks / p;
        coordinates(&sizes, at as i64)
    });
    let call = Call { sizes, root, ..call.clone() };
    match group::is_legal(job.library, &call) {
        Ok(true) => {}
        Ok(false) => return Err(format!("not defined for {ranks}, from which it would be extrapolated")),
        Err(d) => return Err(d.title),
    }
    let rounds = rounds_of(job.library, &call, Limits::default().transfers)?;
    routed(&small.topology, &rounds)?;
    // No finished schedule corrects a low estimate here.
    let receipts = match is_packed(job.library, call.alg) {
        true => receipts(job, &call, &rounds).0,
        false => Receipts::InTheirRound,
    };
    let one = Job { topology: &small.topology, groups: small.groups.clone(), ..job.clone() };
    let messages = rounds.transfers().filter(|(_, x)| x.is_remote()).count().max(1);
    let groups = (MAX_RELATED_MESSAGES / messages).clamp(1, one.groups.len().max(1));
    let whole = |job: &Job<'_>| {
        let endless = || "it takes infinitely long".to_owned();
        simulate(job, &rounds, receipts, groups, f64::INFINITY).ok_or_else(endless)
    };
    let total = whole(&one)?;
    let latency = whole(&Job { elements: 0, ..one })?.ns;
    let count = kbc_rounds::cost(&rounds).rounds;
    Ok(Point { latency, transfer: total.ns - latency, rounds: count.into(), sent: total.sent as f64 })
}

//! The machine as a network for synthesis: devices are members, relays only forward, and
//! bandwidths are whole numbers.

use super::PackedFailure;
use super::memo::NetworkMemo;
use super::phase::PackedRequest;
use kbc_ir::expr::gcd;
use kbc_machine::topology::{DeviceId, Link, Topology};
use kbc_synthesis::{EdgeTiming, Network, NetworkEdge, SynthesisError, Waiting};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of the fastest link to which rates are rounded down, if they are not whole numbers of
/// bytes per second or are too large to be added.
const STEPS: f64 = 1_048_576.0;

/// A network, and what its numbers stand for.
pub struct MachineNetwork {
    /// The network. The ranks of the group come first, in order.
    pub network: Network,
    /// The device or relay that each node is.
    pub nodes: Vec<DeviceId>,
    /// Bytes per second of one unit of capacity.
    pub unit: f64,
    /// Whether rates are rounded down.
    pub rounded: bool,
    /// Largest latency of a link, in nanoseconds.
    pub latency_ns: f64,
    /// Latency and time of a byte on every edge.
    pub timings: Vec<EdgeTiming>,
    /// Whether messages name the relays that they pass. Otherwise they take the routes of the
    /// machine.
    pub via: bool,
    /// When a rank waits for a message. `expand` writes packed algorithms out for each rank. Then a
    /// rank takes a message when it needs it, but takes it from a queue in its round.
    pub waiting: Waiting,
    /// What was made for it so far.
    pub(super) memo: NetworkMemo,
}

/// A link between two nodes of a network: its ends, bytes per second, nanoseconds.
type Edge = (usize, usize, f64, f64);

/// Returns the network of a whole machine, in which node i is device i.
///
/// # Errors
/// Those of [`Network::new`].
pub fn whole_network(topology: &Topology) -> Result<MachineNetwork, SynthesisError> {
    of_links(topology, &usable(topology))
}

/// Returns the network of a whole machine for messages that name the relays that they pass. None if
/// the machine has no relays with numbers.
///
/// # Errors
/// Those of [`Network::new`].
pub fn routed_network(topology: &Topology) -> Result<Option<MachineNetwork>, SynthesisError> {
    if topology.is_package() || topology.node_count() == topology.device_count() || !topology.is_listed() {
        return Ok(None);
    }
    // A message reaches the next node of a route over the link to it if that is the route there.
    let alone = |l: &Link| topology.route_between(l.from, l.to).is_some_and(|r| r.eq([l.id]));
    let links: Vec<Link> = topology.links().filter(alone).collect();
    Ok(Some(MachineNetwork { via: true, ..of_links(topology, &links)? }))
}

/// Returns the network of a whole machine with some of its links.
fn of_links(topology: &Topology, links: &[Link]) -> Result<MachineNetwork, SynthesisError> {
    let nodes = (0..topology.node_count() as u32).map(DeviceId).collect();
    let edge = |l: &Link| {
        let (from, to) = (l.from.0 as usize, l.to.0 as usize);
        (from, to, l.rate.bandwidth, l.rate.latency_ns)
    };
    network(topology, nodes, &links.iter().map(edge).collect::<Vec<_>>(), topology.device_count())
}

impl MachineNetwork {
    /// Returns the bytes of each root of a request: of a rank's block, or of the whole vector.
    pub fn root_bytes(&self, request: &PackedRequest) -> f64 {
        let blocks = if request.collective.has_blocks() { self.network.members().len() } else { 1 };
        request.bytes as f64 / blocks as f64
    }

    /// Returns whether plans are kept in case they are asked for again.
    pub(super) fn keeps_plans(&self) -> bool {
        NetworkMemo::keeps(self.network.members().len())
    }

    /// Returns the relays that a message must name to take a route of the network: as few as
    /// possible, because it takes the route of the machine to the next one.
    pub fn relays(&self, topology: &Topology, route: &[usize]) -> Vec<u32> {
        let mut out = vec![];
        let last = route.len().saturating_sub(1);
        let devices = topology.device_count() as u32;
        let node = |i: usize| self.nodes[route[i]];
        let follows = |from: usize, to: usize| {
            let links = topology.route(node(from), node(to), None);
            // A message that names no relay may take other links.
            if (from, to) == (0, last) && links.clone().any(|l| !links.choices(l).is_empty()) {
                return false;
            }
            links.filter_map(|l| topology.link(l)).map(|l| l.to).eq((from + 1..=to).map(node))
        };
        let mut at = 0;
        while at < last {
            let mut ends = (at + 1..=last).rev().filter(|&to| to == last || node(to).0 >= devices);
            let far = ends.find(|&to| follows(at, to)).unwrap_or(last);
            if far < last {
                out.extend(topology.number_of_relay(node(far)));
            }
            at = far;
        }
        out
    }
}

/// Returns the links over which messages travel between devices that are joined by a link, or by
/// relays alone. Messages take the routes of the machine: a link between two devices carries
/// nothing if another route between them has less latency, and of several switches between two
/// devices all messages pass the same.
///
/// Trees need relays with equal bandwidth in and out. If the routes do not leave that, all links
/// are returned.
fn usable(topology: &Topology) -> Vec<Link> {
    let devices = topology.device_count() as u32;
    let relay = |d: DeviceId| d.0 >= devices;
    if topology.node_count() as u32 == devices {
        return topology.links().filter(|l| topology.hops(l.from, l.to) == 1).collect();
    }
    let mut used = BTreeSet::new();
    for from in (0..devices).map(DeviceId) {
        for to in (0..devices).map(DeviceId).filter(|to| *to != from) {
            let route = topology.possible_links(from, to);
            let passed = route.iter().filter_map(|&id| topology.link(id));
            if passed.map(|l| l.to).all(|node| node == to || relay(node)) {
                used.extend(route);
            }
        }
    }
    let links: Vec<Link> = used.into_iter().filter_map(|id| topology.link(id)).collect();
    let mut surplus = vec![0.0; topology.node_count()];
    for l in &links {
        surplus[l.from.0 as usize] -= l.rate.bandwidth;
        surplus[l.to.0 as usize] += l.rate.bandwidth;
    }
    let balanced = surplus[devices as usize..].iter().all(|s| *s == 0.0);
    if balanced { links } else { topology.links().collect() }
}

/// Checks whether the only group of an axis is the whole machine, in its order.
pub fn is_whole(topology: &Topology, groups: &[Vec<DeviceId>]) -> bool {
    matches!(groups, [all] if all.iter().map(|d| d.0 as usize).eq(0..topology.device_count()))
}

/// Returns the network of each of the groups of an axis, which run at the same time. A group has
/// the links of its own devices. What several groups can reach between switches is divided.
///
/// # Errors
/// Those of [`Network::new`], or a text: groups must have networks that are alike, because all run
/// one algorithm.
pub fn group_network(topology: &Topology, groups: &[Vec<DeviceId>]) -> Result<MachineNetwork, PackedFailure> {
    let whole = topology.device_count();
    if is_whole(topology, groups) {
        return Ok(whole_network(topology)?);
    }
    let links = usable(topology);
    let mut near: BTreeMap<DeviceId, Vec<usize>> = BTreeMap::new();
    for (i, link) in links.iter().enumerate() {
        near.entry(link.from).or_default().push(i);
        near.entry(link.to).or_default().push(i);
    }
    let relay = |d: DeviceId| d.0 as usize >= whole;
    // The nodes of each group: its devices, and the relays that are reached without other devices.
    let found: Vec<BTreeMap<DeviceId, usize>> = groups
        .iter()
        .map(|group| {
            let mut number: BTreeMap<DeviceId, usize> = group.iter().copied().zip(0..).collect();
            let mut order = group.clone();
            let mut at = 0;
            while let Some(node) = order.get(at).copied() {
                at += 1;
                for &i in near.get(&node).into_iter().flatten() {
                    let other = if links[i].from == node { links[i].to } else { links[i].from };
                    if relay(other) && !number.contains_key(&other) {
                        number.insert(other, order.len());
                        order.push(other);
                    }
                }
            }
            number
        })
        .collect();
    let has = |number: &BTreeMap<DeviceId, usize>, i: usize| {
        Some((*number.get(&links[i].from)?, *number.get(&links[i].to)?))
    };
    let mut users = vec![0u32; links.len()];
    for (i, users) in users.iter_mut().enumerate() {
        *users = found.iter().filter(|number| has(number, i).is_some()).count() as u32;
    }
    let edges_of = |number: &BTreeMap<DeviceId, usize>| -> Vec<Edge> {
        let inside = (0..links.len()).filter_map(|i| Some((i, has(number, i)?)));
        let mut edges: Vec<Edge> = inside
            .map(|(i, (from, to))| {
                let rate = &links[i].rate;
                (from, to, rate.bandwidth / f64::from(users[i]), rate.latency_ns)
            })
            .collect();
        edges.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then(a.3.total_cmp(&b.3)));
        edges
    };
    let (Some(first), Some(members)) = (found.first(), groups.first()) else {
        return Err(PackedFailure::Text("the axis has no groups".into()));
    };
    let edges = edges_of(first);
    if found.iter().any(|other| edges_of(other) != edges) {
        return Err(PackedFailure::Text(
            "the groups of the axis are not joined by links that are alike".into(),
        ));
    }
    let mut nodes = vec![DeviceId(0); first.len()];
    first.iter().for_each(|(&device, &i)| nodes[i] = device);
    Ok(network(topology, nodes, &edges, members.len())?)
}

/// Returns a network whose first `members` nodes are members. A link of unlimited bandwidth has as
/// much as all others together.
fn network(
    topology: &Topology,
    nodes: Vec<DeviceId>,
    edges: &[Edge],
    members: usize,
) -> Result<MachineNetwork, SynthesisError> {
    let finite = || edges.iter().map(|e| e.2).filter(|b| b.is_finite());
    let total: f64 = finite().sum();
    let fastest = finite().fold(0.0, f64::max);
    // The sum of a network's capacities is less than 2^64, unlimited links included.
    let links = edges.len() as f64 + 1.0;
    let whole = finite().all(|b| b.fract() == 0.0);
    let (unit, rounded) = match whole.then(|| finite().fold(0, |g, b| gcd(g, b as u64))) {
        Some(unit) if unit > 0 && total / unit as f64 * links < 1e19 => (unit as f64, false),
        _ if fastest > 0.0 => (fastest / STEPS, true),
        _ => (1.0, false),
    };
    let all = (total / unit).floor().max(1.0);
    let capacity = |b: f64| if b.is_finite() { (b / unit).floor() as u64 } else { all as u64 };
    let network = Network::new(nodes.len(), edges.iter().map(|e| (e.0, e.1, capacity(e.2))), 0..members)?;
    let latency_ns = edges.iter().map(|e| e.3).fold(0.0, f64::max);
    let mut latencies: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for e in edges {
        let known = latencies.entry((e.0, e.1)).or_insert(0.0);
        *known = known.max(e.3);
    }
    let timing = |e: &NetworkEdge| EdgeTiming {
        from: e.from,
        to: e.to,
        latency_ns: latencies.get(&(e.from, e.to)).copied().unwrap_or(0.0),
        ns_per_byte: 1e9 / (e.capacity as f64 * unit),
    };
    let timings = network.edges().iter().map(timing).collect();
    let waiting = match topology.settings().queues() {
        Some(_) => Waiting::EachRound,
        None => Waiting::WhenNeeded,
    };
    Ok(MachineNetwork {
        network,
        nodes,
        unit,
        rounded,
        latency_ns,
        timings,
        via: false,
        waiting,
        memo: NetworkMemo::default(),
    })
}

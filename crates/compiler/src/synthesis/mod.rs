//! Synthesis: an algorithm for one machine, made from trees that are packed into its links.
//!
//! `network.rs` turns the machine into a network, the crate `kbc-synthesis` packs trees and orders
//! their messages, and `text.rs` writes the algorithm as `.kb`. The text is compiled and proven
//! like one that was written by hand; nothing here is trusted.

mod network;
mod text;

use crate::failure::{Failure, Outcome};
use kbc_diag::Diagnostic;
use kbc_machine::topology::Topology;
use kbc_synthesis::{
    RateProof, RoundPlan, SpanningPacking, SynthesisError, TreeCollective, TreePacking, best_rate,
    pack_some_trees, pack_spanning_trees, pack_trees, spanning_rounds, tree_rounds,
};
use network::MachineNetwork;
use serde_json::{Value, json};

/// A collective that can be synthesised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackedCollective {
    /// Every rank has the blocks of all.
    AllGather,
    /// Every rank has the reduction of its block.
    ReduceScatter,
    /// Every rank has the reduction of all vectors.
    AllReduce,
    /// Every rank has the vector of the root.
    Broadcast,
    /// The root has the reduction of all vectors.
    Reduce,
}

impl PackedCollective {
    /// All of them.
    pub const ALL: [PackedCollective; 5] = {
        use PackedCollective::*;
        [AllGather, ReduceScatter, AllReduce, Broadcast, Reduce]
    };

    /// Returns its name in programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PackedCollective::AllGather => "all_gather",
            PackedCollective::ReduceScatter => "reduce_scatter",
            PackedCollective::AllReduce => "all_reduce",
            PackedCollective::Broadcast => "broadcast",
            PackedCollective::Reduce => "reduce",
        }
    }

    /// Whether one rank is the root.
    #[must_use]
    pub fn has_root(self) -> bool {
        matches!(self, PackedCollective::Broadcast | PackedCollective::Reduce)
    }
}

/// What to synthesise.
#[derive(Clone, Copy, Debug)]
pub struct SynthesisRequest {
    /// The collective, over all devices of the machine.
    pub collective: PackedCollective,
    /// The root, where there is one.
    pub root: u64,
    /// Trees per root; None takes the number that reaches the best rate, or few trees near it if
    /// that is large. With a number, an all-reduce is a reduce-scatter and an all-gather.
    pub trees: Option<u64>,
    /// Pieces into which the data of a tree is cut; None takes what is fastest for `bytes`.
    pub pieces: Option<u64>,
    /// Bytes of the whole vector.
    pub bytes: u64,
}

/// A synthesised algorithm.
pub struct SynthesizedAlgorithm {
    /// The file: topology, tables, algorithms, and a program that uses them.
    pub text: String,
    /// What was made, line by line.
    pub summary: String,
    /// The same as JSON.
    pub json: Value,
}

/// One phase: trees, and the order of their messages.
enum Phase {
    Trees(TreePacking),
    Spanning(SpanningPacking),
}

/// A phase with its rounds.
struct OrderedPhase {
    collective: PackedCollective,
    phase: Phase,
    plan: RoundPlan,
    /// Pieces of each tree.
    pieces: u64,
}

/// Largest number of messages of a synthesised phase. A schedule without symmetry is written out
/// for every rank, which has a limit of 500,000 transfers.
const MOST_MESSAGES: u128 = 480_000;
/// Messages up to which trees are cut into more pieces by themselves.
const CUT_MESSAGES: u128 = 16_384;
/// Trees per root up to which the best rate is taken as it is.
const MANY_TREES: u128 = 16;
/// Numbers of trees per root that are tried if the optimal number is larger.
const FEW_TREES: [u64; 8] = [1, 2, 3, 4, 5, 8, 12, 16];
/// Share of the best rate with which few trees are enough.
const NEAR: f64 = 0.99;

/// Synthesises an algorithm for all devices of a machine. `source` is the machine as `.kb` says it:
/// a shape with settings, or the name of a machine file in quotation marks.
///
/// # Errors
/// E595: the machine has no such algorithm, or it would be too large; E413: a root that is not a
/// rank.
pub fn synthesize(
    topology: &Topology,
    source: &str,
    request: &SynthesisRequest,
) -> Outcome<SynthesizedAlgorithm> {
    if topology.is_package() {
        let why = "it is a package, whose devices are not joined by links alone";
        return Err(refused(topology, why, CONNECTED));
    }
    let ranks = topology.device_count() as u64;
    if request.collective.has_root() && request.root >= ranks {
        let title = format!("there is no rank {}: the machine has {ranks}", request.root);
        return Err(Failure::Usage(Diagnostic::error("E413", title).help("ranks count from 0").into()));
    }
    let machine = network::network(topology).map_err(|e| failed(topology, e))?;
    let phases = phases(&machine, request).map_err(|e| failed(topology, e))?;
    let summary = summary(topology, &machine, request, &phases);
    let head = format!("Synthesised by `kbc synth`.\n\n{summary}");
    let text = text::file((topology.device_count(), source), request, &phases, &head);
    let file = kbc_diag::FileId::default();
    // The formatter accepts every text that parses.
    let text = crate::format::format(file, "synthesised.kb", &text).map_err(Failure::Program)?;
    Ok(SynthesizedAlgorithm { text, summary, json: certificate(&machine, request, &phases) })
}

/// Returns E595 for an error of the packing, with names of devices in place of numbers of nodes.
fn failed(topology: &Topology, error: SynthesisError) -> Failure {
    let name = |node: usize| match u32::try_from(node) {
        Ok(id) => topology.name(kbc_machine::topology::DeviceId(id)),
        Err(_) => node.to_string(),
    };
    let why = match error {
        SynthesisError::Unreachable { from, to } => {
            format!("no path leads from {} to {}", name(from), name(to))
        }
        SynthesisError::UnbalancedSwitch { node, .. } => {
            format!("{} only forwards, and its links carry less out than in, or the reverse", name(node))
        }
        other => other.to_string(),
    };
    let help = match error {
        SynthesisError::Overflow { .. } => "ask for fewer trees or pieces: --trees 1, --pieces 1",
        _ => CONNECTED,
    };
    refused(topology, &why, help)
}

const CONNECTED: &str =
    "synthesis packs trees into the links of a connected machine with two devices or more";

fn refused(topology: &Topology, why: &str, help: &str) -> Failure {
    let machine = kbc_machine::topology::brief(&topology.to_string());
    let title = format!("no algorithm can be synthesised for {machine}: {why}");
    Diagnostic::error("E595", title).help(help.to_owned()).into()
}

fn phases(machine: &MachineNetwork, request: &SynthesisRequest) -> Result<Vec<OrderedPhase>, SynthesisError> {
    use PackedCollective::{AllGather, AllReduce, ReduceScatter};
    if request.collective != AllReduce {
        return Ok(vec![trees(machine, request, request.collective)?]);
    }
    let composed = || [ReduceScatter, AllGather].into_iter().map(|c| trees(machine, request, c)).collect();
    if request.trees.is_some() {
        return composed();
    }
    match pack_spanning_trees(&machine.network) {
        Ok(packing) if spanning_messages(&packing) <= MOST_MESSAGES => {
            let phase = Phase::Spanning(packing);
            Ok(vec![ordered(AllReduce, phase, machine, request)?])
        }
        Ok(_)
        | Err(
            SynthesisError::UnequalDirections { .. }
            | SynthesisError::ForwardingNode { .. }
            | SynthesisError::Overflow { .. },
        ) => composed(),
        Err(other) => Err(other),
    }
}

fn trees(
    machine: &MachineNetwork,
    request: &SynthesisRequest,
    collective: PackedCollective,
) -> Result<OrderedPhase, SynthesisError> {
    let root = request.root as usize;
    let wanted = match collective {
        PackedCollective::AllGather => TreeCollective::AllGather,
        PackedCollective::ReduceScatter | PackedCollective::AllReduce => TreeCollective::ReduceScatter,
        PackedCollective::Broadcast => TreeCollective::Broadcast { root },
        PackedCollective::Reduce => TreeCollective::Reduce { root },
    };
    let per_tree = machine.network.members().len() as u128 - 1;
    let fits = |packing: &TreePacking| total_trees(packing) * per_tree <= MOST_MESSAGES;
    let packing = match request.trees {
        Some(k) => pack_some_trees(&machine.network, wanted, k)?,
        None => {
            let best = match pack_trees(&machine.network, wanted) {
                Ok(packing) => Some(packing),
                Err(SynthesisError::Overflow { .. }) => None,
                Err(other) => return Err(other),
            };
            let small = |p: &TreePacking| p.roots.iter().all(|r| r.1 <= MANY_TREES) && fits(p);
            match best {
                Some(packing) if small(&packing) => packing,
                best => few_trees(machine, wanted, best.filter(|p| fits(p)), fits)?,
            }
        }
    };
    if !fits(&packing) {
        return Err(SynthesisError::Overflow { what: "the number of messages" });
    }
    ordered(collective, Phase::Trees(packing), machine, request)
}

/// Returns the least number of trees per root whose rate is near the best one, or else the best of
/// what fits.
fn few_trees(
    machine: &MachineNetwork,
    wanted: TreeCollective,
    mut best: Option<TreePacking>,
    fits: impl Fn(&TreePacking) -> bool,
) -> Result<TreePacking, SynthesisError> {
    let most = best_rate(&machine.network, wanted)?.rate.to_f64();
    for k in FEW_TREES {
        let packing = pack_some_trees(&machine.network, wanted, k)?;
        if !fits(&packing) {
            break;
        }
        if packing.rate.to_f64() >= NEAR * most {
            return Ok(packing);
        }
        if best.as_ref().is_none_or(|b| packing.rate > b.rate) {
            best = Some(packing);
        }
    }
    best.ok_or(SynthesisError::Overflow { what: "the number of messages" })
}

fn total_trees(packing: &TreePacking) -> u128 {
    packing.classes.iter().map(|c| c.trees).sum()
}

fn spanning_messages(packing: &SpanningPacking) -> u128 {
    packing.trees * packing.classes.first().map_or(0, |c| 2 * c.edges.len() as u128)
}

/// Orders the messages of a phase. Without a number of pieces, the powers of 2 are tried up to many
/// messages. The estimate of their time is that of rounds one after the other: the largest latency
/// of a link, and a piece on the slowest link that is used.
fn ordered(
    collective: PackedCollective,
    phase: Phase,
    machine: &MachineNetwork,
    request: &SynthesisRequest,
) -> Result<OrderedPhase, SynthesisError> {
    let rounds = |pieces: u64| match &phase {
        Phase::Trees(packing) => tree_rounds(packing, pieces),
        Phase::Spanning(packing) => spanning_rounds(packing, pieces),
    };
    let messages = |plan: &RoundPlan| plan.rounds.iter().map(|r| r.len() as u128).sum::<u128>();
    if let Some(pieces) = request.pieces {
        let plan = rounds(pieces)?;
        if messages(&plan) > MOST_MESSAGES {
            return Err(SynthesisError::Overflow { what: "the number of messages" });
        }
        return Ok(OrderedPhase { collective, phase, plan, pieces });
    }
    let slowest = machine.network.edges().iter().map(|e| e.capacity).min().unwrap_or(1) as f64;
    let blocks = match collective {
        PackedCollective::AllGather | PackedCollective::ReduceScatter => machine.network.members().len(),
        _ => 1,
    };
    let ns = |plan: &RoundPlan| {
        let piece = request.bytes as f64 / (blocks as f64 * plan.pieces as f64);
        plan.rounds.len() as f64 * (machine.latency_ns + piece / (slowest * machine.unit) * 1e9)
    };
    let (mut best, mut pieces) = ((rounds(1)?, 1), 1);
    while 2 * messages(&best.0) * u128::from(pieces) <= CUT_MESSAGES * u128::from(best.1) {
        pieces *= 2;
        let plan = rounds(pieces)?;
        if ns(&plan) < ns(&best.0) {
            best = (plan, pieces);
        }
    }
    let (plan, pieces) = best;
    Ok(OrderedPhase { collective, phase, plan, pieces })
}

/// Returns what a phase is limited by, and its rate in bytes per second: of each rank's block, of
/// the vector of a root, or of the vector of an all-reduce.
///
/// Whole trees of a number that was chosen may be slower than more of them, so the text says of
/// which trees it speaks.
fn limit(machine: &MachineNetwork, phase: &OrderedPhase) -> (f64, String) {
    let gb = |units: f64| format!("{} GB/s", number(units * machine.unit / 1e9));
    match &phase.phase {
        Phase::Spanning(packing) => (
            packing.rate.to_f64() * machine.unit,
            format!(
                "no trees are faster: {} groups of devices are joined by {}, and a tree that joins all \
                 crosses {} times or more",
                packing.parts.len(),
                gb(packing.crossing as f64),
                packing.parts.len() - 1
            ),
        ),
        Phase::Trees(packing) => {
            let per_root = packing.roots.first().map_or(0, |r| r.1);
            let (none, cut, carries) = match &packing.proof {
                RateProof::Cut(cut) => ("no trees are".to_owned(), cut, gb(cut.capacity as f64)),
                RateProof::WholeTrees { cut, .. } => {
                    let none = format!("with {per_root} per root no trees are");
                    (none, cut, format!("{} whole trees at the next higher rate", cut.capacity))
                }
            };
            let data = match phase.collective {
                c if c.has_root() => "all data of the root".to_owned(),
                _ => format!("the data of {} ranks", cut.weight),
            };
            let nodes = cut.nodes.len();
            let why = format!(
                "{none} faster: {data} crosses the boundary of {nodes} nodes, which carries {carries}"
            );
            (packing.rate.to_f64() * machine.unit, why)
        }
    }
}

/// Returns a number with at most three digits after the point.
fn number(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn summary(
    topology: &Topology,
    machine: &MachineNetwork,
    request: &SynthesisRequest,
    phases: &[OrderedPhase],
) -> String {
    let name = kbc_machine::topology::brief(&topology.to_string());
    let mut out = format!("{} on {name}: {} ranks\n", request.collective.name(), topology.device_count());
    if machine.rounded {
        out += "rates of links are rounded down to 1/1048576 of the fastest\n";
    }
    for phase in phases {
        let (rate, why) = limit(machine, phase);
        let of = match phase.collective {
            PackedCollective::AllGather | PackedCollective::ReduceScatter => "per rank",
            _ => "of the vector",
        };
        let (count, shapes, depth) = match &phase.phase {
            Phase::Trees(p) => {
                let per_root = p.roots.first().map_or(0, |r| r.1);
                (format!("{per_root} per root"), p.classes.len(), p.classes.iter().map(|c| c.depth()).max())
            }
            Phase::Spanning(p) => (format!("{} spanning", p.trees), p.classes.len(), None),
        };
        let depth = depth.map_or(String::new(), |d| format!(", depth at most {d}"));
        let messages: usize = phase.plan.rounds.iter().map(Vec::len).sum();
        out += &format!(
            "{}\n  rate: {} GB/s {of}\n  {why}\n  trees: {count}, {shapes} shapes{depth}; \
             pieces of a tree: {}\n  rounds: {}, of which the busiest link needs {}; {messages} messages\n",
            phase.collective.name(),
            number(rate / 1e9),
            phase.pieces,
            phase.plan.rounds.len(),
            phase.plan.least,
        );
    }
    out
}

fn certificate(machine: &MachineNetwork, request: &SynthesisRequest, phases: &[OrderedPhase]) -> Value {
    let phases: Vec<Value> = phases
        .iter()
        .map(|phase| {
            let common = json!({
                "collective": phase.collective.name(),
                "pieces": phase.pieces,
                "rounds": phase.plan.rounds.len(),
                "least_rounds": phase.plan.least as u64,
                "messages": phase.plan.rounds.iter().map(Vec::len).sum::<usize>(),
            });
            let own = match &phase.phase {
                Phase::Trees(p) => text::tree_certificate(p),
                Phase::Spanning(p) => text::spanning_certificate(p),
            };
            let (Value::Object(mut all), Value::Object(own)) = (common, own) else { return Value::Null };
            all.extend(own);
            Value::Object(all)
        })
        .collect();
    json!({
        "schema": 1,
        "command": "synth",
        "ok": true,
        "collective": request.collective.name(),
        "unit_bytes_per_second": machine.unit,
        "rounded": machine.rounded,
        "phases": phases,
    })
}

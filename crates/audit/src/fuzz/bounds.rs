//! Fuzzer of bounds: random programs on random machines with various algorithms. No time may be
//! below a bound, and all schedules of a program on a machine must have the same bound.
//!
//! This module owns the machines (whose scarce resources differ by orders of magnitude), the
//! variants of a program and the comparison. A variant has other algorithms, other pieces, or other
//! streams; its values and their placements are the same.

use super::catalogue::Catalogue;
use super::machine::RandomMachine;
use super::rng::Rng;
use super::{Texts, generate, library};
use kbc_compiler::bounds::{NoObserver, Subject, timed};
use kbc_compiler::build::without_pieces;
use kbc_compiler::simulated::Simulated;
use kbc_diag::{Diagnostics, FileId, Severity, Span};
use kbc_frontend::load::load;
use kbc_frontend::loaded::Loaded;
use kbc_frontend::lower::{LowerOptions, lower};
use kbc_ir::graph::{CollKind, Graph, OpId, OpKind, Using, UsingArg};
use kbc_ir::schedule::Schedule;
use kbc_ir::types::Mesh;
use kbc_ir::{Body, Module, Name};
use kbc_machine::topology::{DeviceId, Direction, ROUTE, Topology};
use kbc_passes::PassCx;
use kbc_passes::pipeline::Pipeline;
use kbc_time::TimeOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of variants of a program beside the one that the compiler chooses.
const VARIANTS: usize = 6;

/// Counts and findings.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of programs made.
    pub tried: u64,
    /// Number of programs that the compiler accepted.
    pub accepted: u64,
    /// Number of schedules timed.
    pub timed: u64,
    /// Number of these schedules that have pieces or streams.
    pub overlapped: u64,
    /// Variants that the compiler or the checker rejected, by code: number, and the message of the
    /// first.
    pub refused: BTreeMap<&'static str, (u64, String)>,
    /// How often each row was the largest, by its text without numbers.
    pub rows: BTreeMap<String, u64>,
    /// The smallest ratio of a time to its bound.
    pub closest: Option<f64>,
    /// Failures: number of the program, text of program and machine, description.
    pub wrong: Vec<(u64, String, String)>,
}

impl Tally {
    /// Formats the counts.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{} programs, {} accepted, {} schedules timed, {} of them with overlapped or split collectives\n",
            self.tried, self.accepted, self.timed, self.overlapped
        );
        for (code, (n, title)) in &self.refused {
            let _ = writeln!(out, "  refused {n}: {code}, the first: {title}");
        }
        for (row, n) in &self.rows {
            let _ = writeln!(out, "  largest row {n}: {row}");
        }
        if let Some(closest) = self.closest {
            let _ = writeln!(out, "  least time: {closest:.9} of its bound");
        }
        let _ = writeln!(out, "{} wrong", self.wrong.len());
        out
    }
}

/// Returns random rates and rules of a machine, so that different resources are scarce.
pub fn settings(rng: &mut Rng, shape: &str) -> String {
    let rate = |rng: &mut Rng| {
        let unit = *rng.pick(&["MB/s", "GB/s", "TB/s"]);
        format!("{} {unit}", *rng.pick(&["1", "3.7", "50", "200", "900"]))
    };
    let latency = |rng: &mut Rng| *rng.pick(&["0 ns", "0.9 ns", "20 ns", "500 ns", "30 us"]);
    let mut parts = vec![format!("link: {}, {}", rate(rng), latency(rng))];
    if rng.chance(60) {
        let flops = *rng.pick(&["0.001 GFLOP/s", "1 GFLOP/s", "1 TFLOP/s", "100 TFLOP/s"]);
        parts.push(format!("device: {flops}, {}", rate(rng)));
    }
    if rng.chance(40) {
        parts.push(format!("vector: {}", rate(rng)));
    }
    for (percent, text) in [
        (15, "compute: shared"),
        (15, "forward: store_and_forward"),
        (8, "forward: drain"),
        (15, "endpoint: 30 ns"),
        (15, "fence: 5 ns"),
        (10, "signal: 64 B"),
        (10, "launch: 1 us"),
    ] {
        let key = text.split(':').next().unwrap_or("");
        if rng.chance(percent) && !parts.iter().any(|p| p.split(':').next() == Some(key)) {
            parts.push(text.to_owned());
        }
    }
    if rng.chance(12) {
        parts.push(format!("round: {}", rng.pick(&["1 ns", "7 ns", "0.01 ns"])));
    }
    if let Ok(topology) = Topology::parse(shape, FileId::default()) {
        if topology.shape().has_switches() && rng.chance(40) {
            let does = *rng.pick(&["reduce, multicast", "reduce", "multicast"]);
            parts.push(format!("switch: {does}"));
        }
        for _ in 0..if rng.chance(40) { 1 + rng.below(3) } else { 0 } {
            let links: Vec<_> =
                topology.links().filter(|l| l.direction == Direction::Plus || rng.chance(50)).collect();
            if links.is_empty() {
                break;
            }
            let link = rng.pick(&links);
            let (from, to) = (topology.name(link.from), topology.name(link.to));
            parts.push(format!("link {from}->{to}: {}, {}", rate(rng), latency(rng)));
        }
        if rng.chance(25) {
            parts.extend(route(&topology, rng).map(|r| format!("{ROUTE}: {r}")));
        }
    }
    format!("{shape} {{ {} }}", parts.join("; "))
}

/// Returns a route between two devices that passes no node twice. None if it found none.
fn route(topology: &Topology, rng: &mut Rng) -> Option<String> {
    let devices = topology.device_count() as u32;
    let mut at = DeviceId(rng.below(devices as usize) as u32);
    let (mut seen, mut path) = (BTreeSet::from([at]), vec![]);
    for _ in 0..4 {
        let open: Vec<_> = topology.links_from(at).into_iter().filter(|l| !seen.contains(&l.to)).collect();
        let Some(link) = (!open.is_empty()).then(|| *rng.pick(&open)) else { break };
        (at, _) = (link.to, seen.insert(link.to));
        path.push(link.id);
    }
    (at.0 < devices && !path.is_empty()).then(|| topology.route_name(&path))
}

/// Returns the graph of a program with the compiler's choices (`which` is 0) or with random ones.
fn varied(catalogue: &Catalogue<'_>, rng: &mut Rng, graph: &Graph, mesh: &Mesh, which: usize) -> Graph {
    let mut out = graph.clone();
    let cuttable = |g: &Graph, id: OpId| {
        let product = |o: &OpId| matches!(g.op(*o).kind, OpKind::Matmul { .. });
        g.operands(id).iter().any(product)
            || g.order().iter().any(|o| product(o) && g.operands(*o).contains(&id))
    };
    let collectives: Vec<(OpId, bool)> = out
        .order()
        .iter()
        .copied()
        .filter(|id| {
            matches!(&out.op(*id).kind, OpKind::Collective(c) if c.own.is_none() && c.kind != CollKind::Slice)
        })
        .map(|id| (id, cuttable(&out, id)))
        .collect();
    for (id, cuttable) in collectives {
        let OpKind::Collective(c) = &mut out.op_mut(id).kind else { continue };
        let Some(axis) = mesh.axis(&c.axis) else { continue };
        let pieces = |rng: &mut Rng| vec![(Name::from("overlap"), UsingArg::Int(1 + rng.below(4) as i64))];
        if which > 0 && !rng.chance(15) {
            let all = catalogue.legal(c.kind.name(), axis, c.root);
            if all.is_empty() {
                continue;
            }
            let alg = Name::from(rng.pick(&all).name.node.as_str());
            let options = if cuttable && rng.chance(60) { pieces(rng) } else { vec![] };
            c.using = Some(Using { alg, args: vec![], options, span: Span::NONE });
        }
    }
    out
}

/// A program as the compiler lowers it, and the same program without overlap if it has any.
struct Variant {
    schedule: Schedule,
    plain: Option<Schedule>,
}

fn lowered(module: &Module, graph: Graph, cx: &PassCx<'_>) -> Result<Variant, Diagnostics> {
    let mut module = Module { body: Body::Graph(graph), ..module.clone() };
    Pipeline::parse("select", Span::NONE.file)?.run(&mut module, cx, &mut [])?;
    let mut plain = module.clone();
    Pipeline::parse("overlap", Span::NONE.file)?.run(&mut module, cx, &mut [])?;
    let changed = cx.findings.borrow().overlap.changed();
    let rest = if cx.topology.is_some_and(|t| t.settings().queues().is_some()) {
        "expand,enqueue"
    } else {
        "expand,allocate,synchronize"
    };
    Pipeline::parse(rest, Span::NONE.file)?.run(&mut module, cx, &mut [])?;
    let plain = if changed {
        if let Body::Graph(graph) = &mut plain.body {
            without_pieces(graph);
        }
        Pipeline::parse("expand", Span::NONE.file)?.run(&mut plain, cx, &mut [])?;
        plain.schedule().cloned()
    } else {
        None
    };
    let schedule = module.schedule().cloned().unwrap_or_else(|| Schedule::new("none", Mesh::default()));
    Ok(Variant { schedule, plain })
}

/// Returns the text of a bottleneck without its numbers and names.
fn row(bottleneck: &str) -> String {
    let word = |w: &str| !w.contains(|c: char| c.is_ascii_digit() || "(){}|".contains(c));
    bottleneck.split(' ').filter(|w| word(w)).collect::<Vec<_>>().join(" ")
}

/// Tries one program on its machine, and returns a description of what is wrong with it, if
/// anything is.
fn one(
    catalogue: &Catalogue<'_>,
    (loaded, machine): (&Loaded, Option<String>),
    rng: &mut Rng,
    tally: &mut Tally,
) -> Option<String> {
    let topology = machine.map(|text| (text, FileId::default()));
    let lower = match lower(loaded, &LowerOptions { topology, ..LowerOptions::default() }) {
        Ok(lower) => lower,
        Err(found) => {
            refused(tally, &found);
            return None;
        }
    };
    let (library, topology) = (lower.library, lower.topology);
    let mut module = lower.module;
    let time = Simulated { topology: &topology };
    let context = || PassCx::new(&library, Some(&topology)).with_time(&time);
    let front = Pipeline::parse("infer,place", Span::NONE.file).ok()?;
    if let Err(found) = front.run(&mut module, &context(), &mut []) {
        refused(tally, &found);
        return None;
    }
    let Body::Graph(graph) = &module.body else { return None };
    tally.accepted += 1;
    let options = TimeOptions { path: false, ..TimeOptions::default() };
    let mut first: Option<(f64, String, String)> = None;
    for which in 0..=VARIANTS {
        let graph = varied(catalogue, rng, graph, &module.mesh, which);
        let used: Vec<String> = graph
            .order()
            .iter()
            .filter_map(|id| match &graph.op(*id).kind {
                OpKind::Collective(c) => Some(match &c.using {
                    Some(u) => format!("{} by {}{:?}{:?}", c.name(), u.alg, u.args, u.options),
                    None => c.name().to_owned(),
                }),
                _ => None,
            })
            .collect();
        let used = used.join(", ");
        let variant = match lowered(&module, graph, &context()) {
            Ok(variant) => variant,
            Err(found) => {
                refused(tally, &found);
                continue;
            }
        };
        let plain = variant.plain.as_ref().unwrap_or(&variant.schedule);
        let subject = Subject { schedule: &variant.schedule, plain };
        tally.timed += 1;
        tally.overlapped += u64::from(variant.plain.is_some());
        let (timing, lower) = match timed(subject, &topology, &options, &mut NoObserver) {
            Ok(found) => found,
            Err(found) => {
                // A variant whose algorithm is wrong for its arguments has no valid time.
                if found.list.iter().all(|d| d.code != "E990") {
                    refused(tally, &found);
                    continue;
                }
                let title = found.list.first().map_or(String::new(), |d| format!("{}: {}", d.code, d.title));
                return Some(format!("{used}: {title}"));
            }
        };
        if lower.ns > 0.0 {
            let over = timing.ns / lower.ns;
            tally.closest = Some(tally.closest.map_or(over, |c| c.min(over)));
            *tally.rows.entry(row(&lower.bottleneck)).or_default() += 1;
        }
        match &first {
            None => first = Some((lower.ns, lower.bottleneck, used)),
            Some((ns, what, other)) => {
                if (lower.ns - ns).abs() > 1e-9 * ns.abs() {
                    return Some(format!(
                        "{used} has a bound of {} ns ({}), {other} one of {ns} ns ({what})",
                        lower.ns, lower.bottleneck
                    ));
                }
            }
        }
    }
    None
}

fn refused(tally: &mut Tally, found: &Diagnostics) {
    let first = found.list.iter().find(|d| d.severity == Severity::Error);
    let (code, title) = first.map_or(("none", String::new()), |d| (d.code, d.title.clone()));
    tally.refused.entry(code).or_insert((0, title)).0 += 1;
}

/// Prefix of the first line of a text, which names its machine. The machine has more settings than
/// a topology of a program.
const MACHINE: &str = "// machine: ";

/// Returns the text of a program and a machine.
pub fn text(catalogue: &Catalogue<'_>, seed: u64, number: u64) -> String {
    let rng = &mut Rng::new(&[seed, number, 3]);
    let (shape, program) = match rng.below(10) {
        0..3 => {
            let machine = RandomMachine::random(rng);
            let program = generate::collectives(catalogue, rng, machine);
            (program.machine.shape.clone(), program.text())
        }
        3..6 => layers(rng),
        _ => {
            let program = generate::generate(catalogue, seed, number);
            (program.machine.shape.clone(), program.text())
        }
    };
    format!("{MACHINE}{}\n{program}", settings(rng, &shape))
}

/// Returns a program of matmuls with collectives before and after them, which can be cut into
/// pieces, and the machine's shape.
fn layers(rng: &mut Rng) -> (String, String) {
    let machine = RandomMachine::random(rng);
    let axis = rng.pick(&machine.mesh.axes).clone();
    let (a, p) = (&axis.name, axis.size);
    let dtype = *rng.pick(&["f32", "bf16", "i32"]);
    let size = |rng: &mut Rng| {
        let n = *rng.pick(&[1, 2, 5, 8, 16, 64]);
        if rng.chance(75) { n * p } else { n + rng.below(9) as u64 }
    };
    let (m, k, h, n) = (size(rng), size(rng), size(rng), size(rng));
    let rows = if rng.chance(50) { format!("{m}@{a}") } else { m.to_string() };
    let x = match rows.contains('@') {
        true => "all_gather(x, dim: 0)",
        false => "x",
    };
    let act = *rng.pick(&["", "relu"]);
    let (inputs, result, body) = match rng.below(4) {
        0 => {
            let inputs = format!("x: {dtype}[{m}, {k}@{a}], w: {dtype}[{k}@{a}, {n}]");
            (inputs, format!("{rows}, {n}"), "matmul(x, w)".to_owned())
        }
        1 => {
            let inputs = format!("x: {dtype}[{rows}, {k}], w: {dtype}[{k}, {n}@{a}]");
            (inputs, format!("{m}, {n}@{a}"), format!("matmul({x}, w)"))
        }
        2 => {
            let inputs = format!("x: {dtype}[{m}, {k}@{a}], w: {dtype}[{k}@{a}, {n}]");
            (inputs, format!("{rows}, {n}"), "matmul(x * x, w) * 2".to_owned())
        }
        _ => {
            let inputs =
                format!("x: {dtype}[{rows}, {k}], v: {dtype}[{k}, {h}@{a}], w: {dtype}[{h}@{a}, {n}]");
            (inputs, format!("{rows}, {n}"), format!("matmul({act}(matmul({x}, v)), w)"))
        }
    };
    let text = format!(
        "topology sys = {}\nmesh m = {}\nprogram layers({inputs}) -> {dtype}[{result}] {{ {body} }}\n",
        machine.shape, machine.view
    );
    (machine.shape, text)
}

/// Tries the program of a text; its variants depend on the seed and the number.
pub fn given(catalogue: &Catalogue<'_>, text: &str, seed: u64, number: u64, tally: &mut Tally) {
    tally.tried += 1;
    let rng = &mut Rng::new(&[seed, number, 4]);
    let mut texts = Texts::default();
    let file = texts.0.add("random.kb", text);
    let (loaded, found) = load(Some((file, text.to_owned())), &mut texts);
    if found.has_errors() {
        return refused(tally, &found);
    }
    let machine = text.lines().next().and_then(|l| l.strip_prefix(MACHINE)).map(str::to_owned);
    let run = AssertUnwindSafe(|| one(catalogue, (&loaded, machine), rng, tally));
    if let Some(what) = catch_unwind(run).unwrap_or_else(|_| Some("a panic".to_owned())) {
        tally.wrong.push((number, text.to_owned(), what));
    }
}

/// Tries the programs with these numbers of a seed.
pub fn programs(seed: u64, numbers: std::ops::Range<u64>, progress: &mut dyn FnMut(&Tally)) -> Tally {
    let loaded = library();
    let catalogue = Catalogue::new(&loaded);
    let mut tally = Tally::default();
    for number in numbers {
        given(&catalogue, &text(&catalogue, seed, number), seed, number, &mut tally);
        progress(&tally);
    }
    tally
}

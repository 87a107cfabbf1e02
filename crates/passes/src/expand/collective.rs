//! Expansion of one collective to a region of a schedule, from the algorithm's text, in the
//! shortest possible form.
//!
//! Three forms are tried in this order: symbolic in rank and step; symbolic in the rank, with the
//! steps unrolled; one role per rank, made from concrete rounds. The last two have limits, which
//! the error states. This module owns the choice, the sizes of windows and the operands of the
//! region. [`super::emit`] and [`super::concrete`] make the operations.

use super::body::{At, Builder, MAX_UNROLLED, Node};
use super::emit::{CORE, Emitter, Marks};
use super::legal::Legal;
use super::options::{self, Options};
use super::promise::promise;
use super::region::{Cx, Fresh, Region as Chunks};
use super::sym::{Evaluator, Ranges, Res, Stop, Sym};
use super::view::{Group, World};
use crate::order::{Within, choose};
use kbc_diag::{Diagnostics, Label, Span};
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::*;
use kbc_ir::types::{CutRule, DType, MemKind, ReduceOp};
use kbc_rounds::ast::AlgorithmDecl;
use kbc_rounds::eval::{AlgRef, Value};
use kbc_rounds::interp::Start;
use kbc_rounds::library::{AlgId, CollId, Library};
use kbc_rounds::rounds::{Call, coordinates};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// An argument of a use.
#[derive(Clone, Debug)]
pub enum Arg {
    /// An integer.
    Int(i64),
    /// The name of an algorithm, or the word of an option.
    Word(String),
}

/// A collective to be expanded.
pub struct Request<'a> {
    /// The declarations.
    pub lib: &'a Library,
    /// The collective.
    pub coll: CollId,
    /// The algorithm.
    pub alg: AlgId,
    /// Parameters and options of the use.
    pub args: &'a [(String, Arg)],
    /// The combiner.
    pub red: ReduceOp,
    /// The root as a linear index.
    pub root: Option<u64>,
    /// The mesh axes over which it runs.
    pub over: Vec<Name>,
    /// Sizes of the coordinate system: one for each part of the axis, or the whole axis.
    pub sizes: Vec<u64>,
    /// Buffers with their lines, in the order of the collective's declaration.
    pub operands: Vec<(BufferId, Line)>,
    /// Largest extent and unit of each line over all ranks.
    pub largest: Vec<(u64, u64)>,
    /// Name of the region.
    pub name: Name,
    /// Its source location.
    pub span: Span,
    /// Results about algorithms that are known so far.
    pub known: &'a Known,
}

/// For each algorithm, shape and parameters: whether one slot per message needs no credit. Each
/// result is computed once and used by all uses.
#[derive(Default)]
pub struct Known(RefCell<BTreeMap<Call, bool>>);

impl Known {
    fn one_slot(&self, r: &Request<'_>) -> bool {
        let call = Call { root: None, ..call(r) };
        if let Some(known) = self.0.borrow().get(&call) {
            return *known;
        }
        let found = choose::one_slot(r.lib, call.alg, &call.sizes, &call.args);
        self.0.borrow_mut().insert(call, found);
        found
    }
}

/// Returns the use as a call for the evaluation to rounds.
pub(super) fn call(r: &Request<'_>) -> Call {
    let decl = r.lib.algorithm(r.alg);
    let sizes: Vec<i64> = r.sizes.iter().map(|s| *s as i64).collect();
    let value = |v: &Arg| match v {
        Arg::Int(i) => Value::Int(*i),
        Arg::Word(w) => Value::Alg(Arc::new(AlgRef { name: w.clone(), file: r.span.file })),
    };
    let own = |n: &str| decl.params.iter().any(|(p, _)| p.node == *n);
    let args = r.args.iter().filter(|(n, _)| own(n)).map(|(n, v)| (n.clone(), value(v))).collect();
    let root = r.root.map(|c| coordinates(&sizes, c as i64));
    Call { alg: r.alg, sizes, root, args }
}

/// Appends the region (with its windows, tables and scratch) to the schedule.
pub fn collective(r: &Request<'_>, out: &mut Schedule) -> Result<(), Diagnostics> {
    let (params, options) = options::split(r)?;
    let on_cores;
    let r = match options.cores {
        1 => r,
        k => {
            on_cores = shared(r, k as u64, out);
            &on_cores
        }
    };
    let mut reasons: Vec<(String, Span)> = vec![];
    for unroll in [false, true] {
        match attempt(r, &params, &options, unroll, out) {
            Ok(()) => return Ok(()),
            Err(Stop::Error(d)) => return Err((*d).into()),
            Err(Stop::NotSymbolic(why, span)) if !reasons.contains(&(why.clone(), span)) => {
                reasons.push((why, span))
            }
            Err(Stop::NotSymbolic(..)) => {}
        }
    }
    super::concrete::collective(r, &options, Marks::of(r, &options, false), out).map_err(|mut d| {
        for e in d.list.iter_mut().filter(|e| e.code == "E331") {
            for (why, span) in &reasons {
                e.notes.push(format!("no symbolic form: {why}"));
                e.labels.push(Label { span: *span, text: "this has none".into() });
            }
            e.notes.push(format!("loops are unrolled up to {MAX_UNROLLED} transfers"));
        }
        d
    })
}

/// Returns the request with its vectors cut among `k` cores at multiples of 64 bytes, so that no
/// two cores write to one cache line. Collectives with blocks keep the boundaries of the blocks,
/// and lanes within a block are cut by elements.
fn shared<'a>(r: &Request<'a>, k: u64, out: &Schedule) -> Request<'a> {
    const LINE: u64 = 64;
    let cut = |(buffer, line): &(BufferId, Line)| match line.parts {
        1 => {
            let unit = LINE / out.buffer(*buffer).dtype.bytes();
            (*buffer, Line { parts: k, rule: CutRule::Lines(unit), ..line.clone() })
        }
        _ => (*buffer, line.clone()),
    };
    Request {
        over: r.over.clone(),
        sizes: r.sizes.clone(),
        operands: r.operands.iter().map(cut).collect(),
        largest: r.largest.clone(),
        name: r.name.clone(),
        ..*r
    }
}

/// Returns the names of the region's coordinates: the algorithm's own if it has as many.
fn region_coordinates(decl: &AlgorithmDecl, sizes: &[u64]) -> Vec<(Name, i64)> {
    sizes
        .iter()
        .enumerate()
        .map(|(i, s)| {
            (
                decl.axes.get(i).map_or_else(|| Name::from(format!("c{i}")), |a| Name::from(&a.coord.node)),
                *s as i64,
            )
        })
        .collect()
}

impl Marks {
    /// Returns the marks that the use needs, given its options and whether other messages imply
    /// credits.
    fn of(r: &Request<'_>, options: &Options, streams: bool) -> Marks {
        let within = if streams { Within::Data } else { Within::Program };
        let implied = match options.slots {
            Some(_) if options.pipeline.max(options.instances).max(options.cores) > 1 => false,
            Some(k) => choose::rotation(r.lib, &call(r), k, within),
            None => r.known.one_slot(r),
        };
        Marks { reuse: !implied, slots: options.slots, pull: options.pull }
    }
}

fn attempt(
    r: &Request<'_>,
    params: &[(String, Sym)],
    options: &Options,
    unroll: bool,
    out: &mut Schedule,
) -> Res<()> {
    let decl = r.lib.algorithm(r.alg);
    let coll = r.lib.collective(r.coll);
    let world = World { coords: region_coordinates(decl, &r.sizes) };
    let mut cx =
        Cx { lib: r.lib, eval: Evaluator::new(r.lib), ranges: Ranges::default(), fresh: Fresh::default() };
    for (n, size) in &world.coords {
        cx.ranges.coord(n, *size);
        cx.fresh.reserve(n);
    }
    for n in out.mesh.axes.iter().map(|a| a.name.as_str()).chain([CALL]) {
        cx.fresh.reserve(n);
    }
    for t in &out.tables {
        cx.fresh.reserve(&t.name);
    }
    let mut b = Builder {
        cx,
        unroll,
        scratch: vec![],
        operands: r.operands.len() as u32,
        transfers: 0,
        depth: 0,
        loops: 0,
        world: world.clone(),
        // Tables of earlier regions are reused.
        tables: out.tables.clone(),
    };
    let group = Rc::new(Group::world(&world, decl));
    let regions = (0..r.operands.len() as u32).map(Chunks::whole).collect();
    let root = r.root.map(|root| {
        let at = world.split(root as i64);
        at.into_iter().map(Expr::Int).collect::<Vec<_>>()
    });
    let nodes = b.algorithm(Start {
        coll: r.coll,
        alg: r.alg,
        args: params.to_vec(),
        root,
        group,
        regions,
        at: At { guard: Expr::Int(1), each: vec![] },
        span: r.span,
        options: options.clone(),
        applied: false,
    })?;
    let lines = r.operands.iter().map(|o| &o.1);
    let scratch = b.scratch.iter().map(|s| &r.operands[s.like as usize].1);
    Legal::new(lines.chain(scratch).collect(), &world, (&out.mesh, &r.over), &b.cx.ranges, &b.tables)
        .nodes(&nodes, &mut vec![])?;
    let streams = nodes.iter().any(|n| matches!(n, Node::Lanes(_)));
    let mut e = Emitter {
        b: &mut b,
        red: r.red,
        windows: vec![],
        first_window: out.windows.len() as u32,
        lanes: vec![],
        region: r.name.clone(),
        marks: Marks::of(r, options, streams),
        stream: 0,
        lane: if options.cores > 1 { CORE } else { "lane" },
        fetched: vec![],
        core: None,
    };
    let main = e.nodes(&nodes, &mut vec![])?;
    let (windows, mut lanes) = (e.windows, e.lanes);
    let (mut main, rounds) = (main, windows.iter().filter_map(|w| w.round.as_ref()).collect::<Vec<_>>());
    if !rounds.is_empty() {
        // The number of messages to each neighbour is known only here.
        let f = |n: &Name| rounds.iter().find(|r| r.name == *n).map(|r| Expr::Int(r.messages));
        for body in lanes.iter_mut().map(|l| &mut l.1).chain([&mut main]) {
            let known = map_exprs(&subst_stmts(body, &f), &Expr::simplify);
            *body = subst_stmts(&known, &|n: &Name| rounds.iter().find_map(|r| r.slot(n)));
        }
    }
    let promise = promise(r.lib, coll, r.root, r.red)?;
    let mut operands: Vec<Operand> = coll
        .buffers
        .iter()
        .zip(&r.operands)
        .map(|(d, (buffer, line))| Operand {
            name: Name::from(&d.name.node),
            buffer: *buffer,
            line: line.clone(),
            scratch: false,
        })
        .collect();
    let dtype = out.buffer(r.operands[0].0).dtype;
    for (i, s) in b.scratch.iter().enumerate() {
        let (like, line) = &r.operands[s.like as usize];
        let copy = Buffer {
            name: format!("{}_{}", r.name, s.name).into(),
            role: BufferRole::Temp,
            global: None,
            ..out.buffer(*like).clone()
        };
        out.buffers.push(copy);
        let buffer = BufferId(out.buffers.len() as u32 - 1);
        let name = if operands.iter().any(|o| o.name == s.name) {
            format!("{}_{i}", s.name).into()
        } else {
            s.name.clone()
        };
        operands.push(Operand { name, buffer, line: line.clone(), scratch: true });
    }
    for (i, w) in windows.iter().enumerate() {
        let like = if w.fits.0 < r.operands.len() as u32 {
            w.fits.0
        } else {
            b.scratch[(w.fits.0 as usize) - r.operands.len()].like
        };
        let capacity = w
            .fits
            .1
            .iter()
            .map(|f| capacity(&r.operands[like as usize].1, r.largest[like as usize], *f))
            .max()
            .unwrap_or(0);
        out.windows.push(window(r, i, dtype, w.slots as u64, capacity, options.memory, w.span));
    }
    out.tables = b.tables;
    let mut streams = vec![Stream { name: MAIN.into(), body: main }];
    streams.extend(lanes.into_iter().map(|(name, body)| Stream { name, body }));
    let after = out.regions.len().checked_sub(1).map(|i| RegionId(i as u32)).into_iter().collect();
    out.regions.push(Region {
        name: r.name.clone(),
        over: r.over.clone(),
        coords: world.coords.iter().map(|(n, s)| (n.clone(), *s as u64)).collect(),
        operands,
        promise: Some(promise),
        label: Some(label(r)),
        after,
        roles: vec![Role { name: "all".into(), ranks: RankSet::All, streams }],
        span: r.span,
    });
    Ok(())
}

/// Returns the algorithm as a use writes it, such as `ring` or `ring(d: -1)`.
pub(super) fn label(r: &Request<'_>) -> String {
    let name = &r.lib.algorithm(r.alg).name.node;
    if r.args.is_empty() {
        return name.clone();
    }
    let args: Vec<String> = r
        .args
        .iter()
        .map(|(n, v)| match v {
            Arg::Int(i) => format!("{n}: {i}"),
            Arg::Word(w) => format!("{n}: {w}"),
        })
        .collect();
    format!("{name}({})", args.join(", "))
}

pub(super) fn window(
    r: &Request<'_>,
    i: usize,
    dtype: DType,
    slots: u64,
    capacity: u64,
    memory: MemKind,
    span: Span,
) -> Window {
    Window {
        name: format!("{}_w{i}", r.name).into(),
        dtype,
        slots,
        capacity,
        memory,
        zero: false,
        offset: None,
        span,
    }
}

/// Returns the largest number of elements of a run of `len` of `den` chunks of a line on any rank,
/// given the line's largest extent and unit.
///
/// A run of evenly cut chunks has at most `ceil(n * len / den)` elements (difference of two
/// ceilings).
pub(super) fn capacity(line: &Line, (extent, unit): (u64, u64), (len, den): (i64, i64)) -> u64 {
    let (len, den, parts) = (len.max(0) as u128, den.max(1) as u128, line.parts as u128);
    let (extent, unit) = (extent as u128, unit as u128);
    if parts <= 1 {
        return (extent * unit * len).div_ceil(den) as u64;
    }
    let scaled = len * parts;
    if let CutRule::Lines(line_of) = line.rule {
        // Every boundary is less than one line away from its even position.
        return ((extent * unit * len).div_ceil(den) + u128::from(line_of) * unit) as u64;
    }
    // The largest number of elements in this many blocks.
    let run = |blocks: u128| match &line.rule {
        CutRule::Lengths(l) => {
            u128::from(l.longest_run(u64::try_from(blocks).unwrap_or(u64::MAX))).min(extent)
        }
        _ => (blocks * extent.div_ceil(parts)).min(extent),
    };
    let elements = if scaled % den == 0 {
        run(scaled / den) * unit
    } else if scaled < den && den % parts == 0 {
        (run(1) * unit * scaled).div_ceil(den)
    } else {
        run(scaled / den + 2) * unit
    };
    elements as u64
}

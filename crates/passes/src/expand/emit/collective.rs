//! Expansion of one collective to a region of a schedule, from the algorithm's text, in the
//! shortest possible form.
//!
//! Three forms are tried in this order: symbolic in rank and step; symbolic in the rank, with the
//! steps unrolled; one role per rank, made from concrete rounds. The last two have limits, which
//! the error states. This module owns the choice, the sizes of windows and the operands of the
//! region. [`super::rounds`] and [`super::concrete`] make the operations.

use super::concrete;
use super::emitter::{CORE, Emitter, Marks};
use super::request::{Request, call, capacity, label, split, window};
use crate::expand::interpret::Region as Chunks;
use crate::expand::interpret::{
    ActiveRanks, Builder, Cx, Evaluator, Group, MAX_UNROLLED, Mover, Node, Options, Ranges, Res, Stop, Sym,
    World, contract, refused,
};
use crate::expand::messages::Legal;
use crate::fresh::FreshNames;
use crate::order::{Within, choose};
use kbc_diag::{Diagnostics, Label, Span};
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_ir::rewrite::{map_exprs, subst_stmts};
use kbc_ir::schedule::*;
use kbc_ir::types::CutRule;
use kbc_rounds::Rounds;
use kbc_rounds::ast::AlgorithmDecl;
use kbc_rounds::interp::Start;
use std::rc::Rc;

/// Appends the region (with its windows, tables and scratch) to the schedule.
pub fn collective(r: &Request<'_>, out: &mut Schedule) -> Result<(), Diagnostics> {
    let (params, options) = split(r)?;
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
    concrete::collective(r, &options, out).map_err(|mut d| {
        for e in d.list.iter_mut().filter(|e| e.code == "E331") {
            for (why, span) in &reasons {
                e.notes.push(format!("no symbolic form: {why}"));
                e.labels.push(Label { span: *span, text: "this has no symbolic form".into() });
            }
            e.notes.push(format!("kbc unrolls loops up to {MAX_UNROLLED} transfers"));
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
    /// credits. `rounds` are those of the use, if they are known.
    pub(super) fn of(r: &Request<'_>, options: &Options, streams: bool, rounds: Option<&Rounds>) -> Marks {
        let within = if streams { Within::Data } else { Within::Program };
        let implied = match options.slots {
            Some(_) if options.pipeline.max(options.instances).max(options.cores) > 1 => false,
            Some(k) => choose::rotation(r.lib, &call(r), k, within),
            None => r.one_slot(rounds),
        };
        Marks { reuse: !implied, slots: options.slots, transfer: options.transfer }
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
    let mut cx = Cx {
        lib: r.lib,
        eval: Evaluator::new(r.lib),
        ranges: Ranges::default(),
        fresh: FreshNames::default(),
    };
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
        bounds: vec![],
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
        at: ActiveRanks { guard: Expr::Int(1), each: vec![] },
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
        marks: Marks::of(r, options, streams, None),
        stream: 0,
        lane: if options.cores > 1 { CORE } else { "lane" },
        fetched: vec![],
        sums: false,
        core: None,
        settles: vec![],
    };
    let main = e.whole_stream(&nodes, &mut vec![])?;
    if options.transfer == Mover::Switch && !e.sums {
        let why = "no rank adds data of several others in one round, in one chunk and for one place, as `each k in 1..p { put [r + k] -> r + k reduce }` does, so switches have nothing to add";
        return Err(Stop::Error(Box::new(refused("transfer", r.span, why))));
    }
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
    let contract = contract(r.lib, coll, r.root, r.red)?;
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
        contract: Some(contract),
        label: Some(label(r)),
        after,
        roles: vec![Role { name: "all".into(), ranks: RankSet::All, streams }],
        span: r.span,
    });
    Ok(())
}

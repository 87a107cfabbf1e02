//! Test of the order analysis against execution: random kernels are completed and then executed at
//! several sizes with a clock for every pair of pipes. A kernel that the analysis accepts has no
//! race in any execution, and no flag out of order.

use crate::kernels;

use kbc_backend_ascend::passes::complete;
use kbc_backend_ascend::profile::{DIALECT, find};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use kbc_tiles::tile::order::{Fault, Finding, Trials, analyse};
use kbc_tiles::tile::*;
use kernels::*;
use std::collections::BTreeMap;

/// Elements of a tile: few, so that loops over tiles have several iterations.
const STEP: u32 = 8;

/// Number of pipes.
const PIPES: usize = Pipe::ALL.len();

/// A linear congruential generator.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}

struct Make {
    rng: Rng,
    /// Variables of the enclosing `for` loops.
    vars: Vec<Name>,
    fresh: usize,
}

impl Make {
    fn offset(&mut self, tiles: bool) -> Expr {
        let base = match self.rng.below(5) {
            0 | 1 => int(0),
            2 => int([4, 8, 24][self.rng.below(3)]),
            3 => match self.vars.last() {
                Some(k) => Expr::Var(k.clone()) * int(8),
                None => v("nranks") * int(8),
            },
            _ => v("count"),
        };
        if tiles { base + v("i") } else { base }
    }

    fn place(&mut self, tiles: bool) -> Gm {
        let offset = self.offset(tiles);
        if self.rng.below(2) == 0 {
            return gm(OUT, int(0), offset);
        }
        let slot = match (self.rng.below(4), self.vars.last()) {
            (0, Some(k)) => Expr::Var(k.clone()),
            (1, _) => v("call").modulo(2),
            (2, _) => int(1),
            _ => int(0),
        };
        gm(W0, slot, offset)
    }

    fn op(&mut self, tiles: bool) -> Op {
        let len = if tiles { v("m") } else { int(i64::from(STEP)) };
        let mut tile = || TileId(self.rng.below(3) as u32);
        let (a, b, c) = (tile(), tile(), tile());
        match self.rng.below(7) {
            0..3 => Op::Load { tile: a, len, from: self.place(tiles) },
            3..5 => Op::Store { to: self.place(tiles), tile: a, len },
            _ => Op::Vector { op: VecOp::Add, dst: a, args: vec![VArg::Tile(b), VArg::Tile(c)], len },
        }
    }

    fn block(&mut self, depth: usize) -> Vec<Stmt> {
        let n = 1 + self.rng.below(4);
        (0..n).flat_map(|_| self.stmt(depth)).collect()
    }

    fn stmt(&mut self, depth: usize) -> Vec<Stmt> {
        let index = int(0);
        match self.rng.below(if depth < 3 { 9 } else { 3 }) {
            0 | 1 => {
                let n = 1 + self.rng.below(3);
                let mut body: Vec<Stmt> = (0..n).map(|_| Stmt::Op(self.op(true))).collect();
                if self.rng.below(4) == 0 {
                    let cond = Expr::bin(BinOp::Gt, v("i"), int(3));
                    let then = vec![Stmt::Op(self.op(true))];
                    body.insert(self.rng.below(body.len()), Stmt::If { cond, then, other: vec![] });
                }
                let total = [v("count"), int(20), int(8)][self.rng.below(3)].clone();
                vec![Stmt::Tiles {
                    pos: "i".into(),
                    len: "m".into(),
                    total,
                    step: STEP,
                    twice: false,
                    rows: None,
                    body,
                }]
            }
            2 | 3 => vec![Stmt::Op(self.op(false))],
            4 | 5 => {
                self.fresh += 1;
                let var: Name = format!("k{}", self.fresh).into();
                self.vars.push(var.clone());
                let body = self.block(depth + 1);
                self.vars.pop();
                vec![Stmt::For { var, lo: int(self.rng.below(2) as i64), hi: v("nranks"), body }]
            }
            6 => {
                let cond = match self.vars.last() {
                    Some(k) => Expr::Var(k.clone()).modulo(2),
                    None => v("count").modulo(2),
                };
                let other = if self.rng.below(2) == 0 { self.block(depth + 1) } else { vec![] };
                vec![Stmt::If { cond, then: self.block(depth + 1), other }]
            }
            7 => {
                let release = (self.rng.below(4) > 0).then_some(Stmt::Op(Op::Release));
                let notify = Op::Notify { peer: int(0), signals: SignalsId(0), index };
                release.into_iter().chain([Stmt::Op(notify)]).collect()
            }
            _ => {
                let wait = Op::Wait { signals: SignalsId(0), index, value: int(1) };
                let acquire = (self.rng.below(3) > 0).then_some(Stmt::Op(Op::Acquire));
                [Stmt::Op(wait)].into_iter().chain(acquire).collect()
            }
        }
    }

    fn kernel(seed: u64) -> Kernel {
        let mut m = Make { rng: Rng(seed), vars: vec![], fresh: 0 };
        for _ in 0..3 {
            m.rng.below(2);
        }
        // Lowering always puts a release before a notify, so the test does the same.
        let mut k = frame(fenced(m.block(0)));
        k.tiles = ["a", "b", "c"].map(|n| tile(n, DType::F32, STEP)).to_vec();
        k.signals.push(Signals { name: "s".into(), count: int(1), per_call: int(1), at: None });
        k.areas.push(area("w0", v("nranks") + int(2), Reach::Peers, 0));
        k
    }
}

/// Puts a release before every notify.
fn fenced(list: Vec<Stmt>) -> Vec<Stmt> {
    let mut out: Vec<Stmt> = vec![];
    for s in list {
        match s {
            Stmt::Op(Op::Notify { .. }) if out.last() != Some(&Stmt::Op(Op::Release)) => {
                out.extend([Stmt::Op(Op::Release), s]);
            }
            Stmt::For { var, lo, hi, body } => out.push(Stmt::For { var, lo, hi, body: fenced(body) }),
            Stmt::If { cond, then, other } => {
                out.push(Stmt::If { cond, then: fenced(then), other: fenced(other) });
            }
            s => out.push(s),
        }
    }
    out
}

/// A memory cell: one copy of a tile, or an element of an object's slot.
type Cell = (u8, u32, i64, i64);
/// An operation: its pipe and its number there.
type Did = (usize, u64);

/// An execution: what each pipe knows to be over, and which operations touched each cell.
#[derive(Default)]
struct Run {
    vars: BTreeMap<Name, i64>,
    issued: [u64; PIPES],
    /// By pipe: the operations of every pipe that are over before it starts another.
    over: [[u64; PIPES]; PIPES],
    cells: BTreeMap<Cell, (Vec<Did>, Vec<Did>)>,
    flags: BTreeMap<(Pipe, Pipe, u8), [u64; PIPES]>,
    waited: BTreeMap<(Pipe, Pipe, u8), Did>,
    /// Number of transfers so far, of drained ones, and of published ones.
    moved: u64,
    drained: u64,
    published: u64,
    pending_wait: bool,
    steps: usize,
    /// Whether the second copies are in use, in a loop whose tiles alternate; and to which copies
    /// flags belong.
    second: bool,
    /// Tiles that take a turn, each with its copy.
    turns: Vec<(TileId, i64)>,
}

impl Run {
    fn value(&self, e: &Expr) -> i64 {
        e.eval(&|n: &Name| self.vars.get(n).copied()).expect("a value")
    }

    fn knows(&self, pipe: Pipe, did: Did) -> bool {
        self.over[pipe as usize][did.0] >= did.1
    }

    fn touch(&mut self, pipe: Pipe, me: Did, cell: Cell, write: bool) -> Result<(), String> {
        let over = self.over[pipe as usize];
        let (reads, writes) = self.cells.entry(cell).or_default();
        let ordered = |d: &Did| *d == me || over[d.0] >= d.1;
        let clear = writes.iter().all(ordered) && (!write || reads.iter().all(ordered));
        if write {
            // Accesses ordered before this write are also ordered before everything that is ordered
            // after it.
            (*reads, *writes) = (vec![], vec![me]);
        } else {
            reads.push(me);
        }
        if clear { Ok(()) } else { Err(format!("{} at {cell:?} is not ordered", DIALECT.pipe(pipe))) }
    }

    fn block(&mut self, list: &[Stmt]) -> Result<(), String> {
        for s in list {
            match s {
                Stmt::Let { name, value } => {
                    let value = self.value(value);
                    self.vars.insert(name.clone(), value);
                }
                Stmt::For { var, lo, hi, body } => {
                    for k in self.value(lo)..self.value(hi) {
                        self.vars.insert(var.clone(), k);
                        self.block(body)?;
                    }
                }
                Stmt::Tiles { pos, len, total, step, twice, rows: _, body } => {
                    let (total, around) = (self.value(total), self.second);
                    for i in (0..total).step_by(*step as usize) {
                        self.vars.insert(pos.clone(), i);
                        self.vars.insert(len.clone(), (total - i).min(i64::from(*step)));
                        if *twice {
                            self.second = i / i64::from(*step) % 2 == 1;
                        }
                        self.block(body)?;
                    }
                    // Flags after a loop in a turn belong to the copy of the turn again.
                    self.second = around;
                }
                Stmt::If { cond, then, other } => {
                    if self.value(cond) != 0 {
                        self.block(then)?;
                    } else {
                        self.block(other)?;
                    }
                }
                Stmt::Turn { tiles, by, body } => {
                    let copy = self.value(by).rem_euclid(2);
                    let (second, before) = (std::mem::replace(&mut self.second, copy == 1), self.turns.len());
                    self.turns.extend(tiles.iter().map(|t| (*t, copy)));
                    self.block(body)?;
                    self.turns.truncate(before);
                    self.second = second;
                }
                Stmt::Task { body, .. } => self.block(body)?,
                Stmt::Note { .. } => {}
                Stmt::Op(op) => self.op(op).map_err(|e| format!("{e}: {op:?}"))?,
            }
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<(), String> {
        self.steps += 1;
        match op {
            Op::Barrier(Barrier::All) => {
                self.over = [self.issued; PIPES];
                self.drained = self.moved;
                self.pending_wait = false;
            }
            Op::Barrier(Barrier::Pipe(p)) => self.over[*p as usize][*p as usize] = self.issued[*p as usize],
            Op::MemoryBarrier => self.published = self.drained,
            Op::SetFlag { from, to, event } => {
                let flag = (*from, *to, if self.second { *event + TURN } else { *event });
                if let Some(last) = self.waited.get(&flag)
                    && last.0 != *from as usize
                    && !self.knows(*from, *last)
                {
                    return Err("set early".into());
                }
                let mut over = self.over[*from as usize];
                over[*from as usize] = self.issued[*from as usize];
                if self.flags.insert(flag, over).is_some() {
                    return Err("set twice".into());
                }
            }
            Op::WaitFlag { from, to, event } => {
                let flag = (*from, *to, if self.second { *event + TURN } else { *event });
                let over = self.flags.remove(&flag).ok_or("not set")?;
                let to = *to as usize;
                (0..PIPES).for_each(|p| self.over[to][p] = self.over[to][p].max(over[p]));
                self.issued[to] += 1;
                self.waited.insert(flag, (to, self.issued[to]));
            }
            Op::Notify { .. } if self.published != self.moved => return Err("not published".into()),
            Op::Notify { .. } => {}
            Op::Wait { .. } => self.pending_wait = true,
            Op::Load { .. }
            | Op::Store { .. }
            | Op::Vector { .. }
            | Op::LoadBlock { .. }
            | Op::Move { .. }
            | Op::Matmul { .. }
            | Op::StoreBlock { .. } => {
                if self.pending_wait {
                    return Err("before the wait is over".into());
                }
                let pipe = op.pipe().expect("it has one");
                if pipe == Pipe::Matmul {
                    // The matrix unit executes its operations one after another.
                    self.over[pipe as usize][pipe as usize] = self.issued[pipe as usize];
                }
                self.issued[pipe as usize] += 1;
                let me = (pipe as usize, self.issued[pipe as usize]);
                let copy = i64::from(self.second);
                let block = |run: &Run, t: &TileId| {
                    let turn = run.turns.iter().rev().find(|(u, _)| u == t);
                    (0, t.0, turn.map_or(0, |(_, copy)| *copy), 0)
                };
                let mut touched: Vec<(Cell, bool)> = vec![];
                match op {
                    Op::Load { tile, len, from: g } | Op::Store { to: g, tile, len } => {
                        self.moved += 1;
                        let write = matches!(op, Op::Store { .. });
                        touched.push(((0, tile.0, copy, 0), !write));
                        let object = if let Object::Area(_) = g.object { 2 } else { 1 };
                        let (slot, at, n) = (self.value(&g.slot), self.value(&g.offset), self.value(len));
                        touched.extend((at..at + n).map(|e| ((object, 0, slot, e), write)));
                    }
                    Op::Vector { dst, args, .. } => {
                        let tile = |a: &VArg| if let VArg::Tile(t) = a { Some(t.0) } else { None };
                        touched.extend(args.iter().filter_map(tile).map(|t| ((0, t, copy, 0), false)));
                        touched.push(((0, dst.0, copy, 0), true));
                    }
                    Op::LoadBlock { tile, .. } => touched.push((block(self, tile), true)),
                    Op::Move { dst, src, .. } => {
                        touched.extend([(block(self, src), false), (block(self, dst), true)]);
                    }
                    Op::Matmul { dst, left, right, .. } => {
                        touched.extend([left, right].map(|t| (block(self, t), false)));
                        touched.push((block(self, dst), true));
                    }
                    Op::StoreBlock { tile, .. } => {
                        touched.extend([(block(self, tile), false), ((1, 0, 0, 0), true)]);
                    }
                    _ => {}
                }
                touched.into_iter().try_for_each(|(cell, write)| self.touch(pipe, me, cell, write))?;
            }
            other => return Err(format!("{other:?} in a completed kernel")),
        }
        Ok(())
    }
}

/// Executes a kernel at several sizes. Returns the number of operations executed, or the first
/// error.
fn execute(k: &Kernel) -> Result<usize, String> {
    let mut steps = 0;
    for nranks in [0, 1, 2, 3] {
        for count in [0, 5, 8, 27] {
            let mut run = Run::default();
            for (n, value) in [("rank", 1), ("call", 3), ("nranks", nranks), ("count", count)] {
                run.vars.insert(n.into(), value);
            }
            run.block(&k.body).map_err(|e| format!("nranks {nranks}, count {count}: {e}"))?;
            if !run.flags.is_empty() {
                return Err("flags are left".into());
            }
            steps += run.steps;
        }
    }
    Ok(steps)
}

#[test]
fn completed_kernels_have_no_race_in_any_execution() {
    let profile = find("a2a3").expect("a profile");
    let (mut steps, mut raced) = (0, 0);
    for seed in 0..120 {
        let plain = Make::kernel(seed * 7919);
        raced += usize::from(execute(&plain).is_err());
        let mut k = plain;
        complete(&mut k, profile).unwrap_or_else(|d| panic!("{seed}: {:#?}", d.list));
        assert_eq!(analyse(&k), [], "{seed}\n{}", short(&k));
        steps += execute(&k).unwrap_or_else(|e| panic!("{seed}: {e}\n{}", text::print(&k)));
    }
    assert!(steps > 10_000 && raced > 60, "{steps} operations, {raced} kernels in need");
}

/// After any line is removed or moved, a kernel that the analysis still accepts executes without a
/// race.
#[test]
fn what_the_analysis_accepts_after_a_change_has_no_race() {
    let profile = find("a2a3").expect("a profile");
    let (mut refused, mut accepted, mut raced) = (0, 0, 0);
    for seed in 0..16 {
        let mut whole = Make::kernel(seed * 104_729 + 1);
        complete(&mut whole, profile).expect("a kernel that can be completed");
        for (at, op) in path::ops(&whole) {
            let mut changed = vec![];
            if op.orders() {
                let mut k = whole.clone();
                path::remove(&mut k, &at);
                if let Op::SetFlag { .. } = op {
                    path::remove(&mut k, &at);
                }
                changed.push(k);
            }
            // Moves the line up by one.
            if let Some(up) = at.last().filter(|i| **i > 0) {
                let mut k = whole.clone();
                let mut to = at.clone();
                *to.last_mut().expect("a place") = up - 1;
                if let Some(s) = path::remove(&mut k, &at) {
                    path::insert(&mut k, &to, [s]);
                    changed.push(k);
                }
            }
            for k in changed {
                let result = execute(&k);
                if analyse(&k).is_empty() {
                    accepted += 1;
                    result.unwrap_or_else(|e| panic!("{seed}: {e}\n{}", text::print(&k)));
                } else {
                    refused += 1;
                    raced += usize::from(result.is_err());
                }
            }
        }
    }
    assert!(accepted > 20 && refused > 200, "{accepted} accepted, {refused} refused");
    // Most rejected kernels do go wrong at one of the few sizes.
    assert!(raced * 2 > refused, "{raced} of {refused}");
}

/// Returns a random matmul in panels and slices, some of which have turns: which tiles take turns,
/// by what, under which conditions panels are loaded, and how many there are.
fn panels(seed: u64) -> Kernel {
    let mut rng = Rng(seed);
    rng.below(2);
    let turns = [0, 1, 2, 3].map(|_| rng.below(4) > 0);
    let mut by = |pos: &str| match rng.below(4) {
        0 => "count".to_owned(),
        1 => "0".to_owned(),
        2 => format!("j / 8 + {pos} / 8"),
        _ => format!("{pos} / 8"),
    };
    let (by_a, by_c, by_b) = (by("q"), by("q"), by("s"));
    let mut load = || ["1", "j == 0", "q == 0", "count > 8 || j == 0"][rng.below(4)];
    let (load_a, load_c) = (load(), load());
    let copies = turns.map(|t| if t { " copies 2" } else { "" });
    let mut text = format!(
        "tile 1\nkernel @k aic\nscalar nranks\nscalar count\nscalar call\n\
         tensor %x : f32[10000] in 0\ntensor %y : f32[10000] out 0\n\
         tile $a : f32[16 x 16] l1{}\ntile $c : f32[16 x 16] l1{}\n\
         tile $b : f32[16 x 16] l0a{}\ntile $d : f32[16 x 16] l0b{}\ntile $e : f32[16 x 16] l0c\n\nbody\n",
        copies[0], copies[1], copies[2], copies[2]
    );
    let mut depth = 1;
    let line = |text: &str, open: bool, depth: &mut usize| {
        let out = format!("{}{text}\n", "  ".repeat(*depth));
        *depth += usize::from(open);
        out
    };
    text += &line("tiles j, n in nranks * 8 by 8", true, &mut depth);
    let row = depth;
    text += &line("tiles q, k in count by 8", true, &mut depth);
    for (turn, tiles, by, cond, load) in [
        (turns[0], "$a", &by_a, load_a, "load.block $a[16, 16] = %x[0] pitch 16"),
        (turns[1], "$c", &by_c, load_c, "load.block $c[16, 16] = %x[0] pitch 16"),
    ] {
        if turn {
            text += &line(&format!("turn {tiles} by {by}"), true, &mut depth);
        }
        text += &line(&format!("if {cond}"), true, &mut depth);
        text += &line(load, false, &mut depth);
        depth -= 1;
    }
    text += &line("tiles s, t in k by 4", true, &mut depth);
    if turns[2] {
        text += &line(&format!("turn $b, $d by {by_b}"), true, &mut depth);
    }
    for op in ["move $b[16, 16] = $a[0, 0]", "move $d[16, 16] = $c[0, 0]"] {
        text += &line(op, false, &mut depth);
    }
    text += &line("matmul $e[16, 16] = $b, $d over 16", false, &mut depth);
    let mut depth = row;
    text += &line("store.block %y[0] pitch 16 = $e[16, 16]", false, &mut depth);
    parse(&text, kbc_diag::FileId(0)).unwrap_or_else(|d| panic!("{text}\n{:#?}", d.list))
}

/// Completed matmuls in panels have no race in any execution, and neither has any that the analysis
/// accepts after a change: a line of synchronisation less, one higher, or one lower.
#[test]
fn panels_have_no_race_in_any_execution() {
    let profile = find("a2a3").expect("a profile");
    let (mut steps, mut refused, mut accepted, mut raced) = (0, 0, 0, 0);
    for seed in 0..30 {
        let mut whole = panels(seed * 7919 + 5);
        assert!(execute(&whole).is_err(), "{seed}");
        complete(&mut whole, profile).unwrap_or_else(|d| panic!("{seed}: {:#?}", d.list));
        assert_eq!(analyse(&whole), [], "{seed}\n{}", text::print(&whole));
        steps += execute(&whole).unwrap_or_else(|e| panic!("{seed}: {e}\n{}", text::print(&whole)));
        for (at, op) in path::ops(&whole) {
            let mut changed = vec![];
            if op.orders() {
                let mut k = whole.clone();
                path::remove(&mut k, &at);
                changed.push(k);
                // A flag and what follows it, which is its wait if the two are a pair.
                let mut k = whole.clone();
                path::remove(&mut k, &at);
                path::remove(&mut k, &at);
                changed.push(k);
            }
            for by in [-1, 1] {
                let mut to = at.clone();
                let last = to.last_mut().expect("a place");
                let Ok(place) = u32::try_from(i64::from(*last) + by) else { continue };
                *last = place;
                let mut k = whole.clone();
                if let Some(s) = path::remove(&mut k, &at) {
                    path::insert(&mut k, &to, [s]);
                    changed.push(k);
                }
            }
            for k in changed {
                let result = execute(&k);
                if analyse(&k).is_empty() {
                    accepted += 1;
                    result.unwrap_or_else(|e| panic!("{seed}: {e}\n{}", text::print(&k)));
                } else {
                    refused += 1;
                    raced += usize::from(result.is_err());
                }
            }
        }
    }
    assert!(steps > 5_000 && accepted > 100, "{steps} operations, {accepted} accepted");
    assert!(refused > 800 && raced * 3 > refused, "{raced} of {refused}");
}

/// Returns the findings of the analysis. A loop whose iterations leave other events set is named by
/// its first operation, which may be the one that is left out; so its place does not count.
fn findings(k: &Kernel) -> Vec<Finding> {
    let mut all = analyse(k);
    all.iter_mut().filter(|f| matches!(f.fault, Fault::Differ(_))).for_each(|f| f.at.clear());
    all
}

/// A trial without a line says what the analysis of the kernel without it says, also after other
/// lines were left out.
#[test]
fn trials_say_what_the_analysis_says() {
    let profile = find("a2a3").expect("a profile");
    let (mut needed, mut unneeded) = (0, 0);
    for seed in 0..40 {
        let mut whole = Make::kernel(seed * 15_485_863 + 2);
        complete(&mut whole, profile).expect("a kernel that can be completed");
        // More synchronisation than is needed: some lines a second time.
        let mut rng = Rng(seed);
        let lines: Vec<(path::Path, Op)> =
            path::ops(&whole).into_iter().map(|(at, op)| (at, op.clone())).collect();
        for (at, op) in lines.into_iter().rev() {
            let twice = rng.below(2) == 0 && matches!(op, Op::Barrier(_) | Op::MemoryBarrier);
            let more: &[Op] = match op {
                op if twice => &[op],
                Op::Load { .. } | Op::Store { .. } if rng.below(3) == 0 => &[Op::Barrier(Barrier::All)],
                _ => continue,
            };
            path::insert(&mut whole, &at, more.iter().cloned().map(Stmt::Op));
        }
        // A kernel that had findings before may keep them.
        let waits = |(_, op): &(path::Path, &Op)| matches!(op, Op::WaitFlag { .. });
        let lost = path::ops(&whole).into_iter().find(waits).filter(|_| seed % 3 == 0);
        if let Some(at) = lost.map(|(at, _)| at) {
            path::replace(&mut whole, &at, path::blank());
        }
        let mut trials = Trials::new(&whole);
        let mut shorter = whole.clone();
        for (at, op) in path::ops(&whole) {
            if !op.orders() {
                continue;
            }
            let known = findings(&shorter);
            let old = path::replace(&mut shorter, &at, path::blank()).expect("a line");
            let less = findings(&shorter);
            let fits = less.iter().all(|f| known.contains(f));
            assert_eq!(trials.leave_out(&[&at], |_| false), fits, "{seed} {at:?}\n{}", text::print(&whole));
            if fits {
                unneeded += 1;
            } else {
                needed += 1;
                path::replace(&mut shorter, &at, old);
            }
        }
    }
    assert!(needed > 200 && unneeded > 50, "{needed} needed, {unneeded} not");
}

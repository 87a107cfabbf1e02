//! Several cores per rank: one kernel that all of them run, each with its own number.
//!
//! The streams of a region are merged by [`super::lanes`]. Other work of a program is divided if it
//! is a single loop over tiles (cut at lines of 64 bytes); otherwise the first core does it.
//! Between parts that are divided differently the cores meet: they wait for each other, by counters
//! like those of other ranks.

use super::address::{self, add, mul, sub};
use super::lanes::{CORE_BARRIERS, Merged, THIS, WorkDivision};
use super::state::Lower;
use crate::tile::visit::{each_in, each_of};
use crate::tile::{CALL, CORE, LINE, Object, Op, RANK, SignalsId, Stmt};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::schedule::{Operand, Ref, Region, SOp, SStmt};
use kbc_ir::types::CutRule;

impl Lower<'_, '_> {
    /// Lowers a part of the program, divided among the cores if possible, after the meeting that it
    /// needs.
    pub(super) fn divided<E>(&mut self, f: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        if self.cores == 1 || !self.on_vector_cores() {
            return f(self);
        }
        self.build.open();
        let done = f(self);
        let list = self.build.close();
        done?;
        let quiet = |s: &Stmt| matches!(s, Stmt::Note { .. } | Stmt::Let { .. });
        match list.last() {
            None => {}
            Some(Stmt::Tiles { .. }) if list[..list.len() - 1].iter().all(quiet) => self.parts(list),
            Some(_) => {
                self.core_barrier(WorkDivision::Other);
                let cond = Expr::var(CORE).equals(Expr::Int(0));
                self.build.push(Stmt::If { cond, then: list, other: vec![] });
            }
        }
        Ok(())
    }

    /// Checks whether what follows is for vector cores.
    fn on_vector_cores(&self) -> bool {
        !self.several || self.task == Some(crate::tile::Core::Vector)
    }

    /// Adds names followed by one loop over tiles, of which every core has a part.
    fn parts(&mut self, list: Vec<Stmt>) {
        let unit = list.last().map_or(LINE, |s| self.line_of(s));
        let straight = list.last().and_then(straight);
        self.core_barrier(straight.map_or(WorkDivision::Other, |total| WorkDivision::Parts { total, unit }));
        let mut renamed: Vec<(Name, Expr)> = vec![];
        for mut s in list {
            each_in(std::slice::from_mut(&mut s), &mut |e| {
                *e = e.subst(&|n| renamed.iter().rev().find(|(m, _)| m == n).map(|(_, v)| v.clone()));
            });
            match s {
                Stmt::Let { name, value } => {
                    let value = self.build.name_it(name.as_str(), &value);
                    renamed.push((name, value));
                }
                Stmt::Tiles { pos, len, total, step, twice, rows, mut body } => {
                    let (cores, core) = (Expr::Int(self.cores.into()), Expr::var(CORE));
                    let edge = |core: &Expr| address::cut(&CutRule::Lines(unit), &total, core, &cores);
                    let (lo, hi) = (edge(&core), edge(&add(&core, &Expr::Int(1))));
                    let begin = self.build.name_it("begin", &lo);
                    let size = self.build.name_it("mine", &sub(&hi, &begin));
                    let moved = add(&begin, &Expr::Var(pos.clone()));
                    each_in(&mut body, &mut |e| {
                        *e = e.subst(&|n| (*n == pos).then(|| moved.clone())).simplify();
                    });
                    self.build.push(Stmt::Tiles { pos, len, total: size, step, twice, rows, body });
                }
                other => self.build.push(other),
            }
        }
    }

    /// Returns the number of elements of a line in the narrowest memory that a loop over tiles
    /// touches.
    fn line_of(&self, s: &Stmt) -> u64 {
        let Stmt::Tiles { body, .. } = s else { return LINE };
        let width = |s: &Stmt| match s {
            Stmt::Op(Op::Load { from: g, .. } | Op::Store { to: g, .. }) => Some(match g.object {
                Object::Tensor(t) => self.storage.tensors[t.0 as usize].dtype.bytes(),
                Object::Area(a) => self.storage.areas[a.0 as usize].dtype.bytes(),
            }),
            _ => None,
        };
        LINE / body.iter().filter_map(width).min().unwrap_or(1)
    }

    /// Returns how the lanes of a region divide its operands: [`WorkDivision::Parts`] if each core
    /// has the same part of all of them.
    pub(super) fn lanes_of(&self, region: &Region, merged: &Merged) -> WorkDivision {
        let mut used: Vec<&Ref> = vec![];
        let lane = |r: &Ref| match r {
            Ref::Chunk { path, .. } => path.first().is_some_and(|p| {
                p.index == Expr::var(THIS) && p.len == Expr::Int(1) && p.of == Expr::Int(self.cores.into())
            }),
            Ref::Slot { .. } => true,
        };
        if merged.windows.is_empty() || !places(&merged.body, &mut used) || !used.iter().all(|r| lane(r)) {
            return WorkDivision::Other;
        }
        let mut all: Option<WorkDivision> = None;
        for r in used {
            let Ref::Chunk { operand, .. } = r else { continue };
            let Operand { line, buffer, .. } = &region.operands[operand.0 as usize];
            let CutRule::Lines(unit) = line.rule else { return WorkDivision::Other };
            // The first element of a part is not the first one of its memory.
            if self.pieces.contains_key(buffer) {
                return WorkDivision::Other;
            }
            if line.parts != u64::from(self.cores) {
                return WorkDivision::Other;
            }
            let total = mul(&self.expr(&line.unit), &self.expr(&line.extent));
            let this = WorkDivision::Parts { total, unit };
            if *all.get_or_insert_with(|| this.clone()) != this {
                return WorkDivision::Other;
            }
        }
        all.unwrap_or(WorkDivision::Other)
    }

    /// Adds a meeting: all cores complete what precedes before any of them continues. Nothing is
    /// added if what follows is divided in the same way as what precedes.
    pub(super) fn core_barrier(&mut self, next: WorkDivision) {
        let apart =
            self.since != WorkDivision::Nothing && (self.since != next || next == WorkDivision::Other);
        self.since = next;
        if !apart || self.cores == 1 {
            return;
        }
        self.core_barriers += 1;
        let value = add(&mul(&Expr::var(CALL), &Expr::var(CORE_BARRIERS)), &Expr::Int(self.core_barriers));
        let [here, on] = self.core_barrier_signals.map(SignalsId);
        let me = || Expr::var(RANK);
        let op = Stmt::Op;
        let notify = |signals, index| op(Op::Notify { peer: me(), signals, index });
        let wait = |signals, index| op(Op::Wait { signals, index, value: value.clone() });
        self.build.push(Stmt::Note { place: String::new(), text: "cores wait for each other".into() });
        self.build.push(op(Op::Release));
        self.build.open();
        let other = self.build.fresh("c");
        let all = Stmt::For {
            var: other.clone(),
            lo: Expr::Int(1),
            hi: Expr::Int(self.cores.into()),
            body: vec![wait(here, Expr::Var(other))],
        };
        self.build.extend(vec![all, op(Op::Acquire), op(Op::Release), notify(on, Expr::Int(0))]);
        let then = self.build.close();
        let other = vec![notify(here, Expr::var(CORE)), wait(on, Expr::Int(0))];
        self.build.push(Stmt::If { cond: Expr::var(CORE).equals(Expr::Int(0)), then, other });
        self.build.push(op(Op::Acquire));
    }
}

/// Collects the places of all transfers. Returns false if anything else touches memory.
fn places<'s>(list: &'s [SStmt], out: &mut Vec<&'s Ref>) -> bool {
    list.iter().all(|s| match s {
        SStmt::For { body, .. } => places(body, out),
        SStmt::If { then, other, .. } => places(then, out) && places(other, out),
        SStmt::Op(SOp::Local(_), _) => false,
        SStmt::Op(op, _) => {
            out.extend(op.refs());
            true
        }
    })
}

/// Returns the number of elements of a loop over tiles, if the loop takes the same elements of
/// everything that it touches.
fn straight(s: &Stmt) -> Option<Expr> {
    let Stmt::Tiles { pos, total, body, .. } = s else { return None };
    let at = Expr::Var(pos.clone());
    body.iter()
        .all(|s| match s {
            Stmt::Op(Op::Load { from: g, .. } | Op::Store { to: g, .. }) => {
                g.offset == at && g.slot == Expr::Int(0) && g.peer.is_none()
            }
            Stmt::Op(op) => {
                // The numbers of vector operations must not contain the position.
                let mut places = true;
                each_of(&mut op.clone(), &mut |e| places &= *e != at);
                places
            }
            _ => false,
        })
        .then(|| total.clone())
}

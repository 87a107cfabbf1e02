//! Pass `fetch-in-place`: peers fetch data from where it lies, and not from a copy in the window.
//!
//! In a pulled message the sender copies data to a slot of its window, from which receivers fetch
//! it. Where ranks share memory, the copy costs as much as the message. The pass removes the copy
//! if the slots of an area only repeat an input, or a temporary area that is complete by then:
//!
//! * One loop copies data to the area, and nothing else writes to it. All others only fetch.
//! * **Every call writes the same slots, and no wait is before that loop in a call.** The schedule
//!   is proven free of races for any number of calls, so the copies of a call come after all
//!   fetches of the call before. What orders them can only be what this rank has waited for in that
//!   call. So all fetches are over when the call ends, and whoever writes the input for the next
//!   call writes it after them. This holds for messages with `transfer: rendezvous`, which wait for
//!   it at the end of a call, and wherever other messages imply it.
//!
//! An input that peers fetch has to be in the window. The program around the kernel puts it there.
//! A fetch from slot `s` of a peer becomes one from the place that the peer copied to that slot.
//! The place is computed from the loop of the copies, with the number of the peer for that of the
//! rank. Traces at some sizes compare each fetch with the copy that it replaces, and the pass
//! leaves a kernel alone in which one of them differs.
//!
//! What is left before the first notifies of a call are then copies that no peer reads, such as
//! that of an input to a result. The notifies come before them, so that peers need not wait for
//! these.

use crate::in_place::{MOST_EVENTS, TRACED, forget, remove, writes};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::name::Name;
use kbc_tiles::tile::trace::{Launch, Loops, MemoryPlace, TraceEvent, TraceProgram};
use kbc_tiles::tile::visit::{each_in, each_op};
use kbc_tiles::tile::{
    Area, AreaId, CALL, COUNT, Gm, Kernel, NRANKS, Object, Op, RANK, Reach, Stmt, TensorUse,
};
use std::collections::BTreeMap;

/// Removes copies until there is none to remove.
pub fn run(kernel: &mut Kernel) {
    let areas = kernel.areas.len();
    while let Some(next) = (0..kernel.areas.len()).find_map(|i| without(kernel, AreaId(i as u32))) {
        *kernel = next;
    }
    if kernel.areas.len() < areas {
        notify_first(kernel);
    }
}

/// Moves the first releases and notifies of a call before statements that write nothing that peers
/// read.
fn notify_first(kernel: &mut Kernel) {
    let Some(first) = kernel.body.iter().position(only_notifies) else { return };
    let mut local = true;
    each_op(&kernel.body[..first], &mut |op| {
        local &= match op.place() {
            Some((Gm { object: Object::Area(a), .. }, true)) => kernel.area(*a).reach == Reach::Own,
            Some(_) => true,
            None => {
                !matches!(op, Op::Wait { .. } | Op::Notify { .. } | Op::Release | Op::Acquire | Op::Complete)
            }
        }
    });
    if !local {
        return;
    }
    let end = kernel.body[first..].iter().take_while(|s| only_notifies(s)).count() + first;
    let mut moved: Vec<Stmt> = kernel.body.drain(first..end).collect();
    let at = kernel.body[..first].iter().rposition(|s| {
        let Stmt::Let { name, .. } = s else { return false };
        let mut mentioned = false;
        each_in(&mut moved, &mut |e| mentioned |= e.mentions(name));
        mentioned
    });
    let at = at.map_or(0, |i| i + 1);
    kernel.body.splice(at..at, moved);
}

/// Whether a statement does nothing but release and notify.
fn only_notifies(stmt: &Stmt) -> bool {
    let mut signals = 0;
    let mut others = false;
    each_op(std::slice::from_ref(stmt), &mut |op| match op {
        Op::Release | Op::Notify { .. } => signals += 1,
        _ => others = true,
    });
    signals > 0 && !others
}

/// Whether statements only name things.
fn is_nothing(list: &[Stmt]) -> bool {
    list.iter().all(|s| matches!(s, Stmt::Let { .. } | Stmt::Note { .. }))
}

/// A loop that copies data to the slots of an area, or to another memory.
#[derive(Clone)]
struct CopyLoop {
    /// Where the data comes from.
    source: Object,
    /// The slot.
    slot: Expr,
    /// The element of the source that becomes the first one of the slot. Both are in names of the
    /// launch, and in variables of `loops`.
    base: Expr,
    /// The variables of the loops around it.
    loops: Vec<Name>,
}

impl CopyLoop {
    /// Returns the element of the source that is the first one of a slot of a peer.
    fn place(&self, slot: &Expr, peer: &Expr) -> Option<Expr> {
        let here = |e: &Expr| e.subst(&|n| (n.as_str() == RANK).then(|| peer.clone())).simplify();
        let used: Vec<&Name> =
            self.loops.iter().filter(|n| self.slot.mentions(n) || self.base.mentions(n)).collect();
        match used[..] {
            [] => Some(here(&self.base)),
            [var] => {
                let rest = here(&without_term(&self.slot, var)?);
                let value = (slot.clone() - rest).simplify();
                let rank = peer.clone();
                let at = |n: &Name| match n.as_str() {
                    RANK => Some(rank.clone()),
                    _ => (n == var).then(|| value.clone()),
                };
                Some(self.base.subst(&at).simplify())
            }
            _ => None,
        }
    }
}

/// Returns a sum without one of its terms, a variable that it mentions nowhere else.
fn without_term(e: &Expr, var: &Name) -> Option<Expr> {
    let rest = match e {
        Expr::Var(n) if n == var => Expr::Int(0),
        Expr::Bin(BinOp::Add, a, b) => match (a.mentions(var), b.mentions(var)) {
            (true, false) => without_term(a, var)? + (**b).clone(),
            (false, true) => (**a).clone() + without_term(b, var)?,
            _ => return None,
        },
        Expr::Bin(BinOp::Sub, a, b) if a.mentions(var) && !b.mentions(var) => {
            without_term(a, var)? - (**b).clone()
        }
        _ => return None,
    };
    Some(rest.simplify())
}

/// Names of a block: those of `let` with their values, and variables of loops.
type NameValues = Vec<(Name, Option<Expr>)>;

/// Returns an expression with the values of names in their place.
fn resolved(e: &Expr, known: &NameValues) -> Expr {
    e.subst(&|n| known.iter().rev().find(|k| k.0 == *n).and_then(|k| k.1.clone())).simplify()
}

/// Returns the kernel without the copies to an area, if peers can fetch from their source.
fn without(kernel: &Kernel, area: AreaId) -> Option<Kernel> {
    if kernel.area(area).reach != Reach::Peers || kernel.root.is_some() {
        return None;
    }
    // Few areas are written before the first wait, so the others cost little.
    let (top, found) = publication(kernel, area)?;
    if stores(&kernel.body, Object::Area(area)) != 1 {
        return None;
    }
    let found = forwarded(kernel, top, found);
    // Slots that alternate are written again after two calls: fetches may last until then.
    let mut turns = found.slot.mentions(CALL) || found.base.mentions(CALL);
    each_in(&mut [kernel.body[top].clone()], &mut |e| turns |= e.mentions(CALL));
    let (before, after) = kernel.body.split_at(top);
    let complete = match found.source {
        Object::Tensor(t) => kernel.tensor(t).access == TensorUse::In,
        Object::Area(a) => {
            let Area { reach, slots, .. } = kernel.area(a);
            *reach == Reach::Own && *slots == Expr::Int(1) && writes(before, found.source) && {
                !writes(after, found.source)
            }
        }
    };
    if !complete || turns {
        return None;
    }
    let mut out = kernel.clone();
    out.body = Replacing { area, found: &found, kernel }.list(&kernel.body, &mut vec![])?;
    match found.source {
        Object::Tensor(t) => out.tensors[t.0 as usize].reach = Reach::Peers,
        Object::Area(a) => {
            // Peers may still read it where the rank itself no longer does.
            let arena = out.areas.iter().map(|a| a.arena).max().unwrap_or(0) + 1;
            let source = &mut out.areas[a.0 as usize];
            (source.reach, source.arena) = (Reach::Peers, arena);
        }
    }
    remove(&mut out, area);
    let moved = match found.source {
        Object::Area(a) if a.0 > area.0 => Object::Area(AreaId(a.0 - 1)),
        other => other,
    };
    agree((kernel, area, found.source), (&out, moved)).then_some(out)
}

/// Returns the loop that copies data to an area before the first wait of a call, if it has the form
/// that is understood, and the number of the statement of the body that contains it.
fn publication(kernel: &Kernel, area: AreaId) -> Option<(usize, CopyLoop)> {
    let (to, mut known) = (Object::Area(area), vec![]);
    let before = kernel.body.iter().take_while(|s| !waits(s)).enumerate();
    before.map(|(top, s)| Some((top, copy_loop(s, to, &mut known, &mut vec![])?))).find_map(|found| found)
}

/// Whether a statement has a wait.
fn waits(stmt: &Stmt) -> bool {
    let mut found = false;
    each_op(std::slice::from_ref(stmt), &mut |op| found |= matches!(op, Op::Wait { .. }));
    found
}

/// Returns how many operations write to a memory.
fn stores(list: &[Stmt], to: Object) -> usize {
    let mut found = 0;
    each_op(list, &mut |op| {
        found += usize::from(op.place().is_some_and(|(place, writes)| writes && place.object == to));
    });
    found
}

/// Returns copies from an input, if the source of copies is itself a copy of one: nothing else has
/// written to it so far. The copy of the input may be conditional, or of a part of it. The elements
/// that it leaves out are undefined then, and a proven schedule publishes no undefined elements.
fn forwarded(kernel: &Kernel, top: usize, of: CopyLoop) -> CopyLoop {
    let mut known = vec![];
    let filled = kernel.body[..top].iter().find_map(|s| copy_loop(s, of.source, &mut known, &mut vec![]));
    match filled {
        Some(CopyLoop { source: source @ Object::Tensor(t), slot: Expr::Int(0), base, loops })
            if stores(&kernel.body[..=top], of.source) == 1
                && loops.is_empty()
                && kernel.tensor(t).access == TensorUse::In =>
        {
            let base = (base + of.base.clone()).simplify();
            CopyLoop { source, base, ..of }
        }
        _ => of,
    }
}

/// Returns the loop in a statement that copies data to a memory.
fn copy_loop(stmt: &Stmt, to: Object, known: &mut NameValues, loops: &mut Vec<Name>) -> Option<CopyLoop> {
    let inside = |list: &[Stmt], known: &mut NameValues, loops: &mut Vec<Name>| {
        let names = known.len();
        let found = list.iter().find_map(|s| copy_loop(s, to, known, loops));
        known.truncate(names);
        found
    };
    match stmt {
        Stmt::Let { name, value } => {
            let value = resolved(value, known);
            known.push((name.clone(), Some(value)));
            None
        }
        Stmt::For { var, body, .. } => {
            known.push((var.clone(), None));
            loops.push(var.clone());
            let found = inside(body, known, loops);
            loops.pop();
            known.pop();
            found
        }
        Stmt::If { then, other, .. } => inside(then, known, loops).or_else(|| inside(other, known, loops)),
        Stmt::Tiles { pos, len, rows: None, body, .. } => {
            let (Stmt::Op(Op::Load { tile, len: loaded, from }), rest) = body.split_first()? else {
                return None;
            };
            let is = |e: &Expr, name: &Name| matches!(e, Expr::Var(n) if n == name);
            // What is stored is what was loaded.
            let store = rest.iter().find_map(|s| match s {
                Stmt::Op(Op::Store { to: place, tile: t, len: n }) if t == tile && is(n, len) => {
                    (place.object == to).then_some(place)
                }
                _ => None,
            })?;
            let copies = rest.iter().all(|s| matches!(s, Stmt::Op(Op::Store { .. })));
            let own = from.peer.is_none() && store.peer.is_none() && from.slot == Expr::Int(0);
            if !copies || !own || !is(loaded, len) || !is(&store.offset, pos) {
                return None;
            }
            let base = resolved(&without_term(&from.offset, pos)?, known);
            let slot = resolved(&store.slot, known);
            Some(CopyLoop { source: from.object, slot, base, loops: loops.clone() })
        }
        Stmt::Tiles { .. } | Stmt::Turn { .. } | Stmt::Task { .. } | Stmt::Note { .. } | Stmt::Op(_) => None,
    }
}

/// The replacement of an area by the source of its copies.
struct Replacing<'k> {
    kernel: &'k Kernel,
    area: AreaId,
    found: &'k CopyLoop,
}

impl Replacing<'_> {
    /// Returns statements that fetch from the source, without the copies; nothing if one of them
    /// reads the area in a way that is not understood.
    fn list(&self, list: &[Stmt], names: &mut Vec<Name>) -> Option<Vec<Stmt>> {
        let mut out: Vec<Stmt> = vec![];
        let outer = names.len();
        for stmt in list {
            match stmt {
                Stmt::Op(op) => out.extend(self.operation(op, names)?.map(Stmt::Op)),
                Stmt::Let { name, .. } => {
                    names.push(name.clone());
                    out.push(stmt.clone());
                }
                Stmt::Tiles { pos, len, total, step, twice, rows, body } => {
                    let around = names.len();
                    names.extend([pos.clone(), len.clone()]);
                    let mut body = self.list(body, names)?;
                    names.truncate(around);
                    if let [Stmt::Op(Op::Load { .. })] = &body[..] {
                        // Nothing uses what the copy loaded. Its note says where it came from.
                        if matches!(out.last(), Some(Stmt::Note { .. })) {
                            out.pop();
                        }
                        continue;
                    }
                    let (total, step, twice, rows) = (total.clone(), *step, *twice, rows.clone());
                    if let Some(name) = self.named(&mut body, [pos, len], names) {
                        names.push(name.0.clone());
                        out.push(Stmt::Let { name: name.0, value: name.1 });
                    }
                    let (pos, len) = (pos.clone(), len.clone());
                    out.push(Stmt::Tiles { pos, len, total, step, twice, rows, body });
                }
                Stmt::For { var, lo, hi, body } => {
                    names.push(var.clone());
                    let body = self.list(body, names)?;
                    names.pop();
                    if !is_nothing(&body) {
                        let (var, lo, hi) = (var.clone(), lo.clone(), hi.clone());
                        out.push(Stmt::For { var, lo, hi, body });
                    }
                }
                Stmt::If { cond, then, other } => {
                    let (then, other) = (self.list(then, names)?, self.list(other, names)?);
                    if !is_nothing(&then) || !is_nothing(&other) {
                        out.push(Stmt::If { cond: cond.clone(), then, other });
                    }
                }
                Stmt::Turn { tiles, by, body } => {
                    let body = self.list(body, names)?;
                    out.push(Stmt::Turn { tiles: tiles.clone(), by: by.clone(), body });
                }
                Stmt::Task { name, core, cores, body } => {
                    let body = self.list(body, names)?;
                    out.push(Stmt::Task { name: name.clone(), core: *core, cores: *cores, body });
                }
                Stmt::Note { .. } => out.push(stmt.clone()),
            }
        }
        names.truncate(outer);
        forget(&mut out);
        Some(out)
    }

    /// Returns an operation that fetches from the source; nothing in the place of the store of the
    /// copies.
    fn operation(&self, op: &Op, names: &[Name]) -> Option<Option<Op>> {
        let mut op = op.clone();
        match op.place() {
            Some((g, true)) if g.object == Object::Area(self.area) => return Some(None),
            Some((g, false)) if g.object == Object::Area(self.area) => {
                if !matches!(op, Op::Load { .. }) {
                    return None;
                }
                let peer = g.peer.clone()?;
                let first = self.found.place(&g.slot, &peer)?;
                self.is_known(&first, names).then_some(())?;
                let offset = (first + g.offset.clone()).simplify();
                *op.place_mut()? =
                    Gm { object: self.found.source, slot: Expr::Int(0), offset, peer: Some(peer) };
            }
            _ => {}
        }
        Some(Some(op))
    }

    /// Checks whether an expression mentions only names of the launch, and of this place.
    fn is_known(&self, e: &Expr, names: &[Name]) -> bool {
        let mut known = true;
        e.vars(&mut |n| {
            let launched = [RANK, NRANKS, COUNT, CALL].contains(&n.as_str());
            known &= launched || self.kernel.scalars.contains(n) || names.contains(n);
        });
        known
    }

    /// Gives the first element of a fetch of a loop over tiles a name before the loop, if it is the
    /// same in all of its iterations.
    fn named(&self, body: &mut [Stmt], [pos, len]: [&Name; 2], names: &[Name]) -> Option<(Name, Expr)> {
        let [Stmt::Op(Op::Load { from, .. }), ..] = body else { return None };
        if from.object != self.found.source || from.peer.is_none() {
            return None;
        }
        let first = without_term(&from.offset, pos)?;
        if matches!(first, Expr::Int(_) | Expr::Var(_)) || first.mentions(len) {
            return None;
        }
        let name = (1..).map(|i| Name::from(format!("there_{i}"))).find(|n| self.is_new(n, names))?;
        from.offset = Expr::Var(name.clone()) + Expr::Var(pos.clone());
        Some((name, first))
    }

    fn is_new(&self, name: &Name, names: &[Name]) -> bool {
        let mut body = self.kernel.body.clone();
        let mut mentioned = names.contains(name) || self.kernel.scalars.contains(name);
        each_in(&mut body, &mut |e| mentioned |= e.mentions(name));
        !mentioned
    }
}

/// A run of elements that was copied to a slot: its first element there, the number of elements,
/// and the first element in the source.
type CopiedRun = (i64, i64, i64);

/// Compares, at some sizes, each fetch from a slot with what was copied there: the source has to be
/// the one that the changed kernel fetches from. There has to be such a size with a fetch.
fn agree((before, area, source): (&Kernel, AreaId, Object), (after, moved): (&Kernel, Object)) -> bool {
    let (Ok(before), Ok(after)) = (TraceProgram::new(before), TraceProgram::new(after)) else {
        return false;
    };
    let mut fetched = 0;
    for nranks in TRACED.0 {
        for count in TRACED.1 {
            let launch = |rank| {
                let scalars = [(Name::from(COUNT), count)].into();
                Launch { nranks, rank, core: 0, call: 1, scalars }
            };
            let traces: Result<Vec<_>, _> =
                (0..nranks).map(|r| before.trace(&launch(r), Loops::Unrolled, MOST_EVENTS)).collect();
            let Ok(traces) = traces else { continue };
            let mut copied: BTreeMap<(i64, i64), Vec<CopiedRun>> = BTreeMap::new();
            for (rank, events) in (0..).zip(&traces) {
                // Where tiles, and runs in other memories, come from in the source.
                let (mut loaded, mut held) = (BTreeMap::new(), BTreeMap::new());
                for event in events {
                    match event {
                        TraceEvent::Load { tile, from, len } => {
                            let known = held.get(&(from.object, from.slot, from.offset));
                            let origin = match from.peer {
                                Some(_) => None,
                                None if from.object == source => Some(from.offset),
                                None => known.and_then(|(origin, n)| (len <= n).then_some(*origin)),
                            };
                            loaded.insert(*tile, origin);
                        }
                        TraceEvent::Store { to, tile, len } => {
                            let origin = loaded.get(tile).copied().flatten();
                            if to.object != Object::Area(area) {
                                let place = (to.object, to.slot, to.offset);
                                held.remove(&place);
                                held.extend(origin.map(|at| (place, (at, *len))));
                                continue;
                            }
                            let Some(at) = origin else { return false };
                            copied.entry((rank, to.slot)).or_default().push((to.offset, *len, at));
                        }
                        _ => {}
                    }
                }
            }
            // Others may fetch from the source already.
            let of_slot = |(place, peer, len): (MemoryPlace, i64, i64)| -> Option<Fetch> {
                if place.object == source {
                    return Some((peer, place.offset, len));
                }
                let runs = copied.get(&(peer, place.slot))?;
                let of = |r: &&CopiedRun| r.0 <= place.offset && place.offset + len <= r.0 + r.1;
                let run = runs.iter().find(of)?;
                Some((peer, run.2 + place.offset - run.0, len))
            };
            let objects = [Object::Area(area), source];
            let wanted: Option<Vec<Vec<Fetch>>> =
                traces.iter().map(|events| fetches(events, &objects).map(of_slot).collect()).collect();
            // Elements that nobody copied: this size is none of the kernel's.
            let Some(wanted) = wanted else { continue };
            for (rank, wanted) in (0..).zip(wanted) {
                let Ok(changed) = after.trace(&launch(rank), Loops::Unrolled, MOST_EVENTS) else {
                    return false;
                };
                let moved = [moved];
                let got = fetches(&changed, &moved).map(|(place, peer, len)| (peer, place.offset, len));
                if got.collect::<Vec<Fetch>>() != wanted {
                    return false;
                }
                fetched += wanted.len();
            }
        }
    }
    fetched > 0
}

/// Elements that are fetched: the peer, the first element, and their number.
type Fetch = (i64, i64, i64);

/// Returns the places at peers from which a trace loads, the peers, and the numbers of elements.
fn fetches<'e>(
    events: &'e [TraceEvent<'_>],
    objects: &'e [Object],
) -> impl Iterator<Item = (MemoryPlace, i64, i64)> + 'e {
    events.iter().filter_map(move |event| match event {
        TraceEvent::Load { from, len, .. } if objects.contains(&from.object) && *len > 0 => {
            Some((*from, from.peer?, *len))
        }
        _ => None,
    })
}

//! Hazard model: what operations touch and on which pipe, shared by pass `flags` and the verifier.
//!
//! The module owns the sites of a kernel (its operations with their paths, accesses and loops), and
//! decides whether two accesses can conflict. The order that a path establishes between them is the
//! subject of [`super::order`].
//!
//! Memory consists of tiles, each treated as a whole, and of the tensors and areas of this rank, by
//! element. Accesses to a peer's window are not part of the model: the checker of schedules has
//! shown that none of them conflicts with another access between two fences, and fences become
//! barriers of all pipes.

use super::apart::stores_apart;
use super::path::Path;
use super::{Gm, Kernel, Object, Op, Pipe, Stmt, TileId};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use std::collections::BTreeSet;
use std::ops::Range;

/// An event of a pair of pipes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PipeEvent {
    /// The pipe that sets it.
    pub from: Pipe,
    /// The pipe that waits for it.
    pub to: Pipe,
    /// Number of the event among those of this pair of pipes.
    pub number: u8,
}

/// The object of an access.
#[derive(Clone, PartialEq, Debug)]
pub enum Touched {
    /// A copy of a tile: the first one, or (`true`) the second one where tiles take turns.
    Tile(TileId, bool),
    /// A run of elements of this rank's memory.
    Run {
        /// The memory.
        object: Object,
        /// Slot of an area.
        slot: Expr,
        /// Number of the first element.
        offset: Expr,
        /// Number of elements.
        len: Expr,
    },
    /// A block of a matrix in this rank's memory, treated as the whole slot.
    Block {
        /// The memory.
        object: Object,
        /// Slot of an area.
        slot: Expr,
    },
    /// An event: a wait consumes it, and the next set must come after that.
    Event(PipeEvent),
}

/// One access of an operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Access {
    /// The object.
    pub touched: Touched,
    /// Whether it writes.
    pub write: bool,
}

/// An operation of the kernel with its position and accesses. An operation of a loop whose tiles
/// take turns, or of a turn, has a site for each copy.
#[derive(Debug)]
pub struct Site<'k> {
    /// Path of the operation.
    pub path: Path,
    /// The operation.
    pub op: &'k Op,
    /// Accesses of the operation.
    pub accesses: Vec<Access>,
    /// Whether the flags at the site belong to second copies.
    pub other: bool,
}

/// A loop of the kernel.
#[derive(Debug)]
pub struct Loop {
    /// For a loop over tiles: names of position and length, and the elements of a full tile. If its
    /// tiles hold rows, then the same in rows. If tiles take turns, an iteration of the model has
    /// two tiles, the second of which begins one full tile later.
    tiles: Vec<(Name, Name, i64)>,
    /// Whether the tiles of the loop take turns.
    twice: bool,
    /// Names that have a different value in each iteration.
    bound: BTreeSet<Name>,
}

/// The statements of a kernel, with its operations numbered as sites in text order.
#[derive(Debug)]
pub enum Node {
    /// An operation, by the number of its site.
    Op(usize),
    /// A loop: its number, its sites, its body.
    Loop(usize, Range<usize>, Vec<Node>),
    /// The second tile of an iteration, which may be missing in the last one: its sites and
    /// statements.
    Perhaps(Range<usize>, Vec<Node>),
    /// A branch: the sites of both sides, then each side.
    If(Range<usize>, Vec<Node>, Vec<Node>),
}

/// A kernel as the analysis of order reads it.
#[derive(Debug)]
pub struct HazardProgram<'k> {
    /// Sites in text order.
    pub sites: Vec<Site<'k>>,
    /// Loops in text order.
    pub loops: Vec<Loop>,
    /// Statements of the kernel.
    pub root: Vec<Node>,
    /// Names that have a single value in the whole kernel.
    fixed: BTreeSet<Name>,
    /// Paths of stores of which no two executions write the same element.
    apart: BTreeSet<Path>,
    /// Tiles that are their second copy at the place that is being built.
    second: Vec<TileId>,
    /// Whether the flags at this place belong to second copies.
    flags_of_second: bool,
}

/// What has changed since an access happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Age {
    /// Nothing: all names in its scope have the same values.
    Fresh,
    /// Only the iteration of the loop with this number.
    Crossed(usize),
    /// The loop or branch of the access has ended.
    Any,
}

impl Op {
    /// Returns the accesses of the operation.
    pub fn accesses(&self) -> Vec<Access> {
        let mut out = vec![];
        let mut tile = |t: TileId, write| out.push(Access { touched: Touched::Tile(t, false), write });
        match self {
            Op::Load { tile: t, len, from } => {
                tile(*t, true);
                out.extend(run(from, len, false));
            }
            Op::Store { to, tile: t, len } => {
                tile(*t, false);
                out.extend(run(to, len, true));
            }
            Op::Vector { dst, args, .. } => {
                for a in args {
                    if let super::VArg::Tile(t) = a {
                        tile(*t, false);
                    }
                }
                tile(*dst, true);
            }
            Op::Select { dst, a, b, x, y, mask, .. } => {
                [a, b, x, y].into_iter().for_each(|t| tile(*t, false));
                tile(*mask, true);
                tile(*dst, true);
            }
            Op::Convert { dst, src, .. }
            | Op::Expand { dst, src, .. }
            | Op::Spread { dst, src, .. }
            | Op::Move { dst, src, .. } => {
                tile(*src, false);
                tile(*dst, true);
            }
            Op::Index { dst, .. } => tile(*dst, true),
            Op::Choose { ids, .. } => tile(*ids, false),
            Op::LoadRow { tile: t, from, .. } => {
                // The tile counts as written even if nothing is loaded: the operation still waits,
                // and what the pipe does later comes after it.
                tile(*t, true);
                out.extend(block(from, false));
            }
            Op::Reduce { dst, src, work, .. } => {
                tile(*src, false);
                tile(*work, true);
                tile(*dst, true);
            }
            Op::Matmul { dst, left, right, .. } => {
                tile(*left, false);
                tile(*right, false);
                // The destination is written whether or not the products are added to it.
                tile(*dst, true);
            }
            Op::LoadRows { tile: t, from, .. } | Op::LoadBlock { tile: t, from, .. } => {
                tile(*t, true);
                out.extend(block(from, false));
            }
            Op::StoreRows { to, tile: t, .. } | Op::StoreBlock { to, tile: t, .. } => {
                tile(*t, false);
                out.extend(block(to, true));
            }
            Op::WaitFlag { from, to, event } => {
                let event = PipeEvent { from: *from, to: *to, number: *event };
                out.push(Access { touched: Touched::Event(event), write: true });
            }
            Op::Notify { .. }
            | Op::Wait { .. }
            | Op::Defer { .. }
            | Op::Release
            | Op::Acquire
            | Op::Complete
            | Op::Barrier(_)
            | Op::MemoryBarrier
            | Op::SetFlag { .. } => {}
        }
        out
    }

    /// Returns the pipe on which the accesses happen.
    pub fn acts_on(&self) -> Option<Pipe> {
        match self {
            Op::WaitFlag { to, .. } => Some(*to),
            op => op.pipe(),
        }
    }

    /// Checks whether the operation orders others: a flag, a barrier or a `dsb`.
    pub fn orders(&self) -> bool {
        matches!(self, Op::Barrier(_) | Op::MemoryBarrier | Op::SetFlag { .. } | Op::WaitFlag { .. })
    }
}

fn run(gm: &Gm, len: &Expr, write: bool) -> Option<Access> {
    // The memory of a peer is not part of the model (see the header of this file).
    if gm.peer.is_some() {
        return None;
    }
    let (slot, offset) = (gm.slot.clone(), gm.offset.clone());
    Some(Access { touched: Touched::Run { object: gm.object, slot, offset, len: len.clone() }, write })
}

fn block(gm: &Gm, write: bool) -> Option<Access> {
    if gm.peer.is_some() {
        return None;
    }
    Some(Access { touched: Touched::Block { object: gm.object, slot: gm.slot.clone() }, write })
}

impl Node {
    /// Returns the sites of the statement.
    pub fn sites(&self) -> Range<usize> {
        match self {
            Node::Op(site) => *site..site + 1,
            Node::Loop(_, sites, _) | Node::Perhaps(sites, _) | Node::If(sites, ..) => sites.clone(),
        }
    }
}

impl<'k> HazardProgram<'k> {
    /// Builds the operations and loops of a kernel.
    pub fn new(kernel: &'k Kernel) -> HazardProgram<'k> {
        let mut fixed: BTreeSet<Name> = kernel.scalars.iter().cloned().collect();
        fixed.extend([super::RANK, super::CALL, super::CORE].map(Name::from));
        let mut out = HazardProgram {
            sites: vec![],
            loops: vec![],
            root: vec![],
            fixed,
            apart: stores_apart(kernel),
            second: vec![],
            flags_of_second: false,
        };
        out.root = out.block(&kernel.body, 0, &mut vec![], &mut vec![]);
        out
    }

    fn block(
        &mut self,
        list: &'k [Stmt],
        first: usize,
        path: &mut Path,
        inside: &mut Vec<usize>,
    ) -> Vec<Node> {
        let mut out = vec![];
        for (i, s) in list.iter().enumerate() {
            path.push((first + i) as u32);
            match s {
                Stmt::Op(op) => {
                    out.push(Node::Op(self.sites.len()));
                    let site = self.site(path.clone(), op);
                    self.sites.push(site);
                }
                Stmt::Let { name, .. } => self.bind(name, inside),
                Stmt::For { var, body, .. } => {
                    out.push(self.repeat((vec![], false), &[var], body, path, inside));
                }
                Stmt::Tiles { pos, len, step, twice, rows, body, .. } => {
                    let mut tiles = vec![(pos.clone(), len.clone(), i64::from(*step))];
                    tiles.extend(rows.iter().map(|r| {
                        let rows = step / r.elements.max(1);
                        (r.first.clone(), r.count.clone(), i64::from(rows))
                    }));
                    let of_rows = rows.iter().flat_map(|r| [&r.first, &r.count]);
                    let names: Vec<&Name> = [pos, len].into_iter().chain(of_rows).collect();
                    out.push(self.repeat((tiles, *twice), &names, body, path, inside));
                }
                Stmt::If { then, other, .. } => {
                    let from = self.sites.len();
                    let a = self.block(then, 0, path, inside);
                    let b = self.block(other, then.len(), path, inside);
                    out.push(Node::If(from..self.sites.len(), a, b));
                }
                // A block in which tiles take a turn counts with each of their copies, whichever it
                // had before. Whatever the turns are, they are a sequence of these choices.
                Stmt::Turn { tiles, body, .. } => {
                    let from = self.sites.len();
                    let a = self.turn(tiles, false, body, path, inside);
                    let b = self.turn(tiles, true, body, path, inside);
                    out.push(Node::If(from..self.sites.len(), a, b));
                }
                // Tasks are analysed one by one. Here they are treated as one after another.
                Stmt::Task { body, .. } => out.extend(self.block(body, 0, path, inside)),
                Stmt::Note { .. } => {}
            }
            path.pop();
        }
        out
    }

    fn turn(
        &mut self,
        tiles: &[TileId],
        second: bool,
        body: &'k [Stmt],
        path: &mut Path,
        inside: &mut Vec<usize>,
    ) -> Vec<Node> {
        let (flags, before) = (self.flags_of_second, self.second.len());
        self.flags_of_second = second;
        if second {
            self.second.extend(tiles);
        }
        let out = self.block(body, 0, path, inside);
        self.second.truncate(before);
        self.flags_of_second = flags;
        out
    }

    fn site(&self, path: Path, op: &'k Op) -> Site<'k> {
        let mut accesses = op.accesses();
        for a in &mut accesses {
            match &mut a.touched {
                Touched::Tile(t, other) => *other = self.second.contains(t),
                Touched::Event(e) if self.flags_of_second => e.number = e.number.saturating_add(super::TURN),
                Touched::Event(_) | Touched::Run { .. } | Touched::Block { .. } => {}
            }
        }
        Site { path, op, accesses, other: self.flags_of_second }
    }

    fn repeat(
        &mut self,
        (tiles, twice): (Vec<(Name, Name, i64)>, bool),
        names: &[&Name],
        body: &'k [Stmt],
        path: &mut Path,
        inside: &mut Vec<usize>,
    ) -> Node {
        let (id, from) = (self.loops.len(), self.sites.len());
        self.loops.push(Loop { tiles: tiles.clone(), twice, bound: BTreeSet::new() });
        inside.push(id);
        names.iter().for_each(|n| self.bind(n, inside));
        let mut nodes = self.block(body, 0, path, inside);
        if twice && !tiles.is_empty() {
            let second = self.sites.len();
            let again = self.block(body, 0, path, inside);
            self.sites[second..].iter_mut().for_each(|s| s.turn(&tiles));
            tiles.iter().for_each(|t| self.bind(&other_length(&t.1), inside));
            nodes.push(Node::Perhaps(second..self.sites.len(), again));
        }
        let body = nodes;
        inside.pop();
        Node::Loop(id, from..self.sites.len(), body)
    }

    fn bind(&mut self, name: &Name, inside: &[usize]) {
        inside.iter().for_each(|l| {
            self.loops[*l].bound.insert(name.clone());
        });
    }

    /// Checks whether accesses of two sites are executions of one store that never writes an
    /// element twice.
    pub fn never_twice(&self, one: usize, two: usize) -> bool {
        let path = &self.sites[one].path;
        *path == self.sites[two].path && self.apart.contains(path)
    }

    /// Checks whether an earlier access of the given age and a later one can touch the same memory.
    pub fn can_conflict(&self, earlier: &Access, age: Age, later: &Access) -> bool {
        match (&earlier.touched, &later.touched) {
            (Touched::Tile(a, c), Touched::Tile(b, d)) => a == b && c == d,
            (Touched::Event(a), Touched::Event(b)) => a == b,
            (
                Touched::Block { object, slot },
                Touched::Block { object: object2, slot: slot2 }
                | Touched::Run { object: object2, slot: slot2, .. },
            )
            | (Touched::Run { object, slot, .. }, Touched::Block { object: object2, slot: slot2 }) => {
                let fixed = |e: &Expr| match age {
                    Age::Fresh => true,
                    Age::Crossed(l) => !mentions(e, |n| self.loops[l].bound.contains(n)),
                    Age::Any => !mentions(e, |n| !self.fixed.contains(n)),
                };
                let apart = (slot.clone() - slot2.clone()).simplify().as_int();
                object == object2 && !(fixed(slot) && fixed(slot2) && apart.is_some_and(|d| d != 0))
            }
            (
                Touched::Run { object, slot, offset, len },
                Touched::Run { object: object2, slot: slot2, offset: offset2, len: len2 },
            ) => {
                if object != object2 {
                    return false;
                }
                // An expression may be compared if every name in it still has the value that it
                // had.
                let same = |e: &Expr| match age {
                    Age::Fresh => true,
                    Age::Crossed(l) => !mentions(e, |n| self.loops[l].bound.contains(n)),
                    Age::Any => !mentions(e, |n| !self.fixed.contains(n)),
                };
                let apart = |a: &Expr, b: &Expr| (a.clone() - b.clone()).simplify().as_int();
                if same(slot) && same(slot2) && apart(slot, slot2).is_some_and(|d| d != 0) {
                    return false;
                }
                if [offset, offset2, len, len2].into_iter().all(same) {
                    let after = |a: &Expr, b: &Expr, n: &Expr| {
                        apart(a, &(b.clone() + n.clone())).is_some_and(|d| d >= 0)
                    };
                    if after(offset, offset2, len2) || after(offset2, offset, len) {
                        return false;
                    }
                }
                // The tiles of one loop are disjoint: each is at `base + pos` with the same base
                // and is no longer than a tile. If they are in different slots, they are disjoint
                // in any case. If tiles take turns, the second of two begins one full tile later.
                type Part = (Name, Name, i64);
                let short = |(_, piece, step): &Part| {
                    let pieces = [Expr::Var(piece.clone()), Expr::Var(other_length(piece))];
                    let fits = |e: &Expr| pieces.contains(e) || e.as_int().is_some_and(|n| n <= *step);
                    fits(len) && fits(len2)
                };
                let based = |(pos, ..): &Part| {
                    let at = Expr::Var(pos.clone());
                    let base = |e: &Expr| (e.clone() - at.clone()).simplify();
                    let (a, b) = (base(offset), base(offset2));
                    if same(&a) && same(&b) { apart(&a, &b) } else { None }
                };
                let twice = || self.loops.iter().filter(|l| l.twice).flat_map(|l| &l.tiles);
                !match age {
                    Age::Crossed(l) => {
                        let l = &self.loops[l];
                        l.tiles.iter().any(|t| {
                            short(t) && based(t).is_some_and(|d| d == 0 || l.twice && d.abs() == t.2)
                        })
                    }
                    // With the same values of all names, the distance of the bases is that of the
                    // offsets, whichever the loop is.
                    Age::Fresh if twice().next().is_some() => {
                        apart(offset, offset2).is_some_and(|d| twice().any(|t| short(t) && d.abs() == t.2))
                    }
                    Age::Fresh | Age::Any => false,
                }
            }
            _ => false,
        }
    }
}

/// Returns the name for the length of the second of two tiles. No name of a kernel is written so.
fn other_length(len: &Name) -> Name {
    format!("{len}'").into()
}

impl Site<'_> {
    /// Turns the site into that of the second copies, one full tile later.
    fn turn(&mut self, tiles: &[(Name, Name, i64)]) {
        self.other = true;
        let next = |e: &Expr| {
            let moved = |n: &Name| {
                tiles.iter().find_map(|(pos, len, step)| match n {
                    n if n == pos => Some(Expr::Var(pos.clone()) + Expr::Int(*step)),
                    n if n == len => Some(Expr::Var(other_length(len))),
                    _ => None,
                })
            };
            e.subst(&moved).simplify()
        };
        for a in &mut self.accesses {
            match &mut a.touched {
                Touched::Tile(_, other) => *other = true,
                Touched::Run { slot, offset, len, .. } => {
                    [slot, offset, len].into_iter().for_each(|e| *e = next(e));
                }
                Touched::Block { slot, .. } => *slot = next(slot),
                Touched::Event(e) => e.number = e.number.saturating_add(super::TURN),
            }
        }
    }

    /// Returns the event of a flag at this site.
    pub fn event(&self, from: Pipe, to: Pipe, number: u8) -> PipeEvent {
        PipeEvent { from, to, number: if self.other { number.saturating_add(super::TURN) } else { number } }
    }
}

fn mentions(e: &Expr, hit: impl Fn(&Name) -> bool) -> bool {
    let mut found = false;
    e.vars(&mut |n| found |= hit(n));
    found
}

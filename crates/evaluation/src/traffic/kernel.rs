//! Traffic of a kernel, counted from its text: every load, store, signal and fence of every rank
//! and core.
//!
//! This module walks the kernel. A load or store in this rank's memory counts as read or written;
//! one in a peer's memory counts as received or sent. A tile that is stored unchanged after a load
//! counts as copied.

use super::{CountedTraffic, LATER, MAX_OPERATIONS, MemoryName, Traffic};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::expr::{Env, Expr};
use kbc_ir::name::Name;
use kbc_tiles::lower::CountedKernel;
use kbc_tiles::tile::hazard::Touched;
use kbc_tiles::tile::{CALL, CORE, Core, Gm, NRANKS, Object, Op, RANK, Reach, Stmt, TileId, TileRows};
use std::collections::{BTreeMap, BTreeSet};

/// Counts the traffic of a kernel in one call that follows others.
///
/// # Errors
/// Returns E354 if there are more operations than are counted, and E456 for a name without a value.
pub fn count(counts: &CountedKernel) -> Result<CountedTraffic, Diagnostics> {
    let kernel = &counts.kernel;
    let regions = counts.operands.len();
    let mut walk = Walk {
        counts,
        names: vec![],
        rank: 0,
        nranks: counts.ranks,
        // Before the first region, one entry per region, and after the last.
        regions: vec![vec![Traffic::default(); counts.ranks as usize]; regions + 2],
        at: 0,
        touched: vec![BTreeSet::new(); regions + 2],
        copies: BTreeMap::new(),
        loaded: BTreeMap::new(),
        tiles: None,
        left: MAX_OPERATIONS,
    };
    for rank in 0..counts.ranks {
        for core in 0..kernel.most_cores() {
            walk.rank = rank;
            walk.at = 0;
            let known = [(NRANKS, counts.ranks as i64), (RANK, rank as i64), (CORE, i64::from(core))];
            walk.names = known.iter().map(|(n, v)| (Name::from(*n), *v)).collect();
            walk.names.push((CALL.into(), LATER));
            walk.list(&kernel.body)?;
        }
    }
    let area = |i: &u32| {
        let a = &kernel.areas[*i as usize];
        let size = |e: &Expr| e.as_int().and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        size(&a.slots) * size(&a.capacity) * a.dtype.bytes()
    };
    let windows = walk.touched[1..=regions].iter().map(|t| t.iter().map(area).sum()).collect();
    let mut copies: BTreeMap<(usize, MemoryName, MemoryName), u64> = BTreeMap::new();
    for ((region, to, from, _), bytes) in walk.copies {
        let most = copies.entry((region, walk.counts.name(to), walk.counts.name(from))).or_default();
        *most = bytes.max(*most);
    }
    let operands = counts.operands.iter().map(|l| l.iter().map(|o| counts.name(*o)).collect()).collect();
    let mut all = walk.regions;
    let behind = all.pop().unwrap_or_default();
    let before = all.remove(0);
    let around = before.into_iter().zip(behind).map(|(a, b)| a.and(b)).collect();
    Ok(CountedTraffic { regions: all, around, windows, operands, copies })
}

/// A loop over tiles that is walked once for all of its tiles.
#[derive(Clone)]
struct Tiles {
    /// Name of the length of a tile.
    len: Name,
    /// Number of elements of all tiles.
    total: u64,
    /// Number of tiles.
    count: u64,
}

struct Walk<'c> {
    counts: &'c CountedKernel,
    names: Vec<(Name, i64)>,
    rank: u64,
    nranks: u64,
    regions: Vec<Vec<Traffic>>,
    /// The region, from 1.
    at: usize,
    /// The peers' areas that each region touches.
    touched: Vec<BTreeSet<u32>>,
    /// Bytes of copies by region, destination, source and rank.
    copies: BTreeMap<(usize, Object, Object, u64), u64>,
    /// Where the unchanged contents of each tile were loaded from; `None` if from a peer.
    loaded: BTreeMap<TileId, Option<Object>>,
    tiles: Option<Tiles>,
    left: u64,
}

impl Env for Walk<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        self.names.iter().rev().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let table = self.counts.kernel.tables.iter().find(|t| t.name == *name)?;
        table.values.get(&self.nranks)?.get(usize::try_from(index).ok()?).copied()
    }
}

impl Walk<'_> {
    fn value(&self, e: &Expr) -> Result<i64, Diagnostics> {
        e.eval(self).map_err(|why| Diagnostic::error("E456", why.to_string()).into())
    }

    fn list(&mut self, list: &[Stmt]) -> Result<(), Diagnostics> {
        let depth = self.names.len();
        for stmt in list {
            let Some(left) = self.left.checked_sub(1) else {
                let text = format!(
                    "a call of {} has more than {MAX_OPERATIONS} operations",
                    self.counts.kernel.name
                );
                return Err(Diagnostic::error("E354", text).help("use a smaller schedule").into());
            };
            self.left = left;
            match stmt {
                Stmt::Let { name, value } if *name == CountedKernel::REGION => {
                    self.at = usize::try_from(self.value(value)? + 1).unwrap_or(0);
                }
                Stmt::Let { name, value } => {
                    let value = self.value(value)?;
                    self.names.push((name.clone(), value));
                }
                Stmt::For { var, lo, hi, body } => {
                    for v in self.value(lo)?..self.value(hi)? {
                        self.names.push((var.clone(), v));
                        self.list(body)?;
                        self.names.pop();
                    }
                }
                Stmt::If { cond, then, other } => {
                    self.list(if self.value(cond)? != 0 { then } else { other })?;
                }
                Stmt::Turn { body, .. } => self.list(body)?,
                Stmt::Task { core, cores, body, .. } => {
                    let cores = if *core == Core::Matrix { *cores } else { self.counts.kernel.cores };
                    if self.var(&CORE.into()).is_some_and(|core| core < i64::from(cores)) {
                        self.list(body)?;
                    }
                }
                Stmt::Tiles { pos, len, total, step, rows, body, .. } => {
                    let total = self.value(total)?.max(0);
                    self.tiles((pos, len, rows.as_ref()), total, i64::from(*step).max(1), body)?;
                }
                Stmt::Op(op) => self.op(op)?,
                Stmt::Note { .. } => {}
            }
        }
        self.names.truncate(depth);
        Ok(())
    }

    /// Walks a loop over tiles, once for all tiles if all are alike.
    fn tiles(
        &mut self,
        (pos, len, rows): (&Name, &Name, Option<&TileRows>),
        total: i64,
        step: i64,
        body: &[Stmt],
    ) -> Result<(), Diagnostics> {
        let mut at = 0;
        while at < total {
            let this = if alike(body) { total } else { step.min(total - at) };
            if alike(body) {
                let count = (total as u64).div_ceil(step as u64);
                self.tiles = Some(Tiles { len: len.clone(), total: total as u64, count });
            }
            self.names.push((pos.clone(), at));
            self.names.push((len.clone(), this));
            let depth = self.names.len() - 2;
            if let Some(r) = rows {
                let elements = i64::from(r.elements).max(1);
                self.names.push((r.first.clone(), at / elements));
                self.names.push((r.count.clone(), this / elements));
            }
            self.list(body)?;
            self.names.truncate(depth);
            self.tiles = None;
            at += this;
        }
        Ok(())
    }

    /// Returns the number of elements of a transfer.
    fn elements(&self, dims: &[&Expr]) -> Result<u64, Diagnostics> {
        let mut n = 1u64;
        let mut times = self.tiles.as_ref().map_or(1, |t| t.count);
        for e in dims {
            let all = self.tiles.as_ref().filter(|t| **e == Expr::Var(t.len.clone()));
            n = n.saturating_mul(match all {
                Some(t) => {
                    times = 1;
                    t.total
                }
                None => u64::try_from(self.value(e)?).unwrap_or(0),
            });
        }
        Ok(n.saturating_mul(times))
    }

    fn own(&mut self) -> &mut Traffic {
        &mut self.regions[self.at][self.rank as usize]
    }

    /// Returns the peer of a transfer, or `None` if it is this rank.
    fn place(&mut self, g: &Gm) -> Result<Option<usize>, Diagnostics> {
        if let Object::Area(a) = g.object
            && self.counts.kernel.areas[a.0 as usize].reach == Reach::Peers
        {
            self.touched[self.at].insert(a.0);
        }
        let peer = g.peer.as_ref().map(|p| self.value(p)).transpose()?;
        let peer = peer.and_then(|p| u64::try_from(p).ok()).filter(|p| *p != self.rank && *p < self.nranks);
        Ok(peer.map(|p| p as usize))
    }

    fn load(&mut self, tile: TileId, from: &Gm, dims: &[&Expr]) -> Result<(), Diagnostics> {
        let bytes = self.elements(dims)? * self.counts.width(from.object);
        match self.place(from)? {
            None => {
                self.own().read += bytes;
                self.loaded.insert(tile, Some(from.object));
            }
            Some(peer) => {
                self.own().received += bytes;
                self.regions[self.at][peer].sent += bytes;
                self.loaded.insert(tile, None);
            }
        }
        Ok(())
    }

    fn store(&mut self, tile: TileId, to: &Gm, dims: &[&Expr]) -> Result<(), Diagnostics> {
        let bytes = self.elements(dims)? * self.counts.width(to.object);
        if let Some(peer) = self.place(to)? {
            self.own().sent += bytes;
            self.regions[self.at][peer].received += bytes;
            return Ok(());
        }
        self.own().written += bytes;
        if let Some(Some(from)) = self.loaded.get(&tile).copied() {
            self.own().copied += bytes;
            *self.copies.entry((self.at, to.object, from, self.rank)).or_default() += bytes;
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<(), Diagnostics> {
        match op {
            Op::Load { tile, len, from } | Op::LoadRows { tile, len, from, .. } => {
                self.load(*tile, from, &[len])?
            }
            Op::LoadBlock { tile, rows, cols, from, .. } => self.load(*tile, from, &[rows, cols])?,
            Op::Store { to, tile, len } | Op::StoreRows { to, tile, len, .. } => {
                self.store(*tile, to, &[len])?
            }
            Op::StoreBlock { to, tile, rows, cols, .. } => self.store(*tile, to, &[rows, cols])?,
            Op::Notify { .. } => self.own().notifies += 1,
            Op::Wait { .. } => self.own().waits += 1,
            Op::Release | Op::Acquire | Op::Complete => self.own().fences += 1,
            op => {
                for a in op.accesses().into_iter().filter(|a| a.write) {
                    if let Touched::Tile(t, _) = a.touched {
                        self.loaded.remove(&t);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Checks whether the tiles of a loop differ only in their lengths.
fn alike(body: &[Stmt]) -> bool {
    body.iter().all(|s| match s {
        Stmt::For { body, .. } | Stmt::Turn { body, .. } => alike(body),
        Stmt::Op(_) | Stmt::Let { .. } | Stmt::Note { .. } => true,
        Stmt::If { .. } | Stmt::Tiles { .. } | Stmt::Task { .. } => false,
    })
}

//! Chains of local operations: reductions of rows and elementwise functions that follow each other
//! and work on the same rows.
//!
//! The module decides which operations these are ([`super::row_loop`] lowers them). All of them are
//! computed for some rows before the next rows are looked at. So a value that only the chain reads
//! is never in memory, and what it reads is loaded once. Each row of a result depends on the same
//! row of the operands, on the element that an operand has for this row, or on a row that all rows
//! share and that no operation of the chain writes. Where rows are reduced or share elements, a
//! tile holds whole rows; then the length of a row is a number, and several rows are in one tile.

use super::accesses::{BufferUser, touched};
use super::ops::local_words;
use super::state::Lower;
use crate::device::conversions;
use crate::tile::{Object, TileRows};
use kbc_diag::{Diagnostics, Span};
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{BufferId, BufferRole, LocalOp, SOp, SStmt, each_op};
use kbc_ir::types::{DType, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// Most values of a chain that are in the core at a time: each has a tile, and more tiles are
/// shorter ones.
const MOST_VALUES: usize = 8;

/// Elements of which a byte of the mask of a selection has the bits.
const MASKED: u32 = 8;

/// What a buffer has for the rows of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowKind {
    /// All elements of every row.
    Full,
    /// One element for each row.
    PerRow,
    /// One row for all rows.
    Shared,
}

/// Operations that are computed in one loop.
pub(super) struct RowChain<'o> {
    pub ops: Vec<&'o LocalOp>,
    /// The buffers that the operations read and write, with what they have for each row.
    pub kinds: BTreeMap<BufferId, RowKind>,
    /// The buffers that are read from memory, in the order of their first use.
    pub loaded: Vec<BufferId>,
    /// The results, in the order of the operations.
    pub written: Vec<BufferId>,
    /// Number of elements of all rows.
    pub total: Expr,
    /// Elements of a row, if tiles hold whole rows.
    pub row: Option<u32>,
    /// Whether an operation selects.
    masks: bool,
    /// Sizes of a full buffer.
    pub dims: Vec<Expr>,
    /// Number of its first dimensions over which a loop around the tiles runs. In these dimensions
    /// an operand may have one element for all.
    pub around: usize,
    spans: Vec<Span>,
}

impl Lower<'_, '_> {
    /// Lowers the longest chain with which a list begins. Returns the number of its statements; 0
    /// if there is none that is worth a loop of its own.
    pub(super) fn row_chain(&mut self, list: &[&SStmt]) -> Result<usize, Diagnostics> {
        let mut chain = self.longest(list, 0);
        let dimensions = chain.dims.len();
        for around in 1..dimensions {
            let other = self.longest(list, around);
            if other.ops.len() > chain.ops.len() {
                chain = other;
            }
        }
        let used = chain.ops.len();
        if used == 0 || used == 1 && chain.row.is_none() || chain.total == Expr::Int(0) {
            return Ok(0);
        }
        let words: Vec<String> = chain.ops.iter().map(|op| local_words(self.schedule, op)).collect();
        let span = chain.spans.last().copied().unwrap_or(Span::NONE);
        self.note(&words.join("; "), span);
        self.lower_chain(&chain)?;
        Ok(used)
    }

    /// Returns the longest chain with which a list begins, with loops over so many dimensions.
    fn longest<'o>(&mut self, list: &[&'o SStmt], around: usize) -> RowChain<'o> {
        let mut chain = RowChain {
            ops: vec![],
            kinds: BTreeMap::new(),
            loaded: vec![],
            written: vec![],
            total: Expr::Int(0),
            row: None,
            masks: false,
            dims: vec![],
            around,
            spans: vec![],
        };
        for stmt in list {
            let SStmt::Op(SOp::Local(op), span) = stmt else { break };
            if !self.joins(&mut chain, op) {
                break;
            }
            if self.most_values(&chain) > MOST_VALUES {
                chain.leave();
                break;
            }
            chain.spans.push(*span);
        }
        chain
    }

    /// Adds an operation to a chain, if it can be computed in the loop of those before it.
    fn joins<'o>(&mut self, chain: &mut RowChain<'o>, op: &'o LocalOp) -> bool {
        let Some((operands, reduces)) = self.operands(op) else { return false };
        let dst = op.dst();
        // The rows are those of the first operation.
        let first = if reduces { operands[0] } else { dst };
        let dims = if chain.ops.is_empty() { self.dims(first) } else { chain.dims.clone() };
        let Some(last) = dims.last().filter(|_| chain.around < dims.len()) else { return false };
        let (outer, rows_of) = dims.split_at(chain.around);
        let shape = self.dims(dst);
        let per_row = is_per_row(&shape, &dims);
        let kind = match (shape == dims, per_row) {
            (true, false) if !reduces => RowKind::Full,
            // A row of one element is the same as its element.
            (true, true) if !reduces && chain.row.is_none() => RowKind::Full,
            (false, true) => RowKind::PerRow,
            _ => return false,
        };
        let mut kinds = vec![];
        for b in &operands {
            let own = self.dims(*b);
            let kind = match kind {
                _ if own == dims && (reduces || kind == RowKind::Full) => RowKind::Full,
                RowKind::PerRow if !reduces && own == shape => RowKind::PerRow,
                RowKind::Full => {
                    let (before, own) = own.split_at(own.len().saturating_sub(rows_of.len()));
                    if !is_alike(before, outer) {
                        return false;
                    }
                    match own {
                        own if own == rows_of => RowKind::Full,
                        own if own.len() == rows_of.len() && is_per_row(own, rows_of) => RowKind::PerRow,
                        own if is_shared(own, rows_of) => RowKind::Shared,
                        _ => return false,
                    }
                }
                _ => return false,
            };
            kinds.push((*b, kind));
        }
        let rows = reduces || kind != RowKind::Full || kinds.iter().any(|(_, k)| *k != RowKind::Full);
        let row = match last.as_int().and_then(|n| u32::try_from(n).ok()) {
            _ if !rows => chain.row,
            Some(n) if self.rows_of(n) => Some(n),
            _ => return false,
        };
        // The bits of elements between rows have no value, and those of a row are whole bytes.
        let masks = chain.masks || self.masks(op);
        if masks && row.is_some_and(|n| n % MASKED != 0) || !self.apart(chain, dst, &kinds, kind) {
            return false;
        }
        for (b, kind) in kinds {
            if !chain.written.contains(&b) && !chain.loaded.contains(&b) {
                chain.loaded.push(b);
            }
            chain.kinds.insert(b, kind);
        }
        chain.kinds.insert(dst, kind);
        chain.written.push(dst);
        chain.ops.push(op);
        chain.total = super::address::product(rows_of);
        (chain.dims, chain.row, chain.masks) = (dims, row, masks);
        true
    }

    /// Checks whether an operation selects elements by a comparison.
    fn masks(&self, op: &LocalOp) -> bool {
        let LocalOp::Compute { dst, func, .. } = op else { return false };
        let wide = self.parts.is_some_and(|p| p.wide.contains(dst));
        let of = if wide { DType::F32 } else { self.schedule.buffer(*dst).dtype };
        self.device.chain(func, of).is_ok_and(|c| c.mask)
    }

    /// Returns the most values of a chain that are in the core at a time: what is loaded, from the
    /// start to its last use, and results, to their last use or to the stores at the end.
    fn most_values(&self, chain: &RowChain<'_>) -> usize {
        let last_use = |b: &BufferId| chain.ops.iter().rposition(|op| op.srcs().contains(b));
        let mut ends: Vec<(usize, usize)> = vec![];
        ends.extend(chain.loaded.iter().map(|b| (0, last_use(b).unwrap_or(0))));
        ends.extend(chain.written.iter().enumerate().map(|(at, b)| {
            let end = if self.needed(chain, *b) { chain.ops.len() } else { last_use(b).unwrap_or(at) };
            (at, end)
        }));
        let at = |i: usize| ends.iter().filter(|(from, to)| (*from..=*to).contains(&i)).count();
        (0..=chain.ops.len()).map(at).max().unwrap_or(0)
    }

    /// Checks whether a tile can hold rows of so many elements.
    fn rows_of(&self, elements: u32) -> bool {
        let rows = TileRows { first: "".into(), count: "".into(), elements };
        elements > 1 && rows.pitch() <= self.device.limits().tile
    }

    /// Returns the operands of an operation that a chain can have, and whether it reduces rows.
    fn operands(&self, op: &LocalOp) -> Option<(Vec<BufferId>, bool)> {
        let dtype = |b: BufferId| self.schedule.buffer(b).dtype;
        let float = |b: BufferId| matches!(dtype(b), DType::F32 | DType::F16 | DType::BF16);
        match op {
            LocalOp::Compute { dst, func, args } => {
                let wide = self.parts.is_some_and(|p| p.wide.contains(dst));
                let of = if wide { DType::F32 } else { dtype(*dst) };
                let known = self.device.chain(func, of).is_ok();
                let types = args.iter().chain([dst]).all(|b| float(*b) || dtype(*b) == DType::I32);
                (known && types && !args.is_empty() && !self.computed(*dst)).then(|| (args.clone(), false))
            }
            LocalOp::Cast { dst, src } => {
                let differ = dtype(*dst) != dtype(*src);
                let way = conversions(self.device, dtype(*src), dtype(*dst)).is_some();
                (differ && way && float(*dst) && float(*src)).then(|| (vec![*src], false))
            }
            LocalOp::ReduceDim { op, dst, src, dim, .. } => {
                let last = *dim as usize + 1 == self.schedule.buffer(*src).dims.len();
                (last && *op != ReduceOp::Prod && float(*dst) && float(*src)).then(|| (vec![*src], true))
            }
            _ => None,
        }
    }

    /// Checks whether an operation that writes `dst` can join a chain: no memory of the chain is
    /// written twice, or written for some rows and read for others.
    fn apart(
        &self,
        chain: &RowChain<'_>,
        dst: BufferId,
        operands: &[(BufferId, RowKind)],
        kind: RowKind,
    ) -> bool {
        let object = |b: &BufferId| self.storage.object(*b);
        let written: BTreeSet<Object> = chain.written.iter().map(object).collect();
        let same = |(b, kind): &(BufferId, RowKind)| {
            let before = chain.kinds.get(b).is_none_or(|k| k == kind);
            // A value that the chain has is in its tile; its memory may not have it yet.
            before && (chain.written.contains(b) && *kind != RowKind::Shared || !written.contains(&object(b)))
        };
        let read = |b: &BufferId| object(b) == object(&dst);
        let buffers = chain.loaded.iter().chain(operands.iter().map(|(b, _)| b));
        let all: BTreeSet<BufferId> = buffers.copied().chain(chain.written.iter().copied()).collect();
        operands.iter().all(same)
            && !all.iter().any(read)
            && !self.schedule.buffer(dst).zero
            && kind != RowKind::Shared
    }

    /// Checks whether anything but a chain touches one of its results.
    pub(super) fn needed(&self, chain: &RowChain<'_>, result: BufferId) -> bool {
        let own = |user: &Option<*const LocalOp>| {
            user.is_some_and(|user| chain.ops.iter().any(|op| std::ptr::eq(*op, user)))
        };
        self.schedule.buffer(result).role != BufferRole::Temp
            || self.users_of.get(&result).is_some_and(|users| !users.iter().all(own))
    }

    /// Returns the users of every buffer.
    pub(super) fn all_users(&self) -> BTreeMap<BufferId, Vec<BufferUser>> {
        let mut out: BTreeMap<BufferId, Vec<BufferUser>> = BTreeMap::new();
        for region in &self.schedule.regions {
            for stream in region.roles.iter().flat_map(|r| &r.streams) {
                each_op(&stream.body, &mut |op, _| {
                    let user = if let SOp::Local(l) = op { Some(std::ptr::from_ref(l)) } else { None };
                    let t = touched(region, op);
                    let all: BTreeSet<BufferId> =
                        [t.reads, t.writes, t.remote].concat().into_iter().collect();
                    all.into_iter().for_each(|b| out.entry(b).or_default().push(user));
                });
            }
        }
        out
    }
}

impl RowChain<'_> {
    /// Removes the last operation, which has just been added; the chain is then complete.
    fn leave(&mut self) {
        self.ops.pop();
        self.written.pop();
        let ops = &self.ops;
        self.loaded.retain(|b| ops.iter().any(|o| o.srcs().contains(b)));
        let (loaded, written) = (&self.loaded, &self.written);
        self.kinds.retain(|b, _| loaded.contains(b) || written.contains(b));
        // Without rows in its tiles, a chain may be left that this operation would have given them.
        let reduces = |o: &&LocalOp| matches!(o, LocalOp::ReduceDim { .. });
        if !self.ops.iter().any(reduces) && self.kinds.values().all(|k| *k == RowKind::Full) {
            self.row = None;
        }
    }
}

/// Checks whether a buffer has one element for each row of `dims`: the last size is 1, or left out.
fn is_per_row(own: &[Expr], dims: &[Expr]) -> bool {
    let Some((_, outer)) = dims.split_last() else { return false };
    own == outer || own.len() == dims.len() && own.split_last() == Some((&Expr::Int(1), outer))
}

/// Checks whether the first sizes of a buffer are the last ones of `outer`, or 1.
fn is_alike(own: &[Expr], outer: &[Expr]) -> bool {
    let Some(more) = outer.len().checked_sub(own.len()) else { return false };
    own.iter().zip(&outer[more..]).all(|(a, b)| a == b || *a == Expr::Int(1))
}

/// Checks whether a buffer has one row for all rows of `dims`.
fn is_shared(own: &[Expr], dims: &[Expr]) -> bool {
    let one = |d: &Expr| *d == Expr::Int(1);
    match own.split_last() {
        Some((last, outer)) => own.len() <= dims.len() && Some(last) == dims.last() && outer.iter().all(one),
        None => false,
    }
}

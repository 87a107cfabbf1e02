//! Memory assignment: maps each buffer and window of a schedule to a tensor of the launch, to an
//! area of the window, or to the memory of another buffer.
//!
//! A buffer that peers reach is in the window; if it is also an input or a result, it is copied in
//! first or out last. A temporary buffer whose last use is to be copied into a result shares the
//! memory of that result. A part of another buffer is in the memory of that buffer
//! ([`part_memory`]). Other temporary buffers are areas that peers do not reach.

use super::errors::fault;
use super::part_memory;
use crate::tile::{Area, AreaId, Object, Reach, Tensor, TensorId, TensorUse};
use kbc_diag::Diagnostics;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{BufferId, BufferRole, LocalOp, Ref, SOp, SStmt, Schedule, each_op};
use kbc_ir::walk;
use std::collections::BTreeMap;

/// The memory of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BufferMemory {
    /// A tensor argument.
    Tensor(TensorId),
    /// An area of the window.
    Area(AreaId),
    /// The memory of another buffer with the same elements.
    Of(BufferId),
    /// The memory of another buffer, from some element on.
    Part(BufferId),
}

/// The memory of all buffers and windows of a schedule.
pub(super) struct Storage {
    homes: Vec<BufferMemory>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) areas: Vec<Area>,
    /// The area of each window.
    windows: Vec<AreaId>,
    /// Buffers in the window that are also inputs or results, each with the tensor of that input or
    /// result.
    pub(super) copied: Vec<(BufferId, TensorId, TensorUse)>,
    /// The buffers that are parts of others, each with the operation that copies between the two.
    parts: BTreeMap<BufferId, LocalOp>,
}

impl Storage {
    pub(super) fn new(schedule: &Schedule, program: &walk::Program<'_>) -> Result<Storage, Diagnostics> {
        let uses = Uses::of(schedule);
        let mut out = Storage {
            homes: vec![],
            tensors: vec![],
            areas: vec![],
            windows: vec![],
            copied: vec![],
            parts: part_memory::parts(schedule),
        };
        let rank = Expr::var(crate::tile::RANK);
        // Arguments come first: inputs in order, then results.
        let mut arguments: Vec<(u8, u32, usize)> = vec![];
        for (i, b) in schedule.buffers.iter().enumerate() {
            match b.role {
                BufferRole::Input(n) => arguments.push((0, n, i)),
                BufferRole::Output(n) => arguments.push((1, n, i)),
                BufferRole::Temp => {}
            }
        }
        arguments.sort();
        let mut tensor_of = vec![None; schedule.buffers.len()];
        for (kind, index, i) in arguments {
            let b = &schedule.buffers[i];
            let len = b
                .dims
                .iter()
                .fold(Expr::Int(1), |a, d| super::address::mul(&a, &on_rank(schedule, d, &rank)));
            tensor_of[i] = Some(TensorId(out.tensors.len() as u32));
            let access = if kind == 0 { TensorUse::In } else { TensorUse::Out };
            out.tensors.push(Tensor {
                name: b.name.clone(),
                dtype: b.dtype,
                len,
                access,
                index,
                reach: Reach::Own,
            });
        }
        for (i, w) in schedule.windows.iter().enumerate() {
            out.windows.push(AreaId(i as u32));
            out.areas.push(Area {
                name: w.name.clone(),
                dtype: w.dtype,
                slots: Expr::Int(w.slots as i64),
                capacity: Expr::Int(w.capacity as i64),
                reach: Reach::Peers,
                arena: 0,
                at: None,
            });
        }
        arenas(schedule, &mut out.areas);
        for (i, b) in schedule.buffers.iter().enumerate() {
            let id = BufferId(i as u32);
            if let Some(home) = uses.shares(schedule, id) {
                out.homes.push(BufferMemory::Of(home));
                continue;
            }
            if let Some(op) = out.parts.get(&id) {
                let whole = if op.dst() == id { op.srcs()[0] } else { op.dst() };
                out.homes.push(BufferMemory::Part(whole));
                continue;
            }
            if let (Some(t), false) = (tensor_of[i], uses.remote[i]) {
                out.homes.push(BufferMemory::Tensor(t));
                continue;
            }
            let mut capacity = 0;
            for r in 0..program.ranks() {
                capacity = capacity.max(program.elements(id, r).map_err(|f| fault(&f))?);
            }
            let area = AreaId(out.areas.len() as u32);
            let arena = out.areas.iter().map(|a| a.arena + 1).max().unwrap_or(0);
            out.areas.push(Area {
                name: b.name.clone(),
                dtype: b.dtype,
                slots: Expr::Int(1),
                capacity: Expr::Int(capacity as i64),
                reach: if uses.remote[i] { Reach::Peers } else { Reach::Own },
                arena,
                at: None,
            });
            out.homes.push(BufferMemory::Area(area));
            if let Some(t) = tensor_of[i] {
                out.copied.push((id, t, out.tensors[t.0 as usize].access));
            }
        }
        Ok(out)
    }

    /// Returns the memory of a buffer.
    pub(super) fn object(&self, buffer: BufferId) -> Object {
        let mut at = buffer;
        loop {
            match self.homes[at.0 as usize] {
                BufferMemory::Tensor(t) => return Object::Tensor(t),
                BufferMemory::Area(a) => return Object::Area(a),
                // A result never is in the memory of another buffer, so the chain ends there.
                BufferMemory::Of(b) | BufferMemory::Part(b) => at = b,
            }
        }
    }

    /// Returns the buffer in whose memory a buffer is, and the operation that copies between the
    /// two if it is a part of that buffer.
    pub(super) fn within(&self, buffer: BufferId) -> Option<(BufferId, Option<&LocalOp>)> {
        match self.homes[buffer.0 as usize] {
            BufferMemory::Tensor(_) | BufferMemory::Area(_) => None,
            BufferMemory::Of(b) => Some((b, None)),
            BufferMemory::Part(b) => Some((b, self.parts.get(&buffer))),
        }
    }

    /// Checks whether one of two buffers is a part of the other in the same memory, so that
    /// nothing has to be copied between them.
    pub(super) fn is_part(&self, a: BufferId, b: BufferId) -> bool {
        let part = |a: BufferId, b: BufferId| self.homes[a.0 as usize] == BufferMemory::Part(b);
        part(a, b) || part(b, a)
    }

    pub(super) fn window(&self, window: kbc_ir::schedule::WindowId) -> Object {
        Object::Area(self.windows[window.0 as usize])
    }
}

/// Converts an expression in mesh coordinates to one in a rank's number.
pub(super) fn on_rank(schedule: &Schedule, e: &Expr, rank: &Expr) -> Expr {
    let mut stride = schedule.mesh.ranks();
    let mut coords = vec![];
    for axis in &schedule.mesh.axes {
        let whole = stride == schedule.mesh.ranks();
        stride /= axis.size.max(1);
        let q = super::address::bin(kbc_ir::expr::BinOp::Div, rank, &Expr::Int(stride as i64));
        coords.push((axis.name.clone(), if whole { q } else { q.modulo(Expr::Int(axis.size as i64)) }));
    }
    e.subst(&|n| coords.iter().find(|(m, _)| m == n).map(|(_, v)| v.clone())).simplify()
}

/// Assigns arenas: windows that overlap in the schedule share one, because their regions are
/// ordered.
fn arenas(schedule: &Schedule, areas: &mut [Area]) {
    let range = |i: usize| {
        let w = &schedule.windows[i];
        let at = w.offset?;
        Some((at, at + w.slots * w.capacity * w.dtype.bytes()))
    };
    for i in 0..areas.len() {
        let shared = (0..i).find(|j| match (range(i), range(*j)) {
            (Some(a), Some(b)) => a.0 < b.1 && b.0 < a.1,
            _ => false,
        });
        areas[i].arena = match shared {
            Some(j) => areas[j].arena,
            None => areas[..i].iter().map(|a| a.arena + 1).max().unwrap_or(0),
        };
    }
}

/// How the buffers of a schedule are used, by buffer.
struct Uses {
    /// Whether peers read or write it.
    remote: Vec<bool>,
    /// Number of operations that name it.
    count: Vec<usize>,
    /// Copies of whole buffers, element by element: destination, source, number of the operation.
    copies: Vec<(BufferId, BufferId, usize)>,
    /// Numbers of the last and of the first operation that names it.
    last: Vec<usize>,
    first: Vec<usize>,
}

impl Uses {
    fn of(schedule: &Schedule) -> Uses {
        let n = schedule.buffers.len();
        let mut uses = Uses {
            remote: vec![false; n],
            count: vec![0; n],
            copies: vec![],
            last: vec![0; n],
            first: vec![usize::MAX; n],
        };
        let mut number = 0;
        for region in &schedule.regions {
            let operand = |r: &Ref| match r {
                Ref::Chunk { operand, .. } => Some(region.operands[operand.0 as usize].buffer),
                Ref::Slot { .. } => None,
            };
            for stream in region.roles.iter().flat_map(|r| &r.streams) {
                // Copies inside loops or conditions do not count as whole copies.
                for stmt in &stream.body {
                    match stmt {
                        SStmt::Op(SOp::Local(LocalOp::Copy { dst, src }), _) => {
                            uses.copies.push((*dst, *src, number + 1));
                        }
                        // Parts of the first dimension are already one after another.
                        SStmt::Op(SOp::Local(LocalOp::Unpack { dst, src, dim: 0, at: None, .. }), _) => {
                            uses.copies.push((*dst, *src, number + 1));
                        }
                        _ => {}
                    }
                    each_op(std::slice::from_ref(stmt), &mut |op, _| {
                        number += 1;
                        let (here, there) = match op {
                            SOp::Copy { dst, src } | SOp::Reduce { dst, src, .. } => {
                                (vec![operand(dst), operand(src)], None)
                            }
                            SOp::Put { src, dst, .. } => (vec![operand(src)], operand(dst)),
                            SOp::Get { dst, src, .. } => (vec![operand(dst)], operand(src)),
                            SOp::Local(l) => {
                                (l.srcs().into_iter().chain([l.dst()]).map(Some).collect(), None)
                            }
                            _ => (vec![], None),
                        };
                        if let Some(b) = there {
                            uses.remote[b.0 as usize] = true;
                        }
                        for b in here.into_iter().flatten().chain(there) {
                            let b = b.0 as usize;
                            uses.count[b] += 1;
                            uses.last[b] = number;
                            uses.first[b] = uses.first[b].min(number);
                        }
                    });
                }
            }
        }
        uses
    }

    /// Returns the buffer whose memory a temporary buffer can use: the last use of the buffer is to
    /// be copied there as a whole, and nothing else names that buffer, which is a result, or is
    /// copied into one in the same way.
    fn shares(&self, schedule: &Schedule, buffer: BufferId) -> Option<BufferId> {
        let b = buffer.0 as usize;
        if schedule.buffers[b].role != BufferRole::Temp || self.remote[b] || schedule.buffers[b].zero {
            return None;
        }
        let copy = self.copies.iter().find(|(_, src, at)| *src == buffer && *at == self.last[b])?;
        let to = copy.0.0 as usize;
        let result = match schedule.buffers[to].role {
            BufferRole::Output(_) => self.count[to] == 1,
            // Written by this copy, and read by the next one.
            BufferRole::Temp => self.count[to] == 2 && self.shares(schedule, copy.0).is_some(),
            BufferRole::Input(_) => false,
        };
        (result && !self.remote[to] && schedule.buffers[to].dtype == schedule.buffers[b].dtype)
            .then_some(copy.0)
    }
}

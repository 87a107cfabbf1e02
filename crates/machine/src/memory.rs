//! Device memories: the addresses of tensors, and whether all tensors of a schedule fit (TOPO-8).
//!
//! This module owns the allocation of one memory (first fit from the lowest address) and the layout
//! of a schedule on a machine that states the sizes of its memories: the buffers, windows and queue
//! slots of every rank, each in its kind of memory. Offsets within a window's domain are chosen by
//! the pass `allocate`. Which PE of a device holds which slice is decided by [`crate::placement`].

use std::collections::{BTreeMap, BTreeSet};

use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};

use crate::policy::{DevicePlacement, Placements};
use crate::topology::{DeviceId, Topology};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferId, LocalOp, SOp, Schedule, WindowId, each_op};
use kbc_ir::types::MemKind;
use kbc_ir::walk::{Access, Act, Cursor, Mem, Program, Step};

/// Alignment of addresses, in bytes.
pub const ALIGN: u64 = 64;

/// Number of live tensors that the E468 message lists, largest first.
const LISTED: usize = 4;

/// One memory: its capacity and its live tensors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    capacity: u64,
    /// Live tensors by first byte: end of the aligned range, bytes, name.
    live: BTreeMap<u64, (u64, u64, String)>,
}

/// The failure of an allocation: no free range is large enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationFailure {
    /// Total of free bytes.
    pub free: u64,
    /// Bytes of the largest free range.
    pub largest: u64,
}

impl Memory {
    /// Returns an empty memory of `capacity` bytes.
    pub fn new(capacity: u64) -> Memory {
        Memory { capacity, live: BTreeMap::new() }
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Iterates over the live tensors by ascending address: first byte, bytes, name.
    pub fn live(&self) -> impl Iterator<Item = (u64, u64, &str)> {
        self.live.iter().map(|(at, (_, bytes, name))| (*at, *bytes, name.as_str()))
    }

    /// Iterates over the free ranges by ascending address: first byte, bytes.
    fn gaps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let starts = std::iter::once(0).chain(self.live.values().map(|l| l.0));
        let ends = self.live.keys().copied().chain([self.capacity]);
        starts.zip(ends).map(|(start, end)| (start, end.saturating_sub(start))).filter(|g| g.1 > 0)
    }

    /// Allocates the lowest free range that is large enough and returns its first byte. Live
    /// tensors never overlap. A tensor without bytes occupies nothing and gets address 0.
    ///
    /// # Errors
    /// Returns [`AllocationFailure`] if no free range is large enough.
    pub fn allocate(&mut self, name: &str, bytes: u64) -> Result<u64, AllocationFailure> {
        if bytes == 0 {
            return Ok(0);
        }
        let Some(at) = self.gaps().find(|g| g.1 >= bytes).map(|g| g.0) else {
            let (free, largest) = self.gaps().fold((0, 0), |(sum, most), g| (sum + g.1, g.1.max(most)));
            return Err(AllocationFailure { free, largest });
        };
        // The next range must start aligned. The memory may end before that address.
        let end = (at + bytes).checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX).min(self.capacity);
        self.live.insert(at, (end, bytes, name.to_owned()));
        Ok(at)
    }

    /// Frees the live tensor at `at`. Returns false if there is none.
    pub fn free(&mut self, at: u64) -> bool {
        self.live.remove(&at).is_some()
    }
}

/// The location of a memory: its kind, and the coordinates of its PE, or of its cube for SRAM.
pub type MemoryPlace = (MemKind, Vec<u32>);

/// The memories of a machine with their live tensors. Only memories whose size the machine states
/// are included.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memories {
    /// The memories by kind and location.
    pub list: BTreeMap<MemoryPlace, Memory>,
}

/// Lays out everything that a schedule keeps in memories whose size the machine states. A schedule
/// with another number of ranks than the machine has devices gets an empty layout.
///
/// # Errors
/// Returns E468 for the first tensor on the first rank that does not fit, with the tensor, its kind
/// of memory and the largest tensors there. Returns E469 if a placement names an unknown tensor, or
/// from [`DevicePlacement::shards`]. Faults of sizes keep their code.
pub fn lay_out(
    schedule: &Schedule,
    machine: &Topology,
    placements: &Placements,
) -> Result<Memories, Diagnostics> {
    let mut out = Memories::default();
    let limited = |kind: MemKind| machine.settings().size(kind).is_some();
    let used = schedule.buffers.iter().map(|b| b.memory);
    let used =
        used.chain(schedule.windows.iter().map(|w| w.memory)).chain(schedule.queues.iter().map(|q| q.memory));
    let preloads = locals(schedule)
        .any(|(op, _)| matches!(op, LocalOp::Tiles { kernel, .. } if !kernel.preloaded().is_empty()));
    let used = used.chain(preloads.then_some(MemKind::Tcm));
    let kinds: BTreeSet<MemKind> = used.filter(|k| limited(*k)).collect();
    if kinds.is_empty() && placements.is_empty() {
        return Ok(out);
    }
    if let Some((name, _)) =
        placements.named.iter().find(|n| !schedule.buffers.iter().any(|b| b.name == *n.0))
    {
        let names: Vec<&str> = schedule.buffers.iter().map(|b| b.name.as_str()).collect();
        let known = names.iter().copied().chain(["default"]);
        let near = nearest(name, known).map_or(String::new(), |n| format!("did you mean `{n}`? "));
        return Err(Diagnostic::error(
            "E469",
            format!("a placement is given for `{name}`, and {} has no such tensor", schedule.name),
        )
        .help(format!("{near}The tensors are {}; `default` applies to all", names.join(", ")))
        .into());
    }
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled)?;
    if program.ranks() != machine.device_count() as u64 {
        return Ok(out);
    }
    let show = |rank: u64| schedule.mesh.show(rank);
    for device in machine.devices() {
        let rank = u64::from(device.0);
        for (i, b) in schedule.buffers.iter().enumerate() {
            let placement = placements.of(b.name.as_str());
            if !limited(b.memory) && placement.is_none() {
                continue;
            }
            let dims = program.dims(BufferId(i as u32), rank).map_err(|f| f.diagnostic(show))?;
            let tensor = Tensor { name: b.name.as_str(), what: "buffer", kind: b.memory, span: b.span };
            out.place(&tensor, &dims, b.dtype.bytes(), machine, device, placement)?;
        }
        for w in schedule.windows.iter().filter(|w| limited(w.memory)) {
            let tensor = Tensor { name: w.name.as_str(), what: "window", kind: w.memory, span: w.span };
            out.place(&tensor, &[w.slots, w.capacity], w.dtype.bytes(), machine, device, None)?;
        }
        if let Some(most) = preloaded(&program, rank)? {
            out.place(&most.0, &[most.1], 1, machine, device, None)?;
        }
        for (queue, rings) in rings(&program, rank, &limited)? {
            let q = &schedule.queues[queue];
            let tensor = Tensor { name: q.name.as_str(), what: "queue", kind: q.memory, span: q.span };
            out.place(&tensor, &[rings, q.depth, q.capacity], q.dtype.bytes(), machine, device, None)?;
        }
    }
    Ok(out)
}

/// First addresses of the buffers and windows of every rank, as [`lay_out`] assigns them if no
/// placement divides tensors: one after another, at multiples of [`ALIGN`].
#[derive(Clone, Debug)]
pub struct Addresses {
    /// By rank: the first byte of each buffer, then of each window.
    first: Vec<Vec<u64>>,
    buffers: usize,
}

impl Addresses {
    /// Computes the addresses of the buffers and windows in one kind of memory. Those in other
    /// kinds get 0.
    ///
    /// # Errors
    /// Returns the faults of [`Program::dims`].
    pub fn new(program: &Program<'_>, kind: MemKind) -> Result<Addresses, Diagnostics> {
        let s = program.schedule;
        let show = |rank: u64| s.mesh.show(rank);
        let of_rank = |rank: u64| {
            let (mut list, mut end) = (vec![], 0u64);
            let mut place = |memory: MemKind, bytes: u64| {
                list.push(if memory == kind { end } else { 0 });
                if memory == kind {
                    // Saturation is harmless: a tensor that does not fit is reported as E468.
                    end = end.saturating_add(bytes.checked_next_multiple_of(ALIGN).unwrap_or(bytes));
                }
            };
            for (i, b) in s.buffers.iter().enumerate() {
                let dims = program.dims(BufferId(i as u32), rank).map_err(|f| f.diagnostic(show))?;
                place(b.memory, dims.iter().fold(b.dtype.bytes(), |n, d| n.saturating_mul(*d)));
            }
            for w in &s.windows {
                place(w.memory, w.slots.saturating_mul(w.capacity).saturating_mul(w.dtype.bytes()));
            }
            Ok(list)
        };
        let first = (0..program.ranks()).map(of_rank).collect::<Result<_, Diagnostics>>()?;
        Ok(Addresses { first, buffers: s.buffers.len() })
    }

    /// Returns the address of the first byte that an access touches on a rank.
    pub fn of(&self, schedule: &Schedule, rank: u64, access: &Access) -> u64 {
        let (place, element, width) = match access.mem {
            Mem::Buffer(b) => (b as usize, access.start, schedule.buffer(BufferId(b)).dtype.bytes()),
            Mem::Slot(w, slot) => {
                let window = schedule.window(WindowId(w));
                let element = slot.saturating_mul(window.capacity).saturating_add(access.start);
                (self.buffers + w as usize, element, window.dtype.bytes())
            }
        };
        let first = self.first.get(rank as usize).and_then(|l| l.get(place)).copied().unwrap_or(0);
        first.saturating_add(element.saturating_mul(width))
    }
}

/// Returns the kind of memory that holds the data of an access.
pub fn kind_of(schedule: &Schedule, mem: Mem) -> MemKind {
    match mem {
        Mem::Buffer(b) => schedule.buffer(BufferId(b)).memory,
        Mem::Slot(w, _) => schedule.window(WindowId(w)).memory,
    }
}

/// Counts the rings in which a rank receives, by queue array. Only arrays in memories of limited
/// size are counted.
fn rings(
    program: &Program<'_>,
    rank: u64,
    limited: &dyn Fn(MemKind) -> bool,
) -> Result<BTreeMap<usize, u64>, Diagnostics> {
    let queues = &program.schedule.queues;
    if !queues.iter().any(|q| limited(q.memory)) {
        return Ok(BTreeMap::new());
    }
    let mut seen: BTreeSet<(u64, u32)> = BTreeSet::new();
    for stream in 0..program.streams.len() as u32 {
        let mut cursor = Cursor::new(program, rank, stream, 0);
        let fault = |f: kbc_ir::walk::Fault| f.diagnostic(|r| program.schedule.mesh.show(r));
        while let Some(step) = cursor.next_step().map_err(fault)? {
            if let Step::Act(Act::Recv { peer, queue, .. }, ..) = step {
                seen.insert((peer, queue));
            }
        }
    }
    let mut out = BTreeMap::new();
    for (_, queue) in seen {
        let array = program.queue_name(queue).0.0 as usize;
        if limited(queues[array].memory) {
            *out.entry(array).or_insert(0) += 1;
        }
    }
    Ok(out)
}

/// Iterates over the local operations of a schedule, each with its source span.
pub fn locals(schedule: &Schedule) -> impl Iterator<Item = (&LocalOp, Span)> {
    let streams = schedule.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams);
    let mut found = vec![];
    for s in streams {
        each_op(&s.body, &mut |op, span| {
            if let SOp::Local(op) = op {
                found.push((op, span));
            }
        });
    }
    found.into_iter()
}

/// Returns the tile kernel with the most bytes of preloaded operands on a rank, and those bytes.
/// Only the maximum counts, because a core runs one kernel at a time.
fn preloaded<'s>(program: &Program<'s>, rank: u64) -> Result<Option<(Tensor<'s>, u64)>, Diagnostics> {
    let show = |rank: u64| program.schedule.mesh.show(rank);
    let mut most: Option<(Tensor<'_>, u64)> = None;
    for (op, span) in locals(program.schedule) {
        let LocalOp::Tiles { kernel, args, .. } = op else { continue };
        let sizes = args.iter().map(|b| program.dims(*b, rank)).collect::<Result<Vec<_>, _>>();
        let sizes = sizes.map_err(|f| f.diagnostic(show))?;
        let views: Vec<&[u64]> = sizes.iter().map(|s| &s[..]).collect();
        let work = kernel.work(&views);
        let bytes = work.map_or(0, |w| w.preloaded);
        if bytes > most.as_ref().map_or(0, |m| m.1) {
            let tensor = Tensor {
                name: kernel.name.as_str(),
                what: "preloaded operands of",
                kind: MemKind::Tcm,
                span,
            };
            most = Some((tensor, bytes));
        }
    }
    Ok(most)
}

/// A tensor to be placed, with what diagnostics need.
struct Tensor<'a> {
    name: &'a str,
    what: &'a str,
    kind: MemKind,
    span: Span,
}

impl Memories {
    fn place(
        &mut self,
        tensor: &Tensor<'_>,
        dims: &[u64],
        element_bytes: u64,
        machine: &Topology,
        device: DeviceId,
        placement: Option<DevicePlacement>,
    ) -> Result<(), Diagnostic> {
        let at =
            |d: Diagnostic| if tensor.span.is_none() { d } else { d.primary(tensor.span, "this tensor") };
        let placement = placement.unwrap_or_default();
        let shards = placement.shards(dims, element_bytes, machine, device).map_err(|d| {
            at(d.note(format!("{} {} has the placement {placement}", tensor.what, tensor.name)))
        })?;
        let Some(size) = machine.settings().size(tensor.kind) else { return Ok(()) };
        for shard in shards {
            let mut place = shard.sip.clone();
            if machine.is_package() {
                place.extend(shard.cube);
                // A cube's PEs share its SRAM.
                place.extend((tensor.kind != MemKind::Sram).then_some(shard.pe));
            }
            let memory =
                self.list.entry((tensor.kind, place.clone())).or_insert_with(|| Memory::new(size as u64));
            let Err(full) = memory.allocate(tensor.name, shard.bytes) else { continue };
            let mut largest: Vec<(u64, &str)> = memory.live().map(|l| (l.1, l.2)).collect();
            largest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
            let held: Vec<String> =
                largest.iter().take(LISTED).map(|l| format!("{} {} B", l.1, l.0)).collect();
            let list: Vec<String> = place.iter().map(u32::to_string).collect();
            let title = format!(
                "{} `{}` does not fit in {} of ({}): it has {} B, and {} of {} B are free",
                tensor.what,
                tensor.name,
                tensor.kind,
                list.join(","),
                shard.bytes,
                full.free,
                memory.capacity()
            );
            let mut d = Diagnostic::error("E468", title).help(format!(
                "use smaller parts, another memory, or a larger `{}_size` of the machine",
                tensor.kind
            ));
            if !held.is_empty() {
                d = d.note(format!("already in this memory: {}", held.join(", ")));
            }
            if full.largest < full.free {
                d = d.note(format!("the largest free range has {} B", full.largest));
            }
            return Err(at(d));
        }
        Ok(())
    }
}

//! `kbc explain memory`, and the shards of `kbc explain placement`: the contents of the memories of
//! a machine.
//!
//! The module owns the tables. [`kbc_machine::memory`] assigns addresses, and
//! [`kbc_machine::placement`] makes shards.

use crate::build::Built;
use crate::failure::Outcome;
use crate::report::amounts::bytes;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferId, SOp, Schedule};
use kbc_ir::types::DType;
use kbc_ir::walk::Program;
use kbc_machine::memory::{Memories, Memory, MemoryPlace, lay_out, locals};
use kbc_machine::placement::{Interior, Shard};
use kbc_machine::share::{PeTransfer, of_rank, volume, volumes};
use kbc_machine::topology::{DeviceId, Topology};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Largest number of lines about the shards of one tensor.
const LISTED: usize = 16;

/// Memories with equal contents are one entry.
pub fn text(built: &Built) -> Outcome<String> {
    let Some(schedule) = built.module.schedule() else { return Ok(String::new()) };
    let Memories { list } = lay_out(schedule, &built.topology, &built.placements)?;
    if list.is_empty() {
        return Ok(
            "the machine does not state the size of any memory that the program uses (hbm_size, tcm_size, ..)\n"
                .into(),
        );
    }
    let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((kind, place), memory) in &list {
        let used: u64 = memory.live().map(|l| l.1).sum();
        let mut body = format!("{kind}: {} of {} used\n", bytes(used), bytes(memory.capacity()));
        for (at, size, name) in memory.live() {
            body += &format!("  {:>14} .. {:<14} {name}\n", at, at + size);
        }
        let places: Vec<String> = place.iter().map(u32::to_string).collect();
        let entry = alike.entry(body).or_default();
        entry.push(format!("({})", places.join(",")));
    }
    let mut out = String::new();
    for (body, places) in alike {
        let who = match &places[..] {
            [one] => one.clone(),
            [first, .., last] => format!("{} memories, {first} to {last}", places.len()),
            [] => continue,
        };
        out += &format!("{who}, {body}");
    }
    Ok(out)
}

/// Returns the contents of every memory as JSON, without merging equal ones.
///
/// # Errors
/// As [`text`].
pub fn json(built: &Built) -> Outcome<Value> {
    let Some(schedule) = built.module.schedule() else { return Ok(json!({ "memories": [] })) };
    let Memories { list } = lay_out(schedule, &built.topology, &built.placements)?;
    let one = |((kind, place), memory): (&MemoryPlace, &Memory)| {
        let tensors =
            memory.live().map(|(at, size, name)| json!({ "name": name, "offset": at, "bytes": size }));
        json!({
            "kind": kind.to_string(),
            "place": place,
            "capacity_bytes": memory.capacity(),
            "used_bytes": memory.live().map(|l| l.1).sum::<u64>(),
            "tensors": tensors.collect::<Vec<_>>(),
        })
    };
    Ok(json!({ "memories": list.iter().map(one).collect::<Vec<_>>() }))
}

/// The inside of the first device: the shards of its tensors, and how its PEs share local work.
#[derive(Default)]
pub struct Inside {
    device: String,
    tensors: Vec<Sharded>,
    work: Vec<SharedWork>,
}

/// A tensor with its shards.
struct Sharded {
    name: String,
    dtype: DType,
    dims: Vec<u64>,
    placement: String,
    shards: Vec<Shard>,
}

/// A local operation that PEs share.
struct SharedWork {
    operation: &'static str,
    result: String,
    /// PEs that take part, of all PEs of the device.
    pes: (u64, u64),
    /// The most elements that one of them computes.
    most: u64,
    fetched_bytes: u64,
    sent_bytes: u64,
}

/// Returns the inside of the first device. It is empty if the machine file has no placement.
///
/// # Errors
/// Returns the errors of sizes and of placing shards.
pub fn inside(built: &Built) -> Outcome<Inside> {
    let Some(schedule) = built.module.schedule() else { return Ok(Inside::default()) };
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled)?;
    let device = DeviceId(0);
    let mut tensors = vec![];
    for (i, b) in schedule.buffers.iter().enumerate() {
        let Some(placement) = built.placements.of(b.name.as_str()) else { continue };
        let dims =
            program.dims(BufferId(i as u32), 0).map_err(|f| f.diagnostic(|r| schedule.mesh.show(r)))?;
        let shards = placement.shards(&dims, b.dtype.bytes(), &built.topology, device)?;
        let (name, placement) = (b.name.to_string(), placement.to_string());
        tensors.push(Sharded { name, dtype: b.dtype, dims, placement, shards });
    }
    let work = work(schedule, &program, &built.topology);
    Ok(Inside { device: built.topology.name(device), tensors, work })
}

/// Returns how the PEs of the first device share its local work.
fn work(schedule: &Schedule, program: &Program<'_>, topology: &Topology) -> Vec<SharedWork> {
    let mut out = vec![];
    for (op, _) in locals(schedule) {
        // Work of other ranks may have no sizes here.
        let Ok(Some(share)) = of_rank(program, op, 0, topology) else { continue };
        let bytes = |moves: &[PeTransfer]| {
            let one = |m: &PeTransfer| volume(&m.block) * schedule.buffer(m.buffer).dtype.bytes();
            moves.iter().map(one).sum::<u64>()
        };
        out.push(SharedWork {
            operation: SOp::Local(op.clone()).word(),
            result: schedule.buffer(op.dst()).name.to_string(),
            pes: (share.parts.len() as u64, u64::from(Interior::of(topology).count())),
            most: share.parts.iter().map(|p| volumes(&p.result)).max().unwrap_or(0),
            fetched_bytes: bytes(&share.fetches),
            sent_bytes: bytes(&share.sends),
        });
    }
    out
}

impl Inside {
    /// Returns the shards of every tensor, a few of many, and the shared work.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for t in &self.tensors {
            let sizes: Vec<String> = t.dims.iter().map(u64::to_string).collect();
            let (sizes, device) = (sizes.join(", "), &self.device);
            out += &format!("%{}: {}[{sizes}] inside {device}: {}\n", t.name, t.dtype, t.placement);
            for s in t.shards.iter().take(LISTED) {
                let numbers = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                let slice: Vec<String> = s.slice.iter().map(|r| format!("{}..{}", r.start, r.end)).collect();
                out += &format!(
                    "  sip ({}) cube ({}) pe {}  [{}]  offset {} B, {} B\n",
                    numbers(&s.sip),
                    numbers(&s.cube),
                    s.pe,
                    slice.join(", "),
                    s.offset,
                    s.bytes
                );
            }
            if t.shards.len() > LISTED {
                out += &format!("  and {} more\n", t.shards.len() - LISTED);
            }
        }
        if !self.work.is_empty() {
            out += &format!("local work inside {}\n", self.device);
        }
        for w in &self.work {
            out += &format!(
                "  {} %{}: {} of {} PEs, at most {} elements each, {} B fetched",
                w.operation, w.result, w.pes.0, w.pes.1, w.most, w.fetched_bytes
            );
            out += &if w.sent_bytes > 0 { format!(", {} B sent\n", w.sent_bytes) } else { "\n".to_owned() };
        }
        out
    }

    /// Returns the same as JSON, with all shards; null if the device has no inside.
    pub fn json(&self) -> Value {
        if self.tensors.is_empty() && self.work.is_empty() {
            return Value::Null;
        }
        let shard = |s: &Shard| {
            let slice: Vec<_> = s.slice.iter().map(|r| [r.start, r.end]).collect();
            json!({
                "sip": s.sip, "cube": s.cube, "pe": s.pe, "slice": slice, "offset": s.offset, "bytes": s.bytes,
            })
        };
        let tensor = |t: &Sharded| {
            json!({
                "name": t.name,
                "dtype": t.dtype.to_string(),
                "dims": t.dims,
                "placement": t.placement,
                "shards": t.shards.iter().map(shard).collect::<Vec<_>>(),
            })
        };
        let work = |w: &SharedWork| {
            json!({
                "operation": w.operation,
                "result": w.result,
                "pes": w.pes.0,
                "of_pes": w.pes.1,
                "most_elements": w.most,
                "fetched_bytes": w.fetched_bytes,
                "sent_bytes": w.sent_bytes,
            })
        };
        json!({
            "device": self.device,
            "tensors": self.tensors.iter().map(tensor).collect::<Vec<_>>(),
            "work": self.work.iter().map(work).collect::<Vec<_>>(),
        })
    }
}

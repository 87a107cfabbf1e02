//! `kbc explain memory`, and the shards of `kbc explain placement`: the contents of the memories of
//! a machine.
//!
//! The module owns the tables. [`kbc_machine::memory`] assigns addresses, and
//! [`kbc_machine::placement`] makes shards.

use crate::build::Built;
use crate::failure::Outcome;
use crate::report::human::bytes;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferId, SOp, Schedule};
use kbc_ir::walk::Program;
use kbc_machine::memory::{Memories, Memory, MemoryPlace, lay_out, locals};
use kbc_machine::placement::Interior;
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

/// Returns the shards of the tensors of the first device, if the machine file has a placement.
pub fn shards(built: &Built) -> Outcome<String> {
    let Some(schedule) = built.module.schedule() else { return Ok(String::new()) };
    let mut out = String::new();
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled)?;
    let device = DeviceId(0);
    for (i, b) in schedule.buffers.iter().enumerate() {
        let Some(placement) = built.placements.of(b.name.as_str()) else { continue };
        let dims =
            program.dims(BufferId(i as u32), 0).map_err(|f| f.diagnostic(|r| schedule.mesh.show(r)))?;
        let shards = placement.shards(&dims, b.dtype.bytes(), &built.topology, device)?;
        let sizes: Vec<String> = dims.iter().map(u64::to_string).collect();
        let sizes = sizes.join(", ");
        out += &format!(
            "%{}: {}[{sizes}] inside {}: {placement}\n",
            b.name,
            b.dtype,
            built.topology.name(device)
        );
        for s in shards.iter().take(LISTED) {
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
        if shards.len() > LISTED {
            out += &format!("  and {} more\n", shards.len() - LISTED);
        }
    }
    Ok(out + &work(schedule, &program, &built.topology))
}

/// Returns how the PEs of the first device share its local work.
fn work(schedule: &Schedule, program: &Program<'_>, topology: &Topology) -> String {
    let mut out = String::new();
    for (op, _) in locals(schedule) {
        // Work of other ranks may have no sizes here.
        let Ok(Some(share)) = of_rank(program, op, 0, topology) else { continue };
        let most = share.parts.iter().map(|p| volumes(&p.result)).max().unwrap_or(0);
        let bytes = |moves: &[PeTransfer]| {
            let one = |m: &PeTransfer| volume(&m.block) * schedule.buffer(m.buffer).dtype.bytes();
            moves.iter().map(one).sum::<u64>()
        };
        out += &format!(
            "  {} %{}: {} of {} PEs, at most {most} elements each, {} B fetched",
            SOp::Local(op.clone()).word(),
            schedule.buffer(op.dst()).name,
            share.parts.len(),
            Interior::of(topology).count(),
            bytes(&share.fetches)
        );
        let sent = bytes(&share.sends);
        out += &if sent > 0 { format!(", {sent} B sent\n") } else { "\n".to_owned() };
    }
    if out.is_empty() { out } else { format!("local work inside {}\n{out}", topology.name(DeviceId(0))) }
}

//! Data of puts and gets in memories that are nodes of a package (`data: named`): its route, and
//! the controllers at both ends.
//!
//! This module owns the ports of memories and the ends of these routes
//! (docs/adr/027-memories.md). `engine/moves.rs` makes a route from the port of the source memory
//! to the port of the destination memory. Notifies, requests and queues leave from the device. The
//! time of a controller is in [`super::controllers`].

use kbc_diag::Diagnostics;
use kbc_ir::schedule::{Ref, Region, SOp, Schedule};
use kbc_ir::types::MemKind;
use kbc_ir::walk::{Mem, Program};
use kbc_machine::memory::{Addresses, kind_of};
use kbc_machine::topology::{Data, DeviceId, Route, Topology};

/// Locations of the data of ranks, on a machine with `data: named`.
pub(super) struct Moves {
    /// By rank: the nodes of its memories, in the order of [`MemKind::ALL`].
    ports: Vec<[DeviceId; 4]>,
    /// Whether each memory has a controller with channels, in the same order.
    pub(super) controlled: [bool; 4],
    /// Addresses of data in memories that have controllers.
    pub(super) addresses: Option<Addresses>,
}

/// Returns the index of a kind in [`MemKind::ALL`].
pub(super) fn place(kind: MemKind) -> usize {
    MemKind::ALL.iter().position(|k| *k == kind).unwrap_or(0)
}

impl Moves {
    /// Returns the locations of data. None if data is at its device.
    pub(super) fn new(program: &Program<'_>, topo: &Topology) -> Result<Option<Moves>, Diagnostics> {
        if !topo.is_package() || topo.settings().package.data() == Data::Pe {
            return Ok(None);
        }
        let controlled = MemKind::ALL.map(|k| topo.controller(k).is_some());
        // Only slices of HBM have controllers.
        let addresses = match controlled.contains(&true) {
            true => Some(Addresses::new(program, MemKind::Hbm)?),
            false => None,
        };
        let ports = topo.devices().map(|d| MemKind::ALL.map(|k| topo.data_port(d, k))).collect();
        Ok(Some(Moves { ports, controlled, addresses }))
    }

    /// Returns the node of a rank's memory.
    pub(super) fn port(&self, rank: u64, kind: MemKind) -> DeviceId {
        self.ports[rank as usize][place(kind)]
    }
}

/// Returns the memories that a put or get moves data from and to.
pub(super) fn memories(schedule: &Schedule, region: &Region, op: &SOp) -> Option<[MemKind; 2]> {
    let (SOp::Put { src, dst, .. } | SOp::Get { src, dst, .. }) = op else { return None };
    let kind = |r: &Ref| {
        let mem = match r {
            Ref::Chunk { operand, .. } => Mem::Buffer(region.operands.get(operand.0 as usize)?.buffer.0),
            Ref::Slot { window, .. } => Mem::Slot(window.0, 0),
        };
        Some(kind_of(schedule, mem))
    };
    Some([kind(src)?, kind(dst)?])
}

/// The ends of a message's route.
#[derive(Clone, Debug)]
pub(super) struct Ends<'p> {
    /// If the message returns into the memory that it comes from: the route back, which follows the
    /// route out.
    pub(super) back: Option<Route<'p>>,
    /// The controller that it is written through, as [`super::log::controller`].
    pub(super) write: Option<u32>,
    /// First bytes of the data at the source and at the destination.
    pub(super) spots: [u64; 2],
}

//! First words of operations, as texts, reports and traces print them.

use crate::schedule::{LocalOp, SOp};

impl SOp {
    /// Returns the first word of the operation.
    pub fn word(&self) -> &'static str {
        match self {
            SOp::Copy { .. } => "copy",
            SOp::Reduce { .. } => "reduce",
            SOp::Put { .. } => "put",
            SOp::Get { .. } => "get",
            SOp::Send { .. } => "send",
            SOp::Recv { .. } => "recv",
            SOp::Room { .. } => "room",
            SOp::Notify { .. } => "notify",
            SOp::Wait { .. } => "wait",
            SOp::FenceRelease => "fence.release",
            SOp::FenceAcquire => "fence.acquire",
            SOp::FenceComplete => "fence.complete",
            SOp::Record(_) => "record",
            SOp::Await(_) => "await",
            SOp::Local(l) => l.word(),
            SOp::Mark { .. } => "mark",
            SOp::Launch(_) => "launch",
            SOp::HostWait(_) => "host.wait",
            SOp::HostRead(_) => "host.read",
            SOp::HostWrite { .. } => "host.write",
            SOp::Drain => "drain",
        }
    }
}

impl LocalOp {
    /// Returns the first word of the operation.
    pub fn word(&self) -> &'static str {
        match self {
            LocalOp::Compute { .. } => "compute",
            LocalOp::Matmul { .. } => "matmul",
            LocalOp::ReduceDim { .. } => "reduce_dim",
            LocalOp::Cast { .. } => "cast",
            LocalOp::Copy { .. } => "copy",
            LocalOp::Pack { .. } => "pack",
            LocalOp::Unpack { .. } => "unpack",
            LocalOp::Transpose { .. } => "transpose",
            LocalOp::Embedding { .. } => "embedding",
            LocalOp::Grouped { .. } => "grouped",
            LocalOp::Tiles { .. } => "tiles",
            LocalOp::Fill { .. } => "fill",
            LocalOp::Slice { .. } => "slice",
        }
    }
}

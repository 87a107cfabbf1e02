//! Interface between compiled code and its host: the context, statuses, and the layout of frames.
//!
//! The module owns the interface alone. [`super::run`] fills the context, and [`super::calls`]
//! contains the functions that compiled code calls.

use super::world::World;
use cranelift::prelude::MemFlagsData;

/// The argument of a role's function, passed as one pointer.
#[repr(C)]
pub(super) struct Ctx {
    /// The host side.
    pub(super) world: *mut World<'static>,
    /// Counters of this rank.
    pub(super) counters: *mut u64,
    /// For each event of this rank, the number of calls in which it was recorded.
    pub(super) recorded: *const i64,
    /// Tables of the compiled schedule.
    pub(super) tables: *const *const i64,
    /// Frame of the stream.
    pub(super) env: *mut i64,
    /// Number of operations until the function yields; negative means never.
    pub(super) budget: i64,
    /// The state in which to resume.
    pub(super) state: i64,
    /// What it waits for: the number of a counter, an event or a queue.
    pub(super) want: i64,
    /// The value that the counter must have, the call of the event, or the peer at the other end of
    /// the queue.
    pub(super) value: i64,
    /// This rank.
    pub(super) rank: i64,
    /// Destination of a reduce, resolved by the host.
    pub(super) dst: *mut u8,
    /// The elements that the destination of a reduce holds, which may be elsewhere.
    pub(super) old: *const u8,
    /// Source of a reduce.
    pub(super) src: *const u8,
    /// Scratch memory for blocks of f32.
    pub(super) scratch: *mut f32,
}

macro_rules! offsets {
    ($($name:ident = $field:ident),*) => {
        $(pub(super) const $name: i32 = std::mem::offset_of!(Ctx, $field) as i32;)*
    };
}
offsets!(
    COUNTERS = counters,
    RECORDED = recorded,
    TABLES = tables,
    ENV = env,
    BUDGET = budget,
    STATE = state,
    WANT = want,
    VALUE = value,
    RANK = rank,
    DST = dst,
    OLD = old,
    SRC = src,
    SCRATCH = scratch
);

/// The body has ended.
pub(super) const DONE: i64 = 0;
/// The function waits for a counter.
pub(super) const WAITS: i64 = 1;
/// The function waits for an event.
pub(super) const AWAITS: i64 = 2;
/// The function has yielded.
pub(super) const YIELDS: i64 = 3;
/// The function met a fault.
pub(super) const FAULT: i64 = 4;
/// The function waits for a free slot of a queue.
pub(super) const FULL: i64 = 5;
/// The function waits for a message of a queue.
pub(super) const EMPTY: i64 = 6;

/// The function of a role's stream in a region.
pub(super) type RoleFn = unsafe extern "C" fn(*mut Ctx) -> i64;

/// Slots of the frame of a stream: first the environment of the walk (call, mesh axes, coordinates,
/// steps), then the linear number of the rank whose coordinates along the region's axes are all 0,
/// then the ends of loops.
pub(super) struct Frame;

impl Frame {
    /// Returns the byte offset of a slot.
    pub(super) fn offset(slot: usize) -> i32 {
        (slot * 8) as i32
    }
}

/// Returns the flags of accesses to memory that kbc owns, which never trap.
pub(super) fn trusted() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

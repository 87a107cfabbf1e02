//! Events that an observer of a simulation can receive in detail: streams that reach operations,
//! and messages on their route.
//!
//! This module owns the types. [`super::hooks`] makes the calls. An observer that does not want
//! these events costs one test per event.

use super::MessageKind;
use kbc_diag::Span;
use kbc_ir::schedule::RegionId;
use kbc_machine::topology::LinkId;

/// The identity of a message within a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId {
    /// The thread that sent it, or for a reply, the thread that made the request: rank times
    /// streams plus stream.
    pub thread: u32,
    /// Its number among the requests of that thread.
    pub sequence: u64,
    /// Whether it is the data of a get. The request of the get has the same thread and sequence.
    pub reply: bool,
}

/// A stream of a rank has reached its next step. Its previous step is over.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepReached {
    /// The rank.
    pub rank: u64,
    /// Number of the stream.
    pub stream: u32,
    /// The call, counted from 0.
    pub call: u64,
    /// Time in ns.
    pub at_ns: f64,
    /// The next step.
    pub next: Next,
}

/// The next step of a stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Next {
    /// The begin of a region.
    Enter(RegionId),
    /// The end of a region.
    Leave(RegionId),
    /// An operation.
    Op(Begun),
    /// The end of the call.
    End,
}

/// An operation that a stream begins.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Begun {
    /// Number of the operation in the schedule, as the walk numbers them.
    pub op: u32,
    /// Its name in `.kir`.
    pub name: &'static str,
    /// Its region.
    pub region: RegionId,
    /// Its source position.
    pub span: Span,
    /// The other rank of a put, get or notify.
    pub peer: Option<u64>,
    /// Number of bytes that it moves, combines or produces. 0 for an operation without data.
    pub bytes: u64,
}

/// A message is sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sent {
    /// The message.
    pub id: MessageId,
    /// Its kind.
    pub kind: MessageKind,
    /// Number of the operation.
    pub op: u32,
    /// Sending rank.
    pub from: u64,
    /// Receiving rank.
    pub to: u64,
    /// Bytes on the links.
    pub bytes: u64,
    /// Time in ns.
    pub at_ns: f64,
}

/// A message gets a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pass {
    /// The message.
    pub id: MessageId,
    /// Its kind.
    pub kind: MessageKind,
    /// Number of the operation.
    pub op: u32,
    /// Sending rank.
    pub from: u64,
    /// Receiving rank.
    pub to: u64,
    /// Bytes on the links.
    pub bytes: u64,
    /// The link.
    pub link: LinkId,
    /// Time at which its head arrived at the link, in ns.
    pub asked_ns: f64,
    /// Time at which it got the link, in ns. Until then it waited for earlier messages.
    pub start_ns: f64,
    /// Time from which the next message may enter, in ns.
    pub free_ns: f64,
}

/// The operation that a stream has reached does not end at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OpHeld {
    /// The rank.
    pub rank: u64,
    /// Number of the stream.
    pub stream: u32,
    /// Time in ns.
    pub at_ns: f64,
}

/// A blocked stream continues. The cause is the event that the observer received right before: a
/// message that arrived, or the `record` or `notify` that a stream reached.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Woken {
    /// The rank.
    pub rank: u64,
    /// Number of the stream.
    pub stream: u32,
    /// Time in ns.
    pub at_ns: f64,
}

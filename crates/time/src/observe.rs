//! What an observer of a simulation is told, in detail: streams that come to operations, messages on their way.
//!
//! Owns the types; who calls is [`super::hooks`]. An observer that asks for none of it costs one test an event.

use super::MessageKind;
use kbc_diag::Span;
use kbc_ir::schedule::RegionId;
use kbc_machine::topology::LinkId;

/// A message, told apart from all others of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId {
    /// Who sent it or, for a reply, who asked: rank times streams plus stream.
    pub thread: u32,
    /// Which of its messages it is.
    pub sequence: u64,
    /// The data of a get, whose request has the same thread and sequence.
    pub reply: bool,
}

/// A stream of a rank comes to something. What it did before is over.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Turn {
    /// The rank.
    pub rank: u64,
    /// Number of the stream.
    pub stream: u32,
    /// The call, from 0.
    pub call: u64,
    /// When, in ns.
    pub at_ns: f64,
    /// What it comes to.
    pub next: Next,
}

/// What a stream comes to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Next {
    /// A region begins.
    Enter(RegionId),
    /// A region is over.
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
    /// What it is called in `.kir`.
    pub name: &'static str,
    /// Its region.
    pub region: RegionId,
    /// Where it is written.
    pub span: Span,
    /// The other rank of a put, get or notify.
    pub peer: Option<u64>,
    /// Bytes that it moves, combines or makes; 0 for an operation without data.
    pub bytes: u64,
}

/// A message leaves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sent {
    /// The message.
    pub id: MessageId,
    /// What it is.
    pub kind: MessageKind,
    /// Number of the operation.
    pub op: u32,
    /// Sender.
    pub from: u64,
    /// Receiver.
    pub to: u64,
    /// Bytes on the links.
    pub bytes: u64,
    /// When, in ns.
    pub at_ns: f64,
}

/// A message gets a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pass {
    /// The message.
    pub id: MessageId,
    /// What it is.
    pub kind: MessageKind,
    /// Number of the operation.
    pub op: u32,
    /// Sender.
    pub from: u64,
    /// Receiver.
    pub to: u64,
    /// Bytes on the links.
    pub bytes: u64,
    /// The link.
    pub link: LinkId,
    /// When its head came to the link, in ns.
    pub asked_ns: f64,
    /// When it got it: until then it waited for earlier ones.
    pub start_ns: f64,
    /// When the next message may have it.
    pub free_ns: f64,
}

/// The operation that a stream has come to does not end at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Held {
    /// The rank.
    pub rank: u64,
    /// Number of the stream.
    pub stream: u32,
    /// When, in ns.
    pub at_ns: f64,
}

/// A stream that was blocked goes on. It was woken by what the observer was told right before: a message that arrived,
/// or the `record` or `notify` that a stream came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Woken {
    /// The rank.
    pub rank: u64,
    /// Number of the stream.
    pub stream: u32,
    /// When, in ns.
    pub at_ns: f64,
}

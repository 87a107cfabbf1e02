//! Operations of a schedule: one definition for all forms in which an operation occurs.
//!
//! [`Op`] is generic over the representation of its parts ([`Repr`]): names and expressions in a
//! schedule ([`SOp`]), numbers and resolved expressions in compiled schedules, and the forms of the
//! walk ([`crate::walk`]) with concrete addresses or with bytes alone. A new operation is a variant
//! of [`Op`] and one line in each function of this module: its word, its parts, its translation.
//! [`crate::optable`] documents it, and [`crate::text`] reads and prints it.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

use crate::expr::Expr;
use crate::local_op::LocalOp;
use crate::name::Name;
use crate::optable::Level::Schedule;
use crate::optable::word;
use crate::refs::{BufferId, Channel, Counter, Peer, Ref, RefUse, RegionId, WindowId};
use crate::types::ReduceOp;

/// Representation of the parts of an operation.
pub trait Repr {
    /// Elements in memory of this rank.
    type Near;
    /// Elements in memory of the peer.
    type Far;
    /// Another rank.
    type Peer;
    /// A counter of a signal.
    type Counter;
    /// Value that a wait asks for.
    type Value;
    /// A queue between this rank and a peer.
    type Queue;
    /// An event of this rank.
    type Event;
    /// An operation on whole local buffers.
    type Local;
    /// A point of a message that is not synchronized yet.
    type Mark;
    /// An operation that only the host's program has.
    type Host;
}

/// An operation in a role, or in the host's program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Op<R: Repr> {
    /// `copy dst = src`.
    Copy {
        /// Destination.
        dst: R::Near,
        /// Source.
        src: R::Near,
    },
    /// `combine OP dst, src`: `dst[i] = dst[i] OP src[i]`.
    Reduce {
        /// Combiner.
        op: ReduceOp,
        /// Destination, which is also read.
        dst: R::Near,
        /// Source.
        src: R::Near,
    },
    /// `put src -> peer : dst`: asynchronous. It reads `src` and writes `dst` at any time until the
    /// next `fence.release`.
    Put {
        /// Source, in this rank's memory.
        src: R::Near,
        /// Peer whose memory is written.
        peer: R::Peer,
        /// Destination, in the peer's memory.
        dst: R::Far,
    },
    /// `get dst <- peer : src`: asynchronous. It reads `src` and writes `dst` at any time until the
    /// next `fence.complete`.
    Get {
        /// Destination, in this rank's memory.
        dst: R::Near,
        /// Peer whose memory is read.
        peer: R::Peer,
        /// Source, in the peer's memory.
        src: R::Far,
    },
    /// `get.combine OP dst <- peer : src`: completes the gets of its stream so far. Then it is
    /// asynchronous: it reads `src` and combines it into `dst` at any time until the next
    /// `fence.complete` or `get.combine`.
    GetCombine {
        /// Combiner.
        op: ReduceOp,
        /// Destination, in this rank's memory, which is also read.
        dst: R::Near,
        /// Peer whose memory is read.
        peer: R::Peer,
        /// Source, in the peer's memory.
        src: R::Far,
    },
    /// `send src -> peer : queue[index]`: blocks until the queue to the peer has a free slot, then
    /// writes `src` there. It is complete when the next operation of the stream starts.
    Send {
        /// Source, in this rank's memory.
        src: R::Near,
        /// Receiving peer.
        peer: R::Peer,
        /// Queue.
        queue: R::Queue,
    },
    /// `recv dst <- peer : queue[index]`: blocks until the queue from the peer holds a message,
    /// then takes the oldest message and frees its slot.
    Recv {
        /// Destination, in this rank's memory; it is as long as the message.
        dst: R::Near,
        /// Sending peer.
        peer: R::Peer,
        /// Queue.
        queue: R::Queue,
    },
    /// `room peer : queue[index]`: blocks until the queue to the peer has a free slot. Only this
    /// stream sends into the queue, so the slot stays free until it does.
    Room {
        /// Receiving peer.
        peer: R::Peer,
        /// Queue.
        queue: R::Queue,
    },
    /// `notify peer : signal[index]`: adds 1 to a counter of the peer.
    Notify {
        /// Peer whose counter is incremented.
        peer: R::Peer,
        /// Counter, at the peer.
        counter: R::Counter,
    },
    /// `wait signal[index] >= value` (or `& 1 ==`, or `-=`, depending on the signal's form): blocks
    /// until a counter of this rank meets the condition of the form.
    Wait {
        /// Counter, at this rank.
        counter: R::Counter,
        /// Value to wait for: a count since the domain was allocated, a sense bit, or the amount
        /// that is subtracted.
        value: R::Value,
    },
    /// `fence.release`: completes the puts of its stream. A later notify publishes what the stream
    /// completed before this fence, reads included.
    FenceRelease,
    /// `fence.acquire`: makes data visible whose notify this rank has waited for.
    FenceAcquire,
    /// `fence.complete`: completes the gets of its stream, those that combine included.
    FenceComplete,
    /// `record e`: raises an event of this rank, for `await` in another stream.
    Record(R::Event),
    /// `await e`: blocks until `record e` has happened in this call.
    Await(R::Event),
    /// An operation on whole local buffers.
    Local(R::Local),
    /// One of the points of a message ([`Mark`]). In the walk it does nothing.
    Mark(R::Mark),
    /// `host.read %buffer`, in the host's program: waits until the regions launched so far that
    /// write the buffer are over on this rank, then takes its elements.
    HostRead(BufferId),
    /// Any other operation of the host's program. The walk has none:
    /// [`crate::host::with_host_region`] replaces them.
    Host(R::Host),
}

/// Representation in a schedule: names, and expressions in coordinates and steps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Symbolic {}

impl Repr for Symbolic {
    type Near = Ref;
    type Far = Ref;
    type Peer = Peer;
    type Counter = Counter;
    type Value = Expr;
    type Queue = Channel;
    type Event = Name;
    type Local = LocalOp;
    type Mark = Mark;
    type Host = HostCommand;
}

/// An operation of a schedule.
pub type SOp = Op<Symbolic>;

/// Representation of nothing, for a [`Translate`] that only looks at operations.
impl Repr for () {
    type Near = ();
    type Far = ();
    type Peer = ();
    type Counter = ();
    type Value = ();
    type Queue = ();
    type Event = ();
    type Local = ();
    type Mark = ();
    type Host = ();
}

/// `reserve | publish | accept | free | settle PEER : window[slot]`: a point of a message.
/// `expand` creates marks, and `synchronize` turns them into signals and fences.
#[derive(Clone, PartialEq, Debug)]
pub struct Mark {
    /// Point of the message.
    pub point: Point,
    /// Rank at the other end of the message.
    pub peer: Peer,
    /// Window, at the receiver, into which the message is written.
    pub window: WindowId,
    /// Number of the message among the messages in that window to that receiver, within a call.
    pub slot: Expr,
}

/// Point of a message that needs ordering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Point {
    /// At the sender, before its puts: the slot may be written.
    Reserve,
    /// At the sender, after its puts: the data may be read.
    Publish,
    /// At the receiver, before its reads: the data is there.
    Expect,
    /// At the receiver, after its reads: the slot may be written again.
    Free,
    /// At the sender, later in the same call: the slot may be written again. It takes the place of
    /// [`Point::Reserve`] in the next call.
    Settle,
}

impl Point {
    /// All points, in the order of a message.
    pub const ALL: [Point; 5] = [Point::Reserve, Point::Publish, Point::Expect, Point::Free, Point::Settle];

    /// Returns the word in the text.
    pub fn name(self) -> &'static str {
        match self {
            Point::Reserve => "reserve",
            Point::Publish => "publish",
            Point::Expect => "accept",
            Point::Free => "free",
            Point::Settle => "settle",
        }
    }
}

/// An operation that only the host's program has, apart from [`Op::HostRead`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostCommand {
    /// `host.launch @region`: the streams of this rank may enter the region, in this call.
    Launch(RegionId),
    /// `host.wait @region`: blocks until this rank's streams have left the region.
    Wait(RegionId),
    /// `host.write %dst = %src`: waits until the regions launched so far that read or write `dst`,
    /// or write `src`, are over on this rank, then copies the elements of `src` to `dst`.
    Write {
        /// Destination.
        dst: BufferId,
        /// Source; of the same type and local sizes.
        src: BufferId,
    },
    /// `host.drain`: blocks until this rank's streams have left every region launched so far.
    Drain,
}

impl SOp {
    /// Returns the first word of the operation, as texts, reports and traces print it.
    pub fn word(&self) -> &'static str {
        match self {
            Op::Copy { .. } => const { word(Schedule, "copy") },
            Op::Reduce { .. } => const { word(Schedule, "combine") },
            Op::Put { .. } => const { word(Schedule, "put") },
            Op::Get { .. } => const { word(Schedule, "get") },
            Op::GetCombine { .. } => const { word(Schedule, "get.combine") },
            Op::Send { .. } => const { word(Schedule, "send") },
            Op::Recv { .. } => const { word(Schedule, "recv") },
            Op::Room { .. } => const { word(Schedule, "room") },
            Op::Notify { .. } => const { word(Schedule, "notify") },
            Op::Wait { .. } => const { word(Schedule, "wait") },
            Op::FenceRelease => const { word(Schedule, "fence.release") },
            Op::FenceAcquire => const { word(Schedule, "fence.acquire") },
            Op::FenceComplete => const { word(Schedule, "fence.complete") },
            Op::Record(_) => const { word(Schedule, "record") },
            Op::Await(_) => const { word(Schedule, "await") },
            Op::Local(l) => l.word(),
            // The first word of a mark is its point.
            Op::Mark(_) => "mark",
            Op::HostRead(_) => const { word(Schedule, "host.read") },
            Op::Host(HostCommand::Launch(_)) => const { word(Schedule, "host.launch") },
            Op::Host(HostCommand::Wait(_)) => const { word(Schedule, "host.wait") },
            Op::Host(HostCommand::Write { .. }) => const { word(Schedule, "host.write") },
            Op::Host(HostCommand::Drain) => const { word(Schedule, "host.drain") },
        }
    }

    /// Checks whether the operation names the relays that its message passes.
    pub fn is_routed(&self) -> bool {
        let mut routed = false;
        self.parts(&mut |part| {
            if let OpPart::Peer(peer) = part {
                routed |= !peer.via.relays().is_empty();
            }
        });
        routed
    }

    /// Returns the elements that the operation names, here and at the peer, in order.
    pub fn refs(&self) -> Vec<&Ref> {
        let mut out = vec![];
        self.parts(&mut |part| match part {
            OpPart::Near(_, r) | OpPart::Far(_, r) => out.push(r),
            OpPart::Combiner(_)
            | OpPart::Peer(_)
            | OpPart::Counter(_)
            | OpPart::Value(_)
            | OpPart::Queue(_)
            | OpPart::Event(_)
            | OpPart::Local(_)
            | OpPart::Mark(_)
            | OpPart::Buffer(..)
            | OpPart::Host(_) => {}
        });
        out
    }

    /// Returns the windows that the operation names, in order.
    pub fn windows(&self) -> Vec<WindowId> {
        let mut out = vec![];
        self.parts(&mut |part| match part {
            OpPart::Near(_, Ref::Slot { window, .. }) | OpPart::Far(_, Ref::Slot { window, .. }) => {
                out.push(*window);
            }
            OpPart::Mark(m) => out.push(m.window),
            OpPart::Combiner(_)
            | OpPart::Near(..)
            | OpPart::Far(..)
            | OpPart::Peer(_)
            | OpPart::Counter(_)
            | OpPart::Value(_)
            | OpPart::Queue(_)
            | OpPart::Event(_)
            | OpPart::Local(_)
            | OpPart::Buffer(..)
            | OpPart::Host(_) => {}
        });
        out
    }

    /// Returns the operation with every window replaced by its image under `f`.
    pub fn map_windows(&self, f: &dyn Fn(WindowId) -> WindowId) -> SOp {
        let mut out = self.clone();
        out.parts_mut(&mut |part| match part {
            OpPartMut::Near(_, Ref::Slot { window, .. }) | OpPartMut::Far(_, Ref::Slot { window, .. }) => {
                *window = f(*window);
            }
            OpPartMut::Mark(m) => m.window = f(m.window),
            OpPartMut::Combiner(_)
            | OpPartMut::Near(..)
            | OpPartMut::Far(..)
            | OpPartMut::Peer(_)
            | OpPartMut::Counter(_)
            | OpPartMut::Value(_)
            | OpPartMut::Queue(_)
            | OpPartMut::Event(_)
            | OpPartMut::Local(_)
            | OpPartMut::Buffer(..)
            | OpPartMut::Host(_) => {}
        });
        out
    }

    /// Returns the operation with every expression of its references, peers and counters replaced
    /// by its image under `f`. Local operations stay as they are.
    pub fn map_exprs(&self, f: &impl Fn(&Expr) -> Expr) -> SOp {
        let mut out = self.clone();
        out.parts_mut(&mut |part| match part {
            OpPartMut::Near(_, r) | OpPartMut::Far(_, r) => r.each_expr_mut(&mut |e| *e = f(e)),
            OpPartMut::Peer(p) => p.iter_mut().for_each(|e| *e = f(e)),
            OpPartMut::Counter(c) => c.index = f(&c.index),
            OpPartMut::Queue(q) => q.index = f(&q.index),
            OpPartMut::Value(e) => *e = f(e),
            OpPartMut::Mark(m) => {
                m.peer.iter_mut().for_each(|e| *e = f(e));
                m.slot = f(&m.slot);
            }
            OpPartMut::Combiner(_)
            | OpPartMut::Event(_)
            | OpPartMut::Local(_)
            | OpPartMut::Buffer(..)
            | OpPartMut::Host(_) => {}
        });
        out
    }
}

macro_rules! parts {
    ($(#[$doc:meta])* $part:ident, $(#[$about:meta])* $method:ident, [$($by:tt)*]) => {
        $(#[$doc])*
        pub enum $part<'a, R: Repr> {
            /// Combiner of a reduction.
            Combiner($($by)* ReduceOp),
            /// Elements in memory of this rank.
            Near(RefUse, $($by)* R::Near),
            /// Elements in memory of the peer.
            Far(RefUse, $($by)* R::Far),
            /// The peer. It comes before elements in its memory.
            Peer($($by)* R::Peer),
            /// A counter.
            Counter($($by)* R::Counter),
            /// Value that is asked of the counter before it.
            Value($($by)* R::Value),
            /// A queue.
            Queue($($by)* R::Queue),
            /// An event.
            Event($($by)* R::Event),
            /// A local operation.
            Local($($by)* R::Local),
            /// A point of a message.
            Mark($($by)* R::Mark),
            /// A whole buffer of this rank.
            Buffer(RefUse, $($by)* BufferId),
            /// An operation of the host.
            Host($($by)* R::Host),
        }

        impl<R: Repr> Op<R> {
            $(#[$about])*
            pub fn $method<'a>(self: $($by)* Self, f: &mut impl FnMut($part<'a, R>)) {
                use $part as P;
                match self {
                    Op::Copy { dst, src } => {
                        f(P::Near(RefUse::Write, dst));
                        f(P::Near(RefUse::Read, src));
                    }
                    Op::Reduce { op, dst, src } => {
                        f(P::Combiner(op));
                        f(P::Near(RefUse::Update, dst));
                        f(P::Near(RefUse::Read, src));
                    }
                    Op::Put { src, peer, dst } => {
                        f(P::Near(RefUse::Read, src));
                        f(P::Peer(peer));
                        f(P::Far(RefUse::Write, dst));
                    }
                    Op::Get { dst, peer, src } => {
                        f(P::Near(RefUse::Write, dst));
                        f(P::Peer(peer));
                        f(P::Far(RefUse::Read, src));
                    }
                    Op::GetCombine { op, dst, peer, src } => {
                        f(P::Combiner(op));
                        f(P::Near(RefUse::Update, dst));
                        f(P::Peer(peer));
                        f(P::Far(RefUse::Read, src));
                    }
                    Op::Send { src, peer, queue } => {
                        f(P::Near(RefUse::Read, src));
                        f(P::Peer(peer));
                        f(P::Queue(queue));
                    }
                    Op::Recv { dst, peer, queue } => {
                        f(P::Near(RefUse::Write, dst));
                        f(P::Peer(peer));
                        f(P::Queue(queue));
                    }
                    Op::Room { peer, queue } => {
                        f(P::Peer(peer));
                        f(P::Queue(queue));
                    }
                    Op::Notify { peer, counter } => {
                        f(P::Peer(peer));
                        f(P::Counter(counter));
                    }
                    Op::Wait { counter, value } => {
                        f(P::Counter(counter));
                        f(P::Value(value));
                    }
                    Op::FenceRelease | Op::FenceAcquire | Op::FenceComplete => {}
                    Op::Record(event) | Op::Await(event) => f(P::Event(event)),
                    Op::Local(l) => f(P::Local(l)),
                    Op::Mark(m) => f(P::Mark(m)),
                    Op::HostRead(b) => f(P::Buffer(RefUse::Read, b)),
                    Op::Host(h) => f(P::Host(h)),
                }
            }
        }
    };
}

parts!(
    /// A part of an operation, for reading.
    OpPart,
    /// Calls `f` with every part of the operation, in the order of the text.
    parts, [&'a]
);
parts!(
    /// A part of an operation, for changing.
    OpPartMut,
    /// Calls `f` with every part of the operation, in the order of the text, to change it.
    parts_mut, [&'a mut]
);

impl<R: Repr> Op<R> {
    /// Checks whether the operation moves elements between this rank and a peer.
    pub fn transfers(&self) -> bool {
        let (mut elements, mut peer) = (false, false);
        self.parts(&mut |part| {
            elements |= matches!(part, OpPart::Near(..));
            peer |= matches!(part, OpPart::Peer(_));
        });
        elements && peer
    }
}

/// This rank's side of a transfer, the peer, and the side at the peer.
pub type Transfer<R> = (<R as Repr>::Near, <R as Repr>::Peer, <R as Repr>::Far);

/// A message of a queue: its place on this rank, the peer and the queue.
pub type Message<R> = (<R as Repr>::Near, <R as Repr>::Peer, <R as Repr>::Queue);

/// Translation of operations from one representation into another. Parts that depend on each other
/// are translated together: the length of a slot is that of the other side, and the address of
/// elements at a peer depends on the peer.
pub trait Translate<'a, A: Repr, B: Repr> {
    /// Reason why an operation has no translation.
    type Error;

    /// Translates destination and source in this rank's memory.
    fn both(&mut self, dst: &'a A::Near, src: &'a A::Near) -> Result<(B::Near, B::Near), Self::Error>;

    /// Translates both sides of a transfer, and the peer. `side` is the use of this rank's side.
    fn transfer(
        &mut self,
        side: RefUse,
        near: &'a A::Near,
        peer: &'a A::Peer,
        far: &'a A::Far,
    ) -> Result<Transfer<B>, Self::Error>;

    /// Translates a message of a queue: its place on this rank, the peer and the queue. `side` is
    /// the use of the place.
    fn message(
        &mut self,
        side: RefUse,
        near: &'a A::Near,
        peer: &'a A::Peer,
        queue: &'a A::Queue,
    ) -> Result<Message<B>, Self::Error>;

    /// Translates the queue to a peer.
    fn room(&mut self, peer: &'a A::Peer, queue: &'a A::Queue) -> Result<(B::Peer, B::Queue), Self::Error>;

    /// Translates a counter of a peer.
    fn notify(
        &mut self,
        peer: &'a A::Peer,
        counter: &'a A::Counter,
    ) -> Result<(B::Peer, B::Counter), Self::Error>;

    /// Translates a counter of this rank and the value that is asked of it.
    fn wait(
        &mut self,
        counter: &'a A::Counter,
        value: &'a A::Value,
    ) -> Result<(B::Counter, B::Value), Self::Error>;

    /// Translates an event.
    fn event(&mut self, event: &'a A::Event) -> Result<B::Event, Self::Error>;

    /// Translates a local operation.
    fn local(&mut self, local: &'a A::Local) -> Result<B::Local, Self::Error>;

    /// Translates a point of a message.
    fn mark(&mut self, mark: &'a A::Mark) -> Result<B::Mark, Self::Error>;

    /// Translates an operation of the host.
    fn host(&mut self, host: &'a A::Host) -> Result<B::Host, Self::Error>;
}

impl<A: Repr> Op<A> {
    /// Returns the operation in another representation.
    ///
    /// # Errors
    /// Returns the error of the translation of a part.
    #[inline(always)]
    pub fn translate<'a, B: Repr, T: Translate<'a, A, B>>(&'a self, t: &mut T) -> Result<Op<B>, T::Error> {
        Ok(match self {
            Op::Copy { dst, src } => {
                let (dst, src) = t.both(dst, src)?;
                Op::Copy { dst, src }
            }
            Op::Reduce { op, dst, src } => {
                let (dst, src) = t.both(dst, src)?;
                Op::Reduce { op: *op, dst, src }
            }
            Op::Put { src, peer, dst } => {
                let (src, peer, dst) = t.transfer(RefUse::Read, src, peer, dst)?;
                Op::Put { src, peer, dst }
            }
            Op::Get { dst, peer, src } => {
                let (dst, peer, src) = t.transfer(RefUse::Write, dst, peer, src)?;
                Op::Get { dst, peer, src }
            }
            Op::GetCombine { op, dst, peer, src } => {
                let (dst, peer, src) = t.transfer(RefUse::Update, dst, peer, src)?;
                Op::GetCombine { op: *op, dst, peer, src }
            }
            Op::Send { src, peer, queue } => {
                let (src, peer, queue) = t.message(RefUse::Read, src, peer, queue)?;
                Op::Send { src, peer, queue }
            }
            Op::Recv { dst, peer, queue } => {
                let (dst, peer, queue) = t.message(RefUse::Write, dst, peer, queue)?;
                Op::Recv { dst, peer, queue }
            }
            Op::Room { peer, queue } => {
                let (peer, queue) = t.room(peer, queue)?;
                Op::Room { peer, queue }
            }
            Op::Notify { peer, counter } => {
                let (peer, counter) = t.notify(peer, counter)?;
                Op::Notify { peer, counter }
            }
            Op::Wait { counter, value } => {
                let (counter, value) = t.wait(counter, value)?;
                Op::Wait { counter, value }
            }
            Op::FenceRelease => Op::FenceRelease,
            Op::FenceAcquire => Op::FenceAcquire,
            Op::FenceComplete => Op::FenceComplete,
            Op::Record(event) => Op::Record(t.event(event)?),
            Op::Await(event) => Op::Await(t.event(event)?),
            Op::Local(l) => Op::Local(t.local(l)?),
            Op::Mark(m) => Op::Mark(t.mark(m)?),
            Op::HostRead(b) => Op::HostRead(*b),
            Op::Host(h) => Op::Host(t.host(h)?),
        })
    }
}

//! Mutations of a schedule: one small wrong change each, to measure whoever claims to find mistakes.
//!
//! Owns the enumeration (deterministic: in the order of the text, then of [`Kind`]); the change itself is `change`'s.
//! Whether a mutant behaves differently is for its readers to find out; some do not (a second fence, a wait that another
//! implies).
//!
//! Every kind is an [`Operator`] on a [`Target`]: `docs/mutation.md` has the table. [`mutations`] has the kinds of
//! [`Kind::is_basic`], of which tests say one by one which codes are right; [`every`] has all.

mod change;

pub use change::{apply, apply_on};

use crate::schedule::*;
use change::changed;
use kbc_diag::Span;

/// What is done to a thing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operator {
    Drop,
    Duplicate,
    Reorder,
    Retarget,
    Weaken,
}

impl Operator {
    /// All of them.
    pub const ALL: [Operator; 5] =
        [Operator::Drop, Operator::Duplicate, Operator::Reorder, Operator::Retarget, Operator::Weaken];

    /// Name, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Operator::Drop => "drop",
            Operator::Duplicate => "duplicate",
            Operator::Reorder => "reorder",
            Operator::Retarget => "retarget",
            Operator::Weaken => "weaken",
        }
    }
}

/// What something is done to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Target {
    Transfer,
    Notify,
    Wait,
    Fence,
    Slot,
    Offset,
    Count,
    Peer,
    Predicate,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 9] = [
        Target::Transfer,
        Target::Notify,
        Target::Wait,
        Target::Fence,
        Target::Slot,
        Target::Offset,
        Target::Count,
        Target::Peer,
        Target::Predicate,
    ];

    /// Name, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Target::Transfer => "transfer",
            Target::Notify => "notify",
            Target::Wait => "wait",
            Target::Fence => "fence",
            Target::Slot => "slot",
            Target::Offset => "offset",
            Target::Count => "count",
            Target::Peer => "peer",
            Target::Predicate => "predicate",
        }
    }

    /// The target that an operation or a statement as a whole is, by its first word; an event is a notify and a wait
    /// between streams.
    fn of(word: &str) -> Target {
        match word {
            "notify" | "record" => Target::Notify,
            "wait" | "await" => Target::Wait,
            "fence.release" | "fence.acquire" | "fence.complete" => Target::Fence,
            "for" => Target::Count,
            "if" | "role" => Target::Predicate,
            _ => Target::Transfer,
        }
    }
}

/// Which side of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// What is read.
    Source,
    /// What is written.
    Destination,
}

/// What is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// The operation is left out.
    Drop,
    /// The operation is done twice.
    Duplicate,
    /// The operation changes places with the next statement.
    Swap,
    /// A coordinate of the peer is one more.
    Peer(u32),
    /// The slot is the next one.
    Slot(Side),
    /// A digit of a chunk is one more.
    Chunk(Side, u32),
    /// The counter is the next one.
    Counter,
    /// The value of a wait is one less.
    WaitLess,
    /// The value of a wait is one more.
    WaitMore,
    /// The value of a wait is that of the call before.
    Epoch,
    /// A reduction replaces instead.
    NoReduce,
    /// A copy reduces instead.
    Reduce,
    /// A guard is turned round.
    Guard,
    /// A loop ends one turn earlier.
    EndEarly,
    /// A loop begins one turn later.
    BeginLate,
    /// The predicate of a role is turned round.
    Role,
    /// The operation is left out in call 1 alone.
    SkipCall,
    /// The statement comes first in its block.
    First,
    /// The statement comes last in its block.
    Last,
    /// The slot is that of an even call, in every call.
    SlotOneRing(Side),
    /// Two slots become one.
    SlotShared(Side),
    /// Slots in the opposite order.
    SlotReversed(Side),
    /// One slot fewer is used.
    SlotFewer(Side),
    /// The other window of the same type.
    Window(Side),
    /// A digit of a chunk is 0.
    ChunkZero(Side, u32),
    /// A digit of a chunk is rounded down to an even number.
    ChunkShared(Side, u32),
    /// A digit of a chunk counts from the other end.
    ChunkReversed(Side, u32),
    /// A digit of a chunk is one less.
    ChunkLess(Side, u32),
    /// Another operand of the region.
    Operand(Side),
    /// One chunk fewer.
    ExtentLess,
    /// One chunk more.
    ExtentMore,
    /// The line is cut into one chunk more.
    Cut,
    /// A loop has one turn more.
    EndLate,
    /// A loop runs twice.
    LoopTwice,
    /// The turns of a loop in the opposite order.
    LoopReversed,
    /// A coordinate of the peer is this rank's own.
    PeerSelf(u32),
    /// The operation is done for the next peer too.
    PeerBoth(u32),
    /// A coordinate of the peer counts from the other end.
    PeerReversed(u32),
    /// In call 1 a coordinate of the peer is one more.
    PeerOnce(u32),
    /// Another array of signals.
    Signal,
    /// Another kind of fence.
    Fence(u8),
    /// A guard always holds.
    GuardAlways,
    /// A guarded statement is done twice.
    GuardTwice,
    /// A guard as the next rank has it.
    GuardMoved(u32),
    /// A guard holds on coordinate 0 too.
    GuardWider(u32),
    /// The ranks of a role are those after them.
    RoleMoved(u32),
    /// Every call uses the slots of call 0 of this window, sender and receiver alike.
    Ring(u32),
    /// Nobody notifies these signals, and nobody waits for them.
    Unsignalled(u32),
    /// Nobody says that these signals are zero at first.
    Stale(u32),
    /// Waits for these epochs go by the lowest bit.
    Bit(u32),
    /// Waits for these signals take one.
    Taken(u32),
}

impl Kind {
    /// Whether tests of the checker say one by one which codes are right for it.
    pub fn is_basic(self) -> bool {
        matches!(
            self,
            Kind::Drop
                | Kind::Duplicate
                | Kind::Swap
                | Kind::Peer(_)
                | Kind::Slot(_)
                | Kind::Chunk(..)
                | Kind::Counter
                | Kind::WaitLess
                | Kind::WaitMore
                | Kind::Epoch
                | Kind::NoReduce
                | Kind::Reduce
                | Kind::Guard
                | Kind::EndEarly
                | Kind::BeginLate
                | Kind::Role
        )
    }

    /// Whether it changes all that is done with a window or an array of signals.
    pub fn is_whole(self) -> bool {
        matches!(self, Kind::Ring(_) | Kind::Unsignalled(_) | Kind::Stale(_) | Kind::Bit(_) | Kind::Taken(_))
    }

    /// What is done to what, for an operation or statement with this first word.
    pub fn class(self, word: &str) -> (Operator, Target) {
        use Operator::*;
        let whole = Target::of(word);
        match self {
            Kind::Drop => (Drop, whole),
            Kind::Duplicate => (Duplicate, whole),
            Kind::Swap | Kind::First | Kind::Last => (Reorder, whole),
            Kind::SkipCall => (Weaken, whole),
            Kind::Counter | Kind::Signal | Kind::WaitMore | Kind::Fence(_) => (Retarget, whole),
            Kind::WaitLess | Kind::Epoch => (Weaken, whole),
            Kind::NoReduce | Kind::Reduce | Kind::Operand(_) => (Retarget, Target::Transfer),
            Kind::SlotOneRing(_) => (Drop, Target::Slot),
            Kind::SlotShared(_) => (Duplicate, Target::Slot),
            Kind::SlotReversed(_) => (Reorder, Target::Slot),
            Kind::Slot(_) | Kind::Window(_) => (Retarget, Target::Slot),
            Kind::SlotFewer(_) => (Weaken, Target::Slot),
            Kind::ChunkZero(..) => (Drop, Target::Offset),
            Kind::ChunkShared(..) => (Duplicate, Target::Offset),
            Kind::ChunkReversed(..) => (Reorder, Target::Offset),
            Kind::Chunk(..) => (Retarget, Target::Offset),
            Kind::ChunkLess(..) => (Weaken, Target::Offset),
            Kind::EndEarly | Kind::BeginLate => (Drop, Target::Count),
            Kind::EndLate | Kind::LoopTwice | Kind::ExtentMore => (Duplicate, Target::Count),
            Kind::LoopReversed => (Reorder, Target::Count),
            Kind::Cut => (Retarget, Target::Count),
            Kind::ExtentLess => (Weaken, Target::Count),
            Kind::PeerSelf(_) => (Drop, Target::Peer),
            Kind::PeerBoth(_) => (Duplicate, Target::Peer),
            Kind::PeerReversed(_) => (Reorder, Target::Peer),
            Kind::Peer(_) => (Retarget, Target::Peer),
            Kind::PeerOnce(_) => (Weaken, Target::Peer),
            Kind::GuardAlways => (Drop, Target::Predicate),
            Kind::GuardTwice => (Duplicate, Target::Predicate),
            Kind::Guard | Kind::Role => (Reorder, Target::Predicate),
            Kind::GuardMoved(_) | Kind::RoleMoved(_) => (Retarget, Target::Predicate),
            Kind::GuardWider(_) => (Weaken, Target::Predicate),
            Kind::Ring(_) => (Weaken, Target::Slot),
            Kind::Unsignalled(_) => (Drop, Target::Notify),
            Kind::Stale(_) | Kind::Bit(_) => (Weaken, Target::Wait),
            Kind::Taken(_) => (Retarget, Target::Wait),
        }
    }
}

/// Where in the text: region, role, stream, and the way down its statements (number, and 1 for an `else`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Site {
    /// Number of the region.
    pub region: usize,
    /// Number of the role.
    pub role: usize,
    /// Number of the stream.
    pub stream: usize,
    /// The way down; empty for the role itself.
    pub path: Vec<(usize, u8)>,
}

/// One change.
#[derive(Clone, PartialEq, Debug)]
pub struct Mutation {
    /// What.
    pub kind: Kind,
    /// Where.
    pub site: Site,
    /// The operation, by its first word (`put`, `for`, `role`).
    pub word: &'static str,
    /// The place in the source, where the statement has one.
    pub span: Span,
    /// In words.
    pub text: String,
}

/// First word of an operation; one for all that compute on one rank.
pub fn word(op: &SOp) -> &'static str {
    match op {
        SOp::Local(_) => "local",
        op => op.word(),
    }
}

impl Mutation {
    /// What is done to what.
    pub fn class(&self) -> (Operator, Target) {
        self.kind.class(self.word)
    }
}

/// The mutations of the basic kinds, everywhere in a schedule.
pub fn mutations(s: &Schedule) -> Vec<Mutation> {
    all(s).into_iter().filter(|m| m.kind.is_basic()).collect()
}

/// The mutations of every kind. What computes in a region without a promise is left alone: nothing says what it should
/// do, so that no change of it is wrong to the checker.
pub fn every(s: &Schedule) -> Vec<Mutation> {
    let between = |word| matches!(Target::of(word), Target::Notify | Target::Wait | Target::Fence);
    let promised =
        |m: &Mutation| s.regions[m.site.region].promise.is_some() || between(m.word) || m.kind.is_whole();
    all(s).into_iter().filter(promised).collect()
}

fn all(s: &Schedule) -> Vec<Mutation> {
    let mut out = vec![];
    for (region, r) in s.regions.iter().enumerate() {
        for (role, l) in r.roles.iter().enumerate() {
            if matches!(l.ranks, RankSet::Where(_)) {
                let site = Site { region, role, stream: 0, path: vec![] };
                let moved = (0..r.coords.len() as u32).map(Kind::RoleMoved);
                for kind in std::iter::once(Kind::Role).chain(moved) {
                    let text = format!("role {} of region {}: {}", l.name, r.name, describe(kind));
                    out.push(Mutation { kind, site: site.clone(), word: "role", span: r.span, text });
                }
            }
            for (stream, st) in l.streams.iter().enumerate() {
                let mut site = Site { region, role, stream, path: vec![] };
                list(s, r, &st.body, &mut site, &mut out);
            }
        }
    }
    for (kind, region) in change::whole(s) {
        let (word, name) = match kind {
            Kind::Ring(w) => ("window", &s.windows[w as usize].name),
            Kind::Unsignalled(x) | Kind::Stale(x) | Kind::Bit(x) | Kind::Taken(x) => {
                ("signal", &s.signals[x as usize].name)
            }
            _ => continue,
        };
        let site = Site { region, role: 0, stream: 0, path: vec![] };
        let text = format!("{word} @{name}: {}", describe(kind));
        out.push(Mutation { kind, site, word, span: s.regions[region].span, text });
    }
    out
}

fn list(s: &Schedule, r: &Region, body: &[SStmt], site: &mut Site, out: &mut Vec<Mutation>) {
    for (i, st) in body.iter().enumerate() {
        let (word, span) = match st {
            SStmt::For { .. } => ("for", Span::NONE),
            SStmt::If { .. } => ("if", Span::NONE),
            SStmt::Op(op, span) => (word(op), *span),
        };
        site.path.push((i, 0));
        for kind in kinds(s, r, st, (i, body.len())) {
            let text = format!("{word} in region {}: {}", r.name, describe(kind));
            out.push(Mutation { kind, site: site.clone(), word, span, text });
        }
        match st {
            SStmt::For { body, .. } => list(s, r, body, site, out),
            SStmt::If { then, other, .. } => {
                list(s, r, then, site, out);
                if let Some(last) = site.path.last_mut() {
                    last.1 = 1;
                }
                list(s, r, other, site, out);
            }
            SStmt::Op(..) => {}
        }
        site.path.pop();
    }
}

fn describe(kind: Kind) -> String {
    use Side::{Destination, Source};
    let side = |x: Side, source: &str, destination: &str| match x {
        Source => source.to_owned(),
        Destination => destination.to_owned(),
    };
    let slot = |x, what: &str| side(x, &format!("read from {what}"), &format!("written to {what}"));
    let digit = |x, d: u32, what: &str| {
        side(
            x,
            &format!("digit {d} of the chunk read {what}"),
            &format!("digit {d} of the chunk written {what}"),
        )
    };
    match kind {
        Kind::Drop => "left out".into(),
        Kind::Duplicate => "done twice".into(),
        Kind::Swap => "after the next statement".into(),
        Kind::First => "before all others of its block".into(),
        Kind::Last => "after all others of its block".into(),
        Kind::SkipCall => "left out in call 1".into(),
        Kind::Peer(i) => format!("coordinate {i} of the peer one more"),
        Kind::PeerSelf(i) => format!("coordinate {i} of the peer its own"),
        Kind::PeerBoth(i) => format!("also with coordinate {i} of the peer one more"),
        Kind::PeerReversed(i) => format!("coordinate {i} of the peer from the other end"),
        Kind::PeerOnce(i) => format!("coordinate {i} of the peer one more in call 1"),
        Kind::Slot(x) => slot(x, "the next slot"),
        Kind::SlotOneRing(x) => slot(x, "the slot of call 0"),
        Kind::SlotShared(x) => slot(x, "a slot that two messages share"),
        Kind::SlotReversed(x) => slot(x, "the slots in the opposite order"),
        Kind::SlotFewer(x) => slot(x, "one slot fewer"),
        Kind::Window(x) => slot(x, "another window"),
        Kind::Operand(x) => slot(x, "another operand"),
        Kind::Chunk(x, d) => digit(x, d, "one more"),
        Kind::ChunkLess(x, d) => digit(x, d, "one less"),
        Kind::ChunkZero(x, d) => digit(x, d, "zero"),
        Kind::ChunkShared(x, d) => digit(x, d, "made even"),
        Kind::ChunkReversed(x, d) => digit(x, d, "from the other end"),
        Kind::ExtentLess => "one chunk fewer".into(),
        Kind::ExtentMore => "one chunk more".into(),
        Kind::Cut => "cut into one chunk more".into(),
        Kind::Counter => "the next counter".into(),
        Kind::Signal => "another array of signals".into(),
        Kind::WaitLess => "for one less".into(),
        Kind::WaitMore => "for one more".into(),
        Kind::Epoch => "for what the call before waited for".into(),
        Kind::NoReduce => "replaces instead".into(),
        Kind::Reduce => "reduces instead".into(),
        Kind::Guard => "guard turned round".into(),
        Kind::GuardAlways => "guard left out".into(),
        Kind::GuardTwice => "done twice".into(),
        Kind::GuardMoved(i) => format!("guard with coordinate {i} one more"),
        Kind::GuardWider(i) => format!("guard holds where coordinate {i} is 0 too"),
        Kind::EndEarly => "ends one turn earlier".into(),
        Kind::EndLate => "ends one turn later".into(),
        Kind::BeginLate => "begins one turn later".into(),
        Kind::LoopTwice => "done twice".into(),
        Kind::LoopReversed => "from its last turn to its first".into(),
        Kind::Fence(0) => "release in its place".into(),
        Kind::Fence(1) => "acquire in its place".into(),
        Kind::Fence(_) => "complete in its place".into(),
        Kind::Role => "predicate turned round".into(),
        Kind::RoleMoved(i) => format!("predicate with coordinate {i} one more"),
        Kind::Ring(_) => "every call uses the slots of call 0".into(),
        Kind::Unsignalled(_) => "neither notified nor waited for".into(),
        Kind::Stale(_) => "nobody says that it is zero at first".into(),
        Kind::Bit(_) => "its lowest bit is waited for".into(),
        Kind::Taken(_) => "waits take one".into(),
    }
}

/// Kinds that change a statement, number `i` of `n` in its block.
fn kinds(s: &Schedule, r: &Region, st: &SStmt, (i, n): (usize, usize)) -> Vec<Kind> {
    let coords = || 0..r.coords.len() as u32;
    let sides = || [Side::Source, Side::Destination].into_iter();
    let digits = || sides().flat_map(|x| (0..4).map(move |d| (x, d)));
    let all = [Kind::Drop, Kind::Duplicate]
        .into_iter()
        .chain((i + 1 < n).then_some(Kind::Swap))
        .chain(coords().map(Kind::Peer))
        .chain(sides().flat_map(|side| {
            std::iter::once(Kind::Slot(side)).chain((0..4).map(move |d| Kind::Chunk(side, d)))
        }))
        .chain([
            Kind::Counter,
            Kind::WaitLess,
            Kind::WaitMore,
            Kind::Epoch,
            Kind::NoReduce,
            Kind::Reduce,
            Kind::Guard,
            Kind::EndEarly,
            Kind::BeginLate,
            Kind::SkipCall,
        ])
        // Next to its neighbour it is `Swap`.
        .chain((i > 1).then_some(Kind::First))
        .chain((i + 2 < n).then_some(Kind::Last))
        .chain(sides().flat_map(|x| {
            let slots = [Kind::SlotOneRing, Kind::SlotShared, Kind::SlotReversed, Kind::SlotFewer];
            slots.into_iter().chain([Kind::Window, Kind::Operand]).map(move |k: fn(Side) -> Kind| k(x))
        }))
        .chain(digits().flat_map(|(x, d)| {
            [Kind::ChunkZero(x, d), Kind::ChunkShared(x, d), Kind::ChunkReversed(x, d), Kind::ChunkLess(x, d)]
        }))
        .chain([
            Kind::ExtentLess,
            Kind::ExtentMore,
            Kind::Cut,
            Kind::EndLate,
            Kind::LoopTwice,
            Kind::LoopReversed,
            Kind::Signal,
            Kind::Fence(0),
            Kind::Fence(1),
            Kind::Fence(2),
            Kind::GuardAlways,
            Kind::GuardTwice,
        ])
        .chain(coords().flat_map(|c| {
            [
                Kind::PeerSelf(c),
                Kind::PeerBoth(c),
                Kind::PeerReversed(c),
                Kind::PeerOnce(c),
                Kind::GuardMoved(c),
                Kind::GuardWider(c),
            ]
        }));
    let moves = |k: &Kind| matches!(k, Kind::Swap | Kind::First | Kind::Last);
    // A mark does nothing, and moving one is no change.
    all.filter(|k| {
        moves(k) || changed(s, r, st, *k).is_some_and(|new| new[..] != std::slice::from_ref(st)[..])
    })
    .collect()
}

//! Mutations of a schedule: small wrong changes, one per mutant, used to measure every tool that
//! claims to find mistakes.
//!
//! The module owns the enumeration of mutations, which is deterministic. There are two kinds.
//! *Hand-made* mutations change the structure: a statement is left out, done twice or moved, or
//! everything that is done with a window or signal changes (`change`). *Generated* mutations change
//! one field: [`kbc_ir::visit`] yields every field, and its type determines the possible changes
//! ([`field`]). Callers have to find out whether a mutant behaves differently. Some do not, such as
//! a second fence, or a wait that another wait implies.
//!
//! Every kind is an [`Operator`] on a [`Target`]; a test generates the table of them in
//! `docs/explanation/mutation.md`. [`mutations`] has the kinds of [`MutationKind::is_basic`], for
//! each of which tests list the correct error codes; [`meaning_preserving`] has those that leave
//! the meaning of a program alone; [`all`] has all.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

mod alter;
mod change;
pub mod field;

pub use change::{apply, apply_on};
pub use field::{Change, harmless};

use alter::{Chooser, alter};
use change::changed;
use field::{EarlierFields, type_name};
use kbc_diag::Span;
use kbc_ir::schedule::*;
use kbc_ir::visit::{self, ExprUse, Field, FieldPosition, RefUse};

/// The operator of a mutation.
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
    /// All operators.
    pub const ALL: [Operator; 5] =
        [Operator::Drop, Operator::Duplicate, Operator::Reorder, Operator::Retarget, Operator::Weaken];

    /// Returns the name for reports.
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

/// The target of a mutation.
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
    Local,
    Contract,
    Header,
    Declaration,
    Host,
}

impl Target {
    /// All targets.
    pub const ALL: [Target; 14] = [
        Target::Transfer,
        Target::Notify,
        Target::Wait,
        Target::Fence,
        Target::Slot,
        Target::Offset,
        Target::Count,
        Target::Peer,
        Target::Predicate,
        Target::Local,
        Target::Contract,
        Target::Header,
        Target::Declaration,
        Target::Host,
    ];

    /// Returns the name for reports.
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
            Target::Local => "local",
            Target::Contract => "contract",
            Target::Header => "header",
            Target::Declaration => "declaration",
            Target::Host => "host",
        }
    }

    /// Returns the target that an operation or a statement as a whole is, by its first word. An
    /// event is a notify and a wait between streams.
    fn of(word: &str) -> Target {
        match word {
            "notify" | "record" => Target::Notify,
            "wait" | "await" => Target::Wait,
            "fence.release" | "fence.acquire" | "fence.complete" => Target::Fence,
            "for" => Target::Count,
            "if" | "role" => Target::Predicate,
            "local" => Target::Local,
            _ => Target::Transfer,
        }
    }
}

/// A field of a schedule as the site of a mutation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MutatedField {
    /// Its number in the order of [`kbc_ir::visit::each_field`].
    pub number: u32,
    /// The name of its type.
    pub name: &'static str,
    /// Its use, if it is an expression.
    pub of: Option<ExprUse>,
    /// The side of the reference that contains it, if any.
    pub side: Option<RefUse>,
    /// The number of the operation that contains it, if any.
    pub op: Option<u32>,
    /// Whether it is the second bound of a loop.
    pub second: bool,
    /// The target that it is part of.
    pub target: Target,
}

/// The kind of a mutation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MutationKind {
    /// The operation is left out.
    Drop,
    /// The operation is done twice.
    Duplicate,
    /// The operation is swapped with the next statement.
    Swap,
    /// A reduction becomes a copy.
    NoReduce,
    /// A copy becomes a reduction.
    Reduce,
    /// The operation is left out in call 1 alone.
    SkipCall,
    /// The statement comes first in its block.
    First,
    /// The statement comes last in its block.
    Last,
    /// One chunk fewer, on both sides.
    ExtentLess,
    /// One chunk more, on both sides.
    ExtentMore,
    /// The line is cut into one more chunk, on both sides.
    Cut,
    /// A loop runs twice.
    LoopTwice,
    /// The iterations of a loop run in the opposite order.
    LoopReversed,
    /// The operation is also done for the next peer.
    PeerBoth(u32),
    /// The fence is of another kind.
    Fence(u8),
    /// A guarded statement is done twice.
    GuardTwice,
    /// Every call uses the slots of call 0 of this window, at sender and receiver alike.
    Ring(u32),
    /// All notifies of these signals and all waits for them are removed.
    Unsignalled(u32),
    /// The signals are no longer declared to be zero at first.
    Stale(u32),
    /// Waits for these epochs check the lowest bit.
    Bit(u32),
    /// Waits for these signals subtract one.
    Taken(u32),
    /// One field changes.
    Field(MutatedField, Change),
}

impl MutationKind {
    /// Whether tests of the checker list the correct error codes for this kind.
    pub fn is_basic(self) -> bool {
        match self {
            MutationKind::Drop
            | MutationKind::Duplicate
            | MutationKind::Swap
            | MutationKind::NoReduce
            | MutationKind::Reduce => true,
            MutationKind::Field(spot, _) if spot.target == Target::Host => false,
            MutationKind::Field(spot, change) => match spot.of {
                Some(ExprUse::Peer(_) | ExprUse::Slot | ExprUse::Counter) => change == Change::Next,
                Some(ExprUse::ChunkIndex) => change == Change::Next,
                Some(ExprUse::Value(_)) => matches!(change, Change::Less | Change::More | Change::CallBefore),
                Some(ExprUse::Guard | ExprUse::Ranks) => change == Change::Not,
                Some(ExprUse::Bound) => change == if spot.second { Change::Less } else { Change::More },
                Some(
                    ExprUse::Queue
                    | ExprUse::ChunkLen
                    | ExprUse::ChunkOf
                    | ExprUse::Part
                    | ExprUse::Dim
                    | ExprUse::Extent
                    | ExprUse::Unit
                    | ExprUse::Row
                    | ExprUse::Clause,
                )
                | None => false,
            },
            MutationKind::SkipCall
            | MutationKind::First
            | MutationKind::Last
            | MutationKind::ExtentLess
            | MutationKind::ExtentMore
            | MutationKind::Cut
            | MutationKind::LoopTwice
            | MutationKind::LoopReversed
            | MutationKind::PeerBoth(_)
            | MutationKind::Fence(_)
            | MutationKind::GuardTwice
            | MutationKind::Ring(_)
            | MutationKind::Unsignalled(_)
            | MutationKind::Stale(_)
            | MutationKind::Bit(_)
            | MutationKind::Taken(_) => false,
        }
    }

    /// Whether this kind changes everything that is done with a window or an array of signals.
    pub fn is_whole(self) -> bool {
        matches!(
            self,
            MutationKind::Ring(_)
                | MutationKind::Unsignalled(_)
                | MutationKind::Stale(_)
                | MutationKind::Bit(_)
                | MutationKind::Taken(_)
        )
    }

    /// Whether the mutation can be made on one rank alone.
    pub fn on_one_rank(self) -> bool {
        let MutationKind::Field(spot, _) = self else { return !self.is_whole() };
        let of = matches!(spot.of, Some(ExprUse::Bound | ExprUse::Guard | ExprUse::Ranks));
        of || spot.op.is_some() && spot.target != Target::Host
    }

    /// Returns the operator and the target, for an operation or statement with this first word.
    pub fn class(self, word: &str) -> (Operator, Target) {
        use Operator::*;
        let whole = Target::of(word);
        match self {
            MutationKind::Drop => (Drop, whole),
            MutationKind::Duplicate => (Duplicate, whole),
            MutationKind::Swap | MutationKind::First | MutationKind::Last => (Reorder, whole),
            MutationKind::SkipCall => (Weaken, whole),
            MutationKind::Fence(_) => (Retarget, whole),
            MutationKind::NoReduce | MutationKind::Reduce => (Retarget, Target::Transfer),
            MutationKind::LoopTwice | MutationKind::ExtentMore => (Duplicate, Target::Count),
            MutationKind::LoopReversed => (Reorder, Target::Count),
            MutationKind::Cut => (Retarget, Target::Count),
            MutationKind::ExtentLess => (Weaken, Target::Count),
            MutationKind::PeerBoth(_) => (Duplicate, Target::Peer),
            MutationKind::GuardTwice => (Duplicate, Target::Predicate),
            MutationKind::Ring(_) => (Weaken, Target::Slot),
            MutationKind::Unsignalled(_) => (Drop, Target::Notify),
            MutationKind::Stale(_) | MutationKind::Bit(_) => (Weaken, Target::Wait),
            MutationKind::Taken(_) => (Retarget, Target::Wait),
            MutationKind::Field(spot, change) => (operator(spot, change), spot.target),
        }
    }
}

/// Returns the operator that a change of a field amounts to.
fn operator(spot: MutatedField, change: Change) -> Operator {
    match change {
        Change::Zero | Change::Always | Change::Absent | Change::Shorter(_) => Operator::Drop,
        Change::Even | Change::Doubled => Operator::Duplicate,
        Change::Reversed | Change::Not | Change::Swapped(_) => Operator::Reorder,
        Change::More | Change::Less if spot.of == Some(ExprUse::Bound) => {
            if (change == Change::Less) == spot.second { Operator::Drop } else { Operator::Duplicate }
        }
        Change::Less
        | Change::Fewer
        | Change::Once
        | Change::Late
        | Change::CallBefore
        | Change::FirstCall
        | Change::Wider(_) => Operator::Weaken,
        Change::Next
        | Change::More
        | Change::One
        | Change::Call
        | Change::Rank(_)
        | Change::Own(_)
        | Change::Moved(_)
        | Change::Operator
        | Change::Unwrapped
        | Change::Other(_)
        | Change::Fresh
        | Change::Entry(_) => Operator::Retarget,
    }
}

/// Position in the text: region, role, stream, and the path down its statements (number, and 1 for
/// an `else`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StatementPath {
    /// Number of the region.
    pub region: usize,
    /// Number of the role.
    pub role: usize,
    /// Number of the stream.
    pub stream: usize,
    /// The path; empty if the site is not an operation.
    pub path: Vec<(usize, u8)>,
}

/// One mutation.
#[derive(Clone, PartialEq, Debug)]
pub struct Mutation {
    /// The kind.
    pub kind: MutationKind,
    /// The site.
    pub site: StatementPath,
    /// The first word of the operation (`put`, `for`, `role`).
    pub word: &'static str,
    /// The source position, if the statement has one.
    pub span: Span,
    /// The description in words.
    pub text: String,
}

/// Returns the first word of an operation; all operations that compute on one rank share one word.
pub fn word(op: &SOp) -> &'static str {
    if matches!(op, SOp::Local(_)) { "local" } else { op.word() }
}

impl Mutation {
    /// Returns the operator and the target.
    pub fn class(&self) -> (Operator, Target) {
        self.kind.class(self.word)
    }
}

/// Returns the mutations of the basic kinds, everywhere in a schedule.
pub fn mutations(s: &Schedule) -> Vec<Mutation> {
    all(s).into_iter().filter(|m| m.kind.is_basic()).collect()
}

/// Returns the mutations that leave the intended result of a schedule alone: those of operations in
/// regions with a contract, and of what orders them. Computation in regions without a contract is
/// not changed, and neither are contracts, headers and declarations, because they are the meaning
/// of the program.
pub fn meaning_preserving(s: &Schedule) -> Vec<Mutation> {
    let between = |word| matches!(Target::of(word), Target::Notify | Target::Wait | Target::Fence);
    let kept = |m: &Mutation| {
        let has_contract = s.regions.get(m.site.region).is_some_and(|r| r.contract.is_some());
        match m.class().1 {
            Target::Local | Target::Contract | Target::Header | Target::Declaration | Target::Host => false,
            Target::Transfer
            | Target::Notify
            | Target::Wait
            | Target::Fence
            | Target::Slot
            | Target::Offset
            | Target::Count
            | Target::Peer
            | Target::Predicate => has_contract || between(m.word) || m.kind.is_whole(),
        }
    };
    all(s).into_iter().filter(kept).collect()
}

/// Returns all mutations of a schedule: the hand-made ones in the order of the text, then those of
/// whole windows and signals, then the generated ones in the order of the fields.
pub fn all(s: &Schedule) -> Vec<Mutation> {
    let mut out = vec![];
    for (region, r) in s.regions.iter().enumerate() {
        for (role, l) in r.roles.iter().enumerate() {
            for (stream, st) in l.streams.iter().enumerate() {
                let mut site = StatementPath { region, role, stream, path: vec![] };
                list(r, &st.body, &mut site, &mut out);
            }
        }
    }
    for (kind, word, name, region) in change::whole_object_changes(s) {
        let site = StatementPath { region, role: 0, stream: 0, path: vec![] };
        let text = format!("{word} @{name}: {}", describe(kind));
        out.push(Mutation { kind, site, word, span: s.regions[region].span, text });
    }
    out.extend(fields(s));
    out
}

fn list(r: &Region, body: &[SStmt], site: &mut StatementPath, out: &mut Vec<Mutation>) {
    for (i, st) in body.iter().enumerate() {
        let (word, span) = match st {
            SStmt::For { var: _, lo: _, hi: _, body: _ } => ("for", Span::NONE),
            SStmt::If { cond: _, then: _, other: _ } => ("if", Span::NONE),
            SStmt::Op(op, span) => (word(op), *span),
        };
        site.path.push((i, 0));
        for kind in kinds(r, st, (i, body.len())) {
            let text = format!("{word} in region {}: {}", r.name, describe(kind));
            out.push(Mutation { kind, site: site.clone(), word, span, text });
        }
        match st {
            SStmt::For { var: _, lo: _, hi: _, body } => list(r, body, site, out),
            SStmt::If { cond: _, then, other } => {
                list(r, then, site, out);
                if let Some(last) = site.path.last_mut() {
                    last.1 = 1;
                }
                list(r, other, site, out);
            }
            SStmt::Op(..) => {}
        }
        site.path.pop();
    }
}

/// Returns the target that a field is part of.
fn target(at: &FieldPosition, field: &Field<'_>, word: &str) -> Target {
    let Some(_) = at.region else {
        let host = matches!(field, Field::Body(_) | Field::Expr(ExprUse::Guard, _));
        return if at.op.is_some() || host { Target::Host } else { Target::Declaration };
    };
    if at.op.is_some() {
        if word == "local" {
            return Target::Local;
        }
        return match type_name(field) {
            "coordinate of a peer" => Target::Peer,
            "slot" | "window" => Target::Slot,
            "chunk" => Target::Offset,
            "number of chunks" | "chunks of a digit" => Target::Count,
            _ => Target::of(word),
        };
    }
    match type_name(field) {
        "bound of a loop" => Target::Count,
        "guard" | "predicate of a role" | "list of ranks" => Target::Predicate,
        "operator of a contract"
        | "root of a contract"
        | "expression of a contract"
        | "variable of a contract" => Target::Contract,
        _ if matches!(
            field,
            Field::Name("contract" | "clause", _) | Field::Hint("collective", _) | Field::Flag("blocks", _)
        ) =>
        {
            Target::Contract
        }
        _ => Target::Header,
    }
}

/// A field with its position and the facts that earlier fields determine.
struct FieldSite {
    at: FieldPosition,
    seen: EarlierFields,
    spot: MutatedField,
    word: &'static str,
    path: Vec<(usize, u8)>,
}

/// Lists every field of a schedule with its description.
fn found(s: &Schedule) -> Vec<FieldSite> {
    let mut ops: Vec<(&'static str, Vec<(usize, u8)>)> = vec![];
    let bodies = s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams).map(|st| &st.body);
    for body in bodies.chain(s.host.iter().map(|h| &h.body)) {
        change::each_op(body, &mut vec![], &mut |op, path| ops.push((word(op), path.to_vec())));
    }
    let mut seen = EarlierFields::default();
    let mut out: Vec<FieldSite> = vec![];
    let mut second = false;
    visit::each_field(s, &mut |at, field| {
        seen.note(s, &field);
        let of = if let Field::Expr(of, _) = &field { Some(*of) } else { None };
        let bound = of == Some(ExprUse::Bound);
        let word = match (at.op, of) {
            (Some(op), _) => ops.get(op as usize).map_or("", |op| op.0),
            (None, Some(ExprUse::Bound)) => "for",
            (None, Some(ExprUse::Guard)) => "if",
            (None, Some(ExprUse::Ranks)) => "role",
            (None, _) => type_name(&field),
        };
        let spot = MutatedField {
            number: out.len() as u32,
            name: type_name(&field),
            of,
            side: seen.side.filter(|_| at.op.is_some()),
            op: at.op,
            second: bound && second,
            target: target(&at, &field, word),
        };
        second = bound && !second;
        let path = at.op.and_then(|op| ops.get(op as usize)).map_or(vec![], |op| op.1.clone());
        out.push(FieldSite { at, seen: seen.clone(), spot, word, path });
    });
    out
}

/// Lists the generated mutations.
fn fields(s: &Schedule) -> Vec<Mutation> {
    let known = found(s);
    let mut scratch = s.clone();
    let mut out = vec![];
    let mut fields = known.iter();
    visit::each_field_mut(&mut scratch, &mut |_, field| {
        let Some(FieldSite { at, seen, spot, word, path }) = fields.next() else { return };
        let mut c = Chooser { pick: None, found: vec![] };
        alter(s, at, seen, field, &mut c);
        for change in c.found {
            let place = match at.region.and_then(|r| s.regions.get(r as usize)) {
                Some(r) => format!("{word} in region {}", r.name),
                None => (*word).to_owned(),
            };
            let side = match spot.side {
                Some(RefUse::Read) => " read",
                Some(RefUse::Write | RefUse::Update) => " written",
                None => "",
            };
            let text = format!("{place}: {}{side} {} (field {})", spot.name, change.text(), spot.number);
            let site = StatementPath {
                region: at.region.unwrap_or(0) as usize,
                role: at.role.unwrap_or(0) as usize,
                stream: at.stream.unwrap_or(0) as usize,
                path: path.clone(),
            };
            out.push(Mutation { kind: MutationKind::Field(*spot, change), site, word, span: at.span, text });
        }
    });
    out
}

/// Describes a change in words, without its position.
pub fn describe(kind: MutationKind) -> String {
    match kind {
        MutationKind::Drop => "removed".into(),
        MutationKind::Duplicate => "duplicated".into(),
        MutationKind::Swap => "after the next statement".into(),
        MutationKind::First => "before all others of its block".into(),
        MutationKind::Last => "after all others of its block".into(),
        MutationKind::SkipCall => "removed in call 1".into(),
        MutationKind::PeerBoth(i) => format!("also with coordinate {i} of the peer one more"),
        MutationKind::ExtentLess => "one chunk fewer".into(),
        MutationKind::ExtentMore => "one chunk more".into(),
        MutationKind::Cut => "cut into one chunk more".into(),
        MutationKind::NoReduce => "replaces instead".into(),
        MutationKind::Reduce => "reduces instead".into(),
        MutationKind::GuardTwice | MutationKind::LoopTwice => "duplicated".into(),
        MutationKind::LoopReversed => "with its iterations reversed".into(),
        MutationKind::Fence(0) => "release in its place".into(),
        MutationKind::Fence(1) => "acquire in its place".into(),
        MutationKind::Fence(_) => "complete in its place".into(),
        MutationKind::Ring(_) => "every call uses the slots of call 0".into(),
        MutationKind::Unsignalled(_) => "without its notify and wait".into(),
        MutationKind::Stale(_) => "without the claim that it is zero at first".into(),
        MutationKind::Bit(_) => "with waits for its lowest bit".into(),
        MutationKind::Taken(_) => "with waits that subtract one".into(),
        MutationKind::Field(spot, change) => format!("{} {}", spot.name, change.text()),
    }
}

/// Lists the hand-made kinds that change a statement, number `i` of `n` in its block.
fn kinds(r: &Region, st: &SStmt, (i, n): (usize, usize)) -> Vec<MutationKind> {
    let coords = 0..r.coords.len() as u32;
    let all = [MutationKind::Drop, MutationKind::Duplicate]
        .into_iter()
        .chain((i + 1 < n).then_some(MutationKind::Swap))
        .chain([MutationKind::NoReduce, MutationKind::Reduce, MutationKind::SkipCall])
        // Moving it by one place is `Swap`.
        .chain((i > 1).then_some(MutationKind::First))
        .chain((i + 2 < n).then_some(MutationKind::Last))
        .chain([
            MutationKind::ExtentLess,
            MutationKind::ExtentMore,
            MutationKind::Cut,
            MutationKind::LoopTwice,
            MutationKind::LoopReversed,
            MutationKind::Fence(0),
            MutationKind::Fence(1),
            MutationKind::Fence(2),
            MutationKind::GuardTwice,
        ])
        .chain(coords.map(MutationKind::PeerBoth));
    let moves = |k: &MutationKind| matches!(k, MutationKind::Swap | MutationKind::First | MutationKind::Last);
    // A mark does nothing, so moving one changes nothing.
    all.filter(|k| moves(k) || changed(r, st, *k).is_some_and(|new| new[..] != std::slice::from_ref(st)[..]))
        .collect()
}

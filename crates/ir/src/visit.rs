//! Visitor: every field of a schedule, one after another, with its type and position.
//!
//! Code that must look at every expression or reference of a schedule (scans for `call`, the proof
//! of symmetry, mutation) uses this module, so that it cannot miss a field. Each structure is
//! destructured here without `..` and each enumeration matched without `_`, so a new field or
//! operation does not compile until it is listed; [`crate::op`] and `local_op` list the parts of
//! operations. One macro generates both forms, [`Field`] for
//! reading and [`FieldMut`] for changing, with the same fields in the same order.
//! [`crate::schedule`] defines the meaning of the fields.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

use crate::contract::{Cell, Clause, Contract, ContractBuffer, SumOver};
use crate::expr::Expr;
use crate::form::Form;
use crate::grouped::Runs;
use crate::local_op::{LocalOpPart, LocalOpPartMut};
use crate::name::Name;
use crate::op::{OpPart, OpPartMut};
use crate::scalar::ScalarFn;
use crate::schedule::*;
use crate::tiles::TileKernel;
use crate::types::{CutRule, DType, MemKind, Mesh, ReduceOp, TensorType};
use kbc_diag::Span;
use std::sync::Arc;

pub use crate::refs::RefUse;

/// Purpose of an expression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ExprUse {
    /// Bound of a loop.
    Bound,
    /// Condition of an `if`.
    Guard,
    /// Condition for the ranks of a role.
    Ranks,
    /// Coordinate of a peer, with its position.
    Peer(u32),
    /// Slot of a window.
    Slot,
    /// Index of a counter in its array.
    Counter,
    /// Value that a wait asks for, of a counter of this array.
    Value(SignalId),
    /// Index of a queue in its array.
    Queue,
    /// First chunk, in one level of a chunk's address.
    ChunkIndex,
    /// Number of chunks, in one level of a chunk's address.
    ChunkLen,
    /// Number of chunks that the space is cut into, in one level of a chunk's address.
    ChunkOf,
    /// Part of a line or tensor that a local operation works on, in mesh coordinates.
    Part,
    /// Size of a dimension of a buffer, in mesh coordinates.
    Dim,
    /// Extent of an operand's line, in mesh coordinates.
    Extent,
    /// Unit of an operand's line, in mesh coordinates.
    Unit,
    /// Row of an operand's lengths, in mesh coordinates.
    Row,
    /// Part of a clause of a contract.
    Clause,
}

/// Position of a field in the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldPosition {
    /// Number of the region, for fields in a region.
    pub region: Option<u32>,
    /// Number of the role, for fields in a role.
    pub role: Option<u32>,
    /// Number of the stream in its role, for fields in a stream.
    pub stream: Option<u32>,
    /// Number of the operation among all operations of the schedule, in the order of the text, for
    /// fields of an operation.
    pub op: Option<u32>,
    /// Source location.
    pub span: Span,
}

impl FieldPosition {
    /// Creates a position outside all regions.
    pub const fn outside(span: Span) -> FieldPosition {
        FieldPosition { region: None, role: None, stream: None, op: None, span }
    }
}

/// State of a visit, for both forms of the visitor.
#[derive(Clone, Copy)]
struct Walk {
    at: FieldPosition,
    ops: u32,
}

macro_rules! visitor {
    (
        $(#[$doc:meta])* $field:ident, $module:ident, [$($by:tt)*], [$($short:tt)*],
        $schedule:ident, $op:ident, $statements:ident, $reference:ident,
        $op_part:ident, $local_part:ident, $parts:ident
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $field<'a> {
            /// An expression.
            Expr(ExprUse, $($by)* Expr),
            /// A whole reference. Its parts follow as fields of their own.
            Ref(RefUse, $($by)* Ref),
            /// A whole body, before the fields of its statements.
            Body($($by)* Vec<SStmt>),
            /// A number that is not an expression: slots, capacity, parts, sizes.
            Count(&'static str, $($by)* u64),
            /// Number of a dimension.
            Dimension(&'static str, $($by)* u32),
            /// A boolean.
            Flag(&'static str, $($by)* bool),
            /// A byte offset, once allocated.
            Offset($($by)* Option<u64>),
            /// Combiner of a reduction.
            Combiner($($by)* ReduceOp),
            /// Combiner of a contract, if it has one.
            Promised($($by)* Option<ReduceOp>),
            /// Root of a contract, if it has one.
            Root($($by)* Option<u64>),
            /// Count that a mean divides by; `None` if the operation is not a mean.
            Mean($($by)* Option<u64>),
            /// Number that elements are filled with.
            Number($($by)* f64),
            /// An element type.
            DType($($by)* DType),
            /// A kind of memory.
            Memory($($by)* MemKind),
            /// Rule of a cut.
            Rule($($by)* CutRule),
            /// Form of a counter.
            Form($($by)* Form),
            /// Purpose of a signal.
            SignalUse($($by)* SignalUse),
            /// Calls for which a schedule is claimed to be safe.
            Calls($($by)* Calls),
            /// Role of a buffer in the interface of the schedule.
            BufferRole($($by)* BufferRole),
            /// Tensor that a buffer is a part of.
            Tensor($($by)* Option<TensorType>),
            /// A buffer, and how the field uses it.
            Buffer(RefUse, $($by)* BufferId),
            /// Buffers that are read.
            Buffers($($by)* Vec<BufferId>),
            /// A window.
            Window($($by)* WindowId),
            /// A signal array.
            Signal($($by)* SignalId),
            /// A queue array.
            Queue($($by)* QueueId),
            /// An operand of a region.
            Operand($($by)* OperandId),
            /// A region that the host launches or waits for.
            Region($($by)* RegionId),
            /// Regions that a region comes after.
            After($($by)* Vec<RegionId>),
            /// A point of a message.
            Point($($by)* Point),
            /// An event of a rank.
            Event($($by)* Name),
            /// A name that other places refer to: of an axis, a coordinate, a step, an operand, a
            /// stream, or a buffer of a contract.
            Name(&'static str, $($by)* Name),
            /// A name that is only for readers.
            Hint(&'static str, $($by)* Name),
            /// A label that is only for readers.
            Label($($by)* Option<String>),
            /// Ranks of a role, by linear index in the group.
            RankList($($by)* Vec<u64>),
            /// Relays that a message passes; not where it names none.
            Via($($by)* Via),
            /// Entries of a table.
            Entries($($by)* Vec<i64>),
            /// Permutation of dimensions.
            Permutation($($by)* Vec<u32>),
            /// An elementwise function.
            Function($($by)* ScalarFn),
            /// A kernel over tiles.
            Tiles($($by)* Arc<TileKernel>),
            /// Runs of rows with their matrices.
            Runs($($by)* Runs),
            /// First row and first matrix of each place.
            Places($($by)* Vec<(u64, u64)>),
            /// Mesh with its axes.
            Mesh($($by)* Mesh),
        }

        /// Calls `f` with every field of a schedule: declarations first, then each region with its
        /// headers and bodies, then the host's program.
        pub fn $schedule<'a>(s: $($by)* Schedule, f: &mut dyn FnMut(FieldPosition, $field<$($short)*>)) {
            $module::schedule(s, f);
        }

        /// Calls `f` with every field of an operation that is not part of a schedule.
        pub fn $op<'a>(op: $($by)* SOp, f: &mut dyn FnMut($field<$($short)*>)) {
            let mut walk = Walk { at: FieldPosition::outside(Span::NONE), ops: 0 };
            $module::op(op, &mut walk, &mut |_, field| f(field));
        }

        /// Calls `f` with every field of statements that are not part of a schedule: steps, bounds,
        /// conditions and operations.
        pub fn $statements<'a>(list: $($by)* [SStmt], f: &mut dyn FnMut(FieldPosition, $field<$($short)*>)) {
            let mut walk = Walk { at: FieldPosition::outside(Span::NONE), ops: 0 };
            $module::list(list, &mut walk, f);
        }

        /// Calls `f` with every field inside a reference.
        pub fn $reference<'a>(r: $($by)* Ref, f: &mut dyn FnMut($field<$($short)*>)) {
            let walk = Walk { at: FieldPosition::outside(Span::NONE), ops: 0 };
            $module::inside(r, &walk, &mut |_, field| f(field));
        }

        mod $module {
            use super::*;
            use super::$field as F;

            type Sink<'f, 'a> = dyn FnMut(FieldPosition, F<$($short)*>) + 'f;

            pub(super) fn schedule<'a>(s: $($by)* Schedule, f: &mut Sink<'_, 'a>) {
                let Schedule { name, mesh, calls, tables, buffers, windows, signals, queues, regions, host } = s;
                let none = FieldPosition::outside(Span::NONE);
                f(none, F::Hint("schedule", name));
                f(none, F::Mesh(mesh));
                f(none, F::Calls(calls));
                for Table { name, values } in tables {
                    f(none, F::Name("table", name));
                    f(none, F::Entries(values));
                }
                for b in buffers {
                    buffer(b, f);
                }
                for w in windows {
                    window(w, f);
                }
                for g in signals {
                    signal(g, f);
                }
                for q in queues {
                    queue(q, f);
                }
                let mut walk = Walk { at: none, ops: 0 };
                for (i, r) in regions.into_iter().enumerate() {
                    walk.at = FieldPosition { region: Some(i as u32), ..none };
                    region(r, &mut walk, f);
                }
                walk.at = none;
                if let Some(Host { body, span }) = host {
                    walk.at.span = *span;
                    f(walk.at, F::Body(body));
                    list(body, &mut walk, f);
                }
            }

            fn buffer<'a>(b: $($by)* Buffer, f: &mut Sink<'_, 'a>) {
                let Buffer { name, dtype, dims, memory, zero, role, global, span } = b;
                let at = FieldPosition::outside(*span);
                f(at, F::Hint("buffer", name));
                f(at, F::DType(dtype));
                for d in dims {
                    f(at, F::Expr(ExprUse::Dim, d));
                }
                f(at, F::Memory(memory));
                f(at, F::Flag("zero", zero));
                f(at, F::BufferRole(role));
                f(at, F::Tensor(global));
            }

            fn window<'a>(w: $($by)* Window, f: &mut Sink<'_, 'a>) {
                let Window { name, dtype, slots, capacity, memory, zero, offset, span } = w;
                let at = FieldPosition::outside(*span);
                f(at, F::Hint("window", name));
                f(at, F::DType(dtype));
                f(at, F::Count("slots", slots));
                f(at, F::Count("capacity", capacity));
                f(at, F::Memory(memory));
                f(at, F::Flag("zero", zero));
                f(at, F::Offset(offset));
            }

            fn signal<'a>(g: $($by)* Signal, f: &mut Sink<'_, 'a>) {
                let Signal { name, count, usage, form, offset, span } = g;
                let at = FieldPosition::outside(*span);
                f(at, F::Hint("signal", name));
                f(at, F::Count("counters", count));
                f(at, F::SignalUse(usage));
                f(at, F::Form(form));
                f(at, F::Offset(offset));
            }

            fn queue<'a>(q: $($by)* Queue, f: &mut Sink<'_, 'a>) {
                let Queue { name, count, dtype, depth, capacity, memory, span } = q;
                let at = FieldPosition::outside(*span);
                f(at, F::Hint("queue", name));
                f(at, F::Count("queues", count));
                f(at, F::DType(dtype));
                f(at, F::Count("depth", depth));
                f(at, F::Count("capacity", capacity));
                f(at, F::Memory(memory));
            }

            fn region<'a>(r: $($by)* Region, walk: &mut Walk, f: &mut Sink<'_, 'a>) {
                let Region { name, over, coords, operands, contract, label, after, roles, span } = r;
                walk.at.span = *span;
                let at = walk.at;
                f(at, F::Hint("region", name));
                for axis in over {
                    f(at, F::Name("axis", axis));
                }
                for (name, size) in coords {
                    f(at, F::Name("coordinate", name));
                    f(at, F::Count("coordinate", size));
                }
                for Operand { name, buffer, line, scratch } in operands {
                    f(at, F::Name("operand", name));
                    f(at, F::Buffer(RefUse::Update, buffer));
                    let Line { parts, extent, unit, rule, row } = line;
                    f(at, F::Count("blocks", parts));
                    f(at, F::Expr(ExprUse::Extent, extent));
                    f(at, F::Expr(ExprUse::Unit, unit));
                    f(at, F::Rule(rule));
                    f(at, F::Expr(ExprUse::Row, row));
                    f(at, F::Flag("scratch", scratch));
                }
                if let Some(p) = contract {
                    contract_fields(p, at, f);
                }
                f(at, F::Label(label));
                f(at, F::After(after));
                for (i, Role { name, ranks, streams }) in roles.into_iter().enumerate() {
                    walk.at = FieldPosition { role: Some(i as u32), ..at };
                    f(walk.at, F::Hint("role", name));
                    match ranks {
                        RankSet::All => {}
                        RankSet::Where(e) => f(walk.at, F::Expr(ExprUse::Ranks, e)),
                        RankSet::List(l) => f(walk.at, F::RankList(l)),
                    }
                    for (j, Stream { name, body }) in streams.into_iter().enumerate() {
                        walk.at = FieldPosition { role: Some(i as u32), stream: Some(j as u32), ..at };
                        f(walk.at, F::Name("stream", name));
                        f(walk.at, F::Body(body));
                        list(body, walk, f);
                    }
                }
            }

            fn contract_fields<'a>(p: $($by)* Contract, at: FieldPosition, f: &mut Sink<'_, 'a>) {
                let Contract { collective, red, root, rank, size, buffers, clauses } = p;
                f(at, F::Hint("collective", collective));
                f(at, F::Promised(red));
                f(at, F::Root(root));
                f(at, F::Hint("rank", rank));
                f(at, F::Hint("size", size));
                for ContractBuffer { name, blocks } in buffers {
                    f(at, F::Name("contract", name));
                    f(at, F::Flag("blocks", blocks));
                }
                for c in clauses {
                    match c {
                        Clause::Start { cell: c, cond } => {
                            cell(c, at, f);
                            if let Some(e) = cond {
                                f(at, F::Expr(ExprUse::Clause, e));
                            }
                        }
                        Clause::End { cell: c, cond, from, at: who, sum } => {
                            cell(c, at, f);
                            if let Some(e) = cond {
                                f(at, F::Expr(ExprUse::Clause, e));
                            }
                            cell(from, at, f);
                            f(at, F::Expr(ExprUse::Clause, who));
                            if let Some(SumOver { var, lo, hi, cond }) = sum {
                                f(at, F::Hint("variable", var));
                                f(at, F::Expr(ExprUse::Clause, lo));
                                f(at, F::Expr(ExprUse::Clause, hi));
                                if let Some(e) = cond {
                                    f(at, F::Expr(ExprUse::Clause, e));
                                }
                            }
                        }
                    }
                }
            }

            fn cell<'a>(c: $($by)* Cell, at: FieldPosition, f: &mut Sink<'_, 'a>) {
                let Cell { buffer, index } = c;
                f(at, F::Name("clause", buffer));
                for e in index {
                    f(at, F::Expr(ExprUse::Clause, e));
                }
            }

            pub(super) fn list<'a>(list: $($by)* [SStmt], walk: &mut Walk, f: &mut Sink<'_, 'a>) {
                for s in list {
                    match s {
                        SStmt::For { var, lo, hi, body } => {
                            f(walk.at, F::Name("step", var));
                            f(walk.at, F::Expr(ExprUse::Bound, lo));
                            f(walk.at, F::Expr(ExprUse::Bound, hi));
                            f(walk.at, F::Body(body));
                            self::list(body, walk, f);
                        }
                        SStmt::If { cond, then, other } => {
                            f(walk.at, F::Expr(ExprUse::Guard, cond));
                            f(walk.at, F::Body(then));
                            self::list(then, walk, f);
                            f(walk.at, F::Body(other));
                            self::list(other, walk, f);
                        }
                        SStmt::Op(x, span) => {
                            let outer = walk.at;
                            walk.at.span = *span;
                            walk.at.op = Some(walk.ops);
                            op(x, walk, f);
                            walk.ops += 1;
                            walk.at = outer;
                        }
                    }
                }
            }

            fn reference<'a>(side: RefUse, r: $($by)* Ref, walk: &Walk, f: &mut Sink<'_, 'a>) {
                f(walk.at, F::Ref(side, r));
                inside(r, walk, f);
            }

            pub(super) fn inside<'a>(r: $($by)* Ref, walk: &Walk, f: &mut Sink<'_, 'a>) {
                match r {
                    Ref::Chunk { operand, path } => {
                        f(walk.at, F::Operand(operand));
                        for Part { index, len, of } in path {
                            f(walk.at, F::Expr(ExprUse::ChunkIndex, index));
                            f(walk.at, F::Expr(ExprUse::ChunkLen, len));
                            f(walk.at, F::Expr(ExprUse::ChunkOf, of));
                        }
                    }
                    Ref::Slot { window, slot } => {
                        f(walk.at, F::Window(window));
                        f(walk.at, F::Expr(ExprUse::Slot, slot));
                    }
                }
            }

            fn coordinates<'a>(peer: $($by)* Peer, walk: &Walk, f: &mut Sink<'_, 'a>) {
                let Peer { at, via } = peer;
                for (i, e) in at.into_iter().enumerate() {
                    f(walk.at, F::Expr(ExprUse::Peer(i as u32), e));
                }
                if !via.relays().is_empty() {
                    f(walk.at, F::Via(via));
                }
            }

            pub(super) fn op<'a>(x: $($by)* SOp, walk: &mut Walk, f: &mut Sink<'_, 'a>) {
                let walk = &*walk;
                let at = walk.at;
                // The signal array of the counter before a value.
                let mut array = SignalId(u32::MAX);
                x.$parts(&mut |part| match part {
                    $op_part::Combiner(op) => f(at, F::Combiner(op)),
                    $op_part::Near(side, r) | $op_part::Far(side, r) => reference(side, r, walk, f),
                    $op_part::Peer(peer) => coordinates(peer, walk, f),
                    $op_part::Counter(Counter { signal, index }) => {
                        array = *signal;
                        f(at, F::Signal(signal));
                        f(at, F::Expr(ExprUse::Counter, index));
                    }
                    $op_part::Value(value) => f(at, F::Expr(ExprUse::Value(array), value)),
                    $op_part::Queue(Channel { queue, index }) => {
                        f(at, F::Queue(queue));
                        f(at, F::Expr(ExprUse::Queue, index));
                    }
                    $op_part::Event(event) => f(at, F::Event(event)),
                    $op_part::Local(l) => local(l, at, f),
                    $op_part::Mark(Mark { point, peer, window, slot }) => {
                        f(at, F::Point(point));
                        coordinates(peer, walk, f);
                        f(at, F::Window(window));
                        f(at, F::Expr(ExprUse::Slot, slot));
                    }
                    $op_part::Buffer(side, buffer) => f(at, F::Buffer(side, buffer)),
                    $op_part::Host(HostCommand::Launch(region) | HostCommand::Wait(region)) => {
                        f(at, F::Region(region));
                    }
                    $op_part::Host(HostCommand::Write { dst, src }) => {
                        f(at, F::Buffer(RefUse::Write, dst));
                        f(at, F::Buffer(RefUse::Read, src));
                    }
                    $op_part::Host(HostCommand::Drain) => {}
                });
            }

            fn local<'a>(l: $($by)* LocalOp, at: FieldPosition, f: &mut Sink<'_, 'a>) {
                l.$parts(&mut |part| match part {
                    $local_part::Function(func) => f(at, F::Function(func)),
                    $local_part::Tiles(kernel) => f(at, F::Tiles(kernel)),
                    $local_part::Combiner(op) => f(at, F::Combiner(op)),
                    $local_part::Mean(count) => f(at, F::Mean(count)),
                    $local_part::Buffer(side, buffer) => f(at, F::Buffer(side, buffer)),
                    $local_part::Buffers(list) => f(at, F::Buffers(list)),
                    $local_part::Dimension(dim) => f(at, F::Dimension("dim", dim)),
                    $local_part::Count(parts) => f(at, F::Count("parts", parts)),
                    $local_part::Rule(rule) => f(at, F::Rule(rule)),
                    $local_part::Part(e) => f(at, F::Expr(ExprUse::Part, e)),
                    $local_part::Permutation(perm) => f(at, F::Permutation(perm)),
                    $local_part::Runs(runs) => f(at, F::Runs(runs)),
                    $local_part::Places(places) => f(at, F::Places(places)),
                    $local_part::Number(n) => f(at, F::Number(n)),
                });
            }
        }
    };
}

visitor!(
    /// A field of a schedule, for reading.
    Field, read, [&'a], ['a],
    each_field, op_fields, statement_fields, reference_fields,
    OpPart, LocalOpPart, parts
);
visitor!(
    /// A field of a schedule, for changing.
    FieldMut, change, [&'a mut], ['_],
    each_field_mut, op_fields_mut, statement_fields_mut, reference_fields_mut,
    OpPartMut, LocalOpPartMut, parts_mut
);

/// Returns every expression of an operation with its purpose.
pub fn op_exprs(op: &SOp) -> Vec<(ExprUse, &Expr)> {
    let mut out = vec![];
    op_fields(op, &mut |field| {
        if let Field::Expr(of, e) = field {
            out.push((of, e));
        }
    });
    out
}

/// Returns every reference of an operation with the way in which the operation uses it.
pub fn op_refs(op: &SOp) -> Vec<(RefUse, &Ref)> {
    let mut out = vec![];
    op_fields(op, &mut |field| {
        if let Field::Ref(side, r) = field {
            out.push((side, r));
        }
    });
    out
}

/// Returns every expression of a reference with its purpose.
pub fn ref_exprs(r: &Ref) -> Vec<(ExprUse, &Expr)> {
    let mut out = vec![];
    reference_fields(r, &mut |field| {
        if let Field::Expr(of, e) = field {
            out.push((of, e));
        }
    });
    out
}

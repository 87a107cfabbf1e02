//! Visitor: every field of a schedule, one after another, with its type and its place.
//!
//! Whoever must look at every expression or every reference of a schedule (scans for `call`, the
//! proof of symmetry, mutation) reads it through this module, so that a field cannot be forgotten:
//! each structure is taken apart here without `..` and each enumeration without `_`, so that a new
//! field or operation does not compile until it is listed. One text makes both forms, [`Field`] for
//! reading and [`FieldMut`] for changing; both give the same fields in the same order. What the
//! fields mean is [`crate::schedule`]'s.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

use crate::expr::Expr;
use crate::form::Form;
use crate::grouped::Runs;
use crate::host::Host;
use crate::local_op::{Filling, LocalOp};
use crate::name::Name;
use crate::promise::{Cell, Clause, Promise, PromiseBuffer, SumOver};
use crate::scalar::ScalarFn;
use crate::schedule::*;
use crate::tiles::TileKernel;
use crate::types::{CutRule, DType, MemKind, Mesh, ReduceOp, TensorType};
use kbc_diag::Span;
use std::sync::Arc;

/// What an expression is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Use {
    /// A bound of a loop.
    Bound,
    /// The condition of an `if`.
    Guard,
    /// The ranks of a role.
    Ranks,
    /// A coordinate of a peer, by number.
    Peer(u32),
    /// The slot of a window.
    Slot,
    /// The number of a counter in its array.
    Counter,
    /// What a wait asks of a counter of this array.
    Value(SignalId),
    /// The number of a queue in its array.
    Queue,
    /// The first chunk of a digit of a chunk's address.
    ChunkIndex,
    /// The number of chunks of a digit.
    ChunkLen,
    /// The chunks that a digit counts in.
    ChunkOf,
    /// Which part of a line or tensor a local operation works on, in mesh coordinates.
    Part,
    /// The size of a dimension of a buffer, in mesh coordinates.
    Dim,
    /// The extent of an operand's line, in mesh coordinates.
    Extent,
    /// The unit of an operand's line, in mesh coordinates.
    Unit,
    /// The row of an operand's lengths, in mesh coordinates.
    Row,
    /// Part of a clause of a contract.
    Clause,
}

/// What a reference is to its operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// Only read.
    Read,
    /// Only written.
    Write,
    /// Read and written: the destination of a reduction.
    Update,
}

/// Where a field is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// Number of the region, for what is in one.
    pub region: Option<u32>,
    /// Number of the role, for what is in one.
    pub role: Option<u32>,
    /// Number of the stream in its role, for what is in one.
    pub stream: Option<u32>,
    /// Number of the operation among those of the whole schedule in the order of the text, for what
    /// is in one.
    pub op: Option<u32>,
    /// The place in the source.
    pub span: Span,
}

impl At {
    /// A place that is in no region.
    pub const fn outside(span: Span) -> At {
        At { region: None, role: None, stream: None, op: None, span }
    }
}

/// Where a visit has come to, for both forms of the visitor.
#[derive(Clone, Copy)]
struct Walk {
    at: At,
    ops: u32,
}

macro_rules! visitor {
    (
        $(#[$doc:meta])* $field:ident, $module:ident, [$($by:tt)*], [$($short:tt)*],
        $schedule:ident, $op:ident, $statements:ident, $reference:ident
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $field<'a> {
            /// An expression.
            Expr(Use, $($by)* Expr),
            /// A whole reference; its parts follow as fields of their own.
            Ref(Side, $($by)* Ref),
            /// A whole body, before its statements.
            Body($($by)* Vec<SStmt>),
            /// A number that is no expression: slots, capacity, parts, sizes.
            Count(&'static str, $($by)* u64),
            /// A number of a dimension.
            Dimension(&'static str, $($by)* u32),
            /// Yes or no.
            Flag(&'static str, $($by)* bool),
            /// A byte offset, once allocated.
            Offset($($by)* Option<u64>),
            /// The operator of a reduction.
            Combiner($($by)* ReduceOp),
            /// The operator of a contract, where it has one.
            Promised($($by)* Option<ReduceOp>),
            /// The root of a contract, where it has one.
            Root($($by)* Option<u64>),
            /// The count that a mean divides by, where it is one.
            Mean($($by)* Option<u64>),
            /// A number that elements are filled with.
            Number($($by)* f64),
            /// An element type.
            DType($($by)* DType),
            /// A kind of memory.
            Memory($($by)* MemKind),
            /// How something is cut.
            Rule($($by)* CutRule),
            /// The form of a counter.
            Form($($by)* Form),
            /// What a signal is for.
            SignalUse($($by)* SignalUse),
            /// Which calls a schedule is meant to be safe for.
            Calls($($by)* Calls),
            /// What a buffer is to the outside.
            BufferRole($($by)* BufferRole),
            /// The tensor that a buffer is a part of.
            Tensor($($by)* Option<TensorType>),
            /// A buffer; whether the field says that it is written.
            Buffer(Side, $($by)* BufferId),
            /// Buffers that are read.
            Buffers($($by)* Vec<BufferId>),
            /// A window.
            Window($($by)* WindowId),
            /// An array of signals.
            Signal($($by)* SignalId),
            /// An array of queues.
            Queue($($by)* QueueId),
            /// An operand of a region.
            Operand($($by)* OperandId),
            /// A region that the host launches or waits for.
            Region($($by)* RegionId),
            /// The regions that one comes after.
            After($($by)* Vec<RegionId>),
            /// A point of a message.
            Point($($by)* Point),
            /// An event of a rank.
            Event($($by)* Name),
            /// A name that gives its thing a meaning to others: an axis, a coordinate, a step, an
            /// operand, a stream, a buffer of a contract.
            Name(&'static str, $($by)* Name),
            /// A name or label for people alone.
            Hint(&'static str, $($by)* Name),
            /// A label for people alone.
            Label($($by)* Option<String>),
            /// Ranks of a role by number in the group.
            RankList($($by)* Vec<u64>),
            /// Entries of a table.
            Entries($($by)* Vec<i64>),
            /// A permutation of dimensions.
            Permutation($($by)* Vec<u32>),
            /// An elementwise function.
            Function($($by)* ScalarFn),
            /// A kernel over tiles.
            Tiles($($by)* Arc<TileKernel>),
            /// Runs of rows with their matrices.
            Runs($($by)* Runs),
            /// First row and matrix of each place.
            Places($($by)* Vec<(u64, u64)>),
            /// The axes of a mesh.
            Mesh($($by)* Mesh),
        }

        /// Every field of a schedule: declarations first, then each region with its headers and its
        /// bodies, then the host's program.
        pub fn $schedule<'a>(s: $($by)* Schedule, f: &mut dyn FnMut(At, $field<$($short)*>)) {
            $module::schedule(s, f);
        }

        /// Every field of an operation that stands nowhere.
        pub fn $op<'a>(op: $($by)* SOp, f: &mut dyn FnMut($field<$($short)*>)) {
            let mut walk = Walk { at: At::outside(Span::NONE), ops: 0 };
            $module::op(op, &mut walk, &mut |_, field| f(field));
        }

        /// Every field of statements that stand nowhere: steps, bounds, guards and operations.
        pub fn $statements<'a>(list: $($by)* [SStmt], f: &mut dyn FnMut(At, $field<$($short)*>)) {
            let mut walk = Walk { at: At::outside(Span::NONE), ops: 0 };
            $module::list(list, &mut walk, f);
        }

        /// Every field inside a reference.
        pub fn $reference<'a>(r: $($by)* Ref, f: &mut dyn FnMut($field<$($short)*>)) {
            let walk = Walk { at: At::outside(Span::NONE), ops: 0 };
            $module::inside(r, &walk, &mut |_, field| f(field));
        }

        mod $module {
            use super::*;
            use super::$field as F;

            type Sink<'f, 'a> = dyn FnMut(At, F<$($short)*>) + 'f;

            pub(super) fn schedule<'a>(s: $($by)* Schedule, f: &mut Sink<'_, 'a>) {
                let Schedule { name, mesh, calls, tables, buffers, windows, signals, queues, regions, host } = s;
                let none = At::outside(Span::NONE);
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
                    walk.at = At { region: Some(i as u32), ..none };
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
                let at = At::outside(*span);
                f(at, F::Hint("buffer", name));
                f(at, F::DType(dtype));
                for d in dims {
                    f(at, F::Expr(Use::Dim, d));
                }
                f(at, F::Memory(memory));
                f(at, F::Flag("zero", zero));
                f(at, F::BufferRole(role));
                f(at, F::Tensor(global));
            }

            fn window<'a>(w: $($by)* Window, f: &mut Sink<'_, 'a>) {
                let Window { name, dtype, slots, capacity, memory, zero, offset, span } = w;
                let at = At::outside(*span);
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
                let at = At::outside(*span);
                f(at, F::Hint("signal", name));
                f(at, F::Count("counters", count));
                f(at, F::SignalUse(usage));
                f(at, F::Form(form));
                f(at, F::Offset(offset));
            }

            fn queue<'a>(q: $($by)* Queue, f: &mut Sink<'_, 'a>) {
                let Queue { name, count, dtype, depth, capacity, memory, span } = q;
                let at = At::outside(*span);
                f(at, F::Hint("queue", name));
                f(at, F::Count("queues", count));
                f(at, F::DType(dtype));
                f(at, F::Count("depth", depth));
                f(at, F::Count("capacity", capacity));
                f(at, F::Memory(memory));
            }

            fn region<'a>(r: $($by)* Region, walk: &mut Walk, f: &mut Sink<'_, 'a>) {
                let Region { name, over, coords, operands, promise, label, after, roles, span } = r;
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
                    f(at, F::Buffer(Side::Update, buffer));
                    let Line { parts, extent, unit, rule, row } = line;
                    f(at, F::Count("blocks", parts));
                    f(at, F::Expr(Use::Extent, extent));
                    f(at, F::Expr(Use::Unit, unit));
                    f(at, F::Rule(rule));
                    f(at, F::Expr(Use::Row, row));
                    f(at, F::Flag("scratch", scratch));
                }
                if let Some(p) = promise {
                    contract(p, at, f);
                }
                f(at, F::Label(label));
                f(at, F::After(after));
                for (i, Role { name, ranks, streams }) in roles.into_iter().enumerate() {
                    walk.at = At { role: Some(i as u32), ..at };
                    f(walk.at, F::Hint("role", name));
                    match ranks {
                        RankSet::All => {}
                        RankSet::Where(e) => f(walk.at, F::Expr(Use::Ranks, e)),
                        RankSet::List(l) => f(walk.at, F::RankList(l)),
                    }
                    for (j, Stream { name, body }) in streams.into_iter().enumerate() {
                        walk.at = At { role: Some(i as u32), stream: Some(j as u32), ..at };
                        f(walk.at, F::Name("stream", name));
                        f(walk.at, F::Body(body));
                        list(body, walk, f);
                    }
                }
            }

            fn contract<'a>(p: $($by)* Promise, at: At, f: &mut Sink<'_, 'a>) {
                let Promise { collective, red, root, rank, size, buffers, clauses } = p;
                f(at, F::Hint("collective", collective));
                f(at, F::Promised(red));
                f(at, F::Root(root));
                f(at, F::Hint("rank", rank));
                f(at, F::Hint("size", size));
                for PromiseBuffer { name, blocks } in buffers {
                    f(at, F::Name("contract", name));
                    f(at, F::Flag("blocks", blocks));
                }
                for c in clauses {
                    match c {
                        Clause::Start { cell: c, cond } => {
                            cell(c, at, f);
                            if let Some(e) = cond {
                                f(at, F::Expr(Use::Clause, e));
                            }
                        }
                        Clause::End { cell: c, cond, from, at: who, sum } => {
                            cell(c, at, f);
                            if let Some(e) = cond {
                                f(at, F::Expr(Use::Clause, e));
                            }
                            cell(from, at, f);
                            f(at, F::Expr(Use::Clause, who));
                            if let Some(SumOver { var, lo, hi, cond }) = sum {
                                f(at, F::Hint("variable", var));
                                f(at, F::Expr(Use::Clause, lo));
                                f(at, F::Expr(Use::Clause, hi));
                                if let Some(e) = cond {
                                    f(at, F::Expr(Use::Clause, e));
                                }
                            }
                        }
                    }
                }
            }

            fn cell<'a>(c: $($by)* Cell, at: At, f: &mut Sink<'_, 'a>) {
                let Cell { buffer, index } = c;
                f(at, F::Name("clause", buffer));
                for e in index {
                    f(at, F::Expr(Use::Clause, e));
                }
            }

            pub(super) fn list<'a>(list: $($by)* [SStmt], walk: &mut Walk, f: &mut Sink<'_, 'a>) {
                for s in list {
                    match s {
                        SStmt::For { var, lo, hi, body } => {
                            f(walk.at, F::Name("step", var));
                            f(walk.at, F::Expr(Use::Bound, lo));
                            f(walk.at, F::Expr(Use::Bound, hi));
                            f(walk.at, F::Body(body));
                            self::list(body, walk, f);
                        }
                        SStmt::If { cond, then, other } => {
                            f(walk.at, F::Expr(Use::Guard, cond));
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

            fn reference<'a>(side: Side, r: $($by)* Ref, walk: &Walk, f: &mut Sink<'_, 'a>) {
                f(walk.at, F::Ref(side, r));
                inside(r, walk, f);
            }

            pub(super) fn inside<'a>(r: $($by)* Ref, walk: &Walk, f: &mut Sink<'_, 'a>) {
                match r {
                    Ref::Chunk { operand, path } => {
                        f(walk.at, F::Operand(operand));
                        for Part { index, len, of } in path {
                            f(walk.at, F::Expr(Use::ChunkIndex, index));
                            f(walk.at, F::Expr(Use::ChunkLen, len));
                            f(walk.at, F::Expr(Use::ChunkOf, of));
                        }
                    }
                    Ref::Slot { window, slot } => {
                        f(walk.at, F::Window(window));
                        f(walk.at, F::Expr(Use::Slot, slot));
                    }
                }
            }

            fn coordinates<'a>(peer: $($by)* Peer, walk: &Walk, f: &mut Sink<'_, 'a>) {
                for (i, e) in peer.into_iter().enumerate() {
                    f(walk.at, F::Expr(Use::Peer(i as u32), e));
                }
            }

            pub(super) fn op<'a>(x: $($by)* SOp, walk: &mut Walk, f: &mut Sink<'_, 'a>) {
                let walk = &*walk;
                match x {
                    SOp::Copy { dst, src } => {
                        reference(Side::Write, dst, walk, f);
                        reference(Side::Read, src, walk, f);
                    }
                    SOp::Reduce { op, dst, src } => {
                        f(walk.at, F::Combiner(op));
                        reference(Side::Update, dst, walk, f);
                        reference(Side::Read, src, walk, f);
                    }
                    SOp::Put { src, peer, dst } => {
                        reference(Side::Read, src, walk, f);
                        coordinates(peer, walk, f);
                        reference(Side::Write, dst, walk, f);
                    }
                    SOp::Get { dst, peer, src } => {
                        reference(Side::Write, dst, walk, f);
                        coordinates(peer, walk, f);
                        reference(Side::Read, src, walk, f);
                    }
                    SOp::Send { src, peer, queue, index } => {
                        reference(Side::Read, src, walk, f);
                        coordinates(peer, walk, f);
                        f(walk.at, F::Queue(queue));
                        f(walk.at, F::Expr(Use::Queue, index));
                    }
                    SOp::Recv { dst, peer, queue, index } => {
                        reference(Side::Write, dst, walk, f);
                        coordinates(peer, walk, f);
                        f(walk.at, F::Queue(queue));
                        f(walk.at, F::Expr(Use::Queue, index));
                    }
                    SOp::Room { peer, queue, index } => {
                        coordinates(peer, walk, f);
                        f(walk.at, F::Queue(queue));
                        f(walk.at, F::Expr(Use::Queue, index));
                    }
                    SOp::Notify { peer, signal, index } => {
                        coordinates(peer, walk, f);
                        f(walk.at, F::Signal(signal));
                        f(walk.at, F::Expr(Use::Counter, index));
                    }
                    SOp::Wait { signal, index, value } => {
                        let of = *signal;
                        f(walk.at, F::Signal(signal));
                        f(walk.at, F::Expr(Use::Counter, index));
                        f(walk.at, F::Expr(Use::Value(of), value));
                    }
                    SOp::FenceRelease | SOp::FenceAcquire | SOp::FenceComplete | SOp::Drain => {}
                    SOp::Record(event) | SOp::Await(event) => f(walk.at, F::Event(event)),
                    SOp::Local(l) => local(l, walk, f),
                    SOp::Mark { point, peer, window, slot } => {
                        f(walk.at, F::Point(point));
                        coordinates(peer, walk, f);
                        f(walk.at, F::Window(window));
                        f(walk.at, F::Expr(Use::Slot, slot));
                    }
                    SOp::Launch(region) | SOp::HostWait(region) => f(walk.at, F::Region(region)),
                    SOp::HostRead(buffer) => f(walk.at, F::Buffer(Side::Read, buffer)),
                    SOp::HostWrite { dst, src } => {
                        f(walk.at, F::Buffer(Side::Write, dst));
                        f(walk.at, F::Buffer(Side::Read, src));
                    }
                }
            }

            fn local<'a>(l: $($by)* LocalOp, walk: &Walk, f: &mut Sink<'_, 'a>) {
                let at = walk.at;
                match l {
                    LocalOp::Compute { func, dst, args } => {
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Function(func));
                        f(at, F::Buffers(args));
                    }
                    LocalOp::Matmul { dst, a, b } => {
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Buffer(Side::Read, a));
                        f(at, F::Buffer(Side::Read, b));
                    }
                    LocalOp::ReduceDim { op, mean, dst, src, dim } => {
                        f(at, F::Combiner(op));
                        f(at, F::Mean(mean));
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Buffer(Side::Read, src));
                        f(at, F::Dimension("dim", dim));
                    }
                    LocalOp::Cast { dst, src } | LocalOp::Copy { dst, src } => {
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Buffer(Side::Read, src));
                    }
                    LocalOp::Pack { dst, src, dim, parts, rule, at: part }
                    | LocalOp::Unpack { dst, src, dim, parts, rule, at: part } => {
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Buffer(Side::Read, src));
                        f(at, F::Dimension("dim", dim));
                        f(at, F::Count("parts", parts));
                        f(at, F::Rule(rule));
                        if let Some(e) = part {
                            f(at, F::Expr(Use::Part, e));
                        }
                    }
                    LocalOp::Transpose { dst, src, perm } => {
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Buffer(Side::Read, src));
                        f(at, F::Permutation(perm));
                    }
                    LocalOp::Embedding { dst, table, ids, first } => {
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Buffer(Side::Read, table));
                        f(at, F::Buffer(Side::Read, ids));
                        f(at, F::Expr(Use::Part, first));
                    }
                    LocalOp::Grouped { dst, x, w, runs, places, at: place } => {
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Buffer(Side::Read, x));
                        f(at, F::Buffer(Side::Read, w));
                        f(at, F::Runs(runs));
                        f(at, F::Places(places));
                        f(at, F::Expr(Use::Part, place));
                    }
                    LocalOp::Tiles { kernel, dst, args } => {
                        f(at, F::Tiles(kernel));
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Buffers(args));
                    }
                    LocalOp::Fill { dst, with } => {
                        f(at, F::Buffer(Side::Write, dst));
                        match with {
                            Filling::Number(n) => f(at, F::Number(n)),
                            Filling::Place { dim, first } => {
                                f(at, F::Dimension("dim", dim));
                                f(at, F::Expr(Use::Part, first));
                            }
                        }
                    }
                    LocalOp::Slice { dst, src, dim, index, of, rule } => {
                        f(at, F::Buffer(Side::Write, dst));
                        f(at, F::Buffer(Side::Read, src));
                        f(at, F::Dimension("dim", dim));
                        f(at, F::Expr(Use::Part, index));
                        f(at, F::Count("parts", of));
                        f(at, F::Rule(rule));
                    }
                }
            }
        }
    };
}

visitor!(
    /// A field of a schedule, to read.
    Field, read, [&'a], ['a],
    each_field, op_fields, statement_fields, reference_fields
);
visitor!(
    /// A field of a schedule, to change.
    FieldMut, change, [&'a mut], ['_],
    each_field_mut, op_fields_mut, statement_fields_mut, reference_fields_mut
);

/// Every expression of an operation, with what it is for.
pub fn op_exprs(op: &SOp) -> Vec<(Use, &Expr)> {
    let mut out = vec![];
    op_fields(op, &mut |field| {
        if let Field::Expr(of, e) = field {
            out.push((of, e));
        }
    });
    out
}

/// Every reference of an operation, with what it is to it.
pub fn op_refs(op: &SOp) -> Vec<(Side, &Ref)> {
    let mut out = vec![];
    op_fields(op, &mut |field| {
        if let Field::Ref(side, r) = field {
            out.push((side, r));
        }
    });
    out
}

/// Every expression of a reference.
pub fn ref_exprs(r: &Ref) -> Vec<(Use, &Expr)> {
    let mut out = vec![];
    reference_fields(r, &mut |field| {
        if let Field::Expr(of, e) = field {
            out.push((of, e));
        }
    });
    out
}

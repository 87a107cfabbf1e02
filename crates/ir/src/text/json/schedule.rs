//! Schedules as JSON.

use super::Names;
use super::types::word;
use super::value::{Definitions, Json, Wire, choice, object, object_schema, one_of, typed};
use crate::contract::Contract;
use crate::expr::Expr;
use crate::grouped::Runs;
use crate::name::Name;
use crate::scalar::ScalarFn;
use crate::schedule::*;
use crate::text::names::labels;
use crate::tiles::TileKernel;
use crate::types::{CutRule, DType, MemKind, ReduceOp, TensorType};
use std::sync::Arc;

use super::value::words;

/// Writes the number of a declaration as its label.
macro_rules! reference {
    ($($ty:ident: $list:ident),*) => {
        $(impl Wire for $ty {
            fn json(&self, n: &Names) -> Json {
                n.$list.get(self.0 as usize).map_or_else(|| Json::text(format!("?{}", self.0)), Json::text)
            }
            fn schema(_: &mut Definitions) -> Json {
                typed("string")
            }
        })*
    };
}
reference!(BufferId: buffers, WindowId: windows, SignalId: signals, QueueId: queues, OperandId: operands, RegionId: regions);

word!(Calls, "calls", [Calls::None, Calls::First, Calls::Any], |c| match c {
    Calls::None => "none",
    Calls::First => "first",
    Calls::Any => "any",
});
word!(SignalUse, "signal_use", [SignalUse::Arrival, SignalUse::Credit, SignalUse::Barrier], |u| match u {
    SignalUse::Arrival => "arrival",
    SignalUse::Credit => "credit",
    SignalUse::Barrier => "barrier",
});

impl Wire for Schedule {
    fn json(&self, n: &Names) -> Json {
        let Schedule { name, mesh: _, calls, tables, buffers, windows, signals, queues, regions, host } =
            self;
        let n = &Names {
            buffers: labels(buffers.iter().map(|b| &b.name)).into(),
            windows: labels(windows.iter().map(|w| &w.name)).into(),
            signals: labels(signals.iter().map(|s| &s.name)).into(),
            queues: labels(queues.iter().map(|q| &q.name)).into(),
            regions: labels(regions.iter().map(|r| &r.name)).into(),
            ..n.clone()
        };
        fn list<'a, T: 'a>(labels: &'a [String], list: &'a [T]) -> Vec<Labelled<'a, T>> {
            labels.iter().zip(list).map(|(label, item)| Labelled(label, item)).collect()
        }
        Json::Object(vec![
            ("name", name.json(n)),
            ("calls", calls.json(n)),
            ("tables", tables.json(n)),
            ("buffers", list(&n.buffers, buffers).json(n)),
            ("windows", list(&n.windows, windows).json(n)),
            ("signals", list(&n.signals, signals).json(n)),
            ("queues", list(&n.queues, queues).json(n)),
            ("host", host.json(n)),
            ("regions", list(&n.regions, regions).json(n)),
        ])
    }
    fn schema(d: &mut Definitions) -> Json {
        d.define("schedule", |d| {
            let fields = vec![
                ("name", Name::schema(d)),
                ("calls", Calls::schema(d)),
                ("tables", <Vec<Table>>::schema(d)),
                ("buffers", <Vec<Labelled<'_, Buffer>>>::schema(d)),
                ("windows", <Vec<Labelled<'_, Window>>>::schema(d)),
                ("signals", <Vec<Labelled<'_, Signal>>>::schema(d)),
                ("queues", <Vec<Labelled<'_, Queue>>>::schema(d)),
                ("host", <Option<Host>>::schema(d)),
                ("regions", <Vec<Labelled<'_, Region>>>::schema(d)),
            ];
            object_schema(None, fields)
        })
    }
}

/// An item with its label.
struct Labelled<'a, T>(&'a str, &'a T);

object!(Table, "table", n, Table { name, values } => { "name": Name = name, "values": Vec<i64> = values });
object!(Labelled<'_, Buffer>, "buffer", n,
    Labelled(label, Buffer { name: _, dtype, dims, memory, zero, role, global, span: _ }) => {
    "name": &str = label, "dtype": DType = dtype, "dims": Vec<Expr> = dims, "memory": MemKind = memory,
    "zero": bool = zero, "role": BufferRole = role, "global": Option<TensorType> = global,
});
choice!(BufferRole, "buffer_role", n, "role" {
    "input" => BufferRole::Input(number) => { "number": u32 = number },
    "output" => BufferRole::Output(number) => { "number": u32 = number },
    "temp" => BufferRole::Temp => {},
});
object!(Labelled<'_, Window>, "window", n,
    Labelled(label, Window { name: _, dtype, slots, capacity, memory, zero, offset, span: _ }) => {
    "name": &str = label, "dtype": DType = dtype, "slots": u64 = slots, "capacity": u64 = capacity,
    "memory": MemKind = memory, "zero": bool = zero, "offset": Option<u64> = offset,
});
object!(Labelled<'_, Signal>, "signal", n, Labelled(label, Signal { name: _, count, usage, form, offset, span: _ }) => {
    "name": &str = label, "count": u64 = count, "use": SignalUse = usage, "form": Form = form,
    "offset": Option<u64> = offset,
});
choice!(Form, "form", n, "form" {
    "epoch" => Form::Epoch => {},
    "sense" => Form::Sense { fresh } => { "fresh": bool = fresh },
    "clearing" => Form::Clearing { fresh } => { "fresh": bool = fresh },
});
object!(Labelled<'_, Queue>, "queue", n,
    Labelled(label, Queue { name: _, count, dtype, depth, capacity, memory, span: _ }) => {
    "name": &str = label, "count": u64 = count, "dtype": DType = dtype, "depth": u64 = depth,
    "capacity": u64 = capacity, "memory": MemKind = memory,
});
object!(Host, "host", n, Host { body, span: _ } => { "body": Vec<SStmt> = body });

/// A region, whose operands have labels of their own.
impl Wire for Labelled<'_, Region> {
    fn json(&self, n: &Names) -> Json {
        let Labelled(
            label,
            Region { name: _, over, coords, operands, contract, label: text, after, roles, span: _ },
        ) = self;
        let n = &Names { operands: labels(operands.iter().map(|o| &o.name)).into(), ..n.clone() };
        let named =
            n.operands.iter().zip(operands).map(|(label, o)| Labelled(label.as_str(), o)).collect::<Vec<_>>();
        Json::Object(vec![
            ("name", Json::text(*label)),
            ("over", over.json(n)),
            ("coordinates", coords.json(n)),
            ("after", after.json(n)),
            ("label", text.json(n)),
            ("operands", named.json(n)),
            ("contract", contract.json(n)),
            ("roles", roles.json(n)),
        ])
    }
    fn schema(d: &mut Definitions) -> Json {
        d.define("region", |d| {
            let fields = vec![
                ("name", typed("string")),
                ("over", <Vec<Name>>::schema(d)),
                ("coordinates", <Vec<(Name, u64)>>::schema(d)),
                ("after", <Vec<RegionId>>::schema(d)),
                ("label", <Option<String>>::schema(d)),
                ("operands", <Vec<Labelled<'_, Operand>>>::schema(d)),
                ("contract", <Option<Contract>>::schema(d)),
                ("roles", <Vec<Role>>::schema(d)),
            ];
            object_schema(None, fields)
        })
    }
}

object!(Labelled<'_, Operand>, "operand", n, Labelled(label, Operand { name: _, buffer, line, scratch }) => {
    "name": &str = label, "buffer": BufferId = buffer, "line": Line = line, "scratch": bool = scratch,
});
object!(Line, "line", n, Line { parts, extent, unit, rule, row } => {
    "parts": u64 = parts, "extent": Expr = extent, "unit": Expr = unit, "rule": CutRule = rule, "row": Expr = row,
});
object!(Role, "role", n, Role { name, ranks, streams } => {
    "name": Name = name, "ranks": RankSet = ranks, "streams": Vec<Stream> = streams,
});
choice!(RankSet, "rank_set", n, "ranks" {
    "all" => RankSet::All => {},
    "where" => RankSet::Where(cond) => { "cond": Expr = cond },
    "in" => RankSet::List(list) => { "list": Vec<u64> = list },
});
object!(Stream, "stream", n, Stream { name, body } => { "name": Name = name, "body": Vec<SStmt> = body });

/// A loop or a condition. Other statements are operations.
enum Control<'a> {
    For(&'a Name, &'a Expr, &'a Expr, &'a Vec<SStmt>),
    If(&'a Expr, &'a Vec<SStmt>, &'a Vec<SStmt>),
}

choice!(Control<'_>, "control", n, "op" {
    "for" => Control::For(var, lo, hi, body) => {
        "variable": Name = var, "from": Expr = lo, "end": Expr = hi, "body": Vec<SStmt> = body,
    },
    "if" => Control::If(cond, then, other) => {
        "cond": Expr = cond, "then": Vec<SStmt> = then, "else": Vec<SStmt> = other,
    },
});

impl Wire for SStmt {
    fn json(&self, n: &Names) -> Json {
        match self {
            SStmt::For { var, lo, hi, body } => Control::For(var, lo, hi, body).json(n),
            SStmt::If { cond, then, other } => Control::If(cond, then, other).json(n),
            SStmt::Op(op, _) => op.json(n),
        }
    }
    fn schema(d: &mut Definitions) -> Json {
        d.define("statement", |d| one_of(vec![<Control<'_>>::schema(d), SOp::schema(d)]))
    }
}

/// A peer is the list of its coordinates, or an object if the message passes relays.
impl Wire for Peer {
    fn json(&self, n: &Names) -> Json {
        let relays = self.via.relays();
        match relays.is_empty() {
            true => self.at.json(n),
            false => Json::Object(vec![("at", self.at.json(n)), ("via", relays.to_vec().json(n))]),
        }
    }
    fn schema(d: &mut Definitions) -> Json {
        d.define("peer", |d| {
            let fields = vec![("at", <Vec<Expr>>::schema(d)), ("via", <Vec<u32>>::schema(d))];
            one_of(vec![<Vec<Expr>>::schema(d), object_schema(None, fields)])
        })
    }
}

choice!(SOp, "operation", n, "op" {
    "copy" => Op::Copy { dst, src } => { "dst": Ref = dst, "src": Ref = src },
    "combine" => Op::Reduce { op, dst, src } => { "combiner": ReduceOp = op, "dst": Ref = dst, "src": Ref = src },
    "put" => Op::Put { src, peer, dst } => { "src": Ref = src, "peer": Peer = peer, "dst": Ref = dst },
    "get" => Op::Get { dst, peer, src } => { "dst": Ref = dst, "peer": Peer = peer, "src": Ref = src },
    "get.combine" => Op::GetCombine { op, dst, peer, src } => {
        "combiner": ReduceOp = op, "dst": Ref = dst, "peer": Peer = peer, "src": Ref = src,
    },
    "send" => Op::Send { src, peer, queue } => { "src": Ref = src, "peer": Peer = peer, "queue": Channel = queue },
    "recv" => Op::Recv { dst, peer, queue } => { "dst": Ref = dst, "peer": Peer = peer, "queue": Channel = queue },
    "room" => Op::Room { peer, queue } => { "peer": Peer = peer, "queue": Channel = queue },
    "notify" => Op::Notify { peer, counter } => { "peer": Peer = peer, "counter": Counter = counter },
    "wait" => Op::Wait { counter, value } => { "counter": Counter = counter, "value": Expr = value },
    "fence.release" => Op::FenceRelease => {},
    "fence.acquire" => Op::FenceAcquire => {},
    "fence.complete" => Op::FenceComplete => {},
    "record" => Op::Record(event) => { "event": Name = event },
    "await" => Op::Await(event) => { "event": Name = event },
    "reserve" => Op::Mark(Mark { point: Point::Reserve, peer, window, slot }) => {
        "peer": Peer = peer, "window": WindowId = window, "slot": Expr = slot,
    },
    "publish" => Op::Mark(Mark { point: Point::Publish, peer, window, slot }) => {
        "peer": Peer = peer, "window": WindowId = window, "slot": Expr = slot,
    },
    "accept" => Op::Mark(Mark { point: Point::Expect, peer, window, slot }) => {
        "peer": Peer = peer, "window": WindowId = window, "slot": Expr = slot,
    },
    "free" => Op::Mark(Mark { point: Point::Free, peer, window, slot }) => {
        "peer": Peer = peer, "window": WindowId = window, "slot": Expr = slot,
    },
    "settle" => Op::Mark(Mark { point: Point::Settle, peer, window, slot }) => {
        "peer": Peer = peer, "window": WindowId = window, "slot": Expr = slot,
    },
    "host.launch" => Op::Host(HostCommand::Launch(region)) => { "region": RegionId = region },
    "host.wait" => Op::Host(HostCommand::Wait(region)) => { "region": RegionId = region },
    "host.read" => Op::HostRead(buffer) => { "buffer": BufferId = buffer },
    "host.write" => Op::Host(HostCommand::Write { dst, src }) => { "dst": BufferId = dst, "src": BufferId = src },
    "host.drain" => Op::Host(HostCommand::Drain) => {},
    "map" => Op::Local(LocalOp::Compute { func, dst, args }) => {
        "dst": BufferId = dst, "function": ScalarFn = func, "args": Vec<BufferId> = args,
    },
    "matmul" => Op::Local(LocalOp::Matmul { dst, a, b }) => { "dst": BufferId = dst, "a": BufferId = a, "b": BufferId = b },
    "reduce_dim" => Op::Local(LocalOp::ReduceDim { op, mean, dst, src, dim }) => {
        "dst": BufferId = dst, "src": BufferId = src, "combiner": ReduceOp = op, "dim": u32 = dim,
        "mean": Option<u64> = mean,
    },
    "cast" => Op::Local(LocalOp::Cast { dst, src }) => { "dst": BufferId = dst, "src": BufferId = src },
    "copy_buffer" => Op::Local(LocalOp::Copy { dst, src }) => { "dst": BufferId = dst, "src": BufferId = src },
    "pack" => Op::Local(LocalOp::Pack { dst, src, dim, parts, rule, at }) => {
        "dst": BufferId = dst, "src": BufferId = src, "dim": u32 = dim, "parts": u64 = parts,
        "rule": CutRule = rule, "at": Option<Expr> = at,
    },
    "unpack" => Op::Local(LocalOp::Unpack { dst, src, dim, parts, rule, at }) => {
        "dst": BufferId = dst, "src": BufferId = src, "dim": u32 = dim, "parts": u64 = parts,
        "rule": CutRule = rule, "at": Option<Expr> = at,
    },
    "transpose" => Op::Local(LocalOp::Transpose { dst, src, perm }) => {
        "dst": BufferId = dst, "src": BufferId = src, "perm": Vec<u32> = perm,
    },
    "embedding" => Op::Local(LocalOp::Embedding { dst, table, ids, first }) => {
        "dst": BufferId = dst, "table": BufferId = table, "ids": BufferId = ids, "from": Expr = first,
    },
    "grouped" => Op::Local(LocalOp::Grouped { dst, x, w, runs, places, at }) => {
        "dst": BufferId = dst, "x": BufferId = x, "w": BufferId = w, "runs": Runs = runs,
        "places": Vec<(u64, u64)> = places, "at": Expr = at,
    },
    "tiles" => Op::Local(LocalOp::Tiles { kernel, dst, args }) => {
        "dst": BufferId = dst, "kernel": Arc<TileKernel> = kernel, "args": Vec<BufferId> = args,
    },
    "fill" => Op::Local(LocalOp::Fill { dst, with }) => { "dst": BufferId = dst, "with": Filling = with },
    "keep_part" => Op::Local(LocalOp::Slice { dst, src, dim, index, of, rule }) => {
        "dst": BufferId = dst, "src": BufferId = src, "dim": u32 = dim, "part": Expr = index, "of": u64 = of,
        "rule": CutRule = rule,
    },
});
choice!(Filling, "filling", n, "is" {
    "number" => Filling::Number(value) => { "value": f64 = value },
    "index" => Filling::Place { dim, first } => { "dim": u32 = dim, "from": Expr = first },
});
choice!(Ref, "reference", n, "is" {
    "chunk" => Ref::Chunk { operand, path } => { "operand": OperandId = operand, "path": Vec<Part> = path },
    "slot" => Ref::Slot { window, slot } => { "window": WindowId = window, "slot": Expr = slot },
});
object!(Part, "chunk", n, Part { index, len, of } => { "index": Expr = index, "count": Expr = len, "of": Expr = of });
object!(Counter, "counter", n, Counter { signal, index } => { "signal": SignalId = signal, "index": Expr = index });
object!(Channel, "channel", n, Channel { queue, index } => { "queue": QueueId = queue, "index": Expr = index });

//! Graph level: tensor operations with types and placements; a collective is one operation.
//!
//! petgraph holds the dependences and stays private: iteration, printing and hashing use issue order, so that two
//! runs give the same bytes. Types are absent until `infer` fills them; an annotation that the program states is kept
//! beside them as `want`.

use crate::fill::Fill;
use crate::grouped::Runs;
use crate::name::Name;
use crate::parts::Parts;
use crate::promise::Promise;
use crate::scalar::ScalarFn;
use crate::shape::ShapeOp;
use crate::tiles::TileKernel;
use crate::types::{DType, ReduceOp, TensorType};
use kbc_diag::{Diagnostic, Span};
use petgraph::Direction;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::EdgeRef;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operation of a graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpId(pub u32);

/// Where an input's data comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum DataSource {
    /// A file as written in the program (relative to it), and a key in it.
    File {
        /// Path as written.
        path: String,
        /// Key of an archive.
        key: Option<String>,
        /// Where it is written.
        span: Span,
    },
    /// A generator: `exact()`, `ones()`, `normal(7)`.
    Generator {
        /// Name.
        name: Name,
        /// Arguments.
        args: Vec<f64>,
        /// Where it is written.
        span: Span,
    },
}

/// An input of a program.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// Name.
    pub name: Name,
    /// Global type with placement.
    pub ty: TensorType,
    /// Its own data, if it names some.
    pub data: Option<DataSource>,
    /// Where it is declared.
    pub span: Span,
}

/// A collective, or a change of placement without communication.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the collectives")]
pub enum CollKind {
    AllReduce,
    ReduceScatter,
    AllGather,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    /// Replicated to split: no communication.
    Slice,
    /// Nobody goes on before everybody has arrived; values stay as they are.
    Barrier,
    /// A collective that is its promise alone: of a user, or one of the library's that moves parts about.
    Own,
}

impl CollKind {
    /// Those that have a name of their own.
    pub const ALL: [CollKind; 10] = [
        CollKind::AllReduce,
        CollKind::ReduceScatter,
        CollKind::AllGather,
        CollKind::AllToAll,
        CollKind::Broadcast,
        CollKind::Reduce,
        CollKind::Gather,
        CollKind::Scatter,
        CollKind::Slice,
        CollKind::Barrier,
    ];

    /// Name in `.kb` and `.kir`.
    pub fn name(self) -> &'static str {
        match self {
            CollKind::AllReduce => "all_reduce",
            CollKind::ReduceScatter => "reduce_scatter",
            CollKind::AllGather => "all_gather",
            CollKind::AllToAll => "all_to_all",
            CollKind::Broadcast => "broadcast",
            CollKind::Reduce => "reduce",
            CollKind::Gather => "gather",
            CollKind::Scatter => "scatter",
            CollKind::Slice => "slice",
            CollKind::Barrier => "barrier",
            CollKind::Own => "own",
        }
    }

    /// The collective of that name.
    pub fn parse(s: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == s)
    }

    /// Whether it has a root.
    pub fn rooted(self) -> bool {
        matches!(self, CollKind::Broadcast | CollKind::Reduce | CollKind::Gather | CollKind::Scatter)
    }

    /// Whether it combines contributions.
    pub fn reduces(self) -> bool {
        matches!(self, CollKind::AllReduce | CollKind::ReduceScatter | CollKind::Reduce)
    }
}

/// The value of an argument in `using: ring(d: -1, a: pairwise)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum UsingArg {
    /// An integer.
    Int(i64),
    /// The name of an algorithm, or of an option's value.
    Name(Name),
}

/// `using: ALG(args)`: the algorithm of a collective and the options of this use.
#[derive(Clone, PartialEq, Debug)]
pub struct Using {
    /// The algorithm.
    pub alg: Name,
    /// Parameters and options, as written.
    pub args: Vec<(Name, UsingArg)>,
    /// Where it is written; none if `select` chose it.
    pub span: Span,
}

/// A collective that is known by its promise.
///
/// Every rank's part of the operand, along the one dimension that the axis splits, is what the rank starts with; its
/// part of the result is what it ends with.
#[derive(Clone, PartialEq, Debug)]
pub struct Own {
    /// The collective's name, as the program's file sees it.
    pub name: Name,
    /// Ranks of the axis; 0 until `infer` has filled in both.
    pub ranks: u64,
    /// Its clauses with the root put in.
    pub promise: Option<Promise>,
    /// Whose part each rank ends with, where the use of the collective says it; empty where the collective does.
    pub part_of: Vec<u64>,
}

impl Own {
    /// A collective of that name, not looked up yet.
    pub fn named(name: impl Into<Name>) -> Own {
        Own { name: name.into(), ranks: 0, promise: None, part_of: vec![] }
    }
}

/// A collective operation on a global value.
#[derive(Clone, PartialEq, Debug)]
pub struct Collective {
    /// Which.
    pub kind: CollKind,
    /// Which one, if the kind does not say.
    pub own: Option<Box<Own>>,
    /// The combiner, for those that combine.
    pub red: Option<ReduceOp>,
    /// The mesh axis it runs over.
    pub axis: Name,
    /// Axes that are joined with it into one group, in this order; in local programs alone.
    pub joined: Vec<Name>,
    /// Split dimension of the result (reduce_scatter, all_to_all `to`, scatter, slice) or of the operand
    /// (all_gather, gather), or of both (own ones).
    pub dim: Option<usize>,
    /// Split dimension of the operand of an all_to_all (`from`).
    pub from_dim: Option<usize>,
    /// Coordinate of the root.
    pub root: Option<u64>,
    /// Of an all_to_all: how many rows each rank (a row of the matrix) has for each, instead of the cuts of two dimensions.
    pub counts: Option<Parts>,
    /// The algorithm, asked for or selected.
    pub using: Option<Using>,
    /// The stream it runs on, beside what follows it in issue order; none for the one that everything else runs on.
    pub stream: Option<Name>,
    /// Written in the program (or inserted by `place`).
    pub explicit: bool,
}

impl Collective {
    /// Name of the collective.
    pub fn name(&self) -> &str {
        self.own.as_ref().map_or(self.kind.name(), |o| o.name.as_str())
    }
}

/// What an operation does.
#[derive(Clone, PartialEq, Debug)]
pub enum OpKind {
    /// Input by position.
    Input(usize),
    /// `[.., M, K] x [.., K, N] -> [.., M, N]`; rounded once from its f32 (i32) accumulation.
    Matmul {
        /// The result is f32 whatever the operands are.
        accumulate_f32: bool,
    },
    /// An elementwise function, operands broadcast from the right.
    Map(ScalarFn),
    /// Reduction of one dimension; `mean` is a sum and one division at the end.
    ReduceDim {
        /// The combiner.
        op: ReduceOp,
        /// Divide by the number of elements afterwards.
        mean: bool,
        /// The dimension.
        dim: usize,
        /// Keep it with size 1.
        keep: bool,
    },
    /// Cast, nearest even.
    Cast(DType),
    /// Rows of a table `[V, ..]` by their numbers `[..]`, i32 or i64: `[.., ..]`. A number that is no row is an error.
    Embedding,
    /// Rows `[T, D]`, each with its matrix of `[G, D, F]`: `[T, F]`, rounded as a matmul.
    Grouped(Runs),
    /// A kernel over tiles, its operands in order.
    Tiles(Arc<TileKernel>),
    /// A value that follows from its place alone.
    Fill(Fill),
    /// Elements moved: transpose, reshape, slice, pad, concat.
    Shape(ShapeOp),
    /// A change of placement.
    Collective(Collective),
    /// The same value with a demanded placement (`let y: TYPE = ..`, a result type); `place` resolves and removes it.
    Demand,
    /// A demand of a called program on all but these dimensions of the type it wants, in order: they are as the value has
    /// them. `infer` makes a [`OpKind::Demand`] of it.
    Ask(Vec<usize>),
    /// The result of a collective, once it is there: in local programs alone.
    Wait,
    /// What the host does once the operations before are launched: the value of the first operand, as it is then.
    Host(HostOp),
    /// Result by position.
    Output(usize),
}

/// What the host of every rank does at a place of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HostOp {
    /// It takes the value, once what makes it is over on its rank.
    Read,
    /// It stores the second value in the place of the first, once what uses that is over on its rank; the result is that place.
    Write,
    /// It waits until what makes the value is over on its rank.
    Wait,
    /// It waits until all that was launched is over on its rank; the value is any one.
    Drain,
}

impl HostOp {
    /// All of them.
    pub const ALL: [HostOp; 4] = [HostOp::Read, HostOp::Write, HostOp::Wait, HostOp::Drain];

    /// Its name behind `host`.
    pub fn word(self) -> &'static str {
        match self {
            HostOp::Read => "read",
            HostOp::Write => "write",
            HostOp::Wait => "wait",
            HostOp::Drain => "drain",
        }
    }

    /// The operand whose value its own is.
    pub fn value(self) -> usize {
        self.arity() - 1
    }

    /// Values that it takes.
    pub fn arity(self) -> usize {
        match self {
            HostOp::Write => 2,
            HostOp::Read | HostOp::Wait | HostOp::Drain => 1,
        }
    }
}

/// An operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// Name of its value, as a hint.
    pub name: Name,
    /// Type of its value, once inferred.
    pub ty: Option<TensorType>,
    /// The type an annotation, an argument or a result asks for.
    pub want: Option<TensorType>,
    /// Where it comes from.
    pub span: Span,
}

/// Stored results of another execution to compare with, one an output.
#[derive(Clone, PartialEq, Debug)]
pub struct Expect {
    /// The data, one an output.
    pub data: Vec<DataSource>,
}

/// A call of a program whose operations stand in the place of the call.
#[derive(Clone, PartialEq, Debug)]
pub struct Called {
    /// The program.
    pub program: Name,
    /// Where it is called.
    pub at: Span,
    /// The call inside whose operations this call is.
    pub within: Option<CallId>,
}

/// A call of a graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u32);

/// The place of an operation that is not there.
const NOWHERE: u32 = u32::MAX;

/// A program at graph level.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name.
    pub name: Option<Name>,
    /// Inputs.
    pub inputs: Vec<Input>,
    /// Declared result types.
    pub results: Vec<TensorType>,
    /// Stored results, if the program names them.
    pub expect: Option<Expect>,
    g: StableDiGraph<Op, u8>,
    order: Vec<OpId>,
    /// Places in that order, by number of the operation; what is removed has none.
    places: Vec<u32>,
    /// Calls of programs, and the innermost one that each operation came through. For messages: not in the text.
    calls: Vec<Called>,
    within: BTreeMap<OpId, CallId>,
    /// What operations made from now on are within.
    inside: Option<CallId>,
}

impl Graph {
    /// Appends an operation with its operands and returns its id.
    pub fn push(&mut self, op: Op, operands: &[OpId]) -> OpId {
        let at = self.order.len();
        self.insert(at, op, operands)
    }

    /// Inserts an operation at a place of the issue order.
    pub fn insert(&mut self, at: usize, op: Op, operands: &[OpId]) -> OpId {
        let node = self.g.add_node(op);
        for (i, o) in operands.iter().enumerate() {
            self.g.add_edge(NodeIndex::new(o.0 as usize), node, i as u8);
        }
        let id = OpId(node.index() as u32);
        self.order.insert(at, id);
        self.places.resize(self.places.len().max(node.index() + 1), NOWHERE);
        self.number(at);
        if let Some(call) = self.inside {
            self.within.insert(id, call);
        }
        id
    }

    /// Notes a call inside the one that operations are made within.
    pub fn call(&mut self, program: Name, at: Span) -> CallId {
        self.calls.push(Called { program, at, within: self.inside });
        CallId(self.calls.len() as u32 - 1)
    }

    /// Operations made from now on are within that call. Returns what they were within before.
    pub fn enter(&mut self, call: Option<CallId>) -> Option<CallId> {
        std::mem::replace(&mut self.inside, call)
    }

    /// All calls of programs, in order.
    pub fn called(&self) -> &[Called] {
        &self.calls
    }

    /// The innermost call that an operation came through.
    pub fn within(&self, id: OpId) -> Option<CallId> {
        self.within.get(&id).copied()
    }

    /// The calls that an operation came through, the innermost first.
    pub fn calls(&self, id: OpId) -> Vec<&Called> {
        let called = |c: CallId| self.calls.get(c.0 as usize);
        std::iter::successors(self.within(id).and_then(called), |c| c.within.and_then(called)).collect()
    }

    /// Adds to a message about an operation where the programs were called that it came through.
    pub fn told(&self, id: OpId, mut d: Diagnostic) -> Diagnostic {
        for c in self.calls(id) {
            d = d.secondary(c.at, format!("`{}` is called here", c.program));
        }
        d
    }

    /// Of an input whose elements number rows of tables, by which its way there does not change: the tables.
    pub fn numbered(&self, input: usize) -> Vec<OpId> {
        let same = |kind: &OpKind| match kind {
            OpKind::Collective(_) | OpKind::Demand | OpKind::Cast(_) => true,
            OpKind::Shape(s) => !matches!(s, ShapeOp::Pad { .. }),
            _ => false,
        };
        let mut tables = vec![];
        for id in self.order().iter().filter(|id| self.op(**id).kind == OpKind::Embedding) {
            let [table, mut ids] = self.operands(*id)[..] else { continue };
            while let (true, Some(before)) = (same(&self.op(ids).kind), self.operands(ids).first()) {
                ids = *before;
            }
            if self.op(ids).kind == OpKind::Input(input) {
                tables.push(table);
            }
        }
        tables
    }

    /// The fewest rows of those tables: its elements are below that. None for another input.
    pub fn rows_numbered(&self, input: usize) -> Option<u64> {
        let rows = |t: &OpId| self.op(*t).ty.as_ref()?.sizes().first().copied();
        self.numbered(input).iter().filter_map(rows).min()
    }

    /// Ids in issue order, which is a topological order.
    pub fn order(&self) -> &[OpId] {
        &self.order
    }

    /// The operation.
    pub fn op(&self, id: OpId) -> &Op {
        &self.g[NodeIndex::new(id.0 as usize)]
    }

    /// The operation, to change it.
    pub fn op_mut(&mut self, id: OpId) -> &mut Op {
        &mut self.g[NodeIndex::new(id.0 as usize)]
    }

    /// Operands by position.
    pub fn operands(&self, id: OpId) -> Vec<OpId> {
        let mut edges: Vec<(u8, OpId)> = self
            .g
            .edges_directed(NodeIndex::new(id.0 as usize), Direction::Incoming)
            .map(|e| (*e.weight(), OpId(e.source().index() as u32)))
            .collect();
        edges.sort_unstable();
        edges.into_iter().map(|(_, id)| id).collect()
    }

    /// Users of a value with the operand position, in issue order.
    pub fn users(&self, id: OpId) -> Vec<(OpId, u8)> {
        let mut users: Vec<(usize, OpId, u8)> = self
            .g
            .edges_directed(NodeIndex::new(id.0 as usize), Direction::Outgoing)
            .map(|e| {
                let user = OpId(e.target().index() as u32);
                (self.position(user), user, *e.weight())
            })
            .collect();
        users.sort_unstable();
        users.into_iter().map(|(_, id, i)| (id, i)).collect()
    }

    /// Place of an operation in issue order; behind the last one for what is not there.
    pub fn position(&self, id: OpId) -> usize {
        self.places.get(id.0 as usize).map_or(self.order.len(), |p| (*p as usize).min(self.order.len()))
    }

    /// Writes down the places of operations from one place on.
    fn number(&mut self, from: usize) {
        for (place, id) in self.order.iter().enumerate().skip(from) {
            self.places[id.0 as usize] = place as u32;
        }
    }

    /// Another issue order of the same operations.
    ///
    /// # Panics
    /// If it is not one: something is missing, or comes before what it needs.
    pub fn reorder(&mut self, order: Vec<OpId>) {
        let mut sorted = [self.order.clone(), order.clone()];
        sorted.iter_mut().for_each(|o| o.sort_unstable());
        assert_eq!(sorted[0], sorted[1], "the operations of the graph");
        self.order = order;
        self.number(0);
        debug_assert!(self.order_is_topological(), "an order of dependences");
    }

    /// Makes operand `index` of `user` be `value`.
    pub fn set_operand(&mut self, user: OpId, index: u8, value: OpId) {
        let node = NodeIndex::new(user.0 as usize);
        let old =
            self.g.edges_directed(node, Direction::Incoming).find(|e| *e.weight() == index).map(|e| e.id());
        if let Some(old) = old {
            self.g.remove_edge(old);
        }
        self.g.add_edge(NodeIndex::new(value.0 as usize), node, index);
    }

    /// Removes an operation that nobody uses any more.
    pub fn remove(&mut self, id: OpId) {
        let at = self.position(id);
        if at == self.order.len() {
            return;
        }
        self.g.remove_node(NodeIndex::new(id.0 as usize));
        self.order.remove(at);
        self.places[id.0 as usize] = NOWHERE;
        self.number(at);
        self.within.remove(&id);
    }

    /// Whether the issue order is a topological order of the dependences.
    pub fn order_is_topological(&self) -> bool {
        petgraph::algo::toposort(&self.g, None).is_ok()
            && self
                .order
                .iter()
                .enumerate()
                .all(|(i, id)| self.operands(*id).iter().all(|o| self.position(*o) < i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(name: &str) -> Op {
        Op { kind: OpKind::Demand, name: name.into(), ty: None, want: None, span: Span::NONE }
    }

    #[test]
    fn places_are_those_of_the_order() {
        let mut g = Graph::default();
        let a = g.push(op("a"), &[]);
        let b = g.push(op("b"), &[a]);
        let c = g.insert(1, op("c"), &[a]);
        g.set_operand(b, 0, c);
        let places = |g: &Graph| g.order().iter().map(|id| g.position(*id)).collect::<Vec<_>>();
        assert_eq!((g.order(), places(&g)), (&[a, c, b][..], vec![0, 1, 2]));
        assert_eq!(g.users(a), [(c, 0)]);
        g.set_operand(b, 0, a);
        g.remove(c);
        assert_eq!((g.order(), places(&g), g.position(c)), (&[a, b][..], vec![0, 1], 2));
        // The number of what was removed may be given again.
        let d = g.insert(0, op("d"), &[]);
        assert_eq!((g.order(), places(&g)), (&[d, a, b][..], vec![0, 1, 2]));
        assert!(g.order_is_topological());
    }
}

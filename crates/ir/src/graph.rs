//! Graph level: tensor operations with types and placements. A collective is one operation.
//!
//! petgraph holds the dependencies and stays private. Iteration, printing and hashing follow the
//! issue order, so that two runs produce the same bytes. Types are absent until `infer` fills them
//! in; an annotation that the program states is kept beside the type as `want`.

pub use crate::collective::{CollKind, Holding, Movement};
use crate::contract::Contract;
use crate::fill::Fill;
use crate::grouped::Runs;
use crate::name::Name;
use crate::parts::Parts;
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

/// Number of an operation in its graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpId(pub u32);

/// Source of an input's data.
#[derive(Clone, PartialEq, Debug)]
pub enum DataSource {
    /// A file, and a key in it.
    File {
        /// Path as written in the program, relative to the program's file.
        path: String,
        /// Key, if the file is an archive of several tensors.
        key: Option<String>,
        /// Source location.
        span: Span,
    },
    /// A generator with its arguments: `exact()`, `ones()`, `normal(7)`.
    Generator {
        /// Name of the generator.
        name: Name,
        /// Arguments.
        args: Vec<f64>,
        /// Source location.
        span: Span,
    },
}

/// An input of a program.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// Name.
    pub name: Name,
    /// Global type with its placement.
    pub ty: TensorType,
    /// Data that the declaration names, if any.
    pub data: Option<DataSource>,
    /// Source location of the declaration.
    pub span: Span,
}

/// Value of an argument in `using: ring(d: -1, a: pairwise)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum UsingArg {
    /// An integer.
    Int(i64),
    /// Name of an algorithm, or of a value of an option.
    Name(Name),
}

/// `using: ALG(args) with (options)`: the algorithm of a collective and the options of this use.
#[derive(Clone, PartialEq, Debug)]
pub struct Using {
    /// The algorithm.
    pub alg: Name,
    /// Arguments of the algorithm, as written.
    pub args: Vec<(Name, UsingArg)>,
    /// Options of the use, as written.
    pub options: Vec<(Name, UsingArg)>,
    /// Source location; [`Span::NONE`] if `select` chose the algorithm.
    pub span: Span,
}

/// A collective that is defined by its contract.
///
/// Each rank starts with its part of the operand, along the one dimension that the axis splits, and
/// ends with its part of the result.
#[derive(Clone, PartialEq, Debug)]
pub struct ContractCollective {
    /// Name of the collective, as the program's file refers to it.
    pub name: Name,
    /// Number of ranks of the axis. It is 0 until `infer` fills in this field and `contract`.
    pub ranks: u64,
    /// Clauses of the contract, with the root substituted.
    pub contract: Option<Contract>,
    /// For each rank, the rank whose part it ends with, if the use of the collective states it;
    /// otherwise empty, and the declaration states it.
    pub part_of: Vec<u64>,
}

impl ContractCollective {
    /// Creates a reference to the collective of that name, not resolved yet.
    pub fn named(name: impl Into<Name>) -> ContractCollective {
        ContractCollective { name: name.into(), ranks: 0, contract: None, part_of: vec![] }
    }
}

/// A collective operation on a global value.
#[derive(Clone, PartialEq, Debug)]
pub struct Collective {
    /// Kind of the collective.
    pub kind: CollKind,
    /// The collective itself, if the kind is [`CollKind::ByContract`].
    pub own: Option<Box<ContractCollective>>,
    /// Combiner, for collectives that combine.
    pub red: Option<ReduceOp>,
    /// Mesh axis over which the collective runs.
    pub axis: Name,
    /// Further axes, which form one group together with `axis`, in this order. Only local programs
    /// have them.
    pub joined: Vec<Name>,
    /// Dimension that is split: of the result (reduce_scatter, all_to_all `to`, scatter, slice), of
    /// the operand (all_gather, gather), or of both (`own`).
    pub dim: Option<usize>,
    /// Dimension along which the operand of an all_to_all is split (`from`).
    pub from_dim: Option<usize>,
    /// Coordinate of the root on the axis.
    pub root: Option<u64>,
    /// For an all_to_all with counts: how many rows each rank (row of the matrix) has for each rank
    /// (column). The counts replace the cuts of the two dimensions.
    pub counts: Option<Parts>,
    /// Algorithm, whether the program asks for it or `select` chose it.
    pub using: Option<Using>,
    /// Stream of the collective, which runs concurrently with what follows in issue order; `None`
    /// for the main stream.
    pub stream: Option<Name>,
    /// Whether the program contains the collective; false if a pass inserted it.
    pub explicit: bool,
    /// Whether every element must be added in one order, whatever its position and the size of the
    /// tensor.
    pub fixed_order: bool,
}

impl Collective {
    /// Returns the name of the collective, which for `own` is the name in the program.
    pub fn name(&self) -> &str {
        self.own.as_ref().map_or(self.kind.name(), |o| o.name.as_str())
    }
}

/// What an operation does.
#[derive(Clone, PartialEq, Debug)]
pub enum OpKind {
    /// The input of the program with this number.
    Input(usize),
    /// `[.., M, K] x [.., K, N] -> [.., M, N]`, accumulated in f32 (i32) and rounded once.
    Matmul {
        /// Whether the result is f32, whatever the element type of the operands.
        accumulate_f32: bool,
    },
    /// An elementwise function; operands are broadcast from the right.
    Map(ScalarFn),
    /// Reduction of one dimension. A mean is a sum with one division at the end.
    ReduceDim {
        /// Combiner.
        op: ReduceOp,
        /// Whether to divide by the number of elements at the end.
        mean: bool,
        /// Dimension that is reduced.
        dim: usize,
        /// Whether to keep the dimension, with size 1.
        keep: bool,
    },
    /// Conversion to an element type, rounded to nearest even.
    Cast(DType),
    /// Rows of a table `[V, ..]`, selected by row numbers `[..]` of type i32 or i64; the result is
    /// `[.., ..]`. A number outside the table is an error.
    Embedding,
    /// Rows `[T, D]`, each multiplied by its matrix of `[G, D, F]`; the result is `[T, F]`, rounded
    /// as a matmul.
    Grouped(Runs),
    /// A kernel over tiles; the operands are in the kernel's order.
    Tiles(Arc<TileKernel>),
    /// A value whose elements follow from their position alone.
    Fill(Fill),
    /// Movement of elements: transpose, reshape, slice, pad, concat.
    Shape(ShapeOp),
    /// A collective, or a change of placement without communication.
    Collective(Collective),
    /// The same value with a demanded placement (`let y: TYPE = ..`, a result type). `place`
    /// resolves and removes it.
    Demand,
    /// A demand of a called program on every dimension of the wanted type except the listed ones,
    /// which keep the placement of the value. The list is in ascending order. `infer` turns it into
    /// an [`OpKind::Demand`].
    PartialDemand(Vec<usize>),
    /// The result of a collective once it has completed. Only local programs have it.
    Wait,
    /// An action of the host, after it has launched the operations before it. The result is the
    /// value of the operand given by [`HostOp::value`], at that time.
    Host(HostOp),
    /// The result of the program with this number.
    Output(usize),
}

/// Action of each rank's host at one point of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HostOp {
    /// The host takes the value once the operations of its rank that produce it have completed.
    Read,
    /// The host stores the second operand in place of the first, once the operations of its rank
    /// that use the first or produce the second have completed. The result is the overwritten
    /// place.
    Write,
    /// The host waits until the operations of its rank that produce the value have completed.
    Wait,
    /// The host waits until everything that it has launched on its rank has completed. The operand
    /// may be any value.
    Drain,
}

impl HostOp {
    /// All actions.
    pub const ALL: [HostOp; 4] = [HostOp::Read, HostOp::Write, HostOp::Wait, HostOp::Drain];

    /// Returns the word after `host` in the text.
    pub fn word(self) -> &'static str {
        match self {
            HostOp::Read => "read",
            HostOp::Write => "write",
            HostOp::Wait => "wait",
            HostOp::Drain => "drain",
        }
    }

    /// Returns the position of the operand whose value is the result.
    pub fn value(self) -> usize {
        self.arity() - 1
    }

    /// Returns the number of operands.
    pub fn arity(self) -> usize {
        match self {
            HostOp::Write => 2,
            HostOp::Read | HostOp::Wait | HostOp::Drain => 1,
        }
    }
}

/// An operation of a graph.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphOp {
    /// What the operation does.
    pub kind: OpKind,
    /// Name of its value, as a hint.
    pub name: Name,
    /// Type of its value, once it is inferred.
    pub ty: Option<TensorType>,
    /// Type that an annotation, an argument or a result asks for.
    pub want: Option<TensorType>,
    /// Source location.
    pub span: Span,
}

/// Stored results of another execution, to compare with.
#[derive(Clone, PartialEq, Debug)]
pub struct Expect {
    /// The data, one entry per output.
    pub data: Vec<DataSource>,
}

/// A call of a program whose operations have been inlined at the call.
#[derive(Clone, PartialEq, Debug)]
pub struct Called {
    /// Name of the called program.
    pub program: Name,
    /// Source location of the call.
    pub at: Span,
    /// The enclosing call, if this call belongs to an inlined program itself.
    pub within: Option<CallId>,
}

/// Number of a call in its graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u32);

/// Position of an operation that is not in the graph.
const NOWHERE: u32 = u32::MAX;

/// A program at graph level.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name of the graph, if it has one of its own.
    pub name: Option<Name>,
    /// Inputs of the program.
    pub inputs: Vec<Input>,
    /// Declared types of the results.
    pub results: Vec<TensorType>,
    /// Stored results to compare with, if the program names them.
    pub expect: Option<Expect>,
    g: StableDiGraph<GraphOp, u8>,
    order: Vec<OpId>,
    /// Position in `order` by number of the operation; `NOWHERE` for removed operations.
    places: Vec<u32>,
    /// Inlined calls, and for each operation the innermost call that it came from. They serve
    /// diagnostics and are not part of the text.
    calls: Vec<Called>,
    within: BTreeMap<OpId, CallId>,
    /// Call to which new operations are attributed.
    inside: Option<CallId>,
}

impl Graph {
    /// Returns everything of the graph that is not an operation: name, inputs, results, and stored
    /// results. A new field must be dealt with here.
    #[allow(clippy::type_complexity, reason = "the four fields as they are declared")]
    pub(crate) fn declarations(&self) -> (&Option<Name>, &Vec<Input>, &Vec<TensorType>, &Option<Expect>) {
        let Graph {
            name,
            inputs,
            results,
            expect,
            g: _,
            order: _,
            places: _,
            calls: _,
            within: _,
            inside: _,
        } = self;
        (name, inputs, results, expect)
    }

    /// Appends an operation with its operands and returns its number.
    pub fn push(&mut self, op: GraphOp, operands: &[OpId]) -> OpId {
        let at = self.order.len();
        self.insert(at, op, operands)
    }

    /// Inserts an operation at a position of the issue order and returns its number.
    pub fn insert(&mut self, at: usize, op: GraphOp, operands: &[OpId]) -> OpId {
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

    /// Records a call, nested in the call to which new operations are attributed.
    pub fn call(&mut self, program: Name, at: Span) -> CallId {
        self.calls.push(Called { program, at, within: self.inside });
        CallId(self.calls.len() as u32 - 1)
    }

    /// Attributes new operations to this call. Returns the call to which they were attributed
    /// before.
    pub fn enter(&mut self, call: Option<CallId>) -> Option<CallId> {
        std::mem::replace(&mut self.inside, call)
    }

    /// Returns all inlined calls, in the order in which they were recorded.
    pub fn called(&self) -> &[Called] {
        &self.calls
    }

    /// Returns the innermost call that an operation came from.
    pub fn within(&self, id: OpId) -> Option<CallId> {
        self.within.get(&id).copied()
    }

    /// Returns the calls that an operation came from, innermost first.
    pub fn calls(&self, id: OpId) -> Vec<&Called> {
        let called = |c: CallId| self.calls.get(c.0 as usize);
        std::iter::successors(self.within(id).and_then(called), |c| c.within.and_then(called)).collect()
    }

    /// Adds to a diagnostic about an operation the locations of the calls that the operation came
    /// from.
    pub fn with_call_sites(&self, id: OpId, mut d: Diagnostic) -> Diagnostic {
        for c in self.calls(id) {
            d = d.secondary(c.at, format!("`{}` is called here", c.program));
        }
        d
    }

    /// Returns the embedding tables that the elements of an input index. Between the input and the
    /// embedding there are only operations that leave the values of elements unchanged:
    /// collectives, demands, casts, and movements other than padding.
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

    /// Returns the row count of the smallest table that the elements of an input index; the
    /// elements must be less than it. Returns `None` for an input that indexes no table.
    pub fn rows_numbered(&self, input: usize) -> Option<u64> {
        let rows = |t: &OpId| self.op(*t).ty.as_ref()?.sizes().first().copied();
        self.numbered(input).iter().filter_map(rows).min()
    }

    /// Returns the numbers of all operations in issue order, which is a topological order.
    pub fn order(&self) -> &[OpId] {
        &self.order
    }

    /// Returns the operation.
    pub fn op(&self, id: OpId) -> &GraphOp {
        &self.g[NodeIndex::new(id.0 as usize)]
    }

    /// Returns the operation for modification.
    pub fn op_mut(&mut self, id: OpId) -> &mut GraphOp {
        &mut self.g[NodeIndex::new(id.0 as usize)]
    }

    /// Returns the operands by position.
    pub fn operands(&self, id: OpId) -> Vec<OpId> {
        let mut edges: Vec<(u8, OpId)> = self
            .g
            .edges_directed(NodeIndex::new(id.0 as usize), Direction::Incoming)
            .map(|e| (*e.weight(), OpId(e.source().index() as u32)))
            .collect();
        edges.sort_unstable();
        edges.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the users of a value with the operand position, in issue order.
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

    /// Returns the position of an operation in the issue order, or the length of the order if it is
    /// not in the graph.
    pub fn position(&self, id: OpId) -> usize {
        self.places.get(id.0 as usize).map_or(self.order.len(), |p| (*p as usize).min(self.order.len()))
    }

    /// Updates `places` from one position on.
    fn number(&mut self, from: usize) {
        for (place, id) in self.order.iter().enumerate().skip(from) {
            self.places[id.0 as usize] = place as u32;
        }
    }

    /// Replaces the issue order by another order of the same operations.
    ///
    /// # Panics
    ///
    /// If the order does not contain exactly the operations of the graph, or (in debug builds) if
    /// an operation precedes one of its operands.
    pub fn reorder(&mut self, order: Vec<OpId>) {
        let mut sorted = [self.order.clone(), order.clone()];
        sorted.iter_mut().for_each(|o| o.sort_unstable());
        assert_eq!(sorted[0], sorted[1], "the operations of the graph");
        self.order = order;
        self.number(0);
        debug_assert!(self.order_is_topological(), "an order of dependences");
    }

    /// Replaces operand `index` of `user` by `value`.
    pub fn set_operand(&mut self, user: OpId, index: u8, value: OpId) {
        let node = NodeIndex::new(user.0 as usize);
        let old =
            self.g.edges_directed(node, Direction::Incoming).find(|e| *e.weight() == index).map(|e| e.id());
        if let Some(old) = old {
            self.g.remove_edge(old);
        }
        self.g.add_edge(NodeIndex::new(value.0 as usize), node, index);
    }

    /// Removes an operation that has no users any more.
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

    /// Checks whether the issue order is a topological order of the dependencies.
    pub fn order_is_topological(&self) -> bool {
        petgraph::algo::toposort(&self.g, None).is_ok()
            && self
                .order
                .iter()
                .enumerate()
                .all(|(i, id)| self.operands(*id).iter().all(|o| self.position(*o) < i))
    }
}

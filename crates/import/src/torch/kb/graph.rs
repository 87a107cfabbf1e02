//! Operation graph: a program in kbc's own operations, before it becomes text.
//!
//! This module owns the nodes and guarantees that they are well typed: elementwise operations
//! broadcast, and numbers take the type of the tensor that they meet. [`super::table`] defines the
//! translation of PyTorch's operations.

use super::consts::Const;
use crate::torch::dtype::DType;
use kbc_ir::collective::CollKind;
use std::collections::BTreeMap;
use std::ops::Range;

/// Index of a node.
pub type NodeId = usize;

/// An operand. A number takes the type of the tensor that it meets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operand {
    /// A literal.
    Num(f64),
    /// A node.
    Node(NodeId),
}

/// A collective on the part that a rank has.
#[derive(Clone, PartialEq, Debug)]
pub enum RankCollective {
    /// `all_reduce(x, sum)`
    AllReduce(&'static str),
    /// `all_gather(x, dim: 0)`
    AllGather(usize),
    /// `reduce_scatter(x, sum, dim: 0)`
    ReduceScatter(&'static str, usize),
    /// `all_to_all(x, counts: [[..], ..])`: exchanges rows of dimension 0.
    Rows(Vec<Vec<i64>>),
    /// `all_to_all(x, from: 0, to: 1)`
    Dims(usize, usize),
    /// `broadcast(x, root: 0)`
    Broadcast(u64),
}

impl RankCollective {
    /// Returns the kind of the collective, which has its name and its properties.
    pub fn kind(&self) -> CollKind {
        match self {
            RankCollective::AllReduce(_) => CollKind::AllReduce,
            RankCollective::AllGather(_) => CollKind::AllGather,
            RankCollective::ReduceScatter(..) => CollKind::ReduceScatter,
            RankCollective::Rows(_) | RankCollective::Dims(..) => CollKind::AllToAll,
            RankCollective::Broadcast(_) => CollKind::Broadcast,
        }
    }
}

/// A library program with the meaning of one PyTorch operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Layer {
    /// Softmax along a dimension.
    Softmax(usize),
    /// Logarithm of softmax along a dimension.
    LogSoftmax(usize),
    /// `layer_norm` of the last dimension, with this epsilon added to the variance.
    Norm(f64),
}

/// The operation of a node.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeOp {
    /// An input of the program, by its index.
    Input(usize),
    /// A constant with data, by its index.
    Constant(usize),
    /// `full([4, 6], 0.5)`
    Full(f64),
    /// `iota([4, 6], dim: 1)`
    Iota(usize),
    /// `a + b`
    Infix(char),
    /// An elementwise function: `exp(x)`, `max(a, b)`, `pow_int(x, 3)`.
    Call(&'static str),
    /// `select(a < b, x, y)`
    Select(&'static str),
    /// `matmul(a, b)`
    Matmul,
    /// A library program: `softmax(x, dim: 1)`.
    Layer(Layer),
    /// `sum(x, dim: 0, keep: true)`
    Reduce(&'static str, usize, bool),
    /// `reshape(x, [..])`
    Reshape,
    /// `transpose(x, [..])`
    Transpose(Vec<usize>),
    /// `slice(x, dim: 0, from: 0, to: 2)`
    Slice(usize, i64, i64),
    /// `concat(a, b, dim: 0)`
    Concat(usize),
    /// `f32(x)`
    Cast,
    /// A collective over some axes; its result is pending.
    Collective(RankCollective, Range<usize>),
    /// `wait(x)`
    Wait,
    /// The same value in another placement, given by a type annotation.
    Placed,
    /// An `iota` along a dimension of the whole value, of which each rank has its part.
    Numbered(usize),
    /// An `embedding` by row numbers of the whole table, of which a rank has some rows; zeros for
    /// the rows of other ranks.
    Owned,
    /// An operation on these operands that kbc cannot express; occurs only in checks.
    Opaque,
}

/// A node.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphNode {
    /// The operation.
    pub op: NodeOp,
    /// Operands, in order.
    pub args: Vec<Operand>,
    /// Element type of the result.
    pub dtype: DType,
    /// Sizes of the result.
    pub sizes: Vec<i64>,
    /// The node of PyTorch's program from which it was translated.
    pub of: usize,
}

impl GraphNode {
    /// Returns the nodes that the operands refer to.
    pub fn uses(&self) -> impl Iterator<Item = NodeId> {
        self.args.iter().filter_map(|a| if let Operand::Node(n) = a { Some(*n) } else { None })
    }
}

/// Key of a `full` or `iota`: the dimension (for `iota`), the bits of the number,
/// element type, sizes.
pub type Fill = (Option<usize>, u64, DType, Vec<i64>);

/// Nodes in an order of execution, and constants with data.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Graph {
    /// The nodes; each uses only earlier ones.
    pub nodes: Vec<GraphNode>,
    /// Constants with data, with their names.
    pub constants: Vec<(String, Const)>,
    /// For each collective, the node that waits for it.
    pub waits: BTreeMap<NodeId, NodeId>,
    /// Existing `full`s and `iota`s, by key.
    pub fills: BTreeMap<Fill, NodeId>,
    /// The node of PyTorch's program that is being translated.
    pub at: usize,
    /// Whether constants are kept as they are, so that ranks with different constants have the
    /// same operations.
    pub plain: bool,
    /// Whether a reshape of a reshape remains two operations.
    pub written: bool,
}

/// Returns the sizes of two operands after broadcasting.
pub fn broadcast(a: &[i64], b: &[i64]) -> Vec<i64> {
    let n = a.len().max(b.len());
    let at = |s: &[i64], i: usize| (i + s.len()).checked_sub(n).map_or(1, |i| s[i]);
    (0..n).map(|i| if at(a, i) == 1 { at(b, i) } else { at(a, i) }).collect()
}

impl Graph {
    /// Appends a node.
    pub fn push(&mut self, op: NodeOp, args: Vec<Operand>, dtype: DType, sizes: Vec<i64>) -> NodeId {
        self.nodes.push(GraphNode { op, args, dtype, sizes, of: self.at });
        self.nodes.len() - 1
    }

    /// Appends a constant as an argument with data; an existing equal one is reused.
    pub fn constant(&mut self, name: &str, c: Const) -> NodeId {
        let (dtype, sizes) = (c.dtype, c.sizes.clone());
        let at = match self.constants.iter().position(|k| k.1 == c) {
            Some(at) if !self.plain => at,
            _ => {
                self.constants.push((name.to_owned(), c));
                self.constants.len() - 1
            }
        };
        match self.nodes.iter().position(|n| n.op == NodeOp::Constant(at)) {
            Some(n) => n,
            None => self.push(NodeOp::Constant(at), vec![], dtype, sizes),
        }
    }

    /// Appends an elementwise operation. If all operands are numbers, the result is NaN.
    pub fn elementwise(&mut self, op: NodeOp, args: &[Operand]) -> Operand {
        let mut sizes = vec![];
        let mut dtype = None;
        for a in args {
            if let Operand::Node(n) = a {
                sizes = broadcast(&sizes, &self.nodes[*n].sizes);
                dtype = dtype.or(Some(self.nodes[*n].dtype));
            }
        }
        match dtype {
            Some(d) => Operand::Node(self.push(op, args.to_vec(), d, sizes)),
            None => Operand::Num(f64::NAN),
        }
    }

    /// Appends `a + b` or another operator; an operation without effect is left out.
    pub fn infix(&mut self, op: char, a: Operand, b: Operand) -> Operand {
        match (op, a, b) {
            (_, Operand::Num(x), Operand::Num(y)) => Operand::Num(match op {
                '+' => x + y,
                '-' => x - y,
                '*' => x * y,
                _ => x / y,
            }),
            ('*' | '/', x, Operand::Num(1.0)) | ('*', Operand::Num(1.0), x) if !self.plain => x,
            _ => self.elementwise(NodeOp::Infix(op), &[a, b]),
        }
    }

    /// Appends `f(x)`.
    pub fn call(&mut self, f: &'static str, args: &[Operand]) -> Operand {
        self.elementwise(NodeOp::Call(f), args)
    }

    /// Appends `sum(x, dim: d)` or another reduction.
    pub fn reduce(&mut self, how: &'static str, x: NodeId, dim: usize, keep: bool) -> NodeId {
        let n = &self.nodes[x];
        let (dtype, mut sizes) = (n.dtype, n.sizes.clone());
        if keep {
            sizes[dim] = 1;
        } else {
            sizes.remove(dim);
        }
        self.push(NodeOp::Reduce(how, dim, keep), vec![Operand::Node(x)], dtype, sizes)
    }

    /// Appends a reduction over several dimensions.
    pub fn reduce_all(&mut self, how: &'static str, mut x: NodeId, dims: &[usize], keep: bool) -> NodeId {
        let mut dims = dims.to_vec();
        dims.sort_unstable();
        for d in dims.into_iter().rev() {
            x = self.reduce(how, x, d, keep);
        }
        x
    }

    /// Appends a reshape. A reshape of a reshape becomes one, unless [`Graph::written`] is set.
    pub fn reshape(&mut self, x: NodeId, sizes: &[i64]) -> NodeId {
        if self.nodes[x].sizes == sizes {
            return x;
        }
        match (&self.nodes[x].op, self.nodes[x].args.first()) {
            (NodeOp::Reshape, Some(Operand::Node(y))) if !self.written => self.reshape(*y, sizes),
            _ => {
                let dtype = self.nodes[x].dtype;
                self.push(NodeOp::Reshape, vec![Operand::Node(x)], dtype, sizes.to_vec())
            }
        }
    }

    /// Appends a transpose; dimension i of the result is dimension `order[i]` of the operand.
    pub fn transpose(&mut self, x: NodeId, order: &[usize]) -> NodeId {
        if let (NodeOp::Transpose(inner), Some(Operand::Node(y))) =
            (&self.nodes[x].op, self.nodes[x].args.first())
        {
            let (y, both) = (*y, order.iter().map(|d| inner[*d]).collect::<Vec<_>>());
            return self.transpose(y, &both);
        }
        if order.iter().enumerate().all(|(i, d)| i == *d) {
            return x;
        }
        let n = &self.nodes[x];
        let (dtype, sizes) = (n.dtype, order.iter().map(|d| n.sizes[*d]).collect());
        self.push(NodeOp::Transpose(order.to_vec()), vec![Operand::Node(x)], dtype, sizes)
    }

    /// Appends a slice with elements `from..to` of a dimension.
    pub fn slice(&mut self, x: NodeId, dim: usize, from: i64, to: i64) -> NodeId {
        let n = &self.nodes[x];
        if from == 0 && to == n.sizes[dim] {
            return x;
        }
        let (dtype, mut sizes) = (n.dtype, n.sizes.clone());
        sizes[dim] = to - from;
        self.push(NodeOp::Slice(dim, from, to), vec![Operand::Node(x)], dtype, sizes)
    }

    /// Appends a concatenation along a dimension. If the operands are all slices of one value, in
    /// order, the result is that value.
    pub fn concat(&mut self, list: &[NodeId], dim: usize) -> NodeId {
        if let [one] = list {
            return *one;
        }
        if let Some((x, d)) = self.pieces(list)
            && d == dim
        {
            return x;
        }
        let first = &self.nodes[list[0]];
        let (dtype, mut sizes) = (first.dtype, first.sizes.clone());
        sizes[dim] = list.iter().map(|n| self.nodes[*n].sizes[dim]).sum();
        self.push(NodeOp::Concat(dim), list.iter().map(|n| Operand::Node(*n)).collect(), dtype, sizes)
    }

    /// Returns the value and the dimension of which the operands are all the parts, in order.
    pub fn pieces(&self, list: &[NodeId]) -> Option<(NodeId, usize)> {
        let mut next = 0;
        let mut whole = None;
        for n in list {
            let (NodeOp::Slice(dim, from, to), [Operand::Node(x)]) =
                (&self.nodes[*n].op, &self.nodes[*n].args[..])
            else {
                return None;
            };
            if *from != next || whole.is_some_and(|w| w != (*x, *dim)) {
                return None;
            }
            next = *to;
            whole = Some((*x, *dim));
        }
        whole.filter(|(x, d)| self.nodes[*x].sizes[*d] == next)
    }

    /// Appends `matmul(a, b)`.
    pub fn matmul(&mut self, a: NodeId, b: NodeId) -> NodeId {
        let (x, y) = (&self.nodes[a], &self.nodes[b]);
        let (m, n) = (x.sizes.len() - 2, y.sizes.len() - 2);
        let mut sizes = broadcast(&x.sizes[..m], &y.sizes[..n]);
        sizes.extend([x.sizes[m], y.sizes[n + 1]]);
        let dtype = x.dtype;
        self.push(NodeOp::Matmul, vec![Operand::Node(a), Operand::Node(b)], dtype, sizes)
    }

    /// Appends a wait for a pending value. A second wait does nothing.
    pub fn wait(&mut self, x: NodeId) -> NodeId {
        if let Some(known) = self.waits.get(&x) {
            return *known;
        }
        let (dtype, sizes) = (self.nodes[x].dtype, self.nodes[x].sizes.clone());
        let n = self.push(NodeOp::Wait, vec![Operand::Node(x)], dtype, sizes);
        self.waits.insert(x, n);
        n
    }

    /// Appends a conversion to another element type.
    pub fn cast(&mut self, x: NodeId, to: DType) -> NodeId {
        if self.nodes[x].dtype == to {
            return x;
        }
        let sizes = self.nodes[x].sizes.clone();
        self.push(NodeOp::Cast, vec![Operand::Node(x)], to, sizes)
    }
}

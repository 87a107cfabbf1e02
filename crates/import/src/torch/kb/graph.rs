//! A program in kbc's own operations, before it is text.
//!
//! Owns nodes, and that a node is well typed by the way it is made: elementwise operations broadcast, numbers take the
//! type of what they meet. What PyTorch's operations become is [`super::table`]'s.

use super::consts::Const;
use crate::torch::dtype::DType;
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of a node.
pub type NodeId = usize;

/// An operand: a number takes the type of the tensor it meets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operand {
    /// Written.
    Num(f64),
    /// A node.
    Node(NodeId),
}

/// A collective, on the part that a rank has.
#[derive(Clone, PartialEq, Debug)]
pub enum Coll {
    /// `all_reduce(x, sum)`
    AllReduce(&'static str),
    /// `all_gather(x, dim: 0)`
    AllGather(usize),
    /// `reduce_scatter(x, sum, dim: 0)`
    ReduceScatter(&'static str, usize),
    /// `all_to_all(x, counts: [[..], ..])`: rows of dimension 0.
    Rows(Vec<Vec<i64>>),
    /// `all_to_all(x, from: 0, to: 1)`
    Dims(usize, usize),
    /// `broadcast(x, root: 0)`
    Broadcast(u64),
}

/// A program of the library that means what an operation of PyTorch does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Layer {
    /// Along a dimension.
    Softmax(usize),
    /// Along a dimension.
    LogSoftmax(usize),
    /// `layer_norm`, of the last dimension, with this addend to the variance.
    Norm(f64),
}

/// What a node is.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// An input of the program, by its number.
    Input(usize),
    /// A constant with data, by its number.
    Constant(usize),
    /// `full([4, 6], 0.5)`
    Full(f64),
    /// `iota([4, 6], dim: 1)`
    Iota(usize),
    /// `a + b`
    Infix(char),
    /// A function, elementwise: `exp(x)`, `max(a, b)`, `pow_int(x, 3)`.
    Call(&'static str),
    /// `select(a < b, x, y)`
    Select(&'static str),
    /// `matmul(a, b)`
    Matmul,
    /// A program of the library: `softmax(x, dim: 1)`.
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
    /// A collective over some axes; pending.
    Collective(Coll, Range<usize>),
    /// `wait(x)`
    Wait,
    /// The same value in another placement, which an annotation says.
    Placed,
    /// `iota` along a dimension of the whole, of which a rank has its part.
    Numbered(usize),
    /// `embedding` by numbers of the whole table, of which a rank has its rows: nothing for others.
    Owned,
    /// What kbc cannot express, of these operands: of a check alone.
    Opaque,
}

/// A node.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// What it is.
    pub op: Op,
    /// In order.
    pub args: Vec<Operand>,
    /// Element type of what comes out.
    pub dtype: DType,
    /// Its sizes.
    pub sizes: Vec<i64>,
    /// The node of PyTorch's program that it is for.
    pub of: usize,
}

impl Node {
    /// The nodes it uses.
    pub fn uses(&self) -> impl Iterator<Item = NodeId> {
        self.args.iter().filter_map(|a| if let Operand::Node(n) = a { Some(*n) } else { None })
    }
}

/// What tells a fill from others.
pub type Fill = (Option<usize>, u64, DType, Vec<i64>);

/// Nodes in an order of execution, and constants with data.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Graph {
    /// Each uses earlier ones alone.
    pub nodes: Vec<Node>,
    /// Constants with data.
    pub constants: Vec<(String, Const)>,
    /// Of collectives: the node that waits for each.
    pub waits: BTreeMap<NodeId, NodeId>,
    /// `full`s and `iota`s: the dimension, the bits of the number, element type, sizes.
    pub fills: BTreeMap<Fill, NodeId>,
    /// The node of PyTorch's program that is translated.
    pub at: usize,
    /// Whether constants stay what they are, so that ranks with other ones have the same operations.
    pub plain: bool,
    /// Whether a reshape of a reshape stays one.
    pub written: bool,
}

/// Sizes of operands together.
pub fn broadcast(a: &[i64], b: &[i64]) -> Vec<i64> {
    let n = a.len().max(b.len());
    let at = |s: &[i64], i: usize| (i + s.len()).checked_sub(n).map_or(1, |i| s[i]);
    (0..n).map(|i| if at(a, i) == 1 { at(b, i) } else { at(a, i) }).collect()
}

impl Graph {
    /// Appends a node.
    pub fn push(&mut self, op: Op, args: Vec<Operand>, dtype: DType, sizes: Vec<i64>) -> NodeId {
        self.nodes.push(Node { op, args, dtype, sizes, of: self.at });
        self.nodes.len() - 1
    }

    /// A constant as an argument with data; one that is there already is used again.
    pub fn constant(&mut self, name: &str, c: Const) -> NodeId {
        let (dtype, sizes) = (c.dtype, c.sizes.clone());
        let at = match self.constants.iter().position(|k| k.1 == c) {
            Some(at) if !self.plain => at,
            _ => {
                self.constants.push((name.to_owned(), c));
                self.constants.len() - 1
            }
        };
        match self.nodes.iter().position(|n| n.op == Op::Constant(at)) {
            Some(n) => n,
            None => self.push(Op::Constant(at), vec![], dtype, sizes),
        }
    }

    /// An elementwise operation; of numbers alone there is none.
    pub fn elementwise(&mut self, op: Op, args: &[Operand]) -> Operand {
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

    /// `a + b` and so on; what changes nothing is left out.
    pub fn infix(&mut self, op: char, a: Operand, b: Operand) -> Operand {
        match (op, a, b) {
            (_, Operand::Num(x), Operand::Num(y)) => Operand::Num(match op {
                '+' => x + y,
                '-' => x - y,
                '*' => x * y,
                _ => x / y,
            }),
            ('*' | '/', x, Operand::Num(1.0)) | ('*', Operand::Num(1.0), x) if !self.plain => x,
            _ => self.elementwise(Op::Infix(op), &[a, b]),
        }
    }

    /// `f(x)`
    pub fn call(&mut self, f: &'static str, args: &[Operand]) -> Operand {
        self.elementwise(Op::Call(f), args)
    }

    /// `sum(x, dim: d)` and so on.
    pub fn reduce(&mut self, how: &'static str, x: NodeId, dim: usize, keep: bool) -> NodeId {
        let n = &self.nodes[x];
        let (dtype, mut sizes) = (n.dtype, n.sizes.clone());
        if keep {
            sizes[dim] = 1;
        } else {
            sizes.remove(dim);
        }
        self.push(Op::Reduce(how, dim, keep), vec![Operand::Node(x)], dtype, sizes)
    }

    /// Over several dimensions.
    pub fn reduce_all(&mut self, how: &'static str, mut x: NodeId, dims: &[usize], keep: bool) -> NodeId {
        let mut dims = dims.to_vec();
        dims.sort_unstable();
        for d in dims.into_iter().rev() {
            x = self.reduce(how, x, d, keep);
        }
        x
    }

    /// The same elements in other sizes; a reshape of a reshape is one.
    pub fn reshape(&mut self, x: NodeId, sizes: &[i64]) -> NodeId {
        if self.nodes[x].sizes == sizes {
            return x;
        }
        match (&self.nodes[x].op, self.nodes[x].args.first()) {
            (Op::Reshape, Some(Operand::Node(y))) if !self.written => self.reshape(*y, sizes),
            _ => {
                let dtype = self.nodes[x].dtype;
                self.push(Op::Reshape, vec![Operand::Node(x)], dtype, sizes.to_vec())
            }
        }
    }

    /// Dimension i of the result is dimension `order[i]`.
    pub fn transpose(&mut self, x: NodeId, order: &[usize]) -> NodeId {
        if let (Op::Transpose(inner), Some(Operand::Node(y))) =
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
        self.push(Op::Transpose(order.to_vec()), vec![Operand::Node(x)], dtype, sizes)
    }

    /// Elements `from..to` of a dimension.
    pub fn slice(&mut self, x: NodeId, dim: usize, from: i64, to: i64) -> NodeId {
        let n = &self.nodes[x];
        if from == 0 && to == n.sizes[dim] {
            return x;
        }
        let (dtype, mut sizes) = (n.dtype, n.sizes.clone());
        sizes[dim] = to - from;
        self.push(Op::Slice(dim, from, to), vec![Operand::Node(x)], dtype, sizes)
    }

    /// One after another along a dimension. Slices that follow one another of what they were cut from are that.
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
        self.push(Op::Concat(dim), list.iter().map(|n| Operand::Node(*n)).collect(), dtype, sizes)
    }

    /// The value whose parts along a dimension these are, all of them in order.
    pub fn pieces(&self, list: &[NodeId]) -> Option<(NodeId, usize)> {
        let mut next = 0;
        let mut whole = None;
        for n in list {
            let (Op::Slice(dim, from, to), [Operand::Node(x)]) =
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

    /// `matmul(a, b)`
    pub fn matmul(&mut self, a: NodeId, b: NodeId) -> NodeId {
        let (x, y) = (&self.nodes[a], &self.nodes[b]);
        let (m, n) = (x.sizes.len() - 2, y.sizes.len() - 2);
        let mut sizes = broadcast(&x.sizes[..m], &y.sizes[..n]);
        sizes.extend([x.sizes[m], y.sizes[n + 1]]);
        let dtype = x.dtype;
        self.push(Op::Matmul, vec![Operand::Node(a), Operand::Node(b)], dtype, sizes)
    }

    /// What a pending value is once it is there; a second wait is none.
    pub fn wait(&mut self, x: NodeId) -> NodeId {
        if let Some(known) = self.waits.get(&x) {
            return *known;
        }
        let (dtype, sizes) = (self.nodes[x].dtype, self.nodes[x].sizes.clone());
        let n = self.push(Op::Wait, vec![Operand::Node(x)], dtype, sizes);
        self.waits.insert(x, n);
        n
    }

    /// As another element type.
    pub fn cast(&mut self, x: NodeId, to: DType) -> NodeId {
        if self.nodes[x].dtype == to {
            return x;
        }
        let sizes = self.nodes[x].sizes.clone();
        self.push(Op::Cast, vec![Operand::Node(x)], to, sizes)
    }
}

//! Validity of tile kernels: rules by which the meaning of a kernel does not depend on its tiles,
//! and what follows for placements.
//!
//! Dimensions of a value are labels: variables, or size 1. A contraction over one tile of a
//! variable is *pending* until it is added to an accumulator from outside the variable's loop. Then
//! it is a *sum* over the variable. It remains one as long as the operations on it commute with
//! addition ([`crate::linear`]).

use super::{Index, KernelTensor, Stmt, Tile, TileKernel};
use crate::linear;
use crate::scalar::ScalarFn;
use crate::types::{DType, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes that the values of one kernel may take, at four bytes per element.
pub const MAX_ROOM: u64 = 16 << 20;

/// Maximum nesting depth of loops and of expressions.
const MAX_DEPTH: usize = 100;

/// Facts about a statement or an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeFacts {
    /// Element type of its value (of the result for a store; f32 if it has no value).
    pub dtype: DType,
    /// Dimensions of its value.
    pub index: Vec<Index>,
    /// Dimension that a `dot` contracts.
    pub contracted: Option<Index>,
    /// Variables over whose tiles its value is still to be added up.
    pub pending: BTreeSet<u32>,
    /// Variables over which its value is a sum.
    pub sums: BTreeSet<u32>,
}

/// Facts about a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Facts about all statements and expressions, each before its parts.
    pub nodes: Vec<NodeFacts>,
    /// Variables over which the result is a sum: if one of them is cut, the result is partial.
    pub sums: BTreeSet<u32>,
    /// Variables whose dimensions must not be cut.
    pub whole: BTreeSet<u32>,
    /// Variable of each dimension of each operand; `None` if it is not indexed by exactly one
    /// variable.
    pub params: Vec<Vec<Option<u32>>>,
    /// Variable of each dimension of the result; `None` if the dimension has size 1.
    pub result: Vec<Option<u32>>,
}

/// A violated rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelFault {
    /// Number of the statement or expression; `None` for the kernel as a whole.
    pub node: Option<usize>,
    /// Message.
    pub what: String,
    /// Label of the source location.
    pub label: String,
    /// What to write instead.
    pub help: &'static str,
}

/// What is known about a value.
#[derive(Clone, Default, Debug)]
struct ValueFacts {
    dtype: Option<DType>,
    index: Vec<Index>,
    pending: BTreeSet<u32>,
    sums: BTreeSet<u32>,
    /// Variables on whose sum the value depends in a way that does not commute with addition.
    broken: BTreeSet<u32>,
    /// Variables of the loops around its declaration.
    open: Vec<u32>,
    /// Whether it is an accumulator.
    zeros: bool,
    /// Whether something has been added to it.
    added: bool,
}

impl TileKernel {
    /// Checks the kernel and returns the facts about it.
    ///
    /// # Errors
    /// Returns the first violated rule.
    pub fn facts(&self) -> Result<Facts, KernelFault> {
        let mut c = Check {
            kernel: self,
            nodes: vec![],
            values: BTreeMap::new(),
            open: vec![],
            adding: vec![],
            stored: None,
            preloaded: BTreeSet::new(),
            begun: false,
            room: 0,
            depth: 0,
        };
        c.body(&self.body)?;
        let Some((index, value)) = c.stored.take() else {
            let what = format!("the kernel never stores its result {}", self.result.name);
            return Err(as_a_whole(
                what,
                "this kernel",
                "end the kernel with `store` in the loops over its result",
            ));
        };
        c.finish(&index, &value)
    }
}

fn fault(node: usize, what: impl Into<String>, label: impl Into<String>, help: &'static str) -> KernelFault {
    KernelFault { node: Some(node), what: what.into(), label: label.into(), help }
}

fn as_a_whole(what: String, label: &str, help: &'static str) -> KernelFault {
    KernelFault { node: None, what, label: label.into(), help }
}

struct Check<'k> {
    kernel: &'k TileKernel,
    nodes: Vec<NodeFacts>,
    values: BTreeMap<u32, ValueFacts>,
    /// Variables of the enclosing loops.
    open: Vec<u32>,
    /// For each enclosing loop, the values from outside that its body adds to.
    adding: Vec<BTreeSet<u32>>,
    /// Position and value of the store.
    stored: Option<(Vec<Index>, ValueFacts)>,
    /// Preloaded operands.
    preloaded: BTreeSet<u32>,
    /// Whether a statement other than `preload` has occurred.
    begun: bool,
    room: u64,
    depth: usize,
}

impl Check<'_> {
    fn node(&mut self) -> usize {
        let (pending, sums) = Default::default();
        self.nodes.push(NodeFacts { dtype: DType::F32, index: vec![], contracted: None, pending, sums });
        self.nodes.len() - 1
    }

    fn note(&mut self, node: usize, value: &ValueFacts) {
        let n = &mut self.nodes[node];
        n.dtype = value.dtype.unwrap_or(DType::F32);
        n.index.clone_from(&value.index);
        n.pending.clone_from(&value.pending);
        n.sums.clone_from(&value.sums);
    }

    fn var(&self, v: u32) -> String {
        self.kernel.vars.get(v as usize).map_or_else(|| format!("?{v}"), |v| v.name.to_string())
    }

    fn shown(&self, index: &[Index]) -> String {
        let one = |i: &Index| match i {
            Index::Var(v) => self.var(*v),
            Index::At(_) => "1".into(),
        };
        format!("[{}]", index.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    fn named(&self, value: u32) -> String {
        self.kernel.values.get(value as usize).map_or_else(|| format!("?{value}"), ToString::to_string)
    }

    fn body(&mut self, list: &[Stmt]) -> Result<(), KernelFault> {
        self.depth += 1;
        let here: BTreeSet<u32> = self.values.keys().copied().collect();
        for s in list {
            let node = self.node();
            if self.depth > MAX_DEPTH {
                let what = format!("loops nest more than {MAX_DEPTH} levels deep");
                return Err(fault(node, what, "here", "split the kernel into two"));
            }
            self.stmt(node, s)?;
            self.begun |= !matches!(s, Stmt::Preload { .. });
        }
        self.values.retain(|v, _| here.contains(v));
        self.depth -= 1;
        Ok(())
    }

    fn stmt(&mut self, node: usize, s: &Stmt) -> Result<(), KernelFault> {
        match s {
            Stmt::Preload { params } => self.preload(node, params)?,
            Stmt::For { vars, body } => {
                for v in vars {
                    let Some(var) = self.kernel.vars.get(*v as usize) else {
                        return Err(fault(node, "a variable is missing", "here", "declare it"));
                    };
                    if var.tile == 0 {
                        let what = format!("the length of the tiles of {} is 0", var.name);
                        return Err(fault(node, what, "it must be at least 1", "give the length of a tile"));
                    }
                    if self.open.contains(v) {
                        let what = format!("{} is the variable of two nested loops", var.name);
                        return Err(fault(node, what, "again here", "rename one of the variables"));
                    }
                    self.open.push(*v);
                }
                let outside: BTreeSet<u32> = self.values.keys().copied().collect();
                let mut added = BTreeSet::new();
                targets(body, &mut added);
                self.adding.push(added.intersection(&outside).copied().collect());
                self.body(body)?;
                self.adding.pop();
                self.open.truncate(self.open.len() - vars.len());
            }
            Stmt::Zeros { value, dtype, index } => {
                if !matches!(dtype, DType::F32 | DType::I32) {
                    let what = format!("a tile kernel cannot sum in {dtype}");
                    return Err(fault(
                        node,
                        what,
                        "sums are f32 for floats and i32 for integers",
                        "sum in f32, and cast the stored value",
                    ));
                }
                self.scoped(node, index)?;
                let open = self.open.clone();
                let known = ValueFacts {
                    dtype: Some(*dtype),
                    index: index.clone(),
                    open,
                    zeros: true,
                    ..ValueFacts::default()
                };
                self.take_room(node, index)?;
                self.note(node, &known);
                self.values.insert(*value, known);
            }
            Stmt::Let { value, is } => {
                let mut known = self.tile(is)?;
                self.note(node, &known);
                known.open.clone_from(&self.open);
                self.values.insert(*value, known);
            }
            Stmt::Add { value, is } => {
                let known = self.tile(is)?;
                self.note(node, &known);
                self.add(node, *value, known)?;
                let after = self.values.get(value).cloned().unwrap_or_default();
                self.note(node, &after);
            }
            Stmt::Store { index, is } => {
                let known = self.tile(is)?;
                self.note(node, &known);
                self.store(node, index, known)?;
            }
        }
        Ok(())
    }

    /// Checks a `preload`.
    fn preload(&mut self, node: usize, params: &[u32]) -> Result<(), KernelFault> {
        for p in params {
            let Some(side) = self.kernel.params.get(*p as usize) else {
                return Err(fault(node, "an operand is missing", "here", "declare it"));
            };
            if self.begun || !self.open.is_empty() {
                let what = format!("`preload` of {} must come before all loops", side.name);
                return Err(fault(
                    node,
                    what,
                    "here",
                    "move `preload` above all loops: it loads the whole operand",
                ));
            }
            if !self.preloaded.insert(*p) {
                let what = format!("{} is preloaded twice", side.name);
                return Err(fault(node, what, "again here", "remove one of them"));
            }
        }
        Ok(())
    }

    /// Checks `value += known`.
    fn add(&mut self, node: usize, value: u32, known: ValueFacts) -> Result<(), KernelFault> {
        let name = self.named(value);
        let Some(acc) = self.values.get(&value).filter(|a| a.zeros).cloned() else {
            let what = format!("`{name}` cannot be added to");
            return Err(fault(
                node,
                what,
                "it is not a value of `zeros`",
                "declare it outside the loop: `let acc = zeros(f32[32, 32])`",
            ));
        };
        if known.dtype != acc.dtype {
            let (have, want) = (show(known.dtype), show(acc.dtype));
            let what = format!("{have} cannot be added to {want}");
            return Err(fault(node, what, "the element types differ", "cast it: `f32(..)`"));
        }
        if let Some(why) = self.under(&known.index, &acc.index) {
            let what = format!("{} cannot be added to {}", self.shown(&known.index), self.shown(&acc.index));
            return Err(fault(node, what, why, "a term must have the dimensions of the sum, or fewer"));
        }
        let entered: BTreeSet<u32> = self.open.iter().filter(|v| !acc.open.contains(v)).copied().collect();
        if let Some(v) = entered.iter().find(|v| !known.pending.contains(v)) {
            let what = format!(
                "the term added to `{name}` would be counted once for every tile of {}",
                self.var(*v)
            );
            return Err(fault(
                node,
                what,
                format!("it is not a sum over {}", self.var(*v)),
                "add it outside of that loop",
            ));
        }
        let done: BTreeSet<u32> = known.pending.intersection(&entered).copied().collect();
        let mut sums: BTreeSet<u32> = known.sums.union(&done).copied().collect();
        let mut broken: BTreeSet<u32> = known.broken.union(&acc.broken).copied().collect();
        if acc.added {
            // If only some terms are sums over a variable, the other terms would be counted once
            // per rank.
            broken.extend(sums.symmetric_difference(&acc.sums));
            sums = sums.intersection(&acc.sums).copied().collect();
        }
        sums.retain(|v| !broken.contains(v));
        let left: BTreeSet<u32> = known.pending.difference(&entered).copied().collect();
        if acc.added && left != acc.pending {
            let what = format!("the terms of `{name}` are sums over different loops");
            return Err(fault(node, what, "this one", "sum each of them in its own value"));
        }
        let pending = left;
        self.values.insert(value, ValueFacts { pending, sums, broken, added: true, ..acc });
        Ok(())
    }

    fn store(&mut self, node: usize, index: &[Index], known: ValueFacts) -> Result<(), KernelFault> {
        let result = &self.kernel.result;
        if self.stored.is_some() {
            return Err(fault(
                node,
                format!("{} is stored twice", result.name),
                "again here",
                "a kernel can have only one `store`: split the kernel into two",
            ));
        }
        if index.len() != result.dims {
            let what =
                format!("{} has {} dimensions, and {} are indexed", result.name, result.dims, index.len());
            return Err(fault(node, what, "here", "index every dimension"));
        }
        self.scoped(node, index)?;
        if let Some(Index::At(at)) = index.iter().find(|i| matches!(i, Index::At(at) if *at > 0)) {
            let what = format!(
                "only element {at} of {} is stored; the other elements are never written",
                result.name
            );
            return Err(fault(
                node,
                what,
                "here",
                "index a dimension with a variable, or with 0 if its size is 1",
            ));
        }
        if let Some(v) = self.open.iter().find(|v| !index.contains(&Index::Var(**v))) {
            let what = format!("{} is stored again for every tile of {}", result.name, self.var(*v));
            return Err(fault(node, what, "each store overwrites the one before", "store after that loop"));
        }
        if known.dtype != Some(result.dtype) {
            let what = format!("{} cannot be stored to {}", show(known.dtype), result.dtype);
            return Err(fault(node, what, "the element types differ", "cast it: `f16(..)`"));
        }
        if let Some(why) = self.under(&known.index, index) {
            let what = format!("{} cannot be stored to {}", self.shown(&known.index), self.shown(index));
            return Err(fault(
                node,
                what,
                why,
                "a stored value must have the dimensions of the result, or fewer",
            ));
        }
        if let Some(v) = known.pending.iter().next() {
            return Err(self.unsummed(node, *v));
        }
        self.stored = Some((index.to_vec(), known));
        Ok(())
    }

    fn unsummed(&self, node: usize, v: u32) -> KernelFault {
        let v = self.var(v);
        fault(
            node,
            format!("this value depends on the tile length of {v}"),
            format!("this is summed over one tile of {v}, not over all tiles"),
            "accumulate it: `let acc = zeros(..)` before the loop, `acc += ..` in the loop, and use `acc` after it",
        )
    }

    /// Checks that each variable belongs to an enclosing loop and occurs only once.
    fn scoped(&self, node: usize, index: &[Index]) -> Result<(), KernelFault> {
        for (n, i) in index.iter().enumerate() {
            let Index::Var(v) = i else { continue };
            if !self.open.contains(v) {
                let what = format!("{} is not a variable of an enclosing loop", self.var(*v));
                return Err(fault(node, what, "here", "move it into the loop"));
            }
            if index[..n].contains(i) {
                let what = format!("{} indexes two dimensions", self.var(*v));
                return Err(fault(node, what, "here", "use a separate variable for each"));
            }
        }
        Ok(())
    }

    /// Returns why dimensions do not line up with those above them, aligned from the right.
    fn under(&self, index: &[Index], above: &[Index]) -> Option<String> {
        let Some(first) = above.len().checked_sub(index.len()) else {
            return Some(format!("{} dimensions under {}", index.len(), above.len()));
        };
        let pairs = index.iter().zip(&above[first..]);
        let odd = |(a, b): &(&Index, &Index)| match (a, b) {
            (Index::At(_), _) => false,
            (Index::Var(x), Index::Var(y)) => x != y,
            (Index::Var(_), Index::At(_)) => true,
        };
        pairs.clone().find(odd).map(|(a, b)| format!("{} under {}", self.shown(&[*a]), self.shown(&[*b])))
    }

    /// Counts the memory of a value.
    fn take_room(&mut self, node: usize, index: &[Index]) -> Result<(), KernelFault> {
        let tile = |i: &Index| match i {
            Index::Var(v) => self.kernel.vars.get(*v as usize).map_or(1, |v| v.tile),
            Index::At(_) => 1,
        };
        let bytes = index.iter().map(tile).fold(4u64, u64::saturating_mul);
        self.room = self.room.saturating_add(bytes);
        if self.room > MAX_ROOM {
            let what = format!("the tiles of this kernel take more than {} MiB together", MAX_ROOM >> 20);
            return Err(fault(node, what, "the limit is exceeded here", "make the tiles smaller"));
        }
        Ok(())
    }

    fn tile(&mut self, t: &Tile) -> Result<ValueFacts, KernelFault> {
        let node = self.node();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let what = format!("expressions nest more than {MAX_DEPTH} levels deep");
            return Err(fault(node, what, "here", "use `let` for parts of it"));
        }
        let known = match t {
            Tile::Load { param, index } => self.load(node, *param, index)?,
            Tile::Value(v) => self.value(node, *v)?,
            Tile::Dot(a, b) => self.dot(node, a, b)?,
            Tile::Map(f, args) => self.map(node, f, args)?,
            Tile::Cast(to, a) => self.cast(node, *to, a)?,
        };
        self.depth -= 1;
        if !matches!(t, Tile::Value(_)) {
            self.take_room(node, &known.index)?;
        }
        self.note(node, &known);
        Ok(known)
    }

    fn load(&mut self, node: usize, param: u32, index: &[Index]) -> Result<ValueFacts, KernelFault> {
        let Some(KernelTensor { name, dtype, dims }) = self.kernel.params.get(param as usize) else {
            return Err(fault(node, "an operand is missing", "here", "declare it"));
        };
        if !dtype.reduces() {
            let what = format!("kbc can move {dtype} values but not compute with them");
            return Err(fault(node, what, "loaded here", "cast to f32 or i32 before the call"));
        }
        if *dims != index.len() {
            let what = format!("{name} has {dims} dimensions, and {} are indexed", index.len());
            return Err(fault(node, what, "here", "index every dimension"));
        }
        self.scoped(node, index)?;
        Ok(ValueFacts { dtype: Some(*dtype), index: index.to_vec(), ..ValueFacts::default() })
    }

    fn value(&mut self, node: usize, v: u32) -> Result<ValueFacts, KernelFault> {
        let name = self.named(v);
        let Some(known) = self.values.get(&v).cloned() else {
            return Err(fault(
                node,
                format!("`{name}` has no value here"),
                "not known here",
                "a value is known only in the loop that declares it",
            ));
        };
        if self.adding.iter().any(|a| a.contains(&v)) {
            let what = format!("`{name}` is used before it is complete");
            return Err(fault(node, what, "an enclosing loop still adds to it", "use it after that loop"));
        }
        Ok(known)
    }

    fn dot(&mut self, node: usize, a: &Tile, b: &Tile) -> Result<ValueFacts, KernelFault> {
        let (x, y) = (self.tile(a)?, self.tile(b)?);
        if x.dtype != y.dtype {
            let what = format!("`dot` cannot multiply {} and {}", show(x.dtype), show(y.dtype));
            return Err(fault(node, what, "the element types differ", "cast one of them"));
        }
        let ([lead @ .., m, k], [other @ .., l, n]) = (&x.index[..], &y.index[..]) else {
            let what = format!("`dot` cannot multiply {} and {}", self.shown(&x.index), self.shown(&y.index));
            return Err(fault(
                node,
                what,
                "both operands need at least two dimensions",
                "the operands of `dot` are [.., m, k] and [.., k, n]",
            ));
        };
        let one = |i: &Index| matches!(i, Index::At(_));
        if lead != other || k != l && !(one(k) && one(l)) || m == n && !one(m) {
            let what = format!("`dot` cannot multiply {} and {}", self.shown(&x.index), self.shown(&y.index));
            let label = format!("{} meets {}", self.shown(&[*k]), self.shown(&[*l]));
            return Err(fault(
                node,
                what,
                label,
                "the operands of `dot` are [.., m, k] and [.., k, n], with equal dimensions before them",
            ));
        }
        if let Some(v) = x.pending.union(&y.pending).next() {
            return Err(self.unsummed(node, *v));
        }
        let index: Vec<Index> = lead.iter().chain([m, n]).copied().collect();
        let pending = if let Index::Var(k) = k { BTreeSet::from([*k]) } else { BTreeSet::new() };
        self.nodes[node].contracted = Some(*k);
        // Linear in each operand, if the other operand is the same on all ranks.
        let mut broken: BTreeSet<u32> = x.broken.union(&y.broken).copied().collect();
        broken.extend(x.sums.intersection(&y.sums));
        let sums = x.sums.union(&y.sums).filter(|v| !broken.contains(v)).copied().collect();
        let dtype = if x.dtype.is_some_and(DType::is_float) { DType::F32 } else { DType::I32 };
        Ok(ValueFacts { dtype: Some(dtype), index, pending, sums, broken, ..ValueFacts::default() })
    }

    fn map(&mut self, node: usize, f: &ScalarFn, args: &[Tile]) -> Result<ValueFacts, KernelFault> {
        let mut known = vec![];
        for a in args {
            known.push(self.tile(a)?);
        }
        let Some(first) = known.first() else {
            return Err(fault(node, "expected a tile, found a number", "here", "add it to a tile"));
        };
        let dtype = first.dtype;
        if let Some(odd) = known.iter().find(|k| k.dtype != dtype) {
            let what = format!("{} and {} cannot be combined", show(dtype), show(odd.dtype));
            return Err(fault(node, what, "the element types differ", "cast one of them"));
        }
        if let Some(g) = linear::float_function(&f.body).filter(|_| !dtype.is_some_and(DType::is_float)) {
            let what = format!("`{}` is not defined for {} values", g.name(), show(dtype));
            return Err(fault(node, what, "it is defined for floats", "cast to f32 before the call"));
        }
        let mut index: Vec<Index> = vec![];
        for k in &known {
            if k.index.len() > index.len() {
                let more = k.index.len() - index.len();
                index.splice(0..0, k.index[..more].iter().copied());
            }
            let first = index.len() - k.index.len();
            for (have, i) in index[first..].iter_mut().zip(&k.index) {
                match (&have, i) {
                    (Index::At(_), _) => *have = *i,
                    (_, Index::At(_)) => {}
                    (x, y) if *x == y => {}
                    _ => {
                        let what = format!("{} under {}", self.shown(&[*i]), self.shown(&[*have]));
                        return Err(fault(
                            node,
                            what,
                            "two tiles are indexed by different variables",
                            "elementwise operands must have the same variables in the same dimensions, counted from the right",
                        ));
                    }
                }
            }
        }
        let kind = dtype.unwrap_or(DType::F32);
        let commutes = |v: u32, of: &dyn Fn(&ValueFacts) -> bool| {
            let flags: Vec<bool> = known.iter().map(of).collect();
            known.iter().all(|k| !k.broken.contains(&v))
                && linear::commutes(&f.body, &flags, ReduceOp::Sum, kind)
        };
        let all = |of: fn(&ValueFacts) -> &BTreeSet<u32>| -> BTreeSet<u32> {
            known.iter().flat_map(|k| of(k).iter().copied()).collect()
        };
        let pending = all(|k| &k.pending);
        if let Some(v) = pending.iter().find(|v| !commutes(**v, &|k| k.pending.contains(v))) {
            return Err(self.unsummed(node, *v));
        }
        let mut broken = all(|k| &k.broken);
        let mut sums = all(|k| &k.sums);
        broken.extend(sums.iter().filter(|v| !commutes(**v, &|k| k.sums.contains(v))));
        sums.retain(|v| !broken.contains(v));
        Ok(ValueFacts { dtype, index, pending, sums, broken, ..ValueFacts::default() })
    }

    fn cast(&mut self, node: usize, to: DType, a: &Tile) -> Result<ValueFacts, KernelFault> {
        let x = self.tile(a)?;
        if let Some(v) = x.pending.iter().next() {
            return Err(self.unsummed(node, *v));
        }
        let float = |d: Option<DType>| d.is_some_and(DType::is_float);
        if x.dtype != Some(to) && !(float(x.dtype) && to.is_float()) {
            let what = format!("a tile kernel cannot cast from {} to {to}", show(x.dtype));
            return Err(fault(
                node,
                what,
                "kernels cast only between floats",
                "cast before or after the call of the kernel",
            ));
        }
        // Each rank's part is rounded, as in a matmul with 16-bit results.
        Ok(ValueFacts { dtype: Some(to), zeros: false, ..x })
    }

    /// Derives the facts for placements.
    fn finish(self, index: &[Index], value: &ValueFacts) -> Result<Facts, KernelFault> {
        let k = self.kernel;
        let var = |i: &Index| match i {
            Index::Var(v) => Some(*v),
            Index::At(_) => None,
        };
        let result: Vec<Option<u32>> = index.iter().map(var).collect();
        let mut uses: Vec<Vec<BTreeSet<Index>>> =
            k.params.iter().map(|p| vec![BTreeSet::new(); p.dims]).collect();
        for (param, index) in k.accesses() {
            let Some(dims) = param.and_then(|p| uses.get_mut(p as usize)) else { continue };
            for (d, i) in dims.iter_mut().zip(index) {
                d.insert(*i);
            }
        }
        if let Some(p) = k.params.iter().zip(&uses).find(|(p, u)| p.dims > 0 && u[0].is_empty()) {
            let what = format!("{} is never loaded", p.0.name);
            return Err(as_a_whole(what, "in this kernel", "remove it"));
        }
        let indexed = |v: u32| uses.iter().flatten().any(|d| d.contains(&Index::Var(v)));
        if let Some(v) = (0..k.vars.len() as u32).find(|v| !indexed(*v)) {
            let what = format!("{} indexes no operand", self.var(v));
            return Err(as_a_whole(
                what,
                "in this kernel",
                "the extent of a loop must be a dimension of an operand",
            ));
        }
        let mut whole: BTreeSet<u32> = (0..k.vars.len() as u32).collect();
        whole.retain(|v| !result.contains(&Some(*v)) && !value.sums.contains(v));
        let mut params = vec![];
        for dims in &uses {
            let mut labels = vec![];
            for d in dims {
                let one = d.first().filter(|_| d.len() == 1).and_then(var);
                if one.is_none() {
                    whole.extend(d.iter().filter_map(var));
                }
                labels.push(one);
            }
            params.push(labels);
        }
        let sums = value.sums.difference(&whole).copied().collect();
        Ok(Facts { nodes: self.nodes, sums, whole, params, result })
    }
}

fn show(d: Option<DType>) -> &'static str {
    d.map_or("nothing", DType::name)
}

/// Collects the values that statements add to.
fn targets(body: &[Stmt], out: &mut BTreeSet<u32>) {
    for s in body {
        match s {
            Stmt::For { body, .. } => targets(body, out),
            Stmt::Add { value, .. } => drop(out.insert(*value)),
            Stmt::Preload { .. } | Stmt::Zeros { .. } | Stmt::Let { .. } | Stmt::Store { .. } => {}
        }
    }
}

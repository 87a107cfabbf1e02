//! Tile kernels: loop nests over tiles of tensors.
//!
//! The module owns the form of a kernel and the extents of its loops for operands of given shapes.
//! `work` computes the amount of work, `facts` decides which kernels are valid and what follows
//! for placements, [`crate::text`] defines the text, and the engines run kernels. A variable stands
//! for a dimension: every tensor dimension that it indexes has as many elements as the loop runs
//! over. The dimension is cut into tiles of a fixed length, of which the last may be shorter.
//! `docs/adr/039-tile-kernels.md` defines the meaning and the order of additions.

mod facts;
mod work;

pub use facts::{Facts, KernelFault, NodeFacts};
pub use work::{Amounts, Work};

use crate::name::Name;
use crate::scalar::ScalarFn;
use crate::types::DType;

/// Index of one dimension of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Index {
    /// The elements of a variable's tile, with the number of the variable.
    Var(u32),
    /// One element. The dimension remains, with size 1.
    At(u64),
}

/// A tensor that a kernel loads from or stores to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelTensor {
    /// Name, for readers.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Number of dimensions.
    pub dims: usize,
}

/// A loop variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Var {
    /// Name, for readers.
    pub name: Name,
    /// Length of a tile in elements, at least 1.
    pub tile: u64,
}

/// A kernel over tiles.
#[derive(Clone, PartialEq, Debug)]
pub struct TileKernel {
    /// Name, for readers.
    pub name: Name,
    /// Tensors that the kernel loads from, in the order of its operands.
    pub params: Vec<KernelTensor>,
    /// Tensor that the kernel stores to.
    pub result: KernelTensor,
    /// Loop variables.
    pub vars: Vec<Var>,
    /// Names of the values, for readers.
    pub values: Vec<Name>,
    /// Statements.
    pub body: Vec<Stmt>,
}

/// A statement of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// Brings whole operands into the core's memory before the loops; loads of them read that
    /// memory.
    Preload {
        /// Numbers of the operands.
        params: Vec<u32>,
    },
    /// A loop over all tiles of these variables, the first one slowest.
    For {
        /// Numbers of the variables.
        vars: Vec<u32>,
        /// Statements for each tile.
        body: Vec<Stmt>,
    },
    /// Declares an accumulator that starts as zeros.
    Zeros {
        /// Number of the value.
        value: u32,
        /// Element type, f32 or i32.
        dtype: DType,
        /// Dimensions: tiles of variables, or size 1.
        index: Vec<Index>,
    },
    /// Declares a value.
    Let {
        /// Number of the value.
        value: u32,
        /// Expression of the value.
        is: Tile,
    },
    /// Adds to an accumulator, element by element. A `dot` continues the accumulation term by term.
    Add {
        /// Number of the accumulator.
        value: u32,
        /// Expression that is added.
        is: Tile,
    },
    /// Writes to the result.
    Store {
        /// Position in the result.
        index: Vec<Index>,
        /// Expression that is stored.
        is: Tile,
    },
}

/// An expression over tiles.
#[derive(Clone, PartialEq, Debug)]
pub enum Tile {
    /// A tile of an operand.
    Load {
        /// Number of the operand.
        param: u32,
        /// Position in the operand.
        index: Vec<Index>,
    },
    /// A matmul of tiles, `[.., m, k] x [.., k, n]`: accumulated in f32 (i32) by ascending k. Each
    /// multiplication and each addition is rounded once.
    Dot(Box<Tile>, Box<Tile>),
    /// A value, by number.
    Value(u32),
    /// An elementwise function; operands are aligned from the right.
    Map(ScalarFn, Vec<Tile>),
    /// Conversion between floating-point types, rounded to nearest even.
    Cast(DType, Box<Tile>),
}

/// A statement or an expression of a kernel.
#[derive(Clone, Copy, Debug)]
enum Part<'k> {
    Stmt(&'k Stmt),
    Tile(&'k Tile),
}

impl TileKernel {
    /// Returns the number of elements that each variable runs over, for operands and a result of
    /// these sizes. The result's sizes may be unknown.
    ///
    /// # Errors
    /// Returns a message about what does not fit.
    pub fn extents(&self, operands: &[&[u64]], result: Option<&[u64]>) -> Result<Vec<u64>, String> {
        if operands.len() != self.params.len() {
            let (want, have) = (self.params.len(), operands.len());
            return Err(format!("{} takes {want} operands, and {have} are given", self.name));
        }
        self.facts().map_err(|f| f.what)?;
        let mut found: Vec<Option<(u64, &KernelTensor)>> = vec![None; self.vars.len()];
        for (side, index) in self.accesses() {
            let sizes = match side {
                Some(p) => operands.get(p as usize).copied(),
                None => result,
            };
            let Some(sizes) = sizes else { continue };
            let side = side.map_or(&self.result, |p| &self.params[p as usize]);
            if sizes.len() != side.dims || index.len() != side.dims {
                return Err(format!("{} has {} dimensions, not {}", side.name, side.dims, sizes.len()));
            }
            for (size, i) in sizes.iter().zip(index) {
                match *i {
                    Index::At(at) if at < *size => {}
                    Index::At(at) => {
                        return Err(format!(
                            "index {at} of {} is outside a dimension of size {size}",
                            side.name
                        ));
                    }
                    Index::Var(v) => match found[v as usize] {
                        Some((n, other)) if n != *size => {
                            let (var, a, b) = (&self.vars[v as usize].name, &other.name, &side.name);
                            return Err(format!("{var} is one of {n} in {a} and one of {size} in {b}"));
                        }
                        Some(_) => {}
                        None => found[v as usize] = Some((*size, side)),
                    },
                }
            }
        }
        let known = found.iter().zip(&self.vars);
        known.map(|(n, v)| n.map(|n| n.0).ok_or_else(|| format!("{} indexes nothing", v.name))).collect()
    }

    /// Returns the sizes of the result for these extents of the variables.
    pub fn result_sizes(&self, extents: &[u64]) -> Vec<u64> {
        let store = self.accesses().into_iter().find(|a| a.0.is_none());
        store.map_or(vec![], |(_, index)| index.iter().map(|i| extent(*i, extents)).collect())
    }

    /// Returns the index of every load, with the number of its operand, and of the store, in order.
    pub fn accesses(&self) -> Vec<(Option<u32>, &[Index])> {
        let mut out = vec![];
        self.walk(&mut |part, _| match part {
            Part::Tile(Tile::Load { param, index }) => out.push((Some(*param), &index[..])),
            Part::Stmt(Stmt::Store { index, .. }) => out.push((None, &index[..])),
            _ => {}
        });
        out
    }

    /// Returns the elementwise functions of the kernel, in order.
    pub fn functions(&self) -> Vec<&ScalarFn> {
        let mut out = vec![];
        self.walk(&mut |part, _| {
            if let Part::Tile(Tile::Map(f, _)) = part {
                out.push(f);
            }
        });
        out
    }

    /// Visits all statements and expressions, each before its parts, with the variables of the
    /// enclosing loops. The position in this order is the number of a statement or expression.
    fn walk<'k>(&'k self, see: &mut dyn FnMut(Part<'k>, &[u32])) {
        fn tile<'k>(t: &'k Tile, open: &[u32], see: &mut dyn FnMut(Part<'k>, &[u32])) {
            see(Part::Tile(t), open);
            t.operands().into_iter().for_each(|t| tile(t, open, see));
        }
        fn body<'k>(list: &'k [Stmt], open: &mut Vec<u32>, see: &mut dyn FnMut(Part<'k>, &[u32])) {
            for s in list {
                see(Part::Stmt(s), open);
                match s {
                    Stmt::For { vars, body: inner } => {
                        let outside = open.len();
                        open.extend(vars);
                        body(inner, open, see);
                        open.truncate(outside);
                    }
                    Stmt::Preload { .. } | Stmt::Zeros { .. } => {}
                    Stmt::Let { is, .. } | Stmt::Add { is, .. } | Stmt::Store { is, .. } => {
                        tile(is, open, see)
                    }
                }
            }
        }
        body(&self.body, &mut vec![], see);
    }
}

impl Tile {
    /// Returns the dimensions of the expression in a kernel that [`TileKernel::facts`] accepts;
    /// `of` returns those of values.
    pub fn index(&self, of: &dyn Fn(u32) -> Vec<Index>) -> Vec<Index> {
        match self {
            Tile::Load { index, .. } => index.clone(),
            Tile::Value(v) => of(*v),
            Tile::Cast(_, a) => a.index(of),
            Tile::Dot(a, b) => {
                let mut index = a.index(of);
                index.pop();
                index.extend(b.index(of).last());
                index
            }
            Tile::Map(_, args) => {
                let mut index: Vec<Index> = vec![];
                for mut i in args.iter().map(|a| a.index(of)) {
                    if i.len() > index.len() {
                        std::mem::swap(&mut i, &mut index);
                    }
                    let first = index.len() - i.len();
                    for (have, i) in index[first..].iter_mut().zip(i) {
                        if matches!(have, Index::At(_)) {
                            *have = i;
                        }
                    }
                }
                index
            }
        }
    }

    /// Returns the expressions from which this one is computed.
    pub fn operands(&self) -> Vec<&Tile> {
        match self {
            Tile::Load { .. } | Tile::Value(_) => vec![],
            Tile::Dot(a, b) => vec![a, b],
            Tile::Map(_, args) => args.iter().collect(),
            Tile::Cast(_, a) => vec![a],
        }
    }
}

/// Returns the number of elements of a dimension over all tiles.
pub fn extent(index: Index, extents: &[u64]) -> u64 {
    match index {
        Index::Var(v) => extents[v as usize],
        Index::At(_) => 1,
    }
}

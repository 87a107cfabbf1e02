//! Tile kernels: a loop nest over tiles of tensors.
//!
//! Owns the form of a kernel and which sizes it runs over for operands of given shapes; how much work that is: [`work`]. What a
//! kernel may say, and what follows for placements, is [`facts`]; its text is [`crate::text`]'s; running it is an engine's.
//! A variable stands for a dimension: a tensor that is indexed by it has there as many elements as the loop runs over, cut
//! into tiles of a fixed length, the last one shorter. Meaning, order of additions: `docs/adr/039-tile-kernels.md`.

mod facts;
mod work;

pub use facts::{Facts, Fault, Node};
pub use work::{Amounts, Work};

use crate::name::Name;
use crate::scalar::ScalarFn;
use crate::types::DType;

/// How a dimension of a tensor is indexed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Index {
    /// The elements of a variable's tile: this number of variable.
    Var(u32),
    /// One element; the dimension stays, with size 1.
    At(u64),
}

/// A tensor that a kernel loads from or stores to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Side {
    /// Its name, for people.
    pub name: Name,
    /// Its element type.
    pub dtype: DType,
    /// How many dimensions it has.
    pub dims: usize,
}

/// A variable of a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Var {
    /// Its name, for people.
    pub name: Name,
    /// Elements of a tile, at least 1.
    pub tile: u64,
}

/// A kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct TileKernel {
    /// Its name, for people.
    pub name: Name,
    /// What it loads from, in the order of its operands.
    pub params: Vec<Side>,
    /// What it stores.
    pub result: Side,
    /// Variables of its loops.
    pub vars: Vec<Var>,
    /// Names of its values, for people.
    pub values: Vec<Name>,
    /// What it does.
    pub body: Vec<Stmt>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// Operands that are brought into the core's memory whole, before the loops; loads of them are made from there.
    Preload {
        /// By number.
        params: Vec<u32>,
    },
    /// All tiles of these variables, the first slowest.
    For {
        /// By number.
        vars: Vec<u32>,
        /// For each of them.
        body: Vec<Stmt>,
    },
    /// A value that is added to: zeros.
    Zeros {
        /// Its number.
        value: u32,
        /// f32 or i32.
        dtype: DType,
        /// Its dimensions: tiles of variables, or size 1.
        index: Vec<Index>,
    },
    /// A value.
    Let {
        /// Its number.
        value: u32,
        /// What it is.
        is: Tile,
    },
    /// Added to a value of zeros, element by element; a product goes on adding to it, term by term.
    Add {
        /// Its number.
        value: u32,
        /// What is added.
        is: Tile,
    },
    /// Written to the result.
    Store {
        /// Where.
        index: Vec<Index>,
        /// What.
        is: Tile,
    },
}

/// An expression over tiles.
#[derive(Clone, PartialEq, Debug)]
pub enum Tile {
    /// A tile of an operand.
    Load {
        /// Which operand.
        param: u32,
        /// Which elements.
        index: Vec<Index>,
    },
    /// `[.., m, k] x [.., k, n]`: products are added in f32 (i32) by ascending k, each rounded once, and each sum.
    Dot(Box<Tile>, Box<Tile>),
    /// A value by number.
    Value(u32),
    /// An elementwise function, operands aligned from the right.
    Map(ScalarFn, Vec<Tile>),
    /// Conversion between floats, nearest even.
    Cast(DType, Box<Tile>),
}

/// A statement or an expression of a kernel.
#[derive(Clone, Copy, Debug)]
enum Part<'k> {
    Stmt(&'k Stmt),
    Tile(&'k Tile),
}

impl TileKernel {
    /// Elements that each variable runs over, for operands and a result of these sizes; the result's may be unknown.
    ///
    /// # Errors
    /// What does not fit.
    pub fn extents(&self, operands: &[&[u64]], result: Option<&[u64]>) -> Result<Vec<u64>, String> {
        if operands.len() != self.params.len() {
            let (want, have) = (self.params.len(), operands.len());
            return Err(format!("{} takes {want} operands, {have} are given", self.name));
        }
        self.facts().map_err(|f| f.what)?;
        let mut found: Vec<Option<(u64, &Side)>> = vec![None; self.vars.len()];
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
                    Index::At(at) => return Err(format!("{} has no element {at} of {size}", side.name)),
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

    /// Sizes of the result for these extents of the variables.
    pub fn result_sizes(&self, extents: &[u64]) -> Vec<u64> {
        let store = self.accesses().into_iter().find(|a| a.0.is_none());
        store.map_or(vec![], |(_, index)| index.iter().map(|i| extent(*i, extents)).collect())
    }

    /// All loads, with the operand, and the store, in order.
    pub fn accesses(&self) -> Vec<(Option<u32>, &[Index])> {
        let mut out = vec![];
        self.walk(&mut |part, _| match part {
            Part::Tile(Tile::Load { param, index }) => out.push((Some(*param), &index[..])),
            Part::Stmt(Stmt::Store { index, .. }) => out.push((None, &index[..])),
            _ => {}
        });
        out
    }

    /// The elementwise functions in it, in order.
    pub fn functions(&self) -> Vec<&ScalarFn> {
        let mut out = vec![];
        self.walk(&mut |part, _| {
            if let Part::Tile(Tile::Map(f, _)) = part {
                out.push(f);
            }
        });
        out
    }

    /// All statements and expressions, each before what is in it, with the variables of the loops around it. Their places in
    /// this order are their numbers.
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
    /// Its dimensions, if it is one that [`TileKernel::facts`] accepts; `of` says those of values.
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

    /// What it is computed from.
    pub fn operands(&self) -> Vec<&Tile> {
        match self {
            Tile::Load { .. } | Tile::Value(_) => vec![],
            Tile::Dot(a, b) => vec![a, b],
            Tile::Map(_, args) => args.iter().collect(),
            Tile::Cast(_, a) => vec![a],
        }
    }
}

/// Elements of a dimension over all tiles.
pub fn extent(index: Index, extents: &[u64]) -> u64 {
    match index {
        Index::Var(v) => extents[v as usize],
        Index::At(_) => 1,
    }
}

//! Syntax tree of the algorithm half of `.kb`; spanned, with no semantics.
//!
//! The grammar in `kbc-frontend` builds these nodes directly, so there is one tree and no copy of it.

use kbc_diag::{Span, Spanned};

/// An identifier with its place.
pub type Ident = Spanned<String>;

/// An expression: integers, booleans, ranks (tuples).
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
}

/// The forms of an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer.
    Int(i64),
    /// A number with a fraction (program half only; an error in an algorithm).
    Float(f64),
    /// `true`, `false`.
    Bool(bool),
    /// A name.
    Name(String),
    /// `f(a, b)`.
    Call(Ident, Vec<Expr>),
    /// `(x, y)`: a rank by its coordinates; two or more.
    Tuple(Vec<Expr>),
    /// `-e`, `!e`.
    Unary(UnaryOp, Box<Expr>),
    /// `a op b`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `if c { a } else { b }`.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A fault that was already reported.
    Error,
}

/// Unary operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `!`
    Not,
}

/// Binary operators, weakest first in the grammar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the operators")]
pub enum BinaryOp {
    Or,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    BitOr,
    BitXor,
    BitAnd,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    /// Rounds down.
    Div,
    /// Sign of the divisor.
    Rem,
}

/// `a..b`, upper bound excluded.
#[derive(Clone, PartialEq, Debug)]
pub struct Range {
    /// First value.
    pub lo: Expr,
    /// One past the last.
    pub hi: Expr,
}

/// `i in a..b, j in c..d if cond`.
#[derive(Clone, PartialEq, Debug)]
pub struct Gens {
    /// Variables with their ranges, outermost first.
    pub vars: Vec<(Ident, Range)>,
    /// The filter.
    pub cond: Option<Expr>,
}

/// One `[..]` of a slice.
#[derive(Clone, PartialEq, Debug)]
pub struct Selector {
    /// What it selects.
    pub kind: SelectorKind,
    /// Where it stands.
    pub span: Span,
}

/// Forms of a selector.
#[derive(Clone, PartialEq, Debug)]
pub enum SelectorKind {
    /// `[..]`
    All,
    /// `[index; len for gens of count]`; `len` 1, `gens` and `count` absent where not written.
    Part {
        /// First chunk.
        index: Expr,
        /// How many.
        len: Option<Expr>,
        /// Comprehension.
        gens: Option<Gens>,
        /// Number of chunks of the space.
        of: Option<Expr>,
    },
}

/// `buf[..][0 of 2]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Slice {
    /// Buffer, absent in an algorithm of a one-buffer collective.
    pub buffer: Option<Ident>,
    /// At least one.
    pub selectors: Vec<Selector>,
    /// Where it stands.
    pub span: Span,
}

/// The far side of a put or get.
#[derive(Clone, PartialEq, Debug)]
pub enum Place {
    /// `slice` (other chunks here) or `slice at rank`.
    Slice(Slice, Option<Expr>),
    /// `rank`: the same chunks there.
    Rank(Expr),
}

/// The ranks an `apply` runs over.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// What it is.
    pub kind: ViewKind,
    /// Where it stands.
    pub span: Span,
}

/// Forms of a view.
#[derive(Clone, PartialEq, Debug)]
pub enum ViewKind {
    /// `x` or `(x, y)`: axes by name, others stay.
    Axes(Vec<Ident>),
    /// `(v of m, w of k -> rank)`: new coordinates mapped to ranks.
    Map(Vec<(Ident, Expr)>, Box<Expr>),
}

/// A collective's name: `reduce` is a word of its own in the grammar but an ordinary name here.
pub type CollName = Ident;

/// The root of a rooted collective.
#[derive(Clone, PartialEq, Debug)]
pub struct RootArg {
    /// `from` (true) or `to` (false).
    pub from: bool,
    /// The rank.
    pub rank: Expr,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Where it stands.
    pub span: Span,
}

/// Forms of a statement.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// `let n = e`
    Let(Ident, Expr),
    /// `scratch t[k]`
    Scratch(Ident, Expr),
    /// `put X -> place [reduce]` (get = false) or `get X <- place [reduce]` (get = true).
    Move {
        /// Pull instead of push.
        get: bool,
        /// The slice at this rank.
        here: Slice,
        /// The slice at the other.
        there: Place,
        /// Add instead of replace.
        reduce: bool,
    },
    /// `for i in a..b block`
    For(Ident, Range, Block),
    /// `each gens block`
    Each(Gens, Block),
    /// `if c block else block`; `else if` is an else block with one statement.
    If(Expr, Block, Option<Block>),
    /// `apply coll over view using alg(args) on slice -> slice`
    Apply(Box<Apply>),
    /// A block of its own.
    Block(Block),
    /// A fault that was already reported.
    Error,
}

/// An `apply` statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Apply {
    /// The collective.
    pub coll: CollName,
    /// `from`/`to` root.
    pub root: Option<RootArg>,
    /// The group.
    pub view: View,
    /// The algorithm or an algorithm-valued parameter.
    pub alg: Ident,
    /// Named arguments and options of the use.
    pub args: Vec<(Ident, Expr)>,
    /// The region it works on.
    pub on: Slice,
    /// The second region for a collective of two buffers.
    pub to: Option<Slice>,
}

/// `{ }` or `together { }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// Round by round side by side instead of one after another.
    pub together: bool,
    /// The statements.
    pub stmts: Vec<Stmt>,
    /// Where it stands.
    pub span: Span,
}

/// An axis of an algorithm: `x of w` (stepping off is an error) or `r mod p` (it wraps).
#[derive(Clone, PartialEq, Debug)]
pub struct AxisDecl {
    /// Name of this rank's coordinate.
    pub coord: Ident,
    /// Name of the size.
    pub size: Ident,
    /// `mod` instead of `of`.
    pub wraps: bool,
}

/// `fn f(a, b) = e`
#[derive(Clone, PartialEq, Debug)]
pub struct FnDecl {
    /// Name.
    pub name: Ident,
    /// Parameters.
    pub params: Vec<Ident>,
    /// Body.
    pub body: Expr,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

/// A buffer of a collective: `v[n]` (`blocks` absent) or `v[p][n]`.
#[derive(Clone, PartialEq, Debug)]
pub struct BufferDecl {
    /// Name.
    pub name: Ident,
    /// The sizes as written: one or two names.
    pub sizes: Vec<Ident>,
}

/// `name[e][e]` in a promise.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The buffer.
    pub buffer: Ident,
    /// Indices.
    pub index: Vec<Expr>,
}

/// A clause of a promise.
#[derive(Clone, PartialEq, Debug)]
pub enum Clause {
    /// `start cell [if cond]`: this rank's own contribution is there.
    Start {
        /// The place.
        cell: Cell,
        /// When.
        cond: Option<Expr>,
    },
    /// `end cell [if cond] = value`.
    End {
        /// The place.
        cell: Cell,
        /// When.
        cond: Option<Expr>,
        /// What must be there.
        value: ClauseValue,
    },
}

/// The right side of an `end`.
#[derive(Clone, PartialEq, Debug)]
pub enum ClauseValue {
    /// `cell at rank`
    At(Cell, Expr),
    /// `sum(cell at rank for gens)`
    Sum(Cell, Expr, Gens),
}

/// `collective name [from|to c] over (r of p) on buffers { clauses }`
#[derive(Clone, PartialEq, Debug)]
pub struct CollectiveDecl {
    /// Name.
    pub name: CollName,
    /// `from` (true) or `to` (false) and the name of the root.
    pub root: Option<(bool, Ident)>,
    /// Coordinate and size names.
    pub axis: (Ident, Ident),
    /// One or two buffers.
    pub buffers: Vec<BufferDecl>,
    /// The promise.
    pub clauses: Vec<Clause>,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

/// `algorithm name(params): coll [from c] over (axes) [chunks e] [where e] block`
#[derive(Clone, PartialEq, Debug)]
pub struct AlgorithmDecl {
    /// Name; algorithms are named by (collective, name).
    pub name: Ident,
    /// Parameters with defaults; a default that is a bare name of an algorithm makes it algorithm-valued.
    pub params: Vec<(Ident, Expr)>,
    /// The collective.
    pub coll: CollName,
    /// `from` (true) or `to` (false) and the names the root's coordinates get (one, or one an axis).
    pub root: Option<(bool, Vec<Ident>)>,
    /// Axes.
    pub axes: Vec<AxisDecl>,
    /// `chunks e`
    pub chunks: Option<Expr>,
    /// `where e`
    pub cond: Option<Expr>,
    /// Body.
    pub body: Block,
    /// From `algorithm` to the end of the head (not the body).
    pub head: Span,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

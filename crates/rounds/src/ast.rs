//! Syntax tree of the algorithm half of `.kb`: nodes with source locations and without semantics.
//!
//! The grammar in `kbc-frontend` builds these nodes directly, so there is only one tree.

use kbc_diag::{Span, Spanned};

/// An identifier with its location.
pub type Ident = Spanned<String>;

/// An expression; its value is an integer, a truth value or a rank (a tuple of coordinates).
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// The form of the expression.
    pub kind: ExprKind,
    /// Source location.
    pub span: Span,
}

/// The forms of an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer.
    Int(i64),
    /// A number with a fraction; valid in programs only, an error in an algorithm.
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
    /// `{ let a = x; let b = y; e }`. A value may use the names before it.
    Let(Vec<(Ident, Expr)>, Box<Expr>),
    /// `sum(e for i in a..b if c)`.
    Fold(FoldOp, Box<Expr>, Box<Gens>),
    /// An error that was already reported.
    Error,
}

impl Expr {
    /// Returns the expressions inside this one, in source order. Readers that treat all forms alike
    /// use this function.
    pub fn parts(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Name(_)
            | ExprKind::Error => vec![],
            ExprKind::Call(_, list) | ExprKind::Tuple(list) => list.iter().collect(),
            ExprKind::Unary(_, a) => vec![a],
            ExprKind::Binary(_, a, b) => vec![a, b],
            ExprKind::If(a, b, c) => vec![a, b, c],
            ExprKind::Let(lets, e) => lets.iter().map(|l| &l.1).chain([&**e]).collect(),
            ExprKind::Fold(_, e, gens) => {
                let bounds = gens.vars.iter().flat_map(|(_, r)| [&r.lo, &r.hi]);
                [&**e].into_iter().chain(bounds).chain(&gens.cond).collect()
            }
        }
    }

    /// Calls `see` with the names that the expression uses and does not declare, each with its
    /// place.
    pub fn free_names<'e>(&'e self, see: &mut dyn FnMut(&'e str, Span)) {
        self.free(&mut vec![], see);
    }

    fn free<'e>(&'e self, own: &mut Vec<&'e str>, see: &mut dyn FnMut(&'e str, Span)) {
        let outer = own.len();
        match &self.kind {
            ExprKind::Name(n) if !own.contains(&n.as_str()) => see(n, self.span),
            ExprKind::Let(lets, e) => {
                for (name, value) in lets {
                    value.free(own, see);
                    own.push(&name.node);
                }
                e.free(own, see);
            }
            ExprKind::Fold(_, e, gens) => {
                for (name, range) in &gens.vars {
                    range.lo.free(own, see);
                    range.hi.free(own, see);
                    own.push(&name.node);
                }
                gens.cond.iter().for_each(|c| c.free(own, see));
                e.free(own, see);
            }
            _ => self.parts().into_iter().for_each(|e| e.free(own, see)),
        }
        own.truncate(outer);
    }
}

/// Operations that join the values of an expression over ranges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the operations")]
pub enum FoldOp {
    Sum,
    Min,
    Max,
}

impl FoldOp {
    /// All operations.
    pub const ALL: [FoldOp; 3] = [FoldOp::Sum, FoldOp::Min, FoldOp::Max];

    /// Returns the word of the language.
    pub fn word(self) -> &'static str {
        match self {
            FoldOp::Sum => "sum",
            FoldOp::Min => "min",
            FoldOp::Max => "max",
        }
    }
}

/// Unary operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `!`
    Not,
}

/// Binary operators, from lowest to highest precedence.
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
    /// Has the sign of the divisor.
    Rem,
}

/// `a..b`, without the upper bound.
#[derive(Clone, PartialEq, Debug)]
pub struct Range {
    /// First value.
    pub lo: Expr,
    /// One past the last value.
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

/// One bracket `[..]` of a slice.
#[derive(Clone, PartialEq, Debug)]
pub struct Selector {
    /// The form of the selector.
    pub kind: SelectorKind,
    /// Source location.
    pub span: Span,
}

/// The forms of a selector.
#[derive(Clone, PartialEq, Debug)]
pub enum SelectorKind {
    /// `[..]`
    All,
    /// `[index; len for gens of count]`. `len` is 1 if absent; `gens` and `count` may be absent.
    Part {
        /// Index of the first chunk.
        index: Expr,
        /// Number of chunks.
        len: Option<Expr>,
        /// Comprehension over the indices.
        gens: Option<Gens>,
        /// Total number of chunks.
        of: Option<PartCount>,
    },
}

/// The number of parts of a selector: `of n` or `mod n`.
#[derive(Clone, PartialEq, Debug)]
pub struct PartCount {
    /// The number.
    pub n: Expr,
    /// Whether the index wraps around (`mod`) instead of being checked (`of`).
    pub wraps: bool,
    /// Location of the word.
    pub word_span: Span,
}

/// A slice, such as `buf[..][0 of 2]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Slice {
    /// The buffer; absent in an algorithm whose collective has only one buffer.
    pub buffer: Option<Ident>,
    /// At least one selector.
    pub selectors: Vec<Selector>,
    /// Source location.
    pub span: Span,
}

/// The remote side of a put or get.
#[derive(Clone, PartialEq, Debug)]
pub enum RemoteSide {
    /// `slice` (other chunks on this rank) or `slice at rank`.
    Slice(Slice, Option<Expr>),
    /// `rank`: the same chunks on that rank.
    Rank(Expr),
}

/// `via [e, e]` or `via [e for gens]`: the relays of the machine that a message passes, in the
/// order in which its data passes them.
#[derive(Clone, PartialEq, Debug)]
pub struct Via {
    /// Numbers of relays; with `gens`, one expression.
    pub relays: Vec<Expr>,
    /// Comprehension over the relays.
    pub gens: Option<Gens>,
    /// Source location.
    pub span: Span,
}

/// The ranks over which an `apply` runs.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// The form of the view.
    pub kind: ViewKind,
    /// Source location.
    pub span: Span,
}

/// The forms of a view.
#[derive(Clone, PartialEq, Debug)]
pub enum ViewKind {
    /// `x` or `(x, y)`: the group extends along these axes; the other coordinates are fixed.
    Axes(Vec<Ident>),
    /// `(v of m, w of k -> rank)`: new coordinates, mapped to ranks.
    Map(Vec<(Ident, Expr)>, Box<Expr>),
}

/// The name of a collective. `reduce` is a keyword in the grammar but an ordinary name here.
pub type CollName = Ident;

/// The root of a rooted collective.
#[derive(Clone, PartialEq, Debug)]
pub struct RootArg {
    /// True for `from`, false for `to`.
    pub from: bool,
    /// The root rank.
    pub rank: Expr,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// The form of the statement.
    pub kind: StmtKind,
    /// Source location.
    pub span: Span,
}

/// The forms of a statement.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// `let n = e`
    Let(Ident, Expr),
    /// `scratch t[k]`
    Scratch(Ident, Expr),
    /// `put X -> place [via] [reduce]` or `get X <- place [via] [reduce]`.
    Move {
        /// True for `get`, false for `put`.
        get: bool,
        /// The slice on this rank.
        here: Slice,
        /// The slice on the other rank.
        there: RemoteSide,
        /// The relays that the message passes.
        via: Option<Via>,
        /// Whether the data is added instead of replacing.
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
    /// A nested block.
    Block(Block),
    /// An error that was already reported.
    Error,
}

/// An `apply` statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Apply {
    /// The collective.
    pub coll: CollName,
    /// The root, `from` or `to` a rank.
    pub root: Option<RootArg>,
    /// The group.
    pub view: View,
    /// The algorithm, or an algorithm-valued parameter.
    pub alg: Ident,
    /// Named arguments of the algorithm.
    pub args: Vec<(Ident, Expr)>,
    /// Options of the use.
    pub options: Vec<(Ident, Expr)>,
    /// Location of the algorithm with its arguments and options.
    pub use_span: Span,
    /// The region on which it works.
    pub on: Slice,
    /// The second region, for a collective with two buffers.
    pub to: Option<Slice>,
}

/// `{ }` or `together { }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// Whether the statements run in the same rounds (`together`) instead of one after another.
    pub together: bool,
    /// The statements.
    pub stmts: Vec<Stmt>,
    /// Source location.
    pub span: Span,
}

/// An axis of an algorithm: `x of w` (leaving the axis is an error) or `r mod p` (the axis wraps).
#[derive(Clone, PartialEq, Debug)]
pub struct AxisDecl {
    /// Name of the rank's coordinate.
    pub coord: Ident,
    /// Name of the size.
    pub size: Ident,
    /// Whether the axis is declared with `mod` instead of `of`.
    pub wraps: bool,
}

/// `fn f(a, b) = e`, or a table, which is a function of its indices: `table t = [3, 1, 2]`.
#[derive(Clone, PartialEq, Debug)]
pub struct FnDecl {
    /// Name.
    pub name: Ident,
    /// Parameters.
    pub params: Vec<Ident>,
    /// Body.
    pub body: FnBody,
    /// Location of the whole item.
    pub span: Span,
    /// Text of the `///` lines.
    pub doc: String,
}

/// The body of a function.
#[derive(Clone, PartialEq, Debug)]
pub enum FnBody {
    /// An expression of the parameters.
    Expr(Expr),
    /// The entries of a table by their index, counted from 0. Entries are constants.
    List(Vec<Expr>),
    /// The entries of a table by row and column.
    Rows(Vec<Vec<Expr>>),
}

impl FnBody {
    /// Returns the expressions of the body.
    pub fn parts(&self) -> Vec<&Expr> {
        match self {
            FnBody::Expr(e) => vec![e],
            FnBody::List(list) => list.iter().collect(),
            FnBody::Rows(rows) => rows.iter().flatten().collect(),
        }
    }
}

/// A buffer of a collective: `v[n]` (without blocks) or `v[p][n]`.
#[derive(Clone, PartialEq, Debug)]
pub struct BufferDecl {
    /// Name.
    pub name: Ident,
    /// The sizes as written: one or two names.
    pub sizes: Vec<Ident>,
}

/// `name[e][e]` in a contract.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The buffer.
    pub buffer: Ident,
    /// Indices.
    pub index: Vec<Expr>,
}

/// A clause of a contract.
#[derive(Clone, PartialEq, Debug)]
pub enum Clause {
    /// `start cell [if cond]`: the rank's own contribution is there at the start.
    Start {
        /// The place.
        cell: Cell,
        /// Condition.
        cond: Option<Expr>,
    },
    /// `end cell [if cond] = value`.
    End {
        /// The place.
        cell: Cell,
        /// Condition.
        cond: Option<Expr>,
        /// Required contents.
        value: ClauseValue,
    },
}

/// The right side of an `end` clause.
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
    /// True for `from` or false for `to`, and the name of the root.
    pub root: Option<(bool, Ident)>,
    /// Names of the coordinate and the size.
    pub axis: (Ident, Ident),
    /// One or two buffers.
    pub buffers: Vec<BufferDecl>,
    /// The clauses of the contract.
    pub clauses: Vec<Clause>,
    /// Location of the whole item.
    pub span: Span,
    /// Text of the `///` lines.
    pub doc: String,
}

/// A stated figure of the cost of an algorithm: `sent 2*A(p)`.
#[derive(Clone, PartialEq, Debug)]
pub struct CostFigure {
    /// The name of the figure as written.
    pub figure: Ident,
    /// The formula.
    pub formula: Expr,
}

/// `algorithm name(params): coll [from c] over (axes) [chunks e] [where e] clauses block`
#[derive(Clone, PartialEq, Debug)]
pub struct AlgorithmDecl {
    /// Name; an algorithm is identified by the collective and the name.
    pub name: Ident,
    /// Parameters with their defaults. A default that is the bare name of an algorithm makes the
    /// parameter algorithm-valued.
    pub params: Vec<(Ident, Expr)>,
    /// The collective.
    pub coll: CollName,
    /// True for `from` or false for `to`, and the names of the root's coordinates (one, or
    /// one per axis).
    pub root: Option<(bool, Vec<Ident>)>,
    /// Axes.
    pub axes: Vec<AxisDecl>,
    /// `chunks e`
    pub chunks: Option<Expr>,
    /// `where e`
    pub cond: Option<Expr>,
    /// The figures of the clauses `cost`.
    pub costs: Vec<CostFigure>,
    /// The arguments of each clause `check`: the algorithm is meant for them besides its defaults.
    pub checks: Vec<Vec<(Ident, Expr)>>,
    /// Further names, from the clauses `alias`.
    pub aliases: Vec<Ident>,
    /// Body.
    pub body: Block,
    /// Location from `algorithm` to the end of the head, without the body.
    pub head: Span,
    /// Location of the whole item.
    pub span: Span,
    /// Text of the `///` lines.
    pub doc: String,
}

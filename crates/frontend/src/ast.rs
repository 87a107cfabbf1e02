//! Syntax tree of a `.kb` file: the items, and the nodes of the program half of the language.
//!
//! Nodes of the algorithm half (expressions, functions, collectives, algorithms) are those of
//! [`kbc_rounds::ast`]. The grammar builds both directly. Every node carries its span. The tree has
//! no semantics: a data type is a name, and a nested shape is a call.

mod body;

pub use body::*;

use kbc_diag::{Span, Spanned};
use kbc_rounds::ast::{AlgorithmDecl, BinaryOp, CollectiveDecl, Expr, FnDecl, Ident, Range};

/// A file: its items in source order. Items that could not be parsed are absent; the parser has
/// reported them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct File {
    /// The items.
    pub items: Vec<Item>,
}

/// An item of a file.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// `use "other.kb"`, `use collectives.ring as r`
    Use(UseDecl),
    /// `param n = 4`
    Param(ParamDecl),
    /// `topology sys = ring(4) { .. }`
    Topology(TopologyDecl),
    /// `mesh m = sys[tp]`
    Mesh(MeshDecl),
    /// `kernel f(x) = ..`
    Kernel(KernelDecl),
    /// `kernel f(a: f16[M, K]) -> c: f16[M] { .. }`
    TileKernel(TileKernelDecl),
    /// `program f(x: f32[4]) -> f32[4] { .. }`
    Program(ProgramDecl),
    /// `local program f over (x of tp) { .. }`
    Local(LocalDecl),
    /// `fn f(a) = ..`
    Function(FnDecl),
    /// `table t = [3, 1, 2]`
    Table(TableDecl),
    /// `collective c over (r of p) on v[n] { .. }`
    Collective(CollectiveDecl),
    /// `algorithm a: c over (r mod p) { .. }`
    Algorithm(AlgorithmDecl),
}

impl Item {
    /// Returns the span of the whole item.
    pub fn span(&self) -> Span {
        match self {
            Item::Use(i) => i.span,
            Item::Param(i) => i.span,
            Item::Topology(i) => i.span,
            Item::Mesh(i) => i.span,
            Item::Kernel(i) => i.span,
            Item::TileKernel(i) => i.span,
            Item::Program(i) => i.span,
            Item::Local(i) => i.span,
            Item::Function(i) => i.span,
            Item::Table(i) => i.span,
            Item::Collective(i) => i.span,
            Item::Algorithm(i) => i.span,
        }
    }

    /// Returns the declared name. A `use` declares none: the namespace that it may name has no
    /// item.
    pub fn name(&self) -> Option<&Ident> {
        Some(match self {
            Item::Use(_) => return None,
            Item::Param(i) => &i.name,
            Item::Topology(i) => &i.name,
            Item::Mesh(i) => &i.name,
            Item::Kernel(i) => &i.name,
            Item::TileKernel(i) => &i.name,
            Item::Program(i) => &i.name,
            Item::Local(i) => &i.name,
            Item::Function(i) => &i.name,
            Item::Table(i) => &i.name,
            Item::Collective(i) => &i.name,
            Item::Algorithm(i) => &i.name,
        })
    }
}

/// `use "path"`, or `use collectives.ring`; with `as mine` under a name.
#[derive(Clone, PartialEq, Debug)]
pub struct UseDecl {
    /// The file or the module.
    pub what: UseTarget,
    /// The namespace, if the declarations are used by its name only.
    pub name: Option<Ident>,
    /// The whole item.
    pub span: Span,
}

/// What a `use` makes visible.
#[derive(Clone, PartialEq, Debug)]
pub enum UseTarget {
    /// A file, relative to the file that contains the `use`.
    File(Spanned<String>),
    /// A module of the library, or the whole library.
    Module(Ident),
}

/// A parameter: `param name = value`.
#[derive(Clone, PartialEq, Debug)]
pub struct ParamDecl {
    /// The name.
    pub name: Ident,
    /// The value: an integer or a number.
    pub value: Expr,
    /// The whole item.
    pub span: Span,
    /// The text of its `///` lines.
    pub doc: String,
}

/// A table of numbers: `table name = source`. It is called like a function of its indices.
#[derive(Clone, PartialEq, Debug)]
pub struct TableDecl {
    /// The name.
    pub name: Ident,
    /// The entries.
    pub source: TableSource,
    /// The whole item.
    pub span: Span,
    /// The text of its `///` lines.
    pub doc: String,
}

/// The entries of a table.
#[derive(Clone, PartialEq, Debug)]
pub enum TableSource {
    /// A CSV file, relative to this file.
    File(Spanned<String>),
    /// `[3, 1, 2]`
    List(Vec<Expr>),
    /// `[[0, 1], [1, 0]]`, each row with its source range.
    Rows(Vec<Spanned<Vec<Expr>>>),
}

/// A topology: `topology name = source`.
#[derive(Clone, PartialEq, Debug)]
pub struct TopologyDecl {
    /// The name.
    pub name: Ident,
    /// The source: a file or a generator.
    pub source: TopologySource,
    /// The whole item.
    pub span: Span,
    /// The text of its `///` lines.
    pub doc: String,
}

/// The source of a topology.
#[derive(Clone, PartialEq, Debug)]
pub enum TopologySource {
    /// A machine file, relative to this file, with settings that override those of the machine
    /// file.
    File(Spanned<String>, Vec<Setting>),
    /// A generator with settings.
    Shape(Shape, Vec<Setting>),
}

/// A generator call such as `torus(3, 2)` or `hierarchy(full(8), switch(4))`.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    /// The name of the generator.
    pub name: Ident,
    /// The arguments. A nested shape is a call (`ExprKind::Call`) with the name of a generator.
    pub parts: Vec<Expr>,
    /// The source range.
    pub span: Span,
}

/// A setting such as `link: 50 GB/s, 500 ns`.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The name.
    pub name: Ident,
    /// The values; at least one.
    pub values: Vec<Spanned<SettingValue>>,
    /// The source range.
    pub span: Span,
}

/// A value of a setting.
#[derive(Clone, PartialEq, Debug)]
pub enum SettingValue {
    /// A plain number.
    Number(f64),
    /// A number with a unit.
    Quantity(Quantity),
    /// A word.
    Name(String),
}

/// A number with a unit, converted to the base unit of its dimension.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantity {
    /// The number of base units.
    pub amount: f64,
    /// The dimension.
    pub dimension: Dimension,
}

/// The dimension of a quantity. The name of a variant is the base unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the name is the unit")]
pub enum Dimension {
    Bytes,
    BytesPerSecond,
    Nanoseconds,
    FlopPerSecond,
}

/// A mesh: `mesh name = topology[axes]`.
#[derive(Clone, PartialEq, Debug)]
pub struct MeshDecl {
    /// The name.
    pub name: Ident,
    /// The name of the topology that provides the devices.
    pub topology: Ident,
    /// The axes; at least one.
    pub axes: Vec<MeshAxis>,
    /// The whole item.
    pub span: Span,
    /// The text of its `///` lines.
    pub doc: String,
}

/// An axis of a mesh: `tp` or `tp: 4`.
#[derive(Clone, PartialEq, Debug)]
pub struct MeshAxis {
    /// The name.
    pub name: Ident,
    /// The size, if it is given.
    pub size: Option<Expr>,
}

/// An elementwise kernel: `kernel name(params) = body`.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelDecl {
    /// The name.
    pub name: Ident,
    /// The parameters, which are scalars.
    pub params: Vec<Ident>,
    /// The body, a scalar expression.
    pub body: Expr,
    /// The whole item.
    pub span: Span,
    /// The text of its `///` lines.
    pub doc: String,
}

/// A tile kernel, which is a loop nest over tiles: `kernel name(args) -> result { .. }`.
#[derive(Clone, PartialEq, Debug)]
pub struct TileKernelDecl {
    /// The name.
    pub name: Ident,
    /// The declared variables.
    pub variables: Vec<TypeVariable>,
    /// The arguments.
    pub args: Vec<Arg>,
    /// The name and type of the result.
    pub result: (Ident, Type),
    /// The statements.
    pub body: Vec<TileStmt>,
    /// The whole item.
    pub span: Span,
    /// The text of its `///` lines.
    pub doc: String,
}

/// A statement of a tile kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct TileStmt {
    /// The form of the statement.
    pub kind: TileStmtKind,
    /// The source range.
    pub span: Span,
}

/// The forms of a statement of a tile kernel.
#[derive(Clone, PartialEq, Debug)]
pub enum TileStmtKind {
    /// `preload a, b`
    Preload(Vec<Ident>),
    /// `for i in tiles(M, 32), j in tiles(N, 32) { .. }`
    For(Vec<TileLoop>, Vec<TileStmt>),
    /// `let acc = e`
    Let(Ident, TileExpr),
    /// `acc += e`
    Add(Ident, TileExpr),
    /// `store c[i, j] = e`
    Store(Ident, Vec<Expr>, TileExpr),
}

/// A loop over tiles: `i in tiles(extent, tile)`.
#[derive(Clone, PartialEq, Debug)]
pub struct TileLoop {
    /// The variable, which is the number of the tile.
    pub var: Ident,
    /// The extent that is cut into tiles.
    pub extent: Expr,
    /// The number of elements of a tile.
    pub tile: Expr,
}

/// An expression over tiles.
#[derive(Clone, PartialEq, Debug)]
pub struct TileExpr {
    /// The form of the expression.
    pub kind: TileExprKind,
    /// The source range.
    pub span: Span,
}

/// The forms of an expression over tiles.
#[derive(Clone, PartialEq, Debug)]
pub enum TileExprKind {
    /// `load a[i, k]`
    Load(Ident, Vec<Expr>),
    /// `dot(a, b)`
    Dot(Box<TileExpr>, Box<TileExpr>),
    /// `zeros(f32[32, 32])`
    Zeros(Type),
    /// A name.
    Name(String),
    /// An integer.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// `f(a, b)`: a cast, a scalar function or an elementwise kernel.
    Call(Ident, Vec<TileExpr>),
    /// `-e`
    Neg(Box<TileExpr>),
    /// `a op b`
    Binary(BinaryOp, Box<TileExpr>, Box<TileExpr>),
    /// `if c { a } else { b }`
    If(Box<TileExpr>, Box<TileExpr>, Box<TileExpr>),
}

/// A variable of a generic program or kernel: `D`, or `T: dtype`.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeVariable {
    /// The name.
    pub name: Ident,
    /// Whether it stands for an element type instead of a size.
    pub dtype: bool,
    /// The source range.
    pub span: Span,
}

/// A program: `program name[variables](args) -> results { .. } expect ..`.
#[derive(Clone, PartialEq, Debug)]
pub struct ProgramDecl {
    /// The name.
    pub name: Ident,
    /// The declared variables.
    pub variables: Vec<TypeVariable>,
    /// The arguments.
    pub args: Vec<Arg>,
    /// The result types; at least one.
    pub results: Vec<Type>,
    /// The body.
    pub body: Body,
    /// Stored results of another execution to compare with, one per result. May be empty.
    pub expect: Vec<Data>,
    /// The range from `program` to the end of the result types.
    pub head: Span,
    /// The whole item.
    pub span: Span,
    /// The text of its `///` lines.
    pub doc: String,
}

/// An argument: `name: type = data`.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// The name.
    pub name: Ident,
    /// The type.
    pub ty: Type,
    /// The source of its value, if it is given.
    pub data: Option<Data>,
    /// The source range.
    pub span: Span,
}

/// The source of a value: `"file.npz":key` or `normal(7)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Data {
    /// The form of the data.
    pub kind: DataKind,
    /// The source range.
    pub span: Span,
}

/// The forms of data.
#[derive(Clone, PartialEq, Debug)]
pub enum DataKind {
    /// A file, relative to this file, and the key of an array in it.
    File(Spanned<String>, Option<Ident>),
    /// A generator with its arguments.
    Generator(Ident, Vec<Expr>),
    /// A constant: the default of an argument that is not a tensor, or a number that replaces a
    /// tensor.
    Value(Expr),
}

/// A type such as `f32[25, 1536@tp] partial(sum@dp)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// The name of the element type or of the kind of an argument, as written.
    pub dtype: Ident,
    /// Whether `..` precedes the dimensions, which stands for any number of leading dimensions.
    pub any: bool,
    /// The dimensions. Empty for a scalar.
    pub dims: Vec<Dim>,
    /// The places `partial(..)` and `only(..)`.
    pub places: Vec<TypePlace>,
    /// The source range.
    pub span: Span,
}

/// A dimension such as `1536@tp`.
#[derive(Clone, PartialEq, Debug)]
pub struct Dim {
    /// The size.
    pub size: Expr,
    /// The split of the dimension over mesh axes, if there is one.
    pub cut: Option<Cut>,
    /// The source range.
    pub span: Span,
}

/// A split of a dimension: `@tp`, `@tp(cut: ceil)`, `@tp(lengths: [3, 0, 5, 2])`, `@tp(by: rows)`
/// or `@(cube, pe)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Cut {
    /// The axes, slowest first.
    pub axes: Vec<Ident>,
    /// The rule that determines the parts.
    pub how: CutHow,
    /// The source range.
    pub span: Span,
}

/// The rule that determines the parts of a split dimension.
#[derive(Clone, PartialEq, Debug)]
pub enum CutHow {
    /// The lengths of the parts differ by at most one.
    Even,
    /// Each part has `ceil(n / p)` elements, except for a shorter tail.
    Ceil,
    /// A list of lengths.
    Lengths(Vec<Expr>),
    /// A function that returns the lengths, or a matrix whose row sums are the lengths.
    By(Ident),
}

/// A place of a type: `partial(..)` or `only(..)`.
#[derive(Clone, PartialEq, Debug)]
pub struct TypePlace {
    /// The form of the place.
    pub kind: TypePlaceKind,
    /// The source range.
    pub span: Span,
}

/// The forms of a place of a type.
#[derive(Clone, PartialEq, Debug)]
pub enum TypePlaceKind {
    /// `partial(sum@tp)`: the value is the reduction of the values of the devices.
    Partial {
        /// The reduction as written.
        op: Ident,
        /// The axes over which the values are reduced.
        axes: Vec<Ident>,
    },
    /// `only(0@tp)`: one coordinate holds the value.
    Only {
        /// The coordinate.
        rank: Expr,
        /// The axis of the coordinate.
        axis: Ident,
    },
}

/// A local program: `local program name over (x of tp) { groups parts }`.
#[derive(Clone, PartialEq, Debug)]
pub struct LocalDecl {
    /// The name.
    pub name: Ident,
    /// The declared variables.
    pub variables: Vec<TypeVariable>,
    /// The pairs of coordinate name and axis or size name.
    pub axes: Vec<(Ident, Ident)>,
    /// The `group` declarations.
    pub groups: Vec<GroupDecl>,
    /// The `ranks` parts.
    pub parts: Vec<RanksPart>,
    /// The whole item.
    pub span: Span,
    /// The text of its `///` lines.
    pub doc: String,
}

/// A group declaration: `group g = [0, 2]`.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupDecl {
    /// The name.
    pub name: Ident,
    /// The members.
    pub ranks: Vec<Expr>,
    /// The source range.
    pub span: Span,
}

/// A part of a local program: `ranks 0..2, 4..6 (args) -> results { .. }`.
#[derive(Clone, PartialEq, Debug)]
pub struct RanksPart {
    /// The ranks that execute the part.
    pub ranks: Vec<Range>,
    /// The arguments.
    pub args: Vec<Arg>,
    /// The result types.
    pub results: Vec<Type>,
    /// The body, which each of these ranks executes.
    pub body: Body,
    /// Stored results of another execution to compare with, one per result. May be empty.
    pub expect: Vec<Data>,
    /// The source range.
    pub span: Span,
}

//! Syntax tree of a `.kb` file: the items, and the nodes of the program half.
//!
//! Nodes of the algorithm half (expressions, functions, collectives, algorithms) are those of [`kbc_rounds::ast`]; the
//! grammar builds both directly. Every node carries its span. No semantics here: a data type is a name, a nested shape a call.

use kbc_diag::{Span, Spanned};
use kbc_rounds::ast::{AlgorithmDecl, BinaryOp, CollectiveDecl, Expr, FnDecl, Ident, Range};

/// A file: its items in the order written. Items that could not be read are absent; their message was given.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct File {
    /// The items.
    pub items: Vec<Item>,
}

/// An item of a file.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// `use "other.kb"`
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
    /// `collective c over (r of p) on v[n] { .. }`
    Collective(CollectiveDecl),
    /// `algorithm a: c over (r mod p) { .. }`
    Algorithm(AlgorithmDecl),
}

impl Item {
    /// The whole item.
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
            Item::Collective(i) => i.span,
            Item::Algorithm(i) => i.span,
        }
    }

    /// The name it declares; a `use` declares none.
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
            Item::Collective(i) => &i.name,
            Item::Algorithm(i) => &i.name,
        })
    }
}

/// `use "path"`, relative to the file it stands in.
#[derive(Clone, PartialEq, Debug)]
pub struct UseDecl {
    /// The path.
    pub path: Spanned<String>,
    /// Whole item.
    pub span: Span,
}

/// `param name = value`
#[derive(Clone, PartialEq, Debug)]
pub struct ParamDecl {
    /// Name.
    pub name: Ident,
    /// An integer or a number.
    pub value: Expr,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

/// `topology name = source`
#[derive(Clone, PartialEq, Debug)]
pub struct TopologyDecl {
    /// Name.
    pub name: Ident,
    /// A file or a generator.
    pub source: TopologySource,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

/// Where a topology comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum TopologySource {
    /// A machine file, relative to this one, with settings that win over its own.
    File(Spanned<String>, Vec<Setting>),
    /// A generator with settings.
    Shape(Shape, Vec<Setting>),
}

/// `torus(3, 2)`, `hierarchy(full(8), switch(4))`.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    /// The generator.
    pub name: Ident,
    /// Its arguments. A nested shape is a call here (`ExprKind::Call`) whose name is a generator's.
    pub parts: Vec<Expr>,
    /// Where it stands.
    pub span: Span,
}

/// `link: 50 GB/s, 500 ns`
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// Which.
    pub name: Ident,
    /// One or more.
    pub values: Vec<Spanned<SettingValue>>,
    /// Where it stands.
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

/// A number with a unit, in the base unit of what it measures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantity {
    /// How many base units.
    pub amount: f64,
    /// Of what.
    pub dimension: Dimension,
}

/// What a quantity measures; the name is the base unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the name is the unit")]
pub enum Dimension {
    Bytes,
    BytesPerSecond,
    Nanoseconds,
    FlopPerSecond,
}

/// `mesh name = topology[axes]`
#[derive(Clone, PartialEq, Debug)]
pub struct MeshDecl {
    /// Name.
    pub name: Ident,
    /// The topology whose devices it names.
    pub topology: Ident,
    /// Axes; one or more.
    pub axes: Vec<MeshAxis>,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

/// `tp` or `tp: 4`
#[derive(Clone, PartialEq, Debug)]
pub struct MeshAxis {
    /// Name.
    pub name: Ident,
    /// Size, where written.
    pub size: Option<Expr>,
}

/// `kernel name(params) = body`, elementwise.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelDecl {
    /// Name.
    pub name: Ident,
    /// Parameters: scalars.
    pub params: Vec<Ident>,
    /// A scalar expression.
    pub body: Expr,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

/// `kernel name(args) -> result { .. }`: a loop nest over tiles.
#[derive(Clone, PartialEq, Debug)]
pub struct TileKernelDecl {
    /// Name.
    pub name: Ident,
    /// Arguments.
    pub args: Vec<Arg>,
    /// Name and type of the result.
    pub result: (Ident, Type),
    /// Statements.
    pub body: Vec<TileStmt>,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

/// A statement of a tile kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct TileStmt {
    /// What it is.
    pub kind: TileStmtKind,
    /// Where it stands.
    pub span: Span,
}

/// Forms of a statement of a tile kernel.
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

/// `i in tiles(extent, tile)`
#[derive(Clone, PartialEq, Debug)]
pub struct TileLoop {
    /// Variable: the number of the tile.
    pub var: Ident,
    /// What is cut.
    pub extent: Expr,
    /// Into tiles of this many.
    pub tile: Expr,
}

/// An expression over tiles.
#[derive(Clone, PartialEq, Debug)]
pub struct TileExpr {
    /// What it is.
    pub kind: TileExprKind,
    /// Where it stands.
    pub span: Span,
}

/// Forms of an expression over tiles.
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
    /// `f(a, b)`: a cast, a scalar function or a kernel, element by element.
    Call(Ident, Vec<TileExpr>),
    /// `-e`
    Neg(Box<TileExpr>),
    /// `a op b`
    Binary(BinaryOp, Box<TileExpr>, Box<TileExpr>),
    /// `if c { a } else { b }`
    If(Box<TileExpr>, Box<TileExpr>, Box<TileExpr>),
}

/// `program name(args) -> results { .. } expect ..`
#[derive(Clone, PartialEq, Debug)]
pub struct ProgramDecl {
    /// Name.
    pub name: Ident,
    /// Arguments.
    pub args: Vec<Arg>,
    /// Result types; one or more.
    pub results: Vec<Type>,
    /// What it computes.
    pub body: Body,
    /// Stored results of another execution, one a result, where given.
    pub expect: Vec<Data>,
    /// From `program` to the end of the result types.
    pub head: Span,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

/// `name: type = data`
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// Name.
    pub name: Ident,
    /// Type.
    pub ty: Type,
    /// Where its value comes from.
    pub data: Option<Data>,
    /// Where it stands.
    pub span: Span,
}

/// `"file.npz":key` or `normal(7)`
#[derive(Clone, PartialEq, Debug)]
pub struct Data {
    /// What it is.
    pub kind: DataKind,
    /// Where it stands.
    pub span: Span,
}

/// Forms of data.
#[derive(Clone, PartialEq, Debug)]
pub enum DataKind {
    /// A file relative to this one, and the key of an array in it.
    File(Spanned<String>, Option<Ident>),
    /// A generator with its arguments.
    Generator(Ident, Vec<Expr>),
    /// A constant: the default of an argument that is no tensor, or a number in the place of one.
    Value(Expr),
}

/// `f32[25, 1536@tp] partial(sum@dp)`
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Name of the element type, or of the kind of an argument, as written.
    pub dtype: Ident,
    /// `..` before the dimensions: any number of others come first.
    pub any: bool,
    /// Dimensions; none for a scalar.
    pub dims: Vec<Dim>,
    /// What devices hold beside the splits.
    pub places: Vec<TypePlace>,
    /// Where it stands.
    pub span: Span,
}

/// `1536@tp`
#[derive(Clone, PartialEq, Debug)]
pub struct Dim {
    /// Size.
    pub size: Expr,
    /// How it is split.
    pub cut: Option<Cut>,
    /// Where it stands.
    pub span: Span,
}

/// `@tp`, `@tp(ceil)`, `@tp(3, 0, 5, 2)`, `@(cube, pe)`
#[derive(Clone, PartialEq, Debug)]
pub struct Cut {
    /// Axes, first one slowest.
    pub axes: Vec<Ident>,
    /// Into which parts.
    pub how: CutHow,
    /// Where it stands.
    pub span: Span,
}

/// The parts of a cut.
#[derive(Clone, PartialEq, Debug)]
pub enum CutHow {
    /// They differ by at most one.
    Even,
    /// `ceil(n / p)` elements and a shorter tail.
    Ceil,
    /// `(3, 0, 5, 2)`, lengths one by one, or `(rows)`, a function that gives them or the matrix whose rows add up to them.
    Lengths(Vec<Expr>),
}

/// `partial(..)` or `only(..)`
#[derive(Clone, PartialEq, Debug)]
pub struct TypePlace {
    /// What it is.
    pub kind: TypePlaceKind,
    /// Where it stands.
    pub span: Span,
}

/// Forms of a place of a type.
#[derive(Clone, PartialEq, Debug)]
pub enum TypePlaceKind {
    /// `partial(sum@tp)`: the value is the reduction of what the devices hold.
    Partial {
        /// The reduction as written.
        op: Ident,
        /// Over these axes.
        axes: Vec<Ident>,
    },
    /// `only(0@tp)`: one coordinate holds it.
    Only {
        /// The coordinate.
        rank: Expr,
        /// On this axis.
        axis: Ident,
    },
}

/// `{ let .. host read .. result }`
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    /// In the order written.
    pub statements: Vec<Statement>,
    /// The result; a tuple for several.
    pub result: Tensor,
    /// Where it stands.
    pub span: Span,
}

impl Body {
    /// Its lets, those of loops included.
    pub fn lets(&self) -> Vec<&Let> {
        fn collect<'a>(list: &'a [Statement], out: &mut Vec<&'a Let>) {
            for s in list {
                match s {
                    Statement::Let(l) => out.push(l),
                    Statement::Host(_) => {}
                    Statement::For(f) => collect(&f.body, out),
                }
            }
        }
        let mut out = vec![];
        collect(&self.statements, &mut out);
        out
    }
}

/// What stands before the result of a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// A value gets a name.
    Let(Let),
    /// Something the host does.
    Host(HostAct),
    /// A loop of the host.
    For(HostLoop),
}

/// `host read y, z`, `host wait y`, `host drain`, `host write x = e`
#[derive(Clone, PartialEq, Debug)]
pub struct HostAct {
    /// What it does.
    pub word: Ident,
    /// With these values.
    pub names: Vec<Ident>,
    /// What is written.
    pub value: Option<Tensor>,
    /// Where it stands.
    pub span: Span,
}

/// `for i in 0..3 { .. }`
#[derive(Clone, PartialEq, Debug)]
pub struct HostLoop {
    /// The variable.
    pub var: Ident,
    /// Its values.
    pub range: Range,
    /// Done for each.
    pub body: Vec<Statement>,
    /// Where it stands.
    pub span: Span,
}

/// `let (a, b): T = e`
#[derive(Clone, PartialEq, Debug)]
pub struct Let {
    /// One name, or those of a tuple.
    pub names: Vec<Ident>,
    /// Annotation.
    pub ty: Option<Type>,
    /// Value.
    pub value: Tensor,
    /// Where it stands.
    pub span: Span,
}

/// A tensor expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// What it is.
    pub kind: TensorKind,
    /// Where it stands.
    pub span: Span,
}

/// Forms of a tensor expression.
#[derive(Clone, PartialEq, Debug)]
pub enum TensorKind {
    /// A name: a value, or as an argument a word such as `sum`.
    Name(String),
    /// An integer.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// `(a, b)`: two or more.
    Tuple(Vec<Tensor>),
    /// `[S, 12, D / 12]`: a shape or a permutation; only as an argument.
    List(Vec<Expr>),
    /// `-e`
    Neg(Box<Tensor>),
    /// `a op b`: + - * / and comparisons.
    Binary(BinaryOp, Box<Tensor>, Box<Tensor>),
    /// `f(a, b, over: tp)`
    Call(Box<Call>),
    /// `if c { a } else { b }`, decided when the program is lowered.
    If(Box<Expr>, Box<Tensor>, Box<Tensor>),
    /// A fault that was already reported.
    Error,
}

/// A call: an operation, a collective, a cast, a kernel or a program.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// What is called.
    pub name: Ident,
    /// Arguments by position.
    pub args: Vec<Tensor>,
    /// Arguments by name.
    pub named: Vec<Named>,
}

/// `using: ring(pipeline: 4)`
#[derive(Clone, PartialEq, Debug)]
pub struct Named {
    /// Its name.
    pub name: Ident,
    /// Its value.
    pub value: OptionValue,
    /// Where it stands.
    pub span: Span,
}

/// The value of a named argument.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// A number, a name, a tuple of names, an expression.
    Expr(Expr),
    /// `ring(pipeline: 4)`; `ring` alone is a name.
    Use(Ident, Vec<(Ident, Expr)>),
    /// `[(0, 1), (1, 0)]`
    List(Vec<Expr>),
    /// `[[3, 0], [1, 2]]`, each row with its place.
    Rows(Vec<Spanned<Vec<Expr>>>),
}

/// `local program name over (x of tp) { groups parts }`
#[derive(Clone, PartialEq, Debug)]
pub struct LocalDecl {
    /// Name.
    pub name: Ident,
    /// Coordinate and axis or size names.
    pub axes: Vec<(Ident, Ident)>,
    /// `group` declarations.
    pub groups: Vec<GroupDecl>,
    /// `ranks` parts.
    pub parts: Vec<RanksPart>,
    /// Whole item.
    pub span: Span,
    /// `///` lines.
    pub doc: String,
}

/// `group g = [0, 2]`
#[derive(Clone, PartialEq, Debug)]
pub struct GroupDecl {
    /// Name.
    pub name: Ident,
    /// Members.
    pub ranks: Vec<Expr>,
    /// Where it stands.
    pub span: Span,
}

/// `ranks 0..2, 4..6 (args) -> results { .. }`
#[derive(Clone, PartialEq, Debug)]
pub struct RanksPart {
    /// Which ranks.
    pub ranks: Vec<Range>,
    /// Arguments.
    pub args: Vec<Arg>,
    /// Result types.
    pub results: Vec<Type>,
    /// What each of them computes.
    pub body: Body,
    /// Stored results of another execution, one a result, where given.
    pub expect: Vec<Data>,
    /// Where it stands.
    pub span: Span,
}

//! Syntax tree of a `.kb` file: the items, and the nodes of the program half of the language.
//!
//! Nodes of the algorithm half (expressions, functions, collectives, algorithms) are those of
//! [`kbc_rounds::ast`]. The grammar builds both directly. Every node carries its span. The tree has
//! no semantics: a data type is a name, and a nested shape is a call.

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

/// The body of a program: `{ let .. host read .. result }`. `return` may precede the result.
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    /// The statements, in source order.
    pub statements: Vec<Statement>,
    /// The result. It is a tuple if there are several.
    pub result: Tensor,
    /// The source range.
    pub span: Span,
}

impl Body {
    /// Returns all `let`s, including those inside loops and expressions.
    pub fn lets(&self) -> Vec<&Let> {
        fn collect<'a>(list: &'a [Statement], out: &mut Vec<&'a Let>) {
            for s in list {
                match s {
                    Statement::Let(l) => out.push(l),
                    Statement::Assign(_) | Statement::Host(_) => {}
                    Statement::For(f) => collect(&f.body, out),
                }
            }
        }
        let mut out = vec![];
        collect(&self.statements, &mut out);
        self.tensors().into_iter().for_each(|t| t.lets(&mut out));
        out
    }

    /// Returns all tensor expressions of the body in source order: the values of its statements,
    /// including those inside loops, and the result.
    pub fn tensors(&self) -> Vec<&Tensor> {
        fn collect<'a>(list: &'a [Statement], out: &mut Vec<&'a Tensor>) {
            for s in list {
                match s {
                    Statement::Let(l) => out.push(&l.value),
                    Statement::Assign(a) => out.push(&a.value),
                    Statement::Host(h) => out.extend(&h.value),
                    Statement::For(f) => collect(&f.body, out),
                }
            }
        }
        let mut out = vec![];
        collect(&self.statements, &mut out);
        out.push(&self.result);
        out
    }
}

/// A statement before the result of a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// A `let`, which names a value.
    Let(Let),
    /// An assignment, which gives a name another value.
    Assign(Assign),
    /// An action of the host.
    Host(HostAct),
    /// A loop.
    For(Loop),
}

/// An action of the host: `host read y, z`, `host wait y`, `host drain` or `host write x = e`.
#[derive(Clone, PartialEq, Debug)]
pub struct HostAct {
    /// The name of the action.
    pub word: Ident,
    /// The values that it names.
    pub names: Vec<Ident>,
    /// The value that is written.
    pub value: Option<Tensor>,
    /// The source range.
    pub span: Span,
}

/// An assignment in a loop: `x = e`.
#[derive(Clone, PartialEq, Debug)]
pub struct Assign {
    /// The name.
    pub name: Ident,
    /// The value that it gets.
    pub value: Tensor,
    /// The source range.
    pub span: Span,
}

/// A loop: `for i in 0..3 { .. }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    /// The loop variable.
    pub var: Ident,
    /// The range of its values.
    pub range: Range,
    /// The statements that are repeated.
    pub body: Vec<Statement>,
    /// The source range.
    pub span: Span,
}

/// A `let` statement: `let (a, b): T = e`.
#[derive(Clone, PartialEq, Debug)]
pub struct Let {
    /// One name, or the names of a tuple.
    pub names: Vec<Ident>,
    /// The type annotation.
    pub ty: Option<Type>,
    /// The value.
    pub value: Tensor,
    /// The source range.
    pub span: Span,
}

/// A tensor expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// The form of the expression.
    pub kind: TensorKind,
    /// The source range.
    pub span: Span,
}

impl Tensor {
    /// Returns the tensor expressions inside this one in source order. Readers that treat all forms
    /// alike use this function.
    pub fn parts(&self) -> Vec<&Tensor> {
        match &self.kind {
            TensorKind::Name(_)
            | TensorKind::Int(_)
            | TensorKind::Float(_)
            | TensorKind::List(_)
            | TensorKind::Index(..)
            | TensorKind::Error => vec![],
            TensorKind::Tuple(parts) => parts.iter().collect(),
            TensorKind::Neg(a) => vec![a],
            TensorKind::Binary(_, a, b) | TensorKind::If(_, a, b) => vec![a, b],
            TensorKind::Call(call) => call.args.iter().collect(),
            TensorKind::Block(lets, t) => lets.iter().map(|l| &l.value).chain([&**t]).collect(),
        }
    }

    /// Adds the `let`s of all blocks inside the expression to `out`.
    fn lets<'a>(&'a self, out: &mut Vec<&'a Let>) {
        if let TensorKind::Block(lets, _) = &self.kind {
            out.extend(lets);
        }
        self.parts().into_iter().for_each(|t| t.lets(out));
    }
}

/// The forms of a tensor expression.
#[derive(Clone, PartialEq, Debug)]
pub enum TensorKind {
    /// A name: a value, or, as an argument, a word such as `sum`.
    Name(String),
    /// An integer.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// `(a, b)`: a tuple of at least two.
    Tuple(Vec<Tensor>),
    /// `[S, 12, D / 12]`: a shape or a permutation. It occurs only as an argument.
    List(Vec<Expr>),
    /// `-e`
    Neg(Box<Tensor>),
    /// `a op b`, where `op` is one of + - * / or a comparison.
    Binary(BinaryOp, Box<Tensor>, Box<Tensor>),
    /// `f(a, b, over: tp)`
    Call(Box<Call>),
    /// `w[l, e]`: the entry of a value with these numbers along its first dimensions.
    Index(Ident, Vec<Expr>),
    /// `if c { a } else { b }`, which is decided when the program is lowered.
    If(Box<Expr>, Box<Tensor>, Box<Tensor>),
    /// `{ let a = x; e }`
    Block(Vec<Let>, Box<Tensor>),
    /// An error that was already reported.
    Error,
}

/// A call: an operation, a collective, a cast, a kernel or a program.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The name of the callee.
    pub name: Ident,
    /// The positional arguments.
    pub args: Vec<Tensor>,
    /// The named arguments.
    pub named: Vec<Named>,
}

/// A named argument such as `using: ring with (pipeline: 4)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Named {
    /// The name.
    pub name: Ident,
    /// The value.
    pub value: OptionValue,
    /// The source range.
    pub span: Span,
}

/// The value of a named argument.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// A number, a name, a tuple of names, or another expression.
    Expr(Expr),
    /// `ring(d: -1) with (pipeline: 4)`. A bare `ring` is a name.
    Use(Use),
    /// A list, such as `[(0, 1), (1, 0)]`.
    List(Vec<Expr>),
    /// `[[3, 0], [1, 2]]`, each row with its source range.
    Rows(Vec<Spanned<Vec<Expr>>>),
}

/// A use of an algorithm: `ring(d: -1) with (pipeline: 4)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Use {
    /// The algorithm.
    pub alg: Ident,
    /// The arguments of the algorithm.
    pub args: Vec<(Ident, Expr)>,
    /// The options of the use.
    pub options: Vec<(Ident, Expr)>,
    /// The source range.
    pub span: Span,
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

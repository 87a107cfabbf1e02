//! Text of tile kernels: one line with the operands and the result, and one line per statement
//! below it.
//!
//! ```text
//! tiles @gemm(a f16 2, b f16 2) -> c f16 2
//!   preload a
//!   for i 32, j 32
//!     zeros %acc f32[i, j]
//!     for k 64
//!       add %acc dot(load a[i, k], load b[k, j])
//!     store c[i, j] cast f16(%acc)
//! ```

use super::cursor::LineCursor;
use super::expr::no_function;
use super::labels::Labels;
use super::lex::{Label, LineNode, MAX_DEPTH, ParseResult};
use super::names::{Names, labels};
use super::types::dtype;
use super::words::quoted;
use crate::name::Name;
use crate::scalar::ScalarFn;
use crate::tiles::{Index, KernelTensor, Stmt, Tile, TileKernel, Var};
use kbc_diag::{Diagnostic, Span};

/// Printed names of a kernel's operands and result, variables and values.
struct Shown<'a> {
    kernel: &'a TileKernel,
    functions: &'a Labels,
    sides: Vec<String>,
    vars: Vec<String>,
    values: Vec<String>,
}

/// Prints the lines of a kernel.
pub(super) fn show(label: &str, k: &TileKernel, functions: &Labels) -> String {
    let s = Shown {
        kernel: k,
        functions,
        sides: labels(k.params.iter().chain([&k.result]).map(|s| &s.name)),
        vars: labels(k.vars.iter().map(|v| &v.name)),
        values: labels(&k.values),
    };
    let side = |(side, name): (&KernelTensor, &String)| format!("{name} {} {}", side.dtype, side.dims);
    let params: Vec<String> = k.params.iter().zip(&s.sides).map(side).collect();
    let result = s.sides.last().map(|name| side((&k.result, name))).unwrap_or_default();
    let mut out = format!("tiles @{label}({}) -> {result}", params.join(", "));
    s.body(&k.body, 1, &mut out);
    out
}

/// Returns the printed name of an id. An id without a declaration gets a name that no declaration
/// has.
fn called(names: &[String], id: u32) -> String {
    names.get(id as usize).cloned().unwrap_or_else(|| format!("`?{id}`"))
}

impl Shown<'_> {
    fn body(&self, list: &[Stmt], depth: usize, out: &mut String) {
        for s in list {
            out.push('\n');
            *out += &"  ".repeat(depth);
            match s {
                Stmt::Preload { params } => {
                    let names: Vec<String> = params.iter().map(|p| self.operand(*p)).collect();
                    *out += &format!("preload {}", names.join(", "));
                }
                Stmt::For { vars, body } => {
                    let one = |v: &u32| {
                        let tile = self.kernel.vars.get(*v as usize).map_or(0, |v| v.tile);
                        format!("{} {tile}", called(&self.vars, *v))
                    };
                    *out += &format!("for {}", vars.iter().map(one).collect::<Vec<_>>().join(", "));
                    self.body(body, depth + 1, out);
                }
                Stmt::Zeros { value, dtype, index } => {
                    *out += &format!("zeros %{} {dtype}{}", called(&self.values, *value), self.index(index));
                }
                Stmt::Let { value, is } => {
                    *out += &format!("let %{} {}", called(&self.values, *value), self.tile(is));
                }
                Stmt::Add { value, is } => {
                    *out += &format!("add %{} {}", called(&self.values, *value), self.tile(is));
                }
                Stmt::Store { index, is } => {
                    let to = self.sides.last().map_or("", String::as_str);
                    *out += &format!("store {to}{} {}", self.index(index), self.tile(is));
                }
            }
        }
    }

    fn operand(&self, param: u32) -> String {
        let inside = (param as usize) < self.kernel.params.len();
        if inside { called(&self.sides, param) } else { format!("`?{param}`") }
    }

    fn index(&self, index: &[Index]) -> String {
        let one = |i: &Index| match i {
            Index::Var(v) => called(&self.vars, *v),
            Index::At(n) => n.to_string(),
        };
        format!("[{}]", index.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    fn tile(&self, t: &Tile) -> String {
        match t {
            Tile::Load { param, index } => {
                format!("load {}{}", self.operand(*param), self.index(index))
            }
            Tile::Dot(a, b) => format!("dot({}, {})", self.tile(a), self.tile(b)),
            Tile::Value(v) => format!("%{}", called(&self.values, *v)),
            Tile::Map(f, args) => {
                let args: Vec<String> = args.iter().map(|a| self.tile(a)).collect();
                format!("map {}({})", self.functions.function(f), args.join(", "))
            }
            Tile::Cast(to, a) => format!("cast {to}({})", self.tile(a)),
        }
    }
}

/// Returns a placeholder for a kernel that could not be read.
pub(super) fn nothing(name: Name) -> TileKernel {
    let result = KernelTensor { name: quoted("").into(), dtype: crate::types::DType::F32, dims: 0 };
    TileKernel { name, params: vec![], result, vars: vec![], values: vec![], body: vec![] }
}

struct Reader<'f> {
    kernel: TileKernel,
    sides: Names,
    vars: Names,
    values: Names,
    functions: &'f mut dyn FnMut(&Label, Span) -> ParseResult<ScalarFn>,
    depth: usize,
    /// The first fault of a name or number.
    held: Option<Diagnostic>,
}

/// Reads a kernel: its line from the first operand on, and the lines below it.
pub(super) fn read(
    c: &mut LineCursor,
    name: &Name,
    kids: &[LineNode],
    functions: &mut dyn FnMut(&Label, Span) -> ParseResult<ScalarFn>,
) -> ParseResult<TileKernel> {
    let mut r = Reader {
        kernel: nothing(name.clone()),
        sides: Names::new("operand of the kernel", ""),
        vars: Names::new("variable", ""),
        values: Names::new("value", "%"),
        functions,
        depth: 0,
        held: None,
    };
    c.expect("(")?;
    let params = c.list(")", |c| r.side(c))?;
    c.expect("->")?;
    let result = r.side(c)?;
    c.end()?;
    for (i, (side, label, span)) in params.into_iter().chain([result]).enumerate() {
        c.defer(r.sides.declare(label, i, span), || ())?;
        r.kernel.params.push(side);
    }
    if let Some(result) = r.kernel.params.pop() {
        r.kernel.result = result;
    }
    r.kernel.body = r.body(kids)?;
    c.finish()?;
    r.held.map_or(Ok(r.kernel), Err)
}

impl Reader<'_> {
    fn side<'t>(&mut self, c: &mut LineCursor<'t>) -> ParseResult<(KernelTensor, &'t Label, Span)> {
        let span = c.here();
        let label = c.label("a name")?;
        let dtype = dtype(c)?;
        let dims = c.small("a number of dimensions")?;
        Ok((KernelTensor { name: Name::from(&label.hint), dtype, dims }, label, span))
    }

    fn body(&mut self, kids: &[LineNode]) -> ParseResult<Vec<Stmt>> {
        let mut out = vec![];
        for n in kids {
            match self.stmt(n) {
                Ok(stmt) => out.push(stmt),
                // A fault of form in a later line is reported before a fault of meaning in this
                // one.
                Err(d) if ["E312", "E313", "E316"].contains(&d.code) => {
                    self.held.get_or_insert(d);
                }
                Err(d) => return Err(d),
            }
        }
        Ok(out)
    }

    fn stmt(&mut self, n: &LineNode) -> ParseResult<Stmt> {
        self.depth = 0;
        let mut c = LineCursor::deferring(&n.toks, n.span);
        let span = c.here();
        let word = c.keyword("a statement")?;
        let nested = n.kids.first().filter(|_| word.as_str() != "for");
        if let Some(kid) = nested {
            return Err(Diagnostic::error("E314", "the line before cannot have nested lines")
                .primary(kid.span, "indented too far")
                .secondary(n.span, "below this line"));
        }
        let stmt = match word.as_str() {
            "for" => {
                let mut vars = vec![];
                loop {
                    let span = c.here();
                    let label = c.label("a variable")?;
                    let tile = c.int("the length of a tile")?;
                    vars.push(self.kernel.vars.len() as u32);
                    c.defer(self.vars.declare(label, self.kernel.vars.len(), span), || ())?;
                    self.kernel.vars.push(Var { name: Name::from(&label.hint), tile });
                    if !c.eat(",") {
                        break;
                    }
                }
                c.end()?;
                let body = self.body(&n.kids)?;
                c.finish()?;
                return Ok(Stmt::For { vars, body });
            }
            "preload" => {
                let mut params = vec![self.operand(&mut c)?];
                while c.eat(",") {
                    params.push(self.operand(&mut c)?);
                }
                Stmt::Preload { params }
            }
            "zeros" => {
                let value = self.value(&mut c)?;
                let dtype = dtype(&mut c)?;
                Stmt::Zeros { value, dtype, index: self.index(&mut c)? }
            }
            "let" => {
                // The value is declared after its expression, which must not refer to it.
                let at = c.here();
                let label = c.percent("`%` and a value")?;
                let is = self.tile(&mut c)?;
                Stmt::Let { value: self.declare(&mut c, label, at)?, is }
            }
            "add" => {
                let value = c.percent_of(&self.values, "`%` and a value")? as u32;
                Stmt::Add { value, is: self.tile(&mut c)? }
            }
            "store" => {
                let at = c.here();
                let label = c.label("the result")?;
                let found =
                    self.sides.find(label, at).and_then(|to| match to == self.kernel.params.len() {
                        true => Ok(()),
                        false => Err(Diagnostic::error("E312", "`store` can write only the result")
                            .primary(at, "here")),
                    });
                c.defer(found, || ())?;
                let index = self.index(&mut c)?;
                Stmt::Store { index, is: self.tile(&mut c)? }
            }
            word => {
                let valid = ["preload", "for", "zeros", "let", "add", "store"];
                return Err(super::names::unknown("E315", "statement", word, valid.into_iter(), span));
            }
        };
        c.finish()?;
        Ok(stmt)
    }

    fn operand(&self, c: &mut LineCursor) -> ParseResult<u32> {
        let at = c.here();
        let label = c.label("an operand")?;
        let found = self.sides.find(label, at).and_then(|param| match param < self.kernel.params.len() {
            true => Ok(param as u32),
            false => Err(Diagnostic::error("E312", "`load` cannot read the result").primary(at, "here")),
        });
        c.defer(found, || 0)
    }

    fn value(&mut self, c: &mut LineCursor) -> ParseResult<u32> {
        let at = c.here();
        let label = c.percent("`%` and a value")?;
        self.declare(c, label, at)
    }

    fn declare(&mut self, c: &mut LineCursor, label: &Label, at: Span) -> ParseResult<u32> {
        let number = self.kernel.values.len();
        c.defer(self.values.declare(label, number, at), || ())?;
        self.kernel.values.push(Name::from(&label.hint));
        Ok(number as u32)
    }

    fn index(&mut self, c: &mut LineCursor) -> ParseResult<Vec<Index>> {
        c.expect("[")?;
        c.list("]", |c| match c.peek() {
            Some(super::lex::TokenKind::Int(_)) => Ok(Index::At(c.int("an index")?)),
            _ => {
                let at = c.here();
                let label = c.label("a variable or an index")?;
                Ok(Index::Var(c.defer(self.vars.find(label, at), || 0)? as u32))
            }
        })
    }

    fn tile(&mut self, c: &mut LineCursor) -> ParseResult<Tile> {
        let span = c.here();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let d = Diagnostic::error("E316", format!("expressions nest at most {MAX_DEPTH} levels deep"));
            return Err(d.primary(span, "here"));
        }
        let tile = if let Some(super::lex::TokenKind::Percent(_)) = c.peek() {
            Tile::Value(c.percent_of(&self.values, "a value")? as u32)
        } else {
            let word = c.keyword("an expression over tiles")?;
            match word.as_str() {
                "load" => Tile::Load { param: self.operand(c)?, index: self.index(c)? },
                "dot" => {
                    c.expect("(")?;
                    let a = self.tile(c)?;
                    c.expect(",")?;
                    let b = self.tile(c)?;
                    c.expect(")")?;
                    Tile::Dot(Box::new(a), Box::new(b))
                }
                "map" => {
                    let at = c.here();
                    let label = c.label("a kernel")?;
                    let f = c.defer((self.functions)(label, at), || no_function(Name::from(&label.hint)))?;
                    c.expect("(")?;
                    Tile::Map(f, c.list(")", |c| self.tile(c))?)
                }
                "cast" => {
                    let to = dtype(c)?;
                    c.expect("(")?;
                    let a = self.tile(c)?;
                    c.expect(")")?;
                    Tile::Cast(to, Box::new(a))
                }
                word => {
                    let valid = ["load", "dot", "map", "cast"];
                    return Err(super::names::unknown("E315", "expression", word, valid.into_iter(), span));
                }
            }
        };
        self.depth -= 1;
        Ok(tile)
    }
}

//! Parser of kernels in their text form, `.tile`.
//!
//! The module owns the inverse of [`super::text::print`]. It uses the reader of `.kir`: lines,
//! names, expressions and error codes (E310 to E317) are the same. The parser rejects what a
//! [`Kernel`] cannot represent; the verifier decides whether a kernel is sound.

mod ops;
mod reader;

use super::text::VERSION;
use super::*;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::text::reader::{
    LineCursor, LineNode, ParseResult, atom, dtype, expr, head, keep, leaf, tree, unknown,
};
use kbc_ir::types::DType;
use ops::index;
use reader::Reader;
use std::collections::BTreeMap;

const DECLARATIONS: [&str; 9] =
    ["kernel", "scalar", "tensor", "table", "signals", "window", "scratch", "tile", "body"];

/// Parses a kernel.
///
/// # Errors
/// Returns the errors (E310 to E317) of all lines together, sorted by place.
pub fn parse(text: &str, file: FileId, dialect: &'static Dialect) -> Result<Kernel, Diagnostics> {
    let mut out = Diagnostics::new();
    if u32::try_from(text.len()).is_err() {
        return Err(Diagnostic::error("E316", "the text is larger than 4 GB").into());
    }
    let nodes = tree(file, text, &mut out);
    let mut reader = Reader::new(dialect, &mut out);
    reader.kernel(&nodes, Span::new(file, 0, 0));
    let kernel = reader.k;
    if out.has_errors() { Err(out.finish()) } else { Ok(kernel) }
}

impl Reader<'_> {
    fn kernel(&mut self, nodes: &[LineNode], start: Span) {
        let version = nodes.first().map(|n| (n, version(n)));
        match version {
            Some((n, Some(done))) => {
                leaf(n, self.out);
                keep(done, self.out);
            }
            other => {
                let title = format!("a text of the tile level must start with `tile {VERSION}`");
                let span = other.map_or(start, |(n, _)| n.span);
                return self
                    .out
                    .push(Diagnostic::error("E314", title).primary(span, "this is something else"));
            }
        }
        let mut last = start;
        let mut body = false;
        for n in nodes.get(1..).unwrap_or_default() {
            last = n.span;
            if body {
                self.out.push(
                    Diagnostic::error("E314", "lines after `body` must be indented")
                        .primary(n.span, "here")
                        .help("indent statements by two spaces; declarations come before `body`"),
                );
                return;
            }
            if head(n) == "body" {
                body = true;
                let mut c = LineCursor::new(&n.toks, n.span);
                c.skip();
                keep(c.finish(), self.out);
                self.k.body = self.statements(&n.kids);
            } else {
                leaf(n, self.out);
                let done = self.declaration(n);
                keep(done, self.out);
            }
        }
        let dialect = self.k.dialect;
        let kernel = format!("kernel @NAME {}|{}|tasks", dialect.vector_core, dialect.matrix_core);
        for (there, what) in [(self.named, kernel.as_str()), (body, "body")] {
            if !there {
                self.out.push(
                    Diagnostic::error("E314", format!("the line `{what}` is missing"))
                        .primary(last, "it must come before this line"),
                );
            }
        }
    }

    fn declaration(&mut self, n: &LineNode) -> ParseResult<()> {
        let mut c = LineCursor::new(&n.toks, n.span);
        let word = head(n);
        c.skip();
        let place = c.here();
        match word {
            "kernel" => {
                let name = c.at_word("`@` and the kernel's name")?;
                if std::mem::replace(&mut self.named, true) {
                    return Err(Diagnostic::error("E313", "there are two lines `kernel`")
                        .primary(n.span, "again here"));
                }
                self.k.name = name;
                let names = Core::ALL.map(|c| self.k.dialect.core(c));
                self.k.core = c.one_of("core", |w| self.k.dialect.find_core(w), &names)?;
                if c.eat_word("cores") {
                    self.k.cores = c.small("a number of cores")?;
                }
            }
            "scalar" => {
                let name = c.word("the scalar's name")?;
                if self.k.scalars.contains(&name) {
                    return Err(twice("scalar", &name, place));
                }
                if name == ROOT && c.eat_word("of") {
                    self.k.root = Some(c.small("the number of a rank")?);
                }
                self.k.scalars.push(name);
            }
            "tensor" => self.tensor(&mut c, place)?,
            "table" => self.table(&mut c)?,
            "signals" => self.signal_array(&mut c, place)?,
            "window" | "scratch" => self.area(&mut c, place, word == "window")?,
            "tile" => self.tile(&mut c, place)?,
            _ => {
                let text = if word.is_empty() { "this" } else { word };
                return Err(unknown("E315", "line starting with", text, DECLARATIONS.into_iter(), n.span));
            }
        }
        c.finish()
    }

    // A name is declared even if the rest of its line is wrong, so that its uses cause no further
    // errors.

    fn tensor(&mut self, c: &mut LineCursor, place: Span) -> ParseResult<()> {
        let label = c.percent("`%` and the tensor's name")?;
        self.tensors.declare(label, self.k.tensors.len(), place)?;
        let name = Name::from(&label.hint);
        let at = self.k.tensors.len();
        let none = Expr::Int(0);
        self.k.tensors.push(Tensor {
            name,
            dtype: DType::F32,
            len: none,
            access: TensorUse::In,
            index: 0,
            reach: Reach::Own,
        });
        c.expect(":")?;
        let dtype = dtype(c)?;
        c.expect("[")?;
        let len = expr(c)?;
        c.expect("]")?;
        let way = |w: &str| match w {
            "in" => Some(TensorUse::In),
            "out" => Some(TensorUse::Out),
            _ => None,
        };
        let access = c.one_of("use of a tensor", way, &["in", "out"])?;
        let index = c.small("the number of the input or result")?;
        let reach = if c.eat_word("window") { Reach::Peers } else { Reach::Own };
        let t = &mut self.k.tensors[at];
        (t.dtype, t.len, t.access, t.index, t.reach) = (dtype, len, access, index, reach);
        Ok(())
    }

    fn table(&mut self, c: &mut LineCursor) -> ParseResult<()> {
        let name = c.at_word("`@` and the table's name")?;
        let at = self.k.tables.iter().position(|t| t.name == name);
        let at = at.unwrap_or_else(|| {
            self.k.tables.push(Table { name: name.clone(), values: BTreeMap::new() });
            self.k.tables.len() - 1
        });
        if c.peek().is_none() {
            return Ok(());
        }
        c.expect_word("nranks")?;
        let place = c.here();
        let n = c.int("a number of ranks")?;
        c.expect("=")?;
        c.expect("[")?;
        let values = c.list("]", |c| {
            let span = c.here();
            let entry = atom(c)?.as_int();
            entry.ok_or_else(|| {
                Diagnostic::error("E311", "entries of a table must be integers")
                    .primary(span, "not an integer")
            })
        })?;
        if self.k.tables[at].values.insert(n, values).is_some() {
            return Err(twice("table", &format!("@{name} for {n} ranks"), place));
        }
        Ok(())
    }

    fn signal_array(&mut self, c: &mut LineCursor, place: Span) -> ParseResult<()> {
        let label = c.at_name("`@` and the array's name")?;
        self.signals.declare(label, self.k.signals.len(), place)?;
        let name = Name::from(&label.hint);
        let at = self.k.signals.len();
        self.k.signals.push(Signals { name, count: Expr::Int(0), per_call: Expr::Int(0), at: None });
        let count = index(c)?;
        c.expect_word("per")?;
        c.expect_word("call")?;
        let per_call = expr(c)?;
        let offset = offset(c)?;
        let s = &mut self.k.signals[at];
        (s.count, s.per_call, s.at) = (count, per_call, offset);
        Ok(())
    }

    fn area(&mut self, c: &mut LineCursor, place: Span, peers: bool) -> ParseResult<()> {
        let label = c.at_name("`@` and the area's name")?;
        self.areas.declare(label, self.k.areas.len(), place)?;
        let at = self.k.areas.len();
        self.k.areas.push(Area {
            name: Name::from(&label.hint),
            dtype: DType::F32,
            slots: Expr::Int(0),
            capacity: Expr::Int(0),
            reach: if peers { Reach::Peers } else { Reach::Own },
            arena: 0,
            at: None,
        });
        c.expect(":")?;
        let dtype = dtype(c)?;
        c.expect("[")?;
        let slots = expr(c)?;
        c.expect_word("x")?;
        let capacity = expr(c)?;
        c.expect("]")?;
        c.expect_word("arena")?;
        let arena = c.small("the number of the arena")?;
        let offset = offset(c)?;
        let a = &mut self.k.areas[at];
        (a.dtype, a.slots, a.capacity, a.arena, a.at) = (dtype, slots, capacity, arena, offset);
        Ok(())
    }

    fn tile(&mut self, c: &mut LineCursor, place: Span) -> ParseResult<()> {
        let label = c.dollar_name("`$` and the tile's name")?;
        self.tiles.declare(label, self.k.tiles.len(), place)?;
        let at = self.k.tiles.len();
        self.k.tiles.push(Tile {
            name: Name::from(&label.hint),
            dtype: DType::F32,
            space: Space::Vector,
            rows: 1,
            elements: 0,
            copies: 1,
            at: None,
        });
        c.expect(":")?;
        let dtype = dtype(c)?;
        c.expect("[")?;
        let mut elements = c.small("the number of elements")?;
        let (mut rows, mut space) = (1, Space::Vector);
        let block = c.eat_word("x");
        if block {
            rows = elements;
            elements = c.small("the elements of a row")?;
        }
        c.expect("]")?;
        if block {
            let dialect = self.k.dialect;
            let parse = |w: &str| dialect.find_space(w).filter(|s| *s != Space::Vector);
            let what = format!("memory of a {} core", dialect.matrix_word);
            space = c.one_of(&what, parse, &dialect.spaces[1..])?;
        }
        let copies = if c.eat_word("copies") { c.small("a number of copies")? } else { 1 };
        let address = if c.eat_word("at") { Some(c.small("the address")?) } else { None };
        let t = &mut self.k.tiles[at];
        (t.dtype, t.space, t.rows, t.elements, t.copies, t.at) =
            (dtype, space, rows, elements, copies, address);
        Ok(())
    }

    fn statements(&mut self, nodes: &[LineNode]) -> Vec<Stmt> {
        let mut list = vec![];
        // Whether the previous line is an `if`, even one that could not be parsed.
        let mut open = false;
        for n in nodes {
            let mut c = LineCursor::new(&n.toks, n.span);
            let word = head(n);
            if word == "else" {
                c.skip();
                keep(c.finish(), self.out);
                let kids = self.statements(&n.kids);
                match list.last_mut() {
                    Some(Stmt::If { other, .. }) if open => *other = kids,
                    _ if open => {}
                    _ => self.out.push(
                        Diagnostic::error("E314", "`else` must follow an `if`")
                            .primary(n.span, "no `if` directly before this line"),
                    ),
                }
                open = false;
                continue;
            }
            open = word == "if";
            let kids = match word {
                "for" | "if" | "tiles" | "turn" | "task" => self.statements(&n.kids),
                _ => {
                    leaf(n, self.out);
                    vec![]
                }
            };
            let st = self.statement(&mut c, n, kids).and_then(|s| c.finish().map(|()| s));
            list.extend(keep(st, self.out));
        }
        list
    }

    fn statement(&self, c: &mut LineCursor, n: &LineNode, kids: Vec<Stmt>) -> ParseResult<Stmt> {
        let word = head(n);
        c.skip();
        Ok(match word {
            "let" => {
                let name = c.word("a name")?;
                c.expect("=")?;
                Stmt::Let { name, value: expr(c)? }
            }
            "for" => {
                let var = c.word("a variable")?;
                c.expect_word("in")?;
                let lo = expr(c)?;
                c.expect("..")?;
                Stmt::For { var, lo, hi: expr(c)?, body: kids }
            }
            "if" => Stmt::If { cond: expr(c)?, then: kids, other: vec![] },
            "tiles" => {
                let pos = c.word("the name of the first element")?;
                c.expect(",")?;
                let len = c.word("the name of the length")?;
                c.expect_word("in")?;
                let total = expr(c)?;
                c.expect_word("by")?;
                let step = c.small("the elements of a tile")?;
                let rows = match c.eat_word("rows") {
                    true => {
                        let first = c.word("the name of the first row")?;
                        c.expect(",")?;
                        let count = c.word("the name of the number of rows")?;
                        c.expect_word("of")?;
                        Some(TileRows { first, count, elements: c.small("the elements of a row")? })
                    }
                    false => None,
                };
                Stmt::Tiles { pos, len, total, step, twice: c.eat_word("twice"), rows, body: kids }
            }
            "turn" => {
                let mut tiles = vec![self.tile_of(c)?];
                while c.eat(",") {
                    tiles.push(self.tile_of(c)?);
                }
                c.expect_word("by")?;
                Stmt::Turn { tiles, by: expr(c)?, body: kids }
            }
            "task" => {
                let name = c.word("the task's name")?;
                let dialect = self.k.dialect;
                let parse = |w: &str| dialect.find_core(w).filter(|c| *c != Core::Tasks);
                let valid = [dialect.vector_core, dialect.matrix_core];
                let core = c.one_of("core", parse, &valid)?;
                let cores = if c.eat_word("cores") { c.small("a number of cores")? } else { 1 };
                Stmt::Task { name, core, cores, body: kids }
            }
            "from" => {
                let place = c.string("a place in quotes")?;
                Stmt::Note { place, text: c.string("an operation in quotes")? }
            }
            _ => Stmt::Op(self.operation(c, word, n.span)?),
        })
    }
}

/// Parses `tile VERSION`. Returns `None` for any other line, and an error inside if the rest of the
/// line is wrong.
fn version(n: &LineNode) -> Option<ParseResult<()>> {
    let mut c = LineCursor::new(&n.toks, n.span);
    if !c.eat_word("tile") {
        return None;
    }
    let span = c.here();
    let version = match c.int("the version of the format") {
        Ok(v) => v,
        Err(d) => return Some(Err(d)),
    };
    if version != VERSION {
        return Some(Err(Diagnostic::error(
            "E317",
            format!("unsupported version {version} of the tile level"),
        )
        .primary(span, format!("this kbc reads and writes version {VERSION}"))));
    }
    Some(c.finish())
}

fn twice(what: &str, name: &str, span: Span) -> Diagnostic {
    Diagnostic::error("E313", format!("{what} {name} is declared twice")).primary(span, "again here")
}

/// Parses `at EXPR`, if present.
fn offset(c: &mut LineCursor) -> ParseResult<Option<Expr>> {
    if c.eat_word("at") { expr(c).map(Some) } else { Ok(None) }
}

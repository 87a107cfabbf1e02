//! Kernels of a module: elementwise functions and loop nests over tiles. Each is printed as a line
//! before the body, a loop nest with further lines below it.
//!
//! The module collects the kernels that a module uses, and tracks which declared kernels are used.

use super::cursor::LineCursor;
use super::expr::{self, no_function};
use super::labels::Labels;
use super::lex::{Label, LineNode, ParseResult};
use super::names::Names;
use super::tiles;
use crate::name::Name;
use crate::scalar::ScalarFn;
use crate::tiles::TileKernel;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use std::sync::Arc;

/// A kernel to which an operation refers.
#[derive(Clone, Copy)]
pub(super) enum Used<'a> {
    Function(&'a ScalarFn),
    Tiles(&'a TileKernel),
}

/// Kernels of a module in order of first use, each with its label in the text.
pub(super) struct Kernels {
    functions: Labels,
    tiles: Labels,
}

impl Kernels {
    pub(super) fn new<'a>(uses: impl Iterator<Item = Used<'a>>) -> Kernels {
        let (mut functions, mut nests) = (vec![], vec![]);
        for u in uses {
            match u {
                Used::Function(f) => functions.push(f),
                Used::Tiles(k) => {
                    functions.extend(k.functions());
                    nests.push(k);
                }
            }
        }
        let functions = Labels::new(&functions, |f: &ScalarFn| &f.name, expr::show_kernel);
        let tiles = Labels::new(&nests, |k: &TileKernel| &k.name, |l, k| tiles::show(l, k, &functions));
        Kernels { functions, tiles }
    }

    pub(super) fn label(&self, f: &ScalarFn) -> &str {
        self.functions.function(f)
    }

    pub(super) fn tiles_label(&self, k: &TileKernel) -> &str {
        self.tiles.find(&(k.name.clone(), tiles::show("", k, &self.functions)))
    }

    pub(super) fn write(&self, out: &mut String) {
        for l in self.functions.lines.iter().chain(&self.tiles.lines) {
            out.push_str(l);
            out.push('\n');
        }
    }
}

/// Declared kernels by name, with a record of which of them are used.
pub(super) struct KernelTable {
    functions: Table<ScalarFn>,
    tiles: Table<Arc<TileKernel>>,
}

struct Table<T> {
    names: Names,
    /// Each kernel with its name for diagnostics, its location, and whether it is used or could not
    /// be read.
    list: Vec<(T, String, Span, bool)>,
}

impl<T: Clone> Table<T> {
    fn new() -> Self {
        Table { names: Names::new("kernel", ""), list: vec![] }
    }

    fn use_of(&mut self, label: &Label, span: Span) -> ParseResult<T> {
        let entry = &mut self.list[self.names.find(label, span)?];
        entry.3 = true;
        Ok(entry.0.clone())
    }

    /// Declares a kernel. If it could not be read, `instead` takes its place, so that its uses
    /// cause no further errors.
    fn put(
        &mut self,
        (label, at): (&Label, Span),
        span: Span,
        read: ParseResult<T>,
        instead: T,
    ) -> ParseResult<()> {
        if let Err(twice) = self.names.declare(label, self.list.len(), at) {
            // A fault of the kernel itself is reported first.
            return Err(read.err().unwrap_or(twice));
        }
        let bad = read.is_err();
        let (kernel, fault) = match read {
            Ok(k) => (k, None),
            Err(d) => (instead, Some(d)),
        };
        self.list.push((kernel, label.hint.clone(), span, bad));
        fault.map_or(Ok(()), Err)
    }

    fn unused(&self, out: &mut Diagnostics) {
        for (_, name, span, _) in self.list.iter().filter(|k| !k.3) {
            out.push(
                Diagnostic::error("E318", format!("kernel @{name} is never used"))
                    .primary(*span, "declared here")
                    .help("remove it: a module contains only kernels that its operations use"),
            );
        }
    }
}

impl KernelTable {
    pub(super) fn new() -> Self {
        KernelTable { functions: Table::new(), tiles: Table::new() }
    }

    /// Reads the name of an elementwise function.
    pub(super) fn function(&mut self, c: &mut LineCursor) -> ParseResult<ScalarFn> {
        let span = c.here();
        let label = c.label("a kernel")?;
        c.defer(self.functions.use_of(label, span), || no_function(Name::from(&label.hint)))
    }

    /// Reads the name of a kernel over tiles.
    pub(super) fn nest(&mut self, c: &mut LineCursor) -> ParseResult<Arc<TileKernel>> {
        let span = c.here();
        let label = c.label("a kernel")?;
        c.defer(self.tiles.use_of(label, span), || Arc::new(tiles::nothing(Name::from(&label.hint))))
    }

    /// Reads `kernel @gelu(x) = ..`.
    pub(super) fn read(&mut self, n: &LineNode) -> ParseResult<()> {
        let mut c = LineCursor::deferring(&n.toks, n.span);
        c.skip();
        let at = c.here();
        let label = c.at_name("`@` and the function's name")?;
        let name = Name::from(&label.hint);
        let instead = no_function(name.clone());
        let read = expr::kernel(&mut c, name).and_then(|f| c.finish().map(|()| f));
        self.functions.put((label, at), n.span, read, instead)
    }

    /// Reads `tiles @gemm(..) -> ..` with the statements below it.
    pub(super) fn read_tiles(&mut self, n: &LineNode) -> ParseResult<()> {
        let mut c = LineCursor::deferring(&n.toks, n.span);
        c.skip();
        let at = c.here();
        let label = c.at_name("`@` and the kernel's name")?;
        let name = Name::from(&label.hint);
        let functions = &mut self.functions;
        let mut use_of = |label: &Label, span| functions.use_of(label, span);
        let read = tiles::read(&mut c, &name, &n.kids, &mut use_of);
        self.tiles.put((label, at), n.span, read.map(Arc::new), Arc::new(tiles::nothing(name)))
    }

    pub(super) fn unused(&self, out: &mut Diagnostics) {
        self.functions.unused(out);
        self.tiles.unused(out);
    }
}

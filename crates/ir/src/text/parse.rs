//! Parsing of modules: reads the head of the text and selects the parser for the level of the body.

use super::cursor::LineCursor;
use super::kernels::KernelTable;
use super::lex::{LineNode, ParseResult, Token, TokenKind, tree};
use super::lines::{head, keep, leaf};
use super::names::unknown;
use super::{VERSION, attributes, parse_graph, parse_schedule, types};
use crate::attributes::Attributes;
use crate::module::{Body, Module, Props};
use crate::name::Name;
use crate::types::Mesh;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};

/// Reads a module.
///
/// # Errors
/// Returns the errors (E310 to E318) of all lines together, sorted by location.
pub fn parse(file: FileId, text: &str) -> Result<Module, Diagnostics> {
    let mut out = Diagnostics::new();
    if u32::try_from(text.len()).is_err() {
        return Err(Diagnostic::error("E316", "the text is larger than 4 GB").into());
    }
    let mut nodes = tree(file, text, &mut out);
    if let Some(other) = nodes.first().and_then(other_version) {
        return Err(other.into());
    }
    if let Some(first) = nodes.first().filter(|n| matches!(n.toks[0].tok, TokenKind::Attribute(_))) {
        out.push(no_version(first.span));
    }
    let taken = attributes::take(&mut nodes, &mut out);
    // What is left of a line of the module's attributes is nothing.
    nodes.retain(|n| !n.toks.is_empty());
    let module = module(&nodes, &mut out);
    match module {
        Some(mut m) if !out.has_errors() => {
            attributes::give(&mut m, taken);
            Ok(m)
        }
        _ => {
            if out.is_empty() {
                out.push(
                    Diagnostic::error("E314", "the text contains no module")
                        .primary(Span::new(file, 0, 0), "here"),
                );
            }
            Err(out.finish())
        }
    }
}

fn no_version(first: Span) -> Diagnostic {
    Diagnostic::error("E314", format!("a .kir text must start with `kir {VERSION}`"))
        .primary(first, "this is something else")
}

/// Returns an error if the first line states another version. Then nothing else of the text is
/// judged, because its words may mean something else.
fn other_version(first: &LineNode) -> Option<Diagnostic> {
    match &first.toks[..] {
        [_, Token { tok: TokenKind::Int(version), span }, ..]
            if head(first) == "kir" && *version != VERSION =>
        {
            Some(
                Diagnostic::error("E317", format!("unsupported version {version} of .kir"))
                    .primary(*span, format!("this kbc reads and writes version {VERSION}")),
            )
        }
        _ => None,
    }
}

#[derive(Default)]
struct Head {
    name: Option<Name>,
    machine: Option<String>,
    mesh: Option<Mesh>,
    props: Option<Props>,
}

const HEADS: [&str; 7] = ["kir", "module", "machine", "mesh", "props", "kernel", "tiles"];

fn module(nodes: &[LineNode], out: &mut Diagnostics) -> Option<Module> {
    let first = nodes.first()?;
    if head(first) != "kir" {
        out.push(no_version(first.span));
    }
    let mut h = Head::default();
    let mut kernels = KernelTable::new();
    let at = nodes.iter().position(|n| matches!(head(n), "graph" | "local" | "schedule"));
    for n in &nodes[..at.unwrap_or(nodes.len())] {
        if head(n) != "tiles" {
            leaf(n, out);
        }
        let done = match head(n) {
            "kernel" => kernels.read(n),
            "tiles" => kernels.read_tiles(n),
            _ => h.read(n),
        };
        keep(done, out);
    }
    let last = nodes.last().map_or(Span::NONE, |n| n.span);
    let missing = |what: &str| {
        Diagnostic::error("E314", format!("the line `{what}` is missing"))
            .primary(last, "it must come before this line")
    };
    if h.name.is_none() {
        out.push(missing("module @NAME"));
    }
    if h.mesh.is_none() {
        out.push(missing("mesh AXIS SIZE, .."));
    }
    let Some(at) = at else {
        out.push(
            missing("graph")
                .help("write `graph`, `local` or `schedule calls ..`, which states the level of the module"),
        );
        return None;
    };
    let name = h.name.unwrap_or_else(|| Name::from(""));
    let mesh = h.mesh.unwrap_or_default();
    let rest = &nodes[at..];
    let body = match head(&nodes[at]) {
        "graph" => Body::Graph(parse_graph::graph(rest, &mut kernels, out)),
        "local" => Body::Local(parse_graph::local(rest, &mut kernels, out)),
        _ => Body::Schedule(parse_schedule::schedule(rest, &name, &mesh, &mut kernels, out)),
    };
    kernels.unused(out);
    let props = h.props.unwrap_or_default();
    Some(Module { name, machine: h.machine, mesh, body, props, attributes: Attributes::default() })
}

impl Head {
    fn read(&mut self, n: &LineNode) -> ParseResult<()> {
        let mut c = LineCursor::deferring(&n.toks, n.span);
        let word = head(n);
        c.skip();
        let taken = match word {
            "kir" => {
                if let Some(other) = other_version(n) {
                    return Err(other);
                }
                c.int("the version of the format")?;
                false
            }
            "module" => self.name.replace(c.at_word("`@` and the module's name")?).is_some(),
            "machine" => self.machine.replace(c.string("the machine as text")?).is_some(),
            "mesh" => self.mesh.replace(types::mesh(&mut c)?).is_some(),
            "props" => self.props.replace(props(&mut c)?).is_some(),
            _ => {
                let text = if word.is_empty() { "this" } else { word };
                let valid = HEADS.into_iter().chain(["graph", "local", "schedule"]);
                return Err(unknown("E315", "line starting with", text, valid, n.span));
            }
        };
        c.finish()?;
        if taken {
            return Err(Diagnostic::error("E313", format!("there are two lines `{word}`"))
                .primary(n.span, "again here"));
        }
        Ok(())
    }
}

fn props(c: &mut LineCursor) -> ParseResult<Props> {
    let names = Props::NAMES.map(|(n, _)| n);
    let mut out = Props::NONE;
    while c.peek().is_some() {
        let find = |s: &str| Props::NAMES.into_iter().find(|(n, _)| *n == s).map(|(_, p)| p);
        out = out.with(c.one_of("property", find, &names)?);
    }
    Ok(out)
}

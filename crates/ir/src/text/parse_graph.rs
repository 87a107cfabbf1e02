//! Parser of the body of a `.kir` text at graph level: graphs, and the parts of local programs.

use super::cursor::LineCursor;
use super::expr::atom;
use super::kernels::KernelTable;
use super::lex::{Label, LineNode, ParseResult, TokenKind};
use super::lines::{head, keep, leaf};
use super::names::{Names, replaced, unknown};
use super::parse_schedule::spelled_contract;
use super::types::{combiner, data, dtype, index_word, rows, runs, tensor_type};
use crate::contract::Contract;
use crate::fill::{Fill, FillContent};
use crate::graph::{
    CollKind, Collective, ContractCollective, Expect, Graph, GraphOp, HostOp, Input, OpId, OpKind, Using,
    UsingArg,
};
use crate::local::{Local, LocalPart};
use crate::name::Name;
use crate::optable::{Level, names};
use crate::shape::ShapeOp;
use kbc_diag::{Diagnostic, Diagnostics, Span};

/// Words of older texts, each with the one that replaced it.
const REPLACED: [(&str, &str); 2] = [("extract", "slice"), ("wait", "wait.result")];

/// Most operands of an operation: a position is stored in one byte.
const MAX_OPERANDS: usize = 255;

/// Reads a graph; `nodes` starts with its `graph` line.
pub(super) fn graph(nodes: &[LineNode], kernels: &mut KernelTable, out: &mut Diagnostics) -> Graph {
    let name = nodes.first().and_then(|n| header(n, out));
    let mut g = lines(nodes.get(1..).unwrap_or_default(), kernels, out);
    g.name = name;
    g
}

/// Reads the header: `graph @NAME` or `local @NAME`.
fn header(n: &LineNode, out: &mut Diagnostics) -> Option<Name> {
    leaf(n, out);
    let mut c = LineCursor::deferring(&n.toks, n.span);
    c.skip();
    let name = if c.peek().is_some() { keep(c.at_word("`@` and the program's name"), out) } else { None };
    keep(c.finish(), out);
    name
}

/// Reads a local program; `nodes` starts with its `local` line.
pub(super) fn local(nodes: &[LineNode], kernels: &mut KernelTable, out: &mut Diagnostics) -> Local {
    let mut l = Local { name: nodes.first().and_then(|n| header(n, out)), parts: vec![] };
    for n in nodes.get(1..).unwrap_or_default() {
        if head(n) != "ranks" {
            let text = if head(n).is_empty() { "this" } else { head(n) };
            out.push(unknown("E315", "line starting with", text, ["ranks"].into_iter(), n.span));
            continue;
        }
        let (ranks, span) = keep(part(n), out).unwrap_or((vec![], n.span));
        l.parts.push(LocalPart { ranks, graph: lines(&n.kids, kernels, out), span });
    }
    l
}

/// Reads the ranks of a part: `ranks 0..2, 5..6`.
fn part(n: &LineNode) -> ParseResult<(Vec<u64>, Span)> {
    let mut c = LineCursor::deferring(&n.toks, n.span);
    c.skip();
    let mut ranks = vec![];
    loop {
        let span = c.here();
        let from = c.int("the first rank")?;
        c.expect("..")?;
        let to = c.int("the end of the ranks")?;
        if to.saturating_sub(from) > MAX_RANKS {
            let many = Diagnostic::error("E316", format!("a part has more than {MAX_RANKS} ranks"));
            c.defer(Err(many.primary(span, "here")), || ())?;
        } else {
            ranks.extend(from..to);
        }
        if !c.eat(",") {
            break;
        }
    }
    let span = c.location(n.span);
    c.finish()?;
    Ok((ranks, span))
}

/// Most ranks that a part lists.
const MAX_RANKS: u64 = 1 << 24;

/// Reads the lines of a graph.
fn lines(nodes: &[LineNode], kernels: &mut KernelTable, out: &mut Diagnostics) -> Graph {
    let mut g = Graph::default();
    let mut inputs = Names::new("input", "@");
    let mut values = Names::new("value", "%");
    let mut lines: Vec<(&LineNode, &Label)> = vec![];
    for n in nodes {
        if !is_own(n) {
            leaf(n, out);
        }
        if let Some(TokenKind::Percent(label)) = n.toks.first().map(|t| &t.tok) {
            keep(values.declare(label, lines.len(), n.toks[0].span), out);
            lines.push((n, label));
        } else {
            keep(declaration(n, &mut g, &mut inputs), out);
        }
    }
    // All values are declared first, so that the verifier reports a wrong order.
    let mut scope = Scope { inputs, values, kernels };
    let mut operands: Vec<Vec<usize>> = vec![];
    for (n, label) in lines {
        let mut args = vec![];
        let mut op = keep(operation(n, label, &mut scope, &mut args), out);
        let spelled = if is_own(n) { promised(n, out) } else { None };
        if let (
            Some((contract, ranks)),
            Some(GraphOp { kind: OpKind::Collective(Collective { own: Some(own), .. }), .. }),
        ) = (spelled, &mut op)
        {
            (own.contract, own.ranks) = (Some(contract), ranks);
        }
        let fallback = GraphOp {
            kind: OpKind::Demand,
            name: Name::from(&label.hint),
            ty: None,
            want: None,
            span: n.span,
        };
        g.push(op.unwrap_or(fallback), &[]);
        operands.push(args);
    }
    let ids: Vec<OpId> = g.order().to_vec();
    for (user, args) in ids.iter().zip(operands) {
        for (i, a) in args.into_iter().enumerate() {
            if let (Ok(i), Some(value)) = (u8::try_from(i), ids.get(a)) {
                g.set_operand(*user, i, *value);
            }
        }
    }
    g
}

/// Reads the contract below a user-defined collective, with its number of ranks.
fn promised(n: &LineNode, out: &mut Diagnostics) -> Option<(Contract, u64)> {
    let kid = n.kids.first()?;
    if let Some(more) = n.kids.get(1) {
        out.push(
            Diagnostic::error("E314", "a collective can have only one contract")
                .primary(more.span, "this one is too many"),
        );
    }
    if head(kid) != "promise" {
        let text = if head(kid).is_empty() { "this" } else { head(kid) };
        out.push(unknown("E315", "line of a collective", text, ["promise"].into_iter(), kid.span));
        return None;
    }
    spelled_contract(kid, out)
}

/// Checks whether a line is a user-defined collective, which may have its contract below it.
fn is_own(n: &LineNode) -> bool {
    matches!(n.toks.get(2).map(|t| &t.tok), Some(TokenKind::Word(l, false)) if &*l.hint == "own" && l.nth == 0)
}

struct Scope<'a> {
    inputs: Names,
    values: Names,
    kernels: &'a mut KernelTable,
}

fn declaration(n: &LineNode, g: &mut Graph, inputs: &mut Names) -> ParseResult<()> {
    let mut c = LineCursor::deferring(&n.toks, n.span);
    let word = head(n);
    c.skip();
    match word {
        "input" => {
            let span = c.here();
            let label = c.at_name("`@` and the input's name")?;
            c.defer(inputs.declare(label, g.inputs.len(), span), || ())?;
            c.expect(":")?;
            let ty = tensor_type(&mut c)?;
            let data = if c.eat_word("data") { Some(data(&mut c)?) } else { None };
            let span = c.location(n.span);
            g.inputs.push(Input { name: Name::from(&label.hint), ty, data, span });
        }
        "result" => {
            c.expect(":")?;
            g.results.push(tensor_type(&mut c)?);
        }
        "expect" => {
            if g.expect.is_some() {
                let twice = Diagnostic::error("E313", "there are two `expect`").primary(n.span, "again here");
                c.defer(Err(twice), || ())?;
            }
            let mut list = vec![];
            while c.peek().is_some() {
                if !list.is_empty() {
                    c.expect(",")?;
                }
                list.push(data(&mut c)?);
            }
            g.expect = Some(Expect { data: list });
        }
        _ => {
            let text = if word.is_empty() { "this" } else { word };
            let valid = ["input", "result", "expect"].into_iter();
            return Err(unknown("E315", "line starting with", text, valid, n.span)
                .note("an operation starts with the name of its value: `%y = ..`"));
        }
    }
    c.finish()
}

/// Reads `%a, %b`, possibly no operand.
fn operands(c: &mut LineCursor, scope: &Scope, out: &mut Vec<usize>) -> ParseResult<()> {
    while let Some(TokenKind::Percent(_)) = c.peek() {
        if out.len() == MAX_OPERANDS {
            return Err(Diagnostic::error(
                "E316",
                format!("an operation can have at most {MAX_OPERANDS} operands"),
            )
            .primary(c.here(), "this one is too many"));
        }
        out.push(c.percent_of(&scope.values, "a value")?);
        if !c.eat(",") {
            break;
        }
        if !matches!(c.peek(), Some(TokenKind::Percent(_))) {
            return Err(c.expected("`%` and a value"));
        }
    }
    Ok(())
}

fn operation(n: &LineNode, label: &Label, scope: &mut Scope, args: &mut Vec<usize>) -> ParseResult<GraphOp> {
    let mut c = LineCursor::deferring(&n.toks, n.span);
    c.skip();
    c.expect("=")?;
    let span = c.here();
    let word = c.keyword("an operation")?;
    let kind = match word.as_str() {
        "input" => {
            let at = if let Some(TokenKind::Int(_)) = c.peek() {
                c.small("the number of the input")?
            } else {
                c.at_of(&scope.inputs, "`@` and an input")?
            };
            operands(&mut c, scope, args)?;
            OpKind::Input(at)
        }
        "matmul" => {
            operands(&mut c, scope, args)?;
            let accumulate_f32 = c.eat_word("accumulate");
            if accumulate_f32 {
                c.expect_word("f32")?;
            }
            OpKind::Matmul { accumulate_f32 }
        }
        "map" => {
            let f = scope.kernels.function(&mut c)?;
            c.expect("(")?;
            operands(&mut c, scope, args)?;
            c.expect(")")?;
            OpKind::Map(f)
        }
        "tiles" => {
            let k = scope.kernels.nest(&mut c)?;
            c.expect("(")?;
            operands(&mut c, scope, args)?;
            c.expect(")")?;
            OpKind::Tiles(k)
        }
        "reduce_dim" => {
            let op = combiner(&mut c)?;
            operands(&mut c, scope, args)?;
            c.expect_word("dim")?;
            let dim = c.small("a dimension")?;
            let mean = c.eat_word("mean");
            OpKind::ReduceDim { op, mean, dim, keep: c.eat_word("keep") }
        }
        "cast" => {
            let d = dtype(&mut c)?;
            operands(&mut c, scope, args)?;
            OpKind::Cast(d)
        }
        "embedding" => {
            operands(&mut c, scope, args)?;
            OpKind::Embedding
        }
        "grouped" => {
            operands(&mut c, scope, args)?;
            c.expect_word("runs")?;
            OpKind::Grouped(runs(&mut c)?)
        }
        "fill" => {
            let dtype = dtype(&mut c)?;
            let sizes = if c.eat("[") { c.list("]", |c| c.int("a size"))? } else { vec![] };
            let with = match c.eat_word("number") {
                true => FillContent::Number(c.number("a number")?),
                false => {
                    index_word(&mut c)?;
                    c.expect_word("dim")?;
                    FillContent::Place(c.small("a dimension")?)
                }
            };
            OpKind::Fill(Fill { dtype, sizes, with })
        }
        "transpose" => {
            operands(&mut c, scope, args)?;
            c.expect_word("perm")?;
            c.expect("[")?;
            OpKind::Shape(ShapeOp::Transpose(c.list("]", |c| c.small("a dimension"))?))
        }
        "reshape" => {
            operands(&mut c, scope, args)?;
            c.expect_word("to")?;
            c.expect("[")?;
            OpKind::Shape(ShapeOp::Reshape(c.list("]", |c| c.int("a size"))?))
        }
        "slice" => {
            operands(&mut c, scope, args)?;
            if c.is_word("over") {
                return Err(replaced("slice %a over AXIS", "keep_part %a over AXIS", span));
            }
            c.expect_word("dim")?;
            let dim = c.small("a dimension")?;
            c.expect_word("from")?;
            let from = c.int("the first element")?;
            c.expect_word("to")?;
            OpKind::Shape(ShapeOp::Slice { dim, from, to: c.int("the end")? })
        }
        "entry" => {
            operands(&mut c, scope, args)?;
            c.expect_word("at")?;
            OpKind::Shape(ShapeOp::Entry(c.int("the number of an entry")?))
        }
        "pad" => {
            operands(&mut c, scope, args)?;
            c.expect_word("dim")?;
            let dim = c.small("a dimension")?;
            c.expect_word("before")?;
            let before = c.int("a number of elements")?;
            c.expect_word("after")?;
            let after = c.int("a number of elements")?;
            c.expect_word("number")?;
            OpKind::Shape(ShapeOp::Pad { dim, before, after, value: c.number("a number")? })
        }
        "concat" => {
            operands(&mut c, scope, args)?;
            c.expect_word("dim")?;
            OpKind::Shape(ShapeOp::Concat { dim: c.small("a dimension")? })
        }
        "demand" => {
            operands(&mut c, scope, args)?;
            OpKind::Demand
        }
        "ask" => {
            operands(&mut c, scope, args)?;
            c.expect_word("open")?;
            c.expect("[")?;
            OpKind::PartialDemand(c.list("]", |c| c.small("a dimension"))?)
        }
        "wait.result" => {
            operands(&mut c, scope, args)?;
            OpKind::Wait
        }
        _ if let Some(op) = host_op(word.as_str()) => {
            operands(&mut c, scope, args)?;
            OpKind::Host(op)
        }
        "output" => {
            let at = c.small("the number of the output")?;
            operands(&mut c, scope, args)?;
            OpKind::Output(at)
        }
        "own" => {
            let name = c.word("a collective")?;
            let mut own = ContractCollective::named(name);
            if c.eat("[") {
                own.part_of = c.list("]", |c| c.int("a rank"))?;
            }
            OpKind::Collective(Collective {
                own: Some(Box::new(own)),
                ..collective(&mut c, CollKind::ByContract, scope, args)?
            })
        }
        other => match CollKind::parse(other) {
            Some(kind) => OpKind::Collective(collective(&mut c, kind, scope, args)?),
            None => {
                return Err(match REPLACED.into_iter().find(|(old, _)| *old == other) {
                    Some((old, new)) => replaced(old, new, span),
                    None => unknown("E315", "operation", other, names(Level::Graph), span),
                });
            }
        },
    };
    let ty = if c.eat(":") { Some(tensor_type(&mut c)?) } else { None };
    let want = if c.eat_word("want") { Some(tensor_type(&mut c)?) } else { None };
    let span = c.location(n.span);
    c.finish()?;
    Ok(GraphOp { kind, name: Name::from(&label.hint), ty, want, span })
}

fn collective(
    c: &mut LineCursor,
    kind: CollKind,
    scope: &Scope,
    args: &mut Vec<usize>,
) -> ParseResult<Collective> {
    let red = match c.peek() {
        Some(TokenKind::Word(..)) if !c.is_word("over") => Some(combiner(c)?),
        _ => None,
    };
    operands(c, scope, args)?;
    c.expect_word("over")?;
    let (axis, joined) = if c.eat("(") {
        let mut names = c.list(")", |c| c.word("an axis"))?;
        if names.is_empty() {
            return Err(c.expected("an axis"));
        }
        (names.remove(0), names)
    } else {
        (c.word("an axis")?, vec![])
    };
    let dim = if c.eat_word("dim") { Some(c.small("a dimension")?) } else { None };
    let from_dim = if c.eat_word("from") { Some(c.small("a dimension")?) } else { None };
    let root = if c.eat_word("root") { Some(c.int("the root's coordinate")?) } else { None };
    let counts = if c.eat_word("counts") { Some(rows(c)?) } else { None };
    let explicit = !c.eat_word("inserted");
    let fixed_order = c.eat_word("order");
    if fixed_order {
        c.expect_word("fixed")?;
    }
    let start = c.here();
    let using = if c.eat_word("using") { Some(using(c, start)?) } else { None };
    let stream = if c.eat_word("stream") { Some(c.word("a stream")?) } else { None };
    Ok(Collective {
        kind,
        own: None,
        red,
        axis,
        joined,
        dim,
        from_dim,
        root,
        counts,
        using,
        stream,
        explicit,
        fixed_order,
    })
}

/// Reads an algorithm with its arguments; `start` is the start of the clause.
pub(super) fn using(c: &mut LineCursor, start: Span) -> ParseResult<Using> {
    let alg = c.word("an algorithm")?;
    let args = if c.eat("(") { named_values(c, "an argument")? } else { vec![] };
    let mut options = vec![];
    if c.eat_word("with") {
        c.expect("(")?;
        options = named_values(c, "an option")?;
    }
    let span = start.to(c.before());
    // A missing location means that `select` chose the algorithm.
    let span = if c.eat_word("selected") { Span::NONE } else { own_location(c, span) };
    Ok(Using { alg, args, options, span })
}

/// Reads `name: value, ..` up to the closing parenthesis.
fn named_values(c: &mut LineCursor, what: &str) -> ParseResult<Vec<(Name, UsingArg)>> {
    c.list(")", |c| {
        let name = c.word(what)?;
        c.expect(":")?;
        let value = match c.peek() {
            Some(TokenKind::Word(..)) => UsingArg::Name(c.word("a value")?),
            _ => {
                let e = atom(c)?;
                UsingArg::Int(e.as_int().ok_or_else(|| c.expected("an integer or a name"))?)
            }
        };
        Ok((name, value))
    })
}

/// Reads the location of the clause. A line that ends here has two locations or none, so a single
/// location is that of the operation.
fn own_location(c: &mut LineCursor, default: Span) -> Span {
    match (c.peek(), c.peek_at(1)) {
        (Some(TokenKind::Loc(_)), Some(_)) => c.location(default),
        _ => default,
    }
}

/// Returns the host operation of a word such as `host.read`.
fn host_op(word: &str) -> Option<HostOp> {
    HostOp::ALL.into_iter().find(|op| word.strip_prefix("host.") == Some(op.word()))
}

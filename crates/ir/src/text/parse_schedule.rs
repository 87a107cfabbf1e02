//! Parsing of schedules: declarations, regions, contracts and roles. [`super::ops`] reads
//! operations.

use super::cursor::LineCursor;
use super::expr::{atom, expr};
use super::kernels::KernelTable;
use super::lex::{LineNode, ParseResult, TokenKind};
use super::lines::{head, keep, leaf};
use super::names::{Names, unknown};
use super::ops::{Scope, body};
use super::types::{combiner, dtype, memory, rule, tensor_type};
use crate::contract::{Cell, Clause, Contract, ContractBuffer, SumOver};
use crate::contract_std::standard;
use crate::expr::Expr;
use crate::graph::CollKind;
use crate::name::Name;
use crate::schedule::*;
use crate::types::Mesh;
use kbc_diag::{Diagnostic, Diagnostics, Span};

const DECLARATIONS: [&str; 7] = ["table", "buffer", "window", "signal", "queue", "host", "region"];

/// Reads a schedule; `nodes` starts with its `schedule` line.
pub(super) fn schedule(
    nodes: &[LineNode],
    module: &Name,
    mesh: &Mesh,
    kernels: &mut KernelTable,
    out: &mut Diagnostics,
) -> Schedule {
    let mut s = Schedule::new(module.clone(), mesh.clone());
    let mut scope = Scope {
        buffers: Names::new("buffer", "%"),
        windows: Names::new("window", "@"),
        signals: Names::new("signal", "@"),
        forms: vec![],
        queues: Names::new("queue", "@"),
        regions: Names::new("region", "@"),
        operands: Names::new("operand", ""),
        kernels,
    };
    if let Some(first) = nodes.first() {
        leaf(first, out);
        keep(opening(first, &mut s), out);
    }
    let rest = nodes.get(1..).unwrap_or_default();
    // Declarations and names of regions are read first, so that bodies may refer to any of them.
    let mut regions: Vec<&LineNode> = vec![];
    let mut hosts: Vec<(&LineNode, Span)> = vec![];
    for n in rest {
        match head(n) {
            "host" => {
                let mut c = LineCursor::deferring(&n.toks, n.span);
                c.skip();
                let span = c.location(n.span);
                keep(c.finish(), out);
                if !hosts.is_empty() {
                    let twice = Diagnostic::error("E313", "the schedule has two sections `host`");
                    out.push(twice.primary(n.span, "again here"));
                }
                hosts.push((n, span));
            }
            "region" => {
                if let Some(TokenKind::At(l)) = n.toks.get(1).map(|t| &t.tok) {
                    keep(scope.regions.declare(l, regions.len(), n.toks[1].span), out);
                }
                regions.push(n);
            }
            _ => {
                leaf(n, out);
                keep(declaration(n, &mut s, &mut scope), out);
            }
        }
    }
    for (n, span) in hosts {
        s.host = Some(Host { body: body(&n.kids, &mut scope, out), span });
    }
    for n in regions {
        let r = region(n, mesh, &mut scope, out);
        s.regions.push(r);
    }
    s
}

fn opening(n: &LineNode, s: &mut Schedule) -> ParseResult<()> {
    let mut c = LineCursor::deferring(&n.toks, n.span);
    c.skip();
    if let Some(TokenKind::At(_)) = c.peek() {
        s.name = c.at_word("the schedule's name")?;
    }
    c.expect_word("calls")?;
    let parse = |w: &str| match w {
        "none" => Some(Calls::None),
        "first" => Some(Calls::First),
        "any" => Some(Calls::Any),
        _ => None,
    };
    s.calls = c.one_of("kind of calls", parse, &["none", "first", "any"])?;
    c.finish()
}

fn at_offset(c: &mut LineCursor) -> ParseResult<Option<u64>> {
    if c.eat_word("at") { c.int("an offset in bytes").map(Some) } else { Ok(None) }
}

fn declaration(n: &LineNode, s: &mut Schedule, scope: &mut Scope) -> ParseResult<()> {
    let mut c = LineCursor::deferring(&n.toks, n.span);
    let word = head(n);
    c.skip();
    let place = c.here();
    match word {
        "table" => {
            let name = c.at_word("`@` and the table's name")?;
            c.expect("=")?;
            c.expect("[")?;
            let values = c.list("]", |c| {
                let span = c.here();
                let e = atom(c)?;
                e.as_int().ok_or_else(|| {
                    Diagnostic::error("E311", "entries of a table must be integers")
                        .primary(span, "not an integer")
                })
            })?;
            if s.tables.iter().any(|t| t.name == name) {
                let twice = Diagnostic::error("E313", format!("table @{name} is declared twice"));
                c.defer(Err(twice.primary(place, "again here")), || ())?;
            }
            s.tables.push(Table { name, values });
        }
        "buffer" => {
            let label = c.percent("`%` and the buffer's name")?;
            c.defer(scope.buffers.declare(label, s.buffers.len(), place), || ())?;
            let at = s.buffers.len();
            // The name is declared even if the rest of the line has an error.
            s.buffers.push(Buffer {
                name: Name::from(&label.hint),
                dtype: crate::types::DType::F32,
                dims: vec![],
                memory: crate::types::MemKind::Hbm,
                zero: false,
                role: BufferRole::Temp,
                global: None,
                span: n.span,
            });
            let b = &mut s.buffers[at];
            c.expect(":")?;
            b.dtype = dtype(&mut c)?;
            if c.eat("[") {
                b.dims = c.list("]", expr)?;
            }
            b.memory = memory(&mut c)?;
            b.zero = c.eat_word("zero");
            let parse = |w: &str| ["input", "output", "temp"].iter().position(|r| *r == w);
            b.role = match c.one_of("role of a buffer", parse, &["input", "output", "temp"])? {
                0 => BufferRole::Input(c.small("the number of the input")?),
                1 => BufferRole::Output(c.small("the number of the output")?),
                _ => BufferRole::Temp,
            };
            if c.eat(":") {
                b.global = Some(tensor_type(&mut c)?);
            }
            b.span = c.location(n.span);
        }
        "window" => {
            let label = c.at_name("`@` and the window's name")?;
            c.defer(scope.windows.declare(label, s.windows.len(), place), || ())?;
            let at = s.windows.len();
            s.windows.push(Window {
                name: Name::from(&label.hint),
                dtype: crate::types::DType::F32,
                slots: 0,
                capacity: 0,
                memory: crate::types::MemKind::Hbm,
                zero: false,
                offset: None,
                span: n.span,
            });
            let w = &mut s.windows[at];
            c.expect(":")?;
            w.dtype = dtype(&mut c)?;
            c.expect("[")?;
            w.slots = c.int("a number of slots")?;
            c.expect_word("x")?;
            w.capacity = c.int("a number of elements")?;
            c.expect("]")?;
            w.memory = memory(&mut c)?;
            w.zero = c.eat_word("zero");
            w.offset = at_offset(&mut c)?;
            w.span = c.location(n.span);
        }
        "signal" => {
            let label = c.at_name("`@` and the signal's name")?;
            c.defer(scope.signals.declare(label, s.signals.len(), place), || ())?;
            let at = s.signals.len();
            s.signals.push(Signal {
                name: Name::from(&label.hint),
                count: 0,
                usage: SignalUse::Arrival,
                form: Form::Epoch,
                offset: None,
                span: n.span,
            });
            let g = &mut s.signals[at];
            c.expect("[")?;
            g.count = c.int("a number of counters")?;
            c.expect("]")?;
            let parse = |w: &str| match w {
                "arrival" => Some(SignalUse::Arrival),
                "credit" => Some(SignalUse::Credit),
                "barrier" => Some(SignalUse::Barrier),
                _ => None,
            };
            g.usage = c.one_of("use of a signal", parse, &["arrival", "credit", "barrier"])?;
            if c.eat_word("sense") {
                g.form = Form::Sense { fresh: c.eat_word("fresh") };
            } else if c.eat_word("clearing") {
                g.form = Form::Clearing { fresh: c.eat_word("fresh") };
            }
            scope.forms.resize(at + 1, Form::Epoch);
            scope.forms[at] = g.form;
            g.offset = at_offset(&mut c)?;
            g.span = c.location(n.span);
        }
        "queue" => {
            let label = c.at_name("`@` and the queue's name")?;
            c.defer(scope.queues.declare(label, s.queues.len(), place), || ())?;
            let at = s.queues.len();
            s.queues.push(Queue {
                name: Name::from(&label.hint),
                count: 0,
                dtype: crate::types::DType::F32,
                depth: 0,
                capacity: 0,
                memory: crate::types::MemKind::Hbm,
                span: n.span,
            });
            let q = &mut s.queues[at];
            c.expect("[")?;
            q.count = c.int("a number of queues")?;
            c.expect("]")?;
            c.expect(":")?;
            q.dtype = dtype(&mut c)?;
            c.expect("[")?;
            q.depth = c.int("a number of slots")?;
            c.expect_word("x")?;
            q.capacity = c.int("a number of elements")?;
            c.expect("]")?;
            q.memory = memory(&mut c)?;
            q.span = c.location(n.span);
        }
        _ => {
            let text = if word.is_empty() { "this" } else { word };
            return Err(unknown("E315", "line starting with", text, DECLARATIONS.into_iter(), n.span));
        }
    }
    c.finish()
}

fn region(n: &LineNode, mesh: &Mesh, scope: &mut Scope, out: &mut Diagnostics) -> Region {
    let mut r = Region {
        name: Name::from(""),
        over: vec![],
        coords: vec![],
        operands: vec![],
        contract: None,
        label: None,
        after: vec![],
        roles: vec![],
        span: n.span,
    };
    keep(region_head(n, mesh, scope, &mut r), out);
    scope.operands = Names::new("operand", "");
    for kid in &n.kids {
        let word = head(kid);
        match word {
            "role" => {
                let role = role(kid, scope, out);
                r.roles.push(role);
                continue;
            }
            "promise" => {
                if r.contract.is_some() {
                    let twice = Diagnostic::error("E313", "the region has two lines `promise`");
                    out.push(twice.primary(kid.span, "again here"));
                }
                r.contract = contract(kid, out).or(r.contract);
                continue;
            }
            _ => {}
        }
        leaf(kid, out);
        let mut c = LineCursor::deferring(&kid.toks, kid.span);
        c.skip();
        let done = match word {
            "label" => c.string("a label in quotes").and_then(|l| match r.label.replace(l) {
                None => Ok(()),
                Some(_) => {
                    let twice = Diagnostic::error("E313", "the region has two lines `label`");
                    c.defer(Err(twice.primary(kid.span, "again here")), || ())
                }
            }),
            "on" | "scratch" => operand(&mut c, word == "scratch", scope, &mut r),
            _ => {
                let text = if word.is_empty() { "this" } else { word };
                let valid = ["label", "on", "scratch", "promise", "role"];
                Err(unknown("E315", "line of a region", text, valid.into_iter(), kid.span))
            }
        };
        keep(done.and_then(|()| c.finish()), out);
    }
    r
}

fn region_head(n: &LineNode, mesh: &Mesh, scope: &Scope, r: &mut Region) -> ParseResult<()> {
    let mut c = LineCursor::deferring(&n.toks, n.span);
    c.skip();
    r.name = Name::from(&c.at_name("`@` and the region's name")?.hint);
    let mut axes: Vec<Name> = mesh.axes.iter().map(|a| a.name.clone()).collect();
    if !c.eat_word("local") {
        c.expect_word("over").map_err(|_| c.expected("`local` or `over`"))?;
        loop {
            r.over.push(c.word("an axis")?);
            if !c.eat(",") {
                break;
            }
        }
        axes = r.over.clone();
    }
    if c.eat_word("as") {
        c.expect("(")?;
        r.coords = c.list(")", |c| {
            let name = c.word("a coordinate")?;
            c.expect_word("of")?;
            Ok((name, c.int("its size")?))
        })?;
    } else {
        // The verifier reports an axis that the mesh does not have.
        r.coords = axes.iter().map(|a| (a.clone(), mesh.axis(a).map_or(1, |x| x.size))).collect();
    }
    if c.eat_word("after") {
        loop {
            let at = c.at_of(&scope.regions, "`@` and a region")?;
            r.after.push(RegionId(at as u32));
            if !c.eat(",") {
                break;
            }
        }
    }
    r.span = c.location(n.span);
    c.finish()
}

fn operand(c: &mut LineCursor, scratch: bool, scope: &mut Scope, r: &mut Region) -> ParseResult<()> {
    let span = c.here();
    let label = c.label("the operand's name")?;
    c.defer(scope.operands.declare(label, r.operands.len(), span), || ())?;
    // The name is declared even if the rest of the line has an error.
    let line = Line::vector(Expr::Int(0));
    r.operands.push(Operand { name: Name::from(&label.hint), buffer: BufferId(0), line, scratch });
    c.expect("=")?;
    let buffer = BufferId(c.percent_of(&scope.buffers, "`%` and a buffer")? as u32);
    c.expect_word("line")?;
    let mut parts = 1;
    if matches!((c.peek(), c.peek_at(1)), (Some(TokenKind::Int(_)), Some(TokenKind::Word(w, false))) if w.hint == "of" && w.nth == 0)
    {
        parts = c.int("a number of blocks")?;
        c.skip();
    }
    let extent = atom(c)?;
    let unit = if c.eat("*") { atom(c)? } else { Expr::Int(1) };
    let rule = rule(c)?;
    let row = if c.eat_word("row") { atom(c)? } else { Expr::Int(0) };
    if let Some(o) = r.operands.last_mut() {
        o.buffer = buffer;
        o.line = Line { parts, extent, unit, rule, row };
    }
    Ok(())
}

fn contract(n: &LineNode, out: &mut Diagnostics) -> Option<Contract> {
    spelled_contract(n, out).map(|p| p.0)
}

/// Reads a contract with its clauses, and the number of ranks if the line states it.
pub(super) fn spelled_contract(n: &LineNode, out: &mut Diagnostics) -> Option<(Contract, u64)> {
    let (mut p, ranks) = keep(promise_head(n), out)?;
    for kid in &n.kids {
        leaf(kid, out);
        if let Some(clause) = keep(clause(kid), out) {
            p.clauses.push(clause);
        }
    }
    Some((p, ranks))
}

fn promise_head(n: &LineNode) -> ParseResult<(Contract, u64)> {
    let mut c = LineCursor::deferring(&n.toks, n.span);
    c.skip();
    let span = c.here();
    let plain = matches!(c.peek(), Some(TokenKind::Word(_, false)));
    let collective = c.word("a collective")?;
    let spelled = |c: &LineCursor| {
        matches!(c.peek(), None | Some(TokenKind::Word(..))) && (c.is_word("over") || c.is_word("root"))
    };
    let red = if c.peek().is_none() || spelled(&c) { None } else { Some(combiner(&mut c)?) };
    let root = if c.eat_word("root") { Some(c.int("the root's number")?) } else { None };
    if !c.eat_word("over") {
        c.finish()?;
        let names = CollKind::ALL.map(CollKind::name);
        let kind = CollKind::parse(&collective).filter(|_| plain).ok_or_else(|| {
            unknown("E315", "standard collective", &collective, names.into_iter(), span).note(
                "for another collective, write the contract itself: `over (r of p) on v[n]` and its clauses",
            )
        })?;
        if let Some(kid) = n.kids.first() {
            return Err(Diagnostic::error(
                "E314",
                "the contract of a standard collective cannot have clauses",
            )
            .primary(kid.span, "not expected")
            .help("to write the clauses, write `over (r of p) on v[n]` in the line of the contract"));
        }
        let p = standard(kind, red, root);
        for (want, have, what) in [
            (kind.reduces(), red.is_some(), "combiner (`sum`, `prod`, `min`, `max`)"),
            (kind.rooted(), root.is_some(), "root (`root 0`)"),
        ] {
            if want != have {
                let verb = if want { "needs a" } else { "has no" };
                return Err(
                    Diagnostic::error("E311", format!("{collective} {verb} {what}")).primary(span, "here")
                );
            }
        }
        return Ok((p, 0));
    }
    c.expect("(")?;
    let rank = c.word("the name of the rank")?;
    c.expect_word("of")?;
    let size = c.word("the name of the size")?;
    c.expect(")")?;
    let ranks = if c.eat_word("ranks") { c.int("how many there are")? } else { 0 };
    c.expect_word("on")?;
    let mut buffers = vec![];
    while c.peek().is_some() {
        if !buffers.is_empty() {
            c.expect(",")?;
        }
        let name = c.word("a buffer")?;
        c.expect("[")?;
        c.word("a size")?;
        c.expect("]")?;
        let blocks = c.eat("[");
        if blocks {
            c.word("a size")?;
            c.expect("]")?;
        }
        buffers.push(ContractBuffer { name, blocks });
    }
    Ok((Contract { collective, red, root, rank, size, buffers, clauses: vec![] }, ranks))
}

fn cell(c: &mut LineCursor) -> ParseResult<Cell> {
    let buffer = c.word("a buffer of the contract")?;
    let mut index = vec![];
    while c.eat("[") {
        index.push(expr(c)?);
        c.expect("]")?;
    }
    Ok(Cell { buffer, index })
}

fn condition(c: &mut LineCursor) -> ParseResult<Option<Expr>> {
    if c.eat_word("if") { expr(c).map(Some) } else { Ok(None) }
}

fn clause(n: &LineNode) -> ParseResult<Clause> {
    let mut c = LineCursor::deferring(&n.toks, n.span);
    let word = head(n);
    c.skip();
    let out = match word {
        "start" => Clause::Start { cell: cell(&mut c)?, cond: condition(&mut c)? },
        "end" => {
            let place = cell(&mut c)?;
            let cond = condition(&mut c)?;
            c.expect("=")?;
            let summed = c.is_word("sum") && c.peek_at(1) == Some(&TokenKind::Sym("("));
            if summed {
                c.skip();
                c.skip();
            }
            let from = cell(&mut c)?;
            c.expect_word("at")?;
            let at = expr(&mut c)?;
            let mut sum = None;
            if summed {
                c.expect_word("for")?;
                let var = c.word("a variable")?;
                c.expect_word("in")?;
                let lo = expr(&mut c)?;
                c.expect("..")?;
                let hi = expr(&mut c)?;
                sum = Some(SumOver { var, lo, hi, cond: condition(&mut c)? });
                c.expect(")")?;
            }
            Clause::End { cell: place, cond, from, at, sum }
        }
        _ => {
            let text = if word.is_empty() { "this" } else { word };
            return Err(unknown("E315", "clause", text, ["start", "end"].into_iter(), n.span));
        }
    };
    c.finish()?;
    Ok(out)
}

fn role(n: &LineNode, scope: &mut Scope, out: &mut Diagnostics) -> Role {
    let mut role = Role { name: Name::from(""), ranks: RankSet::All, streams: vec![] };
    let mut c = LineCursor::deferring(&n.toks, n.span);
    keep(role_head(&mut c, &mut role), out);
    for kid in &n.kids {
        let mut c = LineCursor::deferring(&kid.toks, kid.span);
        if !c.eat_word("stream") {
            out.push(c.expected("`stream`").help(
                "put the operations of a role below a stream; if there is only one, write `stream main`",
            ));
            continue;
        }
        let name = c.word("the stream's name").and_then(|n| c.finish().map(|()| n));
        let name = keep(name, out).unwrap_or_else(|| Name::from(MAIN));
        let body = body(&kid.kids, scope, out);
        role.streams.push(Stream { name, body });
    }
    role
}

fn role_head(c: &mut LineCursor, role: &mut Role) -> ParseResult<()> {
    c.skip();
    role.name = c.word("the role's name")?;
    if c.eat_word("where") {
        role.ranks = RankSet::Where(expr(c)?);
    } else if c.eat_word("in") {
        c.expect("[")?;
        role.ranks = RankSet::List(c.list("]", |c| c.int("a rank of the group"))?);
    }
    c.finish()
}

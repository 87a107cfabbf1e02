//! Text of operations of schedules: parsing of bodies (loops, conditions and operations) and
//! printing of operations.

use super::cursor::LineCursor;
use super::expr::{expr, show};
use super::kernels::KernelTable;
use super::lex::{LineNode, ParseResult, TokenKind};
use super::lines::{end_of, head, keep, leaf};
use super::names::{Names, replaced, unknown};
use super::print_schedule::{Printer, exprs, name_of};
use super::types::{combiner, index_word, pairs, rule, runs, show_rule};
use super::words::quoted;
use crate::expr::Expr;
use crate::name::Name;
use crate::optable::{Level, names};
use crate::schedule::*;
use crate::types::CutRule;
use kbc_diag::{Diagnostic, Diagnostics};

/// Declarations to which operations refer.
pub(super) struct Scope<'a> {
    pub buffers: Names,
    pub windows: Names,
    pub signals: Names,
    /// Forms of the signals.
    pub forms: Vec<Form>,
    pub queues: Names,
    pub regions: Names,
    pub operands: Names,
    pub kernels: &'a mut KernelTable,
}

/// Words of older texts, each with the one that replaced it.
const REPLACED: [(&str, &str); 6] = [
    ("reduce", "combine"),
    ("expect", "accept"),
    ("compute", "map"),
    ("slice", "keep_part"),
    ("launch", "host.launch"),
    ("drain", "host.drain"),
];

/// Reads the lines below a stream, a loop or a condition.
pub(super) fn body(nodes: &[LineNode], scope: &mut Scope, out: &mut Diagnostics) -> Vec<SStmt> {
    let mut list = vec![];
    for (i, n) in nodes.iter().enumerate() {
        let mut c = LineCursor::deferring(&n.toks, n.span);
        match head(n) {
            "for" => {
                let turn = keep(for_head(&mut c), out);
                let body = body(&n.kids, scope, out);
                if let Some((var, lo, hi)) = turn {
                    list.push(SStmt::For { var, lo, hi, body });
                }
            }
            "if" => {
                c.skip();
                let cond = keep(expr(&mut c).and_then(|e| c.finish().map(|()| e)), out);
                let then = body(&n.kids, scope, out);
                list.push(SStmt::If { cond: cond.unwrap_or(Expr::Int(1)), then, other: vec![] });
            }
            "else" => {
                c.skip();
                keep(c.finish(), out);
                let inner = body(&n.kids, scope, out);
                let follows = i.checked_sub(1).is_some_and(|i| head(&nodes[i]) == "if");
                match list.last_mut() {
                    Some(SStmt::If { other, .. }) if follows => *other = inner,
                    _ => out.push(
                        Diagnostic::error("E314", "`else` must follow an `if`").primary(n.span, "here"),
                    ),
                }
            }
            _ => {
                leaf(n, out);
                let done = operation(&mut c, head(n), scope).and_then(|op| Ok((op, end_of(&mut c, n.span)?)));
                if let Some((op, span)) = keep(done, out) {
                    list.push(SStmt::Op(op, span));
                }
            }
        }
    }
    list
}

fn for_head(c: &mut LineCursor) -> ParseResult<(Name, Expr, Expr)> {
    c.skip();
    let var = c.word("the step's name")?;
    c.expect_word("in")?;
    let lo = expr(c)?;
    c.expect("..")?;
    let hi = expr(c)?;
    c.finish()?;
    Ok((var, lo, hi))
}

fn buffer(c: &mut LineCursor, scope: &Scope) -> ParseResult<BufferId> {
    c.percent_of(&scope.buffers, "`%` and a buffer").map(|i| BufferId(i as u32))
}

fn region(c: &mut LineCursor, scope: &Scope) -> ParseResult<RegionId> {
    c.at_of(&scope.regions, "`@` and a region").map(|i| RegionId(i as u32))
}

fn reference(c: &mut LineCursor, scope: &Scope) -> ParseResult<Ref> {
    let span = c.here();
    if let Some(TokenKind::At(_)) = c.peek() {
        let window = WindowId(c.at_of(&scope.windows, "a window")? as u32);
        c.expect("[")?;
        let slot = expr(c)?;
        c.expect("]")?;
        return Ok(Ref::Slot { window, slot });
    }
    let label = c.label("an operand, or `@` and a window")?;
    let operand = OperandId(c.defer(scope.operands.find(label, span), || 0)? as u32);
    let mut path = vec![];
    while c.eat("[") {
        let index = expr(c)?;
        let len = if c.eat(";") { expr(c)? } else { Expr::Int(1) };
        c.expect_word("of")
            .map_err(|d| d.help("write a chunk as [INDEX of CHUNKS] or [FIRST; COUNT of CHUNKS]"))?;
        let of = expr(c)?;
        c.expect("]")?;
        path.push(Part { index, len, of });
    }
    Ok(Ref::Chunk { operand, path })
}

fn peer(c: &mut LineCursor) -> ParseResult<Peer> {
    c.expect("(").map_err(|d| {
        d.help("write a peer as (COORDINATE, ..), with one coordinate per coordinate of the region")
    })?;
    let at = c.list(")", expr)?;
    if !c.eat_word("via") {
        return Ok(at.into());
    }
    c.expect("[").map_err(|d| d.help("write the numbers of relays as via [NUMBER, ..]"))?;
    let relays: Vec<u32> = c.list("]", |c| c.small("the number of a relay"))?;
    Ok(Peer { at, via: Via::from(&relays[..]) })
}

fn show_peer(peer: &Peer) -> String {
    let at = format!("({})", exprs(&peer.at));
    let relays = peer.via.relays().iter().map(u32::to_string).collect::<Vec<_>>();
    if relays.is_empty() { at } else { format!("{at} via [{}]", relays.join(", ")) }
}

fn counter(c: &mut LineCursor, scope: &Scope) -> ParseResult<(SignalId, Expr)> {
    let signal = SignalId(c.at_of(&scope.signals, "`@` and a signal")? as u32);
    c.expect("[")?;
    let index = expr(c)?;
    c.expect("]")?;
    Ok((signal, index))
}

/// Reads the text between the counter and the value of a wait. The form of the counter decides
/// which text it must be.
fn asked(c: &mut LineCursor, form: Form) -> ParseResult<()> {
    let span = c.here();
    let help = |d: Diagnostic| {
        d.help(format!("write a wait for {} counter as `wait @s[i] {} VALUE`", form.article(), form.asks()))
    };
    let read = if c.eat(">=") {
        matches!(form, Form::Epoch)
    } else if c.eat("-=") {
        matches!(form, Form::Clearing { .. })
    } else if c.eat("&") {
        match c.int("the lowest bit, `1`").map_err(help)? {
            1 => c.expect("==").map_err(help)?,
            n => {
                let text = format!("a sense counter is read by its lowest bit, `& 1`, not `& {n}`");
                return Err(help(Diagnostic::error("E311", text).primary(c.before(), "here")));
            }
        }
        matches!(form, Form::Sense { .. })
    } else {
        let symbol = form.asks();
        let first = symbol.split(' ').next().unwrap_or(symbol);
        return Err(help(c.expected(&format!("`{first}`"))));
    };
    if read || c.has_deferred() {
        return Ok(());
    }
    let text = format!("this is no wait for {} counter", form.article());
    c.defer(Err(help(Diagnostic::error("E323", text).primary(span, "here"))), || ())
}

fn queue(c: &mut LineCursor, scope: &Scope) -> ParseResult<(Peer, QueueId, Expr)> {
    let peer = peer(c)?;
    c.expect(":")?;
    let queue = QueueId(c.at_of(&scope.queues, "`@` and a queue")? as u32);
    c.expect("[")?;
    let index = expr(c)?;
    c.expect("]")?;
    Ok((peer, queue, index))
}

/// Reads `<-`. It consists of two tokens, so that `a <-b` in an expression remains a comparison.
fn from_sign(c: &mut LineCursor) -> ParseResult<()> {
    if c.eat("<") && c.eat("-") { Ok(()) } else { Err(c.expected("`<-`")) }
}

fn dim(c: &mut LineCursor) -> ParseResult<u32> {
    c.expect_word("dim")?;
    c.small("a dimension")
}

fn operation(c: &mut LineCursor, word: &str, scope: &mut Scope) -> ParseResult<SOp> {
    let span = c.here();
    c.skip();
    Ok(match word {
        "copy" if matches!(c.peek(), Some(TokenKind::Percent(_))) => {
            let dst = buffer(c, scope)?;
            c.expect("=")?;
            SOp::Local(LocalOp::Copy { dst, src: buffer(c, scope)? })
        }
        "copy" => {
            let dst = reference(c, scope)?;
            c.expect("=")?;
            SOp::Copy { dst, src: reference(c, scope)? }
        }
        "combine" => {
            let op = combiner(c)?;
            let dst = reference(c, scope)?;
            c.expect(",")?;
            SOp::Reduce { op, dst, src: reference(c, scope)? }
        }
        "put" => {
            let src = reference(c, scope)?;
            c.expect("->")?;
            let peer = peer(c)?;
            c.expect(":")?;
            SOp::Put { src, peer, dst: reference(c, scope)? }
        }
        "get" => {
            let dst = reference(c, scope)?;
            from_sign(c)?;
            let peer = peer(c)?;
            c.expect(":")?;
            SOp::Get { dst, peer, src: reference(c, scope)? }
        }
        "get.combine" => {
            let op = combiner(c)?;
            let dst = reference(c, scope)?;
            from_sign(c)?;
            let peer = peer(c)?;
            c.expect(":")?;
            SOp::GetCombine { op, dst, peer, src: reference(c, scope)? }
        }
        "send" => {
            let src = reference(c, scope)?;
            c.expect("->")?;
            let (peer, queue, index) = queue(c, scope)?;
            SOp::Send { src, peer, queue: Channel { queue, index } }
        }
        "recv" => {
            let dst = reference(c, scope)?;
            from_sign(c)?;
            let (peer, queue, index) = queue(c, scope)?;
            SOp::Recv { dst, peer, queue: Channel { queue, index } }
        }
        "room" => {
            let (peer, queue, index) = queue(c, scope)?;
            SOp::Room { peer, queue: Channel { queue, index } }
        }
        "notify" => {
            let peer = peer(c)?;
            c.expect(":")?;
            let (signal, index) = counter(c, scope)?;
            SOp::Notify { peer, counter: Counter { signal, index } }
        }
        "wait" => {
            let (signal, index) = counter(c, scope)?;
            let form = scope.forms.get(signal.0 as usize).copied().unwrap_or(Form::Epoch);
            asked(c, form)?;
            SOp::Wait { counter: Counter { signal, index }, value: expr(c)? }
        }
        "fence.release" => SOp::FenceRelease,
        "fence.acquire" => SOp::FenceAcquire,
        "fence.complete" => SOp::FenceComplete,
        "host.launch" => SOp::Host(HostCommand::Launch(region(c, scope)?)),
        "host.wait" => SOp::Host(HostCommand::Wait(region(c, scope)?)),
        "host.read" => SOp::HostRead(buffer(c, scope)?),
        "host.write" => {
            let dst = buffer(c, scope)?;
            c.expect("=")?;
            SOp::Host(HostCommand::Write { dst, src: buffer(c, scope)? })
        }
        "host.drain" => SOp::Host(HostCommand::Drain),
        "record" => SOp::Record(c.word("an event")?),
        "await" => SOp::Await(c.word("an event")?),
        "map" | "matmul" | "reduce_dim" | "cast" | "pack" | "unpack" | "transpose" | "embedding"
        | "grouped" | "tiles" | "fill" | "keep_part" => SOp::Local(local(c, word, scope)?),
        _ if let Some(point) = Point::ALL.into_iter().find(|p| p.name() == word) => {
            let peer = peer(c)?;
            c.expect(":")?;
            let window = WindowId(c.at_of(&scope.windows, "`@` and a window")? as u32);
            c.expect("[")?;
            let slot = expr(c)?;
            c.expect("]")?;
            SOp::Mark(Mark { point, peer, window, slot })
        }
        _ => {
            if let Some((old, new)) = REPLACED.into_iter().find(|(old, _)| *old == word) {
                return Err(replaced(old, new, span));
            }
            let text = if word.is_empty() { "this" } else { word };
            return Err(unknown("E315", "operation", text, names(Level::Schedule), span));
        }
    })
}

fn local(c: &mut LineCursor, word: &str, scope: &mut Scope) -> ParseResult<LocalOp> {
    let dst = buffer(c, scope)?;
    c.expect("=")?;
    Ok(match word {
        "map" => {
            let func = scope.kernels.function(c)?;
            c.expect("(")?;
            LocalOp::Compute { func, dst, args: c.list(")", |c| buffer(c, scope))? }
        }
        "tiles" => {
            let kernel = scope.kernels.nest(c)?;
            c.expect("(")?;
            LocalOp::Tiles { kernel, dst, args: c.list(")", |c| buffer(c, scope))? }
        }
        "matmul" => {
            let a = buffer(c, scope)?;
            c.expect(",")?;
            LocalOp::Matmul { dst, a, b: buffer(c, scope)? }
        }
        "reduce_dim" => {
            let op = combiner(c)?;
            let src = buffer(c, scope)?;
            let dim = dim(c)?;
            let mean = if c.eat_word("mean") { Some(c.int("a count")?) } else { None };
            LocalOp::ReduceDim { op, mean, dst, src, dim }
        }
        "cast" => LocalOp::Cast { dst, src: buffer(c, scope)? },
        "transpose" => {
            let src = buffer(c, scope)?;
            c.expect_word("perm")?;
            c.expect("[")?;
            LocalOp::Transpose { dst, src, perm: c.list("]", |c| c.small("a dimension"))? }
        }
        "embedding" => {
            let table = buffer(c, scope)?;
            c.expect(",")?;
            let ids = buffer(c, scope)?;
            c.expect_word("from")?;
            LocalOp::Embedding { dst, table, ids, first: expr(c)? }
        }
        "grouped" => {
            let x = buffer(c, scope)?;
            c.expect(",")?;
            let w = buffer(c, scope)?;
            c.expect_word("runs")?;
            let runs = runs(c)?;
            c.expect_word("places")?;
            let places = pairs(c)?;
            c.expect_word("at")?;
            LocalOp::Grouped { dst, x, w, runs, places, at: expr(c)? }
        }
        "fill" if c.eat_word("number") => LocalOp::Fill { dst, with: Filling::Number(c.number("a number")?) },
        "fill" => {
            index_word(c)?;
            let dim = dim(c)?;
            c.expect_word("from")?;
            LocalOp::Fill { dst, with: Filling::Place { dim, first: expr(c)? } }
        }
        "keep_part" => {
            let src = buffer(c, scope)?;
            let dim = dim(c)?;
            c.expect_word("part")?;
            let index = expr(c)?;
            c.expect_word("of")?;
            let of = c.int("a number of parts")?;
            LocalOp::Slice { dst, src, dim, index, of, rule: rule(c)? }
        }
        _ => {
            let src = buffer(c, scope)?;
            let dim = dim(c)?;
            c.expect_word("parts")?;
            let parts = c.int("a number of parts")?;
            let rule = rule(c)?;
            let at = if c.eat_word("at") { Some(expr(c)?) } else { None };
            match word {
                "pack" => LocalOp::Pack { dst, src, dim, parts, rule, at },
                _ => LocalOp::Unpack { dst, src, dim, parts, rule, at },
            }
        }
    })
}

impl Printer<'_> {
    fn reference(&self, r: &Ref) -> String {
        match r {
            Ref::Chunk { operand, path } => {
                let mut out = match self.operands.get(operand.0 as usize) {
                    Some(n) => n.clone(),
                    None => format!("`?{}`", operand.0),
                };
                for d in path {
                    let len =
                        if d.len == Expr::Int(1) { String::new() } else { format!("; {}", show(&d.len, 0)) };
                    out += &format!("[{}{len} of {}]", show(&d.index, 0), show(&d.of, 0));
                }
                out
            }
            Ref::Slot { window, slot } => {
                format!("{}[{}]", name_of('@', &self.windows, window.0), show(slot, 0))
            }
        }
    }

    pub(super) fn operation(&self, op: &SOp) -> String {
        let r = |x: &Ref| self.reference(x);
        let signal = |g: &SignalId, i: &Expr| format!("{}[{}]", name_of('@', &self.signals, g.0), show(i, 0));
        let queue = |peer: &Peer, q: &QueueId, i: &Expr| {
            format!("{} : {}[{}]", show_peer(peer), name_of('@', &self.queues, q.0), show(i, 0))
        };
        match op {
            SOp::Send { src, peer, queue: Channel { queue: q, index } } => {
                format!("send {} -> {}", r(src), queue(peer, q, index))
            }
            SOp::Recv { dst, peer, queue: Channel { queue: q, index } } => {
                format!("recv {} <- {}", r(dst), queue(peer, q, index))
            }
            SOp::Room { peer, queue: Channel { queue: q, index } } => {
                format!("room {}", queue(peer, q, index))
            }
            SOp::Copy { dst, src } => format!("copy {} = {}", r(dst), r(src)),
            SOp::Reduce { op, dst, src } => format!("combine {op} {}, {}", r(dst), r(src)),
            SOp::Put { src, peer, dst } => format!("put {} -> {} : {}", r(src), show_peer(peer), r(dst)),
            SOp::Get { dst, peer, src } => format!("get {} <- {} : {}", r(dst), show_peer(peer), r(src)),
            SOp::GetCombine { op, dst, peer, src } => {
                format!("get.combine {op} {} <- {} : {}", r(dst), show_peer(peer), r(src))
            }
            SOp::Notify { peer, counter: Counter { signal: g, index } } => {
                format!("notify {} : {}", show_peer(peer), signal(g, index))
            }
            SOp::Wait { counter: Counter { signal: g, index }, value } => {
                let form = self.s.signals.get(g.0 as usize).map_or(Form::Epoch, |s| s.form);
                format!("wait {} {} {}", signal(g, index), form.asks(), show(value, 0))
            }
            SOp::FenceRelease => "fence.release".into(),
            SOp::FenceAcquire => "fence.acquire".into(),
            SOp::FenceComplete => "fence.complete".into(),
            SOp::Record(e) => format!("record {}", quoted(e)),
            SOp::Await(e) => format!("await {}", quoted(e)),
            SOp::Local(l) => self.local(l),
            SOp::Host(HostCommand::Launch(r)) => format!("host.launch {}", name_of('@', &self.regions, r.0)),
            SOp::Host(HostCommand::Wait(r)) => format!("host.wait {}", name_of('@', &self.regions, r.0)),
            SOp::HostRead(b) => format!("host.read {}", name_of('%', &self.buffers, b.0)),
            SOp::Host(HostCommand::Write { dst, src }) => {
                let b = |id: &BufferId| name_of('%', &self.buffers, id.0);
                format!("host.write {} = {}", b(dst), b(src))
            }
            SOp::Host(HostCommand::Drain) => "host.drain".into(),
            SOp::Mark(Mark { point, peer, window, slot }) => {
                let w = name_of('@', &self.windows, window.0);
                format!("{} {} : {w}[{}]", point.name(), show_peer(peer), show(slot, 0))
            }
        }
    }

    fn local(&self, op: &LocalOp) -> String {
        let b = |id: &BufferId| name_of('%', &self.buffers, id.0);
        let part = |dim: &u32, parts: &u64, r: &CutRule, at: &Option<Expr>| {
            let at = at.as_ref().map(|e| format!(" at {}", show(e, 0))).unwrap_or_default();
            format!("dim {dim} parts {parts}{}{at}", show_rule(r))
        };
        match op {
            LocalOp::Compute { func, dst, args } => {
                let args: Vec<String> = args.iter().map(b).collect();
                format!("map {} = {}({})", b(dst), self.kernels.label(func), args.join(", "))
            }
            LocalOp::Tiles { kernel, dst, args } => {
                let args: Vec<String> = args.iter().map(b).collect();
                format!("tiles {} = {}({})", b(dst), self.kernels.tiles_label(kernel), args.join(", "))
            }
            LocalOp::Matmul { dst, a, b: right } => format!("matmul {} = {}, {}", b(dst), b(a), b(right)),
            LocalOp::ReduceDim { op, mean, dst, src, dim } => {
                let mean = mean.map(|n| format!(" mean {n}")).unwrap_or_default();
                format!("reduce_dim {} = {op} {} dim {dim}{mean}", b(dst), b(src))
            }
            LocalOp::Cast { dst, src } => format!("cast {} = {}", b(dst), b(src)),
            LocalOp::Copy { dst, src } => format!("copy {} = {}", b(dst), b(src)),
            LocalOp::Pack { dst, src, dim, parts, rule, at } => {
                format!("pack {} = {} {}", b(dst), b(src), part(dim, parts, rule, at))
            }
            LocalOp::Unpack { dst, src, dim, parts, rule, at } => {
                format!("unpack {} = {} {}", b(dst), b(src), part(dim, parts, rule, at))
            }
            LocalOp::Transpose { dst, src, perm } => {
                format!("transpose {} = {} perm {perm:?}", b(dst), b(src))
            }
            LocalOp::Embedding { dst, table, ids, first } => {
                format!("embedding {} = {}, {} from {}", b(dst), b(table), b(ids), show(first, 0))
            }
            LocalOp::Grouped { dst, x, w, runs, places, at } => {
                let places: Vec<String> = places.iter().map(|(r, m)| format!("[{r}, {m}]")).collect();
                let places = places.join(", ");
                format!(
                    "grouped {} = {}, {} runs {runs} places [{places}] at {}",
                    b(dst),
                    b(x),
                    b(w),
                    show(at, 0)
                )
            }
            LocalOp::Fill { dst, with: Filling::Number(v) } => format!("fill {} = number {v:?}", b(dst)),
            LocalOp::Fill { dst, with: Filling::Place { dim, first } } => {
                format!("fill {} = index dim {dim} from {}", b(dst), show(first, 0))
            }
            LocalOp::Slice { dst, src, dim, index, of, rule: r } => {
                format!(
                    "keep_part {} = {} dim {dim} part {} of {of}{}",
                    b(dst),
                    b(src),
                    show(index, 0),
                    show_rule(r)
                )
            }
        }
    }
}

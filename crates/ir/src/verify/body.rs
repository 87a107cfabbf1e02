//! Rules for operations of schedules: V2, V8, V12 to V15, V18, V19. [`super`] lists all rules.

use super::names::{depends, tables, unknown};
use super::{Report, V2, V8, V12, V13, V14, V15, V18, V19, V21, local};
use crate::cut::{Chunks, Sized};
use crate::expr::Expr;
use crate::module::Props;
use crate::name::Name;
use crate::schedule::*;
use crate::types::DType;
use kbc_diag::{Diagnostic, Span};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Most chunks among which the smallest one is found by trying all.
const TRIED_CHUNKS: i64 = 4096;

/// Numbers of elements of smallest chunks, by operand and cut.
type SmallestChunks = BTreeMap<(u32, [i64; 3]), Option<u64>>;

struct Bodies<'a, 'o> {
    s: &'a Schedule,
    r: &'a Region,
    /// Variables that are bound in the whole region: call, axes, coordinates.
    fixed: Vec<&'a str>,
    /// Steps of the enclosing loops.
    steps: Vec<&'a str>,
    /// Known results of [`Bodies::smallest`], by operand, and by the length and divisor of the last
    /// part and the product of all divisors.
    least: RefCell<SmallestChunks>,
    out: &'o mut Report,
}

/// Checks all bodies of a region.
pub(super) fn bodies(s: &Schedule, r: &Region, out: &mut Report) {
    let mut fixed = vec![CALL];
    fixed.extend(s.mesh.axes.iter().map(|a| a.name.as_str()));
    fixed.extend(r.coords.iter().map(|c| c.0.as_str()));
    let mut b = Bodies { s, r, fixed, steps: vec![], least: RefCell::default(), out };
    for st in r.roles.iter().flat_map(|x| &x.streams) {
        b.list(&st.body);
    }
}

/// Returns the location of statements: that of the first operation.
fn place(list: &[SStmt], default: Span) -> Span {
    let mut found = list.iter().map(|st| match st {
        SStmt::Op(_, span) => *span,
        SStmt::For { body, var: _, lo: _, hi: _ } => place(body, Span::NONE),
        SStmt::If { then, other, cond: _ } => place(then, place(other, Span::NONE)),
    });
    found.find(|s| !s.is_none()).unwrap_or(default)
}

impl<'a> Bodies<'a, '_> {
    fn list(&mut self, list: &'a [SStmt]) {
        for st in list {
            match st {
                SStmt::For { var, lo, hi, body } => {
                    let span = place(body, self.r.span);
                    for e in [lo, hi] {
                        let what = format!("the bounds of the loop over {var} in region {}", self.r.name);
                        self.bound(e, &what, span);
                    }
                    self.steps.push(var);
                    self.list(body);
                    self.steps.pop();
                }
                SStmt::If { cond, then, other } => {
                    self.expr(cond, place(then, place(other, self.r.span)));
                    self.list(then);
                    self.list(other);
                }
                SStmt::Op(op, span) => self.operation(op, *span),
            }
        }
    }

    /// Checks V12: a loop has the same number of turns on every rank and in every call.
    fn bound(&mut self, e: &Expr, what: &str, span: Span) {
        let mut forbidden: Option<&str> = None;
        let (fixed, steps) = (&self.fixed, &self.steps);
        e.vars(&mut |n| {
            let step = steps.contains(&n.as_str());
            if !step && forbidden.is_none() {
                forbidden = fixed.iter().find(|f| *n == ***f).copied();
            }
        });
        match forbidden {
            Some(n) => {
                let d = Diagnostic::error(V12.1, format!("{what} depend on `{n}`"))
                    .primary(span, "in the loop around this line")
                    .help("bounds may depend only on constants and steps of outer loops; put the condition into an `if` in the loop");
                self.out.push(V12, d);
            }
            None => self.expr(e, span),
        }
    }

    /// Checks V2: the variables and tables of an expression exist.
    fn expr(&mut self, e: &Expr, span: Span) {
        tables(self.s, e, span, self.out);
        let mut missing: Vec<Name> = vec![];
        e.vars(&mut |n| {
            let known = self.fixed.contains(&n.as_str()) || self.steps.contains(&n.as_str());
            if !known && !missing.contains(n) {
                missing.push(n.clone());
            }
        });
        let valid: Vec<&str> = self.fixed.iter().chain(&self.steps).copied().collect();
        for n in missing {
            unknown(V2, "name with a value", &n, &valid, span, self.out);
        }
    }

    fn operation(&mut self, op: &SOp, span: Span) {
        let remote = match op {
            SOp::Copy { dst, src } => {
                self.pair(dst, src, "copy", span);
                false
            }
            SOp::Reduce { op, dst, src } => {
                if let Some(d) = self.pair(dst, src, "reduce", span).filter(|d| !d.reduces()) {
                    self.out.fail(V15, format!("{d} cannot be reduced by {op}"), span, "here");
                }
                false
            }
            SOp::Put { src, peer, dst } => {
                self.routed(peer, span);
                self.pair(dst, src, "put", span);
                true
            }
            SOp::Get { dst, peer, src } => {
                self.routed(peer, span);
                self.pair(dst, src, "get", span);
                true
            }
            SOp::GetCombine { op, dst, peer, src } => {
                self.routed(peer, span);
                if let Some(d) = self.pair(dst, src, "get.combine", span).filter(|d| !d.reduces()) {
                    self.out.fail(V15, format!("{d} cannot be reduced by {op}"), span, "here");
                }
                true
            }
            SOp::Send { src: x, peer, queue: Channel { queue, index } }
            | SOp::Recv { dst: x, peer, queue: Channel { queue, index } } => {
                self.peer(peer, span);
                self.message(x, *queue, index, span);
                true
            }
            SOp::Room { peer, queue: Channel { queue, index } } => {
                self.peer(peer, span);
                self.queue(*queue, index, span);
                true
            }
            SOp::Notify { peer, counter: Counter { signal, index } } => {
                self.routed(peer, span);
                self.counter(*signal, index, span);
                true
            }
            SOp::Wait { counter: Counter { signal, index }, value } => {
                self.counter(*signal, index, span);
                self.expr(value, span);
                true
            }
            SOp::Mark(Mark { peer, window, slot, point: _ }) => {
                self.peer(peer, span);
                self.expr(slot, span);
                if window.0 as usize >= self.s.windows.len() {
                    self.out.fail(V2, format!("window {} does not exist", window.0), span, "here");
                }
                true
            }
            SOp::Local(l) => {
                local::local(self.s, l, span, self.out);
                let axes: Vec<&str> = self.s.mesh.axes.iter().map(|a| a.name.as_str()).collect();
                if let Some(e) = l.part() {
                    depends(self.s, e, &axes, "the part of a local operation", span, self.out);
                }
                false
            }
            SOp::FenceRelease | SOp::FenceAcquire | SOp::FenceComplete | SOp::Record(_) | SOp::Await(_) => {
                false
            }
            SOp::HostRead(_) | SOp::Host(_) => {
                self.out.push(V21, crate::host::misplaced_host_op(span));
                false
            }
        };
        if remote && self.r.over.is_empty() {
            let text = format!("region {} is local, but it communicates", self.r.name);
            self.out.push(
                V14,
                Diagnostic::error(V14.1, text)
                    .primary(span, "here")
                    .help("write `over` with the axes over which the region runs"),
            );
        }
    }

    /// Checks the peer of an operation that names no relays. The messages of a queue stay in order,
    /// so they have one route.
    fn peer(&mut self, peer: &Peer, span: Span) {
        if !peer.via.relays().is_empty() {
            let d = Diagnostic::error(V14.1, "this operation passes no relays")
                .primary(span, "here")
                .help("`via` belongs to put, get and notify; the messages of a queue have one route");
            self.out.push(V14, d);
        }
        self.routed(peer, span);
    }

    /// Checks V14: a peer has one coordinate for each coordinate of the region.
    fn routed(&mut self, peer: &Peer, span: Span) {
        if peer.len() != self.r.coords.len() {
            let names: Vec<&str> = self.r.coords.iter().map(|c| c.0.as_str()).collect();
            let text = format!(
                "a peer in region {} has {} coordinates, not {}",
                self.r.name,
                names.len(),
                peer.len()
            );
            let d = Diagnostic::error(V14.1, text).primary(span, "here");
            self.out.push(V14, d.help(format!("write one expression for each of: {}", names.join(", "))));
        }
        for (i, e) in peer.iter().enumerate() {
            self.expr(e, span);
            if let (Some(v), Some((name, size))) = (e.as_int(), self.r.coords.get(i))
                && u64::try_from(v).map_or(true, |v| v >= *size)
            {
                let text = format!("the peer's {name} is {v}, outside 0..{size}");
                self.out.fail(V14, text, span, "here");
            }
        }
    }

    fn counter(&mut self, signal: SignalId, index: &Expr, span: Span) {
        self.expr(index, span);
        let Some(g) = self.s.signals.get(signal.0 as usize) else {
            return self.out.fail(V2, format!("signal {} does not exist", signal.0), span, "here");
        };
        if index.as_int().is_some_and(|i| u64::try_from(i).map_or(true, |i| i >= g.count)) {
            let text =
                format!("signal {} has {} counters, so counter {index} does not exist", g.name, g.count);
            self.out.fail(V13, text, span, "here");
        }
    }

    /// Checks V2 and V13 for a queue.
    fn queue(&mut self, queue: QueueId, index: &Expr, span: Span) -> Option<&'a Queue> {
        self.expr(index, span);
        let Some(q) = self.s.queues.get(queue.0 as usize) else {
            self.out.fail(V2, format!("queue {} does not exist", queue.0), span, "here");
            return None;
        };
        if index.as_int().is_some_and(|i| u64::try_from(i).map_or(true, |i| i >= q.count)) {
            let text = format!("queue {} has {} numbers, so number {index} does not exist", q.name, q.count);
            self.out.fail(V13, text, span, "here");
        }
        Some(q)
    }

    /// Checks V13 and V15 for the message of a queue.
    fn message(&mut self, x: &Ref, queue: QueueId, index: &Expr, span: Span) {
        let q = self.queue(queue, index, span);
        let dtype = self.reference(x, span);
        let Ref::Chunk { operand, path } = x else {
            let d = Diagnostic::error(V13.1, "a queue carries chunks, not slots of a window")
                .primary(span, "here");
            return self
                .out
                .push(V13, d.help("use `put` and `get` for windows; a queue transfer cannot name a window"));
        };
        let Some(q) = q else { return };
        let least = self.exact(*operand, path).or_else(|| self.smallest(*operand, path));
        if let Some(n) = least.filter(|n| *n > q.capacity) {
            let text = format!(
                "{n} elements do not fit into a slot of queue {}, which holds {}",
                q.name, q.capacity
            );
            self.out.push(
                V13,
                Diagnostic::error(V13.1, text).primary(span, "here").secondary(q.span, "declared here"),
            );
        }
        if dtype.is_some_and(|d| d != q.dtype) {
            let text =
                format!("queue {} carries {}, and this is {}", q.name, q.dtype, dtype.unwrap_or(q.dtype));
            self.out.push(
                V15,
                Diagnostic::error(V15.1, text).primary(span, "here").secondary(q.span, "declared here"),
            );
        }
    }

    /// Checks both sides of an operation. Returns their element type if both have the same.
    fn pair(&mut self, dst: &Ref, src: &Ref, what: &str, span: Span) -> Option<DType> {
        let (a, b) = (self.reference(dst, span), self.reference(src, span));
        match (dst, src) {
            (Ref::Slot { window: _, slot: _ }, Ref::Slot { window: _, slot: _ }) => {
                let text = format!("both sides of this {what} are slots");
                let d = Diagnostic::error(V13.1, text).primary(span, "here");
                self.out.push(
                    V13,
                    d.help("one side must be a chunk, because a chunk defines the number of elements"),
                );
            }
            (Ref::Slot { window, slot: _ }, Ref::Chunk { operand, path })
            | (Ref::Chunk { operand, path }, Ref::Slot { window, slot: _ }) => {
                self.capacity(*window, *operand, path, span);
            }
            (Ref::Chunk { operand: x, path: p }, Ref::Chunk { operand: y, path: q }) => {
                if let (Some(n), Some(m)) = (self.exact(*x, p), self.exact(*y, q))
                    && n != m
                {
                    self.out.fail(
                        V13,
                        format!("one side of this {what} has {n} elements, the other {m}"),
                        span,
                        "here",
                    );
                }
            }
        }
        let (a, b) = (a?, b?);
        if a != b {
            let text = format!("the two sides of this {what} are {a} and {b}");
            let d = Diagnostic::error(V15.1, text).primary(span, "here");
            self.out.push(V15, d.help("convert with `cast` into another buffer first"));
            return None;
        }
        Some(a)
    }

    /// Checks V2 and V13 for one side, and returns its element type.
    fn reference(&mut self, r: &Ref, span: Span) -> Option<DType> {
        match r {
            Ref::Slot { window, slot } => {
                self.expr(slot, span);
                let Some(w) = self.s.windows.get(window.0 as usize) else {
                    self.out.fail(V2, format!("window {} does not exist", window.0), span, "here");
                    return None;
                };
                if slot.as_int().is_some_and(|i| u64::try_from(i).map_or(true, |i| i >= w.slots)) {
                    let text =
                        format!("window {} has {} slots, so slot {slot} does not exist", w.name, w.slots);
                    self.out.fail(V13, text, span, "here");
                }
                Some(w.dtype)
            }
            Ref::Chunk { operand, path } => {
                for (i, p) in path.iter().enumerate() {
                    [&p.index, &p.len, &p.of].into_iter().for_each(|e| self.expr(e, span));
                    self.digit(p, i + 1 == path.len(), span);
                }
                let Some(o) = self.r.operands.get(operand.0 as usize) else {
                    let text = format!("region {} has no operand {}", self.r.name, operand.0);
                    self.out.fail(V2, text, span, "here");
                    return None;
                };
                self.s.buffers.get(o.buffer.0 as usize).map(|b| b.dtype)
            }
        }
    }

    fn digit(&mut self, p: &Part, last: bool, span: Span) {
        let text = match (p.index.as_int(), p.len.as_int(), p.of.as_int()) {
            (_, _, Some(of)) if of < 1 => format!("a line cannot be divided into {of} chunks"),
            (_, len, _) if !last && len != Some(1) => {
                "only the last part of an address can be a run of several chunks".into()
            }
            (Some(i), _, _) if i < 0 => format!("chunk {i} does not exist"),
            (_, Some(n), _) if n < 0 => format!("a run cannot have {n} chunks"),
            (Some(i), Some(n), Some(of)) if i.checked_add(n).is_none_or(|end| end > of) => {
                format!("chunks {i}..{} of {of} do not exist", i.saturating_add(n))
            }
            _ => return,
        };
        self.out.fail(V13, text, span, "here");
    }

    /// Checks V13: the slot can hold the smallest chunk that the address may denote.
    fn capacity(&mut self, window: WindowId, operand: OperandId, path: &[Part], span: Span) {
        let Some(w) = self.s.windows.get(window.0 as usize) else { return };
        let least = self.exact(operand, path).or_else(|| self.smallest(operand, path));
        if let Some(n) = least.filter(|n| *n > w.capacity) {
            let text = format!(
                "{n} elements do not fit into a slot of window {}, which holds {}",
                w.name, w.capacity
            );
            let d = Diagnostic::error(V13.1, text).primary(span, "here");
            self.out.push(V13, d.secondary(w.span, "declared here"));
        }
    }

    /// Returns the line of an operand if it has the same length on every rank.
    fn line(&self, operand: OperandId) -> Option<Sized<'_, u64>> {
        let l = &self.r.operands.get(operand.0 as usize)?.line;
        let (extent, unit) = (u64::try_from(l.extent.as_int()?).ok()?, u64::try_from(l.unit.as_int()?).ok()?);
        let row = u64::try_from(l.row.as_int()?).ok()?;
        Some(Sized { parts: l.parts.max(1), extent, unit, rule: &l.rule, row })
    }

    /// Returns the number of elements of a chunk with a constant address.
    fn exact(&self, operand: OperandId, path: &[Part]) -> Option<u64> {
        let line = self.line(operand)?;
        let chunks = path.iter().try_fold(Chunks::WHOLE, |at, p| {
            at.cut([p.index.as_int()?, p.len.as_int()?, p.of.as_int()?]).ok()
        });
        elements(&line, chunks?)
    }

    /// Returns the number of elements of the smallest chunk that an address may denote.
    fn smallest(&self, operand: OperandId, path: &[Part]) -> Option<u64> {
        let line = self.line(operand)?;
        let mut den = 1i64;
        for p in path {
            den = den.checked_mul(p.of.as_int()?).filter(|d| (1..=TRIED_CHUNKS).contains(d))?;
        }
        let last = path.last()?;
        let (cnt, of) = (last.len.as_int()?, last.of.as_int()?);
        let find = || {
            let outer = (0..den / of).filter_map(|i| Chunks::WHOLE.cut([i, 1, den / of]).ok());
            let all = outer.flat_map(|at| (0..of).filter_map(move |i| at.cut([i, cnt, of]).ok()));
            all.filter_map(|chunks| elements(&line, chunks)).min()
        };
        *self.least.borrow_mut().entry((operand.0, [cnt, of, den])).or_insert_with(find)
    }
}

/// Returns the number of elements of chunks, if it fits.
fn elements(line: &Sized<'_, u64>, Chunks { num, cnt, den }: Chunks<u64>) -> Option<u64> {
    line.start(num.checked_add(cnt)?, den)?.checked_sub(line.start(num, den)?)
}

/// Position at which an event is recorded.
struct Recorded<'a> {
    region: usize,
    stream: &'a Name,
    span: Span,
}

/// Checks V18 (events) and V19 (signals and queues) for all regions.
pub(super) fn order(s: &Schedule, out: &mut Report) {
    let mut records: BTreeMap<&str, Vec<Recorded>> = BTreeMap::new();
    let mut awaits: Vec<(&Name, &Name, Span)> = vec![];
    let (mut sent, mut received) = (vec![None; s.queues.len()], vec![None; s.queues.len()]);
    let (mut notified, mut waited) = (vec![None; s.signals.len()], vec![None; s.signals.len()]);
    for (i, r) in s.regions.iter().enumerate() {
        for role in &r.roles {
            let mut here: BTreeMap<&str, Span> = BTreeMap::new();
            for st in &role.streams {
                each(&st.body, false, &mut |op, span, looped| match op {
                    SOp::Record(e) => {
                        if looped {
                            out.push(
                                V18,
                                Diagnostic::error(V18.1, format!("event {e} is recorded in a loop"))
                                    .primary(span, "here")
                                    .help("an event is recorded once per call: record it after the loop"),
                            );
                        }
                        if let Some(first) = here.insert(e, span) {
                            let text = format!("role {} records event {e} twice", role.name);
                            let d = Diagnostic::error(V18.1, text).primary(span, "again here");
                            out.push(V18, d.secondary(first, "first here"));
                        }
                        records.entry(e.as_str()).or_default().push(Recorded {
                            region: i,
                            stream: &st.name,
                            span,
                        });
                    }
                    SOp::Await(e) => awaits.push((e, &st.name, span)),
                    SOp::Send { queue: Channel { queue, index: _ }, src: _, peer: _ } => {
                        note(&mut sent, queue.0, span)
                    }
                    SOp::Recv { queue: Channel { queue, index: _ }, dst: _, peer: _ } => {
                        note(&mut received, queue.0, span)
                    }
                    SOp::Notify { counter: Counter { signal, index: _ }, peer: _ } => {
                        note(&mut notified, signal.0, span)
                    }
                    SOp::Wait { counter: Counter { signal, index: _ }, value: _ } => {
                        note(&mut waited, signal.0, span)
                    }
                    SOp::Copy { dst: _, src: _ }
                    | SOp::Reduce { op: _, dst: _, src: _ }
                    | SOp::Put { src: _, peer: _, dst: _ }
                    | SOp::Get { dst: _, peer: _, src: _ }
                    | SOp::GetCombine { op: _, dst: _, peer: _, src: _ }
                    | SOp::Room { peer: _, queue: _ }
                    | SOp::FenceRelease
                    | SOp::FenceAcquire
                    | SOp::FenceComplete
                    | SOp::Local(_)
                    | SOp::Mark(_)
                    | SOp::HostRead(_)
                    | SOp::Host(_) => {}
                });
            }
        }
    }
    for (e, list) in &records {
        if let Some(other) = list.iter().find(|x| x.region != list[0].region) {
            let text = format!("event {e} is recorded in two regions");
            let d = Diagnostic::error(V18.1, text).primary(other.span, "again here");
            out.push(V18, d.secondary(list[0].span, "first here").help("give each event its own name"));
        }
    }
    for (e, stream, span) in awaits {
        let known: Vec<&str> = records.keys().copied().collect();
        match records.get(e.as_str()) {
            None => {
                let d = crate::text::names::unknown(V18.1, "recorded event", e, known.into_iter(), span);
                out.push(V18, d);
            }
            Some(list) if list.iter().all(|x| x.stream == stream) => {
                let text = format!("stream {stream} awaits event {e}, which it records itself");
                let d = Diagnostic::error(V18.1, text).primary(span, "here");
                out.push(
                    V18,
                    d.secondary(list[0].span, "recorded here")
                        .help("a stream runs in order, so it needs no event for its own operations"),
                );
            }
            Some(_) => {}
        }
    }
    for (i, q) in s.queues.iter().enumerate() {
        let (text, span) = match (sent[i], received[i]) {
            (Some(at), None) => (format!("queue {} has a `send` but no `recv`", q.name), at),
            (None, Some(at)) => (format!("queue {} has a `recv` but no `send`", q.name), at),
            _ => continue,
        };
        out.push(
            V19,
            Diagnostic::error(V19.1, text).primary(span, "here").secondary(q.span, "declared here"),
        );
    }
    for (i, g) in s.signals.iter().enumerate() {
        let (text, span) = match (notified[i], waited[i]) {
            (Some(at), None) => (format!("signal {} has a `notify` but no `wait`", g.name), at),
            (None, Some(at)) => (format!("signal {} has a `wait` but no `notify`", g.name), at),
            _ => continue,
        };
        out.push(
            V19,
            Diagnostic::error(V19.1, text).primary(span, "here").secondary(g.span, "declared here"),
        );
    }
}

fn note(list: &mut [Option<Span>], number: u32, span: Span) {
    if let Some(slot) = list.get_mut(number as usize)
        && slot.is_none()
    {
        *slot = Some(span);
    }
}

/// Calls `f` with every operation, its location, and whether it is in a loop.
fn each<'a>(list: &'a [SStmt], looped: bool, f: &mut impl FnMut(&'a SOp, Span, bool)) {
    for st in list {
        match st {
            SStmt::For { body, var: _, lo: _, hi: _ } => each(body, true, f),
            SStmt::If { then, other, cond: _ } => {
                each(then, looped, f);
                each(other, looped, f);
            }
            SStmt::Op(op, span) => f(op, *span, looped),
        }
    }
}

/// Checks V8 for the claims of `synchronized` and `calls`.
pub(super) fn claims(s: &Schedule, props: Props, out: &mut Report) {
    let synchronized = props.contains(Props::SYNCHRONIZED);
    if synchronized && s.calls == Calls::None {
        out.fail(
            V8,
            "the module is synchronized, but `calls none` claims that no call is safe",
            Span::NONE,
            "`calls none`",
        );
    }
    if !synchronized && s.calls == Calls::None {
        return;
    }
    for st in s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams) {
        each(&st.body, false, &mut |op, span, _| {
            if let SOp::Mark(Mark { point, peer: _, window: _, slot: _ }) = op {
                let text = format!(
                    "calls are claimed to be safe, but this `{}` has not been replaced by a signal yet",
                    point.name()
                );
                out.fail(V8, text, span, "here");
            }
        });
    }
}

//! Generated mutations: the changes that can be made to one field of a schedule, by the type of the
//! field.
//!
//! A single match over all types of fields both lists the changes and applies one, so that the two
//! cannot differ.

use super::field::{Change, EarlierFields};
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::form::Form;
use kbc_ir::grouped::Runs;
use kbc_ir::name::Name;
use kbc_ir::scalar::{Scalar, ScalarFn, ScalarUn};
use kbc_ir::schedule::*;
use kbc_ir::types::{CutRule, DType, MemKind, ReduceOp, TensorType};
use kbc_ir::visit::{ExprUse, Field, FieldMut, FieldPosition};

/// Collects all changes of one field, or applies one of them.
pub(super) struct Chooser {
    /// The change to apply; None lists the changes.
    pub(super) pick: Option<Change>,
    /// The changes listed so far.
    pub(super) found: Vec<Change>,
}

impl Chooser {
    /// Offers changed values. Values that equal the original or an earlier offer are left out.
    fn offer<T: PartialEq>(&mut self, place: &mut T, list: Vec<(Change, T)>) {
        match self.pick {
            Some(c) => {
                if let Some((_, value)) = list.into_iter().find(|x| x.0 == c) {
                    *place = value;
                }
            }
            None => {
                for (i, (change, value)) in list.iter().enumerate() {
                    if value != place && list[..i].iter().all(|x| x.1 != *value) {
                        self.found.push(*change);
                    }
                }
            }
        }
    }

    fn others<T: PartialEq + Copy>(&mut self, place: &mut T, all: &[T]) {
        let list = all.iter().filter(|x| *x != place).copied();
        let list = list.enumerate().map(|(i, x)| (Change::Other(i as u32), x)).collect();
        self.offer(place, list);
    }

    fn number(&mut self, place: &mut u64) {
        let n = *place;
        let list = [
            (Change::More, n.saturating_add(1)),
            (Change::Less, n.saturating_sub(1)),
            (Change::One, 1),
            (Change::Doubled, n.saturating_mul(2)),
        ];
        self.offer(place, list.to_vec());
    }

    fn name(&mut self, place: &mut Name, known: &[Name]) {
        let mut list: Vec<(Change, Name)> = vec![];
        let others = known.iter().filter(|n| *n != place).enumerate();
        list.extend(others.map(|(i, n)| (Change::Other(i as u32), n.clone())));
        list.push((Change::Fresh, format!("{place}_new").as_str().into()));
        self.offer(place, list);
    }

    /// Offers changes of the entries of a list: each entry left out, each replaced by another
    /// entry, neighbours swapped.
    fn entries<T: PartialEq + Clone>(
        &mut self,
        place: &mut Vec<T>,
        shorter: bool,
        other: &dyn Fn(&T) -> Vec<T>,
    ) {
        // Lists may have one entry per rank; a few from each end are representative.
        let n = place.len();
        let some = || (0..n).filter(|i| *i < 3 || i + 2 > n);
        let mut list = vec![];
        for i in some() {
            let with = |x: T| {
                let mut new = place.clone();
                new[i] = x;
                new
            };
            if shorter {
                let mut new = place.clone();
                new.remove(i);
                list.push((Change::Shorter(i as u32), new));
            }
            list.extend(other(&place[i]).into_iter().take(1).map(|x| (Change::Entry(i as u32), with(x))));
            if i + 1 < n {
                let mut new = place.clone();
                new.swap(i, i + 1);
                list.push((Change::Swapped(i as u32), new));
            }
        }
        self.offer(place, list);
    }
}

/// Returns the condition that holds in call 1 alone.
pub(super) fn once() -> Expr {
    Expr::bin(BinOp::Eq, Expr::var(CALL), Expr::Int(1))
}

/// Returns the next of `count` things, cyclically.
pub(super) fn next(e: &Expr, count: Expr) -> Expr {
    (e.clone() + Expr::Int(1)).modulo(count)
}

/// Returns a similar operator.
fn similar(op: BinOp) -> BinOp {
    match op {
        BinOp::Add => BinOp::Sub,
        BinOp::Sub => BinOp::Add,
        BinOp::Mul => BinOp::Add,
        BinOp::Div => BinOp::Mod,
        BinOp::Mod => BinOp::Div,
        BinOp::Min => BinOp::Max,
        BinOp::Max => BinOp::Min,
        BinOp::And => BinOp::Or,
        BinOp::Or => BinOp::And,
        BinOp::BitAnd => BinOp::BitOr,
        BinOp::BitOr => BinOp::Xor,
        BinOp::Xor => BinOp::Add,
        BinOp::Shl => BinOp::Shr,
        BinOp::Shr => BinOp::Shl,
        BinOp::Eq => BinOp::Ge,
        BinOp::Ne => BinOp::Gt,
        BinOp::Lt => BinOp::Le,
        BinOp::Le => BinOp::Lt,
        BinOp::Gt => BinOp::Ge,
        BinOp::Ge => BinOp::Gt,
    }
}

/// Returns the coordinates that an expression may name, with their sizes.
fn coordinates(s: &Schedule, region: Option<&Region>, of: ExprUse) -> Vec<(Name, u64)> {
    match of {
        ExprUse::Part | ExprUse::Dim | ExprUse::Extent | ExprUse::Unit | ExprUse::Row => {
            s.mesh.axes.iter().map(|a| (a.name.clone(), a.size)).collect()
        }
        ExprUse::Clause => {
            let names = region.and_then(|r| r.contract.as_ref().map(|p| (p.rank.clone(), s.group_size(r))));
            names.into_iter().collect()
        }
        ExprUse::Bound
        | ExprUse::Guard
        | ExprUse::Ranks
        | ExprUse::Peer(_)
        | ExprUse::Slot
        | ExprUse::Counter
        | ExprUse::Value(_)
        | ExprUse::Queue
        | ExprUse::ChunkIndex
        | ExprUse::ChunkLen
        | ExprUse::ChunkOf => region.map_or(vec![], |r| r.coords.clone()),
    }
}

/// Whether an expression may name the call.
fn in_call(of: ExprUse) -> bool {
    match of {
        ExprUse::Bound
        | ExprUse::Guard
        | ExprUse::Peer(_)
        | ExprUse::Slot
        | ExprUse::Counter
        | ExprUse::Value(_)
        | ExprUse::Queue
        | ExprUse::ChunkIndex
        | ExprUse::ChunkLen
        | ExprUse::ChunkOf => true,
        ExprUse::Ranks
        | ExprUse::Part
        | ExprUse::Dim
        | ExprUse::Extent
        | ExprUse::Unit
        | ExprUse::Row
        | ExprUse::Clause => false,
    }
}

/// Returns the number of things among which an expression selects one.
fn count(region: Option<&Region>, seen: &EarlierFields, of: ExprUse) -> Option<Expr> {
    let some = |n: u64| (n > 1).then(|| Expr::Int(i64::try_from(n).unwrap_or(i64::MAX)));
    match of {
        ExprUse::Peer(i) => some(region?.coords.get(i as usize)?.1),
        ExprUse::Slot => some(seen.sizes.0),
        ExprUse::Counter => some(seen.sizes.1),
        ExprUse::Queue => some(seen.sizes.2),
        ExprUse::ChunkIndex => {
            let part = seen.path.get(seen.digit)?;
            (part.len == Expr::Int(1) && part.of != Expr::Int(1)).then(|| part.of.clone())
        }
        ExprUse::Bound
        | ExprUse::Guard
        | ExprUse::Ranks
        | ExprUse::Value(_)
        | ExprUse::ChunkLen
        | ExprUse::ChunkOf
        | ExprUse::Part
        | ExprUse::Dim
        | ExprUse::Extent
        | ExprUse::Unit
        | ExprUse::Row
        | ExprUse::Clause => None,
    }
}

fn expressions(
    s: &Schedule,
    region: Option<&Region>,
    seen: &EarlierFields,
    of: ExprUse,
    e: &Expr,
) -> Vec<(Change, Expr)> {
    let coords = coordinates(s, region, of);
    let count = count(region, seen, of);
    let truth = matches!(of, ExprUse::Guard | ExprUse::Ranks);
    let mut out = vec![];
    // Changes that keep the expression in its range come first.
    if let Some(n) = &count {
        out.push((Change::Next, next(e, n.clone())));
    }
    if truth {
        out.push((Change::Not, Expr::un(UnOp::Not, e.clone())));
        out.push((Change::Always, Expr::Int(1)));
    }
    let another = match (&count, truth) {
        (Some(n), _) => next(e, n.clone()),
        (None, true) => Expr::un(UnOp::Not, e.clone()),
        (None, false) => e.clone() + Expr::Int(1),
    };
    out.push((Change::More, e.clone() + Expr::Int(1)));
    out.push((Change::Less, e.clone() - Expr::Int(1)));
    out.push((Change::Zero, Expr::Int(0)));
    out.push((Change::Doubled, Expr::bin(BinOp::Mul, Expr::Int(2), e.clone())));
    if let Some(n) = &count {
        out.push((Change::Reversed, n.clone() - Expr::Int(1) - e.clone()));
        out.push((Change::Fewer, e.clone().modulo(n.clone() - Expr::Int(1))));
        let half = Expr::bin(BinOp::Div, e.clone(), Expr::Int(2));
        out.push((Change::Even, Expr::bin(BinOp::Mul, half, Expr::Int(2))));
    }
    let within = |e: Expr| count.as_ref().map_or(e.clone(), |n| e.modulo(n.clone()));
    if in_call(of) {
        out.push((Change::Call, within(e.clone() + Expr::var(CALL))));
        out.push((Change::Once, Expr::select(once(), another.clone(), e.clone())));
        let late = Expr::bin(BinOp::Ge, Expr::var(CALL), Expr::Int(4));
        out.push((Change::Late, Expr::select(late, another, e.clone())));
        if e.mentions(CALL) {
            let before = Expr::var(CALL) - Expr::Int(1);
            out.push((Change::CallBefore, e.subst(&|n| (n == CALL).then(|| before.clone()))));
            out.push((Change::FirstCall, e.subst(&|n| (n == CALL).then_some(Expr::Int(0)))));
        }
    }
    for (i, (name, size)) in coords.iter().enumerate().filter(|(_, c)| c.1 > 1) {
        let (k, var) = (i as u32, Expr::Var(name.clone()));
        out.push((Change::Rank(k), within(e.clone() + var.clone())));
        if of == ExprUse::Peer(k) {
            out.push((Change::Own(k), var.clone()));
        }
        if e.mentions(name) {
            let size = Expr::Int(i64::try_from(*size).unwrap_or(i64::MAX));
            let next = next(&var, size);
            out.push((Change::Moved(k), e.subst(&|n| (n == name).then(|| next.clone()))));
        }
        if truth {
            let wider = Expr::bin(BinOp::Or, e.clone(), var.equals(Expr::Int(0)));
            out.push((Change::Wider(k), wider));
        }
    }
    if let Expr::Bin(op, a, b) = e {
        out.push((Change::Operator, Expr::Bin(similar(*op), a.clone(), b.clone())));
        if *op == BinOp::Mod {
            out.push((Change::Unwrapped, (**a).clone()));
        }
    }
    out
}

/// Returns references that can replace a reference: other operands, other windows.
fn references(s: &Schedule, region: Option<&Region>, r: &Ref) -> Vec<(Change, Ref)> {
    let operands = region.map_or(0, |r| r.operands.len() as u32);
    let whole = (0..operands).map(|o| Ref::Chunk { operand: OperandId(o), path: vec![] });
    let slots = (0..s.windows.len() as u32).map(|w| Ref::Slot { window: WindowId(w), slot: Expr::Int(0) });
    let all = whole.chain(slots).filter(|x| x != r).take(6);
    all.enumerate().map(|(i, x)| (Change::Other(i as u32), x)).collect()
}

/// Returns the buffers of the same element type.
fn buffers(s: &Schedule, b: BufferId) -> Vec<BufferId> {
    let dtype = s.buffers.get(b.0 as usize).map(|b| b.dtype);
    let all = (0..s.buffers.len() as u32).map(BufferId);
    all.filter(|o| *o != b && s.buffers.get(o.0 as usize).map(|b| b.dtype) == dtype).take(4).collect()
}

/// Returns the names that things of this kind have in a schedule.
fn names(s: &Schedule, region: Option<&Region>, what: &str) -> Vec<Name> {
    let mut out: Vec<Name> = match what {
        "axis" => s.mesh.axes.iter().map(|a| a.name.clone()).collect(),
        "coordinate" => region.map_or(vec![], |r| r.coords.iter().map(|c| c.0.clone()).collect()),
        "operand" | "clause" | "contract" => {
            region.map_or(vec![], |r| r.operands.iter().map(|o| o.name.clone()).collect())
        }
        "stream" => {
            let roles = s.regions.iter().flat_map(|r| &r.roles);
            roles.flat_map(|role| &role.streams).map(|st| st.name.clone()).collect()
        }
        "table" => s.tables.iter().map(|t| t.name.clone()).collect(),
        "step" => vec![CALL.into()],
        _ => vec![],
    };
    out.sort_unstable();
    out.dedup();
    out
}

fn events(s: &Schedule) -> Vec<Name> {
    let mut out = vec![];
    kbc_ir::visit::each_field(s, &mut |_, field| {
        if let Field::Event(e) = field {
            out.push(e.clone());
        }
    });
    out.sort_unstable();
    out.dedup();
    out
}

fn tensors(s: &Schedule, t: &Option<TensorType>) -> Vec<(Change, Option<TensorType>)> {
    let mut out = vec![(Change::Absent, None)];
    let Some(t) = t else { return out };
    let axes: Vec<Name> = s.mesh.axes.iter().map(|a| a.name.clone()).collect();
    let mut other = vec![];
    let TensorType { dtype: _, dims, partial, only } = t;
    for (i, d) in dims.iter().enumerate() {
        let mut larger = t.clone();
        larger.dims[i].size = d.size + 1;
        other.push(larger);
        let mut uncut = t.clone();
        uncut.dims[i].cut = None;
        other.push(uncut);
        if let Some(cut) = &d.cut {
            let mut ruled = t.clone();
            let rule = if cut.rule == CutRule::Even { CutRule::Ceil } else { CutRule::Even };
            ruled.dims[i].cut = Some(kbc_ir::types::Cut { axes: cut.axes.clone(), rule });
            other.push(ruled);
        }
    }
    let with = |partial: Option<(ReduceOp, Vec<Name>)>, only: Option<(u64, Name)>| TensorType {
        partial,
        only,
        ..t.clone()
    };
    other.push(with(None, only.clone()));
    other.push(with(partial.clone(), None));
    if let Some((op, axes)) = partial {
        let next = if *op == ReduceOp::Sum { ReduceOp::Max } else { ReduceOp::Sum };
        other.push(with(Some((next, axes.clone())), only.clone()));
    }
    if let Some((c, axis)) = only {
        let size = s.mesh.axis(axis).map_or(1, |a| a.size).max(1);
        other.push(with(partial.clone(), Some(((c + 1) % size, axis.clone()))));
    } else if let Some(axis) = axes.first() {
        other.push(with(partial.clone(), Some((0, axis.clone()))));
    }
    out.extend(other.into_iter().enumerate().map(|(i, t)| (Change::Other(i as u32), Some(t))));
    out
}

/// Lists the changes of a field, or applies one.
pub(super) fn alter(
    s: &Schedule,
    at: &FieldPosition,
    seen: &EarlierFields,
    field: FieldMut<'_>,
    c: &mut Chooser,
) {
    let region = at.region.and_then(|r| s.regions.get(r as usize));
    let ids = |n: usize| 0..n as u32;
    match field {
        FieldMut::Expr(of, e) => {
            let list = expressions(s, region, seen, of, e);
            c.offer(e, list);
        }
        FieldMut::Ref(_, r) => {
            let list = references(s, region, r);
            c.offer(r, list);
        }
        FieldMut::Body(_) | FieldMut::Label(_) | FieldMut::SignalUse(_) => {}
        FieldMut::Count(_, n) => c.number(n),
        FieldMut::Dimension(_, d) => {
            let list = vec![(Change::More, d.saturating_add(1)), (Change::Less, d.saturating_sub(1))];
            c.offer(d, list);
        }
        FieldMut::Flag(_, f) => {
            let list = vec![(Change::Not, !*f)];
            c.offer(f, list);
        }
        FieldMut::Offset(o) => {
            let more = o.map_or(64, |o| o.saturating_add(64));
            c.offer(o, vec![(Change::Absent, None), (Change::Zero, Some(0)), (Change::More, Some(more))]);
        }
        FieldMut::Combiner(op) => c.others(op, &ReduceOp::ALL),
        FieldMut::Promised(op) => {
            let all: Vec<_> = ReduceOp::ALL.into_iter().map(Some).chain([None]).collect();
            c.others(op, &all);
        }
        FieldMut::Root(r) => {
            let size = region.map_or(1, |r| s.group_size(r)).max(1);
            let list = vec![(Change::Next, r.map(|r| r.saturating_add(1) % size)), (Change::Absent, None)];
            c.offer(r, list);
        }
        FieldMut::Mean(m) => {
            let more = m.map_or(2, |m| m.saturating_add(1));
            c.offer(m, vec![(Change::Absent, None), (Change::More, Some(more))]);
        }
        FieldMut::Number(x) => {
            c.offer(x, vec![(Change::More, *x + 1.0), (Change::Zero, 0.0), (Change::Not, -*x)]);
        }
        FieldMut::DType(d) => c.others(d, &DType::ALL),
        FieldMut::Memory(m) => c.others(m, &MemKind::ALL),
        FieldMut::Rule(rule) => {
            let mut list = vec![
                (Change::Other(0), CutRule::Even),
                (Change::Other(1), CutRule::Ceil),
                (Change::Other(2), CutRule::Lines(2)),
            ];
            if let CutRule::Lines(unit) = rule {
                list.push((Change::More, CutRule::Lines(unit.saturating_add(1))));
            }
            if let CutRule::Lengths(parts) = rule {
                let rows: Vec<Vec<u64>> = (0..parts.rows()).map(|r| parts.lengths(r)).collect();
                for (i, row) in rows.iter().enumerate().take(2) {
                    let mut new = rows.clone();
                    new[i].rotate_left(1.min(row.len()));
                    if let Some(parts) = kbc_ir::parts::Parts::new(&new) {
                        list.push((Change::Entry(i as u32), CutRule::Lengths(parts)));
                    }
                }
            }
            c.offer(rule, list);
        }
        FieldMut::Form(f) => {
            let bit = [true, false];
            let all: Vec<Form> = [Form::Epoch]
                .into_iter()
                .chain(bit.map(|fresh| Form::Sense { fresh }))
                .chain(bit.map(|fresh| Form::Clearing { fresh }))
                .collect();
            c.others(f, &all);
        }
        FieldMut::Calls(k) => c.others(k, &[Calls::None, Calls::First, Calls::Any]),
        FieldMut::BufferRole(r) => {
            let n = s.buffers.len().min(3) as u32;
            let all: Vec<BufferRole> = (0..n)
                .map(BufferRole::Input)
                .chain((0..n).map(BufferRole::Output))
                .chain([BufferRole::Temp])
                .collect();
            c.others(r, &all);
        }
        FieldMut::Tensor(t) => {
            let list = tensors(s, t);
            c.offer(t, list);
        }
        FieldMut::Buffer(_, b) => c.others(b, &buffers(s, *b)),
        FieldMut::Buffers(list) => c.entries(list, true, &|b| buffers(s, *b)),
        FieldMut::Window(w) => c.others(w, &ids(s.windows.len()).map(WindowId).collect::<Vec<_>>()),
        FieldMut::Signal(x) => c.others(x, &ids(s.signals.len()).map(SignalId).collect::<Vec<_>>()),
        FieldMut::Queue(q) => c.others(q, &ids(s.queues.len()).map(QueueId).collect::<Vec<_>>()),
        FieldMut::Operand(o) => {
            let n = region.map_or(0, |r| r.operands.len());
            c.others(o, &ids(n).map(OperandId).collect::<Vec<_>>());
        }
        FieldMut::Region(r) => c.others(r, &ids(s.regions.len()).map(RegionId).collect::<Vec<_>>()),
        FieldMut::After(list) => {
            let all: Vec<RegionId> = ids(s.regions.len()).map(RegionId).collect();
            c.entries(list, true, &|r| all.iter().copied().filter(|x| x != r).collect());
            let longer = all.iter().filter(|r| !list.contains(r)).take(3);
            let longer = longer.map(|r| (Change::Other(r.0), [&list[..], &[*r]].concat())).collect();
            c.offer(list, longer);
        }
        FieldMut::Point(p) => c.others(p, &Point::ALL),
        FieldMut::Event(e) => c.name(e, &events(s)),
        FieldMut::Name(what, n) => c.name(n, &names(s, region, what)),
        FieldMut::Hint(what, n) => {
            if matches!(what, "rank" | "size" | "variable") {
                c.name(n, &[]);
            }
        }
        FieldMut::RankList(l) => {
            let size = region.map_or(1, |r| s.group_size(r)).max(1);
            let free = (0..size).find(|r| !l.contains(r));
            c.entries(l, true, &|_| free.into_iter().collect());
        }
        FieldMut::Via(_) => {}
        FieldMut::Entries(l) => c.entries(l, true, &|v| vec![v.wrapping_add(1)]),
        FieldMut::Permutation(l) => c.entries(l, true, &|d| vec![d ^ 1]),
        FieldMut::Function(f) => {
            let ScalarFn { name, params, body } = f.clone();
            let with = |body: Scalar| ScalarFn { name: name.clone(), params: params.clone(), body };
            let list = vec![
                (Change::Not, with(Scalar::Un(ScalarUn::Neg, Box::new(body)))),
                (Change::Zero, with(Scalar::Num(0.0))),
            ];
            c.offer(f, list);
        }
        FieldMut::Tiles(k) => {
            let mut list = vec![];
            for i in 0..k.vars.len().min(4) {
                let mut new = (**k).clone();
                new.vars[i].tile += 1;
                list.push((Change::Entry(i as u32), std::sync::Arc::new(new)));
            }
            let mut new = (**k).clone();
            new.body.pop();
            list.push((Change::Shorter(0), std::sync::Arc::new(new)));
            c.offer(k, list);
        }
        FieldMut::Runs(r) => {
            let mut list = r.list().to_vec();
            let mut inner = Chooser { pick: c.pick, found: vec![] };
            inner.entries(&mut list, true, &|run| vec![(run.0, run.1 + 1)]);
            c.found.append(&mut inner.found);
            if c.pick.is_some()
                && let Some(new) = Runs::new(list)
            {
                *r = new;
            }
        }
        FieldMut::Places(l) => c.entries(l, true, &|p| vec![(p.0 + 1, p.1)]),
        FieldMut::Mesh(m) => {
            let mut list = vec![];
            for i in 0..m.axes.len().min(3) {
                let mut new = m.clone();
                new.axes[i].size += 1;
                list.push((Change::Entry(i as u32), new));
                if i + 1 < m.axes.len() {
                    let mut new = m.clone();
                    new.axes.swap(i, i + 1);
                    list.push((Change::Swapped(i as u32), new));
                }
            }
            c.offer(m, list);
        }
    }
}

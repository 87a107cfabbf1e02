//! Pass `in-place`: temporary areas that only repeat a tensor are that tensor.
//!
//! A schedule begins with copies of inputs into buffers and ends with copies of buffers to results,
//! because elsewhere these are different memories. Here both are memory of the rank, and a copy
//! takes as long as a message. Two cases are recognised, by the statements alone:
//!
//! * **An input is read in place.** The first access of an area is a loop that copies a whole input
//!   to it, and nothing else writes to it. Inputs do not change during a call, so both hold the
//!   same elements whenever the area is read.
//! * **A result is written in place.** The last access of an area is a loop that copies it to a
//!   whole result, which nothing else accesses. The result holds at every moment what the area
//!   would, and at the end what was copied.
//!
//! The area is one that peers do not reach, with one slot. The loop is a statement of the body
//! itself, so it runs in every call. An area has room for the largest part of a rank, and a tensor
//! for that of this rank: if their sizes are not the same expression, the kernel is traced at some
//! sizes, and no operation may leave the tensor.

use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_tiles::tile::trace::{Launch, Loops, TraceProgram};
use kbc_tiles::tile::visit::{each_in, each_op, each_op_mut};
use kbc_tiles::tile::{AreaId, COUNT, Gm, Kernel, Object, Op, Reach, Stmt, TensorId, TensorUse};

/// A loop of the body that copies elements of one memory to the same places of another.
struct WholeCopy {
    /// The index of the loop in the body.
    at: usize,
    from: Object,
    to: Object,
    total: Expr,
}

/// Replaces areas by tensors until there is none to replace.
pub fn run(kernel: &mut Kernel) {
    while let Some(next) = next(kernel) {
        *kernel = next;
    }
}

/// Returns the kernel without a copy that is not necessary, if there is one.
fn next(kernel: &Kernel) -> Option<Kernel> {
    let total_of = totals(kernel);
    kernel.body.iter().enumerate().filter_map(|(at, stmt)| whole_copy(at, stmt)).find_map(|copy| {
        let (area, tensor, access) = match (copy.from, copy.to) {
            (Object::Tensor(tensor), Object::Area(area)) => (area, tensor, TensorUse::In),
            (Object::Area(area), Object::Tensor(tensor)) => (area, tensor, TensorUse::Out),
            _ => return None,
        };
        let (a, t) = (kernel.area(area), kernel.tensor(tensor));
        let alike = a.reach == Reach::Own
            && a.slots == Expr::Int(1)
            && total_of(&copy) == t.len
            && a.dtype == t.dtype
            && t.access == access;
        let (before, after) = (&kernel.body[..copy.at], &kernel.body[copy.at + 1..]);
        let apart = match access {
            TensorUse::In => !accesses(before, copy.to) && !writes(after, copy.to),
            TensorUse::Out => {
                !accesses(after, copy.from) && !accesses(before, copy.to) && !accesses(after, copy.to)
            }
        };
        if !alike || !apart {
            return None;
        }
        let mut without = kernel.clone();
        without.body.remove(copy.at);
        // The note says where the copy came from.
        if copy.at > 0 && matches!(without.body[copy.at - 1], Stmt::Note { .. }) {
            without.body.remove(copy.at - 1);
        }
        replace(&mut without, area, tensor);
        forget(&mut without.body);
        (a.capacity == t.len || stays_inside(kernel, &without)).then_some(without)
    })
}

/// Removes the names of the body that no statement mentions.
pub(crate) fn forget(body: &mut Vec<Stmt>) {
    let mut at = body.len();
    while at > 0 {
        at -= 1;
        let (head, rest) = body.split_at_mut(at + 1);
        let Stmt::Let { name, .. } = &head[at] else { continue };
        let mut mentioned = false;
        each_in(rest, &mut |e| mentioned |= e.mentions(name));
        if !mentioned {
            body.remove(at);
        }
    }
}

/// Returns a function that yields the number of elements of a copy in the names of the launch.
fn totals(kernel: &Kernel) -> impl Fn(&WholeCopy) -> Expr {
    let mut known: Vec<(usize, Name, Expr)> = vec![];
    let find = |known: &[(usize, Name, Expr)], at: usize, name: &Name| {
        known.iter().rev().find(|k| k.0 < at && k.1 == *name).map(|k| k.2.clone())
    };
    for (at, stmt) in kernel.body.iter().enumerate() {
        if let Stmt::Let { name, value } = stmt {
            let value = value.subst(&|n| find(&known, at, n)).simplify();
            known.push((at, name.clone(), value));
        }
    }
    move |copy| copy.total.subst(&|n| find(&known, copy.at, n)).simplify()
}

/// Numbers of ranks and elements of the traces.
pub(crate) const TRACED: ([i64; 6], [i64; 6]) = ([1, 2, 3, 4, 5, 8], [0, 1, 7, 16, 65, 1000]);

/// Most events of a trace.
pub(crate) const MOST_EVENTS: usize = 1 << 16;

/// Checks whether no operation of a kernel leaves its memory, at sizes at which none of the
/// original one does. There has to be such a size with several elements.
fn stays_inside(original: &Kernel, kernel: &Kernel) -> bool {
    let (Ok(original), Ok(changed)) = (TraceProgram::new(original), TraceProgram::new(kernel)) else {
        return false;
    };
    let mut seen = false;
    for nranks in TRACED.0 {
        for count in TRACED.1 {
            let launch = |rank| {
                let scalars = [(Name::from(COUNT), count)].into();
                Launch { nranks, rank, core: 0, call: 1, scalars }
            };
            let inside =
                |p: &TraceProgram<'_>, rank| p.check(&launch(rank), Loops::Unrolled, MOST_EVENTS).is_ok();
            if !(0..nranks).all(|rank| inside(&original, rank)) {
                continue;
            }
            seen |= count > 1;
            if !(0..nranks).all(|rank| inside(&changed, rank)) {
                return false;
            }
        }
    }
    seen
}

/// Returns the copy that a statement is, if it is one.
fn whole_copy(at: usize, stmt: &Stmt) -> Option<WholeCopy> {
    let Stmt::Tiles { pos, len, total, rows: None, body, .. } = stmt else { return None };
    let [Stmt::Op(Op::Load { tile, len: loaded, from }), Stmt::Op(Op::Store { to, tile: stored, len: n })] =
        &body[..]
    else {
        return None;
    };
    let is = |e: &Expr, name: &Name| matches!(e, Expr::Var(n) if n == name);
    let begins = |g: &Gm| g.peer.is_none() && g.slot == Expr::Int(0) && is(&g.offset, pos);
    let whole = tile == stored && is(loaded, len) && is(n, len) && begins(from) && begins(to);
    whole.then(|| WholeCopy { at, from: from.object, to: to.object, total: total.clone() })
}

fn accesses(list: &[Stmt], object: Object) -> bool {
    let mut found = false;
    each_op(list, &mut |op| found |= op.place().is_some_and(|(g, _)| g.object == object));
    found
}

pub(crate) fn writes(list: &[Stmt], object: Object) -> bool {
    let mut found = false;
    each_op(list, &mut |op| found |= op.place().is_some_and(|(g, writes)| writes && g.object == object));
    found
}

/// Puts a tensor in the place of an area, and removes the area.
fn replace(kernel: &mut Kernel, area: AreaId, tensor: TensorId) {
    each_op_mut(&mut kernel.body, &mut |op| {
        let Some(gm) = op.place_mut() else { return };
        if gm.object == Object::Area(area) {
            gm.object = Object::Tensor(tensor);
        }
    });
    remove(kernel, area);
}

/// Removes an area that no operation accesses.
pub(crate) fn remove(kernel: &mut Kernel, area: AreaId) {
    kernel.areas.remove(area.0 as usize);
    each_op_mut(&mut kernel.body, &mut |op| {
        let Some(gm) = op.place_mut() else { return };
        if let Object::Area(a) = &mut gm.object
            && a.0 > area.0
        {
            a.0 -= 1;
        }
    });
}

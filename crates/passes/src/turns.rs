//! Turns: equal regions of a schedule share one set of windows and signals.
//!
//! This module decides which regions share windows and signals, and which turn each region takes.
//! Regions that do the same over the same ranks, one after another, relate to each other as
//! successive calls of one region do: what makes a slot safe from call to call also makes it safe
//! from region to region. So these regions use one set of windows and signals, and count turns
//! where the schedule of a single region counts calls: of k regions, region j of call c takes turn
//! `c * k + j`. The size of a model's windows then grows with the number of different collectives,
//! not with the number of layers. Windows whose slots rotate with the calls (`slots: k`) are not
//! shared.
//!
//! `allocate` decides how many slots a window has, `synchronize` how messages are counted, and the
//! checker proves that the result is safe.

use kbc_ir::expr::Expr;
use kbc_ir::rewrite::replace_ops;
use kbc_ir::schedule::*;

/// For each window, the regions that use it.
pub(crate) struct Turns(Vec<Vec<usize>>);

impl Turns {
    /// Returns the regions that use each window, in order.
    pub(crate) fn of(s: &Schedule) -> Turns {
        let mut users = vec![vec![]; s.windows.len()];
        for (i, r) in s.regions.iter().enumerate() {
            for w in windows(r) {
                users[w.0 as usize].push(i);
            }
        }
        Turns(users)
    }

    /// Returns the regions that use a window.
    pub(crate) fn users(&self, w: WindowId) -> &[usize] {
        &self.0[w.0 as usize]
    }

    /// Returns the number of turns per call and the position of the region among them.
    fn place(&self, region: usize, w: WindowId) -> (i64, i64) {
        let users = self.users(w);
        let at = users.iter().position(|r| *r == region).unwrap_or_default();
        (users.len().max(1) as i64, at as i64)
    }

    /// Returns the turn of a region that uses a window. It is `call` if the region is the only
    /// user.
    pub(crate) fn turn(&self, region: usize, w: WindowId) -> Expr {
        match self.place(region, w) {
            (1, _) => Expr::var(CALL),
            (of, at) => Expr::var(CALL) * Expr::Int(of) + Expr::Int(at),
        }
    }

    /// Returns whether that turn is odd, as 0 or 1.
    pub(crate) fn parity(&self, region: usize, w: WindowId) -> Expr {
        match self.place(region, w) {
            (of, at) if of % 2 == 0 => Expr::Int(at % 2),
            (_, at) if at % 2 == 0 => Expr::var(CALL).modulo(2),
            _ => (Expr::var(CALL) + Expr::Int(1)).modulo(2),
        }
    }
}

/// Returns for each window whether its slot numbers already depend on the call.
pub(crate) fn alternating(s: &Schedule) -> Vec<bool> {
    let mut out = vec![false; s.windows.len()];
    for stream in s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams) {
        each_op(&stream.body, &mut |op, _| {
            let mut see = |r: &Ref| {
                if let Ref::Slot { window, slot } = r {
                    out[window.0 as usize] |= slot.mentions(CALL);
                }
            };
            match op {
                SOp::Copy { dst: a, src: b } | SOp::Reduce { dst: a, src: b, .. } => [a, b].map(&mut see),
                SOp::Put { src: a, dst: b, .. }
                | SOp::Get { dst: a, src: b, .. }
                | SOp::GetCombine { dst: a, src: b, .. } => [a, b].map(&mut see),
                _ => return,
            };
        });
    }
    out
}

/// Lets equal regions that are ordered one after another use the windows of the first of them.
pub(crate) fn share(s: &mut Schedule) {
    let before = Ancestors::of(s);
    // Groups of equal regions with windows. Each region of a group is ordered after the previous
    // one.
    let mut groups: Vec<(Region, Vec<usize>)> = vec![];
    let alternating = alternating(s);
    let can = |r: &Region| {
        let own = windows(r);
        !own.is_empty() && !own.iter().any(|w| alternating[w.0 as usize])
    };
    let able: Vec<usize> = (0..s.regions.len()).filter(|i| can(&s.regions[*i])).collect();
    if able.len() < 2 {
        return;
    }
    for i in able {
        let r = &s.regions[i];
        let form = form(r);
        let last = |members: &[usize]| members.last().is_some_and(|m| before.has(i, *m));
        let met = groups.iter_mut().find(|(f, members)| same(s, f, r, &form, members[0]) && last(members));
        match met {
            Some((_, members)) => members.push(i),
            None => groups.push((form, vec![i])),
        }
    }
    let mut place: Vec<u32> = (0..s.windows.len() as u32).collect();
    for (_, members) in groups.iter().filter(|g| g.1.len() > 1) {
        let first = windows(&s.regions[members[0]]);
        for i in members {
            let own = windows(&s.regions[*i]);
            for (w, to) in own.iter().zip(&first) {
                place[w.0 as usize] = to.0;
            }
        }
    }
    // The windows still in use, in their order.
    let kept: Vec<u32> = (0..place.len() as u32).filter(|w| place[*w as usize] == *w).collect();
    if kept.len() == place.len() {
        return;
    }
    // The first region of a group keeps its windows.
    let number = |w: WindowId| WindowId(kept.partition_point(|k| *k < place[w.0 as usize]) as u32);
    for stream in s.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
        with_windows(&mut stream.body, &number);
    }
    s.windows = kept.iter().map(|w| s.windows[*w as usize].clone()).collect();
}

/// For each region, the regions that are over on every rank before it starts, as one bit each.
struct Ancestors(Vec<Vec<u64>>);

impl Ancestors {
    fn of(s: &Schedule) -> Ancestors {
        let mut all: Vec<Vec<u64>> = vec![];
        for (i, r) in s.regions.iter().enumerate() {
            let mut own = vec![0u64; i / 64 + 1];
            for a in r.after.iter().map(|a| a.0 as usize).filter(|a| *a < i) {
                own[a / 64] |= 1 << (a % 64);
                own.iter_mut().zip(&all[a]).for_each(|(o, b)| *o |= b);
            }
            all.push(own);
        }
        Ancestors(all)
    }

    fn has(&self, region: usize, before: usize) -> bool {
        self.0[region].get(before / 64).is_some_and(|bits| bits >> (before % 64) & 1 == 1)
    }
}

/// Checks whether a region does the same as the first of a group: the same operations on lines and
/// windows of the same form.
fn same(s: &Schedule, group: &Region, r: &Region, form: &Region, first: usize) -> bool {
    let of = |r: &Region| -> Vec<Window> {
        let plain =
            |w: &WindowId| Window { name: "".into(), span: kbc_diag::Span::NONE, ..s.window(*w).clone() };
        windows(r).iter().map(plain).collect()
    };
    let dtypes = |r: &Region| -> Vec<_> { r.operands.iter().map(|o| s.buffer(o.buffer).dtype).collect() };
    group == form && of(&s.regions[first]) == of(r) && dtypes(&s.regions[first]) == dtypes(r)
}

/// Returns a region without everything that distinguishes it from equal regions: its name, its
/// place in the order, its buffers, its windows, and locations.
fn form(r: &Region) -> Region {
    let all = windows(r);
    let number = |w: WindowId| WindowId(all.iter().position(|x| *x == w).unwrap_or_default() as u32);
    let mut out = r.clone();
    out.name = "".into();
    out.after = vec![];
    out.span = kbc_diag::Span::NONE;
    out.operands.iter_mut().for_each(|o| o.buffer = BufferId(0));
    for stream in out.roles.iter_mut().flat_map(|r| &mut r.streams) {
        with_windows(&mut stream.body, &number);
        without_spans(&mut stream.body);
    }
    out
}

fn without_spans(list: &mut [SStmt]) {
    for s in list {
        match s {
            SStmt::For { body, .. } => without_spans(body),
            SStmt::If { then, other, .. } => {
                without_spans(then);
                without_spans(other);
            }
            SStmt::Op(_, span) => *span = kbc_diag::Span::NONE,
        }
    }
}

/// Returns the windows of a region, by first use.
pub(crate) fn windows(r: &Region) -> Vec<WindowId> {
    let mut out = vec![];
    let mut seen = |w: WindowId| {
        if !out.contains(&w) {
            out.push(w);
        }
        w
    };
    for stream in r.roles.iter().flat_map(|r| &r.streams) {
        each_window(&stream.body, &mut seen);
    }
    out
}

fn each_window(list: &[SStmt], f: &mut dyn FnMut(WindowId) -> WindowId) {
    for s in list {
        match s {
            SStmt::For { body, .. } => each_window(body, f),
            SStmt::If { then, other, .. } => {
                each_window(then, f);
                each_window(other, f);
            }
            SStmt::Op(op, _) => {
                for w in op.windows() {
                    f(w);
                }
            }
        }
    }
}

fn with_windows(list: &mut Vec<SStmt>, f: &dyn Fn(WindowId) -> WindowId) {
    replace_ops(list, &mut |op, out| out.push(op.map_windows(f)));
}

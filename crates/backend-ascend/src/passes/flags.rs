//! Flags: order between pipes, as little as is needed.
//!
//! Wherever [`crate::tile::order`] finds an access that may meet an earlier one on another pipe, a set and its wait go
//! in front of it; on the same pipe a barrier of that pipe. In front of a whole loop if the earlier access is outside
//! it. Then every line of synchronisation is left out that nothing needs: it is tried, in the order of the text, whether
//! the kernel is as ordered without it. Last, a pair whose event may still be in use gets another one. Where tiles take turns a load waits for
//! the store of its own copy two tiles before.

use crate::profile::Profile;
use crate::tile::order::{Fault, Finding, analyse};
use crate::tile::path::{self, Path};
use crate::tile::{Barrier, Kernel, Op, Pipe, Stmt, TURN, tasks};
use kbc_diag::Diagnostics;

/// Inserts flags and barriers of one pipe.
pub fn run(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    tasks::each(kernel, |k| one(k, profile))
}

fn one(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    turns(kernel);
    // Each statement by itself first: what orders its own operations among each other stands inside of it, and the whole kernel is
    // looked at for the few that are left.
    let mut at = 0;
    while at < kernel.body.len() {
        at += alone(kernel, at, |k, _| {
            let before = k.body.len();
            order(k);
            k.body.len() + 1 - before
        });
    }
    order(kernel);
    prune(kernel);
    number(kernel, profile);
    Ok(())
}

fn flag(set: bool, from: Pipe, to: Pipe, event: u8) -> Stmt {
    Stmt::Op(if set { Op::SetFlag { from, to, event } } else { Op::WaitFlag { from, to, event } })
}

/// Where tiles take turns a copy is loaded once it has been stored. Both copies are free when the kernel begins and when it ends; in between their
/// flags go on from loop to loop, so that the loads of one overtake the stores of the last.
fn turns(kernel: &mut Kernel) {
    fn mark(list: &mut Vec<Stmt>) -> bool {
        let mut any = false;
        for s in list {
            any |= match s {
                Stmt::Tiles { twice: true, body, .. } => {
                    if body.first() == Some(&stored(false, 0)) {
                        // The pass has been here.
                        return false;
                    }
                    body.insert(0, stored(false, 0));
                    body.push(stored(true, 0));
                    true
                }
                Stmt::For { body, .. } | Stmt::Tiles { body, .. } | Stmt::Task { body, .. } => mark(body),
                Stmt::If { then, other, .. } => {
                    let one = mark(then);
                    mark(other) || one
                }
                Stmt::Let { .. } | Stmt::Note { .. } | Stmt::Op(_) => false,
            };
        }
        any
    }
    if mark(&mut kernel.body) {
        kernel.body.splice(0..0, [stored(true, 0), stored(true, TURN)]);
        kernel.body.extend([stored(false, 0), stored(false, TURN)]);
    }
}

fn stored(set: bool, event: u8) -> Stmt {
    flag(set, Pipe::Mte3, Pipe::Mte2, event)
}

/// What `f` does with a kernel that has the statement `at` alone, behind the names of the whole kernel; it gets the
/// place that the statement has there.
fn alone<T>(kernel: &mut Kernel, at: usize, f: impl FnOnce(&mut Kernel, usize) -> T) -> T {
    let mut body = std::mem::take(&mut kernel.body);
    let names = body.iter().filter(|s| matches!(s, Stmt::Let { .. }));
    kernel.body = names.cloned().collect();
    let place = kernel.body.len();
    kernel.body.push(std::mem::replace(&mut body[at], path::blank()));
    let out = f(kernel, place);
    let done = kernel.body.split_off(place);
    body.splice(at..=at, done);
    kernel.body = body;
    out
}

/// Orders one operation after the other, first to last.
fn order(kernel: &mut Kernel) {
    loop {
        let mut wanted: Vec<(Path, Pipe, Pipe)> = vec![];
        let mut first: Option<Path> = None;
        for f in analyse(kernel) {
            let Fault::Unordered { earlier, from, to, .. } = f.fault else { continue };
            if first.get_or_insert_with(|| f.at.clone()) != &f.at {
                break;
            }
            let place = path::outside(kernel, &earlier, &f.at);
            if !wanted.contains(&(place.clone(), from, to)) {
                wanted.push((place, from, to));
            }
        }
        if wanted.is_empty() {
            return;
        }
        // The innermost first: what is put in front of an outer place moves the inner ones.
        wanted.sort_by(|a, b| (b.0.len(), &b.0, a.1, a.2).cmp(&(a.0.len(), &a.0, b.1, b.2)));
        for (place, from, to) in wanted {
            let add = if from == to {
                vec![Stmt::Op(Op::Barrier(Barrier::Pipe(to)))]
            } else {
                vec![flag(true, from, to, 0), flag(false, from, to, 0)]
            };
            path::insert(kernel, &place, add);
        }
    }
}

/// What must not be there, whatever events are used.
fn faults(kernel: &Kernel) -> Vec<Finding> {
    let mut all = analyse(kernel);
    all.retain(|f| !matches!(f.fault, Fault::SetEarly(_)));
    all
}

/// Whether the statement around a line of synchronisation lacks order by itself without it: then the kernel does. `own` is what
/// it lacks with it, of the statement that was asked about last.
fn needed(
    kernel: &mut Kernel,
    own: &mut Option<(usize, Vec<Finding>)>,
    at: &Path,
    next: Option<&Path>,
) -> bool {
    let [stmt, rest @ ..] = &at[..] else { return false };
    if rest.is_empty() {
        return false;
    }
    let stmt = *stmt as usize;
    alone(kernel, stmt, |k, place| {
        if own.as_ref().is_none_or(|o| o.0 != stmt) {
            *own = Some((stmt, faults(k)));
        }
        let inside = |p: &Path| {
            let mut p = p.clone();
            p[0] = place as _;
            p
        };
        let places: Vec<Path> = std::iter::once(at).chain(next).map(inside).collect();
        let old: Vec<Option<Stmt>> = places.iter().map(|p| path::replace(k, p, path::blank())).collect();
        let less = faults(k);
        for (p, s) in places.iter().zip(old) {
            s.and_then(|s| path::replace(k, p, s));
        }
        let has = |f: &Finding| own.as_ref().is_some_and(|o| o.1.binary_search(f).is_ok());
        !less.iter().all(has)
    })
}

/// Leaves out what nothing needs: barriers of all pipes first, then the rest.
fn prune(kernel: &mut Kernel) {
    let rest = faults(kernel);
    for whole in [true, false] {
        let candidates: Vec<(Path, Option<Path>)> = path::ops(kernel)
            .into_iter()
            .filter_map(|(at, op)| match op {
                Op::Barrier(Barrier::All) if whole => Some((at, None)),
                Op::Dsb | Op::Barrier(Barrier::Pipe(_)) if !whole => Some((at, None)),
                Op::SetFlag { from, to, event } if !whole => {
                    // A pair stands together.
                    let mut next = at.clone();
                    *next.last_mut()? += 1;
                    let wait = flag(false, *from, *to, *event);
                    (path::stmt(kernel, &next) == Some(&wait)).then_some((at, Some(next)))
                }
                _ => None,
            })
            .collect();
        let mut own: Option<(usize, Vec<Finding>)> = None;
        for (at, next) in candidates {
            if needed(kernel, &mut own, &at, next.as_ref()) {
                continue;
            }
            let old = path::replace(kernel, &at, path::blank());
            let old_next = next.as_ref().and_then(|n| path::replace(kernel, n, path::blank()));
            if faults(kernel).iter().all(|f| rest.binary_search(f).is_ok()) {
                continue;
            }
            if let Some(s) = old {
                path::replace(kernel, &at, s);
            }
            if let (Some(n), Some(s)) = (next, old_next) {
                path::replace(kernel, &n, s);
            }
        }
    }
    path::sweep(&mut kernel.body);
}

/// Gives a pair another event where the last wait for its own may not be over. With none left, all pipes wait.
fn number(kernel: &mut Kernel, profile: &Profile) {
    loop {
        let found = analyse(kernel).into_iter().find_map(|f| match f.fault {
            Fault::SetEarly(e) | Fault::SetTwice(e) => Some((f.at, e)),
            _ => None,
        });
        let Some((at, e)) = found else { return };
        let mut next = at.clone();
        if let Some(n) = next.last_mut() {
            *n += 1;
        }
        if path::stmt(kernel, &next) != Some(&flag(false, e.from, e.to, e.number)) {
            // Not a pair of this pass: the verifier has the words for it.
            return;
        }
        if e.number + 1 < profile.events {
            path::replace(kernel, &at, flag(true, e.from, e.to, e.number + 1));
            path::replace(kernel, &next, flag(false, e.from, e.to, e.number + 1));
        } else {
            path::replace(kernel, &at, Stmt::Op(Op::Barrier(Barrier::All)));
            path::remove(kernel, &next);
        }
    }
}

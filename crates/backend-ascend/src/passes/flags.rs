//! Pass `flags`: inserts flags and barriers between pipes, as few as needed.
//!
//! Where [`kbc_tiles::tile::order`] finds an access that may conflict with an earlier one on
//! another pipe, the pass inserts a set and its wait in front of it; on the same pipe, it inserts a
//! barrier of that pipe. If the earlier access is outside a loop that contains the later one, or
//! conflicts only with an earlier run of that loop, the synchronisation goes in front of the whole
//! loop. Then the pass removes what nothing needs: for
//! every line of synchronisation, in text order, it checks whether the kernel is still ordered
//! without it. Finally, a pair whose event may still be in use gets another event. Where tiles take
//! turns, a load waits for the store of its own copy two tiles earlier.

use crate::profile::Profile;
use kbc_diag::Diagnostics;
use kbc_tiles::tile::hazard::Touched;
use kbc_tiles::tile::order::{Fault, Finding, Trials, analyse};
use kbc_tiles::tile::path::{self, Path};
use kbc_tiles::tile::visit::each_op;
use kbc_tiles::tile::{Barrier, Kernel, Op, Pipe, Stmt, TURN, TileId, tasks};

/// Inserts flags and barriers of one pipe.
pub fn run(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    tasks::each(kernel, |k| one(k, profile))
}

fn one(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    turns(kernel);
    copies(kernel);
    // First complete every top-level statement alone: what orders its own operations is inside it.
    // The whole kernel is then analysed only for the few conflicts between statements.
    let mut at = 0;
    while at < kernel.body.len() {
        at += on_statement(kernel, at, |k| {
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

/// Inserts the flags of loops whose tiles take turns: a copy may be loaded again once it has been
/// stored. Both copies are free when the kernel begins and when it ends. In between, their flags
/// are carried from loop to loop, so that the loads of one loop overtake the stores of the previous
/// one.
fn turns(kernel: &mut Kernel) {
    fn mark(list: &mut Vec<Stmt>) -> bool {
        let mut any = false;
        for s in list {
            any |= match s {
                Stmt::Tiles { twice: true, body, .. } => {
                    if body.first() == Some(&stored(false, 0)) {
                        // The pass has already run on this kernel.
                        return false;
                    }
                    body.insert(0, stored(false, 0));
                    body.push(stored(true, 0));
                    true
                }
                other => {
                    let marked: Vec<bool> = other.blocks_mut().map(mark).collect();
                    marked.contains(&true)
                }
            };
        }
        any
    }
    if mark(&mut kernel.body) {
        kernel.body.splice(0..0, [stored(true, 0), stored(true, TURN)]);
        kernel.body.extend([stored(false, 0), stored(false, TURN)]);
    }
}

/// A group of tiles that take a turn together.
struct TurnGroup {
    tiles: Vec<TileId>,
    /// The pipe that reads a copy, and the pipe that then writes it again.
    pipes: [Pipe; 2],
    /// Number of the event by which the reader returns the first copy to the writer.
    event: u8,
}

impl TurnGroup {
    fn flag(&self, set: bool, other: bool) -> Stmt {
        let [reader, writer] = self.pipes;
        flag(set, reader, writer, self.event + if other { TURN } else { 0 })
    }
}

/// Inserts the flags of tiles that take turns ([`Stmt::Turn`]): a copy is written again once it has
/// been read. All copies are free when the kernel begins and when it ends. As for loops whose tiles
/// take turns, their flags are carried from block to block in between.
fn copies(kernel: &mut Kernel) {
    let mut groups: Vec<TurnGroup> = vec![];
    mark_copies(&mut kernel.body, &mut groups);
    let all = |set| groups.iter().flat_map(move |g| [g.flag(set, false), g.flag(set, true)]);
    kernel.body.splice(0..0, all(true).collect::<Vec<_>>());
    kernel.body.extend(all(false));
}

fn mark_copies(list: &mut [Stmt], groups: &mut Vec<TurnGroup>) {
    for s in list {
        match s {
            Stmt::Turn { tiles, body, .. } => {
                let Some([reader, writer]) = pipes_of(tiles, body) else { continue };
                // The pass has already run on this kernel.
                if matches!(body.first(), Some(Stmt::Op(Op::WaitFlag { from, to, .. })) if [*from, *to] == [reader, writer])
                {
                    continue;
                }
                let at = groups.iter().position(|g| g.tiles == *tiles).unwrap_or_else(|| {
                    let same = groups.iter().filter(|g| g.pipes == [reader, writer]).count();
                    let event = u8::try_from(same).unwrap_or(u8::MAX);
                    groups.push(TurnGroup { tiles: tiles.clone(), pipes: [reader, writer], event });
                    groups.len() - 1
                });
                body.insert(0, groups[at].flag(false, false));
                body.push(groups[at].flag(true, false));
                mark_copies(body, groups);
            }
            other => other.blocks_mut().for_each(|block| mark_copies(block, groups)),
        }
    }
}

/// Returns the pipe that reads some tiles last and the pipe that writes them first.
fn pipes_of(tiles: &[TileId], body: &[Stmt]) -> Option<[Pipe; 2]> {
    let (mut reader, mut writer) = (None, None);
    each_op(body, &mut |op| {
        for a in op.accesses() {
            if matches!(a.touched, Touched::Tile(t, _) if tiles.contains(&t)) {
                if a.write {
                    writer = writer.or(op.pipe());
                } else {
                    reader = op.pipe();
                }
            }
        }
    });
    Some([reader?, writer?])
}

fn stored(set: bool, event: u8) -> Stmt {
    flag(set, Pipe::Store, Pipe::Load, event)
}

/// Runs `f` on a kernel that consists of statement `at` alone, after the `let`s of the whole
/// kernel.
fn on_statement<T>(kernel: &mut Kernel, at: usize, f: impl FnOnce(&mut Kernel) -> T) -> T {
    let mut body = std::mem::take(&mut kernel.body);
    let names = body.iter().filter(|s| matches!(s, Stmt::Let { .. }));
    kernel.body = names.cloned().collect();
    let place = kernel.body.len();
    kernel.body.push(std::mem::replace(&mut body[at], path::blank()));
    let out = f(kernel);
    let done = kernel.body.split_off(place);
    body.splice(at..=at, done);
    kernel.body = body;
    out
}

/// Inserts order for one operation after another, from the first to the last.
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
        // The innermost place first: an insertion at an outer place moves the inner ones.
        wanted.sort_by(|a, b| (b.0.len(), &b.0, a.1, a.2).cmp(&(a.0.len(), &a.0, b.1, b.2)));
        for (place, from, to) in &mut wanted {
            if from == to
                && Some(&*place) == first.as_ref()
                && let Some(outer) = in_front_of_loop(kernel, place, *to)
            {
                *place = outer;
            }
        }
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

/// Returns the outermost loop inside another loop that contains an operation, if a barrier of a
/// pipe in front of that loop orders the operation as well as one in front of the operation: runs
/// of the loop that follow each other conflict, and its iterations do not.
fn in_front_of_loop(kernel: &Kernel, at: &Path, pipe: Pipe) -> Option<Path> {
    let is_loop =
        |n: &usize| matches!(path::stmt(kernel, &at[..*n]), Some(Stmt::For { .. } | Stmt::Tiles { .. }));
    let loops: Vec<usize> = (1..at.len()).filter(is_loop).collect();
    loops.iter().skip(1).find_map(|n| {
        let place = at[..*n].to_vec();
        let mut trial = kernel.clone();
        path::insert(&mut trial, &place, [Stmt::Op(Op::Barrier(Barrier::Pipe(pipe)))]);
        let mut moved = at.clone();
        moved[n - 1] += 1;
        let unordered = |f: &Finding| {
            f.at == moved
                && matches!(f.fault, Fault::Unordered { from, to, .. } if from == pipe && to == pipe)
        };
        (!analyse(&trial).iter().any(unordered)).then_some(place)
    })
}

/// Removes synchronisation that nothing needs: first barriers of all pipes, then the rest. An event
/// that may be in use does not count: it gets another number later.
fn prune(kernel: &mut Kernel) {
    let allowed = |f: &Finding| matches!(f.fault, Fault::SetEarly(_));
    let ops = path::ops(kernel);
    let mut trials = Trials::new(kernel);
    let mut unneeded: Vec<Path> = vec![];
    for whole in [true, false] {
        for (at, op) in &ops {
            let wait = match op {
                Op::Barrier(Barrier::All) if whole => None,
                Op::MemoryBarrier | Op::Barrier(Barrier::Pipe(_)) if !whole => None,
                Op::SetFlag { from, to, event } if !whole => {
                    // The set and the wait of a pair are adjacent.
                    let mut next = at.clone();
                    if let Some(n) = next.last_mut() {
                        *n += 1;
                    }
                    if path::stmt(kernel, &next) != Some(&flag(false, *from, *to, *event)) {
                        continue;
                    }
                    Some(next)
                }
                _ => continue,
            };
            let line: Vec<&Path> = std::iter::once(at).chain(&wait).collect();
            if trials.leave_out(&line, allowed) {
                unneeded.extend(line.into_iter().cloned());
            }
        }
    }
    for at in unneeded {
        path::replace(kernel, &at, path::blank());
    }
    path::sweep(&mut kernel.body);
}

/// Assigns another event to a pair if the last wait for its own may not have completed. If no event
/// is left, a barrier of all pipes replaces the pair. Where tiles take turns, the upper events
/// belong to second copies.
fn number(kernel: &mut Kernel, profile: &Profile) {
    loop {
        let found = analyse(kernel).into_iter().find_map(|f| match f.fault {
            Fault::SetEarly(_) | Fault::SetTwice(_) => Some(f.at),
            _ => None,
        });
        let Some(at) = found else { return };
        let Some(Stmt::Op(Op::SetFlag { from, to, event })) = path::stmt(kernel, &at) else { return };
        let (from, to, event) = (*from, *to, *event);
        let mut next = at.clone();
        if let Some(n) = next.last_mut() {
            *n += 1;
        }
        if path::stmt(kernel, &next) != Some(&flag(false, from, to, event)) {
            // Not a pair of this pass: the verifier reports it.
            return;
        }
        let turned = (1..at.len()).any(|n| {
            matches!(path::stmt(kernel, &at[..n]), Some(Stmt::Turn { .. } | Stmt::Tiles { twice: true, .. }))
        });
        let events = if turned { TURN.min(profile.limits.events) } else { profile.limits.events };
        if event + 1 < events {
            path::replace(kernel, &at, flag(true, from, to, event + 1));
            path::replace(kernel, &next, flag(false, from, to, event + 1));
        } else {
            path::replace(kernel, &at, Stmt::Op(Op::Barrier(Barrier::All)));
            path::remove(kernel, &next);
        }
    }
}

//! Rule T12: the cores that run a task for matrix cores do not wait for each other, so the task
//! reads nothing that it writes, and writes every element once.
//!
//! What is read and written follows from the text. Which blocks the cores write is computed for a
//! launch, rank by rank: the numbers of a division of work among cores are cuts, which no rule over
//! expressions tells apart.

use super::sink::Sink;
use crate::tile::path::Path;
use crate::tile::tasks::{self, Task};
use crate::tile::text::print_op;
use crate::tile::visit::each_in;
use crate::tile::{CALL, CORE, COUNT, Core, Gm, Kernel, NRANKS, Object, Op, RANK, Stmt};
use kbc_diag::Diagnostic;
use kbc_ir::expr::{Env, Expr};
use kbc_ir::name::Name;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Numbers of ranks and elements of the launches at which a text is checked.
const RANKS: [u64; 4] = [1, 2, 3, 4];
const COUNTS: [u64; 4] = [1, 100, 1009, 4096];

/// Maximum number of statements that are executed for one core of one rank.
const MOST_STEPS: u64 = 1 << 20;

/// Checks T12 for launches of few ranks and elements; a launch for which the kernel has no tables
/// is passed over.
pub(super) fn check(sink: &mut Sink<'_>) {
    let shared: Vec<Task> = tasks::split(sink.kernel).into_iter().filter(several).collect();
    for task in &shared {
        let at: Path = task.at.iter().map(|i| *i as u32).collect();
        if let Some(object) = task.uses.reads.intersection(&task.uses.writes).next() {
            let text =
                format!("several cores run this, and it reads and writes {}", name(sink.kernel, *object));
            let d = Diagnostic::error("E452", text)
                .note("no core waits for another one")
                .help("make it two tasks, or run it on one core");
            sink.at(&at, d);
        }
    }
    if shared.is_empty() {
        return;
    }
    let counted = sink.kernel.scalars.iter().any(|s| s == COUNT);
    let counts = if counted { &COUNTS[..] } else { &COUNTS[..1] };
    let sizes = RANKS.iter().flat_map(|ranks| counts.iter().map(move |count| (*ranks, *count)));
    for (ranks, count) in sizes {
        for task in &shared {
            let own = task.at.iter().map(|i| *i as u32);
            match overlap(task, ranks, count) {
                Ok(Some(found)) => {
                    let at: Path = own.chain(found.at.iter().copied()).collect();
                    return sink.op(&at, found.op, found.diagnostic(sink.kernel, ranks, count));
                }
                // There may be no table for this number of ranks.
                Ok(None) => {}
                Err(d) if d.code == "E456" => {}
                Err(d) => return sink.at(&own.collect::<Path>(), d),
            }
        }
    }
}

/// Checks that every element that a task for several matrix cores writes has one writer, on every
/// rank of a launch on `ranks` ranks with `count` elements.
///
/// # Errors
/// Returns E452 with two stores of one element, E456 for a name without a value, and E431 for a
/// task that is too long to be executed here.
pub fn one_writer(kernel: &Kernel, ranks: u64, count: u64) -> Result<(), Diagnostic> {
    for task in tasks::split(kernel).iter().filter(|t| several(t)) {
        if let Some(found) = overlap(task, ranks, count)? {
            let note = format!("the operation: `{}`", print_op(kernel, found.op));
            return Err(found.diagnostic(kernel, ranks, count).note(note));
        }
    }
    Ok(())
}

fn several(task: &Task) -> bool {
    task.kernel.core == Core::Matrix && task.kernel.cores > 1
}

fn name(kernel: &Kernel, object: Object) -> String {
    match object {
        Object::Tensor(t) => format!("%{}", kernel.tensor(t).name),
        Object::Area(a) => format!("@{}", kernel.area(a).name),
    }
}

/// Two stores of a task that write a common element.
struct Overlap<'k> {
    op: &'k Op,
    at: Path,
    object: Object,
    rank: u64,
    cores: [i64; 2],
    /// The first row and column of both blocks.
    places: [[i64; 2]; 2],
}

impl Overlap<'_> {
    fn diagnostic(&self, kernel: &Kernel, ranks: u64, count: u64) -> Diagnostic {
        let what = name(kernel, self.object);
        let [a, b] = self.cores;
        let who = if a == b { format!("core {a} writes") } else { format!("cores {a} and {b} write") };
        let [[r, c], [s, d]] = self.places;
        let counted = if kernel.scalars.iter().any(|s| s == COUNT) {
            format!(", count {count}")
        } else {
            String::new()
        };
        Diagnostic::error("E452", format!("{who} the same elements of {what}, in no order"))
            .note(format!(
                "rank {} of {ranks}{counted}: the blocks begin at row {r}, column {c} and at row {s}, column {d}",
                self.rank
            ))
            .help("give each core blocks of its own")
    }
}

/// Returns two stores of a task that write a common element in a launch.
fn overlap(task: &Task, ranks: u64, count: u64) -> Result<Option<Overlap<'_>>, Diagnostic> {
    let kernel = &task.kernel;
    let alike = !rank_matters(kernel);
    for rank in 0..if alike { ranks.min(1) } else { ranks } {
        let mut blocks = Blocks::new();
        for core in 0..kernel.cores {
            let known = [
                (NRANKS, ranks as i64),
                (COUNT, count as i64),
                (RANK, rank as i64),
                (CALL, 0),
                (CORE, i64::from(core)),
            ];
            let mut walk = Walk {
                kernel,
                ranks,
                names: known.iter().map(|(n, v)| (Name::from(*n), *v)).collect(),
                path: vec![],
                core: core.into(),
                left: MOST_STEPS,
                out: &mut blocks,
            };
            walk.list(&kernel.body, 0)?;
        }
        for ((object, _), (_, list)) in &mut blocks {
            if let Some([a, b]) = common(list) {
                let (cores, places) = ([a.core, b.core], [a.from, b.from]);
                return Ok(Some(Overlap {
                    op: b.op,
                    at: b.at.clone(),
                    object: *object,
                    rank,
                    cores,
                    places,
                }));
            }
        }
    }
    Ok(None)
}

/// Checks whether a number of the kernel depends on the rank.
fn rank_matters(kernel: &Kernel) -> bool {
    let mut found = false;
    each_in(&mut kernel.body.clone(), &mut |e| e.vars(&mut |n| found |= n.as_str() == RANK));
    found
}

/// A block of a matrix that a core writes.
#[derive(Clone)]
struct Block<'k> {
    op: &'k Op,
    at: Path,
    core: i64,
    /// First row and column.
    from: [i64; 2],
    /// One past the last row and column.
    to: [i64; 2],
}

/// What a task writes of each memory and slot: the distance between its rows, and the blocks.
type Blocks<'k> = BTreeMap<(Object, i64), (i64, Vec<Block<'k>>)>;

/// Returns two blocks with a common element, if there are any.
fn common<'b, 'k>(list: &'b mut [Block<'k>]) -> Option<[&'b Block<'k>; 2]> {
    list.sort_by_key(|b| (b.from, b.core));
    // The blocks that the current row meets, by first column; and when each of them ends.
    let mut here: BTreeMap<i64, &Block<'k>> = BTreeMap::new();
    let mut ends: BinaryHeap<Reverse<[i64; 2]>> = BinaryHeap::new();
    for b in list.iter() {
        while let Some(&Reverse([end, col])) = ends.peek() {
            if end > b.from[0] {
                break;
            }
            here.remove(&col);
            ends.pop();
        }
        let before = here.range(..=b.from[1]).next_back().filter(|(_, a)| a.to[1] > b.from[1]);
        let after = here.range(b.from[1]..).next().filter(|(col, _)| **col < b.to[1]);
        if let Some((_, a)) = before.or(after) {
            return Some([*a, b]);
        }
        here.insert(b.from[1], b);
        ends.push(Reverse([b.to[0], b.from[1]]));
    }
    None
}

/// Executes the control flow of a task on one core, and collects what the core writes.
struct Walk<'w, 'k> {
    kernel: &'k Kernel,
    ranks: u64,
    names: Vec<(Name, i64)>,
    path: Path,
    core: i64,
    left: u64,
    out: &'w mut Blocks<'k>,
}

impl Env for Walk<'_, '_> {
    fn var(&self, name: &Name) -> Option<i64> {
        self.names.iter().rev().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let table = self.kernel.tables.iter().find(|t| t.name == *name)?;
        table.values.get(&self.ranks)?.get(usize::try_from(index).ok()?).copied()
    }
}

impl<'k> Walk<'_, 'k> {
    fn value(&self, e: &Expr) -> Result<i64, Diagnostic> {
        e.eval(self).map_err(|why| Diagnostic::error("E456", why.to_string()))
    }

    fn list(&mut self, list: &'k [Stmt], first: usize) -> Result<(), Diagnostic> {
        let depth = self.names.len();
        for (i, stmt) in list.iter().enumerate() {
            if !writes(stmt) {
                continue;
            }
            let left = self.left.checked_sub(1);
            let long = || Diagnostic::error("E431", "the blocks of a task are too many to be compared");
            self.left = left.ok_or_else(long)?;
            self.path.push((first + i) as u32);
            match stmt {
                Stmt::Let { name, value } => {
                    let value = self.value(value)?;
                    self.names.push((name.clone(), value));
                }
                Stmt::For { var, lo, hi, body } => {
                    for v in self.value(lo)?..self.value(hi)? {
                        self.names.push((var.clone(), v));
                        self.list(body, 0)?;
                        self.names.pop();
                    }
                }
                Stmt::Tiles { pos, len, total, step, body, .. } => {
                    let (total, step) = (self.value(total)?, i64::from(*step).max(1));
                    for at in (0..total.max(0)).step_by(step as usize) {
                        self.names.push((pos.clone(), at));
                        self.names.push((len.clone(), step.min(total - at)));
                        self.list(body, 0)?;
                        self.names.truncate(self.names.len() - 2);
                    }
                }
                Stmt::If { cond, then, other } => match self.value(cond)? {
                    0 => self.list(other, then.len())?,
                    _ => self.list(then, 0)?,
                },
                Stmt::Turn { body, .. } | Stmt::Task { body, .. } => self.list(body, 0)?,
                Stmt::Op(op) => self.op(op)?,
                Stmt::Note { .. } => {}
            }
            self.path.pop();
        }
        self.names.truncate(depth);
        Ok(())
    }

    fn op(&mut self, op: &'k Op) -> Result<(), Diagnostic> {
        let Op::StoreBlock { to: Gm { object, slot, offset, .. }, rows, cols, pitch, .. } = op else {
            return Ok(());
        };
        let (rows, cols) = (self.value(rows)?, self.value(cols)?);
        if rows <= 0 || cols <= 0 {
            return Ok(());
        }
        let (slot, offset, pitch) = (self.value(slot)?, self.value(offset)?, self.value(pitch)?.max(1));
        let (row, col) = (offset.div_euclid(pitch), offset.rem_euclid(pitch));
        let (own, list) = self.out.entry((*object, slot)).or_insert((pitch, vec![]));
        if *own != pitch {
            let text = "several cores write a matrix whose rows are at several distances";
            return Err(Diagnostic::error("E452", text));
        }
        let mut block = |from: [i64; 2], to: [i64; 2]| {
            list.push(Block { op, at: self.path.clone(), core: self.core, from, to });
        };
        block([row, col], [row + rows, pitch.min(col + cols)]);
        if col + cols > pitch {
            // What is beyond the end of a row is at the beginning of the next one.
            block([row + 1, 0], [row + rows + 1, col + cols - pitch]);
        }
        Ok(())
    }
}

/// Checks whether a statement writes memory or names a value, so that it has to be executed.
fn writes(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Let { .. } => true,
        Stmt::Op(op) => matches!(op, Op::StoreBlock { .. }),
        other => {
            other.blocks().any(|block| block.iter().any(|s| !matches!(s, Stmt::Let { .. }) && writes(s)))
        }
    }
}

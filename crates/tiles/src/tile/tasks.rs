//! Programs of tasks: kernels for one core each, in the order in which they are submitted.
//!
//! The module owns the cut of a program into its tasks, the analysis of what each task touches, and
//! the dependences that must be stated explicitly. The runtime orders a task after the tasks that
//! wrote what it takes. It does not track the tasks that only read what it overwrites.

use super::{Area, Core, Kernel, Object, Op, Reach, Stmt};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// A task of a program. A kernel for one core is treated as its own only task.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// Its index in the body of the program; `None` for a kernel that is not a program of tasks.
    pub at: Option<usize>,
    /// Name of the task.
    pub name: Name,
    /// The task as a kernel: the declarations of the program with the statements of the task.
    pub kernel: Kernel,
    /// What the task touches.
    pub uses: Uses,
}

/// What a task touches in memory outside its core.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Uses {
    /// Memory of this rank alone that the task reads.
    pub reads: BTreeSet<Object>,
    /// Memory of this rank alone that the task writes.
    pub writes: BTreeSet<Object>,
    /// Whether the task touches what peers reach: counters or areas of the window.
    pub shared: bool,
    /// Whether the task reads tables.
    pub tables: bool,
}

/// Returns the tasks of a kernel in order.
pub fn split(kernel: &Kernel) -> Vec<Task> {
    if kernel.core != Core::Tasks {
        return vec![task(None, &kernel.name, kernel.clone())];
    }
    let mut out = vec![];
    for (i, stmt) in kernel.body.iter().enumerate() {
        if let Stmt::Task { name, core, cores, body } = stmt {
            let cores = if *core == Core::Matrix { *cores } else { kernel.cores };
            out.push(task(
                Some(i),
                name,
                Kernel { core: *core, cores, body: body.clone(), ..kernel.declarations() },
            ));
        }
    }
    out
}

fn task(at: Option<usize>, name: &Name, kernel: Kernel) -> Task {
    let mut uses = Uses::default();
    look(&kernel, &kernel.body, &mut uses);
    Task { at, name: name.clone(), uses, kernel }
}

/// Runs `f` on every task as a kernel of its own, or on the kernel itself if it is for one core. On
/// a task, `f` changes statements and no declaration, since the tasks have the same declarations.
///
/// # Errors
/// Returns the first error of `f`.
pub fn each<E>(kernel: &mut Kernel, mut f: impl FnMut(&mut Kernel) -> Result<(), E>) -> Result<(), E> {
    if kernel.core != Core::Tasks {
        return f(kernel);
    }
    let (mut list, all) = (std::mem::take(&mut kernel.body), kernel.cores);
    let mut result = Ok(());
    for stmt in &mut list {
        if let Stmt::Task { core, cores, body, .. } = stmt
            && result.is_ok()
        {
            kernel.cores = if *core == Core::Matrix { *cores } else { all };
            (kernel.core, kernel.body) = (*core, std::mem::take(body));
            result = f(kernel);
            *body = std::mem::take(&mut kernel.body);
        }
    }
    (kernel.core, kernel.cores, kernel.body) = (Core::Tasks, all, list);
    result
}

fn look(kernel: &Kernel, list: &[Stmt], uses: &mut Uses) {
    let tables = |e: &Expr| e.has_table();
    for stmt in list {
        match stmt {
            Stmt::Let { value, .. } => uses.tables |= tables(value),
            Stmt::For { lo, hi, body, .. } => {
                uses.tables |= tables(lo) || tables(hi);
                look(kernel, body, uses);
            }
            Stmt::If { cond, then, other } => {
                uses.tables |= tables(cond);
                look(kernel, then, uses);
                look(kernel, other, uses);
            }
            Stmt::Tiles { total, body, .. } => {
                uses.tables |= tables(total);
                look(kernel, body, uses);
            }
            Stmt::Turn { by, body, .. } => {
                uses.tables |= tables(by);
                look(kernel, body, uses);
            }
            Stmt::Task { body, .. } => look(kernel, body, uses),
            Stmt::Note { .. } => {}
            Stmt::Op(op) => {
                crate::tile::visit::each_of(&mut op.clone(), &mut |e| uses.tables |= tables(e));
                match op {
                    Op::Load { from: g, .. }
                    | Op::LoadRow { from: g, .. }
                    | Op::LoadRows { from: g, .. }
                    | Op::LoadBlock { from: g, .. } => {
                        place(kernel, g.object, &mut uses.reads, &mut uses.shared);
                    }
                    Op::Store { to: g, .. } | Op::StoreRows { to: g, .. } | Op::StoreBlock { to: g, .. } => {
                        place(kernel, g.object, &mut uses.writes, &mut uses.shared);
                    }
                    Op::Notify { .. } | Op::Wait { .. } | Op::Defer { .. } => uses.shared = true,
                    _ => {}
                }
            }
        }
    }
}

fn place(kernel: &Kernel, object: Object, list: &mut BTreeSet<Object>, shared: &mut bool) {
    let peers = |a: &Area| a.reach == Reach::Peers;
    match object {
        Object::Area(a) if kernel.areas.get(a.0 as usize).is_some_and(peers) => *shared = true,
        _ => {
            list.insert(object);
        }
    }
}

/// Returns for every task the earlier tasks that read what it overwrites. The runtime does not
/// order these: it orders a task after those that wrote what it reads or writes, not after those
/// that read it.
pub fn readers_before(tasks: &[Task]) -> Vec<Vec<usize>> {
    let mut readers: BTreeMap<Object, Vec<usize>> = BTreeMap::new();
    let mut out = vec![];
    for (i, t) in tasks.iter().enumerate() {
        let mut wait: BTreeSet<usize> = BTreeSet::new();
        for object in &t.uses.writes {
            wait.extend(readers.remove(object).unwrap_or_default());
        }
        for object in t.uses.reads.difference(&t.uses.writes) {
            readers.entry(*object).or_default().push(i);
        }
        out.push(wait.into_iter().collect());
    }
    out
}

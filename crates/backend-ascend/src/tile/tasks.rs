//! A program of tasks: kernels for one core each, in the order in which they are submitted.
//!
//! Owns cutting a program into its tasks, what each of them touches, and which of them must be said to wait for which: the
//! runtime orders a task behind those that wrote what it takes, and knows nothing of those that only read what it
//! overwrites.

use super::{Area, Core, Kernel, Object, Op, Reach, Stmt};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// A task of a program, or a kernel for one core as the only one.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// Its place in the body of the program; none for a kernel that is no program of tasks.
    pub at: Option<usize>,
    /// Name.
    pub name: Name,
    /// The kernel: the program's declarations with the task's statements.
    pub kernel: Kernel,
    /// What it touches.
    pub uses: Uses,
}

/// What a task touches of memory outside its core.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Uses {
    /// Memory of this rank alone that it reads.
    pub reads: BTreeSet<Object>,
    /// Memory of this rank alone that it writes.
    pub writes: BTreeSet<Object>,
    /// Whether it touches what peers reach: counters, or areas of them.
    pub shared: bool,
    /// Whether it reads tables.
    pub tables: bool,
}

/// The tasks of a kernel, in order.
pub fn split(kernel: &Kernel) -> Vec<Task> {
    if kernel.core != Core::Tasks {
        return vec![task(None, &kernel.name, kernel.clone())];
    }
    let mut out = vec![];
    for (i, stmt) in kernel.body.iter().enumerate() {
        if let Stmt::Task { name, core, body } = stmt {
            out.push(task(Some(i), name, Kernel { core: *core, body: body.clone(), ..kernel.clone() }));
        }
    }
    out
}

fn task(at: Option<usize>, name: &Name, kernel: Kernel) -> Task {
    let mut uses = Uses::default();
    look(&kernel, &kernel.body, &mut uses);
    Task { at, name: name.clone(), uses, kernel }
}

/// Runs `f` on every task as a kernel of its own, or on the kernel if it is for one core.
///
/// # Errors
/// Those of `f`, the first.
pub fn each<E>(kernel: &mut Kernel, mut f: impl FnMut(&mut Kernel) -> Result<(), E>) -> Result<(), E> {
    if kernel.core != Core::Tasks {
        return f(kernel);
    }
    let mut done = kernel.clone();
    for stmt in &mut done.body {
        if let Stmt::Task { core, body, .. } = stmt {
            let mut one = Kernel { core: *core, body: std::mem::take(body), ..kernel.clone() };
            f(&mut one)?;
            *body = one.body;
        }
    }
    *kernel = done;
    Ok(())
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
            Stmt::Task { body, .. } => look(kernel, body, uses),
            Stmt::Note { .. } => {}
            Stmt::Op(op) => {
                crate::family::each_of(&mut op.clone(), &mut |e| uses.tables |= tables(e));
                match op {
                    Op::Load { from: g, .. }
                    | Op::LoadRow { from: g, .. }
                    | Op::LoadBlock { from: g, .. } => {
                        place(kernel, g.object, &mut uses.reads, &mut uses.shared);
                    }
                    Op::Store { to: g, .. } | Op::StoreBlock { to: g, .. } => {
                        place(kernel, g.object, &mut uses.writes, &mut uses.shared);
                    }
                    Op::Notify { .. } | Op::Wait { .. } => uses.shared = true,
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

/// For every task the earlier ones that read what it overwrites, and that the runtime would not wait for: it follows
/// those that wrote what a task reads or writes, not those that read.
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

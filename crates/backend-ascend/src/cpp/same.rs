//! Same kernels: tasks of a program whose texts differ in nothing but names and comments.
//!
//! An encoder projects queries, keys and values in three tasks of one shape. They run one kernel
//! with other arguments, which is compiled once.

use kbc_diag::Diagnostic;
use kbc_tiles::args::{TaskArg, TensorArg, task_tensors};
use kbc_tiles::tile::Kernel;
use kbc_tiles::tile::tasks::Task;
use std::collections::BTreeMap;

/// Prints one of several tasks.
pub(super) type Print<'p> = &'p dyn Fn(&[Task], usize) -> Result<String, Diagnostic>;

/// Returns the kernels of a program: of each, the tasks that run it, by their indices. Kernels are
/// in the order of their first tasks.
///
/// # Errors
/// Returns the errors of `print`.
pub(super) fn kernels(tasks: &[Task], print: Print<'_>) -> Result<Vec<Vec<usize>>, Diagnostic> {
    if tasks.len() < 2 {
        return Ok((0..tasks.len()).map(|at| vec![at]).collect());
    }
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut out: Vec<Vec<usize>> = vec![];
    for at in 0..tasks.len() {
        let number = *known.entry(unnamed(tasks, at, print)?).or_insert(out.len());
        match out.get_mut(number) {
            Some(list) => list.push(at),
            None => out.push(vec![at]),
        }
    }
    Ok(out)
}

/// Prints a task without comments, with its arguments named by their positions. What the runtime
/// knows of a kernel besides its text precedes it: the core, and the directions of its arguments.
fn unnamed(tasks: &[Task], at: usize, print: Print<'_>) -> Result<String, Diagnostic> {
    let list = task_tensors(&tasks[at].kernel, tasks, at);
    let directions: Vec<&str> = list.iter().map(|t| t.direction).collect();
    let mut out = format!("{:?} {} {directions:?}\n", tasks[at].kernel.core, tasks[at].kernel.cores);
    let mut all: Vec<Task> = tasks.to_vec();
    all[at].kernel = by_position(&tasks[at].kernel, &list);
    for line in print(&all, at)?.lines() {
        if !line.trim_start().starts_with("//") {
            out += line;
            out.push('\n');
        }
    }
    Ok(out)
}

/// Returns a kernel whose tensors and areas are named by their positions among the arguments of a
/// task, and the others by their positions among the others.
fn by_position(kernel: &Kernel, list: &[TaskArg<'_>]) -> Kernel {
    let mut out = kernel.clone();
    let mut others = 0;
    let mut named = |given: Option<usize>| match given {
        Some(i) => format!("argument_{i}").as_str().into(),
        None => {
            others += 1;
            format!("other_{others}").as_str().into()
        }
    };
    for (t, new) in kernel.tensors.iter().zip(&mut out.tensors) {
        let is = |a: &TaskArg<'_>| matches!(a.arg, TensorArg::Data(d) if d.name == t.name);
        new.name = named(list.iter().position(is));
    }
    for (a, new) in kernel.areas.iter().zip(&mut out.areas) {
        let is = |t: &TaskArg<'_>| matches!(t.arg, TensorArg::Area(g) if g.name == a.name);
        new.name = named(list.iter().position(is));
    }
    out
}

//! Same kernels: tasks of a program whose texts differ in nothing but names, comments, and the
//! numbers with which memory and counters begin.
//!
//! An encoder projects queries, keys and values in three tasks of one shape. They run one kernel
//! with other arguments, which is compiled once. So do tasks on the pieces of a value, and tasks of
//! several collectives of one size: where a piece, an area of the window or an array of counters
//! begins, and from which value on counters count for a task, are scalar arguments of such tasks.

use kbc_diag::Diagnostic;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::name::Name;
use kbc_tiles::args::{TaskArg, TensorArg, task_tensors};
use kbc_tiles::package::TaskScalar;
use kbc_tiles::tile::tasks::Task;
use kbc_tiles::tile::visit::{each_in, each_op, each_op_mut};
use kbc_tiles::tile::{CALL, Kernel, Object, Op, PIECE, Reach, Stmt};
use std::collections::{BTreeMap, BTreeSet};

/// What a number of a task is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Beginning {
    /// The first byte of an array of counters in the window, by the index of the array.
    Counters(usize),
    /// The first byte of an area of the window, by its index.
    Area(usize),
    /// The first element of a part of a tensor or of an area.
    Piece,
    /// The value from which the waits of the task count. It grows with every call, and with every
    /// task of a call that uses the same counters.
    Waits,
}

/// A number of a task that a scalar argument can state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TaskNumber {
    pub(super) what: Beginning,
    /// Name of the argument.
    pub(super) name: Name,
    pub(super) value: Expr,
}

/// Prints one of several tasks, with these numbers as arguments.
pub(super) type Print<'p> = &'p dyn Fn(&[Task], usize, &[TaskNumber]) -> Result<String, Diagnostic>;

/// A kernel of a program: the tasks that run it, by their indices, and the numbers of the first of
/// them that are scalar arguments, with their values in every task.
pub(super) struct SharedKernel {
    pub(super) tasks: Vec<usize>,
    pub(super) numbers: Vec<TaskNumber>,
    pub(super) scalars: Vec<TaskScalar>,
}

impl SharedKernel {
    fn of(tasks: Vec<usize>) -> SharedKernel {
        SharedKernel { tasks, numbers: vec![], scalars: vec![] }
    }
}

/// Returns the kernels of a program, in the order of their first tasks. A kernel has at most `most`
/// scalars besides those of the launch.
///
/// # Errors
/// Returns the errors of `print`.
pub(super) fn kernels(
    tasks: &[Task],
    most: usize,
    print: Print<'_>,
) -> Result<Vec<SharedKernel>, Diagnostic> {
    if tasks.len() < 2 {
        return Ok((0..tasks.len()).map(|at| SharedKernel::of(vec![at])).collect());
    }
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<usize>> = vec![];
    for at in 0..tasks.len() {
        let number = *known.entry(unnamed(tasks, at, true, print)?).or_insert(groups.len());
        match groups.get_mut(number) {
            Some(list) => list.push(at),
            None => groups.push(vec![at]),
        }
    }
    let mut out = vec![];
    for group in groups {
        let scalars = differing(tasks, &group);
        let launch = &tasks[group[0]].kernel.scalars;
        let known = |e: &Expr| {
            let mut all = !e.has_table();
            e.vars(&mut |n| all &= launch.contains(n));
            all
        };
        if scalars.len() <= most && scalars.iter().all(|s| s.1.values.iter().all(known)) {
            let (numbers, scalars) = scalars.into_iter().unzip();
            out.push(SharedKernel { tasks: group, numbers, scalars });
            continue;
        }
        // Too many arguments, or numbers that only a rank knows: only tasks without different
        // numbers share a kernel.
        let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for at in group {
            alike.entry(unnamed(tasks, at, false, print)?).or_default().push(at);
        }
        out.extend(alike.into_values().map(SharedKernel::of));
    }
    out.sort_by_key(|k| k.tasks[0]);
    Ok(out)
}

/// Returns the numbers in which tasks with the same kernel differ, as those of the first task and
/// as scalars.
fn differing(tasks: &[Task], group: &[usize]) -> Vec<(TaskNumber, TaskScalar)> {
    let all: Vec<Vec<TaskNumber>> = group.iter().map(|at| numbers(tasks, *at)).collect();
    let mut out = vec![];
    for (i, first) in all[0].iter().enumerate() {
        let values: Vec<Expr> = all.iter().map(|list| list[i].value.clone()).collect();
        if values.iter().any(|v| *v != first.value) {
            out.push((first.clone(), TaskScalar { name: first.name.clone(), values }));
        }
    }
    out
}

/// Returns the numbers of a task that arguments can state, in the order of their declarations.
fn numbers(tasks: &[Task], at: usize) -> Vec<TaskNumber> {
    let kernel = &tasks[at].kernel;
    let (counters, areas) = in_window(kernel);
    // Names of the kernel keep their meaning.
    let mut taken = BTreeSet::new();
    taken.extend(kernel.scalars.iter().cloned());
    defined(&kernel.body, &mut taken);
    let mut fresh = |name: &str| {
        let mut name = name.to_owned();
        while !taken.insert(Name::from(name.as_str())) {
            name.push('_');
        }
        Name::from(name.as_str())
    };
    let mut out = vec![];
    for (what, name, value) in counters
        .iter()
        .map(|i| (Beginning::Counters(*i), &kernel.signals[*i].name, &kernel.signals[*i].at))
        .chain(areas.iter().map(|i| (Beginning::Area(*i), &kernel.areas[*i].name, &kernel.areas[*i].at)))
    {
        if let Some(value) = value {
            let name = fresh(&format!("{name}_at"));
            out.push(TaskNumber { what, name, value: value.clone() });
        }
    }
    for stmt in &kernel.body {
        if let Stmt::Let { name, value } = stmt
            && is_piece(name)
        {
            out.push(TaskNumber { what: Beginning::Piece, name: name.clone(), value: value.clone() });
        }
    }
    if let Some((calls, number)) = first_awaited(kernel) {
        let value = Expr::var(CALL) * Expr::Int(calls) + Expr::Int(number);
        out.push(TaskNumber { what: Beginning::Waits, name: fresh("waits_from"), value: value.simplify() });
    }
    out
}

/// Adds the names that statements define.
fn defined(list: &[Stmt], names: &mut BTreeSet<Name>) {
    for stmt in list {
        match stmt {
            Stmt::Let { name, .. } | Stmt::For { var: name, .. } => {
                names.insert(name.clone());
            }
            Stmt::Tiles { pos, len, rows, .. } => {
                names.extend([pos.clone(), len.clone()]);
                names.extend(rows.iter().map(|r| r.count.clone()));
            }
            Stmt::If { .. } | Stmt::Turn { .. } | Stmt::Task { .. } | Stmt::Note { .. } | Stmt::Op(_) => {}
        }
        stmt.blocks().for_each(|block| defined(block, names));
    }
}

/// Returns the smallest number in the values for which a kernel waits: `calls * call + number`, as
/// both numbers. `None` if there is no such number, or if they differ in `calls`.
fn first_awaited(kernel: &Kernel) -> Option<(i64, i64)> {
    let mut found: Vec<(i64, i64)> = vec![];
    each_op(&kernel.body, &mut |op| {
        if let Op::Wait { value, .. } | Op::Defer { value, .. } = op {
            with_epochs(value, &mut |calls, number| {
                found.push((calls, number));
                Expr::Int(0)
            });
        }
    });
    let first = found.first()?.0;
    let least = found.iter().map(|f| f.1).min()?;
    found.iter().all(|f| f.0 == first).then_some((first, least))
}

/// Returns `(a, b)` for an expression that is `a * call + b`.
fn in_calls(e: &Expr) -> Option<(i64, i64)> {
    match e {
        Expr::Int(n) => Some((0, *n)),
        Expr::Var(n) if n == CALL => Some((1, 0)),
        Expr::Bin(op, x, y) => {
            let ((a, b), (c, d)) = (in_calls(x)?, in_calls(y)?);
            match op {
                BinOp::Add => Some((a.checked_add(c)?, b.checked_add(d)?)),
                BinOp::Sub => Some((a.checked_sub(c)?, b.checked_sub(d)?)),
                BinOp::Mul if a == 0 => Some((b.checked_mul(c)?, b.checked_mul(d)?)),
                BinOp::Mul if c == 0 => Some((a.checked_mul(d)?, b.checked_mul(d)?)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns an expression with its largest parts of the form `calls * call + number` replaced.
fn with_epochs(e: &Expr, new: &mut dyn FnMut(i64, i64) -> Expr) -> Expr {
    match (in_calls(e), e) {
        (Some((calls, number)), _) if calls != 0 => new(calls, number),
        (None, Expr::Bin(op, x, y)) => Expr::bin(*op, with_epochs(x, new), with_epochs(y, new)),
        _ => e.clone(),
    }
}

/// Makes what a kernel waits for count from the argument.
pub(super) fn wait_from_argument(kernel: &mut Kernel, argument: &Name) {
    let Some((_, least)) = first_awaited(kernel) else { return };
    each_op_mut(&mut kernel.body, &mut |op| {
        if let Op::Wait { value, .. } | Op::Defer { value, .. } = op {
            *value = with_epochs(value, &mut |_, number| {
                (Expr::var(argument.clone()) + Expr::Int(number - least)).simplify()
            });
        }
    });
}

/// Checks whether a name is that of the first element of a piece.
fn is_piece(name: &Name) -> bool {
    name.as_str().strip_prefix(PIECE).is_some_and(|rest| rest.starts_with('_'))
}

/// Returns the arrays of counters and the areas of the window that a task uses, by their indices.
fn in_window(kernel: &Kernel) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut counters, mut areas) = (BTreeSet::new(), BTreeSet::new());
    each_op(&kernel.body, &mut |op| match op {
        Op::Notify { signals, .. } | Op::Wait { signals, .. } | Op::Defer { signals, .. } => {
            counters.insert(signals.0 as usize);
        }
        op => {
            if let Some(Object::Area(a)) = op.place().map(|(gm, _)| gm.object)
                && kernel.areas.get(a.0 as usize).is_some_and(|a| a.reach == Reach::Peers)
            {
                areas.insert(a.0 as usize);
            }
        }
    });
    (counters, areas)
}

/// Prints a task without comments, with its arguments named by their positions, and with its
/// numbers as arguments if `free`. What the runtime knows of a kernel besides its text precedes it:
/// the core, and the directions of its arguments.
fn unnamed(tasks: &[Task], at: usize, free: bool, print: Print<'_>) -> Result<String, Diagnostic> {
    let list = task_tensors(&tasks[at].kernel, tasks, at);
    let directions: Vec<&str> = list.iter().map(|t| t.direction).collect();
    let mut out = format!("{:?} {} {directions:?}\n", tasks[at].kernel.core, tasks[at].kernel.cores);
    let mut all: Vec<Task> = tasks.to_vec();
    all[at].kernel = by_position(&tasks[at].kernel, &list);
    let numbers = if free { numbers(&all, at) } else { vec![] };
    for line in print(&all, at, &numbers)?.lines() {
        if !line.trim_start().starts_with("//") {
            out += line;
            out.push('\n');
        }
    }
    Ok(out)
}

/// Returns a kernel whose tensors and areas are named by their positions among the arguments of a
/// task, and what else it uses by its position among the others.
fn by_position(kernel: &Kernel, list: &[TaskArg<'_>]) -> Kernel {
    let mut out = kernel.clone();
    let (counters, areas) = in_window(kernel);
    let mut others = 0;
    let mut named = |given: Option<usize>, used: bool| match given {
        Some(i) => format!("argument_{i}").as_str().into(),
        None if used => {
            others += 1;
            format!("other_{others}").as_str().into()
        }
        None => "unused".into(),
    };
    for (t, new) in kernel.tensors.iter().zip(&mut out.tensors) {
        let is = |a: &TaskArg<'_>| matches!(a.arg, TensorArg::Data(d) if d.name == t.name);
        new.name = named(list.iter().position(is), false);
    }
    for (i, (a, new)) in kernel.areas.iter().zip(&mut out.areas).enumerate() {
        let is = |t: &TaskArg<'_>| matches!(t.arg, TensorArg::Area(g) if g.name == a.name);
        new.name = named(list.iter().position(is), areas.contains(&i));
    }
    for (i, new) in out.signals.iter_mut().enumerate() {
        new.name = named(None, counters.contains(&i));
    }
    let pieces: Vec<Name> = kernel
        .body
        .iter()
        .filter_map(|s| if let Stmt::Let { name, .. } = s { Some(name.clone()) } else { None })
        .filter(is_piece)
        .collect();
    let new = |i: usize| Name::from(format!("{PIECE}_number_{i}").as_str());
    for stmt in &mut out.body {
        if let Stmt::Let { name, .. } = stmt
            && let Some(i) = pieces.iter().position(|p| p == name)
        {
            *name = new(i);
        }
    }
    each_in(&mut out.body, &mut |e| {
        let by = |n: &Name| pieces.iter().position(|p| p == n).map(|i| Expr::var(new(i)));
        *e = e.subst(&by);
    });
    out
}

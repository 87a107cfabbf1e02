//! Lifetimes of intermediate values: which areas of a program of tasks can share memory.
//!
//! The memory of a value may be used again once every task that touches the value is certain to
//! have ended. The order of tasks is that of their data: a task runs after those that wrote what it
//! touches, and after those that read what it overwrites ([`tasks::readers_before`]). A task that
//! begins to use memory again must come after all users of the earlier value by that order alone.
//! So no task waits for another one because of sharing, and tasks that are independent stay so.

use super::tasks::{self, Task};
use super::{AreaId, Core, Kernel, Object, Reach};
use std::collections::BTreeSet;

/// Lets the intermediate values of a program of tasks share memory. Which ones do follows from the
/// tasks alone and not from sizes, so that kernels for several sizes are alike.
pub(crate) fn share(kernel: &mut Kernel) {
    if kernel.core != Core::Tasks {
        return;
    }
    let tasks = tasks::split(kernel);
    let order = Order::of(&tasks);
    let mut values: Vec<Value> = own(kernel).filter_map(|a| Value::of(a, &tasks)).collect();
    values.sort_by_key(|v| (v.first, v.area));
    // For each arena the value that uses it last.
    let mut arenas: Vec<Value> = vec![];
    for value in values {
        match arenas.iter().position(|last| order.after(&value, last)) {
            Some(at) => {
                kernel.areas[value.area as usize].arena = kernel.areas[arenas[at].area as usize].arena;
                arenas[at] = value;
            }
            None => arenas.push(value),
        }
    }
}

/// Returns two intermediate values that share memory although the order of the tasks does not part
/// them.
pub(crate) fn conflict(kernel: &Kernel) -> Option<(AreaId, AreaId)> {
    if kernel.core != Core::Tasks {
        return None;
    }
    let tasks = tasks::split(kernel);
    let order = Order::of(&tasks);
    let values: Vec<Value> = own(kernel).filter_map(|a| Value::of(a, &tasks)).collect();
    let arena = |v: &Value| kernel.areas[v.area as usize].arena;
    values.iter().enumerate().find_map(|(i, a)| {
        let b =
            values[..i].iter().find(|b| arena(a) == arena(b) && !order.after(a, b) && !order.after(b, a))?;
        Some((AreaId(b.area), AreaId(a.area)))
    })
}

/// Returns the areas of a kernel that peers do not reach.
fn own(kernel: &Kernel) -> impl Iterator<Item = u32> {
    (0..).zip(&kernel.areas).filter(|(_, a)| a.reach == Reach::Own).map(|(i, _)| i)
}

/// An intermediate value: its area, the tasks that touch it, and the first of them, which writes
/// it.
struct Value {
    area: u32,
    users: Vec<usize>,
    first: usize,
}

impl Value {
    /// Returns the value of an area; `None` if no task uses it, or one reads it that did not write
    /// it before.
    fn of(area: u32, tasks: &[Task]) -> Option<Value> {
        let object = Object::Area(AreaId(area));
        let touches = |t: &&Task| t.uses.reads.contains(&object) || t.uses.writes.contains(&object);
        let users: Vec<usize> = (0..).zip(tasks).filter(|(_, t)| touches(t)).map(|(i, _)| i).collect();
        let first = *users.first()?;
        tasks[first].uses.writes.contains(&object).then_some(Value { area, users, first })
    }
}

/// For each task, the tasks that are certain to have ended when it begins.
struct Order(Vec<BTreeSet<usize>>);

impl Order {
    fn of(tasks: &[Task]) -> Order {
        let readers = tasks::readers_before(tasks);
        let mut before: Vec<BTreeSet<usize>> = vec![];
        for (i, t) in tasks.iter().enumerate() {
            let uses = &t.uses;
            let wrote = |e: &Task| {
                let written = |o: &Object| uses.reads.contains(o) || uses.writes.contains(o);
                e.uses.shared && uses.shared || e.uses.writes.iter().any(written)
            };
            let direct = (0..i).filter(|j| wrote(&tasks[*j]) || readers[i].contains(j));
            let mut all: BTreeSet<usize> = BTreeSet::new();
            for j in direct {
                all.extend(&before[j]);
                all.insert(j);
            }
            before.push(all);
        }
        Order(before)
    }

    /// Checks whether a value begins after all uses of another one.
    fn after(&self, value: &Value, other: &Value) -> bool {
        other.users.iter().all(|user| self.0[value.first].contains(user))
    }
}

//! Lifetimes of intermediate values: which areas of a program of tasks can share memory.
//!
//! The memory of a value may be used again once every task that touches the value is certain to
//! have ended. The order of tasks is that of their data: a task runs after those that wrote what it
//! touches, and after those that read what it overwrites ([`tasks::readers_before`]). A task that
//! begins to use memory again must come after all users of the earlier value by that order alone.
//! So no task waits for another one because of sharing, and tasks that are independent stay so.

use super::tasks::{self, Task};
use super::{AreaId, Core, Kernel, Object, Reach};
use fixedbitset::FixedBitSet;
use std::collections::BTreeMap;

/// Lets the intermediate values of a program of tasks share memory. Which ones do follows from the
/// tasks alone and not from sizes, so that kernels for several sizes are alike.
pub(crate) fn share(kernel: &mut Kernel) {
    if kernel.core != Core::Tasks {
        return;
    }
    let tasks = tasks::split(kernel);
    let order = Order::of(&tasks);
    let mut values = values(kernel, &tasks);
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
    let values = values(kernel, &tasks);
    let arena = |v: &Value| kernel.areas[v.area as usize].arena;
    values.iter().enumerate().find_map(|(i, a)| {
        let b =
            values[..i].iter().find(|b| arena(a) == arena(b) && !order.after(a, b) && !order.after(b, a))?;
        Some((AreaId(b.area), AreaId(a.area)))
    })
}

/// An intermediate value: its area, the tasks that touch it, and the first of them, which writes
/// it.
struct Value {
    area: u32,
    users: Vec<usize>,
    first: usize,
}

/// Returns the values of the areas that peers do not reach, without those that no task uses, and
/// without those that a task reads which did not write them before.
fn values(kernel: &Kernel, tasks: &[Task]) -> Vec<Value> {
    let mut users: BTreeMap<Object, Vec<usize>> = BTreeMap::new();
    for (i, t) in tasks.iter().enumerate() {
        for object in t.uses.reads.union(&t.uses.writes) {
            users.entry(*object).or_default().push(i);
        }
    }
    let own = (0..).zip(&kernel.areas).filter(|(_, a)| a.reach == Reach::Own).map(|(i, _)| i);
    let mut value = |area: u32| {
        let object = Object::Area(AreaId(area));
        let users = users.remove(&object)?;
        let first = *users.first()?;
        tasks[first].uses.writes.contains(&object).then_some(Value { area, users, first })
    };
    own.filter_map(&mut value).collect()
}

/// For each task, the tasks that are certain to have ended when it begins.
struct Order(Vec<FixedBitSet>);

impl Order {
    fn of(tasks: &[Task]) -> Order {
        let readers = tasks::readers_before(tasks);
        // A task comes after all earlier writers of what it touches. The last one does so, too.
        let mut writer: BTreeMap<Object, usize> = BTreeMap::new();
        let mut shared = None;
        let mut before: Vec<FixedBitSet> = vec![];
        for (i, t) in tasks.iter().enumerate() {
            let uses = &t.uses;
            let wrote = uses.reads.union(&uses.writes).filter_map(|o| writer.get(o));
            let direct = wrote.chain(&readers[i]).chain(shared.as_ref().filter(|_| uses.shared));
            let mut all = FixedBitSet::with_capacity(tasks.len());
            for &j in direct {
                all.union_with(&before[j]);
                all.insert(j);
            }
            before.push(all);
            writer.extend(uses.writes.iter().map(|o| (*o, i)));
            if uses.shared {
                shared = Some(i);
            }
        }
        Order(before)
    }

    /// Checks whether a value begins after all uses of another one.
    fn after(&self, value: &Value, other: &Value) -> bool {
        other.users.iter().all(|user| self.0[value.first].contains(*user))
    }
}

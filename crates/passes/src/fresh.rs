//! Fresh names for values that passes add: readable, and unique in the graph.

use kbc_ir::Name;
use kbc_ir::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};

/// The names in use.
#[derive(Clone, Debug, Default)]
pub struct FreshNames {
    taken: BTreeSet<Name>,
    /// For each hint that was already taken: the lowest number that may be free as its suffix.
    next: BTreeMap<Name, usize>,
}

impl FreshNames {
    /// Returns the names of a graph.
    pub fn of(graph: &Graph) -> FreshNames {
        let taken = graph.order().iter().map(|id| graph.op(*id).name.clone()).collect();
        FreshNames { taken, next: BTreeMap::new() }
    }

    /// Returns `hint` if it is free, otherwise the first free one of `hint_2`, `hint_3` and so on.
    /// The name counts as used from now on.
    pub fn name(&mut self, hint: &str) -> Name {
        let hint = Name::from(hint);
        if self.taken.insert(hint.clone()) {
            return hint;
        }
        let k = self.next.entry(hint.clone()).or_insert(2);
        loop {
            let name = Name::from(format!("{hint}_{k}"));
            *k += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Marks a name as used.
    pub fn reserve(&mut self, name: &str) {
        self.taken.insert(Name::from(name));
    }

    /// Releases a name when its value is removed.
    pub fn free(&mut self, name: &Name) {
        self.taken.remove(name);
        let numbered = name.rsplit_once('_').and_then(|(hint, k)| Some((hint, k.parse::<usize>().ok()?)));
        if let Some((next, k)) = numbered.and_then(|(hint, k)| Some((self.next.get_mut(hint)?, k))) {
            *next = (*next).min(k.max(2));
        }
    }
}

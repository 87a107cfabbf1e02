//! Names for values that passes add: readable, and unique in the graph.

use kbc_ir::Name;
use kbc_ir::graph::Graph;
use std::collections::BTreeSet;

/// Names in use.
pub struct Fresh(BTreeSet<Name>);

impl Fresh {
    /// The names of a graph.
    pub fn of(graph: &Graph) -> Fresh {
        Fresh(graph.order().iter().map(|id| graph.op(*id).name.clone()).collect())
    }

    /// `hint` if it is free, otherwise `hint_2`, `hint_3` and so on; taken from now on.
    pub fn name(&mut self, hint: &str) -> Name {
        let mut name = Name::from(hint);
        let mut k = 2;
        while !self.0.insert(name.clone()) {
            name = Name::from(format!("{hint}_{k}"));
            k += 1;
        }
        name
    }

    /// Gives a name back when its value is removed.
    pub fn free(&mut self, name: &Name) {
        self.0.remove(name);
    }
}

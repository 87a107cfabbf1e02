//! Environments in which the expressions of a schedule are evaluated.

use crate::expr::Env;
use crate::name::Name;
use crate::schedule::{CALL, Schedule, Table};

/// An environment: variables with values, of which later ones shadow earlier ones, and tables.
pub(super) struct Point<'a> {
    pub names: Vec<(&'a str, i64)>,
    pub tables: &'a [Table],
}

impl Env for Point<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        self.names.iter().rev().find(|(n, _)| *name == **n).map(|(_, v)| *v)
    }

    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let t = self.tables.iter().find(|t| t.name == *name)?;
        t.values.get(usize::try_from(index).ok()?).copied()
    }
}

/// Returns the environment with the mesh coordinates of a rank, in call 0.
pub(super) fn on_rank(s: &Schedule, rank: u64) -> Point<'_> {
    let mut names = vec![(CALL, 0)];
    names.extend(s.mesh.axes.iter().map(|a| a.name.as_str()).zip(s.mesh.coords(rank)));
    Point { names, tables: &s.tables }
}

//! Regions of a schedule: the order of their parts in the kernel, and the roles of ranks.

use super::errors::refuse;
use super::lanes::local;
use super::state::Lower;
use crate::tile::{CORE, Core, Stmt};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::{MAIN, RankSet, Region, Role};

impl Lower<'_, '_> {
    pub(super) fn all(&mut self) -> Result<(), Diagnostics> {
        if !self.several {
            self.start();
        }
        self.enter(Core::Vector);
        self.storage_prologue();
        for (i, region) in self.schedule.regions.iter().enumerate() {
            if self.begin_tasks.contains(&i) {
                self.leave();
            }
            self.region = Some(i);
            self.mark(i as i64);
            let depth = self.names.len();
            if self.task.is_some() || !self.several {
                self.coordinates(i);
            }
            self.region(i, region)?;
            self.region = None;
            self.names.truncate(depth);
        }
        self.enter(Core::Vector);
        self.mark(self.schedule.regions.len() as i64);
        self.storage_epilogue();
        self.leave();
        Ok(())
    }

    fn region(&mut self, number: usize, region: &Region) -> Result<(), Diagnostics> {
        if self.cores == 1 || local(region) {
            return self.roles(number, region);
        }
        self.enter(Core::Vector);
        let Some(merged) = self.merged[number].take() else {
            // A collective on one core, or operations of only some ranks: nothing in it is divided,
            // because cores that have no part in it do not meet the others there.
            self.nested += 1;
            let done = self.divided(|this| this.roles(number, region));
            self.nested -= 1;
            return done;
        };
        let since = self.lanes_of(region, &merged);
        self.core_barrier(since);
        self.nested += 1;
        let all = merged.cores == self.cores;
        if !all {
            self.build.open();
        }
        self.body(number, &merged.body)?;
        if !all {
            let then = self.build.close();
            let cond = Expr::bin(BinOp::Lt, Expr::var(CORE), Expr::Int(merged.cores.into()));
            self.build.push(Stmt::If { cond, then, other: vec![] });
        }
        self.nested -= 1;
        Ok(())
    }

    fn roles(&mut self, number: usize, region: &Region) -> Result<(), Diagnostics> {
        let linear = self.linear(number).simplify();
        let mut roles = vec![];
        for role in &region.roles {
            let [stream] = role.streams.as_slice() else {
                return Err(self.several_streams(region, role).into());
            };
            if stream.name.as_str() != MAIN {
                return Err(self.several_streams(region, role).into());
            }
            if !matches!(role.ranks, RankSet::All) {
                self.enter(Core::Vector);
            }
            let cond = match &role.ranks {
                RankSet::All => Expr::Int(1),
                RankSet::Where(e) => self.expr(e),
                RankSet::List(list) => list
                    .iter()
                    .map(|r| linear.clone().equals(Expr::Int(*r as i64)))
                    .reduce(|a, b| Expr::bin(BinOp::Or, a, b))
                    .unwrap_or(Expr::Int(0)),
            };
            if roles.is_empty() && cond.is_true() {
                // No rank is left for another role, and the names stay in this block.
                return self.body(number, &stream.body);
            }
            self.enter(Core::Vector);
            self.build.open();
            self.nested += 1;
            self.body(number, &stream.body)?;
            self.nested -= 1;
            roles.push((cond, self.build.close()));
        }
        let stmts =
            roles.into_iter().rev().fold(vec![], |other, (cond, then)| vec![Stmt::If { cond, then, other }]);
        self.build.extend(stmts);
        Ok(())
    }

    fn several_streams(&self, region: &Region, role: &Role) -> Diagnostic {
        refuse(
            region.span,
            format!("region @{} with {} streams in role {}", region.name, role.streams.len(), role.name),
            "a core has one stream: write `cores: k` to use one core per stream",
        )
    }
}

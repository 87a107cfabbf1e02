//! Is an algorithm right on a shape? Innermost texts first.
//!
//! Owns the order of checks: every use inside a composition is checked against its own promise before the
//! composition, so that an error stands in the innermost text that is wrong.

use std::collections::BTreeSet;

use kbc_diag::Diagnostics;

use crate::expand::expand;
use crate::library::Library;
use crate::meaning::check;
use crate::repair::{advise, is_users};
use crate::rounds::{Call, Limits, Rounds, coordinates};

/// Verifies calls and remembers what was found right.
pub struct Verifier<'a> {
    lib: &'a Library,
    limits: Limits,
    right: BTreeSet<Call>,
    /// The innermost call of the last fault.
    wrong: Option<Call>,
}

impl<'a> Verifier<'a> {
    /// A verifier that has seen nothing.
    pub fn new(lib: &'a Library, limits: Limits) -> Self {
        Verifier { lib, limits, right: BTreeSet::new(), wrong: None }
    }

    /// The rounds of a call that keeps its promise, as every use inside it does.
    ///
    /// # Errors
    /// What [`expand`] or [`check`] find in the innermost text that is wrong.
    pub fn verify(&mut self, call: &Call) -> Result<Rounds, Diagnostics> {
        let rounds = expand(self.lib, call, &self.limits).inspect_err(|_| self.wrong = Some(call.clone()))?;
        if self.right.contains(call) {
            return Ok(rounds);
        }
        for u in rounds.uses.iter().skip(1) {
            let inner = Call {
                alg: u.alg,
                sizes: u.shape.clone(),
                root: u.root.map(|c| coordinates(&u.shape, i64::from(c))),
                args: u.args.clone(),
            };
            if &inner == call || self.right.contains(&inner) {
                continue;
            }
            self.verify(&inner).map_err(|mut found| {
                let name = &self.lib.algorithm(call.alg).name.node;
                for d in &mut found.list {
                    d.notes.push(format!("found while checking `{name}`, which applies it"));
                }
                found
            })?;
        }
        check(self.lib, &rounds).inspect_err(|_| self.wrong = Some(call.clone()))?;
        self.right.insert(call.clone());
        Ok(rounds)
    }

    /// What [`Verifier::verify`] found, with a repair where one is found: the change is searched for in the innermost
    /// text that is wrong, and tried on small shapes before it is told.
    pub fn advised(&self, mut found: Diagnostics) -> Diagnostics {
        if let Some(call) = self.wrong.as_ref().filter(|c| is_users(self.lib, c.alg)) {
            advise(self.lib, call, &mut found);
        }
        found
    }
}

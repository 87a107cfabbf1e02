//! Verification of an algorithm on a shape, innermost uses first.
//!
//! This module owns the order of the checks: every use inside a composition is checked against
//! its own contract before the composition, so that an error appears in the innermost text
//! that is wrong.

use std::collections::BTreeSet;

use kbc_diag::Diagnostics;

use crate::expand::expand;
use crate::library::Library;
use crate::meaning::check;
use crate::rounds::{Call, Limits, Rounds, coordinates};

/// A verifier of calls, which caches the calls that were found correct.
pub struct Verifier<'a> {
    lib: &'a Library,
    limits: Limits,
    right: BTreeSet<Call>,
    /// The innermost call of the last error.
    wrong: Option<Call>,
}

impl<'a> Verifier<'a> {
    /// Makes a verifier with an empty cache.
    pub fn new(lib: &'a Library, limits: Limits) -> Self {
        Verifier { lib, limits, right: BTreeSet::new(), wrong: None }
    }

    /// Verifies that a call and every use inside it satisfy their contracts, and returns the
    /// rounds of the call.
    ///
    /// # Errors
    /// Returns the errors of [`expand`] or [`check`] in the innermost text that is wrong.
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
                    d.notes.push(format!("found while checking `{name}`, which applies this algorithm"));
                }
                found
            })?;
        }
        check(self.lib, &rounds).inspect_err(|_| self.wrong = Some(call.clone()))?;
        self.right.insert(call.clone());
        Ok(rounds)
    }

    /// Returns the innermost call of the last error.
    pub fn wrong(&self) -> Option<&Call> {
        self.wrong.as_ref()
    }

    /// Returns the declarations.
    pub fn library(&self) -> &'a Library {
        self.lib
    }
}

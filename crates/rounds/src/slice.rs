//! Chunk indices: the chunks that a selector `[i; k of n]` denotes on one rank.
//!
//! This module owns their range: checked or reduced modulo the number of chunks, and E028. `region`
//! cuts lines.

use kbc_diag::{Diagnostic, Span};

use crate::eval::with_bindings;
use crate::expand::{Expander, Step, too_large};
use crate::few::Few;
use crate::frame::Frame;
use crate::interp::{ChunkSelection, Domain};
use crate::scope::Scope;

impl<'a> Expander<'a> {
    /// Returns the chunk indices of a selector, reduced modulo `count`. An index that occurs
    /// twice is an error.
    pub fn indices(
        &self,
        f: &Frame<'a>,
        here: (usize, u32),
        chosen: &ChunkSelection<'_>,
        count: i64,
        span: Span,
    ) -> Step<Few<i64>> {
        let &ChunkSelection { index, len, gens, checked } = chosen;
        let bad = |title: String, label: String, help: &str| {
            let d = Diagnostic::error("E028", title).primary(span, label).help(help);
            self.located(f, here, Box::new(d))
        };
        // One chunk needs no list.
        let mut out = Few::Many(vec![]);
        let mut add = |x: &Self, scope: &dyn Scope| -> Step<()> {
            let i = x.evaluator.int(index, scope).map_err(|d| x.located(f, here, d))?;
            let k = match len {
                Some(e) => x.evaluator.int(e, scope).map_err(|d| x.located(f, here, d))?,
                None => 1,
            };
            if k < 0 {
                return Err(bad(
                    format!("a run of {k} chunks, which is a negative length"),
                    format!("[{i}; {k} of {count}]"),
                    "the length must be at least 0",
                ));
            }
            let outside = i < 0 || i.checked_add(k).is_none_or(|end| end > count);
            if let Some(d) = checked.filter(|_| outside).and_then(|c| c().fault(i, k, count)) {
                return Err(self.located(f, here, Box::new(d)));
            }
            if (out.len() as i64).saturating_add(k) > count {
                let n = (out.len() as i64).saturating_add(k);
                return Err(bad(
                    format!("{n} chunks are selected, and there are {count}"),
                    "too many chunks".into(),
                    "a selection must not contain a chunk twice",
                ));
            }
            if k as u64 > x.limits.atoms {
                return Err(too_large(span, format!("more than {} chunks", x.limits.atoms)));
            }
            let list = match &mut out {
                Few::Many(list) if k == 1 && gens.is_none() => {
                    debug_assert!(list.is_empty(), "an index without a list is evaluated once");
                    out = Few::One(i.rem_euclid(count));
                    return Ok(());
                }
                Few::Many(list) => list,
                Few::One(_) => unreachable!("an index without a list is evaluated once"),
            };
            list.extend((0..k).map(|j| (i.rem_euclid(count) + j) % count));
            Ok(())
        };
        match gens {
            None => add(self, &f.here(here.0))?,
            Some(g) => {
                let limit = self.limits.atoms as usize;
                for values in self.on(f, here, |x, h| x.bindings(g, h, limit))? {
                    let here = f.here(here.0);
                    add(self, &with_bindings(g, &values, &here))?;
                }
            }
        }
        if gens.is_some() && out.len() > 1 {
            let mut sorted = out.to_vec();
            sorted.sort_unstable();
            if let Some(w) = sorted.windows(2).find(|w| w[0] == w[1]) {
                return Err(bad(
                    format!("chunk {} of {count} is selected twice", w[0]),
                    format!("indices are taken modulo {count}"),
                    "a selection must not contain a chunk twice",
                ));
            }
        }
        Ok(out)
    }
}

//! Slices: the places that `[i; k of n][j of m]` denotes on one rank.
//!
//! This module owns chunk indices, their reduction modulo the number of chunks, and the errors E027
//! and E028. `region` cuts lines.

use kbc_diag::{Diagnostic, Span};

use crate::ast::{Expr, Gens, SelectorKind, Slice};
use crate::eval::{Fault, Scope, unknown, with_bindings};
use crate::expand::{Expander, Step, too_large};
use crate::frame::Frame;
use crate::region::{Interval, Region, cut};

impl<'a> Expander<'a> {
    /// Returns the region that a slice denotes on one rank.
    pub fn slice(&self, f: &Frame<'a>, m: usize, s: &Slice, t: u32) -> Step<Region> {
        let at = |d: Fault| self.located(f, m, t, d);
        let buffer = match &s.buffer {
            None if f.given == 1 => f.buffers.first(),
            None => None,
            Some(name) => f.buffers.iter().rev().find(|b| b.name == name.node),
        };
        let Some(buffer) = buffer else {
            let valid: Vec<String> = f.buffers.iter().map(|b| b.name.to_owned()).collect();
            let (name, span) = s.buffer.as_ref().map_or(("", s.span), |n| (n.node.as_str(), n.span));
            return Err(at(unknown("E027", "buffer", name, span, &valid)));
        };
        let whole = Interval { start: 0, len: buffer.region.len };
        if let [only] = s.selectors.as_slice()
            && only.kind == SelectorKind::All
        {
            return Ok(buffer.region.clone());
        }
        let mut chunks = vec![whole];
        for (i, selector) in s.selectors.iter().enumerate() {
            let mut next = vec![];
            let (count, list) = match &selector.kind {
                SelectorKind::All if i == 0 => (buffer.chunks, (0..buffer.chunks).collect()),
                SelectorKind::Part { index, len, gens, of } if i == 0 || of.is_some() => {
                    let count = match of {
                        Some(e) => self.on(f, m, t, |x, h| x.evaluator.int(e, h))?,
                        None => buffer.chunks,
                    };
                    (
                        count,
                        self.indices(f, m, t, (index, len.as_ref(), gens.as_ref()), count, selector.span)?,
                    )
                }
                _ => {
                    let d = Diagnostic::error("E028", "a further selector must say `of`")
                        .primary(selector.span, "part of how many?")
                        .help("write `[i of n]`");
                    return Err(at(Box::new(d)));
                }
            };
            if next.len() + chunks.len().saturating_mul(list.len()) > self.limits.atoms as usize {
                return Err(too_large(selector.span, format!("more than {} chunks", self.limits.atoms)));
            }
            for &chunk in &chunks {
                for &index in &list {
                    next.push(cut(chunk, index as u64, count as u64)?);
                }
            }
            chunks = next;
        }
        Ok(buffer.region.select(&chunks))
    }

    /// Returns the chunk indices of a selector, reduced modulo `count`. An index that occurs
    /// twice is an error.
    fn indices(
        &self,
        f: &Frame<'a>,
        m: usize,
        t: u32,
        (index, len, gens): (&Expr, Option<&Expr>, Option<&Gens>),
        count: i64,
        span: Span,
    ) -> Step<Vec<i64>> {
        let bad = |title: String, label: String, help: &str| {
            let d = Diagnostic::error("E028", title).primary(span, label).help(help);
            self.located(f, m, t, Box::new(d))
        };
        if count < 1 {
            return Err(bad(
                format!("a line cannot be cut in {count} parts"),
                "here".into(),
                "`of` at least 1",
            ));
        }
        let mut out: Vec<i64> = vec![];
        let mut add = |x: &Self, scope: &dyn Scope| -> Step<()> {
            let i = x.evaluator.int(index, scope).map_err(|d| x.located(f, m, t, d))?;
            let k = match len {
                Some(e) => x.evaluator.int(e, scope).map_err(|d| x.located(f, m, t, d))?,
                None => 1,
            };
            if k < 0 {
                return Err(bad(
                    format!("a run of {k} chunks"),
                    format!("[{i}; {k} of {count}]"),
                    "the length is at least 0",
                ));
            }
            if (out.len() as i64).saturating_add(k) > count {
                let n = (out.len() as i64).saturating_add(k);
                return Err(bad(
                    format!("{n} chunks selected of {count}"),
                    "more than there are".into(),
                    "a selection must not contain a chunk twice",
                ));
            }
            if k as u64 > x.limits.atoms {
                return Err(too_large(span, format!("more than {} chunks", x.limits.atoms)));
            }
            out.extend((0..k).map(|j| (i.rem_euclid(count) + j) % count));
            Ok(())
        };
        match gens {
            None => add(self, &f.here(m))?,
            Some(g) => {
                let limit = self.limits.atoms as usize;
                for values in self.on(f, m, t, |x, h| x.evaluator.bindings(g, h, limit))? {
                    let here = f.here(m);
                    add(self, &with_bindings(g, &values, &here))?;
                }
            }
        }
        if gens.is_some() && out.len() > 1 {
            let mut sorted = out.clone();
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

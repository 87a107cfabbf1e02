//! Findings of `select`: data for reports and for the table of `kbc explain select`.

use crate::cost::{Method, Price};
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::graph::{Using, UsingArg};
use std::fmt;

/// The alternatives that `select` considered, one entry per collective in program order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SelectTable {
    /// The entries.
    pub entries: Vec<Selection>,
}

/// A collective and its candidates.
#[derive(Clone, PartialEq, Debug)]
pub struct Selection {
    /// Name of its value.
    pub value: Name,
    /// Its source location.
    pub span: Span,
    /// Name of the collective.
    pub kind: Name,
    /// The axis.
    pub axis: Name,
    /// Ranks per group.
    pub ranks: u64,
    /// Bytes of its line on a rank.
    pub bytes: u64,
    /// All algorithms of the collective: first the priced ones, cheapest first, then the rejected
    /// ones by name.
    pub candidates: Vec<Candidate>,
    /// The chosen algorithm.
    pub chosen: Name,
    /// The times of its schedule pushed and pulled, if they were compared.
    pub transfers: Option<Transfers>,
    /// Whether the algorithm was asked for by name.
    pub requested: bool,
}

/// Simulated times of a collective in nanoseconds, by who moves its messages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transfers {
    /// Senders write them.
    pub push: f64,
    /// Receivers read them.
    pub pull: f64,
}

impl Transfers {
    /// Checks whether pulling is faster by at least a picosecond.
    pub fn pulls(&self) -> bool {
        (self.pull * 1e3).round() < (self.push * 1e3).round()
    }

    /// Returns the shorter of the two times.
    pub fn fastest(&self) -> f64 {
        if self.pulls() { self.pull } else { self.push }
    }
}

impl Selection {
    /// Returns what the collective uses if that is more than the program states: the algorithm, and
    /// `transfer: pull` if that is faster.
    pub fn using(&self, said: Option<&Using>) -> Option<Using> {
        let pulls = self.transfers.is_some_and(|t| t.pulls());
        let mut using = match said {
            Some(_) if !pulls => return None,
            Some(said) => said.clone(),
            None => Using { alg: self.chosen.clone(), args: vec![], options: vec![], span: Span::NONE },
        };
        if pulls {
            using.options.push(("transfer".into(), UsingArg::Name("pull".into())));
        }
        Some(using)
    }
}

/// An algorithm that was considered.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Its name.
    pub algorithm: Name,
    /// The outcome.
    pub verdict: Verdict,
}

/// The outcome for a candidate.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// It is legal and has this price.
    Priced(Price),
    /// It is legal and was not priced.
    Unpriced,
    /// It is not legal here, or could not be priced, for this reason.
    Rejected(String),
}

impl fmt::Display for SelectTable {
    /// Prints the table of `kbc explain select`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.entries.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            let why = if e.requested { "requested" } else { "the cheapest" };
            writeln!(
                f,
                "%{} = {} over {} of {}, {} bytes per rank: {} ({why})",
                e.value, e.kind, e.axis, e.ranks, e.bytes, e.chosen
            )?;
            if let Some(t) = &e.transfers {
                let way = if t.pulls() { "pulled" } else { "pushed" };
                writeln!(f, "  simulated {:.3} ns pushed, {:.3} ns pulled: {way}", t.push, t.pull)?;
            }
            let width = e.candidates.iter().map(|c| c.algorithm.len()).max().unwrap_or(0);
            for c in &e.candidates {
                write!(f, "  {:width$}  ", c.algorithm.as_str())?;
                match &c.verdict {
                    Verdict::Priced(p) => {
                        write!(f, "{:>14.3} ns  {:>6} rounds  {:>12} bytes sent", p.ns, p.rounds, p.sent)?;
                        if let Some(ns) = p.simulated {
                            write!(f, "  simulated {ns:.3} ns")?;
                        }
                        match p.method {
                            Method::Rounds => writeln!(f)?,
                            Method::SomeGroups(k, n) => writeln!(f, "  ({k} of {n} groups)")?,
                            Method::Extrapolated(p) => {
                                writeln!(f, "  (extrapolated from {}, {} and {} ranks)", p[0], p[1], p[2])?;
                            }
                        }
                    }
                    Verdict::Unpriced => writeln!(f, "requested, without an estimate")?,
                    Verdict::Rejected(why) => writeln!(f, "rejected: {why}")?,
                }
            }
        }
        Ok(())
    }
}

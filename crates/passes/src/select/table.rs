//! What `select` considered, as data for reports and as the table of `kbc explain select`.

use crate::cost::{Method, Price};
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::graph::{Using, UsingArg};
use std::fmt;

/// What `select` considered, one entry a collective in the order of the program.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SelectTable {
    /// The entries.
    pub entries: Vec<Selection>,
}

/// One collective and its candidates.
#[derive(Clone, PartialEq, Debug)]
pub struct Selection {
    /// Name of its value.
    pub value: Name,
    /// Where it comes from.
    pub span: Span,
    /// Which collective.
    pub kind: Name,
    /// The axis.
    pub axis: Name,
    /// Ranks of a group.
    pub ranks: u64,
    /// Bytes of its line on a rank.
    pub bytes: u64,
    /// All algorithms of the collective; priced ones first, cheapest first, then the rejected ones by name.
    pub candidates: Vec<Candidate>,
    /// The algorithm it got.
    pub chosen: Name,
    /// What its schedule takes pushed and pulled, where that was asked.
    pub transfers: Option<Transfers>,
    /// The program named it.
    pub asked: bool,
}

/// Simulated nanoseconds of a collective by who moves its messages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transfers {
    /// Senders write them.
    pub push: f64,
    /// Receivers fetch them.
    pub pull: f64,
}

impl Transfers {
    /// Whether it is faster to fetch, by a picosecond at least.
    pub fn pulls(&self) -> bool {
        (self.pull * 1e3).round() < (self.push * 1e3).round()
    }

    /// The time of the faster way.
    pub fn fastest(&self) -> f64 {
        if self.pulls() { self.pull } else { self.push }
    }
}

impl Selection {
    /// What the collective uses, if that is more than the program says: the algorithm, and `transfer: pull` where that is faster.
    pub fn using(&self, said: Option<&Using>) -> Option<Using> {
        let pulls = self.transfers.is_some_and(|t| t.pulls());
        let mut using = match said {
            Some(_) if !pulls => return None,
            Some(said) => said.clone(),
            None => Using { alg: self.chosen.clone(), args: vec![], span: Span::NONE },
        };
        if pulls {
            using.args.push(("transfer".into(), UsingArg::Name("pull".into())));
        }
        Some(using)
    }
}

/// An algorithm that was considered.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Its name.
    pub algorithm: Name,
    /// What came of it.
    pub verdict: Verdict,
}

/// What came of a candidate.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// It is legal and costs this.
    Priced(Price),
    /// It is legal; nobody asked what it costs.
    Unpriced,
    /// It is not legal here, or could not be priced: why.
    Rejected(String),
}

impl fmt::Display for SelectTable {
    /// The table of `kbc explain select`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.entries.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            let why = if e.asked { "asked for" } else { "the cheapest" };
            writeln!(
                f,
                "%{} = {} over {} of {}, {} bytes a rank: {} ({why})",
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
                            Method::Continued(p) => {
                                writeln!(f, "  (continued from {}, {} and {} ranks)", p[0], p[1], p[2])?;
                            }
                        }
                    }
                    Verdict::Unpriced => writeln!(f, "asked for, not priced")?,
                    Verdict::Rejected(why) => writeln!(f, "rejected: {why}")?,
                }
            }
        }
        Ok(())
    }
}

//! Findings of `select`: data for reports and for the table of `kbc explain select`.

use crate::cost::{Method, Price};
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::graph::{Using, UsingArg};
use kbc_ir::types::{DType, ReduceOp};
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
    /// Arguments that were chosen with it.
    pub arguments: Vec<(Name, UsingArg)>,
    /// Options that were chosen with it.
    pub options: Vec<(Name, UsingArg)>,
    /// What was searched beside the algorithms themselves.
    pub search: SearchRecord,
    /// The times of its schedule pushed and pulled, if they were compared.
    pub transfers: Option<Transfers>,
    /// Whether the algorithm was asked for by name.
    pub requested: bool,
    /// What is combined, if the order of additions must be fixed: whether another order changes
    /// bits depends on it.
    pub fixed: Option<(ReduceOp, DType)>,
}

/// The candidates of a collective, cheapest first, and what was searched to find them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ranking {
    /// All algorithms of the collective: first the priced ones, cheapest first, then the rejected
    /// ones by name.
    pub candidates: Vec<Candidate>,
    /// What was searched beside the algorithms themselves.
    pub search: SearchRecord,
}

/// What `select` searched for a collective beside algorithms with arguments that are numbers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SearchRecord {
    /// What every schedule needs on this machine, in nanoseconds, and why. None if it was not asked
    /// for or is not known.
    pub bound: Option<(f64, String)>,
    /// Orders of three axes and more, and other numbers of their clauses `check`, that were tried.
    pub orders: u64,
    /// Compositions and options that were tried.
    pub tried: u64,
    /// Compositions among them that were given up, because they take longer than what was known.
    pub given_up: u64,
    /// Whether the effort did not suffice for all.
    pub exhausted: bool,
    /// Why no compositions and options were tried, if none were.
    pub skipped: Option<String>,
}

/// Simulated times of a collective in nanoseconds, by who moves its messages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transfers {
    /// Senders write them.
    pub push: f64,
    /// The other value of the option `transfer` that was simulated.
    pub other: Fetching,
    /// The time with it.
    pub fetched: f64,
}

/// A value of the option `transfer` with which receivers fetch messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetching {
    /// `pull`: receivers read all messages.
    Pull,
    /// `switch`: receivers read what they add, so that switches can add it.
    Switch,
}

impl Fetching {
    /// Returns the value of the option.
    pub fn word(self) -> &'static str {
        match self {
            Fetching::Pull => "pull",
            Fetching::Switch => "switch",
        }
    }

    /// Returns the participle that reports use.
    pub fn done(self) -> &'static str {
        match self {
            Fetching::Pull => "pulled",
            Fetching::Switch => "added by switches",
        }
    }
}

impl Transfers {
    /// Checks whether fetching is faster by at least a picosecond.
    pub fn fetches(&self) -> bool {
        (self.fetched * 1e3).round() < (self.push * 1e3).round()
    }

    /// Returns the shorter of the two times.
    pub fn fastest(&self) -> f64 {
        if self.fetches() { self.fetched } else { self.push }
    }
}

impl Selection {
    /// Returns the chosen algorithm with its arguments, as a program writes it.
    pub fn call(&self) -> String {
        called(&self.chosen, &self.arguments, &self.options)
    }

    /// Returns what the collective uses if that is more than the program states: the algorithm, its
    /// arguments, and `transfer: pull` or `transfer: switch` if that is faster.
    pub fn using(&self, said: Option<&Using>) -> Option<Using> {
        let fetching = self.transfers.filter(Transfers::fetches).map(|t| t.other);
        let args = self.arguments.clone();
        let mut using = match said {
            Some(said) if fetching.is_none() && said.args == args => return None,
            Some(said) => Using { args, ..said.clone() },
            None => {
                let options = self.options.clone();
                Using { alg: self.chosen.clone(), args, options, span: Span::NONE }
            }
        };
        if let Some(fetching) = fetching {
            using.options.push(("transfer".into(), UsingArg::Name(fetching.word().into())));
        }
        Some(using)
    }
}

/// An algorithm that was considered.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Its name.
    pub algorithm: Name,
    /// Its arguments, if they are not its defaults.
    pub arguments: Vec<(Name, UsingArg)>,
    /// The options of its use.
    pub options: Vec<(Name, UsingArg)>,
    /// The outcome.
    pub verdict: Verdict,
}

impl Candidate {
    /// Returns the algorithm with its arguments, as a program writes it.
    pub fn call(&self) -> String {
        called(&self.algorithm, &self.arguments, &self.options)
    }

    /// Returns the candidate as a use of a collective.
    pub fn using(&self) -> Using {
        let (alg, args) = (self.algorithm.clone(), self.arguments.clone());
        Using { alg, args, options: self.options.clone(), span: Span::NONE }
    }

    /// Checks whether the search composed the candidate or gave it an option.
    pub fn is_searched(&self) -> bool {
        !self.options.is_empty() || self.arguments.iter().any(|a| matches!(a.1, UsingArg::Name(_)))
    }

    /// Returns the estimate of the cost model in nanoseconds, if there is one.
    pub fn ns(&self) -> Option<f64> {
        match &self.verdict {
            Verdict::Priced(price) => Some(price.ns),
            Verdict::Unpriced | Verdict::Pruned(_) | Verdict::Rejected(_) => None,
        }
    }

    /// Returns the arguments that are numbers, to compare by.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        let number = |(_, value): &(Name, UsingArg)| match value {
            UsingArg::Int(n) => Some(*n),
            UsingArg::Name(_) => None,
        };
        self.arguments.iter().filter_map(number).collect()
    }
}

/// Returns an algorithm with its arguments and options as a program writes it:
/// `hierarchical_flat(g: 8) with (pipeline: 2)`.
pub fn called(algorithm: &Name, arguments: &[(Name, UsingArg)], options: &[(Name, UsingArg)]) -> String {
    let one = |(name, value): &(Name, UsingArg)| match value {
        UsingArg::Int(n) => format!("{name}: {n}"),
        UsingArg::Name(word) => format!("{name}: {word}"),
    };
    let list = |of: &[(Name, UsingArg)]| of.iter().map(one).collect::<Vec<_>>().join(", ");
    let mut out = algorithm.to_string();
    if !arguments.is_empty() {
        out += &format!("({})", list(arguments));
    }
    if !options.is_empty() {
        out += &format!(" with ({})", list(options));
    }
    out
}

/// The outcome for a candidate.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// It is legal and has this price.
    Priced(Price),
    /// It is legal and was not priced.
    Unpriced,
    /// It was not looked at any further, for this reason.
    Pruned(String),
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
                e.value,
                e.kind,
                e.axis,
                e.ranks,
                e.bytes,
                e.call()
            )?;
            if let Some((ns, why)) = &e.search.bound {
                writeln!(f, "  every schedule takes {ns:.3} ns or more: {why}")?;
            }
            if e.search.orders > 0 {
                writeln!(f, "  {} orders and arguments of three axes tried", e.search.orders)?;
            }
            if e.search.tried > 0 {
                let (tried, up) = (e.search.tried, e.search.given_up);
                writeln!(f, "  {tried} compositions and options tried, {up} given up as too slow")?;
            }
            if let Some(t) = &e.transfers {
                let other = t.other.done();
                let way = if t.fetches() { other } else { "pushed" };
                writeln!(f, "  simulated {:.3} ns pushed, {:.3} ns {other}: {way}", t.push, t.fetched)?;
            }
            let names: Vec<String> = e.candidates.iter().map(Candidate::call).collect();
            let width = names.iter().map(String::len).max().unwrap_or(0);
            for (c, name) in e.candidates.iter().zip(&names) {
                write!(f, "  {name:width$}  ")?;
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
                    Verdict::Pruned(why) => writeln!(f, "not tried: {why}")?,
                    Verdict::Rejected(why) => writeln!(f, "rejected: {why}")?,
                }
            }
        }
        Ok(())
    }
}

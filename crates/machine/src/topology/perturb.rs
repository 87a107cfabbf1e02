//! Perturbations of a machine: stragglers, slow links, distributions and seeds.
//!
//! This module owns the data of a perturbation and the text of distributions, such as
//! `uniform(1, 2)`. The event engine's crate draws from them (`kbc_time::perturb`). The front end
//! reads the section `perturb` of a machine file.

use kbc_diag::{Diagnostic, Span, Spanned};

use super::links::LinkSet;
use super::quantity::Dimension;
use super::value::SettingValue;

/// Limit on the number of runs.
pub const MAX_RUNS: u64 = 10_000;

/// Names of the distributions. A plain value is a constant.
pub const SPREAD_NAMES: [&str; 4] = ["uniform", "normal", "exponential", "lognormal"];

/// A constant or a distribution. Every distribution begins at the least value of what is drawn: 1
/// for a factor, 0 for a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// Always this value.
    Constant(f64),
    /// Uniform between two values.
    Uniform(f64, f64),
    /// Mean and standard deviation of the full normal distribution. It is cut off at the least
    /// value and equally far above the mean, so that the mean does not change.
    Normal(f64, f64),
    /// The least value plus an exponentially distributed amount. The parameter is the mean of the
    /// sum.
    Exponential(f64),
    /// The least value plus a lognormally distributed amount. The parameters are the median of the
    /// sum and the sigma of the amount's logarithm.
    Lognormal(f64, f64),
}

/// The kind of value that is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrawnQuantity {
    /// A factor, at least 1.
    Factor,
    /// A time in ns, at least 0.
    Time,
}

impl DrawnQuantity {
    /// Returns the least value.
    pub fn least(self) -> f64 {
        match self {
            DrawnQuantity::Factor => 1.0,
            DrawnQuantity::Time => 0.0,
        }
    }

    fn example(self) -> &'static str {
        match self {
            DrawnQuantity::Factor => "a factor of at least 1, `2` or `uniform(1, 2)`",
            DrawnQuantity::Time => "a time, `2 us` or `exponential(2 us)`",
        }
    }
}

/// The ranks or links that are perturbed.
#[derive(Clone, PartialEq, Debug)]
pub enum PerturbTargets<T> {
    /// The listed ones.
    These(Vec<Spanned<T>>),
    /// This fraction of all, above 0 and at most 1, rounded up to a whole number. Chosen anew in
    /// every run.
    Share(f64),
    /// This number of them, chosen anew in every run.
    Count(Spanned<u64>),
}

/// A rank as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RankName {
    /// The number in the linear order.
    Number(u64),
    /// The coordinates of its device.
    At(Vec<u32>),
}

/// Ranks that are slower or start later.
#[derive(Clone, PartialEq, Debug)]
pub struct Stragglers {
    /// The ranks.
    pub who: PerturbTargets<RankName>,
    /// Factor by which the units take longer.
    pub slow: Option<Distribution>,
    /// The units that `slow` applies to: arithmetic, memory, vector.
    pub units: [bool; 3],
    /// Delay of the start, in ns.
    pub late: Option<Distribution>,
}

/// Links that are slower.
#[derive(Clone, PartialEq, Debug)]
pub struct SlowLinks {
    /// The links.
    pub who: PerturbTargets<LinkSet>,
    /// Divisor of the bandwidth.
    pub slow: Option<Distribution>,
    /// Added latency, in ns.
    pub latency: Option<Distribution>,
}

/// A perturbation. If several entries apply to one rank or link, times are added and factors are
/// multiplied.
#[derive(Clone, PartialEq, Debug)]
pub struct Perturb {
    /// Seed of the first run.
    pub seed: u64,
    /// Number of runs. Their seeds count up from `seed`.
    pub runs: u64,
    /// Entries for ranks.
    pub stragglers: Vec<Stragglers>,
    /// Entries for links.
    pub links: Vec<SlowLinks>,
    /// Source position.
    pub span: Span,
}

impl Distribution {
    /// Builds the distribution `name(values)`, or a constant if there is no name.
    ///
    /// # Errors
    /// Returns E465 for an unknown name, a wrong number of values, a wrong unit, or a value out of
    /// range.
    pub fn new(
        of: DrawnQuantity,
        name: Option<&Spanned<String>>,
        values: &[Spanned<SettingValue>],
        span: Span,
    ) -> Result<Distribution, Diagnostic> {
        let fault = |title: String, span: Span| {
            Err(Diagnostic::error("E465", title).primary(span, "here").help(format!(
                "write {}; docs/reference/machine.md describes all perturbations",
                of.example()
            )))
        };
        let word = name.map_or("", |n| n.node.as_str());
        let count = match word {
            "" | "exponential" => 1,
            "uniform" | "normal" | "lognormal" => 2,
            _ => {
                let at = name.map_or(span, |n| n.span);
                return Err(super::unknown("E465", "distribution", word, &SPREAD_NAMES, at));
            }
        };
        if values.len() != count {
            return fault(format!("`{word}` needs {count} values, and {} are given", values.len()), span);
        }
        let mut v = [0.0; 2];
        for (i, value) in values.iter().enumerate() {
            let plain = of == DrawnQuantity::Factor || (word == "lognormal" && i == 1);
            v[i] = match value.node {
                SettingValue::Number(x) if plain => x,
                SettingValue::Quantity(q) if !plain && q.dimension == Dimension::Nanoseconds => q.amount,
                _ if plain => return fault("this must be a number without a unit".into(), value.span),
                _ => return fault("this must be a time".into(), value.span),
            };
            let least = match (word, i) {
                ("normal" | "lognormal", 1) => 0.0,
                ("uniform", 1) => v[0],
                _ => of.least(),
            };
            let most = if word == "lognormal" && i == 1 { 8.0 } else { 1e15 };
            if !(least..=most).contains(&v[i]) {
                return fault(format!("this must be between {least} and {most}"), value.span);
            }
        }
        Ok(match word {
            "uniform" => Distribution::Uniform(v[0], v[1]),
            "normal" => Distribution::Normal(v[0], v[1]),
            "exponential" => Distribution::Exponential(v[0]),
            "lognormal" => Distribution::Lognormal(v[0], v[1]),
            _ => Distribution::Constant(v[0]),
        })
    }
}

//! What perturbs a machine: stragglers, slow links, distributions and seeds.
//!
//! Owns the description and the text of distributions, `uniform(1, 2)`. Drawing from it is the simulator's; the section
//! of a machine file that holds it is the frontend's.

use kbc_diag::{Diagnostic, Span, Spanned};

use super::links::LinkSet;
use super::quantity::Dimension;
use super::settings::SettingValue;

/// Largest number of runs.
pub const MAX_RUNS: u64 = 10_000;

/// Names of the distributions beside a plain value.
pub const SPREAD_NAMES: [&str; 4] = ["uniform", "normal", "exponential", "lognormal"];

/// A number or where it is drawn from. All of them begin at the least value of what is drawn: 1 for a factor, 0 for a
/// time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Spread {
    /// Always this.
    Constant(f64),
    /// Evenly between two values.
    Uniform(f64, f64),
    /// Mean and standard deviation of the whole normal distribution; cut off at the least value and, so that the mean
    /// stays the mean, as far above it.
    Normal(f64, f64),
    /// The least value and what is exponentially distributed above it; the mean of the sum.
    Exponential(f64),
    /// The least value and what is lognormally distributed above it: the median of the sum, and sigma of the logarithm.
    Lognormal(f64, f64),
}

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drawn {
    /// A factor, at least 1.
    Factor,
    /// A time in ns, at least 0.
    Time,
}

impl Drawn {
    /// The least value.
    pub fn least(self) -> f64 {
        match self {
            Drawn::Factor => 1.0,
            Drawn::Time => 0.0,
        }
    }

    fn example(self) -> &'static str {
        match self {
            Drawn::Factor => "a factor of at least 1, `2` or `uniform(1, 2)`",
            Drawn::Time => "a time, `2 us` or `exponential(2 us)`",
        }
    }
}

/// Who is perturbed.
#[derive(Clone, PartialEq, Debug)]
pub enum Chosen<T> {
    /// These.
    These(Vec<Spanned<T>>),
    /// This part of all, above 0 and at most 1, rounded up; drawn in every run.
    Share(f64),
    /// So many; drawn in every run.
    Count(Spanned<u64>),
}

/// A rank, as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RankName {
    /// By its number in the linear order.
    Number(u64),
    /// By its device's coordinates.
    At(Vec<u32>),
}

/// Ranks that are slower or start later.
#[derive(Clone, PartialEq, Debug)]
pub struct Stragglers {
    /// Which.
    pub who: Chosen<RankName>,
    /// How many times as long the units take.
    pub slow: Option<Spread>,
    /// Which units `slow` is about: arithmetic, memory, vector.
    pub units: [bool; 3],
    /// How much later they start, in ns.
    pub late: Option<Spread>,
}

/// Links that are slower.
#[derive(Clone, PartialEq, Debug)]
pub struct SlowLinks {
    /// Which.
    pub who: Chosen<LinkSet>,
    /// What the bandwidth is divided by.
    pub slow: Option<Spread>,
    /// Added latency in ns.
    pub latency: Option<Spread>,
}

/// A perturbation. Effects of several entries on one rank or link add up (times) and multiply (factors).
#[derive(Clone, PartialEq, Debug)]
pub struct Perturb {
    /// Seed of the first run.
    pub seed: u64,
    /// Runs, with seeds from `seed` on.
    pub runs: u64,
    /// Slower ranks.
    pub stragglers: Vec<Stragglers>,
    /// Slower links.
    pub links: Vec<SlowLinks>,
    /// Where it is written.
    pub span: Span,
}

impl Spread {
    /// The distribution `name(values)`, or a plain value without a name.
    ///
    /// # Errors
    /// E465 for an unknown name, another number of values, a wrong unit or a value out of range.
    pub fn new(
        of: Drawn,
        name: Option<&Spanned<String>>,
        values: &[Spanned<SettingValue>],
        span: Span,
    ) -> Result<Spread, Diagnostic> {
        let fault = |title: String, span: Span| {
            Err(Diagnostic::error("E465", title)
                .primary(span, "here")
                .help(format!("write {}; docs/machine.md has all of them", of.example())))
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
            return fault(format!("`{word}` has {} values and takes {count}", values.len()), span);
        }
        let mut v = [0.0; 2];
        for (i, value) in values.iter().enumerate() {
            let plain = of == Drawn::Factor || (word == "lognormal" && i == 1);
            v[i] = match value.node {
                SettingValue::Number(x) if plain => x,
                SettingValue::Quantity(q) if !plain && q.dimension == Dimension::Nanoseconds => q.amount,
                _ if plain => return fault("this has to be a plain number".into(), value.span),
                _ => return fault("this has to be a time".into(), value.span),
            };
            let least = match (word, i) {
                ("normal" | "lognormal", 1) => 0.0,
                ("uniform", 1) => v[0],
                _ => of.least(),
            };
            let most = if word == "lognormal" && i == 1 { 8.0 } else { 1e15 };
            if !(least..=most).contains(&v[i]) {
                return fault(format!("this is not between {least} and {most}"), value.span);
            }
        }
        Ok(match word {
            "uniform" => Spread::Uniform(v[0], v[1]),
            "normal" => Spread::Normal(v[0], v[1]),
            "exponential" => Spread::Exponential(v[0]),
            "lognormal" => Spread::Lognormal(v[0], v[1]),
            _ => Spread::Constant(v[0]),
        })
    }
}

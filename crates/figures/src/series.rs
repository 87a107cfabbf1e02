//! What charts are made of: headings, named rows of points, and what is wrong with them.

use crate::theme::Theme;
use std::fmt;

/// Why a chart cannot be drawn; the words name the series and the value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The reason, one sentence without a full stop.
    pub reason: String,
}

impl Fault {
    /// A fault for this reason.
    pub fn new(reason: impl Into<String>) -> Fault {
        Fault { reason: reason.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Fault {}

/// What stands above a chart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Heading {
    /// What is shown, a few words.
    pub title: String,
    /// On what machine, and what was varied; lines are broken where they are too long.
    pub subtitle: String,
    /// Colours of the card.
    pub theme: Theme,
}

impl Heading {
    /// Words on a light card.
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>) -> Heading {
        Heading { title: title.into(), subtitle: subtitle.into(), theme: Theme::default() }
    }

    /// The same on a card of another theme.
    pub fn with_theme(self, theme: Theme) -> Heading {
        Heading { theme, ..self }
    }
}

/// A named row of points. Units of x and y are the chart's.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// What the points belong to: an algorithm, a topology, a kind of memory.
    pub name: String,
    /// (x, y) in any order, no x twice.
    pub points: Vec<(f64, f64)>,
    /// At some of the x, in a word or two, what limits there: `latency`, `links`.
    pub bottleneck: Vec<(f64, String)>,
}

impl Series {
    /// A series without bottlenecks.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, bottleneck: vec![] }
    }

    /// The same series with what limits it: one word for each point, in their order.
    pub fn with_bottleneck<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Series {
        self.bottleneck = self.points.iter().map(|p| p.0).zip(words.into_iter().map(Into::into)).collect();
        self
    }

    /// The same series by rising x.
    ///
    /// # Errors
    /// No point, a value that is not finite, an x or (where the axis is logarithmic) a y that is not above zero, an x
    /// twice.
    pub(crate) fn sorted(&self, y_log: bool) -> Result<Series, Fault> {
        let name = &self.name;
        if self.points.is_empty() {
            return Err(Fault::new(format!("series `{name}` has no points")));
        }
        for (x, y) in &self.points {
            positive(&format!("an x of series `{name}`"), *x)?;
            let what = format!("series `{name}` at x = {x}");
            if y_log {
                positive(&what, *y)?;
            } else {
                not_negative(&what, *y)?;
            }
        }
        let mut out = self.clone();
        out.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some(pair) = out.points.windows(2).find(|p| p[0].0 == p[1].0) {
            return Err(Fault::new(format!("series `{name}` has two points at x = {}", pair[0].0)));
        }
        for (x, _) in &self.bottleneck {
            positive(&format!("an x of the bottlenecks of `{name}`"), *x)?;
        }
        out.bottleneck.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(out)
    }
}

/// # Errors
/// A value that is not finite and above zero, which a logarithmic axis cannot show.
pub(crate) fn positive(what: &str, value: f64) -> Result<(), Fault> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Fault::new(format!("{what} is {value}, and a logarithmic axis shows finite values above zero")))
}

/// # Errors
/// A value that is not finite, or below zero.
pub(crate) fn not_negative(what: &str, value: f64) -> Result<(), Fault> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Fault::new(format!("{what} is {value}, and has to be finite and not below zero")))
}

/// All series by rising x.
///
/// # Errors
/// No series, two of one name, and those of one series.
pub(crate) fn sorted(series: &[Series], y_log: bool) -> Result<Vec<Series>, Fault> {
    if series.is_empty() {
        return Err(Fault::new("there is no series to draw"));
    }
    for (i, s) in series.iter().enumerate() {
        if series[..i].iter().any(|t| t.name == s.name) {
            return Err(Fault::new(format!("two series have the name `{}`", s.name)));
        }
    }
    series.iter().map(|s| s.sorted(y_log)).collect()
}

/// Smallest and largest of some values; None of none.
pub(crate) fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |r, v| match r {
        None => Some((v, v)),
        Some((lo, hi)) => Some((lo.min(v), hi.max(v))),
    })
}

//! Series: the data types that all charts share, which are headings, named series of points, and
//! faults.

use crate::theme::Theme;
use std::fmt;

/// The reason why a chart cannot be drawn. It names the series and the value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The reason, as one sentence without a full stop.
    pub reason: String,
}

impl Fault {
    /// Returns a fault with this reason.
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

/// The text above a chart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Heading {
    /// The title: what is shown, in a few words.
    pub title: String,
    /// The subtitle: the machine, and what was varied. Long lines are wrapped.
    pub subtitle: String,
    /// The colours of the card.
    pub theme: Theme,
}

impl Heading {
    /// Returns a heading on a light card.
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>) -> Heading {
        Heading { title: title.into(), subtitle: subtitle.into(), theme: Theme::default() }
    }

    /// Returns the same heading on a card of another theme.
    pub fn with_theme(self, theme: Theme) -> Heading {
        Heading { theme, ..self }
    }
}

/// A named series of points. The chart defines the units of x and y.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// What the points belong to, such as an algorithm, a topology or a kind of memory.
    pub name: String,
    /// The points (x, y) in any order. No x may occur twice.
    pub points: Vec<(f64, f64)>,
    /// What limits the value at some of the x, in a word or two, such as `latency` or `links`.
    pub bottleneck: Vec<(f64, String)>,
}

impl Series {
    /// Returns a series without bottlenecks.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, bottleneck: vec![] }
    }

    /// Returns the same series with its bottlenecks: one text for each point, in the order of the
    /// points.
    pub fn with_bottleneck<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Series {
        self.bottleneck = self.points.iter().map(|p| p.0).zip(words.into_iter().map(Into::into)).collect();
        self
    }

    /// Returns the same series sorted by ascending x.
    ///
    /// # Errors
    /// Fails if there are no points, if a value is not finite, if an x (or a y on a logarithmic
    /// axis) is not positive, or if an x occurs twice.
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

/// Checks that a value is finite and positive. A logarithmic axis cannot show others.
///
/// # Errors
/// Fails if the value is not finite and positive.
pub(crate) fn positive(what: &str, value: f64) -> Result<(), Fault> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Fault::new(format!("{what} is {value}, and a logarithmic axis needs finite values above zero")))
}

/// Checks that a value is finite and not negative.
///
/// # Errors
/// Fails if the value is not finite or is negative.
pub(crate) fn not_negative(what: &str, value: f64) -> Result<(), Fault> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Fault::new(format!("{what} is {value}, and it must be finite and at least zero")))
}

/// Returns all series, each sorted by ascending x.
///
/// # Errors
/// Fails if there is no series, if two have the same name, or as [`Series::sorted`] does.
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

/// Returns the smallest and the largest of some values, or None if there are no values.
pub(crate) fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |r, v| match r {
        None => Some((v, v)),
        Some((lo, hi)) => Some((lo.min(v), hi.max(v))),
    })
}

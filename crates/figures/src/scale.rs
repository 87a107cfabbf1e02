//! From values to places on the card.

use libm::log;

/// How values lie along an axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    log: bool,
    /// Values at the ends.
    pub lo: f64,
    /// The larger one.
    pub hi: f64,
    from: f64,
    to: f64,
    /// Values between these have no place.
    gap: Option<(f64, f64)>,
}

/// The shares of a broken axis at which its lower part ends and its upper part begins.
const BREAK: (f64, f64) = (0.76, 0.80);

impl Scale {
    /// Logarithmic, values from `lo` to `hi` at `from` to `to`.
    pub fn log(lo: f64, hi: f64) -> Scale {
        Scale { log: true, lo, hi, from: 0.0, to: 1.0, gap: None }
    }

    /// Linear.
    pub fn linear(lo: f64, hi: f64) -> Scale {
        Scale { log: false, lo, hi, from: 0.0, to: 1.0, gap: None }
    }

    /// Linear without the values of a gap, of which the larger part of the axis is below.
    pub fn broken(lo: f64, hi: f64, gap: (f64, f64)) -> Scale {
        Scale { gap: Some(gap), ..Scale::linear(lo, hi) }
    }

    /// Logarithmic around some values, with room of this share of the axis at both ends; around one value a factor of two.
    pub fn log_around(lo: f64, hi: f64, room: f64) -> Scale {
        if hi / lo < 1.01 {
            return Scale::log(lo / 2.0, hi * 2.0);
        }
        let more = libm::pow(hi / lo, room);
        Scale::log(lo / more, hi * more)
    }

    /// The same between these places.
    pub fn between(self, from: f64, to: f64) -> Scale {
        Scale { from, to, ..self }
    }

    /// Whether it is logarithmic.
    pub fn is_log(self) -> bool {
        self.log
    }

    /// The values between which an axis is broken.
    pub fn gap(self) -> Option<(f64, f64)> {
        self.gap
    }

    /// Place of a value.
    pub fn at(self, value: f64) -> f64 {
        let share = if self.log {
            log(value / self.lo) / log(self.hi / self.lo)
        } else if let Some((below, above)) = self.gap {
            if value <= below {
                BREAK.0 * (value - self.lo) / (below - self.lo)
            } else {
                BREAK.1 + (1.0 - BREAK.1) * (value - above) / (self.hi - above)
            }
        } else {
            (value - self.lo) / (self.hi - self.lo)
        };
        self.from + share * (self.to - self.from)
    }
}

//! Scales: maps from values to positions on the card.

use libm::log;

/// The map from values along an axis to positions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    log: bool,
    /// The value at the lower end.
    pub lo: f64,
    /// The value at the upper end.
    pub hi: f64,
    from: f64,
    to: f64,
    /// The gap of a broken axis. Values inside it have no position.
    gap: Option<(f64, f64)>,
}

/// The shares of a broken axis at which its lower part ends and its upper part begins.
const BREAK: (f64, f64) = (0.76, 0.80);

impl Scale {
    /// Returns a logarithmic scale for the values `lo` to `hi`, at the positions 0 to 1.
    pub fn log(lo: f64, hi: f64) -> Scale {
        Scale { log: true, lo, hi, from: 0.0, to: 1.0, gap: None }
    }

    /// Returns a linear scale for the values `lo` to `hi`, at the positions 0 to 1.
    pub fn linear(lo: f64, hi: f64) -> Scale {
        Scale { log: false, lo, hi, from: 0.0, to: 1.0, gap: None }
    }

    /// Returns a linear scale that leaves out the values of a gap. The larger part of the axis is
    /// below the gap.
    pub fn broken(lo: f64, hi: f64, gap: (f64, f64)) -> Scale {
        Scale { gap: Some(gap), ..Scale::linear(lo, hi) }
    }

    /// Returns a logarithmic scale around the values `lo` to `hi`, with a margin of this share of
    /// their range at both ends. If there is only one value, the scale extends by a factor of two
    /// to both sides.
    pub fn log_around(lo: f64, hi: f64, room: f64) -> Scale {
        if hi / lo < 1.01 {
            return Scale::log(lo / 2.0, hi * 2.0);
        }
        let more = libm::pow(hi / lo, room);
        Scale::log(lo / more, hi * more)
    }

    /// Returns the same scale between these positions.
    pub fn between(self, from: f64, to: f64) -> Scale {
        Scale { from, to, ..self }
    }

    /// Returns whether the scale is logarithmic.
    pub fn is_log(self) -> bool {
        self.log
    }

    /// Returns the values between which the axis is broken.
    pub fn gap(self) -> Option<(f64, f64)> {
        self.gap
    }

    /// Returns the position of a value.
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

//! Samples: measured numbers with their median and quantiles.

/// Numbers that were measured, in the order of measurement.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    fn sorted(&self) -> Vec<f64> {
        let mut all = self.0.clone();
        all.sort_by(f64::total_cmp);
        all
    }

    /// The median: of an even number, the mean of the two in the middle. 0 without samples.
    pub fn median(&self) -> f64 {
        let all = self.sorted();
        let middle = all.len() / 2;
        match all.len() {
            0 => 0.0,
            n if n % 2 == 1 => all[middle],
            _ => f64::midpoint(all[middle - 1], all[middle]),
        }
    }

    /// The smallest value that this share of the samples does not exceed; 0 without samples.
    pub fn quantile(&self, share: f64) -> f64 {
        let all = self.sorted();
        let at = (share * all.len() as f64).ceil() as usize;
        all.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// Returns the quotients of these and other samples, round by round.
    pub fn over(&self, other: &Samples) -> Samples {
        Samples(self.0.iter().zip(&other.0).filter(|(_, by)| **by > 0.0).map(|(a, by)| a / by).collect())
    }
}

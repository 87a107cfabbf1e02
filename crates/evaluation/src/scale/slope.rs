//! Slope: the power of the size with which a cost grows.

/// Returns the slope of the line that least squares fit to the logarithms of sizes and costs: 1 if
/// the cost is proportional to the size, 2 if it grows with its square. Points that are not
/// positive are left out. Returns None for fewer than two sizes.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> =
        points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / logs.len() as f64;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = logs.iter().map(|p| (p.0 - x).powi(2)).sum();
    let common: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    (spread > 0.0).then(|| common / spread)
}

/// Returns the slope between the last two points, or None if there are fewer.
pub fn last_slope(points: &[(f64, f64)]) -> Option<f64> {
    slope(points.last_chunk::<2>()?)
}

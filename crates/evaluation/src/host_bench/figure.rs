//! Figures of a benchmark: time over size, a curve for each contestant.

use super::{BenchRow, BenchStage};
use kbc_diag::Diagnostic;
use kbc_figures::latency::Latency;
use kbc_figures::{Figure, Heading, Series, Theme};
use kbc_views::picture::fault;

/// Draws a figure for each collective and number of ranks: its name, and the figure. A contestant
/// has the times of its best algorithm at each size.
///
/// # Errors
/// Returns E590 for times that have no place on an axis.
pub fn figures(rows: &[BenchRow], theme: Theme) -> Result<Vec<(String, Figure)>, Diagnostic> {
    let best: Vec<&BenchRow> = rows.iter().filter(|r| r.stage == BenchStage::Measured && r.best).collect();
    let mut done: Vec<(&str, u64)> = vec![];
    let mut out = vec![];
    for row in &best {
        let of = (row.collective.as_str(), row.ranks);
        if done.contains(&of) {
            continue;
        }
        done.push(of);
        let own: Vec<&&BenchRow> = best.iter().filter(|r| (r.collective.as_str(), r.ranks) == of).collect();
        let mut series: Vec<Series> = vec![];
        for r in &own {
            let point = (r.bytes as f64, r.time_ns);
            match series.iter_mut().find(|s| s.name == r.contestant) {
                Some(s) => s.points.push(point),
                None => series.push(Series::new(r.contestant.clone(), vec![point])),
            }
        }
        let rounds = own.iter().map(|r| r.rounds).max().unwrap_or(0);
        let heading = Heading::new(
            format!("{} on {} ranks of one computer", of.0, of.1),
            format!("Medians of {rounds} rounds in turn; the fastest algorithm of kbc at each size"),
        );
        let name = format!("{}_{}", of.0, of.1);
        let chart =
            Latency { heading: heading.with_theme(theme), x_label: "bytes".into(), series, bounds: vec![] };
        out.push((name.clone(), chart.draw().map_err(|f| fault(&name, &f))?));
    }
    Ok(out)
}

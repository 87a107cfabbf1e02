//! Where series cross.

use kbc_figures::crossover::crossovers;

fn shown(series: &[&[(f64, f64)]]) -> Vec<(f64, usize, usize)> {
    crossovers(series).iter().map(|c| ((c.x * 1e6).round() / 1e6, c.from, c.to)).collect()
}

#[test]
fn a_change_between_samples() {
    let (flat, rising) = ([(1.0, 10.0), (1e4, 10.0)], [(1.0, 1.0), (1e4, 1e4)]);
    assert_eq!(shown(&[&flat, &rising]), [(10.0, 1, 0)]);
}

#[test]
fn a_change_at_a_sample_counts_once_and_touching_does_not() {
    let a = [(1.0, 1.0), (10.0, 10.0), (100.0, 100.0)];
    assert_eq!(shown(&[&a, &[(1.0, 10.0), (10.0, 10.0), (100.0, 10.0)]]), [(10.0, 0, 1)]);
    assert_eq!(shown(&[&a, &[(1.0, 2.0), (10.0, 10.0), (100.0, 200.0)]]), []);
    assert_eq!(shown(&[&a, &a]), []);
}

#[test]
fn three_series_within_one_pair_of_samples() {
    let all: [&[(f64, f64)]; 3] =
        [&[(1.0, 1.0), (1e6, 1e6)], &[(1.0, 10.0), (1e6, 1e4)], &[(1.0, 200.0), (1e6, 200.0)]];
    assert_eq!(shown(&all), [(100.0, 0, 1), ((20f64.powi(2) * 1e6).round() / 1e6, 1, 2)]);
}

#[test]
fn who_comes_later_or_ends_early() {
    let (early, late) = ([(1.0, 1.0), (10.0, 10.0)], [(10.0, 5.0), (100.0, 5.0)]);
    assert_eq!(shown(&[&early, &late]), [(10.0, 0, 1)]);
}

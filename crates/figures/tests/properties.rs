//! Properties that hold for any chart.

use crate::samples;

use kbc_figures::crossover::crossovers;
use kbc_figures::latency::Latency;
use kbc_figures::topology::{Form, Link, Node, Topology};
use kbc_figures::units::{Quantity, linear_ticks, log_ticks};
use kbc_figures::{Figure, Heading, Series, Theme};
use proptest::prelude::*;

fn labels_are_fine(figure: &Figure) -> Result<(), TestCaseError> {
    let (w, h) = figure.size();
    for (i, a) in figure.labels().iter().enumerate() {
        let r = a.area;
        prop_assert!(r.x0 >= 0.0 && r.y0 >= 0.0 && r.x1 <= w && r.y1 <= h, "{a:?} of {w} x {h}");
        let small = r.grown(-0.6);
        let other = figure.labels()[..i].iter().find(|b| b.area.grown(-0.6).overlaps(small));
        prop_assert!(other.is_none(), "{a:?} and {other:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// y = a x^s and y = b x^t meet at (b / a)^(1 / (s - t)), however they are sampled.
    #[test]
    fn crossovers_of_power_laws_are_found(
        a in 1.0..50.0f64, s in 0.0..0.6f64, more in 0.2..1.0f64, share in 0.05..0.95f64,
        left in 1..12i32, right in 1..12i32,
    ) {
        let (lo, hi) = (64.0f64, 1e7f64);
        let x = lo * (hi / lo).powf(share);
        // The second curve is steeper and meets the first at x.
        let t = s + more;
        let b = a * x.powf(s - t);
        let law = |n: i32, a: f64, s: f64| -> Vec<(f64, f64)> {
            (0..=n).map(|i| lo * (hi / lo).powf(f64::from(i) / f64::from(n))).map(|x| (x, a * x.powf(s))).collect()
        };
        let (flat, steep) = (law(left, a, s), law(right, b, t));
        let found = crossovers(&[&flat, &steep]);
        prop_assert_eq!(found.len(), 1, "{:?}", found);
        prop_assert!((found[0].x / x - 1.0).abs() < 1e-6, "{} for {x}", found[0].x);
        prop_assert!((found[0].y / (a * x.powf(s)) - 1.0).abs() < 1e-6);
        prop_assert_eq!((found[0].from, found[0].to), (1, 0));
    }

    /// Ticks are round, inside the range, rising and few; those of bytes are powers of two.
    #[test]
    fn ticks_are_powers(lo in -3.0..9.0f64, span in 0.2..8.0f64, most in 4usize..12) {
        let (lo, hi) = (10f64.powf(lo), 10f64.powf(lo + span));
        for quantity in [Quantity::Bytes, Quantity::Time, Quantity::Flops, Quantity::Count] {
            let ticks = log_ticks(quantity, lo, hi, most);
            prop_assert!(ticks.windows(2).all(|t| t[0].value < t[1].value));
            prop_assert!(ticks.iter().all(|t| t.value >= lo * 0.999_999 && t.value <= hi * 1.000_001));
            prop_assert!(ticks.iter().filter(|t| !t.label.is_empty()).count() <= most.max(2));
            for t in &ticks {
                let rest = if quantity.is_binary() {
                    t.value.log2().fract()
                } else {
                    // One or two digits, then zeros.
                    let digits = t.value / 10f64.powf((t.value * 1.000_001).log10().floor()) * 10.0;
                    digits - digits.round()
                };
                prop_assert!(rest.abs() < 1e-6, "{quantity:?} {t:?}");
            }
        }
        let ticks = linear_ticks(Quantity::Time, 0.0, hi, most);
        prop_assert!(ticks.len() <= most + 1 && ticks.len() >= 2, "{ticks:?}");
    }

    /// For any series with names of any length, text stays on the card without overlaps.
    #[test]
    fn words_of_any_latency_chart_stay_apart(
        rows in prop::collection::vec((prop::collection::vec(0.1..8.0f64, 1..9), 1usize..40), 1..14),
        first in 0..10i32,
        words in prop::collection::vec("[a-z]{3,9}( [a-z]{2,12}){0,6}", 1..4),
    ) {
        let series: Vec<Series> = rows
            .iter()
            .enumerate()
            .map(|(i, (ys, length))| {
                let name = format!("{}{i}", "algorithm_with_a_name_without_an_end_xx".get(..*length).unwrap_or(""));
                let points: Vec<(f64, f64)> =
                    ys.iter().enumerate().map(|(k, y)| (2f64.powi(first + 2 * k as i32), 10f64.powf(*y))).collect();
                let limits: Vec<String> = (0..points.len()).map(|k| words[(k + i) % words.len()].clone()).collect();
                let s = Series::new(name, points);
                if i % 2 == 0 { s.with_bottleneck(limits) } else { s }
            })
            .collect();
        let heading = Heading::new("A title", words.join(", "));
        let chart = Latency { heading, x_label: "bytes per rank".into(), series, bounds: vec![] };
        labels_are_fine(&chart.draw().expect("a chart"))?;
    }

    /// The same for any graph.
    #[test]
    fn words_of_any_machine_stay_apart(n in 1usize..40, pairs in prop::collection::vec((0usize..40, 0usize..40), 0..80)) {
        let nodes: Vec<Node> = (0..n).map(|i| Node { name: format!("({i})"), ..Node::default() }).collect();
        let links: Vec<Link> = pairs
            .into_iter()
            .map(|(a, b)| (a % n, b % n))
            .filter(|(a, b)| a != b)
            .map(|(from, to)| Link { from, to, percent: Some((from * 7 % 100) as f64), ..Link::default() })
            .collect();
        for form in [Form::Free, Form::Layers] {
            let chart = Topology { heading: Heading::new("A graph", ""), form, nodes: nodes.clone(), links: links.clone() };
            labels_are_fine(&chart.draw().expect("a chart"))?;
        }
    }
}

/// Two nodes of a force-directed layout never overlap.
#[test]
fn nodes_of_a_graph_stand_apart() {
    let figure = samples::graph(Theme::Light).expect("a chart");
    let of = |name: &str| figure.labels().iter().find(|l| l.text == name).map(|l| l.area).expect("a name");
    let names: Vec<String> = (0..8).map(|i| format!("({i})")).collect();
    for (i, a) in names.iter().enumerate() {
        assert!(names[..i].iter().all(|b| !of(a).grown(8.0).overlaps(of(b))), "{a}");
    }
}

//! Tests of charts that cannot be drawn: the error states the reason.

use kbc_figures::algorithms::{Algorithms, Baseline};
use kbc_figures::latency::Latency;
use kbc_figures::matrix::{Matrix, MatrixCell};
use kbc_figures::memory::Memory;
use kbc_figures::published::{self, Published};
use kbc_figures::reference::{Reference, ReferenceRow};
use kbc_figures::roofline::{Roof, Roofline, RooflinePoint};
use kbc_figures::scaling::{Measure, Scaling};
use kbc_figures::topology::{AxisDirection, AxisLayout, Form, Link, Node, Topology};
use kbc_figures::units::Quantity;
use kbc_figures::{Fault, Figure, Heading, Series};

fn why(result: Result<Figure, Fault>) -> String {
    result.err().map_or_else(|| "it was drawn".into(), |f| f.reason)
}

fn latency(series: Vec<Series>) -> String {
    why(Latency { series, ..Latency::default() }.draw())
}

#[test]
fn series() {
    let of = |points: &[(f64, f64)]| latency(vec![Series::new("s", points.to_vec())]);
    assert_eq!(latency(vec![]), "there is no series to draw");
    assert_eq!(of(&[]), "series `s` has no points");
    let log = "and a logarithmic axis needs finite values above zero";
    assert_eq!(of(&[(1.0, f64::NAN)]), format!("series `s` at x = 1 is NaN, {log}"));
    assert_eq!(of(&[(1.0, 0.0)]), format!("series `s` at x = 1 is 0, {log}"));
    assert_eq!(of(&[(1.0, -2.0)]), format!("series `s` at x = 1 is -2, {log}"));
    assert_eq!(of(&[(1.0, f64::INFINITY)]), format!("series `s` at x = 1 is inf, {log}"));
    assert_eq!(of(&[(0.0, 1.0)]), format!("an x of series `s` is 0, {log}"));
    assert_eq!(of(&[(2.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), "series `s` has two points at x = 2");
    let twice = vec![Series::new("s", vec![(1.0, 1.0)]); 2];
    assert_eq!(latency(twice), "two series have the name `s`");
    let bounds = vec![Series::new("bound", vec![(1.0, -1.0)])];
    let series = vec![Series::new("s", vec![(1.0, 1.0)])];
    assert_eq!(
        why(Latency { series, bounds, ..Latency::default() }.draw()),
        format!("series `bound` at x = 1 is -1, {log}")
    );
    assert_eq!(of(&[(1.0, 1.0)]), "it was drawn", "one point is enough");
}

#[test]
fn scaling_may_be_zero_where_the_axis_is_linear() {
    let of = |measure, y| {
        let series = vec![Series::new("s", vec![(2.0, y), (4.0, y)])];
        why(Scaling { measure, series, ..Scaling::default() }.draw())
    };
    assert_eq!(of(Measure::Percent, 0.0), "it was drawn");
    assert_eq!(of(Measure::Bandwidth, 0.0), "it was drawn");
    assert_eq!(
        of(Measure::Bandwidth, -1.0),
        "series `s` at x = 2 is -1, and it must be finite and at least zero"
    );
    assert!(of(Measure::Time, 0.0).contains("above zero"));
}

#[test]
fn selections_and_bounds() {
    let series = vec![Series::new("s", vec![(1.0, 1.0), (8.0, 4.0)])];
    let of = |against: Baseline, chosen: &[(f64, &str)]| {
        let chosen = chosen.iter().map(|c| (c.0, c.1.to_owned())).collect();
        why(Algorithms { series: series.clone(), against, chosen, ..Algorithms::default() }.draw())
    };
    assert_eq!(of(Baseline::Best, &[(1.0, "t")]), "`t` is chosen at x = 1, and there is no such series");
    assert_eq!(of(Baseline::Best, &[(9.0, "s")]), "`s` is chosen at x = 9, and has no time there");
    assert_eq!(of(Baseline::Bound(vec![(1.0, 1.0)]), &[]), "the bound has no value at x = 8");
    assert_eq!(of(Baseline::Best, &[(4.0, "s")]), "it was drawn");
}

#[test]
fn other_charts() {
    let points = (1..=25).map(|i| (f64::from(i), 1.0)).collect();
    let memory = Memory { kinds: vec![Series::new("tcm", points)], ..Memory::default() };
    assert_eq!(why(memory.draw()), "25 sizes cannot be distinguished (limit: 24 groups)");

    let reference = |rows| Reference {
        heading: Heading::default(),
        quantity: Quantity::Time,
        label: "time".into(),
        names: ["a".into(), "b".into()],
        rows,
    };
    assert_eq!(why(reference(vec![]).draw()), "there is no row to draw");
    let row = ReferenceRow { name: "r".into(), model: 1.0, reference: 0.0 };
    assert!(why(reference(vec![row]).draw()).starts_with("`r` of the reference is 0,"));

    let published = |x, y| {
        let points = vec![published::PublishedPoint { name: "p".into(), x, y }];
        let series = vec![Series::new("s", vec![(1.0, 1.0), (2.0, 2.0)])];
        why(Published { series, points, ..Published::default() }.draw())
    };
    assert!(published(0.0, 1.0).starts_with("the size of `p` is 0,"));
    assert!(published(1.0, f64::INFINITY).starts_with("the time of `p` is inf,"));
    assert_eq!(published(1.0, 1e9), "it was drawn");
    assert_eq!(published(3.0, 1e-9), "it was drawn");
    assert_eq!(why(Published::default().draw()), "there is no series to draw");

    let roof = |rate| vec![Roof { name: "r".into(), rate }];
    let point = |rate| vec![RooflinePoint { name: "p".into(), intensity: 1.0, rate, kind: String::new() }];
    let roofline = |compute, memory, points| {
        why(Roofline { heading: Heading::default(), compute, memory, points }.draw())
    };
    assert_eq!(
        roofline(vec![], roof(1e9), point(1e6)),
        "a roofline needs an arithmetic roof and a memory roof"
    );
    assert_eq!(roofline(roof(1e12), roof(1e9), vec![]), "there is no point to draw");
    assert!(roofline(roof(f64::NAN), roof(1e9), point(1e6)).starts_with("the roof `r` is NaN,"));
    assert!(roofline(roof(1e12), roof(1e9), point(-1.0)).starts_with("the rate of `p` is -1,"));
    assert_eq!(roofline(roof(1e12), roof(1e9), point(1e6)), "it was drawn");
}

#[test]
fn machines() {
    let nodes =
        |n: u32| (0..n).map(|i| Node { name: format!("({i})"), at: vec![i], ..Node::default() }).collect();
    let of =
        |n, form, links| why(Topology { heading: Heading::default(), form, nodes: nodes(n), links }.draw());
    let link = |from, to, percent| vec![Link { from, to, percent, ..Link::default() }];
    assert_eq!(of(0, Form::Free, vec![]), "there is no node to draw");
    assert_eq!(of(2000, Form::Free, vec![]), "2000 nodes cannot be distinguished (limit: 1024)");
    assert_eq!(of(2, Form::Free, link(0, 2, None)), "a link from node 0 to node 2 of 2");
    assert_eq!(of(2, Form::Free, link(1, 1, None)), "a link from node 1 to node 1 of 2");
    assert!(of(2, Form::Free, link(0, 1, Some(f64::NAN))).starts_with("the use of (0)->(1) is NaN"));
    let axis = |size| Form::Product(vec![AxisLayout { size, direction: AxisDirection::Row }]);
    assert_eq!(of(3, axis(2), vec![]), "(2) is not a position on 1 axes");
    for n in 1..4 {
        for form in [Form::Free, Form::Layers, axis(n)] {
            assert_eq!(of(n, form, vec![]), "it was drawn", "{n} nodes without links");
        }
    }
}

#[test]
fn matrices() {
    let cell = |row: &str, column: &str, percent| MatrixCell {
        row: row.into(),
        column: column.into(),
        percent,
        ..MatrixCell::default()
    };
    let of = |cells: Vec<MatrixCell>| why(Matrix { cells, ..Matrix::default() }.draw());
    assert_eq!(of(vec![]), "there is no cell to draw");
    assert_eq!(of(vec![cell("a", "x", 100.5)]), "100.5 % of the bound for `a`");
    assert_eq!(of(vec![cell("a", "x", f64::NAN)]), "NaN % of the bound for `a`");
    assert_eq!(of(vec![cell("a", "x", 1.0), cell("a", "x", 2.0)]), "there are two cells `a  x`");
    let wide = (0..25).map(|i| cell("a", &i.to_string(), 1.0)).collect();
    assert_eq!(of(wide), "1 rows and 25 columns are too many (limits: 400 and 24)");
    assert_eq!(of(vec![cell(&"long".repeat(40), "x", 1.0)]), "the names leave no room for the cells");
    let word = "unbreakable".repeat(3);
    assert_eq!(of(vec![cell("a", &word, 1.0)]), "the names of columns are wider than cells");
}

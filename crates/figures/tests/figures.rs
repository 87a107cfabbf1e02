//! Tests of all sample charts: text stays on the card without overlaps, the PNG shows the same as
//! the SVG, and the same input gives the same picture.

use crate::samples;

use kbc_figures::{Figure, Label, Theme};
use tiny_skia::Pixmap;

fn each(mut check: impl FnMut(&str, &Figure)) {
    for theme in [Theme::Light, Theme::Dark] {
        for (name, figure) in samples::all(theme) {
            check(name, &figure.unwrap_or_else(|e| panic!("{name}: {e}")));
        }
    }
}

#[test]
fn words_stay_on_the_card() {
    each(|name, figure| {
        let (w, h) = figure.size();
        assert!(!figure.labels().is_empty(), "{name}");
        for Label { text, area } in figure.labels() {
            let inside = area.x0 >= 0.0 && area.y0 >= 0.0 && area.x1 <= w && area.y1 <= h;
            assert!(inside, "{name}: `{text}` at {area:?} of {w} x {h}");
        }
    });
}

#[test]
fn no_words_cover_others() {
    each(|name, figure| {
        let labels = figure.labels();
        for (i, a) in labels.iter().enumerate() {
            // Boxes include accents and descenders that most words do not have.
            let small = a.area.grown(-0.6);
            if let Some(b) = labels[..i].iter().find(|b| b.area.grown(-0.6).overlaps(small)) {
                panic!("{name}: `{}` and `{}` at {:?} and {:?}", a.text, b.text, a.area, b.area);
            }
        }
    });
}

#[test]
fn the_same_input_is_the_same_picture() {
    for ((name, a), (_, b)) in samples::all(Theme::Light).into_iter().zip(samples::all(Theme::Light)) {
        let (a, b) = (a.expect("a chart"), b.expect("a chart"));
        assert_eq!(a.svg(), b.svg(), "{name}");
        if a.svg().len() < 50_000 {
            assert_eq!(a.png(400).expect("a picture"), b.png(400).expect("a picture"), "{name}");
        }
    }
}

#[test]
fn png_has_the_size_asked_for_and_shows_something() {
    for theme in [Theme::Light, Theme::Dark] {
        let figure = samples::latency(theme).expect("a chart");
        let (w, h) = figure.size();
        for width in [200, 800, 1201] {
            let picture = Pixmap::decode_png(&figure.png(width).expect("a picture")).expect("a PNG");
            assert_eq!(picture.width(), width);
            assert_eq!(picture.height(), (h * f64::from(width) / w).round() as u32);
            let card = picture.pixels()[0];
            assert!(picture.pixels().iter().all(|p| p.alpha() == 255), "the card is opaque, to its edges");
            let other = picture.pixels().iter().filter(|p| **p != card).count();
            assert!(other * 50 > picture.pixels().len(), "{other} pixels are not card");
        }
        assert!(figure.png(0).is_err() && figure.png(100_000).is_err());
    }
}

/// Text is drawn with the embedded font: there is ink where the title is, and none where it ends.
#[test]
fn png_has_the_words_where_their_boxes_are() {
    let figure = samples::latency_long(Theme::Light).expect("a chart");
    let picture = Pixmap::decode_png(&figure.png(800).expect("a picture")).expect("a PNG");
    let dark = |x0: f64, x1: f64, y0: f64, y1: f64| {
        let at = |x: u32, y: u32| picture.pixel(x, y).is_some_and(|p| p.red() < 128);
        (y0 as u32..y1 as u32).any(|y| (x0 as u32..x1 as u32).any(|x| at(x, y)))
    };
    let title = &figure.labels()[0];
    let a = title.area;
    assert_eq!(title.text, "All-reduce on a ring of 8");
    assert!(dark(a.x0, a.x0 + 12.0, a.y0, a.y1), "the first letter");
    assert!(dark(a.x1 - 12.0, a.x1, a.y0, a.y1), "the last one");
    assert!(!dark(a.x1 + 1.0, 790.0, a.y0, a.y1), "nothing behind it");
}

#[test]
fn what_a_reader_has_to_find_is_said() {
    let figure = samples::latency(Theme::Light).expect("a chart");
    let said = |text: &str| figure.labels().iter().filter(|l| l.text == text).count();
    assert_eq!(said("recursive_doubling wins from 26 KB"), 1);
    assert_eq!(said("bidirectional_ring wins from 40 KB"), 1);
    assert_eq!(
        (said("bound"), said("latency"), said("links")),
        (2, 1, 1),
        "at the line and beside the strip"
    );
    let figure = samples::algorithms(Theme::Light).expect("a chart");
    let said = |text: &str| figure.labels().iter().any(|l| l.text == text);
    assert!(said("+14 %") && said("A: recursive_doubling") && said("slower by"));
    let figure = samples::reference(Theme::Light).expect("a chart");
    let said = |text: &str| figure.labels().iter().any(|l| l.text == text);
    assert!(said("-95.3 %") && said("time, broken where the zigzag is"));
    for (far, broken) in [(366_000.0, true), (30_000.0, false)] {
        let figure = samples::published(Theme::Light, far).expect("a chart");
        let said = |text: &str| figure.labels().iter().any(|l| l.text == text);
        assert_eq!(said("time of one call, broken where the zigzag is"), broken, "{far}");
        assert_eq!(said("time of one call"), !broken, "{far}");
        let point = if broken { "another simulator: 366 us" } else { "another simulator: 30 us" };
        assert!(said(point) && figure.about().contains(point), "{far}");
    }
}

#[test]
fn small_charts_as_text() {
    use kbc_figures::latency::Latency;
    use kbc_figures::reference::{Reference, ReferenceRow};
    use kbc_figures::units::Quantity;
    use kbc_figures::{Heading, Series};
    let latency = Latency {
        heading: Heading::new("Two ways <&>", "on one machine"),
        x_label: "bytes per rank".into(),
        series: vec![
            Series::new("a", vec![(1024.0, 1e3), (65536.0, 64e3)]).with_bottleneck(["latency", "links"]),
            Series::new("b", vec![(1024.0, 8e3), (65536.0, 8e3)]),
        ],
        bounds: vec![Series::new("bound", vec![(1024.0, 5e2), (65536.0, 4e3)])],
    };
    insta::assert_snapshot!("latency", latency.draw().expect("a chart").svg());
    let torus = samples::machine(
        "torus(2, 3)",
        Theme::Dark,
        &[samples::row(2), samples::row(3)],
        true,
        0,
        Some(80.0),
    );
    insta::assert_snapshot!("torus", torus.expect("a chart").svg());
    let reference = Reference {
        heading: Heading::new("A broken axis", ""),
        quantity: Quantity::Time,
        label: "time".into(),
        names: ["model".into(), "measured".into()],
        rows: vec![
            ReferenceRow { name: "short".into(), model: 100.0, reference: 110.0 },
            ReferenceRow { name: "long".into(), model: 9_000.0, reference: 10_000.0 },
        ],
    };
    insta::assert_snapshot!("reference", reference.draw().expect("a chart").svg());
}

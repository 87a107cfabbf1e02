//! Places of texts.

use kbc_figures::Rect;
use kbc_figures::testing::{Placer, column, crosses};

#[test]
fn boxes_keep_apart() {
    let area = Rect { x0: 0.0, y0: 0.0, x1: 300.0, y1: 200.0 };
    let mut placer = Placer::new(area);
    placer.avoid(&[(0.0, 100.0), (300.0, 100.0)]);
    let boxes: Vec<Rect> = (0..12).filter_map(|_| placer.place((150.0, 100.0), (60.0, 14.0))).collect();
    assert_eq!(boxes.len(), 12);
    for (i, a) in boxes.iter().enumerate() {
        assert!(a.within(area) && boxes[..i].iter().all(|b| !a.overlaps(*b)));
    }
    assert!(!crosses(&[(0.0, 100.0), (300.0, 100.0)], boxes[0]), "the first is beside the line");
    let mut full = Placer::new(area);
    full.block(area);
    assert_eq!(full.place((150.0, 100.0), (60.0, 14.0)), None);
}

#[test]
fn lines_to_boxes_pass_beside_others() {
    // The point is at the left end of the area, so the texts stand one behind the other.
    let area = Rect { x0: 148.0, y0: 0.0, x1: 400.0, y1: 200.0 };
    let at = (150.0, 100.0);
    let struck = |list: &[(Rect, Option<(f64, f64)>)]| {
        let led = list.iter().enumerate().filter_map(|(i, l)| Some((i, l.1?)));
        let over = |(i, end): (usize, (f64, f64))| {
            list.iter().enumerate().filter(|(j, l)| i != *j && crosses(&[at, end], l.0)).count()
        };
        led.map(over).sum::<usize>()
    };
    let mut placer = Placer::new(area);
    let led: Vec<_> = (0..6).filter_map(|_| placer.place_led(at, (60.0, 14.0))).collect();
    assert!(led.len() == 6 && led.iter().any(|l| l.1.is_some()));
    assert_eq!(struck(&led), 0, "{led:?}");
}

#[test]
fn columns_keep_order_and_distance() {
    let wanted = [(50.0, 14.0), (48.0, 14.0), (52.0, 28.0), (150.0, 14.0), (2.0, 14.0), (199.0, 14.0)];
    let out = column(&wanted, 0.0, 200.0);
    let mut spans: Vec<(f64, f64)> =
        out.iter().zip(&wanted).map(|(m, w)| (m - w.1 / 2.0, m + w.1 / 2.0)).collect();
    assert!(out[1] < out[0] && out[0] < out[2]);
    assert_eq!(out[3], 150.0);
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(spans.windows(2).all(|s| s[0].1 <= s[1].0 + 1e-9));
    assert!(spans[0].0 >= 0.0 && spans[5].1 <= 200.0);
}

//! Colours and styles.

use kbc_figures::Theme;
use kbc_figures::testing::{Style, heat, series};

fn luminance(hex: &str) -> f64 {
    let part = |i: usize| f64::from(u8::from_str_radix(&hex[i..i + 2], 16).expect("two digits"));
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

#[test]
fn heat_is_one_way_in_grey() {
    for (theme, sign) in [(Theme::Light, -1.0), (Theme::Dark, 1.0)] {
        let grey: Vec<f64> = (0..=20).map(|i| luminance(&heat(theme, f64::from(i) / 20.0))).collect();
        assert!(grey.windows(2).all(|w| sign * (w[1] - w[0]) > 0.0), "{theme:?} {grey:?}");
    }
}

#[test]
fn fifty_series_differ() {
    for theme in [Theme::Light, Theme::Dark] {
        let styles: Vec<Style> = (0..50).map(|i| series(theme, i)).collect();
        assert!((0..50).all(|i| (0..i).all(|j| styles[i] != styles[j])));
    }
}

//! Themes: colours, markers and dashes.
//!
//! The series colours are those of Okabe and Ito (Color Universal Design, 2008), which readers with
//! any of the common colour deficiencies can distinguish. Light cards do without the yellow and
//! dark cards do without the dark blue, because these are hard to see there. Every series also has
//! a marker, and from the eighth on a dash pattern.

/// The colours of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Theme {
    /// Dark text on a white card, for print and for pages.
    #[default]
    Light,
    /// Light text on a dark card.
    Dark,
}

/// The shapes of markers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// A filled circle.
    Circle,
    /// A filled square.
    Square,
    /// A triangle that points up.
    Up,
    /// A square that stands on a corner.
    Diamond,
    /// A triangle that points down.
    Down,
    /// An unfilled circle.
    Ring,
    /// An upright cross of two strokes.
    Plus,
    /// A slanted cross of two strokes.
    Cross,
}

const MARKERS: [Marker; 8] = [
    Marker::Circle,
    Marker::Square,
    Marker::Up,
    Marker::Diamond,
    Marker::Down,
    Marker::Ring,
    Marker::Plus,
    Marker::Cross,
];

const LIGHT: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const DARK: [&str; 7] = ["#56b4e9", "#e69f00", "#2fc79a", "#e79ac4", "#f0e442", "#ff7f3f", "#ffffff"];

/// The dashes of the first seven series, of the next seven, and so on.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "8 3 2 3"];

/// The style of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// The colour of lines and points.
    pub colour: &'static str,
    /// The marker of points.
    pub marker: Marker,
    /// The value of `stroke-dasharray`. Empty for a solid line.
    pub dash: &'static str,
}

impl Theme {
    /// Returns the style of series number `i`.
    pub(crate) fn series(self, i: usize) -> Style {
        let colours = if self == Theme::Light { &LIGHT } else { &DARK };
        Style {
            colour: colours[i % colours.len()],
            marker: MARKERS[i % MARKERS.len()],
            dash: DASHES[i / colours.len() % DASHES.len()],
        }
    }

    fn pick(self, light: &'static str, dark: &'static str) -> &'static str {
        if self == Theme::Light { light } else { dark }
    }

    /// Returns the colour of the card.
    pub(crate) fn card(self) -> &'static str {
        self.pick("#ffffff", "#14181f")
    }

    /// Returns the colour of text.
    pub(crate) fn ink(self) -> &'static str {
        self.pick("#1a1a1a", "#f0f2f5")
    }

    /// Returns the colour of secondary text.
    pub(crate) fn faint(self) -> &'static str {
        self.pick("#555555", "#b4bcc8")
    }

    /// Returns the colour of grid lines.
    pub(crate) fn grid(self) -> &'static str {
        self.pick("#e4e4e4", "#2c333e")
    }

    /// Returns the colour of axes and borders.
    pub(crate) fn axis(self) -> &'static str {
        self.pick("#888888", "#7b8594")
    }

    /// Returns the colour of bounds.
    pub(crate) fn bound(self) -> &'static str {
        self.pick("#666666", "#a8b0bc")
    }

    /// Returns fill number `i` for cells that contain text.
    pub(crate) fn tint(self, i: usize) -> &'static str {
        const LIGHT: [&str; 6] = ["#dce8f4", "#f7e2c4", "#d9efe2", "#f1dcea", "#e6e6e6", "#f4f0c0"];
        const DARK: [&str; 6] = ["#22405c", "#5c4320", "#1f4b3a", "#54304a", "#3a4049", "#4d4a1c"];
        if self == Theme::Light { LIGHT[i % 6] } else { DARK[i % 6] }
    }

    /// Returns the colour of a utilisation from 0 to 1. The luminance falls monotonically on a
    /// light card and rises on a dark one, so the colours remain distinguishable in greyscale
    /// print.
    pub(crate) fn heat(self, share: f64) -> String {
        type Rgb = [f64; 3];
        const LIGHT: [Rgb; 5] = [
            [205.0, 205.0, 205.0],
            [240.0, 190.0, 90.0],
            [230.0, 120.0, 20.0],
            [180.0, 40.0, 20.0],
            [90.0, 0.0, 40.0],
        ];
        const DARK: [Rgb; 5] = [
            [70.0, 78.0, 92.0],
            [120.0, 70.0, 130.0],
            [215.0, 90.0, 90.0],
            [250.0, 165.0, 70.0],
            [255.0, 245.0, 150.0],
        ];
        let stops = if self == Theme::Light { &LIGHT } else { &DARK };
        let at = share.clamp(0.0, 1.0) * 4.0;
        let i = (at as usize).min(3);
        let part = at - i as f64;
        let mix = |c: usize| (stops[i][c] + part * (stops[i + 1][c] - stops[i][c])).round() as u8;
        format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
    }
}

//! `kbc plot`: pictures.

use super::{Selection, Source};
use clap::{Args, Subcommand, ValueEnum};

/// `kbc plot`
#[derive(Args, Debug)]
pub struct Plot {
    /// What is drawn.
    #[command(subcommand)]
    pub what: PlotWhat,
}

/// What is drawn.
#[derive(Subcommand, Debug)]
pub enum PlotWhat {
    /// A machine: its nodes and directed links
    Topology(PlotTopology),
    /// The machine that a program runs on, with how much a call uses every link
    Links(PlotLinks),
}

/// `kbc plot topology`
#[derive(Args, Debug)]
pub struct PlotTopology {
    /// The machine: `torus(2, 3)`, or a machine file, `machine.yaml`.
    #[arg(value_name = "SHAPE|FILE")]
    pub machine: String,
    /// Overrides a setting of the machine, or the rate of some links: `forward: drain`, `link x: 5 GB/s, 1 us`; repeatable.
    #[arg(long = "set", value_name = "SETTING")]
    pub set: Vec<String>,
    /// Where it goes.
    #[command(flatten)]
    pub picture: Picture,
}

/// `kbc plot links`
#[derive(Args, Debug)]
pub struct PlotLinks {
    /// A `.kb` or `.kir` file; `-` is standard input.
    pub file: String,
    /// What of it.
    #[command(flatten)]
    pub of: Selection,
    /// Where it goes.
    #[command(flatten)]
    pub picture: Picture,
}

impl PlotLinks {
    /// The part that every verb with a file has.
    pub fn source(&self) -> Source {
        Source { file: self.file.clone(), of: self.of.clone(), post: None }
    }
}

/// Where a picture goes, and how it looks.
#[derive(Args, Debug, Clone)]
pub struct Picture {
    /// The picture, `.svg` or `.png`.
    #[arg(short, long, value_name = "FILE")]
    pub out: String,
    /// Colours of the card.
    #[arg(long, value_enum, default_value_t = ThemeChoice::Light)]
    pub theme: ThemeChoice,
    /// Pixels of a `.png` from left to right; 1600 if nothing is said.
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub width: Option<u32>,
}

/// Colours of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ThemeChoice {
    /// Dark on white.
    Light,
    /// Light on dark.
    Dark,
}

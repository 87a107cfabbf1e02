//! Arguments of `kbc plot`, which draws pictures.

use super::shared::{Selection, Source};
use clap::{Args, Subcommand, ValueEnum};

/// `kbc plot`
#[derive(Args, Debug)]
pub struct Plot {
    /// What to draw.
    #[command(subcommand)]
    pub what: PlotWhat,
}

/// What to draw.
#[derive(Subcommand, Debug)]
pub enum PlotWhat {
    /// A machine: its nodes and directed links
    Topology(PlotTopology),
    /// The machine of a program, with the use of every link during one call
    Links(Box<PlotLinks>),
    /// The machine of a program, with one of its packed trees
    Tree(Box<PlotTree>),
}

/// `kbc plot topology`
#[derive(Args, Debug)]
pub struct PlotTopology {
    /// The machine: `torus(2, 3)`, or a file, `machine.yaml`.
    #[arg(value_name = "SHAPE|FILE")]
    pub machine: String,
    /// Sets a property of the machine: `forward: drain`.
    ///
    /// Also the rate of some links: `link x: 5 GB/s, 1 us`; repeatable.
    #[arg(long = "set", value_name = "SETTING")]
    pub set: Vec<String>,
    /// The output file.
    #[command(flatten)]
    pub picture: Picture,
}

/// `kbc plot links`
#[derive(Args, Debug)]
pub struct PlotLinks {
    /// A `.kb` or `.kir` file; `-` is standard input.
    pub file: String,
    /// The part of it.
    #[command(flatten)]
    pub of: Selection,
    /// The output file.
    #[command(flatten)]
    pub picture: Picture,
}

impl PlotLinks {
    /// The part that every verb with a file has.
    pub fn source(&self) -> Source {
        Source { file: self.file.clone(), of: self.of.clone(), post: None }
    }
}

/// `kbc plot tree`
#[derive(Args, Debug)]
pub struct PlotTree {
    /// A `.kb` file; `-` is standard input.
    pub file: String,
    /// The number of the tree, from 1 over all collectives.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub tree: u32,
    /// The part of it.
    #[command(flatten)]
    pub of: Selection,
    /// The output file.
    #[command(flatten)]
    pub picture: Picture,
}

impl PlotTree {
    /// The part that every verb with a file has.
    pub fn source(&self) -> Source {
        Source { file: self.file.clone(), of: self.of.clone(), post: None }
    }
}

/// Where a picture goes, and how it looks.
#[derive(Args, Debug, Clone)]
pub struct Picture {
    /// The picture, `.svg` or `.png`.
    #[arg(short, long, alias = "out", value_name = "FILE")]
    pub output: String,
    /// Colours of the figure.
    #[arg(long, value_enum, default_value_t = ThemeChoice::Light)]
    pub theme: ThemeChoice,
    /// Width of a `.png` in pixels; 1600 by default.
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

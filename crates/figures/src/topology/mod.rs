//! A machine as a picture: nodes, directed links, and how much each is used.
//!
//! Owns where nodes stand (`layout.rs`) and how they are drawn (`draw.rs`). Traffic keeps to the right, as on a road: of
//! two links between the same nodes the one that leads away from the reader's point of view is on the right hand side of
//! its direction, and has its arrow there. Colour and width say the use together, so either is enough.

mod draw;
mod layout;

use crate::canvas::Figure;
use crate::series::{Fault, Heading, not_negative};

/// The most nodes that can be told apart.
pub const MAX_NODES: usize = 1024;
/// The most links.
pub const MAX_LINKS: usize = 20_000;

/// How nodes are placed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// A product of axes, first slowest; a node stands where its coordinates say. A single long row is folded.
    Product(Vec<Axis>),
    /// Switches above what they join, by level; of many devices in rings around the top level.
    Layers,
    /// By forces: what is linked stands together. A fixed number of steps from a fixed begin.
    #[default]
    Free,
}

/// An axis of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Nodes along it.
    pub size: u32,
    /// Which way it goes.
    pub way: Way,
}

/// Which way an axis goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Way {
    /// Straight; such axes take turns in going right and down, the last one right.
    #[default]
    Row,
    /// In a circle, as suits rings and complete graphs.
    Circle,
    /// A part of a step to the right and up, as suits the third axis of a box: no link lies over another.
    Behind,
}

/// A device or a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// Its name: `(1,0)`.
    pub name: String,
    /// What stands at it, where that is not its name.
    pub label: Option<String>,
    /// Whether it passes messages on and holds no rank; drawn as a square.
    pub switch: bool,
    /// Coordinates, one an axis, for [`Form::Product`].
    pub at: Vec<u32>,
    /// 0 for devices, from 1 on for switches above them, for [`Form::Layers`].
    pub level: u32,
}

/// A directed link.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Link {
    /// Its sender, by place among the nodes.
    pub from: usize,
    /// Its receiver.
    pub to: usize,
    /// Whether it leads from one end of a row to the other; drawn as two stubs where there is room for them.
    pub wrap: bool,
    /// How much of the time it is in use, percent; None where nothing was timed.
    pub percent: Option<f64>,
}

/// A machine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topology {
    /// Words above it.
    pub heading: Heading,
    /// How nodes are placed.
    pub form: Form,
    /// Devices and switches.
    pub nodes: Vec<Node>,
    /// Links between them.
    pub links: Vec<Link>,
}

impl Topology {
    /// Draws it.
    ///
    /// # Errors
    /// No node, more than [`MAX_NODES`] or [`MAX_LINKS`]; a link that names no node, or joins one with itself; a use
    /// that is not finite or below zero; coordinates that are not those of the form.
    pub fn draw(&self) -> Result<Figure, Fault> {
        let n = self.nodes.len();
        if n == 0 {
            return Err(Fault::new("there is no node to draw"));
        }
        for (count, most, what) in [(n, MAX_NODES, "nodes"), (self.links.len(), MAX_LINKS, "links")] {
            if count > most {
                return Err(Fault::new(format!(
                    "{count} {what} are more than the {most} that can be told apart"
                )));
            }
        }
        for l in &self.links {
            if l.from >= n || l.to >= n || l.from == l.to {
                return Err(Fault::new(format!("a link from node {} to node {} of {n}", l.from, l.to)));
            }
            let name = || format!("the use of {}->{}", self.nodes[l.from].name, self.nodes[l.to].name);
            l.percent.map_or(Ok(()), |p| not_negative(&name(), p))?;
        }
        let places = layout::places(self)?;
        Ok(draw::draw(self, &places))
    }
}

//! Topology figures: a machine as a picture of nodes and directed links, with the utilisation of
//! each link.
//!
//! This module owns the positions of nodes (`layout.rs`) and their drawing (`draw.rs`). Traffic
//! keeps to the right, as on a road: of the two links between the same nodes, each is drawn on the
//! right-hand side of its own direction, and its arrow is on that side. Colour and width both show
//! the utilisation, so either is enough to read it. In place of utilisations, a figure can show a
//! tree: its links have a colour for each step from the root.

mod draw;
mod layout;

use crate::canvas::Figure;
use crate::series::{Fault, Heading, not_negative};

/// The largest number of nodes. More cannot be distinguished.
pub const MAX_NODES: usize = 1024;
/// The largest number of links.
pub const MAX_LINKS: usize = 20_000;

/// The layout of the nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// A product of axes, slowest first. The position of a node is given by its coordinates. A
    /// single long row is folded.
    Product(Vec<AxisLayout>),
    /// Switches above the nodes that they join, by level. If there are many devices, the levels are
    /// rings around the top level.
    Layers,
    /// A force-directed layout: linked nodes stand together. It takes a fixed number of steps from
    /// a fixed start.
    #[default]
    Free,
}

/// An axis of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisLayout {
    /// The number of nodes along the axis.
    pub size: u32,
    /// The direction of the axis.
    pub direction: AxisDirection,
}

/// The direction of an axis in the picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AxisDirection {
    /// A straight row. Such axes alternate between right and down, beginning at the last one, which
    /// goes to the right.
    #[default]
    Row,
    /// A circle, for rings and complete graphs.
    Circle,
    /// A fraction of a step to the right and up, for the third axis of a box. No link covers
    /// another.
    Behind,
}

/// A device or a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// The name, such as `(1,0)`.
    pub name: String,
    /// The text shown at the node, if it is not the name.
    pub label: Option<String>,
    /// Whether the node only forwards messages and holds no rank. It is drawn as a square.
    pub switch: bool,
    /// One coordinate per axis, for [`Form::Product`].
    pub at: Vec<u32>,
    /// The level: 0 for devices, 1 and more for the switches above them, for [`Form::Layers`].
    pub level: u32,
    /// Whether the node has failed. It is drawn dashed and crossed out.
    pub failed: bool,
    /// Whether the node is the root of the tree that is shown. Its border is bold.
    pub root: bool,
}

/// A directed link.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Link {
    /// The index of the sender among the nodes.
    pub from: usize,
    /// The index of the receiver among the nodes.
    pub to: usize,
    /// Whether the link leads from one end of a row to the other. It is drawn as two stubs if there
    /// is room for them.
    pub wrap: bool,
    /// The utilisation: the percentage of the time in which the link is in use. None if nothing was
    /// timed.
    pub percent: Option<f64>,
    /// The step of the tree that is shown in which the link is used: 1 at the root. None for links
    /// outside of the tree.
    pub step: Option<u32>,
    /// Whether the link has failed. It is drawn dashed and without an arrow.
    pub failed: bool,
}

/// A chart of a machine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topology {
    /// The title and subtitle.
    pub heading: Heading,
    /// The layout of the nodes.
    pub form: Form,
    /// The devices and switches.
    pub nodes: Vec<Node>,
    /// The directed links.
    pub links: Vec<Link>,
}

impl Topology {
    /// Draws the chart.
    ///
    /// # Errors
    /// Fails if there are no nodes, if there are more than [`MAX_NODES`] nodes or [`MAX_LINKS`]
    /// links, if a link names an unknown node or joins a node with itself, if a utilisation is
    /// negative or not finite, or if the coordinates of a node do not fit the form.
    pub fn draw(&self) -> Result<Figure, Fault> {
        let n = self.nodes.len();
        if n == 0 {
            return Err(Fault::new("there is no node to draw"));
        }
        for (count, most, what) in [(n, MAX_NODES, "nodes"), (self.links.len(), MAX_LINKS, "links")] {
            if count > most {
                return Err(Fault::new(format!("{count} {what} cannot be distinguished (limit: {most})")));
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

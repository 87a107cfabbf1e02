//! A module: what one `.kir` text holds, at graph or at schedule level.

use crate::graph::Graph;
use crate::local::Local;
use crate::name::Name;
use crate::schedule::Schedule;
use crate::types::Mesh;

/// A program on a mesh of a machine.
#[derive(Clone, Debug)]
pub struct Module {
    /// Name of the program.
    pub name: Name,
    /// The machine as text, in the syntax of a `.kb` topology (`ring(4) { link: 50 GB/s, 500 ns }`).
    pub machine: Option<String>,
    /// The mesh.
    pub mesh: Mesh,
    /// What it says.
    pub body: Body,
    /// What is currently true of it.
    pub props: Props,
}

/// The level a module is at.
#[derive(Clone, Debug)]
pub enum Body {
    /// Tensor operations.
    Graph(Graph),
    /// Operations of ranks, in their own shapes.
    Local(Local),
    /// Regions and roles.
    Schedule(Schedule),
}

/// Properties of a module; the pass manager keeps them, the verifier checks those it is told of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Props(u16);

impl Props {
    /// None.
    pub const NONE: Props = Props(0);
    /// Every value has a shape, a dtype and a placement.
    pub const TYPED: Props = Props(1);
    /// Every use of a value has the placement it asks for; no `demand` is left.
    pub const PLACED: Props = Props(2);
    /// Every collective names its algorithm.
    pub const SELECTED: Props = Props(4);
    /// The module is a schedule.
    pub const EXPANDED: Props = Props(8);
    /// Windows have offsets and slots for their calls.
    pub const ALLOCATED: Props = Props(16);
    /// Signals, waits and fences are in place.
    pub const SYNCHRONIZED: Props = Props(32);

    /// Names, in order.
    pub const NAMES: [(&'static str, Props); 6] = [
        ("typed", Props::TYPED),
        ("placed", Props::PLACED),
        ("selected", Props::SELECTED),
        ("expanded", Props::EXPANDED),
        ("allocated", Props::ALLOCATED),
        ("synchronized", Props::SYNCHRONIZED),
    ];

    /// Both sets.
    pub const fn with(self, other: Props) -> Props {
        Props(self.0 | other.0)
    }

    /// This set without the other.
    pub const fn without(self, other: Props) -> Props {
        Props(self.0 & !other.0)
    }

    /// Whether all of `other` hold.
    pub const fn contains(self, other: Props) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names of those that hold.
    pub fn names(self) -> Vec<&'static str> {
        Props::NAMES.iter().filter(|(_, p)| self.contains(*p)).map(|(n, _)| *n).collect()
    }
}

impl std::fmt::Debug for Props {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.names().join(","))
    }
}

impl Module {
    /// The graph, if it is at graph level.
    pub fn graph(&self) -> Option<&Graph> {
        match &self.body {
            Body::Graph(g) => Some(g),
            Body::Local(_) | Body::Schedule(_) => None,
        }
    }

    /// The local program, if it is one and no schedule yet.
    pub fn local(&self) -> Option<&Local> {
        match &self.body {
            Body::Local(l) => Some(l),
            Body::Graph(_) | Body::Schedule(_) => None,
        }
    }

    /// The schedule, if it is at schedule level.
    pub fn schedule(&self) -> Option<&Schedule> {
        match &self.body {
            Body::Schedule(s) => Some(s),
            Body::Graph(_) | Body::Local(_) => None,
        }
    }
}

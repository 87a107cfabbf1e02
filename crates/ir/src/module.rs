//! A module: the content of one `.kir` text, at graph level or at schedule level.

use crate::attributes::Attributes;
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
    /// The machine as text, in the syntax of a `.kb` topology:
    /// `ring(4) { link: 50 GB/s, 500 ns }`.
    pub machine: Option<String>,
    /// Mesh of ranks on which the program runs.
    pub mesh: Mesh,
    /// The program itself.
    pub body: Body,
    /// Properties that the module currently has.
    pub props: Props,
    /// Attributes of other tools, which kbc keeps and does not interpret.
    pub attributes: Attributes,
}

impl Module {
    /// Returns a schedule as a module that has no machine and claims no properties.
    pub fn of_schedule(schedule: &Schedule) -> Module {
        Module {
            name: schedule.name.clone(),
            machine: None,
            mesh: schedule.mesh.clone(),
            body: Body::Schedule(schedule.clone()),
            props: Props::NONE,
            attributes: Attributes::default(),
        }
    }
}

/// The program of a module, at one of its levels.
#[derive(Clone, Debug)]
pub enum Body {
    /// Graph level: tensor operations on global tensors.
    Graph(Graph),
    /// Graph level, local program: operations of ranks on their own tensors.
    Local(Local),
    /// Schedule level: regions and roles.
    Schedule(Schedule),
}

/// Set of properties of a module. The pass manager keeps it up to date; the verifier checks every
/// property in the set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Props(u16);

impl Props {
    /// The empty set.
    pub const NONE: Props = Props(0);
    /// Every value has a shape, an element type and a placement.
    pub const TYPED: Props = Props(1);
    /// Every use of a value has the placement that it asks for, and no `demand` is left.
    pub const PLACED: Props = Props(2);
    /// Every collective that communicates names its algorithm.
    pub const SELECTED: Props = Props(4);
    /// The module is a schedule.
    pub const EXPANDED: Props = Props(8);
    /// Windows and signals have offsets.
    pub const ALLOCATED: Props = Props(16);
    /// Signals, waits and fences are in place.
    pub const SYNCHRONIZED: Props = Props(32);
    /// Collectives have their streams, their pieces and their issue order.
    pub const ARRANGED: Props = Props(64);

    /// The properties with their names in `.kir`, in the order in which they are printed.
    pub const NAMES: [(&'static str, Props); 7] = [
        ("typed", Props::TYPED),
        ("placed", Props::PLACED),
        ("selected", Props::SELECTED),
        ("arranged", Props::ARRANGED),
        ("expanded", Props::EXPANDED),
        ("allocated", Props::ALLOCATED),
        ("synchronized", Props::SYNCHRONIZED),
    ];

    /// Returns the union of both sets.
    pub const fn with(self, other: Props) -> Props {
        Props(self.0 | other.0)
    }

    /// Returns this set without the properties of the other.
    pub const fn without(self, other: Props) -> Props {
        Props(self.0 & !other.0)
    }

    /// Checks whether this set contains all properties of `other`.
    pub const fn contains(self, other: Props) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns this set together with the properties that the graph of a schedule had when the
    /// schedule was made, if the set says that the module is a schedule.
    pub const fn with_earlier(self) -> Props {
        let graph = Props::TYPED.with(Props::PLACED).with(Props::SELECTED).with(Props::ARRANGED);
        if self.contains(Props::EXPANDED) { self.with(graph) } else { self }
    }

    /// Returns the names of the properties in this set.
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
    /// Returns what is already done with the module: its properties and, for a schedule, that it is
    /// one, whether the text says so or not.
    pub fn done(&self) -> Props {
        match &self.body {
            Body::Graph(_) | Body::Local(_) => self.props,
            Body::Schedule(_) => self.props.with(Props::EXPANDED).with_earlier(),
        }
    }

    /// Returns the graph if the module is at graph level.
    pub fn graph(&self) -> Option<&Graph> {
        match &self.body {
            Body::Graph(g) => Some(g),
            Body::Local(_) | Body::Schedule(_) => None,
        }
    }

    /// Returns the local program if the module is one.
    pub fn local(&self) -> Option<&Local> {
        match &self.body {
            Body::Local(l) => Some(l),
            Body::Graph(_) | Body::Schedule(_) => None,
        }
    }

    /// Returns the schedule if the module is at schedule level.
    pub fn schedule(&self) -> Option<&Schedule> {
        match &self.body {
            Body::Schedule(s) => Some(s),
            Body::Graph(_) | Body::Local(_) => None,
        }
    }
}

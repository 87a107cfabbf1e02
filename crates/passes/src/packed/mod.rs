//! Packed algorithms: trees that are packed into the links of the machine, for one use of a
//! collective.
//!
//! The algorithms are declared in `specs/lib/packed.kb` in terms of functions. For each use, this
//! module packs trees (`kbc_synthesis`), orders their messages in rounds, and replaces the
//! functions by tables. The replacement is an ordinary library, so everything that reads algorithms
//! works unchanged, and nothing that was synthesised is trusted
//! (`docs/adr/077-packed-uses.md`).
//!
//! `select` completes a use: it chooses pieces and trees for the size and writes them down. Later
//! passes pack the same trees from the machine and these numbers.

mod network;
mod phases;
mod tables;

pub use network::{MachineNetwork, group_network, whole_network};
pub use phases::{
    CUT_MESSAGES, OrderedFlow, OrderedPhase, PackedCollective, PackedParameters, PackedRequest, PhaseTrees,
    TreeMethod, ordered_flow, parameters, phases, planned_ns,
};
pub use tables::{PackedTable, flow_tables, tables};

use crate::groups::device_groups;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::graph::{Collective, Using, UsingArg};
use kbc_ir::types::Mesh;
use kbc_machine::topology::{DeviceId, Topology, brief};
use kbc_rounds::{AlgId, Library};
use kbc_synthesis::SynthesisError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Parameter of a packed algorithm: pieces of each tree, or 0 for what is fastest.
const PIECES: &str = "pieces";
/// Parameter of a packed algorithm: trees per root, or 0 for what is fastest.
const TREES: &str = "trees";
/// Parameter of a packed algorithm: trees per root by greedy matching, or 0 for packed trees or
/// what is fastest.
const GREEDY: &str = "greedy";

/// Parameter of a packed algorithm: bytes for which its messages are ordered, or 0 for those of the
/// use.
const BYTES: &str = "bytes";

/// Why no trees are packed.
#[derive(Debug)]
pub enum PackedFailure {
    /// The machine, or the group, has no such trees.
    Synthesis(SynthesisError),
    /// Another reason, in words.
    Text(String),
}

impl From<SynthesisError> for PackedFailure {
    fn from(e: SynthesisError) -> Self {
        PackedFailure::Synthesis(e)
    }
}

impl PackedFailure {
    /// Returns the reason with names of devices. `nodes` are the devices of the network, if it was
    /// made; otherwise the whole machine is meant.
    pub fn words(&self, topology: &Topology, nodes: Option<&[DeviceId]>) -> String {
        let name = |node: usize| {
            let device = match nodes {
                Some(nodes) => nodes.get(node).copied(),
                None => u32::try_from(node).ok().map(DeviceId),
            };
            device.map_or_else(|| node.to_string(), |d| topology.name(d))
        };
        match self {
            PackedFailure::Text(why) => why.clone(),
            PackedFailure::Synthesis(SynthesisError::Unreachable { from, to }) => {
                format!("no path leads from {} to {}", name(*from), name(*to))
            }
            PackedFailure::Synthesis(SynthesisError::UnbalancedSwitch { node, .. }) => {
                format!("{} only forwards, and its links carry less out than in, or the reverse", name(*node))
            }
            PackedFailure::Synthesis(other) => other.to_string(),
        }
    }
}

/// Checks whether an algorithm is declared in terms of packed trees: beside the functions for which
/// tables are made.
pub fn is_packed(library: &Library, alg: AlgId) -> bool {
    library.declares_function(library.algorithm_name(alg).span.file, tables::RANKS)
}

/// Checks whether arguments determine the trees without a size.
pub(crate) fn is_complete(args: &[(Name, UsingArg)]) -> bool {
    args.iter().any(|a| a.0 == *PIECES && matches!(a.1, UsingArg::Int(n) if n > 0))
}

/// The algorithms that were packed so far. Layers of a program repeat their collectives, and
/// several passes need the same one.
pub type PackedCache = RefCell<BTreeMap<String, Result<Rc<PackedUse>, String>>>;

/// A packed algorithm for the groups of an axis.
pub struct PackedUse {
    /// The tables.
    pub tables: Vec<PackedTable>,
    /// Pieces of each tree.
    pub pieces: u64,
    /// Packed trees per root, or 0 if that is what the machine gives by itself.
    pub trees: u64,
    /// Matched trees per root, or 0 for packed trees.
    pub greedy: u64,
    /// Bytes for which the messages are ordered.
    pub bytes: u64,
    /// Estimated nanoseconds for them.
    pub ns: f64,
}

impl PackedUse {
    /// Returns the arguments that give the same algorithm for every size.
    pub fn arguments(&self) -> Vec<(Name, UsingArg)> {
        let list = [(PIECES, self.pieces), (TREES, self.trees), (GREEDY, self.greedy), (BYTES, self.bytes)];
        let given = list.into_iter().filter(|a| a.1 > 0);
        given.map(|(name, n)| (name.into(), UsingArg::Int(i64::try_from(n).unwrap_or(i64::MAX)))).collect()
    }

    /// Returns the arguments of a use with those that [`PackedUse::arguments`] gives.
    pub fn completed(&self, args: &[(Name, UsingArg)]) -> Vec<(Name, UsingArg)> {
        let other = |a: &&(Name, UsingArg)| [PIECES, TREES, GREEDY, BYTES].iter().all(|known| a.0 != **known);
        args.iter().filter(other).cloned().chain(self.arguments()).collect()
    }

    /// Returns the library with the tables of this use in the file of the algorithm.
    pub fn library(&self, library: &Library, alg: AlgId) -> Library {
        let file = library.algorithm_name(alg).span.file;
        library.with_functions(self.tables.iter().map(|t| t.declaration(file)).collect())
    }
}

/// The trees of a use, to be shown.
pub struct PackedTrees {
    /// The network of one of its groups.
    pub network: MachineNetwork,
    /// What was packed.
    pub request: PackedRequest,
    /// The trees.
    pub phases: Vec<OrderedPhase>,
}

/// A use of a packed algorithm.
#[derive(Clone, Copy, Debug)]
pub struct PackedSite<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// The mesh of the program.
    pub mesh: &'a Mesh,
    /// The collective.
    pub collective: &'a Collective,
    /// Its elements on the rank that has most, or 0.
    pub elements: u64,
    /// Its bytes there.
    pub bytes: u64,
    /// Messages up to which trees are cut into more pieces.
    pub messages: u64,
}

impl PackedSite<'_> {
    /// Packs trees for the arguments of a use. Arguments that are missing or 0 are chosen for the
    /// bytes.
    ///
    /// # Errors
    /// Returns why there are no such trees.
    pub fn pack(&self, args: &[(Name, UsingArg)], cache: &PackedCache) -> Result<Rc<PackedUse>, String> {
        let request = self.request(args)?;
        let key = format!("{:?} {request:?}", self.collective.axes());
        if let Some(known) = cache.borrow().get(&key) {
            return known.clone();
        }
        let made = self.made(&request).map(Rc::new);
        cache.borrow_mut().insert(key, made.clone());
        made
    }

    /// Packs the trees of a use once more, to show them. None for an all-to-all, which has paths,
    /// and for groups of one rank.
    ///
    /// # Errors
    /// Returns why there are no such trees.
    pub fn trees(&self, args: &[(Name, UsingArg)]) -> Result<Option<PackedTrees>, String> {
        let request = self.request(args)?;
        let groups = device_groups(self.mesh, &self.collective.axes());
        if request.collective == PackedCollective::AllToAll || groups.iter().all(|g| g.len() == 1) {
            return Ok(None);
        }
        let network = group_network(self.topology, &groups).map_err(|e| e.words(self.topology, None))?;
        let phases = phases(&network, &request)
            .map_err(|e| PackedFailure::from(e).words(self.topology, Some(&network.nodes)))?;
        Ok(Some(PackedTrees { network, request, phases }))
    }

    /// Returns what the arguments of a use ask for.
    fn request(&self, args: &[(Name, UsingArg)]) -> Result<PackedRequest, String> {
        let given = |name: &str| -> Result<Option<u64>, String> {
            match args.iter().find(|a| a.0 == *name).map(|a| &a.1) {
                None | Some(UsingArg::Int(0)) => Ok(None),
                Some(UsingArg::Int(n)) if *n > 0 => Ok(Some(*n as u64)),
                Some(_) => Err(format!("`{name}` must be a number of at least 0")),
            }
        };
        let (pieces, packed, matched) = (given(PIECES)?, given(TREES)?, given(GREEDY)?);
        let method = match (packed, matched) {
            (Some(_), Some(_)) => {
                return Err(format!("`{TREES}` are packed and `{GREEDY}` are matched: name one"));
            }
            (_, Some(_)) => TreeMethod::Greedy,
            (None, None) if pieces.is_none() => TreeMethod::Fastest,
            _ => TreeMethod::Trees,
        };
        let trees = packed.or(matched);
        let c = self.collective;
        let Some(collective) = PackedCollective::of(c.kind) else {
            return Err(format!("no trees are packed for {}", c.name()));
        };
        let (root, bytes) = (c.root.unwrap_or(0), given(BYTES)?.unwrap_or(self.bytes));
        // With pieces that are given no number of messages is chosen.
        let messages = if pieces.is_some() { 0 } else { self.messages };
        let elements = self.elements;
        Ok(PackedRequest { collective, root, method, trees, pieces, bytes, elements, messages })
    }

    fn made(&self, request: &PackedRequest) -> Result<PackedUse, String> {
        if self.topology.is_package() {
            return Err("the machine is a package, whose devices are not joined by links alone".into());
        }
        let groups = device_groups(self.mesh, &self.collective.axes());
        if groups.iter().all(|g| g.len() == 1) {
            // One rank has nothing to send: the functions are right as they stand.
            let (bytes, ns) = (request.bytes, 0.0);
            return Ok(PackedUse { tables: vec![], pieces: 1, trees: 0, greedy: 0, bytes, ns });
        }
        let network = group_network(self.topology, &groups).map_err(|e| e.words(self.topology, None))?;
        let words = |e: SynthesisError| PackedFailure::from(e).words(self.topology, Some(&network.nodes));
        let ranks = network.network.members().len();
        if request.collective == PackedCollective::AllToAll {
            if request.trees.is_some() {
                let name = if request.method == TreeMethod::Greedy { GREEDY } else { TREES };
                return Err(format!("an all-to-all has paths in place of trees: leave out `{name}`"));
            }
            let found = ordered_flow(&network, request).map_err(words)?;
            return Ok(PackedUse {
                tables: flow_tables(&found.plan, ranks),
                pieces: found.plan.pieces,
                trees: 0,
                greedy: 0,
                bytes: request.bytes,
                ns: found.ns,
            });
        }
        let phases = phases(&network, request).map_err(words)?;
        let PackedParameters { pieces, trees, greedy } = parameters(&network, &phases);
        Ok(PackedUse {
            tables: tables(request, ranks, &phases),
            pieces,
            trees,
            greedy,
            bytes: request.bytes,
            ns: planned_ns(&phases),
        })
    }
}

/// Returns E595 for a use of a packed algorithm that has no trees.
pub fn refused(topology: Option<&Topology>, using: &Using, at: Span, why: &str) -> Diagnostic {
    let machine = topology.map_or("no machine".to_owned(), |t| brief(&t.to_string()));
    Diagnostic::error("E595", format!("no algorithm can be synthesised for {machine}: {why}"))
        .primary(at, format!("`{}` packs trees into the links of the machine", using.alg))
        .help(format!("{CONNECTED}; with many devices, one tree per root may fit: `{}(trees: 1)`", using.alg))
}

/// What synthesis needs.
pub const CONNECTED: &str =
    "synthesis packs trees into the links of a connected machine with two devices or more";

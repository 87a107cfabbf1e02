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

mod certified;
mod choice;
mod matched;
mod memo;
mod network;
mod order;
mod phase;
mod spanning;
mod tables;

pub use certified::certified_ns;
pub use choice::{OrderedFlow, PackedParameters, best_phases, ordered_flow, parameters, phases};
pub use network::{MachineNetwork, group_network, routed_network, whole_network};
pub use phase::{
    MessageLimit, OrderedPhase, PackedCollective, PackedRequest, PhaseTrees, TreeMethod, planned_ns,
};
pub use tables::{PackedTable, flow_tables, tables};

use crate::groups::device_groups;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::graph::{Collective, Using, UsingArg};
use kbc_ir::types::Mesh;
use kbc_machine::topology::{DeviceId, Topology, brief};
use kbc_rounds::{AlgId, Call, Library, Limits, Rounds};
use kbc_synthesis::SynthesisError;
use memo::KnownResults;
use std::cell::RefCell;
use std::rc::Rc;

/// Parameter of a packed algorithm: pieces of each tree, or 0 for what is fastest.
const PIECES: &str = "pieces";
/// Parameter of a packed algorithm: trees per root, or 0 for what is fastest.
const TREES: &str = "trees";
/// Parameter of a packed algorithm: trees per root by greedy matching, or 0 for packed trees or
/// what is fastest.
const GREEDY: &str = "greedy";

/// Parameter of a packed all-reduce: matched trees per root of its all-gather, if it is a
/// reduce-scatter of `greedy` trees and an all-gather, or 0.
const GATHER: &str = "gather";

/// Parameter of a packed all-reduce: spanning trees, whose edges may pass switches, or 0 for those
/// of the best rate, for trees of another kind, or what is fastest.
const SPANNING: &str = "spanning";

/// Parameter of a packed algorithm: bytes for which its messages are ordered, or 0 for those of the
/// use.
const BYTES: &str = "bytes";

/// Parameter of a packed algorithm: 1 if messages name the relays that they pass.
const VIA: &str = "via";

/// The parameters that a complete use has.
const PARAMETERS: [&str; 7] = [PIECES, TREES, GREEDY, GATHER, SPANNING, BYTES, VIA];

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

/// What was packed so far for one machine and mesh. Layers of a program repeat their collectives,
/// and several passes need the same one.
#[derive(Default)]
pub struct PackedCache {
    uses: KnownResults<String, Result<Rc<PackedUse>, String>>,
    /// The networks of the groups of axes.
    plain: KnownResults<Vec<Name>, Result<Rc<MachineNetwork>, String>>,
    /// Networks for messages that name relays.
    routed: KnownResults<Vec<Name>, Result<Option<Rc<MachineNetwork>>, String>>,
}

/// A packed algorithm for the groups of an axis.
pub struct PackedUse {
    /// The tables.
    pub tables: Vec<PackedTable>,
    /// Which trees they hold.
    pub parameters: PackedParameters,
    /// Bytes for which the messages are ordered.
    pub bytes: u64,
    /// Whether messages name the relays that they pass.
    pub via: bool,
    /// Estimated nanoseconds for them.
    pub ns: f64,
    /// Nanoseconds for which the busiest link is busy. More pieces do not change it.
    pub least_ns: f64,
    /// The call whose rounds were asked for last, and these.
    rounds: RefCell<Option<(Call, Rc<Rounds>)>>,
    /// The call of which it was asked last whether one slot per message is enough, and the answer.
    slots: RefCell<Option<(Call, bool)>>,
}

impl PackedUse {
    /// Returns the arguments that give the same algorithm for every size.
    pub fn arguments(&self) -> Vec<(Name, UsingArg)> {
        let via = u64::from(self.via);
        let PackedParameters { pieces, trees, greedy, gather, spanning } = self.parameters;
        let values = [pieces, trees, greedy, gather, spanning, self.bytes, via];
        let given = PARAMETERS.into_iter().zip(values).filter(|a| a.1 > 0);
        given.map(|(name, n)| (name.into(), UsingArg::Int(i64::try_from(n).unwrap_or(i64::MAX)))).collect()
    }

    /// Returns the arguments of a use with those that [`PackedUse::arguments`] gives.
    pub fn completed(&self, args: &[(Name, UsingArg)]) -> Vec<(Name, UsingArg)> {
        let other = |a: &&(Name, UsingArg)| PARAMETERS.iter().all(|known| a.0 != **known);
        args.iter().filter(other).cloned().chain(self.arguments()).collect()
    }

    /// Returns the rounds of a call of this use. Several passes ask for the same ones, which are
    /// many, so they are kept. `library` is [`PackedUse::library`].
    ///
    /// # Errors
    /// Those of [`kbc_rounds::expand`].
    pub(crate) fn rounds(
        &self,
        library: &Library,
        call: &Call,
        limits: &Limits,
    ) -> Result<Rc<Rounds>, Diagnostics> {
        if let Some((_, known)) = self.rounds.borrow().as_ref().filter(|known| known.0 == *call) {
            return Ok(known.clone());
        }
        let made = Rc::new(kbc_rounds::expand(library, call, limits)?);
        *self.rounds.borrow_mut() = Some((call.clone(), made.clone()));
        Ok(made)
    }

    /// Returns whether one slot per message of a call of this use needs no credit, which `find`
    /// finds out.
    pub(crate) fn one_slot(&self, call: &Call, find: impl FnOnce() -> bool) -> bool {
        if let Some((_, known)) = self.slots.borrow().as_ref().filter(|known| known.0 == *call) {
            return *known;
        }
        let found = find();
        *self.slots.borrow_mut() = Some((call.clone(), found));
        found
    }

    /// Returns the library with the tables of this use in the file of the algorithm.
    pub fn library(&self, library: &Library, alg: AlgId) -> Library {
        let file = library.algorithm_name(alg).span.file;
        library.with_functions(self.tables.iter().map(|t| t.declaration(file)).collect())
    }
}

/// Which routes messages take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MessageRoutes {
    /// Those of the machine.
    Machine,
    /// Those of the trees: messages name relays.
    Named,
    /// Whichever is faster.
    Fastest,
}

/// The trees of a use, to be shown.
pub struct PackedTrees {
    /// The network of one of its groups.
    pub network: Rc<MachineNetwork>,
    /// What was packed.
    pub request: PackedRequest,
    /// The trees.
    pub phases: Vec<Rc<OrderedPhase>>,
}

/// Returns the arguments of a complete use that say which trees it has, without their pieces.
pub fn without_pieces(args: &[(Name, UsingArg)]) -> Vec<(Name, UsingArg)> {
    args.iter().filter(|(name, _)| **name != *PIECES && **name != *BYTES).cloned().collect()
}

/// Checks whether the arguments of a complete use ask for other trees than those of the best rate:
/// a number of trees of any kind.
pub fn names_trees(args: &[(Name, UsingArg)]) -> bool {
    args.iter().any(|a| [TREES, GREEDY, SPANNING].iter().any(|name| a.0 == **name))
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
    /// How many messages trees may have when they are cut into pieces.
    pub messages: MessageLimit,
    /// Whether messages may name the relays that they pass, where the arguments do not say.
    pub via: bool,
}

/// A search for the trees of a use. Plans are kept while it lasts, because some kinds of trees have
/// plans in common.
pub struct PackedSearch<'a> {
    site: PackedSite<'a>,
    cache: &'a PackedCache,
}

impl Drop for PackedSearch<'_> {
    fn drop(&mut self) {
        let axes = self.site.collective.axes();
        let routed = self.cache.routed.find(&axes).and_then(Result::ok).flatten();
        let plain = self.cache.plain.find(&axes).and_then(Result::ok);
        plain.iter().chain(&routed).for_each(|network| network.memo.forget_plans());
    }
}

impl<'a> PackedSite<'a> {
    /// Returns the site of a complete use, whose arguments say everything that a size would decide.
    pub fn complete(topology: &'a Topology, mesh: &'a Mesh, collective: &'a Collective) -> PackedSite<'a> {
        let messages = MessageLimit::NONE;
        PackedSite { topology, mesh, collective, elements: 0, bytes: 0, messages, via: false }
    }

    /// Begins a search for trees.
    pub fn search(self, cache: &'a PackedCache) -> PackedSearch<'a> {
        PackedSearch { site: self, cache }
    }

    /// Packs trees for the arguments of a use. Arguments that are missing or 0 are chosen for the
    /// bytes.
    ///
    /// # Errors
    /// Returns why there are no such trees.
    pub fn pack(&self, args: &[(Name, UsingArg)], cache: &PackedCache) -> Result<Rc<PackedUse>, String> {
        PackedSearch { site: *self, cache }.pack(args)
    }

    /// Packs the trees of a use once more, to show them. None for an all-to-all, which has paths,
    /// and for groups of one rank.
    ///
    /// # Errors
    /// Returns why there are no such trees.
    pub fn trees(&self, args: &[(Name, UsingArg)]) -> Result<Option<PackedTrees>, String> {
        let (request, ways) = (self.request(args)?, self.ways(args)?);
        if request.collective == PackedCollective::AllToAll || self.groups().iter().all(|g| g.len() == 1) {
            return Ok(None);
        }
        let cache = PackedCache::default();
        let (network, phases) = PackedSearch { site: *self, cache: &cache }.phases(&request, ways)?;
        Ok(Some(PackedTrees { network, request, phases }))
    }

    fn groups(&self) -> Vec<Vec<DeviceId>> {
        device_groups(self.mesh, &self.collective.axes())
    }

    /// Returns which routes messages take with the arguments of a use.
    fn ways(&self, args: &[(Name, UsingArg)]) -> Result<MessageRoutes, String> {
        match given(args, VIA)? {
            Some(1) => Ok(MessageRoutes::Named),
            Some(_) => Err(format!("`{VIA}` is 1 if messages name relays, or 0")),
            // A complete use without the argument has none.
            None if is_complete(args) || !self.via => Ok(MessageRoutes::Machine),
            None => Ok(MessageRoutes::Fastest),
        }
    }

    /// Returns what the arguments of a use ask for.
    fn request(&self, args: &[(Name, UsingArg)]) -> Result<PackedRequest, String> {
        let given = |name: &str| given(args, name);
        let (pieces, gather) = (given(PIECES)?, given(GATHER)?);
        let kinds =
            [(TREES, TreeMethod::Trees), (GREEDY, TreeMethod::Greedy), (SPANNING, TreeMethod::Spanning)];
        let mut named = vec![];
        for (name, method) in kinds {
            named.extend(given(name)?.map(|number| (name, method, number)));
        }
        if let [one, other, ..] = named[..] {
            return Err(format!("`{}` and `{}` are trees of different kinds: name one", one.0, other.0));
        }
        let named = named.first();
        if gather.is_some() && named.is_none_or(|n| n.1 != TreeMethod::Greedy) {
            return Err(format!("`{GATHER}` is for matched trees: name `{GREEDY}` as well"));
        }
        let method = match named {
            Some(&(_, method, _)) => method,
            None if pieces.is_none() => TreeMethod::Fastest,
            None => TreeMethod::Trees,
        };
        let trees = named.map(|n| n.2);
        let c = self.collective;
        let Some(collective) = PackedCollective::of(c.kind) else {
            return Err(format!("no trees are packed for {}", c.name()));
        };
        let (root, bytes) = (c.root.unwrap_or(0), given(BYTES)?.unwrap_or(self.bytes));
        // With pieces that are given no number of messages is chosen.
        let messages = if pieces.is_some() { MessageLimit::NONE } else { self.messages };
        let elements = self.elements;
        Ok(PackedRequest { collective, root, method, trees, gather, pieces, bytes, elements, messages })
    }
}

impl PackedSearch<'_> {
    /// Packs what [`PackedSite::pack`] packs.
    ///
    /// # Errors
    /// Those of [`PackedSite::pack`].
    pub fn pack(&self, args: &[(Name, UsingArg)]) -> Result<Rc<PackedUse>, String> {
        self.packed(&self.site.request(args)?, self.site.ways(args)?)
    }

    /// Packs trees of every kind, each chosen for the bytes: packed, matched and spanning ones,
    /// whose messages take the routes of the machine or name relays. Kinds without such trees are
    /// left out.
    pub fn pack_kinds(&self) -> Vec<Rc<PackedUse>> {
        let Ok(request) = self.site.request(&[]) else { return vec![] };
        let routes: &[MessageRoutes] = if self.site.via {
            &[MessageRoutes::Machine, MessageRoutes::Named]
        } else {
            &[MessageRoutes::Machine]
        };
        let kinds = [TreeMethod::Trees, TreeMethod::Greedy, TreeMethod::Spanning].into_iter();
        let kinds = kinds.flat_map(|method| routes.iter().map(move |ways| (method, *ways)));
        kinds
            .filter_map(|(method, ways)| self.packed(&PackedRequest { method, ..request }, ways).ok())
            .collect()
    }

    /// Packs trees of the best rate, in as many pieces as are fastest for the bytes.
    ///
    /// # Errors
    /// Those of [`PackedSite::pack`].
    pub fn pack_trees(&self) -> Result<Rc<PackedUse>, String> {
        let request = PackedRequest { method: TreeMethod::Trees, ..self.site.request(&[])? };
        self.packed(&request, self.site.ways(&[])?)
    }

    /// Packs a number of trees per root, or matches one (of an all-reduce: of all trees), in as
    /// many pieces as are fastest for the bytes. Messages name relays where that is possible, so
    /// that they take the routes of the trees.
    ///
    /// # Errors
    /// Those of [`PackedSite::pack`].
    pub fn pack_number(&self, method: TreeMethod, trees: u64) -> Result<Rc<PackedUse>, String> {
        let trees = Some(trees);
        let request = PackedRequest { method, trees, ..self.site.request(&[])? };
        let named = self.site.via && self.routed()?.is_some();
        self.packed(&request, if named { MessageRoutes::Named } else { MessageRoutes::Machine })
    }

    /// Packs, of an all-reduce, the least number of spanning trees whose rate is near the highest,
    /// where trees of the best rate are not known. None if they are.
    pub fn pack_spanning(&self) -> Option<Rc<PackedUse>> {
        let network = self.routed().ok()?.filter(|_| self.site.via).or(self.plain().ok())?;
        self.pack_number(TreeMethod::Spanning, spanning::best_number(&network)?).ok()
    }

    fn packed(&self, request: &PackedRequest, ways: MessageRoutes) -> Result<Rc<PackedUse>, String> {
        let key = format!("{:?} {request:?} {ways:?}", self.site.collective.axes());
        self.cache.uses.get(key, || self.made(request, ways).map(Rc::new))
    }

    fn plain(&self) -> Result<Rc<MachineNetwork>, String> {
        let topology = self.site.topology;
        let made = || group_network(topology, &self.site.groups()).map_err(|e| e.words(topology, None));
        self.cache.plain.get(self.site.collective.axes(), || made().map(Rc::new))
    }

    fn routed(&self) -> Result<Option<Rc<MachineNetwork>>, String> {
        let topology = self.site.topology;
        let made = || match network::is_whole(topology, &self.site.groups()) {
            true => routed_network(topology).map_err(|e| PackedFailure::from(e).words(topology, None)),
            false => Ok(None),
        };
        self.cache.routed.get(self.site.collective.axes(), || made().map(|found| found.map(Rc::new)))
    }

    /// Returns the phases of a use, and the network in which they are.
    fn phases(
        &self,
        request: &PackedRequest,
        ways: MessageRoutes,
    ) -> Result<(Rc<MachineNetwork>, Vec<Rc<OrderedPhase>>), String> {
        let topology = self.site.topology;
        let plain = self.plain()?;
        let of = |network: Rc<MachineNetwork>| phases(&network, request).map(|phases| (network, phases));
        let found = match ways {
            MessageRoutes::Machine => of(plain.clone()),
            MessageRoutes::Named => match self.routed()? {
                None => return Err(format!("no relays can be named here: leave out `{VIA}`")),
                Some(routed) => of(routed),
            },
            MessageRoutes::Fastest => best_phases(topology, plain.clone(), self.routed()?, request),
        };
        found.map_err(|e| words(e, topology, &plain))
    }

    fn made(&self, request: &PackedRequest, ways: MessageRoutes) -> Result<PackedUse, String> {
        let topology = self.site.topology;
        if topology.is_package() {
            return Err("the machine is a package, whose devices are not joined by links alone".into());
        }
        if self.site.groups().iter().all(|g| g.len() == 1) {
            // One rank has nothing to send: the functions are right as they stand.
            let (bytes, ns) = (request.bytes, 0.0);
            let none = PackedUse {
                tables: vec![],
                parameters: PackedParameters { pieces: 1, ..PackedParameters::default() },
                bytes,
                via: false,
                ns,
                least_ns: ns,
                rounds: RefCell::default(),
                slots: RefCell::default(),
            };
            return Ok(none);
        }
        if request.collective == PackedCollective::AllToAll {
            let network = self.plain()?;
            if request.trees.is_some() {
                let name = match request.method {
                    TreeMethod::Greedy => GREEDY,
                    TreeMethod::Spanning => SPANNING,
                    TreeMethod::Fastest | TreeMethod::Trees => TREES,
                };
                return Err(format!("an all-to-all has paths in place of trees: leave out `{name}`"));
            }
            if ways == MessageRoutes::Named {
                return Err(format!(
                    "the paths of an all-to-all take the routes of the machine: leave out `{VIA}`"
                ));
            }
            let found = ordered_flow(&network, request).map_err(|e| words(e, topology, &network))?;
            return Ok(PackedUse {
                tables: flow_tables(&found.plan, network.network.members().len()),
                parameters: PackedParameters { pieces: found.plan.pieces, ..PackedParameters::default() },
                bytes: request.bytes,
                via: false,
                ns: found.ns,
                least_ns: 0.0,
                rounds: RefCell::default(),
                slots: RefCell::default(),
            });
        }
        let (network, phases) = self.phases(request, ways)?;
        let parameters = parameters(&network, request, &phases);
        Ok(PackedUse {
            tables: tables((topology, &network), request, &phases),
            parameters,
            bytes: request.bytes,
            via: network.via,
            ns: planned_ns(&phases),
            least_ns: phases.iter().map(|p| p.plan.least_ns).sum(),
            rounds: RefCell::default(),
            slots: RefCell::default(),
        })
    }
}

/// Returns an error of the synthesis in words.
fn words(e: SynthesisError, topology: &Topology, network: &MachineNetwork) -> String {
    PackedFailure::from(e).words(topology, Some(&network.nodes))
}

/// Returns an argument that is a number above 0; `None` if it is missing or 0.
fn given(args: &[(Name, UsingArg)], name: &str) -> Result<Option<u64>, String> {
    match args.iter().find(|a| a.0 == *name).map(|a| &a.1) {
        None | Some(UsingArg::Int(0)) => Ok(None),
        Some(UsingArg::Int(n)) if *n > 0 => Ok(Some(*n as u64)),
        Some(_) => Err(format!("`{name}` must be a number of at least 0")),
    }
}

/// Returns E595 for a use of a packed algorithm that has no trees.
pub fn refused(topology: Option<&Topology>, using: &Using, at: Span, why: &str) -> Diagnostic {
    let machine = topology.map_or("no machine".to_owned(), |t| brief(&t.to_string()));
    Diagnostic::error("E595", format!("no algorithm can be synthesised for {machine}: {why}"))
        .primary(at, format!("`{}` packs trees into the links of the machine", using.alg))
        .help(format!("{CONNECTED}; fewer trees and pieces are fewer messages: `{}(trees: 1)`", using.alg))
}

/// What synthesis needs.
pub const CONNECTED: &str =
    "synthesis packs trees into the links of a connected machine with two devices or more";

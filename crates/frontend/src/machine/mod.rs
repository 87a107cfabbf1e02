//! Machine files: shape, rates, rules and perturbations of a machine, as YAML
//! (docs/reference/machine.md).
//!
//! Three other formats are read, too: networks of ASTRA-sim's analytical simulator (`network`),
//! and the two files of the kernbench simulator of packages (`kernbench` and [`ccl`]). This
//! module owns the keys and their messages. [`kbc_machine::topology`] defines settings, links and
//! distributions, and parses their values. The driver opens the files.

pub mod ccl;
pub mod fault;
mod kernbench;
pub mod nesting;
mod network;
mod perturb;
mod placement;
pub(crate) mod starts;
pub(crate) mod tree;
pub(crate) mod yaml;

use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Spanned};
use kbc_machine::policy::Placements;
use kbc_machine::topology::perturb::Perturb;
use kbc_machine::topology::{
    FAILED, Fragment, MAX_NODES, OwnLink, ROUTE, SettingValue, Settings, Shape, StatedRoute, link_rate,
};
use tree::{Key, Node, NodeKind};
use yaml::Document;

/// A machine, as a file describes it.
#[derive(Clone, Debug)]
pub struct MachineFile {
    /// The file.
    pub file: FileId,
    /// The generator. None if the program's own one is used.
    pub shape: Option<Spanned<Shape>>,
    /// The settings.
    pub settings: Settings,
    /// The rates of single links and the nodes that have failed, in source order.
    pub links: Vec<OwnLink>,
    /// The routes of pairs.
    pub routes: Vec<StatedRoute>,
    /// The perturbation.
    pub perturb: Option<Perturb>,
    /// The distribution of tensors over the cubes and PEs of a device.
    pub placements: Placements,
    /// The settings that the file marks as chosen, because their values are not published.
    pub chosen: Settings,
    /// Warnings about the file.
    pub warnings: Diagnostics,
}

/// Reads a machine file.
///
/// # Errors
/// Returns E460 if the text is not YAML, E461 for an unknown key, E462 for a value of the wrong
/// kind, E463 for a missing key, E464 for a file of another tool, E465 for a perturbation out of
/// range, and E440 to E446 for values.
pub fn read(text: &str, file: FileId) -> Result<MachineFile, Diagnostics> {
    let reader = Reader(Document::read(text, file)?);
    let mut found = Diagnostics::new();
    let mut out = MachineFile {
        file,
        shape: None,
        settings: Settings::default(),
        links: vec![],
        routes: vec![],
        perturb: None,
        placements: Placements::default(),
        chosen: Settings::default(),
        warnings: Diagnostics::new(),
    };
    let Some(keys) = reader.map(&reader.0.root, "a machine file", &mut found) else { return Err(found) };
    if network::is_one(keys) {
        return network::read(&reader, keys);
    }
    foreign(&reader, keys)?;
    let packages = kernbench::is_one(keys);
    let mut theirs = vec![];
    let mut graph: [Option<u32>; 2] = [None; 2];
    let names: Vec<&str> = KEYS.into_iter().chain(Settings::names()).collect();
    for entry in keys {
        let (key, value) = entry;
        let done = match key.name.as_str() {
            "shape" => reader.fragment(value).and_then(|f| {
                out.shape = Some(Spanned::new(f.shape()?, reader.0.span(value.number)));
                Ok(())
            }),
            name @ ("devices" | "relays") => {
                reader.size(name, value).map(|n| graph[usize::from(name == "relays")] = Some(n))
            }
            "links" => {
                reader.links(value, &mut out.links, &mut found);
                Ok(())
            }
            FAILED => {
                reader.failed(value, &mut out.links, &mut found);
                Ok(())
            }
            ROUTE => {
                reader.routes(value, &mut out.routes, &mut found);
                Ok(())
            }
            "perturb" => {
                match perturb::section(&reader, value) {
                    Ok(p) => out.perturb = Some(p),
                    Err(d) => found.extend(d),
                }
                Ok(())
            }
            "kbc" => reader.version(value),
            name if Settings::names().contains(&name) => reader.named(name, value).and_then(|v| {
                out.settings.set(&Spanned::new(key.name.clone(), reader.0.span(key.number)), &v)
            }),
            "placement" => {
                match placement::section(&reader, value) {
                    Ok(p) => out.placements = p,
                    Err(d) => found.extend(d),
                }
                Ok(())
            }
            "chosen" => {
                reader.chosen(value, &mut out, &mut found);
                Ok(())
            }
            _ if packages => {
                theirs.push(entry);
                Ok(())
            }
            _ => Err(reader.unknown(key, &names)),
        };
        if let Err(d) = done {
            found.push(d);
        }
    }
    if packages {
        if let Some((key, _)) =
            keys.iter().find(|(k, _)| ["shape", "devices", "relays"].contains(&k.name.as_str()))
        {
            let title = format!("`{}` is not allowed in a file that describes packages", key.name);
            found.push(
                Diagnostic::error("E461", title)
                    .primary(reader.0.span(key.number), "not allowed here")
                    .help("`system`, `sip` and `cube` already define the shape"),
            );
            return Err(found.finish());
        }
        kernbench::read(&reader, &theirs, &mut out, &mut found);
    }
    // `devices: 6` means `shape: graph(6, 0)`.
    let key = |name: &str| keys.iter().find(|(k, _)| k.name == name).map(|(k, _)| reader.0.span(k.number));
    match (graph, &out.shape) {
        ([None, None], _) => {}
        ([None, Some(_)], _) => {
            found.push(reader.missing(&reader.0.root, "devices", "a machine with `relays`"))
        }
        ([Some(_), _], Some(shape)) => {
            let d = Diagnostic::error("E461", "`devices` and `shape` exclude each other").help(
                "`devices` and `relays` describe a machine by a list of `links`; `shape` generates the links",
            );
            found.push(
                key("devices")
                    .into_iter()
                    .fold(d, |d, at| d.primary(at, "this describes a list of links"))
                    .secondary(shape.span, "a shape"),
            );
        }
        ([Some(devices), relays], None) => {
            let at = key("devices").unwrap_or(reader.0.span(reader.0.root.number));
            out.shape = Some(Spanned::new(Shape::Graph { devices, relays: relays.unwrap_or(0) }, at));
        }
    }
    if found.has_errors() { Err(found.finish()) } else { Ok(out) }
}

/// Reads a perturbation: a file with a `perturb` section, or the content of such a section.
///
/// # Errors
/// Fails as [`read`] does.
pub fn read_perturb(text: &str, file: FileId) -> Result<Perturb, Diagnostics> {
    let reader = Reader(Document::read(text, file)?);
    if let NodeKind::Map(keys) = &reader.0.root.kind {
        foreign(&reader, keys)?;
        if keys.iter().any(|(k, _)| k.name == "perturb") || kernbench::is_one(keys) {
            // The whole file is read, so that errors elsewhere in it are reported, too.
            let whole = read(text, file)?.perturb;
            return whole.ok_or_else(|| reader.missing(&reader.0.root, "perturb", "the file").into());
        }
    }
    perturb::section(&reader, &reader.0.root)
}

/// Keys that are not settings.
const KEYS: [&str; 10] =
    ["kbc", "shape", "devices", "relays", "links", FAILED, ROUTE, "perturb", "placement", "chosen"];

/// The version of machine files that is read. A file without the key `kbc` has it.
const VERSION: u32 = 1;

/// Settings with several values: names of the values, and how many of them are needed.
const NAMED: [(&str, &[&str], usize); 6] = [
    ("link", &["bandwidth", "latency"], 2),
    ("device", &["arithmetic", "memory"], 2),
    ("vector", &["bandwidth", "step"], 1),
    ("sdma", &["bandwidth", "time"], 2),
    ("core_get", &["size", "time"], 2),
    ("core_put", &["size", "time"], 2),
];

/// The setting whose values are words of which several may hold.
const WORDS: &str = "switch";

/// Keys at the beginning of a file about collectives (`ccl.yaml`).
const FOREIGN: [&str; 2] = ["defaults", "algorithms"];

/// Returns E464 for a file about collectives.
fn foreign(reader: &Reader<'_>, keys: &[(Key, Node)]) -> Result<(), Diagnostic> {
    let Some((key, _)) = keys.iter().find(|(k, _)| FOREIGN.contains(&k.name.as_str())) else { return Ok(()) };
    let title = format!("expected a machine file, and `{}` belongs to a file about collectives", key.name);
    Err(Diagnostic::error("E464", title)
        .primary(reader.0.span(key.number), "this key")
        .note("a file about collectives (`ccl.yaml`) states which collective runs, with how many ranks and which queues")
        .help("give a machine file instead: a `topology.yaml`, or a file with `shape` and rates"))
}

/// A document, with the functions that all keys share.
struct Reader<'t>(Document<'t>);

impl<'t> Reader<'t> {
    fn map<'n>(&self, node: &'n Node, what: &str, found: &mut Diagnostics) -> Option<&'n [(Key, Node)]> {
        match &node.kind {
            NodeKind::Map(keys) => Some(keys),
            _ => {
                found.push(self.kind(node, &format!("{what} must be a mapping")));
                None
            }
        }
    }

    /// Returns E462 for a value of the wrong kind.
    fn kind(&self, node: &Node, wanted: &str) -> Diagnostic {
        let is = match &node.kind {
            NodeKind::Scalar(text) if !text.trim().is_empty() => format!("`{}`", text.trim()),
            _ => node.what().to_owned(),
        };
        Diagnostic::error("E462", format!("{wanted}, and this is {is}"))
            .primary(self.0.span(node.number), "here")
            .help("docs/reference/machine.md lists the keys and their values")
    }

    /// Returns E463 for a missing key.
    fn missing(&self, node: &Node, key: &str, what: &str) -> Diagnostic {
        Diagnostic::error("E463", format!("{what} has no `{key}`"))
            .primary(self.0.span(node.number), "here")
            .help(format!("add `{key}: ..`"))
    }

    /// Returns E461 for an unknown key.
    fn unknown(&self, key: &Key, valid: &[&str]) -> Diagnostic {
        let list = valid.join(", ");
        let help = match nearest(&key.name, valid.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? The keys are {list}"),
            None => format!("the keys are {list}"),
        };
        Diagnostic::error("E461", format!("unknown key `{}`", key.name))
            .primary(self.0.span(key.number), "not known here")
            .help(help)
    }

    /// Returns a single value as a piece of text with its place.
    fn fragment<'n>(&self, node: &'n Node) -> Result<Fragment<'n>, Diagnostic> {
        let NodeKind::Scalar(text) = &node.kind else {
            return Err(self.kind(node, "this key needs a single value, such as `50 GB/s, 500 ns`"));
        };
        // If the source text of a value differs from the value (escapes, numbers in other forms),
        // errors are located relative to the beginning of the whole value.
        let base = self.0.verbatim(node.number, text);
        let base = base.unwrap_or_else(|| self.0.span(node.number).start as usize);
        Ok(Fragment { text, file: self.0.file, base })
    }

    /// Reads the settings whose values are not published.
    fn chosen(&self, node: &Node, out: &mut MachineFile, found: &mut Diagnostics) {
        let Some(entries) = self.map(node, "`chosen`", found) else { return };
        for (key, value) in entries {
            let name = Spanned::new(key.name.clone(), self.0.span(key.number));
            let set = self.named(&key.name, value).and_then(|v| {
                out.chosen.set(&name, &v)?;
                out.settings.set(&name, &v)
            });
            if let Err(d) = set {
                found.push(d);
            }
        }
    }

    /// Reads a number of nodes. There must be at least one device; there may be no relays.
    fn size(&self, key: &str, node: &Node) -> Result<u32, Diagnostic> {
        let least = u32::from(key == "devices");
        let wanted = || format!("`{key}` must be an integer from {least} to {MAX_NODES}");
        let NodeKind::Scalar(text) = &node.kind else { return Err(self.kind(node, &wanted())) };
        text.parse().ok().filter(|n| (least..=MAX_NODES).contains(n)).ok_or_else(|| {
            Diagnostic::error("E462", format!("{}, and this is {text}", wanted()))
                .primary(self.0.span(node.number), "here")
        })
    }

    fn values(&self, node: &Node) -> Result<Vec<Spanned<SettingValue>>, Diagnostic> {
        self.fragment(node)?.values()
    }

    /// Checks the version of the file.
    fn version(&self, node: &Node) -> Result<(), Diagnostic> {
        let at = self.0.span(node.number);
        let given = match &node.kind {
            NodeKind::Scalar(text) => text.parse::<u32>().ok().filter(|n| *n > 0),
            _ => None,
        };
        match given {
            Some(VERSION) => Ok(()),
            Some(later) => {
                let title = format!("this machine file has version {later}, and this kbc reads {VERSION}");
                Err(Diagnostic::error("E460", title)
                    .primary(at, "a later version")
                    .help("use a newer kbc for this file"))
            }
            None => Err(self.kind(node, &format!("`kbc` must be the version of the file, {VERSION}"))),
        }
    }

    /// Reads the values of a setting: in one line, `50 GB/s, 500 ns`, or each with its name,
    /// `{bandwidth: 50 GB/s, latency: 500 ns}`.
    fn named(&self, setting: &str, node: &Node) -> Result<Vec<Spanned<SettingValue>>, Diagnostic> {
        if setting == WORDS {
            return self.words(node);
        }
        let NodeKind::Map(keys) = &node.kind else { return self.values(node) };
        let Some((_, names, least)) = NAMED.iter().find(|n| n.0 == setting) else { return self.values(node) };
        if let Some((key, _)) = keys.iter().find(|(k, _)| !names.contains(&k.name.as_str())) {
            return Err(self.unknown(key, names));
        }
        let mut out = vec![];
        for (i, name) in names.iter().enumerate() {
            let Some((_, value)) = keys.iter().find(|(k, _)| k.name == *name) else {
                if i < *least {
                    return Err(self.missing(node, name, &format!("`{setting}`")));
                }
                continue;
            };
            let mut values = self.values(value)?;
            match (values.pop(), values.is_empty()) {
                (Some(one), true) => out.push(one),
                _ => return Err(self.kind(value, &format!("`{name}` must be one value"))),
            }
        }
        Ok(out)
    }

    /// Reads the words of a setting: in one line, `reduce, multicast`, as a list, or as keys,
    /// `{reduce, multicast}` or `{reduce: true, multicast: false}`.
    fn words(&self, node: &Node) -> Result<Vec<Spanned<SettingValue>>, Diagnostic> {
        let keys = match &node.kind {
            NodeKind::List(list) => {
                let all = list.iter().map(|item| self.values(item)).collect::<Result<Vec<_>, _>>()?;
                return Ok(all.concat());
            }
            NodeKind::Map(keys) => keys,
            NodeKind::Scalar(_) | NodeKind::Null => return self.values(node),
        };
        let mut out = vec![];
        for (key, value) in keys {
            match &value.kind {
                NodeKind::Null => {}
                NodeKind::Scalar(text) if text == "true" => {}
                NodeKind::Scalar(text) if text == "false" => continue,
                _ => return Err(self.kind(value, &format!("`{}` must be true or false", key.name))),
            }
            out.push(Spanned::new(SettingValue::Name(key.name.clone()), self.0.span(key.number)));
        }
        if out.is_empty() {
            out.push(Spanned::new(SettingValue::Name("forward".into()), self.0.span(node.number)));
        }
        Ok(out)
    }

    /// Reads nodes that have failed: `(0,1), #3`, or a list of such texts.
    fn failed(&self, node: &Node, out: &mut Vec<OwnLink>, found: &mut Diagnostics) {
        for nodes in self.texts(node, |f| f.nodes(), found) {
            out.extend(nodes.into_iter().map(OwnLink::failed));
        }
    }

    /// Reads routes: `(0)->#1->(3), (3)->#1->(0)`, or a list of such texts.
    fn routes(&self, node: &Node, out: &mut Vec<StatedRoute>, found: &mut Diagnostics) {
        self.texts(node, |f| f.routes(), found).into_iter().for_each(|routes| out.extend(routes));
    }

    /// Reads a text, or a list of texts.
    fn texts<T>(
        &self,
        node: &Node,
        read: impl Fn(Fragment<'_>) -> Result<T, Diagnostic>,
        found: &mut Diagnostics,
    ) -> Vec<T> {
        let one = std::slice::from_ref(node);
        let list = if let NodeKind::List(list) = &node.kind { &list[..] } else { one };
        let mut out = vec![];
        for item in list {
            match self.fragment(item).and_then(&read) {
                Ok(value) => out.push(value),
                Err(d) => found.push(d),
            }
        }
        out
    }

    /// Reads entries of the form `SELECTOR: bandwidth, latency`.
    fn links(&self, node: &Node, out: &mut Vec<OwnLink>, found: &mut Diagnostics) {
        let Some(entries) = self.map(node, "`links`", found) else { return };
        for (key, value) in entries {
            let span = self.0.span(key.number);
            let own = || {
                let name = Node { number: key.number, kind: NodeKind::Scalar(key.name.clone()) };
                let sets = self.fragment(&name)?.link_sets()?;
                let rate = link_rate(span, &self.named("link", value)?)?;
                Ok(sets.into_iter().map(move |set| OwnLink { set: Spanned::new(set, span), rate }))
            };
            match own() {
                Ok(own) => out.extend(own),
                Err(d) => found.push(d),
            }
        }
    }
}

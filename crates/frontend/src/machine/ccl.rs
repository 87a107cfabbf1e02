//! kernbench `ccl.yaml` files: the collective that runs, with its numbers of ranks and elements and
//! its queues (TOPO-2, TOPO-7).
//!
//! This module owns the keys of such a file, the precedence of an entry over the defaults, and the
//! origin of the world size. [`super::read`] reads machines. Queues and algorithms are not examined
//! here.

use super::tree::{Key, Node, NodeKind};
use super::yaml::Document;
use super::{Reader, kernbench};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span, Spanned};
use kbc_ir::types::MemKind;

/// The devices that are the ranks of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RunRanks {
    /// The SIPs.
    Sip,
    /// The PEs of SIP 0, ordered by cube and then by PE.
    Pe,
}

impl RunRanks {
    const ALL: [(&'static str, RunRanks); 2] = [("sip", RunRanks::Sip), ("pe", RunRanks::Pe)];

    /// Returns `sip` or `pe`.
    pub fn name(self) -> &'static str {
        if self == RunRanks::Sip { "sip" } else { "pe" }
    }
}

/// The behaviour of a sender while a ring is full.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Backpressure {
    /// It polls.
    Poll,
    /// It sleeps until it is woken.
    Sleep,
}

impl Backpressure {
    const ALL: [(&'static str, Backpressure); 2] =
        [("poll", Backpressure::Poll), ("sleep", Backpressure::Sleep)];

    /// Returns `poll` or `sleep`.
    pub fn name(self) -> &'static str {
        if self == Backpressure::Poll { "poll" } else { "sleep" }
    }
}

/// The origin of a value of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The command line, which overrides the file.
    Asked,
    /// The algorithm's entry.
    Entry(String),
    /// The section `defaults`.
    Defaults,
    /// No setting: the value is the number of SIPs.
    Sips,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Asked => f.write_str("the command line"),
            Origin::Entry(name) => write!(f, "algorithms.{name}"),
            Origin::Defaults => f.write_str("defaults"),
            Origin::Sips => f.write_str("number of SIPs"),
        }
    }
}

/// A run that the file describes, on a given machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The name of the entry that runs.
    pub algorithm: String,
    /// The number of ranks, at least 1.
    pub world_size: u64,
    /// The origin of that number.
    pub origin: Origin,
    /// The devices that are the ranks.
    pub ranks: RunRanks,
    /// The number of elements of each rank's vector.
    pub n_elem: u64,
    /// The memory that holds the slots of queues.
    pub buffer_kind: MemKind,
    /// The behaviour of a sender while a ring is full.
    pub backpressure: Backpressure,
    /// The number of slots of a ring, per direction.
    pub n_slots: u64,
    /// The size of a slot in bytes.
    pub slot_size: u64,
    /// The size in bytes of the pieces in which messages travel.
    pub vc_chunk_size: u64,
    /// The size of a credit in bytes.
    pub credit_bytes: u64,
    /// A hint of the entry: how its ranks are supposed to be connected.
    pub topology: Option<String>,
    /// A hint of the entry: the cube at the root, by its number or as `(x,y)`.
    pub root_cube: Option<String>,
    /// The kernbench code that the entry names by `module` or `impl`.
    pub module: Option<String>,
    /// The keys that were given, with their places.
    pub said: Vec<(&'static str, Span)>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Run {
    /// Returns the place of a key of the run, if it was given.
    pub fn at(&self, key: &str) -> Option<Span> {
        self.said.iter().find(|s| s.0 == key).map(|s| s.1)
    }

    /// Returns the setting that makes the ranks of this run the devices of its package: `ranks:
    /// sip`, or `ranks: pe, 7`.
    pub fn ranks_setting(&self) -> String {
        match self.ranks {
            RunRanks::Sip => "ranks: sip".to_owned(),
            RunRanks::Pe => format!("ranks: pe, {}", self.world_size),
        }
    }
}

/// Values that override parts of the file, as from a command line.
#[derive(Clone, Debug, Default)]
pub struct Overrides(Section);

impl Overrides {
    /// Overrides a key of `defaults`. If a key is set several times, the last value counts. `name`
    /// and `value` have the places where they were written.
    ///
    /// # Errors
    /// Returns E413 for an unknown key, and E462 for a value of the wrong kind.
    pub fn set(&mut self, name: &Spanned<String>, value: &Spanned<String>) -> Result<(), Diagnostic> {
        let Some((key, takes)) = KEYS.iter().find(|k| k.0 == name.node) else {
            let valid: Vec<&str> = KEYS.iter().map(|k| k.0).collect();
            let near = nearest(&name.node, valid.iter().copied());
            let near = near.map_or(String::new(), |n| format!("did you mean `{n}`? "));
            return Err(Diagnostic::error("E413", format!("unknown key `{}` of a ccl.yaml", name.node))
                .primary(name.span, "not known here")
                .help(format!("{near}The keys are {}", valid.join(", "))));
        };
        match takes.read(&value.node) {
            Some(text) => {
                self.0.values.retain(|v| v.0 != *key);
                self.0.values.push((key, Spanned::new(text, value.span)));
                Ok(())
            }
            None => Err(ill(key, *takes, &format!("`{}`", value.node), &value.node, value.span)),
        }
    }
}

/// The keys of `defaults` and of an entry, each with the kind of its value.
const KEYS: [(&str, Takes); 12] = [
    ("algorithm", Takes::Word),
    ("world_size", Takes::Count),
    ("n_elem", Takes::Count),
    ("buffer_kind", Takes::OneOf(&["tcm", "sram", "hbm"])),
    ("backpressure", Takes::OneOf(&["poll", "sleep"])),
    ("n_slots", Takes::Count),
    ("slot_size", Takes::Count),
    ("vc_chunk_size", Takes::Count),
    ("ipcq_credit_size_bytes", Takes::Count),
    ("topology", Takes::Word),
    ("root_cube", Takes::Place),
    ("ranks", Takes::OneOf(&["sip", "pe"])),
];

/// The keys of an entry that name kernbench code.
const CODE: [&str; 2] = ["module", "impl"];

/// The keys that are for human readers only.
const KEPT: [&str; 1] = ["description"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Takes {
    Word,
    /// A whole number of at least 1.
    Count,
    OneOf(&'static [&'static str]),
    /// A number or coordinates.
    Place,
}

impl Takes {
    /// Returns a single value in its standard form, if it is of this kind.
    fn read(self, text: &str) -> Option<String> {
        let fits = match self {
            Takes::Word => !text.is_empty(),
            Takes::Count => text.parse::<u64>().is_ok_and(|n| n >= 1),
            Takes::OneOf(list) => list.contains(&text),
            Takes::Place => match text.split_once(',') {
                Some((x, y)) => return place(&[x, y]),
                None => text.parse::<u32>().is_ok(),
            },
        };
        fits.then(|| text.to_owned())
    }
}

/// Returns two coordinates in their standard form.
fn place(parts: &[&str]) -> Option<String> {
    let numbers: Option<Vec<u32>> = parts.iter().map(|p| p.trim().parse().ok()).collect();
    numbers.filter(|n| n.len() == 2).map(|n| format!("({},{})", n[0], n[1]))
}

/// The values of a section by key.
#[derive(Clone, Debug, Default)]
struct Section {
    values: Vec<(&'static str, Spanned<String>)>,
}

impl Section {
    fn get(&self, key: &str) -> Option<&Spanned<String>> {
        self.values.iter().find(|v| v.0 == key).map(|v| &v.1)
    }
}

/// A parsed `ccl.yaml`.
#[derive(Clone, Debug)]
pub struct CclFile {
    root: Span,
    defaults: Section,
    entries: Vec<(Spanned<String>, Section)>,
    /// Warnings about the file.
    pub warnings: Diagnostics,
}

/// Reads a `ccl.yaml`.
///
/// # Errors
/// Returns E460 if the text is not YAML, E462 for a value of the wrong kind, E463 if `algorithms`
/// is missing, and E464 for a machine file.
pub fn read(text: &str, file: FileId) -> Result<CclFile, Diagnostics> {
    let reader = Reader(Document::read(text, file)?);
    let mut found = Diagnostics::new();
    let root = reader.0.span(reader.0.root.number);
    let Some(keys) = reader.map(&reader.0.root, "a file about collectives", &mut found) else {
        return Err(found);
    };
    if kernbench::is_one(keys) && !keys.iter().any(|(k, _)| k.name == "algorithms") {
        return Err(Diagnostic::error(
            "E464",
            "expected a file about collectives (`ccl.yaml`), found a machine file",
        )
        .primary(root, "this file")
        .help("a file about collectives has the keys `defaults` and `algorithms`")
        .into());
    }
    let mut out =
        CclFile { root, defaults: Section::default(), entries: vec![], warnings: Diagnostics::new() };
    let mut any = false;
    for (key, node) in keys {
        match key.name.as_str() {
            "defaults" => out.defaults = section(&reader, node, "`defaults`", &mut out.warnings, &mut found),
            "algorithms" => {
                any = true;
                let Some(list) = reader.map(node, "`algorithms`", &mut found) else { continue };
                for (name, node) in list {
                    let what = format!("`algorithms.{}`", name.name);
                    let section = section(&reader, node, &what, &mut out.warnings, &mut found);
                    out.entries.push((Spanned::new(name.name.clone(), reader.0.span(name.number)), section));
                }
            }
            name => out.warnings.push(unknown(&reader, key, name, &["defaults", "algorithms"])),
        }
    }
    if !any {
        found.push(reader.missing(&reader.0.root, "algorithms", "a file about collectives"));
    }
    if found.has_errors() { Err(found.finish()) } else { Ok(out) }
}

/// Returns E466 for an unknown key.
fn unknown(reader: &Reader<'_>, key: &Key, name: &str, valid: &[&str]) -> Diagnostic {
    let near = nearest(name, valid.iter().copied())
        .or_else(|| valid.iter().copied().min_by_key(|v| kbc_diag::nearest::distance(name, v)));
    let help = near
        .map_or(String::new(), |n| format!("the nearest key is `{n}`; the keys are {}", valid.join(", ")));
    Diagnostic::warning("E466", format!("kbc ignores `{name}`"))
        .primary(reader.0.span(key.number), "not known here")
        .help(help)
}

fn section(
    reader: &Reader<'_>,
    node: &Node,
    what: &str,
    warnings: &mut Diagnostics,
    found: &mut Diagnostics,
) -> Section {
    let mut out = Section::default();
    // An entry may have no keys of its own.
    if matches!(node.kind, NodeKind::Null) {
        return out;
    }
    let Some(keys) = reader.map(node, what, found) else { return out };
    let names: Vec<&str> = KEYS.iter().map(|k| k.0).collect();
    for (key, node) in keys {
        let Some((name, takes)) = KEYS.iter().find(|k| k.0 == key.name) else {
            if let (Some(name), NodeKind::Scalar(text)) = (CODE.iter().find(|k| **k == key.name), &node.kind)
            {
                out.values.push((name, Spanned::new(text.clone(), reader.0.span(node.number))));
            } else if !KEPT.contains(&key.name.as_str()) {
                warnings.push(unknown(reader, key, &key.name, &names));
            }
            continue;
        };
        let span = reader.0.span(node.number);
        let text = match &node.kind {
            NodeKind::Scalar(text) => takes.read(text),
            NodeKind::List(list) if *takes == Takes::Place => {
                let parts: Option<Vec<&str>> = list
                    .iter()
                    .map(|n| if let NodeKind::Scalar(text) = &n.kind { Some(text.as_str()) } else { None })
                    .collect();
                parts.and_then(|p| place(&p))
            }
            _ => None,
        };
        let (is, word) = match &node.kind {
            NodeKind::Scalar(text) => (format!("`{text}`"), text.as_str()),
            _ => (node.what().to_owned(), ""),
        };
        match text {
            Some(text) => out.values.push((name, Spanned::new(text, span))),
            None => found.push(ill(name, *takes, &is, word, span)),
        }
    }
    out
}

/// Returns E462. `is` describes the actual value, and `word` is the value if it is a single word.
fn ill(name: &str, takes: Takes, is: &str, word: &str, span: Span) -> Diagnostic {
    let wanted = match takes {
        Takes::Word => "a name".to_owned(),
        Takes::Count => "an integer of at least 1".to_owned(),
        Takes::OneOf(list) => format!("one of {}", list.join(", ")),
        Takes::Place => "a number or two coordinates, such as `[2, 2]`".to_owned(),
    };
    let near = match takes {
        Takes::OneOf(list) => nearest(word, list.iter().copied()),
        _ => None,
    };
    let d = Diagnostic::error("E462", format!("`{name}` must be {wanted}, and this is {is}"))
        .primary(span, "here");
    d.help(near.map_or("docs/reference/machine.md lists the keys and their values".into(), |n| {
        format!("did you mean `{n}`?")
    }))
}

impl CclFile {
    /// Iterates over the names of the entries in source order.
    pub fn algorithms(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|e| e.0.node.as_str())
    }

    /// Returns the run of the chosen entry on a machine of `sips` SIPs with `pes` PEs each. A value
    /// of the entry overrides one of `defaults`. docs/reference/machine.md lists the values of keys
    /// that are not given.
    ///
    /// If the file does not state `ranks`, the ranks are the SIPs if the world size is their
    /// number, and otherwise PEs of SIP 0, which is noted.
    ///
    /// # Errors
    /// Returns E463 if no algorithm is chosen, E005 if the chosen one has no entry, and E467 for a
    /// world size that the ranks cannot have.
    pub fn run(&self, sips: u64, pes: u64, asked: &Overrides) -> Result<Run, Diagnostic> {
        let names: Vec<&str> = self.algorithms().collect();
        let asked = &asked.0;
        let Some(chosen) = asked.get("algorithm").or(self.defaults.get("algorithm")) else {
            return Err(Diagnostic::error("E463", "`defaults` has no `algorithm`")
                .primary(self.root, "this file")
                .help(format!("add `algorithm: ..` to `defaults`; the entries are {}", names.join(", "))));
        };
        let Some((_, entry)) = self.entries.iter().find(|e| e.0.node == chosen.node) else {
            let near = nearest(&chosen.node, names.iter().copied());
            let near = near.map_or(String::new(), |n| format!("did you mean `{n}`? "));
            let d = Diagnostic::error("E005", format!("`algorithms` has no `{}`", chosen.node))
                .help(format!("{near}The entries are {}", names.join(", ")));
            return Err(if chosen.span.is_none() { d } else { d.primary(chosen.span, "chosen here") });
        };
        let get = |key: &str| asked.get(key).or_else(|| entry.get(key)).or_else(|| self.defaults.get(key));
        // `section` has checked the kinds of all values.
        let number = |key: &str, absent: u64| get(key).and_then(|v| v.node.parse().ok()).unwrap_or(absent);
        let word = |key: &str| get(key).map(|v| v.node.as_str());
        let origins = [
            (asked, Origin::Asked),
            (entry, Origin::Entry(chosen.node.clone())),
            (&self.defaults, Origin::Defaults),
        ];
        let said_in = origins.into_iter().find(|o| o.0.get("world_size").is_some());
        let origin = said_in.map_or(Origin::Sips, |o| o.1);
        let world_size = number("world_size", sips);
        let said = RunRanks::ALL.iter().find(|r| Some(r.0) == word("ranks")).map(|r| r.1);
        let ranks = said.unwrap_or(if world_size == sips { RunRanks::Sip } else { RunRanks::Pe });
        let most = if ranks == RunRanks::Sip { sips } else { pes };
        let fits = if ranks == RunRanks::Sip { world_size == sips } else { world_size <= pes };
        if !fits {
            let title = match ranks {
                RunRanks::Sip => format!("a world of {world_size} ranks on {sips} SIPs"),
                RunRanks::Pe => format!("a world of {world_size} ranks on the {pes} PEs of a SIP"),
            };
            let at = get("world_size").map_or(self.root, |v| v.span);
            let help = match ranks {
                RunRanks::Sip => {
                    format!(
                        "with `ranks: sip` every SIP is a rank: write `world_size: {most}`, or `ranks: pe`"
                    )
                }
                RunRanks::Pe => format!(
                    "with `ranks: pe` the ranks are the PEs of SIP 0: write `world_size` of at most {most}, or `world_size: {sips}` for the SIPs"
                ),
            };
            return Err(Diagnostic::error("E467", title)
                .primary(at, format!("this comes from {origin}"))
                .help(help));
        }
        let mut notes = vec![];
        if ranks == RunRanks::Pe && said.is_none() {
            notes.push(format!(
                "the world size {world_size} (from {origin}) differs from the number of SIPs, {sips}, so the ranks are PEs of SIP 0"
            ));
        }
        let kind = word("buffer_kind").and_then(MemKind::parse).unwrap_or(MemKind::Tcm);
        let backpressure = Backpressure::ALL.iter().find(|b| Some(b.0) == word("backpressure"));
        Ok(Run {
            algorithm: chosen.node.clone(),
            world_size,
            origin,
            ranks,
            n_elem: number("n_elem", 32),
            buffer_kind: kind,
            backpressure: backpressure.map_or(Backpressure::Sleep, |b| b.1),
            n_slots: number("n_slots", 4),
            slot_size: number("slot_size", 4096),
            vc_chunk_size: number("vc_chunk_size", 256),
            credit_bytes: number("ipcq_credit_size_bytes", 16),
            topology: word("topology").map(str::to_owned),
            root_cube: word("root_cube").map(str::to_owned),
            module: CODE.iter().find_map(|key| entry.get(key)).map(|v| v.node.clone()),
            said: KEYS.iter().filter_map(|k| Some((k.0, get(k.0)?.span))).collect(),
            notes,
        })
    }
}

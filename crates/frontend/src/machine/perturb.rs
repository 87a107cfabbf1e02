//! Perturbations: the `perturb` section of a machine file.
//!
//! This module owns the keys. [`kbc_machine::topology::perturb`] defines distributions.

use super::Reader;
use super::tree::{Key, Node, NodeKind};
use kbc_diag::{Diagnostic, Diagnostics, Spanned};
use kbc_machine::topology::LinkSet;
use kbc_machine::topology::perturb::{
    Distribution, DrawnQuantity, MAX_RUNS, Perturb, PerturbTargets, RankName, SlowLinks, Stragglers,
};

const KEYS: [&str; 4] = ["seed", "runs", "stragglers", "links"];
const STRAGGLER_KEYS: [&str; 6] = ["ranks", "share", "count", "slow", "units", "late"];
const LINK_KEYS: [&str; 5] = ["links", "share", "count", "slow", "latency"];
const UNITS: [&str; 3] = ["arithmetic", "memory", "vector"];

/// Reads the section.
pub(super) fn section(reader: &Reader<'_>, node: &Node) -> Result<Perturb, Diagnostics> {
    let mut found = Diagnostics::new();
    let span = reader.0.span(node.number);
    let mut out = Perturb { seed: 0, runs: 1, stragglers: vec![], links: vec![], span };
    let Some(keys) = reader.map(node, "`perturb`", &mut found) else { return Err(found) };
    for (key, value) in keys {
        let done = match key.name.as_str() {
            "seed" => reader.whole(value, 0, u64::MAX).map(|n| out.seed = n),
            "runs" => reader.whole(value, 1, MAX_RUNS).map(|n| out.runs = n),
            "stragglers" => {
                each(reader, value, &mut found, |e| reader.stragglers(e).map(|s| out.stragglers.push(s)))
            }
            "links" => each(reader, value, &mut found, |e| reader.slow_links(e).map(|s| out.links.push(s))),
            _ => Err(reader.unknown(key, &KEYS)),
        };
        if let Err(d) = done {
            found.push(d);
        }
    }
    if !found.has_errors() && out.stragglers.is_empty() && out.links.is_empty() {
        found
            .push(reader.missing(node, "stragglers", "a perturbation").help("add `stragglers:` or `links:`"));
    }
    if found.has_errors() { Err(found) } else { Ok(out) }
}

fn each(
    reader: &Reader<'_>,
    node: &Node,
    found: &mut Diagnostics,
    mut entry: impl FnMut(&Node) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    let NodeKind::List(list) = &node.kind else {
        return Err(reader.kind(node, "this key needs a list of entries"));
    };
    list.iter().filter_map(|e| entry(e).err()).for_each(|d| found.push(d));
    Ok(())
}

/// The keys of an entry that select ranks or links.
enum Selector<'n> {
    Named(&'n Node),
    Share(f64),
    Count(Spanned<u64>),
}

impl Reader<'_> {
    /// Returns the keys of an entry, or an error if one of them is unknown.
    fn entry<'n>(&self, node: &'n Node, what: &str, valid: &[&str]) -> Result<&'n [(Key, Node)], Diagnostic> {
        let NodeKind::Map(keys) = &node.kind else {
            return Err(self.kind(node, &format!("{what} must be a mapping")));
        };
        match keys.iter().find(|(k, _)| !valid.contains(&k.name.as_str())) {
            Some((key, _)) => Err(self.unknown(key, valid)),
            None => Ok(keys),
        }
    }

    fn whole(&self, node: &Node, least: u64, most: u64) -> Result<u64, Diagnostic> {
        let fault = || {
            Diagnostic::error("E465", format!("expected an integer from {least} to {most}"))
                .primary(self.0.span(node.number), "here")
        };
        match &node.kind {
            NodeKind::Scalar(text) => {
                text.parse().ok().filter(|n| (least..=most).contains(n)).ok_or_else(fault)
            }
            _ => Err(self.kind(node, "this key needs an integer")),
        }
    }

    /// Reads a share: `5%` or `0.05`.
    fn share(&self, node: &Node) -> Result<f64, Diagnostic> {
        let NodeKind::Scalar(text) = &node.kind else {
            return Err(self.kind(node, "`share` needs a number"));
        };
        let value = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok().map(|p| p / 100.0),
            None => text.parse().ok(),
        };
        value.filter(|s| *s > 0.0 && *s <= 1.0).ok_or_else(|| {
            Diagnostic::error("E465", "expected a share above 0 and at most 1")
                .primary(self.0.span(node.number), "here")
                .help("write `share: 5%` or `share: 0.05`")
        })
    }

    fn spread(&self, node: &Node, of: DrawnQuantity) -> Result<Distribution, Diagnostic> {
        self.fragment(node)?.spread(of)
    }

    /// Reads exactly one of `names`, `share` and `count`.
    fn who<'n>(
        &self,
        node: &Node,
        keys: &'n [(Key, Node)],
        names: &str,
        what: &str,
    ) -> Result<Selector<'n>, Diagnostic> {
        let given: Vec<&(Key, Node)> =
            keys.iter().filter(|(k, _)| [names, "share", "count"].contains(&k.name.as_str())).collect();
        match given[..] {
            [(key, value)] => match key.name.as_str() {
                "share" => Ok(Selector::Share(self.share(value)?)),
                "count" => {
                    let n = self.whole(value, 1, u64::from(u32::MAX))?;
                    Ok(Selector::Count(Spanned::new(n, self.0.span(value.number))))
                }
                _ => Ok(Selector::Named(value)),
            },
            [] => Err(self
                .missing(node, names, what)
                .help(format!("select with one of `{names}`, `share` and `count`"))),
            [_, (second, _), ..] => Err(Diagnostic::error("E463", format!("{what} selects in two ways"))
                .primary(self.0.span(second.number), "this key is the second one")
                .help(format!("keep one of `{names}`, `share` and `count`"))),
        }
    }

    /// Returns the values of a list, or a single value.
    fn list<'n>(&self, node: &'n Node) -> &'n [Node] {
        match &node.kind {
            NodeKind::List(list) => list,
            _ => std::slice::from_ref(node),
        }
    }

    fn no_effect(&self, node: &Node, effects: &str, what: &str) -> Diagnostic {
        Diagnostic::error("E463", format!("{what} has no effect"))
            .primary(self.0.span(node.number), "here")
            .help(format!("add {effects}"))
    }

    fn stragglers(&self, node: &Node) -> Result<Stragglers, Diagnostic> {
        const WHAT: &str = "an entry of `stragglers`";
        let keys = self.entry(node, WHAT, &STRAGGLER_KEYS)?;
        let who = match self.who(node, keys, "ranks", WHAT)? {
            Selector::Share(s) => PerturbTargets::Share(s),
            Selector::Count(n) => PerturbTargets::Count(n),
            Selector::Named(list) => {
                PerturbTargets::These(self.list(list).iter().map(|n| self.rank(n)).collect::<Result<_, _>>()?)
            }
        };
        let mut out = Stragglers { who, slow: None, units: [true; 3], late: None };
        for (key, value) in keys {
            match key.name.as_str() {
                "slow" => out.slow = Some(self.spread(value, DrawnQuantity::Factor)?),
                "late" => out.late = Some(self.spread(value, DrawnQuantity::Time)?),
                "units" => out.units = self.units(value)?,
                _ => {}
            }
        }
        if out.slow.is_none() && out.late.is_none() {
            return Err(self.no_effect(node, "`slow: 1.5` or `late: 10 us`", WHAT));
        }
        if out.slow.is_none()
            && let Some((key, _)) = keys.iter().find(|(k, _)| k.name == "units")
        {
            return Err(Diagnostic::error("E463", "`units` applies to `slow`, and there is no `slow`")
                .primary(self.0.span(key.number), "here")
                .help("add `slow: 1.5`, or remove `units`"));
        }
        Ok(out)
    }

    fn slow_links(&self, node: &Node) -> Result<SlowLinks, Diagnostic> {
        const WHAT: &str = "an entry of `links`";
        let keys = self.entry(node, WHAT, &LINK_KEYS)?;
        let who = match self.who(node, keys, "links", WHAT)? {
            Selector::Share(s) => PerturbTargets::Share(s),
            Selector::Count(n) => PerturbTargets::Count(n),
            Selector::Named(list) => {
                let link = |n: &Node| -> Result<Spanned<LinkSet>, Diagnostic> {
                    Ok(Spanned::new(self.fragment(n)?.links()?, self.0.span(n.number)))
                };
                PerturbTargets::These(self.list(list).iter().map(link).collect::<Result<_, _>>()?)
            }
        };
        let mut out = SlowLinks { who, slow: None, latency: None };
        for (key, value) in keys {
            match key.name.as_str() {
                "slow" => out.slow = Some(self.spread(value, DrawnQuantity::Factor)?),
                "latency" => out.latency = Some(self.spread(value, DrawnQuantity::Time)?),
                _ => {}
            }
        }
        if out.slow.is_none() && out.latency.is_none() {
            return Err(self.no_effect(node, "`slow: 2` or `latency: 1 us`", WHAT));
        }
        Ok(out)
    }

    /// Reads a rank: `3` or `(0,1)`.
    fn rank(&self, node: &Node) -> Result<Spanned<RankName>, Diagnostic> {
        let piece = self.fragment(node)?;
        let name = match piece.text.parse() {
            Ok(n) => RankName::Number(n),
            Err(_) => RankName::At(piece.coordinates()?),
        };
        Ok(Spanned::new(name, self.0.span(node.number)))
    }

    fn units(&self, node: &Node) -> Result<[bool; 3], Diagnostic> {
        let mut out = [false; 3];
        for n in self.list(node) {
            let NodeKind::Scalar(word) = &n.kind else { return Err(self.kind(n, "a unit must be a word")) };
            match UNITS.iter().position(|u| u == word) {
                Some(i) => out[i] = true,
                None => {
                    return Err(Diagnostic::error("E465", format!("unknown unit `{word}`"))
                        .primary(self.0.span(n.number), "not known here")
                        .help(format!("the units are {}", UNITS.join(", "))));
                }
            }
        }
        Ok(out)
    }
}

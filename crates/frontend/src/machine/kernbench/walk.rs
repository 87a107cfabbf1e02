//! Traversal of `topology.yaml`: recognises every key by its name and the keys that contain it, or
//! keeps it with a warning.
//!
//! [`super::names`] owns the names, and [`super`] uses the collected values.

use super::super::Reader;
use super::super::tree::{Key, Node, NodeKind};
use super::names::{Component, FIXED, KeyQuantity, LEAVES, PARTS, PLAIN, SECTIONS, leaf, part};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};

/// A key of a component, with its value.
pub(super) struct ComponentKey {
    pub part: Component,
    pub quantity: KeyQuantity,
    pub value: f64,
    /// The position, if the key gives one.
    pub place: Option<[f64; 2]>,
    /// Whether the key is in the section `cube`, in which all positions have the same origin.
    pub cube: bool,
    pub span: Span,
}

/// The collector of the keys of a tree.
pub(super) struct Walk<'r, 't> {
    pub reader: &'r Reader<'t>,
    pub found: &'r mut Diagnostics,
    pub leaves: Vec<ComponentKey>,
    pub fixed: Vec<(&'static str, Node)>,
    pub warnings: Vec<Diagnostic>,
}

impl Walk<'_, '_> {
    /// Visits a key. Returns whether anything in it was recognised.
    pub fn key(&mut self, key: &Key, node: &Node, path: &mut Vec<String>) -> bool {
        path.push(key.name.clone());
        let known = self.known(key, node, path);
        path.pop();
        known
    }

    fn known(&mut self, key: &Key, node: &Node, path: &mut Vec<String>) -> bool {
        let full = path.join(".");
        if let Some(fixed) = FIXED.iter().find(|f| **f == full) {
            self.fixed.push((fixed, node.clone()));
            // The corners may be listed by name, with their positions.
            self.inside(node, path);
            return true;
        }
        let name = key.name.as_str();
        if name == "pos_mm" || !matches!(node.kind, NodeKind::Map(_) | NodeKind::List(_)) {
            if let Some((quantity, part)) = leaf(name, path) {
                self.leaf(part, quantity, key, node, path);
                return true;
            }
            let holds = |f: &&str| f.strip_prefix(&full).is_some_and(|rest| rest.starts_with('.'));
            let empty = matches!(node.kind, NodeKind::Null);
            if !empty && FIXED.iter().any(holds) {
                let span = self.reader.0.span(node.number);
                self.found.push(ill(&format!("`{full}` must be a mapping"), node, span));
                return true;
            }
            let group = PLAIN.contains(&name) || part(name).is_some() || SECTIONS.contains(&full.as_str());
            if name == "impl" || empty && group {
                return true;
            }
            self.unknown(key, node, path);
            return false;
        }
        let before = self.warnings.len();
        let any = self.inside(node, path);
        if !any && !PLAIN.contains(&name) && part(name).is_none() && !SECTIONS.contains(&full.as_str()) {
            // Nothing in it is recognised, so only this key is reported as unknown.
            self.warnings.truncate(before);
            self.unknown(key, node, path);
            return false;
        }
        true
    }

    fn inside(&mut self, node: &Node, path: &mut Vec<String>) -> bool {
        let mut any = false;
        match &node.kind {
            NodeKind::Map(keys) => {
                for (key, node) in keys {
                    any |= self.key(key, node, path);
                }
            }
            NodeKind::List(list) => {
                for node in list {
                    any |= self.inside(node, path);
                }
            }
            _ => {}
        }
        any
    }

    fn leaf(&mut self, part: Component, quantity: KeyQuantity, key: &Key, node: &Node, path: &[String]) {
        let span = self.reader.0.span(node.number);
        let number = |node: &Node| match &node.kind {
            NodeKind::Scalar(text) => text.parse::<f64>().ok().filter(|v| v.is_finite()),
            _ => None,
        };
        let cube = path.first().is_some_and(|s| s == "cube");
        let mut push =
            |value, place| self.leaves.push(ComponentKey { part, quantity, value, place, cube, span });
        let wanted = match quantity {
            KeyQuantity::Position => {
                let place = match &node.kind {
                    NodeKind::List(list) if list.len() == 2 => number(&list[0]).zip(number(&list[1])),
                    NodeKind::Map(keys)
                        if keys.len() == 2 && keys[0].0.name == "x" && keys[1].0.name == "y" =>
                    {
                        number(&keys[0].1).zip(number(&keys[1].1))
                    }
                    _ => None,
                };
                if let Some((x, y)) = place {
                    return push(0.0, Some([x, y]));
                }
                "a position: two numbers in mm, such as `[1.5, 2]`"
            }
            KeyQuantity::Connections | KeyQuantity::Channels => {
                if let Some(n) = number(node).filter(|n| n.fract() == 0.0 && (1.0..=64.0).contains(n)) {
                    return push(n, None);
                }
                "an integer from 1 to 64"
            }
            _ => {
                if let Some(n) = number(node).filter(|n| *n >= 0.0) {
                    return push(n, None);
                }
                "a number of at least 0"
            }
        };
        self.found.push(ill(&format!("`{}` must be {wanted}", key.name), node, span));
    }

    /// Warns with E466 about an unknown key.
    fn unknown(&mut self, key: &Key, node: &Node, path: &[String]) {
        let name = key.name.as_str();
        // Keys of the same section come first, because they are more likely.
        let parent = path[..path.len() - 1].join(".");
        let beside = FIXED.iter().filter_map(|f| f.strip_prefix(&parent)?.strip_prefix('.'));
        let beside = beside.filter_map(|f| f.split('.').next());
        let others = LEAVES.iter().map(|l| l.0).chain(["hbm_to_router_bw_gbs", "sram_to_router_bw_gbs"]);
        let fixed = FIXED.iter().flat_map(|f| f.split('.'));
        let all: Vec<&str> = beside
            .chain(fixed)
            .chain(others)
            .chain(PARTS.iter().map(|p| p.0))
            .chain(PLAIN)
            .chain(SECTIONS)
            .collect();
        let group = PLAIN.contains(&name) || part(name).is_some();
        let what = match node.kind {
            NodeKind::Map(_) => "no key in it is known",
            _ if group => "this must be a mapping",
            _ => "not known here",
        };
        let near = nearest(name, all.iter().copied()).or_else(|| closest(name, &all));
        let help = match near.filter(|_| !group) {
            Some(near) => {
                format!("the nearest key is `{near}`; docs/reference/machine.md lists the keys that kbc uses")
            }
            None => "docs/reference/machine.md lists the keys that kbc uses".into(),
        };
        let title = format!("kbc ignores `{}`", path.join("."));
        self.warnings.push(
            Diagnostic::warning("E466", title).primary(self.reader.0.span(key.number), what).help(help),
        );
    }
}

/// Returns the key with the smallest edit distance, however large.
fn closest<'a>(name: &str, all: &[&'a str]) -> Option<&'a str> {
    all.iter().copied().min_by_key(|k| kbc_diag::nearest::distance(name, k))
}

/// Returns E462 for a value of the wrong kind.
pub(super) fn ill(wanted: &str, node: &Node, span: Span) -> Diagnostic {
    let is = match &node.kind {
        NodeKind::Scalar(text) => format!("`{text}`"),
        _ => node.what().to_owned(),
    };
    Diagnostic::error("E462", format!("{wanted}, and this is {is}"))
        .primary(span, "here")
        .help("docs/reference/machine.md lists the keys of a topology.yaml and their values")
}

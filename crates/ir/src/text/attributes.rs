//! Attributes of other tools (`x-cost 12`) at the ends of lines: reading, printing, and what is
//! left of them after a pass.
//!
//! Parser and printer know nothing of attributes. Before a text is parsed, they are taken out of
//! its lines; after a module is printed, they are put into its lines. A line is found again by its
//! position among the lines of its kind, and an item by its label or its text.

use super::lex::{LineNode, Token, TokenKind, tree};
use super::lines::head;
use super::words::string;
use super::{PrintOptions, print_plain};
use crate::attributes::{Attribute, AttributeValue, Attributes, Item, OperationKey};
use crate::module::{Body, Module};
use kbc_diag::{Diagnostic, Diagnostics, FileId};
use std::collections::{BTreeMap, BTreeSet};

/// Position of a line: what it is, the numbers of the lines around it, and its own number.
type Spot = (&'static str, Vec<usize>, usize);

/// Finds the lines of a text that belong to items, and calls `found` with each of them and its
/// position.
fn lines<'a>(nodes: &'a [LineNode], found: &mut dyn FnMut(&'a LineNode, Spot)) {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut next = |kind: &'static str| {
        let n = counts.entry(kind).or_default();
        *n += 1;
        *n - 1
    };
    for n in nodes {
        if matches!(n.toks.first().map(|t| &t.tok), Some(TokenKind::Percent(_))) {
            found(n, ("value", vec![0], next("value")));
            continue;
        }
        match head(n) {
            "" if matches!(n.toks.first().map(|t| &t.tok), Some(TokenKind::Attribute(_))) => {
                found(n, ("module", vec![], 0));
            }
            "input" => found(n, ("input", vec![0], next("input"))),
            "ranks" => {
                let part = next("ranks");
                lines(&n.kids, &mut |n, (kind, _, at)| {
                    if ["input", "value"].contains(&kind) {
                        found(n, (kind, vec![part], at));
                    }
                });
            }
            "buffer" => found(n, ("buffer", vec![], next("buffer"))),
            "window" => found(n, ("window", vec![], next("window"))),
            "signal" => found(n, ("signal", vec![], next("signal"))),
            "queue" => found(n, ("queue", vec![], next("queue"))),
            "host" => operations(&n.kids, &[], &mut 0, found),
            "region" => {
                let region = next("region");
                found(n, ("region", vec![], region));
                for (r, role) in n.kids.iter().filter(|k| head(k) == "role").enumerate() {
                    for (s, stream) in role.kids.iter().filter(|k| head(k) == "stream").enumerate() {
                        operations(&stream.kids, &[region, r, s], &mut 0, found);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Finds the operations of a body.
fn operations<'a>(
    nodes: &'a [LineNode],
    around: &[usize],
    count: &mut usize,
    found: &mut dyn FnMut(&'a LineNode, Spot),
) {
    for n in nodes {
        if ["for", "if", "else"].contains(&head(n)) {
            operations(&n.kids, around, count, found);
        } else {
            found(n, ("operation", around.to_vec(), *count));
            *count += 1;
        }
    }
}

/// Returns the items of a printed text, by position.
fn items(printed: &str) -> BTreeMap<Spot, Item> {
    let nodes = tree(FileId(0), printed, &mut Diagnostics::new());
    let mut out = BTreeMap::from([(("module", vec![], 0), Item::Module)]);
    let mut regions: Vec<String> = vec![];
    let mut same: BTreeMap<(Vec<usize>, String), usize> = BTreeMap::new();
    lines(&nodes, &mut |n, spot| {
        let label = n.toks.iter().take(2).find_map(|t| match &t.tok {
            TokenKind::Percent(l) | TokenKind::At(l) => Some(l.to_string()),
            _ => None,
        });
        let label = label.unwrap_or_default();
        let part = spot.1.first().copied().unwrap_or(0);
        let item = match spot.0 {
            "input" => Item::Input(part, label),
            "value" => Item::Value(part, label),
            "buffer" => Item::Buffer(label),
            "window" => Item::Window(label),
            "signal" => Item::Signal(label),
            "queue" => Item::Queue(label),
            "region" => {
                regions.push(label.clone());
                Item::Region(label)
            }
            "operation" => {
                let text = printed[n.span.start as usize..n.span.end as usize].to_owned();
                let nth = same.entry((spot.1.clone(), text.clone())).or_default();
                *nth += 1;
                Item::Operation(OperationKey {
                    region: spot.1.first().and_then(|r| regions.get(*r)).cloned(),
                    role: spot.1.get(1).copied().unwrap_or(0),
                    stream: spot.1.get(2).copied().unwrap_or(0),
                    text,
                    nth: *nth - 1,
                })
            }
            _ => return,
        };
        out.insert(spot, item);
    });
    out
}

/// Takes the attributes out of the lines of a text. Returns them by position.
pub(super) fn take(nodes: &mut [LineNode], out: &mut Diagnostics) -> Vec<(Spot, Vec<Attribute>)> {
    // Line of each position, and what was taken out of each line.
    let mut spots: BTreeMap<(u32, u32), Spot> = BTreeMap::new();
    lines(nodes, &mut |n, spot| {
        spots.insert((n.span.start, n.span.end), spot);
    });
    let mut taken = vec![];
    take_each(nodes, &mut |n| {
        let (list, fault) = attributes(n);
        let Some(first) = list.first().map(|a| a.name.clone()) else { return };
        match spots.get(&(n.span.start, n.span.end)) {
            Some(spot) => {
                if let Some(kid) = n.kids.first().filter(|_| n.toks.is_empty()) {
                    out.push(
                        Diagnostic::error("E314", "the line before cannot have nested lines")
                            .primary(kid.span, "indented too far"),
                    );
                }
                fault.into_iter().for_each(|d| out.push(d));
                taken.push((spot.clone(), list));
            }
            None => out.push(
                Diagnostic::error("E311", format!("this line cannot have the attribute `{first}`"))
                    .primary(n.span, "here")
                    .help(PLACES),
            ),
        }
    });
    taken
}

fn take_each(nodes: &mut [LineNode], f: &mut impl FnMut(&mut LineNode)) {
    for n in nodes {
        f(n);
        take_each(&mut n.kids, f);
    }
}

/// Where attributes may stand.
const PLACES: &str = "attributes stand on lines of their own before the body, and after inputs, values, buffers, windows, signals, queues, regions and operations";

/// Takes the attributes out of a line. Also returns what is wrong with their names.
fn attributes(n: &mut LineNode) -> (Vec<Attribute>, Option<Diagnostic>) {
    let place = |t: &Token| matches!(t.tok, TokenKind::Loc(_));
    let end = n.toks.len() - usize::from(n.toks.last().is_some_and(place));
    let mut start = end;
    while start >= 2 && matches!(n.toks[start - 2].tok, TokenKind::Attribute(_)) {
        start -= 2;
    }
    let taken: Vec<Token> = n.toks.splice(start..end, []).collect();
    let mut out: Vec<Attribute> = vec![];
    let mut fault = None;
    for pair in taken.chunks(2) {
        let [name, value] = pair else { continue };
        let TokenKind::Attribute(word) = &name.tok else { continue };
        // The lexer takes a name for that of an attribute only before a number or a string.
        let value = match &value.tok {
            TokenKind::Int(v) => AttributeValue::Int(*v),
            TokenKind::Float(v) => AttributeValue::Float(*v),
            TokenKind::Str(s) => AttributeValue::Text(s.clone()),
            _ => continue,
        };
        if out.iter().any(|a| a.name == *word) {
            let twice = Diagnostic::error("E313", format!("attribute {word} is given twice"));
            fault.get_or_insert(twice.primary(name.span, "again here"));
        }
        out.push(Attribute { name: word.clone(), value });
    }
    (out, fault)
}

/// Gives the attributes that were taken out of a text to the items of its module.
pub(super) fn give(m: &mut Module, taken: Vec<(Spot, Vec<Attribute>)>) {
    if taken.is_empty() {
        return;
    }
    let items = items(&print_plain(m, &PrintOptions::default()));
    for (spot, list) in taken {
        if let Some(item) = items.get(&spot) {
            m.attributes.add(item.clone(), list);
        }
    }
}

/// Puts the attributes of a module into its printed text.
pub(super) fn put(m: &Module, printed: String) -> String {
    if m.attributes.is_empty() {
        return printed;
    }
    let plain = print_plain(m, &PrintOptions::default());
    let known = items(&plain);
    let nodes = tree(FileId(0), &printed, &mut Diagnostics::new());
    // Text to insert, by the byte before which it stands.
    let mut insert: BTreeMap<usize, String> = BTreeMap::new();
    lines(&nodes, &mut |n, spot| {
        let list = known.get(&spot).map_or(&[][..], |item| m.attributes.of(item));
        let last = n.toks.iter().rev().find(|t| !matches!(t.tok, TokenKind::Loc(_)));
        if let Some(last) = last.filter(|_| !list.is_empty()) {
            // The location of the line follows the attributes; one of a clause precedes them.
            let locs = n.toks.iter().rev().take_while(|t| matches!(t.tok, TokenKind::Loc(_))).count();
            let before = &n.toks[..n.toks.len() - locs.min(1)];
            let at = before.last().unwrap_or(last).span.end as usize;
            insert.insert(at, list.iter().map(|a| format!(" {}", show(a))).collect());
        }
    });
    let own: String = m.attributes.of(&Item::Module).iter().map(|a| show(a) + "\n").collect();
    let head = printed.find("\nmesh").map_or(printed.len(), |i| i + 1);
    let head = head + printed[head..].find('\n').map_or(0, |i| i + 1);
    insert.entry(head).or_default().push_str(&own);
    let mut out = String::new();
    let mut from = 0;
    for (at, text) in insert {
        out += &printed[from..at];
        out += &text;
        from = at;
    }
    out + &printed[from..]
}

fn show(a: &Attribute) -> String {
    match &a.value {
        AttributeValue::Int(v) => format!("{} {v}", a.name),
        AttributeValue::Float(v) => format!("{} {v:?}", a.name),
        AttributeValue::Text(s) => format!("{} {}", a.name, string(s)),
    }
}

/// Removes the attributes of items that a pass has removed. The attributes of a value go to the
/// buffer of the same name when a graph becomes a schedule.
pub fn retain_attributes(m: &mut Module) {
    if m.attributes.is_empty() {
        return;
    }
    let left: BTreeSet<Item> = items(&print_plain(m, &PrintOptions::default())).into_values().collect();
    let schedule = matches!(m.body, Body::Schedule(_));
    let mut kept = Attributes::default();
    for (item, list) in m.attributes.iter() {
        let item = match item {
            Item::Value(0, name) if schedule => Item::Buffer(name.clone()),
            other => other.clone(),
        };
        if left.contains(&item) {
            kept.add(item, list.to_vec());
        }
    }
    m.attributes = kept;
}

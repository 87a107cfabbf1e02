//! The part of a report about PyTorch programs: ranks, operations, collectives and placements.

use super::amounts::{bytes, count};
use serde::Serialize;

/// The programs of a world of ranks.
#[derive(Serialize, Debug)]
pub struct TorchReport {
    /// The common part of the programs' names, without the rank.
    pub tag: String,
    /// The version of PyTorch that wrote them.
    pub version: String,
    /// Number of ranks.
    pub world: u64,
    /// Ranks whose programs were checked. If these are all ranks, they were checked together.
    pub ranks: Vec<u64>,
    /// Source of the members of groups: `file` or `assumed`.
    pub groups_from: &'static str,
    /// Number of parameters, buffers and constants of a program.
    pub parameters: u64,
    /// Number of its other inputs.
    pub inputs: u64,
    /// Form of the weights of an archive: `raw` bytes, or `pickled`.
    pub weights: Option<&'static str>,
    /// Groups that collectives use.
    pub groups: Vec<TorchGroup>,
    /// Operations of the first program.
    pub operations: Vec<TorchCount>,
    /// Whether the other programs have the same number of each operation.
    pub alike: bool,
    /// Collectives, with equal ones combined.
    pub collectives: Vec<TorchCollective>,
    /// Placements of values.
    pub placements: TorchPlacements,
}

/// Placements of values, and whether they show that the ranks compute parts of one program.
#[derive(Serialize, Clone, Default, Debug)]
pub struct TorchPlacements {
    /// Whether this was shown.
    pub shown: bool,
    /// Whether the program itself states the placements, as a graph of DTensors does.
    pub said: bool,
    /// Axes of the mesh.
    pub axes: Vec<String>,
    /// Placements of the inputs that are used.
    pub inputs: Vec<TorchPlaced>,
    /// Placements of the results, in order.
    pub results: Vec<TorchPlaced>,
    /// Why it was not shown.
    pub doubts: Vec<String>,
    /// Description of the comparison with the unsharded model, if there was one.
    pub reference: Option<String>,
    /// Why there was no comparison although one was requested.
    pub uncompared: Option<String>,
}

/// The placement of a value.
#[derive(Serialize, Clone, Debug)]
pub struct TorchPlaced {
    /// Name of the value.
    pub name: String,
    /// One entry per axis: `whole`, `split along 0`, `part of a sum`.
    pub places: Vec<String>,
}

/// A group.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct TorchGroup {
    /// Its name on its first rank.
    pub name: String,
    /// Its members.
    pub ranks: Vec<u64>,
}

/// The number of occurrences of an operation.
#[derive(Serialize, Debug)]
pub struct TorchCount {
    /// The operation, such as `aten.mm.default`.
    pub operation: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Collectives that are equal.
#[derive(Serialize, Debug)]
pub struct TorchCollective {
    /// The collective: `all_reduce` and so on.
    pub operation: &'static str,
    /// The combiner.
    pub reduce: Option<String>,
    /// The group.
    pub group: String,
    /// Number of its members.
    pub ranks: u64,
    /// The operand on the first rank.
    pub operand: String,
    /// Bytes per rank; for all_gather, bytes of the total output.
    pub bytes: u64,
    /// Number of such collectives.
    pub count: u64,
}

fn list(ranks: &[u64]) -> String {
    match ranks {
        [first, .., last] if ranks.len() > 4 && last - first == ranks.len() as u64 - 1 => {
            format!("{first} to {last}")
        }
        _ => ranks.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Formats the report of a world of ranks.
pub fn human(file: &str, t: &TorchReport, line: &mut impl FnMut(String)) {
    let tag = if t.tag.is_empty() { String::new() } else { format!(" {}", t.tag) };
    let part = match t.ranks.len() as u64 == t.world {
        true => String::new(),
        false => format!(" (only rank {}: collectives are not matched with other ranks)", list(&t.ranks)),
    };
    let version = if t.version.is_empty() { String::new() } else { format!(" {}", t.version) };
    line(format!("{file}: torch{version}{tag}, {}{part}", count(t.world, "rank")));
    let weights = match t.weights {
        Some("raw") => ", in the archive",
        Some(_) => ", pickled",
        None => "",
    };
    line(format!("  {}{weights}; {}", count(t.parameters, "weight"), count(t.inputs, "input")));
    for g in &t.groups {
        let from = if t.groups_from == "file" { "" } else { " (assumed)" };
        line(format!("  group {}: ranks {}{from}", g.name, list(&g.ranks)));
    }
    let all = t.operations.iter().map(|o| o.count).sum();
    let more = if t.alike { "" } else { " on the first rank; other ranks have other groups" };
    line(format!("operations: {}{more}", count(all, "node")));
    let mut spaces: Vec<(&str, Vec<String>)> = vec![];
    for o in &t.operations {
        let (space, name) = o.operation.split_once('.').unwrap_or(("", &o.operation));
        let word = format!("{} {}", o.count, name.strip_suffix(".default").unwrap_or(name));
        match spaces.last_mut() {
            Some((s, l)) if *s == space => l.push(word),
            _ => spaces.push((space, vec![word])),
        }
    }
    for (space, words) in spaces {
        line(format!("  {space}: {}", words.join(", ")));
    }
    let changes: u64 =
        t.operations.iter().filter(|o| o.operation.contains("redistribute")).map(|o| o.count).sum();
    line(match t.collectives.is_empty() {
        true if changes > 0 => {
            format!("collectives: those of {}; `kbc compile` lists them", count(changes, "redistribute"))
        }
        true => "collectives: none".into(),
        false => "collectives".into(),
    });
    for c in &t.collectives {
        let times = if c.count > 1 { format!("{} x ", c.count) } else { String::new() };
        let reduce = c.reduce.as_ref().map_or_else(String::new, |r| format!(" {r}"));
        line(format!(
            "  {times}{}{reduce} of {} over group {} ({}): {}",
            c.operation,
            bytes(c.bytes),
            c.group,
            count(c.ranks, "rank"),
            c.operand
        ));
    }
    placements(&t.placements, line);
}

/// Formats the placements, and what was not shown about them.
pub fn placements(p: &TorchPlacements, line: &mut impl FnMut(String)) {
    if p.said {
        line("placements: those of the graph of DTensors".into());
        return;
    }
    line(match (p.shown, &p.axes[..]) {
        (true, []) => "placements: one rank holds everything".into(),
        (true, axes) => format!(
            "placements over {}: the ranks compute parts of one program, according to the data of their inputs (or groups.json) and the collectives",
            axes.join(", ")
        ),
        (false, _) => "placements: not shown".into(),
    });
    for doubt in &p.doubts {
        line(format!("  {doubt}"));
    }
    let words = |it: &TorchPlaced| match &p.axes[..] {
        [_] => it.places.concat(),
        axes => {
            let each: Vec<String> =
                it.places.iter().zip(axes).map(|(place, axis)| format!("{place} over {axis}")).collect();
            each.join(", ")
        }
    };
    for (what, list) in [("", &p.inputs), ("result ", &p.results)] {
        let mut groups: Vec<(String, Vec<&str>)> = vec![];
        for it in list {
            let place = words(it);
            match groups.iter_mut().find(|g| g.0 == place) {
                Some(g) => g.1.push(&it.name),
                None => groups.push((place, vec![&it.name])),
            }
        }
        for (place, names) in groups {
            line(format!("  {what}{}: {place}", names.join(", ")));
        }
    }
    line(match (&p.reference, &p.uncompared) {
        (Some(how), _) => how.clone(),
        (None, Some(why)) => why.clone(),
        (None, None) => {
            "not compared with an unsharded model (give one with --reference FOLDER): the stored results come from these programs themselves"
                .into()
        }
    });
}

//! What is reported of PyTorch programs.

use super::human::{bytes, count};
use serde::Serialize;

/// The programs of a world of ranks.
#[derive(Serialize, Debug)]
pub struct TorchReport {
    /// What their names have in common beside the rank.
    pub tag: String,
    /// The PyTorch that wrote them.
    pub version: String,
    /// Ranks there are.
    pub world: u64,
    /// Ranks whose programs were checked; all of them together if that is every rank.
    pub ranks: Vec<u64>,
    /// `file` or `assumed`: who says which ranks are in a group.
    pub groups_from: &'static str,
    /// Parameters, buffers and constants of a program.
    pub parameters: u64,
    /// Its other inputs.
    pub inputs: u64,
    /// Of an archive: `raw` bytes, or `pickled`.
    pub weights: Option<&'static str>,
    /// Groups that collectives use.
    pub groups: Vec<TorchGroup>,
    /// Operations of the first program.
    pub operations: Vec<TorchCount>,
    /// Whether those of the others are as many of each.
    pub alike: bool,
    /// Collectives, those that are alike together.
    pub collectives: Vec<TorchCollective>,
    /// Where the parts of values are.
    pub placements: TorchPlacements,
}

/// Where the parts of values are, and whether that shows that the ranks compute parts of one program.
#[derive(Serialize, Clone, Default, Debug)]
pub struct TorchPlacements {
    /// Whether it is shown.
    pub shown: bool,
    /// Whether the program itself says where they are, a graph of DTensors.
    pub said: bool,
    /// Axes of the mesh.
    pub axes: Vec<String>,
    /// Of inputs that something comes from.
    pub inputs: Vec<TorchPlaced>,
    /// Of results, by their places in the list.
    pub results: Vec<TorchPlaced>,
    /// Why it is not shown.
    pub doubts: Vec<String>,
    /// The comparison with the unsharded model, in words, if there was one.
    pub reference: Option<String>,
    /// Why there was none, though one was asked for.
    pub uncompared: Option<String>,
}

/// Where the parts of a value are.
#[derive(Serialize, Clone, Debug)]
pub struct TorchPlaced {
    /// The value.
    pub name: String,
    /// `whole`, `split along 0`, `part of a sum`: one an axis.
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

/// How often an operation is there.
#[derive(Serialize, Debug)]
pub struct TorchCount {
    /// `aten.mm.default`
    pub operation: String,
    /// How often.
    pub count: u64,
}

/// Collectives that are alike.
#[derive(Serialize, Debug)]
pub struct TorchCollective {
    /// `all_reduce` and so on.
    pub operation: &'static str,
    /// The combiner.
    pub reduce: Option<String>,
    /// The group.
    pub group: String,
    /// Its members.
    pub ranks: u64,
    /// What goes in, on the first rank.
    pub operand: String,
    /// Bytes of a rank; of the total output for all_gather.
    pub bytes: u64,
    /// How many there are.
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

/// Lines for people.
pub fn human(file: &str, t: &TorchReport, line: &mut impl FnMut(String)) {
    let tag = if t.tag.is_empty() { String::new() } else { format!(" {}", t.tag) };
    let part = match t.ranks.len() as u64 == t.world {
        true => String::new(),
        false => format!(" (rank {} alone: collectives are not matched with other ranks)", list(&t.ranks)),
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
    let more = if t.alike { "" } else { " on the first rank; other ranks have others" };
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
            format!("collectives: those of {}, which `kbc compile` shows", count(changes, "redistribute"))
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

/// What was shown, and what was not.
pub fn placements(p: &TorchPlacements, line: &mut impl FnMut(String)) {
    if p.said {
        line("placements: those that the graph of DTensors says".into());
        return;
    }
    line(match (p.shown, &p.axes[..]) {
        (true, []) => "placements: one rank has everything".into(),
        (true, axes) => format!(
            "placements over {}: the ranks compute parts of one program, by the data of their inputs, or what groups.json says of these, and by the collectives",
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
            "not compared with an unsharded model (--reference FOLDER): stored results are the programs' own"
                .into()
        }
    });
}

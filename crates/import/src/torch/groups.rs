//! Process groups: the files that list their members, and the assumptions made if there are none.
//!
//! Group names are local to a rank. The tables of two ranks may give one name to different groups,
//! or different names to one group.

use super::arg::Arg;
use super::json::{self, Json, JsonFault, JsonKind};
use super::model::{Placement, Program};
use super::rule::Rule;
use super::text::types::placements;
use kbc_diag::{Diagnostic, Diagnostics};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Greatest number of ranks.
pub const MAX_RANKS: u64 = 1 << 16;

/// The contents of a `groups.json`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// Total number of ranks.
    pub world: Option<u64>,
    /// The rank whose group names these are.
    pub rank: Option<u64>,
    /// Members of each group by its name, in the order of the group.
    pub groups: BTreeMap<String, Vec<u64>>,
    /// The mesh axis that a group corresponds to, by name of the group.
    pub axes: BTreeMap<String, String>,
    /// Names of the inputs in stored data, in the order of the inputs.
    pub args: Vec<String>,
    /// Names and sizes of the mesh dimensions.
    pub mesh: Vec<(String, u64)>,
    /// Declared placements of inputs, by name: one entry per mesh dimension.
    pub placements: BTreeMap<String, Vec<Placement>>,
    /// Declared placements of results, in order.
    pub results: Vec<Vec<Placement>>,
}

/// Reads a `groups.json`: an object with `groups`, or the list that PyTorch's profiler writes
/// as `pg_config`.
///
/// # Errors
/// Returns a fault if the text is neither of these.
pub fn read(text: &str) -> Result<Table, JsonFault> {
    let parsed = json::parse(text)?;
    let root = parsed.root();
    let mut out = Table::default();
    for (key, to) in [("world_size", &mut out.world), ("rank", &mut out.rank)] {
        if let Some(v) = root.get(key) {
            *to = Some(
                u64::try_from(v.int()?).map_err(|_| JsonFault::new(v.at, "expected a number of ranks"))?,
            );
        }
    }
    if let Some(names) = root.get("arg_names") {
        out.args = names.list()?.map(|n| n.text().map(Cow::into_owned)).collect::<Result<_, _>>()?;
    }
    if let Some(mesh) = root.get("mesh")
        && let (Some(shape), Some(names)) = (mesh.get("shape"), mesh.get("dim_names"))
    {
        for (size, name) in shape.list()?.zip(names.list()?) {
            let n = u64::try_from(size.int()?).ok().filter(|n| (1..=MAX_RANKS).contains(n));
            let n = n.ok_or_else(|| JsonFault::new(size.at, "expected a number of ranks"))?;
            let name = Some(name.text()?).filter(|n| is_name(n)).map(Cow::into_owned);
            out.mesh.push((name.ok_or_else(|| JsonFault::new(mesh.at, "expected names of axes"))?, n));
        }
    }
    if let Some(all) = root.get("placements") {
        for (name, of) in all.map()? {
            out.placements.insert(name.into_owned(), places(of)?);
        }
    }
    if let Some(of) = root.get("out_placements") {
        // One placement for a single result, or a list with one per result.
        let lists = of.kind() == JsonKind::List && of.list()?.any(|p| p.kind() == JsonKind::List);
        out.results =
            if lists { of.list()?.map(places).collect::<Result<_, _>>()? } else { vec![places(of)?] };
    }
    // The mesh may be described without `dim_groups`; it then gives no axes for groups.
    let dims = root.get("mesh").and_then(|m| m.get("dim_groups"));
    if let Some(dims) = dims {
        for (axis, group) in dims.map()? {
            out.axes.insert(group.text()?.into_owned(), axis.into_owned());
        }
    }
    let described = |g: Json<'_>, key: &str| {
        let text = g.get(key)?.text().ok()?;
        text.strip_prefix("mesh_").filter(|n| is_name(n)).map(str::to_owned)
    };
    let mut axes = vec![];
    let list = match (root.kind(), root.get("pg_config")) {
        (JsonKind::List, _) => Some(root.list()?),
        (_, Some(l)) => Some(l.list()?),
        _ => None,
    };
    let mut add = |at: Json<'_>, name: &str, members: Vec<u64>| {
        let mut seen = BTreeSet::new();
        if members.is_empty() || !members.iter().all(|m| seen.insert(*m) && *m < MAX_RANKS) {
            return Err(JsonFault::new(at.at, format!("a member of group '{name}' is listed twice")));
        }
        out.groups.insert(name.to_owned(), members);
        Ok(())
    };
    if let Some(list) = list {
        for g in list {
            let mut members = ranks(g.want("ranks")?)?;
            let size = g.get("pg_size").map(|n| n.int()).transpose()?;
            if members.is_empty() {
                // An empty list stands for all ranks.
                let n = size.and_then(|n| u64::try_from(n).ok()).filter(|n| *n <= MAX_RANKS);
                members =
                    (0..n.ok_or_else(|| JsonFault::new(g.at, "a group needs members or a size"))?).collect();
            }
            let name = g.want("pg_name")?.text()?;
            axes.extend(described(g, "pg_desc").map(|a| (name.to_string(), a)));
            add(g, &name, members)?;
        }
    } else {
        for (name, g) in root.want("groups")?.map()? {
            let members = ranks(g.want("ranks")?)?;
            if let Some(n) = g.get("size")
                && n.int()? != members.len() as i64
            {
                return Err(JsonFault::new(n.at, format!("group '{name}' has {} members", members.len())));
            }
            axes.extend(described(g, "desc").map(|a| (name.to_string(), a)));
            add(g, &name, members)?;
        }
    }
    for (group, axis) in axes {
        out.axes.entry(group).or_insert(axis);
    }
    out.axes.retain(|_, axis| is_name(axis));
    Ok(out)
}

/// Reads placements, one per mesh dimension: `"S(0)R"`, or `["Shard(dim=0)", "Replicate()"]`.
fn places(of: Json<'_>) -> Result<Vec<Placement>, JsonFault> {
    let one = |j: Json<'_>| {
        let text = j.text()?;
        let short = text
            .replace("Replicate()", "R")
            .replace("_NormPartial(", "?(")
            .replace("_StridedShard(", "?(")
            .replace("Shard(", "S(")
            .replace("Partial(", "P(")
            .replace("dim=", "")
            .replace("reduce_op=", "");
        let short = if short == "P()" { "P(sum)".to_owned() } else { short };
        placements(&short).map_err(|why| JsonFault::new(j.at, why))
    };
    match of.kind() {
        JsonKind::List => Ok(of.list()?.map(one).collect::<Result<Vec<_>, _>>()?.concat()),
        _ => one(of),
    }
}

/// Checks whether a word can be the name of an axis.
fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn ranks(j: Json<'_>) -> Result<Vec<u64>, JsonFault> {
    let one = |r: Json<'_>| u64::try_from(r.int()?).map_err(|_| JsonFault::new(r.at, "expected a rank"));
    j.list()?.map(one).collect()
}

/// The programs of all ranks, with the members of their groups.
#[derive(Debug)]
pub struct World {
    /// Total number of ranks.
    pub size: u64,
    /// The programs, sorted by rank.
    pub programs: Vec<Program>,
    /// For each program: members of each group by name.
    pub groups: Vec<BTreeMap<String, Vec<u64>>>,
    /// For each program: the mesh axis of a group, by name of the group.
    pub axes: Vec<BTreeMap<String, String>>,
    /// For each program: names of its inputs in stored data.
    pub args: Vec<Vec<String>>,
    /// Whether groups come from tables; otherwise they are assumed.
    pub said: bool,
    /// Placements of inputs that tables declare.
    pub declared: BTreeMap<String, Vec<Placement>>,
    /// Placements of results that tables declare.
    pub results: Vec<Vec<Placement>>,
}

impl World {
    /// Checks whether every rank has its program.
    pub fn is_whole(&self) -> bool {
        self.programs.len() as u64 == self.size
    }
}

/// Formats ranks as a list of words: `0, 1 and 3`.
pub fn words(ranks: &[u64]) -> String {
    let texts: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    match &texts[..] {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        other => other.concat(),
    }
}

/// Returns the group size that a collective states: `group_size`, or the number of its splits.
pub fn said_size(p: &Program, node: usize) -> Option<u64> {
    let n = &p.nodes[node];
    let size = match (n.op.rule, n.arg("group_size"), n.arg("input_split_sizes")) {
        (_, Arg::Int(i), _) => p.int(i)?,
        (Rule::AllToAll, _, Arg::Ints(l)) => l.len() as i64,
        _ => return None,
    };
    u64::try_from(size).ok()
}

/// Returns the name of the group that a collective uses.
pub fn group_of(p: &Program, node: usize) -> &str {
    match p.nodes[node].arg("group_name") {
        Arg::Text(name) => name,
        _ => "",
    }
}

/// Combines programs with their tables, of which there must be one per program or none at all.
/// `lone` is true if the caller asked for a single file, so that other ranks may be missing.
///
/// # Errors
/// Returns E529 for a group that cannot be guessed, E530 for tables that contradict each other, and
/// E535 for missing ranks or two programs of one rank.
pub fn world(mut ranks: Vec<(Program, Option<(String, Table)>)>, lone: bool) -> Result<World, Diagnostics> {
    ranks.sort_by_key(|r| r.0.rank);
    let mut found = Diagnostics::new();
    let given: Vec<u64> = ranks.iter().map(|r| r.0.rank).collect();
    for pair in ranks.windows(2) {
        if pair[0].0.rank == pair[1].0.rank {
            let what = format!("there are two programs of rank {}", pair[0].0.rank);
            found.push(
                Diagnostic::error("E535", what).note(format!("{} and {}", pair[0].0.file, pair[1].0.file)),
            );
        }
    }
    let mut size = None;
    for (p, table) in &ranks {
        let Some((file, t)) = table else { continue };
        if let Some(r) = t.rank.filter(|r| *r != p.rank) {
            found.push(table_error(format!(
                "{file} belongs to rank {r}, and {} belongs to rank {}",
                p.file, p.rank
            )));
        }
        let all = t.groups.values().flatten().max().map_or(1, |m| m + 1);
        let n = t.world.unwrap_or(all);
        if n < all {
            found.push(table_error(format!(
                "{file} has rank {} in a group, and there are {n} ranks",
                all - 1
            )));
        }
        match size {
            Some(s) if s != n && t.world.is_some() => {
                found.push(table_error(format!("{file} states {n} ranks, and another file states {s}")));
            }
            _ => size = Some(size.unwrap_or(0).max(n)),
        }
    }
    let with = ranks.iter().filter(|r| r.1.is_some()).count();
    if with > 0 && with < ranks.len() {
        for (p, _) in ranks.iter().filter(|r| r.1.is_none()) {
            found.push(table_error(format!(
                "there is no groups.json beside {}, and other ranks have one",
                p.file
            )));
        }
    }
    let size = size.unwrap_or(given.len() as u64).max(given.last().map_or(0, |r| r.saturating_add(1)));
    let missing: Vec<u64> =
        (0..size.min(MAX_RANKS)).filter(|r| given.binary_search(r).is_err()).take(9).collect();
    let by_itself = lone && with == ranks.len();
    if !missing.is_empty() && !by_itself {
        let list = if missing.len() > 8 { format!("{}, ..", words(&missing[..8])) } else { words(&missing) };
        let what = format!("the program of rank {list} is missing; there are {size} ranks");
        found.push(Diagnostic::error("E535", what).help("give the programs of all ranks, or their folder"));
    }
    if found.has_errors() {
        return Err(found);
    }
    let (programs, tables): (Vec<Program>, Vec<_>) = ranks.into_iter().unzip();
    let mut tables: Vec<Table> = tables.into_iter().map(|t| t.map(|t| t.1).unwrap_or_default()).collect();
    let groups = match with {
        0 => assumed(&programs, size)?,
        _ => tables.iter_mut().map(|t| std::mem::take(&mut t.groups)).collect(),
    };
    let axes = tables.iter_mut().map(|t| std::mem::take(&mut t.axes)).collect();
    let mut declared = BTreeMap::new();
    for t in &mut tables {
        declared.append(&mut t.placements);
    }
    let results = tables.first_mut().map(|t| std::mem::take(&mut t.results)).unwrap_or_default();
    let args = tables.into_iter().map(|t| t.args).collect();
    Ok(World { size, programs, groups, axes, args, said: with > 0, declared, results })
}

fn table_error(what: String) -> Diagnostic {
    Diagnostic::error("E530", what)
}

/// Assumes groups without tables. Group "0" contains all ranks. So does the only other name, if its
/// collectives state that their group has that many ranks.
fn assumed(programs: &[Program], size: u64) -> Result<Vec<BTreeMap<String, Vec<u64>>>, Diagnostics> {
    let all: Vec<u64> = (0..size).collect();
    let mut others: BTreeMap<&str, (usize, usize, BTreeSet<u64>)> = BTreeMap::new();
    for (i, p) in programs.iter().enumerate() {
        for n in (0..p.nodes.len()).filter(|n| p.nodes[*n].op.rule.is_collective()) {
            let name = group_of(p, n);
            if name != "0" {
                others.entry(name).or_insert((i, n, BTreeSet::new())).2.extend(said_size(p, n));
            }
        }
    }
    let mut groups = BTreeMap::from([("0".to_owned(), all.clone())]);
    let only = others.len() == 1;
    for (name, (p, node, sizes)) in others {
        if only && sizes == BTreeSet::from([size]) {
            groups.insert(name.to_owned(), all.clone());
            continue;
        }
        let p = &programs[p];
        let why = match (only, sizes.iter().next()) {
            (false, _) => "there are several named groups, and their members are not given".into(),
            (_, None) => "no collective states its number of ranks".into(),
            (_, Some(n)) => format!("a collective states that it has {n} ranks, and there are {size}"),
        };
        return Err(Diagnostic::error("E529", format!("the members of group '{name}' are unknown: {why}"))
            .primary(p.span(node), "used here")
            .note(p.place(node))
            .help(format!(
                "give its members, --group {name}=0-{}, or write a file rank0.groups.json beside the program, and likewise for every rank (docs/reference/torch.md)",
                size.saturating_sub(1)
            ))
            .into());
    }
    Ok(vec![groups; programs.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_table() {
        let object = r#"{"world_size": 4, "rank": 1, "groups": {"0": {"ranks": [0,1,2,3], "size": 4}, "2": {"ranks": [1,3]}}}"#;
        let t = read(object).expect("a table");
        assert_eq!((t.world, t.rank, &t.groups["2"]), (Some(4), Some(1), &vec![1, 3]));
        let list = r#"[{"pg_name": "0", "pg_size": 2, "ranks": []}, {"pg_name": "5", "ranks": [1]}]"#;
        let t = read(list).expect("a table");
        assert_eq!((&t.groups["0"], &t.groups["5"]), (&vec![0, 1], &vec![1]));
        assert!(read(r#"{"groups": {"0": {"ranks": [0,0]}}}"#).is_err());
        assert!(read(r#"{"groups": {"0": {"ranks": [0], "size": 2}}}"#).is_err());
        assert!(read("{}").is_err());
        assert_eq!(words(&[0, 1, 3]), "0, 1 and 3");
    }
}

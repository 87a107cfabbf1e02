//! Verdict on the programs of all ranks as parts of one program (`kbc check`): infers placements of
//! all values from the data of inputs and from the collectives, and reports what was shown.
//!
//! This module owns the order of the searches and the text of the verdict. A program for which kbc
//! has no rule is neither right nor wrong; the verdict states what was not shown.

use super::DataBeside;
use super::axes::{self, Axes};
use super::batches;
use super::declared::{declared, irregular, place_of, undeclared};
use super::effects::share_of;
use super::evidence::{Evidence, evidence_of};
use super::graph::{NodeId, NodeOp, Operand, RankCollective};
use super::lift::{Input, Lifted, Mode, counts, live, translate};
use super::placements::{AxisPlacement, Candidates, FailedSearch, PlacementProblem, find_placements};
use super::rank_differences::{AxisDifferences, Differing, completed, differing_programs};
use super::vocabulary;
use crate::torch::groups::World;
use crate::torch::matching::MatchedCollective;
use crate::torch::model::{Program, Role};
use crate::torch::rule::Rule;
use kbc_diag::{Diagnostic, Diagnostics};
use std::collections::{BTreeMap, BTreeSet};

/// A value with its placement over every axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Its name in PyTorch's program.
    pub name: String,
    /// One placement per axis.
    pub by: Vec<AxisPlacement>,
}

/// The findings about the programs of all ranks.
#[derive(Clone, Default, Debug)]
pub struct Verdict {
    /// Names and sizes of the axes of the mesh.
    pub axes: Vec<(String, u64)>,
    /// Inputs that are used.
    pub inputs: Vec<Placed>,
    /// Results, in order.
    pub results: Vec<Placed>,
    /// Reasons why the ranks' programs are not shown to be parts of one; empty if they are.
    pub doubts: Vec<String>,
    /// The ranks' graphs with the placement of each node by axis, if they could be built.
    pub graphs: Option<Graphs>,
}

/// The graphs of all ranks, which agree node by node, with placements.
#[derive(Clone, Debug)]
pub struct Graphs {
    /// The graphs, by rank.
    pub all: Vec<Lifted>,
    /// The mesh.
    pub axes: Axes,
    /// Placements by axis and node, where they are known.
    pub places: Vec<Vec<Option<AxisPlacement>>>,
}

impl Verdict {
    /// Checks whether the programs were shown to be parts of one.
    pub fn shown(&self) -> bool {
        self.doubts.is_empty()
    }

    /// Checks whether some value has a placement that no rule determines.
    fn unknown(&self) -> bool {
        let places = self.graphs.iter().flat_map(|g| g.places.iter().flatten());
        places.into_iter().any(|p| *p == Some(AxisPlacement::Unknown))
    }

    /// Checks whether a reshape moves a dimension of length 1. Sizes then do not determine which
    /// dimension it is merged with.
    fn ambiguous(&self) -> bool {
        let Some(graphs) = &self.graphs else { return false };
        let Some(it) = graphs.all.first() else { return false };
        let (nodes, does) = (&it.graph.nodes, live(it));
        let single = |n: NodeId| nodes[n].sizes.contains(&1);
        (0..nodes.len())
            .filter(|n| does[*n] && nodes[*n].op == NodeOp::Reshape)
            .any(|n| single(n) || nodes[n].uses().any(single))
    }

    fn not(why: impl Into<String>) -> Verdict {
        Verdict { doubts: vec![why.into()], ..Verdict::default() }
    }
}

/// Infers placements and judges the programs by them.
///
/// # Errors
/// Returns E565 for what no placement explains, at most one operation per axis of the mesh.
pub fn judge(world: &World, met: &[MatchedCollective], given: &DataBeside) -> Result<Verdict, Diagnostics> {
    if !world.is_whole() {
        return Ok(Verdict::not("the programs of the other ranks are missing"));
    }
    if world.size == 1 {
        return Ok(Verdict::default());
    }
    let axes = match axes::all(world, met) {
        Ok(axes) => axes,
        Err(d) => return Ok(Verdict::not(d.title)),
    };
    let first = formed(world, met, given, &axes, Form::Apart);
    if first.as_ref().is_ok_and(Verdict::shown) {
        return first;
    }
    // Sizes do not always determine which dimensions were merged. The second attempt keeps
    // reshapes as written.
    match (formed(world, met, given, &axes, Form::Written), first) {
        (Ok(other), first) if other.shown() || first.is_err() && other.ambiguous() => Ok(other),
        // The attempt that came further in the program explains more.
        (Err(other), Err(first)) if reach(&other) > reach(&first) => Err(other),
        // The first attempt lacked a rule.
        (Err(other), Ok(first)) if first.unknown() => Err(other),
        (_, first) => first,
    }
}

/// Returns the position in the program of the first message.
fn reach(d: &Diagnostics) -> u32 {
    d.list.first().and_then(|d| d.labels.first()).map_or(0, |l| l.span.start)
}

/// Returns the graphs of all ranks without placements, if they have the same operations.
pub fn unplaced(world: &World, met: &[MatchedCollective]) -> Option<Graphs> {
    let axes = axes::all(world, met).ok()?;
    let counts = counts(world, met);
    let mode = Mode { plain: true, opaque: true, written: true };
    let all: Vec<Lifted> = (0..world.programs.len())
        .map(|at| translate(world, at, &axes, &counts, mode).ok())
        .collect::<Option<_>>()?;
    Differing::of(&all).ok()?;
    let places = vec![vec![None; all.first()?.graph.nodes.len()]; axes.list.len()];
    Some(Graphs { all, axes, places })
}

/// The form of a graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Reshapes are as late as possible.
    Apart,
    /// Reshapes are where PyTorch wrote them.
    Written,
}

/// Returns the verdict for graphs in one form.
fn formed(
    world: &World,
    met: &[MatchedCollective],
    given: &DataBeside,
    axes: &Axes,
    form: Form,
) -> Result<Verdict, Diagnostics> {
    let counts = counts(world, met);
    let lifted = |plain: bool| -> Result<Vec<Lifted>, Diagnostics> {
        let mode = Mode { plain, opaque: true, written: form == Form::Written };
        let one = |at| {
            let it = translate(world, at, axes, &counts, mode)?;
            Ok(if form == Form::Apart { batches::delay_reshapes(it) } else { it })
        };
        (0..world.programs.len()).map(one).collect()
    };
    let mut all = match lifted(false) {
        Ok(mut all) => {
            completed(&mut all);
            all
        }
        Err(d) => return Ok(Verdict::not(d.list.first().map_or("", |d| &d.title))),
    };
    let mut differing = match Differing::of(&all) {
        Ok(it) if it.numbers.is_empty() => it,
        first => match lifted(true).map(|mut all| {
            completed(&mut all);
            (Differing::of(&all), all)
        }) {
            Ok((Ok(it), plain)) => {
                all = plain;
                it
            }
            _ => match first {
                Ok(it) => it,
                Err(at) => {
                    let d = differing_programs(world, &all, &at);
                    let places: Vec<String> = d.notes.iter().map(ToString::to_string).collect();
                    let place =
                        if places.is_empty() { String::new() } else { format!(" ({})", places.join("; ")) };
                    return Ok(Verdict::not(format!("{}{place}", d.title)));
                }
            },
        },
    };
    let local = all.clone();
    vocabulary::owned(&mut all, &mut differing, axes);
    let first = &all[0];
    let declared = declared(world, first, axes)?;
    let does = live(first);
    let named = named(&world.programs[0], first);
    let written = (form == Form::Written).then_some(&named);
    let mut it =
        Verdict { axes: axes.list.iter().map(|a| (a.name.clone(), a.size)).collect(), ..Verdict::default() };
    let stored = world.args.first().map_or(&[][..], Vec::as_slice);
    let (mut found, mut errors) = (vec![], Diagnostics::new());
    for (axis, a) in axes.list.iter().enumerate() {
        if a.size == 1 {
            found.push(vec![Some(AxisPlacement::Whole); first.graph.nodes.len()]);
            continue;
        }
        let own = differing.over(&all, a);
        let data: Vec<Evidence> = (0..first.inputs.len())
            .map(|i| evidence_of(world, given, axes, axis, first, stored, i))
            .collect();
        let said = |i: usize| declared.get(&i).map_or(data[i], |by| Evidence::Declared(by[axis]));
        let evidence: Vec<Evidence> = (0..data.len()).map(said).collect();
        for (i, by) in &declared {
            if by[axis] == AxisPlacement::Whole && matches!(data[*i], Evidence::Differs | Evidence::Alone) {
                let name = &first.inputs[*i].name;
                it.doubts.push(format!(
                    "{name} is declared as whole over {}, and its data differs between ranks",
                    a.name
                ));
            }
        }
        let on = Axis { world, it: first, does: &does, axes, axis, own: &own, evidence: &evidence, written };
        match on.inferred() {
            Ok((places, doubts)) => {
                it.doubts.extend(doubts.into_iter().filter(|d| !it.doubts.contains(d)).collect::<Vec<_>>());
                found.push(places);
            }
            Err(d) => errors.push(d),
        }
    }
    if errors.has_errors() {
        return Err(errors);
    }
    let placed = |n: NodeId, name: &str| Placed {
        name: name.to_owned(),
        by: found.iter().map(|f| f[n].unwrap_or(AxisPlacement::Unknown)).collect(),
    };
    for (n, node) in first.graph.nodes.iter().enumerate().filter(|(n, _)| does[*n]) {
        if let NodeOp::Input(i) = node.op {
            it.inputs.push(placed(n, &first.inputs[i].name));
        }
    }
    for (n, place) in &first.outputs {
        it.results.push(placed(*n, &place.to_string()));
    }
    it.doubts.extend(undeclared(world, first, axes, &found));
    it.doubts.extend(irregular(world, &all, &differing, axes, &found));
    it.graphs = Some(Graphs { all: local, axes: axes.clone(), places: found });
    Ok(it)
}

/// Returns the reshapes whose PyTorch operation determines which dimension is removed or inserted.
fn named(p: &Program, it: &Lifted) -> BTreeMap<NodeId, Rule> {
    let nodes = it.graph.nodes.iter().enumerate().filter(|(_, node)| node.op == NodeOp::Reshape);
    let rules = nodes.filter_map(|(n, node)| Some((n, p.nodes.get(node.of)?.op.rule)));
    rules.filter(|(_, rule)| matches!(rule, Rule::Select | Rule::Squeeze | Rule::Unsqueeze)).collect()
}

/// Assumptions of a search about its inputs, from strict to lenient; each search has one level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    /// Equal data is whole, different data is split.
    Strict,
    /// Different data that is not a weight may also be a part of a reduction.
    Parts,
    /// Equal data may be equal parts, and a vector that differs may be meant to be the same.
    Loose,
    /// The results of operations without a rule are unknown.
    Lenient,
}

/// The search over one axis.
struct Axis<'a> {
    world: &'a World,
    it: &'a Lifted,
    does: &'a [bool],
    axes: &'a Axes,
    axis: usize,
    own: &'a AxisDifferences,
    evidence: &'a [Evidence],
    written: Option<&'a BTreeMap<NodeId, Rule>>,
}

impl Axis<'_> {
    fn name(&self) -> &str {
        &self.axes.list[self.axis].name
    }

    /// Returns the placements that each input may have.
    fn candidates(&self, level: Level) -> Candidates {
        let clash = self.clashing();
        let (parts, loose, lenient) = (level >= Level::Parts, level == Level::Loose, level == Level::Lenient);
        (0..self.it.inputs.len())
            .map(|i| {
                let input = &self.it.inputs[i];
                let rank = self.world.programs[0].meta(input.value).map_or(0, |m| m.sizes.len());
                let splits = (0..rank).map(AxisPlacement::Split);
                let user = parts && input.role == Role::User;
                let sums =
                    ["sum", "max", "min", "prod"].into_iter().filter(|_| user).map(AxisPlacement::Partial);
                let mut may: Vec<AxisPlacement> = match self.evidence[i] {
                    Evidence::Declared(p) => vec![p],
                    Evidence::Same if !(loose && self.alike()) => vec![AxisPlacement::Whole],
                    Evidence::Same | Evidence::Uniform => {
                        [AxisPlacement::Whole].into_iter().chain(splits).collect()
                    }
                    Evidence::Nothing => {
                        [AxisPlacement::Whole].into_iter().chain(splits).chain(sums).collect()
                    }
                    // Possibly a vector of which each rank adds a part.
                    Evidence::Alone => splits.chain([AxisPlacement::Partial("sum")]).collect(),
                    Evidence::Differs if input.role == Role::User => splits.chain(sums).collect(),
                    Evidence::Differs if rank < 2 => {
                        let whole = loose.then_some(AxisPlacement::Whole);
                        splits.chain([AxisPlacement::Partial("sum")]).chain(whole).collect()
                    }
                    Evidence::Differs => splits.collect(),
                };
                if lenient && clash.contains(&i) {
                    may.push(AxisPlacement::Unknown);
                }
                may
            })
            .collect()
    }

    /// Returns the inputs on which collectives of several kinds operate directly, so that no
    /// placement fits all of them.
    fn clashing(&self) -> BTreeSet<usize> {
        let g = &self.it.graph;
        let mut kinds: Vec<BTreeSet<String>> = vec![BTreeSet::new(); self.it.inputs.len()];
        for node in g.nodes.iter().filter(|n| matches!(n.op, NodeOp::Collective(..))) {
            let NodeOp::Collective(c, _) = &node.op else { continue };
            let mut below: Vec<NodeId> = node.uses().collect();
            while let Some(n) = below.pop() {
                match g.nodes[n].op {
                    NodeOp::Input(i) => {
                        kinds[i].insert(format!("{c:?}"));
                    }
                    NodeOp::Reshape
                    | NodeOp::Transpose(_)
                    | NodeOp::Slice(..)
                    | NodeOp::Concat(_)
                    | NodeOp::Cast => {
                        below.extend(g.nodes[n].uses());
                    }
                    _ => {}
                }
            }
        }
        (0..kinds.len()).filter(|i| kinds[*i].len() > 1 && self.it.inputs[*i].role == Role::User).collect()
    }

    /// Checks whether all weights are the same on all ranks. They were then generated alike, and
    /// not cut from whole weights.
    fn alike(&self) -> bool {
        let weights =
            || self.evidence.iter().zip(&self.it.inputs).filter(|i| matches!(i.1.role, Role::Weight(_)));
        weights().any(|(s, _)| *s == Evidence::Same) && !weights().any(|(s, _)| *s == Evidence::Differs)
    }

    fn search(&self, level: Level) -> Result<Vec<Option<AxisPlacement>>, FailedSearch> {
        let said = |place: usize| self.world.results.get(place)?.get(self.axis).map(place_of);
        let results: Vec<(NodeId, Option<AxisPlacement>)> =
            self.it.outputs.iter().map(|(n, place)| (*n, said(*place))).collect();
        let candidates = self.candidates(level);
        find_placements(PlacementProblem {
            g: &self.it.graph,
            live: self.does,
            axis: self.axis,
            size: self.axes.list[self.axis].size,
            candidates: &candidates,
            own: self.own,
            results: &results,
            lenient: level == Level::Lenient,
            written: self.written,
        })
    }

    /// Returns placements, and the reasons why they do not show that the ranks' programs
    /// are parts of one.
    fn inferred(&self) -> Result<(Vec<Option<AxisPlacement>>, Vec<String>), Diagnostic> {
        let strict = match self.search(Level::Strict) {
            Ok(found) => {
                let doubts = self.doubts(&found);
                return Ok((found, doubts));
            }
            Err(stuck) => stuck,
        };
        if let Ok(found) = self.search(Level::Parts) {
            let doubts = self.doubts(&found);
            return Ok((found, doubts));
        }
        if let Ok(found) = self.search(Level::Loose) {
            let mut doubts = self.doubts(&found);
            let cut = self.inputs(&found, |s, p| s == Evidence::Same && p != AxisPlacement::Whole);
            if !cut.is_empty() {
                doubts.push(format!(
                    "all ranks of {} have the same data for {}, and the collectives treat it as parts",
                    self.name(),
                    cut.join(", ")
                ));
            }
            let whole = self.inputs(&found, |s, p| s == Evidence::Differs && p == AxisPlacement::Whole);
            if !whole.is_empty() {
                doubts.push(format!(
                    "ranks of {} have different data for {}, and the program needs the same data on all ranks",
                    self.name(),
                    whole.join(", ")
                ));
            }
            return Ok((found, doubts));
        }
        if !strict.lacks && self.clashing().is_empty() {
            return self.nothing(&strict);
        }
        match self.search(Level::Lenient) {
            Ok(found) => {
                let mut doubts = self.doubts(&found);
                doubts.extend(self.unknown(&found));
                Ok((found, doubts))
            }
            Err(stuck) if stuck.lacks => {
                let what = "the search for placements took too long".to_owned();
                Ok((vec![None; self.it.graph.nodes.len()], vec![what]))
            }
            Err(stuck) => self.nothing(&stuck),
        }
    }

    /// Reports an operation that no placement explains. Without data and without weight matrices
    /// there is nothing to contradict, so it is only a doubt.
    fn nothing(&self, stuck: &FailedSearch) -> Result<(Vec<Option<AxisPlacement>>, Vec<String>), Diagnostic> {
        let small = |i: &Input| self.world.programs[0].meta(i.value).is_none_or(|m| m.sizes.len() < 2);
        let bare =
            |(s, i): (&Evidence, &Input)| *s == Evidence::Nothing && (i.role == Role::User || small(i));
        if !self.evidence.iter().zip(&self.it.inputs).all(bare) {
            return Err(self.refused(stuck));
        }
        let doubt = format!(
            "no placement over {} of inputs without data explains {}: {}",
            self.name(),
            self.place(stuck.at),
            stuck.why
        );
        Ok((vec![None; self.it.graph.nodes.len()], vec![doubt]))
    }

    /// Returns the names of inputs with a property.
    fn inputs(
        &self,
        found: &[Option<AxisPlacement>],
        holds: impl Fn(Evidence, AxisPlacement) -> bool,
    ) -> Vec<String> {
        let nodes = self.it.graph.nodes.iter().enumerate();
        nodes
            .filter_map(|(n, node)| match node.op {
                NodeOp::Input(i) if holds(self.evidence[i], found[n]?) => {
                    Some(self.it.inputs[i].name.clone())
                }
                _ => None,
            })
            .collect()
    }

    fn doubts(&self, found: &[Option<AxisPlacement>]) -> Vec<String> {
        let mut out = vec![];
        let unsaid = self.inputs(found, |s, _| s == Evidence::Nothing);
        if !unsaid.is_empty() {
            out.push(format!(
                "there is no data for {}: the placement that is written for {} fits the collectives",
                unsaid.join(", "),
                if unsaid.len() == 1 { "it" } else { "them" },
            ));
        }
        let parts =
            self.inputs(found, |s, p| s == Evidence::Differs && matches!(p, AxisPlacement::Partial(_)));
        if !parts.is_empty() {
            out.push(format!(
                "{} can only be parts of a reduction on each rank of {}",
                parts.join(", "),
                self.name()
            ));
        }
        for (n, node) in self.it.graph.nodes.iter().enumerate() {
            let part = |o: &Operand| matches!(o, Operand::Node(m) if found[*m] == Some(AxisPlacement::Partial("sum")));
            if let NodeOp::Collective(
                RankCollective::AllReduce("avg") | RankCollective::ReduceScatter("avg", _),
                over,
            ) = &node.op
                && found[n].is_some()
                && over.contains(&self.axis)
                && node.args.iter().any(part)
            {
                out.push(format!(
                    "an average of the parts of a sum, which is 1/{} of the sum: {}",
                    self.axes.list[self.axis].size,
                    self.place(n)
                ));
            }
        }
        out.extend(self.idle(found));
        out.extend(self.everywhere(found));
        for n in self.own.numbers.keys().filter(|n| found[**n] == Some(AxisPlacement::Partial("sum"))) {
            if self.own.sums.get(n) != Some(&1.0) {
                out.push(format!(
                    "ranks multiply by different numbers that are not shares of 1: {}",
                    self.place(*n)
                ));
            }
        }
        out
    }

    /// Returns a doubt if the data alone makes every value whole: each rank then computes
    /// everything, and nothing about splitting is shown.
    fn everywhere(&self, found: &[Option<AxisPlacement>]) -> Option<String> {
        let whole = found.iter().zip(self.does).all(|(p, does)| !does || *p == Some(AxisPlacement::Whole));
        let weight = |i: &Input| matches!(i.role, Role::Weight(_));
        let live =
            |n: usize, i: usize| self.does[n].then_some((self.evidence[i], weight(&self.it.inputs[i])));
        let nodes = self.it.graph.nodes.iter().enumerate();
        let all: Vec<(Evidence, bool)> = nodes
            .filter_map(|(n, node)| if let NodeOp::Input(i) = node.op { live(n, i) } else { None })
            .collect();
        let weights = all.iter().any(|i| i.1);
        let same = |s: Evidence| matches!(s, Evidence::Same | Evidence::Uniform);
        let said = !all.is_empty() && all.iter().all(|(s, weight)| same(*s) || weights && !weight);
        let what = if weights { "parameter" } else { "input" };
        (whole && said).then(|| {
            format!(
                "every {what} is the same on all ranks of {}, so each rank computes the whole result: this shows nothing about the split",
                self.name()
            )
        })
    }

    /// Returns doubts about sums of whole values that are divided by the number of ranks before or
    /// after: they have no effect.
    fn idle(&self, found: &[Option<AxisPlacement>]) -> Vec<String> {
        let nodes = &self.it.graph.nodes;
        let size = self.axes.list[self.axis].size;
        // Whether a node is a part of a genuine sum, and not only a share of one whole value.
        let mut parts = vec![false; nodes.len()];
        for (n, node) in nodes.iter().enumerate() {
            let part = |m: &NodeId| matches!(found[*m], Some(AxisPlacement::Partial(_)));
            parts[n] = match node.uses().any(|m| part(&m)) {
                true => node.uses().any(|m| part(&m) && parts[m]),
                false => part(&n) && share_of(node, size).is_none(),
            };
        }
        let nothing = |o: &Operand| match o {
            Operand::Node(m) => match found[*m] {
                Some(AxisPlacement::Whole) => true,
                Some(AxisPlacement::Partial(_)) => !parts[*m],
                Some(AxisPlacement::Split(_) | AxisPlacement::Within(..) | AxisPlacement::Unknown) | None => {
                    false
                }
            },
            Operand::Num(_) => true,
        };
        let sums = |op: &NodeOp| {
            matches!(op, NodeOp::Collective(RankCollective::AllReduce("sum") | RankCollective::ReduceScatter("sum", _), over)
                if over.contains(&self.axis))
        };
        let all = nodes.iter().enumerate();
        all.filter(|(n, node)| sums(&node.op) && found[*n].is_some() && node.args.iter().all(nothing))
            .map(|(n, _)| {
                format!(
                    "a value that is whole on every rank is summed and divided by the number of ranks: {}",
                    self.place(n)
                )
            })
            .collect()
    }

    /// Returns the operations that have no rule.
    fn unknown(&self, found: &[Option<AxisPlacement>]) -> Vec<String> {
        let mut out: Vec<String> = vec![];
        for (n, node) in self.it.graph.nodes.iter().enumerate() {
            if found[n] != Some(AxisPlacement::Unknown)
                || node.uses().any(|m| found[m] == Some(AxisPlacement::Unknown))
            {
                continue;
            }
            out.push(match node.op {
                NodeOp::Input(i) => format!(
                    "`{}`: no placement over {} fits all collectives that take it",
                    self.it.inputs[i].name,
                    self.name()
                ),
                _ => format!("there is no rule for the placement over {} of {}", self.name(), self.place(n)),
            });
        }
        out
    }

    /// Returns the name of an operation and its place in the source.
    fn place(&self, n: NodeId) -> String {
        let p = &self.world.programs[0];
        let node = &self.it.graph.nodes[n];
        let name = self.it.names.get(&n).map_or_else(String::new, |n| format!("`{n}`, "));
        match p.nodes.get(node.of) {
            Some(it) => format!("{name}{} ({})", it.op.name, p.place(node.of)),
            None => name,
        }
    }

    fn refused(&self, stuck: &FailedSearch) -> Diagnostic {
        let p = &self.world.programs[0];
        let node = &self.it.graph.nodes[stuck.at];
        let name = self.it.names.get(&stuck.at).map_or_else(String::new, |n| format!("`{n}`: "));
        let mut d = Diagnostic::error(
            "E565",
            format!("the ranks of {} do not compute parts of one program: {name}{}", self.name(), stuck.why),
        );
        if matches!(node.op, NodeOp::Input(_) | NodeOp::Constant(_)) {
            d = d.note(p.file.clone());
        } else {
            d = d.primary(p.span(node.of), "here").note(p.place(node.of));
        }
        if stuck.result {
            d = d.secondary(p.span(p.nodes.len()), "this is a result of the program");
        }
        let operands = node.uses().filter_map(|m| match self.it.graph.nodes[m].op {
            NodeOp::Input(i) => Some(i),
            _ => None,
        });
        let small = |i: &usize| {
            self.world.programs[0].meta(self.it.inputs[*i].value).map_or(0, |m| m.sizes.len()) < 2
        };
        let mut added =
            operands.filter(|i| matches!(self.evidence[*i], Evidence::Same | Evidence::Uniform) && small(i));
        if let (NodeOp::Infix('+' | '-'), Some(i)) = (&node.op, added.next()) {
            let name = &self.it.inputs[i].name;
            d = d.help(format!(
                "if {name} is a share on each rank (1/{} of the bias), declare it in groups.json: \"placements\": {{\"{name}\": \"P(sum)\"}}",
                self.axes.list[self.axis].size
            ));
        }
        let of = |what: Evidence| -> Vec<&str> {
            let all = self.evidence.iter().zip(&self.it.inputs);
            all.filter(|(s, _)| **s == what).map(|(_, i)| &*i.name).collect()
        };
        for (what, words) in [
            (Evidence::Differs, "differ between ranks, so they are parts"),
            (Evidence::Alone, "exist on one rank only"),
            (Evidence::Same, "are the same on all ranks, so they are whole"),
            (Evidence::Uniform, "have one value everywhere"),
            (Evidence::Nothing, "have no data, so their placement is open"),
        ] {
            let list = of(what);
            if !list.is_empty() {
                d = d.note(format!("inputs that over {} {words}: {}", self.name(), list.join(", ")));
            }
        }
        d
    }
}

//! Local programs: parts, and collectives on a rank's own values.
//!
//! This module determines the ranks of each part, rejects placements in the types of a rank, and
//! tracks that the result of a collective is pending until `wait`. [`super::groups`] determines the
//! axes of each group of ranks, and [`super::program`] lowers the operations of a part. `infer`
//! checks that the collectives of the parts match.

use super::Cx;
use super::arguments::{Arguments, cannot, count_args, missing};
use super::collective::averages;
use super::groups::{Scope, groups, neighbours, shown};
use super::program::{LoweredProgram, lower_in};
use super::state::{KnownValue, Lowering, Value};
use super::tensor::function;
use super::values::ParamValue;
use crate::ast::{Call, LocalDecl, Named, OptionValue, ProgramDecl, RanksPart, Type};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::graph::{CollKind, Collective, Holding, OpId, OpKind};
use kbc_ir::local::{Groups, Local, LocalPart, result_sizes};
use kbc_ir::scalar::{Scalar, ScalarBin};
use kbc_ir::types::Axis;
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use kbc_rounds::eval::unknown;
use std::collections::BTreeMap;

/// A local program, its warnings, and the sizes and numbers for which it was lowered and which are
/// not parameters.
pub(super) type LoweredLocal = (Local, Diagnostics, Vec<(String, ParamValue)>);

/// Lowers a local program.
///
/// # Errors
/// Returns all its errors, sorted by place.
pub(super) fn lower(cx: &Cx<'_>, decl: &LocalDecl) -> Result<LoweredLocal, Diagnostics> {
    let mut found = Diagnostics::new();
    let mut sizes = vec![];
    over(cx, decl, &mut found);
    let groups = groups(cx, decl, &mut found);
    let mut local = Local { name: Some(Name::from(&decl.name.node)), parts: vec![] };
    let ranks: Vec<Vec<u64>> = decl.parts.iter().map(|p| ranks(cx, p, &mut found)).collect();
    covered(cx, decl, &ranks, &mut found);
    if found.has_errors() {
        return Err(found.finish());
    }
    for (part, ranks) in decl.parts.iter().zip(ranks) {
        plain_types(part, &mut found);
        let program = ProgramDecl {
            name: decl.name.clone(),
            variables: decl.variables.clone(),
            args: part.args.clone(),
            results: part.results.clone(),
            body: part.body.clone(),
            expect: part.expect.clone(),
            head: head(part),
            span: part.span,
            doc: String::new(),
        };
        let scope = Scope { ranks: &ranks, groups: &groups };
        match lower_in(cx, &program, &[], Some(scope)) {
            Ok(LoweredProgram { mut graph, warnings, bound }) => {
                found.extend(warnings);
                sizes.extend(bound);
                // The whole program has the name, not its parts.
                graph.name = None;
                local.parts.push(LocalPart { ranks, graph, span: head(part) });
            }
            Err(d) => found.extend(d),
        }
    }
    if found.has_errors() { Err(found.finish()) } else { Ok((local, found.finish(), sizes)) }
}

/// Returns the source range from the ranks to the types of the results.
fn head(part: &RanksPart) -> Span {
    let first = part.ranks.first().map_or(part.span, |r| r.lo.span);
    part.results.last().map_or(first, |t| first.to(t.span))
}

/// Checks `over (d of dp, t of tp)`: it names the axes of the mesh, in the order of the mesh.
fn over(cx: &Cx<'_>, decl: &LocalDecl, found: &mut Diagnostics) {
    let before = found.list.len();
    let named: Vec<Option<Name>> = decl.axes.iter().map(|(_, axis)| cx.axis(axis, found)).collect();
    if found.list.len() > before {
        return;
    }
    let named: Vec<Name> = named.into_iter().flatten().collect();
    let all: Vec<&Name> = cx.mesh.axes.iter().map(|a| &a.name).collect();
    if !named.iter().eq(all.iter().copied()) {
        let span = decl.axes.iter().fold(decl.name.span, |s, a| s.to(a.1.span));
        let form: Vec<String> =
            all.iter().map(|a| format!("{} of {a}", a.chars().next().unwrap_or('r'))).collect();
        found.push(
            Diagnostic::error(
                "E540",
                "a local program must name all axes of the mesh, in the order of the mesh",
            )
            .primary(span, "these are not all axes of the mesh in its order")
            .help(format!("write over ({})", form.join(", "))),
        );
    }
    for (i, (coord, _)) in decl.axes.iter().enumerate() {
        if let Some((first, _)) = decl.axes[..i].iter().find(|a| a.0.node == coord.node) {
            found.push(
                Diagnostic::error("E004", format!("`{}` is declared twice", coord.node))
                    .primary(coord.span, "again here")
                    .secondary(first.span, "first here"),
            );
        }
    }
}

/// Returns the ranks of a part in ascending order.
fn ranks(cx: &Cx<'_>, part: &RanksPart, found: &mut Diagnostics) -> Vec<u64> {
    let all = cx.mesh.ranks();
    let mut out = vec![];
    for range in &part.ranks {
        let bounds = (cx.count(&range.lo, "a rank", found), cx.count(&range.hi, "a rank", found));
        let (Some(lo), Some(hi)) = bounds else { continue };
        let span = range.lo.span.to(range.hi.span);
        if hi > all || lo >= hi {
            let d = Diagnostic::error("E540", format!("`{lo}..{hi}` is not a valid range of ranks"));
            found.push(d.primary(span, format!("the mesh has ranks 0..{all}, and a range excludes its end")));
            continue;
        }
        out.extend(lo..hi);
    }
    out.sort_unstable();
    if let Some(w) = out.windows(2).find(|w| w[0] == w[1]) {
        let d = Diagnostic::error("E540", format!("rank {} is named twice", w[0]));
        found.push(d.primary(head(part), "in this part"));
        out.dedup();
    }
    out
}

/// Checks that every rank is in exactly one part.
fn covered(cx: &Cx<'_>, decl: &LocalDecl, ranks: &[Vec<u64>], found: &mut Diagnostics) {
    if found.has_errors() {
        return;
    }
    let mut part_of: BTreeMap<u64, usize> = BTreeMap::new();
    for (i, list) in ranks.iter().enumerate() {
        for r in list {
            if let Some(first) = part_of.insert(*r, i) {
                found.push(
                    Diagnostic::error("E540", format!("rank {r} is in two parts"))
                        .primary(head(&decl.parts[i]), "again here")
                        .secondary(head(&decl.parts[first]), "first here"),
                );
                return;
            }
        }
    }
    if let Some(r) = (0..cx.mesh.ranks()).find(|r| !part_of.contains_key(r)) {
        let all = cx.mesh.ranks();
        found.push(
            Diagnostic::error("E540", format!("rank {r} has no program"))
                .primary(decl.name.span, format!("the mesh has ranks 0..{all}"))
                .help(format!("write a part `ranks {r}..{} (..) -> .. {{ .. }}`", r + 1)),
        );
    }
}

/// Checks that the types of a rank have no placement.
fn plain_types(part: &RanksPart, found: &mut Diagnostics) {
    let lets = part.body.lets().into_iter().filter_map(|l| l.ty.as_ref());
    let types = part.args.iter().map(|a| &a.ty).chain(&part.results).chain(lets);
    for ty in types {
        let cut = ty.dims.iter().find_map(|d| d.cut.as_ref()).map(|c| c.span);
        if let Some(span) = cut.or_else(|| ty.places.first().map(|p| p.span)) {
            found.push(
                Diagnostic::error("E540", "a type in a local program has a placement")
                    .primary(
                        span,
                        "a type in a local program states the sizes on one rank, so it has no placement",
                    )
                    .help(format!("write the sizes on one rank: {}", without(ty))),
            );
        }
    }
}

/// Formats a type without its placement. Sizes that are neither numbers nor names are shown as
/// `..`.
fn without(ty: &Type) -> String {
    let size = |e: &Expr| match &e.kind {
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Name(n) => n.clone(),
        _ => "..".into(),
    };
    let dims: Vec<String> = ty.dims.iter().map(|d| size(&d.size)).collect();
    format!("{}[{}]", ty.dtype.node, dims.join(", "))
}

impl Lowering<'_> {
    /// Lowers a call that has a special meaning in a part of a local program. Returns None if the
    /// call means the same as everywhere else.
    pub(super) fn local_call(&mut self, call: &Call, span: Span) -> Option<Option<Value>> {
        self.local.as_ref()?;
        let word = call.name.node.as_str();
        Some(match CollKind::parse(word) {
            _ if word == "wait" => self.wait(call, span),
            Some(CollKind::Slice) | None => {
                let own = self.cx.library.find_collective(call.name.span.file, word, call.name.span).is_ok();
                if !own && !["shift", "permute", "send_recv"].contains(&word) {
                    return None;
                }
                self.no_local(
                    call,
                    "it moves parts of one global tensor, and a local program has no global tensors",
                );
                None
            }
            Some(kind) if kind.rooted() && !kind.gives(Holding::Whole) => {
                self.no_local(
                    call,
                    "its result differs between the ranks of a group, and one type cannot describe that",
                );
                None
            }
            Some(kind) => self.issue(kind, call, span),
        })
    }

    fn no_local(&mut self, call: &Call, why: &str) {
        self.found.push(
            Diagnostic::error("E548", format!("`{}` is not available in a local program", call.name.node))
                .primary(call.name.span, why)
                .help("local programs support all_reduce, all_gather, reduce_scatter, all_to_all, broadcast and barrier"),
        );
    }

    /// Lowers `wait(x)`.
    fn wait(&mut self, call: &Call, span: Span) -> Option<Value> {
        let sound = Arguments::new(call).finish(&mut self.found);
        let value = call.args.first().and_then(|a| self.expr(a));
        if !count_args(call, 1, Span::NONE, &mut self.found) || !sound {
            return None;
        }
        match value? {
            Value::Pending(id, share) => self.waited(id, share, span),
            _ => {
                self.found.push(
                    Diagnostic::error("E541", "this value is not pending, so there is nothing to wait for")
                        .primary(span, "this is not the result of a collective")
                        .help("remove `wait` and use the value itself"),
                );
                None
            }
        }
    }

    /// Returns the result of a collective once it is complete. For an average, `share` is the
    /// number of ranks.
    fn waited(&mut self, id: OpId, share: Option<u64>, span: Span) -> Option<Value> {
        let name = self.graph.op(id).name.clone();
        let there = self.push(OpKind::Wait, name, &[id], span);
        let Some(ranks) = share else { return Some(there) };
        // An average is a sum, followed by one division of the complete sum.
        let body = Scalar::bin(ScalarBin::Div, Scalar::Arg(0), Scalar::Num(ranks as f64));
        self.map(function("average", 1, body), vec![(there, span)], span)
    }

    /// Lowers a collective. Its result is pending.
    fn issue(&mut self, kind: CollKind, call: &Call, span: Span) -> Option<Value> {
        let mut named = Arguments::new(call);
        let over = named.take("over");
        let axes = self.group_over(call, over);
        let axis = axes.as_ref().map(|axes| self.joined(axes));
        let (operand, red) = self.positional(kind, call);
        let rank = operand.and_then(|x| self.rank_of(x));
        let (mut dim, mut from_dim, mut root) = (Some(None), Some(None), Some(None));
        let mut matrix = Some(None);
        match kind.change() {
            Some((Holding::SplitFrom, _)) => {
                let (from, to) = (named.take("from"), named.take("to"));
                match named.take("counts") {
                    Some(n) => {
                        matrix =
                            axis.as_ref().and_then(|a| self.cx.counts_of(n, a, &mut self.found)).map(Some);
                        for other in [from, to].into_iter().flatten() {
                            self.along_rows(other);
                        }
                        (from_dim, dim) = (Some(Some(0)), Some(Some(0)));
                    }
                    None => {
                        from_dim = self.needed((call, kind, rank), "from", from);
                        dim = self.needed((call, kind, rank), "to", to);
                    }
                }
            }
            Some(_) if kind.blocked() => {
                dim = self.needed((call, kind, rank), "dim", named.take("dim"));
            }
            Some((Holding::Root, _)) => {
                let given = (named.take("from"), named.take("root"));
                root = self.root_of(call, ("from", kind.call()), given, None);
            }
            _ => {}
        }
        let using = match named.take("using") {
            Some(n) => match self.cx.library.find_collective(n.span.file, kind.name(), n.span) {
                Ok(coll) => self.using_of(coll, Some(n)),
                Err(d) => {
                    self.found.push(*d);
                    None
                }
            },
            None => Some(None),
        };
        let fixed_order = self.fixed_order(kind, &mut named);
        let sound = named.finish(&mut self.found);
        let (mut axes, axis) = (axes?, axis?);
        let first = axes.remove(0);
        let collective = Collective {
            kind,
            own: None,
            red: red?,
            axis: first,
            joined: axes,
            dim: dim?,
            from_dim: from_dim?,
            root: root?,
            counts: matrix?,
            using: using?,
            stream: None,
            explicit: true,
            fixed_order: fixed_order?,
        };
        let x: OpId = operand.filter(|_| sound)?;
        let known = self.result_of(&collective, x);
        let Value::Tensor(id) = self.push(OpKind::Collective(collective), self.named_after(call), &[x], span)
        else {
            return None;
        };
        self.known.insert(id, known);
        let share = averages(call).then_some(axis.size);
        if !self.calls.is_empty() {
            // In a called program, the result of a collective is a value at once, as in every
            // `program`.
            return self.waited(id, share, span);
        }
        Some(Value::Pending(id, share))
    }

    /// Returns the element type and sizes of a collective's result, if they are known.
    fn result_of(&self, c: &Collective, operand: OpId) -> KnownValue {
        let (Some(KnownValue::Type(dtype, sizes)), Some(scope)) = (self.known.get(&operand), &self.local)
        else {
            return KnownValue::Nothing;
        };
        let Some(groups) = Groups::over(self.cx.mesh, &c.axes()) else { return KnownValue::Nothing };
        let p = groups.list.first().map_or(1, |g| g.len() as u64);
        let places: Vec<u64> =
            scope.ranks.iter().filter_map(|r| groups.of.get(*r as usize)).map(|g| g.1).collect();
        match result_sizes(c, p, &places, sizes) {
            Ok(sizes) => KnownValue::Type(*dtype, sizes),
            // `infer` reports this error.
            Err(_) => KnownValue::Nothing,
        }
    }

    /// Returns one axis that joins several axes.
    fn joined(&self, axes: &[Name]) -> Axis {
        let size = axes.iter().filter_map(|a| self.cx.mesh.axis(a)).map(|a| a.size).product();
        Axis { name: shown(axes).into(), size, parts: vec![] }
    }

    /// Returns the axes of `over: tp`, `over: (dp, tp)` or `over: g`. Without the argument, this is
    /// the only axis of the mesh.
    fn group_over(&mut self, call: &Call, over: Option<&Named>) -> Option<Vec<Name>> {
        let Some(named) = over else {
            if let [only] = &self.cx.mesh.axes[..] {
                return Some(vec![only.name.clone()]);
            }
            self.found.push(missing(call, "over", "`over:` with one axis, several axes, or a group"));
            return None;
        };
        let names: Vec<Ident> = match &named.value {
            OptionValue::Expr(Expr { kind: ExprKind::Name(n), span }) => vec![Ident::new(n.clone(), *span)],
            OptionValue::Expr(Expr { kind: ExprKind::Tuple(list), .. }) => {
                let name = |e: &Expr| match &e.kind {
                    ExprKind::Name(n) => Some(Ident::new(n.clone(), e.span)),
                    _ => None,
                };
                let names: Option<Vec<Ident>> = list.iter().map(name).collect();
                names.unwrap_or_default()
            }
            _ => vec![],
        };
        let scope = self.local.as_ref()?;
        match &names[..] {
            [] => {
                self.found.push(cannot(named, "a mesh axis, several axes in parentheses, or a group"));
                None
            }
            [one] => {
                if let Some(group) = scope.groups.get(&one.node) {
                    if let Some(r) = scope.ranks.iter().find(|r| !group.ranks.contains(r)) {
                        self.found.push(
                            Diagnostic::error("E546", format!("rank {r} is not in group `{}`", one.node))
                                .primary(one.span, format!("this part also runs on rank {r}"))
                                .secondary(group.span, format!("ranks {:?}", group.ranks))
                                .help(format!(
                                    "write over: {}, which names the corresponding group on every rank",
                                    shown(&group.axes)
                                )),
                        );
                        return None;
                    }
                    return Some(group.axes.clone());
                }
                if self.cx.mesh.axis(&one.node).is_none() && self.cx.locals.get(&one.node).is_none() {
                    let mut valid: Vec<String> =
                        self.cx.mesh.axes.iter().map(|a| a.name.to_string()).collect();
                    valid.extend(scope.groups.keys().cloned());
                    self.found.push(*unknown(
                        "E203",
                        "axis of the mesh or group",
                        &one.node,
                        one.span,
                        &valid,
                    ));
                    return None;
                }
                // In a called program, the name may be an argument.
                self.cx.axis(one, &mut self.found).map(|a| vec![a])
            }
            many => {
                let axes = self.cx.axes(many, &mut self.found)?;
                if !neighbours(&self.cx, &axes) {
                    self.found.push(
                        Diagnostic::error("E546", format!("{} are not adjacent in the mesh", shown(&axes)))
                            .primary(
                                named.span,
                                "a collective over several axes needs adjacent axes, in the order of the mesh",
                            )
                            .help("write one collective per axis, one after another"),
                    );
                    return None;
                }
                Some(axes)
            }
        }
    }
}

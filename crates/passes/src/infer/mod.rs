//! Type inference: determines shape, element type and placement of every value.
//!
//! Types are propagated forward from the inputs, with one rule per operation. If an operand cannot
//! be used in its placement, a `demand` is inserted on that edge: the same value in the placement
//! that the operation needs. `place` later turns demands into collectives.
//!
//! * **Dimensions.** Corresponding dimensions are cut alike. If operands disagree, each operand in
//!   turn is tried as the one that stays, and the choice with the lightest changes is taken. The
//!   weights are those of the table in `reshard.rs`, and include a later reduction of a partial
//!   result. Among equal weights the first operand stays. A replicated operand is sliced, which
//!   needs no communication.
//! * **Contraction.** If the contracted dimension of a matmul is cut, or a dimension that is
//!   reduced, every rank has a part of the sum and the result is `partial`. The two sides of a
//!   matmul must be cut by one rule.
//! * **Partial values** pass through operations that commute with the pending reduction: sums of
//!   such values, scaling by a value that is the same on all ranks, a sum over another dimension.
//!   Any other operation demands the reduced value. So a bias is added once, after the all_reduce,
//!   and not once per rank. A cast also demands the reduced value, because rounding does not
//!   commute with addition. If a later result type or annotation wants the value split, or if the
//!   next value it is added to is split, then it is demanded split (a reduce_scatter). If one user
//!   has asked for the reduced value, later users take it too.
//! * **Shapes.** Transpose, reshape, slice, pad and concat keep the cuts of dimensions that carry
//!   over to the result (`kbc_ir::shape`). A reshape that splits a dimension leaves the cut on the
//!   outermost factor; one that merges dimensions keeps the cut of the outermost. Other dimensions
//!   are gathered before, or their cut is moved to a dimension that carries over, whichever is
//!   lighter. Partial values pass through. A concat keeps them if all its operands are partial
//!   alike, a pad if adding its number on every rank changes nothing (0 for a sum).
//! * **Embedding.** The dimensions of the ids and of a row carry over. If the rows of the table are
//!   split, each rank looks up the rows that it has, and the result is `partial(sum)`.
//! * **Grouped matmuls** keep the cut of rows if every rank has all matrices. If the matrices are
//!   split, the rows are split with them, into parts whose lengths follow from the counts.
//! * **Tile kernels.** The variables of the kernel are its corresponding dimensions
//!   (`kbc_ir::tiles`). If a variable over which the result is a sum is cut, the result is
//!   `partial(sum)`. Partial operands are reduced before.
//! * **Fills** (`iota`, `full`) are replicated, which costs nothing: `place` creates them in the
//!   placement that is wanted.
//! * **Values held by one coordinate** (`only`) stay there if all operands are there. Otherwise
//!   they are demanded on all ranks.
//! * **Collectives that the program contains** must find the placement that they change: an
//!   all_reduce needs a partial value, an all_gather a split one. A collective defined by its
//!   contract (a user-defined one, `shift`, `permute`) works on the parts of the dimension that its
//!   axis splits, which must have equal lengths. If the value is partial or held by one coordinate
//!   over another axis, a demand changes that first. A barrier takes any value and returns it. An
//!   all_to_all with counts needs, on each rank, as many rows of dimension 0 as the rank's row of
//!   the matrix adds up to; the result is cut by the sums of the columns.
//! * **An ask** of a called program becomes a demand. Open dimensions and pending reductions stay
//!   as the value has them, except for the axes that the demanded dimensions use.
//! * **Annotations and result types** are demands. A type without `@` is replicated. A placement
//!   that no sequence of collectives can reach is an error.
//!
//! A row-parallel linear layer: the reduction comes before the bias.
//!
//! ```kir,before
//! kir 1
//! module @row
//! mesh tp 4
//!
//! kernel @add(x, y) = (x + y)
//!
//! graph @row
//! input @h : f32[25, 1536@tp]
//! input @w : f32[1536@tp, 384]
//! input @b : f32[384]
//! result : f32[25, 384]
//!
//! %h = input @h
//! %w = input @w
//! %b = input @b
//! %m = matmul %h, %w
//! %y = map add(%m, %b)
//! %out = output 0 %y
//! ```
//!
//! ```kir,after
//! kir 1
//! module @row
//! mesh tp 4
//! props typed
//! kernel @add(x, y) = (x + y)
//!
//! graph @row
//! input @h : f32[25, 1536@tp]
//! input @w : f32[1536@tp, 384]
//! input @b : f32[384]
//! result : f32[25, 384]
//!
//! %h = input @h : f32[25, 1536@tp]
//! %w = input @w : f32[1536@tp, 384]
//! %b = input @b : f32[384]
//! %m = matmul %h, %w : f32[25, 384] partial(sum@tp)
//! %m_demanded = demand %m : f32[25, 384] want f32[25, 384]
//! %y = map add(%m_demanded, %b) : f32[25, 384]
//! %out = output 0 %y : f32[25, 384]
//! ```
//!
//! **Local programs** are typed in the same way, with each rank's own types, which have no
//! placement. The result of a collective follows from its operand and the size of the group, and
//! the collectives of all parts must match (`kbc_ir::local`).
//!
//! Not done here: choosing collectives (`place`) or algorithms (`select`).

mod check;
mod contract_collectives;
mod counts;
mod grouped;
mod hints;
mod local;
mod partial_demand;
mod rules;
mod shape;
mod site;
mod tiles;

use crate::fresh::FreshNames;
use crate::pass::{Changed, Pass, PassCx, PassInfo, graph_of};
use crate::reshard::{self, ReshardRequest};
use hints::{Hint, hint_of, hints, keeps_dims, requested_partial};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::graph::{CollKind, Collective, Graph, GraphOp, OpId, OpKind};
use kbc_ir::types::{Cut, CutRule, Mesh, TensorType};
use kbc_ir::{Body, Module, Props};
use kbc_rounds::Library;
use rules::{Operand, Outcome};
use site::Site;
use std::collections::{BTreeMap, BTreeSet};

/// The record of `infer`.
pub static INFO: PassInfo = PassInfo {
    name: "infer",
    summary: "shapes, element types and placements of every value; demands where operands cannot be used as they are",
    requires: Props::NONE,
    gives: Props::TYPED,
    breaks: Props::PLACED,
    options: &[],
};

/// The pass `infer`.
pub struct Infer;

impl Pass for Infer {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let mesh = module.mesh.clone();
        check::mesh_is_countable(&mesh)?;
        if let Body::Local(l) = &mut module.body {
            return local::run(l, &mesh, cx.library);
        }
        let graph = graph_of(module, &INFO)?;
        typed(graph, &mesh, cx.library, None)
    }
}

/// Infers the types of a graph, or of a part of a local program with its ranks.
fn typed(
    graph: &mut Graph,
    mesh: &Mesh,
    library: &Library,
    ranks: Option<&[u64]>,
) -> Result<Changed, Diagnostics> {
    let mut typing = Typing {
        fresh: FreshNames::of(graph),
        hints: hints(graph),
        partial: requested_partial(graph),
        graph,
        mesh,
        library,
        ranks,
        found: Diagnostics::new(),
        typed: BTreeSet::new(),
        changed: false,
    };
    typing.run();
    if typing.found.has_errors() { Err(typing.found) } else { Ok(typing.changed.into()) }
}

struct Typing<'m> {
    graph: &'m mut Graph,
    mesh: &'m Mesh,
    library: &'m Library,
    /// In a local program, the ranks of this part.
    ranks: Option<&'m [u64]>,
    found: Diagnostics,
    hints: BTreeMap<OpId, Hint>,
    /// Values that some user asks for before they are reduced.
    partial: BTreeSet<OpId>,
    fresh: FreshNames,
    /// Operations that got their type in this run.
    typed: BTreeSet<OpId>,
    changed: bool,
}

impl Typing<'_> {
    fn run(&mut self) {
        for input in &mut self.graph.inputs {
            if check::type_is_sound(self.mesh, &input.ty, input.span, &mut self.found) {
                self.changed |= rewrite(self.mesh, &mut input.ty);
            }
        }
        for result in &mut self.graph.results {
            // A fault in a result type is reported at the result.
            if check::type_is_sound(self.mesh, result, Span::NONE, &mut Diagnostics::new()) {
                self.changed |= rewrite(self.mesh, result);
            }
        }
        for id in self.graph.order().to_vec() {
            if let Some(want) = &self.graph.op(id).want
                && check::type_is_sound(self.mesh, want, Span::NONE, &mut Diagnostics::new())
            {
                let mut want = want.clone();
                self.changed |= rewrite(self.mesh, &mut want);
                self.graph.op_mut(id).want = Some(want);
            }
            let (faults, outer) = (self.found.list.len(), self.graph.enter(self.graph.within(id)));
            self.operation(id);
            self.graph.enter(outer);
            for d in self.found.list.split_off(faults) {
                // A fault at one location is reported for only one of the calls that contain it.
                let same = |o: &Diagnostic| (o.code, &o.title, o.span()) == (d.code, &d.title, d.span());
                if self.graph.within(id).is_none() || !self.found.list.iter().any(same) {
                    self.found.push(self.graph.with_call_sites(id, d));
                }
            }
        }
    }

    /// Types one operation. Its operands are already typed.
    fn operation(&mut self, id: OpId) {
        self.use_reduced(id);
        let ids = self.graph.operands(id);
        let operands: Vec<Operand> =
            ids.iter().filter_map(|o| self.graph.op(*o).ty.clone().map(|ty| (*o, ty))).collect();
        if let (OpKind::PartialDemand(open), Some(want), [x]) =
            (&self.graph.op(id).kind, &self.graph.op(id).want, &operands[..])
        {
            let want = partial_demand::closed(&x.1, want, open);
            let op = self.graph.op_mut(id);
            (op.kind, op.want) = (OpKind::Demand, Some(want));
            self.changed = true;
        }
        let op = self.graph.op(id).clone();
        let wanted = match op.kind {
            OpKind::Output(i) => op.want.clone().or_else(|| self.graph.results.get(i).cloned()),
            OpKind::Input(_) => None,
            _ => op.want.clone(),
        };
        if let Some(want) = &wanted
            && !check::type_is_sound(self.mesh, want, op.span, &mut self.found)
        {
            return self.set_type(id, None);
        }
        // An operand without a type is a fault that has already been reported.
        let outcome =
            if operands.len() < ids.len() { None } else { self.outcome(id, &op, &operands, wanted) };
        let Some(outcome) = outcome else { return self.set_type(id, None) };
        for (i, ((operand, ty), target)) in operands.iter().zip(&outcome.targets).enumerate() {
            if ty != target {
                self.demand(id, i, *operand, target);
            }
        }
        self.set_type(id, Some(outcome.result.clone()));
        let placed = matches!(
            op.kind,
            OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Output(_) | OpKind::Input(_)
        );
        if let Some(want) = op.want.filter(|_| !placed) {
            self.annotate(id, &outcome.result, want, op.span);
        }
    }

    /// Replaces a partial operand by its reduced form, if another user has demanded that before.
    /// The reduced form exists, and a result that stayed partial would have to be reduced again.
    fn use_reduced(&mut self, id: OpId) {
        if !matches!(
            self.graph.op(id).kind,
            OpKind::Map(_) | OpKind::Matmul { .. } | OpKind::ReduceDim { .. } | OpKind::Shape(_)
        ) {
            return;
        }
        if self.partial.contains(&id) {
            return;
        }
        for (i, operand) in self.graph.operands(id).into_iter().enumerate() {
            let Some(ty) = self.graph.op(operand).ty.clone().filter(|ty| ty.partial.is_some()) else {
                continue;
            };
            let whole = TensorType { partial: None, ..ty };
            let reduced = |u: &OpId| {
                let op = self.graph.op(*u);
                op.kind == OpKind::Demand && self.typed_before(*u, id) && op.want.as_ref() == Some(&whole)
            };
            if let Some(there) = self.graph.users(operand).into_iter().map(|u| u.0).find(reduced) {
                self.graph.set_operand(id, i as u8, there);
                self.changed = true;
            }
        }
    }

    /// Checks whether a demand comes before an operation.
    fn typed_before(&self, demand: OpId, id: OpId) -> bool {
        self.graph.position(demand) < self.graph.position(id)
    }

    fn set_type(&mut self, id: OpId, ty: Option<TensorType>) {
        let op = self.graph.op_mut(id);
        self.changed |= op.ty != ty;
        op.ty = ty;
        self.typed.insert(id);
    }

    fn outcome(
        &mut self,
        id: OpId,
        op: &GraphOp,
        operands: &[Operand],
        wanted: Option<TensorType>,
    ) -> Option<Outcome> {
        match &op.kind {
            OpKind::Input(i) => match self.graph.inputs.get(*i) {
                Some(input) => {
                    let ty = input.ty.clone();
                    // A fault in a declared type has been reported with the inputs.
                    check::type_is_sound(self.mesh, &ty, op.span, &mut Diagnostics::new())
                        .then_some(Outcome { targets: vec![], result: ty })
                }
                None => {
                    self.found.push(
                        Diagnostic::error("E211", format!("%{}: input {i} does not exist", op.name))
                            .primary(op.span, "no such input is declared"),
                    );
                    None
                }
            },
            OpKind::Matmul { accumulate_f32 } => self.matmul(id, op, *accumulate_f32, operands),
            OpKind::Map(f) => self.map(id, op, f, operands),
            // A mean is a sum with one division at the end, by the full count. It is partial as the
            // sum is.
            OpKind::ReduceDim { op: red, mean: _, dim, keep } => {
                self.reduce_dim(id, op, (*red, *dim, *keep), operands)
            }
            OpKind::Cast(to) => self.cast(id, op, *to, operands),
            OpKind::Embedding => self.embedding(id, op, operands),
            OpKind::Fill(f) => self.fill(op, f),
            OpKind::Grouped(runs) => self.grouped(id, op, runs, operands),
            OpKind::Tiles(kernel) => self.tiles(id, op, kernel, operands),
            OpKind::Shape(s) => self.shape(id, op, s, operands),
            OpKind::Collective(c) => match self.ranks {
                Some(ranks) => self.issued(op, c, ranks, operands),
                None => self.collective(id, op, c, operands),
            },
            OpKind::Wait => match operands {
                [x] => Some(Outcome { targets: vec![x.1.clone()], result: x.1.clone() }),
                _ => {
                    self.malformed(op, 1, operands.len());
                    None
                }
            },
            OpKind::Host(host) => {
                if operands.len() != host.arity() {
                    self.malformed(op, host.arity(), operands.len());
                    return None;
                }
                // The value is brought to the placement of the buffer that it is written to.
                let place = operands[0].1.clone();
                if let Some(from) = operands.get(1) {
                    self.reachable(from, &place, op.span)?;
                }
                Some(Outcome { targets: vec![place.clone(); operands.len()], result: place })
            }
            OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Output(_) => {
                let ([x], Some(want)) = (operands, wanted) else {
                    self.malformed(op, 1, operands.len());
                    return None;
                };
                self.reachable(x, &want, op.span)?;
                let target = if matches!(op.kind, OpKind::Output(_)) { want.clone() } else { x.1.clone() };
                Some(Outcome { targets: vec![target], result: want })
            }
        }
    }

    /// Types a collective of the program: its operand must have the placement that the collective
    /// changes.
    fn collective(
        &mut self,
        id: OpId,
        op: &GraphOp,
        c: &Collective,
        operands: &[Operand],
    ) -> Option<Outcome> {
        let [x] = operands else {
            self.malformed(op, 1, operands.len());
            return None;
        };
        if self.mesh.axis(&c.axis).is_none() {
            self.found.push(check::unknown_axis(
                self.mesh,
                &c.axis,
                &format!("{} over {}", c.name(), c.axis),
                op.span,
            ));
            return None;
        }
        match c.kind {
            CollKind::ByContract => return self.own(id, op, c, operands),
            CollKind::Barrier => return self.barrier(op, operands),
            _ => {}
        }
        if let (CollKind::Slice, Some(using)) = (c.kind, &c.using) {
            self.found.push(
                Diagnostic::error(
                    "E212",
                    format!("`using: {}` has no effect on a slice, which does not communicate", using.alg),
                )
                .primary(
                    if using.span.is_none() { op.span } else { using.span },
                    "a slice needs no algorithm",
                )
                .help("remove `using:`"),
            );
            return None;
        }
        if let Some(d) = [c.dim, c.from_dim].into_iter().flatten().find(|d| *d >= x.1.dims.len()) {
            self.found.push(rules::no_dimension(op, d, &x.1));
            return None;
        }
        if let Some(counts) = &c.counts {
            return self.counted(op, c, counts, x);
        }
        let rule = self.cut_rule_wanted(id, &c.axis, c.dim.map(|d| x.1.dims[d].size));
        let ask = ReshardRequest {
            kind: c.kind,
            red: c.red,
            axis: &c.axis,
            dim: c.dim,
            from_dim: c.from_dim,
            root: c.root,
            rule: &rule,
        };
        match reshard::apply(self.mesh, &x.1, ask) {
            Ok(step) => {
                // Fields that the program leaves open follow from the operand.
                let done = Collective {
                    red: step.red,
                    dim: step.dim,
                    from_dim: step.from_dim,
                    root: step.root,
                    ..c.clone()
                };
                if done != *c {
                    self.graph.op_mut(id).kind = OpKind::Collective(done);
                    self.changed = true;
                }
                Some(Outcome {
                    targets: vec![x.1.clone()],
                    result: check::canonical(self.mesh, &step.result),
                })
            }
            Err(why) => {
                let name = c.kind.name();
                self.found.push(
                    Diagnostic::error(
                        "E208",
                        format!("{name} over `{}` of `{}` is not possible: {}", c.axis, x.1, why.reason),
                    )
                    .primary(op.span, format!("{name} is not possible here"))
                    .secondary(self.graph.op(x.0).span, format!("this is `{}`", x.1))
                    .help(why.fix),
                );
                None
            }
        }
    }

    /// Checks whether a value can be given that type.
    fn reachable(&mut self, x: &Operand, want: &TensorType, requested: Span) -> Option<()> {
        let value = self.graph.op(x.0).span;
        if let Some(d) = rules::not_that_tensor(&x.1, value, want, requested) {
            self.found.push(d);
            return None;
        }
        if reshard::plan(self.mesh, &x.1, want).is_some() {
            return Some(());
        }
        let help = match (&want.partial, &want.only) {
            (Some((op, _)), _) if x.1.partial.as_ref().is_some_and(|p| p.0 != *op) => {
                "the pending reduction cannot be replaced by another one; remove `partial`, or write the same reduction".into()
            }
            (Some((op, axes)), _) if !reshard::same_partial(&x.1, want) => {
                let axis = axes.iter().find(|a| !reshard::partial_over(&x.1, a)).map_or("", |a| a.as_str());
                format!(
                    "no {op} is pending over `{axis}`: only a {op} over a split dimension gives a partial value; remove `partial`"
                )
            }
            (_, Some((c, axis))) => match &x.1.only {
                Some((d, other)) => format!("coordinate {d} of `{other}` holds the value, and no collective moves it to a single other coordinate"),
                None => format!(
                    "every coordinate of `{axis}` holds the value; remove `only({c}@{axis})`"
                ),
            },
            _ => "no sequence of collectives leads from one placement to the other".into(),
        };
        self.found.push(
            Diagnostic::error("E209", format!("`{}` cannot become `{want}`", x.1))
                .primary(requested, format!("expected `{want}`"))
                .secondary(value, format!("this is `{}`", x.1))
                .help(help),
        );
        None
    }

    /// Inserts a demand on the edge to operand `index` of `user`.
    fn demand(&mut self, user: OpId, index: usize, operand: OpId, want: &TensorType) {
        let met = |id: OpId| {
            let op = self.graph.op(id);
            op.kind == OpKind::Demand && op.name.contains(DEMANDED) && op.want.as_ref() == Some(want)
        };
        // Demands named by annotations are not shared.
        if let Some((id, _)) = self.graph.users(operand).into_iter().find(|u| met(u.0))
            && self.graph.position(id) < self.graph.position(user)
        {
            self.graph.set_operand(user, index as u8, id);
            self.changed = true;
            return;
        }
        let value = self.graph.op(operand);
        let (hint, span) = (format!("{}{DEMANDED}", value.name), value.span);
        let name = self.fresh.name(&hint);
        let op =
            GraphOp { kind: OpKind::Demand, name, ty: Some(want.clone()), want: Some(want.clone()), span };
        let at = self.graph.position(user);
        let id = self.graph.insert(at, op, &[operand]);
        self.graph.set_operand(user, index as u8, id);
        self.changed = true;
    }

    /// Inserts a demand after a value whose annotation asks for another placement.
    fn annotate(&mut self, id: OpId, ty: &TensorType, want: TensorType, span: Span) {
        if self.reachable(&(id, ty.clone()), &want, span).is_none() {
            return self.set_type(id, None);
        }
        let users = self.graph.users(id);
        let satisfied = |user: OpId| {
            let op = self.graph.op(user);
            op.kind == OpKind::Demand && op.want.as_ref() == Some(&want)
        };
        if *ty == want || users.iter().all(|u| satisfied(u.0)) {
            return;
        }
        let hint = format!("{}{DEMANDED}", self.graph.op(id).name);
        let name = self.fresh.name(&hint);
        let op = GraphOp { kind: OpKind::Demand, name, ty: Some(want.clone()), want: Some(want), span };
        let at = self.graph.position(id) + 1;
        let demand = self.graph.insert(at, op, &[id]);
        for (user, index) in users {
            self.graph.set_operand(user, index, demand);
        }
        self.changed = true;
    }

    /// Returns the cuts that later operations want for the labels of a result.
    fn hint_for(&self, id: OpId, site: &Site, result: &TensorType) -> Vec<(usize, Cut)> {
        let n = result.dims.len();
        // Cuts of existing values take precedence over cuts that are asked for later, because the
        // existing values would have to be changed or gathered.
        let met = self.met(id);
        let requested = self.hints.get(&id).filter(|_| met.is_empty());
        let hint = requested.cloned().unwrap_or(met);
        hint.iter()
            .filter(|(from_right, size, _)| *from_right < n && result.dims[n - 1 - from_right].size == *size)
            .filter_map(|(from_right, _, cut)| {
                site.result[n - 1 - from_right].map(|label| (label, cut.clone()))
            })
            .collect()
    }

    /// Returns the cuts of the next values that a value meets in elementwise operations, if each
    /// step has a single user.
    fn met(&self, id: OpId) -> Hint {
        let mut at = id;
        for _ in 0..MET {
            let users = self.graph.users(at);
            let [(user, _)] = users[..] else { return vec![] };
            if !keeps_dims(&self.graph.op(user).kind) {
                return vec![];
            }
            let others = self.graph.operands(user).into_iter().filter(|o| self.typed.contains(o));
            let mut cuts = others.filter_map(|o| self.graph.op(o).ty.as_ref()).map(hint_of);
            if let Some(hint) = cuts.find(|h| !h.is_empty()) {
                return hint;
            }
            at = user;
        }
        vec![]
    }

    /// Returns the rule by which later operations want a dimension of that size cut over an axis,
    /// or the even rule if they state none.
    fn cut_rule_wanted(&self, id: OpId, axis: &str, size: Option<u64>) -> CutRule {
        let hint = self.hints.get(&id).into_iter().flatten();
        let found = hint.map(|h| &h.2).find(|c| c.axes.iter().any(|a| *a == *axis)).map(|c| &c.rule);
        match found {
            // Given lengths apply to one dimension only.
            Some(CutRule::Lengths(parts)) if size != Some(parts.total(0)) => CutRule::Even,
            Some(rule) => rule.clone(),
            None => CutRule::Even,
        }
    }
}

/// Largest number of operations through which a value is followed to the values that it meets.
/// Values further away do not influence a cut.
const MET: usize = 64;

/// Brings a sound type into canonical form. Returns whether that changed it.
fn rewrite(mesh: &Mesh, ty: &mut TensorType) -> bool {
    let form = check::canonical(mesh, ty);
    let changed = form != *ty;
    *ty = form;
    changed
}

/// Suffix of the name of a demand that no annotation named. `place` gives the collective a
/// descriptive name instead.
pub const DEMANDED: &str = "_demanded";

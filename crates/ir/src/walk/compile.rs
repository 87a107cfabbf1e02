//! Name resolution for the walk: schedules in which variables are slots of an environment, and
//! tables and events are numbers.

use super::Fault;
use super::compiled::{
    COp, CRanks, CRegion, CRole, CStmt, Length, LocalNumber, Program, Scope, Shared, intern,
};
use super::resolving::Resolving;
use super::written::{Written, may_wait};
use crate::expr::EvalError;
use crate::host;
use crate::name::Name;
use crate::ready::ReadyExpression;
use crate::resolved::Resolved;
use crate::schedule::*;
use crate::types::Mesh;
use kbc_diag::{Diagnostic, Span};
use std::sync::OnceLock;

/// Maximum number of ranks whose numbers of elements are kept for a buffer.
const RANKS_IN_LISTS: u64 = 4096;

/// Returns the names of the streams of a schedule, in the order in which the walk numbers them.
/// Number 0 is always `main`.
pub fn stream_names(schedule: &Schedule) -> Vec<Name> {
    let mut names = vec![MAIN.into()];
    for stream in schedule.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams) {
        intern(&mut names, &stream.name);
    }
    if schedule.host.is_some() {
        intern(&mut names, &host::HOST.into());
    }
    names
}

impl<'s> Program<'s> {
    /// Resolves all names of a schedule.
    ///
    /// # Errors
    /// Returns E301 for a name without a value, or for a region whose axes do not match its
    /// coordinates. Returns E330 for an operation of the host outside its program, or for a host's
    /// program that [`host::with_host_region`] has not spelled out.
    pub fn compile(schedule: &'s Schedule) -> Result<Self, Diagnostic> {
        let mut scope =
            Scope { names: vec![], deepest: 0, tables: &schedule.tables, region: schedule.name.clone() };
        scope.bind(&CALL.into());
        for a in &schedule.mesh.axes {
            scope.bind(&a.name);
        }
        let mesh_slots = scope.names.len();
        let dims = schedule
            .buffers
            .iter()
            .map(|b| b.dims.iter().map(|e| scope.expr(e, b.span)).collect())
            .collect::<Result<Vec<Vec<_>>, _>>()?;
        let mut shared = Shared { streams: stream_names(schedule), ..Shared::default() };
        let (mut regions, mut scopes) = (vec![], vec![]);
        for r in &schedule.regions {
            scope.region = r.name.clone();
            regions.push(region(schedule, r, &mut scope, &mut shared)?);
            scopes.push(scope.clone());
            scope.names.truncate(mesh_slots);
        }
        let mut counter_base = vec![0u32];
        for s in &schedule.signals {
            counter_base.push(counter_base.last().copied().unwrap_or(0) + s.count as u32);
        }
        let mut queue_base = vec![0u32];
        for q in &schedule.queues {
            queue_base.push(queue_base.last().copied().unwrap_or(0).saturating_add(q.count as u32));
        }
        if let Some(h) = schedule.host.as_ref().filter(|_| !host::has_host_region(schedule)) {
            return Err(host::misplaced_host_op(h.span));
        }
        let host = if schedule.host.is_some() { intern(&mut shared.streams, &host::HOST.into()) } else { 0 };
        let lengths = dims.iter().map(|d| length(d)).collect();
        Ok(Program {
            lengths,
            has_forms: schedule.signals.iter().any(|s| s.form != Form::Epoch),
            control_repeats: regions.iter().flat_map(|r| &r.roles).all(CRole::control_repeats),
            schedule,
            regions,
            streams: shared.streams,
            host,
            events: shared.events,
            env_len: scope.deepest,
            mesh_slots,
            scopes,
            locals: shared.locals,
            counter_base,
            queue_base,
            ops: shared.ops,
            dims,
        })
    }

    /// Returns the resolved form of an operation of a [`Written`] in a region.
    pub fn resolved(&self, region: usize, op: &SOp) -> COp {
        let (scope, shared) = (&self.scopes[region], &mut Shared::default());
        match op.translate(&mut Resolving { scope, shared, span: Span::NONE }) {
            Ok(op) => op,
            Err(_) => unreachable!("compilation has resolved the names of written operations"),
        }
    }

    /// Returns a local operation.
    pub fn local(&self, number: LocalNumber) -> &'s LocalOp {
        self.locals[number.0 as usize]
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u64 {
        self.schedule.mesh.ranks()
    }

    /// Returns the number of counters on each rank.
    pub fn counters(&self) -> u32 {
        self.counter_base.last().copied().unwrap_or(0)
    }

    /// Returns the form of a counter.
    pub fn form(&self, counter: u32) -> Form {
        if !self.has_forms {
            return Form::Epoch;
        }
        let (signal, _) = self.counter_name(counter);
        self.schedule.signals.get(signal.0 as usize).map_or(Form::Epoch, |s| s.form)
    }

    /// Checks whether some counter has a form other than epoch.
    pub fn has_forms(&self) -> bool {
        self.has_forms
    }

    /// Checks whether a stream of a rank does the same operations in every call: no guard and no
    /// bound of a loop depends on the call.
    pub fn control_repeats(&self) -> bool {
        self.control_repeats
    }

    /// Returns the signal array and the index in it of a counter.
    pub fn counter_name(&self, counter: u32) -> (SignalId, u32) {
        let i = self.counter_base.partition_point(|b| *b <= counter).saturating_sub(1);
        (SignalId(i as u32), counter - self.counter_base[i])
    }

    /// Returns the queue array and the index in it of a queue.
    pub fn queue_name(&self, queue: u32) -> (QueueId, u32) {
        let i = self.queue_base.partition_point(|b| *b <= queue).saturating_sub(1);
        (QueueId(i as u32), queue - self.queue_base[i])
    }

    /// Returns the number of slots of a queue.
    pub fn depth(&self, queue: u32) -> u64 {
        self.schedule.queue(self.queue_name(queue).0).depth
    }

    /// Returns a queue as diagnostics print it.
    pub fn show_queue(&self, queue: u32) -> String {
        let (id, index) = self.queue_name(queue);
        format!("@{}[{index}]", self.schedule.queue(id).name)
    }

    /// Returns the local sizes of a buffer on a rank.
    pub fn dims(&self, buffer: BufferId, rank: u64) -> Result<Vec<u64>, Fault> {
        let env = self.mesh_env(rank);
        let b = self.schedule.buffer(buffer);
        self.dims[buffer.0 as usize]
            .iter()
            .map(|d| {
                let v = self
                    .eval(d, &env)
                    .map_err(|e| self.fault("E302", e.to_string(), b.span, rank, &b.name))?;
                u64::try_from(v).map_err(|_| {
                    self.fault(
                        "E302",
                        format!("{} has a dimension of {v} elements", b.name),
                        b.span,
                        rank,
                        &b.name,
                    )
                })
            })
            .collect()
    }

    /// Returns the number of elements of a buffer on a rank.
    pub fn elements(&self, buffer: BufferId, rank: u64) -> Result<u64, Fault> {
        let computed = |rank| Ok(self.dims(buffer, rank)?.iter().product());
        match &self.lengths[buffer.0 as usize] {
            Length::Fixed(n) => Ok(*n),
            Length::ByRank(list) => {
                let ranks = 0..self.ranks();
                let all = || match ranks.end <= RANKS_IN_LISTS {
                    true => ranks.map(computed).collect::<Result<_, Fault>>().unwrap_or_default(),
                    false => vec![],
                };
                list.get_or_init(all).get(rank as usize).map_or_else(|| computed(rank), |n| Ok(*n))
            }
        }
    }

    pub(super) fn fault(
        &self,
        code: &'static str,
        text: String,
        span: Span,
        rank: u64,
        region: &Name,
    ) -> Fault {
        Fault { code, text, span, rank, region: region.clone() }
    }

    /// Returns an environment with the mesh coordinates of a rank and call 0.
    pub fn mesh_env(&self, rank: u64) -> Vec<i64> {
        let mut env = vec![0; self.env_len.max(self.mesh_slots)];
        for (i, c) in self.schedule.mesh.coords(rank).into_iter().enumerate() {
            env[i + 1] = c;
        }
        env
    }

    /// Evaluates an expression.
    pub fn eval(&self, e: &Resolved, env: &[i64]) -> Result<i64, EvalError> {
        e.value(env, &|t, i| self.entry(t, i))
    }

    /// Evaluates a ready expression.
    pub(super) fn eval_ready(&self, e: &ReadyExpression, env: &[i64]) -> Result<i64, EvalError> {
        e.value(env, &|t, i| self.entry(t, i))
    }

    /// Returns an entry of a table.
    pub(super) fn entry(&self, table: u32, index: i64) -> Result<i64, EvalError> {
        let table = &self.schedule.tables[table as usize];
        let entry = usize::try_from(index).ok().and_then(|i| table.values.get(i).copied());
        entry.ok_or_else(|| EvalError::Table(table.name.clone(), index))
    }

    /// Returns the linear index of a rank in its group, for a region.
    pub fn group_index(&self, region: RegionId, rank: u64) -> u64 {
        self.regions[region.0 as usize].axes.iter().map(|(size, stride, g)| (rank / stride % size) * g).sum()
    }

    /// Returns the rank with this linear index in the group of `rank`.
    pub fn group_rank(&self, region: RegionId, rank: u64, index: u64) -> u64 {
        let mut out = rank;
        for (size, stride, g) in &self.regions[region.0 as usize].axes {
            let own = rank / stride % size;
            let new = index / g % size;
            out = out - own * stride + new * stride;
        }
        out
    }
}

fn length(dims: &[Resolved]) -> Length {
    let fixed = dims.iter().try_fold(1u64, |n, d| match d {
        Resolved::Int(v) => n.checked_mul(u64::try_from(*v).ok()?),
        _ => None,
    });
    fixed.map_or(Length::ByRank(OnceLock::new()), Length::Fixed)
}

/// Returns size and strides of the axes that a region runs over (all mesh axes for a local region),
/// fastest first.
fn group_axes(mesh: &Mesh, r: &Region) -> Result<Vec<(u64, u64, u64)>, Diagnostic> {
    let names: Vec<Name> =
        if r.over.is_empty() { mesh.axes.iter().map(|a| a.name.clone()).collect() } else { r.over.clone() };
    let mut out = vec![];
    let mut group_stride = 1;
    for n in names.iter().rev() {
        let Some(i) = mesh.axes.iter().position(|a| a.name == *n) else {
            return Err(Diagnostic::error(
                "E301",
                format!("region {} runs over `{n}`, which is not an axis", r.name),
            )
            .primary(r.span, "here"));
        };
        let stride: u64 = mesh.axes[i + 1..].iter().map(|a| a.size).product();
        out.push((mesh.axes[i].size, stride, group_stride));
        group_stride *= mesh.axes[i].size;
    }
    let coords: u64 = r.coords.iter().map(|c| c.1).product();
    if coords != group_stride {
        return Err(Diagnostic::error(
            "E301",
            format!(
                "the coordinates of region {} name {coords} ranks, and its axes have {group_stride}",
                r.name
            ),
        )
        .primary(r.span, "here"));
    }
    Ok(out)
}

fn region<'s>(
    s: &'s Schedule,
    r: &'s Region,
    scope: &mut Scope<'s>,
    shared: &mut Shared<'s>,
) -> Result<CRegion<'s>, Diagnostic> {
    let axes = group_axes(&s.mesh, r)?;
    let operands = r
        .operands
        .iter()
        .map(|o| {
            let l = &o.line;
            let (extent, unit) = (scope.expr(&l.extent, r.span)?, scope.expr(&l.unit, r.span)?);
            let row = scope.expr(&l.row, r.span)?;
            Ok((o.buffer.0, Line { parts: l.parts, extent, unit, rule: l.rule.clone(), row }))
        })
        .collect::<Result<Vec<_>, Diagnostic>>()?;
    let coords: Vec<(u32, u64)> = r.coords.iter().map(|(n, size)| (scope.bind(n), *size)).collect();
    let mut roles = vec![];
    for role in &r.roles {
        let ranks = match &role.ranks {
            RankSet::All => CRanks::All,
            RankSet::Where(e) => CRanks::Where(scope.expr(e, r.span)?),
            RankSet::List(l) => CRanks::List(l.clone()),
        };
        let mut streams = vec![];
        for st in &role.streams {
            let number = intern(&mut shared.streams, &st.name);
            let once = matches!(role.ranks, RankSet::List(_));
            streams.push((number, body(&st.body, once, scope, shared)?));
        }
        roles.push(CRole { ranks, streams });
    }
    Ok(CRegion { coords, axes, operands, roles })
}

/// Compiles statements. `once` says that few ranks execute them, once per call.
fn body<'s>(
    list: &'s [SStmt],
    once: bool,
    scope: &mut Scope<'s>,
    shared: &mut Shared<'s>,
) -> Result<Vec<CStmt<'s>>, Diagnostic> {
    let mut out = vec![];
    for run in list.chunk_by(|a, b| once && may_wait(a) && may_wait(b)) {
        if once && may_wait(&run[0]) {
            out.push(CStmt::Written(written(run, scope, shared)?));
        } else {
            statements(run, once, scope, shared, &mut out)?;
        }
    }
    out.shrink_to_fit();
    Ok(out)
}

/// Checks that the names of operations exist, and counts the operations.
fn written<'s>(
    list: &'s [SStmt],
    scope: &Scope<'s>,
    shared: &mut Shared<'s>,
) -> Result<Written<'s>, Diagnostic> {
    let run = Written::new(list, shared.ops);
    for (op, span, number) in run {
        let _: COp = op.translate(&mut Resolving { scope, shared: &mut *shared, span })?;
        shared.ops = number + 1;
    }
    Ok(run)
}

fn statements<'s>(
    list: &'s [SStmt],
    once: bool,
    scope: &mut Scope<'s>,
    shared: &mut Shared<'s>,
    out: &mut Vec<CStmt<'s>>,
) -> Result<(), Diagnostic> {
    out.reserve_exact(list.len());
    for st in list {
        out.push(match st {
            SStmt::For { var, lo, hi, body: inner } => {
                let (lo, hi) = (scope.expr(lo, Span::NONE)?, scope.expr(hi, Span::NONE)?);
                let depth = scope.names.len();
                let slot = scope.bind(var);
                let inner = body(inner, false, scope, shared)?;
                scope.names.truncate(depth);
                CStmt::For { slot, lo, hi, body: inner }
            }
            SStmt::If { cond, then, other } => CStmt::If {
                cond: scope.expr(cond, Span::NONE)?.into(),
                then: body(then, once, scope, shared)?,
                other: body(other, once, scope, shared)?,
            },
            SStmt::Op(op, span) => {
                let number = shared.ops;
                shared.ops += 1;
                let mut resolving = Resolving { scope: &*scope, shared: &mut *shared, span: *span };
                CStmt::Op(op.translate(&mut resolving)?, *span, number)
            }
        });
    }
    Ok(())
}

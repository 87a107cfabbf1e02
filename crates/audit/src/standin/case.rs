//! Test cases for emitted kernels: a program emitted for `a2a3`, jobs for the stand-in model, and
//! the expected results.
//!
//! Results must equal the simulator's bit for bit. If a program adds up products or rows, or uses
//! functions without an exact form, results must instead lie within the error bounds of the
//! reference evaluator. A [`Case`] is one kernel, or the tasks of one program, and runs at many
//! rank counts, element counts and numbers of launches.

use super::{Job, Kernel as Text, KernelArg, Orchestration, Outputs, StandinSource};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_compiler::again::rebuild_at;
use kbc_compiler::backends;
use kbc_compiler::build::Built;
use kbc_compiler::data;
use kbc_compiler::emit::sizes::Family;
use kbc_compiler::emit::{self, Emitted};
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::watch::Unwatched;
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::expr::Expr;
use kbc_ir::graph::Graph;
use kbc_ir::name::Name;
use kbc_ir::scalar::Scalar;
use kbc_ir::schedule::{BufferRole, LocalOp, SOp, SStmt, Schedule};
use kbc_ir::types::{DType, Mesh, TensorType};
use kbc_numerics::compare::{Worst, compare};
use kbc_numerics::generate::{ExactRange, exact, normal};
use kbc_numerics::shard::{Part, cut};
use kbc_numerics::tensor::{Data, Tensor};
use kbc_reference::{Accuracy, EvalOptions, RefTensor, evaluate};
use kbc_tiles::args::{ScalarArg, TensorArg, scalars, tables_tensor, tensors};
use kbc_tiles::backend::Target;
use kbc_tiles::family::{self, Instance};
use kbc_tiles::layout;
use kbc_tiles::lower::{Shares, Staging};
use kbc_tiles::package::{KernelText, Source as Printed};
use kbc_tiles::tile::tasks;
use kbc_tiles::tile::{COUNT, Core, Kernel, NRANKS, Op, RANK, ROOT, path};

/// The target whose kernels the model runs.
pub const TARGET: &str = "a2a3";

/// A program's kernel.
pub struct Case {
    workspace: Workspace,
    from: KernelOrigin,
    /// The target of the kernel.
    pub target: &'static dyn Target,
    /// The complete kernel.
    pub kernel: Kernel,
    /// C++ text of the only kernel, or of all tasks one after another.
    pub text: String,
    /// C++ source of each task.
    pub sources: Vec<Printed>,
    /// The root of launches, if the kernel takes one: the program's own, unless it is set.
    pub root: Option<u64>,
    /// Text and function names of the orchestration, if the kernel is a program of tasks.
    orchestration: Option<[String; 3]>,
}

/// The origin of a kernel.
enum KernelOrigin {
    /// A program, which can be compiled at other sizes.
    Program(Box<(Built, Family)>),
    /// A schedule, which has one size.
    Schedule(Box<Schedule>),
}

/// One size of a case, with the simulator's results.
pub struct Sized {
    /// Number of ranks.
    pub ranks: u64,
    /// Value of the parameter that sets the sizes of data; 0 if there is none.
    pub count: u64,
    /// The job to run.
    pub job: Job,
    /// The simulator's results, in the form of the job's outputs without status lines.
    pub expected: Outputs,
    near: Option<BoundedResults>,
}

/// Results of the reference evaluator, if results are compared within bounds.
struct BoundedResults {
    types: Vec<TensorType>,
    mesh: Mesh,
    /// References by call.
    references: Vec<Vec<RefTensor>>,
    /// The simulator's results by call, rank and result.
    parts: Vec<Vec<Vec<Part>>>,
}

/// Numbers of compared elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// Elements that had to equal the simulator's bits.
    pub exact: u64,
    /// Elements that had to be within the evaluator's bound.
    pub near: u64,
    /// The part of `near` for which the evaluator has no bound.
    pub unbounded: u64,
}

impl Compared {
    /// Adds the numbers of another comparison.
    pub fn add(&mut self, other: Compared) {
        self.exact += other.exact;
        self.near += other.near;
        self.unbounded += other.unbounded;
    }
}

/// Inputs of a schedule in a call, in the order of the program's inputs.
pub type Feed<'f> = &'f dyn Fn(&Schedule, u32) -> Vec<Tensor>;

/// Formats diagnostics briefly.
pub fn words(d: &Diagnostics) -> String {
    d.list.iter().map(|d| format!("{} {} {:?}\n", d.code, d.title, d.notes)).collect()
}

fn failed(f: Failure) -> String {
    words(&f.into_parts().0)
}

impl Case {
    /// Emits a program that the default pipeline compiled.
    ///
    /// # Errors
    /// Returns the errors of the target, of lowering, of a pass, of the tile level's verifier or of
    /// the printer.
    pub fn emit(workspace: Workspace, built: Built) -> Outcome<Case> {
        Self::emit_for(workspace, built, backends::find(TARGET)?)
    }

    /// Emits a program that the default pipeline compiled, for a target that differs from
    /// [`TARGET`] in the numbers of its cores alone.
    ///
    /// # Errors
    /// Returns the same errors as [`Case::emit`].
    pub fn emit_for(mut workspace: Workspace, built: Built, target: &'static dyn Target) -> Outcome<Case> {
        let none = || Diagnostic::error("E901", "the pipeline made no schedule");
        let schedule = built.module.schedule().ok_or_else(none)?.clone();
        let emitted = emit::for_profile(&mut workspace, &built, &schedule, target, &mut Unwatched)?;
        let Emitted { family, kernel, profile } = emitted;
        Ok(Self::of(workspace, KernelOrigin::Program(Box::new((built, family))), kernel, profile)?)
    }

    /// Emits a schedule without changing it.
    ///
    /// # Errors
    /// Returns the same errors as [`Case::emit`].
    pub fn of_schedule(workspace: Workspace, schedule: &Schedule) -> Outcome<Case> {
        let profile = backends::find(TARGET)?;
        let kernel = profile.lower(schedule, Staging::Rows, &|_| None, &mut Shares::default())?;
        let kernel = family::single(&Instance { ranks: schedule.mesh.ranks(), count: 0, kernel });
        let kernel = emit::complete(&kernel, profile, &mut Unwatched)?;
        Ok(Self::of(workspace, KernelOrigin::Schedule(Box::new(schedule.clone())), kernel, profile)?)
    }

    fn of(
        workspace: Workspace,
        from: KernelOrigin,
        kernel: Kernel,
        target: &'static dyn Target,
    ) -> Result<Case, Diagnostics> {
        let what = KernelText { source: "case.kb".into(), notes: vec![] };
        let sources = target.sources(&kernel, &what)?;
        let text = sources.iter().map(|s| s.text.clone()).collect::<Vec<_>>().join("\n");
        let orchestration = target.orchestration(&kernel, &sources);
        let root = kernel.root;
        Ok(Case { workspace, from, target, kernel, text, sources, root, orchestration })
    }

    /// Returns the workspace in which the case was made.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Returns the source to compile, with its orchestration if it is a program of tasks.
    pub fn source(&self) -> StandinSource<'_> {
        let kernels =
            self.sources.iter().map(|s| Text { text: &s.text, cube: s.core == Core::Matrix }).collect();
        let orchestration =
            self.orchestration.as_ref().map(|[text, config, run]| Orchestration { text, config, run });
        StandinSource { kernels, orchestration }
    }

    /// Returns the rank counts that the kernel serves.
    pub fn ranks(&self) -> Vec<u64> {
        match &self.from {
            KernelOrigin::Program(p) => p.1.ranks.clone(),
            KernelOrigin::Schedule(s) => vec![s.mesh.ranks()],
        }
    }

    /// Returns the number of ranks and the count that the program itself states.
    pub fn own(&self) -> (u64, u64) {
        match &self.from {
            KernelOrigin::Schedule(s) => (s.mesh.ranks(), 0),
            KernelOrigin::Program(p) => {
                let count = p.1.count.as_ref().and_then(|n| p.0.number(n)).unwrap_or(0);
                (p.0.module.mesh.ranks(), count)
            }
        }
    }

    /// Checks whether the kernel serves any count.
    pub fn counts(&self) -> bool {
        matches!(&self.from, KernelOrigin::Program(p) if p.1.count.is_some())
    }

    /// Returns the schedule at a size and, for a program, the graph with types.
    fn schedule(&mut self, ranks: u64, count: u64) -> Result<(Schedule, Option<Graph>), String> {
        if !self.ranks().contains(&ranks) {
            return Err(format!("{ranks} ranks are not claimed: {:?}", self.ranks()));
        }
        match &self.from {
            KernelOrigin::Schedule(s) => Ok(((**s).clone(), None)),
            KernelOrigin::Program(program) => {
                let (built, family) = &**program;
                let line = (ranks != built.module.mesh.ranks()).then(|| {
                    let text = format!("full({ranks})");
                    (text.clone(), self.workspace.add_text("<ranks>", &text))
                });
                let defines: Vec<_> = family.count.iter().map(|n| (n.clone(), count.to_string())).collect();
                let made = rebuild_at(built, line, &defines)
                    .map_err(|d| format!("it does not exist at a claimed size: {}", words(&d)))?;
                Ok((made.schedule, Some(made.typed)))
            }
        }
    }

    /// Returns the case at a size, with generated inputs. If the program adds up in the core's own
    /// order, it uses the program's data. Otherwise floats are normal numbers, so that another
    /// order of additions shows, and integers fill whole words, so that they wrap.
    ///
    /// # Errors
    /// Returns a message if the kernel does not claim this size or the simulator rejects it.
    pub fn at(&mut self, ranks: u64, count: u64, calls: usize) -> Result<Sized, String> {
        let (schedule, typed) = self.schedule(ranks, count)?;
        let inputs: Vec<Vec<Tensor>> = match typed.as_ref().filter(|_| self.adds_up()) {
            None => {
                let of = |c| self.inputs(&schedule, typed.as_ref(), c as u32);
                (0..calls).map(of).collect::<Result<_, _>>()?
            }
            Some(graph) => {
                let fed = data::ProgramInterface {
                    graph,
                    mesh: &schedule.mesh,
                    local: None,
                    files: data::Files::default(),
                };
                data::inputs(&self.workspace, &fed, &Default::default(), calls as u32, 7)
                    .map_err(failed)?
                    .calls
            }
        };
        self.sized(&schedule, typed.as_ref(), (ranks, count), &inputs)
    }

    /// Returns the case at a size with these inputs.
    ///
    /// # Errors
    /// Returns the same errors as [`Case::at`].
    pub fn at_with(
        &mut self,
        (ranks, count): (u64, u64),
        calls: u32,
        feed: Feed<'_>,
    ) -> Result<Sized, String> {
        let (schedule, typed) = self.schedule(ranks, count)?;
        let inputs: Vec<Vec<Tensor>> = (0..calls).map(|c| feed(&schedule, c)).collect();
        self.sized(&schedule, typed.as_ref(), (ranks, count), &inputs)
    }

    /// Checks whether the kernel has sums whose order is the core's own.
    fn adds_up(&self) -> bool {
        let mut found = false;
        for (_, op) in path::ops(&self.kernel) {
            found |= matches!(op, Op::Matmul { .. } | Op::Reduce { .. });
        }
        found
    }

    fn sized(
        &self,
        schedule: &Schedule,
        typed: Option<&Graph>,
        (ranks, count): (u64, u64),
        inputs: &[Vec<Tensor>],
    ) -> Result<Sized, String> {
        let options = RunOptions { calls: inputs.len() as u32, ..RunOptions::default() };
        let result = run(schedule, inputs, &options).map_err(|d| words(&d))?;
        let plain = |p: &Part| p.tensor.data().to_bytes();
        let outputs = &result.outputs;
        let expected =
            outputs.iter().map(|c| c.iter().map(|rank| rank.iter().map(plain).collect()).collect()).collect();
        let near = match typed.filter(|_| self.adds_up() || inexact(schedule, self.target)) {
            None => None,
            Some(graph) => {
                let mut of: Vec<Vec<RefTensor>> = vec![];
                for (c, call) in inputs.iter().enumerate() {
                    // Data from files is the same in every call.
                    let same = (0..c).find(|i| inputs[*i] == *call).map(|i| of[i].clone());
                    let options = EvalOptions { max_parts: ranks, accuracy: Accuracy::Others, terms: false };
                    of.push(match same {
                        Some(same) => same,
                        None => evaluate(graph, call, &options).map_err(|d| words(&d.into()))?,
                    });
                }
                let (types, mesh) = (graph.results.clone(), schedule.mesh.clone());
                Some(BoundedResults { types, mesh, references: of, parts: result.outputs })
            }
        };
        Ok(Sized { ranks, count, job: self.arguments(schedule, inputs, ranks, count)?, expected, near })
    }

    /// Returns the inputs of a call; entry i is global input i.
    fn inputs(&self, schedule: &Schedule, graph: Option<&Graph>, call: u32) -> Result<Vec<Tensor>, String> {
        let mut globals: Vec<_> = schedule
            .buffers
            .iter()
            .filter_map(|b| match (b.role, &b.global) {
                (BufferRole::Input(n), Some(ty)) => Some((n, ty)),
                _ => None,
            })
            .collect();
        globals.sort_by_key(|g| g.0);
        // Sums of products in a schedule have no reference. Small whole numbers are exact in any
        // order.
        let modulus = if self.adds_up() { 7 } else { u32::MAX };
        let range = ExactRange { modulus, centred: true, exact: self.adds_up() };
        globals
            .iter()
            .map(|(n, ty)| {
                // Row numbers. Some exceed the number of rows, unless the evaluator is used, which
                // rejects them.
                let rows = graph.and_then(|g| g.rows_numbered(*n as usize));
                let rows = rows.map(|r| u32::try_from(r).unwrap_or(u32::MAX));
                let more = if inexact(schedule, self.target) { 0 } else { 2 };
                let range = rows.map_or(range, |r| {
                    let modulus = r.saturating_add(more).max(1);
                    ExactRange { modulus, centred: false, exact: true }
                });
                match ty.dtype.is_float() && !self.adds_up() {
                    true => normal(ty, &schedule.mesh, 7 + u64::from(*n), call),
                    false => exact(ty, &schedule.mesh, range, *n, call),
                }
            })
            .map(|t| t.map_err(|d| words(&d.into())))
            .collect()
    }

    /// Returns the place of a rank in a launch ([`Kernel::root`]).
    fn place(&self, rank: u64, ranks: u64) -> u64 {
        match (self.kernel.root, self.root) {
            (Some(own), Some(root)) => (rank + own + ranks - root) % ranks,
            _ => rank,
        }
    }

    fn arguments(
        &self,
        schedule: &Schedule,
        inputs: &[Vec<Tensor>],
        ranks: u64,
        count: u64,
    ) -> Result<Job, String> {
        let kernel = &self.kernel;
        let value = |e: &Expr, rank: u64| -> Result<usize, String> {
            let value = e.eval(&|n: &Name| match n.as_str() {
                NRANKS => Some(ranks as i64),
                COUNT => Some(count as i64),
                RANK => Some(rank as i64),
                _ => None,
            });
            value.map(|v| v as usize).map_err(|e| format!("a size without a value: {e:?}"))
        };
        let calls = inputs.len();
        let data = |ty: &'static str, bytes: &dyn Fn(usize, u64) -> Result<Vec<u8>, String>| {
            let call = |c| (0..ranks).map(|r| bytes(c, r)).collect::<Result<Vec<_>, _>>();
            Ok::<_, String>(KernelArg::In(ty, (0..calls).map(call).collect::<Result<_, _>>()?))
        };
        let mut args: Vec<KernelArg> = vec![];
        for arg in tensors(kernel) {
            args.push(match &arg {
                TensorArg::Data(t) if arg.direction() == "IN" => {
                    let of = |b: &&kbc_ir::schedule::Buffer| b.role == BufferRole::Input(t.index);
                    let buffer = schedule.buffers.iter().find(of).ok_or("an argument that is no input")?;
                    let ty = buffer.global.as_ref().ok_or("an input without a global type")?;
                    data(self.target.moved_as(t.dtype).name(), &|c, r| {
                        let r = self.place(r, ranks);
                        let part = cut(&buffer.name, ty, &schedule.mesh, &inputs[c][t.index as usize], r);
                        part.map(|p| p.tensor.data().to_bytes()).map_err(|d| words(&d.into()))
                    })?
                }
                TensorArg::Data(t) => KernelArg::Out(
                    self.target.moved_as(t.dtype).name(),
                    (0..ranks).map(|r| value(&t.len, self.place(r, ranks))).collect::<Result<_, _>>()?,
                ),
                TensorArg::Tables => {
                    let content = tables_tensor(kernel, ranks).map_err(|d| words(&d.into()))?;
                    let content: Vec<u8> = content.iter().flat_map(|v| v.to_le_bytes()).collect();
                    data("i32", &|_, _| Ok(content.clone()))?
                }
                // Undefined before the launch, like a result.
                TensorArg::Memory => {
                    let bytes = value(&layout::own_bytes(kernel), 0)?;
                    KernelArg::Out(self.target.moved_as(DType::U8).name(), vec![bytes; ranks as usize])
                }
                TensorArg::Window => KernelArg::Window,
                TensorArg::Area(_) => return Err("a launch takes no part of the memory".to_owned()),
                TensorArg::Status => {
                    let lines: u32 = tasks::split(kernel).iter().map(|t| t.kernel.cores).sum();
                    KernelArg::Inout("i32", vec![vec![vec![0; 64 * lines as usize]; ranks as usize]; calls])
                }
            });
        }
        args.extend(scalars(kernel).iter().map(|s| match s {
            ScalarArg::Context => KernelArg::Context,
            ScalarArg::Value(n) if n.as_str() == NRANKS => KernelArg::Scalar(vec![ranks as i64]),
            ScalarArg::Value(n) if n.as_str() == COUNT => KernelArg::Scalar(vec![count as i64]),
            ScalarArg::Value(n) if n.as_str() == ROOT => {
                KernelArg::Scalar(vec![self.root.unwrap_or_default() as i64])
            }
            ScalarArg::Value(_) => KernelArg::Call(0),
        }));
        let window = value(&layout::shared_bytes(kernel), 0)?;
        let blocks = kernel.most_cores() as usize;
        Ok(Job { ranks: ranks as usize, blocks, calls, window, args, ..Job::default() })
    }

    /// Compares outputs with the expected ones, and checks that every launch reports completion.
    ///
    /// # Errors
    /// Returns a message about the first difference.
    pub fn same(&self, sized: &Sized, got: &Outputs) -> Result<Compared, String> {
        let mut compared = Compared::default();
        let types: Vec<DType> = tensors(&self.kernel)
            .iter()
            .filter_map(|t| match t {
                TensorArg::Data(d) if t.direction() != "IN" => Some(d.dtype),
                _ => None,
            })
            .collect();
        for (c, ranks) in got.iter().enumerate() {
            let mut ranks = ranks.clone();
            // By place, as the expected results are: place 0 first.
            ranks.rotate_right(self.place(0, sized.ranks) as usize);
            let ranks = &ranks;
            for (r, all) in ranks.iter().enumerate() {
                let Some((status, results)) = all.split_last() else {
                    return Err("no status line".to_owned());
                };
                for (task, line) in status.chunks(64).enumerate() {
                    if line[..4] != (c as i32 + 1).to_le_bytes() {
                        return Err(format!("call {c}, rank {r}, task {task}: status {:?}", &line[..8]));
                    }
                }
                if sized.near.is_some() {
                    continue;
                }
                for (i, (want, got)) in sized.expected[c][r].iter().zip(results).enumerate() {
                    let read = |b: &[u8]| Data::of_bytes(types[i], b).ok_or("a part of an element");
                    let (want, got) = (read(want)?, read(got)?);
                    if let Some(at) = want.first_difference(&got) {
                        return Err(format!(
                            "call {c}, rank {r}, result {i}: element {at} is {:?}, the simulator has {:?}",
                            got.get(at),
                            want.get(at)
                        ));
                    }
                    compared.exact += want.len() as u64;
                }
            }
            if let Some(near) = &sized.near {
                near.same(c, ranks, &mut compared).map_err(|e| format!("call {c}: {e}"))?;
            }
        }
        Ok(compared)
    }
}

/// Checks whether a schedule has functions without an exact form on the core.
fn inexact(s: &Schedule, target: &dyn Target) -> bool {
    fn scalar(e: &Scalar, target: &dyn Target) -> bool {
        let scalar = |e: &Scalar| scalar(e, target);
        match e {
            Scalar::Num(_) | Scalar::Arg(_) => false,
            Scalar::Un(f, a) => target.bound(*f).is_some() || scalar(a),
            Scalar::Bin(_, a, b) => scalar(a) || scalar(b),
            Scalar::Pow(a, _) => scalar(a),
            Scalar::If(c, x, y) => [&c.a, &c.b, x.as_ref(), y.as_ref()].into_iter().any(scalar),
        }
    }
    fn any(list: &[SStmt], target: &dyn Target) -> bool {
        let scalar = |e: &Scalar| scalar(e, target);
        list.iter().any(|stmt| match stmt {
            SStmt::For { body, .. } => any(body, target),
            SStmt::If { then, other, .. } => any(then, target) || any(other, target),
            SStmt::Op(op, _) => {
                matches!(op, SOp::Local(LocalOp::Compute { func, .. }) if scalar(&func.body))
                    || matches!(op, SOp::Local(LocalOp::Tiles { kernel, .. })
                        if kernel.functions().iter().any(|f| scalar(&f.body)))
            }
        })
    }
    s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams).any(|s| any(&s.body, target))
}

impl BoundedResults {
    /// Compares every element on every rank with the evaluator's value and bound.
    fn same(&self, call: usize, got: &[Vec<Vec<u8>>], compared: &mut Compared) -> Result<(), String> {
        for (i, (ty, reference)) in self.types.iter().zip(&self.references[call]).enumerate() {
            let mut parts: Vec<Part> = vec![];
            for (tensors, own) in got.iter().zip(&self.parts[call]) {
                let part = &own[i];
                let tensor = Data::of_bytes(ty.dtype, &tensors[i])
                    .and_then(|data| Tensor::new(part.tensor.shape().to_vec(), data))
                    .ok_or_else(|| format!("result {i} has another number of elements"))?;
                parts.push(Part { bounds: part.bounds.clone(), tensor });
            }
            let right = reference.into();
            let found = compare(ty, &self.mesh, &parts, &right, None);
            if !found.ok() {
                // The evaluator ignores overflow of narrow types. If the simulator is outside the
                // bound at the same place, the element counts as unbounded.
                let own: Vec<&Part> = self.parts[call].iter().map(|rank| &rank[i]).collect();
                let own = compare(ty, &self.mesh, &own, &right, None);
                let (n, first) = (found.mismatches, &found.first);
                let place =
                    |w: &Option<Worst>| w.as_ref().map(|w| (w.rank, w.index.clone(), w.got.to_string()));
                if n != own.mismatches || place(first) != place(&own.first) || found.unfit.is_some() {
                    return Err(format!("result {i}: {n} elements differ, {first:?}, {:?}", found.unfit));
                }
                compared.unbounded += n;
            }
            compared.near += found.elements;
            compared.unbounded += found.unbounded;
        }
        Ok(())
    }
}

//! Programs emitted for `a2a3`, compiled with the stand-in headers and compared with the simulator: bit for bit, or, where products and
//! rows are added up, with the reference evaluator's values within its bounds.
//!
//! A [`Case`] is one kernel: it runs at many rank counts, element counts and launches. Inputs are normal numbers, so that an
//! other order of additions shows; integers are whole words, so that they wrap.

#![allow(dead_code, reason = "every test binary uses its part")]

use crate::standin::{self, Arg, Job, Outputs};
use clap::Parser;
use kbc::build::{self, Built};
use kbc::cli::{Cli, Command, Data as Feeds, Watch};
use kbc::data;
use kbc::emit::sizes::Family;
use kbc::emit::{self, Emitted};
use kbc::session::{Failure, Session};
use kbc_backend_ascend::args::{ScalarArg, TensorArg, scalars, tensors};
use kbc_backend_ascend::cpp;
use kbc_backend_ascend::family::{self, Instance};
use kbc_backend_ascend::lower::{Staging, lower};
use kbc_backend_ascend::package;
use kbc_backend_ascend::passes::layout;
use kbc_backend_ascend::profile;
use kbc_backend_ascend::tile::tasks;
use kbc_backend_ascend::tile::{COUNT, Core, Kernel, NRANKS, Op, RANK, path};
use kbc_backend_sim::compare::compare;
use kbc_backend_sim::generate::{ExactRange, exact, normal};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_backend_sim::reference::{Accuracy, EvalOptions, RefTensor, evaluate};
use kbc_backend_sim::shard::{Part, cut};
use kbc_backend_sim::tensor::{Data, Tensor};
use kbc_diag::Diagnostics;
use kbc_ir::expr::Expr;
use kbc_ir::graph::Graph;
use kbc_ir::name::Name;
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_ir::types::{DType, Mesh, TensorType};
use std::path::Path;

/// A program's kernel.
pub struct Case {
    session: Session,
    from: From,
    pub kernel: Kernel,
    /// Of its only kernel, or of all tasks one after another.
    pub text: String,
    /// Of each task.
    pub sources: Vec<cpp::Source>,
}

/// What a kernel was made from.
enum From {
    /// A program: also at other sizes.
    Program(Box<(Built, Family)>),
    /// A schedule as it is.
    Schedule(Box<Schedule>),
}

/// One size of a case, with what the simulator says about it.
pub struct Sized {
    pub ranks: u64,
    pub count: u64,
    pub job: Job,
    pub expected: Outputs,
    near: Option<Near>,
}

/// What the reference evaluator says, where results are near to what is right.
struct Near {
    types: Vec<TensorType>,
    mesh: Mesh,
    /// By call.
    references: Vec<Vec<RefTensor>>,
    /// What the simulator has: by call, rank and result.
    parts: Vec<Vec<Vec<Part>>>,
}

fn words(d: &Diagnostics) -> String {
    d.list.iter().map(|d| format!("{} {} {:?}\n", d.code, d.title, d.notes)).collect()
}

fn failed(f: Failure) -> String {
    words(&f.into_parts().0)
}

impl Case {
    /// Emits a program; the error is what kbc says.
    pub fn new(source: &str, defines: &[&str]) -> Result<Case, String> {
        let mut line = vec!["kbc", "compile", "case.kb", "--quiet"];
        defines.iter().for_each(|d| line.extend(["-D", d]));
        Self::of_command(&Cli::parse_from(line), vec![("case.kb".into(), source.into())])
    }

    /// Emits the program of a file.
    pub fn of_file(path: &Path) -> Result<Case, String> {
        Self::of_file_with(path, &[])
    }

    /// The same with parameters set: `tp=2`.
    pub fn of_file_with(path: &Path, defines: &[&str]) -> Result<Case, String> {
        let path = path.to_string_lossy();
        let mut line = vec!["kbc", "compile", &path, "--quiet"];
        defines.iter().for_each(|d| line.extend(["-D", d]));
        Self::of_command(&Cli::parse_from(line), vec![])
    }

    fn of_command(cli: &Cli, texts: Vec<(String, String)>) -> Result<Case, String> {
        let Command::Compile(args) = &cli.command else { unreachable!("the line says compile") };
        let mut session = Session::new(cli).fresh(texts);
        let built = build::build(&mut session, &args.source, "windows", &Watch::default()).map_err(failed)?;
        let schedule = built.module.schedule().expect("the default pipeline makes one").clone();
        let emitted = emit::kernel(&mut session, &built, &schedule, "a2a3", &[]).map_err(failed)?;
        let Emitted { family, kernel, .. } = emitted;
        let (text, sources) = printed(&kernel)?;
        Ok(Case { session, from: From::Program(Box::new((built, family))), kernel, text, sources })
    }

    /// Emits a schedule written in the IR's text.
    pub fn of_schedule(name: &str, source: &str) -> Result<Case, String> {
        let cli = Cli::parse_from(["kbc", "check", name, "--quiet"]);
        let mut session = Session::new(&cli).fresh(vec![(name.into(), source.into())]);
        let (_, module) = kbc::commands::load_kir(&mut session, name).map_err(failed)?;
        let schedule = module.schedule().ok_or("no schedule")?.clone();
        let count = 0;
        let ranks = schedule.mesh.ranks();
        let kernel = lower(&schedule, Staging::Needed, &|_| None).map_err(|d| words(&d))?;
        let kernel = family::single(&Instance { ranks, count, kernel });
        let profile = profile::find("a2a3").expect("there is one");
        let kernel =
            emit::complete(&session, &kernel, profile, &emit::Show::default()).map_err(|d| words(&d))?;
        let (text, sources) = printed(&kernel)?;
        Ok(Case { session, from: From::Schedule(Box::new(schedule)), kernel, text, sources })
    }

    /// Rank counts that the kernel serves.
    pub fn ranks(&self) -> Vec<u64> {
        match &self.from {
            From::Program(p) => p.1.ranks.clone(),
            From::Schedule(s) => vec![s.mesh.ranks()],
        }
    }

    /// The schedule at a size, and its job.
    pub fn at(&mut self, ranks: u64, count: u64, calls: usize) -> Sized {
        assert!(self.ranks().contains(&ranks), "{ranks} ranks are not claimed: {:?}", self.ranks());
        let (schedule, typed) = match &self.from {
            From::Schedule(s) => ((**s).clone(), None),
            From::Program(program) => {
                let (built, family) = &**program;
                let own = built.module.schedule().expect("checked above");
                let line = (ranks != own.mesh.ranks()).then(|| {
                    let text = format!("full({ranks})");
                    (text.clone(), self.session.add_text("line", &text))
                });
                let defines: Vec<_> = family.count.iter().map(|n| (n.clone(), count.to_string())).collect();
                let made = build::again(built, line, &defines).expect("it exists at claimed sizes");
                (made.schedule, Some(made.typed))
            }
        };
        self.job(&schedule, typed.as_ref().filter(|_| self.adds_up()), (ranks, count, calls))
    }

    /// Whether it has sums in an order that is the core's own, and so no bits to be compared.
    fn adds_up(&self) -> bool {
        let mut found = false;
        for (_, op) in path::ops(&self.kernel) {
            found |= matches!(op, Op::Multiply { .. } | Op::Reduce { .. });
        }
        found
    }

    /// Compiles it, with its orchestration if it is a program of tasks.
    pub fn program(&self) -> standin::Program {
        let kernels: Vec<standin::Kernel<'_>> = self
            .sources
            .iter()
            .map(|s| standin::Kernel { text: &s.text, cube: s.core == Core::Aic })
            .collect();
        let text = package::orchestration(&self.kernel);
        self.program_of(&kernels, (self.kernel.core == Core::Tasks).then_some(&text))
            .unwrap_or_else(|e| panic!("{e}\n{text}\n{}", self.text))
    }

    /// The same with these kernels and this orchestration.
    pub fn program_of(
        &self,
        kernels: &[standin::Kernel<'_>],
        orchestration: Option<&String>,
    ) -> Result<standin::Program, String> {
        let name = &self.kernel.name;
        let (config, run) = (format!("{name}_config"), format!("{name}_orchestration"));
        let with = orchestration.map(|text| standin::Orchestration { text, config: &config, run: &run });
        standin::compile_all(kernels, with)
    }

    fn job(
        &self,
        schedule: &Schedule,
        typed: Option<&Graph>,
        (ranks, count, calls): (u64, u64, usize),
    ) -> Sized {
        let inputs: Vec<Vec<Tensor>> = match typed {
            None => (0..calls).map(|c| self.inputs(schedule, c as u32)).collect(),
            // The program's own data, where it has some.
            Some(graph) => {
                let fed =
                    data::Fed { graph, mesh: &schedule.mesh, local: None, files: data::Files::default() };
                let made = data::inputs(&self.session, &fed, &Feeds::default(), calls as u32, 7);
                made.unwrap_or_else(|f| panic!("{}", failed(f))).calls
            }
        };
        let near = |parts: &Vec<Vec<Vec<Part>>>| {
            let graph = typed?;
            let mut of: Vec<Vec<RefTensor>> = vec![];
            for (c, call) in inputs.iter().enumerate() {
                // Data from files is the same in every call.
                let same = (0..c).find(|i| inputs[*i] == *call).map(|i| of[i].clone());
                let options = EvalOptions { max_parts: ranks, accuracy: Accuracy::Others, terms: false };
                of.push(same.unwrap_or_else(|| evaluate(graph, call, &options).expect("it has a meaning")));
            }
            let (types, mesh) = (graph.results.clone(), schedule.mesh.clone());
            Some(Near { types, mesh, references: of, parts: parts.clone() })
        };
        let options = RunOptions { calls: calls as u32, ..RunOptions::default() };
        let result = run(schedule, &inputs, &options).unwrap_or_else(|d| panic!("{}", words(&d)));
        let bytes = |p: &Part| bytes(p.tensor.data());
        let expected = result
            .outputs
            .iter()
            .map(|call| call.iter().map(|rank| rank.iter().map(bytes).collect()).collect())
            .collect();
        let near = near(&result.outputs);
        Sized { ranks, count, job: self.arguments(schedule, &inputs, ranks, count), expected, near }
    }

    /// `inputs[i]`: global input i in a call.
    fn inputs(&self, schedule: &Schedule, call: u32) -> Vec<Tensor> {
        let mut globals: Vec<_> = schedule
            .buffers
            .iter()
            .filter_map(|b| match (b.role, &b.global) {
                (BufferRole::Input(n), Some(ty)) => Some((n, ty)),
                _ => None,
            })
            .collect();
        globals.sort_by_key(|g| g.0);
        // Sums of a schedule's products have no reference: small whole numbers are exact in any order.
        let modulus = if self.adds_up() { 7 } else { u32::MAX };
        let range = ExactRange { modulus, centred: true, exact: self.adds_up() };
        globals
            .iter()
            .map(|(n, ty)| match ty.dtype.is_float() && !self.adds_up() {
                true => normal(ty, &schedule.mesh, 7 + u64::from(*n), call),
                false => exact(ty, &schedule.mesh, range, *n, call),
            })
            .map(|t| t.expect("small"))
            .collect()
    }

    fn arguments(&self, schedule: &Schedule, inputs: &[Vec<Tensor>], ranks: u64, count: u64) -> Job {
        let kernel = &self.kernel;
        let value = |e: &Expr, rank: u64| {
            e.eval(&|n: &Name| match n.as_str() {
                NRANKS => Some(ranks as i64),
                COUNT => Some(count as i64),
                RANK => Some(rank as i64),
                _ => None,
            })
            .expect("sizes have values at claimed sizes") as usize
        };
        let calls = inputs.len();
        let data = |ty: &'static str, bytes: &dyn Fn(usize, u64) -> Vec<u8>| {
            Arg::In(ty, (0..calls).map(|c| (0..ranks).map(|r| bytes(c, r)).collect()).collect())
        };
        let mut args: Vec<Arg> = tensors(kernel)
            .iter()
            .map(|arg| match arg {
                TensorArg::Data(t) if arg.direction() == "IN" => {
                    let of = |b: &&kbc_ir::schedule::Buffer| b.role == BufferRole::Input(t.index);
                    let buffer = schedule.buffers.iter().find(of).expect("an input");
                    let ty = buffer.global.as_ref().expect("inputs have global types");
                    data(t.dtype.name(), &|c, r| {
                        let part = cut(&buffer.name, ty, &schedule.mesh, &inputs[c][t.index as usize], r);
                        bytes(part.expect("it fits").tensor.data())
                    })
                }
                TensorArg::Data(t) => {
                    Arg::Out(t.dtype.name(), (0..ranks).map(|r| value(&t.len, r)).collect())
                }
                TensorArg::Tables => {
                    let content = cpp::tables_tensor(kernel, ranks).expect("claimed");
                    let content: Vec<u8> = content.iter().flat_map(|v| v.to_le_bytes()).collect();
                    data("i32", &|_, _| content.clone())
                }
                TensorArg::Window => Arg::Window,
                TensorArg::Area(_) => unreachable!("a launch takes no part of the window"),
                TensorArg::Status => {
                    let lines: u32 = tasks::split(kernel).iter().map(|t| t.kernel.blocks()).sum();
                    Arg::Inout("i32", vec![vec![vec![0; 64 * lines as usize]; ranks as usize]; calls])
                }
            })
            .collect();
        args.extend(scalars(kernel).iter().map(|s| match s {
            ScalarArg::Context => Arg::Context,
            ScalarArg::Value(n) if n.as_str() == NRANKS => Arg::Scalar(vec![ranks as i64]),
            ScalarArg::Value(n) if n.as_str() == COUNT => Arg::Scalar(vec![count as i64]),
            ScalarArg::Value(_) => Arg::Call(0),
        }));
        let window = value(&layout::bytes(kernel), 0);
        let blocks = kernel.cores as usize;
        Job { ranks: ranks as usize, blocks, calls, window, args, ..Job::default() }
    }

    /// Whether outputs are the simulator's, and every launch says that it is done.
    pub fn same(&self, sized: &Sized, got: &Outputs) -> Result<(), String> {
        for (c, ranks) in got.iter().enumerate() {
            for (r, tensors) in ranks.iter().enumerate() {
                let (status, results) = tensors.split_last().expect("the status line is the last");
                for (task, line) in status.chunks(64).enumerate() {
                    if line[..4] != (c as i32 + 1).to_le_bytes() {
                        return Err(format!("call {c}, rank {r}, task {task}: status {:?}", &line[..8]));
                    }
                }
                if sized.near.is_some() {
                    continue;
                }
                let want = &sized.expected[c][r];
                if let Some(i) = (0..want.len()).find(|i| want[*i] != results[*i]) {
                    let at = want[i].iter().zip(&results[i]).position(|(a, b)| a != b);
                    return Err(format!("call {c}, rank {r}, result {i}: byte {at:?} differs"));
                }
            }
            if let Some(near) = &sized.near {
                near.same(c, ranks).map_err(|e| format!("call {c}: {e}"))?;
            }
        }
        Ok(())
    }

    /// Runs the kernel at one size: what the simulator says, and what came out.
    pub fn outputs(&mut self, ranks: u64, count: u64, calls: usize) -> (Sized, Outputs) {
        let program = self.program();
        let sized = self.at(ranks, count, calls);
        let got = program.run_one(&sized.job).unwrap_or_else(|e| panic!("{e}\n{}", self.text));
        (sized, got)
    }

    /// Compiles the kernel and runs it at the size its program has.
    pub fn check_own(&mut self, calls: usize) {
        let From::Program(program) = &self.from else { panic!("a schedule has one size") };
        let (built, family) = &**program;
        let count = family.count.as_ref().and_then(|n| built.number(n)).unwrap_or(0);
        let ranks = built.module.mesh.ranks();
        self.check(&[(ranks, count)], calls);
    }

    /// Compiles the kernel once and runs it at all sizes.
    pub fn check(&mut self, sizes: &[(u64, u64)], calls: usize) {
        let program = self.program();
        let sized: Vec<Sized> = sizes.iter().map(|(p, n)| self.at(*p, *n, calls)).collect();
        let jobs: Vec<Job> = sized.iter().map(|s| s.job.clone()).collect();
        for (s, got) in sized.iter().zip(program.run(&jobs)) {
            let at = format!("{} ranks, count {}", s.ranks, s.count);
            match got {
                Ok(got) => self.same(s, &got).unwrap_or_else(|e| panic!("{at}: {e}\n{}", self.text)),
                Err(e) => panic!("{at}: {e}\n{}", self.text),
            }
        }
    }
}

impl Near {
    /// Whether every element on every rank is as near as the evaluator says, and it says something of every element.
    fn same(&self, call: usize, got: &[Vec<Vec<u8>>]) -> Result<(), String> {
        for (i, (ty, reference)) in self.types.iter().zip(&self.references[call]).enumerate() {
            let parts: Vec<Part> = got
                .iter()
                .zip(&self.parts[call])
                .map(|(tensors, parts)| {
                    let part = &parts[i];
                    let data = read(ty.dtype, &tensors[i]);
                    let tensor = Tensor::new(part.tensor.shape().to_vec(), data).expect("as many elements");
                    Part { bounds: part.bounds.clone(), tensor }
                })
                .collect();
            let found = compare(ty, &self.mesh, &parts, &reference.clone().into(), None);
            if !found.ok() || found.unbounded > 0 {
                let (n, first) = (found.mismatches, found.first);
                return Err(format!(
                    "result {i}: {n} elements differ, {} have no bound, {first:?}, {:?}",
                    found.unbounded, found.unfit
                ));
            }
        }
        Ok(())
    }
}

fn read(dtype: DType, bytes: &[u8]) -> Data {
    fn all<const N: usize, T>(bytes: &[u8], one: impl Fn([u8; N]) -> T) -> Vec<T> {
        bytes.chunks_exact(N).map(|b| one(b.try_into().expect("so long"))).collect()
    }
    match dtype {
        DType::F32 => Data::F32(all(bytes, f32::from_le_bytes)),
        DType::F16 => Data::F16(all(bytes, half::f16::from_le_bytes)),
        DType::BF16 => Data::BF16(all(bytes, half::bf16::from_le_bytes)),
        DType::I32 => Data::I32(all(bytes, i32::from_le_bytes)),
        other => unreachable!("no sums of {other} are compared"),
    }
}

fn printed(kernel: &Kernel) -> Result<(String, Vec<cpp::Source>), String> {
    let what = cpp::KernelText { source: "case.kb".into(), notes: vec![] };
    let sources = cpp::sources(kernel, &what).map_err(|d| words(&d.into()))?;
    Ok((sources.iter().map(|s| s.text.clone()).collect::<Vec<_>>().join("\n"), sources))
}

fn bytes(data: &Data) -> Vec<u8> {
    macro_rules! arms {
        ($($v:ident),*) => { match data { $(Data::$v(x) => x.iter().flat_map(|v| v.to_le_bytes()).collect(),)* } };
    }
    arms!(F32, F16, BF16, I32, I8, U8, I16, I64)
}

//! Ahead: the single-device result of a small program, evaluated beside the passes that lower it.
//!
//! The evaluator needs the typed program and its inputs, and no schedule. Where a run follows, it
//! begins on another core as soon as types are known. Nothing is reported from here: whatever
//! cannot be done ahead is done, and reported, where it would have been.

use crate::data::{self, Inputs};
use crate::options::Data;
use crate::workspace::{NextRun, Stage, Workspace};
use kbc_diag::{Diagnostics, Span};
use kbc_ir::graph::{DataSource, Graph, OpKind};
use kbc_ir::types::Mesh;
use kbc_ir::{Body, Module};
use kbc_numerics::tensor::Tensor;
use kbc_passes::PassCx;
use kbc_passes::pipeline::Pipeline;
use kbc_reference::{Accuracy, EvalOptions, RefTensor, evaluate};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, JoinHandle};

/// The expected results of each call.
pub(crate) type References = Result<Vec<Vec<RefTensor>>, Diagnostics>;

/// What an evaluation begins with: the inputs, and the stored results of the program.
pub(crate) type Begun = (Arc<Inputs>, Vec<(Tensor, String)>);

/// An evaluation that has begun.
pub(crate) struct Ahead {
    /// The run whose results these are.
    run: NextRun,
    /// The inputs, as soon as they are read.
    begun: Receiver<Begun>,
    /// The evaluation. It has no results if data cannot be read.
    references: JoinHandle<References>,
}

impl Ahead {
    /// Waits for the inputs, if the evaluation is that of a run and they can be read.
    pub(crate) fn begun(self, run: NextRun) -> Option<(Begun, JoinHandle<References>)> {
        let begun = if self.run == run { self.begun.recv().ok() } else { None };
        Some((begun?, self.references))
    }
}

/// Largest number of elements of all values of a program that is evaluated ahead. The memory of
/// larger ones is compared with what there is before, and their time is that of their execution.
const ELEMENTS: u64 = 1 << 21;

/// Memory that the evaluation of such a program may take, in bytes.
const ROOM: u128 = 1 << 28;

/// Begins the evaluation of a program that is about to go through a pipeline, if a run follows and
/// the program is small.
pub(crate) fn begin(workspace: &Workspace, module: &Module, passes: &str, cx: &PassCx<'_>) -> Option<Ahead> {
    let run = workspace.next_run?;
    // The default pipeline begins with this pass. Data of the command line may be readable once.
    if passes != "default"
        || !workspace.inputs.is_empty()
        || std::thread::available_parallelism().ok()?.get() < 2
    {
        return None;
    }
    let Body::Graph(graph) = &module.body else { return None };
    if !files(graph).all(|(path, span)| workspace.is_file(&workspace.beside(span.file, path))) {
        return None;
    }
    let mut typed = module.clone();
    let alone = PassCx::new(cx.library, cx.topology);
    Pipeline::parse("infer", Span::NONE.file).ok()?.run(&mut typed, &alone, &mut []).ok()?;
    let (Body::Graph(graph), mesh) = (typed.body, typed.mesh) else { return None };
    if !is_small(&graph) || workspace.memory_budget().fits(ROOM, "an evaluation").is_err() {
        return None;
    }
    let reader = workspace.reader()?;
    let (send, begun) = channel();
    let adopt = workspace.environment.thread();
    let work = move || {
        adopt();
        let Some((inputs, expected)) = fed(&reader, &graph, &mesh, run) else { return Ok(vec![]) };
        let (inputs, stored) = (Arc::new(inputs), !expected.is_empty());
        if send.send((Arc::clone(&inputs), expected)).is_err() {
            return Ok(vec![]);
        }
        let options = |c: usize| {
            let whole = EvalOptions { max_parts: mesh.ranks(), ..EvalOptions::default() };
            EvalOptions { accuracy: Accuracy::Own, terms: c == 0 && stored, ..whole }
        };
        let calls = inputs.calls.iter().enumerate();
        calls.map(|(c, call)| Ok(evaluate(&graph, call, &options(c))?)).collect()
    };
    // Where the system has no thread to spare, the evaluation is left to the run.
    let references = Builder::new().name(Stage::Evaluate.name().to_owned()).spawn(work).ok()?;
    Some(Ahead { run, begun, references })
}

/// Returns the files that a program names for its data.
fn files(graph: &Graph) -> impl Iterator<Item = (&str, Span)> {
    let inputs = graph.inputs.iter().filter_map(|i| i.data.as_ref());
    inputs.chain(graph.expect.iter().flat_map(|e| &e.data)).filter_map(|d| match d {
        DataSource::File { path, span, .. } => Some((path.as_str(), *span)),
        DataSource::Generator { .. } => None,
    })
}

/// Whether a program has something to compute, and all its values have few elements.
fn is_small(graph: &Graph) -> bool {
    let mut elements = 0u64;
    let mut contracts = false;
    for id in graph.order() {
        let op = graph.op(*id);
        let Some(ty) = &op.ty else { return false };
        let n = ty.sizes().iter().fold(1u64, |n, size| n.saturating_mul(*size));
        elements = elements.saturating_add(n);
        contracts |= matches!(op.kind, OpKind::Matmul { .. } | OpKind::Grouped(_) | OpKind::Tiles(_));
    }
    contracts && elements <= ELEMENTS
}

/// Returns the inputs and the stored results.
fn fed(
    workspace: &Workspace,
    graph: &Graph,
    mesh: &Mesh,
    run: NextRun,
) -> Option<(Inputs, Vec<(Tensor, String)>)> {
    let program = data::ProgramInterface { graph, mesh, local: None, files: data::Files::default() };
    let inputs = data::inputs(workspace, &program, &Data::default(), run.calls, run.seed).ok()?;
    Some((inputs, data::stored_results(workspace, &program).ok()?))
}

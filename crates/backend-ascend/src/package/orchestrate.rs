//! Orchestration: the C++ function that the runtime calls with the arguments of a launch, and that
//! submits the tasks.
//!
//! The module owns the text that submits tasks. A task takes only what it touches, with
//! intermediate values as parts of the rank's memory, so that the runtime orders it after the tasks
//! that wrote what it takes. The runtime does not track a task that overwrites what an earlier task
//! only reads; for such a task the orchestration states the dependence with `add_dep`.

use crate::cpp::expr::{Plain, print};
use crate::cpp::helpers::Helpers;
use crate::cpp::ident;
use crate::profile::DIALECT;
use kbc_ir::expr::Expr;
use kbc_tiles::args::{self, ScalarArg, TaskArg, TensorArg};
use kbc_tiles::layout;
use kbc_tiles::package::Source;
use kbc_tiles::package::python::fill;
use kbc_tiles::tile::tasks::{self, Task};
use kbc_tiles::tile::{Core, Kernel, Object};
use std::fmt::Write;

/// Prints the orchestration of a kernel with offsets: C++ with two exported functions,
/// `NAME_config` and `NAME_orchestration`. A kernel has the number of its source.
pub fn orchestration(kernel: &Kernel, sources: &[Source]) -> String {
    let tasks = tasks::split(kernel);
    let (tensors, scalars) = (args::tensors(kernel), args::scalars(kernel));
    let program = kernel.core == Core::Tasks;
    let (body, before) =
        if program { program_of(kernel, &tasks, sources) } else { (one(kernel), String::new()) };
    let several = tasks.iter().any(|t| t.kernel.cores > 1);
    let before = if several { format!("{SET_BLOCKS}{before}") } else { before };
    let what = match tasks.len() {
        1 => format!("one {} task", DIALECT.core(tasks[0].kernel.core).to_uppercase()),
        n => format!("{n} tasks"),
    };
    fill(
        include_str!("templates/orchestration.cpp"),
        &[
            ("KERNEL", &kernel.name),
            ("WHAT", &what),
            ("INCLUDE", if program { "#include \"pto_arg_with_deps.h\"\n" } else { "" }),
            ("TENSORS", &tensors.len().to_string()),
            ("SCALARS", &scalars.len().to_string()),
            ("BEFORE", &before),
            ("BODY", &body),
        ],
    )
}

/// A function that sets the number of blocks of a task. The first of the two is called where it
/// compiles.
const SET_BLOCKS: &str = "\
// The number of blocks of a task: some runtimes call it the number of cores.
template <typename Spec>
auto SetBlocks(Spec &spec, int16_t blocks, int) -> decltype(spec.set_block_num(blocks)) {
    spec.set_block_num(blocks);
}
template <typename Spec>
auto SetBlocks(Spec &spec, int16_t blocks, long) -> decltype(spec.set_core_num(blocks)) {
    spec.set_core_num(blocks);
}

";

fn add(direction: &str) -> &'static str {
    match direction {
        "IN" => "add_input",
        "OUT" => "add_output",
        _ => "add_inout",
    }
}

fn words(t: &TensorArg<'_>) -> String {
    match t {
        TensorArg::Data(d) => format!("{}, {}", d.name, d.dtype),
        TensorArg::Area(a) => format!("{}, {}", a.name, a.dtype),
        TensorArg::Tables => "tables, i32".into(),
        TensorArg::Memory => "memory, intermediate values of this rank".into(),
        TensorArg::Window => "window, this rank's part of the domain".into(),
        TensorArg::Status => "status, one line per core".into(),
    }
}

fn scalars_of(kernel: &Kernel, task: &str) -> String {
    let mut out = String::new();
    for (i, s) in args::scalars(kernel).iter().enumerate() {
        let what = match s {
            ScalarArg::Context => "ctx, the domain's CommContext",
            ScalarArg::Value(n) => n.as_str(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "    {task}.add_scalar(args.scalar({i}));  // {what}");
    }
    out
}

/// Prints the launch settings of several cores. Vector cores start together, because they wait for
/// each other and for cores of other ranks. Cube cores wait for no other core, so each starts when
/// it is free.
fn cores(kernel: &Kernel, task: &str) -> String {
    let start = format!("    {task}.launch_spec.set_require_sync_start(true);\n");
    match (kernel.cores, kernel.core) {
        (1, _) => String::new(),
        (n, core) => {
            let start = if core == Core::Matrix { "" } else { &start };
            format!("    SetBlocks({task}.launch_spec, {n}, 0);\n{start}")
        }
    }
}

/// Prints a single AIV task that takes the arguments of the launch as they are.
fn one(kernel: &Kernel) -> String {
    let mut out = String::from("    CoreTaskArgs task;\n");
    for (i, t) in args::tensors(kernel).iter().enumerate() {
        let _ = writeln!(out, "    task.{}(args.tensor({i}).ref());  // {}", add(t.direction()), words(t));
    }
    out + &scalars_of(kernel, "task") + &cores(kernel, "task") + "    rt_submit_aiv_task(0, task);\n"
}

/// Prints a program of tasks: the parts of the launch's memory and then the tasks. Also returns the
/// text that precedes the function.
fn program_of(kernel: &Kernel, tasks: &[Task], sources: &[Source]) -> (String, String) {
    let mut helpers = Helpers::default();
    let mut value = |e: &Expr| print(&e.clone().simplify(), &Plain, &mut helpers);
    let launch = args::tensors(kernel);
    let of = |arg: &TensorArg<'_>| launch.iter().position(|t| t == arg).unwrap_or(0);
    let [memory, window, status] = [TensorArg::Memory, TensorArg::Window, TensorArg::Status].map(|a| of(&a));
    let mut parts = String::new();
    for (i, s) in args::scalars(kernel).iter().enumerate() {
        if let ScalarArg::Value(n) = s {
            let _ = writeln!(
                parts,
                "    [[maybe_unused]] const auto {} = static_cast<int64_t>(args.scalar({i}));",
                ident(n)
            );
        }
    }
    let shared = tasks.iter().any(|t| t.uses.shared);
    let taken = |i: usize| {
        let object = Object::Area(kbc_tiles::tile::AreaId(i as u32));
        tasks.iter().any(|t| t.uses.reads.contains(&object) || t.uses.writes.contains(&object))
    };
    let own = (0..kernel.areas.len()).any(taken);
    if shared {
        let _ = writeln!(parts, "    const ChipTensor &window = args.tensor({window}).ref();");
    }
    if own {
        let _ = writeln!(parts, "    const ChipTensor &memory = args.tensor({memory}).ref();");
    }
    let _ = writeln!(parts, "    const ChipTensor &status = args.tensor({status}).ref();");
    if shared {
        let bytes = value(&layout::shared_bytes(kernel));
        let _ = writeln!(
            parts,
            "    // The part of the window that peers access.\n    const ChipTensor shared = Part(window, 0, {bytes});"
        );
    }
    if own {
        parts += "    // Intermediate values.\n";
    }
    for (i, a) in kernel.areas.iter().enumerate() {
        if taken(i) {
            let at = value(&layout::own_offset(kernel, a));
            let bytes = value(&layout::area_bytes(a));
            let _ =
                writeln!(parts, "    const ChipTensor {} = Part(memory, {at}, {bytes});", part_name(&a.name));
        }
    }
    let waits = tasks::readers_before(tasks);
    let mut line = 0;
    for (i, t) in tasks.iter().enumerate() {
        let list = args::task_tensors(kernel, tasks, i);
        parts += &task(t, (i, line), &list, &waits, &of);
        line += t.kernel.cores;
        parts += &scalars_of(kernel, t.name.as_str());
        let source = sources.iter().find_map(|s| Some((s, s.tasks.iter().position(|t| *t == i)?)));
        for (scalar, at) in source.iter().flat_map(|(s, at)| s.scalars.iter().map(|n| (n, *at))) {
            let number = value(&scalar.values[at]);
            let name = ident(&scalar.name);
            let _ = writeln!(parts, "    {}.add_scalar(static_cast<int64_t>({number}));  // {name}", t.name);
        }
        parts += &cores(&t.kernel, t.name.as_str());
        let known = waits.iter().any(|w| w.contains(&i));
        let keep = if known { format!("const PTO2TaskId {}_id = ", t.name) } else { String::new() };
        let id = if known { ".task_id()" } else { "" };
        let number = sources.iter().position(|s| s.tasks.contains(&i)).unwrap_or(i);
        let core = DIALECT.core(t.kernel.core);
        let _ = writeln!(parts, "    {keep}rt_submit_{core}_task({number}, {}){id};", t.name);
    }
    let helpers = helpers.text().replace("AICORE inline", "static inline");
    (parts, format!("{PART}{helpers}\n"))
}

const PART: &str = "\
// A part of a tensor of one dimension. The runtime orders tasks by the parts that they use.
static ChipTensor Part(const ChipTensor &of, int64_t at, int64_t size) {
    const uint32_t shape[] = {static_cast<uint32_t>(size)};
    const uint32_t offset[] = {static_cast<uint32_t>(at)};
    return of.view(shape, offset);
}

";

fn part_name(name: &str) -> String {
    format!("v_{}", ident(name))
}

fn task(
    t: &Task,
    (i, line): (usize, u32),
    list: &[TaskArg<'_>],
    waits: &[Vec<usize>],
    of: &dyn Fn(&TensorArg<'_>) -> usize,
) -> String {
    let name = &t.name;
    let core = DIALECT.core(t.kernel.core).to_uppercase();
    let cores = match t.kernel.cores {
        1 => format!("an {core} core"),
        n => format!("{n} {core} cores"),
    };
    let mut out = format!("\n    // Task {i}, on {cores}.\n");
    let ty = if waits[i].is_empty() { "CoreTaskArgs" } else { "CoreTaskArgsWithDeps<>" };
    let lines = 16 * t.kernel.cores;
    let _ = writeln!(out, "    const ChipTensor {name}_status = Part(status, {}, {lines});", 16 * line);
    let _ = writeln!(out, "    {ty} {name};");
    for t in list {
        let from = match &t.arg {
            TensorArg::Area(a) => part_name(&a.name),
            TensorArg::Window => "shared".into(),
            TensorArg::Status => format!("{name}_status"),
            arg => format!("args.tensor({}).ref()", of(arg)),
        };
        let what = match &t.arg {
            TensorArg::Window => "the part of the window that peers access".into(),
            arg => words(arg),
        };
        let _ = writeln!(out, "    {name}.{}({from});  // {what}", add(t.direction));
    }
    for w in &waits[i] {
        let _ = writeln!(out, "    {name}.add_dep(t{w}_id);  // that task reads what this one overwrites");
    }
    out
}

//! C++ printer for kernels.
//!
//! The module owns the text of a kernel, or of each task of a program ([`sources`]): the text
//! before and after the body, and how long lines are broken. `body` prints the statements, and
//! [`expr`] the expressions. The printer decides nothing: a kernel comes with offsets, addresses,
//! flags and fences, and an incomplete kernel is rejected (E449).

mod blocks;
mod body;
mod errors;
pub mod expr;
pub mod helpers;
mod idents;
pub mod numbers;
mod rows;
mod same;
mod views;

pub use idents::plain as ident;

use crate::profile::DIALECT;
use body::Body;
use helpers::Helper;
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use kbc_tiles::args::incomplete as refuse;
use kbc_tiles::args::{ScalarArg, Status, TaskArg, TensorArg, scalars, task_tensors};
use kbc_tiles::layout;
use kbc_tiles::package::{KernelText, Source};
use kbc_tiles::tile::tasks::{self, Task};
use kbc_tiles::tile::*;
use numbers::ctype;
use same::{Beginning, TaskNumber};
use views::View;

/// Maximum number of columns of a printed line.
const WIDTH: usize = 120;

const INCLUDES: &str = "\
#include <cstdint>
#include <pto/pto-inst.hpp>
#include \"pto/comm/comm_types.hpp\"
#include \"pto/comm/pto_comm_inst.hpp\"
#include \"platform_comm/comm_context.h\"
#include \"tensor.h\"

#ifndef __gm__
#define __gm__
#endif
#ifndef __aicore__
#define __aicore__ [aicore]
#endif
";

/// Prints the kernels of all tasks as C++ translation units, each once, in the order of their first
/// tasks. A kernel for one core is its own only task. A kernel has at most `most` scalars.
///
/// # Errors
/// Returns E449 or E451.
pub fn sources(k: &Kernel, text: &KernelText, most: usize) -> Result<Vec<Source>, Diagnostic> {
    let tasks = tasks::split(k);
    let window_bytes = layout::shared_bytes(k);
    let mut out = vec![];
    let bare = KernelText { source: String::new(), notes: vec![] };
    let print =
        |tasks: &[Task], at: usize, n: &[TaskNumber]| task(tasks, at, (&[at], n), &bare, &window_bytes);
    let most = most.saturating_sub(scalars(k).len());
    for shared in same::kernels(&tasks, most, &print)? {
        let list = shared.tasks;
        let t = &tasks[list[0]];
        let name = if t.at.is_some() { format!("{}_{}", k.name, t.name) } else { k.name.to_string() };
        let text = task(&tasks, list[0], (&list, &shared.numbers), text, &window_bytes)?;
        out.push(Source { name, core: t.kernel.core, text, tasks: list, scalars: shared.scalars });
    }
    Ok(out)
}

/// Prints a kernel for one core as a C++ translation unit.
///
/// # Errors
/// Returns E449 or E451.
pub fn kernel(k: &Kernel, text: &KernelText) -> Result<String, Diagnostic> {
    task(&tasks::split(k), 0, (&[0], &[]), text, &layout::shared_bytes(k))
}

/// Prints a task of a program whose window has `window_bytes` bytes. `all` are the tasks that run
/// this kernel, and `numbers` those of its numbers that are scalar arguments.
fn task(
    tasks: &[Task],
    at: usize,
    (all, numbers): (&[usize], &[TaskNumber]),
    text: &KernelText,
    window_bytes: &Expr,
) -> Result<String, Diagnostic> {
    let k = &tasks.get(at).ok_or_else(|| refuse("the program has no task".into()))?.kernel;
    let with_numbers = given_numbers(k, numbers);
    let list = task_tensors(k, tasks, at);
    if !k.scalars.iter().any(|s| s == CALL) {
        return Err(refuse(format!("kernel @{} has no scalar `{CALL}`", k.name)));
    }
    let mut b = Body::new(&with_numbers);
    let body = b.block(&with_numbers.body)?;
    let mut out = Text::default();
    prologue(k, (&list, numbers), window_bytes, &mut b, &mut out)?;
    out.line(1, "if (error == 0) {");
    out.lines(2, &body);
    out.line(1, "}");
    out.line(0, "");
    out.line(1, "pipe_barrier(PIPE_ALL);");
    if k.cores > 1 {
        out.line(1, "status += 16 * core;");
    }
    out.line(1, "status[0] = static_cast<int32_t>(error == 0 ? call + 1 : error);");
    out.line(1, "status[1] = static_cast<int32_t>(detail);");
    out.line(1, "dcci((__gm__ void *)status, cache_line_t::SINGLE_CACHE_LINE, dcci_dst_t::CACHELINE_OUT);");
    out.line(1, "dsb(DSB_DDR);");
    out.line(0, "}");
    let mut whole = Text::default();
    let names: Vec<&str> = all.iter().map(|i| tasks[*i].name.as_str()).collect();
    head(k, &tasks[at], &names, (&list, numbers, text), &mut whole);
    let blocks = if k.cores > 1 { "#include \"intrinsic.h\"\n" } else { "" };
    let deferred = if b.uses.defers { "#include \"pto_async_kernel_api.h\"\n" } else { "" };
    let blocks = &format!("{blocks}{deferred}");
    let includes = INCLUDES.replacen("\n\n", &format!("\n{blocks}\n"), 1);
    Ok(format!("{}{includes}\n{}\n{}", whole.out, b.used.text(), out.out))
}

fn open(what: &str, name: &str) -> Diagnostic {
    refuse(format!("{what} @{name} has no offset in the window"))
}

/// Prints the comment at the top. `names` are those of the tasks that run the kernel.
fn head(
    k: &Kernel,
    task: &Task,
    names: &[&str],
    (list, numbers, text): (&[TaskArg<'_>], &[TaskNumber], &KernelText),
    out: &mut Text,
) {
    let core = DIALECT.core(k.core).to_uppercase();
    let which = match names {
        _ if task.at.is_none() => String::new(),
        [.., last] if names.len() > 1 => {
            format!(", tasks {} and {last}", names[..names.len() - 1].join(", "))
        }
        _ => format!(", task {}", task.name),
    };
    let cores = match k.cores {
        1 => format!("one {core} core"),
        n => format!("{n} {core} cores"),
    };
    let by = format!("{}{which}: emitted by kbc from {}, for {cores}.", ident(&k.name), text.source);
    out.comment(0, &format!("{by} Do not edit: change the program and emit again."));
    if names.len() > 1 {
        out.comment(0, &format!("The names and the lines of the source are those of task {}.", task.name));
    }
    for n in &text.notes {
        out.comment(0, n);
    }
    out.line(0, "//");
    out.line(0, "// Arguments:");
    for (i, t) in list.iter().enumerate() {
        let (ty, name) = (ctype(t.arg.dtype()), ident_of(&t.arg));
        out.line(0, &format!("//   {i:2}  {:5}  {ty:8}  {name}", t.direction));
    }
    for (i, s) in scalars(k).iter().enumerate() {
        let name = if let ScalarArg::Value(n) = s { ident(n) } else { s.name().into() };
        out.line(0, &format!("//   {:2}  scalar           {name}", list.len() + i));
    }
    for (i, n) in numbers.iter().enumerate() {
        let at = list.len() + scalars(k).len() + i;
        out.line(0, &format!("//   {at:2}  scalar           {}, of the task", ident(&n.name)));
    }
}

/// Returns a task with some of its numbers as scalars.
fn given_numbers(k: &Kernel, numbers: &[TaskNumber]) -> Kernel {
    let mut out = k.clone();
    let is = |name: &Name| numbers.iter().any(|n| n.what == Beginning::Piece && n.name == *name);
    out.body.retain(|s| !matches!(s, Stmt::Let { name, .. } if is(name)));
    out.scalars.extend(numbers.iter().map(|n| n.name.clone()));
    if let Some(waits) = numbers.iter().find(|n| n.what == Beginning::Waits) {
        same::wait_from_argument(&mut out, &waits.name);
    }
    out
}

fn ident_of(t: &TensorArg) -> String {
    match t {
        TensorArg::Data(d) => ident(&d.name),
        TensorArg::Area(a) => ident(&a.name),
        other => other.name().into(),
    }
}

/// Prints everything up to the body. It declares only what the body uses, so the body is printed
/// before.
fn prologue(
    k: &Kernel,
    (list, numbers): (&[TaskArg], &[TaskNumber]),
    window_bytes: &Expr,
    b: &mut Body,
    out: &mut Text,
) -> Result<(), Diagnostic> {
    let taken = list.iter().any(|t| t.arg == TensorArg::Window);
    let window = taken && (!k.signals.is_empty() || k.areas.iter().any(|a| a.reach == Reach::Peers));
    let checked = k.scalars.iter().any(|s| s == NRANKS);
    // These expressions use scalars and tables too, so they are printed before the arguments are
    // declared.
    let bytes = if window { b.expr(window_bytes) } else { String::new() };
    let bases = bases(k, list, numbers, b)?;
    b.used.insert(Helper::TensorOf);
    out.line(
        0,
        "extern \"C\" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t *args) {",
    );
    arguments(k, list, b, window, checked, out);
    for (i, n) in numbers.iter().enumerate() {
        let at = list.len() + scalars(k).len() + i;
        out.line(1, &format!("const int64_t {} = args[{at}];", b.ident(&n.name)));
    }
    if !bases.is_empty() {
        out.line(0, "");
        out.comment(
            1,
            "Counters, a line of 64 bytes each, and areas: of the window, or of this rank alone. Strides are in elements.",
        );
        out.lines(1, &bases);
    }
    out.line(0, "");
    out.comment(1, "What the host reads in the status line: call + 1, or why not and a detail.");
    out.line(1, "int64_t error = 0;");
    out.line(1, "int64_t detail = 0;");
    if checked {
        out.line(1, "if (ctx->rankNum != nranks) {");
        out.lines(2, &failure(Status::Ranks, "ctx->rankNum"));
        out.line(1, "}");
    }
    if k.cores > 1 {
        out.line(1, &format!("if (error == 0 && get_block_num(args) != {}) {{", k.cores));
        out.lines(2, &failure(Status::Cores, "get_block_num(args)"));
        out.line(1, "}");
    }
    if window {
        out.line(1, &format!("const int64_t window_bytes = {bytes};"));
        let end = "ctx->windowsIn[ctx->rankId] + ctx->winSize";
        out.line(1, &format!("const int64_t room = {end} - reinterpret_cast<uint64_t>(window);"));
        out.line(1, "if (error == 0 && room < window_bytes) {");
        out.lines(2, &failure(Status::Window, "window_bytes"));
        out.line(1, "}");
    }
    tiles(k, b, out)?;
    if b.uses.defers {
        out.line(1, "AsyncCtx completion = get_async_ctx(args);");
    }
    if b.uses.chosen {
        out.line(1, &format!("int64_t {} = -1;", b.names.chosen));
    }
    out.line(0, "");
    Ok(())
}

/// Returns the declarations of the addresses of signals and areas, and of the strides of areas.
fn bases(
    k: &Kernel,
    list: &[TaskArg],
    numbers: &[TaskNumber],
    b: &mut Body,
) -> Result<Vec<(usize, String)>, Diagnostic> {
    let argument =
        |what: &Beginning| numbers.iter().find(|n| n.what == *what).map(|n| Expr::var(n.name.clone()));
    let given = |a: &Area| list.iter().position(|t| matches!(t.arg, TensorArg::Area(g) if g.name == a.name));
    let mut out = vec![];
    for (i, s) in k.signals.iter().enumerate() {
        if b.uses.signals.contains(&i) {
            let at = s.at.as_ref().ok_or_else(|| open("signals", &s.name))?;
            let name = b.names.signals[i].clone();
            let at = argument(&Beginning::Counters(i)).unwrap_or_else(|| at.clone());
            out.push((0, base("int32_t", &name, ("window", &at), b)));
        }
    }
    for (i, a) in k.areas.iter().enumerate() {
        if let (true, Some(arg)) = (b.uses.areas.contains(&i), given(a)) {
            let (ty, name) = (ctype(a.dtype), b.names.areas[i].clone());
            let place = format!("TensorOf<uint8_t>(args[{arg}])");
            out.push((0, format!("__gm__ {ty} *{name} = reinterpret_cast<__gm__ {ty} *>({place});")));
        } else if b.uses.areas.contains(&i) {
            let at = a.at.as_ref().ok_or_else(|| open("area", &a.name))?;
            let name = b.names.areas[i].clone();
            let own = layout::own_offset(k, a);
            let at = argument(&Beginning::Area(i)).unwrap_or_else(|| at.clone());
            let place = if a.reach == Reach::Own { ("memory", &own) } else { ("window", &at) };
            out.push((0, base(ctype(a.dtype), &name, place, b)));
        }
        if b.uses.strides.contains(&i) {
            let stride = b.expr(&a.stride());
            out.push((0, format!("const int64_t {} = {stride};", b.names.strides[i])));
        }
    }
    Ok(out)
}

/// Declares the arguments, the rank, the core and the tables.
fn arguments(k: &Kernel, list: &[TaskArg], b: &Body, window: bool, checked: bool, out: &mut Text) {
    for (i, t) in list.iter().map(|t| &t.arg).enumerate() {
        let (used, name) = match t {
            TensorArg::Area(_) => continue,
            TensorArg::Data(d) => {
                let n = k.tensors.iter().position(|t| t.name == d.name).unwrap_or(0);
                (b.uses.tensors.contains(&n), b.names.tensors[n].as_str())
            }
            TensorArg::Tables => (!b.uses.tables.is_empty(), t.name()),
            TensorArg::Memory => {
                let own = |i: &usize| k.areas[*i].reach == Reach::Own;
                (b.uses.areas.iter().any(own), t.name())
            }
            TensorArg::Window => (window, t.name()),
            TensorArg::Status => (true, t.name()),
        };
        if used {
            let ty = ctype(t.dtype());
            out.line(1, &format!("__gm__ {ty} *{name} = TensorOf<{ty}>(args[{i}]);"));
        }
    }
    for (i, s) in scalars(k).iter().enumerate() {
        let at = list.len() + i;
        match s {
            ScalarArg::Value(n)
                if b.uses.scalars.contains(n)
                    || n == CALL
                    || n == NRANKS
                    || (n == ROOT && (b.uses.rank || b.uses.root)) =>
            {
                out.line(1, &format!("const int64_t {} = args[{at}];", b.ident(n)));
            }
            ScalarArg::Context if window || checked || b.uses.rank => {
                out.line(
                    1,
                    &format!("__gm__ CommContext *ctx = reinterpret_cast<__gm__ CommContext *>(args[{at}]);"),
                );
            }
            _ => {}
        }
    }
    if b.uses.rank {
        match k.root {
            None => out.line(1, "const int64_t rank = ctx->rankId;"),
            Some(own) => {
                let [root, nranks] = [ROOT, NRANKS].map(|n| b.ident(&n.into()));
                let own = if own == 0 { String::new() } else { format!(" + {own}") };
                out.comment(
                    1,
                    "The place of this rank: that of the program's root is the root of the launch.",
                );
                let place = format!("(ctx->rankId + {nranks} - {root}{own}) % {nranks}");
                out.line(1, &format!("const int64_t rank = {place};"));
            }
        }
    }
    if k.cores > 1 {
        out.line(1, "const int64_t core = get_block_idx(args);");
    }
    for (i, t) in k.tables.iter().enumerate() {
        if b.uses.tables.contains(&t.name) {
            out.line(1, &format!("__gm__ int32_t *{} = tables + tables[{i}];", b.names.tables[i]));
        }
    }
}

/// Declares the objects for tiles and assigns their addresses.
fn tiles(k: &Kernel, b: &mut Body, out: &mut Text) -> Result<(), Diagnostic> {
    if !b.uses.tiles.is_empty() {
        out.line(0, "");
    }
    for t in b.uses.tiles.clone() {
        let tile = k.tile(t.tile);
        let at = tile.at.ok_or_else(|| refuse(format!("tile ${} has no address", tile.name)))?;
        let name = b.declared(&t);
        let ty = ctype(tile.dtype);
        let copies = tile.copies;
        let (of, given) = match t.view {
            View::Sized if tile.space != Space::Vector => {
                let size = format!("{}, {}", tile.rows, tile.elements);
                (format!("{}<{ty}, {size}>", space_type(tile.space)), size)
            }
            View::Sized => (format!("TileOf<{ty}, {}>", tile.elements), tile.elements.to_string()),
            View::Rows { most, elements, pitch } => {
                (format!("RowsOf<{ty}, {most}, {pitch}, {elements}>"), most.to_string())
            }
            View::Column { most } => (format!("ColumnOf<{ty}, {most}>"), most.to_string()),
            View::Fixed(w) => (format!("WholeOf<{ty}, {}>", w.elements), String::new()),
        };
        let one = if given.is_empty() { String::new() } else { format!("({given})") };
        out.line(
            1,
            &match (copies, given.is_empty()) {
                (1, _) => format!("{of} {name}{one};"),
                (n, true) => format!("{of} {name}[{n}];"),
                (n, false) => {
                    let all = vec![format!("{of}{one}"); n as usize].join(", ");
                    format!("{of} {name}[{n}] = {{{all}}};")
                }
            },
        );
        b.used.insert(match (tile.space, t.view) {
            (Space::Vector, View::Sized) => Helper::TileOf,
            (Space::Vector, View::Fixed(_)) => Helper::WholeOf,
            (Space::Vector, View::Rows { .. }) => Helper::RowsOf,
            (Space::Vector, View::Column { .. }) => Helper::ColumnOf,
            _ => Helper::MatOf,
        });
        for copy in 0..copies {
            let object = if copies == 1 { name.clone() } else { format!("{name}[{copy}]") };
            let part = if let View::Fixed(w) = t.view { u64::from(w.offset) } else { 0 };
            let offset = part + u64::from(copy) * tile.bytes();
            out.line(1, &format!("TASSIGN({object}, 0x{:x});", u64::from(at) + offset));
            // The unit reads this flag of operands of f32 only.
            if matches!(tile.space, Space::Left | Space::Right) && tile.dtype == DType::F32 {
                out.line(1, &format!("{object}.SetKAligned(false);"));
            }
        }
    }
    Ok(())
}

/// Returns the C++ type of tiles in a memory. The helper `MatOf` defines those of a cube core.
fn space_type(space: Space) -> &'static str {
    match space {
        Space::Vector => "TileOf",
        Space::Stage => "MatOf",
        Space::Left => "LeftOf",
        Space::Right => "RightOf",
        Space::Sums => "SumsOf",
    }
}

fn base(ty: &str, name: &str, (of, at): (&str, &Expr), b: &mut Body) -> String {
    let place = match expr::constant(at) {
        Some(0) => of.to_string(),
        _ => format!("{of} + {}", b.operand(at, expr::ADD)),
    };
    format!("__gm__ {ty} *{name} = reinterpret_cast<__gm__ {ty} *>({place});")
}

fn failure(status: Status, detail: &str) -> Vec<(usize, String)> {
    vec![
        (0, format!("error = {};  // {}", status.code(), status.words())),
        (0, format!("detail = {detail};")),
    ]
}

/// Output text that is made of indented lines.
#[derive(Default)]
struct Text {
    out: String,
}

impl Text {
    fn line(&mut self, depth: usize, text: &str) {
        for (i, part) in broken(text, WIDTH.saturating_sub(4 * depth)).into_iter().enumerate() {
            let depth = if i == 0 { depth } else { depth + 1 };
            if !part.is_empty() {
                self.out.push_str(&"    ".repeat(depth));
            }
            self.out.push_str(&part);
            self.out.push('\n');
        }
    }

    fn lines(&mut self, depth: usize, list: &[(usize, String)]) {
        for (d, text) in list {
            match text.strip_prefix("// ") {
                Some(comment) => self.comment(depth + d, comment),
                None => self.line(depth + d, text),
            }
        }
    }

    /// Adds a comment, on as many lines as it needs.
    fn comment(&mut self, depth: usize, text: &str) {
        let room = WIDTH.saturating_sub(4 * depth + 3);
        // A backslash at the end of a line would join the next line to the comment.
        let plain: String = text.chars().map(|c| if c.is_control() || c == '\\' { ' ' } else { c }).collect();
        let mut line = String::new();
        for word in plain.split_inclusive(' ') {
            if !line.is_empty() && line.chars().count() + word.trim_end().chars().count() > room {
                self.out.push_str(&format!("{}// {}\n", "    ".repeat(depth), line.trim_end()));
                line = "    ".into();
            }
            line.push_str(word);
        }
        self.out.push_str(&format!("{}// {}\n", "    ".repeat(depth), line.trim_end()));
    }
}

/// Breaks a statement into lines of at most `width` columns where possible: at the outermost
/// nesting level first, after a comma or before an operator.
fn broken(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width || text.starts_with("//") {
        return vec![text.to_string()];
    }
    let mut best: Option<(usize, usize)> = None;
    let mut depth = 0usize;
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ' ' if i <= width && i > width / 3 => {
                let rest = &text[i + 1..];
                let after = text[..i].ends_with(',') || text[..i].ends_with(" =");
                let before = ["+ ", "- ", "* ", "&& ", "|| ", "? ", ": "].iter().any(|o| rest.starts_with(o));
                if (after || before) && best.is_none_or(|(d, _)| depth <= d) {
                    best = Some((depth, i));
                }
            }
            _ => {}
        }
    }
    match best {
        None => vec![text.to_string()],
        Some((_, at)) => {
            let mut out = vec![text[..at].to_string()];
            out.extend(broken(&text[at + 1..], width.saturating_sub(4)));
            out
        }
    }
}

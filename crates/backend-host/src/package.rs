//! The folder of an emitted program: the kernel with the description of its data, the transports,
//! the program around them, a Makefile and a README.
//!
//! Inputs are those of `kbc run`. Where they are integers that stay exact, every bit of a result
//! is known ([`crate::expected`]). What a program computes is compared with its definition, within
//! the bounds of its errors ([`crate::definition`]).

use crate::c::{Named, ctype, expression, ident, literal};
use crate::definition::{definition, exact};
use crate::device::{MAX_RANKS, places};
use crate::expected::{Expected, combiner, tables};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::expr::Expr;
use kbc_ir::graph::DataSource;
use kbc_ir::name::Name;
use kbc_ir::types::CutRule;
use kbc_tiles::backend::NativeBuild;
use kbc_tiles::elementwise::bound;
use kbc_tiles::layout;
use kbc_tiles::package::golden::numbered_rows;
use kbc_tiles::package::python::fill;
use kbc_tiles::package::{Bus, Global, Layout, Package, PackagedProgram, bus, only_moves, problems, refused};
use kbc_tiles::tile::{COUNT, NRANKS, Reach, TensorUse};
use std::fmt::Write;

const TRANSPORT: &str = include_str!("templates/kbc_host.h");
const DATA: &str = include_str!("templates/kbc_data.h");
const PROGRAM: &str = include_str!("templates/kbc_main.h");
const RANKS: &str = include_str!("templates/kbc_ranks.h");
const MPI: &str = include_str!("templates/kbc_mpi.h");
const COMPUTE: &str = include_str!("templates/kbc_compute.h");
const HALVES: &str = include_str!("templates/kbc_halves.h");
const NEAR: &str = include_str!("templates/kbc_near.h");
const DEFINE: &str = include_str!("templates/kbc_define.h");
const DOT: &str = include_str!("templates/kbc_dot.h");
const MPI_RANKS: &str = include_str!("templates/kbc_mpi_ranks.h");
const MAKEFILE: &str = include_str!("templates/Makefile");
const CMAKE: &str = include_str!("templates/CMakeLists.txt");
const README: &str = include_str!("templates/README.md");

/// The row of the README for [`STORED`].
const STORED_ROW: &str = "| `data.bin` | the inputs that the program takes from files |\n";

/// Most dimensions of a tensor, and most mesh axes (`KBC_DIMS`, `KBC_AXES` of `kbc_data.h`).
const MOST: (usize, usize) = (8, 16);

/// Flags that the C needs.
const STANDARD: [&str; 4] = ["-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", "-fno-math-errno"];

/// Flags that a user may replace.
const OPTIMISE: [&str; 1] = ["-O3"];

/// Flags of a build whose ranks are processes of MPI.
const WITH_MPI: [&str; 1] = ["-DKBC_MPI"];

/// Libraries on every system, and on Linux.
const LIBRARIES: ([&str; 2], &str) = (["-lm", "-pthread"], "-lrt");

/// Returns how the Makefile of a package builds the program, for who builds it without `make`.
pub fn build(name: &str) -> NativeBuild {
    let linux = cfg!(target_os = "linux").then_some(LIBRARIES.1);
    NativeBuild {
        source: format!("{name}.c"),
        standard: &STANDARD,
        mpi: &WITH_MPI,
        optimise: &OPTIMISE,
        libraries: LIBRARIES.0.into_iter().chain(linux).collect(),
        stored: STORED,
    }
}

/// Returns the files of the package: path in the folder, and content.
///
/// # Errors
/// Returns E457 for everything that cannot be in a package: a name that is not an identifier, a
/// value that is computed and not moved, inputs that do not stay exact. All are returned together.
pub fn files(package: &Package<'_>) -> Result<Vec<(String, Vec<u8>)>, Diagnostics> {
    let mut found = Diagnostics::new();
    problems(package, MAX_RANKS).into_iter().for_each(|d| found.push(d));
    if found.has_errors() {
        return Err(found);
    }
    let name = &package.kernel.name;
    let text = |t: String| t.into_bytes();
    let layout = Layout::of(package.kernel)?;
    let program = program(package, &layout)?;
    let ranks = few(package);
    let run = |program: &str, r: &u64, rest: &str| format!("\t./{name}{program} -n {r}{rest}\n");
    let checks: String = ranks.iter().map(|r| run("", r, "")).collect();
    let checks_mpi: String = ranks.iter().map(|r| format!("\t$(MPIRUN) -n {r} ./{name}_mpi\n")).collect();
    let tsan: String = ranks.iter().map(|r| run("_tsan", r, " --calls 20 --delays --repeat 0")).collect();
    let makefile = fill(
        MAKEFILE,
        &[
            ("NAME", name),
            ("STANDARD", &STANDARD.join(" ")),
            ("CFLAGS", &OPTIMISE.join(" ")),
            ("LIBS", &LIBRARIES.0.join(" ")),
            ("LINUX", LIBRARIES.1),
            ("MPI", &WITH_MPI.join(" ")),
            ("RANK", &ranks.last().map_or_else(String::new, u64::to_string)),
            ("CHECKS", &checks),
            ("CHECKS_MPI", &checks_mpi),
            ("TSAN", &tsan),
        ],
    );
    let cmake_checks: String =
        ranks.iter().map(|r| format!("add_test(NAME ranks_{r} COMMAND {name} -n {r})\n")).collect();
    let cmake = fill(
        CMAKE,
        &[
            ("NAME", name),
            ("STANDARD", &STANDARD.join(" ")),
            ("MPI", &WITH_MPI.join(" ")),
            ("DATA", STORED),
            ("RANK", &ranks.last().map_or_else(String::new, u64::to_string)),
            ("CMAKE_CHECKS", &cmake_checks),
        ],
    );
    let mut files = vec![
        ("CMakeLists.txt".into(), text(cmake)),
        ("Makefile".into(), text(makefile)),
        ("README.md".into(), text(readme(package, &ranks))),
        (format!("{name}.c"), text(program)),
        ("kbc_compute.h".into(), text(COMPUTE.to_owned())),
        ("kbc_data.h".into(), text(DATA.to_owned())),
        ("kbc_define.h".into(), text(DEFINE.to_owned())),
        ("kbc_dot.h".into(), text(DOT.to_owned())),
        ("kbc_halves.h".into(), text(HALVES.to_owned())),
        ("kbc_host.h".into(), text(TRANSPORT.to_owned())),
        ("kbc_main.h".into(), text(PROGRAM.to_owned())),
        ("kbc_mpi.h".into(), text(MPI.to_owned())),
        ("kbc_mpi_ranks.h".into(), text(MPI_RANKS.to_owned())),
        ("kbc_near.h".into(), text(NEAR.to_owned())),
        ("kbc_ranks.h".into(), text(RANKS.to_owned())),
    ];
    files.extend(stored(package).map(|content| (STORED.to_owned(), content)));
    Ok(files)
}

/// Returns at most two claimed numbers of ranks that suit a small machine.
fn few(package: &Package<'_>) -> Vec<u64> {
    let ranks = &package.claim.ranks;
    let mut out: Vec<u64> = ranks.iter().copied().filter(|r| [2, 4].contains(r)).collect();
    if out.is_empty() {
        out.extend(ranks.first());
    }
    out
}

fn readme(package: &Package<'_>, ranks: &[u64]) -> String {
    let because = |why: Option<&String>| why.map_or_else(String::new, |w| format!(" (because {w})"));
    let globals = |all: &[Global]| {
        let one = |g: &Global| {
            let sizes: Vec<String> = g.sizes.iter().map(Expr::to_string).collect();
            format!("`{}: {}[{}]`", g.name, g.ty.dtype, sizes.join(", "))
        };
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let claim = &package.claim;
    let numbers: Vec<String> = claim.ranks.iter().map(u64::to_string).collect();
    let sizes = match &claim.count {
        Some(c) => format!("`{}` (`count`) from 0 to {}", c.parameter, c.largest),
        None => "all sizes fixed".into(),
    };
    let evidence: String =
        package.evidence.iter().map(|e| format!("| {} | {} |\n", e.step, e.words)).collect();
    fill(
        README,
        &[
            ("NAME", &package.kernel.name),
            ("PROGRAM", &package.program.name),
            ("FILE", &package.program.file),
            ("RANK", &ranks.last().map_or_else(String::new, u64::to_string)),
            ("IN", &globals(&package.program.inputs)),
            ("RESULTS", &globals(&package.program.results)),
            ("RANKS", &(numbers.join(", ") + &because(claim.reasons.ranks.as_ref()))),
            ("SIZES", &(sizes + &because(claim.reasons.sizes.as_ref()))),
            ("STORED", if stored(package).is_some() { STORED_ROW } else { "" }),
            ("EVIDENCE", evidence.trim_end()),
        ],
    )
}

/// Prints the C file of a program: its kernel, and the description that `kbc_main.h` reads.
fn program(package: &Package<'_>, layout: &Layout) -> Result<String, Diagnostic> {
    let (program, kernel) = (&package.program, package.kernel);
    let name = ident(&kernel.name);
    let mut out: String = package.sources.iter().map(|s| s.text.as_str()).collect();
    let stays_exact = exact(package);
    let defined = !stays_exact || !only_moves(&program.graph);
    let include = if defined { "#include \"kbc_define.h\"\n" } else { "" };
    out += &format!("\n/* --- the program --- */\n\n{include}#include \"kbc_main.h\"\n\n");
    let axes: Vec<&Name> = program.axes.iter().map(|a| &a.0).collect();
    if axes.len() > MOST.1 {
        return Err(refused(format!("the mesh has {} axes (limit: {})", axes.len(), MOST.1)));
    }
    let mut lengths = String::new();
    for (what, all) in [("input", &program.inputs), ("result", &program.results)] {
        let mut rows = String::new();
        for (i, g) in all.iter().enumerate() {
            let input = (what == "input").then_some(i);
            rows += &format!("    {},\n", global(&name, (g, given(package, input)?), &axes, &mut lengths)?);
        }
        let rows = if rows.is_empty() { "    {0}\n".to_owned() } else { rows };
        let _ = write!(lengths, "static const struct kbc_type {name}_{what}[] = {{\n{rows}}};\n");
    }
    out += &lengths;
    let mut arguments = String::new();
    for t in &kernel.tensors {
        let result = u8::from(t.access == TensorUse::Out);
        let reached = u8::from(t.reach == Reach::Peers);
        let ty = ctype(t.dtype);
        let _ = writeln!(arguments, "    {{{result}, {}, {reached}}}, /* {}: {ty} */", t.index, t.name);
    }
    let _ = write!(out, "static const struct kbc_argument {name}_argument[] = {{\n{arguments}}};\n");
    let ranks: Vec<String> = package.claim.ranks.iter().map(u64::to_string).collect();
    let _ = writeln!(out, "static const int64_t {name}_ranks[] = {{{}}};", ranks.join(", "));
    let ranks_of = &package.claim.ranks;
    // The value of an element, or the whole results in steps.
    let (values, how, (moves, chosen)) = if defined {
        let d = definition(program, &name, stays_exact, &bound)?;
        let text = format!(
            "{}static void {name}_definition(struct kbc_definition *d) {{\n{}}}\n",
            d.functions, d.body
        );
        let how = format!(".definition = {name}_definition,\n    .compare = kbc_compare_defined");
        (text, how, tables(&d.moves, program, &name, ranks_of)?)
    } else {
        let expected = Expected::of(program)?;
        let how = format!(".expected = {name}_expected,\n    .compare = kbc_compare");
        let moves = tables(expected.moved_by(), program, &name, ranks_of)?;
        (expected.function(&name), how, moves)
    };
    let sizes = sizes(package, layout, &name, (&chosen, stays_exact))?;
    let _ = write!(out, "{moves}\n{sizes}\n{values}\n");
    let count = package.claim.count.as_ref();
    let (_, tiles) = places(&kernel.tiles);
    let because = package.claim.reasons.ranks.as_deref().map_or_else(|| "0".to_owned(), literal);
    let held = stored(package);
    let (held_bytes, held_hash) = held.as_ref().map_or((0, 0), |h| (h.len(), fnv_of(h.iter().copied())));
    let held = held.map_or_else(|| "0".to_owned(), |_| literal(STORED));
    let identity =
        fnv(&[&out, DATA, TRANSPORT, HALVES, COMPUTE, NEAR, DOT, DEFINE, PROGRAM, MPI, MPI_RANKS, RANKS]);
    let _ = write!(
        out,
        "static const struct kbc_program {name}_program = {{\n    \
            .name = {},\n    .file = {},\n    .identity = {identity:#018x},\n    .parameter = {},\n    \
            .largest = {},\n    .standard = {},\n    \
            .claimed = {},\n    .ranks = {name}_ranks,\n    .one_because = {because},\n    \
            .axes = {},\n    .inputs = {},\n    .results = {},\n    .arguments = {},\n    \
            .input = {name}_input,\n    .result = {name}_result,\n    .argument = {name}_argument,\n    \
            .stored = {held},\n    .stored_bytes = {held_bytes},\n    .stored_hash = {held_hash:#018x},\n    \
            .tiles = {tiles},\n    .bus = {},\n    .sizes = {name}_sizes,\n    {how},\n    \
            .kernel = {name}_kernel,\n}};\n\n\
         #ifndef KBC_LIBRARY\n\
         int main(int argc, char **argv) {{ return kbc_main(&{name}_program, argc, argv); }}\n\
         #endif\n",
        literal(&kernel.name),
        literal(&program.file),
        count.map_or_else(|| "0".to_owned(), |c| literal(&c.parameter)),
        count.map_or(0, |c| c.largest),
        count.map_or(0, |c| c.default),
        ranks.len(),
        axes.len(),
        program.inputs.len(),
        program.results.len(),
        kernel.tensors.len(),
        bus_word(program),
    );
    Ok(out)
}

/// Returns the FNV-1a hash of texts. `kbc_mpi_ranks.h` continues it over the arguments of a run.
fn fnv(texts: &[&str]) -> u64 {
    fnv_of(texts.iter().flat_map(|t| t.bytes()))
}

fn fnv_of(mut bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.by_ref().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Name of the file with the inputs that come from files, one after another.
const STORED: &str = "data.bin";

/// Returns the content of the file [`STORED`]; nothing if no input comes from a file.
fn stored(package: &Package<'_>) -> Option<Vec<u8>> {
    let all: Vec<&[u8]> = package.stored.iter().flatten().map(Vec::as_slice).collect();
    (!all.is_empty()).then(|| all.concat())
}

/// What an input holds: its generator with the seed, or where it begins in [`STORED`], and the
/// number of its elements there.
struct Given {
    rule: &'static str,
    seed: u64,
    elements: u64,
}

/// Returns what an input holds; `None` stands for a result.
fn given(package: &Package<'_>, input: Option<usize>) -> Result<Given, Diagnostic> {
    let of = |rule, seed| Given { rule, seed, elements: 0 };
    let Some(at) = input else { return Ok(of("KBC_BY_RULE", 0)) };
    if let Some(Some(own)) = package.stored.get(at) {
        let before: usize = package.stored[..at].iter().flatten().map(Vec::len).sum();
        let each = package.program.inputs[at].ty.dtype.bytes();
        return Ok(Given { rule: "KBC_STORED", seed: before as u64, elements: own.len() as u64 / each });
    }
    Ok(match package.program.graph.inputs.get(at).and_then(|i| i.data.as_ref()) {
        // Nothing was executed, or the form of the file has no such data.
        None | Some(DataSource::File { .. }) => of("KBC_BY_RULE", 0),
        Some(DataSource::Generator { name, args, span }) => match (name.as_str(), &args[..]) {
            ("exact", []) => of("KBC_BY_RULE", 0),
            ("ones", []) => of("KBC_ONES", 0),
            ("normal", [seed]) if *seed >= 0.0 && seed.fract() == 0.0 => of("KBC_NORMAL", *seed as u64),
            (other, _) => {
                return Err(refused(format!("the C has no generator `{other}`")).primary(*span, "named here"));
            }
        },
    })
}

/// Prints a global tensor as a `struct kbc_type`. Lengths of explicit parts are added before it.
fn global(
    name: &str,
    (g, held): (&Global, Given),
    axes: &[&Name],
    lengths: &mut String,
) -> Result<String, Diagnostic> {
    if g.ty.dims.len() > MOST.0 {
        return Err(refused(format!("{} has {} dimensions (limit: {})", g.name, g.ty.dims.len(), MOST.0)));
    }
    let place = |axis: &Name| {
        let at = axes.iter().position(|a| *a == axis);
        at.ok_or_else(|| refused(format!("{} is placed on axis {axis}, which the mesh has not", g.name)))
    };
    let list = |all: &[Name]| -> Result<String, Diagnostic> {
        let all: Vec<String> =
            all.iter().map(|a| place(a).map(|i| i.to_string())).collect::<Result<_, _>>()?;
        Ok(if all.is_empty() { "{0}".to_owned() } else { format!("{{{}}}", all.join(", ")) })
    };
    let mut cuts = vec![];
    for (i, d) in g.ty.dims.iter().enumerate() {
        cuts.push(match &d.cut {
            None => "{KBC_WHOLE, 0, {0}, 0}".to_owned(),
            Some(c) => {
                let (rule, given) = match &c.rule {
                    CutRule::Even => ("KBC_EVEN", "0".to_owned()),
                    CutRule::Ceil => ("KBC_CEIL", "0".to_owned()),
                    CutRule::Lengths(parts) => {
                        let table = format!("{name}_{}_{i}_lengths", ident(&g.name));
                        let all: Vec<String> = parts.lengths(0).iter().map(u64::to_string).collect();
                        let _ = writeln!(lengths, "static const int64_t {table}[] = {{{}}};", all.join(", "));
                        ("KBC_LENGTHS", table)
                    }
                    CutRule::Lines(_) => return Err(refused(format!("{} is cut into lines", g.name))),
                };
                format!("{{{rule}, {}, {}, {given}}}", c.axes.len(), list(&c.axes)?)
            }
        });
    }
    let cuts = if cuts.is_empty() {
        "{{KBC_WHOLE, 0, {0}, 0}}".to_owned()
    } else {
        format!("{{{}}}", cuts.join(", "))
    };
    let (reduced, over) = match &g.ty.partial {
        None => (None, &[][..]),
        Some((op, over)) => (Some(*op), &over[..]),
    };
    let combiner = combiner(reduced);
    let only = match &g.ty.only {
        None => "-1, 0".to_owned(),
        Some((at, axis)) => format!("{}, {at}", place(axis)?),
    };
    let (n, of) = (g.ty.dims.len(), g.ty.dtype);
    Ok(format!(
        "{{{}, KBC_{of}, {n}, {cuts}, {combiner}, {}, {}, {only}, {}, {}u, {}}}",
        literal(&g.name),
        over.len(),
        list(over)?,
        held.rule,
        held.seed,
        held.elements
    ))
}

/// Prints the function that computes the sizes of everything. `tables` are statements that it has
/// for some numbers of ranks. `exact`: integers stay exact.
fn sizes(
    package: &Package<'_>,
    layout: &Layout,
    name: &str,
    (tables, exact): (&str, bool),
) -> Result<String, Diagnostic> {
    let program = &package.program;
    let printed = |what: &str, e: &Expr| {
        let mut other = None;
        e.vars(&mut |n| {
            if ![NRANKS, COUNT].contains(&n.as_str()) {
                other = Some(n.clone());
            }
        });
        match other {
            Some(n) => Err(refused(format!("the size of {what} depends on `{n}`"))),
            None if e.has_table() => Err(refused(format!("the size of {what} is read from a table"))),
            None => Ok(expression(e, 0, &|(Named::Variable(n) | Named::Table(n))| n.to_string())),
        }
    };
    let mut out =
        format!("static void {name}_sizes(int64_t nranks, int64_t count, struct kbc_sizes *out) {{\n");
    let mut line = |left: String, e: &str| {
        let _ = writeln!(out, "    {left} = {e};");
    };
    line("(void)nranks".into(), "");
    line("(void)count".into(), "");
    for (i, (axis, size)) in program.axes.iter().enumerate() {
        line(format!("out->axis[{i}]"), &printed(axis, size)?);
    }
    for (what, all) in [("input", &program.inputs), ("result", &program.results)] {
        for (i, g) in all.iter().enumerate() {
            for (d, size) in g.sizes.iter().enumerate() {
                line(format!("out->{what}[{i}][{d}]"), &printed(&g.name, size)?);
            }
        }
    }
    for (input, all) in numbered_rows(program) {
        for rows in all {
            // The fewest rows of several tables.
            let rows = printed("a table", &rows)?;
            line(format!("out->rows[{input}]"), &format!("kbc_fewer(out->rows[{input}], {rows})"));
        }
    }
    line("out->window".into(), &printed("the window", &layout::bytes(package.kernel))?);
    line("out->calls".into(), &printed("the window", &layout.launches)?);
    let mut out = out.replace("(void)nranks = ;", "(void)nranks;").replace("(void)count = ;", "(void)count;");
    for (ranks, moduli) in package.moduli.iter().filter(|_| exact) {
        let all: Vec<String> = moduli.iter().flatten().map(|m| format!("{m}u")).collect();
        let all = if all.is_empty() { "1u".to_owned() } else { all.join(", ") };
        let _ = writeln!(out, "    static const uint32_t of_{ranks}[] = {{{all}}};");
        let _ = writeln!(out, "    if (nranks == {ranks}) out->modulus = of_{ranks};");
    }
    let growth = package.growth;
    if exact && growth > 0 && package.claim.count.is_some() {
        let _ = writeln!(out, "    out->growth = {growth};");
        for (ranks, count) in &package.exact_to {
            let _ = writeln!(out, "    if (nranks == {ranks}) out->exact_to = {count};");
        }
    }
    Ok(out + tables + "}\n")
}

/// Returns the rule of busbw in the words of the C files.
fn bus_word(program: &PackagedProgram) -> &'static str {
    match bus(program) {
        None => "KBC_NO_BUS",
        Some(Bus::Twice) => "KBC_TWICE",
        Some(Bus::Share) => "KBC_SHARE",
        Some(Bus::ShareOfPart) => "KBC_SHARE_OF_PART",
        Some(Bus::One) => "KBC_ONE",
    }
}

//! What is written for the runtime: kernel, orchestration, harness, golden values, test, description.
//!
//! Owns the description of a package and the files made from it. The texts of the kernel are given ([`Package::sources`]); all
//! other files come from the one list of arguments ([`crate::args`]), the layout of the window as the kernel has it
//! ([`layout`]) and the graph of the program ([`golden`]), so that nothing is stated twice. Writing the folder is the
//! driver's business.
//!
//! Golden values are made from the *definition* of the program: its graph on one device, never from schedule or layout.
//! Where integers stay exact results are compared bit for bit, elsewhere within bounds that `golden.py` computes.

pub mod golden;
pub mod layout;
mod orchestrate;
pub mod platform;
pub mod python;
mod sizes;
mod text;

pub use layout::{Layout, Row, RowKind, window_text};
pub use orchestrate::orchestration;
pub use platform::{platforms, runtimes, support};
pub use sizes::{Sizes, fit_sizes};

use crate::profile::Profile;
use crate::tile::{COUNT, Kernel, NRANKS};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::expr::Expr;
use kbc_ir::graph::Graph;
use kbc_ir::name::Name;
use kbc_ir::types::TensorType;
use std::collections::BTreeMap;

/// A global tensor of the program at every size.
#[derive(Clone, PartialEq, Debug)]
pub struct Global {
    /// Name, as in the program.
    pub name: Name,
    /// Element type and placement; the sizes in it are those of one instance and are not read.
    pub ty: TensorType,
    /// Global sizes in [`NRANKS`] and [`COUNT`], one a dimension ([`fit_sizes`] makes them).
    pub sizes: Vec<Expr>,
}

/// The program that the kernel computes.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name.
    pub name: Name,
    /// The file it is in, as the user wrote it.
    pub file: String,
    /// Its graph at one size, typed; placements and collectives in it are not read.
    pub graph: Graph,
    /// Mesh axes, slowest first, with their sizes in [`NRANKS`].
    pub axes: Vec<(Name, Expr)>,
    /// Inputs, in the order of `graph.inputs`.
    pub inputs: Vec<Global>,
    /// Results, in the order of `graph.results`.
    pub results: Vec<Global>,
}

/// The variable count of a family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountClaim {
    /// The program's parameter.
    pub parameter: Name,
    /// The largest value claimed; all from 0 on are.
    pub largest: u64,
    /// What the harness uses if nothing is said.
    pub default: u64,
}

/// Sizes for which the kernel was checked, and for no others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Rank counts, ascending.
    pub ranks: Vec<u64>,
    /// The count, if there is a variable one.
    pub count: Option<CountClaim>,
}

/// A step that was really taken, and what came out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// `proven`, `verified`, `traces compared`, ...
    pub step: String,
    /// At which sizes, with which result.
    pub words: String,
}

/// Everything a package is made from.
#[derive(Clone, Debug)]
pub struct Package<'a> {
    /// The kernel, laid out.
    pub kernel: &'a Kernel,
    /// Its C++ texts, one a task.
    pub sources: &'a [crate::cpp::Source],
    /// What it computes.
    pub program: Program,
    /// For which sizes.
    pub claim: Claim,
    /// For each claimed rank count the moduli of exact inputs, one an input (the evaluator's `exact_modulus` at the
    /// largest claimed count); none where integers do not stay exact.
    pub moduli: BTreeMap<u64, Option<Vec<u32>>>,
    /// What was checked.
    pub evidence: Vec<Evidence>,
    /// The program's own data, where files have it ([`OWN`]): an `.npz` with `input_0` and so on, whole, and for each result
    /// `bound_0` and so on, how far each of its elements may be off.
    pub own: Option<Vec<u8>>,
    /// The target.
    pub profile: &'a Profile,
}

/// The file of the program's own data.
pub const OWN: &str = "data.npz";

/// The files of the package: path in the folder, content.
///
/// # Errors
/// E457: something that has no place in a package (a name that is no identifier, an area without an offset, a result that
/// is partial, inconsistent claims). All that are found.
pub fn files(package: &Package<'_>) -> Result<Vec<(String, Vec<u8>)>, Diagnostics> {
    let layout = Layout::of(package.kernel);
    let golden = golden::print(package);
    let mut found = Diagnostics::new();
    check(package).into_iter().for_each(|d| found.push(d));
    let (layout, golden) = match (layout, golden) {
        (Ok(l), Ok(g)) if !found.has_errors() => (l, g),
        (l, g) => {
            l.err().into_iter().chain(g.err()).for_each(|d| found.push(d));
            return Err(found);
        }
    };
    let name = &package.kernel.name;
    let mut out = vec![
        ("README.md".to_owned(), text::readme(package, &layout)),
        ("golden.py".into(), golden),
        ("harness.py".into(), text::harness(package)),
        (format!("kernels/orchestration/{name}_orch.cpp"), orchestration(package.kernel)),
        ("layout.py".into(), text::layout(package, &layout)?),
        ("main.py".into(), text::main(package)),
        ("manifest.json".into(), text::manifest(package, &layout)),
        (format!("test_{name}.py"), text::test(package)),
    ];
    for s in package.sources {
        out.push((format!("kernels/{}/{}.cpp", s.core.name(), s.name), s.text.clone()));
    }
    let mut out: Vec<(String, Vec<u8>)> = out.into_iter().map(|(n, t)| (n, t.into_bytes())).collect();
    out.extend(package.own.iter().map(|bytes| (OWN.to_owned(), bytes.clone())));
    out.sort();
    Ok(out)
}

/// What cannot be packaged, in the user's words.
pub(crate) fn refused(what: impl Into<String>) -> Diagnostic {
    Diagnostic::error("E457", format!("no package can be made: {}", what.into()))
}

/// What is wrong with a description, apart from its layout and its program.
fn check(package: &Package<'_>) -> Vec<Diagnostic> {
    let (kernel, claim) = (package.kernel, &package.claim);
    let mut out = vec![];
    // Other names stand in strings and comments.
    if !python::identifier(&kernel.name) {
        out.push(refused(format!("the kernel's name `{}` is no identifier of C++ and Python", kernel.name)));
    }
    if claim.ranks.is_empty() || !claim.ranks.is_sorted_by(|a, b| a < b) {
        out.push(refused("the claimed rank counts are not an ascending list"));
    }
    let most = u64::from(package.profile.ranks);
    if claim.ranks.iter().any(|r| *r > most) {
        out.push(refused(format!("ranks are claimed above {most}, the most that a domain has")));
    }
    if claim.count.as_ref().is_some_and(|c| c.default > c.largest) {
        out.push(refused("the default count is above the largest one"));
    }
    let known = |s: &Name| [NRANKS, COUNT, crate::tile::CALL].contains(&s.as_str());
    for s in kernel.scalars.iter().filter(|s| !known(s)) {
        out.push(refused(format!("the harness has no value for the scalar `{s}`")));
    }
    for r in &claim.ranks {
        let entry = package.moduli.get(r);
        if entry.is_none_or(|m| m.as_ref().is_some_and(|m| m.len() != package.program.inputs.len())) {
            out.push(refused(format!("there are no moduli of exact inputs for {r} ranks")));
        }
    }
    let (inputs, results) = (package.program.inputs.len() as u32, package.program.results.len() as u32);
    for t in &kernel.tensors {
        let most = if t.access == crate::tile::Access::In { inputs } else { results };
        if t.index >= most {
            out.push(refused(format!(
                "tensor `{}` is input or result {}, and there are {most}",
                t.name, t.index
            )));
        }
    }
    out
}

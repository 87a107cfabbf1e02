//! Description of a package, as data, and the problems that it may have.

use crate::tile::counts::{self, OpCounts};
use crate::tile::{COUNT, Core, Kernel, NRANKS, tasks};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::graph::Graph;
use kbc_ir::name::Name;
use kbc_ir::types::{ReduceOp, TensorType};
use std::collections::BTreeMap;

/// Facts that the text of a kernel states in addition to the kernel.
#[derive(Clone, Default, Debug)]
pub struct KernelText {
    /// Name of the program's file, without folders.
    pub source: String,
    /// Further lines of the comment at the top: what was proven, and for which sizes.
    pub notes: Vec<String>,
}

/// The text of a kernel, in the language of the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Name of the file, without its extension.
    pub name: String,
    /// The kind of core that it runs on.
    pub core: Core,
    /// The text.
    pub text: String,
    /// The tasks that run it, by their indices in [`crate::tile::tasks::split`].
    pub tasks: Vec<usize>,
    /// Scalars behind those of the launch, in which its tasks differ.
    pub scalars: Vec<TaskScalar>,
}

/// A scalar argument that states a number of the task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskScalar {
    /// Name in the text.
    pub name: Name,
    /// The number of each task, in the order of [`Source::tasks`]: an expression in the scalars of
    /// the launch.
    pub values: Vec<Expr>,
}

/// A global tensor of the program, at every size.
#[derive(Clone, PartialEq, Debug)]
pub struct Global {
    /// Name, as in the program.
    pub name: Name,
    /// Element type and placement. The sizes in it are those of one instance and are not used.
    pub ty: TensorType,
    /// Global sizes as expressions in [`NRANKS`] and [`COUNT`], one per dimension (`fit_sizes`
    /// finds them).
    pub sizes: Vec<Expr>,
}

/// The program that the kernel computes.
#[derive(Clone, Debug)]
pub struct PackagedProgram {
    /// Name.
    pub name: Name,
    /// The file of the program, as the user wrote it.
    pub file: String,
    /// Typed graph of the program at one size. Placements and collectives in it are not used.
    pub graph: Graph,
    /// Mesh axes, slowest first, with their sizes as expressions in [`NRANKS`].
    pub axes: Vec<(Name, Expr)>,
    /// Inputs, in the order of `graph.inputs`.
    pub inputs: Vec<Global>,
    /// Results, in the order of `graph.results`.
    pub results: Vec<Global>,
    /// For each number of ranks, what its collectives by contract move, in order. A contract may
    /// depend on the number of ranks.
    pub moved: BTreeMap<u64, Vec<MovedBlocks>>,
}

/// What a collective that a contract defines moves along its dimension, in blocks of equal length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedBlocks {
    /// Number of blocks of the operand.
    pub before: u64,
    /// Number of blocks of the result.
    pub after: u64,
    /// The blocks of the result that the contract names. All others are 0.
    pub named: Vec<MovedBlock>,
}

/// A block of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedBlock {
    /// Its number.
    pub at: u64,
    /// Numbers of the blocks of the operand that it holds.
    pub from: Vec<u64>,
    /// How these are combined; None for a copy of the last one.
    pub combiner: Option<ReduceOp>,
}

/// The claim of a family about its variable count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountClaim {
    /// Name of the program's parameter.
    pub parameter: Name,
    /// The largest claimed value; all values from 0 on are claimed.
    pub largest: u64,
    /// The value that the harness uses by default.
    pub default: u64,
}

/// The sizes for which the kernel was checked; no others are claimed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Rank counts in ascending order.
    pub ranks: Vec<u64>,
    /// The count, if the program has a variable one.
    pub count: Option<CountClaim>,
    /// Why no other sizes are claimed.
    pub reasons: SizeReasons,
}

/// Why a kernel serves no other sizes. Each reason is the rest of a sentence.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SizeReasons {
    /// Why it serves one rank count; `None` if it serves several.
    pub ranks: Option<String>,
    /// Why all sizes are fixed; `None` if it has a count.
    pub sizes: Option<String>,
}

/// A check that was made, and its outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// Name of the check: `proven`, `verified`, `traces compared`, ...
    pub step: String,
    /// The sizes of the check and its result, in words.
    pub words: String,
}

/// What the tasks of a kernel execute at one size.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Executed {
    /// Number of ranks.
    pub ranks: u64,
    /// Value of the count; 0 if there is none.
    pub count: u64,
    /// The largest numbers over the ranks, by task.
    pub tasks: Vec<Option<OpCounts>>,
}

impl Executed {
    /// Most events of all ranks that are counted for a task.
    const EVENTS: usize = 1 << 24;

    /// Counts what the tasks of a kernel execute.
    ///
    /// # Errors
    /// Returns E456 and E459 for a kernel that is not sound at this size.
    pub fn of(kernel: &Kernel, ranks: u64, count: u64) -> Result<Executed, Diagnostic> {
        let scalars = BTreeMap::from([(COUNT.into(), count as i64)]);
        let one = |t: &tasks::Task| match counts::executed(&t.kernel, ranks, &scalars, Self::EVENTS) {
            Err(d) if d.code == "E431" => Ok(None),
            found => found.map(Some),
        };
        let tasks = tasks::split(kernel).iter().map(one).collect::<Result<_, _>>()?;
        Ok(Executed { ranks, count, tasks })
    }
}

/// Everything from which a package is made.
#[derive(Clone, Debug)]
pub struct Package<'a> {
    /// The kernel, with offsets in the window.
    pub kernel: &'a Kernel,
    /// The texts of the kernel, one per task.
    pub sources: &'a [Source],
    /// The program that the kernel computes.
    pub program: PackagedProgram,
    /// The sizes for which it was checked.
    pub claim: Claim,
    /// For each claimed rank count the moduli of exact inputs, one per input (`exact_modulus` of
    /// the evaluator, at the count of [`Package::exact_to`]); `None` if integers do not stay exact.
    pub moduli: BTreeMap<u64, Option<Vec<u32>>>,
    /// For each of these rank counts, the count at which its moduli were found.
    pub exact_to: BTreeMap<u64, u64>,
    /// With which power of the count the numbers of the program may grow.
    pub growth: u64,
    /// The checks that were made.
    pub evidence: Vec<Evidence>,
    /// What a rank executes of each task, in the order of [`crate::tile::tasks::split`], with the
    /// sizes for which it was counted; `None` for a task with too many operations to be counted.
    pub executed: Executed,
    /// The program's own data, if its inputs are files ([`OWN`]): an `.npz` with the whole inputs
    /// `input_0` and so on, and for each result `bound_0` and so on, how far each of its elements
    /// may be off.
    pub own: Option<Vec<u8>>,
    /// The elements of the inputs that come from files, whole, in C order and little-endian; `None`
    /// or no entry for an input that is generated.
    pub stored: Vec<Option<Vec<u8>>>,
}

/// Name of the file with the program's own data.
pub const OWN: &str = "data.npz";

/// Returns E457: the package cannot be made.
pub fn refused(what: impl Into<String>) -> Diagnostic {
    Diagnostic::error("E457", format!("the package cannot be generated: {}", what.into()))
}

/// Returns the problems of a description, except those of its layout and its program.
/// `ranks` is the most that a domain of the target has.
pub fn problems(package: &Package<'_>, ranks: u32) -> Vec<Diagnostic> {
    let (kernel, claim) = (package.kernel, &package.claim);
    let mut out = vec![];
    // Other names appear only in strings and comments.
    if !super::python::identifier(&kernel.name) {
        out.push(refused(format!(
            "the name of the kernel, `{}`, is not an identifier in C++ and Python",
            kernel.name
        )));
    }
    if claim.ranks.is_empty() || !claim.ranks.is_sorted_by(|a, b| a < b) {
        out.push(refused("the claimed rank counts are not an ascending list"));
    }
    let most = u64::from(ranks);
    if claim.ranks.iter().any(|r| *r > most) {
        out.push(refused(format!("more ranks are claimed than a domain can have ({most})")));
    }
    if claim.count.as_ref().is_some_and(|c| c.default > c.largest) {
        out.push(refused("the default count is above the largest one"));
    }
    let known = |s: &Name| {
        [NRANKS, COUNT, crate::tile::CALL].contains(&s.as_str())
            || (s == crate::tile::ROOT && kernel.root.is_some())
    };
    for s in kernel.scalars.iter().filter(|s| !known(s)) {
        out.push(refused(format!("the harness has no value for the scalar `{s}`")));
    }
    for r in &claim.ranks {
        let entry = package.moduli.get(r);
        if entry.is_none_or(|m| m.as_ref().is_some_and(|m| m.len() != package.program.inputs.len())) {
            out.push(refused(format!("there are no exact inputs for {r} ranks")));
        }
    }
    let (inputs, results) = (package.program.inputs.len() as u32, package.program.results.len() as u32);
    for t in &kernel.tensors {
        let most = if t.access == crate::tile::TensorUse::In { inputs } else { results };
        if t.index >= most {
            out.push(refused(format!(
                "tensor `{}` is input or result {}, and there are only {most}",
                t.name, t.index
            )));
        }
    }
    out
}

//! Backends: what a target of emission offers to the rest of the compiler.
//!
//! The module owns the interface. A backend is a crate that implements [`Backend`] and [`Target`];
//! the command line reaches all backends through one table and names none of them.

use crate::device::Device;
use crate::lower::chain::Bound;
use crate::lower::{self, CountedKernel, Places, Shares, Staging};
use crate::package::{KernelText, Package, Source};
use crate::tile::Kernel;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::scalar::ScalarUn;
use kbc_ir::schedule::Schedule;
use kbc_ir::types::DType;

/// A platform or a runtime, and whether it is supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Support {
    /// Name in the runtime.
    pub name: &'static str,
    /// Why it is not supported; `None` if it is supported.
    pub unsupported_because: Option<&'static str>,
}

/// Checks whether `name` is one of `all` and supported. `word` says what is named.
///
/// # Errors
/// Returns E458 with the reason if it is unknown or not supported.
pub fn supported(word: &str, name: &str, all: &[Support]) -> Result<(), Diagnostic> {
    let served: Vec<&str> = all.iter().filter(|s| s.unsupported_because.is_none()).map(|s| s.name).collect();
    let d = match all.iter().find(|s| s.name == name) {
        Some(Support { unsupported_because: None, .. }) => return Ok(()),
        Some(Support { unsupported_because: Some(why), .. }) => {
            Diagnostic::error("E458", format!("{word} {name} is not supported: {why}"))
        }
        None => Diagnostic::error("E458", format!("unknown {word} `{name}`")),
    };
    let d = d.note(format!("supported: {}", served.join(", ")));
    Err(match nearest(name, served) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    })
}

/// A file of a package that is the same in all packages of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedFile {
    /// Path in the folder of a package.
    pub name: &'static str,
    /// Whether each of several packages that are written together keeps one of its own.
    pub kept: bool,
}

/// A pass of a backend's tile level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the pass, in one line.
    pub doc: &'static str,
}

/// How the C compiler of this computer makes a program of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NativeBuild {
    /// The file of the package that is compiled.
    pub source: String,
    /// Flags that the text needs.
    pub standard: &'static [&'static str],
    /// Flags of a build whose ranks are processes of MPI, by its compiler.
    pub mpi: &'static [&'static str],
    /// Flags that a user may replace: those of the environment variable `CFLAGS`.
    pub optimise: &'static [&'static str],
    /// Flags behind the file: libraries.
    pub libraries: Vec<&'static str>,
    /// The file of the package with inputs that come from files, if there is one.
    pub stored: &'static str,
}

/// A backend: a family of targets that share passes and a printer.
pub trait Backend: Sync {
    /// Returns the name of the backend.
    fn name(&self) -> &'static str;

    /// Returns what the backend does with a program, in one line for lists and help texts.
    fn about(&self) -> &'static str;

    /// Returns the platforms that users may name, also those for which nothing is emitted.
    fn platforms(&self) -> Vec<Support>;

    /// Returns the target of a platform.
    ///
    /// # Errors
    /// Returns E458 with the reason if there is no such platform or nothing is emitted for it.
    fn target(&self, platform: &str) -> Result<&'static dyn Target, Diagnostic>;

    /// Returns the target of a `.tile` text for which the user names none.
    fn default_target(&self) -> &'static dyn Target;

    /// Returns the passes that complete a lowered kernel, in the order in which they run.
    fn passes(&self) -> Vec<Pass>;
}

/// A target of a backend, for which kernels are lowered, completed, printed and packed.
pub trait Target: Device {
    /// Returns the name of the target, which is that of its platform.
    fn name(&self) -> &'static str;

    /// Returns the backend of the target.
    fn backend(&self) -> &'static dyn Backend;

    /// Returns the target as the device that lowering and the verifier ask.
    fn device(&self) -> &dyn Device;

    /// Returns the same target with tasks that end where they would wait, if its runtime can wait
    /// for them.
    fn with_deferred_waits(&self) -> Option<&'static dyn Target> {
        None
    }

    /// Returns the named pipeline that makes the schedules of this target.
    fn pipeline(&self) -> &'static str {
        "windows"
    }

    /// Returns the kernel of a schedule, for its sizes alone, before the passes. `shares`: how the
    /// matmuls of the program are divided among matrix cores; what it does not state is chosen by
    /// the sizes of this schedule and added.
    ///
    /// # Errors
    /// Returns what the target refuses of the schedule, and why: E470 for what its cores cannot do,
    /// E471 for too many ranks, and E451 for a function that its instructions do not compute.
    fn lower(
        &self,
        schedule: &Schedule,
        staging: Staging,
        places: Places<'_>,
        shares: &mut Shares,
    ) -> Result<Kernel, Diagnostics> {
        lower::lower(schedule, staging, places, self.device(), shares)
    }

    /// Returns the kernel of a schedule for counting what it moves.
    ///
    /// # Errors
    /// Returns the errors of [`Target::lower`].
    fn counts(&self, schedule: &Schedule) -> Result<CountedKernel, Diagnostics> {
        lower::counts(schedule, self.device())
    }

    /// Runs a pass of the backend on a kernel.
    ///
    /// # Errors
    /// Returns E902 if the backend has no pass of this name, and the errors of the pass.
    fn run(&self, pass: &str, kernel: &mut Kernel) -> Result<(), Diagnostics>;

    /// Prints the kernels of a complete program of tasks, or a complete kernel, in the language of
    /// the target. Tasks whose kernels differ in names alone may share one.
    ///
    /// # Errors
    /// Returns E451 for what has no text on the target.
    fn sources(&self, kernel: &Kernel, text: &KernelText) -> Result<Vec<Source>, Diagnostic>;

    /// Returns the text that submits the tasks of a kernel, and its entry points: configuration and
    /// orchestration. `None` if a kernel of this form needs none. `sources` are those of the
    /// kernel.
    fn orchestration(&self, kernel: &Kernel, sources: &[Source]) -> Option<[String; 3]>;

    /// Returns the files of a package: path in the folder, and content.
    ///
    /// # Errors
    /// Returns E457 for everything that cannot be in a package.
    fn files(&self, package: &Package<'_>) -> Result<Vec<(String, Vec<u8>)>, Diagnostics>;

    /// Returns the files of which several packages that are written together need one beside their
    /// folders.
    fn shared_files(&self) -> &'static [SharedFile] {
        &[]
    }

    /// Returns the command that runs the test of a package, to be started in its folder: the
    /// program and its arguments.
    fn test_command(&self, package: &Package<'_>) -> Vec<String>;

    /// Checks whether a launch of the target's kernels can take another root than the program's
    /// ([`Kernel::root`]).
    fn takes_root(&self) -> bool {
        false
    }

    /// Returns how the package of a kernel of this name becomes a program of this computer, which
    /// runs the ranks. `None` if it needs a device or a runtime.
    fn native_build(&self, _kernel: &str) -> Option<NativeBuild> {
        None
    }

    /// Returns the type that stands for a type in a kernel. Types that a target has not are moved
    /// as bytes.
    fn moved_as(&self, dtype: DType) -> DType;

    /// Returns the error bound of a function on the target; `None` for a function that is exact.
    fn bound(&self, function: ScalarUn) -> Option<Bound>;
}

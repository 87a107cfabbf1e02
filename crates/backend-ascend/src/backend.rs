//! The backend as the rest of the compiler sees it.

use crate::cpp::numbers;
use crate::package::{self, platform};
use crate::passes::PASSES;
use crate::profile::{self, DEFERRING, PROFILES, Profile};
use crate::{cpp, elementwise};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::scalar::ScalarUn;
use kbc_ir::types::DType;
use kbc_tiles::backend::{Backend, Pass, SharedFile, Support, Target};
use kbc_tiles::device::Device;
use kbc_tiles::lower::chain::Bound;
use kbc_tiles::package::{KernelText, Package, Source};
use kbc_tiles::tile::{Core, Kernel};

/// The backend for Ascend targets.
pub static ASCEND: Ascend = Ascend;

/// The backend for Ascend targets; its targets are the profiles.
#[derive(Clone, Copy, Debug)]
pub struct Ascend;

impl Backend for Ascend {
    fn name(&self) -> &'static str {
        "ascend"
    }

    fn about(&self) -> &'static str {
        "proves, executes, emits kernels with their harness"
    }

    fn platforms(&self) -> Vec<Support> {
        platform::platforms()
    }

    fn target(&self, name: &str) -> Result<&'static dyn Target, Diagnostic> {
        let runtime = platform::runtimes(name).first().map_or("", |r| r.name);
        platform::support(name, runtime)?;
        let none = || Diagnostic::error("E458", format!("unknown platform `{name}`"));
        profile::find(name).map(|p| p as &dyn Target).ok_or_else(none)
    }

    fn default_target(&self) -> &'static dyn Target {
        &PROFILES[0]
    }

    fn passes(&self) -> Vec<Pass> {
        PASSES.iter().map(|p| Pass { name: p.name, doc: p.doc }).collect()
    }
}

impl Target for Profile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn backend(&self) -> &'static dyn Backend {
        &ASCEND
    }

    fn device(&self) -> &dyn Device {
        self
    }

    fn with_deferred_waits(&self) -> Option<&'static dyn Target> {
        let deferring = DEFERRING.iter().find(|p| p.name == self.name)?;
        Some(deferring)
    }

    fn pipeline(&self) -> &'static str {
        "tasks"
    }

    fn run(&self, pass: &str, kernel: &mut Kernel) -> Result<(), Diagnostics> {
        match PASSES.iter().find(|p| p.name == pass) {
            Some(p) => (p.run)(kernel, self),
            None => Err(Diagnostic::error("E902", format!("the tile level has no pass `{pass}`")).into()),
        }
    }

    fn sources(&self, kernel: &Kernel, text: &KernelText) -> Result<Vec<Source>, Diagnostic> {
        cpp::sources(kernel, text, self.limits.scalars)
    }

    fn orchestration(&self, kernel: &Kernel, sources: &[Source]) -> Option<[String; 3]> {
        (kernel.core == Core::Tasks).then(|| {
            let name = &kernel.name;
            [
                package::orchestration(kernel, sources),
                format!("{name}_config"),
                format!("{name}_orchestration"),
            ]
        })
    }

    fn files(&self, package: &Package<'_>) -> Result<Vec<(String, Vec<u8>)>, Diagnostics> {
        package::files(package, self)
    }

    fn shared_files(&self) -> &'static [SharedFile] {
        // Without its own `conftest.py`, the tests of one package alone would have no options.
        &[SharedFile { name: "harness.py", kept: false }, SharedFile { name: "conftest.py", kept: true }]
    }

    fn test_command(&self, package: &Package<'_>) -> Vec<String> {
        package::test_command(package)
    }

    fn takes_root(&self) -> bool {
        true
    }

    fn moved_as(&self, dtype: DType) -> DType {
        numbers::moved_as(dtype)
    }

    fn bound(&self, function: ScalarUn) -> Option<Bound> {
        elementwise::bound(function)
    }
}

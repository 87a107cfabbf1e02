//! The backend as the rest of the compiler sees it.

use crate::device::Processor;
use crate::passes::PASSES;
use crate::{c, package, refused};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::scalar::ScalarUn;
use kbc_ir::schedule::Schedule;
use kbc_ir::types::DType;
use kbc_tiles::backend::{Backend, NativeBuild, Pass, Support, Target, supported};
use kbc_tiles::device::Device;
use kbc_tiles::elementwise;
use kbc_tiles::lower::chain::Bound;
use kbc_tiles::lower::{self, Places, Shares, Staging};
use kbc_tiles::package::{KernelText, Package, Source};
use kbc_tiles::tile::Kernel;

/// The backend for processes of one computer.
pub static HOST: Host = Host;

/// The backend for processes of one computer. Its only target has its name.
#[derive(Clone, Copy, Debug)]
pub struct Host;

/// Name of the target.
pub const NAME: &str = "host";

impl Backend for Host {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "proves, executes, emits C that runs as processes of one computer"
    }

    fn platforms(&self) -> Vec<Support> {
        vec![Support { name: NAME, unsupported_because: None }]
    }

    fn target(&self, platform: &str) -> Result<&'static dyn Target, Diagnostic> {
        supported("platform", platform, &self.platforms())?;
        Ok(&Processor)
    }

    fn default_target(&self) -> &'static dyn Target {
        &Processor
    }

    fn passes(&self) -> Vec<Pass> {
        PASSES.iter().map(|p| Pass { name: p.name, doc: p.doc }).collect()
    }
}

impl Target for Processor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn backend(&self) -> &'static dyn Backend {
        &HOST
    }

    fn device(&self) -> &dyn Device {
        self
    }

    fn lower(
        &self,
        schedule: &Schedule,
        staging: Staging,
        places: Places<'_>,
        shares: &mut Shares,
    ) -> Result<Kernel, Diagnostics> {
        let kernel = lower::lower(schedule, staging, places, self, shares)?;
        refused::check(&kernel)?;
        Ok(kernel)
    }

    fn run(&self, pass: &str, kernel: &mut Kernel) -> Result<(), Diagnostics> {
        match PASSES.iter().find(|p| p.name == pass) {
            Some(p) => (p.run)(kernel),
            None => Err(Diagnostic::error("E902", format!("the tile level has no pass `{pass}`")).into()),
        }
    }

    fn sources(&self, kernel: &Kernel, text: &KernelText) -> Result<Vec<Source>, Diagnostic> {
        let printed = c::kernel(kernel, text)?;
        Ok(vec![Source {
            name: kernel.name.to_string(),
            core: kernel.core,
            text: printed,
            tasks: vec![0],
            scalars: vec![],
        }])
    }

    fn orchestration(&self, _: &Kernel, _: &[Source]) -> Option<[String; 3]> {
        None
    }

    fn files(&self, package: &Package<'_>) -> Result<Vec<(String, Vec<u8>)>, Diagnostics> {
        package::files(package)
    }

    fn test_command(&self, _: &Package<'_>) -> Vec<String> {
        ["make", "check"].map(str::to_owned).to_vec()
    }

    fn native_build(&self, kernel: &str) -> Option<NativeBuild> {
        Some(package::build(kernel))
    }

    fn moved_as(&self, dtype: DType) -> DType {
        dtype
    }

    fn bound(&self, function: ScalarUn) -> Option<Bound> {
        // The chains of functions assume an `exp` and a `log` that are wrong by at most one unit in
        // the last place: `kbc_exp` is by 0.991 at most, and `logf` of the C library by 1.
        elementwise::bound(function)
    }
}

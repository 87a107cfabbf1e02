//! Native: compilers and launchers of this computer, which an environment variable may name.

use kbc_compiler::workspace::words;
use kbc_diag::Diagnostic;
use std::path::Path;
use std::process::Command;

/// A compiler, or a launcher of processes, that runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NativeTool {
    command: String,
    version: Vec<u8>,
}

impl NativeTool {
    /// Finds the program that an environment variable names, or else the one of this name. `what`
    /// is what it is, such as `compiler`, and `help` says what needs it.
    ///
    /// # Errors
    /// Returns E564 if it does not run.
    pub fn find(what: &str, variable: &str, name: &str, help: &str) -> Result<NativeTool, Diagnostic> {
        let command =
            std::env::var(variable).ok().filter(|c| !c.trim().is_empty()).unwrap_or_else(|| name.to_owned());
        NativeTool::named(what, &command, help)
    }

    /// Takes the program with this name, and arguments that come first. `what` and `help` are as
    /// for [`NativeTool::find`].
    ///
    /// # Errors
    /// Returns E564 if it does not run.
    pub fn named(what: &str, command: &str, help: &str) -> Result<NativeTool, Diagnostic> {
        let command = command.to_owned();
        let why = match started(&command).arg("--version").output() {
            Ok(out) if out.status.success() => return Ok(NativeTool { command, version: out.stdout }),
            Ok(out) => format!("{command} --version ended with {}", out.status),
            Err(e) => words(&e),
        };
        Err(Diagnostic::error("E564", format!("the {what} `{command}` does not run")).note(why).help(help))
    }

    /// The words with which it is started.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns a command that runs it. Arguments are added behind those that its name has.
    pub fn start(&self) -> Command {
        started(&self.command)
    }

    /// Runs it in a folder.
    ///
    /// # Errors
    /// Returns its messages if it fails, or why it does not start.
    pub fn call(&self, args: &[&str], dir: &Path) -> Result<(), String> {
        let out = started(&self.command).args(args).current_dir(dir).output();
        let out = out.map_err(|e| format!("{}: {}", self.command, words(&e)))?;
        if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
    }
}

/// Returns a command from its words: the program, and arguments that come first, as in `ccache
/// gcc`.
fn started(command: &str) -> Command {
    let mut all = command.split_whitespace();
    let mut out = Command::new(all.next().unwrap_or(command));
    out.args(all);
    out
}

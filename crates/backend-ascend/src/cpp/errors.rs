//! Errors of the C++ printer (E451): parts of a kernel for which the target has no instruction.

use kbc_diag::Diagnostic;

/// Returns E451: there is no instruction for a part of the kernel.
pub(super) fn no_instruction(title: String) -> Diagnostic {
    Diagnostic::error("E451", title).note("the verifier finds this before a kernel is printed")
}

//! Errors of the printer.

use kbc_diag::Diagnostic;

/// Returns E449: the kernel is not complete.
pub(super) fn refuse(title: String) -> Diagnostic {
    Diagnostic::error("E449", title).note(
        "kernels are printed after the passes layout, buffers, flags and fences, and after the verifier",
    )
}

/// Returns E451: there is no instruction for a part of the kernel.
pub(super) fn no_instruction(title: String) -> Diagnostic {
    Diagnostic::error("E451", title).note("the verifier finds this before a kernel is printed")
}

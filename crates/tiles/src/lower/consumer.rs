//! Consumers: the functions that are computed of a collective's result while it is in the core, as
//! data ([`super::fused`] finds and lowers them).

use super::chain::Chain;
use kbc_diag::Span;
use kbc_ir::schedule::BufferId;

/// The functions of what a collective leaves in a buffer, each applied to the result of the
/// previous one.
#[derive(Clone)]
pub(super) struct Consumer {
    /// The buffer that the kernel does not have.
    pub(super) of: BufferId,
    pub(super) steps: Vec<Function>,
}

/// A function on tiles.
#[derive(Clone)]
pub(super) struct Function {
    pub(super) chain: Chain,
    pub(super) dst: BufferId,
    pub(super) args: Vec<BufferId>,
    /// Index of the operand that is the collective's result or that of the previous function.
    pub(super) at: usize,
    pub(super) span: Span,
}

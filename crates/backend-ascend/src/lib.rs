//! Ascend: emission of verified schedules as AIV and AIC kernels with orchestration and a harness.
//!
//! Owns the targets there will be and why one cannot be had yet. It reads schedules only; passes and frontend are out
//! of its sight.

pub mod args;
pub mod cpp;
pub mod family;
pub mod lower;
pub mod package;
pub mod passes;
pub mod profile;
pub mod tile;

/// A target of emission.
pub struct Target {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, and why it is refused.
    pub why: &'static str,
}

/// Targets by name. None of them emits anything yet.
pub const TARGETS: &[Target] = &[
    Target {
        name: "a2a3",
        why: "emission for Ascend A2 and A3 is being built; schedules are proven and simulated already",
    },
    Target { name: "a2a3sim", why: "emission for the simulator of Ascend A2 and A3 is being built" },
    Target { name: "a5sim", why: "emission for the simulator of Ascend A5 is being built" },
];

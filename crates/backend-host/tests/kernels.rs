//! Kernels of the tests, from `.tile` text.

use kbc_backend_host::{Processor, passes};
use kbc_diag::FileId;
use kbc_tiles::device::Device;
use kbc_tiles::tile::{Kernel, parse};

/// The text of a ring all-reduce, as it is lowered.
pub const RING: &str = include_str!("tile/ring.tile");

/// Returns the complete kernel of a text.
pub fn complete(text: &str) -> Kernel {
    let parsed = parse::parse(text, FileId(0), Processor.dialect());
    let mut kernel = parsed.unwrap_or_else(|d| panic!("{:#?}\n{text}", d.list));
    passes::complete(&mut kernel).expect("it is completed");
    kernel
}

/// Returns a kernel with these statements, with a window `@w` that peers reach and a counter `@s`.
pub fn with(statements: &[&str]) -> Kernel {
    let head = "tile 1\nkernel @k process\nscalar nranks\nscalar call\ntensor %x : f32[8] in 0\n\
                tensor %y : f32[8] out 0\nsignals @s[1] per call 1\nwindow @w : f32[1 x 8] arena 0\n\
                tile $a : f32[8]\ntile $b : f32[8]\ntile $c : f32[8]\ntile $h : f16[8]\n\nbody\n";
    let body: String = statements.iter().map(|s| format!("  {s}\n")).collect();
    complete(&format!("{head}{body}"))
}

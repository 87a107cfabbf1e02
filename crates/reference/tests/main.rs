//! Tests of `kbc-reference`; one binary, a module per subject.

mod reference_util;

mod blocks;
mod bounds;
mod deep;
mod evaluate;
mod ffn;
mod terms;

//! Unit tests: parts of the crate by themselves, a module for each module of the crate.

mod element;
mod functions;
mod gemm;
mod lists;
mod provenance;
mod tensor;

//! Numbers: tensors in every element type, and what each operation computes on them.
//!
//! * [`tensor`], [`numbers`]: elements, element types and where results round.
//! * [`scalar_eval`], [`gemm`], [`tiles`], [`local`]: the operations that a rank performs on its own buffers.
//! * [`shard`], [`generate`], [`compare`]: feeding ranks, making inputs, comparing results.
//! * [`formats`]: data files (npy, npz, safetensors).
//! * [`provenance`]: whose contributions a wrong element holds.
//!
//! There is one meaning for all who compute: the interpreter, the adversary, the JIT's helpers and the judge of the
//! checker. Only the reference evaluator has its own.

pub mod compare;
pub mod formats;
pub mod gemm;
pub mod generate;
pub mod local;
pub mod numbers;
pub mod provenance;
pub mod rng;
pub mod scalar_eval;
pub mod shard;
pub mod tensor;
pub mod tiles;

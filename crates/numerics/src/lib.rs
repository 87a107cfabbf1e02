//! Numerics: tensors in every element type, and what each operation computes on them.
//!
//! * [`element`], [`tensor`], [`numbers`]: elements, vectors of them, and where results are
//!   rounded.
//! * [`functions`], [`lists`], [`scalar_eval`], [`gemm`], [`mod@broadcast`], [`tiles`],
//!   [`local`]: the operations that a rank performs on its own buffers.
//! * [`shard`], [`generate`], [`compare`]: feeding ranks, generating inputs, comparing results.
//! * [`formats`]: data files (npy, npz, safetensors).
//! * [`provenance`]: which contributions a wrong element holds.
//!
//! The interpreter, the adversary, the helpers of the JIT and the judge of the checker all use this
//! one definition of every operation. Only the reference evaluator has its own.

pub mod broadcast;
pub mod compare;
pub mod element;
pub mod formats;
pub mod functions;
pub mod gemm;
pub mod generate;
pub mod lists;
pub mod local;
pub mod numbers;
pub mod provenance;
pub mod rng;
pub mod scalar_eval;
pub mod shard;
pub mod tensor;
pub mod threads;
pub mod tiles;

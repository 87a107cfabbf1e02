//! Tests of `kbc-numerics`; one binary, a module per subject.

mod feed;
mod formats;
mod formats_minilm;
mod local;
mod numbers;
mod units;

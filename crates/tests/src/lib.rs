//! Nothing: this package holds tests of other crates, which its manifest names.

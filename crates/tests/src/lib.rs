//! Tests of other crates, which the manifest of this package names. This file holds nothing.

//! Links the program at a fixed address. Its tables contain tens of thousands of addresses; if it
//! could lie anywhere, the loader would write all of them before each start, however little the
//! command needs (`docs/adr/082-proofs-at-scale.md`).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    if of("CARGO_CFG_TARGET_OS") == "linux" && of("CARGO_CFG_TARGET_ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

//! Benchmark: compilation of the feed-forward layer, from its text to a proven schedule. Target: 50
//! ms.

#[path = "../tests/real/driver.rs"]
mod driver;

use divan::Bencher;
use kbc_compiler::proof;

fn main() {
    divan::main();
}

/// Measures reading the library and the program, lowering, the passes with the verifier after each,
/// and the checker.
#[divan::bench(args = [2, 4, 8])]
fn compile_and_verify(tp: u32) {
    let job = driver::built(&["specs/ffn_tp.kb", "-D", &format!("tp={tp}")]);
    divan::black_box(proof::proof(job.schedule())).expect("the layer is right");
}

/// Measures the same without the checker.
#[divan::bench(args = [2, 4, 8])]
fn compile(tp: u32) {
    divan::black_box(driver::built(&["specs/ffn_tp.kb", "-D", &format!("tp={tp}")]));
}

/// Measures what every start of kbc costs: parsing and checking the texts of the library.
#[divan::bench]
fn library(bencher: Bencher) {
    bencher.bench(driver::library);
}

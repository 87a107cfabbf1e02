//! From the text of the feed-forward layer to a proven schedule. Target: 50 ms.

#[path = "../tests/real/driver.rs"]
mod driver;

use divan::Bencher;
use kbc::analyse;

fn main() {
    divan::main();
}

/// Reading the library and the program, lowering, passes with the verifier after each, and the checker.
#[divan::bench(args = [2, 4, 8])]
fn compile_and_verify(tp: u32) {
    let job = driver::built(&["specs/ffn_tp.kb", "-D", &format!("tp={tp}")]);
    divan::black_box(analyse::verify(job.schedule())).expect("the layer is right");
}

/// The same without the checker.
#[divan::bench(args = [2, 4, 8])]
fn compile(tp: u32) {
    divan::black_box(driver::built(&["specs/ffn_tp.kb", "-D", &format!("tp={tp}")]));
}

/// What every start of kbc pays: the library's texts, parsed and checked, and nothing else.
#[divan::bench]
fn library(bencher: Bencher) {
    bencher.bench(driver::library);
}

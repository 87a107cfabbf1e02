//! The file of hand-written kernels.

use kbc_evaluation::testing::{KERNELS, formula_value, read_kernels};
use kbc_evaluation::traffic::kernels::of;

#[test]
fn every_formula_has_a_value_and_no_kernel_moves_less_than_it_has_to() {
    let (targets, kernels) = read_kernels(KERNELS).unwrap();
    for k in &kernels {
        for ranks in [2, 4, 8, 16] {
            let (_, list) = of(&targets[0], &k.collective, ranks, 1 << 16).unwrap().unwrap();
            let m = list.iter().find(|m| m.name == k.name).unwrap();
            let part = (ranks - 1) * (1 << 16) / ranks;
            let least = if k.collective == "all_reduce" { 2 * part } else { part };
            assert!(m.link >= least && m.written >= m.stage_in + m.stage_out, "{ranks}: {m:?}");
            assert!(m.read >= m.stage_in + m.stage_out && m.notifies > 0, "{ranks}: {m:?}");
        }
    }
    assert!(of("sim", "all_reduce", 4, 64).unwrap().is_none());
    assert!(of("a2a3", "all_reduce", 1, 64).unwrap().unwrap().1.is_empty(), "nobody to signal to");
}

#[test]
fn a_wrong_file_is_an_error() {
    assert!(read_kernels("kernels: 2\ntargets: []\nsource: x\nkernels_of: []\n").is_err());
    assert!(read_kernels("kernels: 1\ntargets: []\nsource: x\n").is_err());
    for text in ["", "P +", "Q", "N - 100", "P P"] {
        assert!(formula_value(text, 4, 64).is_err(), "{text}");
    }
    assert_eq!(formula_value("2 * (P - 1) * N / P", 4, 64).unwrap(), 96);
}

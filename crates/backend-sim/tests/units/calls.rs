//! Conversions of blocks of numbers.

use half::{bf16, f16};
use kbc_backend_sim::testing::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

/// Converts every f16, and for each the f32 around it and around the midpoint to the next f16.
#[test]
fn blocks_of_f16_convert_as_single_ones_do() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).chain([f16::ONE; 5]).collect();
    let mut wide = vec![0f32; all.len()];
    f16_to_f32(&all, &mut wide);
    assert!(wide.iter().zip(&all).all(|(w, b)| w.to_bits() == b.to_f32().to_bits() || w.is_nan()));
    for step in [0i32, 1, -1, 0xfff, 0x1000, 0x1001] {
        let from: Vec<f32> =
            wide.iter().map(|w| f32::from_bits(w.to_bits().wrapping_add_signed(step))).collect();
        let mut to = vec![f16::ZERO; from.len()];
        f32_to_f16(&from, &mut to);
        for (x, got) in from.iter().zip(&to) {
            let want = f16::from_f32(*x);
            assert!(want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan()), "{x:e}");
        }
    }
}

/// Converts every bf16, and for each the f32 around the midpoint to the next bf16.
#[test]
fn blocks_of_bf16_convert_as_single_ones_do() {
    let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let mut wide = vec![0f32; all.len()];
    bf16_to_f32(&all, &mut wide);
    assert!(wide.iter().zip(&all).all(|(w, b)| w.to_bits() == b.to_f32().to_bits() || w.is_nan()));
    for low in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
        let from: Vec<f32> = (0..=u16::MAX).map(|b| f32::from_bits(u32::from(b) << 16 | low)).collect();
        let mut to = vec![bf16::ZERO; from.len()];
        f32_to_bf16(&from, &mut to);
        for (x, got) in from.iter().zip(&to) {
            let want = bf16::from_f32(*x);
            assert!(want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan()), "{x:e}");
        }
    }
}

//! Random bits as inputs: NaN, infinities, denormals, both zeros and extreme values beside ordinary
//! numbers.

use super::rng::Rng;
use kbc_ir::dtype::Format;
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_ir::types::{DType, TensorType};
use kbc_numerics::numbers::{from_f64, from_i64};
use kbc_numerics::shard::feed_shape;
use kbc_numerics::tensor::{Data, Tensor};

/// The kind of numbers in a tensor.
#[derive(Clone, Copy)]
enum Style {
    Bits,
    Special,
    Ordinary,
    Whole,
    Mixed,
}

/// Bit patterns of f32 at boundaries of its behaviour.
const SPECIAL: [u32; 18] = [
    0x0000_0000, // 0
    0x8000_0000, // -0
    0x0000_0001, // the smallest denormal
    0x807f_ffff, // the largest negative denormal
    0x0080_0000, // the smallest normal
    0x7f7f_ffff, // the largest finite number
    0xff7f_ffff,
    0x7f80_0000, // infinity
    0xff80_0000,
    0x7fc0_0000, // NaN
    0xffc0_0001,
    0x7f80_0001, // a signalling NaN
    0x3f80_0000, // 1
    0xbf80_0000,
    0x477f_e000, // 65504, the largest f16
    0x477f_f000, // 65520, which rounds to infinity in f16
    0x3380_0000, // 2^-24, the smallest f16
    0x4b80_0001,
];

fn float(rng: &mut Rng, style: Style) -> f32 {
    match style {
        Style::Bits => f32::from_bits(rng.draw() as u32),
        Style::Special => f32::from_bits(*rng.pick(&SPECIAL)),
        Style::Ordinary => {
            let unit = (rng.draw() >> 40) as f32 / (1u32 << 24) as f32;
            (unit - 0.5) * *rng.pick(&[1.0, 4.0, 16.0])
        }
        Style::Whole => rng.below(17) as f32 - 8.0,
        Style::Mixed => {
            let style = rng.weighted(&[
                (1, Style::Bits),
                (2, Style::Special),
                (12, Style::Ordinary),
                (3, Style::Whole),
            ]);
            float(rng, style)
        }
    }
}

fn int(rng: &mut Rng, style: Style, bits: u32) -> i64 {
    let (lo, hi) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
    match style {
        Style::Bits => rng.draw() as i64 >> (64 - bits),
        Style::Special => *rng.pick(&[lo, lo + 1, hi, hi - 1, 0, 1, -1, 46341, 65536, -65536]),
        Style::Whole | Style::Ordinary => rng.below(33) as i64 - 16,
        Style::Mixed => {
            let style = rng.weighted(&[(2, Style::Bits), (1, Style::Special), (4, Style::Whole)]);
            int(rng, style, bits)
        }
    }
}

/// Returns random bits of a 16-bit float for some elements, so that its denormals and NaN are as
/// frequent as in f32.
fn half_bits(rng: &mut Rng, style: Style) -> Option<u16> {
    let bits = matches!(style, Style::Bits) || matches!(style, Style::Mixed) && rng.chance(10);
    bits.then(|| rng.draw() as u16)
}

/// The numbers that inputs contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// All bit patterns.
    Any,
    /// Ordinary numbers: small floats, and integers of any size.
    Ordinary,
}

/// Returns `n` random elements.
pub fn data(rng: &mut Rng, dtype: DType, n: usize, numbers: Numbers) -> Data {
    let style = match numbers {
        Numbers::Any => rng.weighted(&[
            (2, Style::Bits),
            (2, Style::Special),
            (5, Style::Ordinary),
            (3, Style::Whole),
            (6, Style::Mixed),
        ]),
        Numbers::Ordinary if dtype.is_float() => rng.weighted(&[(3, Style::Ordinary), (1, Style::Whole)]),
        Numbers::Ordinary => rng.weighted(&[(1, Style::Bits), (2, Style::Whole)]),
    };
    macro_rules! all {
        ($e:expr) => {
            (0..n).map(|_| $e).collect()
        };
    }
    match dtype.row().format {
        Format::Float(f) if f.bits == 32 => Data::F32(all!(float(rng, style))),
        Format::Float(f) => {
            let all: Vec<u8> = (0..n)
                .flat_map(|_| match half_bits(rng, style) {
                    Some(b) => b.to_le_bytes()[..f.bits as usize / 8].to_vec(),
                    None => from_f64(dtype, &[f64::from(float(rng, style))]).to_bytes(),
                })
                .collect();
            Data::of_bytes(dtype, &all).unwrap_or_else(|| Data::zeros(dtype, n))
        }
        Format::Int { bits, .. } => {
            let all: Vec<i64> = all!(int(rng, style, bits));
            from_i64(dtype, &all)
        }
    }
}

/// Returns the inputs of a schedule for some calls. The elements depend on the input's name, not on
/// the other inputs.
pub fn inputs(schedule: &Schedule, seeds: &[u64], calls: u32) -> Vec<Vec<Tensor>> {
    (0..calls).map(|c| of_call(schedule, seeds, c, Numbers::Any)).collect()
}

/// Returns the inputs of one call.
pub fn of_call(schedule: &Schedule, seeds: &[u64], call: u32, numbers: Numbers) -> Vec<Tensor> {
    let mut types: Vec<(u32, &str, &TensorType)> = schedule
        .buffers
        .iter()
        .filter_map(|b| match (b.role, &b.global) {
            (BufferRole::Input(i), Some(t)) => Some((i, b.name.as_str(), t)),
            _ => None,
        })
        .collect();
    types.sort_by_key(|t| t.0);
    let one = |name: &str, ty: &TensorType| {
        let name = name.bytes().fold(0u64, |h, b| h.wrapping_mul(257).wrapping_add(u64::from(b)));
        let mut rng = Rng::new(&[seeds, &[name, u64::from(call)]].concat());
        let shape = feed_shape(ty, &schedule.mesh);
        let n = shape.iter().product::<u64>() as usize;
        Tensor::new(shape, data(&mut rng, ty.dtype, n, numbers)).expect("as many elements as the shape has")
    };
    types.iter().map(|(_, name, ty)| one(name, ty)).collect()
}

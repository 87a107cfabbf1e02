//! Elements in memory: one Rust type per element type, with its conversions.
//!
//! f32, integers and the 16-bit floats of the `half` crate are used as they are. 8-bit floats are
//! [`F8E4M3FN`] and [`F8E5M2`]: their bits, converted by the facts of their rows in
//! [`kbc_ir::dtype`]. [`Value`] is one element of whatever type.

use half::slice::HalfFloatSliceExt;
use half::vec::HalfBitsVecExt;
pub use half::{bf16, f16};
use kbc_ir::dtype::{DType, FloatFormat};
use std::fmt;

/// One element, for messages and comparisons; exact for every type.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub enum Value {
    /// An element of a floating-point type.
    Float(f64),
    /// An element of an integer type.
    Int(i64),
}

impl Value {
    /// Returns the value as f64; an integer beyond 2^53 is rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Float(v) => v,
            Value::Int(v) => v as f64,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Float(v) => write!(f, "{v:?}"),
            Value::Int(v) => write!(f, "{v}"),
        }
    }
}

/// An element of some type.
pub trait Element: Copy + Default {
    /// Returns the element as a number, exactly.
    fn value(self) -> Value;
    /// Checks whether two elements have the same bits, or are both NaN.
    fn same(self, other: Self) -> bool;
    /// Returns the bits, extended by the sign of an integer or by zeros.
    fn bits(self) -> i64;
    /// Returns a number rounded once: to nearest even, and for integers to the nearest in range.
    fn of_f64(v: f64) -> Self;
    /// Returns an integer: rounded to nearest even, and for integers the low bits.
    fn of_i64(v: i64) -> Self;
    /// Returns the element in f32: exactly for floating-point types, rounded once for integers.
    fn up(self) -> f32;
    /// Returns a number of f32 as [`Element::of_f64`] does.
    fn down(v: f32) -> Self;
    /// Appends the little-endian bytes.
    fn write(self, out: &mut Vec<u8>);
    /// Reads elements from little-endian bytes. Bytes that are no whole element are left out.
    fn read(bytes: &[u8]) -> Vec<Self>;

    /// Returns `n` zeros. Memory that the system provides as zeros is not written.
    fn zeros(n: usize) -> Vec<Self> {
        vec![Self::default(); n]
    }

    /// Converts elements as [`Element::up`] does. Both slices have the same length.
    fn widen(from: &[Self], to: &mut [f32]) {
        to.iter_mut().zip(from).for_each(|(to, x)| *to = x.up());
    }
}

/// Returns an f32 such that rounding it again to a narrower type gives the same result as rounding
/// once (rounding to odd): toward zero, with the last bit set if anything was lost. The conversions
/// of f64 in the `half` crate drop low bits.
fn odd_f32(v: f64) -> f32 {
    let near = v as f32;
    if f64::from(near) == v || v.is_nan() {
        return near;
    }
    let bits = near.to_bits();
    let toward_zero = if f64::from(near).abs() > v.abs() { bits - 1 } else { bits };
    f32::from_bits(toward_zero | 1)
}

/// Returns an integer as an f64 such that rounding it again to a narrower type gives the same
/// result as rounding once: if bits do not fit, the last bit that fits is set (rounding to odd).
fn sticky(v: i64) -> f64 {
    let wide = 64 - v.unsigned_abs().leading_zeros();
    let lost = wide.saturating_sub(53);
    let kept = v >> lost;
    let odd = i64::from(kept << lost != v);
    // At most 53 significant bits remain, so the product is exact. Narrower types have at most 24,
    // so the last bit only means "not exact".
    ((kept | odd) as f64) * (1u64 << lost) as f64
}

/// The bytes of a type that converts to and from arrays of them.
macro_rules! bytes {
    ($t:ty) => {
        fn write(self, out: &mut Vec<u8>) {
            out.extend(self.to_le_bytes());
        }
        fn read(bytes: &[u8]) -> Vec<Self> {
            // The number of bytes is a constant here, so that the loop becomes one of vectors.
            let (elements, _) = bytes.as_chunks::<{ size_of::<$t>() }>();
            elements.iter().map(|b| <$t>::from_le_bytes(*b)).collect()
        }
    };
}

macro_rules! integers {
    ($($t:ty),*) => {$(impl Element for $t {
        fn value(self) -> Value { Value::Int(i64::from(self)) }
        fn same(self, other: Self) -> bool { self == other }
        fn bits(self) -> i64 { i64::from(self) }
        fn of_f64(v: f64) -> Self { v.round_ties_even() as $t }
        fn of_i64(v: i64) -> Self { v as $t }
        fn up(self) -> f32 { self as f32 }
        fn down(v: f32) -> Self { Self::of_f64(f64::from(v)) }
        bytes!($t);
    })*};
}
integers!(i32, i8, u8, i16, i64);

macro_rules! floats {
    ($($t:ty: $of:expr, $int:expr, $up:expr, $down:expr; $({$($more:tt)*})?)*) => {$(impl Element for $t {
        fn value(self) -> Value { Value::Float(f64::from(self)) }
        fn same(self, other: Self) -> bool {
            self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
        }
        fn bits(self) -> i64 { i64::from(self.to_bits()) }
        fn of_f64(v: f64) -> Self { $of(v) }
        fn of_i64(v: i64) -> Self { $int(v) }
        fn up(self) -> f32 { $up(self) }
        fn down(v: f32) -> Self { $down(v) }
        bytes!($t);
        $($($more)*)?
    })*};
}

/// What is faster for many elements of a 16-bit type than one by one.
macro_rules! in_bulk {
    () => {
        fn zeros(n: usize) -> Vec<Self> {
            vec![0u16; n].reinterpret_into()
        }
        fn widen(from: &[Self], to: &mut [f32]) {
            from.convert_to_f32_slice(to);
        }
    };
}

/// Returns a number of a type that is narrower than f32.
fn narrow<T: Element>(v: f64) -> T {
    T::down(odd_f32(v))
}

/// Returns an integer in a type that is narrower than f32.
fn whole<T: Element>(v: i64) -> T {
    T::down(odd_f32(sticky(v)))
}

floats! {
    f32: |v| v as f32, |v| v as f32, |v| v, |v| v;
    f16: narrow, whole, f16::to_f32, f16::from_f32; { in_bulk!(); }
    bf16: narrow, whole, bf16::to_f32, bf16::from_f32; { in_bulk!(); }
    F8E4M3FN: narrow, whole, F8E4M3FN::to_f32, F8E4M3FN::from_f32;
    F8E5M2: narrow, whole, F8E5M2::to_f32, F8E5M2::from_f32;
}

/// Returns the bits of a number in an 8-bit format, rounded to nearest even.
fn code_of(v: f32, format: &FloatFormat) -> u8 {
    let mantissa = format.digits - 1;
    let shift = 23 - mantissa;
    let bits = v.to_bits() & 0x7fff_ffff;
    let sign = ((v.to_bits() >> 24) & 0x80) as u8;
    if v.is_nan() {
        return sign | 0x7f;
    }
    let code = if bits < ((127 + format.least) as u32) << 23 {
        // This sum is rounded to a multiple of the smallest subnormal: its last bit is that number.
        let magic = ((127 + format.least) as u32 + shift) << 23;
        (f32::from_bits(bits) + f32::from_bits(magic)).to_bits() - magic
    } else {
        let odd = (bits >> shift) & 1;
        // The exponents 0 of both types differ by this.
        let offset = ((126 + format.least) as u32) << 23;
        (bits - offset + (1 << (shift - 1)) - 1 + odd) >> shift
    };
    // Infinity, or the largest number, whose code is one below NaN.
    let infinity = ((1 << (8 - format.digits)) - 1) << mantissa;
    let most = if format.infinite { infinity } else { 0x7e };
    sign | code.min(most) as u8
}

/// Returns the number with these bits in an 8-bit format.
fn number_of(code: u8, format: &FloatFormat) -> f32 {
    let mantissa = format.digits - 1;
    let (exponent, rest) = (u32::from(code & 0x7f) >> mantissa, u32::from(code) & ((1 << mantissa) - 1));
    let last = (1 << (8 - format.digits)) - 1;
    let size = match (exponent, rest) {
        (e, 0) if e == last && format.infinite => f32::INFINITY,
        (e, _) if e == last && (format.infinite || code & 0x7f == 0x7f) => f32::NAN,
        (0, m) => m as f32 * f32::from_bits(((127 + format.least) as u32 - mantissa) << 23),
        (e, m) => f32::from_bits(((126 + format.least) as u32 + e) << 23 | m << (23 - mantissa)),
    };
    if code & 0x80 != 0 { -size } else { size }
}

macro_rules! eight_bits {
    ($($(#[$doc:meta])* $t:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, Debug)]
        #[repr(transparent)]
        pub struct $t(u8);

        impl $t {
            fn format() -> FloatFormat { DType::$t.float().expect("a floating-point type") }

            /// Returns the element with these bits.
            pub fn from_bits(bits: u8) -> $t { $t(bits) }
            /// Returns the bits.
            pub fn to_bits(self) -> u8 { self.0 }
            /// Returns a number rounded to nearest even.
            pub fn from_f32(v: f32) -> $t { $t(code_of(v, &Self::format())) }
            /// Returns the number, exactly.
            pub fn to_f32(self) -> f32 { number_of(self.0, &Self::format()) }
            /// Returns whether it is not a number.
            pub fn is_nan(self) -> bool { self.to_f32().is_nan() }
            fn to_le_bytes(self) -> [u8; 1] { [self.0] }
            fn from_le_bytes(bytes: [u8; 1]) -> $t { $t(bytes[0]) }
        }

        impl From<$t> for f64 {
            fn from(v: $t) -> f64 { f64::from(v.to_f32()) }
        }
    )*};
}
eight_bits! {
    /// An element of f8e4m3fn: the bits of a sign, 4 of the exponent, 3 of the mantissa.
    F8E4M3FN
    /// An element of f8e5m2: the bits of a sign, 5 of the exponent, 2 of the mantissa.
    F8E5M2
}

//! Tensors: typed elements in row-major order, boxes of them, and comparison bit for bit.
//!
//! The module owns storage and addressing. [`crate::numbers`] defines arithmetic; [`crate::shard`]
//! determines which rank holds which box.

use crate::element::*;
use crate::threads::shared_out;
use kbc_ir::types::DType;

/// Defines the vectors of all element types, and the matches over them.
macro_rules! define {
    ([$d:tt] $($name:ident $element:ident,)*) => {
        /// Elements of one type.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "the names are the types")]
        pub enum Data { $($name(Vec<$element>)),* }

        /// Evaluates an expression on the vector inside, whatever its type.
        macro_rules! each {
            ($d data:expr, $d v:ident => $d e:expr) => {
                match $d data { $(Data::$name($d v) => $d e),* }
            };
        }

        /// Makes a vector from one of whatever type.
        macro_rules! like {
            ($d data:expr, $d v:ident => $d e:expr) => {
                match $d data { $(Data::$name($d v) => Data::$name($d e)),* }
            };
        }

        /// Makes a vector of a type, whose Rust type is called `T` in the expression.
        macro_rules! make {
            ($d dtype:expr, $d t:ident => $d e:expr) => {
                match $d dtype { $(DType::$name => { type $d t = $element; Data::$name($d e) }),* }
            };
        }

        /// Evaluates an expression on two vectors of the same type, and another one if the types
        /// differ.
        macro_rules! both {
            ($d x:expr, $d y:expr, $d a:ident, $d b:ident => $d e:expr, $d other:expr) => {
                match ($d x, $d y) {
                    $((Data::$name($d a), Data::$name($d b)) => $d e,)*
                    _ => $d other,
                }
            };
        }

        impl Data {
            /// Returns the element type.
            pub fn dtype(&self) -> DType {
                match self { $(Data::$name(_) => DType::$name),* }
            }
        }

        impl Value {
            /// Returns a number rounded once to a type: to nearest even, and for integers to the
            /// nearest in range.
            pub fn rounded(v: f64, dtype: DType) -> Value {
                match dtype { $(DType::$name => <$element>::of_f64(v).value()),* }
            }
        }
    };
}
kbc_ir::element_types!(define $);

/// Number of elements that are converted or compared together: they fit in the nearest cache.
pub const WIDE: usize = 1024;

/// Number of elements that a thread makes at a time.
const PIECE: usize = 1 << 20;

/// Largest number of different values for which a table is made instead of a conversion of each
/// element.
const TABLE: u32 = 4096;

/// Runs a loop with the widest vectors of this processor: the same operations on the same numbers.
/// A large closure needs `#[inline(always)]`, because only what is inlined has these vectors.
#[inline(always)]
pub fn in_vectors<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

impl Data {
    /// Returns `n` zeros.
    pub fn zeros(dtype: DType, n: usize) -> Data {
        make!(dtype, T => T::zeros(n))
    }

    /// Converts numbers to elements of a type, each rounded once (for integer types, to the nearest
    /// integer in range).
    pub fn of_f64(dtype: DType, values: &[f64]) -> Data {
        make!(dtype, T => values.iter().map(|x| T::of_f64(*x)).collect())
    }

    /// Returns `n` elements, converted as by [`Data::of_f64`]. `values` writes those from a number
    /// on to a list, of at most [`WIDE`] elements.
    pub fn reals(dtype: DType, n: usize, values: impl Fn(usize, &mut [f64]) + Sync) -> Data {
        make!(dtype, T => {
            let mut out = T::zeros(n);
            let pieces = out.chunks_mut(PIECE).enumerate();
            shared_out(n.saturating_mul(16), pieces, |(p, piece)| {
                let mut list = [0.0; WIDE];
                for (i, part) in piece.chunks_mut(WIDE).enumerate() {
                    let list = &mut list[..part.len()];
                    values(p * PIECE + i * WIDE, list);
                    part.iter_mut().zip(list).for_each(|(to, x)| *to = T::of_f64(*x));
                }
            });
            out
        })
    }

    /// Returns `n` elements in slices of `each`: element i of slice s is converted as by
    /// [`Data::of_i64`] from `map(value(s, i))`, where `value(s, i)` is below `bound`.
    pub fn converted(
        dtype: DType,
        (n, each): (usize, usize),
        bound: u32,
        value: impl Fn(u32, u32) -> u32 + Sync,
        map: impl Fn(u32) -> i64 + Sync,
    ) -> Data {
        make!(dtype, T => {
            let mut out = T::zeros(n);
            let few = bound <= TABLE;
            let table: Vec<T> = (0..if few { bound.max(1) } else { 0 }).map(|v| T::of_i64(map(v))).collect();
            let pieces = out.chunks_mut(each.max(1)).enumerate().flat_map(|(s, slice)| {
                slice.chunks_mut(PIECE).enumerate().map(move |(p, piece)| ((s, p * PIECE), piece))
            });
            shared_out(n.saturating_mul(4), pieces, |((s, first), piece)| in_vectors(|| {
                let all = piece.iter_mut().zip(first as u32..);
                if few {
                    all.for_each(|(to, i)| *to = table[value(s as u32, i) as usize]);
                } else {
                    all.for_each(|(to, i)| *to = T::of_i64(map(value(s as u32, i))));
                }
            }));
            out
        })
    }

    /// Converts integers to elements of a type: to nearest even for floating-point types, the low
    /// bits for integer types.
    pub fn of_i64(dtype: DType, values: &[i64]) -> Data {
        make!(dtype, T => values.iter().map(|x| T::of_i64(*x)).collect())
    }

    /// Returns the elements with these little-endian bytes, or None if the last one is incomplete.
    pub fn of_bytes(dtype: DType, bytes: &[u8]) -> Option<Data> {
        let size = dtype.bytes() as usize;
        bytes.len().is_multiple_of(size).then(|| make!(dtype, T => T::read(bytes)))
    }

    /// Returns the elements as little-endian bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len() * self.dtype().bytes() as usize);
        each!(self, v => v.iter().for_each(|x| x.write(&mut out)));
        out
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        each!(self, v => v.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns element `i`, or None past the end.
    pub fn get(&self, i: usize) -> Option<Value> {
        each!(self, v => v.get(i).map(|x| x.value()))
    }

    /// Calls `f` with `len` elements from `start` on and their numbers from 0, until it returns
    /// false. Returns whether all exist and none returned false.
    pub fn each(&self, start: usize, len: usize, mut f: impl FnMut(usize, Value) -> bool) -> bool {
        let Some(end) = start.checked_add(len).filter(|end| *end <= self.len()) else { return false };
        each!(self, v => v[start..end].iter().enumerate().all(|(i, x)| f(i, x.value())))
    }

    /// Returns the bits of element `i`, extended by its sign or by zeros, or None past the end.
    pub fn bits(&self, i: usize) -> Option<i64> {
        each!(self, v => v.get(i).map(|x| x.bits()))
    }

    /// Returns a copy of elements `start .. start + len`, cut off at the end.
    pub fn slice(&self, start: usize, len: usize) -> Data {
        let cut = |n: usize| start.min(n)..start.saturating_add(len).min(n);
        like!(self, v => v[cut(v.len())].to_vec())
    }

    /// Returns the elements with these indices, all of which exist.
    pub fn picked(&self, order: &[usize]) -> Data {
        like!(self, v => order.iter().map(|i| v[*i]).collect())
    }

    /// Overwrites elements from `start` on with elements `from .. from + len` of another vector.
    /// Returns false, and changes nothing, if the types differ or a range does not fit.
    #[must_use]
    pub fn copy_from(&mut self, start: usize, src: &Data, from: usize, len: usize) -> bool {
        both!(self, src, d, s => {
            match (d.get_mut(start..start.saturating_add(len)), s.get(from..from.saturating_add(len))) {
                (Some(d), Some(s)) => { d.copy_from_slice(s); true }
                _ => false,
            }
        }, false)
    }

    /// Extends the vector to `n` elements; new ones are zero.
    pub fn grow(&mut self, n: usize) {
        each!(self, v => if v.len() < n { v.resize(n, Default::default()) });
    }

    /// Returns the first element in which two vectors differ bit for bit. Any NaN equals any NaN,
    /// and -0 and +0 differ. Vectors of different lengths differ at the latest at the first element
    /// that only one of them has; vectors of different types differ at element 0.
    pub fn first_difference(&self, other: &Data) -> Option<usize> {
        both!(self, other, a, b => {
            let short = a.len().min(b.len());
            (0..short).find(|&i| !a[i].same(b[i])).or((a.len() != b.len()).then_some(short))
        }, Some(0))
    }

    /// Returns the numbers as f64, which is exact except for 64-bit integers beyond 2^53; those are
    /// rounded.
    pub fn to_f64(&self) -> Vec<f64> {
        each!(self, v => v.iter().map(|x| x.value().as_f64()).collect())
    }

    /// Converts the elements from `start` on as [`Data::to_f64`] does. There are as many as `out`
    /// has room for.
    pub fn read_f64(&self, start: usize, out: &mut [f64]) {
        let end = start + out.len();
        if self.dtype().is_float() && self.dtype().bytes() < 4 {
            let mut wide = [0f32; WIDE];
            each!(self, v => for (from, to) in v[start..end].chunks(WIDE).zip(out.chunks_mut(WIDE)) {
                let wide = &mut wide[..from.len()];
                Element::widen(from, wide);
                to.iter_mut().zip(wide).for_each(|(to, x)| *to = f64::from(*x));
            });
        } else {
            each!(self, v => out.iter_mut().zip(&v[start..end]).for_each(|(to, x)| *to = x.value().as_f64()));
        }
    }

    /// Whether the elements of two ranges of the same length have the same bits. Ranges that do not
    /// exist and types that differ have not.
    pub fn same_bits(&self, start: usize, other: &Data, from: usize, len: usize) -> bool {
        both!(self, other, a, b => match (a.get(start..start + len), b.get(from..from + len)) {
            (Some(a), Some(b)) => a.chunks(WIDE).zip(b.chunks(WIDE)).all(|(a, b)| {
                in_vectors(|| a.iter().zip(b).fold(0, |all, (a, b)| all | (a.bits() ^ b.bits())) == 0)
            }),
            _ => false,
        }, false)
    }

    /// Whether the elements from `start` on are floating-point numbers that are equal to these.
    pub fn equals(&self, start: usize, want: &[f64]) -> bool {
        if !self.dtype().is_float() || start + want.len() > self.len() {
            return false;
        }
        let mut got = [0f64; WIDE];
        (start..).step_by(WIDE).zip(want.chunks(WIDE)).all(|(at, want)| {
            let got = &mut got[..want.len()];
            in_vectors(|| {
                self.read_f64(at, got);
                got.iter().zip(want).fold(true, |all, (a, b)| all & (a == b))
            })
        })
    }

    /// Returns the integers if the type is an integer type.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        (!self.dtype().is_float()).then(|| {
            each!(self, v => v
                .iter()
                .map(|x| match x.value() {
                    Value::Int(i) => i,
                    Value::Float(f) => f as i64,
                })
                .collect())
        })
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        self.dtype() == other.dtype() && self.first_difference(other).is_none()
    }
}

/// A dense tensor, row-major. The number of elements is the product of the sizes.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    shape: Vec<u64>,
    data: Data,
}

impl Tensor {
    /// Creates a tensor of that shape, or returns None if the number of elements differs.
    pub fn new(shape: impl Into<Vec<u64>>, data: Data) -> Option<Tensor> {
        let shape = shape.into();
        (count(&shape)? == data.len() as u64).then_some(Tensor { shape, data })
    }

    /// Creates a vector.
    pub fn line(data: Data) -> Tensor {
        Tensor { shape: vec![data.len() as u64], data }
    }

    /// Creates a tensor of zeros, or returns None if it has more elements than memory can address.
    pub fn zeros(dtype: DType, shape: impl Into<Vec<u64>>) -> Option<Tensor> {
        let shape = shape.into();
        let n = usize::try_from(count(&shape)?).ok()?;
        Some(Tensor { shape, data: Data::zeros(dtype, n) })
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// Returns the sizes, slowest dimension first.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the elements.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Converts the tensor into its elements.
    pub fn into_data(self) -> Data {
        self.data
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.data.len()
    }

    /// Returns the same elements in another shape, or None if their number differs.
    pub fn reshaped(self, shape: impl Into<Vec<u64>>) -> Option<Tensor> {
        Tensor::new(shape, self.data)
    }

    /// Returns the elements inside half-open ranges, one per dimension, or None if a range is
    /// outside or their number is wrong.
    pub fn extract(&self, bounds: &[(u64, u64)]) -> Option<Tensor> {
        if bounds.len() != self.shape.len()
            || bounds.iter().zip(&self.shape).any(|(b, n)| b.0 > b.1 || b.1 > *n)
        {
            return None;
        }
        let shape: Vec<u64> = bounds.iter().map(|b| b.1 - b.0).collect();
        let mut out = Tensor::zeros(self.dtype(), shape)?;
        let mut at = 0;
        for_rows(&self.shape, bounds, |start, len| {
            let fits = out.data.copy_from(at, &self.data, start, len);
            debug_assert!(fits, "rows of a box lie inside the tensor");
            at += len;
        });
        Some(out)
    }
}

impl Tensor {
    /// Writes a tensor to the elements inside half-open ranges. Returns None, and writes nothing,
    /// if its size or type does not fit.
    pub fn insert(&mut self, bounds: &[(u64, u64)], from: &Tensor) -> Option<()> {
        let inside = bounds.iter().zip(&self.shape).all(|(b, n)| b.0 <= b.1 && b.1 <= *n);
        let same = bounds.iter().map(|b| b.1.wrapping_sub(b.0)).eq(from.shape.iter().copied());
        if !inside || !same || bounds.len() != self.shape.len() || self.dtype() != from.dtype() {
            return None;
        }
        let mut at = 0;
        let data = &mut self.data;
        for_rows(&self.shape, bounds, |start, len| {
            let fits = data.copy_from(start, &from.data, at, len);
            debug_assert!(fits, "rows of a box lie inside the tensor");
            at += len;
        });
        Some(())
    }
}

/// Returns the product of sizes, or None if it does not fit.
pub fn count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d))
}

/// Calls `f` with the start and the length of each contiguous run of a box inside a row-major
/// tensor, in order.
pub fn for_rows(shape: &[u64], bounds: &[(u64, u64)], mut f: impl FnMut(usize, usize)) {
    if bounds.iter().any(|b| b.0 >= b.1) {
        return;
    }
    let Some((last, outer)) = bounds.split_last() else {
        return f(0, 1);
    };
    let mut index: Vec<u64> = outer.iter().map(|b| b.0).collect();
    let width = shape[shape.len() - 1];
    loop {
        let row = index.iter().zip(shape).fold(0, |n, (i, d)| n * d + i);
        f((row * width + last.0) as usize, (last.1 - last.0) as usize);
        let mut d = outer.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            if index[d] < outer[d].1 {
                break;
            }
            index[d] = outer[d].0;
        }
    }
}

/// Returns the position of the first element of a box in a tensor of shape `shape`, if the elements
/// of the box lie side by side.
pub fn side_by_side(shape: &[u64], bounds: &[(u64, u64)]) -> Option<usize> {
    let (mut whole, mut start, mut stride) = (true, 0, 1);
    for (n, b) in shape.iter().zip(bounds).rev() {
        let extent = b.1.checked_sub(b.0)?;
        if !whole && extent != 1 {
            return None;
        }
        whole &= extent == *n;
        start += b.0 * stride;
        stride *= n;
    }
    usize::try_from(start).ok()
}

/// Returns the position of element `i` of a row-major tensor, one index per dimension.
pub fn multi_index(shape: &[u64], i: u64) -> Vec<u64> {
    let mut rest = i;
    let mut out = vec![0; shape.len()];
    for (o, d) in out.iter_mut().zip(shape).rev() {
        *o = rest % (*d).max(1);
        rest /= (*d).max(1);
    }
    out
}

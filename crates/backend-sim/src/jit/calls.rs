//! Host functions that compiled code calls: memory of ranks, signals, blocks of halves, matmul.
//!
//! The module owns the boundary: machine code calls everything here with pointers that
//! [`super::memories`] and [`super::plan`] made. The arithmetic is that of
//! [`kbc_numerics::element`] and [`kbc_numerics::gemm`]; scalar functions are called where
//! [`kbc_numerics::functions`] has them.

#![allow(unsafe_code, reason = "pointers cross the boundary between compiled code and its host here")]

use super::abi::Ctx;
use super::deferred::Piece;
use super::world::World;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use kbc_ir::schedule::BufferId;
use kbc_numerics::element::Element;
use kbc_numerics::gemm;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// # Safety
/// `ctx` is the context of a role's function that is running, and nothing else uses its world
/// meanwhile.
unsafe fn world<'w>(ctx: *mut Ctx) -> (&'w mut Ctx, &'w mut World<'static>) {
    // SAFETY: the caller guarantees the condition above; context and world are different objects,
    // and the driver touches neither while compiled code runs.
    unsafe {
        let ctx = &mut *ctx;
        let world = &mut *ctx.world;
        (ctx, world)
    }
}

pub(super) extern "C" fn transfer(
    ctx: *mut Ctx,
    from: i64,
    from_mem: i64,
    from_start: i64,
    to: i64,
    to_mem: i64,
    to_start: i64,
    len: i64,
    remote: i64,
) -> u8 {
    // SAFETY: called by a role's function with its own context.
    let (ctx, w) = unsafe { world(ctx) };
    let (from, to) = (w.memories.place(from, from_mem), w.memories.place(to, to_mem));
    // SAFETY: a frame has at least the slot of the call.
    let call = unsafe { *ctx.env };
    let (from, to) = (piece(from, from_start, len), piece(to, to_start, len));
    u8::from(w.transfer(from, to, (remote != 0).then_some(call)).is_none())
}

/// Returns elements that compiled code has checked against the memory.
fn piece(place: usize, start: i64, len: i64) -> Piece {
    Piece { place, start: start as u64, len: len as u64 }
}

pub(super) extern "C" fn operands(
    ctx: *mut Ctx,
    dst_mem: i64,
    dst_start: i64,
    src_rank: i64,
    src_mem: i64,
    src_start: i64,
    len: i64,
) -> u8 {
    // SAFETY: called by a role's function with its own context.
    let (ctx, w) = unsafe { world(ctx) };
    let (dst, src) = (w.memories.place(ctx.rank, dst_mem), w.memories.place(src_rank, src_mem));
    if !w.holds(dst, dst_start, len) || !w.holds(src, src_start, len) {
        return 1;
    }
    let operands = w.memories.operands(piece(dst, dst_start, len), piece(src, src_start, len));
    let Some((to, old, from)) = operands else { return 1 };
    (ctx.dst, ctx.old, ctx.src) = (to, old, from);
    if dst == src && dst_start != src_start && (dst_start - src_start).abs() < len {
        // Both sides are read before anything is written.
        ctx.src = w.aside(ctx.src, w.memories.bytes(src, len));
    }
    0
}

pub(super) extern "C" fn notify(ctx: *mut Ctx, peer: i64, counter: i64) -> u8 {
    // SAFETY: called by a role's function with its own context.
    let (_, w) = unsafe { world(ctx) };
    w.notify(peer as u64, counter as u32);
    0
}

pub(super) extern "C" fn record(ctx: *mut Ctx, event: i64) -> u8 {
    // SAFETY: called by a role's function with its own context; a frame has at least the slot of
    // the call.
    let (ctx, w) = unsafe { world(ctx) };
    // SAFETY: as above.
    let call = unsafe { *ctx.env };
    w.record(ctx.rank as u64, event as u32, call);
    0
}

/// Whether the queue to a peer has a free slot.
pub(super) extern "C" fn room(ctx: *mut Ctx, peer: i64, queue: i64) -> u8 {
    // SAFETY: called by a role's function with its own context.
    let (ctx, w) = unsafe { world(ctx) };
    u8::from(w.has_room((ctx.rank as u64, peer as u64, queue as u32)))
}

/// Whether the queue from a peer has a message.
pub(super) extern "C" fn ready(ctx: *mut Ctx, peer: i64, queue: i64) -> u8 {
    // SAFETY: called by a role's function with its own context.
    let (ctx, w) = unsafe { world(ctx) };
    u8::from(w.has_message((peer as u64, ctx.rank as u64, queue as u32)))
}

pub(super) extern "C" fn send(ctx: *mut Ctx, peer: i64, queue: i64, mem: i64, start: i64, len: i64) -> u8 {
    // SAFETY: called by a role's function with its own context.
    let (ctx, w) = unsafe { world(ctx) };
    let which = (ctx.rank as u64, peer as u64, queue as u32);
    u8::from(w.send(which, w.memories.place(ctx.rank, mem), start, len).is_none())
}

pub(super) extern "C" fn recv(ctx: *mut Ctx, peer: i64, queue: i64, mem: i64, start: i64, len: i64) -> u8 {
    // SAFETY: called by a role's function with its own context.
    let (ctx, w) = unsafe { world(ctx) };
    let which = (peer as u64, ctx.rank as u64, queue as u32);
    u8::from(w.recv(which, w.memories.place(ctx.rank, mem), start, len).is_none())
}

pub(super) extern "C" fn host_read(ctx: *mut Ctx, buffer: i64) -> u8 {
    // SAFETY: called by a role's function with its own context; a frame has at least the slot of
    // the call.
    let (ctx, w) = unsafe { world(ctx) };
    // SAFETY: as above.
    let call = unsafe { *ctx.env };
    u8::from(w.host_read(ctx.rank as u64, call, BufferId(buffer as u32)).is_none())
}

/// Returns the plan of a local operation on this rank, or null if the operation cannot be executed.
pub(super) extern "C" fn plan(ctx: *mut Ctx, number: i64) -> *const i64 {
    // SAFETY: called by a role's function with its own context.
    let (ctx, w) = unsafe { world(ctx) };
    w.plan(ctx.rank as u64, number as u32)
}

pub(super) extern "C" fn copy(dst: *mut u8, src: *const u8, bytes: i64) {
    // SAFETY: kernels copy within the operands of their plan.
    unsafe { std::ptr::copy(src, dst, bytes as usize) };
}

/// # Safety
/// `n` elements, `stride` bytes apart, can be read from `src` on.
unsafe fn strided<T: Copy>(src: *const u8, stride: i64, n: usize) -> impl Iterator<Item = T> {
    // SAFETY: the caller guarantees that the elements can be read. They may be unaligned only if a
    // plan says so, which no plan does.
    (0..n).map(move |i| unsafe { *src.offset(i as isize * stride as isize).cast::<T>() })
}

pub(super) extern "C" fn gather_word(dst: *mut u32, src: *const u8, stride: i64, n: i64) {
    // SAFETY: kernels gather a block of an operand into their scratch memory.
    unsafe {
        let out = from_raw_parts_mut(dst, n as usize);
        out.iter_mut().zip(strided::<u32>(src, stride, n as usize)).for_each(|(o, x)| *o = x);
    }
}

/// Runs a loop with the wider vectors of this processor, if it has them: the same operations on the
/// same numbers.
macro_rules! widest {
    ($(#[$doc:meta])* $name:ident($src:ident: &[$s:ty], $dst:ident: &mut [$d:ty]) $body:block) => {
        $(#[$doc])*
        pub fn $name($src: &[$s], $dst: &mut [$d]) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($src: &[$s], $dst: &mut [$d]) $body
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has the instructions.
                    return unsafe { wide($src, $dst) };
                }
            }
            $body
        }
    };
}

widest!(
/// Converts a block of bf16 to f32. Both have the same length.
bf16_to_f32(src: &[bf16], dst: &mut [f32]) {
    dst.iter_mut().zip(src).for_each(|(o, x)| *o = f32::from_bits(u32::from(x.to_bits()) << 16));
});
widest!(
/// Converts a block of f32 to bf16. Both have the same length.
f32_to_bf16(src: &[f32], dst: &mut [bf16]) {
    for (o, x) in dst.iter_mut().zip(src) {
        // Rounds to nearest even; a NaN keeps a bit of its payload.
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        *o = bf16::from_bits(if x.is_nan() { bits >> 16 | 0x40 } else { rounded } as u16);
    }
});

/// Conversion of eight elements at a time, with the instructions that `half` uses for that number.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use half::f16;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn up(src: &[f16], dst: &mut [f32]) {
        for (d, s) in dst.chunks_exact_mut(8).zip(src.chunks_exact(8)) {
            // SAFETY: both have room for eight elements, and the instructions require no alignment.
            unsafe { _mm256_storeu_ps(d.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(s.as_ptr().cast()))) };
        }
        let whole = src.len().min(dst.len()) / 8 * 8;
        dst[whole..].iter_mut().zip(&src[whole..]).for_each(|(d, s)| *d = s.to_f32());
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn down(src: &[f32], dst: &mut [f16]) {
        for (d, s) in dst.chunks_exact_mut(8).zip(src.chunks_exact(8)) {
            // SAFETY: both have room for eight elements, and the instructions require no alignment.
            unsafe {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(s.as_ptr()));
                _mm_storeu_si128(d.as_mut_ptr().cast(), halves);
            }
        }
        let whole = src.len().min(dst.len()) / 8 * 8;
        dst[whole..].iter_mut().zip(&src[whole..]).for_each(|(d, s)| *d = f16::from_f32(*s));
    }

    pub(super) fn is_there() -> bool {
        std::is_x86_feature_detected!("f16c") && std::is_x86_feature_detected!("avx")
    }
}

/// Converts a block of f16 to f32. Both have the same length.
pub fn f16_to_f32(src: &[f16], dst: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if f16c::is_there() {
        // SAFETY: the processor has the instructions.
        return unsafe { f16c::up(src, dst) };
    }
    src.convert_to_f32_slice(dst);
}

/// Converts a block of f32 to f16. Both have the same length.
pub fn f32_to_f16(src: &[f32], dst: &mut [f16]) {
    #[cfg(target_arch = "x86_64")]
    if f16c::is_there() {
        // SAFETY: the processor has the instructions.
        return unsafe { f16c::down(src, dst) };
    }
    dst.convert_from_f32_slice(src);
}

/// # Safety
/// `n` elements lie at `src`, `stride` bytes apart, and there is room for `n` numbers at `dst`.
unsafe fn widen_by<T: Element>(
    dst: *mut f32,
    src: *const u8,
    stride: i64,
    n: i64,
    block: impl Fn(&[T], &mut [f32]),
) {
    // SAFETY: the caller guarantees both.
    unsafe {
        let out = from_raw_parts_mut(dst, n as usize);
        if stride == size_of::<T>() as i64 {
            block(from_raw_parts(src.cast::<T>(), n as usize), out);
        } else {
            let all = strided::<T>(src, stride, n as usize);
            out.iter_mut().zip(all).for_each(|(o, x)| *o = x.up());
        }
    }
}

pub(super) extern "C" fn widen<T: Element>(dst: *mut f32, src: *const u8, stride: i64, n: i64) {
    let block = |src: &[T], dst: &mut [f32]| dst.iter_mut().zip(src).for_each(|(d, s)| *d = s.up());
    // SAFETY: kernels widen a block of an operand into their scratch memory.
    unsafe { widen_by(dst, src, stride, n, block) };
}

pub(super) extern "C" fn widen_f16(dst: *mut f32, src: *const u8, stride: i64, n: i64) {
    // SAFETY: as above.
    unsafe { widen_by(dst, src, stride, n, f16_to_f32) };
}

pub(super) extern "C" fn widen_bf16(dst: *mut f32, src: *const u8, stride: i64, n: i64) {
    // SAFETY: as above.
    unsafe { widen_by(dst, src, stride, n, bf16_to_f32) };
}

pub(super) extern "C" fn narrow<T: Element>(dst: *mut T, src: *const f32, n: i64) {
    // SAFETY: kernels narrow a block of their scratch memory into a result.
    unsafe {
        let src = from_raw_parts(src, n as usize);
        from_raw_parts_mut(dst, n as usize).iter_mut().zip(src).for_each(|(d, s)| *d = T::down(*s));
    }
}

pub(super) extern "C" fn narrow_f16(dst: *mut f16, src: *const f32, n: i64) {
    // SAFETY: as above.
    unsafe { f32_to_f16(from_raw_parts(src, n as usize), from_raw_parts_mut(dst, n as usize)) };
}

pub(super) extern "C" fn narrow_bf16(dst: *mut bf16, src: *const f32, n: i64) {
    // SAFETY: as above.
    unsafe { f32_to_bf16(from_raw_parts(src, n as usize), from_raw_parts_mut(dst, n as usize)) };
}

pub(super) extern "C" fn round<T: Element>(block: *mut f32, n: i64) {
    // SAFETY: kernels round a block of their scratch memory.
    let block = unsafe { from_raw_parts_mut(block, n as usize) };
    block.iter_mut().for_each(|x| *x = T::down(*x).up());
}

pub(super) extern "C" fn of_ints<T: Element>(dst: *mut T, src: *const i64, n: i64) {
    // SAFETY: kernels convert a block of their scratch memory into a result.
    unsafe {
        let src = from_raw_parts(src, n as usize);
        from_raw_parts_mut(dst, n as usize).iter_mut().zip(src).for_each(|(o, x)| *o = T::of_i64(*x));
    }
}

pub(super) extern "C" fn matmul(plan: *const i64) -> i64 {
    use super::words::product::*;
    // SAFETY: a plan of a matmul has these words, and the pointers cover the matrices that its
    // pairs name.
    unsafe {
        let word = |i: usize| *plan.add(i);
        let (m, k, n) = (word(M) as usize, word(K) as usize, word(N) as usize);
        for i in 0..word(BATCHES) as usize {
            let (x, y) = (word(PAIRS + 2 * i) as usize * m * k, word(PAIRS + 2 * i + 1) as usize * k * n);
            macro_rules! product {
                ($t:ty, $gemm:path) => {
                    $gemm(
                        m,
                        k,
                        n,
                        from_raw_parts((word(A) as *const $t).add(x), m * k),
                        from_raw_parts((word(B) as *const $t).add(y), k * n),
                        from_raw_parts_mut((word(C) as *mut $t).add(i * m * n), m * n),
                    )
                };
            }
            let done = if word(INTEGER) != 0 { product!(i32, gemm::i32) } else { product!(f32, gemm::f32) };
            if done.is_none() {
                return 1;
            }
        }
    }
    0
}

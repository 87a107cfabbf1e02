/* What emitted kernels use: windows that ranks share, notifies and waits, and operations on runs of
 * elements. Written by kbc; the same for all programs.
 *
 * Windows are shared memory of one computer; with KBC_MPI they are those of MPI (kbc_mpi.h). A put is
 * a store into the peer's window. There are no stand-alone fences: a notify that has to publish what
 * was written before it is an addition with release order, and a wait before a read of it is a load
 * with acquire order. */
#ifndef KBC_HOST_H
#define KBC_HOST_H

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if ATOMIC_INT_LOCK_FREE != 2
#error "counters in shared memory need atomic integers without locks"
#endif

enum { KBC_MAX_RANKS = 64, KBC_LINE = 64 };

struct kbc_control;

/* ThreadSanitizer sees calls of memcpy, and no copy that the compiler puts in the place of a call. */
#ifdef KBC_THREADS
static void *(*volatile kbc_memory_copy)(void *, const void *, size_t) = memcpy;
#else
#define kbc_memory_copy memcpy
#endif

static inline void kbc_copy(void *to, const void *from, int64_t n, size_t bytes) {
    if (n > 0) kbc_memory_copy(to, from, (size_t)n * bytes);
}

/* Byte `offset` of the window of this rank, as a pointer to elements. */
#define KBC_OWN(type, k, offset) ((type *)((k)->window + (size_t)(offset)))

/* --- windows, notifies, waits --- */

#ifdef KBC_MPI

#include "kbc_mpi.h"

#else

/* Number of loads of a counter before a wait lets other processes run. */
#ifndef KBC_SPINS
#define KBC_SPINS 2000
#endif

/* The same with more ranks than processors: the rank that is waited for may be ready to run on this
 * processor. */
#ifndef KBC_SPINS_CROWDED
#define KBC_SPINS_CROWDED 10
#endif

/* A rank, as its own process (or thread) sees it. */
struct kbc_rank {
    int64_t rank, nranks;
    unsigned char *window;  /* of this rank */
    unsigned char *tiles;   /* memory of this rank for tiles */
    struct kbc_control *control;
    unsigned char *windows; /* of all ranks, one after another */
    size_t pitch;           /* bytes from one window to the next */
    const int64_t *inputs;  /* of each argument of the kernel that peers read: its byte offset in a window */
    int64_t round;          /* barriers at which it arrived */
    int spins;              /* loads of a counter before a wait lets others run */
    int crowded;            /* whether there are more ranks than processors */
};

/* Byte `offset` of the window of `peer`, as a pointer to elements. */
#define KBC_AT(type, k, peer, offset) ((type *)((k)->windows + (size_t)(peer) * (k)->pitch + (size_t)(offset)))

/* Copies n elements from or to the window of `peer`: from element `first` behind byte `offset`. */
static inline void kbc_get(struct kbc_rank *k, void *to, int64_t peer, int64_t offset, int64_t first, int64_t n,
                           size_t bytes) {
    kbc_copy(to, KBC_AT(unsigned char, k, peer, offset) + first * (int64_t)bytes, n, bytes);
}
static inline void kbc_put(struct kbc_rank *k, int64_t peer, int64_t offset, int64_t first, const void *from,
                           int64_t n, size_t bytes) {
    kbc_copy(KBC_AT(unsigned char, k, peer, offset) + first * (int64_t)bytes, from, n, bytes);
}

/* A wait that takes long: lets others run, then sleeps. It ends the run after the time limit, or if another
 * rank ended. */
void kbc_wait_long(struct kbc_rank *k, _Atomic uint32_t *counter, int64_t value, int acquire, const char *what,
                   int64_t index, const char *from);

static inline void kbc_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Adds 1 to a counter of `peer`. */
static inline void kbc_notify(struct kbc_rank *k, int64_t peer, int64_t offset, memory_order order) {
    atomic_fetch_add_explicit(KBC_AT(_Atomic uint32_t, k, peer, offset), 1, order);
}

/* Waits until a counter of this rank is at least `value`. */
#define KBC_WAIT(k, offset, value, order, what, index, from) \
    do { \
        _Atomic uint32_t *const kbc_c = KBC_OWN(_Atomic uint32_t, k, offset); \
        const int64_t kbc_v = (value); \
        int kbc_i = 0; \
        while (kbc_i < (k)->spins && (int64_t)atomic_load_explicit(kbc_c, order) < kbc_v) { \
            kbc_relax(); \
            ++kbc_i; \
        } \
        if (kbc_i == (k)->spins) kbc_wait_long(k, kbc_c, kbc_v, (order) == memory_order_acquire, what, index, from); \
    } while (0)

/* Called at the end of a call of the kernel. */
static inline void kbc_finish(struct kbc_rank *k) { (void)k; }

#endif

/* --- integers: quotients round down, remainders have the sign of the divisor --- */

static inline int64_t kbc_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t kbc_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t kbc_abs(int64_t a) { return a < 0 ? -a : a; }
static inline int64_t kbc_sign(int64_t a) { return (a > 0) - (a < 0); }
static inline int64_t kbc_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static inline int64_t kbc_mod(int64_t a, int64_t b) {
    const int64_t m = a % b;
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}
static inline int64_t kbc_log2(int64_t a) {
    int64_t n = 0;
    for (; a > 1; a >>= 1) ++n;
    return n;
}
static inline int64_t kbc_ceil_log2(int64_t a) { return a > 1 ? kbc_log2(a - 1) + 1 : 0; }
static inline int64_t kbc_popcount(int64_t a) {
    int64_t n = 0;
    for (uint64_t rest = (uint64_t)a; rest != 0; rest &= rest - 1) ++n;
    return n;
}

/* --- elements: f16 and bf16 are their bits, computed in float and rounded once, to nearest even --- */

static inline uint32_t kbc_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float kbc_float(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float kbc_get_bf16(uint16_t v) { return kbc_float((uint32_t)v << 16); }
static inline uint16_t kbc_put_bf16(float x) {
    const uint32_t u = kbc_bits(x);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
}

static inline float kbc_get_f16(uint16_t v) {
    const uint32_t sign = (uint32_t)(v & 0x8000u) << 16, rest = v & 0x7fffu;
    /* A product with a power of two gives numbers below the normal ones their exponents. */
    const float small = kbc_float(rest << 13) * 0x1p112f;
    /* A NaN becomes a quiet one, as in processors. */
    const uint32_t above = (rest << 13) | (rest > 0x7c00u ? 0x7fc00000u : 0x7f800000u);
    const uint32_t bits = rest >= 0x7c00u ? above : kbc_bits(small);
    return kbc_float(bits | sign);
}
static inline uint16_t kbc_put_f16(float x) {
    const uint32_t u = kbc_bits(x), sign = (u >> 16) & 0x8000u, rest = u & 0x7fffffffu;
    /* Normal numbers: round the upper bits. Smaller ones: the addition of 0.5 rounds. */
    const uint32_t normal = (rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13;
    const uint32_t small = kbc_bits(kbc_float(rest) + 0.5f) - 0x3f000000u;
    const uint32_t finite = rest < 0x38800000u ? small : normal;
    const uint32_t above = rest > 0x7f800000u ? 0x7e00u | ((rest >> 13) & 0x3ffu) : 0x7c00u;
    return (uint16_t)(sign | (rest >= 0x477ff000u ? above : finite));
}


/* x if a comparison holds, else y: by bits, without a branch, so that compilers compute several elements
 * at a time. */
static inline float kbc_choose(int holds, float x, float y) {
    const uint32_t mask = 0u - (uint32_t)holds;
    return kbc_float((kbc_bits(x) & mask) | (kbc_bits(y) & ~mask));
}
static inline int32_t kbc_choose_i32(int holds, int32_t x, int32_t y) { return holds ? x : y; }

/* Of two zeros of different sign -0 is the smaller one; NaN wins. */
static inline float kbc_op_add(float a, float b) { return a + b; }
static inline float kbc_op_mul(float a, float b) { return a * b; }
static inline float kbc_op_min(float a, float b) {
    const float least = kbc_choose((a < b) | ((a == b) & (int)(kbc_bits(a) >> 31)), a, b);
    return kbc_choose((a != a) | (b != b), NAN, least);
}
static inline float kbc_op_max(float a, float b) {
    const float most = kbc_choose((a > b) | ((a == b) & (int)(~kbc_bits(a) >> 31)), a, b);
    return kbc_choose((a != a) | (b != b), NAN, most);
}

static inline int32_t kbc_int_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static inline int32_t kbc_int_mul(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }
static inline int32_t kbc_int_min(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t kbc_int_max(int32_t a, int32_t b) { return a > b ? a : b; }

/* --- runs of elements --- */

/* Elements of a result are elements of the operands at the same place, or of other memory. */
#if defined(__clang__)
#define KBC_LOOP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define KBC_LOOP _Pragma("GCC ivdep")
#else
#define KBC_LOOP
#endif

#define KBC_RUN(name, type, value) \
    static inline void name(type *d, const type *a, const type *b, int64_t n) { \
        KBC_LOOP \
        for (int64_t i = 0; i < n; ++i) d[i] = value; \
    }
#define KBC_INT_RUN(op) KBC_RUN(kbc_##op##_i32, int32_t, kbc_int_##op(a[i], b[i]))
#define KBC_FILL(dtype, type, number, value) \
    static inline void kbc_fill_##dtype(type *d, number v, int64_t n) { \
        const type filled = value; \
        KBC_LOOP \
        for (int64_t i = 0; i < n; ++i) d[i] = filled; \
    }

KBC_RUN(kbc_add_f32, float, kbc_op_add(a[i], b[i]))
KBC_RUN(kbc_mul_f32, float, kbc_op_mul(a[i], b[i]))
KBC_RUN(kbc_min_f32, float, kbc_op_min(a[i], b[i]))
KBC_RUN(kbc_max_f32, float, kbc_op_max(a[i], b[i]))
KBC_INT_RUN(add)
KBC_INT_RUN(mul)
KBC_INT_RUN(min)
KBC_INT_RUN(max)
KBC_FILL(f32, float, float, v)
KBC_FILL(f16, uint16_t, float, kbc_put_f16(v))
KBC_FILL(bf16, uint16_t, float, kbc_put_bf16(v))
KBC_FILL(i64, int64_t, int64_t, v)
KBC_FILL(i32, int32_t, int64_t, (int32_t)v)
KBC_FILL(i16, int16_t, int64_t, (int16_t)v)
KBC_FILL(i8, int8_t, int64_t, (int8_t)v)
KBC_FILL(u8, uint8_t, int64_t, (uint8_t)v)

/* --- wide loops: eight elements at a time where the compiler and the processor have AVX2 and F16C --- */

/* The bits are those of the functions for one element. ThreadSanitizer has the plain loops. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(KBC_THREADS) && !defined(KBC_PLAIN)
#define KBC_WIDE __attribute__((target("avx2,f16c")))
#endif

/* A loop over elements that does several operations on each, as a function `name` that calls name_of: for
 * vectors of 16 bytes, and for AVX2 where the processor has it. Both round every operation once. */
#ifdef __GNUC__
#define KBC_INSIDE __attribute__((always_inline)) static inline
#else
#define KBC_INSIDE static inline
#endif
#ifdef KBC_WIDE
#include <cpuid.h>

/* Whether the processor and the system have what KBC_WIDE needs. */
static inline int kbc_is_wide(void) {
    static _Atomic int known; /* 0: not yet */
    int found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found == 0) {
        unsigned a, b, c = 0, d;
        found = __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) ? 2 : 1;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found == 2;
}

#define KBC_FUSED_LOOP(name, parameters, arguments) \
    KBC_WIDE static void name##_wide parameters { name##_of arguments; } \
    static void name##_plain parameters { name##_of arguments; } \
    static inline void name parameters { \
        if (kbc_is_wide()) name##_wide arguments; \
        else name##_plain arguments; \
    }
#else
#define KBC_FUSED_LOOP(name, parameters, arguments) \
    static inline void name parameters { name##_of arguments; }
#endif

#endif

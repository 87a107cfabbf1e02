/* What kernels that compute use: functions of runs of elements, conversions, reductions of rows, rows
 * of tables, and products of matrices. Written by kbc; the same for all programs.
 *
 * Every operation of f32 rounds once and is not fused with another one (-ffp-contract=off); f16 and
 * bf16 are computed in f32. Products of matrices may fuse a multiplication and an addition. */
#ifndef KBC_COMPUTE_H
#define KBC_COMPUTE_H

#include "kbc_halves.h"

/* --- functions of one element --- */

/* e^x to less than one unit in the last place (0.991 for the worst of all f32), without a branch, so
 * that compilers compute several elements at a time: x = n ln 2 + r, |r| <= ln 2 / 2, and a polynomial. */
static inline float kbc_exp(float x) {
    /* Below -104 the result is 0, which is chosen at the end: a product that is smaller than all normal numbers
     * takes a processor a hundred times as long as another one. */
    const int none = x < -104.0f;
    const float low = kbc_choose(none, 0, x), c = kbc_choose(low > 89.0f, 89.0f, low);
    /* Adding and then subtracting 1.5 * 2^23 rounds to a whole number. */
    const float up = c * 1.44269504f + 12582912.0f, n = up - 12582912.0f;
    const float r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
    const float p = ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r +
                     1.6666665459e-1f) * r + 5.0000001201e-1f;
    const float y = (p * (r * r) + r) + 1.0f;
    /* 2^n in two parts: the smallest results are rounded once, and 2^128 is no f32. */
    const int32_t m = (int32_t)(kbc_bits(up) - 0x4b400000u), h = m >> 1;
    const float all = y * kbc_float((uint32_t)(h + 127) << 23) * kbc_float((uint32_t)(m - h + 127) << 23);
    return kbc_choose(none, 0, all);
}

static inline float kbc_op_sub(float a, float b) { return a - b; }
static inline float kbc_op_div(float a, float b) { return a / b; }
static inline int32_t kbc_int_sub(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
/* Toward zero. Programs divide by numbers other than 0. */
static inline int32_t kbc_int_div(int32_t a, int32_t b) {
    return b == -1 ? (int32_t)(0u - (uint32_t)a) : b == 0 ? 0 : a / b;
}

/* --- runs of elements --- */

KBC_RUN(kbc_sub_f32, float, kbc_op_sub(a[i], b[i]))
KBC_RUN(kbc_div_f32, float, kbc_op_div(a[i], b[i]))
KBC_INT_RUN(sub)
KBC_INT_RUN(div)

/* With a number as the last operand. */
#define KBC_BY(name, type, value) \
    static inline void name(type *d, const type *a, type b, int64_t n) { \
        KBC_LOOP \
        for (int64_t i = 0; i < n; ++i) d[i] = value; \
    }
#define KBC_BYS(op) \
    KBC_BY(kbc_##op##_by_f32, float, kbc_op_##op(a[i], b)) \
    KBC_BY(kbc_##op##_by_i32, int32_t, kbc_int_##op(a[i], b))
KBC_BYS(add)
KBC_BYS(sub)
KBC_BYS(mul)
KBC_BYS(div)
KBC_BYS(min)
KBC_BYS(max)

#define KBC_MAP(name, type, value) \
    static inline void name(type *d, const type *a, int64_t n) { \
        KBC_LOOP \
        for (int64_t i = 0; i < n; ++i) d[i] = value; \
    }
KBC_MAP(kbc_abs_f32, float, kbc_float(kbc_bits(a[i]) & 0x7fffffffu))
KBC_INSIDE void kbc_exp_f32_of(float *d, const float *a, int64_t n) {
    KBC_LOOP
    for (int64_t i = 0; i < n; ++i) d[i] = kbc_exp(a[i]);
}
KBC_FUSED_LOOP(kbc_exp_f32, (float *d, const float *a, int64_t n), (d, a, n))
KBC_MAP(kbc_log_f32, float, logf(a[i]))
KBC_MAP(kbc_sqrt_f32, float, sqrtf(a[i]))
KBC_MAP(kbc_rsqrt_f32, float, 1.0f / sqrtf(a[i]))

#define KBC_SELECT(name, type, sign) \
    static inline void name(type *d, const type *a, const type *b, const type *x, const type *y, int64_t n) { \
        KBC_LOOP \
        for (int64_t i = 0; i < n; ++i) d[i] = a[i] sign b[i] ? x[i] : y[i]; \
    }
#define KBC_SELECTS(word, sign) \
    KBC_SELECT(kbc_select_##word##_f32, float, sign) \
    KBC_SELECT(kbc_select_##word##_i32, int32_t, sign)
KBC_SELECTS(eq, ==)
KBC_SELECTS(ne, !=)
KBC_SELECTS(lt, <)
KBC_SELECTS(le, <=)
KBC_SELECTS(gt, >)
KBC_SELECTS(ge, >=)

/* One element in all places. */
#define KBC_EXPAND(dtype, type) \
    static inline void kbc_expand_##dtype(type *d, const type *a, int64_t n) { \
        const type v = *a; \
        KBC_LOOP \
        for (int64_t i = 0; i < n; ++i) d[i] = v; \
    }
KBC_EXPAND(f32, float)
KBC_EXPAND(f16, uint16_t)
KBC_EXPAND(bf16, uint16_t)
KBC_EXPAND(i32, int32_t)

/* An integer in all places, as a value of the type. */
#define kbc_index_f32(d, v, n) kbc_fill_f32(d, (float)(v), n)
#define kbc_index_f16(d, v, n) kbc_fill_f16(d, (float)(v), n)
#define kbc_index_bf16(d, v, n) kbc_fill_bf16(d, (float)(v), n)
#define kbc_index_i32 kbc_fill_i32
#define kbc_index_i16 kbc_fill_i16
#define kbc_index_i8 kbc_fill_i8
#define kbc_index_u8 kbc_fill_u8
#define kbc_index_i64 kbc_fill_i64

/* --- rows: several of them in a tile, each some elements after the one before it --- */

static inline void kbc_copy_rows(void *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t rows,
                                 int64_t n, size_t bytes) {
    unsigned char *const d = to;
    const unsigned char *const a = from;
    if (n == to_pitch && n == from_pitch) {
        kbc_copy(d, a, rows * n, bytes);
    } else if (n == 1 && bytes == 4) {
        for (int64_t r = 0; r < rows; ++r) kbc_copy(d + r * to_pitch * 4, a + r * from_pitch * 4, 1, 4);
    } else {
        for (int64_t r = 0; r < rows; ++r) {
            kbc_copy(d + r * to_pitch * (int64_t)bytes, a + r * from_pitch * (int64_t)bytes, n, bytes);
        }
    }
}
#define KBC_EACH_ROW(rows, call) \
    do { \
        for (int64_t kbc_row = 0; kbc_row < (rows); ++kbc_row) call; \
    } while (0)

/* --- reductions of a row --- */

/* By index, from the first element: the order of the rule. */
static inline void kbc_reduce_add_f32(float *d, const float *a, int64_t n) {
    float sum = a[0];
    for (int64_t i = 1; i < n; ++i) sum += a[i];
    *d = sum;
}
/* The order has no influence: parts are combined at the end. */
#define KBC_REDUCE(dtype, type, op, value) \
    static inline void kbc_reduce_##op##_##dtype(type *d, const type *a, int64_t n) { \
        type s[16]; \
        int64_t i = 0; \
        for (int j = 0; j < 16; ++j) s[j] = a[j < n ? j : 0]; \
        for (i = 16; i + 16 <= n; i += 16) { \
            for (int j = 0; j < 16; ++j) s[j] = value(s[j], a[i + j]); \
        } \
        for (; i < n; ++i) s[0] = value(s[0], a[i]); \
        for (int j = 1; j < 16 && j < n; ++j) s[0] = value(s[0], s[j]); \
        *d = s[0]; \
    }
KBC_REDUCE(f32, float, max, kbc_op_max)
KBC_REDUCE(f32, float, min, kbc_op_min)
KBC_REDUCE(i32, int32_t, max, kbc_int_max)
KBC_REDUCE(i32, int32_t, min, kbc_int_min)
KBC_REDUCE(i32, int32_t, add, kbc_int_add)

/* --- conversions: to nearest even; beyond the limits of an integer type the nearest limit, NaN is 0;
 * between integers the low bits --- */

static inline int64_t kbc_whole(float x, float limit, int64_t low, int64_t high) {
    return x != x ? 0 : x >= limit ? high : x <= -limit - 1.0f ? low : (int64_t)rintf(x);
}
static inline int64_t kbc_to_i64(float x) { return kbc_whole(x, 0x1p63f, INT64_MIN, INT64_MAX); }
static inline int32_t kbc_to_i32(float x) { return (int32_t)kbc_whole(x, 0x1p31f, INT32_MIN, INT32_MAX); }
static inline int16_t kbc_to_i16(float x) { return (int16_t)kbc_whole(x, 0x7fff, INT16_MIN, INT16_MAX); }
static inline int8_t kbc_to_i8(float x) { return (int8_t)kbc_whole(x, 0x7f, INT8_MIN, INT8_MAX); }
static inline uint8_t kbc_to_u8(float x) { return x != x || x <= 0 ? 0 : x >= 255.0f ? 255 : (uint8_t)rintf(x); }
/* A float from which a narrower type is rounded as from the integer itself: what is cut off leaves its
 * last bit set. */
static inline float kbc_odd(int64_t v) {
    const float near = (float)v;
    if (near >= 0x1p63f || (int64_t)near == v) return near;
    const float cut = ((int64_t)near > v) == (v > 0) ? kbc_float(kbc_bits(near) - 1) : near;
    return kbc_float(kbc_bits(cut) | 1u);
}
#define kbc_put_f32(v) (v)
#define kbc_get_f32(v) (v)

#define KBC_TO_INT(to, to_type, from, from_type) \
    KBC_CONVERSION(to, to_type, from, from_type, kbc_to_##to(kbc_get_##from(a[i])))
#define KBC_CONVERSION(to, to_type, from, from_type, value) \
    static inline void kbc_##to##_from_##from(to_type *d, const from_type *a, int64_t n) { \
        KBC_LOOP \
        for (int64_t i = 0; i < n; ++i) d[i] = (to_type)(value); \
    }
#define KBC_FROM_FLOAT(from, from_type) \
    KBC_TO_INT(i64, int64_t, from, from_type) \
    KBC_TO_INT(i32, int32_t, from, from_type) \
    KBC_TO_INT(i16, int16_t, from, from_type) \
    KBC_TO_INT(i8, int8_t, from, from_type) \
    KBC_TO_INT(u8, uint8_t, from, from_type)
#define KBC_FROM_INT(from, from_type) \
    KBC_CONVERSION(f32, float, from, from_type, a[i]) \
    KBC_CONVERSION(f16, uint16_t, from, from_type, kbc_put_f16(kbc_odd(a[i]))) \
    KBC_CONVERSION(bf16, uint16_t, from, from_type, kbc_put_bf16(kbc_odd(a[i])))
#define KBC_BETWEEN(to, to_type, from, from_type) KBC_CONVERSION(to, to_type, from, from_type, a[i])
#define KBC_INTEGERS(to, to_type, a, a_type, b, b_type, c, c_type, d, d_type) \
    KBC_BETWEEN(to, to_type, a, a_type) \
    KBC_BETWEEN(to, to_type, b, b_type) \
    KBC_BETWEEN(to, to_type, c, c_type) \
    KBC_BETWEEN(to, to_type, d, d_type)
KBC_FROM_FLOAT(f32, float)
KBC_FROM_FLOAT(f16, uint16_t)
KBC_FROM_FLOAT(bf16, uint16_t)
KBC_FROM_INT(i64, int64_t)
KBC_FROM_INT(i32, int32_t)
KBC_FROM_INT(i16, int16_t)
KBC_FROM_INT(i8, int8_t)
KBC_FROM_INT(u8, uint8_t)
KBC_INTEGERS(i64, int64_t, i32, int32_t, i16, int16_t, i8, int8_t, u8, uint8_t)
KBC_INTEGERS(i32, int32_t, i64, int64_t, i16, int16_t, i8, int8_t, u8, uint8_t)
KBC_INTEGERS(i16, int16_t, i64, int64_t, i32, int32_t, i8, int8_t, u8, uint8_t)
KBC_INTEGERS(i8, int8_t, i64, int64_t, i32, int32_t, i16, int16_t, u8, uint8_t)
KBC_INTEGERS(u8, uint8_t, i64, int64_t, i32, int32_t, i16, int16_t, i8, int8_t)

/* --- products of matrices ---
 *
 * A block of sums has whole groups of KBC_UP rows and KBC_WIDTH columns. The left operand of a block has
 * its rows one after another; the right one has its columns in panels of KBC_WIDTH, each term by term.
 * Both are f32 (or i32), and zeros where the matrix ends, so that only whole groups are multiplied. */

enum { KBC_UP = 6, KBC_WIDTH = 32 };

#define KBC_PACK(dtype, type, sum_type, take) \
    static inline void kbc_left_##dtype(sum_type *d, int64_t stride, const type *a, int64_t pitch, int64_t rows, \
                                        int64_t terms) { \
        const int64_t all = (rows + KBC_UP - 1) / KBC_UP * KBC_UP; \
        for (int64_t r = 0; r < rows; ++r) take(d + r * stride, a + r * pitch, terms); \
        for (int64_t r = rows; r < all; ++r) memset(d + r * stride, 0, (size_t)terms * sizeof *d); \
    } \
    static inline void kbc_right_##dtype(sum_type *d, int64_t depth, const type *b, int64_t pitch, int64_t terms, \
                                         int64_t cols) { \
        for (int64_t p = 0; p < terms; ++p) { \
            for (int64_t j = 0; j < cols; j += KBC_WIDTH) { \
                sum_type *const to = d + j * depth + p * KBC_WIDTH; \
                const int64_t n = kbc_min(KBC_WIDTH, cols - j); \
                /* A number that the compiler knows lets it copy without a call. */ \
                if (n == KBC_WIDTH) take(to, b + p * pitch + j, KBC_WIDTH); \
                else take(to, b + p * pitch + j, n); \
                for (int64_t i = n; i < KBC_WIDTH; ++i) to[i] = 0; \
            } \
        } \
    }
#define KBC_SAME(d, a, n) kbc_copy(d, a, n, sizeof *(d))
KBC_PACK(f32, float, float, KBC_SAME)
KBC_PACK(f16, uint16_t, float, kbc_f32_from_f16)
KBC_PACK(bf16, uint16_t, float, kbc_f32_from_bf16)
KBC_PACK(i32, int32_t, int32_t, KBC_SAME)

/* Stores a block of sums, rounded to the type of the matrix. */
#define KBC_UNPACK(dtype, type, sum_type, give) \
    static inline void kbc_sums_##dtype(type *d, int64_t pitch, const sum_type *a, int64_t stride, int64_t rows, \
                                        int64_t cols) { \
        for (int64_t r = 0; r < rows; ++r) give(d + r * pitch, a + r * stride, cols); \
    }
KBC_UNPACK(f32, float, float, KBC_SAME)
KBC_UNPACK(f16, uint16_t, float, kbc_f16_from_f32)
KBC_UNPACK(bf16, uint16_t, float, kbc_bf16_from_f32)
KBC_UNPACK(i32, int32_t, int32_t, KBC_SAME)

/* A group of KBC_UP rows and twice `width` columns of sums, in registers. */
#define KBC_GROUP(name, attribute, vector, width, load, store, all, zero, add_product) \
    attribute static inline void name(float *c, int64_t stride, const float *a, int64_t left, const float *b, int64_t k, \
                                      int add) { \
        vector KBC_NAMES(0), KBC_NAMES(1), KBC_NAMES(2), KBC_NAMES(3), KBC_NAMES(4), KBC_NAMES(5); \
        if (add) { \
            KBC_TAKE(0, width, load) KBC_TAKE(1, width, load) KBC_TAKE(2, width, load) \
            KBC_TAKE(3, width, load) KBC_TAKE(4, width, load) KBC_TAKE(5, width, load) \
        } else { \
            KBC_ZERO(0, zero) KBC_ZERO(1, zero) KBC_ZERO(2, zero) \
            KBC_ZERO(3, zero) KBC_ZERO(4, zero) KBC_ZERO(5, zero) \
        } \
        for (int64_t p = 0; p < k; ++p) { \
            const vector x = load(b + p * KBC_WIDTH), y = load(b + p * KBC_WIDTH + width); \
            KBC_TERM(0, vector, all, add_product) KBC_TERM(1, vector, all, add_product) \
            KBC_TERM(2, vector, all, add_product) KBC_TERM(3, vector, all, add_product) \
            KBC_TERM(4, vector, all, add_product) KBC_TERM(5, vector, all, add_product) \
        } \
        KBC_GIVE(0, width, store) KBC_GIVE(1, width, store) KBC_GIVE(2, width, store) \
        KBC_GIVE(3, width, store) KBC_GIVE(4, width, store) KBC_GIVE(5, width, store) \
    }
#define KBC_NAMES(r) s##r, t##r
#define KBC_TAKE(r, width, load) s##r = load(c + r * stride), t##r = load(c + r * stride + width);
#define KBC_ZERO(r, zero) s##r = t##r = zero;
#define KBC_TERM(r, vector, all, add_product) \
    { \
        const vector v = all(a[r * left + p]); \
        s##r = add_product(v, x, s##r); \
        t##r = add_product(v, y, t##r); \
    }
#define KBC_GIVE(r, width, store) store(c + r * stride, s##r), store(c + r * stride + width, t##r);

/* All groups of a block: for each panel of the right operand, all rows of the left one. */
#define KBC_BLOCK(name, attribute, group, step) \
    attribute static inline void name(float *c, int64_t stride, const float *a, int64_t left, const float *b, \
                                      int64_t depth, int64_t m, int64_t n, int64_t k, int add) { \
        for (int64_t j = 0; j < n; j += KBC_WIDTH) { \
            for (int64_t i = 0; i < m; i += KBC_UP) { \
                for (int64_t h = 0; h < KBC_WIDTH; h += step) { \
                    group(c + i * stride + j + h, stride, a + i * left, left, b + j * depth + h, k, add); \
                } \
            } \
        } \
    }

#ifdef __GNUC__
typedef float kbc_four __attribute__((vector_size(16)));
static inline kbc_four kbc_load_four(const float *from) {
    kbc_four v;
    memcpy(&v, from, sizeof v);
    return v;
}
static inline void kbc_store_four(float *to, kbc_four v) { memcpy(to, &v, sizeof v); }
#define KBC_ALL_FOUR(v) ((kbc_four){v, v, v, v})
#define KBC_ADD_PRODUCT(v, x, s) ((s) + (v) * (x))
KBC_GROUP(kbc_group_four, , kbc_four, 4, kbc_load_four, kbc_store_four, KBC_ALL_FOUR, KBC_ALL_FOUR(0), KBC_ADD_PRODUCT)
KBC_BLOCK(kbc_block_plain, , kbc_group_four, 8)
#else
static inline void kbc_group_one(float *c, int64_t stride, const float *a, int64_t left, const float *b, int64_t k,
                                 int add) {
    for (int64_t r = 0; r < KBC_UP; ++r) {
        float s[KBC_WIDTH];
        for (int j = 0; j < KBC_WIDTH; ++j) s[j] = add ? c[r * stride + j] : 0;
        for (int64_t p = 0; p < k; ++p) {
            for (int j = 0; j < KBC_WIDTH; ++j) s[j] += a[r * left + p] * b[p * KBC_WIDTH + j];
        }
        for (int j = 0; j < KBC_WIDTH; ++j) c[r * stride + j] = s[j];
    }
}
KBC_BLOCK(kbc_block_plain, , kbc_group_one, KBC_WIDTH)
#endif

#ifdef KBC_WIDE
#define KBC_FUSED __attribute__((target("avx2,fma")))
#define KBC_WIDEST __attribute__((target("avx512f")))
KBC_GROUP(kbc_group_eight, KBC_FUSED, __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_setzero_ps(),
          _mm256_fmadd_ps)
KBC_BLOCK(kbc_block_fused, KBC_FUSED, kbc_group_eight, 16)
KBC_GROUP(kbc_group_sixteen, KBC_WIDEST, __m512, 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps,
          _mm512_setzero_ps(), _mm512_fmadd_ps)
KBC_BLOCK(kbc_block_widest, KBC_WIDEST, kbc_group_sixteen, 32)

/* What the processor and the system have: 1 nothing, 2 AVX2 with FMA, 3 AVX-512. */
static inline int kbc_products(void) {
    static _Atomic int known; /* 0: not yet */
    int found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found == 0) {
        found = __builtin_cpu_supports("avx512f") ? 3 : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 2 : 1;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found;
}
#endif

/* c = a b, or c += a b: m rows, n columns, sums of k terms. */
static inline void kbc_product_f32(float *c, int64_t stride, const float *a, int64_t left, const float *b, int64_t depth,
                                   int64_t m, int64_t n, int64_t k, int add) {
#ifdef KBC_WIDE
    const int has = kbc_products();
    if (has == 3) kbc_block_widest(c, stride, a, left, b, depth, m, n, k, add);
    else if (has == 2) kbc_block_fused(c, stride, a, left, b, depth, m, n, k, add);
    else
#endif
        kbc_block_plain(c, stride, a, left, b, depth, m, n, k, add);
}
static inline void kbc_product_i32(int32_t *c, int64_t stride, const int32_t *a, int64_t left, const int32_t *b,
                                   int64_t depth, int64_t m, int64_t n, int64_t k, int add) {
    for (int64_t j = 0; j < n; j += KBC_WIDTH) {
        for (int64_t i = 0; i < m; ++i) {
            uint32_t s[KBC_WIDTH];
            for (int h = 0; h < KBC_WIDTH; ++h) s[h] = add ? (uint32_t)c[i * stride + j + h] : 0;
            for (int64_t p = 0; p < k; ++p) {
                const uint32_t v = (uint32_t)a[i * left + p];
                for (int h = 0; h < KBC_WIDTH; ++h) s[h] += v * (uint32_t)b[j * depth + p * KBC_WIDTH + h];
            }
            for (int h = 0; h < KBC_WIDTH; ++h) c[i * stride + j + h] = (int32_t)s[h];
        }
    }
}

#endif

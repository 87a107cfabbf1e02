/* Runs of f16 and bf16: a part at a time is converted, combined and rounded. Written by kbc; the same for
 * all programs. Programs that only move and combine elements of other types do not include it,
 * because the headers of vector instructions take compilers longer than all the rest. */
#ifndef KBC_HALVES_H
#define KBC_HALVES_H

#include "kbc_host.h"

enum { KBC_PART = 256 };

#define KBC_HALF_RUN(name, attribute, convert, round, op) \
    attribute static inline void name(uint16_t *d, const uint16_t *a, const uint16_t *b, int64_t n) { \
        float x[KBC_PART], y[KBC_PART]; \
        for (int64_t at = 0; at < n; at += KBC_PART) { \
            const int64_t m = kbc_min(KBC_PART, n - at); \
            convert(x, a + at, m); \
            convert(y, b + at, m); \
            KBC_LOOP \
            for (int64_t i = 0; i < m; ++i) x[i] = kbc_op_##op(x[i], y[i]); \
            round(d + at, x, m); \
        } \
    }
#define KBC_PLAIN_CONVERSIONS(dtype) \
    static inline void kbc_plain_f32_from_##dtype(float *d, const uint16_t *a, int64_t n) { \
        KBC_LOOP \
        for (int64_t i = 0; i < n; ++i) d[i] = kbc_get_##dtype(a[i]); \
    } \
    static inline void kbc_plain_##dtype##_from_f32(uint16_t *d, const float *a, int64_t n) { \
        KBC_LOOP \
        for (int64_t i = 0; i < n; ++i) d[i] = kbc_put_##dtype(a[i]); \
    }
KBC_PLAIN_CONVERSIONS(f16)
KBC_PLAIN_CONVERSIONS(bf16)

#ifdef KBC_WIDE

#include <immintrin.h>

KBC_WIDE static inline void kbc_wide_f32_from_f16(float *d, const uint16_t *a, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(a + i))));
    }
    kbc_plain_f32_from_f16(d + i, a + i, n - i);
}
KBC_WIDE static inline void kbc_wide_f16_from_f32(uint16_t *d, const float *a, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m128i rounded = _mm256_cvtps_ph(_mm256_loadu_ps(a + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(d + i), rounded);
    }
    kbc_plain_f16_from_f32(d + i, a + i, n - i);
}
KBC_WIDE static inline void kbc_wide_f32_from_bf16(float *d, const uint16_t *a, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(a + i)));
        _mm256_storeu_ps(d + i, _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)));
    }
    kbc_plain_f32_from_bf16(d + i, a + i, n - i);
}
KBC_WIDE static inline void kbc_wide_bf16_from_f32(uint16_t *d, const float *a, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 x = _mm256_loadu_ps(a + i);
        const __m256i u = _mm256_castps_si256(x), upper = _mm256_srli_epi32(u, 16);
        const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
        const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
        const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
        const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        const __m256i all = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
        const __m128i both = _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        _mm_storeu_si128((__m128i *)(void *)(d + i), both);
    }
    kbc_plain_bf16_from_f32(d + i, a + i, n - i);
}

#define KBC_CONVERT(to, to_type, from, from_type) \
    static inline void kbc_##to##_from_##from(to_type *d, const from_type *a, int64_t n) { \
        if (kbc_is_wide()) kbc_wide_##to##_from_##from(d, a, n); \
        else kbc_plain_##to##_from_##from(d, a, n); \
    }
#define KBC_HALF(op, dtype) \
    KBC_HALF_RUN(kbc_wide_##op##_##dtype, KBC_WIDE, kbc_wide_f32_from_##dtype, kbc_wide_##dtype##_from_f32, op) \
    KBC_HALF_RUN(kbc_plain_##op##_##dtype, , kbc_plain_f32_from_##dtype, kbc_plain_##dtype##_from_f32, op) \
    static inline void kbc_##op##_##dtype(uint16_t *d, const uint16_t *a, const uint16_t *b, int64_t n) { \
        if (kbc_is_wide()) kbc_wide_##op##_##dtype(d, a, b, n); \
        else kbc_plain_##op##_##dtype(d, a, b, n); \
    }

#else

#define KBC_CONVERT(to, to_type, from, from_type) \
    static inline void kbc_##to##_from_##from(to_type *d, const from_type *a, int64_t n) { \
        kbc_plain_##to##_from_##from(d, a, n); \
    }
#define KBC_HALF(op, dtype) \
    KBC_HALF_RUN(kbc_##op##_##dtype, , kbc_plain_f32_from_##dtype, kbc_plain_##dtype##_from_f32, op)

#endif

#define KBC_HALVES(dtype) \
    KBC_HALF(add, dtype) \
    KBC_HALF(mul, dtype) \
    KBC_HALF(min, dtype) \
    KBC_HALF(max, dtype) \
    KBC_CONVERT(f32, float, dtype, uint16_t) \
    KBC_CONVERT(dtype, uint16_t, f32, float)
KBC_HALVES(f16)
KBC_HALVES(bf16)

#endif

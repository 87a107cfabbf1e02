/* Products of matrices of numbers with bounds, in double: what a program's definition (kbc_define.h) multiplies.
 * Written by kbc; the same for all programs. */
#ifndef KBC_DOT_H
#define KBC_DOT_H

#include "kbc_compute.h"
#include "kbc_near.h"

/* What of the numbers of a matrix is multiplied. */
enum kbc_of { KBC_VALUES, KBC_SIZES, KBC_BOUNDS, KBC_MOST };
static inline void kbc_numbers(double *to, const kbc_x *x, int64_t n, enum kbc_of of) {
    switch (of) {
    case KBC_VALUES:
        for (int64_t i = 0; i < n; ++i) to[i] = x[i].v;
        return;
    case KBC_SIZES:
        for (int64_t i = 0; i < n; ++i) to[i] = fabs(x[i].v);
        return;
    case KBC_BOUNDS:
        for (int64_t i = 0; i < n; ++i) to[i] = x[i].b;
        return;
    case KBC_MOST: break;
    }
    for (int64_t i = 0; i < n; ++i) to[i] = fabs(x[i].v) + x[i].b;
}

/* Blocks of a product: rows of the left operand one after another, columns of the right one in panels of
 * KBC_PANEL, each term by term. Rows are whole groups of KBC_ROWS, and columns whole panels. */
enum { KBC_ROWS = 6, KBC_PANEL = 16, KBC_SIDE = 192, KBC_ACROSS = 256, KBC_DEEP = 256 };
struct kbc_blocks {
    double left[KBC_SIDE * KBC_DEEP], right[KBC_ACROSS * KBC_DEEP], sums[KBC_SIDE * KBC_ACROSS];
};

#define KBC_DOT(name, attribute, vector, width, load, store, all, zero, add_product) \
    attribute static inline void name(struct kbc_blocks *w, int64_t m, int64_t n, int64_t k, int add) { \
        for (int64_t j = 0; j < n; j += KBC_PANEL) { \
            for (int64_t i = 0; i < m; i += KBC_ROWS) { \
                for (int64_t h = 0; h < KBC_PANEL; h += 2 * (width)) { \
                    const double *const a = w->left + i * KBC_DEEP, *const b = w->right + j * KBC_DEEP + h; \
                    double *const c = w->sums + i * KBC_ACROSS + j + h; \
                    vector s[KBC_ROWS][2]; \
                    for (int r = 0; r < KBC_ROWS; ++r) { \
                        s[r][0] = add ? load(c + r * KBC_ACROSS) : zero; \
                        s[r][1] = add ? load(c + r * KBC_ACROSS + (width)) : zero; \
                    } \
                    for (int64_t p = 0; p < k; ++p) { \
                        const vector x = load(b + p * KBC_PANEL), y = load(b + p * KBC_PANEL + (width)); \
                        for (int r = 0; r < KBC_ROWS; ++r) { \
                            const vector v = all(a[r * KBC_DEEP + p]); \
                            s[r][0] = add_product(v, x, s[r][0]); \
                            s[r][1] = add_product(v, y, s[r][1]); \
                        } \
                    } \
                    for (int r = 0; r < KBC_ROWS; ++r) { \
                        store(c + r * KBC_ACROSS, s[r][0]); \
                        store(c + r * KBC_ACROSS + (width), s[r][1]); \
                    } \
                } \
            } \
        } \
    }
#define KBC_LOAD_ONE(from) (*(from))
#define KBC_STORE_ONE(to, v) (*(to) = (v))
#define KBC_ALL_ONE(v) (v)
#define KBC_ONE_PRODUCT(v, x, s) ((s) + (v) * (x))
KBC_DOT(kbc_plain_dot, , double, 1, KBC_LOAD_ONE, KBC_STORE_ONE, KBC_ALL_ONE, 0.0, KBC_ONE_PRODUCT)
#ifdef KBC_WIDE
KBC_DOT(kbc_fused_dot, __attribute__((target("avx2,fma"))), __m256d, 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd,
        _mm256_setzero_pd(), _mm256_fmadd_pd)
KBC_DOT(kbc_widest_dot, __attribute__((target("avx512f"))), __m512d, 8, _mm512_loadu_pd, _mm512_storeu_pd,
        _mm512_set1_pd, _mm512_setzero_pd(), _mm512_fmadd_pd)
#endif

/* The sums of the blocks, or more terms of them. */
static inline void kbc_dot_block(struct kbc_blocks *w, int64_t m, int64_t n, int64_t k, int add) {
#ifdef KBC_WIDE
    const int has = kbc_products();
    if (has == 3) kbc_widest_dot(w, m, n, k, add);
    else if (has == 2) kbc_fused_dot(w, m, n, k, add);
    else
#endif
        kbc_plain_dot(w, m, n, k, add);
}

/* c = a b in double, of these numbers of the operands. */
static inline void kbc_dot(struct kbc_blocks *w, double *c, const kbc_x *a, enum kbc_of of_a, const kbc_x *b,
                           enum kbc_of of_b, int64_t m, int64_t n, int64_t k) {
    if (k == 0) memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t g = 0; g < n && k > 0; g += KBC_ACROSS) {
        const int64_t width = kbc_min(KBC_ACROSS, n - g), panels = (width + KBC_PANEL - 1) / KBC_PANEL * KBC_PANEL;
        for (int64_t i = 0; i < m; i += KBC_SIDE) {
            const int64_t rows = kbc_min(KBC_SIDE, m - i), groups = (rows + KBC_ROWS - 1) / KBC_ROWS * KBC_ROWS;
            for (int64_t q = 0; q < k; q += KBC_DEEP) {
                const int64_t deep = kbc_min(KBC_DEEP, k - q);
                for (int64_t r = 0; r < groups; ++r) {
                    double *const to = w->left + r * KBC_DEEP;
                    if (r < rows) kbc_numbers(to, a + (i + r) * k + q, deep, of_a);
                    else memset(to, 0, (size_t)deep * sizeof *to);
                }
                for (int64_t p = 0; p < deep; ++p) {
                    for (int64_t j = 0; j < panels; j += KBC_PANEL) {
                        double *const to = w->right + j * KBC_DEEP + p * KBC_PANEL;
                        const int64_t held = kbc_min(KBC_PANEL, width - j);
                        kbc_numbers(to, b + (q + p) * n + g + j, held, of_b);
                        for (int64_t h = held; h < KBC_PANEL; ++h) to[h] = 0;
                    }
                }
                kbc_dot_block(w, groups, panels, deep, q > 0);
            }
            for (int64_t r = 0; r < rows; ++r) {
                memcpy(c + (i + r) * n + g, w->sums + r * KBC_ACROSS, (size_t)width * sizeof *c);
            }
        }
    }
}

#endif

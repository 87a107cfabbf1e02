/* Runs of f16 and bf16 give the bits of the functions for one element, whatever code runs them. A NaN
 * that is computed from two NaNs may be that of either. */
#include "kbc_halves.h"

#include <stdio.h>

enum { ALL = 65536, RUN = ALL + 13 };

static uint16_t a[RUN], b[RUN], d[RUN];
static float f[RUN];
static long wrong;

static int is_nan(uint16_t v, uint16_t infinity) { return (v & 0x7fffu) > infinity; }

static void say(const char *what, long i, unsigned found, unsigned expected) {
    if (wrong++ < 5) printf("%s, element %ld: %#x, expected %#x\n", what, i, found, expected);
}

/* Every value with each of these, in runs that end within a part and within eight elements. */
static const uint16_t others[] = {0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0xbc00, 0x3c01, 0x7bff, 0xfbff, 0x7c00,
                                  0xfc00, 0x7c01, 0x7e00, 0xfe01, 0x7f80, 0xff80, 0x7f81, 0x7fc0, 0xffff, 0x5a31, 0x1234, 0x9abc};

#define CHECK(op, dtype, infinity) \
    for (unsigned k = 0; k < sizeof others / sizeof *others; ++k) { \
        const int64_t n = RUN - (int64_t)k; \
        for (int64_t i = 0; i < n; ++i) b[i] = others[k]; \
        kbc_##op##_##dtype(d, a, b, n); \
        for (int64_t i = 0; i < n; ++i) { \
            const uint16_t e = kbc_put_##dtype(kbc_op_##op(kbc_get_##dtype(a[i]), kbc_get_##dtype(b[i]))); \
            if (d[i] != e && !(is_nan(d[i], infinity) && is_nan(e, infinity))) say(#op " " #dtype, (long)i, d[i], e); \
        } \
    } \
    /* The result may be an operand. */ \
    for (int64_t i = 0; i < RUN; ++i) b[i] = a[i]; \
    kbc_##op##_##dtype(b, b, b, RUN); \
    for (int64_t i = 0; i < RUN; ++i) { \
        const uint16_t e = kbc_put_##dtype(kbc_op_##op(kbc_get_##dtype(a[i]), kbc_get_##dtype(a[i]))); \
        if (b[i] != e && !(is_nan(b[i], infinity) && is_nan(e, infinity))) say(#op " " #dtype " in place", (long)i, b[i], e); \
    }
#define WIDEN(dtype) \
    kbc_f32_from_##dtype(f, a, RUN); \
    for (int64_t i = 0; i < RUN; ++i) { \
        if (kbc_bits(f[i]) != kbc_bits(kbc_get_##dtype(a[i]))) say("from " #dtype, (long)i, kbc_bits(f[i]), a[i]); \
    }
#define ROUND(dtype) \
    kbc_##dtype##_from_f32(d, f, RUN); \
    for (int64_t i = 0; i < RUN; ++i) { \
        const uint16_t e = kbc_put_##dtype(f[i]); \
        if (d[i] != e) say("to " #dtype, (long)i, d[i], e); \
    }

int main(void) {
    for (int64_t i = 0; i < RUN; ++i) a[i] = (uint16_t)i;
    CHECK(add, f16, 0x7c00) CHECK(mul, f16, 0x7c00) CHECK(min, f16, 0x7c00) CHECK(max, f16, 0x7c00)
    CHECK(add, bf16, 0x7f80) CHECK(mul, bf16, 0x7f80) CHECK(min, bf16, 0x7f80) CHECK(max, bf16, 0x7f80)
    WIDEN(f16)
    WIDEN(bf16)
    /* Around every value, and around the middles between two. */
    for (uint32_t k = 0; k < 48; ++k) {
        for (int64_t i = 0; i < RUN; ++i) f[i] = kbc_float(kbc_bits(kbc_get_f16(a[i])) + k / 3 * 0x200u + k % 3 - 1);
        ROUND(f16)
        for (int64_t i = 0; i < RUN; ++i) f[i] = kbc_float(((uint32_t)a[i] << 16) + k / 3 * 0x1000u + k % 3 - 1);
        ROUND(bf16)
    }
#ifdef KBC_WIDE
    printf("wide: %s\n", kbc_is_wide() ? "yes" : "no");
#endif
    printf("%ld wrong\n", wrong);
    return wrong != 0;
}

/* Functions, conversions, reductions and products of kbc_compute.h, against the plainest form of each. */
#include "kbc_compute.h"

#include <stdio.h>

static long wrong;

static void say(const char *what, double at, double found, double expected) {
    if (wrong++ < 5) printf("%s of %.9g: %.9g, expected %.9g\n", what, at, found, expected);
}

/* e^x is less than one unit in the last place off: one of every 509 f32. */
static void exponentials(void) {
    for (uint64_t u = 0; u <= UINT32_MAX; u += 509) {
        const float x = kbc_float((uint32_t)u);
        float y;
        kbc_exp_f32(&y, &x, 1);
        const double e = exp((double)x);
        if (x != x) {
            if (y == y) say("exp", x, y, e);
            continue;
        }
        if (e >= 0x1.ffffffp127 || e == 0) {
            if (y != (float)e) say("exp", x, y, e);
            continue;
        }
        int digits;
        frexp(e, &digits);
        if (fabs(y - e) >= fmax(ldexp(1, digits - 24), 0x1p-149)) say("exp", x, y, e);
    }
}

/* To nearest even, with limits; integers to narrow floats round once. */
static void conversions(void) {
    static const float all[] = {0, -0.0f, 0.5f, 1.5f, 2.5f, -2.5f, 126.5f, 127.5f, -128.5f, -129, 254.5f, 255.5f, 32766.5f,
                                32767.5f, -32769, 0x1p31f, -0x1p31f, 2147483520.0f, 0x1p63f, -0x1p63f, 1e30f, INFINITY, -INFINITY, NAN};
    for (unsigned i = 0; i < sizeof all / sizeof *all; ++i) {
        const float x = all[i];
        const double w = x != x ? 0 : rint((double)x);
        int32_t to32;
        int16_t to16;
        int8_t to8;
        uint8_t to_u8;
        int64_t to64;
        kbc_i32_from_f32(&to32, &x, 1);
        kbc_i16_from_f32(&to16, &x, 1);
        kbc_i8_from_f32(&to8, &x, 1);
        kbc_u8_from_f32(&to_u8, &x, 1);
        kbc_i64_from_f32(&to64, &x, 1);
        if (to32 != fmax(fmin(w, INT32_MAX), INT32_MIN)) say("i32", x, to32, w);
        if (to16 != fmax(fmin(w, INT16_MAX), INT16_MIN)) say("i16", x, to16, w);
        if (to8 != fmax(fmin(w, INT8_MAX), INT8_MIN)) say("i8", x, to8, w);
        if (to_u8 != fmax(fmin(w, UINT8_MAX), 0)) say("u8", x, to_u8, w);
        if (w >= 0x1p63 ? to64 != INT64_MAX : to64 != (int64_t)fmax(w, -0x1p63)) say("i64", x, (double)to64, w);
    }
    for (int64_t k = 1; k < 62; ++k) {
        for (int64_t d = -3; d <= 3; ++d) {
            for (int sign = -1; sign <= 1; sign += 2) {
                /* Just beside the middle of two bf16: through f32 it would become the middle. */
                const int64_t v = sign * (((int64_t)1 << k) + ((int64_t)1 << k >> 8) + d);
                uint16_t bits;
                kbc_bf16_from_i64(&bits, &v, 1);
                const double step = fmax(ldexp(1, (int)(k - 7)), 1), middle = (double)(((int64_t)1 << k) + ((int64_t)1 << k >> 8));
                const double up = (double)((int64_t)1 << k) + step, down = (double)((int64_t)1 << k);
                if (k < 20) continue;
                const double e = d > 0 || (d == 0 && middle < down) ? up : down;
                if ((double)kbc_get_bf16(bits) != sign * e) say("bf16", (double)v, kbc_get_bf16(bits), sign * e);
            }
        }
    }
}

enum { M = 20, N = 70, K = 41, PITCH = 100, TERMS = 48 };
static float a[M * PITCH], b[K * PITCH];
static _Alignas(64) float left[24 * (TERMS + 16)], right[96 * TERMS], sums[24 * 96];
static int32_t ia[M * PITCH], ib[K * PITCH];
static _Alignas(64) int32_t ileft[24 * (TERMS + 16)], iright[96 * TERMS], isums[24 * 96];

/* Products of whole numbers are exact in whatever order; every size of the last groups. */
static void products(void) {
    for (int i = 0; i < M * PITCH; ++i) a[i] = (float)(ia[i] = i * 7 % 13 - 6);
    for (int i = 0; i < K * PITCH; ++i) b[i] = (float)(ib[i] = i * 5 % 11 - 5);
    for (int m = 1; m <= M; ++m) {
        for (int n = 1; n <= N; n += 1 + m % 3) {
            for (int add = 0; add < 2; ++add) {
                const int k = K - add;
                kbc_left_f32(left, TERMS + 16, a + 1, PITCH, m, k);
                kbc_right_f32(right, TERMS, b + 2, PITCH, k, n);
                kbc_product_f32(sums, 96, left, TERMS + 16, right, TERMS, m, n, k, 0);
                if (add) kbc_product_f32(sums, 96, left, TERMS + 16, right, TERMS, m, n, k, 1);
                kbc_left_i32(ileft, TERMS + 16, ia + 1, PITCH, m, k);
                kbc_right_i32(iright, TERMS, ib + 2, PITCH, k, n);
                kbc_product_i32(isums, 96, ileft, TERMS + 16, iright, TERMS, m, n, k, 0);
                if (add) kbc_product_i32(isums, 96, ileft, TERMS + 16, iright, TERMS, m, n, k, 1);
                for (int i = 0; i < m; ++i) {
                    for (int j = 0; j < n; ++j) {
                        int e = 0;
                        for (int p = 0; p < k; ++p) e += ia[1 + i * PITCH + p] * ib[2 + p * PITCH + j];
                        e *= 1 + add;
                        if (sums[i * 96 + j] != (float)e) say("product", i * 1000 + j, sums[i * 96 + j], e);
                        if (isums[i * 96 + j] != e) say("product of i32", i * 1000 + j, isums[i * 96 + j], e);
                    }
                }
            }
        }
    }
}

static void reductions(void) {
    for (int n = 1; n < 70; ++n) {
        float largest = b[0], least = b[0], sum = b[0], found;
        for (int i = 1; i < n; ++i) {
            sum += b[i];
            largest = kbc_op_max(largest, b[i]);
            least = kbc_op_min(least, b[i]);
        }
        kbc_reduce_add_f32(&found, b, n);
        if (found != sum) say("sum", n, found, sum);
        kbc_reduce_max_f32(&found, b, n);
        if (found != largest) say("max", n, found, largest);
        kbc_reduce_min_f32(&found, b, n);
        if (found != least) say("min", n, found, least);
    }
    float rows[4] = {1, NAN, 3, 2}, found;
    kbc_reduce_max_f32(&found, rows, 4);
    if (found == found) say("max", 4, found, NAN);
}

int main(void) {
    exponentials();
    conversions();
    products();
    reductions();
    printf("%ld wrong\n", wrong);
    return wrong != 0;
}

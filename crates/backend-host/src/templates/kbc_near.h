/* Numbers of a program's definition: a value in double (of an integer type in int64_t), and a bound on how
 * far the kernel's may be from it. Written by kbc; the same for all programs.
 *
 * Running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.3): inputs are
 * exact, an operation passes on the errors of its operands and adds that of its own rounding. The kernel
 * computes elementwise functions in f32, rounds what it stores, and combines ranks in the tensor's type in
 * some order. The rules are those of the golden values of other targets of kbc. */
#ifndef KBC_NEAR_H
#define KBC_NEAR_H

#include "kbc_data.h"

struct kbc_near {
    union {
        double v;  /* of a floating-point type */
        int64_t w; /* of an integer type */
    };
    double b;
};

/* Where disturbed evaluations are asked for, coins are tossed for every element of every operation. */
static _Thread_local int kbc_coins;
static _Thread_local uint64_t kbc_coin;

/* A product of bounds and sizes, in which zero times anything is zero. */
static inline double kbc_times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }
static inline double kbc_least(double x, double most) { return x > most ? most : x; }
static inline double kbc_greater(double a, double b) { return a != a || a > b ? a : b; }

static inline struct kbc_near kbc_made(double v, double b) {
    /* No statement is no bound. */
    struct kbc_near out = {{v}, b != b ? INFINITY : b};
    if (kbc_coins && out.b != 0) {
        /* The operation's own error, whole, up or down, and used up by that. */
        kbc_coin += 0x9e3779b97f4a7c15u;
        out.v += kbc_mix64(kbc_coin) & 1 ? out.b : -out.b;
        out.b = 0;
    }
    return out;
}
static inline struct kbc_near kbc_whole_number(int64_t w, double b) {
    struct kbc_near out = {.b = b != b ? INFINITY : b};
    out.w = w;
    return out;
}

/* The result of an operation, off by `b` already, and by `ulps` more for being stored in a type. */
static inline struct kbc_near kbc_rounded(double v, double b, enum kbc_dtype dtype, double ulps) {
    const struct kbc_format f = kbc_formats[dtype];
    const double size = fabs(v), added = 2 * ulps * f.unit * (size + b), lowest = ulps * f.least;
    /* A result of exact operands that the type holds; an infinity or NaN for certain. */
    const int held = b == 0 && ulps <= 0.5 && kbc_nearest(dtype, v) == v;
    const int sure = held || (!isfinite(v) && isfinite(b));
    b = sure ? 0 : b + (added < lowest ? lowest : added);
    const int over = size - b >= f.limit;
    if (over) b = 0;
    else if (size + b >= f.limit && !sure) b = INFINITY;
    return kbc_made(over ? copysign(INFINITY, v) : v, b);
}

/* An integer, wrapped to its type. */
static inline struct kbc_near kbc_wrapped(int64_t w, double b, enum kbc_dtype dtype) {
    const int bits = dtype == KBC_i8 || dtype == KBC_u8 ? 8 : dtype == KBC_i16 ? 16 : dtype == KBC_i32 ? 32 : 64;
    if (bits == 64) return kbc_whole_number(w, b);
    const double span = ldexp(1, bits), low = dtype == KBC_u8 ? 0 : -span / 2, high = low + span - 1;
    const int wraps = b > 0 && ((double)w - b < low || (double)w + b > high);
    const uint64_t rest = (uint64_t)w & (((uint64_t)1 << bits) - 1);
    const int64_t out = (double)rest > high ? (int64_t)rest - (int64_t)span : (int64_t)rest;
    return kbc_whole_number(out, wraps ? INFINITY : b);
}

/* Rounded, or wrapped, as a value of the program is. */
static inline struct kbc_near kbc_stored(struct kbc_near x, enum kbc_dtype dtype) {
    return kbc_is_real(dtype) ? kbc_rounded(x.v, x.b, dtype, 0.5) : kbc_wrapped(x.w, x.b, dtype);
}
static inline struct kbc_near kbc_real_of(struct kbc_near x, enum kbc_dtype dtype) {
    return kbc_rounded((double)x.w, x.b, dtype, 0.5);
}

/* A number in an expression: rounded once to the type it meets. */
static inline struct kbc_near kbc_constant(double v, enum kbc_dtype dtype) {
    return kbc_is_real(dtype) ? kbc_made(kbc_nearest(dtype, v), 0) : kbc_whole_number((int64_t)v, 0);
}

/* A cast to an integer type: nearest even, NaN is 0, out of range the nearest limit. */
static inline int64_t kbc_image(double v, double low, double high) {
    const double whole = v != v ? 0 : rint(v);
    if (whole >= high) return high >= 0x1p63 ? INT64_MAX : (int64_t)high;
    return whole <= low ? (int64_t)low : (int64_t)whole;
}
static inline struct kbc_near kbc_integer(struct kbc_near x, enum kbc_dtype dtype) {
    const int bits = dtype == KBC_i8 || dtype == KBC_u8 ? 8 : dtype == KBC_i16 ? 16 : dtype == KBC_i32 ? 32 : 64;
    const double span = ldexp(1, bits), low = dtype == KBC_u8 ? 0 : -span / 2;
    const double high = bits == 64 ? 0x1p63 : low + span - 1;
    const int64_t at = kbc_image(x.v, low, high);
    const double below = fabs((double)kbc_image(x.v - x.b, low, high) - (double)at);
    const double above = fabs((double)kbc_image(x.v + x.b, low, high) - (double)at);
    return kbc_whole_number(at, isinf(x.b) ? INFINITY : fmax(below, above));
}

/* --- functions of floating-point numbers, each rounded to f32 --- */

typedef struct kbc_near kbc_x;

static inline kbc_x kbc_x_neg(kbc_x a) { return kbc_made(-a.v, a.b); }
static inline kbc_x kbc_x_abs(kbc_x a) { return kbc_made(fabs(a.v), a.b); }
static inline kbc_x kbc_x_add(kbc_x a, kbc_x b) { return kbc_rounded(a.v + b.v, a.b + b.b, KBC_f32, 0.5); }
static inline kbc_x kbc_x_sub(kbc_x a, kbc_x b) { return kbc_rounded(a.v - b.v, a.b + b.b, KBC_f32, 0.5); }
static inline kbc_x kbc_x_mul(kbc_x a, kbc_x b) {
    const double passed = kbc_times(fabs(a.v), b.b) + kbc_times(a.b, fabs(b.v)) + kbc_times(a.b, b.b);
    return kbc_rounded(a.v * b.v, passed, KBC_f32, 0.5);
}
static inline kbc_x kbc_x_div(kbc_x a, kbc_x b) {
    const double v = a.v / b.v, size = fabs(b.v);
    /* The divisor may be zero, or have another sign. */
    const double passed = b.b >= size ? INFINITY : (a.b + kbc_times(fabs(v), b.b)) / (size - b.b);
    return kbc_rounded(v, passed, KBC_f32, 0.5);
}
static inline kbc_x kbc_x_pow(kbc_x a, int n) {
    kbc_x out = n ? a : kbc_made(1, 0);
    for (int i = 1; i < n; ++i) out = kbc_x_mul(out, a);
    return out;
}

/* The smaller or larger: as far off as the side taken, or as either where both may be. */
static inline kbc_x kbc_nearer(double v, kbc_x a, kbc_x b) {
    const int either = !(fabs(a.v - b.v) > a.b + b.b);
    return kbc_made(v, either ? fmax(a.b, b.b) : v == a.v ? a.b : b.b);
}
static inline kbc_x kbc_x_min(kbc_x a, kbc_x b) {
    return kbc_nearer(a.v != a.v || b.v != b.v ? NAN : a.v < b.v || (a.v == b.v && signbit(a.v)) ? a.v : b.v, a, b);
}
static inline kbc_x kbc_x_max(kbc_x a, kbc_x b) {
    return kbc_nearer(a.v != a.v || b.v != b.v ? NAN : a.v > b.v || (a.v == b.v && !signbit(a.v)) ? a.v : b.v, a, b);
}

enum kbc_comparison { KBC_EQ, KBC_NE, KBC_LT, KBC_LE, KBC_GT, KBC_GE };

static inline int kbc_holds(enum kbc_comparison how, int less, int equal, int greater) {
    switch (how) {
    case KBC_EQ: return equal;
    case KBC_NE: return !equal;
    case KBC_LT: return less;
    case KBC_LE: return less || equal;
    case KBC_GT: return greater;
    case KBC_GE: break;
    }
    return greater || equal;
}

/* x where a comparison holds, else y; where its operands may compare in another way, either. */
static inline kbc_x kbc_x_select(enum kbc_comparison how, kbc_x a, kbc_x b, kbc_x x, kbc_x y) {
    const int holds = kbc_holds(how, a.v < b.v, a.v == b.v, a.v > b.v);
    const kbc_x one = holds ? x : y, other = holds ? y : x;
    const double slack = a.b + b.b, far = other.v == one.v ? 0 : fabs(other.v - one.v);
    const int either = slack > 0 && fabs(a.v - b.v) <= slack;
    return kbc_made(one.v, either ? kbc_greater(far + other.b, one.b) : one.b);
}

/* Of the kernel's functions: units in the last place, an absolute error, and the largest argument they are
 * for. */
struct kbc_error {
    double ulps, error, within;
};

static inline kbc_x kbc_function(double v, kbc_x x, double passed, struct kbc_error e) {
    const int inside = fabs(x.v) + x.b <= e.within;
    return kbc_rounded(v, inside ? passed + e.error : INFINITY, KBC_f32, e.ulps);
}
/* The end of the interval nearest to 0, where the slopes of tanh and erf are largest. */
static inline double kbc_inner(kbc_x x) { return kbc_greater(fabs(x.v) - x.b, 0); }

static inline kbc_x kbc_x_exp(kbc_x x, struct kbc_error e) {
    return kbc_function(exp(x.v), x, kbc_times(exp(x.v), expm1(x.b)), e);
}
static inline kbc_x kbc_x_log(kbc_x x, struct kbc_error e) {
    const double passed = x.v > x.b ? -log1p(-x.b / x.v) : INFINITY;
    return kbc_function(log(x.v), x, x.b == 0 || x.v + x.b < 0 ? 0 : passed, e);
}
static inline kbc_x kbc_x_log1p(kbc_x x, struct kbc_error e) {
    const double rest = x.v + 1, passed = rest > x.b ? -log1p(-x.b / rest) : INFINITY;
    return kbc_function(log1p(x.v), x, x.b == 0 || rest + x.b < 0 ? 0 : passed, e);
}
static inline kbc_x kbc_x_tanh(kbc_x x, struct kbc_error e) {
    const double t = tanh(kbc_inner(x));
    return kbc_function(tanh(x.v), x, kbc_least(kbc_times(x.b, 1 - t * t), 2), e);
}
static inline kbc_x kbc_x_erf(kbc_x x, struct kbc_error e) {
    const double at = kbc_inner(x), slope = 1.1283791670955126 * exp(-at * at);
    return kbc_function(erf(x.v), x, kbc_least(kbc_times(x.b, slope), 2), e);
}
static inline kbc_x kbc_x_sin(kbc_x x, struct kbc_error e) {
    return kbc_function(sin(x.v), x, kbc_least(kbc_times(x.b, kbc_least(fabs(cos(x.v)) + x.b, 1)), 2), e);
}
static inline kbc_x kbc_x_cos(kbc_x x, struct kbc_error e) {
    return kbc_function(cos(x.v), x, kbc_least(kbc_times(x.b, kbc_least(fabs(sin(x.v)) + x.b, 1)), 2), e);
}
static inline kbc_x kbc_x_sqrt(kbc_x x) {
    const double low = x.v - x.b > 0 ? x.v - x.b : 0;
    const double passed = x.v < x.b ? INFINITY : x.b / (sqrt(x.v) + sqrt(low));
    return kbc_rounded(sqrt(x.v), x.b == 0 || x.v + x.b < 0 ? 0 : passed, KBC_f32, 0.5);
}
static inline kbc_x kbc_x_rsqrt(kbc_x x) { return kbc_x_div(kbc_made(1, 0), kbc_x_sqrt(x)); }

/* --- functions of integers, each wrapped to its type --- */

static inline kbc_x kbc_i_neg(kbc_x a, enum kbc_dtype t) { return kbc_wrapped((int64_t)(0 - (uint64_t)a.w), a.b, t); }
static inline kbc_x kbc_i_abs(kbc_x a, enum kbc_dtype t) { return a.w < 0 ? kbc_i_neg(a, t) : kbc_wrapped(a.w, a.b, t); }
static inline kbc_x kbc_i_add(kbc_x a, kbc_x b, enum kbc_dtype t) {
    return kbc_wrapped((int64_t)((uint64_t)a.w + (uint64_t)b.w), a.b + b.b, t);
}
static inline kbc_x kbc_i_sub(kbc_x a, kbc_x b, enum kbc_dtype t) {
    return kbc_wrapped((int64_t)((uint64_t)a.w - (uint64_t)b.w), a.b + b.b, t);
}
static inline kbc_x kbc_i_mul(kbc_x a, kbc_x b, enum kbc_dtype t) {
    const double x = fabs((double)a.w), y = fabs((double)b.w);
    const double passed = kbc_times(x, b.b) + kbc_times(a.b, y) + kbc_times(a.b, b.b);
    return kbc_wrapped((int64_t)((uint64_t)a.w * (uint64_t)b.w), passed, t);
}
/* Toward zero; nothing is said about operands that may be off. */
static inline kbc_x kbc_i_div(kbc_x a, kbc_x b, enum kbc_dtype t) {
    const double passed = a.b + b.b == 0 ? 0 : INFINITY;
    if (b.w == -1) return kbc_wrapped((int64_t)(0 - (uint64_t)a.w), passed, t);
    return kbc_wrapped(b.w == 0 ? 0 : a.w / b.w, passed, t);
}
static inline kbc_x kbc_i_pow(kbc_x a, int n, enum kbc_dtype t) {
    kbc_x out = kbc_whole_number(1, 0);
    for (int i = 0; i < n; ++i) out = kbc_i_mul(out, a, t);
    return out;
}
static inline kbc_x kbc_i_nearer(int64_t w, kbc_x a, kbc_x b) {
    const int either = fabs((double)a.w - (double)b.w) <= a.b + b.b;
    return kbc_whole_number(w, either ? fmax(a.b, b.b) : w == a.w ? a.b : b.b);
}
static inline kbc_x kbc_i_min(kbc_x a, kbc_x b) { return kbc_i_nearer(a.w < b.w ? a.w : b.w, a, b); }
static inline kbc_x kbc_i_max(kbc_x a, kbc_x b) { return kbc_i_nearer(a.w > b.w ? a.w : b.w, a, b); }
static inline kbc_x kbc_i_select(enum kbc_comparison how, kbc_x a, kbc_x b, kbc_x x, kbc_x y) {
    const int holds = kbc_holds(how, a.w < b.w, a.w == b.w, a.w > b.w);
    const kbc_x one = holds ? x : y, other = holds ? y : x;
    const double slack = a.b + b.b, far = fabs((double)other.w - (double)one.w);
    const int either = slack > 0 && fabs((double)a.w - (double)b.w) <= slack;
    return kbc_whole_number(one.w, either ? fmax(far + other.b, one.b) : one.b);
}

#endif

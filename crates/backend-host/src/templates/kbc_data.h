/* The data of an emitted program: sizes and placement of its tensors, its inputs, and the comparison
 * of every element with the value that the program defines. Written by kbc; the same for all
 * programs. */
#ifndef KBC_DATA_H
#define KBC_DATA_H

#include "kbc_host.h"

#include <stdio.h>
#include <stdlib.h>

enum { KBC_DIMS = 8, KBC_AXES = 16, KBC_BLOCKS = 5 };
enum kbc_dtype { KBC_f32, KBC_f16, KBC_bf16, KBC_i64, KBC_i32, KBC_i16, KBC_i8, KBC_u8, KBC_f8e4m3fn, KBC_f8e5m2 };
enum kbc_rule { KBC_WHOLE, KBC_EVEN, KBC_CEIL, KBC_LENGTHS };
enum kbc_combiner { KBC_NONE, KBC_SUM, KBC_PROD, KBC_MIN, KBC_MAX };
/* What an input holds: by the rule of the program, always the same, or what the file beside the program has. */
enum kbc_generator { KBC_BY_RULE, KBC_ONES, KBC_NORMAL, KBC_STORED };
/* busbw / algbw on p ranks: (p - 1) / p, twice that, or 1; and whether the size is that of one rank's part. */
enum kbc_bus { KBC_NO_BUS, KBC_SHARE, KBC_TWICE, KBC_ONE, KBC_SHARE_OF_PART };

/* How a dimension is cut: the first axis cuts it, the second each part, and so on. */
struct kbc_cut {
    enum kbc_rule rule;
    int axes, axis[KBC_AXES];
    const int64_t *lengths;
};

/* A global tensor and its placement. */
struct kbc_type {
    const char *name;
    enum kbc_dtype dtype;
    int dims;
    struct kbc_cut cut[KBC_DIMS];
    enum kbc_combiner combiner; /* what combines the ranks' parts, over these axes */
    int axes, axis[KBC_AXES];
    int only_axis; /* the axis of which one coordinate alone holds the tensor, or -1 */
    int64_t only;
    enum kbc_generator given; /* of an input */
    uint64_t seed;            /* or the first byte in the file */
    int64_t stored;           /* elements in the file */
};

/* Blocks that a collective moves: block at + i * at_step of the result holds block from + i * from_step
 * of the operand, for every i below n. A block that several rows name holds their combination. */
struct kbc_move {
    int64_t n, at, at_step, from, from_step;
    enum kbc_combiner combiner;
};

/* What a collective makes of its operand: blocks of equal length along a dimension change places, and
 * those that no row names are 0. */
struct kbc_moved {
    int operand, dim;      /* as for kbc_value */
    int64_t before, after; /* number of blocks of the operand and of the result */
    int rows;
    const struct kbc_move *row;
};

/* Sizes of everything on `nranks` ranks. */
struct kbc_sizes {
    int64_t axis[KBC_AXES];
    int64_t (*input)[KBC_DIMS], (*result)[KBC_DIMS];
    const uint32_t *modulus; /* inputs are integers below it; 0 if integers do not stay exact */
    int64_t exact_to;        /* the largest count at which these integers are known to stay exact */
    int64_t growth;          /* numbers grow with this power of the count; 0: they do not */
    int64_t *rows;           /* of inputs that number rows: how many there are; 0 for others */
    const struct kbc_moved *moved;
    int64_t window;          /* bytes */
    int64_t calls;           /* that a window serves before a counter leaves its 32 bits */
};

/* An argument of the kernel: an input or a result of the program, by number. Peers read some inputs: these
 * are in the window. */
struct kbc_argument {
    int result, index, reached;
};

struct kbc_run;
struct kbc_rank;
struct kbc_definition;
struct kbc_held;

struct kbc_program {
    const char *name, *file, *parameter; /* no parameter: all sizes are fixed */
    uint64_t identity;                   /* a hash of the text of this program */
    int64_t largest, standard;           /* values of the parameter */
    int claimed;
    const int64_t *ranks; /* for which the schedule was proven */
    const char *one_because; /* why there is only one number of ranks, or nothing */
    int axes, inputs, results, arguments;
    const struct kbc_type *input, *result;
    const struct kbc_argument *argument;
    const char *stored; /* the file with inputs, or 0; its bytes, and their hash (FNV-1a) */
    int64_t stored_bytes;
    uint64_t stored_hash;
    int64_t tiles; /* bytes */
    enum kbc_bus bus;
    void (*sizes)(int64_t nranks, int64_t count, struct kbc_sizes *out);
    /* Either the value of an element, or the whole results in steps (kbc_define.h). */
    double (*expected)(const struct kbc_run *run, int result, const int64_t *at);
    void (*definition)(struct kbc_definition *d);
    /* Compares what a rank holds after a call with the values. They are known from the comparison before if
     * `again`: the inputs are the same. */
    void (*compare)(const struct kbc_run *run, struct kbc_rank *k, int64_t call, const struct kbc_held *held, int again);
    void (*kernel)(struct kbc_rank *k, int64_t count, int64_t call, void *const *tensors);
};

/* What all ranks share besides their windows. */
struct kbc_control {
    _Atomic uint32_t failed; /* 1 + the rank that ended first */
    _Atomic uint32_t signal; /* that killed it; 0: it printed an error */
    _Atomic uint32_t arrived;
    int crowded; /* whether there are more ranks than processors */
    int64_t repeat;
    int64_t compared[KBC_MAX_RANKS], wrong[KBC_MAX_RANKS], unknown[KBC_MAX_RANKS];
    double worst[KBC_MAX_RANKS]; /* largest error as a part of its bound */
    double seconds[KBC_BLOCKS][KBC_MAX_RANKS];
};

struct kbc_options {
    int64_t ranks, count, calls, repeat, seed;
    int delays, json, until_eof, bind;
    double limit;
    int generated;     /* makes inputs although the program has some in a file */
    const char *data; /* that file, if it is not beside the program */
};

struct kbc_run {
    const struct kbc_program *program;
    struct kbc_options options;
    struct kbc_sizes sizes;
    struct kbc_control *control;
    unsigned char *windows;
    size_t pitch;
    uint32_t *smaller;     /* limits of the inputs' integers at a larger count, or 0 */
    int64_t *inputs;       /* of each argument that is in the window: its byte offset */
    unsigned char *shared; /* memory for values of a definition, or 0 */
    size_t shared_bytes;
    unsigned char *data;   /* inputs of the file, or 0 */
    uint32_t launch; /* which makes inputs different from call to call: the call plus the seed */
    uint64_t call;
};

/* Prints a line to the standard error, in one piece. */
static void kbc_say(const char *format, ...);

/* --- elements --- */

static const int64_t kbc_bytes[] = {4, 2, 2, 8, 4, 2, 1, 1, 1, 1};

/* The bits of a value that a type with this many bits of exponent and mantissa holds exactly. */
static uint32_t kbc_encode_float(double v, int exponents, int mantissa) {
    int e;
    const double m = frexp(fabs(v), &e);
    const uint32_t sign = signbit(v) ? 1u << (exponents + mantissa) : 0;
    const int bias = (1 << (exponents - 1)) - 1;
    if (v == 0) return sign;
    const int lowest = 1 - bias, exponent = e - 1 < lowest ? lowest : e - 1;
    const uint32_t digits = (uint32_t)ldexp(m, e - exponent + mantissa);
    const uint32_t biased = digits >> mantissa ? (uint32_t)(exponent + bias) : 0;
    return sign | biased << mantissa | (digits & ((1u << mantissa) - 1));
}

static void kbc_encode(enum kbc_dtype dtype, double v, void *out) {
    const float f = (float)v;
    const int64_t i = (int64_t)v;
    const uint16_t half = (uint16_t)kbc_encode_float(v, dtype == KBC_bf16 ? 8 : 5, dtype == KBC_bf16 ? 7 : 10);
    const uint8_t quarter = (uint8_t)kbc_encode_float(v, dtype == KBC_f8e5m2 ? 5 : 4, dtype == KBC_f8e5m2 ? 2 : 3);
    const int32_t word = (int32_t)i;
    const int16_t two = (int16_t)i;
    const uint8_t one = (uint8_t)i;
    const void *from = &i;
    switch (dtype) {
    case KBC_f32: from = &f; break;
    case KBC_f16:
    case KBC_bf16: from = &half; break;
    case KBC_i64: break;
    case KBC_i32: from = &word; break;
    case KBC_i16: from = &two; break;
    case KBC_i8:
    case KBC_u8: from = &one; break;
    case KBC_f8e4m3fn:
    case KBC_f8e5m2: from = &quarter; break;
    }
    memcpy(out, from, (size_t)kbc_bytes[dtype]);
}

/* Bits of (i, rank, iteration) mixed to 32: the inputs of `kbc run`. */
static uint32_t kbc_mix(uint32_t i, uint32_t rank, uint32_t iteration) {
    const uint32_t a = (rank + 1) * 0x85ebca77u, b = (iteration + 1) * 0xc2b2ae3du;
    uint32_t h = i * 0x9e3779b1u ^ (a << 13 | a >> 19) ^ (b << 26 | b >> 6);
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

/* Bits mixed to 64: the generator of normal numbers of `kbc run`. */
static inline uint64_t kbc_mix64(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* --- floating-point types --- */

/* Unit roundoff, smallest positive number, and the least number that is rounded to infinity. */
struct kbc_format {
    double unit, least, limit;
};
static const struct kbc_format kbc_formats[] = {
    [KBC_f32] = {0x1p-24, 0x1p-149, 0x1p128 - 0x1p103},
    [KBC_f16] = {0x1p-11, 0x1p-24, 65520},
    [KBC_bf16] = {0x1p-8, 0x1p-133, 0x1p128 - 0x1p119},
};

static inline int kbc_is_real(enum kbc_dtype dtype) { return dtype == KBC_f32 || dtype == KBC_f16 || dtype == KBC_bf16; }

/* The nearest value of a floating-point type, to even. */
static inline double kbc_nearest(enum kbc_dtype dtype, double v) {
    if (dtype == KBC_f32 || v == 0 || !isfinite(v)) return (double)(float)v;
    const struct kbc_format f = kbc_formats[dtype];
    int e;
    frexp(v, &e);
    const double step = fmax(2 * f.unit * ldexp(1, e - 1), f.least), out = rint(v / step) * step;
    return fabs(out) >= f.limit ? copysign(INFINITY, v) : out;
}

/* --- placement --- */

static inline int64_t kbc_elements(int dims, const int64_t *length) {
    int64_t n = 1;
    for (int d = 0; d < dims; ++d) n *= length[d];
    return n;
}

/* Number of elements of an input on all ranks, of one contributor. */
static inline uint64_t kbc_whole_length(const struct kbc_run *r, int k) {
    return (uint64_t)kbc_elements(r->program->input[k].dims, r->sizes.input[k]);
}

/* The smaller number of rows, of which 0 is none that is known. */
static inline int64_t kbc_fewer(int64_t a, int64_t b) { return a == 0 || b < a ? kbc_max(b, 1) : a; }

/* Number of contributors of a partial tensor; 1 for others. */
static inline int64_t kbc_contributors(const struct kbc_run *r, const struct kbc_type *t) {
    int64_t n = 1;
    for (int a = 0; a < t->axes; ++a) n *= r->sizes.axis[t->axis[a]];
    return n;
}

/* Normally distributed number `i` of a type: mean 0, deviation 1 (Box-Muller transform). */
static inline double kbc_normal(enum kbc_dtype dtype, uint64_t seed, uint64_t call, uint64_t i) {
    const uint64_t key = kbc_mix64(seed ^ kbc_mix64(call + 1)), step = 0x9e3779b97f4a7c15u;
    const double near = ((double)(kbc_mix64(key + (2 * i + 1) * step) >> 11) + 1) * 0x1p-53;
    const double angle = 6.283185307179586 * (double)(kbc_mix64(key + (2 * i + 2) * step) >> 11) * 0x1p-53;
    return kbc_nearest(dtype, sqrt(-2 * log(near)) * cos(angle));
}

/* The value of an element of an integer type; of others its bits. */
static inline int64_t kbc_decode_integer(enum kbc_dtype dtype, const unsigned char *from) {
    uint64_t bits = 0;
    memcpy(&bits, from, (size_t)kbc_bytes[dtype]);
    switch (dtype) {
    case KBC_i32: return (int32_t)(uint32_t)bits;
    case KBC_i16: return (int16_t)(uint16_t)bits;
    case KBC_i8: return (int8_t)(uint8_t)bits;
    default: return (int64_t)bits;
    }
}
static inline double kbc_decode(enum kbc_dtype dtype, const unsigned char *from) {
    const int64_t i = kbc_decode_integer(dtype, from);
    switch (dtype) {
    case KBC_f32: return (double)kbc_float((uint32_t)i);
    case KBC_f16: return (double)kbc_get_f16((uint16_t)i);
    case KBC_bf16: return (double)kbc_get_bf16((uint16_t)i);
    default: return (double)i;
    }
}

/* Element `i` of input `k` in the file of inputs; 0 if it is not there. */
static inline const unsigned char *kbc_stored_at(const struct kbc_run *r, int k, uint64_t i) {
    const struct kbc_type *t = &r->program->input[k];
    return t->given == KBC_STORED && r->data ? r->data + t->seed + i * (uint64_t)kbc_bytes[t->dtype] : 0;
}

/* Element `i` of what contributor `slice` gives to input `k`, an input of `n` elements: by the rule of
 * `kbc run`. Exact integers if the program keeps them exact; otherwise normal numbers, and integers below
 * the number of rows that they choose from. */
static inline double kbc_given(const struct kbc_run *r, int k, uint64_t i, uint64_t n, int64_t slice) {
    const struct kbc_type *t = &r->program->input[k];
    const int exact = r->sizes.modulus && r->sizes.modulus[k] > 0;
    uint32_t below = exact ? r->sizes.modulus[k] : 2;
    const unsigned char *const stored = kbc_stored_at(r, k, i);
    if (stored) return kbc_decode(t->dtype, stored);
    if (t->given == KBC_ONES) return 1;
    if (t->given == KBC_NORMAL || (!exact && kbc_is_real(t->dtype))) {
        const uint64_t seed = t->given == KBC_NORMAL ? t->seed : (uint64_t)r->options.seed;
        return kbc_normal(t->dtype, seed, r->call, (uint64_t)slice * n + i);
    }
    if (!exact && r->sizes.rows && r->sizes.rows[k] > 0) below = (uint32_t)kbc_min(r->sizes.rows[k], UINT32_MAX);
    return (double)(kbc_mix((uint32_t)i + (uint32_t)k * 0x01000193u, (uint32_t)slice, r->launch) % below);
}

/* Number of an element among those of a tensor. */
static inline uint64_t kbc_linear(int dims, const int64_t *size, const int64_t *at) {
    uint64_t i = 0;
    for (int d = 0; d < dims; ++d) i = i * (uint64_t)size[d] + (uint64_t)at[d];
    return i;
}

static inline double kbc_combine(enum kbc_combiner combiner, double a, double b) {
    switch (combiner) {
    case KBC_SUM: return a + b;
    case KBC_PROD: return a * b;
    case KBC_MIN: return b < a ? b : a;
    case KBC_MAX: return b > a ? b : a;
    case KBC_NONE: break;
    }
    return b;
}

/* Element `at` of input `k` of the program: what the contributors give, combined. */
static inline double kbc_input(const struct kbc_run *r, int k, const int64_t *at) {
    const struct kbc_type *t = &r->program->input[k];
    const uint64_t i = kbc_linear(t->dims, r->sizes.input[k], at), n = kbc_whole_length(r, k);
    double all = kbc_given(r, k, i, n, 0);
    const int64_t all_of = kbc_contributors(r, t);
    for (int64_t s = 1; s < all_of; ++s) all = kbc_combine(t->combiner, all, kbc_given(r, k, i, n, s));
    return all;
}

/* Length of a dimension of a value: input k is k, and what collective i moves is -1 - i. */
static inline int64_t kbc_length(const struct kbc_run *r, int value, int dim) {
    if (value >= 0) return r->sizes.input[value][dim];
    const struct kbc_moved *m = &r->sizes.moved[-1 - value];
    const int64_t n = kbc_length(r, m->operand, dim);
    return dim == m->dim ? n / m->before * m->after : n;
}

/* Element `at` of a value. */
static inline double kbc_value(const struct kbc_run *r, int value, const int64_t *at) {
    if (value >= 0) return kbc_input(r, value, at);
    const struct kbc_moved *m = &r->sizes.moved[-1 - value];
    const int64_t size = kbc_length(r, m->operand, m->dim) / m->before, block = at[m->dim] / size;
    int64_t from[KBC_DIMS];
    double all = 0;
    int found = 0;
    memcpy(from, at, sizeof from);
    for (int j = 0; j < m->rows; ++j) {
        const struct kbc_move *row = &m->row[j];
        const int64_t far = block - row->at, i = far / row->at_step;
        if (far % row->at_step != 0 || i < 0 || i >= row->n) continue;
        from[m->dim] = (row->from + i * row->from_step) * size + at[m->dim] % size;
        const double v = kbc_value(r, m->operand, from);
        all = found++ ? kbc_combine(row->combiner, all, v) : v;
    }
    return all;
}

/* Where part i of n elements in k parts begins. */
static inline int64_t kbc_boundary(enum kbc_rule rule, int64_t n, int64_t i, int64_t k) {
    const int64_t part = (n + k - 1) / k;
    return rule == KBC_EVEN ? (n * i + k - 1) / k : kbc_min(part * i, n);
}

/* The part of a tensor that a rank holds: first element and length of each dimension. */
static void kbc_box(const struct kbc_run *r, const struct kbc_type *t, const int64_t *size, int64_t rank,
                    int64_t *low, int64_t *length) {
    int64_t at[KBC_AXES];
    for (int a = r->program->axes - 1; a >= 0; --a) {
        at[a] = rank % r->sizes.axis[a];
        rank /= r->sizes.axis[a];
    }
    for (int d = 0; d < t->dims; ++d) {
        const struct kbc_cut *c = &t->cut[d];
        low[d] = 0;
        length[d] = size[d];
        int64_t linear = 0;
        for (int j = 0; j < c->axes; ++j) {
            const int64_t k = r->sizes.axis[c->axis[j]], i = at[c->axis[j]], n = length[d];
            linear = linear * k + i;
            if (c->rule == KBC_LENGTHS) continue;
            const int64_t first = kbc_boundary(c->rule, n, i, k);
            low[d] += first;
            length[d] = kbc_boundary(c->rule, n, i + 1, k) - first;
        }
        if (c->rule == KBC_LENGTHS) {
            for (int64_t i = 0; i < linear; ++i) low[d] += c->lengths[i];
            length[d] = c->lengths[linear];
        }
        if (t->only_axis >= 0 && at[t->only_axis] != t->only) length[d] = 0;
    }
}

/* The slice of a partial input that a rank gives. */
static inline int64_t kbc_slice(const struct kbc_run *r, const struct kbc_type *t, int64_t rank) {
    int64_t at[KBC_AXES], slice = 0;
    for (int a = r->program->axes - 1; a >= 0; --a) {
        at[a] = rank % r->sizes.axis[a];
        rank /= r->sizes.axis[a];
    }
    for (int a = 0; a < t->axes; ++a) slice = slice * r->sizes.axis[t->axis[a]] + at[t->axis[a]];
    return slice;
}

/* Goes to the next element of a box. */
static void kbc_next(int dims, const int64_t *low, const int64_t *length, int64_t *at) {
    for (int d = dims - 1; d >= 0; --d) {
        if (++at[d] < low[d] + length[d]) return;
        at[d] = low[d];
    }
}

/* --- what a rank holds --- */

/* A tensor of a rank. */
struct kbc_held {
    const struct kbc_type *type;
    int64_t low[KBC_DIMS], length[KBC_DIMS], n;
    unsigned char *data;
};

static void kbc_fill_inputs(const struct kbc_run *r, int64_t rank, struct kbc_held *held) {
    for (int a = 0; a < r->program->arguments; ++a) {
        const struct kbc_held *h = &held[a];
        const size_t bytes = (size_t)kbc_bytes[h->type->dtype];
        if (r->program->argument[a].result) {
            memset(h->data, 0xa5, (size_t)h->n * bytes);
            continue;
        }
        int64_t at[KBC_DIMS];
        memcpy(at, h->low, sizeof at);
        const int k = r->program->argument[a].index;
        const int64_t slice = kbc_slice(r, h->type, rank);
        const uint64_t whole = kbc_whole_length(r, k);
        for (int64_t i = 0; i < h->n; ++i) {
            const uint64_t e = kbc_linear(h->type->dims, r->sizes.input[k], at);
            const unsigned char *const stored = kbc_stored_at(r, k, e);
            if (stored) memcpy(h->data + (size_t)i * bytes, stored, bytes);
            else kbc_encode(h->type->dtype, kbc_given(r, k, e, whole, slice), h->data + (size_t)i * bytes);
            kbc_next(h->type->dims, h->low, h->length, at);
        }
    }
}

static inline void kbc_compare(const struct kbc_run *r, struct kbc_rank *k, int64_t call, const struct kbc_held *held,
                               int again) {
    const int64_t rank = k->rank;
    (void)again;
    for (int a = 0; a < r->program->arguments; ++a) {
        const struct kbc_held *h = &held[a];
        if (!r->program->argument[a].result) continue;
        const size_t bytes = (size_t)kbc_bytes[h->type->dtype];
        int64_t at[KBC_DIMS];
        memcpy(at, h->low, sizeof at);
        for (int64_t i = 0; i < h->n; ++i) {
            unsigned char golden[8];
            const double value = r->program->expected(r, r->program->argument[a].index, at);
            kbc_encode(h->type->dtype, value, golden);
            if (memcmp(golden, h->data + (size_t)i * bytes, bytes) != 0 && r->control->wrong[rank]++ == 0) {
                kbc_say("rank %lld, call %lld: element %lld of %s is %.9g, expected %.9g", (long long)rank,
                        (long long)call, (long long)i, h->type->name,
                        kbc_decode(h->type->dtype, h->data + (size_t)i * bytes), value);
            }
            kbc_next(h->type->dims, h->low, h->length, at);
        }
        r->control->compared[rank] += h->n;
    }
}

#endif

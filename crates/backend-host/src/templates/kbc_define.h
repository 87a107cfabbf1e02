/* A program's definition, step by step on whole tensors: the expected values of programs that compute, with
 * bounds (kbc_near.h). Written by kbc; the same for all programs.
 *
 * The program as written, on one device: tensors are whole, a collective changes nothing, and an input that
 * is partial over ranks has a leading dimension and stands for the combination of its slices.
 *
 * Ranks of one computer evaluate it together: of a step that takes long each computes a part of the elements,
 * in memory that all share, and waits for the others. Every rank makes the same steps in the same order. */
#ifndef KBC_DEFINE_H
#define KBC_DEFINE_H

#include "kbc_dot.h"

/* A tensor, row-major. Slices of partial values are the leading dimension. */
struct kbc_tensor {
    int dims;
    int64_t size[KBC_DIMS + 1], n;
    kbc_x *x;
};

/* An evaluation. */
struct kbc_definition {
    const struct kbc_run *run;
    struct kbc_rank *rank;
    struct kbc_tensor *out; /* results */
    void **kept;            /* memory of values, until the evaluation ends */
    int64_t used, room;
    size_t taken;           /* bytes of the shared memory */
};

/* What this rank computes of a step: units low to high, of all units if the step is not shared. */
struct kbc_part {
    int64_t low, high;
    int shared;
    uint64_t coin; /* before the step */
};

/* A step that takes at least about so many ns is shared. */
#ifndef KBC_SHARED_FROM
#define KBC_SHARED_FROM 200000
#endif

static void kbc_stop(struct kbc_rank *k);
static void kbc_barrier(struct kbc_rank *k);

static inline void *kbc_take(struct kbc_definition *d, size_t bytes) {
    void *out = malloc(bytes ? bytes : 1);
    if (d->used == d->room) {
        d->room = 2 * d->room + 64;
        void **kept = realloc(d->kept, (size_t)d->room * sizeof *kept);
        if (!kept) free(out), out = 0;
        else d->kept = kept;
    }
    if (!out) {
        kbc_say("there is no memory for the expected values: take a smaller size");
        kbc_stop(d->rank);
    }
    return d->kept[d->used++] = out;
}

static inline struct kbc_tensor kbc_tensor_of(struct kbc_definition *d, int dims, const int64_t *size) {
    struct kbc_tensor t = {.dims = dims, .n = kbc_elements(dims, size)};
    if (dims > KBC_DIMS + 1) {
        kbc_say("a value has too many dimensions");
        kbc_stop(d->rank);
    }
    for (int i = 0; i < dims; ++i) t.size[i] = size[i];
    t.x = kbc_take(d, (size_t)t.n * sizeof *t.x);
    return t;
}

/* A tensor that a step computes in so many units, each of which takes about `ns`. */
static inline struct kbc_tensor kbc_begin(struct kbc_definition *d, int dims, const int64_t *size, int64_t units, double ns,
                                          struct kbc_part *part) {
    const int64_t ranks = d->run->options.ranks, n = kbc_elements(dims, size);
    const size_t bytes = ((size_t)n * sizeof(kbc_x) + KBC_LINE - 1) / KBC_LINE * KBC_LINE;
    *part = (struct kbc_part){0, units, 0, kbc_coin};
    if (ranks < 2 || units < 2 || dims > KBC_DIMS + 1 || ns * (double)units < KBC_SHARED_FROM ||
        bytes > d->run->shared_bytes - d->taken) {
        return kbc_tensor_of(d, dims, size);
    }
    struct kbc_tensor t = {.dims = dims, .n = n, .x = (kbc_x *)(void *)(d->run->shared + d->taken)};
    for (int i = 0; i < dims; ++i) t.size[i] = size[i];
    d->taken += bytes;
    part->shared = 1;
    part->low = units * d->rank->rank / ranks;
    part->high = units * (d->rank->rank + 1) / ranks;
    /* Other coins on each rank, and the same ones on all after the step. */
    kbc_coin = kbc_mix64(part->coin + 1 + (uint64_t)d->rank->rank);
    return t;
}
static inline void kbc_end(struct kbc_definition *d, const struct kbc_part *part) {
    if (!part->shared) return;
    kbc_barrier(d->rank);
    kbc_coin = kbc_mix64(part->coin);
}

/* Input `k`. Of a partial one, all slices; or, if `whole`, their combination. */
static inline struct kbc_tensor kbc_input_of(struct kbc_definition *d, int k, int whole) {
    const struct kbc_run *r = d->run;
    const struct kbc_type *t = &r->program->input[k];
    const int64_t slices = kbc_contributors(r, t), n = (int64_t)kbc_whole_length(r, k);
    const int leading = t->combiner != KBC_NONE && !whole;
    int64_t size[KBC_DIMS + 1] = {slices};
    for (int i = 0; i < t->dims; ++i) size[leading + i] = r->sizes.input[k][i];
    struct kbc_part part;
    struct kbc_tensor out = kbc_begin(d, leading + t->dims, size, kbc_elements(leading + t->dims, size), 50, &part);
    for (int64_t i = part.low; i < part.high; ++i) {
        const unsigned char *const stored = kbc_stored_at(r, k, (uint64_t)i);
        if (stored && !kbc_is_real(t->dtype)) {
            out.x[i] = kbc_whole_number(kbc_decode_integer(t->dtype, stored), 0);
            continue;
        }
        double v = kbc_given(r, k, (uint64_t)(i % (n ? n : 1)), (uint64_t)n, leading ? i / n : 0);
        for (int64_t s = 1; s < slices && !leading; ++s) {
            v = kbc_combine(t->combiner, v, kbc_given(r, k, (uint64_t)i, (uint64_t)n, s));
        }
        out.x[i] = kbc_is_real(t->dtype) || t->dtype >= KBC_f8e4m3fn ? (kbc_x){{v}, 0} : kbc_whole_number((int64_t)v, 0);
    }
    kbc_end(d, &part);
    return out;
}

/* Result `i` of the program. */
static inline void kbc_result(struct kbc_definition *d, int i, struct kbc_tensor t) {
    kbc_x *const x = malloc((size_t)t.n * sizeof *x + 1);
    if (!x) {
        kbc_say("there is no memory for the expected values: take a smaller size");
        kbc_stop(d->rank);
    }
    memcpy(x, t.x, (size_t)t.n * sizeof *x);
    t.x = x;
    d->out[i] = t;
}

/* --- moves: bounds go with their values --- */

/* The same elements with other sizes, of which at most one is -1: what remains. */
static inline struct kbc_tensor kbc_shaped(struct kbc_tensor t, int dims, const int64_t *size) {
    int64_t known = 1;
    for (int i = 0; i < dims; ++i) known *= size[i] < 0 ? 1 : size[i];
    t.dims = dims;
    for (int i = 0; i < dims; ++i) t.size[i] = size[i] < 0 ? t.n / (known ? known : 1) : size[i];
    return t;
}
#define KBC_LIST(...) (const int64_t[]){__VA_ARGS__}

/* Slices with so many dimensions each: the first ones have one element. */
static inline struct kbc_tensor kbc_raised(struct kbc_tensor t, int dims) {
    const int more = dims + 1 - t.dims;
    for (int i = t.dims - 1; i > 0; --i) t.size[i + more] = t.size[i];
    for (int i = 1; i <= more; ++i) t.size[i] = 1;
    t.dims += more;
    return t;
}

/* Where element number `i` is. */
static inline void kbc_place(int dims, const int64_t *size, int64_t i, int64_t *at) {
    for (int k = dims - 1; k >= 0; --k) {
        at[k] = size[k] ? i % size[k] : 0;
        i /= size[k] ? size[k] : 1;
    }
}

/* Element (i, j, ..) of the result is that at first + i step[0] + j step[1] + .. of the operand. */
static inline struct kbc_tensor kbc_view(struct kbc_definition *d, struct kbc_tensor t, int dims, const int64_t *size,
                                         int64_t first, const int64_t *step) {
    struct kbc_part part;
    struct kbc_tensor out = kbc_begin(d, dims, size, kbc_elements(dims, size), 5, &part);
    int64_t at[KBC_DIMS + 1] = {0};
    kbc_place(dims, size, part.low, at);
    for (int k = 0; k < dims; ++k) first += at[k] * step[k];
    for (int64_t i = part.low; i < part.high; ++i) {
        out.x[i] = t.x[first];
        for (int k = dims - 1; k >= 0; --k) {
            first += step[k];
            if (++at[k] < size[k]) break;
            first -= step[k] * size[k];
            at[k] = 0;
        }
    }
    kbc_end(d, &part);
    return out;
}
static inline void kbc_steps(struct kbc_tensor t, int64_t *step) {
    int64_t s = 1;
    for (int i = t.dims - 1; i >= 0; --i) step[i] = s, s *= t.size[i];
}

static inline struct kbc_tensor kbc_permuted(struct kbc_definition *d, struct kbc_tensor t, const int64_t *from) {
    int64_t own[KBC_DIMS + 1] = {0}, step[KBC_DIMS + 1] = {0}, size[KBC_DIMS + 1] = {0};
    kbc_steps(t, own);
    for (int i = 0; i < t.dims; ++i) size[i] = t.size[from[i]], step[i] = own[from[i]];
    return kbc_view(d, t, t.dims, size, 0, step);
}
static inline struct kbc_tensor kbc_narrowed(struct kbc_definition *d, struct kbc_tensor t, int dim, int64_t from, int64_t n) {
    int64_t step[KBC_DIMS + 1] = {0}, size[KBC_DIMS + 1] = {0};
    kbc_steps(t, step);
    memcpy(size, t.size, sizeof size);
    size[dim] = n;
    return kbc_view(d, t, t.dims, size, from * step[dim], step);
}
/* Entry `at` of a dimension, which the result does not have. */
static inline struct kbc_tensor kbc_entry(struct kbc_definition *d, struct kbc_tensor t, int dim, int64_t at) {
    t = kbc_narrowed(d, t, dim, at, 1);
    for (int i = dim; i + 1 < t.dims; ++i) t.size[i] = t.size[i + 1];
    --t.dims;
    return t;
}
/* In the shape of a tensor with as many dimensions or more; dimensions of one element are repeated. */
static inline struct kbc_tensor kbc_spread(struct kbc_definition *d, struct kbc_tensor t, int dims, const int64_t *size) {
    int64_t own[KBC_DIMS + 1] = {0}, step[KBC_DIMS + 1] = {0};
    kbc_steps(t, own);
    for (int i = 0; i < dims; ++i) {
        const int at = i - (dims - t.dims);
        step[i] = at < 0 || t.size[at] == 1 ? 0 : own[at];
    }
    return kbc_view(d, t, dims, size, 0, step);
}

/* Operands one after another along a dimension. */
static inline struct kbc_tensor kbc_joined(struct kbc_definition *d, int dim, int n, const struct kbc_tensor *t) {
    int64_t size[KBC_DIMS + 1] = {0}, outer = 1, inner = 1;
    memcpy(size, t[0].size, sizeof size);
    for (int i = 1; i < n; ++i) size[dim] += t[i].size[dim];
    for (int i = 0; i < dim; ++i) outer *= size[i];
    for (int i = dim + 1; i < t[0].dims; ++i) inner *= size[i];
    struct kbc_tensor out = kbc_tensor_of(d, t[0].dims, size);
    kbc_x *to = out.x;
    for (int64_t o = 0; o < outer; ++o) {
        for (int i = 0; i < n; ++i) {
            const int64_t run = t[i].size[dim] * inner;
            memcpy(to, t[i].x + o * run, (size_t)run * sizeof *to);
            to += run;
        }
    }
    return out;
}
/* A value everywhere. */
static inline struct kbc_tensor kbc_filled(struct kbc_definition *d, int dims, const int64_t *size, kbc_x x) {
    struct kbc_tensor out = kbc_tensor_of(d, dims, size);
    for (int64_t i = 0; i < out.n; ++i) out.x[i] = x;
    return out;
}
/* The number of an element along a dimension. */
static inline struct kbc_tensor kbc_counted(struct kbc_definition *d, int dims, const int64_t *size, int dim, int real) {
    struct kbc_tensor out = kbc_tensor_of(d, dims, size);
    int64_t inner = 1;
    for (int i = dim + 1; i < dims; ++i) inner *= size[i];
    for (int64_t i = 0; i < out.n; ++i) {
        const int64_t at = i / inner % size[dim];
        out.x[i] = real ? (kbc_x){{(double)at}, 0} : kbc_whole_number(at, 0);
    }
    return out;
}
static inline struct kbc_tensor kbc_padded(struct kbc_definition *d, struct kbc_tensor t, int dim, int64_t before,
                                           int64_t after, kbc_x x) {
    int64_t size[KBC_DIMS + 1] = {0};
    memcpy(size, t.size, sizeof size);
    size[dim] = before;
    const struct kbc_tensor low = kbc_filled(d, t.dims, size, x);
    size[dim] = after;
    return kbc_joined(d, dim, 3, (const struct kbc_tensor[]){low, t, kbc_filled(d, t.dims, size, x)});
}
/* Rows of a dimension by number. */
static inline struct kbc_tensor kbc_rows(struct kbc_definition *d, struct kbc_tensor t, int dim, int64_t n,
                                         const int64_t *rows) {
    int64_t size[KBC_DIMS + 1] = {0}, outer = 1, inner = 1;
    memcpy(size, t.size, sizeof size);
    for (int i = 0; i < dim; ++i) outer *= size[i];
    for (int i = dim + 1; i < t.dims; ++i) inner *= size[i];
    size[dim] = n;
    struct kbc_tensor out = kbc_tensor_of(d, t.dims, size);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < n; ++i) {
            const int64_t row = rows[i] < 0 || rows[i] >= t.size[dim] ? 0 : rows[i];
            memcpy(out.x + (o * n + i) * inner, t.x + (o * t.size[dim] + row) * inner, (size_t)inner * sizeof *out.x);
        }
    }
    return out;
}
/* Rows of a table whose rows are along `dim`, by the numbers in a tensor. */
static inline struct kbc_tensor kbc_embedded(struct kbc_definition *d, struct kbc_tensor t, struct kbc_tensor ids, int dim) {
    int64_t *const rows = kbc_take(d, (size_t)ids.n * sizeof *rows), size[2 * KBC_DIMS + 2];
    for (int64_t i = 0; i < ids.n; ++i) rows[i] = ids.x[i].w;
    const struct kbc_tensor out = kbc_rows(d, t, dim, ids.n, rows);
    int n = 0;
    for (int i = 0; i < dim; ++i) size[n++] = t.size[i];
    for (int i = 0; i < ids.dims; ++i) size[n++] = ids.size[i];
    for (int i = dim + 1; i < t.dims; ++i) size[n++] = t.size[i];
    return kbc_shaped(out, (int)kbc_min(n, KBC_DIMS + 1), size);
}
/* What collective number `at` that moves blocks makes of its operand; real: of floating-point type. */
static inline struct kbc_tensor kbc_rearranged(struct kbc_definition *d, struct kbc_tensor t, int at, int real) {
    const struct kbc_moved *m = &d->run->sizes.moved[at];
    int64_t size[KBC_DIMS + 1] = {0}, inner = 1;
    const int64_t part = t.size[m->dim] / m->before;
    memcpy(size, t.size, sizeof size);
    for (int i = m->dim + 1; i < t.dims; ++i) inner *= size[i];
    size[m->dim] = part * m->after;
    struct kbc_tensor out = kbc_tensor_of(d, t.dims, size);
    const int64_t run = part * inner;
    for (int64_t i = 0; i < out.n; ++i) {
        const int64_t block = i / (run ? run : 1) % m->after, o = i / (run ? run * m->after : 1);
        kbc_x all = real ? (kbc_x){{0}, 0} : kbc_whole_number(0, 0);
        for (int j = 0, found = 0; j < m->rows; ++j) {
            const struct kbc_move *row = &m->row[j];
            const int64_t far = block - row->at, k = far / row->at_step;
            if (far % row->at_step != 0 || k < 0 || k >= row->n) continue;
            const kbc_x x = t.x[(o * m->before + row->from + k * row->from_step) * run + i % run];
            if (found++ == 0 || row->combiner == KBC_NONE) all = x;
            else if (real) all.v = kbc_combine(row->combiner, all.v, x.v);
            else all.w = (int64_t)kbc_combine(row->combiner, (double)all.w, (double)x.w);
        }
        out.x[i] = all;
    }
    return out;
}

/* --- elementwise --- */

/* A function of elements; operands are broadcast from the right. */
static inline struct kbc_tensor kbc_mapped(struct kbc_definition *d, kbc_x (*f)(const kbc_x *), int n,
                                           const struct kbc_tensor *t) {
    enum { MOST = 32 };
    int64_t size[KBC_DIMS + 1] = {0}, step[MOST][KBC_DIMS + 1], at[KBC_DIMS + 1] = {0}, place[MOST] = {0};
    int dims = 0;
    if (n > MOST) {
        kbc_say("a function has too many operands");
        kbc_stop(d->rank);
    }
    for (int i = 0; i < n; ++i) dims = t[i].dims > dims ? t[i].dims : dims;
    for (int k = 0; k < dims; ++k) size[k] = 1;
    for (int i = 0; i < n; ++i) {
        int64_t own[KBC_DIMS + 1];
        const int lead = dims - t[i].dims;
        kbc_steps(t[i], own);
        for (int k = 0; k < dims; ++k) {
            const int64_t s = k < lead ? 1 : t[i].size[k - lead];
            step[i][k] = s == 1 ? 0 : own[k - lead];
            if (s != 1) size[k] = s;
        }
    }
    struct kbc_part part;
    struct kbc_tensor out = kbc_begin(d, dims, size, kbc_elements(dims, size), 100, &part);
    kbc_place(dims, size, part.low, at);
    for (int k = 0; k < dims; ++k) {
        for (int i = 0; i < n; ++i) place[i] += at[k] * step[i][k];
    }
    for (int64_t e = part.low; e < part.high; ++e) {
        kbc_x a[MOST];
        for (int i = 0; i < n; ++i) a[i] = t[i].x[place[i]];
        out.x[e] = f(a);
        for (int k = dims - 1; k >= 0; --k) {
            for (int i = 0; i < n; ++i) place[i] += step[i][k];
            if (++at[k] < size[k]) break;
            for (int i = 0; i < n; ++i) place[i] -= step[i][k] * size[k];
            at[k] = 0;
        }
    }
    kbc_end(d, &part);
    return out;
}
#define KBC_MAPPED(d, f, ...) \
    kbc_mapped(d, f, (int)(sizeof((struct kbc_tensor[]){__VA_ARGS__}) / sizeof(struct kbc_tensor)), \
               (const struct kbc_tensor[]){__VA_ARGS__})

/* Converted: real: the operand is of floating-point type. */
static inline struct kbc_tensor kbc_cast(struct kbc_definition *d, struct kbc_tensor t, int real, enum kbc_dtype to) {
    struct kbc_part part;
    struct kbc_tensor out = kbc_begin(d, t.dims, t.size, t.n, 20, &part);
    for (int64_t i = part.low; i < part.high; ++i) {
        if (real) out.x[i] = kbc_is_real(to) ? kbc_stored(t.x[i], to) : kbc_integer(t.x[i], to);
        else out.x[i] = kbc_is_real(to) ? kbc_real_of(t.x[i], to) : kbc_stored(t.x[i], to);
    }
    kbc_end(d, &part);
    return out;
}

/* --- reductions --- */

/* The combination of the slices along the leading dimension, rounded to the type after each, in any order. */
static inline struct kbc_tensor kbc_combined(struct kbc_definition *d, struct kbc_tensor t, enum kbc_combiner how,
                                             enum kbc_dtype dtype) {
    struct kbc_part part;
    const int64_t slices = t.size[0];
    struct kbc_tensor out =
        kbc_begin(d, t.dims - 1, t.size + 1, kbc_elements(t.dims - 1, t.size + 1), 20 * (double)slices, &part);
    const int real = kbc_is_real(dtype);
    const struct kbc_format f = kbc_formats[real ? dtype : KBC_f32];
    const double roundings = (double)(slices - 1), gamma = roundings * f.unit / (1 - roundings * f.unit);
    for (int64_t i = part.low; i < part.high; ++i) {
        kbc_x all = t.x[i];
        double passed = all.b, most = all.b, size = real ? fabs(all.v) + all.b : 0, held = fabs(all.v), grown = fmax(size, 1);
        int fits = real && fmod(all.v * 32, 1) == 0;
        for (int64_t s = 1; s < slices; ++s) {
            const kbc_x x = t.x[s * out.n + i];
            passed += x.b;
            most = fmax(most, x.b);
            if (!real) {
                switch (how) {
                case KBC_SUM: all.w = (int64_t)((uint64_t)all.w + (uint64_t)x.w); break;
                case KBC_PROD: all.w = (int64_t)((uint64_t)all.w * (uint64_t)x.w); break;
                case KBC_MIN: all.w = x.w < all.w ? x.w : all.w; break;
                default: all.w = x.w > all.w ? x.w : all.w;
                }
                continue;
            }
            all.v = kbc_combine(how, all.v, x.v);
            fits &= fmod(x.v * 32, 1) == 0;
            held *= fabs(x.v);
            if (how == KBC_SUM) size += fabs(x.v) + x.b;
            else size *= fabs(x.v) + x.b, grown *= fmax(fabs(x.v) + x.b, 1);
        }
        if (how == KBC_MIN || how == KBC_MAX) {
            out.x[i] = real ? kbc_made(all.v, most) : kbc_whole_number(all.w, most);
        } else if (!real) {
            out.x[i] = kbc_wrapped(all.w, how == KBC_SUM || passed == 0 ? passed : INFINITY, dtype);
        } else if (how == KBC_SUM) {
            /* Sums of multiples of 1/32 may fit the type whatever their order. */
            const double own = fits && passed == 0 && size * 32 * f.unit <= 1 ? 0 : gamma * size;
            out.x[i] = kbc_made(all.v, size + own >= f.limit ? INFINITY : passed + own);
        } else {
            const double off = size - held, own = off == 0 && all.v == 0 ? 0 : (gamma + roundings * f.least) * grown;
            out.x[i] = kbc_made(all.v, grown + own >= f.limit ? INFINITY : off + own);
        }
    }
    kbc_end(d, &part);
    return out;
}

enum kbc_along { KBC_ALONG_SUM, KBC_ALONG_MEAN, KBC_ALONG_MIN, KBC_ALONG_MAX, KBC_ALONG_PROD };

/* A dimension combined, in f32 and any order, and stored in the type. */
static inline struct kbc_tensor kbc_along(struct kbc_definition *d, struct kbc_tensor t, enum kbc_along how, int dim,
                                          enum kbc_dtype dtype, int keep) {
    int64_t size[KBC_DIMS + 1] = {0}, inner = 1;
    int dims = 0;
    for (int i = 0; i < t.dims; ++i) {
        if (i > dim) inner *= t.size[i];
        if (i != dim) size[dims++] = t.size[i];
        else if (keep) size[dims++] = 1;
    }
    struct kbc_part part;
    const int64_t n = t.size[dim];
    struct kbc_tensor out = kbc_begin(d, dims, size, kbc_elements(dims, size), 5 * (double)(n + 4), &part);
    const int real = kbc_is_real(dtype);
    const double unit = kbc_formats[KBC_f32].unit, roundings = (double)(n - 1);
    for (int64_t i = part.low; i < part.high; ++i) {
        const kbc_x *const x = t.x + i / inner * n * inner + i % inner;
        double v = how == KBC_ALONG_PROD, b = 0, low, high, size_of = 0;
        int64_t w = how == KBC_ALONG_PROD;
        if (how == KBC_ALONG_MIN || how == KBC_ALONG_MAX) {
            const double sign = how == KBC_ALONG_MAX ? 1 : -1;
            v = low = high = -INFINITY;
            for (int64_t k = 0; k < n; ++k) {
                const kbc_x e = x[k * inner];
                const double own = sign * (real ? e.v : (double)e.w);
                v = own != own ? own : kbc_greater(v, own);
                low = kbc_greater(low, own - e.b);
                high = kbc_greater(high, own + e.b);
                if (!real && (k == 0 || (how == KBC_ALONG_MAX ? e.w > w : e.w < w))) w = e.w;
            }
            b = fmax(high - v, v - low);
            if (n == 0) b = 0;
            out.x[i] = real ? kbc_made(sign * v, b) : kbc_whole_number(w, b);
            continue;
        }
        for (int64_t k = 0; k < n; ++k) {
            const kbc_x e = x[k * inner];
            b += e.b;
            if (how == KBC_ALONG_PROD) v *= real ? e.v : 1, w = (int64_t)((uint64_t)w * (uint64_t)(real ? 1 : e.w));
            else if (real) v += e.v, size_of += fabs(e.v) + e.b;
            else w = (int64_t)((uint64_t)w + (uint64_t)e.w);
        }
        if (!real) {
            out.x[i] = kbc_wrapped(w, how == KBC_ALONG_PROD && b > 0 ? INFINITY : b, dtype);
            continue;
        }
        kbc_x all = kbc_made(v, b + (n > 0 ? roundings * unit / (1 - roundings * unit) * size_of : 0));
        if (how == KBC_ALONG_MEAN) all = kbc_x_div(all, kbc_made((double)n, 0));
        out.x[i] = dtype == KBC_f32 ? all : kbc_rounded(all.v, all.b, dtype, 0.5);
    }
    kbc_end(d, &part);
    return out;
}

/* --- products of matrices --- */

/* The shape of a product, whose leading dimensions are broadcast; returns the number of dimensions. */
static inline int kbc_product_shape(struct kbc_tensor a, struct kbc_tensor b, int64_t *size) {
    const int dims = a.dims > b.dims ? a.dims : b.dims;
    for (int i = 0; i < dims - 2; ++i) {
        const int x = i - (dims - a.dims), y = i - (dims - b.dims);
        size[i] = x >= 0 && a.size[x] != 1 ? a.size[x] : y >= 0 ? b.size[y] : x >= 0 ? a.size[x] : 1;
    }
    size[dims - 2] = a.size[a.dims - 2];
    size[dims - 1] = b.size[b.dims - 1];
    return dims;
}

/* The matrix of an operand for matrix number `g` of a product. */
static inline int64_t kbc_matrix(struct kbc_tensor t, int dims, const int64_t *size, int64_t g) {
    int64_t of = 0, step = 1;
    for (int i = dims - 3; i >= 0; --i) {
        const int at = i - (dims - t.dims);
        if (at >= 0) of += (t.size[at] == 1 ? 0 : g % size[i]) * step, step *= t.size[at];
        g /= size[i];
    }
    return of;
}

/* Products added up in f32, in any order; each rank's part is stored in the type, and parts of ranks that
 * share a sum are added in it. */
static inline struct kbc_tensor kbc_matmul(struct kbc_definition *d, struct kbc_tensor a, struct kbc_tensor b,
                                           enum kbc_dtype dtype, int shared) {
    int64_t size[KBC_DIMS + 1] = {0};
    const int dims = kbc_product_shape(a, b, size);
    const int64_t m = size[dims - 2], k = a.size[a.dims - 1], n = size[dims - 1];
    const int64_t batch = kbc_elements(dims - 2, size);
    struct kbc_part part;
    struct kbc_tensor out = kbc_begin(d, dims, size, batch * m, (double)n * (0.1 * (double)k + 20), &part);
    const int64_t most_rows = kbc_min(m, part.high - part.low);
    struct kbc_blocks *const w = kbc_take(d, sizeof *w);
    double *sums[4];
    for (int i = 0; i < 4; ++i) sums[i] = kbc_take(d, (size_t)(most_rows * n) * sizeof **sums);
    double *const value = sums[0], *const most = sums[1], *const passed = sums[2], *const more = sums[3];
    double *const norm = kbc_take(d, (size_t)n * sizeof *norm);
    const struct kbc_format f = kbc_formats[KBC_f32], to = kbc_formats[dtype];
    const double parts = (double)d->run->options.ranks;
    double terms = (double)k;
    int whole = 1, off_left = 0, off_right = 0;
    for (int64_t i = 0; i < a.n; ++i) off_left |= a.x[i].b != 0;
    for (int64_t i = 0; i < b.n; ++i) off_right |= b.x[i].b != 0;
    /* Whole numbers make whole sums, which is asked where operands are exact. */
    for (int64_t i = 0; i < a.n && whole && !off_left; ++i) whole = rint(a.x[i].v) == a.x[i].v;
    for (int64_t i = 0; i < b.n && whole && !off_right; ++i) whole = rint(b.x[i].v) == b.x[i].v;
    /* Of the roundings that a sum passes, so many fall on one side. */
    if (kbc_coins) terms = fmin(terms, 3 * sqrt(terms));
    for (int64_t first = part.low, end; first < part.high; first = end) {
        /* Rows of one matrix. */
        const int64_t g = first / m, rows = kbc_min((g + 1) * m, part.high) - first;
        end = first + rows;
        const kbc_x *const left = a.x + kbc_matrix(a, dims, size, g) * m * k + first % m * k;
        const kbc_x *const right = b.x + kbc_matrix(b, dims, size, g) * k * n;
        kbc_dot(w, value, left, KBC_VALUES, right, KBC_VALUES, rows, n, k);
        if (kbc_coins) {
            /* The product of the norms is not less than the sum of the sizes. */
            for (int64_t j = 0; j < n; ++j) norm[j] = 0;
            for (int64_t p = 0; p < k; ++p) {
                for (int64_t j = 0; j < n; ++j) norm[j] += right[p * n + j].v * right[p * n + j].v;
            }
            for (int64_t j = 0; j < n; ++j) norm[j] = sqrt(norm[j]);
            for (int64_t i = 0; i < rows; ++i) {
                double of_row = 0;
                for (int64_t p = 0; p < k; ++p) of_row += left[i * k + p].v * left[i * k + p].v;
                for (int64_t j = 0; j < n; ++j) most[i * n + j] = sqrt(of_row) * norm[j];
            }
        } else {
            kbc_dot(w, most, left, KBC_MOST, right, KBC_MOST, rows, n, k);
        }
        if (off_right) kbc_dot(w, passed, left, KBC_SIZES, right, KBC_BOUNDS, rows, n, k);
        if (off_left) kbc_dot(w, more, left, KBC_BOUNDS, right, KBC_MOST, rows, n, k);
        for (int64_t i = 0; i < rows * n; ++i) {
            const double before = (off_right ? passed[i] : 0) + (off_left ? more[i] : 0);
            double bound = before + terms * f.unit / (1 - terms * f.unit) * most[i] + terms * f.least / 2;
            /* Whole numbers that are small enough are exact in any order. */
            if (before == 0 && whole && most[i] * f.unit <= 1) bound = 0;
            else if (most[i] >= f.limit) bound = INFINITY;
            kbc_x *const e = &out.x[first * n + i];
            if (dtype == KBC_f32) {
                *e = kbc_made(value[i], bound);
            } else if (shared) {
                bound += parts * to.unit / (1 - parts * to.unit) * (most[i] + bound) + parts * to.least / 2;
                *e = kbc_made(value[i], bound);
            } else {
                *e = kbc_rounded(value[i], bound, dtype, 0.5);
            }
        }
    }
    kbc_end(d, &part);
    return out;
}

/* Of integers, which wrap. */
static inline struct kbc_tensor kbc_matmul_of_integers(struct kbc_definition *d, struct kbc_tensor a, struct kbc_tensor b,
                                                       enum kbc_dtype dtype) {
    int64_t size[KBC_DIMS + 1] = {0};
    const int dims = kbc_product_shape(a, b, size);
    const int64_t m = size[dims - 2], k = a.size[a.dims - 1], n = size[dims - 1];
    struct kbc_part part;
    struct kbc_tensor out = kbc_begin(d, dims, size, kbc_elements(dims, size), 2 * (double)(k + 4), &part);
    for (int64_t i = part.low; i < part.high; ++i) {
        const int64_t g = i / (m * n), row = i / n % m, col = i % n;
        const kbc_x *const left = a.x + kbc_matrix(a, dims, size, g) * m * k;
        const kbc_x *const right = b.x + kbc_matrix(b, dims, size, g) * k * n;
        uint64_t w = 0;
        double bound = 0;
        for (int64_t p = 0; p < k; ++p) {
            const kbc_x x = left[row * k + p], y = right[p * n + col];
            w += (uint64_t)x.w * (uint64_t)y.w;
            if (x.b + y.b != 0) bound = INFINITY;
        }
        out.x[i] = kbc_wrapped((int64_t)w, bound, dtype);
    }
    kbc_end(d, &part);
    return out;
}

/* Each row times its matrix. */
static inline struct kbc_tensor kbc_grouped(struct kbc_definition *d, struct kbc_tensor x, struct kbc_tensor w, int64_t n,
                                            const int64_t *matrices, enum kbc_dtype dtype) {
    const int64_t rows = x.size[x.dims - 2], terms = x.size[x.dims - 1], cols = w.size[w.dims - 1];
    struct kbc_tensor out = kbc_tensor_of(d, 2, KBC_LIST(rows, cols));
    /* Runs of rows with the same matrix. */
    for (int64_t at = 0, end; at < n; at = end) {
        for (end = at + 1; end < n && matrices[end] == matrices[at];) ++end;
        struct kbc_tensor part = {.dims = 2, .size = {end - at, terms}, .n = (end - at) * terms, .x = x.x + at * terms};
        struct kbc_tensor one = {.dims = 2, .size = {terms, cols}, .n = terms * cols, .x = w.x + matrices[at] * terms * cols};
        const struct kbc_tensor y = kbc_matmul(d, part, one, dtype, 0);
        memcpy(out.x + at * cols, y.x, (size_t)y.n * sizeof *y.x);
    }
    return out;
}

/* --- the results, and the comparison --- */

static inline void kbc_evaluate(struct kbc_definition *d, struct kbc_tensor *out) {
    d->out = out;
    d->taken = 0;
    d->run->program->definition(d);
    /* The memory is used again: no rank may still read it. */
    if (d->taken) kbc_barrier(d->rank);
    for (int64_t i = 0; i < d->used; ++i) free(d->kept[i]);
    d->used = 0;
}

static inline int kbc_is_loose(const struct kbc_tensor *t) {
    double largest = 0, bound = 0;
    for (int64_t i = 0; i < t->n; ++i) {
        largest = kbc_greater(fabs(t->x[i].v), largest);
        bound = kbc_greater(t->x[i].b, bound);
    }
    return bound > 0x1p-10 * largest;
}

static inline double kbc_square(double v) { return isfinite(v) ? v * v : 0; }

/* Bounds that say next to nothing, replaced by what disturbed evaluations show (Monte Carlo arithmetic: Parker,
 * UCLA CSD-970002, 1997). A bound becomes 8 times the largest of the element's farthest and the root mean
 * squares of its row's and its tensor's. */
static inline void kbc_tighten(const struct kbc_tensor *t, const struct kbc_tensor *probe) {
    const int64_t row = t->dims ? t->size[t->dims - 1] : 1;
    double all = 0;
    for (int64_t i = 0; i < t->n; ++i) {
        all += kbc_square(probe[0].x[i].v - t->x[i].v) + kbc_square(probe[1].x[i].v - t->x[i].v);
    }
    all = sqrt(all / (2 * (double)t->n));
    for (int64_t first = 0; first < t->n; first += row) {
        double mean = 0;
        for (int64_t i = first; i < first + row; ++i) {
            mean += kbc_square(probe[0].x[i].v - t->x[i].v) + kbc_square(probe[1].x[i].v - t->x[i].v);
        }
        mean = fmax(sqrt(mean / (2 * (double)row)), all);
        for (int64_t i = first; i < first + row; ++i) {
            const double a = fabs(probe[0].x[i].v - t->x[i].v), b = fabs(probe[1].x[i].v - t->x[i].v);
            const double far = a != a || b != b ? INFINITY : fmax(a, b), found = 8 * fmax(far, mean);
            if (found < t->x[i].b) t->x[i].b = found;
        }
    }
}

/* The results of the definition, with bounds. */
static inline struct kbc_tensor *kbc_defined(const struct kbc_run *r, struct kbc_rank *rank) {
    const struct kbc_program *p = r->program;
    struct kbc_definition d = {.run = r, .rank = rank};
    struct kbc_tensor *const all = calloc(3 * (size_t)p->results + 1, sizeof *all);
    const int exact = r->sizes.modulus != 0;
    int loose = 0;
    if (!all) kbc_stop(rank);
    kbc_evaluate(&d, all);
    for (int i = 0; i < p->results && !exact; ++i) loose |= kbc_is_real(p->result[i].dtype) && kbc_is_loose(&all[i]);
    for (int seed = 1; seed <= 2 && loose; ++seed) {
        kbc_coins = 1;
        kbc_coin = kbc_mix64((uint64_t)seed);
        kbc_evaluate(&d, all + seed * p->results);
        kbc_coins = 0;
    }
    for (int i = 0; i < p->results && loose; ++i) {
        const struct kbc_tensor probe[2] = {all[p->results + i], all[2 * p->results + i]};
        if (kbc_is_real(p->result[i].dtype) && kbc_is_loose(&all[i])) kbc_tighten(&all[i], probe);
    }
    for (int i = p->results; i < 3 * p->results; ++i) free(all[i].x);
    free(d.kept);
    return all;
}

/* Compares the results of a call with those of the definition. */
static inline void kbc_compare_defined(const struct kbc_run *r, struct kbc_rank *rank, int64_t call,
                                       const struct kbc_held *held, int again) {
    static _Thread_local struct kbc_tensor *all;
    const struct kbc_program *p = r->program;
    struct kbc_control *const c = r->control;
    const int exact = r->sizes.modulus != 0;
    if (!again) {
        for (int i = 0; i < p->results && all; ++i) free(all[i].x);
        free(all);
        all = kbc_defined(r, rank);
    }
    for (int a = 0; a < p->arguments; ++a) {
        const struct kbc_held *h = &held[a];
        const int k = p->argument[a].index;
        if (!p->argument[a].result) continue;
        const size_t bytes = (size_t)kbc_bytes[h->type->dtype];
        const int real = kbc_is_real(h->type->dtype);
        int64_t at[KBC_DIMS];
        memcpy(at, h->low, sizeof at);
        for (int64_t i = 0; i < h->n; ++i) {
            const kbc_x e = all[k].x[kbc_linear(h->type->dims, r->sizes.result[k], at)];
            const unsigned char *const place = h->data + (size_t)i * bytes;
            const double got = kbc_decode(h->type->dtype, place), value = real ? e.v : (double)e.w;
            /* Bounds are widened: what a function may be off beyond what is known of it, and double here. */
            const double bound = exact ? 0 : 2 * e.b;
            int same = got == value || (real && got != got && value != value);
            if (!real && h->type->dtype == KBC_i64) same = memcmp(&e.w, place, sizeof e.w) == 0;
            const double part = same ? 0 : fabs(got - value) / bound;
            if (!same && isinf(bound)) ++c->unknown[rank->rank];
            else if (part > c->worst[rank->rank]) c->worst[rank->rank] = part;
            if (!same && !isinf(bound) && !(part <= 1) && c->wrong[rank->rank]++ == 0) {
                kbc_say("rank %lld, call %lld: element %lld of %s is %.9g, expected %.9g, bound %.3g",
                        (long long)rank->rank, (long long)call, (long long)i, h->type->name, got, value, bound);
            }
            kbc_next(h->type->dims, h->low, h->length, at);
        }
        c->compared[rank->rank] += h->n;
    }
}

#endif

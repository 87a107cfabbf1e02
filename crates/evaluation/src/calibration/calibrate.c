/* Times of the operations of emitted kernels on this computer. Written by kbc.
 *
 *   ./calibrate notify -n RANKS ..      round trips of a notify between two ranks
 *   ./calibrate all -n RANKS -c BYTES   what a rank does with BYTES bytes, on all ranks at once
 *   ./calibrate one -n RANKS -c BYTES   the same on one rank at a time
 *
 * Barriers part the phases of a call, so no phase waits for another rank. Every rank prints the mean
 * time of a call in each measured block, by phase. */
#include "kbc_halves.h"

#include "kbc_main.h"

enum { TILE = 4096, TRIPS = 32, ENTERED = 0, TOLD = 64, DATA = 128 };
enum { PUT, COMBINE, COPY, GET, ADD_F32, ADD_F16, ADD_BF16, ADD_I32, PHASES };

static const char *const phase_name[PHASES] = {"put", "combine", "copy", "get", "f32", "f16", "bf16", "i32"};
static int64_t repeat = 1;
static int alone;
static double phase_ns[PHASES][KBC_BLOCKS];

/* Adds runs of elements as an emitted kernel does: a tile's length at a time. */
#define ADD(type, dtype) \
    static void add_##dtype(void *to, const void *x, const void *y, int64_t bytes) { \
        const int64_t n = bytes / (int64_t)sizeof(type); \
        for (int64_t i = 0; i < n; i += TILE) { \
            const int64_t m = kbc_min(TILE, n - i); \
            kbc_add_##dtype((type *)to + i, (const type *)x + i, (const type *)y + i, m); \
        } \
    }
ADD(float, f32)
ADD(uint16_t, f16)
ADD(uint16_t, bf16)
ADD(int32_t, i32)

/* No rank goes on before all have arrived. */
static void meet(struct kbc_rank *me, int64_t times) {
    for (int64_t peer = 0; peer < me->nranks; ++peer) {
        if (peer != me->rank) kbc_notify(me, peer, ENTERED, memory_order_release);
    }
    KBC_WAIT(me, ENTERED, times * (me->nranks - 1), memory_order_acquire, "entered", 0, "the barrier between phases");
}

static void *memory(struct kbc_rank *me, int64_t bytes) {
    float *const out = kbc_get_memory(me, bytes + 64);
    for (int64_t i = 0; i < bytes / 4; ++i) out[i] = 1;
    return out;
}

static void print_phases(const struct kbc_rank *me) {
    char text[3072];
    int n = snprintf(text, sizeof text, "{\"rank\":%lld", (long long)me->rank);
    for (int p = 0; p < PHASES; ++p) {
        n += snprintf(text + n, sizeof text - (size_t)n, ",\"%s\":[", phase_name[p]);
        for (int b = 0; b < KBC_BLOCKS; ++b) {
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%.9g", b ? "," : "", phase_ns[p][b] / (double)repeat);
        }
        n += snprintf(text + n, sizeof text - (size_t)n, "]");
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "}\n");
    if (write(1, text, (size_t)n) < 0) kbc_say("standard output takes nothing");
}

/* One call. With `alone`, the rank in the third column works and the others wait. */
static void exchange(struct kbc_rank *me, int64_t count, int64_t call, void *const *tensors) {
    static unsigned char *x, *out;
    const int64_t bytes = kbc_max(count / 4 * 4, 4), pitch = (bytes + 63) / 64 * 64;
    const int64_t slot = DATA, own = DATA + pitch, peer = (me->rank + 1) % me->nranks;
    const int64_t block = call < 2 ? -1 : (call - 2) / repeat;
    double start;
    (void)tensors;
    if (!x) {
        x = memory(me, bytes);
        out = memory(me, bytes);
    }
#define PHASE(name, worker, text) \
    start = kbc_now(); \
    if (!alone || me->rank == (worker)) { \
        text \
        if (block >= 0 && block < KBC_BLOCKS) phase_ns[name][block] += 1e9 * (kbc_now() - start); \
    }
#define TILES(text) \
    for (int64_t i = 0; i < bytes; i += 4 * TILE) { \
        const int64_t m = kbc_min(4 * TILE, bytes - i); \
        text \
    }
    meet(me, 3 * call + 1);
    PHASE(PUT, 0, TILES(kbc_put(me, peer, slot, i, x + i, m, 1);))
    meet(me, 3 * call + 2);
    PHASE(COMBINE, 1, add_f32(out, x, me->window + slot, bytes);)
    PHASE(COPY, 1, TILES(kbc_copy(me->window + own + i, x + i, m, 1);))
    meet(me, 3 * call + 3);
    PHASE(GET, 0, TILES(kbc_get(me, out + i, peer, own, i, m, 1);))
    PHASE(ADD_F32, 0, add_f32(out, x, me->window + slot, bytes);)
    PHASE(ADD_F16, 0, add_f16(out, x, me->window + slot, bytes);)
    PHASE(ADD_BF16, 0, add_bf16(out, x, me->window + slot, bytes);)
    PHASE(ADD_I32, 0, add_i32(out, x, me->window + slot, bytes);)
    if (call - 2 == KBC_BLOCKS * repeat - 1) print_phases(me);
}

/* A call is a number of round trips between ranks 0 and 1. */
static void trips(struct kbc_rank *me, int64_t count, int64_t call, void *const *tensors) {
    (void)count;
    (void)tensors;
    if (me->rank > 1) return;
    for (int64_t i = 0; i < TRIPS; ++i) {
        if (me->rank == 0) kbc_notify(me, 1, TOLD, memory_order_release);
        KBC_WAIT(me, TOLD, call * TRIPS + i + 1, memory_order_acquire, "told", 0, "a round trip");
        if (me->rank == 1) kbc_notify(me, 0, TOLD, memory_order_release);
    }
}

static void sizes(int64_t nranks, int64_t count, struct kbc_sizes *out) {
    out->window = DATA + 2 * ((count + 63) / 64 * 64 + 64);
    out->calls = 2000000000 / (3 * nranks + TRIPS);
}

static double expected(const struct kbc_run *run, int result, const int64_t *at) {
    (void)run;
    (void)result;
    (void)at;
    return 0;
}

int main(int argc, char **argv) {
    static int64_t ranks[KBC_MAX_RANKS - 1];
    for (int i = 0; i < KBC_MAX_RANKS - 1; ++i) ranks[i] = i + 2;
    struct kbc_program p = {
        .name = "calibrate",
        .file = "calibrate",
        .parameter = "bytes",
        .largest = INT64_C(1) << 40,
        .claimed = KBC_MAX_RANKS - 1,
        .ranks = ranks,
        .bus = KBC_NO_BUS,
        .sizes = sizes,
        .expected = expected,
        .compare = kbc_compare,
    };
    kbc_current = &p;
    const char *const what = argc > 1 ? argv[1] : "";
    alone = strcmp(what, "one") == 0;
    p.kernel = strcmp(what, "notify") == 0 ? trips : alone || strcmp(what, "all") == 0 ? exchange : 0;
    if (!p.kernel) return kbc_usage("the first argument is notify, all or one");
    for (int i = 2; i + 1 < argc; ++i) {
        if (strcmp(argv[i], "--repeat") == 0 && (!kbc_number(argv[i + 1], &repeat) || repeat < 1)) repeat = 1;
    }
    argv[1] = argv[0];
    return kbc_main(&p, argc - 1, argv + 1);
}

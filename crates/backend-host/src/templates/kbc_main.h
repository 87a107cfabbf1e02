/* The program around an emitted kernel: makes calls, compares, and measures. Written by kbc; the same
 * for all programs. */
#ifndef KBC_MAIN_H
#define KBC_MAIN_H

#include "kbc_data.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

static const struct kbc_program *kbc_current;
static double kbc_limit = 30;
static int kbc_quiet; /* another rank prints the messages that all have */

static void kbc_say(const char *format, ...) {
    char text[1024];
    va_list list;
    int n = snprintf(text, sizeof text, "%s: ", kbc_current->name);
    va_start(list, format);
    n += vsnprintf(text + n, sizeof text - (size_t)n - 1, format, list);
    va_end(list);
    if (n > (int)sizeof text - 2) n = (int)sizeof text - 2;
    text[n] = '\n';
    if (write(2, text, (size_t)n + 1) < 0) return;
}

static double kbc_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void kbc_sleep(int64_t ns) {
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    nanosleep(&t, 0);
}

static void kbc_run_rank(struct kbc_run r, int64_t rank);
static void kbc_watch_input(const struct kbc_options *o);
static int kbc_report(const struct kbc_run *r);
static int kbc_prepare(const struct kbc_program *p, int64_t started, int argc, char **argv, struct kbc_run *r);
static void kbc_free_sizes(struct kbc_run *r);
static int kbc_usage(const char *format, ...);

/* How ranks start, wait and end: kbc_stop, kbc_wait_long, kbc_barrier, kbc_join, kbc_main. */
#ifdef KBC_MPI
#include "kbc_mpi_ranks.h"
#else
#include "kbc_ranks.h"
#endif

/* --- a rank --- */

static void *kbc_get_memory(struct kbc_rank *k, int64_t bytes) {
    void *out = 0;
    if (posix_memalign(&out, KBC_LINE, (size_t)kbc_max(bytes, KBC_LINE)) == 0) return out;
    kbc_say("rank %lld has no memory for %lld bytes", (long long)k->rank, (long long)bytes);
    kbc_stop(k);
    return 0;
}

static void kbc_call(struct kbc_rank *k, const struct kbc_run *r, int64_t call, void *const *tensors) {
    r->program->kernel(k, r->options.count, call, tensors);
    kbc_finish(k);
}

/* The most bytes of results that a rank keeps until they are compared. */
#ifndef KBC_KEPT
#define KBC_KEPT ((int64_t)1 << 30)
#endif

/* How many calls are made before their results are compared. Programs that compute make all, if there is
 * memory for their results: the evaluation of what is expected takes long, and orders the ranks. */
static int64_t kbc_calls_at_once(const struct kbc_run *r, const struct kbc_held *held) {
    int64_t bytes = 1;
    if (!r->program->definition) return 1;
    for (int a = 0; a < r->program->arguments; ++a) {
        if (r->program->argument[a].result) bytes += held[a].n * kbc_bytes[held[a].type->dtype];
    }
    return kbc_max(1, kbc_min(r->options.calls, KBC_KEPT / bytes));
}

static void kbc_set_call(struct kbc_run *r, int64_t call) {
    r->call = (uint64_t)call;
    r->launch = (uint32_t)(call + r->options.seed);
}

/* The checked calls, one after another and with nothing between the ranks but the schedule. */
static void kbc_checked_calls(struct kbc_run *r, struct kbc_rank *k, struct kbc_held *held, void *const *tensors) {
    const struct kbc_program *p = r->program;
    const int64_t at_once = kbc_calls_at_once(r, held);
    const size_t arguments = (size_t)p->arguments + 1;
    struct kbc_held *const kept = calloc((size_t)at_once * arguments, sizeof *kept);
    if (!kept) kbc_stop(k);
    for (int64_t i = 0; i < at_once * p->arguments; ++i) {
        const int64_t a = i % p->arguments;
        struct kbc_held *const h = &kept[i / p->arguments * (int64_t)arguments + a];
        *h = held[a];
        if (p->argument[a].result && at_once > 1) h->data = kbc_get_memory(k, h->n * kbc_bytes[h->type->dtype]);
    }
    for (int64_t first = 0; first < r->options.calls; first += at_once) {
        const int64_t end = kbc_min(first + at_once, r->options.calls);
        for (int64_t call = first; call < end; ++call) {
            kbc_set_call(r, call);
            kbc_fill_inputs(r, k->rank, held);
            if (r->options.delays) kbc_sleep(kbc_mix((uint32_t)call, (uint32_t)k->rank, (uint32_t)r->options.seed) % 200000);
            kbc_call(k, r, call, tensors);
            const struct kbc_held *const own = kept + (size_t)(call - first) * arguments;
            for (int a = 0; a < p->arguments && at_once > 1; ++a) {
                if (p->argument[a].result) kbc_copy(own[a].data, held[a].data, own[a].n, (size_t)kbc_bytes[own[a].type->dtype]);
            }
        }
        for (int64_t call = first; call < end; ++call) {
            kbc_set_call(r, call);
            p->compare(r, k, call, kept + (size_t)(call - first) * arguments, 0);
        }
    }
    for (int64_t i = 0; i < at_once * p->arguments && at_once > 1; ++i) {
        const int64_t a = i % p->arguments;
        if (p->argument[a].result) free(kept[i / p->arguments * (int64_t)arguments + a].data);
    }
    free(kept);
}

/* What a rank does: the checked calls, and then the measured ones. */
static void kbc_run_rank(struct kbc_run r, int64_t rank) {
    const struct kbc_program *p = r.program;
    struct kbc_rank k = kbc_join(&r, rank);
    struct kbc_held *held = calloc((size_t)p->arguments + 1, sizeof *held);
    void **tensors = calloc((size_t)p->arguments + 1, sizeof *tensors);
    int64_t call = r.options.calls;
    if (!held || !tensors) kbc_stop(&k);
    k.tiles = kbc_get_memory(&k, p->tiles);
    /* Conversions work on whole tiles, also where nothing was loaded. */
    memset(k.tiles, 0, (size_t)p->tiles);
    for (int a = 0; a < p->arguments; ++a) {
        const struct kbc_argument *g = &p->argument[a];
        struct kbc_held *h = &held[a];
        h->type = g->result ? &p->result[g->index] : &p->input[g->index];
        kbc_box(&r, h->type, g->result ? r.sizes.result[g->index] : r.sizes.input[g->index], rank, h->low, h->length);
        h->n = kbc_elements(h->type->dims, h->length);
        h->data = g->reached ? k.window + r.inputs[a] : kbc_get_memory(&k, h->n * kbc_bytes[h->type->dtype]);
        tensors[a] = h->data;
    }
    if (call > 0) {
        kbc_checked_calls(&r, &k, held, tensors);
    } else {
        kbc_set_call(&r, 0);
        kbc_fill_inputs(&r, rank, held);
    }
    if (r.options.repeat != 0) {
        kbc_barrier(&k);
        if (rank == 0) {
            /* About 20 ms a block, unless the number of calls is given. */
            const double start = kbc_now();
            kbc_call(&k, &r, call, tensors);
            const double one = kbc_now() - start;
            const int64_t room = (r.sizes.calls - call - 1) / KBC_BLOCKS;
            const int64_t fitting = (int64_t)kbc_max(1, kbc_min(10000, (int64_t)(0.02 / (one > 1e-9 ? one : 1e-9))));
            r.control->repeat = kbc_min(r.options.repeat > 0 ? r.options.repeat : fitting, room);
        } else {
            kbc_call(&k, &r, call, tensors);
        }
        ++call;
        for (int b = 0; b < KBC_BLOCKS; ++b) {
            kbc_barrier(&k);
            const int64_t repeat = r.control->repeat;
            const double start = kbc_now();
            for (int64_t i = 0; i < repeat; ++i) kbc_call(&k, &r, call++, tensors);
            r.control->seconds[b][rank] = (kbc_now() - start) / (double)kbc_max(repeat, 1);
        }
        /* The inputs are those of the last checked call. */
        p->compare(&r, &k, call - 1, held, r.options.calls > 0);
    }
    for (int a = 0; a < p->arguments; ++a) {
        if (!p->argument[a].reached) free(held[a].data);
    }
    free(k.tiles);
    free(held);
    free(tensors);
}

/* --- the program --- */

/* Ends this process when the standard input does. The ranks end with it. */
static void *kbc_input_ends(void *unused) {
    char text[256];
    (void)unused;
    for (;;) {
        const ssize_t n = read(0, text, sizeof text);
        if (n == 0 || (n < 0 && errno != EINTR)) break;
    }
    _exit(1);
}

/* Called when the ranks have been started: a process with several threads must not be forked. */
static void kbc_watch_input(const struct kbc_options *o) {
    pthread_t thread;
    if (o->until_eof && pthread_create(&thread, 0, kbc_input_ends, 0) != 0) {
        kbc_say("--until-eof: a thread did not start");
        _exit(1);
    }
}

static int kbc_by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the ranks found. Without a measurement, `time` is negative; without a size, `bytes` is. */
struct kbc_outcome {
    int64_t compared, wrong, unknown, bytes;
    double worst; /* largest error as a part of its bound */
    double block[KBC_BLOCKS], least, time, most; /* seconds of a call: as measured, and in order */
    double factor, algbw, busbw;                 /* busbw / algbw; 10^9 bytes a second */
};

static struct kbc_outcome kbc_outcome_of(const struct kbc_run *r) {
    const struct kbc_program *p = r->program;
    const struct kbc_options *o = &r->options;
    const double share = (double)(o->ranks - 1) / (double)o->ranks;
    struct kbc_outcome out = {0, 0, 0, -1, 0, {0}, -1, -1, -1, 0, 0, 0};
    double block[KBC_BLOCKS];
    for (int64_t i = 0; i < o->ranks; ++i) {
        out.compared += r->control->compared[i];
        out.wrong += r->control->wrong[i];
        out.unknown += r->control->unknown[i];
        out.worst = fmax(out.worst, r->control->worst[i]);
    }
    if (p->bus != KBC_NO_BUS) {
        out.bytes = kbc_elements(p->input[0].dims, r->sizes.input[0]) * kbc_bytes[p->input[0].dtype];
        if (p->bus == KBC_SHARE_OF_PART) out.bytes /= o->ranks;
        out.factor = p->bus == KBC_TWICE ? 2 * share : p->bus == KBC_ONE ? 1 : share;
    }
    if (o->repeat == 0) return out;
    /* A call takes as long as the slowest rank. */
    for (int b = 0; b < KBC_BLOCKS; ++b) {
        for (int64_t i = 0; i < o->ranks; ++i) out.block[b] = fmax(out.block[b], r->control->seconds[b][i]);
    }
    memcpy(block, out.block, sizeof block);
    qsort(block, KBC_BLOCKS, sizeof *block, kbc_by_value);
    out.least = block[0];
    out.time = block[KBC_BLOCKS / 2];
    out.most = block[KBC_BLOCKS - 1];
    if (out.bytes >= 0 && out.time > 0) {
        out.algbw = 1e-9 * (double)out.bytes / out.time;
        out.busbw = out.factor * out.algbw;
    }
    return out;
}

static void kbc_print_text(const struct kbc_run *r, const struct kbc_outcome *found) {
    const struct kbc_program *p = r->program;
    const struct kbc_options *o = &r->options;
    printf("%s: %lld ranks", p->name, (long long)o->ranks);
    if (p->parameter) printf(", %s = %lld", p->parameter, (long long)o->count);
    const int exact = r->sizes.modulus != 0;
    printf("\n  %lld calls in a row%s, %lld elements compared %s: ", (long long)o->calls,
           o->repeat != 0 ? " and the last measured one" : "", (long long)found->compared,
           exact ? "bit for bit" : "within the bounds of their errors");
    if (found->wrong != 0) printf("%lld differ\n", (long long)found->wrong);
    else if (exact) printf("all are equal\n");
    else printf("all are right, at most %.2g of the bound\n", found->worst);
    if (r->data) printf("  inputs of files are those of %s\n", p->stored);
    if (found->unknown != 0) printf("  %lld elements have no known bound\n", (long long)found->unknown);
    if (o->repeat == 0) return;
    printf("  time %.3f us (median of %d blocks of %lld calls; %.3f to %.3f)", 1e6 * found->time, KBC_BLOCKS,
           (long long)r->control->repeat, 1e6 * found->least, 1e6 * found->most);
    if (found->bytes >= 0 && found->time > 0) {
        printf(", algbw %.3f GB/s, busbw %.3f GB/s", found->algbw, found->busbw);
    }
    printf("\n");
}

/* A number of JSON, or null. */
static void kbc_print_number(const char *name, int known, double value) {
    if (known) printf(",\"%s\":%.9g", name, value);
    else printf(",\"%s\":null", name);
}

/* One object on one line. Names are identifiers of C, and need no escapes. */
static void kbc_print_json(const struct kbc_run *r, const struct kbc_outcome *found) {
    const struct kbc_program *p = r->program;
    const struct kbc_options *o = &r->options;
    const int measured = o->repeat != 0, sized = found->bytes >= 0, both = measured && sized && found->time > 0;
    printf("{\"schema\":1,\"program\":\"%s\",\"transport\":\"%s\",\"ranks\":%lld", p->name, KBC_TRANSPORT,
           (long long)o->ranks);
    if (p->parameter) printf(",\"parameter\":\"%s\",\"count\":%lld", p->parameter, (long long)o->count);
    else printf(",\"parameter\":null,\"count\":null");
    printf(",\"calls\":%lld,\"compared\":%lld,\"wrong\":%lld", (long long)o->calls, (long long)found->compared,
           (long long)found->wrong);
    printf(",\"exact\":%s,\"unbounded\":%lld", r->sizes.modulus ? "true" : "false", (long long)found->unknown);
    kbc_print_number("max_err", isfinite(found->worst), found->worst);
    printf(",\"repeat\":%lld,\"blocks_ns\":[", measured ? (long long)r->control->repeat : 0);
    for (int b = 0; measured && b < KBC_BLOCKS; ++b) printf("%s%.9g", b ? "," : "", 1e9 * found->block[b]);
    printf("]");
    kbc_print_number("time_ns", measured, 1e9 * found->time);
    kbc_print_number("min_ns", measured, 1e9 * found->least);
    kbc_print_number("max_ns", measured, 1e9 * found->most);
    if (sized) printf(",\"bytes\":%lld", (long long)found->bytes);
    else printf(",\"bytes\":null");
    kbc_print_number("bus_factor", sized, found->factor);
    kbc_print_number("algbw", both, found->algbw);
    kbc_print_number("busbw", both, found->busbw);
    printf("}\n");
}

/* Prints what the ranks found; returns the exit code. */
static int kbc_report(const struct kbc_run *r) {
    const struct kbc_outcome found = kbc_outcome_of(r);
    if (kbc_quiet) return found.wrong == 0 ? 0 : 1;
    if (r->options.json) kbc_print_json(r, &found);
    else kbc_print_text(r, &found);
    return found.wrong == 0 ? 0 : 1;
}

static int kbc_usage(const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!kbc_quiet) kbc_say("%s", text);
    return 2;
}

/* Reads a whole number of at least 0; returns whether the text is one. */
static int kbc_number(const char *text, int64_t *out) {
    char *end;
    if (!text || *text < '0' || *text > '9') return 0;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && *end == 0;
}

static void kbc_help(const struct kbc_program *p) {
    if (kbc_quiet) return;
    printf("%s: a program that kbc proved, between processes\n\n", p->name);
    printf("  -n RANKS         number of ranks (mpirun has it for a build with MPI):");
    for (int i = 0; i < p->claimed; ++i) printf(" %lld", (long long)p->ranks[i]);
    printf("\n");
    if (p->parameter) {
        printf("  -c COUNT         value of %s, 0 to %lld (default: %lld)\n", p->parameter, (long long)p->largest,
               (long long)p->standard);
    }
    printf("  --calls CALLS    checked calls in a row (default: %d)\n", p->definition ? 3 : 10);
    printf("  --repeat CALLS   calls in each of %d measured blocks; 0: measure nothing\n", KBC_BLOCKS);
    printf("  --limit SECONDS  longest that a wait may take (default: 30)\n");
    printf("  --seed SEED      other inputs\n");
    printf("  --delays         random delays between calls\n");
    if (p->stored) {
        printf("  --data FILE      the inputs of files (default: %s beside this program)\n", p->stored);
        printf("  --generated      make these inputs, too\n");
    }
#ifndef KBC_MPI
    printf("  --bind           keep every rank on one processor (Linux)\n");
#endif
    printf("  --json           print one JSON object in place of text\n");
    printf("  --until-eof      end when the standard input ends\n");
}

/* Reads the arguments; returns 0, or an exit code plus 1. */
static int kbc_arguments(const struct kbc_program *p, int64_t started, int argc, char **argv, struct kbc_options *o) {
    const int64_t ranks = started ? started : p->claimed == 1 ? p->ranks[0] : 0;
    *o = (struct kbc_options){ranks, p->standard, p->definition ? 3 : 10, -1, 0, 0, 0, 0, 0, 30, 0, 0};
    for (int i = 1; i < argc; ++i) {
        const char *a = argv[i];
        int64_t seconds = 0, *to = 0;
        if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
            kbc_help(p);
            return 1;
        }
        int *flag = 0;
        if (strcmp(a, "--delays") == 0) flag = &o->delays;
        if (strcmp(a, "--json") == 0) flag = &o->json;
        if (strcmp(a, "--until-eof") == 0) flag = &o->until_eof;
        if (strcmp(a, "--generated") == 0 && p->stored) flag = &o->generated;
#ifndef KBC_MPI
        if (strcmp(a, "--bind") == 0) flag = &o->bind;
#endif
        if (flag) {
            *flag = 1;
            continue;
        }
        if (strcmp(a, "--data") == 0 && p->stored) {
            if (++i == argc) return 1 + kbc_usage("--data needs a file");
            o->data = argv[i];
            continue;
        }
        if (strcmp(a, "-n") == 0) to = &o->ranks;
        if (strcmp(a, "-c") == 0) to = &o->count;
        if (strcmp(a, "--calls") == 0) to = &o->calls;
        if (strcmp(a, "--repeat") == 0) to = &o->repeat;
        if (strcmp(a, "--seed") == 0) to = &o->seed;
        if (strcmp(a, "--limit") == 0) to = &seconds;
        if (!to) return 1 + kbc_usage("unknown argument %s (see --help)", a);
        if (!kbc_number(i + 1 < argc ? argv[i + 1] : 0, to)) return 1 + kbc_usage("%s needs a whole number", a);
        if (to == &o->count && !p->parameter) return 1 + kbc_usage("-c: all sizes of this program are fixed");
        if (to == &seconds) o->limit = (double)seconds;
        ++i;
    }
    if (o->ranks == 0) return 1 + kbc_usage("-n RANKS is missing (see --help)");
    if (started && o->ranks != started) {
        return 1 + kbc_usage("-n asks for %lld ranks, and %lld were started", (long long)o->ranks, (long long)started);
    }
    int known = 0;
    for (int i = 0; i < p->claimed; ++i) known |= p->ranks[i] == o->ranks;
    if (!known) {
        char list[256] = "";
        for (int i = 0, n = 0; i < p->claimed && n < 200; ++i) {
            n += snprintf(list + n, sizeof list - (size_t)n, "%s%lld", i ? ", " : "", (long long)p->ranks[i]);
        }
        return 1 + kbc_usage("the schedule was proven for %s ranks and not for %lld%s%s%s", list, (long long)o->ranks,
                             p->one_because ? " (" : "", p->one_because ? p->one_because : "", p->one_because ? ")" : "");
    }
    if (o->count > p->largest) {
        return 1 + kbc_usage("the largest value of %s is %lld, and -c asks for %lld", p->parameter, (long long)p->largest,
                             (long long)o->count);
    }
    return 0;
}

/* Reads the inputs of files; returns 0, or an exit code plus 1. Without a path, the file is where the program
 * is. */
static int kbc_read_data(struct kbc_run *r, const char *self) {
    const struct kbc_program *p = r->program;
    if (!p->stored || r->options.generated) return 0;
    char path[4096];
    const char *const slash = strrchr(self, '/');
    const int folder = slash ? (int)(slash - self) + 1 : 0;
    if (r->options.data) snprintf(path, sizeof path, "%s", r->options.data);
    else snprintf(path, sizeof path, "%.*s%s", folder, self, p->stored);
    for (int k = 0; k < p->inputs; ++k) {
        const int64_t needed = kbc_elements(p->input[k].dims, r->sizes.input[k]);
        if (p->input[k].given == KBC_STORED && p->input[k].stored != needed) {
            return 1 + kbc_usage("%s has %lld elements in the file, and has to have %lld at this size: add --generated",
                                 p->input[k].name, (long long)p->input[k].stored, (long long)needed);
        }
    }
    FILE *const file = fopen(path, "rb");
    if (!file) return 1 + kbc_usage("the inputs cannot be read: %s: %s (see --data)", path, strerror(errno));
    r->data = malloc((size_t)p->stored_bytes + 1);
    if (!r->data) return 1 + kbc_usage("there is no memory for the inputs");
    const size_t read = fread(r->data, 1, (size_t)p->stored_bytes + 1, file);
    fclose(file);
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < read; ++i) hash = (hash ^ r->data[i]) * 0x100000001b3u;
    if (read != (size_t)p->stored_bytes || hash != p->stored_hash) {
        return 1 + kbc_usage("%s does not hold the inputs of this program", path);
    }
    return 0;
}

/* Makes the integers of inputs smaller at a count above that at which they are known to stay exact; returns 0,
 * or an exit code plus 1. */
static int kbc_shrink(struct kbc_run *r) {
    const struct kbc_program *p = r->program;
    const struct kbc_sizes *s = &r->sizes;
    if (!s->modulus || s->growth == 0 || r->options.count <= s->exact_to) return 0;
    const double share = pow((double)kbc_max(s->exact_to, 1) / (double)r->options.count, (double)s->growth);
    r->smaller = calloc((size_t)p->inputs + 1, sizeof *r->smaller);
    if (!r->smaller) return 1 + kbc_usage("there is no memory");
    for (int k = 0; k < p->inputs; ++k) {
        const uint32_t below = s->modulus[k];
        r->smaller[k] = below > 1 ? 1 + (uint32_t)((double)(below - 1) * share) : below;
        if (below > 1 && r->smaller[k] < 2) {
            return 1 + kbc_usage("with %s = %lld no integers stay exact, so nothing can be compared: take a smaller -c",
                                 p->parameter, (long long)r->options.count);
        }
    }
    r->sizes.modulus = r->smaller;
    return 0;
}

/* Gives the inputs that peers read their places behind the rest of the window; returns the bytes of a window.
 * A place has room for the input of every rank, and is the same in every window. */
static int64_t kbc_place_inputs(struct kbc_run *r) {
    const struct kbc_program *p = r->program;
    int64_t at = (r->sizes.window + 4095) / 4096 * 4096;
    for (int a = 0; a < p->arguments; ++a) {
        const struct kbc_argument *g = &p->argument[a];
        int64_t most = 0;
        if (!g->reached) continue;
        for (int64_t rank = 0; rank < r->options.ranks; ++rank) {
            int64_t low[KBC_DIMS], length[KBC_DIMS];
            kbc_box(r, &p->input[g->index], r->sizes.input[g->index], rank, low, length);
            most = kbc_max(most, kbc_elements(p->input[g->index].dims, length));
        }
        r->inputs[a] = at;
        at += (most * kbc_bytes[p->input[g->index].dtype] + 4095) / 4096 * 4096;
    }
    return at;
}

/* Reads the arguments and computes the sizes; returns 0, or an exit code plus 1. `started` is the number
 * of ranks, if they have been started already. */
static int kbc_prepare(const struct kbc_program *p, int64_t started, int argc, char **argv, struct kbc_run *r) {
    memset(r, 0, sizeof *r);
    kbc_current = r->program = p;
    const int bad = kbc_arguments(p, started, argc, argv, &r->options);
    if (bad) return bad;
    kbc_limit = r->options.limit;
    r->sizes.input = calloc((size_t)p->inputs + 1, sizeof *r->sizes.input);
    r->sizes.result = calloc((size_t)p->results + 1, sizeof *r->sizes.result);
    r->sizes.rows = calloc((size_t)p->inputs + 1, sizeof *r->sizes.rows);
    if (!r->sizes.input || !r->sizes.result || !r->sizes.rows) return 1 + kbc_usage("there is no memory");
    p->sizes(r->options.ranks, r->options.count, &r->sizes);
    const int64_t measured = r->options.repeat > 0 ? KBC_BLOCKS * r->options.repeat : 0;
    if (r->options.calls + 1 + measured > r->sizes.calls) {
        return 1 + kbc_usage("a window serves %lld calls before a counter leaves its 32 bits", (long long)r->sizes.calls);
    }
    const int inexact = kbc_shrink(r);
    if (inexact) return inexact;
    r->inputs = calloc((size_t)p->arguments + 1, sizeof *r->inputs);
    if (!r->inputs) return 1 + kbc_usage("there is no memory");
    r->pitch = (size_t)kbc_place_inputs(r);
    return kbc_read_data(r, argc > 0 ? argv[0] : "");
}

static void kbc_free_sizes(struct kbc_run *r) {
    free(r->sizes.input);
    free(r->sizes.result);
    free(r->sizes.rows);
    free(r->data);
    free(r->inputs);
    free(r->smaller);
}

#endif

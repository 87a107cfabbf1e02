/* The program around an emitted kernel: starts the ranks, makes calls, and measures. Written by kbc;
 * the same for all programs. With KBC_THREADS the ranks are threads of one process, for
 * ThreadSanitizer. */
#ifndef KBC_MAIN_H
#define KBC_MAIN_H

#include "kbc_data.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct kbc_program *kbc_current;
static double kbc_limit = 30;
#ifndef KBC_THREADS
static pid_t kbc_launcher;
#endif

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

/* Ends this rank with an error, which the others notice. */
static void kbc_stop(struct kbc_rank *k) {
    uint32_t nobody = 0;
    atomic_compare_exchange_strong(&k->control->failed, &nobody, (uint32_t)k->rank + 1);
    _exit(1);
}

void kbc_wait_long(struct kbc_rank *k, _Atomic uint32_t *counter, int64_t value, int acquire, const char *what,
                   int64_t index, const char *from) {
    const double end = kbc_now() + kbc_limit;
    for (int64_t round = 0;; ++round) {
        const uint32_t seen = acquire ? atomic_load_explicit(counter, memory_order_acquire)
                                      : atomic_load_explicit(counter, memory_order_relaxed);
        if ((int64_t)seen >= value) return;
        const uint32_t failed = atomic_load_explicit(&k->control->failed, memory_order_relaxed);
        if (failed != 0) {
            const uint32_t by = atomic_load_explicit(&k->control->signal, memory_order_relaxed);
            char why[64] = "ended with an error";
            if (by != 0) snprintf(why, sizeof why, "was killed by signal %u", by);
            kbc_say("rank %lld stops, because rank %u %s; it waited in %s", (long long)k->rank, failed - 1, why, from);
            kbc_stop(k);
        }
#ifndef KBC_THREADS
        if (getppid() != kbc_launcher) {
            kbc_say("rank %lld stops, because the process that started it has ended", (long long)k->rank);
            kbc_stop(k);
        }
#endif
        if (kbc_now() > end) {
            kbc_say("rank %lld waited longer than %g s: counter %s[%lld] is %u and has to be at least %lld, in %s",
                    (long long)k->rank, kbc_limit, what, (long long)index, seen, (long long)value, from);
            kbc_stop(k);
        }
        if (round < 50) sched_yield();
        else kbc_sleep(round < 1000 ? 20000 : 1000000);
    }
}

/* Lets no rank continue before all have arrived for the `round`th time. */
static void kbc_barrier(struct kbc_rank *k, int64_t *round) {
    ++*round;
    atomic_fetch_add_explicit(&k->control->arrived, 1, memory_order_acq_rel);
    kbc_wait_long(k, &k->control->arrived, *round * k->nranks, 1, "arrived", 0, "the barrier between measurements");
}

/* --- a rank --- */

static void *kbc_get_memory(struct kbc_rank *k, int64_t bytes) {
    void *out = 0;
    if (posix_memalign(&out, KBC_LINE, (size_t)kbc_max(bytes, KBC_LINE)) == 0) return out;
    kbc_say("rank %lld has no memory for %lld bytes", (long long)k->rank, (long long)bytes);
    kbc_stop(k);
    return 0;
}

/* What a rank does: the checked calls, one after another and with nothing between the ranks but the
 * schedule, and then the measured ones. */
static void kbc_run_rank(struct kbc_run r, int64_t rank) {
    const struct kbc_program *p = r.program;
    struct kbc_rank k = {rank, r.options.ranks, r.windows, r.pitch, 0, r.control};
    struct kbc_held *held = calloc((size_t)p->arguments + 1, sizeof *held);
    void **tensors = calloc((size_t)p->arguments + 1, sizeof *tensors);
    int64_t round = 0, call = 0;
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
        tensors[a] = h->data = kbc_get_memory(&k, h->n * kbc_bytes[h->type->dtype]);
    }
    for (; call < r.options.calls; ++call) {
        r.launch = (uint32_t)(call + r.options.seed);
        kbc_fill_inputs(&r, rank, held);
        if (r.options.delays) kbc_sleep(kbc_mix((uint32_t)call, (uint32_t)rank, (uint32_t)r.options.seed) % 200000);
        p->kernel(&k, r.options.count, call, tensors);
        kbc_compare(&r, rank, call, held);
    }
    if (r.options.repeat != 0) {
        kbc_barrier(&k, &round);
        if (rank == 0) {
            /* About 20 ms a block, unless the number of calls is given. */
            const double start = kbc_now();
            p->kernel(&k, r.options.count, call, tensors);
            const double one = kbc_now() - start;
            const int64_t room = (r.sizes.calls - call - 1) / KBC_BLOCKS;
            const int64_t fitting = (int64_t)kbc_max(1, kbc_min(10000, (int64_t)(0.02 / (one > 1e-9 ? one : 1e-9))));
            r.control->repeat = kbc_min(r.options.repeat > 0 ? r.options.repeat : fitting, room);
        } else {
            p->kernel(&k, r.options.count, call, tensors);
        }
        ++call;
        for (int b = 0; b < KBC_BLOCKS; ++b) {
            kbc_barrier(&k, &round);
            const int64_t repeat = r.control->repeat;
            const double start = kbc_now();
            for (int64_t i = 0; i < repeat; ++i) p->kernel(&k, r.options.count, call++, tensors);
            r.control->seconds[b][rank] = (kbc_now() - start) / (double)kbc_max(repeat, 1);
        }
        kbc_compare(&r, rank, call - 1, held);
    }
    for (int a = 0; a < p->arguments; ++a) free(held[a].data);
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
    int64_t compared, wrong, bytes;
    double block[KBC_BLOCKS], least, time, most; /* seconds of a call: as measured, and in order */
    double factor, algbw, busbw;                 /* busbw / algbw; 10^9 bytes a second */
};

static struct kbc_outcome kbc_outcome_of(const struct kbc_run *r) {
    const struct kbc_program *p = r->program;
    const struct kbc_options *o = &r->options;
    const double share = (double)(o->ranks - 1) / (double)o->ranks;
    struct kbc_outcome out = {0, 0, -1, {0}, -1, -1, -1, 0, 0, 0};
    double block[KBC_BLOCKS];
    for (int64_t i = 0; i < o->ranks; ++i) {
        out.compared += r->control->compared[i];
        out.wrong += r->control->wrong[i];
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
    printf("\n  %lld calls in a row%s, %lld elements compared bit for bit: ", (long long)o->calls,
           o->repeat != 0 ? " and the last measured one" : "", (long long)found->compared);
    if (found->wrong == 0) printf("all are equal\n");
    else printf("%lld differ\n", (long long)found->wrong);
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
    printf("{\"schema\":1,\"program\":\"%s\",\"ranks\":%lld", p->name, (long long)o->ranks);
    if (p->parameter) printf(",\"parameter\":\"%s\",\"count\":%lld", p->parameter, (long long)o->count);
    else printf(",\"parameter\":null,\"count\":null");
    printf(",\"calls\":%lld,\"compared\":%lld,\"wrong\":%lld", (long long)o->calls, (long long)found->compared,
           (long long)found->wrong);
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
    kbc_say("%s", text);
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
    printf("%s: a collective that kbc proved, between processes of this computer\n\n", p->name);
    printf("  -n RANKS         number of ranks:");
    for (int i = 0; i < p->claimed; ++i) printf(" %lld", (long long)p->ranks[i]);
    printf("\n");
    if (p->parameter) {
        printf("  -c COUNT         value of %s, 0 to %lld (default: %lld)\n", p->parameter, (long long)p->largest,
               (long long)p->standard);
    }
    printf("  --calls CALLS    checked calls in a row (default: 10)\n");
    printf("  --repeat CALLS   calls in each of %d measured blocks; 0: measure nothing\n", KBC_BLOCKS);
    printf("  --limit SECONDS  longest that a wait may take (default: 30)\n");
    printf("  --seed SEED      other inputs\n");
    printf("  --delays         random delays between calls\n");
    printf("  --json           print one JSON object in place of text\n");
    printf("  --until-eof      end when the standard input ends\n");
}

/* Reads the arguments; returns 0, or an exit code plus 1. */
static int kbc_arguments(const struct kbc_program *p, int argc, char **argv, struct kbc_options *o) {
    *o = (struct kbc_options){p->claimed == 1 ? p->ranks[0] : 0, p->standard, 10, -1, 0, 0, 0, 0, 30};
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
        if (flag) {
            *flag = 1;
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

#ifdef KBC_THREADS

struct kbc_thread {
    struct kbc_run run;
    int64_t rank;
};

static void *kbc_thread_main(void *of) {
    struct kbc_thread *t = of;
    kbc_run_rank(t->run, t->rank);
    return 0;
}

static int kbc_launch(struct kbc_run *r, size_t bytes) {
    static struct kbc_control control;
    static struct kbc_thread rank[KBC_MAX_RANKS];
    pthread_t thread[KBC_MAX_RANKS];
    void *windows = 0;
    if (posix_memalign(&windows, 4096, bytes + 4096) != 0) return kbc_usage("there is no memory for the windows");
    memset(windows, 0, bytes);
    memset(&control, 0, sizeof control);
    r->windows = windows;
    r->control = &control;
    for (int64_t i = 0; i < r->options.ranks; ++i) {
        rank[i] = (struct kbc_thread){*r, i};
        if (pthread_create(&thread[i], 0, kbc_thread_main, &rank[i]) != 0) return kbc_usage("a thread did not start");
    }
    kbc_watch_input(&r->options);
    for (int64_t i = 0; i < r->options.ranks; ++i) pthread_join(thread[i], 0);
    const int code = kbc_report(r);
    free(windows);
    return code;
}

#else

/* Shared memory without a name that could be left behind; 0 with a message if there is none. */
static void *kbc_shared(size_t bytes) {
    char name[64];
    int file = -1;
    for (int i = 0; i < 100 && file < 0; ++i) {
        snprintf(name, sizeof name, "/kbc-%ld-%d", (long)getpid(), i);
        file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (file < 0 && errno != EEXIST) break;
    }
    if (file < 0) {
        kbc_say("shared memory cannot be opened: %s", strerror(errno));
        return 0;
    }
    shm_unlink(name);
#ifdef __linux__
    /* Reserves the memory: without that, a store beyond what the system has would kill the rank. */
    const int error = posix_fallocate(file, 0, (off_t)bytes);
#else
    const int error = ftruncate(file, (off_t)bytes) == 0 ? 0 : errno;
#endif
    void *out = error ? MAP_FAILED : mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (out == MAP_FAILED) {
        kbc_say("there are no %zu bytes of shared memory: %s (take a smaller count or fewer ranks)", bytes,
                strerror(error ? error : errno));
        out = 0;
    }
    close(file);
    return out;
}

static int kbc_launch(struct kbc_run *r, size_t bytes) {
    const size_t control = (sizeof *r->control + 4095) / 4096 * 4096;
    pid_t pid[KBC_MAX_RANKS];
    const int64_t n = r->options.ranks;
    r->control = kbc_shared(control + bytes);
    if (!r->control) return 1;
    r->windows = (unsigned char *)r->control + control;
    kbc_launcher = getpid();
    fflush(0);
    int64_t running = 0;
    for (; running < n; ++running) {
        pid[running] = fork();
        if (pid[running] == 0) {
#ifdef __linux__
            /* A rank that computes, and never waits long, also ends with its launcher. */
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != kbc_launcher) _exit(1);
#endif
            kbc_run_rank(*r, running);
            _exit(0);
        }
        if (pid[running] < 0) {
            kbc_say("rank %lld cannot be started: %s", (long long)running, strerror(errno));
            for (int64_t i = 0; i < running; ++i) kill(pid[i], SIGKILL);
            for (int64_t i = 0; i < running; ++i) waitpid(pid[i], 0, 0);
            return 1;
        }
    }
    kbc_watch_input(&r->options);
    int failed = 0;
    double end = 0;
    while (running > 0) {
        int status = 0;
        const pid_t ended = waitpid(-1, &status, failed ? WNOHANG : 0);
        if (ended < 0 && errno == EINTR) continue;
        if (ended < 0) break;
        if (ended == 0) {
            /* The others notice what happened in their next wait; who does not is stopped. */
            if (kbc_now() > end) {
                for (int64_t i = 0; i < n; ++i) {
                    if (pid[i] > 0) kill(pid[i], SIGKILL);
                }
            }
            kbc_sleep(1000000);
            continue;
        }
        int64_t rank = 0;
        while (rank < n && pid[rank] != ended) ++rank;
        if (rank == n) continue;
        pid[rank] = 0;
        --running;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        if (!failed) {
            failed = 1;
            end = kbc_now() + 5;
        }
        uint32_t nobody = 0;
        if (WIFSIGNALED(status)) {
            /* Before `failed`, so that who reads that finds the signal. */
            if (atomic_load(&r->control->failed) == 0) atomic_store(&r->control->signal, (uint32_t)WTERMSIG(status));
            if (kbc_now() < end) {
                kbc_say("rank %lld was killed by signal %d", (long long)rank, WTERMSIG(status));
            }
        }
        atomic_compare_exchange_strong(&r->control->failed, &nobody, (uint32_t)rank + 1);
    }
    const int code = failed ? 1 : kbc_report(r);
    munmap(r->control, control + bytes);
    return code;
}

#endif

static int kbc_main(const struct kbc_program *p, int argc, char **argv) {
    struct kbc_run r;
    memset(&r, 0, sizeof r);
    kbc_current = r.program = p;
    const int bad = kbc_arguments(p, argc, argv, &r.options);
    if (bad) return bad - 1;
    kbc_limit = r.options.limit;
    r.sizes.input = calloc((size_t)p->inputs + 1, sizeof *r.sizes.input);
    r.sizes.result = calloc((size_t)p->results + 1, sizeof *r.sizes.result);
    if (!r.sizes.input || !r.sizes.result) return kbc_usage("there is no memory");
    p->sizes(r.options.ranks, r.options.count, &r.sizes);
    if (r.options.calls + 1 + (r.options.repeat > 0 ? KBC_BLOCKS * r.options.repeat : 0) > r.sizes.calls) {
        return kbc_usage("a window serves %lld calls before a counter leaves its 32 bits", (long long)r.sizes.calls);
    }
    r.pitch = ((size_t)r.sizes.window + 4095) / 4096 * 4096;
    const int code = kbc_launch(&r, r.pitch * (size_t)r.options.ranks);
    free(r.sizes.input);
    free(r.sizes.result);
    return code;
}

#endif

/* Ranks as processes of one computer: how they start, wait and end. Written by kbc; the same for all
 * programs. With KBC_THREADS they are threads of one process, for ThreadSanitizer. */
#ifndef KBC_RANKS_H
#define KBC_RANKS_H

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>

#define KBC_TRANSPORT "memory"

#ifndef KBC_THREADS
static pid_t kbc_launcher;
#endif

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
        /* Lets others run at first, and then sleeps, at last for longer. */
        const int64_t yields = k->crowded ? 1000 : 50;
        if (round < yields) sched_yield();
        else kbc_sleep(round < yields + 950 ? 20000 : 1000000);
    }
}

/* Lets no rank continue before all have arrived as often as this one. */
static void kbc_barrier(struct kbc_rank *k) {
    ++k->round;
    atomic_fetch_add_explicit(&k->control->arrived, 1, memory_order_acq_rel);
    kbc_wait_long(k, &k->control->arrived, k->round * k->nranks, 1, "arrived", 0, "a barrier between calls");
}

/* Whether there are more ranks than processors on which this process may run. */
static int kbc_crowded(int64_t ranks) {
#ifdef __linux__
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof own, &own) == 0) return ranks > CPU_COUNT(&own);
#endif
    return ranks > sysconf(_SC_NPROCESSORS_ONLN);
}

/* A rank, before its first call. */
static struct kbc_rank kbc_join(const struct kbc_run *r, int64_t rank) {
    unsigned char *const window = r->windows + (size_t)rank * r->pitch;
    const int crowded = r->control->crowded;
    return (struct kbc_rank){rank, r->options.ranks, window, 0, r->control, r->windows, r->pitch, r->inputs, 0,
                             crowded ? KBC_SPINS_CROWDED : KBC_SPINS, crowded};
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
    control.crowded = kbc_crowded(r->options.ranks);
    r->windows = windows;
    r->control = &control;
    r->shared_bytes = r->program->definition ? (size_t)64 << 20 : 0;
    r->shared = r->shared_bytes ? malloc(r->shared_bytes) : 0;
    if (!r->shared) r->shared_bytes = 0;
    for (int64_t i = 0; i < r->options.ranks; ++i) {
        rank[i] = (struct kbc_thread){*r, i};
        if (pthread_create(&thread[i], 0, kbc_thread_main, &rank[i]) != 0) return kbc_usage("a thread did not start");
    }
    kbc_watch_input(&r->options);
    for (int64_t i = 0; i < r->options.ranks; ++i) pthread_join(thread[i], 0);
    const int code = kbc_report(r);
    free(r->shared);
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

/* Keeps this rank on one of the processors that it may use. Two ranks on one processor wait for each
 * other's turns, and a system with other work may leave them there. */
static void kbc_bind(int64_t rank) {
#ifdef __linux__
    cpu_set_t all, own;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) == 0) return;
    int64_t before = rank % CPU_COUNT(&all);
    CPU_ZERO(&own);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &all) && before-- == 0) CPU_SET(cpu, &own);
    }
    sched_setaffinity(0, sizeof own, &own);
#else
    (void)rank;
#endif
}

/* Addresses for the values of a definition, which the ranks evaluate together. Memory is taken when it is
 * written; without addresses each rank evaluates all. */
static void kbc_share_values(struct kbc_run *r) {
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    r->shared = 0;
    r->shared_bytes = 0;
    if (!r->program->definition || r->options.ranks < 2 || pages <= 0 || bytes <= 0) return;
    const size_t half = (size_t)pages / 2 * (size_t)bytes;
#ifdef MAP_NORESERVE
    const int how = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
#else
    const int how = MAP_SHARED | MAP_ANONYMOUS;
#endif
    void *const at = mmap(0, half, PROT_READ | PROT_WRITE, how, -1, 0);
    if (at == MAP_FAILED) return;
    r->shared = at;
    r->shared_bytes = half;
}

static int kbc_launch(struct kbc_run *r, size_t bytes) {
    const size_t control = (sizeof *r->control + 4095) / 4096 * 4096;
    pid_t pid[KBC_MAX_RANKS];
    const int64_t n = r->options.ranks;
    r->control = kbc_shared(control + bytes);
    if (!r->control) return 1;
    r->windows = (unsigned char *)r->control + control;
    r->control->crowded = kbc_crowded(n);
    kbc_share_values(r);
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
            if (r->options.bind) kbc_bind(running);
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
    if (r->shared) munmap(r->shared, r->shared_bytes);
    return code;
}

#endif

static int kbc_main(const struct kbc_program *p, int argc, char **argv) {
    struct kbc_run r;
    const int bad = kbc_prepare(p, 0, argc, argv, &r);
    const int code = bad ? bad - 1 : kbc_launch(&r, r.pitch * (size_t)r.options.ranks);
    kbc_free_sizes(&r);
    return code;
}

#endif

/* Ranks as processes of MPI: how they start, wait and end. Written by kbc; the same for all programs. */
#ifndef KBC_MPI_RANKS_H
#define KBC_MPI_RANKS_H

#include <limits.h>
#include <sched.h>

#define KBC_TRANSPORT "mpi"

static MPI_Win kbc_windows;
static void *kbc_staging;

/* Ends all ranks with an error. */
static void kbc_stop(struct kbc_rank *k) {
    (void)k;
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

static void kbc_wait_long(struct kbc_rank *k, int64_t offset, int64_t value, const char *what, int64_t index,
                          const char *from) {
    const double end = kbc_now() + kbc_limit;
    for (int64_t round = 0;; ++round) {
        if (kbc_reached(k, offset, value)) return;
        if (round % 16 == 15) {
            /* MPI may need calls of this rank to complete what others ask of it. */
            int found;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        }
        if (round % 256 != 255) {
            if (round > 2000) sched_yield();
            continue;
        }
        const uint32_t seen = kbc_counter(k, offset);
        if ((int64_t)seen >= value) return;
        if (kbc_now() > end) {
            kbc_say("rank %lld waited longer than %g s: counter %s[%lld] is %u and has to be at least %lld, in %s",
                    (long long)k->rank, kbc_limit, what, (long long)index, seen, (long long)value, from);
            kbc_stop(k);
        }
        if (round > 200000) kbc_sleep(50000);
    }
}

/* Lets no rank continue before all have arrived, and tells all what rank 0 measures. */
static void kbc_barrier(struct kbc_rank *k) {
    MPI_Bcast(&k->control->repeat, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A rank, before its first call. */
static struct kbc_rank kbc_join(const struct kbc_run *r, int64_t rank) {
    return (struct kbc_rank){rank, r->options.ranks, r->windows, 0, r->control, kbc_windows, r->inputs,
                             kbc_staging, 0, 0, 0};
}

/* Makes the windows, filled with 0; returns whether the memory model is that of kbc_mpi.h. */
static int kbc_make_windows(struct kbc_run *r, int rank) {
    MPI_Info info;
    MPI_Errhandler usual;
    void *window = 0;
    int *model = 0, found = 0;
    MPI_Info_create(&info);
    /* Counters are single integers, to which ranks add in any order. */
    MPI_Info_set(info, "accumulate_ops", "same_op_no_op");
    MPI_Info_set(info, "accumulate_ordering", "none");
    MPI_Info_set(info, "acc_single_intrinsic", "true");
    MPI_Info_set(info, "same_disp_unit", "true");
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &usual);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int error = MPI_Win_allocate((MPI_Aint)r->pitch, 1, info, MPI_COMM_WORLD, &window, &kbc_windows);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, usual);
    MPI_Errhandler_free(&usual);
    MPI_Info_free(&info);
    if (error != MPI_SUCCESS) {
        /* Not only for lack of memory: an engine may have no windows between these computers. */
        char why[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        MPI_Error_string(error, why, &length);
        kbc_say("rank %d gets no window of %zu bytes from MPI: %s", rank, r->pitch, why);
        kbc_stop(0);
    }
    if (posix_memalign(&kbc_staging, KBC_LINE, KBC_STAGED) != 0) {
        kbc_say("rank %d has no memory for messages", rank);
        kbc_stop(0);
    }
    MPI_Win_get_attr(kbc_windows, MPI_WIN_MODEL, &model, &found);
    if (!found || *model != MPI_WIN_UNIFIED) {
        if (rank == 0) kbc_say("the windows of this MPI have separate copies, and the kernel needs MPI_WIN_UNIFIED");
        return 0;
    }
    MPI_Win_lock_all(MPI_MODE_NOCHECK, kbc_windows);
    memset(window, 0, r->pitch);
    MPI_Win_sync(kbc_windows);
    MPI_Barrier(MPI_COMM_WORLD);
    r->windows = window;
    return 1;
}

/* Runs this rank; returns the exit code, which all ranks have. */
static int kbc_launch(struct kbc_run *r, int rank) {
    static struct kbc_control control;
    memset(&control, 0, sizeof control);
    r->control = &control;
    /* The values of a definition are not shared: each rank evaluates all. */
    r->shared = 0;
    r->shared_bytes = 0;
    int code = 1;
    if (kbc_make_windows(r, rank)) {
        if (rank == 0) kbc_watch_input(&r->options);
        kbc_run_rank(*r, rank);
        MPI_Win_unlock_all(kbc_windows);
        MPI_Allreduce(MPI_IN_PLACE, control.compared, KBC_MAX_RANKS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, control.wrong, KBC_MAX_RANKS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, control.unknown, KBC_MAX_RANKS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, control.worst, KBC_MAX_RANKS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, control.seconds, KBC_BLOCKS * KBC_MAX_RANKS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        code = kbc_report(r);
    }
    MPI_Win_free(&kbc_windows);
    free(kbc_staging);
    return code;
}

/* A number that differs for other programs and other arguments (FNV-1a). */
static uint64_t kbc_identity(const struct kbc_program *p, int argc, char **argv) {
    uint64_t hash = p->identity;
    for (int i = 0; i < argc; ++i) {
        for (const char *c = i > 0 ? argv[i] : p->name;; ++c) {
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
            if (*c == 0) break;
        }
    }
    return hash;
}

/* Checks that all ranks run the same program with the same arguments. */
static int kbc_alike(uint64_t identity, int rank) {
    uint64_t first = identity;
    MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    int other = first == identity ? INT_MAX : rank;
    MPI_Allreduce(MPI_IN_PLACE, &other, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (other != INT_MAX && rank == 0) {
        kbc_say("rank %d was started with another program or with other arguments than rank 0", other);
    }
    return other == INT_MAX;
}

static int kbc_main(const struct kbc_program *p, int argc, char **argv) {
    struct kbc_run r;
    int rank, ranks, running, threads = MPI_THREAD_FUNNELED, bad;
    MPI_Initialized(&running);
    /* A thread of rank 0 may watch the input. */
    if (!running) MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    kbc_quiet = rank != 0;
    kbc_current = p;
    if (kbc_alike(kbc_identity(p, argc, argv), rank)) {
        bad = kbc_prepare(p, ranks, argc, argv, &r);
        if (!bad && r.options.until_eof && threads < MPI_THREAD_FUNNELED) {
            bad = 1 + kbc_usage("--until-eof: this MPI allows no threads");
        }
        /* One rank may lack memory. */
        MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    } else {
        memset(&r, 0, sizeof r);
        bad = 3;
    }
    const int code = bad ? bad - 1 : kbc_launch(&r, rank);
    kbc_free_sizes(&r);
    fflush(0);
    if (!running) MPI_Finalize();
    return code;
}

#endif

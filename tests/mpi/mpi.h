/* A stand-in for MPI with the least that the standard promises, for tests of emitted C.
 *
 * Ranks are processes of one computer, KBC_RANKS of them. What a rank puts, gets or adds happens at a
 * flush, in any order, or at any time before. A put reads its source when it happens, or at a local
 * flush. What others put is invisible to loads, and stores are invisible to others, until the owner of
 * the window calls MPI_Win_sync: a window has a public copy, which the operations use, and a private
 * one, which loads and stores use. So code that lacks a flush or a sync computes something else. */
#ifndef MPI_H
#define MPI_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MPI_VERSION 3
enum { MPI_SUCCESS, MPI_THREAD_FUNNELED = 1, MPI_MODE_NOCHECK = 1, MPI_WIN_MODEL = 1, MPI_WIN_UNIFIED = 2 };
enum { MPI_COMM_WORLD, MPI_ERRORS_RETURN, MPI_ANY_SOURCE, MPI_ANY_TAG };
enum { MPI_BYTE = 1, MPI_INT = 4, MPI_UINT32_T = 5, MPI_INT64_T = 8, MPI_UINT64_T = 9, MPI_DOUBLE = 10 };
enum { MPI_SUM, MPI_MIN, MPI_MAX, MPI_NO_OP };
#define MPI_IN_PLACE ((void *)1)
#define MPI_STATUS_IGNORE 0
typedef int64_t MPI_Aint;
typedef int MPI_Win, MPI_Info, MPI_Errhandler;

enum { STAND_RANKS = 8, STAND_SLOT = 1 << 16, STAND_ALL = 1 << 28, STAND_QUEUE = 1 << 14 };

/* Emitted code uses a part of these functions. */
#define STAND static __attribute__((unused))

struct stand_shared {
    int32_t ended, arrived, pid[STAND_RANKS];
    unsigned char slot[STAND_RANKS][STAND_SLOT];
};
/* An operation that has not happened yet; `copy` has the source after a local flush. */
struct stand_operation {
    int kind, peer; /* 0 put, 1 get, 2 add, 3 read */
    const void *from;
    void *to, *copy;
    size_t at, size;
};
static struct stand_shared *stand;
static int stand_rank, stand_ranks, stand_queued, stand_round;
static unsigned char *stand_public, *stand_private, *stand_old, *stand_free;
static size_t stand_pitch;
static uint32_t stand_seed;
static struct stand_operation stand_queue[STAND_QUEUE];

static int stand_random(int n) {
    stand_seed = stand_seed * 1664525u + 1013904223u;
    return (int)((stand_seed >> 16) % (uint32_t)n);
}

/* Ends the ranks that have started, but this one. */
static void stand_kill(void) {
    for (int i = 0; i < stand_ranks; ++i) {
        if (i != stand_rank && stand->pid[i] > 0) kill(stand->pid[i], SIGKILL);
    }
}

STAND int MPI_Initialized(int *flag) { return *flag = stand != 0, 0; }
STAND int MPI_Init_thread(int *argc, char ***argv, int asked, int *given) {
    (void)argc, (void)argv;
    *given = asked;
    stand_ranks = atoi(getenv("KBC_RANKS"));
    void *all = mmap(0, STAND_ALL, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stand = all;
    stand_free = (unsigned char *)all + (sizeof *stand + 4095) / 4096 * 4096;
    for (int i = 0; i < stand_ranks; ++i) {
        if (fork() == 0) {
            stand->pid[i] = getpid();
            stand_rank = i;
            stand_seed = (uint32_t)i * 77u + 5u;
            return 0;
        }
    }
    int worst = 0;
    for (int i = 0; i < stand_ranks; ++i) {
        int status = 0;
        wait(&status);
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        worst = code > worst ? code : worst;
        /* The others would wait for it. */
        if (code != 0) stand->ended = 1;
    }
    _exit(worst);
}
STAND int MPI_Init(int *argc, char ***argv) { int given; return MPI_Init_thread(argc, argv, 1, &given); }
STAND int MPI_Finalize(void) { return 0; }
STAND int MPI_Abort(int comm, int code) {
    (void)comm;
    stand->ended = 1;
    stand_kill();
    _exit(code);
}
STAND int MPI_Comm_rank(int comm, int *out) { return (void)comm, *out = stand_rank, 0; }
STAND int MPI_Comm_size(int comm, int *out) { return (void)comm, *out = stand_ranks, 0; }
STAND int MPI_Barrier(int comm) {
    (void)comm;
    ++stand_round;
    __atomic_add_fetch(&stand->arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&stand->arrived, __ATOMIC_SEQ_CST) < stand_round * stand_ranks) {
        if (__atomic_load_n(&stand->ended, __ATOMIC_SEQ_CST)) _exit(98);
        usleep(50);
    }
    return 0;
}
STAND int MPI_Bcast(void *data, int n, int type, int root, int comm) {
    const size_t size = (size_t)n * (type == MPI_INT ? 4 : 8);
    if (stand_rank == root) memcpy(stand->slot[root], data, size);
    MPI_Barrier(comm);
    memcpy(data, stand->slot[root], size);
    return MPI_Barrier(comm);
}
STAND int MPI_Allreduce(const void *in, void *data, int n, int type, int op, int comm) {
    const size_t size = type == MPI_INT ? 4 : 8;
    (void)in;
    memcpy(stand->slot[stand_rank], data, (size_t)n * size);
    MPI_Barrier(comm);
    for (int i = 0; i < n; ++i) {
        for (int r = 0; r < stand_ranks; ++r) {
            if (r == stand_rank) continue;
            const void *other = stand->slot[r] + (size_t)i * size;
            if (type == MPI_DOUBLE) {
                ((double *)data)[i] += *(const double *)other;
                continue;
            }
            int64_t a = type == MPI_INT ? ((int *)data)[i] : ((int64_t *)data)[i];
            const int64_t b = type == MPI_INT ? *(const int *)other : *(const int64_t *)other;
            a = op == MPI_SUM ? a + b : (op == MPI_MIN) == (a < b) ? a : b;
            if (type == MPI_INT) ((int *)data)[i] = (int)a;
            else ((int64_t *)data)[i] = a;
        }
    }
    return MPI_Barrier(comm);
}
STAND int MPI_Iprobe(int from, int tag, int comm, int *found, void *status) {
    (void)from, (void)tag, (void)comm, (void)status;
    return *found = 0;
}
STAND int MPI_Info_create(int *info) { return *info = 0; }
STAND int MPI_Info_set(int info, const char *key, const char *value) { return (void)info, (void)key, (void)value, 0; }
STAND int MPI_Info_free(int *info) { return *info = 0; }
STAND int MPI_Comm_get_errhandler(int comm, int *out) { return (void)comm, *out = 0; }
STAND int MPI_Comm_set_errhandler(int comm, int set) { return (void)comm, (void)set, 0; }
STAND int MPI_Errhandler_free(int *handler) { return *handler = 0; }
enum { MPI_MAX_ERROR_STRING = 256 };
STAND int MPI_Error_string(int error, char *text, int *length) {
    return *length = snprintf(text, MPI_MAX_ERROR_STRING, "error %d", error), 0;
}

STAND int MPI_Win_allocate(MPI_Aint size, int unit, int info, int comm, void *base, int *win) {
    (void)unit, (void)info;
    stand_pitch = (size_t)size;
    stand_public = stand_free;
    stand_private = malloc(stand_pitch);
    stand_old = malloc(stand_pitch);
    memset(stand_private, 0xee, stand_pitch);
    memset(stand_old, 0xee, stand_pitch);
    memset(stand_public + (size_t)stand_rank * stand_pitch, 0xee, stand_pitch);
    memcpy(base, &stand_private, sizeof stand_private);
    *win = 1;
    return MPI_Barrier(comm);
}
STAND int MPI_Win_get_attr(int win, int key, void *out, int *found) {
    static int unified = MPI_WIN_UNIFIED;
    const int *at = &unified;
    (void)win, (void)key;
    memcpy(out, &at, sizeof at);
    return *found = 1, 0;
}
STAND int MPI_Win_lock_all(int how, int win) { return (void)how, (void)win, 0; }
STAND int MPI_Win_sync(int win) {
    unsigned char *const mine = stand_public + (size_t)stand_rank * stand_pitch;
    (void)win;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (size_t i = 0; i < stand_pitch; ++i) {
        if (stand_private[i] != stand_old[i]) mine[i] = stand_private[i];
        else if (mine[i] != stand_old[i]) stand_private[i] = mine[i];
        stand_old[i] = stand_private[i];
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return 0;
}

static void stand_happens(const struct stand_operation *o) {
    unsigned char *const at = stand_public + (size_t)o->peer * stand_pitch + o->at;
    if (o->kind == 0) memcpy(at, o->copy ? o->copy : o->from, o->size);
    if (o->kind == 1) memcpy(o->to, at, o->size);
    if (o->kind == 2) __atomic_fetch_add((uint32_t *)(void *)at, 1, __ATOMIC_SEQ_CST);
    if (o->kind == 3) *(uint32_t *)o->to = __atomic_load_n((uint32_t *)(void *)at, __ATOMIC_SEQ_CST);
    free(o->copy);
}
/* Lets an operation happen that has been queued. */
static void stand_take(int i) {
    const struct stand_operation o = stand_queue[i];
    stand_queue[i] = stand_queue[--stand_queued];
    stand_happens(&o);
}
/* Some operations happen at once, and some only at a flush. */
static void stand_issue(struct stand_operation o) {
    if (stand_queued == STAND_QUEUE) _exit(99);
    stand_queue[stand_queued++] = o;
    if (stand_random(2) == 0) stand_take(stand_queued - 1);
}
/* Sums happen first, and what was put and got before them a while later. */
STAND int MPI_Win_flush(int peer, int win) {
    static int found[STAND_QUEUE];
    (void)win;
    for (int sums = 1; sums >= 0; --sums) {
        for (int n = -1, rounds = 0; n != 0; ++rounds) {
            n = 0;
            for (int i = 0; i < stand_queued; ++i) {
                const struct stand_operation *o = &stand_queue[i];
                if (o->peer == peer && (o->kind >= 2) == sums) found[n++] = i;
            }
            if (n > 0 && sums == 0 && rounds == 0) usleep(3000);
            if (n > 0) stand_take(found[stand_random(n)]);
        }
    }
    return 0;
}
STAND int MPI_Win_flush_local_all(int win) {
    (void)win;
    for (int i = 0; i < stand_queued; ++i) {
        struct stand_operation *o = &stand_queue[i];
        if (o->kind != 0 || o->copy) continue;
        o->copy = malloc(o->size);
        memcpy(o->copy, o->from, o->size);
    }
    return 0;
}
STAND int MPI_Win_unlock_all(int win) {
    for (int i = 0; i < stand_ranks; ++i) MPI_Win_flush(i, win);
    return 0;
}
STAND int MPI_Win_free(int *win) {
    MPI_Barrier(MPI_COMM_WORLD);
    free(stand_private);
    free(stand_old);
    return *win = 0;
}
STAND int MPI_Put(const void *from, int n, int type, int peer, MPI_Aint at, int m, int of, int win) {
    (void)type, (void)m, (void)of, (void)win;
    stand_issue((struct stand_operation){0, peer, from, 0, 0, (size_t)at, (size_t)n});
    return 0;
}
STAND int MPI_Get(void *to, int n, int type, int peer, MPI_Aint at, int m, int of, int win) {
    (void)type, (void)m, (void)of, (void)win;
    memset(to, 0xee, (size_t)n);
    stand_issue((struct stand_operation){1, peer, 0, to, 0, (size_t)at, (size_t)n});
    return 0;
}
STAND int MPI_Accumulate(const void *one, int n, int type, int peer, MPI_Aint at, int m, int of, int op, int win) {
    (void)one, (void)n, (void)type, (void)m, (void)of, (void)op, (void)win;
    stand_issue((struct stand_operation){2, peer, 0, 0, 0, (size_t)at, 4});
    return 0;
}
STAND int MPI_Fetch_and_op(const void *none, void *to, int type, int peer, MPI_Aint at, int op, int win) {
    (void)none, (void)type, (void)op, (void)win;
    memset(to, 0, 4);
    stand_issue((struct stand_operation){3, peer, 0, to, 0, (size_t)at, 4});
    return 0;
}

#endif

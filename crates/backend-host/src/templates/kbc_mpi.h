/* Windows of MPI, and notifies and waits on them: what emitted kernels use in place of shared memory.
 * Written by kbc; the same for all programs.
 *
 * Ranks put into windows of their peers and get from them (one-sided communication, MPI 3 or later).
 * A counter is only added to and read by atomic operations. A notify with release order first waits
 * until all puts are complete at their targets. A wait with acquire order makes what was put visible
 * to loads. For that, the windows have to be of the unified memory model, which kbc_mpi_ranks.h
 * checks. */
#ifndef KBC_MPI_H
#define KBC_MPI_H

#include <mpi.h>

#if MPI_VERSION < 3
#error "windows need MPI 3 or later"
#endif

/* Bytes of copies of tiles whose puts may still read them. */
enum { KBC_STAGED = 1 << 20 };

/* A rank, as its process sees it. */
struct kbc_rank {
    int64_t rank, nranks;
    unsigned char *window; /* of this rank */
    unsigned char *tiles;  /* memory of this rank for tiles */
    struct kbc_control *control;
    MPI_Win windows;
    const int64_t *inputs; /* of each argument of the kernel that peers read: its byte offset in a window */
    unsigned char *staged;
    size_t filled;
    uint64_t put, told; /* peers at which a put or a notify may not be complete: bit i is rank i */
};

/* Waits until everything is complete at these peers. */
static inline void kbc_flush(struct kbc_rank *k, uint64_t peers) {
    k->put &= ~peers;
    k->told &= ~peers;
    for (int peer = 0; peers != 0; ++peer, peers >>= 1) {
        if (peers & 1u) MPI_Win_flush(peer, k->windows);
    }
}

/* Copies n elements from or to the window of `peer`: from element `first` behind byte `offset`. */
static inline void kbc_get(struct kbc_rank *k, void *to, int64_t peer, int64_t offset, int64_t first, int64_t n,
                           size_t bytes) {
    const size_t size = (size_t)n * bytes;
    const MPI_Aint at = (MPI_Aint)(offset + first * (int64_t)bytes);
    if (n <= 0) return;
    if (peer == k->rank) {
        memcpy(to, k->window + at, size);
        return;
    }
    kbc_flush(k, k->put & (uint64_t)1 << peer);
    MPI_Get(to, (int)size, MPI_BYTE, (int)peer, at, (int)size, MPI_BYTE, k->windows);
    MPI_Win_flush((int)peer, k->windows);
}

/* The tile may be written again when this returns, so it is copied first. */
static inline void kbc_put(struct kbc_rank *k, int64_t peer, int64_t offset, int64_t first, const void *from,
                           int64_t n, size_t bytes) {
    const size_t size = (size_t)n * bytes;
    const MPI_Aint at = (MPI_Aint)(offset + first * (int64_t)bytes);
    if (n <= 0) return;
    if (peer == k->rank) {
        memcpy(k->window + at, from, size);
        return;
    }
    if (k->filled + size > KBC_STAGED) {
        /* A flush of the peers, one by one: in MPICH 4.0.2 over UCX, puts still read the copies after
         * MPI_Win_flush_local_all and MPI_Win_flush_all. */
        kbc_flush(k, k->put);
        k->filled = 0;
    }
    unsigned char *const copy = k->staged + k->filled;
    memcpy(copy, from, size);
    MPI_Put(copy, (int)size, MPI_BYTE, (int)peer, at, (int)size, MPI_BYTE, k->windows);
    k->filled += (size + KBC_LINE - 1) / KBC_LINE * KBC_LINE;
    k->put |= (uint64_t)1 << peer;
}

/* Adds 1 to a counter of `peer`. */
static inline void kbc_notify(struct kbc_rank *k, int64_t peer, int64_t offset, memory_order order) {
    static const uint32_t one = 1;
    if (order == memory_order_release) {
        kbc_flush(k, k->put);
        k->filled = 0;
        /* Orders stores to this rank's own window, which a peer may get. */
        MPI_Win_sync(k->windows);
    }
    MPI_Accumulate(&one, 1, MPI_UINT32_T, (int)peer, (MPI_Aint)offset, 1, MPI_UINT32_T, MPI_SUM, k->windows);
    k->told |= (uint64_t)1 << peer;
}

/* The value of a counter of this rank, by an atomic operation of MPI. */
static inline uint32_t kbc_counter(struct kbc_rank *k, int64_t offset) {
    uint32_t none = 0, seen = 0;
    MPI_Fetch_and_op(&none, &seen, MPI_UINT32_T, (int)k->rank, (MPI_Aint)offset, MPI_NO_OP, k->windows);
    MPI_Win_flush((int)k->rank, k->windows);
    return seen;
}

/* Checks whether a counter of this rank is at least `value`. Only the operation of MPI decides. A plain
 * load, which costs little and locks nothing, says when it is worth its time. */
static inline int kbc_reached(struct kbc_rank *k, int64_t offset, int64_t value) {
    const uint32_t hint = atomic_load_explicit(KBC_OWN(_Atomic uint32_t, k, offset), memory_order_relaxed);
    return (int64_t)hint >= value && (int64_t)kbc_counter(k, offset) >= value;
}

/* A wait that takes long: ends the run after the time limit. */
static void kbc_wait_long(struct kbc_rank *k, int64_t offset, int64_t value, const char *what, int64_t index,
                          const char *from);

/* Waits until a counter of this rank is at least `value`. Peers get their notifies before. */
static inline void kbc_wait(struct kbc_rank *k, int64_t offset, int64_t value, memory_order order, const char *what,
                            int64_t index, const char *from) {
    kbc_flush(k, k->told);
    if (!kbc_reached(k, offset, value)) kbc_wait_long(k, offset, value, what, index, from);
    if (order == memory_order_acquire) MPI_Win_sync(k->windows);
}
#define KBC_WAIT kbc_wait

/* Called at the end of a call of the kernel. */
static inline void kbc_finish(struct kbc_rank *k) { kbc_flush(k, k->told); }

#endif

/* Time of a message and the notify behind it between two ranks, one-sided as emitted C has it, and
 * two-sided: the measurement of docs/adr/100-mpi.md.
 *
 *     mpicc -O2 -o sides tests/mpi/sides.c && mpirun -n 2 ./sides
 *
 * The two-sided form is one that knows where a message belongs, so it has no header and no second
 * copy, and no counter. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 16384, LARGEST = 4 << 20, LINE = 64, BLOCKS = 7 };

static unsigned char *window, *data;
static MPI_Win win;
static int rank, peer;
static uint32_t messages; /* that this rank has received, one-sided */

static int bytes(size_t rest) { return rest < PIECE ? (int)rest : PIECE; }

static void put(size_t n) {
    static const uint32_t one = 1;
    for (size_t at = 0; at < n; at += PIECE) {
        const int m = bytes(n - at);
        MPI_Put(data + at, m, MPI_BYTE, peer, (MPI_Aint)(LINE + at), m, MPI_BYTE, win);
    }
    MPI_Win_flush(peer, win);
    MPI_Win_sync(win);
    MPI_Accumulate(&one, 1, MPI_UINT32_T, peer, 0, 1, MPI_UINT32_T, MPI_SUM, win);
    MPI_Win_flush(peer, win);
}

static void await(void) {
    volatile uint32_t *const hint = (uint32_t *)(void *)window;
    uint32_t none = 0, seen = 0;
    ++messages;
    for (int round = 1; seen < messages; ++round) {
        int found;
        if (round % 16 == 0) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        if (*hint < messages && round % 256 != 0) continue;
        MPI_Fetch_and_op(&none, &seen, MPI_UINT32_T, rank, 0, MPI_NO_OP, win);
        MPI_Win_flush(rank, win);
    }
    MPI_Win_sync(win);
}

static void send(size_t n) {
    MPI_Request requests[LARGEST / PIECE];
    int k = 0;
    for (size_t at = 0; at < n; at += PIECE) {
        MPI_Isend(data + at, bytes(n - at), MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[k++]);
    }
    MPI_Waitall(k, requests, MPI_STATUSES_IGNORE);
}

static void receive(size_t n) {
    for (size_t at = 0; at < n; at += PIECE) {
        MPI_Recv(window + LINE + at, bytes(n - at), MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    MPI_Info info;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    MPI_Info_create(&info);
    MPI_Info_set(info, "accumulate_ordering", "none");
    MPI_Info_set(info, "acc_single_intrinsic", "true");
    MPI_Win_allocate(LINE + LARGEST, 1, info, MPI_COMM_WORLD, &window, &win);
    data = malloc(LARGEST);
    memset(data, 1, LARGEST);
    memset(window, 0, LINE + LARGEST);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Win_sync(win);
    for (int two = 0; two < 2; ++two) {
        for (size_t n = 8; n <= LARGEST; n *= n == 8 ? 8192 : 64) {
            const int repeat = n > PIECE * 8 ? 50 : 1000;
            double us[BLOCKS];
            for (int b = 0; b < BLOCKS; ++b) {
                MPI_Barrier(MPI_COMM_WORLD);
                const double start = MPI_Wtime();
                for (int i = 0; i < 2 * repeat; ++i) {
                    const int mine = i % 2 == rank;
                    if (two && mine) send(n);
                    else if (two) receive(n);
                    else if (mine) put(n);
                    else await();
                }
                us[b] = (MPI_Wtime() - start) / (2 * repeat) * 1e6;
            }
            qsort(us, BLOCKS, sizeof *us, by_value);
            if (rank != 0) continue;
            printf("%s %8zu B: %.2f us (%.2f to %.2f)\n", two ? "two-sided" : "one-sided", n, us[BLOCKS / 2], us[0],
                   us[BLOCKS - 1]);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}

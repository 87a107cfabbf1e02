/* The collective of MPI on the data of an emitted program: inputs, comparison and measurement are those
 * of that program. Written by kbc. */
#define KBC_LIBRARY
#include "@NAME@.c"

static void kbc_peer_kernel(struct kbc_rank *me, int64_t count, int64_t call, void *const *tensors) {
    const struct kbc_program *const program = &@NAME@_program;
    const int p = (int)me->nranks, n = (int)count;
    const void *x = 0;
    void *out = 0;
    for (int a = 0; a < program->arguments; ++a) {
        if (program->argument[a].result) out = tensors[a];
        else x = tensors[a];
    }
    (void)call;
    (void)p;
    @CALL@
}

/* No window: nothing is put. */
static void kbc_peer_sizes(int64_t nranks, int64_t count, struct kbc_sizes *out) {
    @NAME@_sizes(nranks, count, out);
    out->window = KBC_LINE;
}

int main(int argc, char **argv) {
    struct kbc_program peer = @NAME@_program;
    peer.kernel = kbc_peer_kernel;
    peer.sizes = kbc_peer_sizes;
    return kbc_main(&peer, argc, argv);
}

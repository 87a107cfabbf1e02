// One small kernel a case, chosen by a scalar. `expect` words are part of the failure, or `ok`; @+N is the line N below.
// Two ranks.
// tensors: in f32[64], out f32[64], window, status i32[16]; scalars: case, context, call. `expect, 2 calls` runs it twice.
#include <cstdint>
#include <pto/pto-inst.hpp>
#include "pto/comm/comm_types.hpp"
#include "pto/comm/pto_comm_inst.hpp"
#include "platform_comm/comm_context.h"
#include "tensor.h"
#include "intrinsic.h"

template <typename T> inline T *TensorOf(int64_t arg) {
    ChipTensor *t = reinterpret_cast<ChipTensor *>(arg);
    return reinterpret_cast<T *>(t->buffer.addr) + t->start_offset;
}
template <typename T> inline T *At(CommContext *ctx, T *local, int64_t peer) {
    return reinterpret_cast<T *>(ctx->windowsIn[peer] + (reinterpret_cast<uint64_t>(local) - ctx->windowsIn[ctx->rankId]));
}
using Dyn = pto::Shape<1, 1, 1, 1, pto::DYNAMIC>;
template <typename T> using Run = pto::GlobalTensor<T, Dyn, pto::Stride<1, 1, 1, 1, 1>, pto::Layout::ND>;
template <typename T, int N> using TileOf = pto::Tile<pto::TileType::Vec, T, 1, N, pto::BLayout::RowMajor, 1, pto::DYNAMIC>;
inline void Notify(CommContext *ctx, int32_t *counter, int64_t peer, int32_t by = 1,
                   pto::comm::NotifyOp op = pto::comm::NotifyOp::AtomicAdd) {
    pto::comm::Signal sig(At(ctx, counter, peer));
    pto::comm::TNOTIFY(sig, by, op);
}
inline void WaitFor(int32_t *counter, int32_t value, pto::comm::WaitCmp cmp = pto::comm::WaitCmp::GE) {
    pto::comm::Signal sig(counter);
    pto::comm::TWAIT(sig, value, cmp);
}
template <typename T> inline void Load(T &tile, float *from, int64_t n) {
    Run<float> g(from, Dyn(n));
    TLOAD(tile, g);
}
template <typename T> inline void Store(float *to, T &tile, int64_t n) {
    Run<float> g(to, Dyn(n));
    TSTORE(g, tile);
}
#define FLAG(from, to) set_flag(PIPE_##from, PIPE_##to, EVENT_ID0), wait_flag(PIPE_##from, PIPE_##to, EVENT_ID0)

extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t *args) {
    float *x = TensorOf<float>(args[0]);
    float *out = TensorOf<float>(args[1]);
    float *window = TensorOf<float>(args[2]);
    int32_t *counter = TensorOf<int32_t>(args[2]);
    int32_t *status = TensorOf<int32_t>(args[3]);
    CommContext *ctx = reinterpret_cast<CommContext *>(args[5]);
    const int64_t me = ctx->rankId, peer = 1 - me;
    TileOf<float, 64> a(64), b(64);
    TASSIGN(a, 0);
    TASSIGN(b, 256);
    float *data = window + 64;  // beyond four lines of counters

    switch (args[4]) {
        case 0:  // expect: ok
            Load(a, x, 64);
            FLAG(MTE2, V);
            TADDS(b, a, 1.0f);
            pipe_barrier(PIPE_V);
            TADD(a, b, b);
            FLAG(V, MTE3);
            Store(out, a, 64);
            break;
        case 1:  // expect: race: reads UB bytes 0..256, not ordered after rank 0 MTE2 TLOAD at kernel line @+1 (call 0)
            Load(a, x, 64);
            TADDS(b, a, 1.0f);
            break;
        case 2:  // expect: race: reads UB bytes 256..512, not ordered after rank 0 V TADDS
            Load(a, x, 64);
            FLAG(MTE2, V);
            TADDS(b, a, 1.0f);
            TADD(a, b, b);
            break;
        case 3:  // expect: no pipe_barrier(PIPE_V) orders them
            Load(a, x, 64);
            FLAG(MTE2, V);
            TADDS(b, a, 1.0f);
            TADDS(b, a, 2.0f);
            break;
        case 4:  // expect: no flag from V to MTE3
            TEXPANDS(a, 1.0f);
            Store(out, a, 64);
            break;
        case 5:  // expect: no flag from MTE3 to MTE2
            TEXPANDS(a, 1.0f);
            FLAG(V, MTE3);
            FLAG(V, MTE2);
            Store(out, a, 64);
            Load(a, x, 64);
            break;
        case 6:  // expect: no pipe_barrier(PIPE_MTE2) orders them
            Load(a, x, 64);
            Load(a, x, 64);
            break;
        case 7:  // expect: race: writes tensor 1 of rank 0 bytes 0..256, not ordered after rank 0 MTE3 TSTORE
            TEXPANDS(a, 1.0f);
            FLAG(V, MTE3);
            Store(out, a, 64);
            Store(out, a, 64);
            break;
        case 8:  // expect: race: reads tensor 1 of rank 0 bytes 0..256, not ordered after rank 0 MTE3 TSTORE
            TEXPANDS(a, 1.0f);
            FLAG(V, MTE3);
            Store(out, a, 64);
            Load(b, out, 64);
            break;
        case 9:  // expect: flag MTE2 to V event 0 is set already, at line @+1
            set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
            set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
            break;
        case 10:  // expect: wait_flag at kernel line @+1 (call 0): flag MTE2 to V event 1 is not set
            wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
            break;
        case 11:  // expect: flag MTE2 to V event 0, set at kernel line @+1, is never waited for
            set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
            break;
        case 12:  // expect: no such pipe
            pipe_barrier(PIPE_FIX);
            break;
        case 13:  // expect: tile address 0x8 is not 32-byte aligned
            TASSIGN(a, 8);
            break;
        case 14:  // expect: tile 0x2df20..0x2e020 ends beyond UB (184 KiB)
            TASSIGN(a, 188192);
            break;
        case 15:  // expect: valid size 1 x 65 of a tile of 1 x 64
            a.SetValidCol(65);
            Load(a, x, 65);
            break;
        case 16:  // expect: valid size 1 x 0 of a tile of 1 x 64
            a.SetValidCol(0);
            Load(a, x, 0);
            break;
        case 17:  // expect: valid size 1 x 64 is not the global shape 1 x 32
            Load(a, x, 32);
            break;
        case 18:  // expect: valid sizes differ: 1 x 64 and 1 x 8
            TEXPANDS(a, 1.0f);
            b.SetValidCol(8);
            TEXPANDS(b, 1.0f);
            TADD(a, a, b);
            break;
        case 19: {  // expect: uses a tile without an address
            TileOf<float, 64> c(64);
            TEXPANDS(c, 1.0f);
            break;
        }
        case 20:  // expect: out of bounds: bytes 4..260 of tensor 0 of rank 0, which has 256
            Load(a, x + 1, 64);
            break;
        case 21:  // expect: out of bounds: bytes 768..1280 of window of rank 1, which has 1024
            TASSIGN(b, 0x1000);
            TEXPANDS(b, 1.0f);
            FLAG(V, MTE3);
            for (int64_t i = 0; i < 64; ++i) {
                pto::Tile<pto::TileType::Vec, float, 1, 128> c;
                TASSIGN(c, 0x2000);
                Run<float> g(At(ctx, window + 192, peer), Dyn(128));
                TSTORE(g, c);
            }
            break;
        case 22:  // expect: out of bounds: byte -64 of tensor 0 of rank 0, which has 256
            Load(a, x - 16, 64);
            break;
        case 23:  // expect: writes tensor 0 of rank 0, which is an input
            TEXPANDS(a, 1.0f);
            FLAG(V, MTE3);
            Store(x, a, 64);
            break;
        case 24:  // expect: uninitialised: reads window of rank 0 bytes 256..512, of which 256 was never written
            Load(a, data, 64);
            break;
        case 25:  // expect: uninitialised: reads tensor 1
            Load(a, out, 64);
            break;
        case 26:  // expect: undefined: stores UB bytes 0x0..0x100
            Store(out, a, 64);
            break;
        case 27:  // expect: undefined: stores UB bytes 0x100..0x200, of which 0x1fc has no defined value
            a.SetValidCol(63);
            TEXPANDS(a, 1.0f);
            a.SetValidCol(64);
            pipe_barrier(PIPE_V);
            TADDS(b, a, 1.0f);
            FLAG(V, MTE3);
            Store(out, b, 64);
            break;
        case 28:  // expect: undefined: stores UB bytes 0x0..0x100, of which 0xe4 has no defined value
            TEXPANDS(a, 1.0f);
            FLAG(V, MTE2);
            a.SetValidCol(57);
            Load(a, x, 57);  // writes 64, defines 57
            a.SetValidCol(64);
            FLAG(MTE2, MTE3);
            Store(out, a, 64);
            break;
        case 29:  // expect: two writers of one counter: byte 0 belongs to rank 0
            Notify(ctx, counter, 0);
            break;
        case 30:  // expect: counters at bytes 0 and 4 of window of rank 1 share a line
            Notify(ctx, counter, peer);
            Notify(ctx, counter + 1, peer);
            break;
        case 31:  // expect: the counter at byte 256 of window of rank 0 shares a line with data
            TEXPANDS(a, 1.0f);
            FLAG(V, MTE3);
            Store(data, a, 64);
            Notify(ctx, counter + 64, me);
            break;
        case 32:  // expect: shares a line with the counter at 256
            Notify(ctx, counter + 64, me);
            TEXPANDS(a, 1.0f);
            FLAG(V, MTE3);
            Store(data, a, 64);
            break;
        case 33:  // expect: NotifyOp::Set writes a whole line
            Notify(ctx, counter, peer, 1, pto::comm::NotifyOp::Set);
            break;
        case 34:  // expect: adds 2: a counter counts events
            Notify(ctx, counter, peer, 2);
            break;
        case 35:  // expect: only local counters can be waited for
            WaitFor(At(ctx, counter, peer), 1);
            break;
        case 36:  // expect: all waiting; rank 0 waits at kernel line @+1 (call 0, after TASSIGN at line 51) for counter at 0 >= 1, which is 0; rank 1 waits
            WaitFor(counter, 1);
            break;
        case 37:  // expect: all waiting; rank 1 waits
            if (me == 1) WaitFor(counter, 1);
            break;
        case 38:  // expect: the counter is in no window
            Notify(ctx, At(ctx, counter + 4096, peer), 0);
            break;
        case 39:  // expect: the kernel ends before MTE2 is drained
            Load(a, x, 64);
            return;
        case 40:  // expect: a scalar store to tensor 3 of rank 0 byte 4 is not written back by dcci
            status[1] = 7;
            break;
        case 41:  // expect: no dsb(DSB_DDR) after the dcci at kernel line @+3
            pipe_barrier(PIPE_ALL);
            status[1] = 7;
            dcci((__gm__ void *)status, cache_line_t::SINGLE_CACHE_LINE, dcci_dst_t::CACHELINE_OUT);
            return;
        case 42:  // expect: dcci at kernel line @+1 (call 0): the address is in no tensor
            dcci((__gm__ void *)ctx, cache_line_t::SINGLE_CACHE_LINE, dcci_dst_t::CACHELINE_OUT);
            break;
        case 43:  // expect: TWAIT is modelled for EQ, GT and GE
            WaitFor(counter, 1, pto::comm::WaitCmp::LT);
            break;
        case 44:  // expect: source and destination overlap in UB: 0x20 and 0x0
            TASSIGN(b, 32);
            TEXPANDS(a, 1.0f);
            pipe_barrier(PIPE_V);
            TADDS(b, a, 1.0f);
            break;
        case 45: {  // expect: source and destination overlap in UB: 0x0 and 0x0
            pto::Tile<pto::TileType::Vec, half, 1, 64> h;
            TASSIGN(h, 0);
            TEXPANDS(a, 1.0f);
            pipe_barrier(PIPE_V);
            TCVT(h, a, pto::RoundMode::CAST_RINT);
            break;
        }
        case 46:  // expect: TRECIP at kernel line @+3 (call 0): in place
            TEXPANDS(a, 1.0f);
            pipe_barrier(PIPE_V);
            TRECIP(a, a);
            break;
        // Between ranks: rank 0 puts, rank 1 reads. Complete here; each later one lacks something.
        case 47:    // expect: ok
        case 48:    // expect: no release (pipe_barrier(PIPE_ALL), dsb), notify, wait and acquire
        case 49:    // expect: no release (pipe_barrier(PIPE_ALL), dsb), notify, wait and acquire
        case 50:    // expect: no release (pipe_barrier(PIPE_ALL), dsb), notify, wait and acquire
        case 51:    // expect: no release (pipe_barrier(PIPE_ALL), dsb), notify, wait and acquire
        case 52: {  // expect: race: reads window of rank 1
            const int64_t c = args[4];
            if (c == 52 && me == 1) Load(b, data, 64);
            if (me == 0) {
                TEXPANDS(a, 2.0f);
                FLAG(V, MTE3);
                Store(At(ctx, data, peer), a, 64);
                if (c == 51) dsb(DSB_DDR);
                if (c == 48) FLAG(MTE3, S);  // drained, but not by the barrier
                else pipe_barrier(PIPE_ALL);
                if (c != 49 && c != 51) dsb(DSB_DDR);
                Notify(ctx, counter, peer);
            } else {
                WaitFor(counter, 1);
                if (c == 50) FLAG(S, MTE2);
                else pipe_barrier(PIPE_ALL);
                Load(b, data, 64);
                FLAG(MTE2, MTE3);
                Store(out, b, 64);
            }
            break;
        }
        case 53:    // expect: ok
        case 54: {  // expect: race: writes window of rank 1 bytes 256..512, not ordered after rank 1 MTE2 TLOAD
            // The second put needs to know that the first was read: the reader's notify comes after its own fence.
            if (me == 0) {
                TEXPANDS(a, 2.0f);
                FLAG(V, MTE3);
                Store(At(ctx, data, peer), a, 64);
                pipe_barrier(PIPE_ALL);
                dsb(DSB_DDR);
                Notify(ctx, counter, peer);
                WaitFor(counter + 16, 1);
                pipe_barrier(PIPE_ALL);
                Store(At(ctx, data, peer), a, 64);
            } else {
                WaitFor(counter, 1);
                pipe_barrier(PIPE_ALL);
                dsb(DSB_DDR);
                Load(b, data, 64);
                pipe_barrier(PIPE_ALL);
                if (args[4] == 53) dsb(DSB_DDR);
                Notify(ctx, counter + 16, peer);
            }
            break;
        }
        case 55: {  // expect: no release (pipe_barrier(PIPE_ALL), dsb), notify, wait and acquire
            // A later add carries more, and was not waited for.
            if (me == 0) {
                Notify(ctx, counter, peer);
                TEXPANDS(a, 2.0f);
                FLAG(V, MTE3);
                Store(At(ctx, data, peer), a, 64);
                pipe_barrier(PIPE_ALL);
                dsb(DSB_DDR);
                Notify(ctx, counter, peer);
            } else {
                WaitFor(counter, 1);
                pipe_barrier(PIPE_ALL);
                Load(b, data, 64);
            }
            break;
        }
        case 56: {  // expect: no release (pipe_barrier(PIPE_ALL), dsb), notify, wait and acquire
            // A test orders nothing, whatever it says.
            pto::comm::Signal sig(counter);
            if (me == 0) {
                TEXPANDS(a, 2.0f);
                FLAG(V, MTE3);
                Store(At(ctx, data, peer), a, 64);
                pipe_barrier(PIPE_ALL);
                dsb(DSB_DDR);
                Notify(ctx, counter, peer);
            } else if (pto::comm::TTEST(sig, 1, pto::comm::WaitCmp::GE) || true) {
                pipe_barrier(PIPE_ALL);
                Load(b, data, 64);
            }
            break;
        }
        case 57:  // expect: accesses the tensor 0 of rank 1: only windows are shared
            // Rank 1 tells its address, which only works here because ranks share one process.
            if (me == 1) {
                int32_t half_of[2];
                __builtin_memcpy(half_of, &x, 8);
                for (int i = 0; i < 2; ++i) At(ctx, counter + 160, peer)[i] = half_of[i];
                Notify(ctx, counter, peer);
            } else {
                WaitFor(counter, 1);
                float *other;
                __builtin_memcpy(&other, counter + 160, 8);
                Load(a, other, 64);
            }
            break;
        case 58:  // expect: ok
            if (get_block_idx(args) != 0 || get_block_num(args) != 1 || get_sub_block_id(args) != 0) {
                WaitFor(counter, 1);
            }
            break;
        case 59: {  // expect: polled in vain 1000 times: a rank that waits uses TWAIT
            pto::comm::Signal sig(counter);
            while (!pto::comm::TTEST(sig, 1, pto::comm::WaitCmp::GE)) {
            }
            break;
        }
        case 60:  // expect: TNOTIFY at kernel line @+2 (call 0), after TEXPANDS at line @+1: counter at byte 2 is misaligned
            TEXPANDS(a, 1.0f);
            Notify(ctx, reinterpret_cast<int32_t *>(reinterpret_cast<uint8_t *>(counter) + 2), peer);
            break;
        case 61: {  // expect: ok
            // Two tiles in turn: a load overlaps the store of the tile before.
            TileOf<float, 8> t[2] = {8u, 8u};
            for (int i = 0; i < 2; ++i) {
                TASSIGN(t[i], 0x1000 + i * 32);
                set_flag(PIPE_MTE3, PIPE_MTE2, i);
            }
            for (int64_t i = 0; i < 8; ++i) {
                wait_flag(PIPE_MTE3, PIPE_MTE2, i % 2);
                Load(t[i % 2], x + i * 8, 8);
                set_flag(PIPE_MTE2, PIPE_MTE3, i % 2);
                wait_flag(PIPE_MTE2, PIPE_MTE3, i % 2);
                Store(out + i * 8, t[i % 2], 8);
                set_flag(PIPE_MTE3, PIPE_MTE2, i % 2);
            }
            for (int i = 0; i < 2; ++i) wait_flag(PIPE_MTE3, PIPE_MTE2, i);
            break;
        }
        case 62:    // expect: ok
        case 63: {  // expect: notify, wait and acquire
            // A stream through two slots, with a credit for each; without the credits slots are written too early.
            TileOf<float, 8> t(8);
            TASSIGN(t, 0x1000);
            for (int i = 0; i < 8; ++i) {
                float *slot = data + i % 2 * 16;
                if (me == 0) {
                    if (i >= 2 && args[4] == 62) WaitFor(counter + 16, i - 1);
                    pipe_barrier(PIPE_ALL);
                    Load(t, x + i * 8, 8);
                    FLAG(MTE2, MTE3);
                    Store(At(ctx, slot, peer), t, 8);
                } else {
                    WaitFor(counter, i + 1);
                    pipe_barrier(PIPE_ALL);
                    Load(t, slot, 8);
                    FLAG(MTE2, MTE3);
                    Store(out + i * 8, t, 8);
                }
                pipe_barrier(PIPE_ALL);
                dsb(DSB_DDR);
                Notify(ctx, me == 0 ? counter : counter + 16, peer);
            }
            break;
        }
        case 64:  // expect: not ordered after rank 0 V TADDS
            // Two readers, and a write that waits for one of them.
            Load(a, x, 64);
            FLAG(MTE2, V);
            FLAG(MTE2, MTE3);
            TADDS(b, a, 1.0f);
            Store(out, a, 64);
            FLAG(MTE3, MTE2);
            Load(a, x, 64);
            break;
        case 65:  // expect: no flag from MTE2 to V
            Load(a, x, 64);
            pipe_barrier(PIPE_MTE2);
            TADDS(b, a, 1.0f);
            break;
        case 66:  // expect, 2 calls: undefined: stores UB bytes 0x0..0x100
            // UB does not outlive a launch.
            if (args[6] == 0) TEXPANDS(a, 1.0f);
            else Store(out, a, 64);
            break;
        case 67:  // expect: reads a scalar store to tensor 1 of rank 0 that no dcci has written back
            TEXPANDS(a, 1.0f);
            FLAG(V, MTE3);
            Store(out, a, 64);
            pipe_barrier(PIPE_ALL);
            out[3] = 5.0f;
            Load(b, out, 64);
            break;
        default:
            status[0] = -1;
            return;
    }
    pipe_barrier(PIPE_ALL);
    dsb(DSB_DDR);
}

// Every arithmetic instruction on its own: out = op(a, b), chosen by a scalar. One rank.
// tensors: a, b f32[n]; c, d i32[n]; out f32[n], i32[n], u16[n]; scalars: op, n, round mode.
#include <cstdint>
#include <pto/pto-inst.hpp>
#include "tensor.h"

template <typename T> inline T *TensorOf(int64_t arg) {
    ChipTensor *t = reinterpret_cast<ChipTensor *>(arg);
    return reinterpret_cast<T *>(t->buffer.addr) + t->start_offset;
}
using Dyn = pto::Shape<1, 1, 1, 1, pto::DYNAMIC>;
template <typename T> using Run = pto::GlobalTensor<T, Dyn, pto::Stride<1, 1, 1, 1, 1>, pto::Layout::ND>;
template <typename T> using T1 = pto::Tile<pto::TileType::Vec, T, 1, 1024, pto::BLayout::RowMajor, 1, pto::DYNAMIC>;

extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t *args) {
    const int64_t op = args[7], n = args[8];
    const auto mode = static_cast<pto::RoundMode>(args[9]);
    T1<float> a(n), b(n), r(n);
    T1<int32_t> c(n), d(n), s(n);
    T1<half> ha(n), hb(n), hr(n);
    T1<bfloat16_t> bf(n);
    T1<int16_t> sa(n), sb(n);
    T1<uint8_t> mask(n), scratch(n);
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(r, 0x2000);
    TASSIGN(c, 0x3000);
    TASSIGN(d, 0x4000);
    TASSIGN(s, 0x5000);
    TASSIGN(ha, 0x6000);
    TASSIGN(hb, 0x6800);
    TASSIGN(hr, 0x7000);
    TASSIGN(bf, 0x7800);
    TASSIGN(mask, 0x8000);
    TASSIGN(scratch, 0x8400);
    TASSIGN(sa, 0x8800);
    TASSIGN(sb, 0x9000);
    Run<float> ga(TensorOf<float>(args[0]), Dyn(n)), gb(TensorOf<float>(args[1]), Dyn(n)), gr(TensorOf<float>(args[4]), Dyn(n));
    Run<int32_t> gc(TensorOf<int32_t>(args[2]), Dyn(n)), gd(TensorOf<int32_t>(args[3]), Dyn(n)), gs(TensorOf<int32_t>(args[5]), Dyn(n));
    TLOAD(a, ga);
    TLOAD(b, gb);
    TLOAD(c, gc);
    TLOAD(d, gd);
    pipe_barrier(PIPE_ALL);
    TEXPANDS(r, 0.0f);
    TEXPANDS(s, 0);
    TEXPANDS(hr, static_cast<half>(0.0f));
    TCVT(ha, a, pto::RoundMode::CAST_RINT);
    TCVT(hb, b, pto::RoundMode::CAST_RINT);
    pipe_barrier(PIPE_V);
    switch (op) {
        case 0: TADD(r, a, b); TADD(hr, ha, hb); TADD(s, c, d); break;
        case 1: TSUB(r, a, b); TSUB(hr, ha, hb); TSUB(s, c, d); break;
        case 2: TMUL(r, a, b); TMUL(hr, ha, hb); TMUL(s, c, d); break;
        case 3: TDIV(r, a, b); TDIV(hr, ha, hb); break;
        case 4: TMAX(r, a, b); TMAX(hr, ha, hb); TMAX(s, c, d); break;
        case 5: TMIN(r, a, b); TMIN(hr, ha, hb); TMIN(s, c, d); break;
        case 6: TADDS(r, a, 1.5f); TADDS(hr, ha, static_cast<half>(1.5f)); TADDS(s, c, 3); break;
        case 7: TSUBS(r, a, 1.5f); TSUBS(hr, ha, static_cast<half>(1.5f)); TSUBS(s, c, 3); break;
        case 8: TMULS(r, a, 1.5f); TMULS(hr, ha, static_cast<half>(1.5f)); TMULS(s, c, 3); break;
        case 9: TMAXS(r, a, 1.5f); TMAXS(hr, ha, static_cast<half>(1.5f)); TMAXS(s, c, 3); break;
        case 10: TMINS(r, a, 1.5f); TMINS(hr, ha, static_cast<half>(1.5f)); TMINS(s, c, 3); break;
        case 11: TDIVS(r, a, 1.5f); TDIVS(hr, ha, static_cast<half>(1.5f)); break;
        case 12: TDIVS(r, 1.5f, a); TDIVS(hr, static_cast<half>(1.5f), ha); break;
        case 13: TRECIP(r, a); TRECIP(hr, ha); break;
        case 14: TNEG(r, a); TNEG(hr, ha); TNEG(s, c); break;
        case 15: TABS(r, a); TABS(hr, ha); break;
        case 16: TSQRT(r, a); TSQRT(hr, ha); break;
        case 17: TRSQRT(r, a); TRSQRT(hr, ha); break;
        case 18: TEXP(r, a); TEXP(hr, ha); break;
        case 19: TLOG(r, a); TLOG(hr, ha); break;
        case 20: TMOV(r, a); TMOV(hr, ha); TMOV(s, c); break;
        case 21: TCVT(hr, a, mode); TCVT(r, ha, pto::RoundMode::CAST_NONE); break;
        case 22:
            TCVT(bf, a, mode);
            pipe_barrier(PIPE_V);
            TCVT(r, bf, pto::RoundMode::CAST_NONE);
            break;
        case 23: TCVT(r, c, pto::RoundMode::CAST_RINT); TCVT(s, b, mode); break;  // b is within int32
        case 24:
            TCMP(mask, a, b, pto::CmpMode::LT);
            pipe_barrier(PIPE_V);
            TSEL(r, mask, a, b, scratch);
            break;
        case 25:
            TCMPS(mask, ha, static_cast<half>(1.0f), pto::CmpMode::GE);
            pipe_barrier(PIPE_V);
            TSELS(hr, mask, ha, scratch, static_cast<half>(-1.0f));
            break;
        case 26:  // 16-bit integers: d is within int16
            TCVT(sa, d, pto::RoundMode::CAST_NONE);
            pipe_barrier(PIPE_V);
            TMUL(sb, sa, sa);
            pipe_barrier(PIPE_V);
            TCVT(r, sb, pto::RoundMode::CAST_NONE);
            break;
        default: break;
    }
    pipe_barrier(PIPE_ALL);
    TSTORE(gr, r);
    TSTORE(gs, s);
    Run<half> gh(reinterpret_cast<half *>(TensorOf<uint16_t>(args[6])), Dyn(n));
    TSTORE(gh, hr);
    if (op == 100) {  // 3 rows of 40 from rows of 50, to rows of 45
        using Two = pto::Shape<1, 1, 1, 3, pto::DYNAMIC>;
        pto::Tile<pto::TileType::Vec, float, 4, 64, pto::BLayout::RowMajor, pto::DYNAMIC, pto::DYNAMIC> t(3, 40);
        pto::TASSIGN<0xa000>(t);
        pto::GlobalTensor<float, Two, pto::Stride<1, 1, 1, 50, 1>> from(TensorOf<float>(args[0]), Two(40));
        pto::GlobalTensor<float, Two, pto::Stride<1, 1, 1, pto::DYNAMIC, 1>> to(TensorOf<float>(args[4]), Two(40),
                                                                               pto::Stride<1, 1, 1, pto::DYNAMIC, 1>(45));
        pipe_barrier(PIPE_ALL);
        TLOAD(t, from);
        pipe_barrier(PIPE_ALL);
        TSTORE(to, t);
    }
    pipe_barrier(PIPE_ALL);
}

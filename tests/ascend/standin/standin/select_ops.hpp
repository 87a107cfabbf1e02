// Comparisons to bit masks and selection by them: bit c of a row's mask belongs to column c, lowest bit first.
#pragma once
#include "standin/vector_ops.hpp"

namespace standin {

template <typename T>
bool compare(T a, T b, pto::CmpMode mode) {
    switch (mode) {
        case pto::CmpMode::EQ: return a == b;
        case pto::CmpMode::NE: return a != b;
        case pto::CmpMode::LT: return a < b;
        case pto::CmpMode::LE: return a <= b;
        case pto::CmpMode::GT: return a > b;
        default: return a >= b;
    }
}
template <typename T>
T element(const T *, uint64_t address) {
    T x;
    std::memcpy(&x, ub(address), sizeof x);
    return x;
}

// A row of the mask: whole repeats of 256 source bytes are compared, so whole groups of bits are written.
template <typename Mask, typename A, typename F>
void masked(const Op &op, Mask &dst, A &a, pto::CmpMode mode, F bit) {
    using T = typename A::DType;
    static_assert(std::is_same_v<typename Mask::DType, uint8_t>, "the mask is a tile of uint8_t");
    check_tile(op, dst);
    if (dst.GetValidRow() != a.GetValidRow()) {
        fail(op, "the mask has %u rows, the tile %u", dst.GetValidRow(), a.GetValidRow());
    }
    if (std::is_same_v<T, int32_t> && mode != pto::CmpMode::EQ && mode != pto::CmpMode::NE) {
        fail(op, "int32_t is compared for EQ and NE only");
    }
    const uint64_t per_repeat = 256 / sizeof(T), cols = a.GetValidCol();
    const uint64_t bytes = (cols + per_repeat - 1) / per_repeat * per_repeat / 8;
    if (bytes > static_cast<uint64_t>(Mask::Cols)) {
        fail(op, "a row of the mask has %d bytes, %llu are written", Mask::Cols, Big(bytes));
    }
    for (uint64_t r = 0; r < a.GetValidRow(); ++r) {
        ub_write(op, at(dst, r, 0), bytes);
        for (uint64_t b = 0; b < bytes; ++b) {
            unsigned packed = 0;
            bool defined = b * 8 < cols;
            for (uint64_t c = b * 8; c < cols && c < b * 8 + 8; ++c) {
                const int v = bit(r, c);
                defined = defined && v >= 0;
                packed |= static_cast<unsigned>(v > 0) << (c % 8);
            }
            *ub(at(dst, r, b)) = static_cast<uint8_t>(packed);
            if (!defined) ub_undefine(at(dst, r, b), 1);
        }
    }
}

// dst = bit ? a : b(r, c).
template <typename D, typename Mask, typename A, typename Tmp, typename F>
void select(const Op &op, D &dst, Mask &mask, A &a, Tmp &tmp, F other) {
    using T = typename D::DType;
    check_tile(op, dst);
    check_tile(op, mask);
    check_tile(op, a);
    if (tmp.address == Tmp::kNowhere) fail(op, "uses a tile without an address (TASSIGN)");
    check_same_valid(op, dst, a);
    check_overlap(op, dst, a, true);
    const uint64_t cols = dst.GetValidCol();
    // The address of the mask's row is written to tmp, one 32-byte block.
    ub_write(op, tmp.address, 32);
    ub_undefine(tmp.address, 32);
    for (uint64_t r = 0; r < dst.GetValidRow(); ++r) {
        ub_read(op, at(mask, r, 0), (cols + 7) / 8);
        ub_read(op, at(a, r, 0), cols * sizeof(T));
        std::vector<T> row(cols);
        std::vector<uint64_t> undefined;
        for (uint64_t c = 0; c < cols; ++c) {
            const bool bit = *ub(at(mask, r, c / 8)) >> (c % 8) & 1;
            bool defined = ub_defined(at(mask, r, c / 8), 1);
            if (bit) {
                row[c] = element<T>(nullptr, at(a, r, c));
                defined = defined && ub_defined(at(a, r, c), sizeof(T));
            } else {
                row[c] = other(r, c, defined);
            }
            if (!defined) undefined.push_back(c);
        }
        ub_write(op, at(dst, r, 0), cols * sizeof(T));
        std::memcpy(ub(at(dst, r, 0)), row.data(), cols * sizeof(T));
        for (uint64_t c : undefined) ub_undefine(at(dst, r, c), sizeof(T));
    }
}

}  // namespace standin

namespace pto {

template <typename D, typename A, typename B>
RecordEvent TCMP(D &dst, A &a, B &b, CmpMode mode, int line = __builtin_LINE()) {
    using T = typename A::DType;
    static_assert(std::is_same_v<T, typename B::DType>, "TCMP: the tiles differ in element type");
    static_assert(standin::one_of<T, int32_t, half, float>, "TCMP: element type must be int32_t, half or float");
    const standin::Op op = standin::begin("TCMP", standin::LaneV, line);
    standin::check_tile(op, a);
    standin::check_tile(op, b);
    standin::check_same_valid(op, a, b);
    for (uint64_t r = 0; r < a.GetValidRow(); ++r) {
        standin::ub_read(op, standin::at(a, r, 0), a.GetValidCol() * sizeof(T));
        standin::ub_read(op, standin::at(b, r, 0), a.GetValidCol() * sizeof(T));
    }
    standin::masked(op, dst, a, mode, [&](uint64_t r, uint64_t c) {
        const uint64_t x = standin::at(a, r, c), y = standin::at(b, r, c);
        if (!standin::ub_defined(x, sizeof(T)) || !standin::ub_defined(y, sizeof(T))) return -1;
        return int{standin::compare(standin::element<T>(nullptr, x), standin::element<T>(nullptr, y), mode)};
    });
    return {};
}

template <typename D, typename A>
RecordEvent TCMPS(D &dst, A &a, typename A::DType scalar, CmpMode mode, int line = __builtin_LINE()) {
    using T = typename A::DType;
    static_assert(standin::one_of<T, int32_t, half, float>,
                  "TCMPS: element type must be int32_t, half or float (a2a3 compares 16-bit integers as half)");
    const standin::Op op = standin::begin("TCMPS", standin::LaneV, line);
    standin::check_tile(op, a);
    for (uint64_t r = 0; r < a.GetValidRow(); ++r) {
        standin::ub_read(op, standin::at(a, r, 0), a.GetValidCol() * sizeof(T));
    }
    standin::masked(op, dst, a, mode, [&](uint64_t r, uint64_t c) {
        const uint64_t x = standin::at(a, r, c);
        if (!standin::ub_defined(x, sizeof(T))) return -1;
        return int{standin::compare(standin::element<T>(nullptr, x), scalar, mode)};
    });
    return {};
}

template <typename D, typename Mask, typename Tmp>
RecordEvent TSEL(D &dst, Mask &mask, D &a, D &b, Tmp &tmp, int line = __builtin_LINE()) {
    using T = typename D::DType;
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "TSEL: element type must have 16 or 32 bits");
    const standin::Op op = standin::begin("TSEL", standin::LaneV, line);
    standin::check_tile(op, b);
    standin::check_same_valid(op, dst, b);
    standin::check_overlap(op, dst, b, true);
    for (uint64_t r = 0; r < b.GetValidRow(); ++r) {
        standin::ub_read(op, standin::at(b, r, 0), b.GetValidCol() * sizeof(T));
    }
    standin::select(op, dst, mask, a, tmp, [&](uint64_t r, uint64_t c, bool &defined) {
        defined = defined && standin::ub_defined(standin::at(b, r, c), sizeof(T));
        return standin::element<T>(nullptr, standin::at(b, r, c));
    });
    return {};
}

template <typename D, typename Mask, typename A, typename Tmp>
RecordEvent TSELS(D &dst, Mask &mask, A &a, Tmp &tmp, typename A::DType scalar, int line = __builtin_LINE()) {
    using T = typename D::DType;
    static_assert(std::is_same_v<T, typename A::DType>, "TSELS: the tiles differ in element type");
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "TSELS: element type must have 16 or 32 bits");
    const standin::Op op = standin::begin("TSELS", standin::LaneV, line);
    standin::select(op, dst, mask, a, tmp, [&](uint64_t, uint64_t, bool &) { return scalar; });
    return {};
}

}  // namespace pto

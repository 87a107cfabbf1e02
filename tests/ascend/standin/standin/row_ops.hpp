// Instructions along rows: combinations of a row, and one element for all of it.
#pragma once
#include <cmath>
#include <cstring>

#include "standin/cube_ops.hpp"
#include "standin/tile.hpp"
#include "standin/vector_ops.hpp"

namespace standin {

template <typename D, typename S, typename W, typename F>
void combine_rows(const Op &op, D &dst, S &src, W &work, F f) {
    using T = typename S::DType;
    static_assert(std::is_same_v<T, typename D::DType> && std::is_same_v<T, typename W::DType>,
                  "the tiles differ in element type");
    static_assert(real<T>, "element type must be half or float (integers are not modelled)");
    check_tile(op, dst);
    check_tile(op, src);
    check_tile(op, work);
    if (dst.GetValidRow() != src.GetValidRow() || dst.GetValidCol() != 1) {
        fail(op, "rows of %u x %u are combined into %u x %u", src.GetValidRow(), src.GetValidCol(), dst.GetValidRow(),
             dst.GetValidCol());
    }
    if (W::Rows < S::Rows || W::Cols < S::Cols) fail(op, "the tile to work in is smaller than the rows");
    check_overlap(op, dst, src, false);
    check_overlap(op, work, src, false);
    check_overlap(op, dst, work, false);
    const auto values = taken(op, src);
    const uint64_t cols = src.GetValidCol();
    for (uint64_t r = 0; r < src.GetValidRow(); ++r) {
        // What it leaves there is nobody's business.
        ub_write(op, at(work, r, 0), cols * sizeof(T));
        ub_undefine(at(work, r, 0), cols * sizeof(T));
        T sum = values[r * cols];
        for (uint64_t c = 1; c < cols; ++c) sum = f(sum, values[r * cols + c]);
        ub_write(op, at(dst, r, 0), sizeof sum);
        std::memcpy(ub(at(dst, r, 0)), &sum, sizeof sum);
    }
}

}  // namespace standin

namespace pto {

template <typename D, typename S, typename W>
RecordEvent TROWSUM(D &dst, S &src, W &work, int line = __builtin_LINE()) {
    using T = typename S::DType;
#ifdef __CPU_SIM
    // include/pto/cpu/TRowSum.hpp; the headers of the devices do not ask for it.
    static_assert(D::Rows == S::Rows, "the simulator sums tiles of equally many rows");
#endif
    standin::combine_rows(standin::begin("TROWSUM", standin::LaneV, line), dst, src, work,
                          [](T a, T b) { return standin::add(a, b); });
    return {};
}
template <typename D, typename S, typename W>
RecordEvent TROWMAX(D &dst, S &src, W &work, int line = __builtin_LINE()) {
    using T = typename S::DType;
    standin::combine_rows(standin::begin("TROWMAX", standin::LaneV, line), dst, src, work,
                          [](T a, T b) { return standin::extreme<true>(a, b); });
    return {};
}
template <typename D, typename S, typename W>
RecordEvent TROWMIN(D &dst, S &src, W &work, int line = __builtin_LINE()) {
    using T = typename S::DType;
    standin::combine_rows(standin::begin("TROWMIN", standin::LaneV, line), dst, src, work,
                          [](T a, T b) { return standin::extreme<false>(a, b); });
    return {};
}

// Every row is the first row of the other tile. Whole blocks of 32 bytes are copied.
template <typename D, typename S>
RecordEvent TCOLEXPAND(D &dst, S &src, int line = __builtin_LINE()) {
    using T = typename D::DType;
    static_assert(std::is_same_v<T, typename S::DType>, "TCOLEXPAND: the tiles differ in element type");
    static_assert(sizeof(T) <= 4, "TCOLEXPAND: element type must have 8, 16 or 32 bits");
    static_assert(D::isRowMajor && S::isRowMajor, "TCOLEXPAND: the tiles must be row-major");
    const standin::Op op = standin::begin("TCOLEXPAND", standin::LaneV, line);
    standin::check_tile(op, dst);
    standin::check_tile(op, src);
    if (dst.GetValidCol() != src.GetValidCol()) standin::fail(op, "the tiles differ in columns");
    standin::check_overlap(op, dst, src, false);
    const uint64_t bytes = dst.GetValidCol() * sizeof(T), block = (bytes + 31) / 32 * 32;
    for (uint64_t r = 0; r < dst.GetValidRow(); ++r) {
        const uint64_t to = standin::at(dst, r, 0);
        standin::ub_read(op, src.address, bytes);
        standin::ub_write(op, to, block);
        std::memcpy(standin::ub(to), standin::ub(src.address), bytes);
        for (uint64_t c = 0; c < dst.GetValidCol(); ++c) {
            const uint64_t at = c * sizeof(T);
            if (!standin::ub_defined(src.address + at, sizeof(T))) standin::ub_undefine(to + at, sizeof(T));
        }
        if (block != bytes) standin::ub_undefine(to + bytes, block - bytes);
    }
    return {};
}

// Every element of a row is the first one of the other tile's.
template <typename D, typename S>
RecordEvent TROWEXPAND(D &dst, S &src, int line = __builtin_LINE()) {
    using T = typename D::DType;
    static_assert(std::is_same_v<T, typename S::DType>, "TROWEXPAND: the tiles differ in element type");
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "TROWEXPAND: element type must have 16 or 32 bits");
    const standin::Op op = standin::begin("TROWEXPAND", standin::LaneV, line);
    standin::check_tile(op, dst);
    standin::check_tile(op, src);
    if (dst.GetValidRow() != src.GetValidRow()) standin::fail(op, "the tiles differ in rows");
    standin::check_overlap(op, dst, src, false);
    const uint64_t cols = dst.GetValidCol();
    for (uint64_t r = 0; r < dst.GetValidRow(); ++r) {
        const bool defined = standin::ub_read(op, standin::at(src, r, 0), sizeof(T)) == 0;
        standin::ub_write(op, standin::at(dst, r, 0), cols * sizeof(T));
        for (uint64_t c = 0; c < cols; ++c) {
            std::memcpy(standin::ub(standin::at(dst, r, c)), standin::ub(standin::at(src, r, 0)), sizeof(T));
        }
        if (!defined) standin::ub_undefine(standin::at(dst, r, 0), cols * sizeof(T));
    }
    return {};
}

}  // namespace pto

// The cube unit: blocks from L1 to L0A and L0B, products of them summed up in L0C.
#pragma once
#include <cmath>
#include <cstring>
#include <vector>

#include "standin/tile.hpp"

namespace standin {

// The valid elements of a tile, row by row; all of them must be defined.
template <typename T>
std::vector<typename T::DType> taken(const Op &op, const T &tile) {
    using E = typename T::DType;
    const uint64_t rows = tile.GetValidRow(), cols = tile.GetValidCol();
    std::vector<E> out(rows * cols);
    for (uint64_t r = 0; r < rows; ++r) {
        if (ub_read(op, at(tile, r, 0), cols * sizeof(E)) != 0) {
            fail(op, "undefined: row %llu of a tile in %s has elements without a defined value", Big(r),
                 kSpaceNames[T::kSpace]);
        }
        std::memcpy(out.data() + r * cols, ub(at(tile, r, 0)), cols * sizeof(E));
    }
    return out;
}

template <typename T>
void put(const Op &op, T &tile, const std::vector<typename T::DType> &values) {
    using E = typename T::DType;
    const uint64_t cols = tile.GetValidCol();
    for (uint64_t r = 0; r < tile.GetValidRow(); ++r) {
        ub_write(op, at(tile, r, 0), cols * sizeof(E));
        std::memcpy(ub(at(tile, r, 0)), values.data() + r * cols, cols * sizeof(E));
    }
}

// The block of `src` that begins at a row and a column and has the valid size of `dst`. The instruction moves the whole
// of `dst`: what is beyond its valid size is moved too, and undefined.
template <typename D, typename A>
void extract(const Op &op, D &dst, A &src, uint64_t row, uint64_t col) {
    static_assert(A::Loc == pto::TileType::Mat && (D::Loc == pto::TileType::Left || D::Loc == pto::TileType::Right),
                  "TEXTRACT goes from L1 to L0A or L0B");
    static_assert(std::is_same_v<typename D::DType, typename A::DType>, "TEXTRACT: the tiles differ in element type");
    check_tile(op, dst);
    check_tile(op, src);
    if (row % 16 != 0 || col % 16 != 0) fail(op, "a block from row %llu, column %llu: not multiples of 16", Big(row), Big(col));
    if (row + D::Rows > A::Rows || col + D::Cols > A::Cols) {
        fail(op, "%d x %d from row %llu, column %llu of a tile of %d x %d", D::Rows, D::Cols, Big(row), Big(col), A::Rows,
             A::Cols);
    }
    if (row + dst.GetValidRow() > src.GetValidRow() || col + dst.GetValidCol() > src.GetValidCol()) {
        fail(op, "%u x %u from row %llu, column %llu of %u x %u valid ones", dst.GetValidRow(), dst.GetValidCol(), Big(row),
             Big(col), src.GetValidRow(), src.GetValidCol());
    }
    ub_undefine(dst.address, D::kBytes);
    using E = typename D::DType;
    const uint64_t cols = dst.GetValidCol();
    std::vector<E> values(dst.GetValidRow() * cols);
    for (uint64_t r = 0; r < dst.GetValidRow(); ++r) {
        if (ub_read(op, at(src, row + r, col), cols * sizeof(E)) != 0) {
            fail(op, "undefined: row %llu of a tile in L1 has elements without a defined value", Big(row + r));
        }
        std::memcpy(values.data() + r * cols, ub(at(src, row + r, col)), cols * sizeof(E));
    }
    put(op, dst, values);
}

// dst = a b, or dst + a b: a sum for each element, in f32, rounded after every product and addition.
template <typename D, typename A, typename B>
void product(const Op &op, D &dst, A &a, B &b, bool add) {
    using T = typename A::DType;
    static_assert(D::Loc == pto::TileType::Acc && A::Loc == pto::TileType::Left && B::Loc == pto::TileType::Right,
                  "a product is of L0A and L0B into L0C");
    static_assert(std::is_same_v<T, typename B::DType> && std::is_same_v<typename D::DType, float>,
                  "operands have one element type, sums are float");
    static_assert(one_of<T, float, half, bfloat16_t>, "products of float, half and bfloat16_t are modelled");
    static_assert(A::Rows == D::Rows && A::Cols == B::Rows && B::Cols == D::Cols, "tiles of a product fit together");
    check_tile(op, dst);
    check_tile(op, a);
    check_tile(op, b);
    if constexpr (std::is_same_v<T, float>) {
        if (a.GetKAligned(op) || b.GetKAligned(op)) fail(op, "aligned K is not modelled");
    }
    const uint64_t m = a.GetValidRow(), k = a.GetValidCol(), n = b.GetValidCol();
    if (m > 4095 || k > 4095 || n > 4095) {
        fail(op, "a product of %llu x %llu and %llu columns: up to 4095 each are possible", Big(m), Big(k), Big(n));
    }
    if (b.GetValidRow() != k || dst.GetValidRow() != m || dst.GetValidCol() != n) {
        fail(op, "a product of %llu x %llu and %u x %llu into %u x %u", Big(m), Big(k), b.GetValidRow(), Big(n),
             dst.GetValidRow(), dst.GetValidCol());
    }
    const auto left = taken(op, a);
    const auto right = taken(op, b);
    std::vector<float> sums(m * n, 0.0f);
    if (add) sums = taken(op, dst);
    for (uint64_t i = 0; i < m; ++i) {
        for (uint64_t q = 0; q < k; ++q) {
            const float x = static_cast<float>(left[i * k + q]);
            for (uint64_t j = 0; j < n; ++j) sums[i * n + j] += x * static_cast<float>(right[q * n + j]);
        }
    }
    put(op, dst, sums);
}

}  // namespace standin

namespace pto {

template <typename D, typename A>
RecordEvent TEXTRACT(D &dst, A &src, uint16_t row, uint16_t col, int line = __builtin_LINE()) {
    standin::extract(standin::begin("TEXTRACT", standin::LaneMte1, line), dst, src, row, col);
    return {};
}

template <typename D, typename A, typename B>
RecordEvent TMATMUL(D &dst, A &a, B &b, int line = __builtin_LINE()) {
    standin::product(standin::begin("TMATMUL", standin::LaneM, line), dst, a, b, false);
    return {};
}

// In place alone: the sums that are added to are those that are written.
template <typename D, typename A, typename B>
RecordEvent TMATMUL_ACC(D &dst, D &sums, A &a, B &b, int line = __builtin_LINE()) {
    const standin::Op op = standin::begin("TMATMUL_ACC", standin::LaneM, line);
    if (&dst != &sums) standin::fail(op, "adds to sums elsewhere, which is not modelled");
    standin::product(op, dst, a, b, true);
    return {};
}

}  // namespace pto

// Tiles in UB and views of global memory, under the names of the instruction library.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "standin/model.hpp"
#include "standin/types.hpp"

namespace pto {

constexpr int DYNAMIC = -1;

enum class TileType { Vec, Mat, Left, Right, Acc, Bias, Scaling, ScaleLeft, ScaleRight, Ctrl };
enum class BLayout { RowMajor = 0, ColMajor = 1 };
enum class SLayout { NoneBox = 0, RowMajor = 1, ColMajor = 2 };
enum class Layout { ND, DN, NZ };
enum class PadValue : uint64_t { Null = 0, Zero = 1, Max = 2, Min = 3 };
enum class CompactMode { Null, Normal, RowPlusOne };
enum class CmpMode : uint8_t { EQ = 0, NE = 1, LT = 2, LE = 3, GT = 4, GE = 5 };
struct RecordEvent {};

namespace detail {
// Five numbers, some known at compile time (all but DYNAMIC ones).
template <int64_t... N>
struct Five {
    static_assert(sizeof...(N) == 5);
    static constexpr int64_t fixed[5] = {N...};
    static constexpr int dynamic = ((N == DYNAMIC) + ...);
    int64_t value[5] = {N == DYNAMIC ? 1 : N...};

    Five() = default;
    // One number for each dynamic place, or five of which the dynamic places are taken.
    template <typename... A, typename = std::enable_if_t<(sizeof...(A) > 0) && (std::is_integral_v<A> && ...)>>
    Five(A... a) {
        static_assert(sizeof...(A) == 5 || sizeof...(A) == dynamic, "one number for each DYNAMIC dimension");
        const int64_t given[] = {static_cast<int64_t>(a)...};
        for (int i = 0, next = 0; i < 5; ++i) {
            if (fixed[i] == DYNAMIC) value[i] = given[sizeof...(A) == 5 ? i : next++];
        }
    }
};
}  // namespace detail

template <int64_t N1 = DYNAMIC, int64_t N2 = DYNAMIC, int64_t N3 = DYNAMIC, int64_t N4 = DYNAMIC,
          int64_t N5 = DYNAMIC>
struct Shape : detail::Five<N1, N2, N3, N4, N5> {
    using detail::Five<N1, N2, N3, N4, N5>::Five;
};
template <int64_t N1 = DYNAMIC, int64_t N2 = DYNAMIC, int64_t N3 = DYNAMIC, int64_t N4 = DYNAMIC,
          int64_t N5 = DYNAMIC>
struct Stride : detail::Five<N1, N2, N3, N4, N5> {
    using detail::Five<N1, N2, N3, N4, N5>::Five;
};

template <typename Element, typename Shape_, typename Stride_, Layout Layout_ = Layout::ND>
struct GlobalTensor {
    using Shape = Shape_;
    using Stride = Stride_;
    using RawDType = std::remove_cv_t<Element>;
    using DType = RawDType;
    static constexpr Layout layout = Layout_;
    static_assert(Layout_ == Layout::ND, "only Layout::ND is modelled");

    GlobalTensor() = default;
    GlobalTensor(DType *data, const Shape &shape = {}, const Stride &stride = {})
        : data_(data), shape_(shape), stride_(stride) {}
    int64_t GetShape(int dim) const { return shape_.value[dim]; }
    int64_t GetStride(int dim) const { return stride_.value[dim]; }
    DType *data() { return data_; }
    void SetAddr(DType *data) { data_ = data; }

private:
    DType *data_ = nullptr;
    Shape shape_;
    Stride stride_;
};

template <TileType Loc_, typename Element, int Rows_, int Cols_, BLayout BFractal = BLayout::RowMajor,
          int RowValid = Rows_, int ColValid = Cols_, SLayout SFractal = SLayout::NoneBox, int SFractalSize = 512,
          PadValue Pad = PadValue::Null, CompactMode Compact = CompactMode::Null>
struct Tile {
    using DType = Element;
    static constexpr TileType Loc = Loc_;
    static constexpr int Rows = Rows_;
    static constexpr int Cols = Cols_;
    static constexpr int ValidRow = RowValid;
    static constexpr int ValidCol = ColValid;
    static constexpr bool isRowMajor = BFractal == BLayout::RowMajor;
    static constexpr uint64_t kBytes = static_cast<uint64_t>(Rows) * Cols * sizeof(Element);
    static constexpr standin::Space kSpace = Loc == TileType::Vec   ? standin::SpaceUb
                                             : Loc == TileType::Mat  ? standin::SpaceL1
                                             : Loc == TileType::Left ? standin::SpaceL0a
                                             : Loc == TileType::Right ? standin::SpaceL0b
                                                                      : standin::SpaceL0c;
    static constexpr bool kCube = Loc != TileType::Vec;
    static_assert(Loc == TileType::Vec || Loc == TileType::Mat || Loc == TileType::Left || Loc == TileType::Right ||
                      Loc == TileType::Acc,
                  "tiles of UB, L1, L0A, L0B and L0C are modelled");
    // The order of elements inside boxes is not modelled, that a tile is of the boxes its memory has is.
    static_assert(kCube || SFractal == SLayout::NoneBox, "a Vec tile has no boxes");
    static_assert(kCube || isRowMajor || Cols == 1, "a Vec tile that is column-major is one column");
    static_assert(Loc != TileType::Mat || (!isRowMajor && SFractal == SLayout::RowMajor && SFractalSize == 512),
                  "a Mat tile is column-major in row-major boxes of 512 bytes (NZ)");
    static_assert(Loc != TileType::Left || (SFractal == SLayout::RowMajor && SFractalSize == 512), "use TileLeft");
    static_assert(Loc != TileType::Right || (isRowMajor && SFractal == SLayout::ColMajor && SFractalSize == 512),
                  "use TileRight");
    static_assert(Loc != TileType::Acc || (!isRowMajor && SFractal == SLayout::RowMajor && SFractalSize == 1024),
                  "use TileAcc");
    static_assert(!kCube || (Rows % 16 == 0 && Cols % 16 == 0), "a tile of the cube is whole boxes: multiples of 16");
    static_assert(Rows > 0 && Rows < 4096 && Cols > 0 && ValidRow <= Rows && ValidCol <= Cols, "size of the tile");
    static_assert((!kCube && !isRowMajor ? Rows : Cols) * sizeof(Element) % 32 == 0,
                  "a row of a tile, or the column of one, is a multiple of 32 bytes");
#ifndef __CPU_SIM
    static_assert(kBytes <= standin::kSpaceBytes[kSpace], "the tile is larger than its memory");
#endif

    Tile() = default;
    template <int R = RowValid, int C = ColValid, std::enable_if_t<R == DYNAMIC && C == DYNAMIC, int> = 0>
    Tile(unsigned rows, unsigned cols) : row_(rows), col_(cols) {}
    template <int R = RowValid, int C = ColValid, std::enable_if_t<(R == DYNAMIC) != (C == DYNAMIC), int> = 0>
    Tile(unsigned n) : row_(R == DYNAMIC ? n : R), col_(C == DYNAMIC ? n : C) {}

    unsigned GetValidRow() const { return row_; }
    unsigned GetValidCol() const { return col_; }
    void SetValidRow(unsigned rows) {
        static_assert(ValidRow == DYNAMIC, "the number of valid rows is fixed");
        row_ = rows;
    }
    void SetValidCol(unsigned cols) {
        static_assert(ValidCol == DYNAMIC, "the number of valid columns is fixed");
        col_ = cols;
    }
    void SetValidShape(unsigned rows, unsigned cols) {
        static_assert(ValidRow == DYNAMIC && ValidCol == DYNAMIC, "the valid sizes are fixed");
        row_ = rows;
        col_ = cols;
    }

    // How many terms the cube unit takes at once for float. The library does not initialise the flag.
    void SetKAligned(bool aligned) {
        k_aligned_ = aligned;
        k_aligned_set_ = true;
    }
    bool GetKAligned(const standin::Op &op) const {
        if (!k_aligned_set_) standin::fail(op, "undefined: the K alignment of a tile is not set (SetKAligned)");
        return k_aligned_;
    }

    // Read by the scalar unit, as an access of its pipe.
    DType GetValue(uint32_t offset, int line = __builtin_LINE()) const {
        static_assert(!kCube, "the scalar unit reads tiles in UB");
        const standin::Op op = standin::begin("GetValue", standin::LaneS, line);
        if (address == kNowhere) standin::fail(op, "uses a tile without an address (TASSIGN)");
        if (offset >= row_ * static_cast<uint64_t>(Cols) || offset % Cols >= col_) {
            standin::fail(op, "element %u of a tile of %u x %u valid ones", offset, row_, col_);
        }
        const uint64_t at = address + offset * sizeof(Element);
        if (standin::ub_read(op, at, sizeof(Element)) != 0) standin::fail(op, "undefined: element %u", offset);
        Element value;
        std::memcpy(&value, standin::ub(at), sizeof value);
        return value;
    }

#ifdef __CPU_SIM
    // The simulator has an array where the devices have an address.
    DType *data() { return reinterpret_cast<DType *>(address); }
#endif

    // Byte address in the memories of the core; kNowhere before TASSIGN.
    static constexpr uint64_t kNowhere = ~uint64_t{0};
    uint64_t address = kNowhere;

private:
    bool k_aligned_ = false;
    bool k_aligned_set_ = false;
    unsigned row_ = RowValid == DYNAMIC ? 0 : RowValid;
    unsigned col_ = ColValid == DYNAMIC ? 0 : ColValid;
};

template <typename T>
constexpr bool is_tile_data_v = false;
template <TileType L, typename E, int R, int C, BLayout B, int RV, int CV, SLayout S, int SS, PadValue P, CompactMode K>
constexpr bool is_tile_data_v<Tile<L, E, R, C, B, RV, CV, S, SS, P, K>> = true;

// Operands and sums of the cube unit; how boxes lie differs between devices, so kernels name these.
template <typename Element, int Rows, int Cols, int RowValid = Rows, int ColValid = Cols>
using TileLeft = Tile<TileType::Left, Element, Rows, Cols, BLayout::RowMajor, RowValid, ColValid, SLayout::RowMajor, 512>;
template <typename Element, int Rows, int Cols, int RowValid = Rows, int ColValid = Cols>
using TileRight = Tile<TileType::Right, Element, Rows, Cols, BLayout::RowMajor, RowValid, ColValid, SLayout::ColMajor, 512>;
template <typename Element, int Rows, int Cols, int RowValid = Rows, int ColValid = Cols>
using TileAcc = Tile<TileType::Acc, Element, Rows, Cols, BLayout::ColMajor, RowValid, ColValid, SLayout::RowMajor, 1024>;

}  // namespace pto

namespace standin {

// A tile that an instruction uses has an address and valid sizes 1..the tile's.
template <typename T>
void check_tile(const Op &op, const T &t) {
    if (t.address == T::kNowhere) fail(op, "uses a tile without an address (TASSIGN)");
    if (t.GetValidRow() == 0 || t.GetValidRow() > static_cast<unsigned>(T::Rows) || t.GetValidCol() == 0 ||
        t.GetValidCol() > static_cast<unsigned>(T::Cols)) {
        fail(op, "valid size %u x %u of a tile of %d x %d", t.GetValidRow(), t.GetValidCol(), T::Rows, T::Cols);
    }
}
template <typename A, typename B>
void check_same_valid(const Op &op, const A &a, const B &b) {
    if (a.GetValidRow() != b.GetValidRow() || a.GetValidCol() != b.GetValidCol()) {
        fail(op, "valid sizes differ: %u x %u and %u x %u", a.GetValidRow(), a.GetValidCol(), b.GetValidRow(),
             b.GetValidCol());
    }
}
// Tiles of one instruction are the same bytes or have none in common.
template <typename A, typename B>
void check_overlap(const Op &op, const A &a, const B &b, bool same_allowed) {
    const bool apart = a.address + A::kBytes <= b.address || b.address + B::kBytes <= a.address;
    constexpr uint64_t item_a = sizeof(typename A::DType), item_b = sizeof(typename B::DType);
    const bool same = a.address == b.address && item_a == item_b && A::Cols == B::Cols;
    // Tiles may share bytes beyond what the instruction touches.
    const auto last = [](const auto &t) {
        using T = std::decay_t<decltype(t)>;
        return t.address + ((t.GetValidRow() - 1) * uint64_t{T::Cols} + t.GetValidCol()) * sizeof(typename T::DType);
    };
    if (!apart && !(same && same_allowed) && a.address < last(b) && b.address < last(a)) {
        fail(op, "source and destination overlap in UB: 0x%llx and 0x%llx", Big(a.address),
             Big(b.address));
    }
}
template <typename T>
uint64_t at(const T &t, uint64_t row, uint64_t col) {
    return t.address + (row * T::Cols + col) * sizeof(typename T::DType);
}

}  // namespace standin

// TASSIGN, TLOAD, TSTORE.
#pragma once
#include <cstring>
#include <vector>

#include "standin/tile.hpp"

namespace pto {

template <typename T, typename Address>
void TASSIGN(T &object, Address address, int line = __builtin_LINE()) {
    if constexpr (is_tile_data_v<T>) {
        static_assert(std::is_integral_v<Address>, "a tile is placed at a byte address");
        const standin::Op op = standin::begin("TASSIGN", standin::LaneS, line);
        const auto a = static_cast<uint64_t>(address);
        constexpr uint64_t step = T::kCube ? 512 : 32;
        if (a % step != 0) {
            standin::fail(op, "tile address 0x%llx is not %llu-byte aligned", standin::Big(a), standin::Big(step));
        }
        constexpr uint64_t most = standin::kSpaceBytes[T::kSpace];
        if (a + T::kBytes > most) {
            standin::fail(op, "tile 0x%llx..0x%llx ends beyond %s (%llu KiB)", standin::Big(a),
                          standin::Big(a + T::kBytes), standin::kSpaceNames[T::kSpace], standin::Big(most / 1024));
        }
        object.address = standin::space_base(T::kSpace) + a;
    } else {
        (void)line;
        object.SetAddr(address);
    }
}
template <std::size_t Address, typename T>
void TASSIGN(T &object, int line = __builtin_LINE()) {
    TASSIGN(object, Address, line);
}

namespace detail {
template <typename T>
constexpr bool transferable = standin::one_of<T, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t,
                                              uint64_t, half, bfloat16_t, float>;

// Calls `row(pointer, UB address, bytes)` for every row of a transfer.
template <typename Tile_, typename Global, typename F>
void rows_of(const standin::Op &op, Tile_ &tile, Global &global, F row) {
    using T = typename Tile_::DType;
    static_assert(Tile_::Loc == TileType::Acc || std::is_same_v<T, typename Global::RawDType>,
                  "tile and global memory differ in element type");
    static_assert(transferable<T>, "element type cannot be transferred");
    standin::check_tile(op, tile);
    int64_t n[5], s[5];
    for (int i = 0; i < 5; ++i) {
        n[i] = global.GetShape(i);
        s[i] = global.GetStride(i);
        if (n[i] < 0) standin::fail(op, "dimension %d of the global shape is %lld", i, standin::Long(n[i]));
    }
    const int64_t rows = n[0] * n[1] * n[2] * n[3];
    if (rows != tile.GetValidRow() || n[4] != tile.GetValidCol()) {
        standin::fail(op, "the tile's valid size %u x %u is not the global shape %lld x %lld", tile.GetValidRow(),
                      tile.GetValidCol(), standin::Long(rows), standin::Long(n[4]));
    }
    // Instructions of the cube keep these numbers in narrower fields; the rest of their bits is lost.
    if (Tile_::Loc == TileType::Mat && s[3] > 65535) {
        standin::fail(op, "rows are %lld elements apart: 16 bits are kept of that number", standin::Long(s[3]));
    }
    if (Tile_::Loc == TileType::Acc && (n[4] > 4095 || s[3] > 2147483647)) {
        standin::fail(op, "%lld columns, rows %lld elements apart: 12 and 31 bits are kept of these numbers",
                      standin::Long(n[4]), standin::Long(s[3]));
    }
    if (n[3] >= 4096) standin::fail(op, "%lld rows: fewer than 4096 are possible", standin::Long(n[3]));
    if (s[4] != 1) standin::fail(op, "stride %lld of the last dimension", standin::Long(s[4]));
    uint64_t r = 0;
    for (int64_t a = 0; a < n[0]; ++a)
        for (int64_t b = 0; b < n[1]; ++b)
            for (int64_t c = 0; c < n[2]; ++c)
                for (int64_t d = 0; d < n[3]; ++d, ++r) {
                    row(global.data() + a * s[0] + b * s[1] + c * s[2] + d * s[3], standin::at(tile, r, 0),
                        static_cast<uint64_t>(n[4]) * sizeof(typename Global::RawDType));
                }
}
}  // namespace detail

template <typename Tile_, typename Global>
RecordEvent TLOAD(Tile_ &dst, Global &src, int line = __builtin_LINE()) {
    static_assert(Tile_::Loc == TileType::Vec || Tile_::Loc == TileType::Mat, "TLOAD goes to UB or L1");
    const standin::Op op = standin::begin("TLOAD", standin::LaneMte2, line);
    if constexpr (Tile_::kCube) standin::ub_undefine(dst.address, Tile_::kBytes);
    detail::rows_of(op, dst, src, [&](auto *from, uint64_t to, uint64_t bytes) {
        // Whole 32-byte blocks are written; what is beyond the data is not defined.
        const uint64_t block = (bytes + 31) / 32 * 32;
        if (!Tile_::kCube && block != bytes) {
            standin::ub_write(op, to + bytes, block - bytes);
            standin::ub_undefine(to + bytes, block - bytes);
        }
        standin::global_to_ub(op, from, to, bytes);
    });
    return {};
}

template <typename Tile_, typename Global>
RecordEvent TSTORE(Global &dst, Tile_ &src, int line = __builtin_LINE()) {
    static_assert(Tile_::Loc == TileType::Vec || Tile_::Loc == TileType::Acc, "TSTORE comes from UB or L0C");
    using G = typename Global::RawDType;
    const standin::Op op = standin::begin("TSTORE", Tile_::kCube ? standin::LaneFix : standin::LaneMte3, line);
    if constexpr (!Tile_::kCube) {
        detail::rows_of(op, src, dst,
                        [&](auto *to, uint64_t from, uint64_t bytes) { standin::ub_to_global(op, from, to, bytes); });
    } else {
        // Converted on the way.
        static_assert(standin::one_of<G, float, half, bfloat16_t> && std::is_same_v<typename Tile_::DType, float>,
                      "sums of float are stored as float, half or bfloat16_t");
        std::vector<G> row;
        detail::rows_of(op, src, dst, [&](auto *to, uint64_t from, uint64_t bytes) {
            row.resize(bytes / sizeof(G));
            for (size_t i = 0; i < row.size(); ++i) {
                float x;
                std::memcpy(&x, standin::ub(from + i * sizeof x), sizeof x);
                row[i] = static_cast<G>(x);
            }
            standin::core_to_global(op, from, row.size() * sizeof(float), to, row.data(), bytes);
        });
    }
    return {};
}

}  // namespace pto

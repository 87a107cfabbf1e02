//! Helper functions of printed kernels. A kernel contains the helpers that it uses, always with the
//! same text and in the same order.

use std::collections::BTreeSet;

/// A helper. The order of the variants is that of the text, so that each follows the helpers that
/// it uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the texts say what they are")]
pub enum Helper {
    Mod,
    DivFloor,
    Min,
    Max,
    Abs,
    Sign,
    Log2,
    CeilLog2,
    Popcount,
    Entry,
    TensorOf,
    At,
    TileOf,
    WholeOf,
    RowsOf,
    ColumnOf,
    RowSum,
    RunOf,
    Load,
    Store,
    RowAt,
    MatOf,
    BlockOf,
    LoadBlock,
    StoreBlock,
    Notify,
    WaitFor,
    Defer,
}

/// The set of helpers that a kernel uses.
#[derive(Clone, Default, Debug)]
pub struct Helpers(BTreeSet<Helper>);

impl Helpers {
    /// Adds a helper and those that it uses itself.
    pub fn insert(&mut self, h: Helper) {
        self.0.insert(h);
        match h {
            Helper::Load | Helper::Store => self.insert(Helper::RunOf),
            Helper::LoadBlock | Helper::StoreBlock => self.insert(Helper::BlockOf),
            Helper::Notify => self.insert(Helper::At),
            _ => {}
        }
    }

    /// Returns the definitions of the helpers.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for h in &self.0 {
            let text = h.definition();
            // One-line functions follow each other without an empty line; other definitions are
            // separated.
            let apart = text.lines().count() > 1 || out.ends_with("}\n") && out.lines().last() == Some("}");
            if apart && !out.is_empty() {
                out.push('\n');
            }
            out.push_str(text);
        }
        out
    }
}

impl Helper {
    /// Returns the name of the helper.
    pub fn name(self) -> &'static str {
        match self {
            Helper::Mod => "Mod",
            Helper::DivFloor => "DivFloor",
            Helper::Min => "Min",
            Helper::Max => "Max",
            Helper::Abs => "Abs",
            Helper::Sign => "Sign",
            Helper::Log2 => "Log2",
            Helper::CeilLog2 => "CeilLog2",
            Helper::Popcount => "Popcount",
            Helper::Entry => "Entry",
            Helper::TensorOf => "TensorOf",
            Helper::At => "At",
            Helper::TileOf => "TileOf",
            Helper::WholeOf => "WholeOf",
            Helper::RowsOf => "RowsOf",
            Helper::ColumnOf => "ColumnOf",
            Helper::RowSum => "RowSum",
            Helper::RunOf => "RunOf",
            Helper::Load => "Load",
            Helper::Store => "Store",
            Helper::RowAt => "RowAt",
            Helper::MatOf => "MatOf",
            Helper::BlockOf => "BlockOf",
            Helper::LoadBlock => "LoadBlock",
            Helper::StoreBlock => "StoreBlock",
            Helper::Notify => "Notify",
            Helper::WaitFor => "WaitFor",
            Helper::Defer => "Defer",
        }
    }

    fn definition(self) -> &'static str {
        match self {
            Helper::Mod => {
                "\
// The remainder with the sign of the divisor.
AICORE inline int64_t Mod(int64_t a, int64_t b) {
    const int64_t m = a % b;
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}
"
            }
            Helper::DivFloor => {
                "\
// The quotient, rounded down.
AICORE inline int64_t DivFloor(int64_t a, int64_t b) {
    const int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
"
            }
            Helper::Min => "AICORE inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }\n",
            Helper::Max => "AICORE inline int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }\n",
            Helper::Abs => "AICORE inline int64_t Abs(int64_t a) { return a < 0 ? -a : a; }\n",
            Helper::Sign => "AICORE inline int64_t Sign(int64_t a) { return int64_t{a > 0} - int64_t{a < 0}; }\n",
            Helper::Log2 => {
                "\
// log2, rounded down.
AICORE inline int64_t Log2(int64_t a) {
    int64_t n = 0;
    for (; a > 1; a >>= 1) ++n;
    return n;
}
"
            }
            Helper::CeilLog2 => {
                "\
// log2, rounded up.
AICORE inline int64_t CeilLog2(int64_t a) {
    int64_t n = 0;
    for (--a; a > 0; a >>= 1) ++n;
    return n;
}
"
            }
            Helper::Popcount => {
                "\
AICORE inline int64_t Popcount(int64_t a) {
    int64_t n = 0;
    for (uint64_t rest = static_cast<uint64_t>(a); rest != 0; rest &= rest - 1) ++n;
    return n;
}
"
            }
            Helper::Entry => {
                "AICORE inline int64_t Entry(__gm__ int32_t *table, int64_t i) { return table[i]; }\n"
            }
            Helper::TensorOf => {
                "\
template <typename T>
AICORE inline __gm__ T *TensorOf(int64_t arg) {
    __gm__ ChipTensor *t = reinterpret_cast<__gm__ ChipTensor *>(arg);
    return reinterpret_cast<__gm__ T *>(t->buffer.addr) + t->start_offset;
}
"
            }
            Helper::At => {
                "\
// The same place in a peer's window.
template <typename T>
AICORE inline __gm__ T *At(__gm__ CommContext *ctx, __gm__ T *local, int64_t peer) {
    const uint64_t offset = reinterpret_cast<uint64_t>(local) - ctx->windowsIn[ctx->rankId];
    return reinterpret_cast<__gm__ T *>(ctx->windowsIn[peer] + offset);
}
"
            }
            Helper::TileOf => {
                "\
// One row of at most N elements in UB.
template <typename T, int N>
using TileOf = pto::Tile<pto::TileType::Vec, T, 1, N, pto::BLayout::RowMajor, 1, pto::DYNAMIC>;
"
            }
            Helper::WholeOf => {
                "\
// One row of exactly N elements in UB, for conversions and masks.
template <typename T, int N>
using WholeOf = pto::Tile<pto::TileType::Vec, T, 1, N, pto::BLayout::RowMajor, 1, N>;
"
            }
            Helper::RowsOf => {
                "\
// At most R rows of N elements in UB, P elements apart.
template <typename T, int R, int P, int N>
using RowsOf = pto::Tile<pto::TileType::Vec, T, R, P, pto::BLayout::RowMajor, pto::DYNAMIC, N>;
"
            }
            Helper::ColumnOf => {
                "\
// An element for each of at most R rows, one after another in UB.
template <typename T, int R>
using ColumnOf = pto::Tile<pto::TileType::Vec, T, R, 1, pto::BLayout::ColMajor, pto::DYNAMIC, 1>;
"
            }
            Helper::RowSum => {
                "\
// The sum of each row. The simulator takes types of equally many rows only.
template <typename D, typename S, typename W>
AICORE inline void RowSum(D &sums, S &rows, W &work) {
#ifdef __CPU_SIM
    using Alike = pto::Tile<pto::TileType::Vec, typename S::DType, D::Rows, S::Cols,
                            pto::BLayout::RowMajor, pto::DYNAMIC, S::ValidCol>;
    Alike alike(rows.GetValidRow());
    TASSIGN(alike, reinterpret_cast<uint64_t>(rows.data()));
    TROWSUM(sums, alike, work);
#else
    TROWSUM(sums, rows, work);
#endif
}
"
            }
            Helper::RunOf => {
                "\
// A run of elements in device memory.
template <typename T>
using Run = pto::GlobalTensor<T, pto::Shape<1, 1, 1, 1, pto::DYNAMIC>, pto::Stride<1, 1, 1, 1, 1>, pto::Layout::ND>;
template <typename T>
AICORE inline Run<T> RunOf(__gm__ T *at, int64_t length) {
    return Run<T>(at, pto::Shape<1, 1, 1, 1, pto::DYNAMIC>(length));
}
"
            }
            Helper::Load => {
                "\
template <typename Tile, typename T>
AICORE inline void Load(Tile &tile, __gm__ T *from, int64_t length) {
    auto run = RunOf(from, length);
    TLOAD(tile, run);
}
"
            }
            Helper::Store => {
                "\
template <typename T, typename Tile>
AICORE inline void Store(__gm__ T *to, Tile &tile, int64_t length) {
    auto run = RunOf(to, length);
    TSTORE(run, tile);
}
"
            }
            Helper::RowAt => {
                "\
// The position of a row after row `first`, modulo 2^64: ids may be any numbers.
template <typename Tile>
AICORE inline int64_t RowAt(Tile &ids, int64_t index, int64_t first) {
    const int64_t id = ids.GetValue(static_cast<uint32_t>(index));
    return static_cast<int64_t>(static_cast<uint64_t>(id) - static_cast<uint64_t>(first));
}
"
            }
            Helper::MatOf => {
                "\
// Blocks of matrices in L1, in L0A and L0B, and their sums in L0C. Operands of float get
// `SetKAligned(false)`, because the library may leave this flag uninitialised.
template <typename T, int R, int C>
using MatOf = pto::Tile<pto::TileType::Mat, T, R, C, pto::BLayout::ColMajor, pto::DYNAMIC, pto::DYNAMIC,
                        pto::SLayout::RowMajor, 512>;
template <typename T, int R, int C>
using LeftOf = pto::TileLeft<T, R, C, pto::DYNAMIC, pto::DYNAMIC>;
template <typename T, int R, int C>
using RightOf = pto::TileRight<T, R, C, pto::DYNAMIC, pto::DYNAMIC>;
template <typename T, int R, int C>
using SumsOf = pto::TileAcc<T, R, C, pto::DYNAMIC, pto::DYNAMIC>;
"
            }
            Helper::BlockOf => {
                "\
// A block of a row-major matrix in device memory, whose rows are `pitch` elements apart.
using BlockShape = pto::Shape<1, 1, 1, pto::DYNAMIC, pto::DYNAMIC>;
using BlockStride = pto::Stride<1, 1, 1, pto::DYNAMIC, 1>;
template <typename T>
using Block = pto::GlobalTensor<T, BlockShape, BlockStride, pto::Layout::ND>;
template <typename T>
AICORE inline Block<T> BlockOf(__gm__ T *at, int64_t rows, int64_t cols, int64_t pitch) {
    return Block<T>(at, BlockShape(rows, cols), BlockStride(pitch));
}
"
            }
            Helper::LoadBlock => {
                "\
template <typename Tile, typename T>
AICORE inline void LoadBlock(Tile &tile, __gm__ T *from, int64_t rows, int64_t cols, int64_t pitch) {
    auto block = BlockOf(from, rows, cols, pitch);
    TLOAD(tile, block);
}
"
            }
            Helper::StoreBlock => {
                "\
template <typename T, typename Tile>
AICORE inline void StoreBlock(__gm__ T *to, Tile &tile, int64_t rows, int64_t cols, int64_t pitch) {
    auto block = BlockOf(to, rows, cols, pitch);
    TSTORE(block, tile);
}
"
            }
            Helper::Notify => {
                "\
// Adds 1 to a rank's counter.
AICORE inline void Notify(__gm__ CommContext *ctx, __gm__ int32_t *counter, int64_t peer) {
    pto::comm::Signal signal(At(ctx, counter, peer));
    pto::comm::TNOTIFY(signal, 1, pto::comm::NotifyOp::AtomicAdd);
}
"
            }
            Helper::WaitFor => {
                "\
// Waits until a counter has a value. The first wait that fails stores the byte offset of its
// counter in `detail`, and no other wait begins after it.
AICORE inline void WaitFor(__gm__ int32_t *counter, int64_t value, __gm__ uint8_t *window, int64_t &error,
                           int64_t &detail) {
    if (error != 0) return;
    pto::comm::Signal signal(counter);
    pto::comm::TWAIT(signal, static_cast<int32_t>(value), pto::comm::WaitCmp::GE);
    if (!pto::comm::TTEST(signal, static_cast<int32_t>(value), pto::comm::WaitCmp::GE)) {
        error = -2;
        detail = reinterpret_cast<uint64_t>(counter) - reinterpret_cast<uint64_t>(window);
    }
}
"
            }
            Helper::Defer => {
                "\
// Lets the task complete only once a counter has a value. The core does not wait for it.
AICORE inline void Defer(AsyncCtx &completion, __gm__ int32_t *counter, int64_t value) {
    save_expected_notification_counter(completion, counter, static_cast<uint32_t>(value));
}
"
            }
        }
    }
}

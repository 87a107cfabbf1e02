//! Numbers of operations that the instructions of the target keep in narrow fields.
//!
//! The headers of the instruction library pass sizes and distances as 32-bit or 64-bit integers and
//! narrow them where they fill the registers of an instruction. Their assertions are not compiled
//! into kernels, so a number that does not fit loses its upper bits. The limits were read in the
//! headers for A2 and A3 of pto-isa cd4a3d3 ([`crate::profile`] has the revisions).
//!
//! Every field of every operation is named here. A field without a limit of its own is bounded by
//! another rule of the verifier, which its comment gives.

use kbc_tiles::device::NarrowField;
use kbc_tiles::tile::Op;

/// Where `TLOAD` of a block of a row-major matrix into a tile of L1 narrows its numbers.
const ND2NZ: &str = "TLoadGm2L1Nd2nz: `nValue` in 1..=16384, `dValue` and `srcDValue` are uint16_t";
/// Where `TSTORE` of a block of sums narrows its numbers.
const NZ2ND: &str =
    "TStoreAccNz2nd: `mSize` in 1..=8192, 12 bits of `nSize`, the stride comes as a 32-bit int";
/// Where transfers of rows between UB and memory narrow their numbers.
const ROWS: &str =
    "TLOAD and TSTORE of a tile of UB: the distance between rows is uint32_t, in bytes of up to 8 an element";
/// Where `TMATMUL` narrows its numbers.
const MAD: &str = "TMATMUL: m, k and n are in 1..=4095";
/// Where `TEXTRACT` narrows its numbers.
const MOVE: &str = "TEXTRACT: `indexRow`, `indexCol` and valid rows and columns are uint16_t";

/// Returns the fields of an operation that its instructions narrow.
pub(crate) fn fields(op: &Op) -> Vec<NarrowField<'_>> {
    let field = |what, value, most, source| NarrowField { what, value, most, source };
    let rows = |value, most, source| field("number of rows", value, most, source);
    let cols = |value, most, source| field("number of columns", value, most, source);
    let pitch = |value, most, source| field("distance between rows in elements", value, most, source);
    match op {
        Op::LoadBlock { tile: _, rows: m, cols: n, from: _, pitch: p } => {
            vec![rows(m, 16_384, ND2NZ), cols(n, 65_535, ND2NZ), pitch(p, 65_535, ND2NZ)]
        }
        Op::StoreBlock { to: _, pitch: p, tile: _, rows: m, cols: n } => {
            vec![rows(m, 8192, NZ2ND), cols(n, 4095, NZ2ND), pitch(p, i64::from(i32::MAX), NZ2ND)]
        }
        Op::Matmul { dst: _, left: _, right: _, m, n, k, add: _ } => {
            let terms = field("number of terms of a sum", k, 4095, MAD);
            vec![rows(m, 4095, MAD), cols(n, 4095, MAD), terms]
        }
        Op::Move { dst: _, src: _, from: [row, col], rows: m, cols: n } => vec![
            field("first row", row, 65_535, MOVE),
            field("first column", col, 65_535, MOVE),
            rows(m, 65_535, MOVE),
            cols(n, 65_535, MOVE),
        ],
        // Fewer than 4096 rows: a tile of 4096 elements holds at most 256.
        Op::LoadRows { tile: _, len: _, from: _, pitch: p }
        | Op::StoreRows { to: _, pitch: p, tile: _, len: _ } => vec![pitch(p, (1 << 29) - 1, ROWS)],
        // Runs are one burst, of up to 2^32 bytes; a length is at most that of a tile (T8), which
        // is in UB (T1). Addresses are 64-bit pointers.
        Op::Load { tile: _, len: _, from: _ } | Op::Store { to: _, tile: _, len: _ } => vec![],
        // The distance between rows and the number of the row are multiplied in 64 bits.
        Op::LoadRow { tile: _, len: _, from: _, pitch: _, rows: _ } => vec![],
        // The headers of vector instructions repeat an instruction at most 255 times and loop or
        // count where a tile needs more. Lengths are those of tiles (T8).
        Op::Vector { op: _, dst: _, args: _, len: _ }
        | Op::Select { cmp: _, dst: _, a: _, b: _, x: _, y: _, mask: _, len: _ }
        | Op::Convert { dst: _, src: _, rounding: _ }
        | Op::Reduce { op: _, dst: _, src: _, work: _, len: _ }
        | Op::Expand { dst: _, src: _, len: _ }
        | Op::Spread { dst: _, src: _, len: _ } => vec![],
        // An integer becomes a value of the tile's type, as the program says.
        Op::Index { dst: _, value: _, len: _ } => vec![],
        // The index is one of the tile's elements; the row is computed modulo 2^64.
        Op::Choose { ids: _, index: _, first: _ } => vec![],
        // Counters are 32 bits wide. The package says how many launches a domain serves before one
        // could leave them.
        Op::Notify { peer: _, signals: _, index: _ }
        | Op::Wait { signals: _, index: _, value: _ }
        | Op::Defer { signals: _, index: _, value: _ } => vec![],
        // Numbers of events are below 8 (T4).
        Op::SetFlag { from: _, to: _, event: _ } | Op::WaitFlag { from: _, to: _, event: _ } => vec![],
        Op::Release | Op::Acquire | Op::Complete | Op::Barrier(_) | Op::MemoryBarrier => vec![],
    }
}

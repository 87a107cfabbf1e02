//! C++ objects for tiles, as data: how each of them sees the elements of its tile, and the loop
//! whose tiles hold rows.

use kbc_ir::name::Name;
use kbc_tiles::tile::{TileId, TileRows};

/// A part of a tile with a fixed length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FixedPart {
    /// Offset from the tile's address in bytes.
    pub offset: u32,
    /// Number of elements.
    pub elements: u32,
}

/// How a C++ object sees the elements of a tile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum View {
    /// One row, or a block of a matrix core, of a variable size.
    Sized,
    /// A part with a fixed length.
    Fixed(FixedPart),
    /// A variable number of rows, at most `most`, of so many elements at such a distance.
    Rows { most: u32, elements: u32, pitch: u32 },
    /// A variable number of elements, at most `most`, one for each row.
    Column { most: u32 },
}

/// A C++ object for a tile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TileObject {
    pub tile: TileId,
    pub view: View,
}

/// The loop around a place whose tiles hold rows.
#[derive(Clone)]
pub(super) struct RowLoop {
    /// Name of the length of a tile.
    pub len: Name,
    /// The length in the text: the elements from the first to the last row.
    pub extent: String,
    /// The number of rows in the text.
    pub count: String,
    /// The rows.
    pub rows: TileRows,
    /// Most rows of a tile.
    pub most: u32,
}

impl RowLoop {
    /// Returns the view of a tile that holds the rows of the loop.
    pub fn view(&self) -> View {
        View::Rows { most: self.most, elements: self.rows.elements, pitch: self.rows.pitch() }
    }

    /// Returns the view of a tile with an element for each row. It is whole blocks of 32 bytes.
    pub fn column(&self) -> View {
        View::Column { most: self.most.next_multiple_of(16) }
    }
}

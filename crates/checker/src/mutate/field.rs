//! Fields as sites of mutations: names of field types, names of changes, and which fields need no
//! mutants.
//!
//! The fields are those of [`kbc_ir::visit`], which yields every one. A new field or field type
//! therefore has mutants unless this module excludes it and states the reason ([`harmless`]).
//! `alter` makes the changes.

use kbc_ir::schedule::*;
use kbc_ir::visit::{ExprUse, Field, RefUse};

/// A change of a field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
    /// The next of the possible values; the first after the last.
    Next,
    /// One more.
    More,
    /// One less.
    Less,
    /// Zero.
    Zero,
    /// One.
    One,
    /// Twice as much.
    Doubled,
    /// Counted from the other end.
    Reversed,
    /// Rounded down to an even number, so that two values become one.
    Even,
    /// One fewer of the existing things.
    Fewer,
    /// The number of the call is added.
    Call,
    /// Another value in call 1 alone.
    Once,
    /// Another value from call 4 on.
    Late,
    /// The value of the call before.
    CallBefore,
    /// The value of call 0.
    FirstCall,
    /// This coordinate of the rank is added.
    Rank(u32),
    /// This coordinate of the rank itself.
    Own(u32),
    /// The value that the next rank along this coordinate has.
    Moved(u32),
    /// Also where this coordinate is 0.
    Wider(u32),
    /// Negated.
    Not,
    /// Always true.
    Always,
    /// The outermost operator is replaced by a similar one.
    Operator,
    /// The outermost `%` is removed.
    Unwrapped,
    /// Another value of the same type, by number.
    Other(u32),
    /// A new value.
    Fresh,
    /// No value.
    Absent,
    /// The entry of this number is removed.
    Shorter(u32),
    /// The entry of this number is replaced by another.
    Entry(u32),
    /// The entry of this number is swapped with the next one.
    Swapped(u32),
}

impl Change {
    /// Describes the change in words.
    pub fn text(self) -> String {
        match self {
            Change::Next => "the next one".into(),
            Change::More => "one more".into(),
            Change::Less => "one less".into(),
            Change::Zero => "zero".into(),
            Change::One => "one".into(),
            Change::Doubled => "twice as much".into(),
            Change::Reversed => "counted from the other end".into(),
            Change::Even => "rounded down to an even number".into(),
            Change::Fewer => "one fewer of them".into(),
            Change::Call => "plus the number of the call".into(),
            Change::Once => "another one in call 1".into(),
            Change::Late => "another one from call 4 on".into(),
            Change::CallBefore => "that of the call before".into(),
            Change::FirstCall => "that of call 0".into(),
            Change::Rank(i) => format!("plus coordinate {i} of the rank"),
            Change::Own(i) => format!("coordinate {i} of the rank itself"),
            Change::Moved(i) => format!("with coordinate {i} one more"),
            Change::Wider(i) => format!("also where coordinate {i} is 0"),
            Change::Not => "negated".into(),
            Change::Always => "always true".into(),
            Change::Operator => "with a similar operator".into(),
            Change::Unwrapped => "without its `%`".into(),
            Change::Other(i) => format!("another one ({i})"),
            Change::Fresh => "a new one".into(),
            Change::Absent => "none".into(),
            Change::Shorter(i) => format!("without entry {i}"),
            Change::Entry(i) => format!("another entry {i}"),
            Change::Swapped(i) => format!("entries {i} and {} swapped", i + 1),
        }
    }

    /// Returns the word of the change without its number, for the table of
    /// `docs/explanation/mutation.md`.
    pub fn kind(self) -> &'static str {
        match self {
            Change::Next => "the next one",
            Change::More => "one more",
            Change::Less => "one less",
            Change::Zero => "zero",
            Change::One => "one",
            Change::Doubled => "twice as much",
            Change::Reversed => "counted from the other end",
            Change::Even => "rounded down to an even number",
            Change::Fewer => "one fewer of them",
            Change::Call => "plus `call`",
            Change::Once => "another one in call 1 alone",
            Change::Late => "another one from call 4 on",
            Change::CallBefore => "that of the call before",
            Change::FirstCall => "that of call 0",
            Change::Rank(_) => "plus a coordinate of the rank",
            Change::Own(_) => "the rank's own coordinate",
            Change::Moved(_) => "as the next rank has it",
            Change::Wider(_) => "also on coordinate 0",
            Change::Not => "negated",
            Change::Always => "always true",
            Change::Operator => "a similar operator",
            Change::Unwrapped => "without `%`",
            Change::Other(_) => "another of the same type",
            Change::Fresh => "a new one",
            Change::Absent => "none",
            Change::Shorter(_) => "an entry left out",
            Change::Entry(_) => "an entry changed",
            Change::Swapped(_) => "two entries swapped",
        }
    }
}

/// Facts about a field that earlier fields determine: the window of a slot, the array of a counter.
#[derive(Clone, Default)]
pub(super) struct EarlierFields {
    pub(super) side: Option<RefUse>,
    pub(super) path: Vec<Part>,
    pub(super) digit: usize,
    /// Number of slots of the window, of counters of the array, of queues of the array.
    pub(super) sizes: (u64, u64, u64),
}

impl EarlierFields {
    /// Records a field.
    pub(super) fn note(&mut self, s: &Schedule, field: &Field<'_>) {
        match field {
            Field::Ref(side, r) => {
                self.side = Some(*side);
                self.digit = 0;
                self.path = match r {
                    Ref::Chunk { operand: _, path } => path.clone(),
                    Ref::Slot { window: _, slot: _ } => vec![],
                };
            }
            Field::Expr(ExprUse::ChunkOf, _) => self.digit += 1,
            Field::Window(w) => self.sizes.0 = s.windows.get(w.0 as usize).map_or(0, |w| w.slots),
            Field::Signal(x) => self.sizes.1 = s.signals.get(x.0 as usize).map_or(0, |x| x.count),
            Field::Queue(q) => self.sizes.2 = s.queues.get(q.0 as usize).map_or(0, |q| q.count),
            // Coordinates of a peer, counters and queues come after references and are not inside
            // one.
            Field::Expr(
                ExprUse::Peer(_)
                | ExprUse::Counter
                | ExprUse::Value(_)
                | ExprUse::Queue
                | ExprUse::Bound
                | ExprUse::Guard,
                _,
            ) => self.side = None,
            Field::Expr(
                ExprUse::Ranks
                | ExprUse::Slot
                | ExprUse::ChunkIndex
                | ExprUse::ChunkLen
                | ExprUse::Part
                | ExprUse::Dim
                | ExprUse::Extent
                | ExprUse::Unit
                | ExprUse::Row
                | ExprUse::Clause,
                _,
            )
            | Field::Body(_)
            | Field::Count(..)
            | Field::Dimension(..)
            | Field::Flag(..)
            | Field::Offset(_)
            | Field::Combiner(_)
            | Field::Promised(_)
            | Field::Root(_)
            | Field::Mean(_)
            | Field::Number(_)
            | Field::DType(_)
            | Field::Memory(_)
            | Field::Rule(_)
            | Field::Form(_)
            | Field::SignalUse(_)
            | Field::Calls(_)
            | Field::BufferRole(_)
            | Field::Tensor(_)
            | Field::Buffer(..)
            | Field::Buffers(_)
            | Field::Operand(_)
            | Field::Region(_)
            | Field::After(_)
            | Field::Point(_)
            | Field::Event(_)
            | Field::Name(..)
            | Field::Hint(..)
            | Field::Label(_)
            | Field::RankList(_)
            | Field::Via(_)
            | Field::Entries(_)
            | Field::Permutation(_)
            | Field::Function(_)
            | Field::Tiles(_)
            | Field::Runs(_)
            | Field::Places(_)
            | Field::Mesh(_) => {}
        }
    }
}

/// Returns the reason why no change of a field makes a schedule wrong, or None if changes can.
pub fn harmless(field: &Field<'_>) -> Option<&'static str> {
    match field {
        Field::Hint(what, _) => match *what {
            "rank" | "size" | "variable" => None,
            "collective" => Some("the name of a collective has no effect; its clauses have"),
            _ => Some("a schedule refers to things by number; their names have no effect"),
        },
        Field::Label(_) => Some("labels appear only in reports"),
        Field::Via(_) => Some("a proof holds for any route of a message"),
        Field::SignalUse(_) => Some("the use of a signal is documentation that nothing relies on"),
        Field::Body(_) => Some(
            "its statements have their own mutants: removed, duplicated, moved; host statements have only their fields",
        ),
        Field::Expr(..)
        | Field::Ref(..)
        | Field::Count(..)
        | Field::Dimension(..)
        | Field::Flag(..)
        | Field::Offset(_)
        | Field::Combiner(_)
        | Field::Promised(_)
        | Field::Root(_)
        | Field::Mean(_)
        | Field::Number(_)
        | Field::DType(_)
        | Field::Memory(_)
        | Field::Rule(_)
        | Field::Form(_)
        | Field::Calls(_)
        | Field::BufferRole(_)
        | Field::Tensor(_)
        | Field::Buffer(..)
        | Field::Buffers(_)
        | Field::Window(_)
        | Field::Signal(_)
        | Field::Queue(_)
        | Field::Operand(_)
        | Field::Region(_)
        | Field::After(_)
        | Field::Point(_)
        | Field::Event(_)
        | Field::Name(..)
        | Field::RankList(_)
        | Field::Entries(_)
        | Field::Permutation(_)
        | Field::Function(_)
        | Field::Tiles(_)
        | Field::Runs(_)
        | Field::Places(_)
        | Field::Mesh(_) => None,
    }
}

/// Returns the name of a type of field.
pub fn type_name(field: &Field<'_>) -> &'static str {
    match field {
        Field::Expr(of, _) => match of {
            ExprUse::Bound => "bound of a loop",
            ExprUse::Guard => "guard",
            ExprUse::Ranks => "predicate of a role",
            ExprUse::Peer(_) => "coordinate of a peer",
            ExprUse::Slot => "slot",
            ExprUse::Counter => "counter",
            ExprUse::Value(_) => "value of a wait",
            ExprUse::Queue => "queue of an array",
            ExprUse::ChunkIndex => "chunk",
            ExprUse::ChunkLen => "number of chunks",
            ExprUse::ChunkOf => "chunks of a digit",
            ExprUse::Part => "part of a local operation",
            ExprUse::Dim => "size of a dimension",
            ExprUse::Extent => "extent of a line",
            ExprUse::Unit => "unit of a line",
            ExprUse::Row => "row of a line",
            ExprUse::Clause => "expression of a contract",
        },
        Field::Ref(..) => "reference",
        Field::Body(_) => "body",
        Field::Count(..) => "count",
        Field::Dimension(..) => "number of a dimension",
        Field::Flag(..) => "flag",
        Field::Offset(_) => "byte offset",
        Field::Combiner(_) => "operator of a reduction",
        Field::Promised(_) => "operator of a contract",
        Field::Root(_) => "root of a contract",
        Field::Mean(_) => "divisor of a mean",
        Field::Number(_) => "number",
        Field::DType(_) => "element type",
        Field::Memory(_) => "kind of memory",
        Field::Rule(_) => "cut rule",
        Field::Form(_) => "form of a counter",
        Field::SignalUse(_) => "use of a signal",
        Field::Calls(_) => "calls",
        Field::BufferRole(_) => "role of a buffer",
        Field::Tensor(_) => "global tensor",
        Field::Buffer(..) => "buffer",
        Field::Buffers(_) => "list of buffers",
        Field::Window(_) => "window",
        Field::Signal(_) => "array of signals",
        Field::Queue(_) => "array of queues",
        Field::Operand(_) => "operand",
        Field::Region(_) => "region of the host",
        Field::After(_) => "regions before",
        Field::Point(_) => "point of a message",
        Field::Event(_) => "event",
        Field::Name(..) => "name with a meaning",
        Field::Hint(what, _) => match *what {
            "rank" | "size" | "variable" => "variable of a contract",
            _ => "name for people",
        },
        Field::Label(_) => "label",
        Field::RankList(_) => "list of ranks",
        Field::Via(_) => "relays",
        Field::Entries(_) => "table",
        Field::Permutation(_) => "permutation",
        Field::Function(_) => "elementwise function",
        Field::Tiles(_) => "kernel over tiles",
        Field::Runs(_) => "runs of rows",
        Field::Places(_) => "places of rows",
        Field::Mesh(_) => "mesh",
    }
}

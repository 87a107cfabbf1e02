//! Attributes of other tools: values by name that kbc keeps with an item of a module and does not
//! interpret.
//!
//! An attribute belongs to a named item, or to an operation of a schedule, which is known by its
//! text. Passes know nothing of attributes: after each pass, an attribute stays if its item is
//! still there ([`crate::text::retain_attributes`]).

use std::collections::BTreeMap;

/// An item of a module that can have attributes. Names are labels of the text, with their number
/// (`x#1`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Item {
    /// The module itself.
    Module,
    /// An input of a graph, or of the part of a local program with this number.
    Input(usize, String),
    /// A value, in the same way.
    Value(usize, String),
    /// A buffer.
    Buffer(String),
    /// A window.
    Window(String),
    /// An array of signals.
    Signal(String),
    /// An array of queues.
    Queue(String),
    /// A region.
    Region(String),
    /// An operation in a stream.
    Operation(OperationKey),
}

/// Identity of an operation in a schedule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperationKey {
    /// Label of the region; `None` for the program of the host.
    pub region: Option<String>,
    /// Position of the role in the region.
    pub role: usize,
    /// Position of the stream in the role.
    pub stream: usize,
    /// The operation as text.
    pub text: String,
    /// Number of operations with the same text before it in the stream.
    pub nth: usize,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum AttributeValue {
    /// An integer.
    Int(u64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
}

/// An attribute: `x-cost 12`, `x-note "by hand"`.
#[derive(Clone, PartialEq, Debug)]
pub struct Attribute {
    /// Name, with its prefix `x-`.
    pub name: String,
    /// Value.
    pub value: AttributeValue,
}

/// The attributes of a module, by item.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Attributes {
    items: BTreeMap<Item, Vec<Attribute>>,
}

impl Attributes {
    /// Checks whether no item has an attribute.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the attributes of an item, in the order of the text.
    pub fn of(&self, item: &Item) -> &[Attribute] {
        self.items.get(item).map_or(&[], Vec::as_slice)
    }

    /// Returns all items that have attributes, with these.
    pub fn iter(&self) -> impl Iterator<Item = (&Item, &[Attribute])> {
        self.items.iter().map(|(item, list)| (item, list.as_slice()))
    }

    /// Adds attributes to an item.
    pub fn add(&mut self, item: Item, list: Vec<Attribute>) {
        if !list.is_empty() {
            self.items.entry(item).or_default().extend(list);
        }
    }
}

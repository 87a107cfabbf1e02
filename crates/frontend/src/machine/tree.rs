//! The tree of a YAML text: nodes that know how many nodes precede them in the text.

/// A node of the tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// The number of nodes and keys before it.
    pub number: usize,
    /// Its kind, with what it contains.
    pub kind: NodeKind,
}

/// The kind of a node.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Nothing.
    Null,
    /// A scalar as text. Numbers are in their standard form.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the text.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Clone, Debug)]
pub struct Key {
    /// The number of nodes and keys before it.
    pub number: usize,
    /// Its text.
    pub name: String,
}

impl Node {
    /// Returns the description of the node's kind.
    pub fn what(&self) -> &'static str {
        match self.kind {
            NodeKind::Null => "nothing",
            NodeKind::Scalar(_) => "a single value",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a mapping",
        }
    }
}

//! Errors of synthesis: what makes a network or a request unusable.

use std::fmt;

/// Why nothing was computed. Nodes are numbered as in the [`crate::Network`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SynthesisError {
    /// A collective needs at least two members.
    TooFewMembers {
        /// Number of members.
        members: usize,
    },
    /// An edge, a member or a root names a node that does not exist.
    NodeOutOfRange {
        /// The node.
        node: usize,
        /// Number of nodes of the network.
        nodes: usize,
    },
    /// A node is listed twice among the members.
    RepeatedMember {
        /// The node.
        node: usize,
    },
    /// The root of a broadcast or reduce is not a member.
    NotAMember {
        /// The node.
        node: usize,
    },
    /// No path with positive capacity leads from one member to another.
    Unreachable {
        /// The member that sends.
        from: usize,
        /// The member that is not reached.
        to: usize,
    },
    /// A node that only forwards has unequal capacity in and out, and no capacity can be given up
    /// at the optimal rate to make them equal.
    UnbalancedSwitch {
        /// The node.
        node: usize,
        /// Capacity that enters it, in trees, after what could be given up.
        entering: u128,
        /// Capacity that leaves it, in trees.
        leaving: u128,
    },
    /// Spanning trees need links that are alike both ways.
    UnequalDirections {
        /// One end of the link.
        from: usize,
        /// The other end.
        to: usize,
    },
    /// Spanning trees need every node to be a member.
    ForwardingNode {
        /// A node that is not a member.
        node: usize,
    },
    /// The number of trees per root was given as 0.
    ZeroTrees,
    /// Spanning trees were asked for, for a collective that is no all-reduce.
    OnlyForAllReduce,
    /// The demands of an all-to-all(v) are not a square matrix with a row for each member.
    DemandShape {
        /// Rows, or columns of some row.
        len: usize,
        /// Number of members.
        members: usize,
    },
    /// No member sends anything to another.
    NoDemand,
    /// The number of pieces was given as 0.
    ZeroPieces,
    /// A time or a number of bytes is negative or not finite.
    NotATime {
        /// What was given.
        what: &'static str,
    },
    /// The trees in that many pieces are too many messages.
    TooManyMessages {
        /// The pieces of each tree.
        pieces: u64,
        /// Their messages.
        messages: u128,
        /// The largest number of messages.
        most: u128,
    },
    /// A number does not fit.
    Overflow {
        /// What the number counts.
        what: &'static str,
    },
    /// A step met a state that the theorem on which it rests excludes: a defect of this crate.
    Inconsistent {
        /// The step.
        step: &'static str,
    },
}

impl fmt::Display for SynthesisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use SynthesisError::*;
        match self {
            TooFewMembers { members } => write!(f, "a collective needs two members or more, not {members}"),
            NodeOutOfRange { node, nodes } => write!(f, "node {node} does not exist: there are {nodes}"),
            RepeatedMember { node } => write!(f, "node {node} is a member twice"),
            NotAMember { node } => write!(f, "the root, node {node}, is not a member"),
            Unreachable { from, to } => write!(f, "no path leads from node {from} to node {to}"),
            UnbalancedSwitch { node, entering, leaving } => write!(
                f,
                "node {node} only forwards, but has capacity {entering} in and {leaving} out, and none of it \
                 can be given up at the optimal rate"
            ),
            UnequalDirections { from, to } => {
                write!(
                    f,
                    "the link between nodes {from} and {to} has unequal capacities in its two directions"
                )
            }
            ForwardingNode { node } => {
                write!(f, "node {node} is not a member; spanning trees need every node to be one")
            }
            ZeroTrees => write!(f, "the number of trees per root must be at least 1"),
            OnlyForAllReduce => write!(f, "spanning trees carry an all_reduce alone"),
            DemandShape { len, members } => {
                write!(f, "demands need a row and a column for each of {members} members, not {len}")
            }
            NoDemand => write!(f, "no member sends anything to another"),
            ZeroPieces => write!(f, "the number of pieces must be at least 1"),
            NotATime { what } => write!(f, "{what} must be a number of at least 0"),
            TooManyMessages { pieces, messages, most } => {
                let each = messages / u128::from(*pieces).max(1);
                write!(f, "{pieces} pieces of each tree are {messages} messages (limit: {most}); ")?;
                match most / each.max(1) {
                    0 => write!(f, "one piece is {each} already, and fewer trees need fewer"),
                    1 => write!(f, "one piece fits"),
                    fit => write!(f, "{fit} pieces fit"),
                }
            }
            Overflow { what } => write!(f, "{what} is too large"),
            Inconsistent { step } => write!(f, "internal error in {step}"),
        }
    }
}

impl std::error::Error for SynthesisError {}

//! Kinds of operations: the rule that gives an operation's results, and the collective that it is.
//! [`super::rules`] owns what the rules say.

use kbc_ir::collective::CollKind;

/// The rule that gives the results of an operation from its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Wait,
    ShardDim,
    Mm,
    Bmm,
    Addmm,
    Baddbmm,
    Matmul,
    Linear,
    Einsum,
    Attention,
    Same,
    Clamp,
    Masked,
    Backward,
    SoftmaxBackward,
    OutputBackward,
    Copy,
    SliceScatter,
    Float,
    Cast,
    Logical,
    Binary,
    Divide,
    Compare,
    Where,
    Loss,
    LossBackward,
    View,
    Permute,
    Transpose,
    Unsqueeze,
    Squeeze,
    Expand,
    Repeat,
    Slice,
    Select,
    Split,
    Cat,
    Stack,
    Pad,
    Sum,
    Mean,
    Extreme,
    Any,
    MaxDim,
    ArgMax,
    Cumsum,
    Softmax,
    SoftmaxTo,
    LayerNorm,
    LayerNormBackward,
    Dropout,
    Embedding,
    OneHot,
    Gather,
    Scatter,
    Index,
    Full,
    Arange,
    SymSize,
    Number,
    Nothing,
}

impl Rule {
    /// Returns the collective of the language that the operation is, if it is one.
    pub fn collective(self) -> Option<CollKind> {
        match self {
            Rule::AllReduce => Some(CollKind::AllReduce),
            Rule::AllGather => Some(CollKind::AllGather),
            Rule::ReduceScatter => Some(CollKind::ReduceScatter),
            Rule::AllToAll | Rule::ShardDim => Some(CollKind::AllToAll),
            Rule::Broadcast => Some(CollKind::Broadcast),
            _ => None,
        }
    }

    /// Checks whether the operation is a collective.
    pub fn is_collective(self) -> bool {
        self.collective().is_some()
    }

    /// Checks whether the results are valid only after a wait.
    pub fn is_pending(self) -> bool {
        self.is_collective() && self != Rule::ShardDim
    }
}

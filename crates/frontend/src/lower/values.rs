//! Values of parameters.

use kbc_ir::types::DType;
use std::fmt;

/// The value of a parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ParamValue {
    /// An integer.
    Int(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// An element type: `param dt = f16`.
    Type(DType),
}

impl ParamValue {
    /// Converts the value to a number for arithmetic with tensors. An element type is no number.
    pub fn as_f64(self) -> f64 {
        match self {
            ParamValue::Int(i) => i as f64,
            ParamValue::Float(x) => x,
            ParamValue::Type(_) => f64::NAN,
        }
    }
}

impl ParamValue {
    /// Returns what the value is, for messages.
    pub(super) fn words(self) -> String {
        match self {
            ParamValue::Int(i) => format!("the integer {i}"),
            ParamValue::Float(x) => format!("the number {x:?}"),
            ParamValue::Type(t) => format!("the element type {t}"),
        }
    }
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Int(i) => write!(f, "{i}"),
            ParamValue::Float(x) => write!(f, "{x:?}"),
            ParamValue::Type(t) => write!(f, "{t}"),
        }
    }
}

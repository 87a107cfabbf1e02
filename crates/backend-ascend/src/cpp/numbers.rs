//! Names of element types in C++ and in the runtime, and literals of their numbers.

use super::errors::no_instruction;
use kbc_diag::Diagnostic;
use kbc_ir::types::DType;

/// Returns what the target calls a type: the C++ type of an element, and the type of simpler's
/// tensors (`DataType`).
fn row(d: DType) -> (&'static str, &'static str) {
    match d {
        DType::F32 => ("float", "FLOAT32"),
        DType::F16 => ("half", "FLOAT16"),
        DType::BF16 => ("bfloat16_t", "BFLOAT16"),
        DType::I32 => ("int32_t", "INT32"),
        DType::I8 => ("int8_t", "INT8"),
        DType::U8 => ("uint8_t", "UINT8"),
        DType::I16 => ("int16_t", "INT16"),
        DType::I64 => ("int64_t", "INT64"),
        DType::F8E4M3FN | DType::F8E5M2 => row(moved_as(d)),
    }
}

/// Returns the type that stands for a type in a kernel. A2 and A3 have no 8-bit floats, so these
/// are moved as bytes.
pub fn moved_as(d: DType) -> DType {
    if d.scaled().is_some() { DType::U8 } else { d }
}

/// Returns the C++ type of an element.
pub fn ctype(d: DType) -> &'static str {
    row(d).0
}

/// Returns the type of a tensor of the runtime.
pub fn device_type(d: DType) -> &'static str {
    row(d).1
}

/// Prints a number as a literal of this type.
///
/// # Errors
/// Returns E451 if the number is no value of the type, or if vector instructions of the type take
/// no numbers.
pub(super) fn number(d: DType, v: f64) -> Result<String, Diagnostic> {
    match d {
        DType::F32 => Ok(float(v as f32)),
        DType::F16 => Ok(format!("static_cast<half>({})", float(half::f16::from_f64(v).to_f32()))),
        DType::I32 if v == v.trunc() && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&v) => {
            Ok(format!("{}", v as i32))
        }
        DType::I32 => Err(no_instruction(format!("{v:?} is not a number of i32"))),
        _ => Err(no_instruction(format!(
            "a vector instruction has the number {v:?}, which tiles of {d} do not support"
        ))),
    }
}

/// Returns the shortest literal that reads back as this value.
fn float(v: f32) -> String {
    match v {
        _ if v.is_nan() => "__builtin_nanf(\"\")".into(),
        _ if v.is_infinite() => format!("{}__builtin_inff()", if v < 0.0 { "-" } else { "" }),
        _ => format!("{v:?}f"),
    }
}

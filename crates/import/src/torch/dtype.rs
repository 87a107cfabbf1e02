//! Element types, by the codes that exported programs use (not those of `c10::ScalarType`), and
//! type promotion.

/// An element type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum DType {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F8E4M3,
    F8E5M2,
    F8E4M3Uz,
    F8E5M2Uz,
    F8E8M0,
    F16,
    Bf16,
    F32,
    F64,
}

use DType::{
    Bf16, Bool, F8E4M3, F8E4M3Uz, F8E5M2, F8E5M2Uz, F8E8M0, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32,
    U64,
};

/// Each row: code in a file, type, name in messages, bytes per element.
const TABLE: [(i64, DType, &str, u64); 18] = [
    (1, U8, "u8", 1),
    (2, I8, "i8", 1),
    (3, I16, "i16", 2),
    (4, I32, "i32", 4),
    (5, I64, "i64", 8),
    (6, F16, "f16", 2),
    (7, F32, "f32", 4),
    (8, F64, "f64", 8),
    (12, Bool, "b8", 1),
    (13, Bf16, "bf16", 2),
    (28, U16, "u16", 2),
    (29, F8E4M3, "f8e4m3fn", 1),
    (30, F8E5M2, "f8e5m2", 1),
    (31, F8E4M3Uz, "f8e4m3fnuz", 1),
    (32, F8E5M2Uz, "f8e5m2fnuz", 1),
    (33, F8E8M0, "f8e8m0fnu", 1),
    (34, U32, "u32", 4),
    (35, U64, "u64", 8),
];

impl DType {
    fn row(self) -> &'static (i64, DType, &'static str, u64) {
        TABLE.iter().find(|r| r.1 == self).expect("every type has a row")
    }

    /// Returns the type with that code in a file.
    pub fn of_code(code: i64) -> Option<DType> {
        TABLE.iter().find(|r| r.0 == code).map(|r| r.1)
    }

    /// Returns the type with that name in messages and printed programs.
    pub fn of_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|r| r.2 == name).map(|r| r.1)
    }

    /// Returns PyTorch's type for an element type of kbc.
    pub fn of(ours: kbc_ir::types::DType) -> DType {
        DType::of_name(ours.name()).expect("kbc has types of PyTorch only")
    }

    /// Returns kbc's element type for the type, which has the same name.
    pub fn ours(self) -> Option<kbc_ir::types::DType> {
        kbc_ir::types::DType::parse(self.name())
    }

    /// Returns the type with that name in Python, such as `torch.float32`.
    pub fn of_python(name: &str) -> Option<DType> {
        Some(match name.strip_prefix("torch.")? {
            "float32" | "float" => F32,
            "float64" | "double" => F64,
            "float16" | "half" => F16,
            "bfloat16" => Bf16,
            "int64" | "long" => I64,
            "int32" | "int" => I32,
            "int16" | "short" => I16,
            "int8" => I8,
            "uint8" => U8,
            "uint16" => U16,
            "uint32" => U32,
            "uint64" => U64,
            "bool" => Bool,
            "float8_e4m3fn" => F8E4M3,
            "float8_e5m2" => F8E5M2,
            "float8_e4m3fnuz" => F8E4M3Uz,
            "float8_e5m2fnuz" => F8E5M2Uz,
            "float8_e8m0fnu" => F8E8M0,
            _ => return None,
        })
    }

    /// Returns the name of the type, such as `f32`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Returns the number of bytes per element.
    pub fn bytes(self) -> u64 {
        self.row().3
    }

    /// Returns the class of the type: 0 for truth values, 1 for integers, 2 for all others.
    pub fn class(self) -> u8 {
        match self {
            Bool => 0,
            U8 | U16 | U32 | U64 | I8 | I16 | I32 | I64 => 1,
            _ => 2,
        }
    }

    /// Promotes two types as `torch.promote_types` does; none if PyTorch rejects the pair.
    pub fn with(self, other: DType) -> Option<DType> {
        let (a, b) = if self.class() <= other.class() { (self, other) } else { (other, self) };
        let signed = |d: DType| matches!(d, I8 | I16 | I32 | I64);
        match (a, b) {
            _ if a == b => Some(a),
            _ if a.class() < b.class() => Some(b),
            (x, y) if x.class() == 1 => match (signed(x), signed(y)) {
                (true, true) => Some(x.max(y)),
                // An unsigned byte fits into the next signed type. Larger unsigned types
                // are not promoted.
                (true, false) | (false, true) => {
                    let (s, u) = if signed(x) { (x, y) } else { (y, x) };
                    (u == U8).then_some(s.max(I16))
                }
                (false, false) => None,
            },
            (F16, Bf16) | (Bf16, F16) => Some(F32),
            (x, y) if x.bytes() > 1 && y.bytes() > 1 => Some(if x.bytes() > y.bytes() { x } else { y }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_together() {
        assert_eq!(F32.with(I64), Some(F32));
        assert_eq!(F16.with(Bf16), Some(F32));
        assert_eq!(Bf16.with(F32), Some(F32));
        assert_eq!(U8.with(I8), Some(I16));
        assert_eq!(Bool.with(U8), Some(U8));
        assert_eq!(U8.with(U16), None);
        assert_eq!(F64.with(F16), Some(F64));
        assert_eq!(DType::of_code(13), Some(Bf16));
        for ours in kbc_ir::types::DType::ALL {
            let theirs = DType::of(ours);
            assert_eq!((theirs.ours(), theirs.bytes()), (Some(ours), ours.bytes()));
            assert_eq!(DType::of_python(&format!("torch.{}", ours.row().torch)), Some(theirs));
        }
        assert_eq!(DType::of_code(9), None);
    }
}

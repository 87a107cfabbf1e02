//! Element types: one row of facts per type.
//!
//! A new type is a word in `element_types!` and a row in [`DType::row`]. Its elements in memory
//! are a Rust type in `kbc_numerics::element`. A backend has its own row for what its target calls
//! the type. Everything else asks for the facts below and names no type.

use std::fmt;

/// Calls a macro with every element type and the Rust type of its elements in memory:
/// `element_types!(define args)` becomes `define! { [args] F32 f32, F16 f16, .. }`.
#[macro_export]
macro_rules! element_types {
    ($then:ident $($args:tt)*) => {
        $then! {
            [$($args)*]
            F32 f32,
            F16 f16,
            BF16 bf16,
            I32 i32,
            I8 i8,
            U8 u8,
            I16 i16,
            I64 i64,
            F8E4M3FN F8E4M3FN,
            F8E5M2 F8E5M2,
        }
    };
}

macro_rules! define {
    ([] $($name:ident $element:ident,)*) => {
        /// Element type.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[expect(missing_docs, reason = "the names are the types")]
        pub enum DType { $($name),* }

        impl DType {
            /// All element types.
            pub const ALL: [DType; [$(DType::$name),*].len()] = [$(DType::$name),*];
        }
    };
}
element_types!(define);

/// The facts about an element type.
#[derive(Debug)]
pub struct DTypeRow {
    /// Name in `.kb` and `.kir`.
    pub name: &'static str,
    /// Values that the type holds.
    pub format: Format,
    /// In which type it is computed, if it is.
    pub arithmetic: Arithmetic,
    /// Name in PyTorch, without `torch.`.
    pub torch: &'static str,
    /// `descr` in files of numpy, if numpy has the type.
    pub numpy: Option<&'static str>,
    /// Name in `.safetensors` files.
    pub safetensors: &'static str,
    /// Names that other languages and papers give it, in lower case, for suggestions.
    pub foreign_name: &'static [&'static str],
}

/// The values of an element type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Format {
    /// Binary floating-point numbers.
    Float(FloatFormat),
    /// Integers in two's complement.
    Int {
        /// Bits per element.
        bits: u32,
        /// Whether there are negative numbers.
        signed: bool,
    },
}

/// A binary floating-point format with gradual underflow and NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FloatFormat {
    /// Bits per element.
    pub bits: u32,
    /// Significant bits, with the hidden one.
    pub digits: u32,
    /// Exponent of the smallest normal number: that number is 2^least.
    pub least: i32,
    /// Largest finite number.
    pub max: f64,
    /// What a cast makes of numbers that are too large: infinity, or the largest finite number if
    /// the type has no infinity.
    pub infinite: bool,
}

/// In which type elements are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// In f32, and rounded once to the type where a result is stored.
    F32,
    /// In i32, wrapping.
    I32,
    /// Elements are moved and converted only, for this reason.
    None(&'static str),
}

const fn float(digits: u32, least: i32, max: f64, bits: u32, infinite: bool) -> Format {
    Format::Float(FloatFormat { bits, digits, least, max, infinite })
}

const fn int(bits: u32, signed: bool) -> Format {
    Format::Int { bits, signed }
}

const INDEX: Arithmetic = Arithmetic::None("it holds indices, masks and bytes");
const SCALED: Arithmetic =
    Arithmetic::None("8-bit floats hold scaled values, and a sum or product in them has no useful precision");

impl DType {
    /// Returns the facts about the type.
    pub fn row(self) -> &'static DTypeRow {
        match self {
            DType::F32 => {
                const {
                    &DTypeRow {
                        name: "f32",
                        format: float(24, -126, f32::MAX as f64, 32, true),
                        arithmetic: Arithmetic::F32,
                        torch: "float32",
                        numpy: Some("<f4"),
                        safetensors: "F32",
                        foreign_name: &["float", "float32", "single"],
                    }
                }
            }
            DType::F16 => {
                const {
                    &DTypeRow {
                        name: "f16",
                        format: float(11, -14, 65_504.0, 16, true),
                        arithmetic: Arithmetic::F32,
                        torch: "float16",
                        numpy: Some("<f2"),
                        safetensors: "F16",
                        foreign_name: &["float16", "half"],
                    }
                }
            }
            DType::BF16 => {
                const {
                    &DTypeRow {
                        name: "bf16",
                        format: float(8, -126, f32::from_bits(0x7f7f_0000) as f64, 16, true),
                        arithmetic: Arithmetic::F32,
                        torch: "bfloat16",
                        numpy: None,
                        safetensors: "BF16",
                        foreign_name: &["bfloat", "bfloat16"],
                    }
                }
            }
            DType::I32 => {
                const {
                    &DTypeRow {
                        name: "i32",
                        format: int(32, true),
                        arithmetic: Arithmetic::I32,
                        torch: "int32",
                        numpy: Some("<i4"),
                        safetensors: "I32",
                        foreign_name: &["int32"],
                    }
                }
            }
            DType::I8 => {
                const {
                    &DTypeRow {
                        name: "i8",
                        format: int(8, true),
                        arithmetic: INDEX,
                        torch: "int8",
                        numpy: Some("|i1"),
                        safetensors: "I8",
                        foreign_name: &["int8", "char"],
                    }
                }
            }
            DType::U8 => {
                const {
                    &DTypeRow {
                        name: "u8",
                        format: int(8, false),
                        arithmetic: INDEX,
                        torch: "uint8",
                        numpy: Some("|u1"),
                        safetensors: "U8",
                        foreign_name: &["uint8", "byte"],
                    }
                }
            }
            DType::I16 => {
                const {
                    &DTypeRow {
                        name: "i16",
                        format: int(16, true),
                        arithmetic: INDEX,
                        torch: "int16",
                        numpy: Some("<i2"),
                        safetensors: "I16",
                        foreign_name: &["short"],
                    }
                }
            }
            DType::I64 => {
                const {
                    &DTypeRow {
                        name: "i64",
                        format: int(64, true),
                        arithmetic: INDEX,
                        torch: "int64",
                        numpy: Some("<i8"),
                        safetensors: "I64",
                        foreign_name: &["long"],
                    }
                }
            }
            // E4M3 of "FP8 Formats for Deep Learning" (Micikevicius et al., arXiv:2209.05433). The
            // largest exponent holds numbers, too; only the code 0x7f is NaN. PyTorch rounds
            // numbers beyond the largest to it, also infinities (pull request 178817; before
            // April 2026 they became NaN, as they still do in ml_dtypes).
            DType::F8E4M3FN => {
                const {
                    &DTypeRow {
                        name: "f8e4m3fn",
                        format: float(4, -6, 448.0, 8, false),
                        arithmetic: SCALED,
                        torch: "float8_e4m3fn",
                        numpy: None,
                        safetensors: "F8_E4M3",
                        foreign_name: &[
                            "f8",
                            "fp8",
                            "f8e4m3",
                            "e4m3",
                            "e4m3fn",
                            "float8",
                            "float8_e4m3",
                            "float8_e4m3fn",
                        ],
                    }
                }
            }
            // E5M2 of the same paper: the upper half of an f16.
            DType::F8E5M2 => {
                const {
                    &DTypeRow {
                        name: "f8e5m2",
                        format: float(3, -14, 57_344.0, 8, true),
                        arithmetic: SCALED,
                        torch: "float8_e5m2",
                        numpy: None,
                        safetensors: "F8_E5M2",
                        foreign_name: &["bf8", "e5m2", "float8_e5m2"],
                    }
                }
            }
        }
    }

    /// Returns the size of one element in bytes.
    pub fn bytes(self) -> u64 {
        match self.row().format {
            Format::Float(f) => u64::from(f.bits) / 8,
            Format::Int { bits, .. } => u64::from(bits) / 8,
        }
    }

    /// Returns the floating-point format; none for integers.
    pub fn float(self) -> Option<FloatFormat> {
        match self.row().format {
            Format::Float(f) => Some(f),
            Format::Int { .. } => None,
        }
    }

    /// Returns the smallest and largest integer; none for floating-point types.
    pub fn range(self) -> Option<(i64, i64)> {
        match self.row().format {
            Format::Float(_) => None,
            Format::Int { bits, signed: true } => Some((i64::MIN >> (64 - bits), i64::MAX >> (64 - bits))),
            Format::Int { bits, signed: false } => Some((0, i64::MAX >> (63 - bits.min(63)))),
        }
    }

    /// Checks whether the type is a floating-point type.
    pub fn is_float(self) -> bool {
        self.float().is_some()
    }

    /// Checks whether the type has arithmetic. Elements of other types can be moved and converted,
    /// but neither computed with nor reduced.
    pub fn reduces(self) -> bool {
        !matches!(self.row().arithmetic, Arithmetic::None(_))
    }

    /// Checks whether the type is computed in f32.
    pub fn computes_in_f32(self) -> bool {
        self.row().arithmetic == Arithmetic::F32
    }

    /// Returns a floating-point type without arithmetic and the reason why it has none.
    pub fn scaled(self) -> Option<&'static str> {
        match self.row().arithmetic {
            Arithmetic::None(why) if self.is_float() => Some(why),
            Arithmetic::None(_) | Arithmetic::F32 | Arithmetic::I32 => None,
        }
    }

    /// Returns the type of that name.
    pub fn parse(s: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == s)
    }

    /// Returns the type to which other languages give that name, in lower case.
    pub fn foreign_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.row().foreign_name.contains(&name))
    }

    /// Returns the name in `.kb` and `.kir`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the names of the types with arithmetic, as in `f32, f16, bf16 or i32`.
    pub fn computing() -> String {
        let names: Vec<&str> = DType::ALL.into_iter().filter(|d| d.reduces()).map(DType::name).collect();
        match names.split_last() {
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

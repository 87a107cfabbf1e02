//! Machine-code module: declares, defines and finds functions, and counts what was compiled.
//!
//! It owns Cranelift's module and the table of host functions that compiled code may call.
//! [`super::calls`] defines those functions.

use super::calls;
use super::recipe::Recipe;
use cranelift::codegen::Context;
use cranelift::codegen::control::ControlPlane;
use cranelift::codegen::isa::OwnedTargetIsa;
use cranelift::codegen::verify_function;
use cranelift::jit::{JITBuilder, JITModule};
use cranelift::module::{FuncId, Linkage, Module, ModuleReloc, default_libcall_names};
use cranelift::prelude::*;
use kbc_ir::dtype::DType;
use kbc_ir::scalar::ScalarUn;
use kbc_numerics::element::*;
use kbc_numerics::functions::function;
use kbc_numerics::threads::shared_out;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

macro_rules! helpers {
    ($($variant:ident = $symbol:literal, $function:path, ($($param:ident),*) $(-> $ret:ident)?;)*) => {
        /// A host function that compiled code calls.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(super) enum Helper {
            $($variant,)*
            /// A conversion of a block to or from a floating-point type narrower than f32.
            Block(Conversion, DType),
            /// A scalar function of f32.
            Function(ScalarUn),
        }

        impl Helper {
            fn symbol(self) -> String {
                match self {
                    $(Helper::$variant => $symbol.to_owned(),)*
                    Helper::Block(c, dtype) => format!("kbc_{c:?}_{dtype}"),
                    Helper::Function(f) => format!("kbc_{}", f.name()),
                }
            }

            fn signature(self, sig: &mut Signature) {
                match self {
                    Helper::Block(c, _) => {
                        sig.params.extend(vec![AbiParam::new(types::I64); c.parameters()]);
                    }
                    Helper::Function(_) => {
                        sig.params.push(AbiParam::new(types::F32));
                        sig.returns.push(AbiParam::new(types::F32));
                    }
                    $(Helper::$variant => {
                        $(sig.params.push(AbiParam::new(types::$param));)*
                        $(sig.returns.push(AbiParam::new(types::$ret));)?
                    })*
                }
            }
        }

        fn symbols(builder: &mut JITBuilder) {
            $(builder.symbol($symbol, $function as *const u8);)*
            for f in ScalarUn::ALL.iter().copied() {
                builder.symbol(Helper::Function(f).symbol(), function(f).f32 as *const u8);
            }
            for dtype in DType::ALL {
                for c in Conversion::ALL {
                    builder.symbol(Helper::Block(c, dtype).symbol(), c.of(dtype));
                }
            }
        }
    };
}

/// A conversion of a block of elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Conversion {
    /// To f32.
    Widen,
    /// From f32.
    Narrow,
    /// From f32 and back.
    Round,
    /// From i64.
    Ints,
}

impl Conversion {
    const ALL: [Conversion; 4] = [Conversion::Widen, Conversion::Narrow, Conversion::Round, Conversion::Ints];

    fn parameters(self) -> usize {
        match self {
            Conversion::Widen => 4,
            Conversion::Narrow | Conversion::Ints => 3,
            Conversion::Round => 2,
        }
    }

    /// Returns the function for a type, with wide instructions for 16-bit types.
    fn of(self, dtype: DType) -> *const u8 {
        macro_rules! any {
            ([] $($name:ident $element:ident,)*) => {
                match (self, dtype) {
                    $((Conversion::Widen, DType::$name) => calls::widen::<$element> as *const u8,
                    (Conversion::Narrow, DType::$name) => calls::narrow::<$element> as *const u8,
                    (Conversion::Round, DType::$name) => calls::round::<$element> as *const u8,
                    (Conversion::Ints, DType::$name) => calls::of_ints::<$element> as *const u8,)*
                }
            };
        }
        match (self, dtype) {
            (Conversion::Widen, DType::F16) => calls::widen_f16 as *const u8,
            (Conversion::Widen, DType::BF16) => calls::widen_bf16 as *const u8,
            (Conversion::Narrow, DType::F16) => calls::narrow_f16 as *const u8,
            (Conversion::Narrow, DType::BF16) => calls::narrow_bf16 as *const u8,
            _ => kbc_ir::element_types!(any),
        }
    }
}

helpers! {
    Move = "kbc_move", calls::transfer, (I64, I64, I64, I64, I64, I64, I64, I64, I64) -> I8;
    Operands = "kbc_operands", calls::operands, (I64, I64, I64, I64, I64, I64, I64) -> I8;
    Notify = "kbc_notify", calls::notify, (I64, I64, I64) -> I8;
    Record = "kbc_record", calls::record, (I64, I64) -> I8;
    Room = "kbc_room", calls::room, (I64, I64, I64) -> I8;
    Ready = "kbc_ready", calls::ready, (I64, I64, I64) -> I8;
    Send = "kbc_send", calls::send, (I64, I64, I64, I64, I64, I64) -> I8;
    Recv = "kbc_recv", calls::recv, (I64, I64, I64, I64, I64, I64) -> I8;
    HostRead = "kbc_host_read", calls::host_read, (I64, I64) -> I8;
    Plan = "kbc_plan", calls::plan, (I64, I64) -> I64;
    Matmul = "kbc_matmul", calls::matmul, (I64) -> I64;
    Copy = "kbc_copy", calls::copy, (I64, I64, I64);
    GatherWord = "kbc_gather_word", calls::gather_word, (I64, I64, I64, I64);
}

/// Number of operations above which kernels, too, are compiled quickly instead of optimised. Bodies
/// always are, because they mostly call kernels.
pub(super) const QUICK: u32 = 4_000;

/// Largest number of functions that are compiled together, so that few are in memory at once.
const BATCH: usize = 256;

/// Multiplications that take as long as the compilation of an instruction, a microsecond.
const INSTRUCTION: usize = 1 << 15;

/// Whether a function is worth optimising.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effort {
    /// For kernels, which work on every element.
    Kernel,
    /// For bodies, whose operations run once or a few times and mostly call kernels.
    Body,
}

/// A function that is not compiled yet.
struct Pending {
    id: FuncId,
    context: Context,
    effort: Effort,
}

/// Functions of a program.
pub(super) struct Code {
    pub(super) module: JITModule,
    /// Target of bodies.
    quick: OwnedTargetIsa,
    pending: Vec<Pending>,
    helpers: BTreeMap<Helper, FuncId>,
    /// Kernels, by name.
    pub(super) kernels: BTreeMap<String, FuncId>,
    /// For the first operation of a fused chain, the number of operations that it replaces.
    pub(super) chains: BTreeMap<u32, usize>,
    /// How compiled operations get their operands, by number of the operation.
    pub(super) recipes: BTreeMap<u32, Recipe>,
    /// Maximum number of f32 that the blocks of a kernel need.
    pub(super) room: usize,
    /// Number of functions compiled.
    pub(super) functions: u64,
    /// Bytes of machine code.
    pub(super) bytes: u64,
}

impl Code {
    pub(super) fn new(ops: u32) -> Result<Code, String> {
        let quick = target("none")?;
        let isa = if ops > QUICK { quick.clone() } else { target("speed")? };
        let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
        symbols(&mut builder);
        Ok(Code {
            module: JITModule::new(builder),
            quick,
            pending: vec![],
            helpers: BTreeMap::new(),
            kernels: BTreeMap::new(),
            chains: BTreeMap::new(),
            recipes: BTreeMap::new(),
            room: 0,
            functions: 0,
            bytes: 0,
        })
    }

    pub(super) fn helper(&mut self, helper: Helper) -> FuncId {
        if let Some(id) = self.helpers.get(&helper) {
            return *id;
        }
        let mut sig = self.module.make_signature();
        helper.signature(&mut sig);
        let id = self
            .module
            .declare_function(&helper.symbol(), Linkage::Import, &sig)
            .expect("each helper is declared once, with one signature");
        self.helpers.insert(helper, id);
        id
    }

    pub(super) fn declare(&mut self, name: &str, sig: &Signature) -> Result<FuncId, String> {
        self.module.declare_function(name, Linkage::Local, sig).map_err(|e| e.to_string())
    }

    /// Defines a function, which is compiled with others later.
    pub(super) fn define(&mut self, id: FuncId, context: Context, effort: Effort) -> Result<(), String> {
        if cfg!(debug_assertions) {
            let verdict = verify_function(&context.func, self.module.isa());
            verdict.map_err(|e| format!("the generated function is wrong: {e}"))?;
        }
        self.pending.push(Pending { id, context, effort });
        if self.pending.len() < BATCH { Ok(()) } else { self.compile() }
    }

    /// Compiles the functions that are not compiled yet, on all cores.
    pub(super) fn compile(&mut self) -> Result<(), String> {
        let mut pending = std::mem::take(&mut self.pending);
        let (kernels, bodies) = (self.module.isa(), &*self.quick);
        let wrong = Mutex::new(BTreeMap::new());
        let size: usize = pending.iter().map(|p| p.context.func.dfg.num_insts()).sum();
        shared_out(size * INSTRUCTION, pending.iter_mut(), |p| {
            let isa = if p.effort == Effort::Kernel { kernels } else { bodies };
            if let Err(e) = p.context.compile(isa, &mut ControlPlane::default()) {
                let words = format!("{:?}", e.inner);
                wrong.lock().unwrap_or_else(PoisonError::into_inner).insert(p.id, words);
            }
        });
        let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = wrong.into_values().next() {
            return Err(words);
        }
        for Pending { id, context, .. } in pending {
            let code = context.compiled_code().ok_or("a function has no code")?;
            let relocs = code.buffer.relocs().iter();
            let relocs: Vec<_> = relocs.map(|r| ModuleReloc::from_mach_reloc(r, &context.func, id)).collect();
            let (bytes, alignment) = (code.code_buffer(), u64::from(code.buffer.alignment));
            self.module.define_function_bytes(id, alignment, bytes, &relocs).map_err(|e| format!("{e:?}"))?;
            self.functions += 1;
            self.bytes += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Returns this computer as a target, for a level of optimisation.
fn target(level: &str) -> Result<OwnedTargetIsa, String> {
    let mut flags = settings::builder();
    let mut set = |name: &str, value: &str| flags.set(name, value).map_err(|e| e.to_string());
    set("use_colocated_libcalls", "false")?;
    set("is_pic", "false")?;
    set("opt_level", level)?;
    // `define` checks what kbc generates. What cranelift makes of it is cranelift's to test.
    set("enable_verifier", "false")?;
    cranelift::native::builder()?.finish(settings::Flags::new(flags)).map_err(|e| e.to_string())
}

//! Machine-code module: declares, defines and finds functions, and counts what was compiled.
//!
//! It owns Cranelift's module and the table of host functions that compiled code may call.
//! [`super::calls`] defines those functions.

use super::calls;
use super::plan::Recipe;
use cranelift::codegen::Context;
use cranelift::codegen::control::ControlPlane;
use cranelift::jit::{JITBuilder, JITModule};
use cranelift::module::{FuncId, Linkage, Module, default_libcall_names};
use cranelift::prelude::*;
use std::collections::BTreeMap;

macro_rules! helpers {
    ($($variant:ident = $symbol:literal, $function:path, ($($param:ident),*) $(-> $ret:ident)?;)*) => {
        /// A host function that compiled code calls.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(super) enum Helper { $($variant),* }

        impl Helper {
            fn symbol(self) -> &'static str { match self { $(Helper::$variant => $symbol),* } }

            fn signature(self, sig: &mut Signature) {
                match self {
                    $(Helper::$variant => {
                        $(sig.params.push(AbiParam::new(types::$param));)*
                        $(sig.returns.push(AbiParam::new(types::$ret));)?
                    })*
                }
            }
        }

        fn symbols(builder: &mut JITBuilder) {
            $(builder.symbol($symbol, $function as *const u8);)*
        }
    };
}

helpers! {
    Move = "kbc_move", calls::transfer, (I64, I64, I64, I64, I64, I64, I64, I64, I64) -> I8;
    Operands = "kbc_operands", calls::operands, (I64, I64, I64, I64, I64, I64) -> I8;
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
    WidenF16 = "kbc_widen_f16", calls::widen_f16, (I64, I64, I64, I64);
    WidenBf16 = "kbc_widen_bf16", calls::widen_bf16, (I64, I64, I64, I64);
    NarrowF16 = "kbc_narrow_f16", calls::narrow_f16, (I64, I64, I64);
    NarrowBf16 = "kbc_narrow_bf16", calls::narrow_bf16, (I64, I64, I64);
    RoundF16 = "kbc_round_f16", calls::round_f16, (I64, I64);
    RoundBf16 = "kbc_round_bf16", calls::round_bf16, (I64, I64);
    IntsToF16 = "kbc_ints_to_f16", calls::ints_to_f16, (I64, I64, I64);
    IntsToBf16 = "kbc_ints_to_bf16", calls::ints_to_bf16, (I64, I64, I64);
    Exp = "kbc_exp", calls::exp, (F32) -> F32;
    Log = "kbc_log", calls::log, (F32) -> F32;
    Tanh = "kbc_tanh", calls::tanh, (F32) -> F32;
    Erf = "kbc_erf", calls::erf, (F32) -> F32;
    Sin = "kbc_sin", calls::sin, (F32) -> F32;
    Cos = "kbc_cos", calls::cos, (F32) -> F32;
}

/// Number of operations above which bodies are compiled quickly instead of optimised, because they
/// mostly call kernels.
pub(super) const QUICK: u32 = 4_000;

/// Functions compiled so far.
pub(super) struct Code {
    pub(super) module: JITModule,
    helpers: BTreeMap<Helper, FuncId>,
    /// Kernels, by name.
    pub(super) kernels: BTreeMap<String, FuncId>,
    /// For the first operation of a fused chain, the number of operations that it replaces.
    pub(super) chains: BTreeMap<u32, usize>,
    /// How compiled operations get their operands, by number of the operation.
    pub(super) recipes: BTreeMap<u32, Recipe>,
    /// Maximum number of f32 that the blocks of a kernel need.
    pub(super) room: usize,
    /// Number of functions defined.
    pub(super) functions: u64,
    /// Bytes of machine code.
    pub(super) bytes: u64,
}

impl Code {
    pub(super) fn new(ops: u32) -> Result<Code, String> {
        let mut flags = settings::builder();
        let mut set = |name: &str, value: &str| flags.set(name, value).map_err(|e| e.to_string());
        set("use_colocated_libcalls", "false")?;
        set("is_pic", "false")?;
        set("opt_level", if ops > QUICK { "none" } else { "speed" })?;
        set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
        let isa =
            cranelift::native::builder()?.finish(settings::Flags::new(flags)).map_err(|e| e.to_string())?;
        let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
        symbols(&mut builder);
        Ok(Code {
            module: JITModule::new(builder),
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
            .declare_function(helper.symbol(), Linkage::Import, &sig)
            .expect("each helper is declared once, with one signature");
        self.helpers.insert(helper, id);
        id
    }

    pub(super) fn declare(&mut self, name: &str, sig: &Signature) -> Result<FuncId, String> {
        self.module.declare_function(name, Linkage::Local, sig).map_err(|e| e.to_string())
    }

    pub(super) fn define(&mut self, id: FuncId, context: &mut Context) -> Result<(), String> {
        self.module
            .define_function_with_control_plane(id, context, &mut ControlPlane::default())
            .map_err(|e| format!("{e:?}"))?;
        self.functions += 1;
        self.bytes += context.compiled_code().map_or(0, |c| c.code_buffer().len() as u64);
        self.module.clear_context(context);
        Ok(())
    }
}

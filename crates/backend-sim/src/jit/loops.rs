//! A kernel under construction: its function, counted loops, and calls of host functions.
//!
//! The module owns what kernels have in common. [`super::kernel`] and [`super::local`] define what
//! they compute.

use super::abi;
use super::module::{Code, Effort, Helper};
use cranelift::codegen::Context;
use cranelift::codegen::ir::{FuncRef, UserFuncName};
use cranelift::module::{FuncId, Module};
use cranelift::prelude::*;
use std::collections::BTreeMap;

/// Number of elements that go through a kernel's scratch memory together: halves are widened, and
/// strided operands gathered, this many at a time.
pub(super) const BLOCK: i64 = 1024;

/// A function under construction.
pub(super) struct Kernel<'a, 'f> {
    pub(super) code: &'a mut Code,
    pub(super) b: FunctionBuilder<'f>,
    /// Its parameters.
    pub(super) params: Vec<Value>,
    used: BTreeMap<Helper, FuncRef>,
}

/// Compiles a kernel, unless one of that name exists. It has `params` parameters of 64 bits, and
/// the result 0, or 1 if it met a fault.
pub(super) fn kernel(
    code: &mut Code,
    name: String,
    params: usize,
    write: impl FnOnce(&mut Kernel<'_, '_>),
) -> Result<FuncId, String> {
    if let Some(id) = code.kernels.get(&name) {
        return Ok(*id);
    }
    let mut context: Context = code.module.make_context();
    let mut shared = FunctionBuilderContext::new();
    for _ in 0..params {
        context.func.signature.params.push(AbiParam::new(types::I64));
    }
    context.func.signature.returns.push(AbiParam::new(types::I64));
    let id = code.declare(&format!("kernel{}", code.kernels.len()), &context.func.signature)?;
    context.func.name = UserFuncName::user(0, id.as_u32());
    let mut b = FunctionBuilder::new(&mut context.func, &mut shared);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let params = b.block_params(entry).to_vec();
    let mut k = Kernel { code, b, params, used: BTreeMap::new() };
    write(&mut k);
    k.leave(0);
    k.b.seal_all_blocks();
    let Kernel { code, b, .. } = k;
    b.finalize(code.module.target_config());
    code.define(id, context, Effort::Kernel)?;
    code.kernels.insert(name, id);
    Ok(id)
}

impl Kernel<'_, '_> {
    /// Emits a return.
    pub(super) fn leave(&mut self, status: i64) {
        let status = self.b.ins().iconst(types::I64, status);
        self.b.ins().return_(&[status]);
    }

    pub(super) fn int(&mut self, v: i64) -> Value {
        self.b.ins().iconst(types::I64, v)
    }

    /// Loads word `i` of the plan, which is the first parameter.
    pub(super) fn word(&mut self, i: usize) -> Value {
        let plan = self.params[0];
        self.b.ins().load(types::I64, abi::trusted().with_readonly(), plan, 8 * i as i32)
    }

    pub(super) fn call(&mut self, helper: Helper, args: &[Value]) -> Option<Value> {
        let id = self.code.helper(helper);
        let (code, b) = (&mut *self.code, &mut self.b);
        let f = *self.used.entry(helper).or_insert_with(|| code.module.declare_func_in_func(id, b.func));
        let call = self.b.ins().call(f, args);
        self.b.inst_results(call).first().copied()
    }

    /// Emits `for i in from..to step by`. The last iteration may start up to `by - 1` before `to`.
    pub(super) fn each(&mut self, from: Value, to: Value, by: i64, body: impl FnOnce(&mut Self, Value)) {
        let (head, inside, after) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let at = self.b.append_block_param(head, types::I64);
        self.b.ins().jump(head, &[from.into()]);
        self.b.switch_to_block(head);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, at, to);
        self.b.ins().brif(more, inside, &[], after, &[]);
        self.b.switch_to_block(inside);
        body(self, at);
        let next = self.b.ins().iadd_imm_s(at, by);
        self.b.ins().jump(head, &[next.into()]);
        self.b.switch_to_block(after);
    }

    /// Runs `wide` on all whole groups of `by` in `0..n`, and `single` on the rest.
    pub(super) fn strips(
        &mut self,
        n: Value,
        by: i64,
        wide: impl FnOnce(&mut Self, Value),
        single: impl FnOnce(&mut Self, Value),
    ) {
        let zero = self.int(0);
        let whole = self.b.ins().band_imm_s(n, -by);
        self.each(zero, whole, by, wide);
        self.each(whole, n, 1, single);
    }

    /// Calls `body` on blocks `(first, length)` of `0..n`, of at most `size` elements.
    pub(super) fn blocks(&mut self, n: Value, size: i64, body: impl FnOnce(&mut Self, Value, Value)) {
        let zero = self.int(0);
        self.each(zero, n, size, |k, at| {
            let rest = k.b.ins().isub(n, at);
            let most = k.int(size);
            let len = k.b.ins().smin(rest, most);
            body(k, at, len);
        });
    }

    /// Emits `base + index * bytes`.
    pub(super) fn at(&mut self, base: Value, index: Value, bytes: i64) -> Value {
        let offset = self.b.ins().imul_imm_s(index, bytes);
        self.b.ins().iadd(base, offset)
    }

    pub(super) fn load(&mut self, t: Type, place: Value, offset: i32) -> Value {
        self.b.ins().load(t, abi::trusted(), place, offset)
    }

    pub(super) fn store(&mut self, v: Value, place: Value, offset: i32) {
        self.b.ins().store(abi::trusted(), v, place, offset);
    }
}

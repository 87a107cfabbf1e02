//! Role functions: one stream of one role in one region as a resumable function.
//!
//! The module owns control flow. Everything that must outlive a wait is in the frame, so a function
//! stops by returning and resumes by jumping to the operation at which it stopped: each operation
//! is a state. At each state the function yields if its budget is spent. [`super::address`] emits
//! addresses, [`super::kernel`] elementwise loops, [`super::calls`] the work of the host.

use super::abi::{self, AWAITS, DONE, EMPTY, FAULT, FULL, Frame, WAITS, YIELDS};
use super::address::MemoryRange;
use super::kernel::combine;
use super::local::kernel_of;
use super::module::{Code, Effort, Helper};
use super::number::{Emit, Num};
use super::recipe::computes;
use super::tables::Tables;
use crate::effect::mem_dtype;
use cranelift::codegen::ir::{FuncRef, UserFuncName};
use cranelift::module::{FuncId, Module};
use cranelift::prelude::*;
use kbc_ir::expr::BinOp;
use kbc_ir::form::Form;
use kbc_ir::interval::{Interval, binary};
use kbc_ir::schedule::{Channel, Counter, LocalOp, QueueId};
use kbc_ir::types::{DType, ReduceOp};
use kbc_ir::walk::code::{COp, CStmt};
use kbc_ir::walk::{Mem, Program};
use std::collections::BTreeMap;

/// The result of compiling one stream.
pub(super) struct Body {
    pub(super) function: FuncId,
    /// Number of slots of its frame.
    pub(super) frame: usize,
}

struct Builder<'a, 'f, 'p> {
    e: Emit<'a, 'f, 'p>,
    code: &'a mut Code,
    region: usize,
    /// Slot that holds the base of the group.
    base: usize,
    frame: usize,
    /// Resume points: state n is entry n - 1.
    states: Vec<Block>,
    used: BTreeMap<u32, FuncRef>,
}

/// Compiles a body. Slots of the frame beyond the environment are numbered from `Program::env_len`
/// on.
pub(super) fn body(
    code: &mut Code,
    program: &Program<'_>,
    tables: &mut Tables,
    region: usize,
    name: &str,
    list: &[CStmt<'_>],
) -> Result<Body, String> {
    let mut context = code.module.make_context();
    let mut shared = FunctionBuilderContext::new();
    context.func.signature.params.push(AbiParam::new(types::I64));
    context.func.signature.returns.push(AbiParam::new(types::I64));
    let function = code.declare(name, &context.func.signature)?;
    context.func.name = UserFuncName::user(0, function.as_u32());
    let mut b = FunctionBuilder::new(&mut context.func, &mut shared);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let ctx = b.block_params(entry)[0];
    let env = b.ins().load(types::I64, abi::trusted(), ctx, abi::ENV);
    let state = b.ins().load(types::I64, abi::trusted(), ctx, abi::STATE);
    let (dispatch, fault) = (b.create_block(), b.create_block());
    let begin = b.create_block();
    b.ins().brif(state, dispatch, &[], begin, &[]);
    b.switch_to_block(begin);
    let base = program.env_len;
    let mut ranges = vec![Interval::ANY; base + 1];
    ranges[0] = Interval::of(0, i64::from(u32::MAX));
    for (i, a) in program.schedule.mesh.axes.iter().enumerate() {
        ranges[i + 1] = Interval::of(0, a.size as i64 - 1);
    }
    for (slot, size) in &program.regions[region].coords {
        ranges[*slot as usize] = Interval::of(0, *size as i64 - 1);
    }
    ranges[base] = Interval::of(0, program.ranks() as i64 - 1);
    let e = Emit { program, tables, b, ctx, env, fault, ranges };
    let mut m = Builder { e, code, region, base, frame: base + 1, states: vec![], used: BTreeMap::new() };
    m.list(list)?;
    m.finish(DONE);
    m.e.b.switch_to_block(fault);
    m.finish(FAULT);
    m.e.b.switch_to_block(dispatch);
    m.dispatch(state);
    let frame = m.frame;
    let Builder { mut e, code, .. } = m;
    e.b.seal_all_blocks();
    e.b.finalize(code.module.target_config());
    code.define(function, context, Effort::Body)?;
    Ok(Body { function, frame })
}

impl Builder<'_, '_, '_> {
    fn finish(&mut self, status: i64) {
        let status = self.e.b.ins().iconst(types::I64, status);
        self.e.b.ins().return_(&[status]);
    }

    /// Emits a jump to the operation at which the function stopped.
    fn dispatch(&mut self, state: Value) {
        let mut switch = cranelift::frontend::Switch::new();
        for (i, block) in self.states.iter().enumerate() {
            switch.set_entry(i as u128 + 1, *block);
        }
        switch.emit(&mut self.e.b, state, self.e.fault);
    }

    fn helper(&mut self, helper: Helper) -> FuncRef {
        let id = self.code.helper(helper);
        self.function(id)
    }

    fn function(&mut self, id: FuncId) -> FuncRef {
        let (code, b) = (&mut *self.code, &mut self.e.b);
        *self.used.entry(id.as_u32()).or_insert_with(|| code.module.declare_func_in_func(id, b.func))
    }

    /// Emits a call of a helper whose first parameter is the context and that returns 0 on success.
    /// Any other result is a fault.
    fn call(&mut self, helper: Helper, args: &[Num]) {
        let wrong = self.call_for(helper, args);
        self.e.refuse(wrong);
    }

    fn call_for(&mut self, helper: Helper, args: &[Num]) -> Value {
        let f = self.helper(helper);
        let mut values = vec![self.e.ctx];
        values.extend(args.iter().map(|a| self.e.ssa(*a)));
        let call = self.e.b.ins().call(f, &values);
        self.e.b.inst_results(call)[0]
    }

    fn list(&mut self, list: &[CStmt<'_>]) -> Result<(), String> {
        let mut at = 0;
        while at < list.len() {
            match &list[at] {
                CStmt::For { slot, lo, hi, body } => self.repeat(*slot as usize, lo, hi, body)?,
                CStmt::If { cond, then, other } => {
                    let c = self.e.expr(cond);
                    match c.constant() {
                        Some(0) => self.list(other)?,
                        Some(_) => self.list(then)?,
                        None => self.branch(c, then, other)?,
                    }
                }
                CStmt::Written(run) => {
                    for (op, _, number) in *run {
                        self.state();
                        self.op(&self.e.program.resolved(self.region, op), number)?;
                    }
                }
                CStmt::Op(op, _, number) => {
                    let fused = self.code.chains.get(number).copied().unwrap_or(1);
                    self.state();
                    self.op(op, *number)?;
                    at += fused;
                    continue;
                }
            }
            at += 1;
        }
        Ok(())
    }

    fn branch(&mut self, c: Num, then: &[CStmt<'_>], other: &[CStmt<'_>]) -> Result<(), String> {
        let c = self.e.ssa(c);
        let (yes, no, join) = (self.e.b.create_block(), self.e.b.create_block(), self.e.b.create_block());
        self.e.b.ins().brif(c, yes, &[], no, &[]);
        self.e.b.switch_to_block(yes);
        self.list(then)?;
        self.e.b.ins().jump(join, &[]);
        self.e.b.switch_to_block(no);
        self.list(other)?;
        self.e.b.ins().jump(join, &[]);
        self.e.b.switch_to_block(join);
        Ok(())
    }

    fn repeat(
        &mut self,
        slot: usize,
        lo: &kbc_ir::resolved::Resolved,
        hi: &kbc_ir::resolved::Resolved,
        body: &[CStmt<'_>],
    ) -> Result<(), String> {
        let (lo, hi) = (self.e.expr(lo), self.e.expr(hi));
        let more = binary(BinOp::Lt, lo.within, hi.within).within;
        if more.constant() == Some(0) {
            return Ok(());
        }
        let end = self.frame;
        self.frame += 1;
        self.e.ranges.push(hi.within);
        self.e.set_slot(end, hi);
        self.e.set_slot(slot, lo);
        let before = self.e.ranges[slot];
        self.e.ranges[slot] = Interval::counted(lo.within, hi.within);
        let (head, inside, after) =
            (self.e.b.create_block(), self.e.b.create_block(), self.e.b.create_block());
        self.e.b.ins().jump(head, &[]);
        self.e.b.switch_to_block(head);
        let (at, to) = (
            self.e.b.ins().load(types::I64, abi::trusted(), self.e.env, Frame::offset(slot)),
            self.e.b.ins().load(types::I64, abi::trusted(), self.e.env, Frame::offset(end)),
        );
        let more = self.e.b.ins().icmp(IntCC::SignedLessThan, at, to);
        self.e.b.ins().brif(more, inside, &[], after, &[]);
        self.e.b.switch_to_block(inside);
        self.list(body)?;
        let at = self.e.b.ins().load(types::I64, abi::trusted(), self.e.env, Frame::offset(slot));
        let next = self.e.b.ins().iadd_imm_s(at, 1);
        self.e.b.ins().store(abi::trusted(), next, self.e.env, Frame::offset(slot));
        self.e.b.ins().jump(head, &[]);
        self.e.b.switch_to_block(after);
        self.e.ranges[slot] = before;
        Ok(())
    }

    /// Emits a resume point, at which the function yields if its budget is spent.
    fn state(&mut self) {
        let here = self.e.b.create_block();
        self.states.push(here);
        self.e.b.ins().jump(here, &[]);
        self.e.b.switch_to_block(here);
        let (ctx, flags) = (self.e.ctx, abi::trusted());
        let budget = self.e.b.ins().load(types::I64, flags, ctx, abi::BUDGET);
        let (stop, go) = (self.e.b.create_block(), self.e.b.create_block());
        self.e.b.ins().brif(budget, go, &[], stop, &[]);
        self.e.b.switch_to_block(stop);
        self.suspend(YIELDS);
        self.e.b.switch_to_block(go);
        let less = self.e.b.ins().iadd_imm_s(budget, -1);
        self.e.b.ins().store(flags, less, ctx, abi::BUDGET);
    }

    /// Emits a return such that the function resumes at the last state.
    fn suspend(&mut self, status: i64) {
        let state = self.e.b.ins().iconst(types::I64, self.states.len() as i64);
        self.e.b.ins().store(abi::trusted(), state, self.e.ctx, abi::STATE);
        self.finish(status);
    }

    fn op(&mut self, op: &COp, number: u32) -> Result<(), String> {
        let me = self.e.b.ins().load(types::I64, abi::trusted(), self.e.ctx, abi::RANK);
        let me = Num::of(me, Interval::of(0, self.e.program.ranks() as i64 - 1));
        let (region, base) = (self.region, self.base);
        match op {
            COp::Copy { dst, src } => {
                let (dst, src) = self.e.pair(region, (dst, me), (src, me));
                self.transfer((me, src), (me, dst), false);
            }
            COp::Reduce { op, dst, src } => {
                let (dst, src) = self.e.pair(region, (dst, me), (src, me));
                self.reduce(*op, dst, (me, src))?;
            }
            COp::Put { src, peer, dst } => {
                let peer = self.e.peer(region, peer, base);
                let (src, dst) = self.e.pair(region, (src, me), (dst, peer));
                self.transfer((me, src), (peer, dst), true);
            }
            COp::Get { dst, peer, src } => {
                let peer = self.e.peer(region, peer, base);
                let (dst, src) = self.e.pair(region, (dst, me), (src, peer));
                self.transfer((peer, src), (me, dst), true);
            }
            COp::GetCombine { op, dst, peer, src } => {
                let peer = self.e.peer(region, peer, base);
                let (dst, src) = self.e.pair(region, (dst, me), (src, peer));
                self.reduce(*op, dst, (peer, src))?;
            }
            COp::Send { src, peer, queue: Channel { queue, index } } => {
                let peer = self.e.peer(region, peer, base);
                let src = self.e.message(region, src, *queue, me);
                let number = self.e.queue(*queue, index);
                self.wait_queue(Helper::Room, FULL, peer, number);
                self.message(Helper::Send, src, *queue, peer, number);
            }
            COp::Recv { dst, peer, queue: Channel { queue, index } } => {
                let peer = self.e.peer(region, peer, base);
                let dst = self.e.message(region, dst, *queue, me);
                let number = self.e.queue(*queue, index);
                self.wait_queue(Helper::Ready, EMPTY, peer, number);
                self.message(Helper::Recv, dst, *queue, peer, number);
            }
            COp::Room { peer, queue: Channel { queue, index } } => {
                let peer = self.e.peer(region, peer, base);
                let number = self.e.queue(*queue, index);
                self.wait_queue(Helper::Room, FULL, peer, number);
            }
            COp::Notify { peer, counter: Counter { signal, index } } => {
                let peer = self.e.peer(region, peer, base);
                let counter = self.e.counter(*signal, index);
                self.call(Helper::Notify, &[peer, counter]);
            }
            COp::Wait { counter: Counter { signal, index }, value } => {
                let counter = self.e.counter(*signal, index);
                let value = self.e.expr(value);
                let s = self.e.program.schedule.signal(*signal);
                if !s.form.fresh() {
                    return Err(format!(
                        "the initial value of @{} is unknown when a rank waits for it",
                        s.name
                    ));
                }
                self.wait(s.form, counter, value);
            }
            COp::Record(event) => self.call(Helper::Record, &[Num::int(i64::from(*event))]),
            COp::Await(event) => self.wait_event(*event),
            COp::HostRead(b) => self.call(Helper::HostRead, &[Num::int(i64::from(b.0))]),
            COp::Local(l) => self.local(self.e.program.local(*l), number)?,
            // Everything is complete and visible at once, as in the interpreter.
            COp::FenceRelease | COp::FenceAcquire | COp::FenceComplete | COp::Mark(()) => {}
            COp::Host(host) => match *host {},
        }
        Ok(())
    }

    fn dtype(&self, mem: u32) -> DType {
        let s = self.e.program.schedule;
        let buffers = s.buffers.len() as u32;
        mem_dtype(s, if mem < buffers { Mem::Buffer(mem) } else { Mem::Slot(mem - buffers, 0) })
    }

    fn transfer(&mut self, from: (Num, MemoryRange), to: (Num, MemoryRange), remote: bool) {
        let (src, dst) = (from.1, to.1);
        if self.dtype(src.mem) != self.dtype(dst.mem) {
            return self.e.refuse_always();
        }
        let mem = |p: MemoryRange| Num::int(i64::from(p.mem));
        let remote = Num::int(i64::from(remote));
        self.call(Helper::Move, &[from.0, mem(src), src.start, to.0, mem(dst), dst.start, src.len, remote]);
    }

    /// Moves a message between memory and a queue that lets it pass.
    fn message(&mut self, helper: Helper, side: Option<MemoryRange>, queue: QueueId, peer: Num, number: Num) {
        let carries = self.e.program.schedule.queue(queue).dtype;
        let Some(place) = side.filter(|p| self.dtype(p.mem) == carries) else {
            return self.e.refuse_always();
        };
        self.call(helper, &[peer, number, Num::int(i64::from(place.mem)), place.start, place.len]);
    }

    /// Combines elements of this rank with those of a rank.
    fn reduce(
        &mut self,
        op: ReduceOp,
        dst: MemoryRange,
        (from, src): (Num, MemoryRange),
    ) -> Result<(), String> {
        let dtype = self.dtype(dst.mem);
        if dtype != self.dtype(src.mem) || !computes(dtype) {
            self.e.refuse_always();
            return Ok(());
        }
        let mem = |p: MemoryRange| Num::int(i64::from(p.mem));
        self.call(Helper::Operands, &[mem(dst), dst.start, from, mem(src), src.start, src.len]);
        let id = combine(self.code, op, dtype)?;
        let kernel = self.function(id);
        let len = self.e.ssa(src.len);
        let (ctx, flags) = (self.e.ctx, abi::trusted());
        let d = self.e.b.ins().load(types::I64, flags, ctx, abi::DST);
        let old = self.e.b.ins().load(types::I64, flags, ctx, abi::OLD);
        let s = self.e.b.ins().load(types::I64, flags, ctx, abi::SRC);
        let room = self.e.b.ins().load(types::I64, flags, ctx, abi::SCRATCH);
        self.e.b.ins().call(kernel, &[d, old, s, len, room]);
        Ok(())
    }

    fn local(&mut self, op: &LocalOp, number: u32) -> Result<(), String> {
        let Some(kernel) = kernel_of(self.code, self.e.program, op, number)? else {
            self.e.refuse_always();
            return Ok(());
        };
        let plan = self.call_for(Helper::Plan, &[Num::int(i64::from(number))]);
        let none = self.e.b.ins().icmp_imm_s(IntCC::Equal, plan, 0);
        self.e.refuse(none);
        let kernel = self.function(kernel);
        let room = self.e.b.ins().load(types::I64, abi::trusted(), self.e.ctx, abi::SCRATCH);
        let call = self.e.b.ins().call(kernel, &[plan, room]);
        let wrong = self.e.b.inst_results(call)[0];
        self.e.refuse(wrong);
        Ok(())
    }

    fn wait(&mut self, form: Form, counter: Num, value: Num) {
        let (ctx, flags) = (self.e.ctx, abi::trusted());
        let (c, v) = (self.e.ssa(counter), self.e.ssa(value));
        let all = self.e.b.ins().load(types::I64, flags, ctx, abi::COUNTERS);
        let offset = self.e.b.ins().ishl_imm_s(c, 3);
        let place = self.e.b.ins().iadd(all, offset);
        let have = self.e.b.ins().load(types::I64, flags, place, 0);
        let most = match form {
            Form::Epoch => None,
            Form::Sense { .. } => Some(1),
            Form::Clearing { .. } => Some(i64::MAX),
        };
        if let Some(most) = most {
            // Values that the form does not have: below zero, or neither sense.
            let wrong = self.e.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, v, most);
            self.e.refuse(wrong);
        }
        // Counters stay far below 2^63.
        let enough = match form {
            Form::Sense { .. } => {
                let sense = self.e.b.ins().band_imm_u(have, 1);
                self.e.b.ins().icmp(IntCC::Equal, sense, v)
            }
            Form::Epoch | Form::Clearing { .. } => {
                self.e.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, have, v)
            }
        };
        self.pass_or(enough, WAITS, c, v);
        if let Form::Clearing { .. } = form {
            let left = self.e.b.ins().isub(have, v);
            self.e.b.ins().store(flags, left, place, 0);
        }
    }

    fn wait_event(&mut self, event: u32) {
        let (ctx, flags) = (self.e.ctx, abi::trusted());
        let all = self.e.b.ins().load(types::I64, flags, ctx, abi::RECORDED);
        let calls = self.e.b.ins().load(types::I64, flags, all, 8 * event as i32);
        let call = self.e.slot(0);
        let call = self.e.ssa(call);
        let enough = self.e.b.ins().icmp(IntCC::SignedGreaterThan, calls, call);
        let event = self.e.b.ins().iconst(types::I64, i64::from(event));
        self.pass_or(enough, AWAITS, event, call);
    }

    /// Continues once the helper reports that a queue lets the operation pass.
    fn wait_queue(&mut self, passes: Helper, status: i64, peer: Num, number: Num) {
        let enough = self.call_for(passes, &[peer, number]);
        let (number, peer) = (self.e.ssa(number), self.e.ssa(peer));
        self.pass_or(enough, status, number, peer);
    }

    fn pass_or(&mut self, enough: Value, status: i64, want: Value, value: Value) {
        let (go, stop) = (self.e.b.create_block(), self.e.b.create_block());
        self.e.b.ins().brif(enough, go, &[], stop, &[]);
        self.e.b.switch_to_block(stop);
        self.e.b.ins().store(abi::trusted(), want, self.e.ctx, abi::WANT);
        self.e.b.ins().store(abi::trusted(), value, self.e.ctx, abi::VALUE);
        self.suspend(status);
        self.e.b.switch_to_block(go);
    }
}

//! Host of a rank in the adversarial executor: what it fills when a call begins, and what it checks
//! when a call is over.

use super::World;
use crate::adversary::{Difference, Trouble};
use crate::effect::Run;
use crate::interp::MAX_BYTES;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::schedule::{BufferId, BufferRole};
use kbc_ir::walk::Mem;
use kbc_numerics::tensor::{Data, multi_index};

impl World<'_> {
    pub(super) fn begin_call(&mut self, rank: u64, call: i64) -> Result<(), Diagnostic> {
        let host = self.flow.host(rank);
        for (i, b) in self.program.schedule.buffers.iter().enumerate() {
            let mem = Mem::Buffer(i as u32);
            match b.role {
                BufferRole::Input(n) => {
                    let data = self.host.fill(BufferId(i as u32), n, rank, call)?;
                    let writer = self.writer(host);
                    self.place(rank, mem).write(0, &data, writer);
                }
                _ if b.zero => {
                    let data = self.host.zeros(BufferId(i as u32), rank, MAX_BYTES)?;
                    let writer = self.writer(host);
                    self.place(rank, mem).write(0, &data, writer);
                }
                BufferRole::Output(_) | BufferRole::Temp => self.place(rank, mem).begin_call(call),
            }
        }
        Ok(())
    }

    /// Reads and compares the results of a call.
    pub(super) fn call_over(&mut self, t: usize, call: i64) -> Result<(), Trouble> {
        if self.flow.threads[t].stream != self.program.host {
            return Ok(());
        }
        self.pay(t)?;
        self.carry_out(t, usize::MAX)?;
        self.finish(t, |f| f.complete)?;
        let rank = self.flow.threads[t].rank;
        self.reads[rank as usize] = 0;
        // If the host has a program, its reads were compared when they happened.
        let results = if self.program.schedule.host.is_none() { self.host.results(rank)? } else { vec![] };
        for (k, (b, bounds, n)) in results.into_iter().enumerate() {
            let run = Run { mem: Mem::Buffer(b.0), start: 0, len: n };
            let got = self.look(t, rank, run).map_err(|i| self.host.unwritten(b, &bounds, i, rank, call))?;
            let want = self
                .expected
                .outputs
                .get(call as usize)
                .and_then(|c| c.get(rank as usize)?.get(k))
                .ok_or_else(|| Diagnostic::error("E360", format!("no expected results for call {call}")))?;
            self.compared += n;
            if let Some(i) = want.tensor.data().first_difference(&got) {
                return Err(self.differs(b, None, (rank, call), &bounds, i, (want.tensor.data(), &got)));
            }
        }
        if call + 1 < self.flow.calls {
            self.begin_call(rank, call + 1)?;
        }
        Ok(())
    }

    /// Performs `host.read`: compares what the host sees with its value in the undisturbed run.
    pub(super) fn host_read(&mut self, t: usize, b: BufferId, span: Span) -> Result<(), Trouble> {
        let (rank, call) = (self.flow.threads[t].rank, self.flow.threads[t].call);
        let dims = self.program.dims(b, rank).map_err(|f| f.diagnostic(|r| self.show(r)))?;
        let run = Run { mem: Mem::Buffer(b.0), start: 0, len: dims.iter().product() };
        let got = self.read(t, rank, run, span)?;
        let expected = self.expected.reads.get(call as usize).and_then(|c| c.get(rank as usize));
        let want = expected
            .and_then(|r| r.get(self.reads[rank as usize]))
            .filter(|r| r.buffer == b)
            .ok_or_else(|| Diagnostic::error("E360", format!("no expected host reads for call {call}")))?;
        self.reads[rank as usize] += 1;
        self.compared += run.len;
        let want = want.tensor.data();
        match want.first_difference(&got) {
            Some(i) => {
                let whole: Vec<(u64, u64)> = dims.iter().map(|d| (0, *d)).collect();
                Err(self.differs(b, Some(span), (rank, call), &whole, i, (want, &got)))
            }
            None => Ok(()),
        }
    }

    pub(super) fn differs(
        &self,
        b: BufferId,
        read: Option<Span>,
        (rank, call): (u64, i64),
        bounds: &[(u64, u64)],
        i: usize,
        (want, got): (&Data, &Data),
    ) -> Trouble {
        let nothing = kbc_numerics::element::Value::Float(f64::NAN);
        let (expected, got) = (want.get(i).unwrap_or(nothing), got.get(i).unwrap_or(nothing));
        let shape: Vec<u64> = bounds.iter().map(|b| b.1 - b.0).collect();
        let index: Vec<u64> =
            multi_index(&shape, i as u64).iter().zip(bounds).map(|(i, b)| i + b.0).collect();
        let buffer = self.program.schedule.buffer(b);
        let show = self.program.schedule.mesh.show(rank);
        let d = Diagnostic::error(
            "E366",
            format!(
                "{} differs at {index:?} on {show} in call {call}: expected {expected}, got {got}",
                buffer.name
            ),
        )
        .primary(read.unwrap_or(buffer.span), if read.is_some() { "read here" } else { "this result" })
        .help("a fence, wait, notify or credit is missing: `kbc check` reports where");
        Trouble::Differs(Box::new(Difference { call, rank, buffer: b, index, expected, got }), Box::new(d))
    }
}

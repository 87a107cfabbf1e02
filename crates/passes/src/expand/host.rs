//! Host statements: the section `host` of a schedule.
//!
//! This module determines the order of the section. Operations before a statement of the host are
//! launched before it, all results are read at the end, and a call ends when everything is over. A
//! write goes to the buffer of the value that it replaces, unless that value is used again later.

use super::lower::Lower;
use kbc_diag::Diagnostics;
use kbc_ir::graph::{GraphOp, HostOp, OpId};
use kbc_ir::schedule::{BufferId, BufferRole, Host, HostCommand, RegionId, SOp, SStmt};
use kbc_ir::uses::writes;

impl Lower<'_> {
    /// Lowers a statement of the host, and returns the buffer of its value.
    pub(super) fn host(
        &mut self,
        id: OpId,
        what: HostOp,
        op: &GraphOp,
        operands: &[OpId],
    ) -> Result<BufferId, Diagnostics> {
        let first = self.of(operands[0])?;
        self.host_launches();
        let buffer = match what {
            HostOp::Write => self.written(id, op, first, operands)?,
            HostOp::Read | HostOp::Wait | HostOp::Drain => first,
        };
        let regions = &self.out.regions;
        let makers = regions.iter().enumerate().filter(|(_, r)| writes(r, first));
        let makers: Vec<RegionId> = makers.map(|(i, _)| RegionId(i as u32)).collect();
        let Some(host) = &mut self.host else { return Ok(buffer) };
        let mut push = |what: SOp| host.body.push(SStmt::Op(what, op.span));
        match what {
            HostOp::Read => push(SOp::HostRead(first)),
            HostOp::Wait => makers.into_iter().for_each(|r| push(SOp::Host(HostCommand::Wait(r)))),
            HostOp::Drain => push(SOp::Host(HostCommand::Drain)),
            HostOp::Write => {
                let src = self.values.get(&operands[1]).copied().filter(|src| *src != buffer);
                src.into_iter().for_each(|src| push(SOp::Host(HostCommand::Write { dst: buffer, src })));
            }
        }
        Ok(buffer)
    }

    /// Launches the regions that have not been launched yet.
    fn host_launches(&mut self) {
        self.flush();
        let regions = &self.out.regions;
        let Some(host) = &mut self.host else { return };
        for (i, r) in regions.iter().enumerate().skip(host.launched) {
            host.body.push(SStmt::Op(SOp::Host(HostCommand::Launch(RegionId(i as u32))), r.span));
        }
        host.launched = regions.len();
    }

    /// Returns the buffer of a written value: the buffer of the old value if that is not used any
    /// more, otherwise a new one.
    fn written(
        &mut self,
        id: OpId,
        op: &GraphOp,
        old: BufferId,
        operands: &[OpId],
    ) -> Result<BufferId, Diagnostics> {
        if self.of(operands[1])? == old {
            return Ok(old);
        }
        let after = self.graph.position(id) + 1;
        let mut later = self.graph.order()[after..].iter().flat_map(|o| self.graph.operands(*o));
        let used = later.any(|o| self.values.get(&o) == Some(&old));
        let ty = self.ty(id)?;
        Ok(if used { self.value(&op.name, &ty, op.span) } else { old })
    }

    /// Launches the remaining regions, reads the results, and waits for everything.
    pub(super) fn host_ends(&mut self) {
        if self.host.is_none() {
            return;
        }
        self.host_launches();
        let buffers = self.out.buffers.iter().enumerate();
        let mut results: Vec<(u32, BufferId)> = buffers
            .filter_map(|(i, b)| match b.role {
                BufferRole::Output(n) => Some((n, BufferId(i as u32))),
                BufferRole::Input(_) | BufferRole::Temp => None,
            })
            .collect();
        results.sort_unstable();
        let Some(mut host) = self.host.take() else { return };
        for (_, b) in results {
            host.body.push(SStmt::Op(SOp::HostRead(b), self.out.buffer(b).span));
        }
        host.body.push(SStmt::Op(SOp::Host(HostCommand::Drain), host.span));
        self.out.host = Some(Host { body: host.body, span: host.span });
    }
}

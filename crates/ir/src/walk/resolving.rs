//! Resolution of operations: their names become numbers of slots, tables and events.

use super::compiled::{CRef, Compiled, LocalNumber, Scope, Shared};
use crate::expr::Expr;
use crate::host;
use crate::name::Name;
use crate::op::{Mark, Symbolic, Translate};
use crate::resolved::Resolved;
use crate::schedule::{Channel, Counter, HostCommand, LocalOp, Peer, Ref, RefUse};
use kbc_diag::{Diagnostic, Span};
use std::convert::Infallible;

/// Translation of operations into resolved form.
pub(super) struct Resolving<'a, 's> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) shared: &'a mut Shared<'s>,
    pub(super) span: Span,
}

impl Resolving<'_, '_> {
    fn expr(&self, e: &Expr) -> Result<Resolved, Diagnostic> {
        self.scope.expr(e, self.span)
    }

    fn reference(&self, r: &Ref) -> Result<CRef, Diagnostic> {
        r.try_map(|e| self.expr(e))
    }

    fn peer(&self, peer: &Peer) -> Result<Vec<Resolved>, Diagnostic> {
        let mut out = Vec::with_capacity(peer.len());
        for e in peer.iter() {
            out.push(self.expr(e)?);
        }
        Ok(out)
    }

    fn counter(&self, c: &Counter) -> Result<Counter<Resolved>, Diagnostic> {
        Ok(Counter { signal: c.signal, index: self.expr(&c.index)? })
    }

    fn queue(&self, q: &Channel) -> Result<Channel<Resolved>, Diagnostic> {
        Ok(Channel { queue: q.queue, index: self.expr(&q.index)? })
    }
}

impl<'s> Translate<'s, Symbolic, Compiled> for Resolving<'_, 's> {
    type Error = Diagnostic;

    fn both(&mut self, dst: &Ref, src: &Ref) -> Result<(CRef, CRef), Diagnostic> {
        Ok((self.reference(dst)?, self.reference(src)?))
    }

    fn transfer(
        &mut self,
        _: RefUse,
        near: &Ref,
        peer: &Peer,
        far: &Ref,
    ) -> Result<(CRef, Vec<Resolved>, CRef), Diagnostic> {
        Ok((self.reference(near)?, self.peer(peer)?, self.reference(far)?))
    }

    fn message(
        &mut self,
        _: RefUse,
        near: &Ref,
        peer: &Peer,
        queue: &Channel,
    ) -> Result<(CRef, Vec<Resolved>, Channel<Resolved>), Diagnostic> {
        Ok((self.reference(near)?, self.peer(peer)?, self.queue(queue)?))
    }

    fn room(
        &mut self,
        peer: &Peer,
        queue: &Channel,
    ) -> Result<(Vec<Resolved>, Channel<Resolved>), Diagnostic> {
        Ok((self.peer(peer)?, self.queue(queue)?))
    }

    fn notify(
        &mut self,
        peer: &Peer,
        counter: &Counter,
    ) -> Result<(Vec<Resolved>, Counter<Resolved>), Diagnostic> {
        Ok((self.peer(peer)?, self.counter(counter)?))
    }

    fn wait(&mut self, counter: &Counter, value: &Expr) -> Result<(Counter<Resolved>, Resolved), Diagnostic> {
        Ok((self.counter(counter)?, self.expr(value)?))
    }

    fn event(&mut self, event: &Name) -> Result<u32, Diagnostic> {
        Ok(self.shared.event(event))
    }

    fn local(&mut self, local: &'s LocalOp) -> Result<LocalNumber, Diagnostic> {
        Ok(self.shared.local(local))
    }

    fn mark(&mut self, _: &Mark) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn host(&mut self, _: &HostCommand) -> Result<Infallible, Diagnostic> {
        Err(host::misplaced_host_op(self.span))
    }
}

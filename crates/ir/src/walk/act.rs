//! Acts: evaluation of operations at a place of a walk, in resolved form or as they are written in
//! the schedule.
//!
//! [`super::place`] owns the rules by which addresses, peers and counters are evaluated. They are
//! the same for both forms of an expression ([`Evaluated`]).

use super::compiled::{CRef, Compiled, LocalNumber};
use super::place::{Evaluated, RegionPlace};
use super::{Access, Concrete, Fault};
use crate::expr::Expr;
use crate::name::Name;
use crate::op::{Mark, Symbolic, Translate};
use crate::resolved::Resolved;
use crate::schedule::{Channel, Counter, HostCommand, LocalOp, Peer, Ref, RefUse};
use kbc_diag::Span;
use std::convert::Infallible;

/// Translation of operations at a place of a walk into concrete ones.
pub(super) struct At<'c, 'p> {
    pub(super) place: &'c RegionPlace<'p>,
    pub(super) span: Span,
}

impl At<'_, '_> {
    #[inline]
    fn both_sides<E: Evaluated>(&self, dst: &Ref<E>, src: &Ref<E>) -> Result<(Access, Access), Fault> {
        let me = self.place.rank;
        let (dst, src) = self.place.pair(dst, me, src, me, self.span)?;
        self.place.check_same_or_disjoint(&dst, &src, self.span)?;
        Ok((dst, src))
    }

    #[inline]
    fn transferred<E: Evaluated>(
        &self,
        near: &Ref<E>,
        peer: &[E],
        far: &Ref<E>,
    ) -> Result<(Access, u64, Access), Fault> {
        let peer = self.place.peer(peer, self.span)?;
        let (near, far) = self.place.pair(near, self.place.rank, far, peer, self.span)?;
        Ok((near, peer, far))
    }

    #[inline]
    fn queued<E: Evaluated>(
        &self,
        near: &Ref<E>,
        peer: &[E],
        queue: &Channel<E>,
    ) -> Result<(Access, u64, u32), Fault> {
        let peer = self.place.peer(peer, self.span)?;
        let near = self.place.message(near, queue.queue, self.span)?;
        Ok((near, peer, self.place.queue(queue.queue, &queue.index, self.span)?))
    }

    #[inline]
    fn queue_to<E: Evaluated>(&self, peer: &[E], queue: &Channel<E>) -> Result<(u64, u32), Fault> {
        let peer = self.place.peer(peer, self.span)?;
        Ok((peer, self.place.queue(queue.queue, &queue.index, self.span)?))
    }

    #[inline]
    fn notified<E: Evaluated>(&self, peer: &[E], counter: &Counter<E>) -> Result<(u64, u32), Fault> {
        let peer = self.place.peer(peer, self.span)?;
        Ok((peer, self.place.counter(counter.signal, &counter.index, self.span)?))
    }

    #[inline]
    fn awaited<E: Evaluated>(&self, counter: &Counter<E>, value: &E) -> Result<(u32, i64), Fault> {
        let value = self.place.value(value, self.span)?;
        let value = self.place.wanted(counter.signal, value, self.span)?;
        Ok((self.place.counter(counter.signal, &counter.index, self.span)?, value))
    }
}

impl<'p> Translate<'_, Compiled, Concrete<'p>> for At<'_, 'p> {
    type Error = Fault;

    #[inline]
    fn both(&mut self, dst: &CRef, src: &CRef) -> Result<(Access, Access), Fault> {
        self.both_sides(dst, src)
    }

    #[inline]
    fn transfer(
        &mut self,
        _: RefUse,
        near: &CRef,
        peer: &Vec<Resolved>,
        far: &CRef,
    ) -> Result<(Access, u64, Access), Fault> {
        self.transferred(near, peer, far)
    }

    #[inline]
    fn message(
        &mut self,
        _: RefUse,
        near: &CRef,
        peer: &Vec<Resolved>,
        queue: &Channel<Resolved>,
    ) -> Result<(Access, u64, u32), Fault> {
        self.queued(near, peer, queue)
    }

    #[inline]
    fn room(&mut self, peer: &Vec<Resolved>, queue: &Channel<Resolved>) -> Result<(u64, u32), Fault> {
        self.queue_to(peer, queue)
    }

    #[inline]
    fn notify(&mut self, peer: &Vec<Resolved>, counter: &Counter<Resolved>) -> Result<(u64, u32), Fault> {
        self.notified(peer, counter)
    }

    #[inline]
    fn wait(&mut self, counter: &Counter<Resolved>, value: &Resolved) -> Result<(u32, i64), Fault> {
        self.awaited(counter, value)
    }

    #[inline]
    fn event(&mut self, event: &u32) -> Result<u32, Fault> {
        Ok(*event)
    }

    #[inline]
    fn local(&mut self, local: &LocalNumber) -> Result<&'p LocalOp, Fault> {
        Ok(self.place.program.local(*local))
    }

    #[inline]
    fn mark(&mut self, (): &()) -> Result<(), Fault> {
        Ok(())
    }

    #[inline]
    fn host(&mut self, host: &Infallible) -> Result<Infallible, Fault> {
        Ok(*host)
    }
}

impl<'p> Translate<'p, Symbolic, Concrete<'p>> for At<'_, 'p> {
    type Error = Fault;

    #[inline]
    fn both(&mut self, dst: &Ref, src: &Ref) -> Result<(Access, Access), Fault> {
        self.both_sides(dst, src)
    }

    #[inline]
    fn transfer(
        &mut self,
        _: RefUse,
        near: &Ref,
        peer: &Peer,
        far: &Ref,
    ) -> Result<(Access, u64, Access), Fault> {
        self.transferred(near, peer, far)
    }

    #[inline]
    fn message(
        &mut self,
        _: RefUse,
        near: &Ref,
        peer: &Peer,
        queue: &Channel,
    ) -> Result<(Access, u64, u32), Fault> {
        self.queued(near, peer, queue)
    }

    #[inline]
    fn room(&mut self, peer: &Peer, queue: &Channel) -> Result<(u64, u32), Fault> {
        self.queue_to(peer, queue)
    }

    #[inline]
    fn notify(&mut self, peer: &Peer, counter: &Counter) -> Result<(u64, u32), Fault> {
        self.notified(peer, counter)
    }

    #[inline]
    fn wait(&mut self, counter: &Counter, value: &Expr) -> Result<(u32, i64), Fault> {
        self.awaited(counter, value)
    }

    fn event(&mut self, _: &Name) -> Result<u32, Fault> {
        unreachable!("written operations have no events")
    }

    fn local(&mut self, local: &'p LocalOp) -> Result<&'p LocalOp, Fault> {
        Ok(local)
    }

    fn mark(&mut self, _: &Mark) -> Result<(), Fault> {
        Ok(())
    }

    fn host(&mut self, _: &HostCommand) -> Result<Infallible, Fault> {
        unreachable!("written operations are not of the host")
    }
}

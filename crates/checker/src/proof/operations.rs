//! Typing of operations: which of their parts must move with the rank, and which must stay.

use super::{Failed, Prover, by_call};
use crate::digits::QUEUES;
use crate::typing::{Env, Tys};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::op::{Symbolic, Translate};
use kbc_ir::schedule::{
    Channel, Counter, HostCommand, LocalOp, Mark, Peer, Ref, RefUse, Region, RegionId, SOp,
};

/// Position at which an operation is typed.
struct Typing<'t, 'a, 'e> {
    prover: &'t mut Prover<'a>,
    env: &'t Env<'e>,
    id: RegionId,
    region: &'t Region,
    own: &'t [Tys],
    /// Whether everything is typed, and not only what depends on the call.
    fresh: bool,
}

impl Prover<'_> {
    pub(super) fn op(
        &mut self,
        env: &Env,
        id: RegionId,
        region: &Region,
        own: &[Tys],
        op: &SOp,
        fresh: bool,
    ) -> Result<(), Failed> {
        self.step()?;
        op.translate::<(), _>(&mut Typing { prover: self, env, id, region, own, fresh }).map(drop)
    }
}

impl Typing<'_, '_, '_> {
    fn peer(&mut self, peer: &Peer) -> Result<(), Failed> {
        if peer.iter().any(|e| self.fresh || by_call(e)) {
            self.prover.peer(self.env, self.region, self.own, peer)?;
        }
        Ok(())
    }

    fn counter(&mut self, counter: &Counter) -> Result<(), Failed> {
        self.prover.same(self.env, &counter.index, || "a counter".into()).map(drop)
    }
}

impl Translate<'_, Symbolic, ()> for Typing<'_, '_, '_> {
    type Error = Failed;

    fn both(&mut self, dst: &Ref, src: &Ref) -> Result<((), ()), Failed> {
        self.prover.check_same_or_disjoint(self.env, self.region, (src, dst))?;
        self.prover.sides(self.env, self.id, self.region, (src, dst), self.fresh)?;
        Ok(((), ()))
    }

    fn transfer(&mut self, side: RefUse, near: &Ref, peer: &Peer, far: &Ref) -> Result<((), (), ()), Failed> {
        self.peer(peer)?;
        let sides = if side.writes() { (far, near) } else { (near, far) };
        self.prover.sides(self.env, self.id, self.region, sides, self.fresh)?;
        Ok(((), (), ()))
    }

    fn message(&mut self, _: RefUse, _: &Ref, _: &Peer, _: &Channel) -> Result<((), (), ()), Failed> {
        Err((0, QUEUES.into()))
    }

    fn room(&mut self, _: &Peer, _: &Channel) -> Result<((), ()), Failed> {
        Err((0, QUEUES.into()))
    }

    fn notify(&mut self, peer: &Peer, counter: &Counter) -> Result<((), ()), Failed> {
        self.peer(peer)?;
        self.counter(counter)?;
        Ok(((), ()))
    }

    fn wait(&mut self, counter: &Counter, value: &Expr) -> Result<((), ()), Failed> {
        self.counter(counter)?;
        self.prover.same(self.env, value, || "the value of a wait".into())?;
        Ok(((), ()))
    }

    /// Events concern this rank alone.
    fn event(&mut self, _: &Name) -> Result<(), Failed> {
        Ok(())
    }

    fn local(&mut self, local: &LocalOp) -> Result<(), Failed> {
        self.prover.local(self.env, self.region, local)
    }

    /// Marks have no effect.
    fn mark(&mut self, _: &Mark) -> Result<(), Failed> {
        Ok(())
    }

    /// The host's program is expanded before anything is walked.
    fn host(&mut self, _: &HostCommand) -> Result<(), Failed> {
        Ok(())
    }
}

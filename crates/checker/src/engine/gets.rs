//! Gets: what they read at a peer, and what they write or combine on their own rank.

use super::{Engine, Stopped, Transfer};
use crate::contents::Contents;
use crate::order::{Accessor, Completion};
use kbc_diag::Span;
use kbc_ir::types::ReduceOp;
use kbc_ir::walk::{Access, Cursor, Mem};

impl<C: Contents> Engine<'_, C> {
    /// Executes a get: of `dst` from the elements `src` of a peer. `add` is the operation and its
    /// combiner if the data is combined into `dst`.
    pub(super) fn get(
        &mut self,
        si: usize,
        (dst, peer, src): (&Access, u64, &Access),
        add: Option<(u32, ReduceOp)>,
        op: u32,
        span: Span,
    ) -> Result<(), Stopped> {
        let (rank, rep, call) = {
            let s = &self.streams[si];
            (s.rank, s.rep, s.call)
        };
        let me = Accessor { si, back: 0, stream: self.own(si) };
        let region = self.streams[si].cursor.as_ref().and_then(Cursor::region).map_or(0, |r| r.0);
        self.order.tick(si);
        let (there, back, who) = self.peer(si, peer);
        let zero = (self.zeros(si, there, src), add.is_some() && self.zeros(si, rep, dst));
        self.access(who, there, src, Completion::Get, false, op, span);
        if add.is_some() {
            // It reads the destination at any time before it writes it. Whoever writes it in
            // between is in conflict with that write.
            self.access(me, rep, dst, Completion::Local, false, op, span);
        }
        self.access(me, rep, dst, Completion::Get, true, op, span);
        // The peer's memory is an image of the walked rank's memory, so the peer's side is moved
        // first.
        let forth = self.setup.group.inverse(back);
        let mut source = *src;
        if let (Mem::Buffer(b), true) = (src.mem, back != 0) {
            source = self.setup.moved_access(region, b, src, back);
        }
        let head = (region, call, rank, span);
        let t = Transfer::new(head, (there, src, who.back), (rep, dst, 0));
        self.carry(Transfer { zero, forth, source, ..t }, add)
    }
}

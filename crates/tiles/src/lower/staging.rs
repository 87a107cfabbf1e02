//! Staging: copies between the tensors of a launch and the window, where a program's inputs and
//! results are reached by peers.

use super::state::Lower;
use crate::tile::{Gm, Object, Stmt, TensorId, TensorUse};
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{BufferId, BufferRole};
use std::convert::Infallible;

impl Lower<'_, '_> {
    /// Copies inputs that peers reach into the window, and fills buffers that the schedule requires
    /// to be zero.
    pub(super) fn storage_prologue(&mut self) {
        for (buffer, tensor, access) in self.storage.copied.clone() {
            if access == TensorUse::In {
                let Ok(()) = self.divided(|this| this.stage(buffer, tensor, true));
            }
        }
        for (i, b) in self.schedule.buffers.iter().enumerate() {
            let id = BufferId(i as u32);
            if b.zero && !matches!(b.role, BufferRole::Input(_)) {
                let total = super::address::product(&self.dims(id));
                self.build.push(Stmt::Note { place: String::new(), text: format!("%{} = 0", b.name) });
                let to = Gm {
                    object: self.storage.object(id),
                    slot: Expr::Int(0),
                    offset: Expr::Int(0),
                    peer: None,
                };
                let Ok(()) = self.divided(|this| {
                    this.fill_number(b.dtype, to, total, 0.0);
                    Ok::<(), Infallible>(())
                });
            }
        }
    }

    /// Copies results that peers reach out of the window.
    pub(super) fn storage_epilogue(&mut self) {
        for (buffer, tensor, access) in self.storage.copied.clone() {
            if access == TensorUse::Out {
                let Ok(()) = self.divided(|this| this.stage(buffer, tensor, false));
            }
        }
    }

    fn stage(&mut self, buffer: BufferId, tensor: TensorId, inwards: bool) -> Result<(), Infallible> {
        let b = self.schedule.buffer(buffer);
        let total = super::address::product(&self.dims(buffer));
        let place = |object| Gm { object, slot: Expr::Int(0), offset: Expr::Int(0), peer: None };
        let (outside, inside) = (place(Object::Tensor(tensor)), place(self.storage.object(buffer)));
        let (from, to) = if inwards { (outside, inside) } else { (inside, outside) };
        let words = if inwards { "into the window" } else { "out of the window" };
        self.build.push(Stmt::Note { place: String::new(), text: format!("copy %{} {words}", b.name) });
        self.copy_run(b.dtype, to, from, total);
        Ok(())
    }
}

//! The engine's part of the order of notifies behind puts: the delivery of both.

use super::Engine;
use crate::MessageKind;
use crate::agenda::NONE;
use crate::state::Message;

impl Engine<'_, '_, '_> {
    /// Delivers a put or notify on such a machine, where earlier puts may not have arrived yet.
    pub(super) fn arrive(&mut self, m: &Message, from: u64, place: u32) {
        let extra = self.extra(place);
        let to = u64::from(m.to);
        if m.kind == MessageKind::Put {
            for held in self.state.notify_order.arrived(from, to, extra.number) {
                match self.setup.through_memory() {
                    true => self.notified(held, m.last),
                    false => self.signal(m.to, held, m.last),
                }
            }
        }
        if m.counter != NONE && self.state.notify_order.pass(from, to, m.counter, extra.after) {
            self.signal(m.to, m.counter, m.last);
        }
    }
}

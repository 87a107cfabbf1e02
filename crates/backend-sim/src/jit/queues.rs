//! The queues between ranks while compiled code runs: messages that were sent and not yet received.
//!
//! Owns their bytes. A slot is free again when its message is received, as in the interpreter; who waits for a slot or
//! a message is [`super::world`]'s business, and that both ends move the same type is checked when code is made.

use crate::flow::Queue;
use std::collections::{BTreeMap, VecDeque};

/// All queues of all ranks.
#[derive(Default)]
pub(super) struct Queues {
    held: BTreeMap<Queue, VecDeque<Vec<u8>>>,
    /// Storage of messages that were received, for those to come.
    spare: Vec<Vec<u8>>,
}

impl Queues {
    /// Messages in a queue.
    pub(super) fn len(&self, queue: Queue) -> usize {
        self.held.get(&queue).map_or(0, VecDeque::len)
    }

    /// Appends a message.
    pub(super) fn push(&mut self, queue: Queue, message: &[u8]) {
        let mut room = self.spare.pop().unwrap_or_default();
        room.extend_from_slice(message);
        self.held.entry(queue).or_default().push_back(room);
    }

    /// Takes the oldest message.
    pub(super) fn pop(&mut self, queue: Queue) -> Option<Vec<u8>> {
        self.held.get_mut(&queue)?.pop_front()
    }

    /// Keeps the storage of a message that was received.
    pub(super) fn done_with(&mut self, mut message: Vec<u8>) {
        message.clear();
        self.spare.push(message);
    }
}

//! Receivers of the events of a trace: lists, comparisons, and none.

use super::event::TraceEvent;
use std::ops::ControlFlow;

/// A receiver of the events of one trace, in their order.
pub trait TraceSink<'k> {
    /// Takes the next event. `Break` ends the trace, because what follows is of no interest.
    fn take(&mut self, event: TraceEvent<'k>) -> ControlFlow<()>;

    /// With [`Loops::Alike`](super::Loops::Alike): says for how many events each event stands from
    /// here on.
    fn each_stands_for(&mut self, _times: u64) {}
}

impl<'k> TraceSink<'k> for Vec<TraceEvent<'k>> {
    fn take(&mut self, event: TraceEvent<'k>) -> ControlFlow<()> {
        self.push(event);
        ControlFlow::Continue(())
    }
}

/// Drops all events, for traces of which only the checks on the way are of interest.
pub(super) struct Dropped;

impl<'k> TraceSink<'k> for Dropped {
    fn take(&mut self, _: TraceEvent<'k>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// The first events of a trace.
pub(super) struct Beginning<'b, 'k> {
    /// The events so far.
    pub events: &'b mut Vec<TraceEvent<'k>>,
    /// Maximum number of events.
    pub most: usize,
}

impl<'k> TraceSink<'k> for Beginning<'_, 'k> {
    fn take(&mut self, event: TraceEvent<'k>) -> ControlFlow<()> {
        if self.events.len() == self.most {
            return ControlFlow::Break(());
        }
        self.events.push(event);
        ControlFlow::Continue(())
    }
}

/// Compares a trace with expected events, and ends it at the first difference or after the last of
/// them.
pub(super) struct Comparison<'b, 'k> {
    /// The expected events that have not been met.
    pub want: std::slice::Iter<'b, TraceEvent<'k>>,
    /// Whether every event so far is as expected. An event after all expected ones is none of them.
    pub same: bool,
}

impl<'k> TraceSink<'k> for Comparison<'_, '_> {
    fn take(&mut self, event: TraceEvent<'k>) -> ControlFlow<()> {
        let Some(want) = self.want.next() else { return ControlFlow::Break(()) };
        self.same = *want == event;
        if self.same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

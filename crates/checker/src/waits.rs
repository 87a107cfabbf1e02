//! Waits for a counter over all calls of a run.
//!
//! There may be a counter for every message of every rank, and a wait for it in every call. The
//! module stores waits that are repeated from call to call once. [`super::counters`] compares the
//! waits of different calls.

/// A wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Wait {
    /// The call.
    pub call: u32,
    /// The walked stream.
    pub stream: u32,
    /// Its operation.
    pub op: u32,
    /// The value that it asks for.
    pub value: i64,
}

/// The waits for a counter. There may be a counter for every message of every rank, so waits that
/// are repeated in every call are stored once.
#[derive(Default, Debug)]
pub struct Waits(Repeated);

#[derive(Default, Debug)]
enum Repeated {
    #[default]
    None,
    /// Most counters have one wait.
    One(RepeatedWait),
    Many(Vec<RepeatedWait>),
}

/// A wait that is repeated in the calls that follow, each time for a value that is larger by the
/// same amount.
#[derive(Clone, Copy, Debug)]
struct RepeatedWait {
    first: Wait,
    /// Number of repetitions.
    more: u32,
    step: i64,
}

impl RepeatedWait {
    /// Returns the wait after so many repetitions, whose value has been seen to fit.
    fn wait(&self, times: u32) -> Wait {
        let value = self.first.value.wrapping_add(self.step.wrapping_mul(times.into()));
        Wait { call: self.first.call + times, value, ..self.first }
    }

    /// Takes up a wait if it is the next repetition.
    fn extend(&mut self, wait: Wait) -> bool {
        let last = self.wait(self.more);
        let Some(step) = wait.value.checked_sub(last.value) else { return false };
        let next = Wait { call: last.call + 1, value: wait.value, ..last };
        let repeats = wait == next && (self.more == 0 || step == self.step);
        if repeats {
            (self.more, self.step) = (self.more + 1, step);
        }
        repeats
    }
}

impl Waits {
    /// Appends a wait.
    pub fn push(&mut self, wait: Wait) {
        let new = RepeatedWait { first: wait, more: 0, step: 0 };
        match &mut self.0 {
            Repeated::None => self.0 = Repeated::One(new),
            Repeated::One(one) => {
                if !one.extend(wait) {
                    self.0 = Repeated::Many(vec![*one, new]);
                }
            }
            Repeated::Many(list) => {
                if !list.last_mut().is_some_and(|last| last.extend(wait)) {
                    list.push(new);
                }
            }
        }
    }

    fn repeated(&self) -> &[RepeatedWait] {
        match &self.0 {
            Repeated::None => &[],
            Repeated::One(one) => std::slice::from_ref(one),
            Repeated::Many(list) => list,
        }
    }

    /// Returns the waits in the order in which they were appended.
    pub fn iter(&self) -> impl Iterator<Item = Wait> {
        self.repeated().iter().flat_map(|r| (0..=r.more).map(|times| r.wait(times)))
    }

    /// Returns the waits of a call.
    pub fn of(&self, call: usize) -> impl Iterator<Item = Wait> {
        self.repeated().iter().filter_map(move |r| {
            let times = (call as u32).checked_sub(r.first.call)?;
            (times <= r.more).then(|| r.wait(times))
        })
    }
}

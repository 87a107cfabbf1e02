//! Steady loops: loops whose turns perform the same operations, so that a caller may treat many
//! turns as one.
//!
//! In a steady loop no peer, size or branch depends on the number of the turn, and the value that a
//! wait asks for grows by the same amount in each turn. The counter that an operation names may
//! alternate. The loop then repeats itself after a period of a few turns.

use super::brief_code::{Ins, Outline, OutlinePeer, Outlines, Size, Sum, Value};
use super::timed::Walks;
use crate::form::Form;
use crate::op::OpPart;
use crate::walk::Program;

/// Longest period that is recognised.
const MAX_PERIOD: u64 = 16;

/// How a value differs between the turns of a loop.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Change {
    /// It is the same in every turn.
    Same,
    /// It grows by the same amount from turn to turn.
    Even,
    /// It repeats itself after so many turns.
    Every(u64),
    Unknown,
}

impl Change {
    fn of(value: &Value, slot: u32) -> Change {
        match value {
            Value::Register(r) if *r == slot => Change::Even,
            Value::Sum(sum) if sum.slot == slot => Change::Even,
            Value::Wrapped(wrapped) if wrapped.0.slot == slot => Change::wrapped(&wrapped.0, wrapped.1),
            Value::Tree(tree) if tree.reads(&|s| s == slot) => Change::Unknown,
            Value::Int(_) | Value::Register(_) | Value::Sum(_) | Value::Wrapped(_) | Value::Tree(_) => {
                Change::Same
            }
        }
    }

    fn wrapped(sum: &Sum, of: i64) -> Change {
        let of = of.unsigned_abs().max(1);
        Change::Every(of / gcd(of, sum.times.unsigned_abs() % of))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the number of turns after which a loop over a slot repeats itself, given the code of its
/// body. 0 if it is not steady; a loop with another loop in it is not.
pub(super) fn period(program: &Program<'_>, body: &[Ins<'_>], slot: u32) -> u32 {
    let mut period = 1;
    for ins in body {
        let own = match ins {
            Ins::Op(op) => of_op(program, op, slot),
            Ins::Unless { cond, .. } if !cond.reads(&|s| s == slot) => Some(1),
            Ins::Go(_) => Some(1),
            Ins::Unless { .. } | Ins::For { .. } | Ins::Next { .. } | Ins::Leave => None,
        };
        match own {
            Some(own) if period / gcd(period, own) * own <= MAX_PERIOD => {
                period = period / gcd(period, own) * own
            }
            _ => return 0,
        }
    }
    period as u32
}

/// Returns the number of turns after which an operation repeats itself.
fn of_op(program: &Program<'_>, op: &Outlines<'_>, slot: u32) -> Option<u64> {
    let quick = op.quick.as_ref()?;
    let same = |value: &Value| Change::of(value, slot) == Change::Same;
    let (mut steady, mut period, mut form) = (true, 1, Form::Epoch);
    quick.parts(&mut |part| match part {
        OpPart::Near(_, Size::Cut(cut)) => steady &= same(&cut.num),
        OpPart::Peer(OutlinePeer::Each(list)) => steady &= list.iter().all(same),
        OpPart::Counter(counter) => {
            form = program.form(counter.base);
            match Change::of(&counter.index, slot) {
                Change::Same => {}
                Change::Every(turns) => period = turns,
                Change::Even | Change::Unknown => steady = false,
            }
        }
        OpPart::Value(value) => {
            steady &= same(value) || form == Form::Epoch && Change::of(value, slot) == Change::Even;
        }
        // An event is of the call, and local work depends on the rank alone.
        OpPart::Near(_, Size::Fixed(_))
        | OpPart::Peer(OutlinePeer::Register(_))
        | OpPart::Combiner(_)
        | OpPart::Far(..)
        | OpPart::Event(_)
        | OpPart::Local(_)
        | OpPart::Mark(_)
        | OpPart::Buffer(..) => {}
        OpPart::Queue(never) | OpPart::Host(never) => match *never {},
    });
    steady.then_some(period)
}

/// The end of a turn of a steady loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Number of the loop in the schedule's code.
    pub number: u32,
    /// Number of turns after which the loop repeats itself.
    pub period: u32,
    /// Number of turns that follow.
    pub left: u64,
}

impl Walks {
    /// Returns the turn of a steady loop that a stream has just completed, if it has completed one
    /// since its last step. [`Walks::next`] continues with the next turn.
    pub fn turn(&mut self, outline: &Outline<'_>, stream: usize) -> Option<Turn> {
        let at = &mut self.at[stream];
        let registers = &self.registers[stream * outline.width..][..outline.width];
        loop {
            let here = at.next as usize;
            match outline.code.get(here)? {
                Ins::Next { slot, end, steady: period @ 1.., .. } => {
                    let left = registers[*end as usize] - registers[*slot as usize] - 1;
                    return Some(Turn { number: at.next, period: *period, left: left.max(0) as u64 });
                }
                Ins::Op(_) if self.passed_over[here] => at.next += 1,
                Ins::Go(to) => at.next = *to,
                Ins::Unless { cond, past } if outline.program.eval(cond, registers) == Ok(0) => {
                    at.next = *past
                }
                Ins::Op(_) | Ins::Unless { .. } | Ins::For { .. } | Ins::Next { .. } | Ins::Leave => {
                    return None;
                }
            }
        }
    }

    /// Lets a stream that has completed a turn of a steady loop ([`Walks::turn`]) pass over so many
    /// of the turns that follow.
    pub fn pass_turns(&mut self, outline: &Outline<'_>, stream: usize, turns: u64) {
        let at = self.at[stream].next as usize;
        if let Some(Ins::Next { slot, .. }) = outline.code.get(at) {
            // Below the number of turns that are left, which is below 2^63.
            self.registers[stream * outline.width + *slot as usize] += turns as i64;
        }
    }
}

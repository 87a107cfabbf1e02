//! Ready expressions: resolved expressions with straight code, for guards that are evaluated on
//! many ranks and in many steps.
//!
//! The inverse of a peer contains the same parts again and again (`r & -r` in every line of a
//! tree). The code of an expression computes each part once, and skips the operands that the tree
//! skips. If an operation has no value, the code has none either, and the tree is evaluated, which
//! reports the reason. Code and tree therefore agree.

use crate::expr::{BinOp, EvalError, Expr, Tree, UnOp, apply_un};
use crate::resolved::{Resolved, Scope, Unknown, quick_bin, resolve};
use std::ops::Deref;

/// Largest number of values of one expression. A longer one is evaluated as a tree.
const MOST_VALUES: usize = 128;

/// Number of values that most expressions have at most.
const FEW_VALUES: usize = 32;

/// Number of nodes from which on the code of an expression without tables is shorter than a walk
/// over the tree.
const LEAST_NODES: usize = 8;

/// A resolved expression that is ready to be evaluated often.
#[derive(Clone, Debug)]
pub struct ReadyExpression {
    tree: Resolved,
    code: Option<Box<StraightCode>>,
}

/// A step: the number of its value, and how the value is computed.
type CodeStep = (u8, Computation);

/// The computation of a value from earlier ones.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Computation {
    Slot(u32),
    Un(UnOp, u8),
    Bin(BinOp, u8, u8),
    Table(u32, u8),
    Copy(u8),
    /// Continues at a step if the value is 0.
    Unless(u8, u8),
    Go(u8),
}

/// Straight code: steps without loops. Values that no step sets are 0.
#[derive(Clone, Debug)]
struct StraightCode {
    /// The constants, which are the first values.
    constants: Vec<i64>,
    steps: Vec<CodeStep>,
    /// Number of values, constants included.
    values: usize,
    result: u8,
}

impl From<Resolved> for ReadyExpression {
    fn from(tree: Resolved) -> ReadyExpression {
        let code = CodeWriter::write(&tree).map(Box::new);
        ReadyExpression { tree, code }
    }
}

impl Deref for ReadyExpression {
    type Target = Resolved;

    fn deref(&self) -> &Resolved {
        &self.tree
    }
}

impl ReadyExpression {
    /// Resolves the names of an expression and makes it ready.
    ///
    /// # Errors
    /// Those of [`resolve`].
    pub fn new(e: &Expr, scope: &impl Scope) -> Result<ReadyExpression, Unknown> {
        resolve(e, scope).map(ReadyExpression::from)
    }

    /// Evaluates the expression like [`Resolved::value`].
    ///
    /// # Errors
    /// Those of [`Resolved::value`].
    ///
    /// # Panics
    /// Panics if `slots` lacks a slot that the expression reads.
    #[inline]
    pub fn value(
        &self,
        slots: &[i64],
        entry: &impl Fn(u32, i64) -> Result<i64, EvalError>,
    ) -> Result<i64, EvalError> {
        match self.code.as_ref().and_then(|code| code.run(slots, entry)) {
            Some(v) => Ok(v),
            None => self.tree.value(slots, entry),
        }
    }
}

impl StraightCode {
    /// Runs the code. Returns `None` if an operation has no value.
    fn run(&self, slots: &[i64], entry: &impl Fn(u32, i64) -> Result<i64, EvalError>) -> Option<i64> {
        // Most codes are short, and clearing the memory for their values is part of the time.
        if self.values <= FEW_VALUES {
            self.run_in::<FEW_VALUES>(slots, entry)
        } else {
            self.run_in::<MOST_VALUES>(slots, entry)
        }
    }

    /// Runs the code, which has at most `N` values.
    fn run_in<const N: usize>(
        &self,
        slots: &[i64],
        entry: &impl Fn(u32, i64) -> Result<i64, EvalError>,
    ) -> Option<i64> {
        let mut values = [0i64; N];
        values[..self.constants.len()].copy_from_slice(&self.constants);
        let mut at = 0;
        while let Some((to, compute)) = self.steps.get(at) {
            let of = |i: u8| values[i as usize % N];
            at += 1;
            let value = match *compute {
                Computation::Slot(s) => slots[s as usize],
                Computation::Un(op, a) => apply_un(op, of(a)).ok()?,
                Computation::Bin(op, a, b) => quick_bin(op, of(a), of(b))?,
                Computation::Table(t, i) => entry(t, of(i)).ok()?,
                Computation::Copy(a) => of(a),
                Computation::Unless(a, past) => {
                    if of(a) == 0 {
                        at = past as usize;
                    }
                    continue;
                }
                Computation::Go(past) => {
                    at = past as usize;
                    continue;
                }
            };
            values[*to as usize % N] = value;
        }
        Some(values[self.result as usize % N])
    }
}

/// Writer of code.
struct CodeWriter {
    code: StraightCode,
    /// Number of values so far.
    values: usize,
    /// The computations whose values exist wherever the next step is reached.
    known: Vec<CodeStep>,
}

impl CodeWriter {
    /// Returns the code of an expression, if it is worth having and short enough.
    fn write(tree: &Resolved) -> Option<StraightCode> {
        let (mut nodes, mut tables) = (0, false);
        let mut constants = vec![1];
        count(tree, &mut |e| {
            nodes += 1;
            match e {
                Tree::Table(..) => tables = true,
                Tree::Int(v) if !constants.contains(v) => constants.push(*v),
                _ => {}
            }
        });
        if nodes < LEAST_NODES && !tables || constants.len() > MOST_VALUES / 2 {
            return None;
        }
        let values = constants.len();
        let code = StraightCode { constants, steps: vec![], values, result: 0 };
        let mut writer = CodeWriter { code, values, known: vec![] };
        writer.code.result = writer.value(tree)?;
        writer.code.values = writer.values;
        Some(writer.code)
    }

    /// Returns the number of a new value, if there is room for it and for a step that sets it.
    fn fresh(&mut self) -> Option<u8> {
        let new = u8::try_from(self.values).ok().filter(|n| usize::from(*n) < MOST_VALUES)?;
        self.values += 1;
        Some(new)
    }

    /// Adds a step.
    fn step(&mut self, to: u8, compute: Computation) -> Option<()> {
        self.code.steps.push((to, compute));
        // Steps are numbered in 8 bits.
        (self.code.steps.len() < usize::from(u8::MAX)).then_some(())
    }

    /// Returns the number of the next step.
    fn here(&self) -> u8 {
        self.code.steps.len() as u8
    }

    /// Returns the value of a computation, which is added unless it is known.
    fn compute(&mut self, compute: Computation) -> Option<u8> {
        if let Some((to, _)) = self.known.iter().find(|(_, known)| *known == compute) {
            return Some(*to);
        }
        let to = self.fresh()?;
        self.step(to, compute)?;
        self.known.push((to, compute));
        Some(to)
    }

    /// Writes the code of an expression, and returns the number of its value.
    fn value(&mut self, e: &Resolved) -> Option<u8> {
        match e {
            Tree::Int(v) => self.constant(*v),
            Tree::Var(s) => self.compute(Computation::Slot(*s)),
            Tree::Un(op, a) => {
                let a = self.value(a)?;
                self.compute(Computation::Un(*op, a))
            }
            Tree::Table(t, i) => {
                let i = self.value(i)?;
                self.compute(Computation::Table(*t, i))
            }
            Tree::Bin(BinOp::And, ..) => {
                let to = self.fresh()?;
                let (known, mut fails) = (self.known.len(), vec![]);
                self.holds(e, &mut fails)?;
                let one = self.constant(1)?;
                self.step(to, Computation::Copy(one))?;
                self.land(&fails);
                self.known.truncate(known);
                Some(to)
            }
            Tree::Bin(BinOp::Or, a, b) => {
                let (to, one) = (self.fresh()?, self.constant(1)?);
                let (known, mut first, mut second) = (self.known.len(), vec![], vec![]);
                self.holds(a, &mut first)?;
                self.step(to, Computation::Copy(one))?;
                let done = self.jump()?;
                self.land(&first);
                self.known.truncate(known);
                self.holds(b, &mut second)?;
                self.step(to, Computation::Copy(one))?;
                self.land(&second);
                self.land(&[done]);
                self.known.truncate(known);
                Some(to)
            }
            Tree::Bin(op, a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                self.compute(Computation::Bin(*op, a, b))
            }
            Tree::Select(c, a, b) => {
                let (to, known, mut fails) = (self.fresh()?, self.known.len(), vec![]);
                self.holds(c, &mut fails)?;
                let a = self.value(a)?;
                self.step(to, Computation::Copy(a))?;
                let done = self.jump()?;
                self.land(&fails);
                self.known.truncate(known);
                let b = self.value(b)?;
                self.step(to, Computation::Copy(b))?;
                self.land(&[done]);
                self.known.truncate(known);
                Some(to)
            }
        }
    }

    /// Writes code that continues if a condition holds. The steps that leave it otherwise are added
    /// to `fails`, and have yet to land somewhere.
    fn holds(&mut self, e: &Resolved, fails: &mut Vec<usize>) -> Option<()> {
        if let Tree::Bin(BinOp::And, a, b) = e {
            self.holds(a, fails)?;
            return self.holds(b, fails);
        }
        let value = self.value(e)?;
        fails.push(self.code.steps.len());
        self.step(0, Computation::Unless(value, 0))
    }

    /// Adds a jump that has yet to land, and returns its number.
    fn jump(&mut self) -> Option<usize> {
        self.step(0, Computation::Go(0))?;
        Some(self.code.steps.len() - 1)
    }

    /// Lets jumps land at the next step.
    fn land(&mut self, jumps: &[usize]) {
        let here = self.here();
        for jump in jumps {
            match &mut self.code.steps[*jump].1 {
                Computation::Unless(_, to) | Computation::Go(to) => *to = here,
                Computation::Slot(_)
                | Computation::Un(..)
                | Computation::Bin(..)
                | Computation::Table(..)
                | Computation::Copy(_) => {}
            }
        }
    }

    fn constant(&self, v: i64) -> Option<u8> {
        self.code.constants.iter().position(|c| *c == v).map(|i| i as u8)
    }
}

/// Calls `f` with every node of an expression.
fn count(e: &Resolved, f: &mut impl FnMut(&Resolved)) {
    f(e);
    match e {
        Tree::Int(_) | Tree::Var(_) => {}
        Tree::Un(_, a) | Tree::Table(_, a) => count(a, f),
        Tree::Bin(_, a, b) => {
            count(a, f);
            count(b, f);
        }
        Tree::Select(c, a, b) => {
            count(c, f);
            count(a, f);
            count(b, f);
        }
    }
}

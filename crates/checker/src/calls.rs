//! Horizon of calls: how many consecutive calls of a schedule represent all of its calls.
//!
//! The module owns how the text of a schedule depends on `call`: through `call % k` (slots and
//! windows used in turn), through comparisons with a constant (the first calls differ), and
//! linearly in the values of waits (epochs). After the calls that differ, k calls are a period. At
//! least two periods are walked, so that each call of the second can be compared with the same call
//! of the first.

use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::{BinOp, Expr, gcd};
use kbc_ir::form::Form;
use kbc_ir::schedule::{CALL, Schedule, SignalId};
use kbc_ir::visit::{ExprUse, Field, each_field};

/// The calls that the checker walks.
#[derive(Clone, Debug)]
pub(super) struct Horizon {
    /// Number of calls to walk.
    pub calls: u64,
    /// Number of calls after which the text repeats.
    pub period: u64,
    /// The error if the text depends on the call in any other way.
    pub open: Option<Diagnostic>,
}

struct Scan {
    period: u64,
    settled: u64,
    open: Option<Diagnostic>,
    /// Bound on the absolute value of every coordinate, table entry and loop variable.
    var: u128,
}

/// Computes the calls that represent every call. It reads every expression of the schedule through
/// the visitor, whatever the expression is for.
pub(super) fn horizon(s: &Schedule) -> Horizon {
    let mut var = LAST_CALL;
    each_field(s, &mut |_, field| {
        if let Field::Expr(ExprUse::Bound, e) = field {
            var = var.max(magnitude(e, LAST_CALL).unwrap_or(u128::MAX));
        }
    });
    let entries = s.tables.iter().flat_map(|t| t.values.iter());
    var = entries.fold(var, |n, v| n.max(u128::from(v.unsigned_abs())));
    let mut scan = Scan { period: 1, settled: 0, open: None, var };
    let epoch = |signal: SignalId| s.signals.get(signal.0 as usize).is_some_and(|g| g.form == Form::Epoch);
    each_field(s, &mut |at, field| {
        if let Field::Expr(of, e) = field {
            // The value of a wait for an epoch grows with the calls.
            let grows = matches!(of, ExprUse::Value(signal) if epoch(signal));
            scan.expr(e, grows, at.span);
        }
    });
    // Two periods follow the calls that differ: the second is compared with the first, call by
    // call.
    let calls = scan.period.saturating_mul(2).max(scan.period.saturating_add(2)).max(3);
    Horizon { calls: calls.saturating_add(scan.settled), period: scan.period, open: scan.open }
}

/// Returns `c` if `e` has the form `c * call + (something without call)`.
fn slope(e: &Expr) -> Option<i64> {
    e.linear_in(CALL).map(|(slope, _)| slope)
}

/// Limit on the number of calls: no 32-bit counter lasts for more.
const LAST_CALL: u128 = 1 << 32;

/// Bound that is assumed for a shift by a rank or a loop variable. Such shifts give distances
/// between ranks, which fit 32 bits.
const SHIFTED: u128 = 1 << 40;

/// Returns a bound on the absolute value of an expression and of each of its parts, in any call, or
/// None if the bound itself needs more than 128 bits.
fn magnitude(e: &Expr, var: u128) -> Option<u128> {
    use BinOp::*;
    let of = |e: &Expr| magnitude(e, var);
    Some(match e {
        Expr::Int(n) => u128::from(n.unsigned_abs()),
        Expr::Var(n) if n.as_str() == CALL => LAST_CALL,
        Expr::Var(_) => var,
        Expr::Un(_, a) => of(a)?,
        Expr::Table(_, a) => of(a)?.max(var),
        Expr::Bin(Mul, a, b) => of(a)?.max(1).checked_mul(of(b)?.max(1))?,
        Expr::Bin(Shl, a, b) => match b.as_int() {
            Some(n) => of(a)?.checked_mul(1u128.checked_shl(u32::try_from(n).ok()?)?)?,
            None => of(a)?.max(SHIFTED),
        },
        Expr::Bin(
            Add | Sub | Div | Mod | Min | Max | And | Or | BitAnd | BitOr | Xor | Shr | Eq | Ne | Lt | Le
            | Gt | Ge,
            a,
            b,
        ) => of(a)?.checked_add(of(b)?)?,
        Expr::Select(c, a, b) => of(c)?.max(of(a)?).max(of(b)?),
    })
}

impl Scan {
    /// Checks that an expression that grows with the calls has a value in each call.
    fn grows(&mut self, e: &Expr, span: Span) {
        if magnitude(e, self.var).is_none_or(|n| n > i64::MAX as u128) {
            self.open.get_or_insert_with(|| {
                Diagnostic::error("E353", format!("`{e}` may exceed 64 bits in a later call"))
                    .primary(span, "this grows with the number of calls")
                    .note("the proof covers as many calls as a 32-bit counter can count")
                    .help("use smaller constants")
            });
        }
    }

    /// Reads how `e` depends on `call`. `epoch` is true for the value of a wait that grows with the
    /// calls.
    fn expr(&mut self, e: &Expr, epoch: bool, span: Span) {
        use BinOp::*;
        if !e.mentions(CALL) {
            return;
        }
        match e {
            Expr::Bin(Mod, a, k) if k.as_int().is_some_and(|k| k > 0) => {
                self.cycle(a, k.as_int().unwrap_or(1) as u64, span)
            }
            Expr::Bin(BitAnd, a, k)
                if k.as_int().is_some_and(|k| k > 0 && k.checked_add(1).is_some_and(|n| n & k == 0)) =>
            {
                self.cycle(a, k.as_int().unwrap_or(0) as u64 + 1, span)
            }
            Expr::Bin(Eq | Ne | Lt | Le | Gt | Ge, a, b) => match (&**a, &**b) {
                (Expr::Var(_), Expr::Int(t)) | (Expr::Int(t), Expr::Var(_)) => {
                    self.settled = self.settled.max(t.saturating_add(1).clamp(0, 1 << 20) as u64);
                }
                _ if slope(a).is_some_and(|s| s != 0) || slope(b).is_some_and(|s| s != 0) => {
                    self.other(e, span)
                }
                (a, b) => {
                    self.expr(a, false, span);
                    self.expr(b, false, span);
                }
            },
            _ if epoch && slope(e).is_some() => self.grows(e, span),
            Expr::Var(_) | Expr::Int(_) => self.other(e, span),
            Expr::Un(_, a) | Expr::Table(_, a) => self.expr(a, false, span),
            Expr::Bin(op, a, b) => {
                let inner = epoch && matches!(op, Add | Sub);
                self.expr(a, inner, span);
                self.expr(b, inner, span);
            }
            Expr::Select(c, a, b) => {
                self.expr(c, false, span);
                self.expr(a, epoch, span);
                self.expr(b, epoch, span);
            }
        }
    }

    fn cycle(&mut self, a: &Expr, k: u64, span: Span) {
        match slope(a) {
            Some(c) => {
                self.grows(a, span);
                let turn = k / gcd(k, c.unsigned_abs());
                self.period = (self.period / gcd(self.period, turn)).saturating_mul(turn);
            }
            None => self.expr(a, false, span),
        }
    }

    fn other(&mut self, e: &Expr, span: Span) {
        self.open.get_or_insert_with(|| {
            Diagnostic::error(
                "E353",
                format!(
                    "`{e}` does not repeat from call to call, so no finite number of calls covers all calls"
                ),
            )
            .primary(span, "this depends on the call number")
            .help("use `call` only in the value of a wait, as `call % k`, or compared with a constant")
        });
    }
}

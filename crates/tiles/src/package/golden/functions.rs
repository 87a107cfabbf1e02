//! Golden values of elementwise functions with bounds, as Python text: how a function passes on the
//! error of its argument. The error of the function itself is a fact of the target.

use kbc_ir::scalar::ScalarUn;

/// Returns the Python function of golden values with bounds: it takes and returns a `Near`.
/// Operators need none.
fn text(f: ScalarUn) -> &'static str {
    match f {
        ScalarUn::Neg | ScalarUn::Abs => "",
        ScalarUn::Exp => {
            r#"def exp(x):
    return function("exp", x, times(torch.exp(x.value), torch.expm1(x.bound)))"#
        }
        ScalarUn::Log => {
            r#"def log(x):
    passed = torch.where(x.value > x.bound, -torch.log1p(-x.bound / x.value), float("inf"))
    return function("log", x, torch.where((x.bound == 0) | (x.value + x.bound < 0), 0.0, passed))"#
        }
        ScalarUn::Sqrt => {
            r#"def sqrt(x):
    passed = x.bound / (torch.sqrt(x.value) + torch.sqrt((x.value - x.bound).clamp(min=0)))
    passed = torch.where(x.value < x.bound, float("inf"), passed)
    return rounded(torch.sqrt(x.value), torch.where((x.bound == 0) | (x.value + x.bound < 0), 0.0, passed))"#
        }
        ScalarUn::Rsqrt => {
            r#"def rsqrt(x):
    return number(1.0, "f32") / sqrt(x)"#
        }
        ScalarUn::Tanh => {
            r#"def tanh(x):
    return function("tanh", x, times(x.bound, 1 - torch.tanh(least(x)) ** 2).clamp(max=2))"#
        }
        ScalarUn::Erf => {
            r#"def erf(x):
    return function("erf", x, times(x.bound, 2 / torch.pi**0.5 * torch.exp(-least(x) ** 2)).clamp(max=2))"#
        }
        ScalarUn::Sin => {
            r#"def sin(x):
    return function("sin", x, times(x.bound, (torch.cos(x.value).abs() + x.bound).clamp(max=1)).clamp(max=2))"#
        }
        ScalarUn::Cos => {
            r#"def cos(x):
    return function("cos", x, times(x.bound, (torch.sin(x.value).abs() + x.bound).clamp(max=1)).clamp(max=2))"#
        }
        ScalarUn::Log1p => {
            r#"def log1p(x):
    rest = x.value + 1
    passed = torch.where(rest > x.bound, -torch.log1p(-x.bound / rest), float("inf"))
    return function("log1p", x, torch.where((x.bound == 0) | (rest + x.bound < 0), 0.0, passed))"#
        }
    }
}

/// Python function that several of the functions call.
const LEAST: &str = r#"def least(x):
    """The end of the interval nearest to 0, where the slopes of tanh and erf are largest."""
    return (x.value.abs() - x.bound).clamp(min=0)"#;

/// Returns the functions of golden values with bounds.
pub(super) fn all() -> String {
    let mut out: Vec<&str> = vec![];
    for text in ScalarUn::ALL.iter().map(|f| text(*f)).filter(|t| !t.is_empty()) {
        if text.contains("least(") && !out.contains(&LEAST) {
            out.push(LEAST);
        }
        out.push(text);
    }
    out.join("\n\n\n")
}

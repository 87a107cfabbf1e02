//! Parser of sizes as sympy prints them: `8`, `s77`, `2*s77`, `((s0 - 1)//2) + 1`, `Max(1, s0)`.

use crate::torch::symbols::{Expr, LARGEST, Size};

/// Greatest nesting of expressions.
const DEEPEST: usize = 64;

/// Reads the sizes between the brackets of a type. Symbolic sizes have no value yet, because the
/// text does not contain it.
///
/// # Errors
/// Returns a sentence about the first size that cannot be read.
pub fn read_all(text: &str) -> Result<Vec<Size>, String> {
    let (mut out, mut from, mut depth) = (vec![], 0, 0);
    for (i, c) in text.char_indices().chain([(text.len(), ',')]) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                let one = text[from..i].trim();
                if !one.is_empty() {
                    out.push(read(one)?);
                }
                from = i + 1;
            }
            _ => {}
        }
    }
    Ok(out)
}

/// Reads a size.
///
/// # Errors
/// Returns a sentence if the text is not a size.
pub fn read(text: &str) -> Result<Size, String> {
    let mut r = Reader { rest: text.trim() };
    let e = r.sum(0).filter(|_| r.rest.is_empty());
    match e.ok_or_else(|| format!("`{text}` is not a size"))? {
        Expr::Number(n) if (0..=LARGEST).contains(&n) => Ok(Size::of(n)),
        Expr::Number(n) => Err(format!("a dimension cannot have size {n}")),
        e => Ok(Size { value: 0, expr: Some(e) }),
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn eat(&mut self, mark: &str) -> bool {
        self.rest = self.rest.trim_start();
        let found = self.rest.strip_prefix(mark);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn sum(&mut self, depth: usize) -> Option<Expr> {
        let mut list = vec![self.product(depth)?];
        loop {
            if self.eat("+") {
                list.push(self.product(depth)?);
            } else if self.eat("-") {
                list.push(negative(self.product(depth)?));
            } else {
                return Some(call("Add", list));
            }
        }
    }

    fn product(&mut self, depth: usize) -> Option<Expr> {
        let mut left = self.factor(depth)?;
        loop {
            if self.eat("**") {
                left = call("Pow", vec![left, self.factor(depth)?]);
            } else if self.eat("*") {
                left = call("Mul", vec![left, self.factor(depth)?]);
            } else if self.eat("//") {
                left = call("FloorDiv", vec![left, self.factor(depth)?]);
            } else if self.eat("%") {
                left = call("Mod", vec![left, self.factor(depth)?]);
            } else {
                return Some(left);
            }
        }
    }

    fn factor(&mut self, depth: usize) -> Option<Expr> {
        if depth > DEEPEST {
            return None;
        }
        if self.eat("-") {
            return self.factor(depth + 1).map(negative);
        }
        if self.eat("(") {
            let e = self.sum(depth + 1)?;
            return self.eat(")").then_some(e);
        }
        let end =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if let Ok(n) = word.parse() {
            return Some(Expr::Number(n));
        }
        if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        if !self.eat("(") {
            return Some(Expr::Symbol(word.to_owned()));
        }
        let mut list = vec![self.sum(depth + 1)?];
        while self.eat(",") {
            list.push(self.sum(depth + 1)?);
        }
        self.eat(")").then(|| Expr::Call(word.to_owned(), list))
    }
}

/// Makes a call with several operands; a single operand is returned unchanged.
fn call(name: &str, mut list: Vec<Expr>) -> Expr {
    if list.len() == 1 { list.remove(0) } else { Expr::Call(name.to_owned(), list) }
}

fn negative(e: Expr) -> Expr {
    match e {
        Expr::Number(n) => Expr::Number(-n),
        e => Expr::Call("Mul".into(), vec![Expr::Number(-1), e]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_sympy_prints_them() {
        let same = |text: &str, expr: &str| {
            let want = Expr::parse(expr).expect("an expression");
            assert_eq!(read(text).map(|s| s.expr), Ok(Some(want)), "{text}");
        };
        same("s77", "Symbol('s77')");
        same("2*s77", "Mul(Integer(2), Symbol('s77'))");
        same("((s0 - 1)//2) + 1", "Add(FloorDiv(Add(Symbol('s0'), Integer(-1)), Integer(2)), Integer(1))");
        same("Max(1, s0*s1)", "Max(Integer(1), Mul(Symbol('s0'), Symbol('s1')))");
        same("s0**2 % 3", "Mod(Pow(Symbol('s0'), Integer(2)), Integer(3))");
        let all = read_all("Max(1, s0), 4,").expect("two sizes");
        assert_eq!((all.len(), all[1].value), (2, 4));
        for wrong in ["", "s0 +", "(s0", "s0)", "-3", "3 4", "*"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

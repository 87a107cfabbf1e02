//! Tests of tokens: numbers and their suffixes, quantities, strings, comments, errors.

use kbc_diag::FileId;
use kbc_frontend::ast::Quantity;
use kbc_frontend::token::{NumberLiteral, Token, lex};

/// Returns the tokens of a text as words, with their byte ranges if requested.
fn words(text: &str) -> String {
    let show = |t: &Token<'_>| match t {
        Token::Number(NumberLiteral::Quantity(Quantity { amount, dimension })) => {
            format!("{amount}:{dimension:?}")
        }
        Token::Number(NumberLiteral::Int(n)) => format!("{n}"),
        Token::Number(NumberLiteral::Float(x)) => format!("{x:?}"),
        Token::Name(n) => format!("name({n})"),
        Token::Path(n) => format!("path({n})"),
        Token::String(s) => format!("{s:?}"),
        Token::Error => "fault".to_string(),
        other => other.words().trim_matches('`').to_string(),
    };
    lex(FileId(0), text).tokens.iter().map(|t| show(&t.1)).collect::<Vec<_>>().join(" ")
}

#[test]
fn tokens() {
    for (text, expected) in [
        ("0..p", "0 .. name(p)"),
        ("0..10", "0 .. 10"),
        ("1.5..2", "1.5 .. 2"),
        ("1.x", "1 fault name(x)"),
        ("a.b.c1 a..b a.b..c.d", "path(a.b.c1) name(a) .. name(b) path(a.b) .. path(c.d)"),
        (
            "0..p 1..a.b a.1 a. b a .b a.",
            "0 .. name(p) 1 .. path(a.b) name(a) fault 1 name(a) fault name(b) name(a) fault name(b) name(a) fault",
        ),
        ("for.reduce use.as as aside", "path(for.reduce) path(use.as) as name(aside)"),
        ("5.656854249", "5.656854249"),
        ("1e-12 2E3 3e", "1e-12 2000.0 3 name(e)"),
        ("2e5x", "2 name(e5x)"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "fault"),
        ("1e999", "fault"),
        ("50 GB/s", "50000000000:BytesPerSecond"),
        ("50GB/s,500ns", "50000000000:BytesPerSecond , 500:Nanoseconds"),
        ("1.6 TB/s", "1600000000000:BytesPerSecond"),
        ("4 KiB 4 KB 2 MiB 1 GiB", "4096:Bytes 4000:Bytes 2097152:Bytes 1073741824:Bytes"),
        ("100 TFLOP/s 1 GFLOP/s", "100000000000000:FlopPerSecond 1000000000:FlopPerSecond"),
        ("20 us 3 ms", "20000:Nanoseconds 3000000:Nanoseconds"),
        ("5 Bx", "5 name(Bx)"),
        ("5 B_", "5 name(B_)"),
        ("5 B/sx", "5:Bytes / name(sx)"),
        ("5 B/s", "5:BytesPerSecond"),
        ("5\nB", "5 name(B)"),
        ("5 FLOP/s 5 TFLOP", "5 name(FLOP) / name(s) 5 name(TFLOP)"),
        ("B ns", "name(B) name(ns)"),
        ("a<-b", "name(a) <- name(b)"),
        ("a< -b", "name(a) < - name(b)"),
        ("a->b=>=", "name(a) -> name(b) = >="),
        ("acc += 1", "name(acc) += 1"),
        ("a<<b<=c&&d&e||f|g", "name(a) << name(b) <= name(c) && name(d) & name(e) || name(f) | name(g)"),
        ("\"a b\" \"\"", "\"a b\" \"\""),
        ("\"open\nput", "fault put"),
        ("\"open", "fault"),
        ("'x' 1", "fault 1"),
        ("'x", "fault name(x)"),
        ("a // put\nget /// let\n", "name(a) get"),
        ("a//", "name(a)"),
        ("", ""),
        ("øæ put $$ 1", "name(øæ) put fault 1"),
        ("größe ñput 2é", "name(größe) name(ñput) name(2é)"),
        ("a \u{2192} b \u{2264} 2 \u{d7}\u{a0}3 \u{2026}", "name(a) -> name(b) <= 2 fault 3 .."),
        ("e\u{301}\u{301}x \u{2605}a", "name(e\u{301}\u{301}x) fault name(a)"),
        ("\u{feff}put \u{feff}", "put fault"),
        ("putx put_ put", "name(putx) name(put_) put"),
    ] {
        assert_eq!(words(text), expected, "{text:?}");
    }
}

#[test]
fn faults_do_not_shift_spans() {
    let text = "a øæ \u{2192} put // ø\n  x";
    let spans: Vec<_> =
        lex(FileId(0), text).tokens.iter().map(|t| &text[t.0..t.2]).map(String::from).collect();
    assert_eq!(spans, ["a", "øæ", "\u{2192}", "put", "x"]);
}

#[test]
fn documentation_goes_to_the_next_token() {
    let text = "/// one\n///two\n// not\nfn /// three\nf\n//// none\n/// lost";
    let lexed = lex(FileId(0), text);
    let docs: Vec<_> = lexed.docs.iter().map(|(at, doc)| (&text[*at..*at + 1], doc.text())).collect();
    assert_eq!(docs, [("f", "one\ntwo".to_owned()), ("f", "three".to_owned())]);
}

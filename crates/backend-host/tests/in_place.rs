//! Tests of pass `in-place`, and of loops that need no tile: what is removed, and what has to stay.

use crate::kernels::complete;
use kbc_backend_host::c;
use kbc_backend_host::in_place;
use kbc_diag::FileId;
use kbc_tiles::device::Device;
use kbc_tiles::package::KernelText;
use kbc_tiles::tile::{Kernel, parse, text};

/// Returns a kernel with a temporary area `@v` of this size, and these statements.
fn kernel(size: &str, statements: &str) -> Kernel {
    let head = format!(
        "tile 1\nkernel @k process\nscalar nranks\nscalar count\nscalar call\ntensor %x : f32[count] in 0\n\
         tensor %y : f32[count] out 0\ntensor %z : f32[count] out 1\nwindow @w : f32[1 x count] arena 0\n\
         scratch @v : f32[1 x {size}] arena 1\ntile $a : f32[4096]\ntile $b : f32[4096]\n\nbody\n"
    );
    let body: String = statements.lines().map(|l| format!("  {l}\n")).collect();
    let text = format!("{head}{body}");
    let parsed = parse::parse(&text, FileId(0), kbc_backend_host::Processor.dialect());
    parsed.unwrap_or_else(|d| panic!("{:#?}\n{text}", d.list))
}

/// A loop that copies `total` elements.
fn copy(to: &str, from: &str, total: &str) -> String {
    format!("tiles i, m in {total} by 4096\n  load $a[m] = {from}\n  store {to} = $a[m]\n")
}

/// Returns the body of a kernel after the pass, one statement a line.
fn after(size: &str, statements: &str) -> String {
    let mut k = kernel(size, statements);
    in_place::run(&mut k);
    let all = text::print(&k);
    all.split_once("\nbody\n").expect("a body").1.replace("\n  ", "\n").trim().to_owned()
}

#[test]
fn inputs_are_read_in_place() {
    let first = copy("@v[0][i]", "%x[i]", "count");
    let read = copy("@w[0][i] at (0)", "@v[0][i]", "count");
    let expected = copy("@w[0][i] at (0)", "%x[i]", "count");
    assert_eq!(after("count", &format!("{first}{read}")), expected.trim());
    // The number of elements has a name.
    let named = format!("let n = count\nlet h = n\n{}{read}", copy("@v[0][i]", "%x[i]", "h"));
    assert_eq!(after("count", &named), expected.trim());
    // The area has room for more than the tensor, and nothing is read there.
    assert_eq!(after("count + nranks", &format!("{first}{read}")), expected.trim());
    let inner: String = first.lines().map(|l| format!("  {l}\n")).collect();
    for (why, size, statements) in [
        ("another access is earlier", "count", format!("{read}{first}")),
        ("it is written later", "count", format!("{first}{}{read}", copy("@v[0][i]", "@w[0][i]", "1"))),
        ("part of it", "count", format!("{}{read}", copy("@v[0][i]", "%x[i]", "count / 2"))),
        ("another place", "count + 1", format!("{}{read}", copy("@v[0][i + 1]", "%x[i]", "count"))),
        ("not in every call", "count", format!("if call == 0\n{inner}{read}")),
        ("more is read", "count + 1", format!("{first}{}", copy("@w[0][i] at (0)", "@v[0][i + 1]", "count"))),
    ] {
        assert_eq!(after(size, &statements), statements.trim(), "{why}");
    }
}

#[test]
fn results_are_written_in_place() {
    let fill = copy("@v[0][i]", "@w[0][i]", "count");
    let last = copy("%y[i]", "@v[0][i]", "count");
    assert_eq!(after("count", &format!("{fill}{last}")), copy("%y[i]", "@w[0][i]", "count").trim());
    // Two results: the second one is where the elements are made.
    let both = format!("{fill}{}{last}", copy("%z[i]", "@v[0][i]", "count"));
    let expected = copy("%y[i]", "@w[0][i]", "count") + &copy("%z[i]", "%y[i]", "count");
    assert_eq!(after("count", &both), expected.trim());
    // An input that is a result is copied once.
    let through = copy("@v[0][i]", "%x[i]", "count") + &last;
    assert_eq!(after("count", &through), copy("%y[i]", "%x[i]", "count").trim());
    for (why, size, statements) in [
        ("the area is used later", "count", format!("{fill}{last}{}", copy("@v[0][i]", "%x[i]", "1"))),
        ("so is the result", "count", format!("{fill}{last}{}", copy("%y[i]", "%x[i]", "1"))),
        ("or before", "count", format!("{}{fill}{last}", copy("%y[i]", "%x[i]", "1"))),
        (
            "a part of the area",
            "2 * count",
            format!(
                "{}{}{last}",
                copy("@v[0][i]", "@w[0][i]", "count"),
                copy("@v[0][count + i]", "@w[0][i]", "count")
            ),
        ),
    ] {
        assert_eq!(after(size, &statements), statements.trim(), "{why}");
    }
}

/// Prints the statements of a kernel as C, after their declarations.
fn printed(statements: &str) -> String {
    let k = complete(&text::print(&kernel("count", statements)));
    let text = c::kernel(&k, &KernelText::default()).unwrap_or_else(|d| panic!("{d:#?}"));
    text.split_once("(void)tensors;\n\n").expect("a body").1.to_owned()
}

#[test]
fn loops_need_no_tile() {
    let combine = |to: &str, a: &str, b: &str, args: &str| {
        format!(
            "tiles i, m in count by 4096\n  load $a[m] = {a}\n  load $b[m] = {b}\n  add $a[m] = {args}\n  store {to} = $a[m]\n"
        )
    };
    for (statements, line) in [
        (copy("%y[i]", "%x[i]", "count"), "kbc_copy(y + i, x + i, m, sizeof(float));"),
        (copy("@w[0][i] at (1)", "%x[i]", "count"), "kbc_put(me, 1, w, i, x + i, m, sizeof(float));"),
        (copy("%y[i]", "@w[0][i] at (1)", "count"), "kbc_get(me, y + i, 1, w, i, m, sizeof(float));"),
        (
            combine("%y[i]", "%x[i]", "@w[0][i]", "$a, $b"),
            "kbc_add_f32(y + i, x + i, KBC_OWN(float, me, w) + i, m);",
        ),
        (combine("%y[i]", "%x[i]", "%y[i]", "$b, $a"), "kbc_add_f32(y + i, y + i, x + i, m);"),
    ] {
        let text = printed(&statements);
        assert!(text.contains(line) && !text.contains("kbc_copy(a,"), "{line}: {text}");
    }
    for (why, statements) in [
        // An element could be read after it was overwritten.
        ("the same memory", copy("%y[i]", "%y[i + 1]", "count - 1")),
        ("an operand at another place", combine("%y[i]", "%x[i]", "%y[i + 1]", "$a, $b")),
        ("from peer to peer", copy("@w[0][i] at (1)", "@w[0][i] at (2)", "count")),
        ("a combination for a peer", combine("@w[0][i] at (1)", "%x[i]", "%y[i]", "$a, $b")),
        ("a combination with a peer's", combine("%y[i]", "%x[i]", "@w[0][i] at (1)", "$a, $b")),
        // A later statement reads what the loop has left in the tile.
        ("the tile is read later", copy("%y[i]", "%x[i]", "count") + "store %z[0] = $a[1]\n"),
    ] {
        let text = printed(&statements);
        assert!(text.contains("sizeof *a"), "{why}: {text}");
    }
}

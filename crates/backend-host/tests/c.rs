//! Tests of kernels as C: the printed text of a complete kernel, and what has no form in C.

use crate::kernels::{RING, complete, with};
use kbc_backend_host::c::{ident, kernel, literal};
use kbc_tiles::package::KernelText;
use kbc_tiles::tile::{Kernel, verify};

fn print(k: &Kernel) -> String {
    let text = KernelText { source: "ring.kb".into(), notes: vec!["proven: 4 ranks".into()] };
    kernel(k, &text).unwrap_or_else(|d| panic!("{d:#?}"))
}

#[test]
fn a_ring_all_reduce_in_c() {
    let k = complete(RING);
    verify::verify(&k, &kbc_backend_host::Processor).expect("it is sound");
    insta::assert_snapshot!(print(&k));
}

/// Names of a kernel that C or the headers have are changed, and no two become the same.
#[test]
fn names_are_identifiers() {
    let k = with(&["let int = rank + 1", "let kbc_min = int", "let x_2 = kbc_min", "notify (x_2) : @s[0]"]);
    let text = print(&k);
    for line in
        ["v_int_2 = rank + 1;", "v_kbc_min_2 = v_int_2;", "x_2 = v_kbc_min_2;", "kbc_notify(me, x_2, s, "]
    {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    assert_eq!(ident("1.2-a"), "_1_2_a");
    assert_eq!(literal("a\"\\?\n\u{e9}"), "\"a\\\"\\\\\\? \\303\\251\"");
}

/// A comment cannot end the comment that it is printed in.
#[test]
fn comments_stay_comments() {
    let text = print(&with(&["from \"a.kb:1\" \"put */ int main\"", "notify (0) : @s[0]"]));
    assert!(text.contains("/* a.kb:1 put * / int main */"), "{text}");
}

#[test]
fn what_has_no_form_in_c_is_refused() {
    for (line, words) in [
        ("convert $a = $b zero", "a conversion toward zero has no form"),
        ("barrier all", "a barrier or flag"),
        ("dsb", "a barrier or flag"),
        // No tile holds rows here.
        ("fill.rows $a[8] = $b", "an operation has no form"),
    ] {
        let d = kernel(&with(&[line]), &KernelText::default()).expect_err(line);
        assert!(d.code == "E451" && d.title.contains(words), "{line}: {d:#?}");
    }
}

/// Returns a loop over tiles with these statements, and what follows it.
fn looped(body: &[&str], rest: &[&str]) -> String {
    let mut all = vec!["tiles i, m in 8 by 4".to_owned()];
    all.extend(body.iter().map(|l| format!("  {l}")));
    all.extend(rest.iter().map(|l| (*l).to_owned()));
    print(&with(&all.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// Operations on the same elements are one loop: only what is read later is written to a tile.
#[test]
fn elementwise_operations_are_one_loop() {
    let body = ["load $a[m] = %x[i]", "mul $a[m] = $a, 2", "select $b[m] = $a < $c, $a, $c mask $h"];
    let all = [&body[..], &["store %y[i] = $b[m]"]].concat();
    let text = looped(&all, &[]);
    let lines = "        const float v0 = p0[i];\n        const float v1 = v0 * 2.0f;\n        \
                 const float v2 = p1[i];\n        const float v3 = kbc_choose(v1 < v2, v1, v2);\n        \
                 p2[i] = v3;\n    }\n";
    assert!(text.contains(lines), "{text}");
    assert!(
        text.contains(
            "KBC_INSIDE void k_loop_0_of(int64_t n, const float *p0, const float *p1, float *p2) {"
        )
    );
    assert!(text.contains("        k_loop_0(m, x + i, c, y + i);\n    }\n}\n"), "{text}");
    // A later statement reads a tile, and another one does not: it is overwritten before.
    let text =
        looped(&all, &["store @w[0][0] at (0) = $b[1]", "fill $a[1] = 0", "store @w[0][0] at (0) = $a[1]"]);
    assert!(text.contains("k_loop_0(m, x + i, c, y + i, b);") && text.contains("p3[i] = v3;"), "{text}");
    // Two equal loops are one function.
    let twice = all.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
    let again: Vec<String> = ["tiles i, m in 8 by 4".to_owned()]
        .into_iter()
        .chain(twice.iter().map(|l| format!("  {l}")))
        .collect();
    let text = looped(&all, &again.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(text.matches("k_loop_0(m, ").count() == 2 && !text.contains("k_loop_1"), "{text}");
}

/// What one loop over elements would do in another order or number stays outside of it.
#[test]
fn other_operations_end_a_loop() {
    for (why, body, kept) in [
        (
            "an element is read after it was overwritten",
            &["load $a[m] = %y[i + 1]", "add $b[m] = $a, 1", "store %y[i] = $b[m]"][..],
            "kbc_copy(y + i, b, m, sizeof *b);",
        ),
        (
            "it was stored before",
            &["add $b[m] = $a, 1", "store %y[i] = $b[m]", "load $c[m] = %y[i]", "store @w[0][i] = $c[m]"],
            "kbc_copy(c, y + i, m, sizeof *c);",
        ),
        (
            "memory of a peer",
            &["load $a[m] = @w[0][i] at (1)", "add $b[m] = $a, 1", "store %y[i] = $b[m]"],
            "kbc_get(me, a, 1, w, i, m, sizeof *a);",
        ),
        ("a call", &["add $b[m] = $a, 1", "log $b[m] = $b", "store %y[i] = $b[m]"], "kbc_log_f32(b, b, m);"),
        (
            "another number of elements",
            &["add $a[2] = $b, 1", "add $b[m] = $a, 1", "mul $b[m] = $b, 2"],
            "kbc_add_by_f32(a, b, 1.0f, 2);",
        ),
        (
            "nothing but copies",
            &["load $a[m] = %x[i]", "load $b[m] = %x[i]"],
            "kbc_copy(a, x + i, m, sizeof *a);",
        ),
    ] {
        let text = looped(body, &[]);
        assert!(text.contains(kept), "{why}: {text}");
    }
    // No loop over tiles says that the memory of both is in use at once.
    let text = print(&with(&["load $a[8] = %x[0]", "add $b[8] = $a, 1", "store %y[0] = $b[8]"]));
    assert!(!text.contains("k_loop_0"), "{text}");
}

/// Operations that compute are calls of functions of `kbc_compute.h`, which is included for them
/// alone. A conversion takes as many elements as its source has.
#[test]
fn what_computes_is_a_call() {
    for (lines, text) in [
        (&["exp $a[8] = $b"][..], "kbc_exp_f32(a, b, 8);"),
        (&["add $a[8] = $b, 1.5"], "kbc_add_by_f32(a, b, 1.5f, 8);"),
        (&["expand $a[8] = $b"], "kbc_expand_f32(a, b, 8);"),
        (&["reduce.max $a = $b[5] work $c"], "kbc_reduce_max_f32(a, b, 5);"),
        (&["index $a[3] = rank + 1"], "kbc_index_f32(a, rank + 1, 3);"),
        (&["load $b[3] = %x[0]", "convert $h = $b nearest"], "kbc_f16_from_f32(h, b, 3);"),
        (&["convert $h = $b nearest"], "kbc_f16_from_f32(h, b, 8);"),
        (
            &[
                "tiles i, m in 24 by 6 rows r, c of 3",
                "  load $b[m] = %x[i]",
                "  reduce.add $a = $b[m] work $c",
            ],
            "KBC_EACH_ROW(c_2, kbc_reduce_add_f32(a + kbc_row, b + kbc_row * 16, 3));",
        ),
    ] {
        let printed = print(&with(lines));
        assert!(
            printed.contains(text) && printed.contains("#include \"kbc_compute.h\""),
            "{text}:\n{printed}"
        );
    }
    let added = print(&with(&["add $a[8] = $a, $b"]));
    assert!(!added.contains("#include \"kbc_compute.h\""), "{added}");
}

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
    assert!(print(&with(&["add $a[8] = $a, $b"])).contains("#include \"kbc_host.h\""));
}

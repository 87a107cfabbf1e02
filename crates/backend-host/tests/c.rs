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
        ("exp $a[8] = $b", "an elementwise function has no form"),
        ("add $a[8] = $b, 1.0", "an elementwise function has no form"),
        ("barrier all", "a barrier or flag"),
        ("dsb", "a barrier or flag"),
        ("expand $a[8] = $b", "a reduction along a dimension"),
    ] {
        let d = kernel(&with(&[line]), &KernelText::default()).expect_err(line);
        assert!(d.code == "E451" && d.title.contains(words), "{line}: {d:#?}");
    }
}

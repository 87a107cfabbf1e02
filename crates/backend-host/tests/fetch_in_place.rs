//! Tests of pass `fetch-in-place`: which copies are removed, from where peers fetch then, and what
//! has to stay.

use kbc_backend_host::fetch_in_place;
use kbc_diag::FileId;
use kbc_tiles::device::Device;
use kbc_tiles::tile::{Kernel, parse, text};

/// Returns a kernel with a window `@w` of so many slots, and these statements.
fn kernel(slots: &str, statements: &str) -> Kernel {
    let head = format!(
        "tile 1\nkernel @k process\nscalar nranks\nscalar count\nscalar call\ntensor %x : f32[nranks * count] in 0\n\
         tensor %y : f32[nranks * count] out 0\nsignals @s[1] per call 1\n\
         window @w : f32[{slots} x count] arena 0\nscratch @v : f32[1 x nranks * count] arena 1\n\
         tile $a : f32[4096]\ntile $b : f32[4096]\n\nbody\n"
    );
    let body: String = statements.lines().map(|l| format!("  {l}\n")).collect();
    let text = format!("{head}{body}");
    let parsed = parse::parse(&text, FileId(0), kbc_backend_host::Processor.dialect());
    parsed.unwrap_or_else(|d| panic!("{:#?}\n{text}", d.list))
}

/// A loop that copies `count` elements, indented.
fn copy(depth: usize, to: &str, from: &str) -> String {
    let (outer, inner) = ("  ".repeat(depth), "  ".repeat(depth + 1));
    format!("{outer}tiles i, m in count by 4096\n{inner}load $a[m] = {from}\n{inner}store {to} = $a[m]\n")
}

/// Returns the declarations and the body of a kernel after the pass.
fn after(slots: &str, statements: &str) -> (String, String) {
    let mut k = kernel(slots, statements);
    fetch_in_place::run(&mut k);
    let all = text::print(&k);
    let (head, body) = all.split_once("\nbody\n").expect("a body");
    (head.to_owned(), body.replace("\n  ", "\n").trim().to_owned())
}

/// Every rank publishes its own block, and fetches those of the others.
fn gathered(source: &str, extra: &str) -> String {
    copy(0, "@w[0][i]", source)
        + extra
        + "fence.release\nfor k in 1..nranks\n  notify ((rank + k) % nranks) : @s[0]\nwait @s[0] >= call + 1\nfence.acquire\nfor k in 1..nranks\n"
        + &copy(1, "%y[k * count + i]", "@w[0][i] at ((rank + k) % nranks)")
}

#[test]
fn inputs_are_fetched_from_where_they_are() {
    let (head, body) = after("1", &gathered("%x[count + i]", ""));
    assert!(head.contains("tensor %x : f32[nranks * count] in 0 window\n") && !head.contains("@w"), "{head}");
    assert!(!body.contains("@w") && body.starts_with("fence.release\n"), "{body}");
    assert!(body.contains("let there_1 = count") || body.contains("%x[count + i] at ("), "{body}");
}

/// Slot k of a rank is block rank + k of its input. The peer that fetches it reads its own block.
#[test]
fn slots_are_places_of_the_source() {
    let send =
        "for k in 0..nranks\n".to_owned() + &copy(1, "@w[k][i]", "%x[((rank + k) % nranks) * count + i]");
    let fetch =
        "fence.release\nnotify (rank) : @s[0]\nwait @s[0] >= call + 1\nfence.acquire\nfor k in 0..nranks\n"
            .to_owned()
            + &copy(1, "%y[k * count + i]", "@w[k][i] at ((rank - k) % nranks)");
    let (_, body) = after("nranks", &(send.clone() + &fetch));
    let place = "let there_1 = (((rank - k) % nranks + k) % nranks) * count";
    let simple = "%x[rank * count + i]";
    assert!(
        body.contains(simple) || body.replace(['(', ')'], "").contains(&place.replace(['(', ')'], "")),
        "{body}"
    );
    // Another order of slots than that of the loop has no place that can be computed.
    let other = send.replace("@w[k]", "@w[nranks - 1 - k]");
    let (_, body) = after("nranks", &(other + &fetch));
    assert!(body.contains("store @w[nranks - 1 - k]"), "{body}");
}

/// What is packed first is fetched from there.
#[test]
fn packed_blocks_are_fetched_from_their_area() {
    let pack = copy(0, "@v[0][count + i]", "%x[i]");
    let (head, body) = after("1", &(pack + &gathered("@v[0][count + i]", "")));
    assert!(head.contains("window @v : f32[1 x nranks * count] arena 2") && !head.contains("@w"), "{head}");
    assert!(body.starts_with("tiles i, m in count by 4096\n  load $a[m] = %x[i]\n  store @v"), "{body}");
    assert!(body.contains("@v[0][count + i] at (") || body.contains("let there_1 = count"), "{body}");
}

/// A copy of a copy of an input is one of the input.
#[test]
fn copies_are_followed() {
    let first = copy(0, "%y[i]", "%x[count + i]");
    let (head, body) = after("1", &(first + &gathered("%y[i]", "")));
    assert!(head.contains("in 0 window") && !head.contains("@w"), "{head}");
    assert!(body.starts_with("fence.release\n") && body.contains("store %y[i] = $a[m]"), "{body}");
}

#[test]
fn other_windows_stay() {
    let fetched = "@w[0][i] at ((rank + k) % nranks)";
    for (why, statements) in [
        ("a wait is before the copy", "wait @s[0] >= call\n".to_owned() + &gathered("%x[i]", "")),
        ("something else is written there", gathered("%x[i]", &copy(0, "@w[0][i]", "%x[i]"))),
        ("a peer writes there", gathered("%x[i]", &copy(0, "@w[0][i] at (0)", "%x[i]"))),
        ("the rank reads it itself", gathered("%x[i]", "") + &copy(0, "%y[i]", "@w[0][i]")),
        ("the source is a result", copy(0, "%y[i]", "@v[0][i]") + &gathered("%y[i]", "")),
        (
            "the source is written later",
            copy(0, "@v[0][i]", "%y[i]") + &gathered("@v[0][i]", "") + &copy(0, "@v[0][i]", "%y[i]"),
        ),
        (
            "another place in the slot",
            gathered("%x[i]", "").replacen("store @w[0][i]", "store @w[0][i + 1]", 1),
        ),
        ("what was copied is changed", {
            let all = gathered("%x[i]", "");
            all.replacen("  store @w", "  add $a[m] = $a, $a\n  store @w", 1)
        }),
        ("slots alternate", gathered("%x[i]", "").replace("@w[0][i]", "@w[call % 2][i]")),
        ("another call's data", gathered("%x[call % 2 * count + i]", "")),
        ("nobody fetches", gathered("%x[i]", "").replace(fetched, "%x[i]")),
    ] {
        let (_, body) = after("2", &statements);
        assert!(body.contains("store @w"), "{why}: {body}");
    }
}

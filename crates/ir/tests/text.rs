//! Tests of the text form: a printed module parses to the same module.

use kbc_diag::FileId;
use kbc_ir::text::{PrintOptions, equivalent, identical, parse, print};

fn read(name: &str, text: &str) -> kbc_ir::Module {
    parse(FileId(0), text).unwrap_or_else(|d| panic!("{name}: {:#?}", d.list))
}

#[test]
fn good_files_read_back() {
    insta::glob!("kir/{good,graph,forms}/*.kir", |path| {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).unwrap();
        let m = read(&name, &text);
        let plain = print(&m, &PrintOptions { locs: false });
        let again = read(&name, &plain);
        assert!(equivalent(&m, &again), "{name} changes when printed:\n{plain}");
        assert_eq!(print(&again, &PrintOptions { locs: false }), plain);
        let full = print(&m, &PrintOptions { locs: true });
        let again = read(&name, &full);
        assert!(identical(&m, &again), "{name} changes when printed with locations:\n{full}");
        insta::assert_snapshot!(plain);
    });
}

/// Locations are written on request, and parse unchanged. Without them, the location of an item is
/// its own line.
#[test]
fn locations() {
    let text = "kir 1\nmodule @m\nmesh tp 2\n\ngraph\ninput @x : f32[4] data ones() @-\n\n\
                %x = input @x : f32[4] @7:1..9\n%y = all_gather %x over tp dim 0 using ring @7:10..14 @7:2..20\n";
    let full = print(&read("text", text), &PrintOptions { locs: true });
    assert_eq!(
        full,
        "kir 1\nmodule @m\nmesh tp 2\n\ngraph\ninput @x : f32[4] data ones() @- @0:33..65\n\n\
         %x = input @x : f32[4] @7:1..9\n%y = all_gather %x over tp dim 0 using ring @7:10..14 @7:2..20\n"
    );
}

/// A user-defined collective parses with its contract, and with whose part each rank ends.
#[test]
fn collectives_by_promise() {
    let text = "kir 1\nmodule @m\nmesh tp 4\n\ngraph\ninput @x : f32[8@tp]\n\n\
                %x = input @x : f32[8@tp]\n%y = own hand_on %x over tp dim 0 using chain : f32[8@tp]\n  \
                promise hand_on over (r of p) ranks 4 on src[n], dst[n]\n    start src[i]\n    \
                end dst[i] if r > 0 = src[i] at r - 1\n\
                %z = own permute [1, 0, 2, 3] %y over tp dim 0 using direct : f32[8@tp]\n\
                %b = barrier %z over tp using direct : f32[8@tp]\n\
                %s = own before sum %b over tp dim 0 root 2 using direct : f32[8@tp]\n";
    let module = read("text", text);
    let printed: String = print(&module, &PrintOptions { locs: false }).replace(" selected", "");
    assert_eq!(printed.lines().collect::<Vec<_>>(), text.lines().collect::<Vec<_>>());
}

/// The contracts of the standard collectives are those of the algorithm language, clause by clause.
#[test]
fn standard_promises() {
    for (short, long) in [
        ("all_reduce sum", "on v[n]; start v[i]; end v[i] = sum(v[i] at q for q in 0..p)"),
        ("reduce_scatter max", "on v[p][n]; start v[b][i]; end v[r][i] = sum(v[r][i] at q for q in 0..p)"),
        ("all_gather", "on v[p][n]; start v[r][i]; end v[b][i] = v[b][i] at b"),
        ("broadcast root 2", "on v[n]; start v[i] if r == 2; end v[i] = v[i] at 2"),
        ("reduce min root 1", "on v[n]; start v[i]; end v[i] if r == 1 = sum(v[i] at q for q in 0..p)"),
        ("gather root 0", "on v[p][n]; start v[r][i]; end v[b][i] if r == 0 = v[b][i] at b"),
        ("scatter root 3", "on v[p][n]; start v[b][i] if r == 3; end v[r][i] = v[r][i] at 3"),
        ("all_to_all", "on src[p][n], dst[p][n]; start src[b][i]; end dst[b][i] = src[r][i] at b"),
        ("barrier", "on v[p][n]; start v[r][i]; end v[b][i] = v[b][i] at b"),
        ("keep_part", "on v[p][n]; start v[b][i]; end v[r][i] = v[r][i] at r"),
    ] {
        let region = |contract: &str| {
            format!(
                "kir 1\nmodule @m\nmesh tp 4\n\nschedule calls none\n\nregion @a over tp\n  promise {contract}\n"
            )
        };
        let mut parts = long.split("; ");
        let mut spelled = format!("{short} over (r of p) {}", parts.next().unwrap_or_default());
        parts.for_each(|clause| spelled += &format!("\n    {clause}"));
        let (a, b) = (read("short", &region(short)), read("long", &region(&spelled)));
        assert!(equivalent(&a, &b), "{short}: {:#?}", a.schedule().map(|s| &s.regions[0].contract));
        // A contract is printed in its short form, however it was written.
        assert_eq!(print(&b, &PrintOptions::default()), region(short));
    }
}

/// The relays of a message stand behind its peer. The messages of a queue name none.
#[test]
fn relays_of_messages() {
    let text = |body: &str| {
        format!(
            "kir 1\nmodule @m\nmesh tp 2\nprops expanded allocated synchronized\n\nschedule calls first\n\
             buffer %y : f32[4] hbm temp\nwindow @w : f32[2 x 4] hbm at 0\nsignal @s[1] arrival at 0\nqueue @q[1] : f32[1 x 4] hbm\n\n\
             region @c over tp as (r of 2)\n  on v = %y line 4\n  role all\n    stream main\n{body}"
        )
    };
    let good = text(
        "      put v -> (1 - r) via [0, 12] : @w[0]\n      put v -> (1 - r) : @w[1]\n      get v <- (1 - r) via [3] : v\n      \
         fence.release\n      notify (1 - r) via [4294967295] : @s[0]\n",
    );
    let module = read("relays", &good);
    let printed = print(&module, &PrintOptions { locs: false });
    assert!(printed.contains("put v -> (1 - r) via [0, 12] : @w[0]\n"), "{printed}");
    assert!(printed.contains("put v -> (1 - r) : @w[1]\n"), "{printed}");
    assert!(printed.contains("get v <- (1 - r) via [3] : v\n"), "{printed}");
    assert!(printed.contains("notify (1 - r) via [4294967295] : @s[0]\n"), "{printed}");
    assert!(equivalent(&module, &read("relays", &printed)));
    let code = |body: &str| {
        let found = parse(FileId(0), &text(body));
        found.err().map(|d| d.list.iter().map(|d| d.code).collect::<Vec<_>>())
    };
    assert_eq!(code("      put v -> (1 - r) via [4294967296] : @w[0]\n"), Some(vec!["E316"]));
    assert_eq!(code("      put v -> (1 - r) via 3 : @w[0]\n"), Some(vec!["E311"]));
    let s = read("queue", &text("      send v -> (1 - r) via [0] : @q[0]\n"));
    let found = kbc_ir::verify::verify(&s);
    assert!(found.list.iter().any(|d| d.code == "E328" && d.title.contains("passes no relays")), "{found:?}");
}

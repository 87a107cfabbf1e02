//! Messages about YAML, in words of the file.

use kbc_frontend::machine::fault::fault;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only errors are looked at")]
struct Sample {
    title: String,
    #[serde(default)]
    list: Vec<u32>,
    #[serde(default)]
    map: BTreeMap<String, f64>,
    #[serde(default)]
    old: Option<bool>,
    #[serde(default)]
    kind: Option<SampleKind>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
enum SampleKind {
    First,
    Second,
}

/// No message contains a word of the reader or of Rust.
#[test]
fn messages_use_the_words_of_the_file() {
    let cases = [
        ("title: a\ntitel: b\n", "unknown key `titel`"),
        ("list: []\n", "the key `title` is missing"),
        ("title: [a]\n", "`title` must be a text, and this is a list"),
        ("title: a\nlist: {a: 1}\n", "`list` must be a list, and this is a mapping"),
        ("title: a\nlist: [x]\n", "`list[0]` must be a number, and this is `x`"),
        ("title: a\nlist: [-1]\n", "`list[0]` must be a number, and this is -1"),
        ("title: a\nmap: {x: yes please}\n", "`map.x` must be a number, and this is `yes please`"),
        ("title: a\nold: 3\n", "`old` must be `true` or `false`, and this is 3"),
        ("title: a\nkind: third\n", "`third` is not a value of `kind`"),
        ("title: a\ntitle: b\n", "the key `title` is given twice"),
        ("- a\n", "the value must be a mapping, and this is a list"),
        ("title: a: b\n", "`: ` is not expected here; a text that contains it needs quotes"),
        ("title: a\nlist: [1\n", "`,` or `]` is missing after an entry of the list"),
        ("title: a\nmap: {x: 1\n", "`,` or `}` is missing after an entry of the mapping"),
        ("title: 'a\n", "a quote is not closed"),
        ("title: a\n  list: []\n", "`: ` is not expected here; a text that contains it needs quotes"),
        ("title: *x\n", "an alias `*name` refers to nothing"),
        ("title: @x\n", "a value cannot begin with this character; use quotes"),
        ("title: a\n---\ntitle: b\n", "there are several documents in the text, and one is expected"),
    ];
    let mut wrong = vec![];
    for (text, title) in cases {
        let e = serde_yaml::from_str::<Sample>(text).unwrap_err();
        let found = fault(&e, &["old"]).title;
        wrong.extend((found != title).then(|| format!("{text}{e}\n{found}\n{title}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let e = serde_yaml::from_str::<Sample>("title: a\ntitel: b\n").unwrap_err();
    let found = fault(&e, &["old"]);
    assert_eq!(found.note.as_deref(), Some("the keys are title, list, map, kind"));
    assert_eq!(found.help.as_deref(), Some("did you mean `title`?"));
}

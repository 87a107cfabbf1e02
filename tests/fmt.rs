//! Tests of `kbc fmt`: the texts of the repository are formatted, and files are written correctly.
//! The tests of the front end and of the IR define the format.

use crate::common;

use common::{Scratch, kbc, root};

#[test]
fn the_specs_are_in_their_form() {
    let ran = kbc(root(), &["fmt", "--check", "--diff", "specs"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
}

/// Pages that people copy from, beside those of the language.
const PAGES: [&str; 4] = [
    "README.md",
    "docs/how-to/emit-for-ascend.md",
    "docs/how-to/shard-a-layer.md",
    "docs/tutorials/guide.md",
];

/// Formats blocks of `kb` on the pages that people copy from; KBC_BLESS=1 writes them.
#[test]
fn blocks_of_the_pages_are_in_their_form() {
    let mut blocks = 0;
    for name in PAGES.into_iter().chain(crate::docs::LANGUAGE) {
        let page = std::fs::read_to_string(root().join(name)).expect(name);
        let (mut new, mut rest) = (String::new(), page.as_str());
        while let Some((before, after)) = rest.split_once("\n```kb") {
            let (info, after) = after.split_once('\n').expect("a fence has a line");
            let (text, after) = after.split_once("\n```").expect("a fence has an end");
            let ran = kbc(root(), &["fmt", "-"], &format!("{text}\n"));
            // Some blocks deliberately do not parse.
            let text = if ran.code == 0 { ran.stdout.trim_end_matches('\n') } else { text };
            assert!(ran.code == 0 || info.contains("fails"), "{name}: {}", ran.stderr);
            new += &format!("{before}\n```kb{info}\n{text}\n```");
            rest = after;
            blocks += 1;
        }
        new += rest;
        if std::env::var_os("KBC_BLESS").is_some() && new != page {
            std::fs::write(root().join(name), new).expect("can be written");
        } else {
            assert!(new == page, "{name} has blocks that are not in their form; KBC_BLESS=1 writes them");
        }
    }
    assert!(blocks >= 18, "{blocks}");
}

const LOOSE: &str = "param   n = 1 // one\n";
const FORM: &str = "param n = 1  // one\n";

#[test]
fn files_are_written_in_place() {
    let scratch = Scratch::new();
    scratch.write("d/a.kb", LOOSE.as_bytes());
    scratch.write("d/bad.kb", b"param   n = = 1\n");
    scratch.write("d/.hidden.kb", LOOSE.as_bytes());
    scratch.write("d/e/m.kir", b"kir 1\nmodule @m ; name\nmesh tp 2\ngraph\nresult :  f32[4]\n");
    scratch.write("d/e/notes.md", LOOSE.as_bytes());
    let before = scratch.files();
    let check = kbc(scratch.path(), &["fmt", "--check", "d"], "");
    assert_eq!((check.code, check.stdout.as_str()), (1, ""), "{}", check.stderr);
    assert_eq!(scratch.files(), before, "--check writes nothing");
    let ran = kbc(scratch.path(), &["fmt", "d", "--diagnostics", "short"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert_eq!(ran.stderr, "d/bad.kb:1:13: error[E002]: expected an expression, found `=`\n");
    let mut after = before.clone();
    after.insert("d/a.kb".into(), FORM.into());
    after.insert(
        "d/e/m.kir".into(),
        b"kir 1\nmodule @m  ; name\nmesh tp 2\n\ngraph\nresult : f32[4]\n".into(),
    );
    assert_eq!(scratch.files(), after);
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let scratch = Scratch::new();
    scratch.write("a.kb", LOOSE.as_bytes());
    let (file, link) = (scratch.path().join("a.kb"), scratch.path().join("l.kb"));
    symlink("a.kb", &link).expect("a link");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("of our own file");
    assert_eq!(kbc(scratch.path(), &["fmt", "l.kb"], "").code, 0);
    assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), FORM);
    let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

/// A formatted text is not written again, so tools that watch modification times see no change.
#[test]
fn a_file_in_its_form_is_left_alone() {
    let scratch = Scratch::new();
    scratch.write("a.kb", FORM.as_bytes());
    let time =
        || std::fs::metadata(scratch.path().join("a.kb")).and_then(|m| m.modified()).expect("it is there");
    let before = time();
    assert_eq!(kbc(scratch.path(), &["fmt", "a.kb"], "").code, 0);
    assert_eq!(time(), before);
}

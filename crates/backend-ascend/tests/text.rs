//! Tests of the text form of kernels: a printed kernel parses to the same kernel, and errors are
//! reported at their places.

use crate::kernels::parse;
use kbc_diag::FileId;
use kbc_tiles::tile::Kernel;
use kbc_tiles::tile::text::print;

fn read(name: &str, text: &str) -> Kernel {
    parse(text, FileId(0)).unwrap_or_else(|d| panic!("{name}: {:#?}", d.list))
}

/// A good text is printed unchanged except for its comments.
#[test]
fn good_files_read_back() {
    insta::glob!("tile/good/*.tile", |path| {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).expect("it can be read");
        let kernel = read(&name, &text);
        let printed = print(&kernel);
        assert_eq!(read(&name, &printed), kernel, "{name} changes when printed:\n{printed}");
        let plain: String = text.lines().filter(|l| !l.starts_with(';')).map(|l| format!("{l}\n")).collect();
        assert_eq!(printed, plain, "{name}");
    });
}

/// All errors of a bad text are reported in one run, each at its place.
#[test]
fn bad_files_are_refused() {
    insta::glob!("tile/bad/*.tile", |path| {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).expect("it can be read");
        let faults = parse(&text, FileId(0)).expect_err(&name);
        let list: Vec<String> = faults
            .list
            .iter()
            .map(|d| {
                let span = d.span();
                let line = 1 + text[..span.start as usize].matches('\n').count();
                let at = text.get(span.start as usize..span.end as usize).unwrap_or("?");
                format!("{} line {line} `{at}`: {}", d.code, d.title)
            })
            .collect();
        insta::assert_snapshot!(list.join("\n"));
    });
}

//! Tests of the pass documentation: the example in each pass's header is run and compared, and its
//! page in `docs/passes` is generated from the header. `KBC_BLESS=1` writes both the page and the
//! `kir,after` block.

use crate::common;

use kbc_ir::text::{self, PrintOptions};
use kbc_passes::{ALL, Entry};

/// Returns the text between "```kir,WHICH" and "```" in a page.
fn block<'a>(page: &'a str, which: &str) -> Result<&'a str, String> {
    let start = format!("```kir,{which}\n");
    let at = page.find(&start).ok_or(format!("its opening has no block ```kir,{which}"))? + start.len();
    let end = page[at..].find("```").ok_or(format!("the block ```kir,{which} does not end"))?;
    Ok(&page[at..at + end])
}

fn source_of(name: &str) -> std::path::PathBuf {
    let name = name.replace('-', "_");
    let file = common::workspace(&format!("crates/passes/src/{name}.rs"));
    if file.exists() { file } else { common::workspace(&format!("crates/passes/src/{name}/mod.rs")) }
}

/// Runs the example of a pass and compares.
fn example(entry: &Entry, bless: bool) -> Result<(), String> {
    let page = entry.page();
    let (before, told) = (block(&page, "before")?, block(&page, "after")?);
    let (module, _) = common::run(before, entry.info.name).map_err(|d| common::words(&d, before))?;
    let after = text::print(&module, &PrintOptions::default());
    if told == after {
        return Ok(());
    }
    if !bless {
        return Err(format!("the example says otherwise (KBC_BLESS=1 corrects it); it gives\n{after}"));
    }
    let path = source_of(entry.info.name);
    let source = std::fs::read_to_string(&path).expect("the pass's source");
    let line = |l: &str| format!("//! {l}").trim_end().to_owned() + "\n";
    let lines = |t: &str| format!("//! ```kir,after\n{}//! ```\n", t.lines().map(line).collect::<String>());
    if !source.contains(&lines(told)) {
        return Err("the block is not in the source as it is in the page".into());
    }
    std::fs::write(&path, source.replacen(&lines(told), &lines(&after), 1))
        .expect("the source can be written");
    Err("the example was written: run again".into())
}

fn stored_page(entry: &Entry, bless: bool) -> Result<(), String> {
    let path = common::workspace(&format!("docs/passes/{}.md", entry.info.name));
    if bless {
        std::fs::write(&path, entry.page()).expect("the page can be written");
    }
    if std::fs::read_to_string(&path).unwrap_or_default() != entry.page() {
        return Err("docs/passes has another page (KBC_BLESS=1 writes it)".into());
    }
    Ok(())
}

#[test]
fn examples_and_pages() {
    let bless = std::env::var_os("KBC_BLESS").is_some();
    let mut faults = vec![];
    for entry in ALL {
        for done in [example(entry, bless), stored_page(entry, bless)] {
            faults.extend(done.err().map(|why| format!("{}: {why}", entry.info.name)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

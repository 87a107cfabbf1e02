//! Tests that the pages of `docs` are true: blocks of the language reference are compiled or
//! checked, the names of the language are on it, and the index leads to every page. The console
//! blocks of all pages are replayed with the other transcripts (tests/cli.rs). No other block
//! contains output of commands, and commands elsewhere must parse.
//!
//! A block fenced as `kb` is a complete file: with a program it is compiled, with algorithms alone
//! it is checked, and it must give no message. `kb,fails=E021` yields that code and no other.

use crate::common;

use common::{Scratch, pages, root, short, split};
use kbc_frontend::library::LIBRARY;
use kbc_frontend::token::reserved_words;
use kbc_ir::scalar::ScalarUn;
use kbc_ir::types::DType;
use kbc_machine::topology::{SETTING_NAMES, SHAPE_NAMES, unit_names};
use kbc_rounds::eval::BUILTINS;
use kbc_rounds::options::{OPTIONS, OptionKind};
use std::collections::BTreeSet;

pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A fenced block: its line, the text after the fence, its content.
struct Fenced {
    line: usize,
    info: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Fenced> {
    let mut out: Vec<Fenced> = vec![];
    let mut open = false;
    for (i, line) in page.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(info) => {
                out.push(Fenced { line: i + 1, info: info.into(), text: String::new() });
                open = true;
            }
            None if open => {
                let block = out.last_mut().expect("an open block is in the list");
                block.text += &format!("{line}\n");
            }
            None => {}
        }
    }
    assert!(!open, "a fence without an end");
    out
}

/// The pages of the language reference.
pub const LANGUAGE: [&str; 3] =
    ["docs/reference/language.md", "docs/reference/programs.md", "docs/reference/algorithms.md"];

#[test]
fn blocks_of_the_reference_are_right() {
    let scratch = Scratch::new();
    let (mut right, mut wrong) = ([0, 0], vec![]);
    let all = LANGUAGE.iter().flat_map(|page| blocks(&read(page)).into_iter().map(move |b| (page, b)));
    for (page, block) in all {
        let fails = match block.info.split_once(",fails=") {
            Some(("kb", code)) => Some(code),
            None if block.info == "kb" => None,
            _ => panic!("{page}:{}: a block of `{}`", block.line, block.info),
        };
        // Placed beside the page, for the paths in it.
        scratch.write("docs/reference/block.kb", block.text.as_bytes());
        let verb = if block.text.lines().any(|l| l.starts_with("program ") || l.starts_with("local program "))
        {
            "compile"
        } else {
            "check"
        };
        let ran = scratch.line(&format!("kbc {verb} docs/reference/block.kb --diagnostics short"));
        let codes: BTreeSet<String> = short(&ran.stderr).into_iter().map(|m| m.code).collect();
        let as_said = match fails {
            Some(code) => ran.code == 1 && codes.iter().eq([code]),
            None => ran.code == 0 && codes.is_empty(),
        };
        if as_said {
            right[usize::from(fails.is_some())] += 1;
        } else {
            let (stdout, stderr) = (ran.stdout, ran.stderr);
            wrong.push(format!("{page}:{}: {verb}, exit {}\n{stderr}{stdout}", block.line, ran.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right[0] >= 10 && right[1] >= 3, "{right:?}: blocks are found by their fences");
}

#[test]
fn the_reference_has_every_name() {
    let page = LANGUAGE.map(read).concat();
    let words: BTreeSet<&str> = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let mut names: Vec<String> = vec![];
    let mut add = |list: Vec<&str>| names.extend(list.into_iter().map(str::to_owned));
    add(BUILTINS.iter().map(|b| b.0).collect());
    add(OPTIONS.iter().map(|o| o.0).collect());
    for (_, kind) in OPTIONS {
        if let OptionKind::Word(values) = kind {
            add(values.to_vec());
        }
    }
    add(SETTING_NAMES.to_vec());
    add(SHAPE_NAMES.to_vec());
    add(DType::ALL.iter().map(|d| d.name()).collect());
    add(ScalarUn::ALL.iter().map(|f| f.name()).collect());
    for (_, text) in LIBRARY {
        for word in ["kernel ", "collective "] {
            let declared = text.lines().filter_map(|l| l.strip_prefix(word));
            add(declared.filter_map(|l| l.split(['(', ' ']).next()).collect());
        }
    }
    add(unit_names().into_iter().filter_map(|u| u.split('/').next()).collect());
    // All words except those of local programs, which have a section of their own.
    let refused = ["group", "ranks"];
    add(reserved_words().filter(|w| !refused.contains(w)).collect());
    let missing: Vec<&String> = names.iter().filter(|n| !words.contains(n.as_str())).collect();
    assert!(missing.is_empty(), "{LANGUAGE:?} do not speak of {missing:?}");
}

/// Returns the flags of a command, or those common to all commands, as a table.
fn flags(command: &clap::Command, every: bool) -> String {
    let mut out = "| flag | does |\n|---|---|\n".to_owned();
    let cell = |s: &str| s.replace('|', "\\|").replace('\n', " ");
    for arg in command.get_arguments() {
        if arg.is_hide_set()
            || arg.is_global_set() != every
            || ["help", "version"].contains(&arg.get_id().as_str())
        {
            continue;
        }
        let value = arg.get_value_names().map_or_else(String::new, |n| n[0].to_string());
        let takes = arg.get_action().takes_values();
        let name = match (arg.get_long(), arg.get_short()) {
            (Some(long), Some(short)) => {
                format!("`-{short}`, `--{long}{}`", if takes { format!(" {value}") } else { String::new() })
            }
            (Some(long), None) => {
                format!("`--{long}{}`", if takes { format!(" {value}") } else { String::new() })
            }
            (None, Some(short)) => format!("`-{short} {value}`"),
            (None, None) => format!("`{value}`"),
        };
        let help = arg.get_long_help().or(arg.get_help()).map_or_else(String::new, ToString::to_string);
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!help.is_empty(), "{name} says nothing of itself");
        let values: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|_| takes)
            .map(|v| format!("`{}`", v.get_name()))
            .collect();
        let default: Vec<String> = arg
            .get_default_values()
            .iter()
            .filter(|_| takes)
            .map(|v| v.to_string_lossy().into_owned())
            .collect();
        let mut text = help.strip_suffix('.').filter(|h| !h.ends_with('.')).unwrap_or(&help).to_owned();
        if !values.is_empty() {
            text += &format!("; one of {}", values.join(", "));
        }
        if !default.is_empty() {
            text += &format!("; `{}` if nothing is said", default.join(" "));
        }
        out += &format!("| {} | {} |\n", cell(&name), cell(&text));
    }
    out
}

/// The tables of flags on the page are generated from the command line; KBC_BLESS=1 writes them.
#[test]
fn the_command_line_has_its_page() {
    use clap::CommandFactory;
    let mut command = kbc::cli::Cli::command();
    command.build();
    let page = read("docs/reference/cli.md");
    let (mut new, mut seen) = (String::new(), BTreeSet::new());
    let mut rest = page.as_str();
    while let Some((before, after)) = rest.split_once("<!-- flags: ") {
        let (name, after) = after.split_once(" -->\n").expect("a name behind flags:");
        let (_, after) = after.split_once("<!-- end -->").expect("an end of the table");
        let verb = name.split(' ').try_fold(&command, |c, word| c.find_subcommand(word));
        let table = match verb {
            Some(verb) => flags(verb, false),
            None => {
                assert_eq!(name, "every verb", "no verb of that name");
                flags(&command, true)
            }
        };
        assert!(table.lines().count() > 2 || name == "every verb", "{name} takes nothing");
        new += &format!("{before}<!-- flags: {name} -->\n{table}<!-- end -->");
        let of = if name.starts_with("dev ") { 2 } else { 1 };
        seen.insert(name.split(' ').take(of).collect::<Vec<_>>().join(" "));
        rest = after;
    }
    new += rest;
    let shown = |c: &&clap::Command| c.get_name() != "help" && !c.is_hide_set();
    let mut verbs: Vec<String> = vec![];
    for c in command.get_subcommands().filter(shown) {
        match c.get_name() {
            "dev" => verbs.extend(c.get_subcommands().filter(shown).map(|c| format!("dev {}", c.get_name()))),
            name => verbs.push(name.to_owned()),
        }
    }
    let row = |v: &String| format!("| [`{v}`](#kbc-{})", v.replace(' ', "-"));
    let missing: Vec<String> =
        verbs.into_iter().filter(|v| !seen.contains(v) || !page.contains(&row(v))).collect();
    assert!(missing.is_empty(), "docs/reference/cli.md does not speak of {missing:?}");
    if std::env::var_os("KBC_BLESS").is_some() && new != page {
        std::fs::write(root().join("docs/reference/cli.md"), new).expect("can be written");
    } else {
        assert!(
            new == page,
            "docs/reference/cli.md is not what the command line says; KBC_BLESS=1 cargo test --workspace --test end_to_end docs:: writes it"
        );
    }
}

/// Returns the targets of the links of a page.
fn links(page: &str) -> Vec<&str> {
    page.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

#[test]
fn the_index_leads_to_every_page() {
    let docs = root().join("docs");
    let index = read("docs/README.md");
    let linked: BTreeSet<&str> = links(&index).into_iter().map(|l| l.trim_end_matches('/')).collect();
    // Headings of the page itself are the subject of tests/links.rs.
    for link in linked.iter().filter(|l| !l.starts_with('#')) {
        assert!(docs.join(link).exists(), "docs/README.md links to {link}, which does not exist");
    }
    // A folder of pages that tests generate or check as a whole has one link.
    const WHOLE: [&str; 5] = ["bound", "errors", "evaluation", "passes", "pictures"];
    let mut folders = vec![docs.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(&docs).expect("below").to_string_lossy().into_owned();
            if path.is_dir() && !WHOLE.contains(&name.as_str()) {
                folders.push(path);
            } else if name != "README.md" {
                assert!(linked.contains(name.as_str()), "docs/README.md does not lead to {name}");
            }
        }
    }
}

/// Pages whose indented blocks are forms of texts, beside commands.
const FORMS: [&str; 7] =
    ["algorithms.md", "execution.md", "ir.md", "language.md", "programs.md", "tile.md", "README.md"];

/// Beginnings of lines of an indented block that are commands.
const COMMANDS: [&str; 6] = ["kbc ", "cargo ", "python ", "cd ", "pytest", "KBC_"];

/// Returns the lines of a page that are indented outside of fences, by block.
fn indented(page: &str) -> Vec<Vec<(usize, &str)>> {
    let mut out: Vec<Vec<(usize, &str)>> = vec![];
    let (mut fenced, mut open) = (false, false);
    for (i, line) in page.lines().enumerate() {
        fenced ^= line.starts_with("```");
        let code = line.strip_prefix("    ").filter(|_| !fenced && !line.starts_with("```"));
        match code {
            Some(code) if open => out.last_mut().expect("an open block").push((i + 1, code)),
            Some(code) => out.push(vec![(i + 1, code)]),
            None => {}
        }
        open = code.is_some();
    }
    out
}

/// Output of commands changes, so it is only in `console` blocks, which are replayed.
#[test]
fn output_on_pages_is_replayed() {
    let mut wrong = vec![];
    for path in pages() {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let page = std::fs::read_to_string(&path).expect("found above");
        for block in blocks(&page).iter().filter(|b| b.info != "console") {
            let said = block.text.lines().find(|l| l.starts_with("$ ") || l.contains("crit_ns"));
            wrong
                .extend(said.map(|l| format!("{name}:{}: `{l}` in a block of `{}`", block.line, block.info)));
        }
        for block in indented(&page) {
            let command = |l: &str| COMMANDS.iter().any(|c| l.starts_with(c));
            let other = block.iter().find(|l| !command(l.1));
            if let Some((line, text)) = other.filter(|_| !FORMS.contains(&&*name)) {
                wrong.push(format!(
                    "{name}:{line}: `{text}` is no command; fence it as `console`, or name its language"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the words of a line of a page without its explanation, which follows ` #` or three
/// spaces.
pub fn words(line: &str) -> Vec<String> {
    let mut quote = None;
    let mut end = line.len();
    for (i, c) in line.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if line[i..].starts_with(" #") || line[i..].starts_with("   ") => {
                end = i;
                break;
            }
            None => {}
        }
    }
    split(&line[..end]).into_iter().take_while(|w| !["<", ">", "|", "&&"].contains(&w.as_str())).collect()
}

/// Commands that are shown without their output must at least parse: commands and flags exist,
/// values have their form.
#[test]
fn commands_on_pages_are_understood() {
    use clap::Parser;
    let (mut seen, mut wrong) = (0, vec![]);
    for path in pages() {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let page = std::fs::read_to_string(&path).expect("found above");
        for (line, text) in indented(&page).into_iter().flatten().filter(|l| l.1.starts_with("kbc ")) {
            // The form of a command, not a command.
            if text.contains(" [") {
                continue;
            }
            seen += 1;
            if let Err(e) = kbc::cli::Cli::try_parse_from(words(text)) {
                wrong.push(format!("{name}:{line}: {text}\n{e}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 80, "{seen} commands");
}

/// The table of contents (in mdBook's form) lists every page, and nothing else.
#[test]
fn the_table_of_contents_has_every_page() {
    let docs = root().join("docs");
    let summary = read("docs/SUMMARY.md");
    let links: Vec<(&str, &str)> = summary
        .lines()
        .filter_map(|l| l.trim_start().trim_start_matches("- ").strip_prefix('['))
        .filter_map(|l| l.strip_suffix(')')?.rsplit_once("]("))
        .collect();
    let mut pages = BTreeSet::new();
    let mut folders = vec![docs.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.insert(path.strip_prefix(&docs).expect("below").to_string_lossy().into_owned());
            }
        }
    }
    pages.remove("SUMMARY.md");
    let listed: BTreeSet<String> = links.iter().map(|l| l.1.to_owned()).collect();
    assert_eq!(listed.len(), links.len(), "a page is listed twice");
    let missing: Vec<_> = pages.symmetric_difference(&listed).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md: {missing:?}");
    // A code is listed with its title.
    for (title, path) in links.iter().filter(|l| l.1.starts_with("errors/")) {
        let page = read(&format!("docs/{path}"));
        assert_eq!(page.lines().next(), Some(format!("# {title}").as_str()));
    }
}

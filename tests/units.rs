//! Tests of parts of the command line that no command shows alone.

use clap::Parser;
use kbc::cli::{Cli, Command};
use kbc::commands::report::command;
use kbc::crash::{Record, Stage, bundle, command_in_module};
use kbc::memory_limit::bytes;
use kbc_diag::FileId;
use kbc_ir::text;
use std::sync::Arc;

#[test]
fn sizes_are_read() {
    for (text, want) in [
        ("8GiB", Some(8 << 30)),
        ("500 MB", Some(500_000_000)),
        ("12", Some(12)),
        ("0", None),
        ("x", None),
        ("-1", None),
        ("99999999999GiB", None),
    ] {
        assert_eq!(bytes(text), want, "{text}");
    }
}

fn example() -> Record {
    let text = "kir 1\nmodule @m\nmesh tp 2\n\ngraph\ninput @x : f32[4]\nresult : f32[4]\n\n\
        %x = input @x\n%o = output 0 %x\n";
    let module = text::parse(FileId(0), text).expect("it is right");
    Record {
        command: ["run", "it's.kb", "-D", "a = 1", "--seed", "3", "--adversarial"].map(String::from).into(),
        texts: [("it's.kb", "use \"b.kb\"\nparam a = 1"), ("b.kb", ""), ("c.kb", "// kbc\n\n")]
            .map(|(name, text)| (name.into(), Arc::new(text.into())))
            .into(),
        stage: Some(Stage::Passes),
        module: Some(("place,select{by=time}".into(), module)),
        outdated: false,
        left: false,
    }
}

#[test]
fn a_module_names_what_replays_it() {
    let mut r = example();
    let left = r.of_module().expect("there is one");
    let asked = command_in_module(&left).expect("the first line");
    assert_eq!(asked, ["opt", "-p", "place,select{by=time}"]);
    let again = text::parse(FileId(0), &left).expect("the head is comments");
    assert_eq!(Some(&again.name), r.module.as_ref().map(|m| &m.1.name));
    let run: Vec<&str> = "run --no-proof --no-time --seed 3 --adversarial --seeds 20".split(' ').collect();
    for (stage, words) in [(Stage::Check, vec!["check"]), (Stage::Run, run)] {
        r.stage = Some(stage);
        assert_eq!(command_in_module(&r.of_module().expect("there is one")).expect("a line"), words);
    }
    // Passes continue from a module that was recorded before it became too large.
    r.outdated = true;
    assert_eq!(r.of_module(), None);
    r.stage = Some(Stage::Passes);
    assert!(r.of_module().is_some());
    r.stage = Some(Stage::Read);
    assert_eq!(r.of_module(), None);
    assert_eq!(command_in_module("kir 1\n"), None);
}

#[test]
fn texts_come_out_as_they_went_in() {
    let r = example();
    let (command, texts) = bundle(&r.of_texts()).expect("of that form");
    let texts: Vec<(String, Arc<String>)> = texts.into_iter().map(|(n, t)| (n, t.into())).collect();
    assert_eq!((command, texts), (r.command.clone(), r.texts.clone()));
    assert_eq!(bundle("param a = 1\n"), None);
    assert_eq!(bundle("// kbc: 'open\n"), None);
}

#[test]
fn the_command_on_a_page_has_every_option() {
    let line = "kbc report a.kb -D n=8 -D 'tp = 2' --topology 'ring(2)' --mesh m --set 'forward: drain' \
        --program p --algorithm a --ranks 2 --using ring --order fixed --effort 2 --fuse 4096 --input x=x.npy --engine interp \
        --trace-ranks 0..2 -o report.html";
    let words = shlex(line);
    let Command::Report(args) = Cli::try_parse_from(&words).expect("it is right").command else {
        panic!("another command")
    };
    assert_eq!(shlex(&command(&args)), words);
}

/// Splits a line at spaces outside of quotes.
fn shlex(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (i, part) in line.split('\'').enumerate() {
        let mut pieces = if i % 2 == 1 { vec![part] } else { part.split(' ').collect() }.into_iter();
        if let (Some(last), Some(first)) = (words.last_mut(), pieces.next()) {
            last.push_str(first);
        }
        words.extend(pieces.map(str::to_owned));
    }
    words.retain(|w| !w.is_empty());
    words
}

//! Tests of parts of the command line that no command shows alone.

use clap::Parser;
use kbc::cli::{Cli, Command};
use kbc::commands::report::command;
use kbc::crash::{Record, Stage, bundle, command_in_module};
use kbc::memory_limit::bytes;
#[cfg(unix)]
use kbc::outdir::{Draft, is_device, write_file};
#[cfg(unix)]
use kbc::process_cost::{Ended, measured};
use kbc_diag::FileId;
use kbc_ir::text;
use std::path::Path;
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

/// With the rights of root, a rename would replace the device by the file.
#[test]
#[cfg(unix)]
fn a_device_is_written_to_and_not_replaced() {
    use std::io::Write;
    use std::os::unix::fs::FileTypeExt;
    let null = Path::new("/dev/null");
    assert!(is_device(null) && !is_device(Path::new("/")) && !is_device(Path::new("/no such file")));
    write_file(null, b"gone").expect("it takes everything");
    let mut draft = Draft::new(null).expect("it opens");
    draft.write_all(b"gone").expect("it takes everything");
    draft.keep().expect("it stays");
    drop(Draft::new(null).expect("it opens"));
    assert!(std::fs::metadata(null).expect("it is there").file_type().is_char_device());
}

#[cfg(unix)]
fn shell(line: &str) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["-c".to_owned(), line.to_owned()];
    measured(Path::new("/bin/sh"), &arguments, (folder.path(), folder.path()), true).expect("a shell")
}

#[test]
#[cfg(unix)]
fn a_process_has_a_cost_or_says_why_not() {
    let cost = shell("echo '{\"other\": [1], \"messages\": 7}'").expect("it succeeds");
    assert_eq!(cost.messages, Some(7));
    assert!(cost.cpu_seconds >= 0.0 && cost.wall_seconds > 0.0 && cost.peak_bytes > 100_000, "{cost:?}");
    assert_eq!(shell("echo no report").expect("it succeeds").messages, None);
    assert_eq!(shell("echo; echo first >&2; echo second >&2; exit 3"), Err("first".into()));
    assert_eq!(shell("exit 3"), Err("exit status: 3".into()));
    // It does not find what other processes have kept.
    assert!(shell("[ \"$KBC_CACHE\" = \"$PWD\" ]").is_ok());
    assert!(shell("kill -9 $$").is_err_and(|why| why.contains("signal: 9")));
    let folder = tempfile::tempdir().expect("a folder");
    let lost = measured(&folder.path().join("nothing"), &[], (folder.path(), folder.path()), false);
    assert_eq!(lost.expect_err("there is no program").code, "E412");
}

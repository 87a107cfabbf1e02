//! PyTorch programs, one a rank, as files or a folder of them (docs/reference/torch.md): checked,
//! compiled, and made `.kb`.

use super::output::show;
use super::refusals;
use crate::cli::{Check, Compile, Import, Source};
use crate::outdir::{Draft, failure};
use crate::session::{Outcome, Session};
use kbc_compiler::load::refuse;
use kbc_compiler::torch::files::is_named;
use kbc_compiler::torch::{self, stand_in};
use kbc_diag::Diagnostic;
use std::io::Write;
use std::path::Path;

/// Checks whether a path is a PyTorch program, or a folder (of them).
pub fn is_one(path: &str) -> bool {
    is_named(path) || Path::new(path).is_dir()
}

/// `kbc check` of programs.
///
/// # Errors
/// What is wrong with them.
pub fn check(session: &mut Session, args: &Check) -> Outcome {
    kbc_compiler::load::refuse(&[("--sync", args.sync)], "PyTorch programs")?;
    let source = args.source();
    refusals::no_post(&source)?;
    // sizes of programs have values, and nothing else of them is replaced
    refuse(&source.of.plain().given()[1..], "PyTorch programs")?;
    refusals::no_target(args.target.as_ref(), &source.file)?;
    let paths: Vec<String> = std::iter::once(&source.file).chain(&args.more).cloned().collect();
    let report = torch::check(session, &paths, &args.groups.plain(), &source.of.define)?;
    show(session, &report)
}

/// `kbc compile` of programs: as if the `.kb` file were there.
///
/// # Errors
/// Of making the file, and of compiling it.
pub fn compile(session: &mut Session, args: &Compile) -> Outcome {
    kbc_compiler::emit::target(&args.target)?;
    let file = stand_in(session, &args.source.file, &args.execution.groups.plain(), &args.source.of.define)?;
    let mut source = Source { file, ..args.source.clone() };
    // sizes of the programs, which the text has as numbers
    source.of.define.clear();
    super::compile::program(session, &Compile { source, ..args.clone() })
}

/// `kbc import`: a `.kb` file, with its data files beside it; all of them or none.
///
/// # Errors
/// What is wrong with the programs, or cannot be expressed; nothing is written then.
pub fn import(session: &mut Session, args: &Import) -> Outcome {
    refuse(&[("--reference", args.groups.reference.is_some())], "an import, which does not compare")?;
    let to_stdout = args.output == "-";
    if !to_stdout && !args.output.ends_with(".kb") {
        return Err(Diagnostic::error("E416", format!("{} is not a file name of a program", args.output))
            .help("give a name that ends in .kb")
            .into());
    }
    let out = Path::new(&args.output);
    let called = if to_stdout { Path::new(&args.paths[0]) } else { out };
    let name = called.file_stem().map_or_else(|| "program".into(), |s| s.to_string_lossy().into_owned());
    let beside = if to_stdout { Path::new("") } else { out.parent().unwrap_or(Path::new("")) };
    let what = torch::Import {
        paths: &args.paths,
        tag: args.tag.as_deref(),
        asked: &args.groups.plain(),
        define: &args.define,
        name: &name,
        beside,
        lift: args.lift,
    };
    let made = torch::import(session, &what)?;
    if to_stdout {
        if !made.files.is_empty() {
            let names: Vec<&str> = made.files.iter().map(|f| f.0.as_str()).collect();
            return Err(Diagnostic::error("E416", "this program needs data files beside it")
                .note(names.join(", "))
                .help("write to a file: -o model.kb")
                .into());
        }
        session.print_artefact(&made.text);
        return Ok(());
    }
    // everything is there before the first file goes to its place
    let mut drafts = vec![];
    let files = made.files.iter().map(|(n, b)| (beside.join(n), &b[..]));
    for (path, bytes) in files.chain([(out.to_owned(), made.text.as_bytes())]) {
        let mut draft = Draft::new(&path)?;
        draft.write_all(bytes).map_err(|e| failure(&path, "write", &e))?;
        drafts.push(draft);
    }
    drafts.into_iter().try_for_each(Draft::keep)?;
    let files: Vec<&str> = made.files.iter().map(|f| f.0.as_str()).collect();
    let json = serde_json::json!({
        "schema": 1, "command": "import", "ok": true, "output": args.output, "files": files,
    });
    Ok(session.answer("", &json)?)
}

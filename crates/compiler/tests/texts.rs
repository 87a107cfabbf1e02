//! Tests of texts: the canonical form of sources, and kernels of the tile level as sources.

use crate::{SUM, built, workspace};
use kbc_compiler::kernel::{self, KernelSource};
use kbc_compiler::options::Data;
use kbc_compiler::watch::Unwatched;
use kbc_compiler::{backends, emit, format};
use kbc_diag::FileId;

#[test]
fn the_canonical_form_is_kept_and_differences_from_it_are_shown() {
    let file = FileId(0);
    let text = "topology   sys = ring(4)\n\nmesh m = sys[tp]\n";
    let formatted = format::format(file, "p.kb", text).expect("it can be parsed");
    assert_eq!(formatted, "topology sys = ring(4)\n\nmesh m = sys[tp]\n");
    assert_eq!(format::format(file, "p.kb", &formatted).expect("it can be parsed"), formatted);
    let error = format::unformatted(file, "p.kb", text, &formatted);
    assert_eq!((error.code, error.labels[0].span.start), ("E039", 0));
    // A line without content does not end a part of the differences.
    assert_eq!(
        format::diff("p.kb", text, &formatted),
        "--- p.kb\n+++ p.kb, formatted\n@ 1\n- topology   sys = ring(4)\n-\n+ topology sys = ring(4)\n+\n"
    );
    // Without an extension, the first line says what the text is.
    let module = "; a schedule\nkir 1\nmodule @m\nmesh tp 2\n\ngraph\n";
    let formatted = format::format(file, "-", module).expect("it is a .kir text");
    assert!(formatted.contains("kir 1") && formatted.contains("graph"), "{formatted}");
}

#[test]
fn a_kernel_as_text_is_verified_and_passes_run_on_it() {
    let mut workspace = workspace(SUM);
    let built = built(&mut workspace, "windows");
    let schedule = built.schedule().expect("a schedule");
    let target = kernel::target(None).expect("there is a default target");
    assert_eq!(target.name(), backends::default_target().name());
    let prepared = emit::prepare(&mut workspace, &built, schedule, target, &mut Unwatched).expect("a kernel");
    let report = built.report(&workspace, &Data::default()).expect("no step fails");
    let text = emit::text(&prepared, "tile", &report).expect("it has a text");
    workspace.give("k.tile", &text);
    assert!(kernel::is_one(&mut workspace, "k.tile") && !kernel::is_one(&mut workspace, "p.kb"));

    let mut source = KernelSource::read(&mut workspace, "k.tile", target).expect("it can be read");
    let counts = source.check(&workspace).expect("it is complete");
    assert!(counts.flags > 0);
    let kernel = source.kernel.clone();
    let dump = source.run_passes(&workspace, &[], &mut Unwatched).expect("no pass");
    assert_eq!(dump.len(), 1);
    assert!(source.kernel == kernel);

    // Without a wait for a flag, an operation overlaps the one that it depends on.
    let at = text.find("flag.wait").map(|at| text[..at].rfind('\n').map_or(0, |n| n + 1));
    let at = at.expect("the kernel waits for flags");
    let end = text[at..].find('\n').map_or(text.len(), |n| at + n + 1);
    workspace.give("k.tile", &format!("{}{}", &text[..at], &text[end..]));
    let source = KernelSource::read(&mut workspace, "k.tile", target).expect("it can be read");
    let found = source.check(&workspace).expect_err("it is wrong");
    assert!(found.list.iter().all(|d| !d.labels.is_empty()), "{found:?}");
    assert!(kernel::target(Some("sim")).is_err() && kernel::target(Some("a9")).is_err());
}

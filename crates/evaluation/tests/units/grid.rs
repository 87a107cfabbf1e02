//! The rows of a sweep.

use kbc_diag::{Diagnostic, FileId};
use kbc_evaluation::sweep::grid::{Grid, Shard};
use kbc_evaluation::sweep::request::RowProgram;
use kbc_evaluation::sweep::spec;

fn grid(text: &str) -> Result<Grid, Diagnostic> {
    Grid::new(spec::read(text, FileId::default())?, text)
}

const HEAD: &str = "sweep: 1\ntitle: t\n";

#[test]
fn the_last_axis_varies_fastest_and_templates_are_filled() {
    let text = format!(
        "{HEAD}file: '{{m.file}}.kb'\ndefine: {{n: '{{n}}'}}\nset: ['queue: {{kind}}, 1']\naxes:\n  m: {{a: {{file: x}}, b: {{file: y}}}}\n  \
         kind: [tcm, hbm]\n  n: [8, 16, 32]\n"
    );
    let g = grid(&text).expect("a sweep");
    assert_eq!(g.points.len(), 12);
    let p = &g.points[7];
    let labels: Vec<&str> = p.values.iter().map(|v| v.label.as_str()).collect();
    assert_eq!(labels, ["b", "tcm", "16"]);
    assert_eq!(p.program, RowProgram::File("y.kb".into()));
    assert_eq!((p.of.set.join(";"), p.of.define.join(";")), ("queue: tcm, 1".into(), "n=16".into()));
}

#[test]
fn a_range_doubles_as_that_of_compare() {
    let labels = |range: &str| {
        let text = format!("{HEAD}file: a.kb\ndefine: {{n: '{{n}}'}}\naxes: {{n: {range}}}\n");
        let found = grid(&text).map_err(|d| d.title)?;
        Ok::<_, String>(found.points.iter().map(|p| p.values[0].label.clone()).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(labels("256..2048"), Ok("256 512 1024 2048".into()));
    assert_eq!(labels("'3..20'"), Ok("3 6 12".into()));
    assert_eq!(labels("20..3"), Err("axis `n` has no values".into()));
    assert!(labels("a..b").is_err_and(|t| t.contains("256..65536")));
}

#[test]
fn an_engine_measures_or_computes() {
    let rest = "file: a.kb\nengine: '{e}'\nmeasure: {rounds: 3, repeat: 2}\naxes: {e: [sim, host, mpi]}\n";
    let g = grid(&format!("{HEAD}{rest}")).expect("a sweep");
    let engines: Vec<_> = g.points.iter().map(|p| (p.engine.name(), p.engine.measures())).collect();
    assert_eq!(engines, [("sim", false), ("host", true), ("mpi", true)]);
    let measure = g.read.spec.measure.expect("it is there");
    assert_eq!((measure.rounds, measure.repeat, measure.calls, measure.bind), (3, Some(2), 1, true));
    let fails =
        |from: &str, to: &str| grid(&format!("{HEAD}{}", rest.replace(from, to))).expect_err(to).title;
    assert_eq!(fails("mpi]", "gpu]"), "unknown engine `gpu`; the engines are sim, host, mpi");
    assert_eq!(fails("rounds: 3", "rounds: 0"), "`rounds` of `measure` must be at least 1");
    assert_eq!(fails("repeat: 2", "repeat: 0"), "`repeat` of `measure` must be at least 1");
    assert!(fails("host, mpi]", "]").starts_with("`measure` has no effect"));
    assert!(fails("rounds:", "round:").contains("round"));
    assert!(fails("{e: [sim", "{transport: [sim").contains("transport"));
}

#[test]
fn braces_of_a_program_are_its_own() {
    let text = format!("{HEAD}text: |\n  a {{ b }} {{x}} {{y}}\n  c\naxes: {{x: [1, 2]}}\n");
    let g = grid(&text).expect("a sweep");
    assert_eq!(g.points[1].program, RowProgram::Text("a { b } 2 {y}\nc\n".into()));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let of = |rest: &str| {
        let text = format!("{HEAD}{rest}");
        let d = grid(&text).expect_err(rest);
        let at = d.labels[0].span;
        format!("{} {}: {}", d.code, &text[at.start as usize..at.end as usize], d.title)
    };
    assert_eq!(of("file: a.kb\naxes: {n: [1]}\n"), "E583 n: axis `n` has no effect");
    assert!(of("file: '{m}.kb'\naxes: {n: [1]}\n").starts_with("E583 m: `{m}` is neither"));
    assert!(of("file: '{n.x}.kb'\naxes: {n: [1]}\n").starts_with("E583 n.x: `{n.x}` is neither"));
    assert_eq!(of("file: '{n}.kb'\naxes: {n: [1, 1]}\n"), "E583 1: axis `n` has `1` twice");
    assert_eq!(of("file: '{n}.kb'\naxes: {n: []}\n"), "E583 n: axis `n` has no values");
    assert!(of("file: '{time_ns}'\naxes: {time_ns: [1]}\n").contains("two columns `time_ns`"));
    // An axis is mentioned in templates before it is declared; the error is at its declaration.
    let at = |rest: &str| {
        grid(&format!("{HEAD}{rest}")).expect_err(rest).labels[0].span.start as usize - HEAD.len()
    };
    let text = "file: a.kb\ndefine: {n: '{n}', m: 1}\naxes: {n: one}\n";
    assert_eq!(&text[at(text)..], "n: one}\n");
    let text = "file: a.kb\ndefine: {n: '{n}'}\naxes: {n: [1, 2, 1]}\n";
    assert_eq!(&text[at(text)..], "1]}\n");
    let text = "file: a.kb\ndefine: {m: '{n}'}\naxes:\n  n: [1]\n  m: [2]\n";
    assert_eq!(&text[at(text)..], "m: [2]\n");
    assert!(of("file: a\naxes: {n: [1]}\nother: 2\n").contains("unknown key `other`"));
}

/// Keys have the names of flags. Files with the old names are read for one release.
#[test]
fn old_keys_are_those_of_flags() {
    let new =
        format!("{HEAD}file: a.kb\nprogram: p\nmesh: m\nranks: 8\nalgorithm: '{{x}}'\naxes: {{x: [ring]}}\n");
    let point = &grid(&new).expect("a sweep").points[0];
    assert_eq!(point.program, RowProgram::File("a.kb".into()));
    let of = &point.of;
    let flags = [&of.program, &of.mesh, &of.ranks, &of.algorithm].map(|o| o.as_deref().unwrap_or(""));
    assert_eq!(flags, ["p", "m", "8", "ring"]);
    for (old, new) in [
        ("program: a.kb\nnamed: '{x}'", "file: a.kb\nprogram: '{x}'"),
        ("program: '{x}.kb'", "file: '{x}.kb'"),
        ("program: |\n  a\n  {x}", "text: |\n  a\n  {x}"),
    ] {
        let [old, new] = [old, new].map(|t| grid(&format!("{HEAD}{t}\naxes: {{x: [1]}}\n")).expect(t).points);
        assert_eq!(old, new);
    }
    let of = |rest: &str| grid(&format!("{HEAD}{rest}\naxes: {{x: [1]}}\n")).expect_err(rest).title;
    assert_eq!(of("file: a.kb\nnamed: '{x}'"), "`named` is now `program`");
    assert_eq!(of("file: a.kb\ntext: '{x}'"), "`file` and `text` exclude each other");
    assert!(of("ccl: a.yaml\nprogram: '{x}'").starts_with("`program` does not apply to a `ccl`"));
    assert!(of("set: ['{x}']").starts_with("`file`, `text` or `ccl` is missing"));
}

#[test]
fn shards_cover_every_row_once() {
    for n in 1..9 {
        let shards: Vec<Shard> = (1..=n).map(|i| format!("{i}/{n}").parse().expect("a shard")).collect();
        assert!((0..100).all(|row| shards.iter().filter(|s| s.has(row)).count() == 1));
    }
    for wrong in ["0/3", "4/3", "1", "1/0", "a/b"] {
        assert!(wrong.parse::<Shard>().is_err());
    }
}

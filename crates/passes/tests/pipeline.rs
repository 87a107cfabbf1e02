//! Tests of the pass manager: text of pipelines, order, options, observers.

use crate::common;

use common::{library, parse};
use kbc_diag::{Diagnostic, Diagnostics, FileId};
use kbc_ir::graph::{CollKind, OpKind};
use kbc_ir::scalar::Scalar;
use kbc_ir::{Module, Props, text};
use kbc_machine::topology::Topology;
use kbc_passes::findings::select::Verdict;
use kbc_passes::instrument::{
    DumpDir, Instrument, PassFilter, PrintAfter, Reproducer, RoundTrip, Timings, VerifyEach,
};
use kbc_passes::pass::graph_of;
use kbc_passes::pipeline::PIPELINES;
use kbc_passes::{Changed, Pass, PassCx, PassInfo, Pipeline, TimeModel};

const FFN: &str = include_str!("data/place/ffn.kir");

/// Returns `CODE title | place: label | help` of each message; places are the bytes of the text.
fn errors(text: &str) -> Vec<String> {
    let found = Pipeline::parse(text, FileId(0)).err().unwrap_or_default();
    let at =
        |d: &Diagnostic| text.get(d.span().start as usize..d.span().end as usize).unwrap_or("?").to_owned();
    let help = |d: &Diagnostic| d.help.clone().unwrap_or_default();
    found.list.iter().map(|d| format!("{} {} | {} | {}", d.code, d.title, at(d), help(d))).collect()
}

#[test]
fn pipelines_read_and_print() {
    for (given, printed) in [
        ("infer", "infer"),
        (" infer , place ", "infer,place"),
        ("infer{},place", "infer,place"),
        ("select{ by = time , explain=true }", "select{by=time,explain=true}"),
        ("graph", "infer,place,fuse,select"),
        ("infer,graph", "infer,infer,place,fuse,select"),
    ] {
        let p = Pipeline::parse(given, FileId(0)).unwrap_or_else(|d| panic!("{given}: {d:?}"));
        assert_eq!(p.text(), printed);
    }
}

#[test]
fn faults_in_a_pipeline_are_told_with_their_place() {
    for (given, wanted) in [
        ("infre", vec!["E902 unknown pass `infre` | infre | did you mean `infer`?"]),
        ("defualt", vec!["E902 unknown pass `defualt` | defualt | did you mean `default`?"]),
        (
            "infer{n=2},plaec",
            vec![
                "E904 pass `infer` has no option `n` | n | `infer` takes no options",
                "E902 unknown pass `plaec` | plaec | did you mean `place`?",
            ],
        ),
        ("select{b=time}", vec!["E904 pass `select` has no option `b` | b | "]),
        (
            "select{explian=true}",
            vec!["E904 pass `select` has no option `explian` | explian | did you mean `explain`?"],
        ),
        ("select{by=luck}", vec!["E904 invalid value of option `by` of pass `select`: `luck` | luck | "]),
        ("select{explain=1}", vec!["E904 invalid value of option `explain` of pass `select`: `1` | 1 | "]),
        ("select{by=time,by=model}", vec!["E904 option `by` is given twice | by | remove one of them"]),
        (
            "graph{by=time}",
            vec![
                "E904 pipeline `graph` has no option `by` | by | write the passes out: `infer,place,fuse,select`",
            ],
        ),
    ] {
        assert_eq!(errors(given), wanted, "{given}");
    }
    for (given, wanted) in [
        ("", "expected the name of a pass, found the end"),
        ("infer,", "expected the name of a pass, found the end"),
        ("infer place", "expected `,` or `{`, found `p`"),
        ("infer,,place", "expected the name of a pass, found `,`"),
        ("select{by", "expected `=` and a value, found the end"),
        ("select{by=", "expected a value, found the end"),
        ("select{by=time", "expected `,` or `}`, found the end"),
        ("select{=}", "expected the name of an option or `}`, found `=`"),
        ("infer;place", "expected `,` or `{`, found `;`"),
        ("π", "E902"),
        ("infer→", "expected `,` or `{`, found `→`"),
    ] {
        let got = errors(given);
        assert!(got.len() == 1 && got[0].contains(wanted), "{given}: {got:?}");
    }
}

#[test]
fn order_is_computed_from_properties() {
    let (mut module, cx) = (parse(FFN), PassCx::new(library(), None));
    for (passes, help) in [
        ("place", "run `infer,place`"),
        ("select", "run `infer,place,select`"),
        ("infer,select", "run `place,select`"),
    ] {
        let found = Pipeline::parse(passes, FileId(0)).unwrap().run(&mut module, &cx, &mut []).unwrap_err();
        assert_eq!(found.list.len(), 1);
        assert_eq!((found.list[0].code, found.list[0].help.as_deref()), ("E901", Some(help)));
        assert_eq!(module.props, Props::NONE, "nothing ran");
    }
}

#[test]
fn every_registered_pass_is_well_described() {
    for (i, e) in kbc_passes::ALL.iter().enumerate() {
        assert!(kbc_passes::ALL[..i].iter().all(|o| o.info.name != e.info.name));
        assert!(PIPELINES.iter().all(|p| p.0 != e.info.name), "a pass and a pipeline of one name");
        assert!(!e.info.summary.is_empty() && !e.info.summary.ends_with('.'));
        assert_eq!((e.make)(&Default::default()).info().name, e.info.name);
        // `fuse` keeps every property of a graph.
        let stated = e.info.gives.with(e.info.breaks).with(e.info.requires);
        assert!(stated != Props::NONE, "{} states no property", e.info.name);
    }
}

#[test]
fn observers_collect() {
    let mut module = parse(FFN);
    let cx = PassCx::new(library(), None);
    let mut after = PrintAfter::new(PassFilter::parse("place"), false);
    let mut changed = PrintAfter::changed(false);
    let (mut dump, mut reproducer) = (DumpDir::default(), Reproducer::default());
    let (mut verify, mut round) = (VerifyEach, RoundTrip::default());
    let mut now = 0.0;
    let mut timings = Timings::new(|| {
        now += 1.0;
        now
    });
    let mut watch: Vec<&mut dyn Instrument> =
        vec![&mut verify, &mut round, &mut after, &mut changed, &mut dump, &mut reproducer, &mut timings];
    Pipeline::parse("infer,infer,place", FileId(0)).unwrap().run(&mut module, &cx, &mut watch).unwrap();
    let names: Vec<&str> = dump.files.iter().map(|f| f.0.as_str()).collect();
    assert_eq!(names, ["00-input.kir", "01-infer.kir", "02-infer.kir", "03-place.kir"]);
    assert_eq!(after.text, format!("; after place\n{}\n", dump.files[3].1));
    assert_eq!(
        changed.text,
        format!(
            "; after infer\n{}\n; infer changed nothing\n\n; after place\n{}\n",
            dump.files[1].1, dump.files[3].1
        )
    );
    assert_eq!(timings.rows, [("infer", 1.0), ("infer", 1.0), ("place", 1.0)]);
    assert!(!reproducer.failed);
}

#[test]
fn a_reproducer_replays_the_failure() {
    let text = include_str!("data/errors/using.kir");
    let passes = "infer,place,select{explain=true}";
    let run = |text: &str, passes: &str, reproducer: &mut Reproducer| {
        let mut module = parse(text);
        let cx = PassCx::new(library(), None);
        Pipeline::parse(passes, FileId(1)).unwrap().run(&mut module, &cx, &mut [reproducer]).unwrap_err()
    };
    let mut reproducer = Reproducer::default();
    let first = run(text, passes, &mut reproducer);
    assert!(reproducer.failed);
    let replay = reproducer.text().unwrap();
    let line = replay.lines().next().unwrap();
    assert_eq!(line, "; kbc: opt -p 'select{explain=true}'");
    let again = run(&replay, "select{explain=true}", &mut Reproducer::default());
    let titles = |d: &Diagnostics| d.list.iter().map(|d| (d.code, d.title.clone())).collect::<Vec<_>>();
    assert_eq!(titles(&first), titles(&again));
}

/// A pass that applies a function to a module.
struct Bad(fn(&mut Module));

static BAD: PassInfo = PassInfo {
    name: "bad",
    summary: "breaks things",
    requires: Props::NONE,
    gives: Props::NONE,
    breaks: Props::NONE,
    options: &[],
};

impl Pass for Bad {
    fn info(&self) -> &'static PassInfo {
        &BAD
    }
    fn run(&self, module: &mut Module, _cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        (self.0)(module);
        Ok(Changed::Yes)
    }
}

#[test]
fn a_wrong_pass_is_caught() {
    let run = |break_it: fn(&mut Module), watch: &mut dyn Instrument| {
        let mut module = parse(FFN);
        let cx = PassCx::new(library(), None);
        let mut pipeline = Pipeline::parse("infer", FileId(0)).unwrap();
        pipeline.push(Box::new(Bad(break_it)));
        let found = pipeline.run(&mut module, &cx, &mut [watch]).err().unwrap_or_default();
        found.list.iter().map(|d| d.code).collect::<Vec<_>>()
    };
    // Removes a type although the module claims to have all types.
    let untyped: fn(&mut Module) = |m| {
        let g = graph_of(m, &BAD).unwrap();
        let last = *g.order().last().unwrap();
        g.op_mut(last).ty = None;
    };
    assert!(run(untyped, &mut VerifyEach).contains(&"E905"));
    assert_eq!(run(|_| {}, &mut VerifyEach), [""; 0]);
    // A number that is not equal to itself (NaN) never parses to an equal one.
    let unequal: fn(&mut Module) = |m| {
        let g = graph_of(m, &BAD).unwrap();
        let h = g.order()[7];
        if let OpKind::Map(f) = &mut g.op_mut(h).kind {
            f.body = Scalar::Num(f64::NAN);
        }
    };
    assert!(run(unequal, &mut RoundTrip::default()).contains(&"E906"));
    assert_eq!(run(|_| {}, &mut RoundTrip::default()), [""; 0]);
}

/// The feed-forward layer of the design has no collective between the layers, and one after them,
/// before the bias.
#[test]
fn ffn_has_one_all_reduce_before_the_bias() {
    for tp in [1, 2, 3, 4, 5, 8] {
        let kir =
            FFN.replace("ring(4)", &format!("ring({tp})")).replace("mesh tp 4", &format!("mesh tp {tp}"));
        let (module, _) = common::run(&kir, "infer,place").unwrap();
        let graph = module.graph().unwrap();
        let collectives: Vec<_> =
            graph.order().iter().filter(|id| matches!(graph.op(**id).kind, OpKind::Collective(_))).collect();
        let [one] = collectives[..] else { panic!("{} collectives at tp {tp}", collectives.len()) };
        let OpKind::Collective(c) = &graph.op(*one).kind else { unreachable!() };
        assert_eq!((c.kind, c.explicit), (CollKind::AllReduce, false));
        assert_eq!(graph.op(graph.operands(*one)[0]).name, "m2", "of the second matmul");
        let users: Vec<String> = graph.users(*one).iter().map(|u| graph.op(u.0).name.to_string()).collect();
        assert_eq!(users, ["s2"], "then the bias");
    }
}

/// A time model that fails.
struct Refuses;

impl TimeModel for Refuses {
    fn nanoseconds(&self, _module: &Module) -> Result<f64, Diagnostics> {
        Err(Diagnostic::error("E000", "no time").into())
    }
}

#[test]
fn select_by_time_needs_a_time_model() {
    let mut module = parse(FFN);
    let pipeline = Pipeline::parse("infer,place,select{by=time}", FileId(0)).unwrap();
    let without = pipeline.run(&mut module, &PassCx::new(library(), None), &mut []).unwrap_err();
    assert_eq!(without.list[0].code, "E904");
    let mut module = parse(FFN);
    let cx = PassCx::new(library(), None).with_time(&Refuses);
    let refused = pipeline.run(&mut module, &cx, &mut []).unwrap_err();
    assert_eq!(refused.list[0].code, "E214", "no candidate has a time");
}

/// A time model that counts lines: the shortest schedule is the fastest.
struct Lines;

impl TimeModel for Lines {
    fn nanoseconds(&self, module: &Module) -> Result<f64, Diagnostics> {
        assert!(module.props.contains(Props::SYNCHRONIZED));
        Ok(text::print(module, &Default::default()).lines().count() as f64)
    }
}

#[test]
fn select_by_time_takes_the_fastest_finished_schedule() {
    let mut module = parse(include_str!("data/select/ring.kir"));
    let pipeline = Pipeline::parse("infer,place,select{by=time}", FileId(0)).unwrap();
    let cx = PassCx::new(library(), None).with_time(&Lines);
    pipeline.run(&mut module, &cx, &mut []).unwrap();
    let findings = cx.findings.borrow();
    for entry in &findings.select.entries {
        let priced: Vec<(f64, &str)> = entry
            .candidates
            .iter()
            .filter_map(|c| match &c.verdict {
                Verdict::Priced(p) => Some((p.simulated.expect("all are simulated"), c.algorithm.as_str())),
                _ => None,
            })
            .collect();
        assert!(priced.len() >= 5, "{priced:?}");
        assert!(priced.windows(2).all(|w| w[0].0 <= w[1].0), "{priced:?}");
        assert!(priced[0].0 < priced[priced.len() - 1].0 && entry.chosen == *priced[0].1);
    }
}

/// A fixed order that nothing can find is an error, and no order is taken for a fixed one.
#[test]
fn a_fixed_order_needs_a_model() {
    let text = "kir 1\nmodule @m\nmachine ring(4)\nmesh tp 4\nprops typed placed\n\ngraph\n\
        input @x : f32[8] partial(sum@tp)\nresult : f32[8]\n\n%x = input @x : f32[8] partial(sum@tp)\n\
        %y = all_reduce sum %x over tp ORDER : f32[8]\n%out = output 0 %y : f32[8]\n";
    let machine = Topology::parse("ring(4)", FileId(0)).unwrap();
    let run = |order: &str| {
        let mut module = parse(&text.replace("ORDER", order));
        let cx = PassCx::new(library(), Some(&machine));
        Pipeline::parse("select", FileId(1)).unwrap().run(&mut module, &cx, &mut [])
    };
    for order in ["order fixed", "order fixed using ring"] {
        let found = run(order).expect_err("there is no model");
        assert_eq!(found.list[0].code, "E904", "{order}");
    }
    assert!(run("").is_ok() && run("using ring").is_ok());
}

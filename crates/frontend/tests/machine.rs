//! Tests of machine files: their contents, and every error with its place.
//!
//! In files of tests/machine, an error is marked on its line, `#~ CODE "words of the title" help
//! "words of the help"`; a file without a mark is correct. To add a case, add a file.

use kbc_diag::{FileId, Severity, Span};
use kbc_frontend::machine::{MachineFile, read, read_perturb};
use kbc_machine::topology::perturb::{Distribution, PerturbTargets, RankName};
use kbc_machine::topology::{Forward, LinkRate, Topology};
use std::path::PathBuf;

fn files() -> Vec<(PathBuf, String)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machine");
    let mut out: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    out.sort();
    out.into_iter().map(|p| (p.clone(), std::fs::read_to_string(p).expect("a text"))).collect()
}

/// Returns line from 1, code, words of the title, words of the help.
fn marks(text: &str) -> Vec<(usize, String, String, String)> {
    let mark = |(i, line): (usize, &str)| {
        let mark = line.split("#~ ").nth(1)?;
        let mut parts = mark.split('"');
        let code = parts.next()?.trim().to_owned();
        let title = parts.next()?.to_owned();
        Some((i + 1, code, title, parts.nth(1).unwrap_or("").to_owned()))
    };
    text.lines().enumerate().filter_map(mark).collect()
}

#[test]
fn every_mistake_is_said_where_it_is() {
    let mut bad = 0;
    for (path, text) in files() {
        let wanted = marks(&text);
        bad += usize::from(!wanted.is_empty());
        let found = match read(&text, FileId(0)) {
            Ok(_) => vec![],
            Err(d) => d.list,
        };
        let line = |d: &kbc_diag::Diagnostic| {
            let at = d.labels[0].span.start as usize;
            text[..at].lines().count().max(1) + usize::from(text[..at].ends_with('\n'))
        };
        let mut found: Vec<_> = found.iter().map(|d| (line(d), d)).collect();
        found.sort_by_key(|f| f.0);
        let shown: Vec<String> =
            found.iter().map(|(l, d)| format!("{l} {} {} / {:?}", d.code, d.title, d.help)).collect();
        assert_eq!(found.len(), wanted.len(), "{}: {shown:#?}", path.display());
        for ((l, d), (line, code, title, help)) in found.iter().zip(&wanted) {
            let right = l == line
                && d.code == code
                && d.severity == Severity::Error
                && d.title.contains(title.as_str())
                && d.help.as_deref().unwrap_or("").contains(help.as_str());
            assert!(right, "{}:{line} {code} {title}: {shown:#?}", path.display());
        }
    }
    assert!(bad >= 8);
}

/// Named values are those of the short form, and the version is that of a file without one.
#[test]
fn named_values_are_those_of_the_short_form() {
    let of = |text: &str| {
        let m = read(text, FileId(0)).unwrap_or_else(|d| panic!("{text}: {d:#?}"));
        let rates: Vec<_> = m.links.iter().map(|l| (l.set.node.clone(), l.rate)).collect();
        format!("{:?} {rates:?}", m.settings)
    };
    let short = of(
        "link: 50 GB/s, 500 ns\ndevice: 1 TFLOP/s, 2 TB/s\nvector: 3 GB/s, 512 B\nsdma: 21 GB/s, 25 ns\nlinks: {x: \"1 GB/s, 2 ns\", y: \"unlimited, 3 ns\"}\n",
    );
    let named = of(
        "kbc: 1\nlink: {latency: 500 ns, bandwidth: 50 GB/s}\ndevice: {arithmetic: 1 TFLOP/s, memory: 2 TB/s}\n\
         vector:\n  bandwidth: 3 GB/s\n  step: 512 B\nsdma: {bandwidth: 21 GB/s, time: 25 ns}\n\
         links:\n  x: {bandwidth: 1 GB/s, latency: 2 ns}\n  y: {bandwidth: unlimited, latency: 3 ns}\n",
    );
    assert_eq!(short, named);
    assert_eq!(of("vector: 3 GB/s\n"), of("vector: {bandwidth: 3 GB/s}\n"));
    let both = of("switch: reduce, multicast\n");
    for text in ["{reduce, multicast}", "[multicast, reduce]", "{reduce: true, multicast: true}"] {
        assert_eq!(of(&format!("switch: {text}\n")), both, "{text}");
    }
    assert_eq!(of("switch: {reduce: false, multicast: true}\n"), of("switch: multicast\n"));
    assert_eq!(of("switch: {reduce: false}\n"), of("switch: forward\n"));
}

fn good() -> MachineFile {
    let (_, text) = files().into_iter().find(|f| f.0.ends_with("good.yaml")).expect("good.yaml");
    read(&text, FileId(0)).unwrap_or_else(|d| panic!("{d:#?}"))
}

#[test]
fn a_file_is_read_as_it_is_written() {
    let m = good();
    assert_eq!(m.shape.as_ref().map(|s| s.node.to_string()).as_deref(), Some("torus(4, 4)"));
    let s = &m.settings;
    assert_eq!(s.link(), LinkRate { bandwidth: 50.0 * (1u64 << 30) as f64, latency_ns: 500.0 });
    assert_eq!((s.flops(), s.memory(), s.vector()), (100e12, 1.6e12, 400e9));
    assert_eq!((s.fence_ns(), s.signal_bytes(), s.wrap2()), (20.0, 16.0, 2));
    assert_eq!((s.forward(), s.round_ns(), s.endpoint_ns()), (Forward::StoreAndForward, Some(1.0), 1.0));
    let rates: Vec<f64> = m.links.iter().map(|l| l.rate.bandwidth).collect();
    assert_eq!(rates, [25e9, 30e9, 10e9, 0.0]);
    assert_eq!(m.routes.iter().map(|r| r.links.len()).collect::<Vec<_>>(), [2, 1, 1, 1]);
    let p = m.perturb.expect("a section");
    assert_eq!((p.seed, p.runs, p.stragglers.len(), p.links.len()), (7, 20, 3, 3));
    let PerturbTargets::These(ranks) = &p.stragglers[0].who else { panic!() };
    let ranks: Vec<&RankName> = ranks.iter().map(|r| &r.node).collect();
    assert_eq!(ranks, [&RankName::Number(3), &RankName::At(vec![1, 2])]);
    assert_eq!(p.stragglers[0].units, [false, true, true]);
    assert_eq!(p.stragglers[0].slow, Some(Distribution::Normal(1.5, 0.2)));
    assert_eq!(
        (&p.stragglers[1].who, p.stragglers[1].late),
        (&PerturbTargets::Share(0.05), Some(Distribution::Exponential(1e4)))
    );
    assert_eq!(p.links[1].latency, Some(Distribution::Uniform(0.0, 300.0)));
    assert!(matches!(&p.links[2].who, PerturbTargets::Count(n) if n.node == 3));
}

#[test]
fn a_section_stands_alone_too() {
    let text = "{seed: 3, links: [{links: (0)->(1), slow: 4}]}";
    let p = read_perturb(text, FileId(0)).unwrap_or_else(|d| panic!("{d:#?}"));
    assert_eq!((p.seed, p.runs, p.links.len()), (3, 1, 1));
    for (text, code) in [
        ("{seed: 3}", "E463"),
        ("[]", "E462"),
        ("{links: [{count: 1, slow: 2}], fence: 2 ns}", "E461"),
        ("perturb: {links: [{count: 1, slow: 2}]}\nfenc: 2 ns", "E461"),
        ("system: {}", "E463"),
        ("algorithms: {}", "E464"),
        ("", "E460"),
    ] {
        let d = read_perturb(text, FileId(0)).expect_err(text);
        assert_eq!(d.list[0].code, code, "{text}");
    }
}

/// Any broken text gives messages with places.
#[test]
fn broken_texts_are_errors() {
    for (_, text) in files() {
        let chars: Vec<char> = text.chars().collect();
        for i in (0..chars.len()).step_by(3) {
            let cut: String = chars[..i].iter().collect();
            let hole: String = chars[..i].iter().chain(&chars[i + 1..]).collect();
            let other: String = chars[..i].iter().chain(&['\u{e4}', '"']).chain(&chars[i + 1..]).collect();
            for broken in [cut, hole, other] {
                if let Err(d) = read(&broken, FileId(0)) {
                    for d in d.list {
                        let span = d.labels.first().expect("a place").span;
                        assert!(
                            span.start <= span.end
                                && broken.get(span.start as usize..span.end as usize).is_some(),
                            "{span:?} of {broken}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_network_is_a_hierarchy_with_rates_for_each_dimension() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machine/network.yaml"));
    let file = read(&text.expect("a file"), FileId(0)).expect("it is right");
    let shape = file.shape.expect("a shape").node;
    let mut topology = Topology::build(shape, file.settings, Span::NONE).expect("a machine");
    topology.set_links(&file.links).expect("its links");
    assert_eq!(
        topology.to_string(),
        "hierarchy(ring(2), full(8), switch(4)) { link: 200 GiB/s, 50 ns; forward: store_and_forward; round: 1 ns; \
         link +x: 50 GiB/s, 2 us; link -x: 50 GiB/s, 2 us; link +y: 100 GiB/s, 500 ns; link -y: 100 GiB/s, 500 ns }"
    );
    assert_eq!((topology.device_count(), topology.node_count()), (64, 80));
}

//! Tests of files of a package simulator, read unchanged (TOPO-2, TOPO-3, TOPO-7): two versions of
//! `topology.yaml` that nest the same settings differently, and `ccl.yaml`.

use kbc_diag::{Diagnostic, Diagnostics, FileId, Severity};
use kbc_frontend::machine::ccl::{self, Backpressure, Origin, Overrides, RunRanks};
use kbc_frontend::machine::{MachineFile, read};
use kbc_ir::types::MemKind;
use kbc_machine::topology::{Compute, Settings, Topology};

fn text(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/kernbench/{name}", env!("CARGO_MANIFEST_DIR")))
        .expect("a file of this test")
}

fn machine(text: &str) -> MachineFile {
    read(text, FileId(0)).unwrap_or_else(|d| panic!("{text}\n{d:#?}"))
}

fn built(file: &MachineFile) -> Topology {
    let shape = file.shape.as_ref().expect("a shape").node.clone();
    Topology::build(shape, file.settings, kbc_diag::Span::NONE).unwrap_or_else(|d| panic!("{d:#?}"))
}

/// Returns line and column, from 1, of the place to which a message points.
fn place(text: &str, d: &Diagnostic) -> (usize, usize) {
    let at = d.labels.first().expect("a place").span.start as usize;
    (text[..at].matches('\n').count() + 1, at - text[..at].rfind('\n').map_or(0, |i| i + 1) + 1)
}

fn errors(text: &str) -> Diagnostics {
    read(text, FileId(0)).expect_err(text)
}

#[test]
fn a_topology_is_a_package() {
    let file = machine(&text("flat.yaml"));
    assert_eq!(file.warnings.list, []);
    let t = built(&file);
    assert_eq!(
        t.to_string(),
        "package(torus(2, 3), mesh(4, 4), 8) { compute: shared; dma: 1; hbm_size: 6 GiB; cube_link: 128 GB/s, 4; hbm_channels: 8, 32 GB/s, 256 B; \
         ns_per_mm: 0.01; pe_node: 3 ns; router_node: 2 ns; hbm_node: 0 ns; hbm_wire: 3; hbm_link: 256 GB/s; sram_node: 1.5 ns; sram_wire: 2; \
         sram_link: 128 GB/s; port_node: 8 ns; io_node: 10 ns; sip_wire: 120; sip_link: 64 GB/s }"
    );
    assert_eq!(Topology::parse(&t.to_string(), FileId(0)).expect("its own text"), t);
    assert_eq!(t.settings().compute, Some(Compute::Shared));
    assert_eq!(t.settings().size(MemKind::Hbm), Some(6.0 * (1u64 << 30) as f64));
    assert_eq!((t.device_count(), t.settings().size(MemKind::Sram)), (768, None));
}

#[test]
fn nesting_says_nothing() {
    let (flat, deep) = (machine(&text("flat.yaml")), machine(&text("deep.yaml")));
    assert_eq!(deep.warnings.list, []);
    // They differ only in the corners, which only the second one places: 3-4-5 triangles, and one
    // further away.
    let (a, b) = (built(&flat).to_string(), built(&deep).to_string());
    let (before, after) = b.split_once("pe_wire: 5, 5, 5, ").expect("four lengths");
    let rest = after.split_once("; ").expect("more settings").1;
    assert_eq!(a.replace("hbm_node: 0 ns; ", ""), format!("{before}{rest}"));
    assert!(after.starts_with(&6f64.hypot(3.0).to_string()), "{after}");
}

#[test]
fn what_is_absent_is_as_the_table_has_it() {
    let t = built(&machine("system: {}"));
    assert_eq!(t.to_string(), "package(ring(1), mesh(1, 1), 1) { compute: shared; dma: 1 }");
    assert_eq!(t.settings().package.get("ns_per_mm"), 0.01);
    let of = |text: &str| machine(text).shape.expect("a shape").node.to_string();
    assert_eq!(of("system: {sips: {count: 5}}"), "package(ring(5), mesh(1, 1), 1)");
    // Explicit sides win, a square count gives equal sides, and three by two differs from two by
    // three.
    for (sips, shape) in [
        ("count: 6, topology: torus_2d, w: 3, h: 2", "torus(2, 3)"),
        ("count: 6, topology: torus_2d, w: 2, h: 3", "torus(3, 2)"),
        ("count: 6, topology: mesh_2d_no_wrap, w: 3, h: 2", "mesh(2, 3)"),
        ("topology: mesh_2d_no_wrap, w: 3, h: 2", "mesh(2, 3)"),
        ("count: 6, topology: torus_2d, w: 3", "torus(2, 3)"),
        ("count: 6, topology: torus_2d, h: 3", "torus(3, 2)"),
        ("count: 16, topology: torus_2d", "torus(4, 4)"),
        ("count: 16, topology: torus_2d, w: 8, h: 2", "torus(2, 8)"),
        ("count: 6, topology: ring_1d, w: 3, h: 2", "ring(6)"),
    ] {
        assert_eq!(
            of(&format!("system: {{sips: {{{sips}}}}}")),
            format!("package({shape}, mesh(1, 1), 1)"),
            "{sips}"
        );
    }
    // A ring has no sides.
    let ring = machine("system: {sips: {count: 2, topology: ring_1d, w: 3, h: 2}}");
    assert_eq!(ring.shape.as_ref().expect("a shape").node.to_string(), "package(ring(2), mesh(1, 1), 1)");
    assert!(ring.warnings.list.len() == 1 && ring.warnings.list[0].title.contains("sips.w/h"));
    // Without a bandwidth there is no limit.
    let none = machine("cube: {links: {sram_to_router_bw_gbs: 0, ucie_bw_gbs: 0}}");
    assert!(none.settings.package == Settings::default().package, "{:?}", none.settings.package);
}

#[test]
fn unknown_keys_are_kept_with_a_warning() {
    let flat = text("flat.yaml");
    for (from, to, near, line) in [
        ("hbm_to_router_bw_gbs", "hbm_to_ruoter_bw_gb", "hbm_to_router_bw_gbs", 18),
        ("hbm_to_router_bw_gbs", "hbm_to_rooter_bw_gbs", "hbm_to_router_bw_gbs", 18),
        ("overhead_ns: 2.0", "delay_overhead_ns: 2.0", "overhead_ns", 22),
        ("cube_mesh", "cube_mash", "cube_mesh", 9),
        ("impl: builtin.sram", "colour: green", "", 27),
        ("ns_per_mm", "ns_per_m", "ns_per_mm", 4),
        ("w: 3", "wide: 3, w: 3", "", 3),
        ("system:", "version: 3\nsystem:", "", 2),
    ] {
        let changed = flat.replacen(from, to, 1);
        let file = machine(&changed);
        let [w] = &file.warnings.list[..] else { panic!("{to}: {:#?}", file.warnings) };
        assert_eq!((w.code, w.severity, place(&changed, w).0), ("E466", Severity::Warning, line), "{to}");
        let help = w.help.as_deref().unwrap_or("");
        assert!(help.contains(&format!("the nearest key is `{near}")), "{to}: {help}");
        assert!(w.title.contains(to.split([':', ' ']).next().unwrap_or("")), "{to}: {}", w.title);
        assert!(file.shape.is_some());
    }
    // A setting that is understood but has no effect here is reported, too.
    let costly = flat.replace(
        "pe_cpu: {impl: builtin.pe_cpu, attrs: {overhead_ns: 0.0}}",
        "pe_cpu: {attrs: {overhead_ns: 7}}",
    );
    assert_eq!(machine(&costly).warnings.list.len(), 1);
}

#[test]
fn controllers_are_channels_of_bursts() {
    let flat = text("flat.yaml");
    let with = |from: &str, to: &str| {
        let changed = flat.replacen(from, to, 1);
        assert_ne!(changed, flat, "{from}");
        let file = machine(&changed);
        assert_eq!(file.warnings.list, [], "{to}");
        let text = built(&file).to_string();
        let part = |name: &str| {
            text.split(['{', ';', '}']).map(str::trim).find(|p| p.starts_with(name)).map(str::to_owned)
        };
        (part("hbm_channels"), part("hbm_switch"))
    };
    let some = |s: &str| Some(s.to_owned());
    assert_eq!(with("num_pcs: 8", "num_pcs: 16").0, some("hbm_channels: 16, 32 GB/s, 256 B"));
    assert_eq!(with("burst_bytes: 256", "burst_bytes: 64").0, some("hbm_channels: 8, 32 GB/s, 64 B"));
    assert_eq!(with(", burst_bytes: 256", "").0, some("hbm_channels: 8, 32 GB/s, 256 B"));
    // A bandwidth of zero means no limit.
    assert_eq!(with("pc_bw_gbs: 32", "pc_bw_gbs: 0").0, None);
    assert_eq!(with("num_pcs: 8, ", "").0, None);
    assert_eq!(with("num_pcs: 8", "num_pcs: 4").1, None);
    assert_eq!(with("switch_penalty_ns: 0", "switch_penalty_ns: 4").1, some("hbm_switch: 4 ns"));
    // Bursts have a whole number of bytes.
    let d = errors(&flat.replacen("burst_bytes: 256", "burst_bytes: 0.5", 1));
    assert_eq!((d.list[0].code, d.list.len()), ("E445", 1));
    // kbc's own keys win.
    let own = machine(&format!("{flat}hbm_channels: 2, 10 GB/s, 128 B\ndata: named\ndma: 4\n"));
    let own = built(&own).to_string();
    assert!(
        own.contains("dma: 4; ") && own.contains("data: named; hbm_channels: 2, 10 GB/s, 128 B; "),
        "{own}"
    );
}

#[test]
fn what_must_be_there_or_is_of_another_kind_has_a_place() {
    let flat = text("flat.yaml");
    for (from, to, code, words, at) in [
        ("    hbm_slices_per_cube: 8\n", "", "E463", "hbm_slices_per_cube", (15, "48")),
        ("    hbm_total_gb_per_cube: 48\n", "", "E463", "hbm_total_gb_per_cube", (15, "8")),
        ("w: 3, h: 2", "", "E463", "sips.w/h", (3, "6")),
        ("w: 3, h: 2", "w: 3, h: 3", "E462", "sips.w/h", (3, "3, h")),
        ("w: 3, h: 2", "w: 4", "E462", "sips.w/h", (3, "4}")),
        ("count: 6", "count: six", "E462", "an integer", (3, "six")),
        ("count: 6", "count: 0", "E462", "an integer", (3, "0")),
        ("torus_2d", "torus2d", "E462", "system.sips.topology", (3, "torus2d")),
        ("hbm_slices_per_cube: 8", "hbm_slices_per_cube: 4", "E462", "4 slices", (16, "4")),
        ("hbm_to_router_bw_gbs: 256.0", "hbm_to_router_bw_gbs: fast", "E462", "`fast`", (18, "fast")),
        ("overhead_ns: 8.0", "overhead_ns: -8.0", "E462", "overhead_ns", (28, "-8.0")),
        ("pos_mm: [8.0, 5.0]", "pos_mm: [8.0]", "E462", "a position", (26, "[8.0]")),
        ("corners: 4", "corners: many", "E462", "corners", (13, "many")),
        ("connections: 4", "connections: 4.5", "E462", "connections", (28, "4.5")),
        ("ns_per_mm: 0.01", "ns_per_mm: [1]", "E462", "ns_per_mm", (4, "[1]")),
        (
            "    ucie_bw_gbs: 128.0\n",
            "    ucie_bw_gbs: 128.0\n    connection_bw_gbs: 64\n",
            "E462",
            "contradictory values",
            (21, "64"),
        ),
    ] {
        let changed = flat.replacen(from, to, 1);
        assert_ne!(changed, flat, "{from}");
        let d = errors(&changed);
        let shown: Vec<String> =
            d.list.iter().map(|d| format!("{} {} {:?}", d.code, d.title, place(&changed, d))).collect();
        assert_eq!(d.list.len(), 1, "{to}: {shown:#?}");
        assert!(d.list[0].code == code && d.list[0].title.contains(words), "{to}: {shown:#?}");
        let start = d.list[0].labels[0].span.start as usize;
        assert_eq!(place(&changed, &d.list[0]).0, at.0, "{to}: {shown:#?}");
        assert!(changed[start..].starts_with(at.1), "{to}: {shown:#?}");
        assert!(d.list[0].help.is_some());
    }
    // All locations of HBM are removed from a file that has HBM.
    let none = flat.replace("  memory_map:\n    hbm_total_gb_per_cube: 48\n    hbm_slices_per_cube: 8\n", "");
    assert_eq!(errors(&none).list.iter().map(|d| d.code).collect::<Vec<_>>(), ["E463", "E463"]);
    assert_eq!(errors("{system: {}, shape: ring(4)}").list[0].code, "E461");
    // A mapping is not a value. A component states less, so a mapping is kept there.
    for section in ["{system: 6}", "{system: {sips: 6}}", "{cube: {pe_layout: 8}}"] {
        assert_eq!(errors(section).list[0].code, "E462", "{section}");
    }
    let kept = machine("{system: , cube: {sram: 5, components: {impl: x, ucie: }}}").warnings;
    assert_eq!(kept.list.iter().map(|d| d.title.as_str()).collect::<Vec<_>>(), ["kbc ignores `cube.sram`"]);
}

#[test]
fn kbcs_own_keys_stand_beside() {
    let more = "chosen: {sip_link: 50 GB/s, vector: 200 GB/s, launch: 900 ns}\nranks: cube\nforward: drain\n";
    let flat = text("flat.yaml").replace("    sip_to_sip_bw_gbs: 64\n", "");
    let file = machine(&format!("{more}{flat}"));
    let t = built(&file);
    assert_eq!((t.device_count(), t.settings().vector, t.settings().launch), (96, Some(200e9), Some(900.0)));
    assert_eq!(file.chosen.package.get("sip_link"), 50e9);
    assert!(file.chosen.forward.is_none() && file.settings.forward.is_some());
    assert_eq!(errors(&format!("chosen: {{sip_lnk: 50 GB/s}}\n{flat}")).list[0].code, "E444");
    // Some PEs of one SIP.
    let some = machine(&format!("ranks: pe, 12\n{flat}"));
    let t = built(&some);
    assert_eq!((t.device_count(), t.axes().collect::<Vec<_>>()), (12, vec![("pe", 12)]));
    assert_eq!(t.name(kbc_machine::topology::DeviceId(11)), "(0,0,0,1,3)");
}

fn ccl(text: &str) -> ccl::CclFile {
    ccl::read(text, FileId(0)).unwrap_or_else(|d| panic!("{text}\n{d:#?}"))
}

/// Parses replacements of parts of a file: `n_elem=9 buffer_kind=hbm`.
fn asked(words: &str) -> Overrides {
    let mut out = Overrides::default();
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').expect("key=value");
        let spanned = |t: &str| kbc_diag::Spanned::new(t.to_owned(), kbc_diag::Span::NONE);
        out.set(&spanned(name), &spanned(value)).unwrap_or_else(|d| panic!("{word}: {d:#?}"));
    }
    out
}

#[test]
fn an_entry_lies_over_the_defaults() {
    let file = ccl(&text("ccl.yaml"));
    assert_eq!(file.warnings.list, []);
    let run = file.run(6, 128, &Overrides::default()).expect("ring");
    assert_eq!(
        (run.algorithm.as_str(), run.world_size, &run.origin, run.ranks),
        ("ring", 6, &Origin::Sips, RunRanks::Sip)
    );
    assert_eq!((run.n_elem, run.buffer_kind, run.backpressure), (32, MemKind::Sram, Backpressure::Sleep));
    assert_eq!((run.n_slots, run.slot_size, run.vc_chunk_size, run.credit_bytes), (8, 4096, 256, 16));
    assert_eq!(
        (run.topology.as_deref(), run.root_cube.as_deref(), run.notes.len()),
        (Some("ring_1d"), None, 0)
    );
    let tree = file.run(6, 128, &asked("algorithm=tree7")).expect("tree7");
    assert_eq!(
        (tree.world_size, tree.origin.to_string(), tree.ranks),
        (7, "algorithms.tree7".to_owned(), RunRanks::Pe)
    );
    assert_eq!(
        (tree.n_elem, tree.backpressure, tree.slot_size, tree.n_slots),
        (64, Backpressure::Poll, 512, 8)
    );
    assert!(tree.notes[0].contains("PEs of SIP 0"), "{:?}", tree.notes);
    assert_eq!((run.ranks_setting().as_str(), tree.ranks_setting().as_str()), ("ranks: sip", "ranks: pe, 7"));
    let root = file.run(6, 128, &asked("algorithm=center_root n_elem=9")).expect("it");
    assert_eq!((root.buffer_kind, root.root_cube.as_deref(), root.n_elem), (MemKind::Hbm, Some("(2,2)"), 9));
}

/// TOPO-7: the world size comes from the entry, the defaults, or the number of SIPs; any other
/// number counts PEs.
#[test]
fn the_world_size_and_where_it_comes_from() {
    let of = |defaults: &str, entry: &str, words: &str| {
        let text = format!("defaults: {{algorithm: a{defaults}}}\nalgorithms:\n  a: {{{entry}}}\n");
        ccl(&text)
            .run(6, 128, &asked(words))
            .map(|r| (r.world_size, r.origin.to_string(), r.ranks.name(), r.notes.len()))
    };
    let plain = "";
    let sips = || "number of SIPs".to_owned();
    assert_eq!(of("", "", plain).ok(), Some((6, sips(), "sip", 0)));
    assert_eq!(of(", world_size: 6", "", plain).ok(), Some((6, "defaults".into(), "sip", 0)));
    for n in [1, 2, 7, 8, 16, 128] {
        assert_eq!(of(&format!(", world_size: {n}"), "", plain).ok(), Some((n, "defaults".into(), "pe", 1)));
        let both = of(", world_size: 3", &format!("world_size: {n}"), plain).ok();
        assert_eq!(both, Some((n, "algorithms.a".into(), "pe", 1)));
    }
    assert_eq!(of("", "ranks: pe", plain).ok(), Some((6, sips(), "pe", 0)));
    assert_eq!(of("", "world_size: 8", "ranks=pe").ok(), Some((8, "algorithms.a".into(), "pe", 0)));
    let line = || "the command line".to_owned();
    assert_eq!(of("", "world_size: 8", "world_size=7 world_size=16").ok(), Some((16, line(), "pe", 1)));
    for (defaults, entry, words) in [
        (", world_size: 129", "", "129 ranks on the 128 PEs"),
        ("", "ranks: sip, world_size: 8", "8 ranks on 6 SIPs"),
    ] {
        let d = of(defaults, entry, plain).expect_err(entry);
        assert!(d.code == "E467" && d.title.contains(words) && d.help.is_some(), "{d:?}");
        assert!(d.labels[0].text.contains("from "), "{d:?}");
    }
}

#[test]
fn a_ccl_file_has_its_mistakes_named() {
    for (text, code, words) in [
        ("{}", "E463", "no `algorithms`"),
        ("algorithms: []", "E462", "a mapping"),
        ("algorithms: {a: {world_size: some}}", "E462", "`some`"),
        ("algorithms: {a: {world_size: 0}}", "E462", "at least 1"),
        ("algorithms: {a: {buffer_kind: srm}}", "E462", "`srm`"),
        ("algorithms: {a: {backpressure: spin}}", "E462", "poll, sleep"),
        ("algorithms: {a: {root_cube: [1]}}", "E462", "coordinates"),
        ("system: {sips: {count: 6}}", "E464", "a machine file"),
    ] {
        let d = ccl::read(text, FileId(0)).expect_err(text);
        assert!(d.list[0].code == code && d.list[0].title.contains(words), "{text}: {d:#?}");
    }
    let odd = ccl("defaults: {algoritm: a, n_slot: 3}\nalgorithms: {a: {}}\nseed: 3");
    let near: Vec<&str> = odd.warnings.list.iter().map(|w| w.help.as_deref().unwrap_or("")).collect();
    assert!(near.len() == 3 && near[0].contains("`algorithm`") && near[1].contains("`n_slots`"), "{near:?}");
    let d = odd.run(6, 8, &Overrides::default()).expect_err("no algorithm");
    assert_eq!(d.code, "E463");
    let d = odd.run(6, 8, &asked("algorithm=b")).expect_err("no entry");
    assert!(d.code == "E005" && d.help.is_some_and(|h| h.contains("The entries are a")));
}

/// Any broken text or large number gives messages.
#[test]
fn broken_texts_and_large_numbers_are_errors() {
    for name in ["flat.yaml", "deep.yaml", "ccl.yaml"] {
        let chars: Vec<char> = text(name).chars().collect();
        for i in (0..chars.len()).step_by(5) {
            let cut: String = chars[..i].iter().collect();
            let hole: String = chars[..i].iter().chain(&chars[i + 1..]).collect();
            let other: String = chars[..i].iter().chain(&['{']).chain(&chars[i + 1..]).collect();
            for broken in [cut, hole, other] {
                if name == "ccl.yaml" {
                    drop(ccl::read(&broken, FileId(0)).map(|f| f.run(6, 128, &Overrides::default())));
                } else if let Ok(file) = read(&broken, FileId(0)) {
                    let shape = file.shape.expect("of every such file").node;
                    drop(Topology::build(shape, file.settings, kbc_diag::Span::NONE));
                }
            }
        }
    }
    let most = u32::MAX;
    for ranks in ["pe", "cube", "sip", "pe, 3", "pe, 8192"] {
        for (sips, w, h, pes) in [
            (most, 1, 1, 1),
            (1, most, most, 1),
            (1, 1, 1, most),
            (most, most, most, most),
            (2, 90, 90, most),
            (1, 16, 16, most),
        ] {
            let text = format!(
                "ranks: {ranks}\nsystem: {{sips: {{count: {sips}}}}}\nsip: {{cube_mesh: {{w: {w}, h: {h}}}}}\n\
                 cube: {{pe_layout: {{corners: {pes}, pe_per_corner: {pes}}}}}"
            );
            let file = machine(&text);
            match Topology::build(file.shape.expect("a shape").node, file.settings, kbc_diag::Span::NONE) {
                Ok(t) => assert!(t.node_count() <= 8192, "{text}"),
                Err(d) => assert_eq!(d.code, "E443", "{text}"),
            }
        }
    }
}

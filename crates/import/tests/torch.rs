//! Tests of PyTorch programs that are right or wrong (row TP-8): every folder of `torch/right` and
//! `torch/wrong`.
//!
//! `EXPECT` of a right one states the number of ranks and the collectives in the order in which
//! they meet, such as `2 ranks; all_reduce`. `EXPECT` of a wrong one states the code and words of
//! the messages, such as `E533 rank 0 issues; never does`. To add a case, copy a folder.

use crate::cases::all_cases;
use kbc_diag::{Diagnostic, Diagnostics, FileId, SourceMap, render};
use kbc_import::torch::groups::{Table, World, world};
use kbc_import::torch::matching::MatchedCollective;
use kbc_import::torch::model::Program;
use kbc_import::torch::{archive, check, exported, json, kb, listing, ops, printed, resolve, summary, table};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch").join(name)
}

fn folders(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(name)).expect("a folder of cases");
    let mut out: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    out.sort();
    out
}

fn program(map: &mut SourceMap, name: &str, rank: u64, text: &str) -> Result<Program, Diagnostics> {
    let file = map.add(name, text);
    let written = match name.ends_with(".json") {
        true => exported(file, name, text)?,
        false => printed(file, name, text)?,
    };
    let (shown, lines) = listing(&written);
    let id = map.add(format!("{name} (program)"), shown);
    resolve(name, rank, id, lines, written)
}

fn groups(dir: &Path, rank: u64) -> Result<Option<(String, Table)>, Diagnostic> {
    for name in [format!("rank{rank}.groups.json"), "groups.json".into()] {
        if let Ok(text) = std::fs::read_to_string(dir.join(&name)) {
            return table(FileId(0), &name, &text).map(|t| Some((name, t)));
        }
    }
    Ok(None)
}

fn found(dir: &Path, map: &mut SourceMap) -> Result<(World, Vec<MatchedCollective>), Diagnostics> {
    let mut ranks = vec![];
    for rank in 0..8 {
        for end in ["model.json", "ep.txt", "readable.py"] {
            let name = format!("rank{rank}.{end}");
            if let Ok(text) = std::fs::read_to_string(dir.join(&name)) {
                ranks.push((program(map, &name, rank, &text)?, groups(dir, rank)?));
            }
        }
    }
    let world = world(ranks, false)?;
    let met = check(&world)?;
    Ok((world, met))
}

/// Returns text such as `2 ranks; all_reduce all_gather`.
fn words(world: &World, met: &[MatchedCollective]) -> String {
    let mut names: Vec<&str> = vec![];
    for c in summary::collectives(world, met) {
        if !names.contains(&c.operation) {
            names.push(c.operation);
        }
    }
    format!("{} ranks; {}", world.size, names.join(" "))
}

#[test]
fn right_programs_are_accepted() {
    let mut wrong = vec![];
    let cases = folders("right");
    for dir in &cases {
        let expect = std::fs::read_to_string(dir.join("EXPECT")).expect("EXPECT");
        let mut map = SourceMap::default();
        let got = match found(dir, &mut map) {
            Ok((world, met)) => words(&world, &met),
            Err(d) => d.list.iter().map(|d| render::human(d, &map, false)).collect(),
        };
        if got.trim() != expect.trim() {
            wrong.push(format!("{}: {got}", dir.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 10);
}

/// `model.kb` of a right one is its `.kb` text, or the reason why it has none; `KBC_BLESS=1` writes
/// it.
#[test]
fn right_programs_become_kb() {
    let bless = std::env::var_os("KBC_BLESS").is_some();
    let (mut wrong, mut made) = (vec![], 0);
    for dir in folders("right") {
        let mut map = SourceMap::default();
        let Ok((world, met)) = found(&dir, &mut map) else { continue };
        let text = match kb::write(&world, &met, "model", &kb::DataBeside::default()) {
            Ok(it) => {
                made += 1;
                let id = map.add("model.kb", it.text.clone());
                match kbc_frontend::fmt::format(id, &it.text) {
                    Ok(text) => text,
                    Err(d) => {
                        d.list.iter().map(|d| render::human(d, &map, false)).collect::<String>() + &it.text
                    }
                }
            }
            Err(d) => d.list.iter().map(|d| format!("// {} {}\n", d.code, d.title)).collect(),
        };
        let path = dir.join("model.kb");
        if bless {
            std::fs::write(&path, &text).expect("it can be written");
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            wrong.push(format!("{}:\n{text}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(made >= 10);
}

/// The inputs of a graph of DTensors may come in another order than the table names them, and it
/// may have methods.
#[test]
fn graphs_of_dtensors_have_names_and_methods() {
    let text = r#"class GraphModule(torch.nn.Module):
    def forward(self, L_self_modules_up_parameters_weight_: "DTensor(f32[32, 16], S(0))", L_x_: "DTensor(f32[4, 2, 16], R)"):
        l_x_ = L_x_
        w = L_self_modules_up_parameters_weight_
        transpose: "DTensor(f32[2, 4, 16], R)" = l_x_.transpose(0, 1);  l_x_ = None
        reshape: "DTensor(f32[8, 16], R)" = transpose.reshape(8, 16);  transpose = None
        t: "DTensor(f32[16, 32], S(1))" = w.t();  w = None
        matmul: "DTensor(f32[8, 32], S(1))" = torch.matmul(reshape, t);  reshape = t = None
        view: "DTensor(f32[2, 4, 32], S(2))" = matmul.view((2, 4, 32));  matmul = None
        mean: "DTensor(f32[2, 32], S(1))" = view.mean(1);  view = None
        add: "DTensor(f32[2, 32], S(1))" = mean.add(1.5);  mean = None
        permute: "DTensor(f32[32, 2], S(0))" = torch.permute(add, (1, 0));  add = None
        return (permute,)
"#;
    let mut map = SourceMap::default();
    let p = program(&mut map, "global.dtensor.readable.py", 0, text).expect("it is a graph");
    let mut given = kb::DataBeside { path: "global.npz".into(), ..kb::DataBeside::default() };
    let arrays = [("in__x", vec![4, 2, 16]), ("in__up.weight", vec![32, 16])];
    given.arrays.push(arrays.map(|(k, s)| (k.to_owned(), (kbc_import::torch::dtype::DType::F32, s))).into());
    // By its position in this list, x would be the weight.
    let args = vec!["x".to_owned(), "up.weight".to_owned()];
    let it = kb::global::write(p, &[("tp".into(), 2)], args, "global", &given);
    let it = it.unwrap_or_else(|d| panic!("{:?}", d.list.iter().map(|d| &d.title).collect::<Vec<_>>()));
    for says in [
        "x: f32[4, 2, 16] = \"global.npz\":in__x",
        "up_weight: f32[32@tp, 16] = \"global.npz\":\"in__up.weight\"",
        "transpose(x, [1, 0, 2])",
        "-> f32[32@tp, 2]",
    ] {
        assert!(it.text.contains(says), "{says} in\n{}", it.text);
    }
}

/// An input of a lifted program: its name, the sizes of the whole, its placement, and how many
/// whole numbers it may take.
struct Input {
    name: String,
    sizes: Vec<i64>,
    split: Option<usize>,
    below: Option<u64>,
}

fn inputs(dir: &Path) -> Vec<Input> {
    let text = std::fs::read_to_string(dir.join("INPUTS")).expect("INPUTS");
    let one = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        Input {
            name: words[0].to_owned(),
            sizes: words[2].split(',').map(|n| n.parse().expect("a size")).collect(),
            split: words[3].strip_prefix("S(").map(|d| d.trim_end_matches(')').parse().expect("a dimension")),
            below: words.get(4).map(|n| n.parse().expect("a number")),
        }
    };
    text.lines().map(one).collect()
}

/// Returns data of the ranks from which the placements follow.
fn given(world: &World, of: &[Input]) -> kb::DataBeside {
    let mut out = kb::DataBeside { path: "rank*.npz".into(), ..kb::DataBeside::default() };
    for (rank, p) in world.programs.iter().enumerate() {
        let (mut arrays, mut prints) = (BTreeMap::new(), BTreeMap::new());
        for (i, input) in of.iter().enumerate() {
            let m = &p.written.tensors[&input.name];
            let key = format!("in__{}", input.name);
            arrays.insert(key.clone(), (m.dtype, m.shape()));
            let part = if input.split.is_some() { rank as u64 } else { 0 };
            prints.insert(key, kb::Fingerprint { hash: i as u64 * 8 + part, uniform: None });
        }
        out.arrays.push(arrays);
        out.prints.push(prints);
        out.weights.push(BTreeMap::new());
    }
    out
}

/// Tests lifting of programs with rows, constants, slices or shares of a rank's own. `model.kb` is
/// the global program, the placements are shown, and the results are those of
/// `model/model.readable.py`, the unsharded model. `KBC_BLESS=1` writes the text.
#[test]
fn right_programs_are_lifted() {
    let bless = std::env::var_os("KBC_BLESS").is_some();
    let mut wrong = vec![];
    let cases = folders("lifted");
    for dir in &cases {
        let mut map = SourceMap::default();
        let shown = |d: Diagnostics, map: &SourceMap| -> String {
            d.list.iter().map(|d| render::human(d, map, false)).collect()
        };
        let (world, met) = found(dir, &mut map).unwrap_or_else(|d| panic!("{}", shown(d, &map)));
        let of = inputs(dir);
        let given = given(&world, &of);
        let text = match kb::lift_global::write(&world, &met, "model", &given) {
            Ok(it) => {
                let id = map.add("model.kb", it.text.clone());
                kbc_frontend::fmt::format(id, &it.text).unwrap_or_else(|d| shown(d, &map) + &it.text)
            }
            Err(d) => shown(d, &map),
        };
        let path = dir.join("model.kb");
        if bless {
            std::fs::write(&path, &text).expect("it can be written");
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            wrong.push(format!("{}:\n{text}", path.display()));
        }
        let verdict = match kb::verdict::judge(&world, &met, &given) {
            Ok(v) => v,
            Err(d) => {
                wrong.push(format!("{}: {}", dir.display(), shown(d, &map)));
                continue;
            }
        };
        // An average cannot be shown to be a sum.
        if !verdict.shown() && !dir.ends_with("average") {
            wrong.push(format!("{}: {:?}", dir.display(), verdict.doubts));
        }
        let name = "model/model.readable.py";
        let text = std::fs::read_to_string(dir.join(name)).expect("the model");
        let model = program(&mut map, name, 0, &text).expect("it is a program");
        let model = kbc_import::torch::groups::world(vec![(model, None)], false).expect("a world");
        let data = |i: &Input| {
            let n: i64 = i.sizes.iter().product();
            let seed = i.name.len() as u64 + i.sizes[0] as u64;
            let number = |k: u64| (k + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let value = |k: u64| match i.below {
                Some(n) => (number(k) % n) as f64,
                None => (number(k) % 1000) as f64 / 500.0 - 1.0,
            };
            Some(kb::eval::Values { sizes: i.sizes.clone(), data: (0..n as u64).map(value).collect() })
        };
        let data: Vec<_> = of.iter().map(data).collect();
        let none = vec![vec![None; of.len()]; world.programs.len()];
        let Some(graphs) = &verdict.graphs else { continue };
        let sides =
            kb::compare::Sides { world: &world, graphs, given: &none, model: &model, data: &data, name };
        match sides.compare() {
            Ok(agreed) => assert!(agreed.elements > 0 && agreed.largest < 1e-9),
            Err(d) => wrong.push(format!("{}: {}", dir.display(), render::human(&d, &map, false))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 9);
}

/// Tests the verdicts on programs together, with the data that `INPUTS` describes. `EXPECT` is
/// `shown`, `not shown: WHY`, or a code and a part of its message. To add a case, copy a folder.
#[test]
fn programs_together_are_judged() {
    let mut wrong = vec![];
    let cases = folders("judged");
    for dir in &cases {
        let expect = std::fs::read_to_string(dir.join("EXPECT")).expect("EXPECT");
        let mut map = SourceMap::default();
        let (world, met) = found(dir, &mut map).unwrap_or_else(|d| panic!("{}: {:?}", dir.display(), d.list));
        let got = match kb::verdict::judge(&world, &met, &given(&world, &inputs(dir))) {
            Ok(v) if v.shown() => "shown".to_owned(),
            Ok(v) => format!("not shown: {}", v.doubts.join("; ")),
            Err(d) => {
                let placed = d.list.iter().all(|d| !d.labels.is_empty() || !d.notes.is_empty());
                assert!(placed, "{}: a message without a place", dir.display());
                d.list.iter().map(|d| format!("{} {}", d.code, d.title)).collect()
            }
        };
        let (code, says) = expect.trim().split_once(' ').unwrap_or((expect.trim(), ""));
        if !got.starts_with(code) || !got.contains(says) {
            wrong.push(format!("{}: {got}", dir.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 7);
}

#[test]
fn wrong_programs_are_rejected_for_what_is_wrong() {
    let (mut wrong, mut codes) = (vec![], BTreeSet::new());
    for dir in folders("wrong") {
        let expect = std::fs::read_to_string(dir.join("EXPECT")).expect("EXPECT");
        let (code, says) = expect.trim().split_once(' ').unwrap_or((expect.trim(), ""));
        let mut map = SourceMap::default();
        let d = match found(&dir, &mut map) {
            Ok(_) => Diagnostics::new(),
            Err(d) => d,
        };
        let text: String = d.list.iter().map(|d| render::json(d, &map)).collect();
        let all = says.split("; ").all(|w| text.replace("\\\"", "\"").contains(w));
        if d.is_empty() || d.list.iter().any(|d| d.code != code) || !all {
            wrong.push(format!("{}: {text}", dir.display()));
        }
        codes.insert(code.to_owned());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(codes.len() >= 17, "{codes:?}");
}

/// No content of a file causes a panic.
#[test]
fn changed_texts_are_refused_or_read() {
    let mut tried = 0;
    for name in [
        "right/mlp",
        "right/symbolic",
        "right/empty_rank",
        "right/coalesced",
        "right/defaults_and_infinities",
    ] {
        let text = std::fs::read_to_string(folder(name).join("rank0.model.json")).expect("a program");
        let mut attempt = |text: &str| {
            let mut map = SourceMap::default();
            if let Ok(p) = program(&mut map, "x.json", 0, text) {
                let groups = [("0".to_owned(), vec![0])].into();
                let t = Table { world: Some(1), groups, ..Table::default() };
                if let Ok(w) = world(vec![(p, Some(("t".into(), t)))], true)
                    && let Ok(met) = check(&w)
                {
                    let _ = kb::write(&w, &met, "model", &kb::DataBeside::default());
                }
            }
            tried += 1;
        };
        for n in (0..text.len()).step_by(7) {
            attempt(&text[..n]);
        }
        // Every number becomes others, every letter another one.
        for (at, c) in text.char_indices() {
            for new in [
                "-1",
                "0",
                "9223372036854775807",
                "-9223372036854775808",
                "1099511627776",
                "\"s\"",
                "null",
                "[]",
            ] {
                if c.is_ascii_digit() {
                    attempt(&format!("{}{new}{}", &text[..at], &text[at + 1..]));
                }
            }
            if c.is_ascii_lowercase() && at % 5 == 0 {
                attempt(&format!("{}q{}", &text[..at], &text[at + 1..]));
            }
        }
    }
    assert!(tried > 4_000, "{tried}");
}

/// Returns an archive with a stored entry, made by hand: the zip crate cannot write archives here.
fn stored(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (vec![], vec![]);
    for (name, data) in entries {
        let offset = out.len() as u32;
        let mut crc = u32::MAX;
        for b in *data {
            crc ^= u32::from(*b);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            }
        }
        let mut both = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        both.extend((!crc).to_le_bytes());
        both.extend((data.len() as u32).to_le_bytes());
        both.extend((data.len() as u32).to_le_bytes());
        both.extend((name.len() as u16).to_le_bytes());
        both.extend([0, 0]);
        out.extend(b"PK\x03\x04");
        out.extend(&both);
        out.extend(name.as_bytes());
        out.extend(*data);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&both);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, n) = (out.len() as u32, entries.len() as u16);
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(n.to_le_bytes());
    out.extend(n.to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

#[test]
fn archives_of_both_layouts() {
    let text = std::fs::read(folder("right/mlp").join("rank0.model.json")).expect("a program");
    let config = br#"{"config": {"w": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 2}]}}}}"#;
    let new = stored(&[
        ("a/byteorder", b"little"),
        ("a/models/model.json", &text),
        ("a/data/weights/model_weights_config.json", config),
        ("a/data/weights/weight_0", &[0; 8]),
    ]);
    let read = archive::read(&new).expect("an archive");
    assert_eq!(read.program.as_bytes(), text);
    let archive::Weights::Raw(weights) = read.weights else { panic!("raw weights") };
    assert_eq!((weights["w"].0.to_string(), weights["w"].1), ("f32[2]".into(), 8));
    let old = stored(&[("serialized_exported_program.json", &text), ("serialized_state_dict.pt", b"pickle")]);
    let archive::Weights::Pickled(why) = archive::read(&old).expect("an archive").weights else {
        panic!("none")
    };
    assert!(why.contains("serialized_state_dict.pt: it is not an archive"), "{why}");
    // A state dict with a parameter whose storage has strides.
    let pickle = b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nHalfStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x05tQK\x01K\x02K\x02\x86K\x01K\x02\x86\x89}tRs.";
    let dict = stored(&[("a/data.pkl", pickle), ("a/byteorder", b"little"), ("a/data/0", b"aabbccddee")]);
    let old = stored(&[("serialized_exported_program.json", &text), ("serialized_state_dict.pt", &dict)]);
    let archive::Weights::Raw(weights) = archive::read(&old).expect("an archive").weights else {
        panic!("raw")
    };
    assert_eq!((weights["w"].0.to_string(), weights["w"].1), ("f16[2, 2]".into(), 8));
    assert_eq!(archive::values(&old).expect("weights")["w"].bytes, b"bbddccee");
    for n in (0..old.len()).step_by(3) {
        let mut other = old.clone();
        other[n] ^= 0x55;
        let _ = archive::values(&other);
    }
    for (entries, why) in [
        (vec![("a/byteorder", &b"big"[..]), ("a/models/model.json", &text)], "little-endian"),
        (vec![("a/model.json", &text[..])], "it has neither"),
        (
            vec![("models/model.json", &text[..]), ("data/weights/model_weights_config.json", config)],
            "weight_0, which does not exist",
        ),
    ] {
        let said = archive::read(&stored(&entries)).expect_err("it is wrong");
        assert!(said.contains(why), "{said}");
    }
    for n in 0..new.len() {
        let _ = archive::read(&new[..n]);
    }
}

/// Every row of the table names an operation of a name space, and no two arguments have the same
/// name.
#[test]
fn the_table_is_sound() {
    for name in ops::names() {
        let op = ops::find(name).expect("it is in the table");
        let names: BTreeSet<&str> = op.params.iter().map(|p| p.name).collect();
        assert_eq!(names.len(), op.params.len(), "{name}");
        assert!(
            ["aten", "_c10d_functional", "_dtensor", "_operator"]
                .contains(&name.split('.').next().unwrap_or("")),
            "{name}"
        );
    }
    assert!(json::parse("[]").is_ok());
}

/// The same for texts: truncated, and with every character changed.
#[test]
fn changed_prints_are_refused_or_read() {
    let all = all_cases();
    let mut tried = 0;
    for name in
        ["printed_2_6/rank0.ep.txt", "printed_log/rank0.readable.py", "printed_joint/rank0.readable.py"]
    {
        let text = std::fs::read_to_string(folder("right").join(name)).expect("a program");
        let mut attempt = |text: &str| {
            let mut map = SourceMap::default();
            if let Ok(p) = program(&mut map, "x.txt", 0, text) {
                let t = Table { groups: [("0".to_owned(), vec![0, 1])].into(), ..Table::default() };
                if let Ok(w) = world(vec![(p, Some(("t".into(), t)))], true) {
                    let _ = check(&w);
                }
            }
            tried += 1;
        };
        for (at, c) in text.char_indices() {
            attempt(&text[..at]);
            for (i, new) in ["9", "(", "", "\"", "-", "x"].into_iter().enumerate() {
                if !all && (at + i) % 3 > 0 {
                    continue;
                }
                attempt(&format!("{}{new}{}", &text[..at], &text[at + c.len_utf8()..]));
            }
        }
    }
    assert!(tried > if all { 20_000 } else { 8_000 }, "{tried}");
}

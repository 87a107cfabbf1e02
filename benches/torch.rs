//! Benchmark: reading, checking and importing exported PyTorch programs of 10,000 operations.
//! Target: 200 ms.
//!
//! The programs are generated here. They have the form in which PyTorch 2.15 exports a
//! column-parallel and a row-parallel layer with an all_reduce (eight operations); such pairs
//! follow each other, each with weights of its own. `-- --write DIR RANKS OPERATIONS` writes them
//! as a folder instead (followed by `text`: in the form of `print(ep)`), for timing whole
//! processes: `kbc check DIR`, `kbc import DIR`, `kbc compile DIR`.
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use divan::Bencher;
use kbc_diag::FileId;
use kbc_import::torch::groups::{Table, World, world};
use kbc_import::torch::kb;
use kbc_import::torch::model::Program;
use kbc_import::torch::{check, exported, listing, resolve, table};
use std::fmt::Write;
use std::path::Path;

/// Rows and columns of the values between pairs of layers, and columns per rank inside a pair.
const ROWS: u64 = 4;
const WIDE: u64 = 16;
const OWN: u64 = 8;

/// Operations of a pair of layers.
const PAIR: u64 = 8;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = words.iter().position(|w| w == "--write") {
        let number = |i: usize| words.get(at + i).and_then(|w| w.parse().ok());
        let (Some(dir), Some(ranks), Some(operations)) = (words.get(at + 1), number(2), number(3)) else {
            println!("--write DIR RANKS OPERATIONS [text]");
            return;
        };
        let text = words.get(at + 4).is_some_and(|w| w == "text");
        write_world(Path::new(dir), ranks, operations, text).expect("the folder can be written");
        return;
    }
    divan::main();
}

/// Writes the files of a world, with the names that kbc recognises.
fn write_world(dir: &Path, ranks: u64, operations: u64, text: bool) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let (program, ending) = match text {
        true => (printed_program(operations), "ep.txt"),
        false => (exported_program(operations), "model.json"),
    };
    for rank in 0..ranks {
        std::fs::write(dir.join(format!("rank{rank}.{ending}")), &program)?;
        std::fs::write(dir.join(format!("rank{rank}.groups.json")), groups(rank, ranks))?;
    }
    Ok(())
}

/// An argument of an operation.
enum Given {
    Tensor(String),
    Ints(&'static str),
    Word(&'static str),
}

/// An operation with one result.
struct Node {
    target: &'static str,
    name: String,
    /// Arguments by their names in the schema.
    args: Vec<(&'static str, Given)>,
    sizes: Vec<u64>,
}

/// A program with its weights.
struct MadeProgram {
    /// Names in the program and in the model, with sizes.
    weights: Vec<(String, String, Vec<u64>)>,
    nodes: Vec<Node>,
}

impl MadeProgram {
    fn node(
        &mut self,
        target: &'static str,
        name: String,
        args: Vec<(&'static str, Given)>,
        sizes: &[u64],
    ) -> String {
        self.nodes.push(Node { target, name: name.clone(), args, sizes: sizes.to_vec() });
        name
    }
}

/// Returns the program of a rank with at least this many operations. All ranks have the same
/// program.
fn made(operations: u64) -> MadeProgram {
    let layers = operations.div_ceil(PAIR);
    // PyTorch adds numbers to names from the second on.
    let called = |base: &str, k: u64| if k == 0 { base.to_owned() } else { format!("{base}_{k}") };
    let weights: Vec<[(String, String, Vec<u64>); 4]> = (0..layers)
        .map(|l| {
            [("w1", &[OWN, WIDE][..]), ("b1", &[OWN]), ("w2", &[WIDE, OWN]), ("b2", &[WIDE])].map(
                |(name, sizes)| {
                    let name = format!("layers_{l}_{name}");
                    (format!("p_{name}"), name, sizes.to_vec())
                },
            )
        })
        .collect();
    let mut it = MadeProgram { weights: weights.iter().flatten().cloned().collect(), nodes: vec![] };
    let mut x = "x".to_owned();
    let of = |name: &str| Given::Tensor(name.to_owned());
    let order = || ("dims", Given::Ints("1,0"));
    for (l, [w1, b1, w2, b2]) in (0..).zip(&weights) {
        let args = vec![("self", of(&w1.0)), order()];
        let t = it.node("aten.permute.default", called("permute", 2 * l), args, &[WIDE, OWN]);
        let args = vec![("self", of(&b1.0)), ("mat1", of(&x)), ("mat2", of(&t))];
        let h = it.node("aten.addmm.default", called("addmm", l), args, &[ROWS, OWN]);
        let h = it.node("aten.relu.default", called("relu", l), vec![("self", of(&h))], &[ROWS, OWN]);
        let args = vec![("self", of(&w2.0)), order()];
        let t = it.node("aten.permute.default", called("permute", 2 * l + 1), args, &[OWN, WIDE]);
        let args = vec![("self", of(&h)), ("mat2", of(&t))];
        let y = it.node("aten.mm.default", called("mm", l), args, &[ROWS, WIDE]);
        let args =
            vec![("input", of(&y)), ("reduce_op", Given::Word("sum")), ("group_name", Given::Word("0"))];
        let y = it.node("_c10d_functional.all_reduce.default", called("all_reduce", l), args, &[ROWS, WIDE]);
        let args = vec![("tensor", of(&y))];
        let y =
            it.node("_c10d_functional.wait_tensor.default", called("wait_tensor", l), args, &[ROWS, WIDE]);
        let args = vec![("self", of(&y)), ("other", of(&b2.0))];
        x = it.node("aten.add.Tensor", called("add", l), args, &[ROWS, WIDE]);
    }
    it
}

/// Returns the record of a tensor.
fn record(name: &str, sizes: &[u64], weight: bool) -> String {
    let list = |l: &mut dyn Iterator<Item = u64>| {
        l.map(|n| format!("{{\"as_int\":{n}}}")).collect::<Vec<_>>().join(",")
    };
    let strides = (0..sizes.len()).map(|i| sizes[i + 1..].iter().product());
    format!(
        "\"{name}\":{{\"dtype\":7,\"sizes\":[{}],\"requires_grad\":{weight},\"device\":{{\"type\":\"cpu\",\"index\":null}},\
         \"strides\":[{}],\"storage_offset\":{{\"as_int\":0}},\"layout\":7}}",
        list(&mut sizes.iter().copied()),
        list(&mut strides.into_iter())
    )
}

fn tensor(name: &str) -> String {
    format!("{{\"as_tensor\":{{\"name\":\"{name}\"}}}}")
}

/// Returns the program in the form of `models/model.json`.
fn exported_program(operations: u64) -> String {
    let it = made(operations);
    let mut inputs: Vec<String> = it.weights.iter().map(|w| tensor(&w.0)).collect();
    inputs.push(tensor("x"));
    let mut specs: Vec<String> = it
        .weights
        .iter()
        .map(|(value, name, _)| {
            format!("{{\"parameter\":{{\"arg\":{{\"name\":\"{value}\"}},\"parameter_name\":\"{name}\"}}}}")
        })
        .collect();
    specs.push(format!("{{\"user_input\":{{\"arg\":{}}}}}", tensor("x")));
    let mut records: Vec<String> = it.weights.iter().map(|w| record(&w.0, &w.2, true)).collect();
    records.push(record("x", &[ROWS, WIDE], false));
    let mut nodes = vec![];
    for Node { target, name, args, sizes } in &it.nodes {
        let args: Vec<String> = args
            .iter()
            .map(|(schema, value)| {
                let value = match value {
                    Given::Tensor(name) => tensor(name),
                    Given::Ints(list) => format!("{{\"as_ints\":[{list}]}}"),
                    Given::Word(word) => format!("{{\"as_string\":\"{word}\"}}"),
                };
                format!("{{\"name\":\"{schema}\",\"arg\":{value},\"kind\":1}}")
            })
            .collect();
        nodes.push(format!(
            "{{\"target\":\"torch.ops.{target}\",\"inputs\":[{}],\"outputs\":[{}],\"metadata\":{{}},\
             \"is_hop_single_tensor_return\":null,\"name\":\"{name}\"}}",
            args.join(","),
            tensor(name)
        ));
        records.push(record(name, sizes, false));
    }
    let last = tensor(it.nodes.last().map_or("x", |n| &n.name));
    format!(
        "{{\"graph_module\":{{\"graph\":{{\"inputs\":[{}],\"outputs\":[{last}],\"nodes\":[{}],\"tensor_values\":{{{}}},\
         \"sym_int_values\":{{}},\"sym_bool_values\":{{}},\"is_single_tensor_return\":false,\"custom_obj_values\":{{}},\
         \"sym_float_values\":{{}}}},\"signature\":{{\"input_specs\":[{}],\"output_specs\":[{{\"user_output\":{{\"arg\":{last}}}}}]}},\
         \"module_call_graph\":[],\"metadata\":{{}},\"treespec_namedtuple_fields\":{{}}}},\"opset_version\":{{\"aten\":10}},\
         \"range_constraints\":{{}},\"schema_version\":{{\"major\":8,\"minor\":20}},\"verifiers\":[\"ATEN\"],\
         \"torch_version\":\"2.15.0\",\"guards_code\":[]}}",
        inputs.join(","),
        nodes.join(","),
        records.join(","),
        specs.join(",")
    )
}

/// Returns the program in the form of `print(ep)`.
fn printed_program(operations: u64) -> String {
    let it = made(operations);
    let mut out =
        String::from("ExportedProgram:\n    class GraphModule(torch.nn.Module):\n        def forward(self");
    for (name, _, sizes) in &it.weights {
        let _ = write!(out, ", {name}: \"f32{sizes:?}\"");
    }
    let _ = writeln!(out, ", x: \"f32[{ROWS}, {WIDE}]\"):");
    for Node { target, name, args, sizes } in &it.nodes {
        let args: Vec<String> = args
            .iter()
            .map(|(_, value)| match value {
                Given::Tensor(name) => name.clone(),
                Given::Ints(list) => format!("[{}]", list.replace(',', ", ")),
                Given::Word(word) => format!("'{word}'"),
            })
            .collect();
        let _ =
            writeln!(out, "            {name}: \"f32{sizes:?}\" = torch.ops.{target}({})", args.join(", "));
    }
    let _ = writeln!(out, "            return ({},)", it.nodes.last().map_or("x", |n| &n.name));
    out.push_str("\nGraph signature:\n    # inputs\n");
    for (name, weight, _) in &it.weights {
        let _ = writeln!(out, "    {name}: PARAMETER target='{weight}'");
    }
    out.push_str("    x: USER_INPUT\n");
    out
}

/// Returns the side-car file of a rank, which lists its groups.
fn groups(rank: u64, ranks: u64) -> String {
    let all: Vec<String> = (0..ranks).map(|r| r.to_string()).collect();
    format!(
        "{{\"world_size\":{ranks},\"rank\":{rank},\"groups\":{{\"0\":{{\"ranks\":[{}],\"size\":{ranks},\"desc\":\"default_pg\"}}}}}}",
        all.join(",")
    )
}

/// Numbers of ranks, and of operations per rank.
const WORLDS: [(u64, u64); 3] = [(1, 10_000), (2, 10_000), (4, 10_000)];

/// Returns the texts of a world: programs and side-car files.
fn texts(ranks: u64, operations: u64) -> Vec<(String, String)> {
    (0..ranks).map(|r| (exported_program(operations), groups(r, ranks))).collect()
}

/// Does the work of `kbc check` after the files are read.
fn checked(texts: &[(String, String)]) -> (World, Vec<kbc_import::torch::matching::MatchedCollective>) {
    let one = |(rank, (text, side)): (u64, &(String, String))| -> (Program, Option<(String, Table)>) {
        let name = format!("rank{rank}.model.json");
        let written = exported(FileId::default(), &name, text).expect("the program reads");
        let (_, lines) = listing(&written);
        let program = resolve(&name, rank, FileId::default(), lines, written).expect("its names are known");
        (program, Some((name.clone(), table(FileId::default(), &name, side).expect("the groups read"))))
    };
    let world = world((0..).zip(texts).map(one).collect(), false).expect("the ranks are all there");
    let met = check(&world).expect("the programs are right");
    (world, met)
}

/// Measures reading and checking: every rank alone, then all together.
#[divan::bench(args = WORLDS)]
fn check_world(bencher: Bencher, (ranks, operations): (u64, u64)) {
    bencher.with_inputs(|| texts(ranks, operations)).bench_refs(|texts| checked(texts));
}

/// Measures the same, and generating the `.kb` text of all ranks.
#[divan::bench(args = WORLDS)]
fn import_world(bencher: Bencher, (ranks, operations): (u64, u64)) {
    bencher.with_inputs(|| texts(ranks, operations)).bench_refs(|texts| {
        let (world, met) = checked(texts);
        kb::write(&world, &met, "model", &kb::DataBeside::default()).expect("the programs can be written")
    });
}

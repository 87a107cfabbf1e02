//! Mechanical injection of errors into sharded programs: every right program is changed wherever an
//! error of a class is possible, in the same way on all ranks, and no changed program may be shown
//! to be right.
//!
//! Programs without data get data that reflects the placements which the unchanged program's
//! verdict assigns to its inputs.

use kbc_diag::{Diagnostics, FileId, SourceMap};
use kbc_import::torch::arg::Arg;
use kbc_import::torch::dtype::DType;
use kbc_import::torch::groups::{Table, World, world};
use kbc_import::torch::kb::verdict::{Verdict, judge};
use kbc_import::torch::kb::{AxisPlacement, DataBeside, Fingerprint};
use kbc_import::torch::model::{Meta, Role, Written, WrittenNode};
use kbc_import::torch::resize::{bound_by, rebind};
use kbc_import::torch::{archive, check, exported, listing, printed, resolve, table};
use kbc_numerics::formats;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The programs of a folder, by rank.
struct Case {
    name: String,
    ranks: Vec<(u64, Written, Option<Table>)>,
    given: DataBeside,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// Returns a file of a rank, in the most informative form.
fn file(dir: &Path, rank: u64) -> Option<PathBuf> {
    let mut names: Vec<String> = vec![];
    for end in [".model.json", ".pt2", ".ep.txt", ".readable.py"] {
        for tag in ["", ".fwd", ".step", ".lowered"] {
            names.push(format!("rank{rank}{tag}{end}"));
        }
    }
    names.into_iter().map(|n| dir.join(n)).find(|p| p.is_file())
}

fn floats(bytes: &[u8]) -> Fingerprint {
    let hash =
        bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    let uniform = bytes.iter().all(|b| *b == 0).then_some(0.0);
    Fingerprint { hash, uniform }
}

fn case(dir: &Path) -> Option<Case> {
    let mut out = Case {
        name: dir.file_name()?.to_string_lossy().into_owned(),
        ranks: vec![],
        given: DataBeside { path: "rank*.npz".into(), ..DataBeside::default() },
    };
    for rank in 0..8 {
        let Some(path) = file(dir, rank) else { break };
        let name = path.to_string_lossy().into_owned();
        let (mut arrays, mut weights, mut prints) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let text = if name.ends_with(".pt2") {
            let bytes = std::fs::read(&path).expect("an archive");
            for (key, w) in archive::values(&bytes).unwrap_or_default() {
                weights.insert(key.clone(), (w.dtype, w.sizes.clone()));
                prints.insert(key, floats(&w.bytes));
            }
            archive::read(&bytes).expect("an archive").program
        } else {
            std::fs::read_to_string(&path).expect("a program")
        };
        let json = name.ends_with(".json") || name.ends_with(".pt2");
        let mut written = match json {
            true => exported(FileId(0), &name, &text).ok()?,
            false => printed(FileId(0), &name, &text).ok()?,
        };
        let stem = path.file_name()?.to_string_lossy().into_owned();
        let tag = stem.split('.').nth(1).unwrap_or("");
        let data = [format!("rank{rank}.{tag}.npz"), format!("rank{rank}.npz")];
        if let Some(path) = data.iter().map(|n| dir.join(n)).find(|p| p.is_file()) {
            let (name, bytes) = (path.to_string_lossy().into_owned(), std::fs::read(&path).expect("data"));
            let mut sizes = BTreeMap::new();
            for key in formats::keys(&name, &bytes).expect("keys") {
                let Ok(t) = formats::read_converted(&name, &bytes, &key, formats::Conversion::Yes) else {
                    continue;
                };
                let shape: Vec<i64> = t.shape().iter().map(|n| *n as i64).collect();
                let list = t.data().to_f64();
                let bits: Vec<u8> = list.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect();
                let uniform =
                    list.first().copied().filter(|x| list.iter().all(|y| x.to_bits() == y.to_bits()));
                prints.insert(key.clone(), Fingerprint { uniform, ..floats(&bits) });
                if let Some(input) = key.strip_prefix("in__") {
                    sizes.insert(input.to_owned(), shape.clone());
                }
                arrays.insert(key, (DType::F32, shape));
            }
            if written.is_symbolic() {
                let known = bound_by(&written, &sizes).expect("sizes of one run");
                rebind(&mut written, &known).expect("sizes that fit");
            }
        }
        // The program determines which data is whole numbers.
        for (key, of) in &mut arrays {
            let name = key.trim_start_matches("in__");
            if let Some(m) = written.tensors.get(name) {
                of.0 = m.dtype;
            }
        }
        let table = [format!("rank{rank}.groups.json"), "groups.json".into()]
            .iter()
            .find_map(|n| std::fs::read_to_string(dir.join(n)).ok())
            .map(|text| table(FileId(0), "groups", &text).expect("a table"));
        out.ranks.push((rank, written, table));
        out.given.arrays.push(arrays);
        out.given.weights.push(weights);
        out.given.prints.push(prints);
    }
    (!out.ranks.is_empty()).then_some(out)
}

/// Returns the world of changed programs, with its verdict.
fn judged(
    case: &Case,
    change: &dyn Fn(&mut Written),
    given: &DataBeside,
) -> Result<(World, Verdict), Diagnostics> {
    let mut map = SourceMap::default();
    let mut ranks = vec![];
    for (rank, written, table) in &case.ranks {
        let mut w = written.clone();
        change(&mut w);
        let (text, lines) = listing(&w);
        let id = map.add("program", text);
        let table = table.clone().map(|mut t| {
            t.rank = Some(*rank);
            ("groups".to_owned(), t)
        });
        ranks.push((resolve("program", *rank, id, lines, w)?, table));
    }
    let world = world(ranks, false)?;
    let met = check(&world)?;
    let verdict = judge(&world, &met, given)?;
    Ok((world, verdict))
}

/// Returns data of inputs that reflects the placements of the verdict.
fn said(case: &Case, world: &World, verdict: &Verdict) -> DataBeside {
    let mut out = case.given.clone();
    for placed in &verdict.inputs {
        for (at, (_, w, _)) in case.ranks.iter().enumerate() {
            let weight = w.inputs.iter().find_map(|(a, role)| match (a, role) {
                (Arg::Tensor(n), Role::Weight(of)) if *n == placed.name => Some(of.clone()),
                _ => None,
            });
            let arg = w.inputs.iter().position(|(a, _)| matches!(a, Arg::Tensor(n) if *n == placed.name));
            let stored = arg.and_then(|i| world.args.get(at)?.get(i).cloned());
            let keys = [Some(format!("in__{}", placed.name)), stored.map(|n| format!("in__{n}")), weight];
            if keys.iter().flatten().any(|k| out.prints[at].contains_key(k)) {
                continue;
            }
            let Some(m) = w.tensors.get(&placed.name) else { continue };
            // A number for each part.
            let mut hash = 1;
            let mut stride = case.ranks.len() as u64;
            for ((_, size), place) in verdict.axes.iter().zip(&placed.by) {
                stride /= size;
                if *place != AxisPlacement::Whole {
                    hash = hash * 64 + at as u64 / stride % size + 1;
                }
            }
            let key = format!("in__{}", placed.name);
            out.arrays[at].insert(key.clone(), (m.dtype, m.shape()));
            out.prints[at].insert(key, Fingerprint { hash, uniform: None });
        }
    }
    out
}

/// Returns the only value of an argument or result.
fn one(arg: &Arg<String>) -> Option<&String> {
    match arg {
        Arg::Tensor(n) => Some(n),
        _ => None,
    }
}

fn first(node: &WrittenNode) -> Option<String> {
    node.args.first().and_then(|a| one(&a.1)).cloned()
}

fn rename(w: &mut Written, from: &str, to: &str, since: usize) {
    let map = |a: &Arg<String>| {
        let mut f = |n: &String| Ok::<_, ()>(if n == from { to.to_owned() } else { n.clone() });
        a.map(&mut f).expect("renaming")
    };
    for node in &mut w.nodes[since..] {
        node.args.iter_mut().for_each(|a| a.1 = map(&a.1));
    }
    w.outputs.iter_mut().for_each(|a| *a = map(a));
}

/// Inserts a new node after position `at`, with one result of the type of the value `like`.
fn insert(w: &mut Written, at: usize, target: &str, args: Vec<(&str, Arg<String>)>, like: &str, name: &str) {
    let meta: Meta = w.tensors[like].clone();
    w.tensors.insert(name.to_owned(), meta);
    let args = args.into_iter().map(|(n, a)| (n.to_owned(), a)).collect();
    let source = w.nodes.get(at.saturating_sub(1)).and_then(|n| n.source.clone());
    let outputs = vec![Arg::Tensor(name.to_owned())];
    w.nodes.insert(at, WrittenNode { target: target.into(), args, outputs, source, at: 0 });
}

fn short(target: &str) -> &str {
    target.trim_start_matches("torch.ops.")
}

/// Returns the result of a node if it is a single tensor.
fn result(node: &WrittenNode) -> Option<String> {
    node.outputs.first().and_then(one).cloned()
}

/// Returns where the awaited value of a collective is made.
fn waits(w: &Written, i: usize) -> Option<(usize, String)> {
    let pending = result(&w.nodes[i])?;
    let k = (i + 1..w.nodes.len()).find(|k| {
        short(&w.nodes[*k].target).starts_with("_c10d_functional.wait_tensor")
            && first(&w.nodes[*k]).as_ref() == Some(&pending)
    })?;
    Some((k, result(&w.nodes[k])?))
}

/// An injected error: its class, and its effect on a program.
type Mistake = (&'static str, Box<dyn Fn(&mut Written)>);

fn text(node: &WrittenNode, name: &str) -> Option<String> {
    node.args.iter().find_map(|(n, a)| match a {
        Arg::Text(t) if n == name => Some(t.clone()),
        _ => None,
    })
}

fn summed(w: &mut Written, at: usize, x: &str, group: &str, tag: &str) -> String {
    let (a, b) = (format!("{tag}_pending"), format!("{tag}_there"));
    let args = vec![
        ("input", Arg::Tensor(x.to_owned())),
        ("reduce_op", Arg::Text("sum".into())),
        ("group_name", Arg::Text(group.into())),
    ];
    insert(w, at, "_c10d_functional.all_reduce.default", args, x, &a);
    insert(
        w,
        at + 1,
        "_c10d_functional.wait_tensor.default",
        vec![("tensor", Arg::Tensor(a.clone()))],
        x,
        &b,
    );
    b
}

/// Returns all errors that can be injected into a program.
fn mistakes(w: &Written, groups: &BTreeMap<String, Vec<u64>>) -> Vec<Mistake> {
    let mut out: Vec<Mistake> = vec![];
    for (i, node) in w.nodes.iter().enumerate() {
        let target = short(&node.target);
        let reduces = target == "_c10d_functional.all_reduce.default";
        let scatters = target == "_c10d_functional.reduce_scatter_tensor.default";
        let group = text(node, "group_name").unwrap_or_default();
        let (Some(x), Some((k, there))) = (first(node), waits(w, i)) else { continue };
        if reduces || scatters {
            for how in ["max", "min", "product", "avg"] {
                out.push((
                    if how == "avg" { "avg for sum" } else { "another reduction" },
                    Box::new(move |w| {
                        for a in &mut w.nodes[i].args {
                            if a.0 == "reduce_op" {
                                a.1 = Arg::Text(how.into());
                            }
                        }
                    }),
                ));
            }
        }
        if scatters || target == "_c10d_functional.all_gather_into_tensor.default" {
            let (g, t) = (group.clone(), there.clone());
            out.push((
                "summed once more behind",
                Box::new(move |w| {
                    let new = summed(w, k + 1, &t, &g, "again");
                    rename(w, &t, &new, k + 3);
                }),
            ));
        }
        if !reduces {
            continue;
        }
        let (from, to) = (there.clone(), x.clone());
        out.push((
            "left out on all ranks",
            Box::new(move |w| {
                rename(w, &from, &to, 0);
                w.nodes.remove(k);
                w.nodes.remove(i);
            }),
        ));
        let (g, t) = (group.clone(), there.clone());
        out.push((
            "duplicated",
            Box::new(move |w| {
                let new = summed(w, k + 1, &t, &g, "again");
                rename(w, &t, &new, k + 3);
            }),
        ));
        for (other, _) in groups.iter().filter(|o| Some(o.1) != groups.get(&group)) {
            let other = other.clone();
            out.push((
                "another group",
                Box::new(move |w| {
                    for a in &mut w.nodes[i].args {
                        if a.0 == "group_name" {
                            a.1 = Arg::Text(other.clone());
                        }
                    }
                }),
            ));
        }
        let inner = x.clone();
        out.push((
            "a function before",
            Box::new(move |w| {
                insert(
                    w,
                    i,
                    "aten.relu.default",
                    vec![("self", Arg::Tensor(inner.clone()))],
                    &inner,
                    "early",
                );
                w.nodes[i + 1].args[0].1 = Arg::Tensor("early".into());
            }),
        ));
        // An addition after the collective is moved before it.
        for (k, later) in w.nodes.iter().enumerate().skip(k + 1) {
            if short(&later.target) != "aten.add.Tensor" {
                continue;
            }
            let args: Vec<Option<&String>> = later.args.iter().take(2).map(|a| one(&a.1)).collect();
            let [Some(a), Some(b)] = args[..] else { continue };
            let other = if *a == there {
                b.clone()
            } else if *b == there {
                a.clone()
            } else {
                continue;
            };
            let made = |w: &Written| w.nodes.iter().position(|n| result(n).as_ref() == Some(&other));
            let Some(sum) = result(later).filter(|_| made(w).is_none_or(|m| m < i)) else { continue };
            let (x, there) = (x.clone(), there.clone());
            out.push((
                "added by every rank before",
                Box::new(move |w| {
                    w.nodes.remove(k);
                    rename(w, &sum, &there, 0);
                    let args = vec![("self", Arg::Tensor(x.clone())), ("other", Arg::Tensor(other.clone()))];
                    insert(w, i, "aten.add.Tensor", args, &x, "early");
                    w.nodes[i + 1].args[0].1 = Arg::Tensor("early".into());
                }),
            ));
        }
    }
    // Any other value is summed over the group.
    let group = w.nodes.iter().find_map(|n| text(n, "group_name"));
    let pending = |n: &WrittenNode| {
        let t = short(&n.target);
        t.starts_with("_c10d_functional") && !t.contains("wait")
    };
    for (i, node) in w.nodes.iter().enumerate().filter(|(_, n)| !pending(n)) {
        let (Some(v), Some(g)) = (result(node), group.clone()) else { continue };
        let whole = w.tensors.get(&v).is_none_or(|m| m.dtype.class() != 2);
        let used = w.nodes[i + 1..].iter().any(|n| n.args.iter().any(|a| a.1.values().any(|x| *x == v)))
            || w.outputs.iter().any(|a| a.values().any(|x| *x == v));
        let reduced = w.nodes[i + 1..].iter().any(|n| pending(n) && first(n).as_ref() == Some(&v));
        if whole || !used || reduced {
            continue;
        }
        out.push((
            "a value summed over ranks",
            Box::new(move |w| {
                let new = summed(w, i + 1, &v, &g, "too");
                rename(w, &v, &new, i + 3);
            }),
        ));
    }
    out
}

fn cases() -> Vec<Case> {
    let mut dirs = vec![];
    for of in ["specs/torch", "crates/import/tests/torch/right"] {
        let entries = std::fs::read_dir(root().join(of)).expect("a folder of cases");
        dirs.extend(entries.map(|e| e.expect("an entry").path()).filter(|p| p.is_dir()));
    }
    // The collection that is too large for the repository.
    if let Ok(more) = std::env::var("KBC_TORCH_DATA") {
        for of in std::fs::read_dir(more).expect("a folder").flatten() {
            if of.file_name() != "negative" {
                dirs.extend(std::fs::read_dir(of.path()).expect("a folder").flatten().map(|e| e.path()));
            }
        }
    }
    dirs.sort();
    dirs.iter().filter_map(|d| case(d)).collect()
}

#[test]
fn no_injected_mistake_is_shown_to_be_right() {
    let (mut passed, mut refused, mut open) =
        (vec![], BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    let mut worlds = 0;
    for case in cases() {
        let refuses = |d: Diagnostics| {
            format!("{}: {:?}", case.name, d.list.iter().map(|d| &d.title).collect::<Vec<_>>())
        };
        let (world, verdict) = match judged(&case, &|_| {}, &case.given) {
            Ok(it) => it,
            Err(d) => {
                passed.push(format!("refused, and right: {}", refuses(d)));
                continue;
            }
        };
        if world.size == 1 {
            continue;
        }
        // If the placements of the inputs are unknown, no data can reflect them.
        let open_inputs = verdict.inputs.iter().any(|p| p.by.contains(&AxisPlacement::Unknown));
        let given = if open_inputs { case.given.clone() } else { said(&case, &world, &verdict) };
        let again = match judged(&case, &|_| {}, &given) {
            Ok(it) => it,
            Err(d) => {
                passed.push(format!("refused with data, and right: {}", refuses(d)));
                continue;
            }
        };
        worlds += 1;
        eprintln!("{}: {:?}", case.name, again.1.doubts);
        let first = &case.ranks[0];
        let groups = first.2.as_ref().map_or_else(BTreeMap::new, |t| t.groups.clone());
        for (n, (class, change)) in mistakes(&first.1, &groups).into_iter().enumerate() {
            match judged(&case, &*change, &given) {
                Err(d) => {
                    *refused.entry(class).or_insert(0) += 1;
                    assert!(d.has_errors());
                }
                Ok((_, v)) if !v.shown() => *open.entry(class).or_insert(0) += 1,
                Ok(_) => passed.push(format!("{}: {class} ({n})", case.name)),
            }
        }
    }
    eprintln!("{worlds} programs; refused {refused:?}; not shown {open:?}");
    assert!(passed.is_empty(), "shown to be right, or refused and right:\n{}", passed.join("\n"));
    // Most changed programs are rejected, with an operation; the others are reported as not shown.
    let count = |of: &BTreeMap<&str, usize>| of.values().sum::<usize>();
    assert!(worlds >= 8 && count(&refused) > count(&open), "{refused:?} {open:?}");
}

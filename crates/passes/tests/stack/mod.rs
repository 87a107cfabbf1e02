//! Helpers for the tests of `expand`, `allocate` and `synchronize`: every declared algorithm, on
//! small shapes, as a schedule with inputs and the results that its contract requires.
//!
//! Nothing here names an algorithm or a collective. Algorithms come from the files, their contracts
//! from the declarations of their collectives, and the ranks on which they run from `where`.
#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

pub mod count;
pub mod oracle;

use kbc_backend_sim::interp::RunResult;
use kbc_diag::{Diagnostics, FileId, SourceMap};
use kbc_frontend::ast::Item;
use kbc_ir::contract::{Cell, Clause};
use kbc_ir::expr::Expr;
use kbc_ir::schedule::*;
use kbc_ir::types::{CutRule, DType, Mesh, ReduceOp, TensorType};
use kbc_ir::{Module, Name, verify};
use kbc_numerics::generate::mix32;
use kbc_numerics::numbers::from_i64;
use kbc_numerics::shard::Part;
use kbc_numerics::tensor::Tensor;
use kbc_passes::expand::Arg;
use kbc_passes::standalone::{AXIS, Standalone, StandaloneOperand};
use kbc_passes::{Pass, PassCx};
use kbc_rounds::eval::{AlgRef, Value};
use kbc_rounds::library::{AlgId, Decls, Layer, Library};
use kbc_rounds::rounds::{Call, coordinates};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Texts and their declarations.
pub struct World {
    pub lib: Library,
    pub sources: SourceMap,
}

/// Returns a path of the workspace.
pub fn workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn kb_files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(workspace(folder))
        .unwrap_or_else(|e| panic!("{folder}: {e}"))
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "kb"))
        .collect();
    files.sort();
    files
}

/// Returns the declarations of a text.
pub fn parsed(file: FileId, text: &str) -> Decls {
    let (tree, found) = kbc_frontend::parse(file, text);
    assert!(!found.has_errors(), "{:?}: {text}", found.list);
    let mut decls = Decls::default();
    for item in tree.items {
        match item {
            Item::Function(f) => decls.functions.push(f),
            Item::Collective(c) => decls.collectives.push(c),
            Item::Algorithm(a) => decls.algorithms.push(a),
            _ => {}
        }
    }
    decls
}

/// A file of the library with its declarations.
struct ShippedFile {
    file: FileId,
    name: String,
    text: String,
    decls: Decls,
}

/// Returns the files of the library, which are parsed once.
fn shipped_files() -> &'static [ShippedFile] {
    static FILES: OnceLock<Vec<ShippedFile>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut sources = SourceMap::default();
        let read = |path: PathBuf| {
            let (name, text) = (path.display().to_string(), std::fs::read_to_string(&path).unwrap());
            let file = sources.add(&name, &text);
            ShippedFile { decls: parsed(file, &text), file, name, text }
        };
        kb_files("specs/lib").into_iter().map(read).collect()
    })
}

impl World {
    /// Returns the algorithms of all files of a folder.
    pub fn of(folder: &str) -> World {
        let mut world = World { lib: Library::new(), sources: SourceMap::default() };
        for path in kb_files(folder) {
            world.add(&path.display().to_string(), &std::fs::read_to_string(&path).unwrap());
        }
        world
    }

    /// Returns the library as it is shipped.
    pub fn shipped() -> &'static World {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(|| World::of("specs/lib"))
    }

    /// Returns the library with one more text.
    pub fn with(name: &str, text: &str) -> World {
        let mut world = World::of("specs/lib");
        world.add(name, text);
        world
    }

    /// Returns the library with another text in place of one of its files.
    pub fn instead(file: &str, text: &str) -> World {
        let mut world = World { lib: Library::new(), sources: SourceMap::default() };
        for shipped in shipped_files() {
            if Path::new(&shipped.name).ends_with(file) {
                world.add(&shipped.name, text);
            } else {
                let id = world.sources.add(&shipped.name, &shipped.text);
                assert_eq!(id, shipped.file, "places of declarations name their file");
                world.declare(id, shipped.decls.clone());
            }
        }
        world
    }

    fn add(&mut self, name: &str, text: &str) -> FileId {
        let file = self.sources.add(name, text);
        self.declare(file, parsed(file, text));
        file
    }

    fn declare(&mut self, file: FileId, decls: Decls) {
        let found = self.lib.add(file, Layer::Library, vec![], decls);
        assert!(!found.has_errors(), "{file:?}: {:?}", found.list);
    }

    /// Returns an algorithm by the names of its collective and its own, such as `all_reduce ring`.
    pub fn alg(&self, full: &str) -> AlgId {
        let named = |&a: &AlgId| self.name(a) == full;
        self.lib.algorithms().filter(named).last().unwrap_or_else(|| panic!("no {full}"))
    }

    /// Returns the name of an algorithm, such as `all_reduce ring`.
    pub fn name(&self, a: AlgId) -> String {
        let d = self.lib.algorithm(a);
        format!("{} {}", d.coll.node, d.name.node)
    }

    /// Returns a case from its text, such as `all_reduce ring(d: -1)`. What is no parameter
    /// is an option.
    pub fn case(&self, text: &str, sizes: &[u64], root: Option<u64>) -> Case {
        let (head, args) = text.split_once('(').unwrap_or((text, ""));
        let alg = self.alg(head.trim());
        let own = |n: &str| self.lib.algorithm(alg).params.iter().any(|p| p.0.node == n);
        let (args, options) = args
            .trim_end_matches(')')
            .split(',')
            .filter_map(|a| a.split_once(':'))
            .map(|(n, v)| (n.trim().to_owned(), argument(v.trim())))
            .partition(|a| own(&a.0));
        Case { alg, args, options, sizes: sizes.to_vec(), root }
    }

    pub fn rooted(&self, a: AlgId) -> bool {
        self.lib.algorithm(a).root.is_some()
    }

    /// Checks whether the `where` of the algorithm (and of those it applies) holds.
    pub fn legal(&self, case: &Case) -> bool {
        kbc_rounds::group::is_legal(&self.lib, &self.call(case)).unwrap()
    }

    /// Returns the case as a call for the evaluation to rounds.
    pub fn call(&self, case: &Case) -> Call {
        let sizes: Vec<i64> = case.sizes.iter().map(|s| *s as i64).collect();
        let value = |a: &Arg| match a {
            Arg::Int(i) => Value::Int(*i),
            Arg::Word(w) => Value::Alg(Arc::new(AlgRef { name: w.clone(), file: FileId(0) })),
        };
        let args = case.args.iter().map(|(n, v)| (n.clone(), value(v))).collect();
        let root = case.root.map(|c| coordinates(&sizes, c as i64));
        Call { alg: case.alg, sizes, root, args }
    }

    /// Describes the case.
    pub fn show(&self, case: &Case) -> String {
        let args: Vec<String> = case
            .args
            .iter()
            .chain(&case.options)
            .map(|(n, v)| match v {
                Arg::Int(i) => format!("{n}: {i}"),
                Arg::Word(w) => format!("{n}: {w}"),
            })
            .collect();
        let args = if args.is_empty() { String::new() } else { format!("({})", args.join(", ")) };
        let root = case.root.map_or(String::new(), |c| format!(" root {c}"));
        format!("{}{args} on {:?}{root}", self.name(case.alg), case.sizes)
    }

    /// Returns every legal case on these shapes, with these roots of each.
    pub fn cases(
        &self,
        shapes: &dyn Fn(usize) -> Vec<Vec<u64>>,
        roots: &dyn Fn(u64) -> Vec<u64>,
    ) -> Vec<Case> {
        let mut out = vec![];
        for alg in self.lib.algorithms() {
            for sizes in shapes(self.lib.algorithm(alg).axes.len()) {
                let ranks = sizes.iter().product();
                let roots: Vec<Option<u64>> =
                    if self.rooted(alg) { roots(ranks).into_iter().map(Some).collect() } else { vec![None] };
                for root in roots {
                    let case = Case { alg, args: vec![], options: vec![], sizes: sizes.clone(), root };
                    if self.legal(&case) {
                        out.push(case);
                    }
                }
            }
        }
        out
    }

    /// Formats messages, one per line.
    pub fn words(&self, found: &Diagnostics) -> String {
        let mut out = String::new();
        for d in &found.list {
            out += &format!("{} {}\n", d.code, d.title);
            for l in &d.labels {
                let text = self
                    .sources
                    .get(l.span.file)
                    .map_or("-", |f| &f.text[l.span.start as usize..l.span.end as usize]);
                out +=
                    &format!("    `{}`: {}\n", text.split_whitespace().collect::<Vec<_>>().join(" "), l.text);
            }
            d.notes.iter().for_each(|n| out += &format!("    note: {n}\n"));
            d.help.iter().for_each(|h| out += &format!("    help: {h}\n"));
        }
        out
    }
}

/// Parses an argument as a use writes it.
pub fn argument(text: &str) -> Arg {
    text.parse().map_or_else(|_| Arg::Word(text.to_owned()), Arg::Int)
}

/// One algorithm on one shape.
#[derive(Clone, Debug)]
pub struct Case {
    pub alg: AlgId,
    pub args: Vec<(String, Arg)>,
    pub options: Vec<(String, Arg)>,
    pub sizes: Vec<u64>,
    pub root: Option<u64>,
}

impl Case {
    pub fn ranks(&self) -> u64 {
        self.sizes.iter().product()
    }
}

/// How the operands of a case are cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Elements along the dimension that the blocks cut.
    pub n: u64,
    /// Elements for each of these, if there are blocks.
    pub unit: u64,
    pub rule: CutRule,
    pub dtype: DType,
    pub red: ReduceOp,
}

impl Layout {
    /// Returns a layout of `n` integers, summed.
    pub fn ints(n: u64) -> Layout {
        Layout { n, unit: 1, rule: CutRule::Even, dtype: DType::I32, red: ReduceOp::Sum }
    }
}

/// Returns the case in the form that builds schedules.
fn alone<'a>(world: &'a World, case: &'a Case, l: &Layout) -> Standalone<'a> {
    Standalone {
        lib: &world.lib,
        alg: case.alg,
        args: &case.args,
        options: &case.options,
        sizes: &case.sizes,
        root: case.root,
        n: l.n,
        unit: l.unit,
        rule: l.rule.clone(),
        dtype: l.dtype,
        red: l.red,
    }
}

fn mesh(case: &Case) -> Mesh {
    kbc_passes::standalone::mesh(case.ranks())
}

fn operands(world: &World, case: &Case, l: &Layout) -> Vec<StandaloneOperand> {
    alone(world, case, l).operands().unwrap()
}

/// Returns the global types of the operands of a case.
pub fn types(world: &World, case: &Case, l: &Layout) -> Vec<TensorType> {
    operands(world, case, l).into_iter().map(|t| t.ty).collect()
}

/// Returns one collective between a region that loads its operands from inputs and one that stores
/// them to outputs, as `expand` leaves it. Every place of every operand is loaded with a distinct
/// value, whether or not the contract covers it: an algorithm that uses a place outside its
/// contract gives visibly wrong numbers.
pub fn expanded(world: &World, case: &Case, l: &Layout) -> Result<Module, Diagnostics> {
    alone(world, case, l).expanded()
}

/// Runs a single pass and verifies its output.
pub fn pass(world: &World, module: &mut Module, pass: &dyn Pass) -> Result<(), Diagnostics> {
    let cx = PassCx::new(&world.lib, None);
    assert!(module.props.contains(pass.info().requires), "{} too early", pass.info().name);
    pass.run(module, &cx)?;
    module.props = module.props.without(pass.info().breaks).with(pass.info().gives);
    let found = verify::verify(module);
    if found.has_errors() { Err(found) } else { Ok(()) }
}

/// Compiles a case completely.
pub fn synchronized(world: &World, case: &Case, l: &Layout) -> Result<Module, Diagnostics> {
    let mut m = expanded(world, case, l)?;
    let found = verify::verify(&m);
    if found.has_errors() {
        return Err(found);
    }
    pass(world, &mut m, &kbc_passes::allocate::Allocate)?;
    pass(world, &mut m, &kbc_passes::synchronize::Synchronize)?;
    Ok(m)
}

/// Returns the collective region of such a module.
pub fn region(m: &Module) -> &Region {
    &m.schedule().unwrap().regions[1]
}

/// Returns the inputs of a call: a distinct value for every element of every operand of every rank.
pub fn feed(world: &World, case: &Case, l: &Layout, call: u32) -> Vec<Tensor> {
    operands(world, case, l)
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let sizes = t.ty.sizes();
            let n: u64 = sizes.iter().product();
            // Sums over 64 ranks of numbers below 2^24 are exact.
            let value = |k: u64| i64::from(mix32(k as u32, i as u32, call) >> 8);
            let values: Vec<i64> = (0..n).map(value).collect();
            Tensor::new(sizes, from_i64(l.dtype, &values)).unwrap()
        })
        .collect()
}

/// Returns the elements of a block of an operand on a rank.
fn block(case: &Case, t: &StandaloneOperand, rank: u64, b: u64) -> std::ops::Range<usize> {
    let p = case.ranks();
    let at = |e: &Expr| e.eval(&|n: &Name| (*n == *AXIS).then_some(rank as i64)).unwrap() as u64;
    let (extent, unit) = (at(&t.line.extent), at(&t.line.unit));
    let bound = |i| (unit * t.line.rule.boundary(extent, i, p)) as usize;
    if t.line.parts == 1 { 0..(extent * unit) as usize } else { bound(b)..bound(b + 1) }
}

/// Returns what every rank must hold of every operand afterwards, element by element; `None` where
/// the contract requires nothing. The clauses of the declaration are evaluated without code of
/// `expand`.
pub fn promised(
    world: &World,
    case: &Case,
    l: &Layout,
    feeds: &[Tensor],
    r: &Region,
) -> Vec<Vec<Vec<Option<i64>>>> {
    let p = case.ranks();
    let three = operands(world, case, l);
    let contract = r.contract.as_ref().expect("a collective promises something");
    let mesh = mesh(case);
    let held: Vec<Vec<Vec<i64>>> = three
        .iter()
        .zip(feeds)
        .map(|(t, f)| {
            let part = |q| kbc_numerics::shard::cut("x", &t.ty, &mesh, f, q).unwrap();
            (0..p).map(|q| part(q).tensor.data().to_i64().unwrap()).collect()
        })
        .collect();
    let which = |n: &Name| contract.buffers.iter().position(|b| b.name == *n).unwrap();
    let mut out: Vec<Vec<Vec<Option<i64>>>> =
        held.iter().map(|ranks| ranks.iter().map(|v| vec![None; v.len()]).collect()).collect();
    for rank in 0..p {
        for c in &contract.clauses {
            let Clause::End { cell, cond, from, at, sum } = c else { continue };
            let blocks = |c: &Cell| contract.buffers[which(&c.buffer)].blocks;
            // The first index of `v[b][i]` ranges over the blocks if it is an unbound name.
            for b in 0..if blocks(cell) { p } else { 1 } {
                let mut env: Vec<(Name, i64)> =
                    vec![(contract.rank.clone(), rank as i64), (contract.size.clone(), p as i64)];
                let value = |e: &Expr, env: &[(Name, i64)]| {
                    e.eval(&|n: &Name| env.iter().rev().find(|(m, _)| m == n).map(|e| e.1)).unwrap()
                };
                if blocks(cell) {
                    match &cell.index[0] {
                        Expr::Var(n) if env.iter().all(|(m, _)| m != n) => env.push((n.clone(), b as i64)),
                        e if value(e, &env) != b as i64 => continue,
                        _ => {}
                    }
                }
                if cond.as_ref().is_some_and(|e| value(e, &env) == 0) {
                    continue;
                }
                let mut sources = vec![];
                match sum {
                    None => sources.push((value(at, &env), env.clone())),
                    Some(s) => {
                        for q in value(&s.lo, &env)..value(&s.hi, &env) {
                            let mut env = env.clone();
                            env.push((s.var.clone(), q));
                            if s.cond.as_ref().is_none_or(|e| value(e, &env) != 0) {
                                sources.push((value(at, &env), env));
                            }
                        }
                    }
                }
                let to = which(&cell.buffer);
                let range = block(case, &three[to], rank, b);
                let slices: Vec<&[i64]> = sources
                    .iter()
                    .map(|(q, env)| {
                        let at = which(&from.buffer);
                        let b = if blocks(from) { value(&from.index[0], env) as u64 } else { 0 };
                        &held[at][*q as usize][block(case, &three[at], *q as u64, b)]
                    })
                    .collect();
                for (i, place) in range.clone().enumerate() {
                    assert!(slices.iter().all(|s| s.len() == range.len()), "the promise fits its operands");
                    let all = slices.iter().map(|s| s[i]);
                    out[to][rank as usize][place] = match l.red {
                        ReduceOp::Sum => Some(all.sum()),
                        ReduceOp::Prod => Some(all.product()),
                        ReduceOp::Min => all.min(),
                        ReduceOp::Max => all.max(),
                    };
                }
            }
        }
    }
    out
}

/// Returns the first element of a run that violates the contract.
pub fn wrong(
    world: &World,
    case: &Case,
    l: &Layout,
    feeds: &[Vec<Tensor>],
    run: &RunResult,
    r: &Region,
) -> Option<String> {
    for (call, ranks) in run.outputs.iter().enumerate() {
        let want = promised(world, case, l, &feeds[call % feeds.len()], r);
        for (rank, parts) in ranks.iter().enumerate() {
            for (operand, Part { tensor, .. }) in parts.iter().enumerate() {
                let got = tensor.data().to_i64().unwrap();
                assert_eq!(got.len(), want[operand][rank].len());
                for (i, w) in want[operand][rank].iter().enumerate() {
                    if w.is_some_and(|w| w != got[i]) {
                        return Some(format!(
                            "call {call} rank {rank} operand {operand} element {i}: {} not {w:?}",
                            got[i]
                        ));
                    }
                }
            }
        }
    }
    None
}

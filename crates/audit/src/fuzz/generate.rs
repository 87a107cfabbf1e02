//! Generator of random programs that are meant to be valid: inputs, elementwise chains, matmuls,
//! reductions, casts, placements and collectives. The same numbers give the same program.

use super::calls::moved;
use super::catalogue::Catalogue;
use super::machine::{OPS, RandomMachine};
use super::program::{RandomProgram, Value};
use super::rng::Rng;
use super::scalar::{Domain, expression, kernel, number};
use super::tiles;
use kbc_ir::Name;
use kbc_ir::fill::counts_to;
use kbc_ir::types::{DType, TensorType};
use std::collections::BTreeSet;

const COMPUTING: [(usize, DType); 4] =
    [(36, DType::F32), (22, DType::F16), (20, DType::BF16), (22, DType::I32)];
const MOVING: [DType; DType::ALL.len()] = DType::ALL;

/// The purpose of random programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// Programs with everything that the simulator's engines execute.
    Engines,
    /// Programs that can be emitted, sometimes with a parameter that sets the sizes of data. One in
    /// twenty is unrestricted.
    Emission,
}

/// Value of the parameter `n`, a size that nothing else has.
const COUNT: u64 = 41;

/// Largest number of elements of a value, and of a value in a program with long vectors.
const ELEMENTS: (u64, u64) = (400, 9000);
const MAX_VALUES: usize = 26;

/// Returns a random size: zero, one, small, prime, or a power of two and its neighbours.
fn size(rng: &mut Rng) -> u64 {
    match rng.below(100) {
        0..2 => 0,
        2..16 => 1,
        16..66 => 2 + rng.below(8) as u64,
        66..84 => *rng.pick(&[11, 13, 17, 19, 23, 31, 37]),
        _ => *rng.pick(&[12, 15, 16, 24, 32, 33, 63, 64, 65, 100]),
    }
}

struct Builder<'c, 'l> {
    catalogue: &'c Catalogue<'l>,
    program: RandomProgram,
    most: u64,
    long: bool,
    /// Whether only operations of a core are used.
    core: bool,
    /// The size that is a parameter, if there is one.
    count: Option<u64>,
}

/// Returns the program of a seed and a number, for the simulator's engines.
pub fn generate(catalogue: &Catalogue<'_>, seed: u64, number: u64) -> RandomProgram {
    program(catalogue, Aim::Engines, seed, number)
}

/// Returns the program of a seed and a number.
pub fn program(catalogue: &Catalogue<'_>, aim: Aim, seed: u64, number: u64) -> RandomProgram {
    let rng = &mut Rng::new(&[seed, number]);
    let mut machine = RandomMachine::random(rng);
    if aim == Aim::Engines {
        // A separate sequence: the rest of the program is the same with and without queues.
        machine.queues(&mut Rng::new(&[seed, number, 3]));
    }
    let core = aim == Aim::Emission && rng.chance(95);
    let count = (aim == Aim::Emission && rng.chance(40)).then_some(COUNT);
    let mut kernels = vec![];
    for i in 0..rng.below(4) {
        let domain = match rng.chance(70) {
            true => Domain::Float,
            false if core => Domain::Word,
            false => Domain::Int,
        };
        let k = kernel(rng, format!("k{i}"), domain, &kernels);
        kernels.push(k);
    }
    let long = rng.chance(12);
    let mut b = Builder {
        catalogue,
        program: RandomProgram {
            machine,
            count,
            bounded: core,
            kernels,
            tiles: vec![],
            values: vec![],
            results: vec![],
        },
        most: if long { ELEMENTS.1 } else { ELEMENTS.0 },
        long,
        core,
        count,
    };
    for _ in 0..1 + rng.below(2) {
        let dtype = rng.weighted(&COMPUTING);
        let shape = b.shape(rng);
        b.input(rng, dtype, &shape);
    }
    for _ in 0..1 + rng.below(if core { 4 } else { 6 }) {
        b.statement(rng);
        if b.program.values.len() > MAX_VALUES {
            break;
        }
    }
    b.results(rng);
    b.program
}

/// Returns a program of one or two collectives and nothing else.
pub fn collectives(catalogue: &Catalogue<'_>, rng: &mut Rng, machine: RandomMachine) -> RandomProgram {
    let program = RandomProgram {
        machine,
        count: None,
        bounded: false,
        kernels: vec![],
        tiles: vec![],
        values: vec![],
        results: vec![],
    };
    let mut b = Builder { catalogue, program, most: ELEMENTS.0, long: false, core: false, count: None };
    for _ in 0..1 + rng.below(2) {
        b.collective(rng);
    }
    if b.program.values.is_empty() {
        b.input(rng, DType::F32, &[3]);
    }
    let last = b.program.values.len() - 1;
    b.program.results.push((last, b.program.values[last].ty.clone()));
    b.program
}

impl Builder<'_, '_> {
    fn shape(&self, rng: &mut Rng) -> Vec<u64> {
        let dims = rng.weighted(&[(3, 0), (28, 1), (45, 2), (18, 3), (6, 4)]);
        let mut shape: Vec<u64> = (0..dims).map(|_| size(rng)).collect();
        if self.long && dims > 0 {
            // This size exceeds the blocks and vectors of kernels.
            let at = if rng.chance(70) { dims - 1 } else { rng.below(dims) };
            shape[at] = *rng.pick(&[1023, 1024, 1025, 1031, 2048, 2049, 3001, 4100]);
        }
        if let Some(n) = self.count
            && dims > 0
            && rng.chance(70)
        {
            let at = rng.below(dims);
            shape[at] = n;
        }
        while shape.iter().product::<u64>() > self.most {
            let i = rng.below(dims);
            if !self.long || shape[i] < 1000 {
                shape[i] = 1 + shape[i] / 3;
            }
        }
        shape
    }

    fn push(&mut self, ty: TensorType, placed: bool, text: Option<String>, uses: BTreeSet<usize>) -> usize {
        let i = self.program.values.len();
        let name = if text.is_none() { format!("in{i}") } else { format!("v{i}") };
        self.program.values.push(Value { name, ty, placed, text, annotated: false, uses });
        i
    }

    fn input(&mut self, rng: &mut Rng, dtype: DType, shape: &[u64]) -> usize {
        let ty = self.program.machine.place(rng, dtype, shape, false);
        self.push(ty, true, None, BTreeSet::new())
    }

    fn let_(&mut self, ty: TensorType, text: String, uses: &[usize]) -> usize {
        self.push(ty, false, Some(text), uses.iter().copied().collect())
    }

    fn name(&self, i: usize) -> String {
        self.program.values[i].name.clone()
    }

    /// Returns a value of a type that supports arithmetic; later values are more likely.
    fn base(&mut self, rng: &mut Rng) -> usize {
        let all: Vec<usize> =
            (0..self.program.values.len()).filter(|i| self.program.values[*i].ty.dtype.reduces()).collect();
        if all.is_empty() {
            let dtype = rng.weighted(&COMPUTING);
            let shape = self.shape(rng);
            return self.input(rng, dtype, &shape);
        }
        all[rng.below(all.len()).max(rng.below(all.len()))]
    }

    fn statement(&mut self, rng: &mut Rng) {
        match rng.below(100) {
            0..36 => {
                let depth = 1 + rng.below(3);
                let base = self.base(rng);
                self.elementwise(rng, base, depth, true);
            }
            36..48 => self.chain(rng),
            48..57 if self.core && rng.chance(20) => self.rows(rng),
            48..57 => self.matmul(rng),
            57..68 => self.reduction(rng),
            68..73 => self.cast(rng),
            73..82 => self.shaped(rng),
            82..85 => self.fill(rng),
            85..89 => self.annotation(rng),
            _ => self.collective(rng),
        }
    }

    /// Returns an operand of a type that can be broadcast to a shape.
    fn operand(&mut self, rng: &mut Rng, dtype: DType, shape: &[u64]) -> usize {
        let fits = |v: &Value| {
            let n = v.ty.dims.len();
            v.ty.dtype == dtype
                && n <= shape.len()
                && v.ty.dims.iter().zip(&shape[shape.len() - n..]).all(|(d, s)| d.size == *s || d.size == 1)
        };
        let all: Vec<usize> =
            (0..self.program.values.len()).filter(|i| fits(&self.program.values[*i])).collect();
        if !all.is_empty() && !rng.chance(15) {
            return all[rng.below(all.len()).max(rng.below(all.len()))];
        }
        let first = if rng.chance(30) { rng.below(shape.len() + 1) } else { 0 };
        let own: Vec<u64> = shape[first..].iter().map(|s| if rng.chance(15) { 1 } else { *s }).collect();
        self.input(rng, dtype, &own)
    }

    /// Adds a scalar expression over a value and others of its type; returns the index of the
    /// result.
    fn elementwise(&mut self, rng: &mut Rng, base: usize, depth: usize, widen: bool) -> usize {
        let ty = self.program.values[base].ty.clone();
        let dtype = ty.dtype;
        let mut shape = ty.sizes();
        if widen && rng.chance(20) {
            shape.iter_mut().filter(|s| **s == 1).for_each(|s| *s = size(rng));
            if rng.chance(30) && shape.len() < 4 {
                shape.insert(0, 1 + rng.below(3) as u64);
            }
            if shape.iter().product::<u64>() > self.most {
                shape = ty.sizes();
            }
        }
        // Long chains of instructions take long to emit and find nothing more.
        let depth = if self.core { depth.min(2) } else { depth };
        let domain = self.domain(dtype);
        // Callable kernels: the user's and, for floating-point numbers, the library's.
        let own =
            self.program.kernels.iter().filter(|k| k.domain == domain).map(|k| (k.name.clone(), k.params));
        let mut kernels: Vec<(String, usize)> = own.collect();
        if domain == Domain::Float {
            kernels.extend(self.catalogue.kernels.iter().cloned());
        }
        let mut uses = vec![];
        let mut leaf = |rng: &mut Rng| {
            let mut one = |rng: &mut Rng| {
                let i = if uses.is_empty() { base } else { self.operand(rng, dtype, &shape) };
                uses.push(i);
                self.name(i)
            };
            if kernels.is_empty() || !rng.chance(22) {
                return one(rng);
            }
            let (name, params) = rng.pick(&kernels);
            let args: Vec<String> = (0..*params)
                .map(|i| if i > 0 && rng.chance(20) { number(rng, domain) } else { one(rng) })
                .collect();
            format!("{name}({})", args.join(", "))
        };
        let text = expression(rng, domain, depth, false, &mut leaf);
        let sizes = self.broadcast(&uses);
        self.let_(TensorType::replicated(dtype, &sizes), text, &uses)
    }

    /// Returns the domain of expressions over a type.
    fn domain(&self, dtype: DType) -> Domain {
        match Domain::of(dtype) {
            Domain::Int if self.core => Domain::Word,
            domain => domain,
        }
    }

    /// Returns the shape to which operands are broadcast.
    fn broadcast(&self, uses: &[usize]) -> Vec<u64> {
        let rank = uses.iter().map(|i| self.program.values[*i].ty.dims.len()).max().unwrap_or(0);
        let mut sizes = vec![1; rank];
        for i in uses {
            let dims = &self.program.values[*i].ty.dims;
            for (s, d) in sizes[rank - dims.len()..].iter_mut().zip(dims) {
                *s = if d.size == 1 { *s } else { d.size };
            }
        }
        sizes
    }

    /// Adds a chain of elementwise lets on one shape; some are results, too.
    fn chain(&mut self, rng: &mut Rng) {
        let mut at = self.base(rng);
        for _ in 0..2 + rng.below(if self.core { 2 } else { 6 }) {
            let depth = 1 + rng.below(2);
            at = self.elementwise(rng, at, depth, false);
            if rng.chance(12) {
                let ty = self.program.values[at].ty.clone();
                self.program.results.push((at, ty));
            }
        }
    }

    fn matmul(&mut self, rng: &mut Rng) {
        let base = self.base(rng);
        let mut sizes = self.program.values[base].ty.sizes();
        let dtype = self.program.values[base].ty.dtype;
        if self.core && !dtype.is_float() {
            return;
        }
        let base = if sizes.len() < 2 || rng.chance(20) {
            let k = sizes.last().copied().unwrap_or_else(|| size(rng));
            let m = size(rng).min((self.most / k.max(1)).max(1));
            sizes = vec![m, k];
            if rng.chance(30) && m * k * 3 <= self.most {
                sizes.insert(0, 1 + rng.below(3) as u64);
            }
            self.input(rng, dtype, &sizes)
        } else {
            base
        };
        let left = rng.chance(60);
        let rank = sizes.len();
        if rank == 2 && rng.chance(20) {
            return self.grouped(rng, base, (sizes[0], sizes[1], dtype));
        }
        let inner = if left { sizes[rank - 1] } else { sizes[rank - 2] };
        let mut other = vec![0, 0];
        let free = size(rng).min((self.most / inner.max(1)).max(1));
        (other[0], other[1]) = if left { (inner, free) } else { (free, inner) };
        if rng.chance(35) {
            let mut lead: Vec<u64> =
                sizes[..rank - 2].iter().map(|s| if rng.chance(30) { 1 } else { *s }).collect();
            if lead.is_empty() && rng.chance(50) {
                lead.push(1 + rng.below(3) as u64);
            }
            if lead.iter().product::<u64>() * free * inner <= self.most {
                other.splice(0..0, lead);
            }
        }
        let found = (0..self.program.values.len()).rev().find(|i| {
            let ty = &self.program.values[*i].ty;
            ty.dtype == dtype && ty.sizes() == other
        });
        let b = match found {
            Some(i) if rng.chance(50) => i,
            _ => self.input(rng, dtype, &other),
        };
        let (l, r, ls, rs) = if left { (base, b, sizes, other) } else { (b, base, other, sizes) };
        let batch = ls.len().max(rs.len()) - 2;
        let mut out = vec![1; batch];
        for s in [&ls, &rs] {
            let lead = s.len() - 2;
            for (o, d) in out[batch - lead..].iter_mut().zip(&s[..lead]) {
                *o = if *d == 1 { *o } else { *d };
            }
        }
        out.extend([ls[ls.len() - 2], rs[rs.len() - 1]]);
        if out.iter().product::<u64>() > 4 * self.most {
            return;
        }
        if out.len() == 2 && COMPUTING.iter().any(|d| d.1 == dtype) && rng.chance(25) {
            let name = format!("t{}", self.program.tiles.len());
            let text = format!("{name}({}, {})", self.name(l), self.name(r));
            self.program.tiles.push((name.clone(), tiles::product(rng, &name, dtype)));
            self.let_(TensorType::replicated(dtype, &out), text, &[l, r]);
            return;
        }
        let wide = matches!(dtype, DType::F16 | DType::BF16) && rng.chance(25);
        let option = if wide { ", accumulate: f32" } else { "" };
        let text = format!("matmul({}, {}{option})", self.name(l), self.name(r));
        let ty = TensorType::replicated(if wide { DType::F32 } else { dtype }, &out);
        self.let_(ty, text, &[l, r]);
    }

    /// Adds a lookup of rows of a table by numbers.
    fn rows(&mut self, rng: &mut Rng) {
        let table = self.base(rng);
        let (dtype, sizes) = (self.program.values[table].ty.dtype, self.program.values[table].ty.sizes());
        let row: u64 = sizes.iter().skip(1).product();
        if sizes.is_empty() || sizes[0] == 0 {
            return;
        }
        let mut shape = self.shape(rng);
        while shape.iter().product::<u64>() * row.max(1) > self.most && shape.pop().is_some() {}
        let numbers = if rng.chance(50) { DType::I32 } else { DType::I64 };
        let mut ty = self.program.machine.place(rng, numbers, &shape, false);
        // The sum of row numbers over ranks might not be a row number.
        (ty.partial, ty.only) = (None, None);
        let ids = self.push(ty, true, None, BTreeSet::new());
        let text = format!("embedding({}, {})", self.name(table), self.name(ids));
        let out: Vec<u64> = shape.iter().chain(&sizes[1..]).copied().collect();
        self.let_(TensorType::replicated(dtype, &out), text, &[table, ids]);
    }

    /// Adds a grouped matmul: runs of rows with a matrix each; some matrices may have no run.
    fn grouped(&mut self, rng: &mut Rng, x: usize, (rows, k, dtype): (u64, u64, DType)) {
        let matrices = 1 + rng.below(4) as u64;
        let most = (self.most / (k * matrices).max(1)).min(self.most / rows.max(1)).max(1);
        let f = size(rng).min(most);
        let w = self.input(rng, dtype, &[matrices, k, f]);
        let (mut left, mut counts, mut groups) = (rows, vec![], vec![]);
        for i in 0..matrices.max(1 + rng.below(5) as u64) {
            let n = rng.below(left as usize + 1) as u64;
            left -= n;
            counts.push(n);
            groups.push(if rng.chance(70) { i % matrices } else { rng.below(matrices as usize) as u64 });
        }
        if let Some(last) = counts.last_mut() {
            *last += left;
        }
        let (a, b) = (self.name(x), self.name(w));
        let text = format!("grouped_matmul({a}, {b}, counts: {counts:?}, groups: {groups:?})");
        self.let_(TensorType::replicated(dtype, &[rows, f]), text, &[x, w]);
    }

    fn reduction(&mut self, rng: &mut Rng) {
        let x = self.base(rng);
        let ty = self.program.values[x].ty.clone();
        if ty.dims.is_empty() || self.core && !ty.dtype.is_float() {
            return;
        }
        let dim = rng.below(ty.dims.len());
        let mut sizes = ty.sizes();
        let names: &[&str] = match (sizes[dim], self.core) {
            (0, false) => &["sum", "prod"],
            (0, true) => &["sum"],
            (_, false) => &["sum", "prod", "min", "max", "mean"],
            (_, true) => &["sum", "min", "max", "mean"],
        };
        let name = *rng.pick(names);
        let keep = rng.chance(30);
        if keep {
            sizes[dim] = 1;
        } else {
            sizes.remove(dim);
        }
        let option = if keep { ", keep: true" } else { "" };
        let text = format!("{name}({}, dim: {dim}{option})", self.name(x));
        self.let_(TensorType::replicated(ty.dtype, &sizes), text, &[x]);
    }

    /// Adds an operation that moves elements.
    fn shaped(&mut self, rng: &mut Rng) {
        let x = rng.below(self.program.values.len());
        let ty = self.program.values[x].ty.clone();
        let (sizes, name) = (ty.sizes(), self.name(x));
        let dim = rng.below(sizes.len().max(1));
        let (made, text, with) = match rng.below(100) {
            0..30 => {
                let mut perm: Vec<usize> = (0..sizes.len()).collect();
                (1..perm.len()).rev().for_each(|i| perm.swap(i, rng.below(i + 1)));
                let made = perm.iter().map(|d| sizes[*d]).collect();
                (made, format!("transpose({name}, {perm:?})"), x)
            }
            30..65 => {
                let mut made = sizes.clone();
                for _ in 0..1 + rng.below(3) {
                    let at = rng.below(made.len().max(1));
                    match (rng.chance(50), made.get(at).copied()) {
                        // Splits off a factor, which may be 1.
                        (true, Some(n)) if made.len() < 5 => {
                            let factors: Vec<u64> = (1..=n).filter(|f| n.is_multiple_of(*f)).collect();
                            let f = if factors.is_empty() { 1 } else { *rng.pick(&factors) };
                            made[at] = f;
                            made.insert(at + 1, n / f.max(1));
                        }
                        (false, Some(n)) if at + 1 < made.len() => {
                            made[at] = n * made.remove(at + 1);
                        }
                        _ => {}
                    }
                }
                let text = format!("reshape({name}, {made:?})");
                (made, text, x)
            }
            65..77 if !sizes.is_empty() => {
                let n = sizes[dim];
                let from = rng.below(n as usize + 1) as u64;
                let to = from + rng.below((n - from) as usize + 1) as u64;
                let mut made = sizes.clone();
                made[dim] = to - from;
                (made, format!("slice({name}, dim: {dim}, from: {from}, to: {to})"), x)
            }
            77..88 if !sizes.is_empty() => {
                let (before, after) = (rng.below(3) as u64, rng.below(4) as u64);
                let mut made = sizes.clone();
                made[dim] += before + after;
                let v = if rng.chance(50) { "0" } else { "1" };
                (made, format!("pad({name}, dim: {dim}, before: {before}, after: {after}, value: {v})"), x)
            }
            88..100 if !sizes.is_empty() && ty.elements() * 2 <= self.most => {
                let other = self.operand(rng, ty.dtype, &sizes);
                let fits = self.program.values[other].ty.sizes() == sizes;
                let other = if fits { other } else { x };
                let mut made = sizes.clone();
                made[dim] *= 2;
                (made, format!("concat({name}, {}, dim: {dim})", self.name(other)), other)
            }
            _ => return,
        };
        self.let_(TensorType::replicated(ty.dtype, &made), text, &[x, with]);
    }

    /// Adds an index or a constant of a type that can represent it.
    fn fill(&mut self, rng: &mut Rng) {
        let mut sizes = self.shape(rng);
        if sizes.is_empty() {
            sizes.push(size(rng));
        }
        let dim = rng.below(sizes.len());
        let all: Vec<DType> =
            MOVING.into_iter().filter(|d| sizes[dim].saturating_sub(1) <= counts_to(*d)).collect();
        let dtype = *rng.pick(&all);
        let text = match rng.chance(60) {
            true => format!("iota({sizes:?}, dim: {dim}, type: {dtype})"),
            false => {
                let v = if dtype.is_float() {
                    *rng.pick(&["0.1", "-2.5", "0", "3"])
                } else {
                    *rng.pick(&["0", "1", "100"])
                };
                format!("full({sizes:?}, {v}, type: {dtype})")
            }
        };
        self.let_(TensorType::replicated(dtype, &sizes), text, &[]);
    }

    fn cast(&mut self, rng: &mut Rng) {
        let x = rng.below(self.program.values.len());
        let from = self.program.values[x].ty.clone();
        let mut at = x;
        // Types without arithmetic are cast again, or moved.
        for _ in 0..1 + rng.below(2) {
            let to = *rng.pick(&MOVING);
            let text = format!("{to}({})", self.name(at));
            at = self.let_(TensorType::replicated(to, &from.sizes()), text, &[at]);
        }
    }

    /// Adds a change of placement.
    fn annotation(&mut self, rng: &mut Rng) {
        let x = rng.below(self.program.values.len());
        let from = self.program.values[x].ty.clone();
        let mut ty = self.program.machine.place(rng, from.dtype, &from.sizes(), true);
        if let Some((_, axes)) = from.partial.as_ref().filter(|_| self.program.values[x].placed)
            && rng.chance(30)
            && !ty.dims.is_empty()
            && let Some(axis) = axes.iter().find(|a| ty.dim_cut_by(a.as_str()).is_none())
        {
            ty.only = Some((0, axis.clone()));
        }
        let text = self.name(x);
        let i = self.let_(ty, text, &[x]);
        (self.program.values[i].placed, self.program.values[i].annotated) = (true, true);
    }

    /// Adds an explicit collective on a value whose placement is known.
    fn collective(&mut self, rng: &mut Rng) {
        let axis = rng.below(self.program.machine.mesh.axes.len());
        let name = self.program.machine.mesh.axes[axis].name.clone();
        let usable = |v: &Value| {
            v.placed
                && (v.ty.dim_cut_by(name.as_str()).is_some()
                    || v.ty.partial.as_ref().is_some_and(|p| p.1.contains(&name))
                    || v.ty.only.as_ref().is_some_and(|o| o.1 == name))
        };
        let all: Vec<usize> =
            (0..self.program.values.len()).filter(|i| usable(&self.program.values[*i])).collect();
        let x = if all.is_empty() || rng.chance(30) {
            self.new_input_on_axis(rng, &name)
        } else {
            *rng.pick(&all)
        };
        let size = self.program.machine.mesh.axes[axis].size;
        let mesh = &self.program.machine.mesh;
        let Some((word, coll, text, ty, root)) = moved(rng, &self.program.values[x].ty, mesh, &name, size)
        else {
            return;
        };
        let using = self.catalogue.using(rng, coll, &self.program.machine, axis, root);
        let using = using.map_or(String::new(), |u| format!(", using: {u}"));
        let text = format!("{word}({}{text}, over: {name}{using})", self.name(x));
        let i = self.let_(ty, text, &[x]);
        self.program.values[i].placed = true;
    }

    /// Returns a new input whose placement uses an axis.
    fn new_input_on_axis(&mut self, rng: &mut Rng, axis: &Name) -> usize {
        let shape = self.shape(rng);
        let job = rng.below(3);
        let dtype = if job == 1 { rng.weighted(&COMPUTING) } else { *rng.pick(&MOVING) };
        let mut ty = TensorType::replicated(dtype, &shape);
        match job {
            0 if !shape.is_empty() => self.program.machine.cut(rng, &mut ty, axis),
            1 => ty.partial = Some((*rng.pick(&OPS), vec![axis.clone()])),
            _ if !shape.is_empty() => {
                let size = self.program.machine.mesh.axis(axis.as_str()).map_or(1, |a| a.size);
                ty.only = Some((rng.below(size as usize) as u64, axis.clone()));
            }
            _ => {}
        }
        self.push(ty, true, None, BTreeSet::new())
    }

    fn results(&mut self, rng: &mut Rng) {
        let used: BTreeSet<usize> = self.program.values.iter().flat_map(|v| v.uses.clone()).collect();
        let sinks: Vec<usize> = (0..self.program.values.len()).filter(|i| !used.contains(i)).collect();
        let mut chosen: Vec<usize> = sinks.into_iter().rev().take(4).collect();
        if rng.chance(25) {
            chosen.push(rng.below(self.program.values.len()));
        }
        let mut results: Vec<(usize, TensorType)> = std::mem::take(&mut self.program.results);
        for i in chosen {
            let v = self.program.values[i].clone();
            let ty = if v.placed && rng.chance(50) {
                v.ty
            } else if rng.chance(50) {
                v.ty.erased()
            } else {
                self.program.machine.place(rng, v.ty.dtype, &v.ty.sizes(), true)
            };
            results.push((i, ty));
        }
        results.iter_mut().for_each(|r| {
            if !self.program.values[r.0].placed {
                r.1.partial = None;
            }
        });
        self.program.results = results;
    }
}
